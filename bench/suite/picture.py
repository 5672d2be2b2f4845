"""Pictures: the cost of all workloads relative to weft, and the cost of a workload by count."""

import math

from suite import judge, svg, works
from suite.view import best_peer, count_text, label_of, noise_word, number_text

WIDTH = 960
# Sizes of the summary.
ROW, HEADING = 22, 30
LABELS, RIGHT, TOP, BOTTOM = 160, 216, 92, 86  # LABELS: the minimum width
NAMES = WIDTH - RIGHT + 34  # the column of the best peers
# The limits of the axis. Values beyond are arrows at the edge.
LEAST, MOST = 0.02, 1000.0
SHORT = {"round trips per CPU s": "/CPU s", "requests per CPU s": "/CPU s", "handshakes per CPU s": "/CPU s",
         "messages per CPU s": "/CPU s"}
LARGER = (("ns", "µs", 1000), ("µs", "ms", 1000), ("bytes", "KiB", 1024))
VERDICT_MARKS = {judge.ABOVE: ("× ", svg.WEFT), judge.BELOW: ("× ", svg.RIVAL), judge.UNKNOWN: ("≈ ", svg.SOFT)}
TICK = 44  # the minimum distance between ticks, in pixels


class Axis:
    """A logarithmic axis, which maps values to coordinates."""

    def __init__(self, least, most, start, end):
        self.ends = least, most
        self.least, self.most = math.log(least), math.log(most)
        self.start, self.end = start, end

    def at(self, value):
        part = (math.log(value) - self.least) / (self.most - self.least)
        return self.start + (self.end - self.start) * min(max(part, 0.0), 1.0)


def ticks_apart(axis):
    """Return ticks. If there is not enough room, prefer 1 and powers of ten."""
    found = []
    for m in (1, 2, 5):
        for n in range(-3, 4):
            value = m * 10.0 ** n
            is_in = axis.ends[0] <= value <= axis.ends[1]
            if is_in and all(abs(axis.at(value) - axis.at(t)) >= TICK for t in found):
                found.append(value)
    return found


def weft_text(table):
    """Return the figure of weft, with the unit."""
    value, unit = next(row for row in table.rows if row.name == table.reference).figures.median, table.work.unit
    for small, large, factor in LARGER:
        if unit == small and value >= 10 * factor:
            value, unit = value / factor, large
    return "%s %s" % (number_text(value), SHORT.get(unit, unit))


