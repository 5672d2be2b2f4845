"""Write the report: a page in Markdown, all values in JSON, pictures in SVG."""

import collections
import json
import os

from suite import judge, picture, works
from suite.view import View, count_text, is_shared, label_of, noise_word, number_text, ratio_text

WORDS = {judge.ABOVE: "weft is ahead", judge.BELOW: "weft is behind", judge.UNKNOWN: "too noisy to tell"}


MADE_BY = {"tools/bench --out bench/report": "make bench",
           "tools/bench --quick --out build/report": "make bench-quick"}


BUDGET_WORDS = {judge.MET: "met", judge.NOT_MET: "**not met**", judge.CANNOT_TELL: "too noisy to tell",
                judge.NOT_MEASURED: "not measured"}
def percent(part):
    return "%.1f %%" % (100 * part) if part < 0.1 else "%.0f %%" % (100 * part)


def length_text(seconds):
    return "%d s" % seconds if seconds < 100 else "%d minutes" % round(seconds / 60)


def opening(data, manual):
    """Return the first lines. manual: the path from the report to bench/README.md."""
    m = data["machine"]
    command = data.get("command", "make bench")
    made = MADE_BY.get(command, command)
    return ["# Benchmark report", "",
            "`%s` created this report on %s, with weft %s, in %s. [results.json](results.json) has all values. "
            "[bench/README.md](%s) describes the workloads." %
            (made, m["date"], m["weft"] or "(unknown version)", length_text(data["seconds"]), manual),
            ""] + partial_lines(data)


def failed_lines(view):
    """Return the failures of weft, which the page shows before its last table."""
    return ["> **%s failed at %s:** %s" % (view.title(e["contender"]), e["work"], e["reason"]) + "\n"
            for e in view.data["left_out"] if e["work"] and view.role(e["contender"]) == "weft"]


def partial_lines(data):
    if not data.get("stopped"):
        return []
    return ["> **This report is partial: %s.** The report has the workloads that were complete." % data["stopped"], ""]


def machine_lines(data):
    m = data["machine"]
    where = "virtual machine" if m["is_virtual"] else "machine"
    return ["## The machine", "",
            "%s, %d processors, %s GiB (%s). %s, Linux %s, %s. %s." %
            (m["processor"], m["processors"], m["memory_gib"], where, m["system"], m["kernel"], m["architecture"],
             m["compiler"]), ""]


def noise_lines(noise):
    shared = (" **Other processes used the processors: the loop took %.1f times its CPU time.** Figures in real time "
              "(between threads) are then unreliable." % noise["real_per_cpu"] if is_shared(noise) else "")
    return ["**The run was %s.** A constant loop was timed between the runs (%d samples). Half of its times were "
            "within %s of each other. The worst time was %.2f times the median.%s Other guests of the host used "
            "%s of the CPU time. The load was %.1f before the run and %.1f after it." %
            (noise_word(noise), noise["samples"], percent(noise["loop_spread"]), noise["loop_worst"], shared,
             percent(noise["stolen"]), noise["load_before"], noise["load_after"]), ""]


def reading_lines(data):
    return ["## How to read the tables", "",
            "The contenders of a workload run in turn. Each runs once in a round, and there are %d rounds (fewer, if "
            "they take long). A figure is the median of the rounds. ± is the spread: the distance between the quartiles, "
            "relative to the median. With fewer than five rounds, the spread is the distance between the smallest and "
            "the largest figure. *× weft* is the median of the ratios to weft in the same round. × 3 costs three times "
            "as much as weft. There is no verdict if the spread of the ratios is larger than their distance from 1." %
            data["rounds"], ""]


def row_line(row, table):
    name = "**%s**" % row.title if row.role == "weft" else row.title
    ratio = ratio_text(row.ratio.value) if row.ratio else "–"
    if row.name == table.reference:
        ratio, word = "× 1", ""
    elif row.role in ("limit", "yardstick"):
        word = row.role
    elif row.role == "weft":
        word = "~" if row.verdict == judge.UNKNOWN else ""
    else:
        word = WORDS.get(row.verdict, "")
    figure = number_text(row.figures.median)
    spread = percent(row.figures.spread) if len(row.figures.values) > 1 else "–"
    return "| %s | %s | %s | %s | %s |" % (name, figure, spread, ratio,
                                           (word + (" (%s)" % row.note if row.note else "")).strip())


def table_lines(table):
    lines = ["| %s | %s | ± | × weft | |" % (label_of(table), table.work.unit), "|---|---:|---:|---:|---|"]
    return lines + [row_line(row, table) for row in table.rows] + [""]


def group_lines(view, group):
    lines, last = [], None
    for table in view.tables(group):
        if table.work is not last:
            lines += ["### %s%s" % (table.work.title[0].upper(), table.work.title[1:]), ""]
            lines += [table.work.note, ""] if table.work.note else []
            last = table.work
        lines += table_lines(table)
    return ["## " + group, ""] + lines if lines else []


