"""Run the contenders in turn. In each round each contender runs once, in an order that changes with the round.

The number of operations is chosen for each contender, so that all runs take about the same time. A
contender that fails, or takes too long, is omitted from that workload.
"""

import os
import subprocess
import time

from suite import works

TRIAL_N = 100
N_MAX = 200_000_000
TRIALS_MAX = 6
# The largest growth of n per trial. The time per operation is too high if n is small, so n grows from below.
GROW_MAX = 1_000_000
# The share of the free memory that a process may use.
MEMORY_SHARE = 0.7
# The minimum for a point of a curve, which has no verdict.
GROWTH_ROUNDS_MIN = 3


class Failed(Exception):
    """The reason why a run is invalid."""


class Pace:
    """Durations and time limits, in seconds."""

    def __init__(self, is_quick):
        self.run = 0.03 if is_quick else 0.1
        self.timeout = 6 if is_quick else 20
        # The limit for all rounds of a workload and count. There are fewer rounds if they take longer.
        self.entry = 10 if is_quick else 45
        # Few rounds, because the figures vary little and the preparation takes long.
        self.memory_rounds = 2 if is_quick else 3


def set_up_child(cpus):
    """Pin the process to cpus. Let the OOM killer choose it first."""
    os.sched_setaffinity(0, cpus)
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")


def numbers_of(command, environment, cpus, timeout):
    """Run a command. Return the numbers that it prints."""
    try:
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=timeout, check=False,
                              preexec_fn=lambda: set_up_child(cpus))
    except subprocess.TimeoutExpired as reason:
        raise Failed("too slow: not finished after %d s" % timeout) from reason
    except OSError as reason:
        raise Failed(str(reason)) from reason
    if done.returncode != 0:
        errors = done.stderr.strip().splitlines()[-1:] or ["exit status %d" % done.returncode]
        raise Failed(errors[0])
    try:
        found = [float(word) for word in done.stdout.split()]
    except ValueError as reason:
        raise Failed("the output is not a number: " + done.stdout.strip()[:80]) from reason
    # The first number, a time or a size, is above 0. The second is 0 if the page tables do not grow.
    if not found or found[0] <= 0:
        raise Failed("the output has no number above 0")
    return found


class Runner:
    """A contender at a workload and count."""

    def __init__(self, roster, contender, work, count, pace):
        self.contender, self.work, self.count, self.pace = contender, work, count, pace
        self.name, self.note = contender.name, contender.note
        is_threads = work.kind == works.THREADS
        self.command = roster.command(contender) + [roster.works[contender.name][work.name], str(count)]
        self.environment = roster.environment(contender)
        allowed = sorted(os.sched_getaffinity(0))
        self.cpus = set(allowed) if is_threads else {allowed[-1]}
        self.n = TRIAL_N
        self.took_s = 0.0  # duration of the last run

    def run(self):
        began = time.monotonic()
        found = numbers_of(self.command + [str(self.n)], self.environment, self.cpus, self.pace.timeout)
        self.took_s = time.monotonic() - began
        return found

    def whole_turns(self, n):
        """Return n as a multiple of COUNT, within limits."""
        return min(max(int(n / self.count), 1) * self.count, max(N_MAX, self.count))

    def calibrate(self):
        """Choose n, so that the measured part takes pace.run."""
        self.n = self.whole_turns(max(TRIAL_N, 2 * self.count))
        for _ in range(TRIALS_MAX):
            each_s = self.run()[0] * 1e-9
            wanted = self.pace.run / each_s
            if wanted <= 3 * self.n:
                break
            self.n = self.whole_turns(min(wanted, self.n * GROW_MAX))
        self.n = self.whole_turns(wanted)

    def prepare(self):
        if self.work.kind in (works.ONE, works.THREADS):
            self.calibrate()

    def close(self):
        """Do nothing: no process runs between two runs."""


def in_turn(runners, round_number):
    """Return the runners, rotated by round and reversed in odd rounds, so that their predecessors vary."""
    at = round_number // 2 % max(len(runners), 1)
    order = runners[at:] + runners[:at]
    return order[::-1] if round_number % 2 else order


