"""The workloads of the web servers. The servers are measured in turn.

This is a measuring module of results.py (measure, WORKS, CONTENDERS). tools/bench-http prints more figures.
"""

import collections
import shutil
import sys
import tempfile
import time

from suite import web_servers
from suite.results import HIGHER, LOWER, Named, Work
from suite.run import Failed, Turns
from suite.web_clients import AskedByH2load, AskedByWsLoad
from suite.web_idle import Idle
from suite.web_load import AskedByWrk
from suite.web_servers import HTTP1, HTTP2, WS

DEPTH, STREAMS, MESSAGES = 16, 100, 16
SMALL_BYTES, LARGE_BYTES = 32, 4096
GROUP, GROUP_HTTP2, GROUP_WS = GROUPS = "Web servers", "HTTP/2", "WebSocket"
UNIT = "requests per CPU s"
TOOLS = {"wrk": "wrk", "openssl": "openssl", "h2load": "nghttp2-client", "curl": "curl"}
NOTE = 'The reply is "Hello, world". The server has one processor, and wrk another. '

HTTP = Work("http", "HTTP, keep-alive", GROUP, UNIT, HIGHER, [64, 1000, 10000], [64], "connections", None, NOTE)
CLOSE = Work("http-close", "HTTP, a connection for each request", GROUP, UNIT, HIGHER, [64], [64], "at once", None,
             NOTE)
PIPELINED = Work("http-pipelined", "HTTP, %d requests at once" % DEPTH, GROUP, UNIT, HIGHER, [64], [], "connections",
                 None, NOTE)
TLS = Work("https", "HTTP over TLS 1.3, keep-alive", GROUP, UNIT, HIGHER, [64], [], "connections", None, NOTE)
HANDSHAKE = Work("tls-handshake", "TLS handshakes", GROUP, "handshakes per CPU s", HIGHER, [16], [16], "at once", None,
                 "TLS 1.3 with ECDSA over P-256, never resumed, and one request each. The server has one processor.")
MEMORY = Work("http-memory", "memory of an idle connection", GROUP, "bytes", LOWER, [10000, 15000], [], "connections",
              None, "Keep-alive connections, after one request each.")

H2_NOTE = 'The reply is "Hello, world". The server has one processor, and h2load another. '
H2 = Work("http2", "HTTP/2, one request at a time", GROUP_HTTP2, UNIT, HIGHER, [64], [64], "connections", None, H2_NOTE)
H2_STREAMS = Work("http2-streams", "HTTP/2, %d requests at once" % STREAMS, GROUP_HTTP2, UNIT, HIGHER, [10], [10],
                  "connections", None, H2_NOTE)
H2_TLS = Work("http2-tls", "HTTP/2 over TLS 1.3, %d requests at once" % STREAMS, GROUP_HTTP2, UNIT, HIGHER, [10], [],
              "connections", None, H2_NOTE)
H2_MEMORY = Work("http2-memory", "memory of an idle HTTP/2 connection", GROUP_HTTP2, "bytes", LOWER, [10000], [],
                 "connections", None, "After one request each.")

WS_UNIT = "messages per CPU s"
WS_NOTE = "The server echoes messages. It has one processor, and the client another. No message is compressed. "
ECHO = Work("ws", "WebSocket, one message of %d bytes at a time" % SMALL_BYTES, GROUP_WS, WS_UNIT, HIGHER, [64], [64],
            "connections", None, WS_NOTE)
ECHO_BURST = Work("ws-burst", "WebSocket, %d messages of %d bytes at once" % (MESSAGES, SMALL_BYTES), GROUP_WS, WS_UNIT,
                  HIGHER, [64], [], "connections", None, WS_NOTE)
ECHO_LARGE = Work("ws-large", "WebSocket, one message of 4 KiB at a time", GROUP_WS, WS_UNIT, HIGHER, [64], [],
                  "connections", None, WS_NOTE)
WS_MEMORY = Work("ws-memory", "memory of an idle WebSocket", GROUP_WS, "bytes", LOWER, [10000, 15000], [],
                 "connections", None, "After one message each.")

WORKS = [HTTP, CLOSE, PIPELINED, TLS, HANDSHAKE, MEMORY, H2, H2_STREAMS, H2_TLS, H2_MEMORY, ECHO, ECHO_BURST,
         ECHO_LARGE, WS_MEMORY]
CONTENDERS = [Named(s.name, s.title, s.role) for s in web_servers.SERVERS]

# seconds, quick: the duration of a run, and of a quick run (0: a quick run omits the case). depth: requests or messages
# in flight on a connection. message_bytes: of a WebSocket message. is_idle: measure the memory of connections.
Case = collections.namedtuple(
    "Case", "name work count seconds quick protocol is_tls is_close depth message_bytes is_idle",
    defaults=(HTTP1, False, False, 1, SMALL_BYTES, False))
