"""The load of web servers: requests by wrk. web_clients.py has the other clients.

The figure is requests per second of CPU time of the server. The client has another processor. With
many connections the measurement starts when all are open, because opening them takes a large part of
the time. wrk reports the total of requests only. The number of requests until the start is taken from
the network statistics.
"""

import os
import re
import signal
import subprocess
import time

from suite import network, web_check
from suite.run import Failed, set_up_child
from suite.web_servers import TICKS, Running

WRK_S, STOP_S = 60, 10
# From MANY connections on, the figure excludes opening them. CONNECT_S is the time limit for that.
MANY, CONNECT_S = 1000, 15
WARM_S = 0.2
# The time that wrk needs to start.
START_S = 0.05
# Additional connections that a run may open: in all, and per request. OPENS_MIN is the minimum per request of
# cases that close connections.
OPENS_SLACK, OPENS_AGAIN, OPENS_MIN = 20, 0.25, 0.9
# Pairs of packets per request. With more, the number of requests cannot be computed from the packets. A reply of
# two packets gives 1.5 pairs. A request is sent twice if its connection was opened again.
PAIRS_MAX = 1.3
# The share of requests that may fail.
ERRORS_MAX = 0.001


def counter(path, name):
    """Return a counter of the network namespace."""
    with open("/proc/net/" + path, encoding="ascii") as file:
        lines = [line.split() for line in file]
    for names, numbers in zip(lines[::2], lines[1::2]):
        if name in names:
            return int(numbers[names.index(name)])
    raise Failed("the kernel has no counter %s" % name)


def packet_pairs():
    """Return half the number of packets with data so far. A request and its reply are one packet each."""
    return counter("netstat", "TCPOrigDataSent") / 2


def connections_opened():
    return counter("snmp", "PassiveOpens")


def find_number(pattern, text, otherwise=None):
    found = re.search(pattern, text)
    if found is None and otherwise is None:
        raise Failed("unexpected output of wrk: " + " ".join(text.split())[:200])
    return float(found.group(1)) if found else otherwise


class Wrk:
    """A run of wrk, which a signal stops, because wrk accepts whole seconds only."""

    def __init__(self, case, url):
        command = ["wrk", "-t1", "-c%d" % case.count, "-d%ds" % WRK_S, "--timeout", "%ds" % WRK_S]
        command += ["-H", "Connection: close"] if case.is_close else []
        command += ["-s", "bench/http/pipeline.lua"] if case.depth > 1 else []
        command += [url] + (["--", str(case.depth)] if case.depth > 1 else [])
        cpus = {sorted(os.sched_getaffinity(0))[network.CLIENT_CPU]}
        self.requests = self.per_s = self.errors = 0
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, preexec_fn=lambda: set_up_child(cpus))

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.process.kill()
        self.process.communicate()

    def ended(self):
        """Stop wrk and return its output. A signal that arrives before wrk sleeps does not wake wrk: repeat it."""
        deadline = time.monotonic() + STOP_S
        while time.monotonic() < deadline:
            self.process.send_signal(signal.SIGINT)
            try:
                return self.process.communicate(timeout=0.3)[0]
            except subprocess.TimeoutExpired:
                pass
        raise Failed("wrk does not end")

    def stop(self):
        text = self.ended()
        self.requests = find_number(r"(\d+) requests in", text)
        self.per_s = find_number(r"Requests/sec:\s*([\d.]+)", text)
        self.errors = sum(int(n) for n in re.findall(r"(?:connect|read|write|timeout) (\d+)", text))
        self.errors += find_number(r"Non-2xx or 3xx responses: (\d+)", text, 0)


class Moment:
    """The counters at a point in time."""

    def __init__(self, running):
        self.requests = packet_pairs()
        self.opened = connections_opened()
        self.cpu_s = running.cpu_s()
        self.user_s, self.system_s = running.user_and_system_s()
        self.s = time.monotonic()


class Asked:
    """A server at a case. Has the interface of run.Runner. The attribute all has a dict with all figures per run.

    A subclass has the methods warm_up and run."""

    def __init__(self, server, case, places, seconds, is_alone):
        self.server, self.name, self.note = server, server.name, server.programs[case.protocol].note
        self.case, self.places = case, places
        self.seconds, self.is_alone = seconds, is_alone
        self.running = None
        self.reply_bytes = 0
        self.all = []

    def start(self):
        """Start the server and check its replies."""
        self.running = Running(self.server, self.case, self.places)
        self.running.wait_until_up()
        self.reply_bytes = web_check.check(self.running, self.case)

    def prepare(self):
        self.start()
        self.warm_up()

    def note_run(self, before, after, requests, per_s, errors, cpu_s=None):
        """Record a run. cpu_s: of the requests; None: of the whole time between before and after."""
        cpu_s = cpu_s or after.cpu_s - before.cpu_s
        user_s, system_s = after.user_s - before.user_s, after.system_s - before.system_s
        self.all.append({"per_s": per_s, "per_cpu_s": requests / cpu_s, "ns": cpu_s * 1e9 / requests,
                         "busy": cpu_s * per_s / requests, "user": user_s / max(user_s + system_s, 1 / TICKS),
                         "errors": errors, "requests": requests})
        return [self.all[-1]["per_cpu_s"]]

    def close(self):
        if self.running:
            self.running.stop()


class AskedByWrk(Asked):
    """Requests of HTTP/1.1."""

    def warm_up(self):
        with Wrk(self.case, self.running.url()) as wrk:
            time.sleep(min(WARM_S, self.seconds / 2) + START_S)
            wrk.stop()

    def run(self):
        first = before = Moment(self.running)
        is_many = self.is_alone and self.case.count >= MANY
        with Wrk(self.case, self.running.url()) as wrk:
            if is_many:
                self.wait_until_connected(first.opened)
                before = Moment(self.running)
            time.sleep(self.seconds)
            after = Moment(self.running) if is_many else None
            wrk.stop()
        requests, per_s = wrk.requests, wrk.per_s
        if is_many:
            self.check_packets(packet_pairs() - first.requests, wrk.requests)
            requests = after.requests - before.requests
            per_s = requests / (after.s - before.s)
        else:
            after = Moment(self.running)
        self.check_run(wrk, requests, after.opened - first.opened)
        return self.note_run(before, after, requests, per_s, wrk.errors)

    def wait_until_connected(self, opened):
        deadline = time.monotonic() + CONNECT_S
        while connections_opened() - opened < self.case.count:
            web_check.require(time.monotonic() < deadline, "not all connections are open after %d s" % CONNECT_S)
            time.sleep(0.02)

    def check_packets(self, pairs, requests):
        """Require few packets per request. Each connection may have one request without a reply."""
        web_check.require(pairs <= PAIRS_MAX * (requests + self.case.count),
                          "a request and its reply take %.2f packets" % (2 * pairs / max(requests, 1)))

    def check_run(self, wrk, requests, opened):
        web_check.require(requests > 0, "no replies")
        web_check.require(wrk.errors <= ERRORS_MAX * wrk.requests, "%d of %d requests failed" %
                          (wrk.errors, wrk.requests))
        if not self.is_alone:
            return
        if self.case.is_close:
            web_check.require(opened >= OPENS_MIN * requests, "%d connections for %d requests" % (opened, requests))
        else:
            # wrk opens one connection to test the address. wrk also opens connections again if the backlog was full.
            most = self.case.count + OPENS_SLACK + OPENS_AGAIN * requests
            web_check.require(opened <= most, "ignores keep-alive: %d connections" % opened)
