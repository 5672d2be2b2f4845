"""The main program of tools/bench-http: measure the web servers and print all figures."""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import textwrap

from suite import judge, machine, network, web, web_servers
from suite.results import Measured, Settings

ROUNDS, QUICK_ROUNDS = 7, 2
USAGE = """tools/bench-http [--quick] [--seconds S] [--rounds N] [--only SERVER,...] [--cases CASE,...]
                        [--build DIR]

Measure web servers. The results are also written to DIR/bench/http.json.

Servers: %s.
Cases: %s.
The default of --only and --cases is all. --quick runs two short rounds, as a test. Servers that are
not installed are omitted. `tools/deps web-peers` installs all peers.

The servers of a case run in turn. A line has the medians of the rounds, their spread, and the median
ratio to the first server. The decisive figure is requests per second of CPU time of the server (per
CPU s). If the server is busy below 100 %%, the client was slower than the server.""" % (
    " ".join(web_servers.BY_NAME), textwrap.fill(" ".join(c.name for c in web.CASES), 86))


def choose(text, known, what):
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit("bench-http: no such %s: %s (known: %s)" % (what, " ".join(unknown), " ".join(known)))
    return [name for name in known if name in names] if names else list(known)


def read_options():
    options = argparse.ArgumentParser(usage=USAGE.replace("%", "%%"))  # argparse formats it again
    options.add_argument("--quick", action="store_true")
    options.add_argument("--seconds", type=float)
    options.add_argument("--rounds", type=int)
    options.add_argument("--only", default="")
    options.add_argument("--cases", default="")
    options.add_argument("--build", default="build")
    chosen = options.parse_args()
    chosen.rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS)
    chosen.only = choose(chosen.only, list(web_servers.BY_NAME), "server")
    chosen.cases = choose(chosen.cases, [c.name for c in web.CASES], "case")
    return chosen


def make_settings(chosen, is_alone):
    build = os.path.abspath(chosen.build)
    return Settings(build=build, peers=build + "/peers", rounds=chosen.rounds, rounds_min=chosen.rounds,
                    is_quick=chosen.quick, deadline=math.inf, is_alone=is_alone, works=[], only=chosen.only)


def values_of(asked, field):
    return [run[field] for run in asked.all]


def cells_of(asked, first):
    cells = [asked.server.title]
    for field in ("per_s", "per_cpu_s"):
        mine = values_of(asked, field)
        ratio = judge.cost_ratio(values_of(first, field), mine, "lower")
        cells += ["%d" % statistics.median(mine), "%.1f %%" % (100 * judge.Figures(mine).spread), "%.2f" % (1 / ratio.value)]
    median = {field: statistics.median(values_of(asked, field)) for field in ("ns", "user", "busy")}
    return cells + ["%d" % median["ns"], "%d %%" % (100 * median["user"]), "%d %%" % (100 * median["busy"]),
                    "%d" % sum(values_of(asked, "errors")), "%d" % asked.reply_bytes]


def print_case(case, took_part):
    print("\n### %s, %d %s\n" % (case.work.title, case.count, case.work.count_name))
    if case.is_idle:
        print("| server | bytes |\n|---|---:|")
        for asked in took_part:
            print("| %s | %d |" % (asked.server.title, statistics.median(values_of(asked, "bytes"))))
        return
    print("| server | %s/s | spread | ratio | per CPU s | spread | ratio | ns | user | busy | errors | reply |" %
          case.work.unit.split()[0])
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for asked in took_part:
        print("| " + " | ".join(cells_of(asked, took_part[0])) + " |")


def run_all(chosen, is_alone):
    with tempfile.TemporaryDirectory(prefix="weft-bench-http-") as temp:
        bench = web.Web(make_settings(chosen, is_alone), Measured(), machine.Noise(), temp, chosen.only, chosen.seconds)
        for case in [c for c in web.CASES if c.name in chosen.cases]:
            took_part = bench.measure(case, math.inf)
            print_case(case, took_part)
            sys.stdout.flush()
    for entry in bench.measured.left_out:
        print("\n%s is omitted%s: %s" % (web_servers.BY_NAME[entry["contender"]].title,
                                        " from " + entry["work"] if entry["work"] else "", entry["reason"]))
    return bench.measured


def main():
    chosen = read_options()
    reason = web.missing_tool()
    if reason:
        sys.exit("bench-http: %s: run tools/deps web-peers" % reason)
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench-http: the server and the client need one processor each, but only one is available")
    is_alone = network.enter_namespace()
    if is_alone:
        network.set_up_namespace()
    network.raise_file_limit()
    measured = run_all(chosen, is_alone)
    os.makedirs(chosen.build + "/bench", exist_ok=True)
    with open(chosen.build + "/bench/http.json", "w", encoding="utf-8") as file:
        json.dump({"results": measured.results, "left_out": measured.left_out}, file, indent=1)
    return 1 if measured.left_out else 0
