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
from suite.web_load import Asked, Idle

DEPTH = 16
GROUP = "Web servers"
UNIT = "requests per CPU s"
TOOLS = {"wrk": "wrk", "openssl": "openssl"}
NOTE = 'The reply is "Hello, world". The server has one processor, and wrk another. '

HTTP = Work("http", "HTTP, keep-alive", GROUP, UNIT, HIGHER, [64, 1000, 10000], [64], "connections", None, NOTE)
CLOSE = Work("http-close", "HTTP, a connection for each request", GROUP, UNIT, HIGHER, [64], [64], "at once", None,
             NOTE)
PIPELINED = Work("http-pipelined", "HTTP, %d requests at once" % DEPTH, GROUP, UNIT, HIGHER, [64], [], "connections",
                 None, NOTE)
TLS = Work("https", "HTTP over TLS 1.3, keep-alive", GROUP, UNIT, HIGHER, [64], [], "connections", None, NOTE)
HANDSHAKE = Work("tls-handshake", "TLS handshakes", GROUP, "handshakes per CPU s", HIGHER, [16], [16], "at once", None,
                 "TLS 1.3 with ECDSA over P-256, never resumed, and one request each. The server has one processor.")
MEMORY = Work("http-memory", "memory of an idle connection", GROUP, "bytes", LOWER, [5000], [], "connections", None,
              "Keep-alive connections, after one request each.")
WORKS = [HTTP, CLOSE, PIPELINED, TLS, HANDSHAKE, MEMORY]
CONTENDERS = [Named(s.name, s.title, s.role) for s in web_servers.SERVERS]

# In order of importance: if time is short, the last cases are omitted. seconds, quick: the duration of a run,
# and of a quick run (0: a quick run omits the case).
Case = collections.namedtuple("Case", "name work count is_tls is_close depth seconds quick")
CASES = [
    Case("keep64", HTTP, 64, False, False, 1, 0.7, 0.15),
    Case("close", CLOSE, 64, False, True, 1, 0.7, 0.15),
    Case("handshake", HANDSHAKE, 16, True, True, 1, 0.7, 0.35),
    Case("tls", TLS, 64, True, False, 1, 0.7, 0),
    Case("keep1000", HTTP, 1000, False, False, 1, 0.8, 0),
    Case("pipelined", PIPELINED, 64, False, False, DEPTH, 0.6, 0),
    Case("memory", MEMORY, 5000, False, False, 1, 2, 0),
    Case("keep10000", HTTP, 10000, False, False, 1, 1.2, 0),
]
MEMORY_ROUNDS = 2
# The servers of a quick run.
QUICK = ("weft-io_uring", "weft-epoll", "bare-io_uring", "nginx", "h2o", "go", "node")
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
        wanted = [s for s in web_servers.SERVERS if not names or s.name in names]
        self.servers = [s for s in wanted if self.is_built(s)]

    def is_built(self, server):
        try:
            web_servers.build(server, self.places)
        except Failed as reason:
            self.measured.leave_out(server.name, "", str(reason))
            return False
        return True

    def turn_s(self, case):
        return self.seconds or (case.quick if self.settings.is_quick else 0) or case.seconds

    def whole_turn_s(self, case):
        """Return the duration of a run, including the time to open its connections."""
        return self.turn_s(case) + case.count / CONNECTIONS_PER_S

    def most_rounds(self, case):
        return min(self.settings.rounds, MEMORY_ROUNDS) if case.work is MEMORY else self.settings.rounds

    def asked(self, case):
        kind = Idle if case.work is MEMORY else Asked
        servers = [s for s in self.servers if not case.is_tls or s.tls is not None]
        return [kind(s, case, self.places, self.turn_s(case), self.settings.is_alone) for s in servers]

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
