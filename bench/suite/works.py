"""What is measured: bench/README.md says what each work is, this how it is asked for and shown."""

import collections

from suite.results import HIGHER, LOWER, Work

# Kinds: of one thread, pinned to a processor; of several, on all of them; measured by what is left
# behind (two numbers, nothing to repeat); of one run as a whole; by a client from outside.
ONE, THREADS, MEMORY, WHOLE, SERVED = "one", "threads", "memory", "whole", "served"

SCHEDULING, MESSAGES, LOCKS = "Switches and fibers", "Messages", "Locks and timeouts"
BETWEEN, CROWDS, SERVING = "Between threads", "Many fibers", "TCP echo"
GROUPS = [SCHEDULING, MESSAGES, LOCKS, BETWEEN, CROWDS, SERVING]

HANDS_OVER = "Who has no channel hands over as its users do: by a condition, or by messages to a process."
REAL = ("In real time: there are two processors for two threads. Who stays awake for a while before it sleeps, as weft, "
        "Go and Erlang do, pays for that with processor time that is not in the figure.")

WORKS = [
    Work("switch", "raw switch", SCHEDULING, "ns", LOWER, [2], [2], None, ONE,
         "From one context to the other, without a scheduler."),
    Work("snooze", "yield", SCHEDULING, "ns", LOWER, [2, 1000, 100000], [2, 1000], "fibers", ONE,
         "All fibers are ready, all the time."),
    Work("spin", "spawn and join", SCHEDULING, "ns", LOWER, [1], [1], None, ONE,
         "The fiber ends at once; what it needed is warm."),
    Work("rendezvous", "channel without a buffer", MESSAGES, "ns", LOWER, [2], [2], None, ONE,
         "A message and its answer. " + HANDS_OVER),
    Work("buffered", "channel of 128", MESSAGES, "ns", LOWER, [128], [128], None, ONE,
         "A message, one way. " + HANDS_OVER),
    Work("select", "select of two channels", MESSAGES, "ns", LOWER, [2], [2], None, ONE, "A message, one way."),
    Work("mailbox", "mailbox", MESSAGES, "ns", LOWER, [2], [2], None, ONE, "A message and its answer."),
    Work("mutex", "mutex, contended", LOCKS, "ns", LOWER, [4], [4], None, ONE, "Four fibers; the holder yields inside."),
    Work("condition", "condition", LOCKS, "ns", LOWER, [2], [2], None, ONE, "A signal and its answer, with the mutex."),
    Work("timeout", "timeout, armed and disarmed", LOCKS, "ns", LOWER, [1], [1], None, ONE,
         "With nothing between."),
    Work("cords", "round trip to another thread", BETWEEN, "ns", LOWER, [2], [2], None, THREADS, REAL),
    Work("flow", "message to another thread", BETWEEN, "ns", LOWER, [2], [2], None, THREADS, "One way. " + REAL),
    Work("offload", "empty call on a pool's thread", BETWEEN, "ns", LOWER, [1], [1], None, THREADS,
         "The caller waits. " + REAL),
    Work("parked", "memory of a parked fiber", CROWDS, "bytes", LOWER, [100000, 1000000], [100000], "fibers",
         MEMORY, "Of one that waits: what is resident. The page tables that map it are counted below."),
    Work("tables", "page tables of a parked fiber", CROWDS, "bytes", LOWER, [], [], "fibers", MEMORY,
         "Measured in the same runs."),
    Work("sleepers", "sleepers", CROWDS, "CPU ms", LOWER, [100000], [10000], "fibers", WHOLE,
         "Processor time for all to be made, sleep 0.5 to 1.5 s, and end."),
    Work("echo", "TCP echo", SERVING, "round trips per CPU s", HIGHER, [64, 1000, 10000], [64], "connections", SERVED,
         "64 bytes, one message under way on each connection. The server has one processor, the client the other. "
         "In brackets: round trips per second, which is what both do together."),
    Work("echo-rate", "TCP echo, in real time", SERVING, "round trips/s", HIGHER, [], [], "connections", SERVED, ""),
]
BY_NAME = {work.name: work for work in WORKS}
# The second number of a work.
SECOND = {"parked": "tables", "echo": "echo-rate"}
# Has no table of its own, but stands beside the first.
BESIDE = {"echo": "echo-rate"}
# Is in no summary: the other half of another work.
HALVES = {"tables"}
# In a quick run, sleeping takes longer than all else: only these.
QUICK_SLEEPERS = {"weft-io_uring", "go", "tokio", "fiber"}

# A line for each contender over these counts, many of which are in no table.
Growth = collections.namedtuple("Growth", "work counts quick contenders title")
GROWTH = [
    Growth("snooze", [1, 10, 100, 1000, 10000, 100000, 1000000], [2, 1000], ["weft", "bare", "fiber", "go", "tokio"],
           "A yield, among more and more fibers"),
    Growth("parked", [1000, 10000, 100000, 1000000], [100000], ["weft", "go"],
           "Memory of a parked fiber, among more and more"),
    Growth("echo", [1, 10, 100, 1000, 10000], [64],
           ["weft-io_uring", "weft-epoll", "bare-io_uring", "bare-epoll"],
           "A TCP echo server, with more and more connections"),
]


def counts_of(work, is_quick):
    return work.quick if is_quick else work.counts


def growth_counts(growth, is_quick):
    """Those that no table asks for."""
    mine = growth.quick if is_quick else growth.counts
    return [n for n in mine if n not in counts_of(BY_NAME[growth.work], is_quick)]
