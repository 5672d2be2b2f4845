"""What report and pictures show: the results of a work and count, ranked, with their ratios and verdicts."""

import collections

from suite import contenders, judge, web, works
from suite.results import Measured

# ratio: of its cost to weft's; None for weft itself. verdict: of judge, for the peer against weft. note: stands
# beside it; remark: what of that is about the contender, "".
Row = collections.namedtuple("Row", "name title role figures ratio verdict note remark")
Table = collections.namedtuple("Table", "work count rows reference")
# A loop that takes so many times its processor time has others beside it.
SHARED = 1.2


def count_text(n):
    return "{:,}".format(n)


def number_text(value):
    """Three digits are enough; two of what is small."""
    if value >= 1000:
        return "{:,.0f}".format(value)
    if value >= 100:
        return "%.0f" % value
    return "%.1f" % value if value >= 10 else "%.2f" % value if value >= 0.095 else "%.1g" % value


def ratio_text(value):
    return "× " + number_text(value)


def is_shared(noise):
    return noise["real_per_cpu"] >= SHARED


def noise_word(noise):
    """How the run was."""
    if noise["loop_spread"] >= 0.08 or is_shared(noise):
        return "noisy"
    return "restless" if noise["loop_spread"] >= 0.02 or noise["stolen"] >= 0.01 else "calm"


class View:
    """Of what results.json has."""

    def __init__(self, data):
        self.data = data
        self.measured = Measured()
        self.measured.results, self.measured.left_out = data["results"], data["left_out"]
        self.works = works.WORKS + web.WORKS
        self.named = {c.name: c for c in contenders.CONTENDERS}
        self.named.update({c.name: c for c in web.CONTENDERS})
        self.groups = works.GROUPS + [web.GROUP]

    def work(self, name):
        return next(w for w in self.works if w.name == name)

    def title(self, name):
        return self.named[name].title if name in self.named else name

    def betters(self):
        return {w.name: w.better for w in self.works}

    def counts(self, work):
        """Those that a table has: not what is there for a curve only."""
        found = dict.fromkeys(r["count"] for r in self.data["results"] if r["work"] == work.name)
        first = {second: first for first, second in works.SECOND.items()}.get(work.name, work.name)
        if first in works.BY_NAME:
            shown = works.counts_of(works.BY_NAME[first], self.data["is_quick"])
            found = [n for n in found if n in shown]
        return list(found)

    def table(self, work, count):
        results = [r for r in self.data["results"] if (r["work"], r["count"]) == (work.name, count)]
        mine = next((r for r in results if self.role(r["contender"]) == "weft"), None)
        rows = [self.row(work, r, mine) for r in results]
        rows.sort(key=lambda row: row.figures.median, reverse=work.better == "higher")
        return Table(work, count, rows, mine and mine["contender"])

    def role(self, name):
        return self.named[name].role if name in self.named else "peer"

    def row(self, work, result, mine):
        name = result["contender"]
        ratio = verdict = None
        if mine and result is not mine:
            ratio = judge.cost_ratio(result["values"], mine["values"], work.better)
            verdict = ratio and ratio.against(1.0)
        notes = [self.beside(work, result), result["note"]]
        return Row(name, self.title(name), self.role(name), judge.Figures(result["values"]), ratio, verdict,
                   "; ".join(note for note in notes if note), result["note"])

    def beside(self, work, result):
        other = works.BESIDE.get(work.name)
        values = other and self.measured.values_of(other, result["count"], result["contender"])
        return number_text(judge.Figures(values).median) + "/s" if values else ""

    def tables(self, group):
        mine = [w for w in self.works if w.group == group and w.name not in works.BESIDE.values()]
        found = [self.table(w, n) for w in mine for n in self.counts(w)]
        return [t for t in found if t.rows]

    def all_tables(self):
        return [t for group in self.groups for t in self.tables(group)]

    def tally(self):
        """[(table, its best peer)], where weft is ahead, where it is behind, and where nobody can tell."""
        found = {judge.ABOVE: [], judge.BELOW: [], judge.UNKNOWN: []}
        for table in self.all_tables():
            best = best_peer(table)
            if best and table.work.name not in works.HALVES:
                found[best.verdict].append((table, best))
        return tuple(found.values())


def best_peer(table):
    """The row of the peer that costs least; None if there is none."""
    peers = [row for row in table.rows if row.role == "peer" and row.ratio]
    return min(peers, key=lambda row: row.ratio.value) if peers else None


def label_of(table):
    """The work, and how many."""
    if table.work.count_name is None:
        return table.work.title
    return "%s, %s %s" % (table.work.title, count_text(table.count), table.work.count_name)