# In order of importance: if time is short, the last cases are omitted.
CASES = [
    Case("keep64", HTTP, 64, 0.7, 0.15),
    Case("h2", H2, 64, 0.7, 0.15, HTTP2),
    Case("h2-streams", H2_STREAMS, 10, 0.7, 0.15, HTTP2, depth=STREAMS),
    Case("ws", ECHO, 64, 0.7, 0.15, WS),
    Case("close", CLOSE, 64, 0.7, 0.15, is_close=True),
    Case("handshake", HANDSHAKE, 16, 0.7, 0.35, is_tls=True, is_close=True),
    Case("tls", TLS, 64, 0.7, 0, is_tls=True),
    Case("keep1000", HTTP, 1000, 0.8, 0),
    Case("ws-burst", ECHO_BURST, 64, 0.6, 0, WS, depth=MESSAGES),
    Case("ws-large", ECHO_LARGE, 64, 0.6, 0, WS, message_bytes=LARGE_BYTES),
    Case("h2-tls", H2_TLS, 10, 0.7, 0, HTTP2, is_tls=True, depth=STREAMS),
    Case("pipelined", PIPELINED, 64, 0.6, 0, depth=DEPTH),
    Case("memory", MEMORY, 10000, 7, 0, is_idle=True),
    Case("ws-memory", WS_MEMORY, 10000, 7, 0, WS, is_idle=True),
    Case("h2-memory", H2_MEMORY, 10000, 7, 0, HTTP2, is_idle=True),
    Case("memory15000", MEMORY, 15000, 7, 0, is_idle=True),
    Case("ws-memory15000", WS_MEMORY, 15000, 7, 0, WS, is_idle=True),
    Case("keep10000", HTTP, 10000, 1.2, 0),
]
KINDS = {HTTP1: AskedByWrk, HTTP2: AskedByH2load, WS: AskedByWsLoad}
MEMORY_ROUNDS = 2
# The servers of a quick run.
QUICK = ("weft-io_uring", "weft-epoll", "bare-io_uring", "nginx", "h2o", "nghttpd", "go", "lws", "node")
# An estimate, for the duration of a run.
CONNECTIONS_PER_S = 5000


def log(text):
    print("bench: " + text, file=sys.stderr, flush=True)


class Web:
    """The available servers and their measurement. seconds: the duration of a run; None: that of the case."""

    def __init__(self, settings, measured, noise, temp, names=None, seconds=None):
        self.settings, self.seconds = settings, seconds
        self.measured, self.noise = measured, noise
        self.places = web_servers.make_places(settings, temp)
        self.servers = [s for s in web_servers.SERVERS if not names or s.name in names]
        self.built = {}  # {(server, protocol): whether the server can take part}

    def is_built(self, server, protocol):
        key = server.name, protocol
        if key not in self.built:
            self.built[key] = self.build(server, protocol)
        return self.built[key]

    def build(self, server, protocol):
        try:
            web_servers.build(server, protocol, self.places)
        except Failed as reason:
            # The reason of weft is its backend, which all protocols need.
            self.measured.leave_out(server.name, "" if server.role == "weft" else protocol, str(reason))
            return False
        return True

    def turn_s(self, case):
        return self.seconds or (case.quick if self.settings.is_quick else 0) or case.seconds

    def whole_turn_s(self, case):
        """Return the duration of a run, including the time to open its connections."""
        return self.turn_s(case) + case.count / CONNECTIONS_PER_S

    def most_rounds(self, case):
        return min(self.settings.rounds, MEMORY_ROUNDS) if case.is_idle else self.settings.rounds

    def can_take_part(self, server, case):
        program = server.programs.get(case.protocol)
        if program is None or case.count > program.count_max or (case.is_tls and program.tls is None):
            return False
        return self.is_built(server, case.protocol)

    def asked(self, case):
        kind = Idle if case.is_idle else KINDS[case.protocol]
        return [kind(s, case, self.places, self.turn_s(case), self.settings.is_alone)
                for s in self.servers if self.can_take_part(s, case)]

    def measure(self, case, share_s):
        """Measure a case, with fewer rounds if they take longer than share_s. Return the measured servers."""
        began = time.monotonic()
        asked = self.asked(case)
        turns = Turns(case.work, case.count, list(asked), self.measured, self.noise)
        most = self.most_rounds(case)
        try:
            turns.prepare()
            rounds = turns.rounds(most, min(most, self.settings.rounds_min), share_s, self.settings.deadline)
        finally:
            for each in asked:
                each.close()
        turns.report()
        log("%s: %d servers, %d rounds, %.0f s" % (case.name, len(turns.runners), rounds, time.monotonic() - began))
        return turns.runners

    def measure_all(self, cases):
        """Measure all cases. Each case has its share of the remaining time."""
        for i, case in enumerate(cases):
            left_s = self.settings.deadline - time.monotonic()
            need_s = self.whole_turn_s(case) * len(self.asked(case))
            if left_s < need_s * min(self.most_rounds(case), self.settings.rounds_min):
                self.measured.leave_out("all", case.name, "no time left")
                continue
            weight = sum(self.whole_turn_s(c) for c in cases[i:])
            self.measure(case, left_s * self.whole_turn_s(case) / weight)


def missing_tool():
    """Return a message about missing tools, or None."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    return "not installed: " + " ".join(missing) if missing else None


def measure(settings, measured, noise):
    cases = [c for c in CASES if not settings.works or c.work.name in settings.works]
    names = settings.only or (QUICK if settings.is_quick else [s.name for s in web_servers.SERVERS])
    names = [name for name in names if name in web_servers.BY_NAME]
    if not cases or not names:
        return
    reason = missing_tool()
    if reason:
        measured.leave_out("all", GROUP, reason)
        return
    with tempfile.TemporaryDirectory(prefix="weft-bench-http-") as temp:
        web = Web(settings, measured, noise, temp, names)
        web.measure_all([c for c in cases if not settings.is_quick or c.quick])
