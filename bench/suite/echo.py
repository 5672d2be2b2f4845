"""Echo servers. A server starts once for all rounds of a count. The servers are measured in turn.

The client reads the CPU time of the server while all connections are served. The figures exclude the
cost of opening and closing connections.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import time

from suite import network
from suite.run import Failed, numbers_of, set_up_child

START_S = 10
SETTLE_S = 5
WARM_UP_S = 0.2
MANY = 10000


class Server:
    """A contender at echo with a number of connections. Has the interface of run.Runner."""

    def __init__(self, roster, contender, work, count, pace):
        self.name, self.note, self.count, self.pace = contender.name, contender.note, count, pace
        self.load = roster.places["build"] + "/bench/load"
        self.command = roster.command(contender) + [roster.works[contender.name][work.name]]
        self.environment = roster.environment(contender)
        cpus = sorted(os.sched_getaffinity(0))
        self.server_cpus, self.client_cpus = {cpus[network.SERVER_CPU]}, {cpus[network.CLIENT_CPU]}
        # A round trip of 10,000 messages takes longer than one of 100.
        self.seconds = pace.run * (9 if count >= MANY else 5)
        self.port = network.free_port()
        self.process = self.pid = None
        self.log = tempfile.TemporaryFile(prefix="weft-bench-")

    def prepare(self):
        """Start the server and run the client once."""
        self.process = subprocess.Popen(self.command + [str(self.port), "1"], env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        preexec_fn=lambda: set_up_child(self.server_cpus))
        if not network.wait_until_up(self.process, self.port, START_S):
            raise Failed("does not start: " + self.last_output())
        self.pid = self.process.pid
        self.run(WARM_UP_S)
        # Another process starts some servers. The server is the process with the most CPU time.
        self.pid = max(network.family_of(self.process.pid), key=lambda pid: time.clock_gettime(~pid << 3 | 2))

    def run(self, seconds=None):
        """Return the round trips per second of CPU time of the server, and per second of real time."""
        command = [self.load, str(self.port), str(self.count), "%g" % (seconds or self.seconds), str(self.pid)]
        if self.process.poll() is not None:
            raise Failed("ended: " + self.last_output())
        per_s, cpu_ns = numbers_of(command, dict(os.environ), self.client_cpus, self.pace.timeout)
        self.settle()
        if cpu_ns <= 0:
            raise Failed("used no CPU time")
        return [1e9 / cpu_ns, per_s]

    def settle(self):
        """Wait until the server has closed its connections. The next server uses the same processor."""
        deadline = time.monotonic() + SETTLE_S
        before = network.cpu_s(self.process.pid)
        while time.monotonic() < deadline:
            time.sleep(0.01)
            now = network.cpu_s(self.process.pid)
            if now - before < 0.001:
                return
            before = now

    def last_output(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no output"

    def close(self):
        if self.process is None:
            return
        for pid in network.family_of(self.process.pid)[1:]:
            with contextlib.suppress(ProcessLookupError):  # already ended
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.log.close()
