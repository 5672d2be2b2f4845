"""Data that the modules of the benchmark exchange. Measuring modules fill a Measured. Reporting modules read it.

A result is a dict. results.json has the same dicts:

    work        the name of a workload of works.py, or of the list of a module (web.WORKS)
    count       the number of fibers, threads or connections; 1 if there is nothing to count
    contender   a name of contenders.py, or of the list of a module (web.CONTENDERS)
    unit        "ns", "bytes", "round trips per CPU s" ...
    better      "lower" or "higher"
    values      one number per round. All contenders of a workload and count have the same rounds in the same
                order. Values with the same index can therefore be divided. None: the run failed.
    note        "" or a short remark that the report shows beside the figure

An omitted contender is a dict in left_out: contender, work ("": all workloads), reason.

A measuring module has a function measure(settings, measured, noise), with a Settings. The function adds
each result at once, so that an interrupted run has the earlier results. The function samples the noise in
each round. The function starts no round that would end after settings.deadline.
"""

import collections

LOWER, HIGHER = "lower", "higher"

# A workload. title: its name in the report. group: its heading. counts, quick: the measured counts, and
# those of a quick run. count_name: for example "fibers". kind: how run.py measures it; None: another
# module does. note: a remark for readers of the figures.
Work = collections.namedtuple("Work", "name title group unit better counts quick count_name kind note")

# role: "weft", "limit" (minimal code, by hand), "peer", or "yardstick" (another workload, for comparison).
Named = collections.namedtuple("Named", "name title role")

# build, peers: absolute folders. rounds, rounds_min: the number of rounds, and the minimum if time is short.
# deadline: of time.monotonic(). is_alone: the process has its own network namespace. works, only: names of the
# selected workloads and contenders; []: all.
Settings = collections.namedtuple("Settings", "build peers rounds rounds_min is_quick deadline is_alone works only")


class Measured:
    """Results, in the order of the report, and the omitted contenders."""

    def __init__(self):
        self.results = []
        self.left_out = []

    def add(self, work, count, contender, values, note=""):
        """Add a result. work: a Work."""
        self.results.append({"work": work.name, "count": count, "contender": contender, "unit": work.unit,
                             "better": work.better, "values": values, "note": note})

    def leave_out(self, contender, work, reason):
        entry = {"contender": contender, "work": work, "reason": reason}
        if entry not in self.left_out:
            self.left_out.append(entry)

    def extend(self, other):
        self.results += other.results
        self.left_out += other.left_out

    def values_of(self, work, count, contender):
        """Return the values of a result, or None if there is no such result."""
        for r in self.results:
            if (r["work"], r["count"], r["contender"]) == (work, count, contender):
                return r["values"]
        return None
