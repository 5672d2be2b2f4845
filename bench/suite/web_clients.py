"""The load of HTTP/2 servers by h2load, and of WebSocket servers by bench/ws/ws_load.c.

The figure is requests or messages per second of CPU time of the server, as with wrk.
"""

import os
import re
import subprocess

from suite import network, web_check
from suite.run import Failed, numbers_of, set_up_child
from suite.web_load import Asked, Moment
from suite.web_servers import BODY

CLIENT_S = 60
WARM_S = 0.2
# Requests of the first run, per stream, and of each run, as a minimum.
WARM_REQUESTS, REQUESTS_MIN = 20, 5


def client_cpus():
    return {sorted(os.sched_getaffinity(0))[network.CLIENT_CPU]}


def find(pattern, text):
    found = re.search(pattern, text)
    if found is None:
        raise Failed("unexpected output of h2load: " + " ".join(text.split())[-200:])
    return found.group(1)


class AskedByH2load(Asked):
    """Requests of HTTP/2. All requests are complete at the end of a run. h2load gets their number, not a duration,
    because it does not count the requests that are in flight at the end of a duration."""

    def warm_up(self):
        self.per_s = self.load(self.case.count * self.case.depth * WARM_REQUESTS)
        self.per_s = self.load(self.requests(min(WARM_S, self.seconds / 2)))

    def requests(self, seconds):
        """Return the number of requests for a duration: a multiple of the streams of all connections."""
        streams = self.case.count * self.case.depth
        return max(round(self.per_s * seconds / streams), REQUESTS_MIN) * streams

    def load(self, requests):
        """Run h2load. Return the requests per second."""
        command = ["h2load", "-t1", "-c%d" % self.case.count, "-m%d" % self.case.depth, "-n%d" % requests,
                   self.running.url()]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, timeout=CLIENT_S, check=False, preexec_fn=lambda: set_up_child(client_cpus()))
        except subprocess.TimeoutExpired as reason:
            raise Failed("requests are not complete after %d s" % CLIENT_S) from reason
        self.check_output(done.stdout, requests)
        return float(find(r"finished in [^,]*, ([\d.]+) req/s", done.stdout))

    def check_output(self, text, requests):
        """Require a reply with the whole body to each request."""
        protocol = find(r"Application protocol: (\w+)", text)
        web_check.require(protocol == ("h2" if self.case.is_tls else "h2c"), "speaks " + protocol)
        succeeded, replied = (int(find(p, text)) for p in (r"(\d+) succeeded", r"status codes: (\d+) 2xx"))
        web_check.require(succeeded == replied == requests, "%d of %d requests failed" %
                          (requests - min(succeeded, replied), requests))
        body_bytes = int(find(r"\((\d+)\) data", text))
        web_check.require(body_bytes == requests * len(BODY), "%d requests have %d bytes" % (requests, body_bytes))

    def run(self):
        requests = self.requests(self.seconds)
        before = Moment(self.running)
        self.per_s = self.load(requests)
        return self.note_run(before, Moment(self.running), requests, self.per_s, 0)


class AskedByWsLoad(Asked):
    """Messages of WebSocket connections, which the server echoes."""

    def load(self, seconds):
        """Return the messages per second, and the CPU time of the server per message, in ns."""
        kind = "text" if self.case.message_bytes <= web_check.TEXT_BYTES_MAX else "binary"
        command = [self.places["build"] + "/bench/ws/ws_load", self.running.port, self.case.count, self.case.depth,
                   kind, self.case.message_bytes, seconds, self.running.process.pid]
        return numbers_of([str(word) for word in command], dict(os.environ), client_cpus(), CLIENT_S)

    def warm_up(self):
        self.load(min(WARM_S, self.seconds / 2))

    def run(self):
        before = Moment(self.running)
        per_s, cpu_ns = self.load(self.seconds)
        messages = per_s * self.seconds
        return self.note_run(before, Moment(self.running), messages, per_s, 0, messages * cpu_ns / 1e9)