class Turns:
    """The rounds of a workload and count."""

    def __init__(self, work, count, runners, measured, noise):
        self.work, self.count = work, count
        self.runners, self.measured, self.noise = runners, measured, noise
        self.rows = {r.name: [] for r in runners}

    def drop(self, runner, reason):
        where = "%s %d" % (self.work.name, self.count) if self.work.count_name else self.work.name
        self.measured.leave_out(runner.name, where, str(reason))
        self.runners.remove(runner)
        self.rows.pop(runner.name)

    def prepare(self):
        for runner in list(self.runners):
            try:
                runner.prepare()
            except Failed as reason:
                self.drop(runner, reason)

    def round(self, number):
        self.noise.sample(max(os.sched_getaffinity(0)))
        for runner in in_turn(self.runners, number):
            try:
                self.rows[runner.name].append(runner.run())
            except Failed as reason:
                self.drop(runner, reason)

    def rounds(self, rounds, rounds_min, entry_s, deadline):
        """Run up to `rounds` rounds, and at least rounds_min, within the time limits. Return their number."""
        began = time.monotonic()
        for number in range(rounds):
            self.round(number)
            now = time.monotonic()
            each = (now - began) / (number + 1)
            is_over = now - began + each > entry_s or now + each > deadline
            if number + 1 >= rounds_min and is_over:
                return number + 1
        return rounds

    def report(self):
        for runner in sorted(self.runners, key=lambda r: list(self.rows).index(r.name)):
            rows = self.rows[runner.name]
            self.measured.add(self.work, self.count, runner.name, [row[0] for row in rows], runner.note)
            second = works.SECOND.get(self.work.name)
            if second and all(len(row) > 1 for row in rows):
                self.measured.add(works.BY_NAME[second], self.count, runner.name, [row[1] for row in rows],
                                  runner.note)


class Bench:
    """All workloads except those of the web servers."""

    def __init__(self, roster, settings, measured, noise, log, make_server):
        self.roster, self.settings, self.noise, self.log = roster, settings, noise, log
        self.make_server = make_server
        self.measured = measured
        self.pace = Pace(settings.is_quick)

    def runner(self, contender, work, count):
        if work.kind == works.SERVED:
            return self.make_server(self.roster, contender, work, count, self.pace)
        return Runner(self.roster, contender, work, count, self.pace)

    def fits_memory(self, contender, work, count):
        """Estimate the memory from smaller counts. Return False, and omit the contender, if it is too large."""
        known = [r for r in self.measured.results if (r["work"], r["contender"]) == (work.name, contender.name)]
        if work.kind != works.MEMORY or not known:
            return True
        need = max(r["values"][0] for r in known) * count
        if need <= MEMORY_SHARE * memory_free():
            return True
        self.measured.leave_out(contender.name, "%s %d" % (work.name, count),
                                "would need %.1f GiB" % (need / (1 << 30)))
        return False

    def measure(self, work, count, contenders, rounds_min):
        """Measure a workload and count."""
        if time.monotonic() > self.settings.deadline:
            self.measured.leave_out("all", "%s %d" % (work.name, count), "no time left")
            return
        began = time.monotonic()
        runners = [self.runner(c, work, count) for c in contenders if self.fits_memory(c, work, count)]
        if not runners:
            return
        turns = Turns(work, count, list(runners), self.measured, self.noise)
        try:
            turns.prepare()
            rounds = turns.rounds(*self.limits(work, rounds_min))
        finally:
            for runner in runners:
                runner.close()
        turns.report()
        self.log("%s %d: %d contenders, %d rounds, %.0f s" % (work.name, count, len(turns.runners), rounds,
                                                               time.monotonic() - began))

    def limits(self, work, rounds_min):
        rounds = self.settings.rounds
        if work.kind == works.MEMORY:
            rounds = min(rounds, self.pace.memory_rounds)
        return rounds, min(rounds, rounds_min), self.pace.entry, self.settings.deadline

    def contenders_of(self, work):
        found = self.roster.contenders_for(work.name)
        if work.kind == works.WHOLE and self.settings.is_quick:
            found = [c for c in found if c.name in works.QUICK_SLEEPERS]
        return found

    def is_asked_for(self, work):
        return not self.settings.works or work.name in self.settings.works

    def measure_all(self):
        for work in works.WORKS:
            for count in works.counts_of(work, self.settings.is_quick):
                if self.is_asked_for(work):
                    self.measure(work, count, self.contenders_of(work), self.settings.rounds_min)

    def measure_growth(self):
        for growth in works.GROWTH:
            work = works.BY_NAME[growth.work]
            chosen = [c for c in self.roster.contenders_for(work.name) if c.name in growth.contenders]
            for count in works.growth_counts(growth, self.settings.is_quick):
                if self.is_asked_for(work):
                    self.measure(work, count, chosen, min(self.settings.rounds_min, GROWTH_ROUNDS_MIN))


def memory_free():
    with open("/proc/meminfo", encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file)
    return int(rows["MemAvailable"].split()[0]) << 10
