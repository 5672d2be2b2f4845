"""The memory of idle connections: open many, exchange one request or message on each, and wait."""

import socket
import time

from suite import web_check
from suite.run import Failed
from suite.web_load import Asked
from suite.web_servers import HTTP1, HTTP2, WS

# Idle connections use several addresses, because a server may limit the connections per peer.
IDLE_PEERS = 10
# weft ends the fiber of a connection after 1 s, and returns the memory of ended fibers in 3 periods of 1 s.
IDLE_S = 6


def open_idle(port, exchange, number):
    s = socket.socket()
    try:
        s.settimeout(web_check.REPLY_S)
        s.bind(("127.0.0.%d" % (2 + number % IDLE_PEERS), 0))
        s.connect(("127.0.0.1", port))
        exchange(s)
    except BaseException:
        s.close()
        raise
    return s


EXCHANGES = {HTTP1: web_check.exchange_http1, HTTP2: web_check.exchange_http2, WS: web_check.exchange_ws}


class Idle(Asked):
    """The memory per idle connection after one reply, in bytes. Each run starts a new server."""

    def prepare(self):
        """Do nothing: each run starts its server."""

    def run(self):
        try:
            self.start()
            each = self.measure()
        except OSError as reason:
            raise Failed(str(reason)) from reason
        finally:
            self.close()
            self.running = None
        self.all.append({"bytes": each})
        return [each]

    def measure(self):
        # The connections of web_check.check already caused the allocations that all connections share.
        sockets = []
        try:
            before = self.running.memory_bytes()
            for i in range(self.case.count):
                sockets.append(open_idle(self.running.port, EXCHANGES[self.case.protocol], i))
            time.sleep(IDLE_S)
            return (self.running.memory_bytes() - before) / self.case.count
        finally:
            for s in sockets:
                s.close()