class Summary:
    """A row for each workload. weft is the line at 1. Marks to the right of the line cost more."""

    def __init__(self, view):
        self.groups = [(g, [t for t in view.tables(g) if t.reference and t.work.name not in works.HALVES])
                       for g in view.groups]
        self.groups = [(g, tables) for g, tables in self.groups if tables]
        rows = sum(len(tables) for _, tables in self.groups)
        height = TOP + HEADING * len(self.groups) + ROW * rows + BOTTOM
        self.drawing = svg.Drawing(WIDTH, height, "Cost of each workload, relative to weft")
        labels = [svg.width_of(label_of(t), 12) for _, tables in self.groups for t in tables]
        figures = [svg.width_of(weft_text(t), 12) for _, tables in self.groups for t in tables]
        self.figures = max(labels + [LABELS]) + 24 + max(figures + [0]) + 14  # the right edge of the figures of weft
        self.left = self.figures + 20
        costs = [r.ratio.value for _, tables in self.groups for t in tables for r in t.rows if r.ratio]
        self.axis = Axis(max(min(costs + [0.5]) * 0.9, LEAST), min(max(costs + [10.0]) * 1.1, MOST), self.left,
                         WIDTH - RIGHT)
        self.bottom = height - BOTTOM
        self.tally, self.data = view.tally(), view.data

    def draw(self):
        self.head()
        self.grid()
        y = TOP
        for group, tables in self.groups:
            y += HEADING
            self.drawing.text(24, y - 8, group, 12.5, weight="600")
            for table in tables:
                self.row(table, y + ROW / 2)
                y += ROW
        return self.drawing.to_text()

    def head(self):
        d = self.drawing
        d.text(24, 34, "Cost of each workload, relative to weft", 19, weight="600")
        d.text(24, 55, "Against the best peers weft is ahead in %d workloads and behind in %d. %d are too noisy to tell "
               "(≈). Marks on the right cost more." % tuple(len(each) for each in self.tally), 12, svg.SOFT)
        x, y = 28, 76
        for shape, text in (("weft", "weft"), ("best", "best peer"), ("peer", "other peers"),
                            ("limit", "limit: minimal code, by hand")):
            self.mark(shape, x, y)
            d.text(x + 11, y + 4, text, 12, svg.SOFT)
            x += 34 + svg.width_of(text, 12)
        d.text(self.figures, TOP + 10, "weft", 12, svg.WEFT, "end", "600")
        d.text(NAMES, y + 4, "best peer", 12, svg.SOFT)
        d.text(WIDTH - 24, y + 4, "× weft", 12, svg.SOFT, "end")

    def place(self, shape, value, y):
        """Draw a mark, or an arrow if the value is beyond the axis."""
        x, (least, most) = self.axis.at(value), self.axis.ends
        if least <= value <= most:
            self.mark(shape, x, y)
        else:
            colour = {"best": svg.RIVAL, "limit": svg.LIMIT}.get(shape, svg.FAINT)
            self.drawing.arrow(x, y, 6 if value > most else -6, colour)

    def mark(self, shape, x, y):
        d = self.drawing
        if shape == "weft":
            d.dot(x, y, 5, svg.WEFT)
        elif shape == "best":
            d.dot(x, y, 5, svg.RIVAL)
        elif shape == "peer":
            d.dot(x, y, 4, svg.FAINT, fill_opacity="0.65")
        else:
            d.diamond(x, y, 4.5, svg.GROUND, svg.LIMIT)

    def grid(self):
        d = self.drawing
        for value in ticks_apart(self.axis):
            x = self.axis.at(value)
            d.line(x, TOP + 8, x, self.bottom, svg.WEFT if value == 1 else svg.GRID, 1.5 if value == 1 else 1)
            d.text(x, self.bottom + 18, "weft" if value == 1 else "× %g" % value, 11,
                   svg.WEFT if value == 1 else svg.SOFT, "middle", "600" if value == 1 else "normal")
        d.text((self.left + WIDTH - RIGHT) / 2, self.bottom + 42, "cost relative to weft (logarithmic)", 12, svg.SOFT, "middle")
        m = self.data["machine"]
        d.text(24, self.bottom + 66, "Medians of one %s, interleaved run. %s, %d processors, Linux %s, %s. "
               "CPU s: of the server." % (noise_word(self.data["noise"]), m["processor"], m["processors"],
                                        m["kernel"].split("-")[0], m["date"].split()[0]), 12, svg.SOFT)
        d.text(WIDTH - 24, self.bottom + 42, "* the table has a remark", 12, svg.SOFT, "end")

    def row(self, table, y):
        d = self.drawing
        d.text(24, y + 4, label_of(table), 12)
        d.text(self.figures, y + 4, weft_text(table), 12, svg.WEFT, "end")
        best = best_peer(table)
        for row in table.rows:
            if row.ratio and row is not best and row.role in ("limit", "peer"):
                self.place(row.role, row.ratio.value, y)
        self.mark("weft", self.axis.at(1.0), y)
        if best:
            self.place("best", best.ratio.value, y)
            sure, colour = VERDICT_MARKS[best.verdict]
            d.text(NAMES, y + 4, best.title + (" *" if best.remark else ""), 12, svg.INK)
            d.text(WIDTH - 24, y + 4, sure + number_text(best.ratio.value), 12, colour, "end", "600")


# Growth

CURVE_HEIGHT = 420
CURVE_LEFT, CURVE_RIGHT, CURVE_TOP, CURVE_BOTTOM = 84, 210, 96, 64
# The colours of the summary. Limits are violet and dashed.
LINES = {"weft": [svg.WEFT, "#3fa7a1", "#0b5a8a"], "limit": [svg.LIMIT, "#a394c4"],
         "peer": [svg.RIVAL, "#2563a8", "#8a6d1d", "#59636e"]}
LABEL = 17
DECADES_FEW = 2


def ticks_between(least, most):
    """Return powers of ten. If they are few, also return their multiples by 2 and 5."""
    low, high = math.floor(math.log10(least) + 1e-9), math.ceil(math.log10(most) - 1e-9)
    if high - low > DECADES_FEW:
        return [10.0 ** n for n in range(low, high + 1)]
    found = [m * 10.0 ** n for n in range(low - 1, high + 1) for m in (1, 2, 5)]
    first = max(i for i, t in enumerate(found) if t <= least * 1.001)
    last = max(min(i for i, t in enumerate(found) if t >= most * 0.999), first + 3)
    return (found + [10.0 ** (high + 1)])[first:last + 1]


