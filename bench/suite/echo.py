"""The echo servers: started once for all rounds of a number of connections, asked by turns.

Their client reads the server's processor time itself, while all connections are served: what it cost
to make and to end them does not count.
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
    """As a Runner of run.py: a contender at echo, with so many connections."""

    def __init__(self, roster, contender, work, count, pace):
        self.name, self.note, self.count, self.pace = contender.name, contender.note, count, pace
        self.load = roster.places["build"] + "/bench/load"
        self.command = roster.command(contender) + [roster.works[contender.name][work.name]]
        self.environment = roster.environment(contender)
        cpus = sorted(os.sched_getaffinity(0))
        self.server_cpus, self.client_cpus = {cpus[network.SERVER_CPU]}, {cpus[network.CLIENT_CPU]}
        # 10,000 messages take longer than 100.
        self.seconds = pace.run * (9 if count >= MANY else 5)
        self.port = network.free_port()
        self.process = self.pid = None
        self.log = tempfile.TemporaryFile(prefix="weft-bench-")

    def prepare(self):
        """Start it, and let it serve once."""
        self.process = subprocess.Popen(self.command + [str(self.port), "1"], env=self.environment,
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        preexec_fn=lambda: set_up_child(self.server_cpus))
        if not network.wait_until_up(self.process, self.port, START_S):
            raise Failed("it does not start: " + self.said())
        self.pid = self.process.pid
        self.run(WARM_UP_S)
        # Some are started by another process.
        self.pid = max(network.family_of(self.process.pid), key=lambda pid: time.clock_gettime(~pid << 3 | 2))

    def run(self, seconds=None):
        """Round trips for a second of the server's processor."""
        command = [self.load, str(self.port), str(self.count), "%g" % (seconds or self.seconds), str(self.pid)]
        if self.process.poll() is not None:
            raise Failed("it ended: " + self.said())
        per_s, cpu_ns = numbers_of(command, dict(os.environ), self.client_cpus, self.pace.timeout)
        self.settle()
        if cpu_ns <= 0:
            raise Failed("it took no processor time")
        return [1e9 / cpu_ns, per_s]

    def settle(self):
        """Its connections have ended; wait until it has noticed, for the next one has the same processor."""
        deadline = time.monotonic() + SETTLE_S
        before = network.cpu_s(self.process.pid)
        while time.monotonic() < deadline:
            time.sleep(0.01)
            now = network.cpu_s(self.process.pid)
            if now - before < 0.001:
                return
            before = now

    def said(self):
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it says nothing"

    def close(self):
        if self.process is None:
            return
        for pid in network.family_of(self.process.pid)[1:]:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        self.log.close()
