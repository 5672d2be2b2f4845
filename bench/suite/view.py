"""The data of the report and its pictures: ranked results of a workload and count, with ratios and verdicts."""

import collections

from suite import contenders, judge, web, works
from suite.results import Measured

# ratio: its cost relative to weft; None for weft. verdict: of judge, for the ratio and 1. note: the text beside the
# figure. remark: the part of the note about the contender, or "".
Row = collections.namedtuple("Row", "name title role figures ratio verdict note remark")
Table = collections.namedtuple("Table", "work count rows reference")
# From this ratio of real time to CPU time on, other processes used the processor.
SHARED = 1.2


def count_text(n):
    return "{:,}".format(n)


def number_text(value):
    """Return a number with three digits, or fewer if it is small."""
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
    """Return an adjective for the noise of a run."""
    if noise["loop_spread"] >= 0.08 or is_shared(noise):
        return "noisy"
    return "slightly noisy" if noise["loop_spread"] >= 0.02 or noise["stolen"] >= 0.01 else "quiet"


class View:
    """A view of the data of results.json."""

    def __init__(self, data):
        self.data = data
        self.measured = Measured()
        self.measured.results, self.measured.left_out = data["results"], data["left_out"]
        self.works = works.WORKS + web.WORKS
        self.named = {c.name: c for c in contenders.CONTENDERS}
        self.named.update({c.name: c for c in web.CONTENDERS})
        self.groups = works.GROUPS + list(web.GROUPS)

    def work(self, name):
        return next(w for w in self.works if w.name == name)

    def title(self, name):
        return self.named[name].title if name in self.named else name

    def betters(self):
        return {w.name: w.better for w in self.works}

    def counts(self, work):
        """Return the counts with a table. Counts that only a curve has are omitted."""
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
        """Return three lists of (table, best peer): weft is ahead, weft is behind, too noisy to tell."""
        found = {judge.ABOVE: [], judge.BELOW: [], judge.UNKNOWN: []}
        for table in self.all_tables():
            best = best_peer(table)
            if best and table.work.name not in works.HALVES:
                found[best.verdict].append((table, best))
        return tuple(found.values())


def best_peer(table):
    """Return the row of the cheapest peer, or None."""
    peers = [row for row in table.rows if row.role == "peer" and row.ratio]
    return min(peers, key=lambda row: row.ratio.value) if peers else None


def label_of(table):
    """Return the title of the workload and its count."""
    if table.work.count_name is None:
        return table.work.title
    return "%s, %s %s" % (table.work.title, count_text(table.count), table.work.count_name)