def axis_number(value):
    return count_text(round(value)) if value >= 1 else "%g" % value


class Curves:
    """A line for each contender, with its name at the end."""

    def __init__(self, title, work, lines):
        """lines: [(name, role, [(count, median)])]."""
        self.title, self.work, self.lines = title, work, lines
        points = [p for _, _, line in lines for p in line]
        self.xs, self.ys = (ticks_between(*ends(p[i] for p in points)) for i in (0, 1))
        self.x = Axis(self.xs[0], self.xs[-1], CURVE_LEFT, WIDTH - CURVE_RIGHT)
        self.y = Axis(self.ys[0], self.ys[-1], CURVE_HEIGHT - CURVE_BOTTOM, CURVE_TOP)
        self.drawing = svg.Drawing(WIDTH, CURVE_HEIGHT, title)

    def draw(self):
        self.frame()
        colours = {role: iter(each) for role, each in LINES.items()}
        marks = []
        for name, role, line in self.lines:
            is_weft = role == "weft"
            colour = next(colours[role])
            points = [(self.x.at(n), self.y.at(v)) for n, v in line]
            self.drawing.path(points, colour, 3 if is_weft else 1.8, "5 4" if role == "limit" else "none")
            for x, y in points:
                self.drawing.dot(x, y, 3.6 if is_weft else 2.6, colour)
            text = "%s  %s" % (name, number_text(line[-1][1]))
            marks.append((points[-1][1], text, colour, points[-1][0], is_weft))
        self.labels(marks)
        return self.drawing.to_text()

    def frame(self):
        d, bottom = self.drawing, CURVE_HEIGHT - CURVE_BOTTOM
        d.text(24, 34, self.title, 19, weight="600")
        better = "Higher is better." if self.work.better == "higher" else "Lower is better."
        dashed = " Dashed: minimal code, by hand." if "limit" in [role for _, role, _ in self.lines] else ""
        d.text(24, 56, "%s A flat line does not depend on the count. Both scales are logarithmic.%s" %
               (better, dashed), 12, svg.SOFT)
        d.text(24, 80, self.work.unit, 12, svg.SOFT)
        for value in self.ys:
            y = self.y.at(value)
            d.line(CURVE_LEFT, y, WIDTH - CURVE_RIGHT, y)
            d.text(CURVE_LEFT - 10, y + 4, axis_number(value), 11, svg.SOFT, "end")
        for value in self.xs:
            x = self.x.at(value)
            d.line(x, bottom, x, bottom + 5, svg.FAINT)
            d.text(x, bottom + 20, axis_number(value), 11, svg.SOFT, "middle")
        d.line(CURVE_LEFT, bottom, WIDTH - CURVE_RIGHT, bottom, svg.FAINT)
        d.text((CURVE_LEFT + WIDTH - CURVE_RIGHT) / 2, bottom + 44, self.work.count_name, 12, svg.SOFT, "middle")

    def labels(self, marks):
        """Draw the labels. Move them apart if lines end close together."""
        marks.sort(key=lambda m: m[0])
        places = apart([m[0] for m in marks], CURVE_HEIGHT - CURVE_BOTTOM - 4)
        for at, (y, text, colour, x, is_weft) in zip(places, marks):
            if abs(at - y) > 3:
                self.drawing.line(x + 4, y, x + 16, at, colour, 0.8)
            self.drawing.text(x + 19, at + 4, text, 12.5, colour, weight="600" if is_weft else "normal")


def apart(places, lowest):
    """Return sorted places, moved so that labels do not overlap and none is below the lowest."""
    moved = []
    for y in places:
        moved.append(max(y, moved[-1] + LABEL) if moved else y)
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], lowest - LABEL * (len(moved) - 1 - i))
    return moved


def ends(values):
    values = list(values)
    return min(values), max(values)


def draw_growth(view, growth):
    """Return the picture, or None if there are too few points for a curve."""
    work = view.work(growth.work)
    counts = growth.quick if view.data["is_quick"] else growth.counts
    mine = sorted((r for r in view.data["results"] if r["work"] == work.name and r["count"] in counts),
                  key=lambda r: r["count"])
    lines = []
    for name in growth.contenders:
        results = [r for r in mine if r["contender"] == name]
        points = [(r["count"], judge.Figures(r["values"]).median) for r in results]
        if len(points) > 1:
            lines.append((view.title(name), view.role(name), points))
    return Curves(growth.title, work, lines).draw() if lines else None
