"""The workloads: their counts, units and texts in the report. bench/README.md describes each workload."""

import collections

from suite.results import HIGHER, LOWER, Work

# Kinds of workloads. ONE: one thread, pinned to a processor. THREADS: several threads, on all processors. MEMORY:
# two sizes, without repetition. WHOLE: the whole run is measured. SERVED: a client measures.
ONE, THREADS, MEMORY, WHOLE, SERVED = "one", "threads", "memory", "whole", "served"

SCHEDULING, MESSAGES, LOCKS = "Switches and fibers", "Messages", "Locks and timeouts"
BETWEEN, CROWDS, SERVING = "Between threads", "Many fibers", "TCP echo"
GROUPS = [SCHEDULING, MESSAGES, LOCKS, BETWEEN, CROWDS, SERVING]

HANDS_OVER = "Contenders without channels use a condition variable, or messages to a process, as their users do."
REAL = ("In real time, with two processors for two threads. weft, Go and Erlang busy poll before they sleep. The "
        "figure excludes the CPU time of the busy poll.")

WORKS = [
    Work("switch", "raw switch", SCHEDULING, "ns", LOWER, [2], [2], None, ONE,
         "A switch between two contexts, without a scheduler."),
    Work("snooze", "yield", SCHEDULING, "ns", LOWER, [2, 1000, 100000], [2, 1000], "fibers", ONE,
         "All fibers are always runnable."),
    Work("spin", "spawn and join", SCHEDULING, "ns", LOWER, [1], [1], None, ONE,
         "The fiber ends at once. Its memory is warm."),
    Work("rendezvous", "channel without a buffer", MESSAGES, "ns", LOWER, [2], [2], None, ONE,
         "A message and its reply. " + HANDS_OVER),
    Work("buffered", "channel of 128", MESSAGES, "ns", LOWER, [128], [128], None, ONE,
         "A message in one direction. " + HANDS_OVER),
    Work("select", "select of two channels", MESSAGES, "ns", LOWER, [2], [2], None, ONE, "A message in one direction."),
    Work("mailbox", "mailbox", MESSAGES, "ns", LOWER, [2], [2], None, ONE, "A message and its reply."),
    Work("mutex", "mutex, contended", LOCKS, "ns", LOWER, [4], [4], None, ONE,
         "Four fibers. The holder yields while it holds the mutex."),
    Work("condition", "condition", LOCKS, "ns", LOWER, [2], [2], None, ONE,
         "A signal and its reply, including the mutex."),
    Work("timeout", "timeout, armed and disarmed", LOCKS, "ns", LOWER, [1], [1], None, ONE,
         "Without work in between."),
    Work("cords", "round trip to another thread", BETWEEN, "ns", LOWER, [2], [2], None, THREADS, REAL),
    Work("flow", "message to another thread", BETWEEN, "ns", LOWER, [2], [2], None, THREADS,
         "In one direction. " + REAL),
    Work("offload", "empty call on a worker thread", BETWEEN, "ns", LOWER, [1], [1], None, THREADS,
         "The caller waits. " + REAL),
    Work("parked", "memory of a parked fiber", CROWDS, "bytes", LOWER, [100000, 1000000], [100000], "fibers",
         MEMORY, "Resident memory per waiting fiber. The next table has the page tables."),
    Work("tables", "page tables of a parked fiber", CROWDS, "bytes", LOWER, [], [], "fibers", MEMORY,
         "Measured in the runs of the previous table."),
    Work("sleepers", "sleepers", CROWDS, "CPU ms", LOWER, [100000], [10000], "fibers", WHOLE,
         "CPU time to create all fibers, let each sleep 0.5 s to 1.5 s, and end them."),
    Work("echo", "TCP echo", SERVING, "round trips per CPU s", HIGHER, [64, 1000, 10000], [64], "connections", SERVED,
         "One message of 64 bytes is in flight on each connection. The server has one processor, and the client "
         "another. In parentheses: round trips per second of real time, which depend on both."),
    Work("echo-rate", "TCP echo, in real time", SERVING, "round trips/s", HIGHER, [], [], "connections", SERVED, ""),
]
BY_NAME = {work.name: work for work in WORKS}
# The second number of a workload.
SECOND = {"parked": "tables", "echo": "echo-rate"}
# Workloads without a table, shown beside the first number.
BESIDE = {"echo": "echo-rate"}
# Workloads that the summary omits, because they are the second number of another workload.
HALVES = {"tables"}
# The contenders of sleepers in a quick run, because sleepers takes longest.
QUICK_SLEEPERS = {"weft-io_uring", "go", "tokio", "fiber"}

# A curve for each contender over these counts. Many counts have no table.
Growth = collections.namedtuple("Growth", "work counts quick contenders title")
GROWTH = [
    Growth("snooze", [1, 10, 100, 1000, 10000, 100000, 1000000], [2, 1000], ["weft", "bare", "fiber", "go", "tokio"],
           "Yield, by number of fibers"),
    Growth("parked", [1000, 10000, 100000, 1000000], [100000], ["weft", "go"],
           "Memory of a parked fiber, by number of fibers"),
    Growth("echo", [1, 10, 100, 1000, 10000], [64],
           ["weft-io_uring", "weft-epoll", "bare-io_uring", "bare-epoll"],
           "TCP echo, by number of connections"),
]


def counts_of(work, is_quick):
    return work.quick if is_quick else work.counts


def growth_counts(growth, is_quick):
    """Return the counts that no table has."""
    mine = growth.quick if is_quick else growth.counts
    return [n for n in mine if n not in counts_of(BY_NAME[growth.work], is_quick)]
