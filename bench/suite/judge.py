"""Statistics and verdicts. This module uses no processes and no files.

A ratio is the median of the ratios of all rounds. The ratio of a round compares two runs of that
round, so that a disturbance of the round affects both. The spread is the distance between the
quartiles. With fewer than five rounds, the spread is the distance between the smallest and the
largest ratio. A ratio has a verdict if its distance from the limit is larger than its spread. A
single round has no spread and no verdict.
"""

import collections
import statistics

from suite.results import HIGHER

FEW = 5
BELOW, ABOVE, UNKNOWN = "below", "above", "unknown"


def median(values):
    return statistics.median(values)


def bounds(values):
    """Return the quartiles, or the minimum and the maximum of fewer than FEW values."""
    if len(values) < FEW:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


class Figures:
    """The median of the rounds of a contender, and the spread relative to the median."""

    def __init__(self, values):
        self.values = [v for v in values if v is not None]
        self.median = median(self.values)
        low, high = bounds(self.values)
        self.spread = (high - low) / self.median if self.median else 0.0


class Ratio:
    """The cost of a contender relative to another."""

    def __init__(self, ratios):
        self.value = median(ratios)
        self.low, self.high = bounds(ratios)
        self.rounds = len(ratios)

    def against(self, limit):
        """Return BELOW or ABOVE, or UNKNOWN if the spread is larger than the difference or not known."""
        if self.rounds < 2 or self.high - self.low >= abs(self.value - limit):
            return UNKNOWN
        return BELOW if self.value < limit else ABOVE


def cost_ratio(mine, other, better):
    """Return the Ratio of two lists of rounds. Above 1, mine costs more. None if no round has both.

    Rounds with a divisor of 0 (no new page table) are skipped."""
    pairs = [(m, o) for m, o in zip(mine, other) if m is not None and o is not None]
    if better == HIGHER:
        pairs = [(o, m) for m, o in pairs]
    ratios = [a / b for a, b in pairs if b]
    return Ratio(ratios) if ratios else None


# Budgets

# other: the contenders to compare with. The cheapest counts. (): the limit is absolute. None: the
# workload must complete.
Budget = collections.namedtuple("Budget", "work count mine other limit why")

# C and C++ libraries that schedule fibers, and all peers of weft.
C_FIBERS = ("st", "pth", "fiber", "tarantool")
PEERS = C_FIBERS + ("context", "go", "tokio", "async", "erlang")
FIBER_SERVERS = ("uv",) + C_FIBERS + ("async",)
HTTP2_SERVERS, WS_SERVERS = ("nghttpd", "nginx", "h2o", "go"), ("node", "go")

ECHO_COUNTS = (64, 1000, 10000)
BUDGETS = [
    Budget("switch", 2, "weft", ("bare",), 1.2, "a final ret is mispredicted and costs three times as much as a jump"),
    Budget("snooze", 2, "weft", ("bare-linked",), 1.5,
           "0.6 × libmill, which takes 12.0 ns; the bare switch with a linked queue takes 4.8 ns"),
    Budget("snooze", 1000, "weft", ("bare-linked",), 0.8,
           "0.6 × libgo, which takes 14.3 ns; the bare switch with a linked queue takes 11.2 ns"),
    Budget("snooze", 2, "weft", PEERS, 0.6, "a ring of pointers, without a scheduler fiber"),
    Budget("snooze", 1000, "weft", PEERS, 0.6, "the tops of the stacks map to different cache sets"),
    Budget("spin", 1, "weft", ("bare",), 2.8,
           "0.8 × libmill, which takes 29 ns; a bare spawn on a cached stack takes 8.4 ns"),
    Budget("spin", 1, "weft", C_FIBERS, 0.8, "stack and record are cached together and not cleared"),
    Budget("rendezvous", 2, "weft", PEERS, 0.6, "the wait record passes the value"),
    Budget("buffered", 128, "weft", ("bare",), 2.2, "Photon takes 5.5 ns; a bare ring takes 2.5 ns"),
    Budget("buffered", 128, "weft", PEERS, 1.0, "a ring, and no wake without a waiter"),
    Budget("parked", 100000, "weft", (), 4.3 * 1024, "one mapping and one resident page, including guards"),
    Budget("tables", 100000, "weft", (), 140, "guards do not split the mapping"),
    Budget("snooze", 1000000, "weft", None, None, "one process creates, runs and ends a million fibers"),
    Budget("sleepers", 100000, "weft-io_uring", ("go",), 0.8, "timers in user space, no system call per timer"),
    Budget("timeout", 1, "weft-io_uring", ("bare-switch",), 15, "a timer that does not expire costs nothing"),
] + [Budget("echo", n, "weft-" + b, ("bare-" + b,), 1 / 0.95, "0.95 of the speed of the bare loop with that interface")
     for n in ECHO_COUNTS for b in ("io_uring", "epoll")
] + [Budget("echo", n, "weft-io_uring", FIBER_SERVERS, 1.0, "faster than libuv and every fiber library")
     for n in ECHO_COUNTS
] + [Budget(work, n, "weft-io_uring", HTTP2_SERVERS, 1.0, "faster than every HTTP/2 server")
     for work, n in (("http2", 64), ("http2-streams", 10), ("http2-tls", 10))
] + [Budget(work, 64, "weft-io_uring", WS_SERVERS, 1.0, "faster than every WebSocket server")
     for work in ("ws", "ws-burst", "ws-large")
] + [Budget(work, 15000, "weft-io_uring", (), 0.8 * 1024, "a silent connection has no fiber")
     for work in ("http-memory", "ws-memory")]

MET, NOT_MET, CANNOT_TELL, NOT_MEASURED = "met", "not met", "too noisy to tell", "not measured"
VERDICTS = {BELOW: MET, ABOVE: NOT_MET, UNKNOWN: CANNOT_TELL}

# ratio: None for absolute limits. other: the name of the cheapest contender.
Judged = collections.namedtuple("Judged", "budget verdict ratio other value")


def rivals(measured, budget_, better):
    """Return [(Ratio, name)] of the measured contenders."""
    mine = measured.values_of(budget_.work, budget_.count, budget_.mine)
    found = []
    for name in budget_.other or ():
        theirs = measured.values_of(budget_.work, budget_.count, name)
        ratio = cost_ratio(mine, theirs, better) if mine and theirs else None
        if ratio:
            found.append((ratio, name))
    return found


def judge_relative(measured, budget_, better):
    found = rivals(measured, budget_, better)
    if not found:
        return Judged(budget_, NOT_MEASURED, None, None, None)
    # The ratio to the cheapest contender is the largest.
    ratio, name = max(found, key=lambda pair: pair[0].value)
    return Judged(budget_, VERDICTS[ratio.against(budget_.limit)], ratio, name, None)


def judge_absolute(measured, budget_):
    values = measured.values_of(budget_.work, budget_.count, budget_.mine)
    if not values:
        return Judged(budget_, NOT_MEASURED, None, None, None)
    figures = Ratio([v for v in values if v is not None])
    verdict = MET if budget_.limit is None else VERDICTS[figures.against(budget_.limit)]
    return Judged(budget_, verdict, None, None, figures)


def judge_budgets(measured, betters):
    """Return a Judged for each budget. betters: {workload: LOWER or HIGHER}."""
    return [judge_relative(measured, b, betters[b.work]) if b.other else judge_absolute(measured, b) for b in BUDGETS]