def tally_lines(view):
    """Return the summary of the page."""
    ahead, behind, unknown = view.tally()
    if not ahead + behind + unknown:
        return []
    lines = ["**%d figures of weft are compared with the best peer. weft costs less in %d and more in %d. %s.**" %
             (len(ahead + behind + unknown), len(ahead), len(behind), open_text(len(unknown))), ""]
    lines += ["- Behind in %s: %s costs %s weft%s" %
              (label_of(table), best.title, times_text(best.ratio.value), " (%s)" % best.note if best.note else "")
              for table, best in behind]
    return lines + [""] * bool(behind) + budget_tally_lines(view)


def budget_tally_lines(view):
    found = collections.Counter(j.verdict for j in judge.judge_budgets(view.measured, view.betters()))
    counts = ["%d %s" % (found[v], word) for v, word in BUDGET_WORDS.items() if found[v]]
    if set(found) == {judge.NOT_MEASURED}:
        return []
    return ["[Budgets](#budgets): %s." % ", ".join(counts), ""]


def open_text(number):
    return "%s too noisy to tell" % ("None is" if number == 0 else "One is" if number == 1 else "%d are" % number)


def times_text(value):
    return number_text(value) + " ×"


def limit_text(budget, judged, view):
    if budget.limit is None:
        return "completes"
    if not budget.other:
        return "≤ %s %s" % (number_text(budget.limit), view.work(budget.work).unit)
    if len(budget.other) == 1:
        return "≤ %s %s" % (times_text(budget.limit), view.title(budget.other[0]))
    best = ", " + view.title(judged.other) if judged.other else ""
    return "≤ %s the best peer%s" % (times_text(budget.limit), best)


def measured_text(judged):
    found = judged.ratio or judged.value
    if found is None:
        return "–"
    mark = " ×" if judged.ratio else ""
    return "%s%s (%s … %s)" % (number_text(found.value), mark, number_text(found.low), number_text(found.high))


def budget_name(view, b):
    work = view.work(b.work)
    name = work.title + (", %s %s" % (count_text(b.count), work.count_name) if work.count_name else "")
    return name + (" (%s)" % b.mine[len("weft-"):] if b.mine.startswith("weft-") else "")


def budget_lines(view):
    all_of_them = judge.judge_budgets(view.measured, view.betters())
    judged = [j for j in all_of_them if j.verdict != judge.NOT_MEASURED]
    if not judged:
        return []
    lines = ["## Budgets", "",
             "A budget limits the cost of weft, relative to other contenders or in absolute terms. A measured figure has "
             "its quartiles in parentheses. There is no verdict if their distance is larger than the distance of the "
             "figure from the limit.", "",
             "| workload | budget | measured | verdict | reason |", "|---|---|---|---|---|"]
    for j in judged:
        verdict = "**%s**" % j.verdict if j.verdict == judge.NOT_MET else j.verdict
        lines.append("| %s | %s | %s | %s | %s |" % (budget_name(view, j.budget), limit_text(j.budget, j, view),
                                                     measured_text(j), verdict, j.budget.why))
    if len(judged) < len(all_of_them):
        lines += ["", "%d of %d budgets are not judged, because this run did not measure them." %
                  (len(all_of_them) - len(judged), len(all_of_them))]
    return lines + [""]


def growth_lines(pictures):
    if not pictures:
        return []
    return ["## Growth", ""] + ["![%s](%s)\n" % (title, name) for name, title in pictures]


def left_out_lines(view):
    lines = ["| %s | %s | %s |" % (view.title(e["contender"]), e["work"] or "all", e["reason"].replace("|", "/"))
             for e in view.data["left_out"]]
    if not lines:
        return []
    return ["## Omitted", "", "| contender | workload | reason |", "|---|---|---|"] + lines + [""]


def version_lines(data):
    if not data["versions"]:
        return []
    return ["## Versions", ""] + ["- %s: %s" % pair for pair in sorted(data["versions"].items())] + [""]


def write_file(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def write_pictures(view, folder):
    """Write the summary and the growth curves. Return [(file, title)] of the curves."""
    write_file(folder, "summary.svg", picture.Summary(view).draw())
    found = []
    for growth in works.GROWTH:
        text = picture.draw_growth(view, growth)
        if text:
            name = "growth-%s.svg" % growth.work
            write_file(folder, name, text)
            found.append((name, growth.title))
    return found


def write(data, folder):
    os.makedirs(folder, exist_ok=True)
    view = View(data)
    curves = write_pictures(view, folder)
    lines = opening(data, os.path.relpath("bench/README.md", folder)) + failed_lines(view) + tally_lines(view)
    lines += ["![Cost of each workload, relative to weft](summary.svg)", ""]
    lines += machine_lines(data) + noise_lines(data["noise"]) + reading_lines(data)
    for group in view.groups:
        lines += group_lines(view, group)
    lines += budget_lines(view) + growth_lines(curves) + left_out_lines(view) + version_lines(data)
    write_file(folder, "README.md", "\n".join(lines).rstrip() + "\n")
    write_file(folder, "results.json", json.dumps(data, indent=1) + "\n")
