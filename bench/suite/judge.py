"""Statistics, and what may be said from them. Pure: knows nothing of processes or files.

A ratio is the median of the rounds' ratios, each to the other's run in the same round, so that what
the machine did to a round it did to both. Its spread is the distance between the quartiles; with
fewer than five rounds, between the least and the largest. A ratio says something about a limit only
where it is farther from it than its spread is wide; a single round has no spread, and says nothing.
"""

import collections
import statistics

from suite.results import HIGHER

FEW = 5
BELOW, ABOVE, UNKNOWN = "below", "above", "unknown"


def median(values):
    return statistics.median(values)


def bounds(values):
    """Where the middle half lies; of a few, all."""
    if len(values) < FEW:
        return min(values), max(values)
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


class Figures:
    """Of the rounds of one contender: median, and spread relative to it."""

    def __init__(self, values):
        self.values = [v for v in values if v is not None]
        self.median = median(self.values)
        low, high = bounds(self.values)
        self.spread = (high - low) / self.median if self.median else 0.0


class Ratio:
    """How many times as much one costs as the other."""

    def __init__(self, ratios):
        self.value = median(ratios)
        self.low, self.high = bounds(ratios)
        self.rounds = len(ratios)

    def against(self, limit):
        """Is it below or above? UNKNOWN where the spread is larger than the difference, or nobody knows it."""
        if self.rounds < 2 or self.high - self.low >= abs(self.value - limit):
            return UNKNOWN
        return BELOW if self.value < limit else ABOVE


def cost_ratio(mine, other, better):
    """Of two lists of rounds: above 1, mine costs more. None where no round has both.

    A cost of 0 (no page table more) is no number to divide by."""
    pairs = [(m, o) for m, o in zip(mine, other) if m is not None and o is not None]
    if better == HIGHER:
        pairs = [(o, m) for m, o in pairs]
    ratios = [a / b for a, b in pairs if b]
    return Ratio(ratios) if ratios else None


# Budgets

# other: the contenders that it is relative to, the cheapest of which counts; () is an absolute limit;
# None: that it runs at all.
Budget = collections.namedtuple("Budget", "work count mine other limit why")

# C and C++ libraries that schedule fibers, and all that weft is compared with.
C_FIBERS = ("st", "pth", "fiber", "tarantool")
PEERS = C_FIBERS + ("context", "go", "tokio", "async", "erlang")
FIBER_SERVERS = ("uv",) + C_FIBERS + ("async",)

ECHO_COUNTS = (64, 1000, 10000)
BUDGETS = [
    Budget("switch", 2, "weft", ("bare",), 1.2, "an ending ret mispredicts and costs three times as much as a jump"),
    Budget("snooze", 2, "weft", ("bare-linked",), 1.5,
           "0.6 × libmill, which takes 12.0 ns where the bare switch with a linked queue takes 4.8"),
    Budget("snooze", 1000, "weft", ("bare-linked",), 0.8, "0.6 × libgo, which takes 14.3 ns where that takes 11.2"),
    Budget("snooze", 2, "weft", PEERS, 0.6, "a ring of pointers, and no scheduler in between"),
    Budget("snooze", 1000, "weft", PEERS, 0.6, "the stacks' tops lie in different sets of the cache"),
    Budget("spin", 1, "weft", ("bare",), 2.8,
           "0.8 × libmill, which takes 29 ns where a bare spawn on a cached stack takes 8.4; tree and ids included"),
    Budget("spin", 1, "weft", C_FIBERS, 0.8, "stack and record are cached together, and nothing is zeroed"),
    Budget("rendezvous", 2, "weft", PEERS, 0.6, "the value is handed over in the wait record"),
    Budget("buffered", 128, "weft", ("bare",), 2.2, "Photon, which takes 5.5 ns where a bare ring takes 2.5"),
    Budget("buffered", 128, "weft", PEERS, 1.0, "a ring, and no wake while nobody waits"),
    Budget("parked", 100000, "weft", (), 4.3 * 1024, "one mapping, one touched page, guards included"),
    Budget("tables", 100000, "weft", (), 140, "guards do not split the mapping"),
    Budget("snooze", 1000000, "weft", None, None, "a million fibers are made, run and ended in one process"),
    Budget("sleepers", 100000, "weft-io_uring", ("go",), 0.8, "timers in user space, no system call for each"),
    Budget("timeout", 1, "weft-io_uring", ("bare-switch",), 15, "a timer that is not due costs nothing"),
] + [Budget("echo", n, "weft-" + b, ("bare-" + b,), 1 / 0.95, "0.95 of the raw loop on the same interface")
     for n in ECHO_COUNTS for b in ("io_uring", "epoll")
] + [Budget("echo", n, "weft-io_uring", FIBER_SERVERS, 1.0, "ahead of libuv and every fiber library")
     for n in ECHO_COUNTS]

MET, NOT_MET, CANNOT_TELL, NOT_MEASURED = "met", "not met", "cannot tell", "not measured"
VERDICTS = {BELOW: MET, ABOVE: NOT_MET, UNKNOWN: CANNOT_TELL}

# ratio: None for limits that are not relative. other: the name of the one that counted.
Judged = collections.namedtuple("Judged", "budget verdict ratio other value")


def rivals(measured, budget_, better):
    """[(Ratio, name)] of those that were measured."""
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
    # The one that costs least is the one that weft's ratio to is largest.
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
    """betters: of each work, what is better."""
    return [judge_relative(measured, b, betters[b.work]) if b.other else judge_absolute(measured, b) for b in BUDGETS]
