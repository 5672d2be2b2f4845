"""What the parts of the benchmark exchange: all that measures returns a Measured, all that reports takes one.

A result is a dict, and goes into results.json as it is:

    work        a name: of works.py, or of a list of Works that the part has (web.WORKS)
    count       of fibers, threads, connections; 1 where there is nothing to count
    contender   a name: of contenders.py, or of what the part has (web.CONTENDERS)
    unit        "ns", "bytes", "round trips per CPU s" ...
    better      "lower" or "higher"
    values      one number a round. All contenders of a work and count have the same rounds, in the same
                order, so that values at one place can be divided; None where a run failed.
    note        "" or a few words that belong beside the figure

One that does not take part is a dict in left_out: contender, work ("" is all works), reason.

A part that measures has a function measure(settings, measured, noise): it adds to the Measured as it
goes, so that a run that is interrupted has what came before, and samples the noise in each round.
settings are a Settings. It watches settings.deadline: a round that would end later is not begun.
"""

import collections

LOWER, HIGHER = "lower", "higher"

# title: what a reader sees. group: the heading that it stands under. counts: what is measured, and
# what of it in a quick run. count_name: "fibers". kind: how run.py asks for it, None for parts that
# run their own. note: what must be known to read the figures.
Work = collections.namedtuple("Work", "name title group unit better counts quick count_name kind note")

# role: "weft", "limit" (by hand, does no more than is needed), "peer", or "yardstick" (of another work,
# to be divided by).
Named = collections.namedtuple("Named", "name title role")

# build, peers: absolute folders. rounds: at most so many, and at least rounds_min if time is short.
# deadline: of time.monotonic(). is_alone: in a network namespace of its own. works, only: names of the works
# and contenders that are asked for; [] is all.
Settings = collections.namedtuple("Settings", "build peers rounds rounds_min is_quick deadline is_alone works only")


class Measured:
    """Results, in the order in which they are shown, and those that were left out."""

    def __init__(self):
        self.results = []
        self.left_out = []

    def add(self, work, count, contender, values, note=""):
        """work is a Work."""
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
        """None if it was not measured."""
        for r in self.results:
            if (r["work"], r["count"], r["contender"]) == (work, count, contender):
                return r["values"]
        return None
