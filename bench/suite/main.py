"""The whole of it: build, measure, judge, report."""

import argparse
import json
import os
import signal
import sys
import time
import traceback

from suite import contenders, echo, machine, network, report, run, web, web_servers
from suite.results import Measured, Settings

ROUNDS, ROUNDS_MIN = 7, 5
QUICK_ROUNDS = 3
# All that is not the web, and the web; what is built before is not counted.
WORKS_S, WEB_S = 17 * 60, 8 * 60
QUICK_WORKS_S, QUICK_WEB_S = 120, 25
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

USAGE = """tools/bench [--quick] [--rounds N] [--works WORK,...] [--only CONTENDER,...] [--no-web]
                   [--build DIR] [--out DIR] [--again RESULTS]

Measures weft and its peers by turns and writes a report: README.md, results.json and pictures.
--again makes the report anew from a results.json, without measuring."""


def say(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def read_options():
    options = argparse.ArgumentParser(usage=USAGE)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--rounds", type=int)
    options.add_argument("--works", default="")
    options.add_argument("--only", default="")
    options.add_argument("--no-web", action="store_true")
    options.add_argument("--build", default="build")
    options.add_argument("--out", default="bench/report")
    options.add_argument("--again")
    chosen = options.parse_args()
    chosen.works = [name for name in chosen.works.split(",") if name]
    chosen.only = [name for name in chosen.only.split(",") if name]
    chosen.rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS)
    return chosen


def make_settings(chosen, is_alone, seconds):
    build = os.path.abspath(chosen.build)
    rounds_min = min(chosen.rounds, QUICK_ROUNDS if chosen.quick else ROUNDS_MIN)
    return Settings(build=build, peers=build + "/peers", rounds=chosen.rounds, rounds_min=rounds_min,
                    is_quick=chosen.quick, deadline=time.monotonic() + seconds, is_alone=is_alone)


def wanted(chosen):
    """Those of the registry that are to take part."""
    if chosen.only:
        return [c for c in contenders.CONTENDERS if c.name in chosen.only]
    return [c for c in contenders.CONTENDERS if not (chosen.quick and c.name in contenders.SLOW_TO_START)]


def measure_works(chosen, is_alone, measured, noise):
    settings = make_settings(chosen, is_alone, 0)
    roster = contenders.Roster(settings.build, settings.peers, say)
    absent = list(roster.enlist(wanted(chosen)))
    settings = make_settings(chosen, is_alone, QUICK_WORKS_S if chosen.quick else WORKS_S)
    bench = run.Bench(roster, settings, measured, noise, say, echo.Server)
    for contender, reason in absent:
        measured.leave_out(contender.name, "", reason)
    for name in contenders.SLOW_TO_START if chosen.quick else ():
        measured.leave_out(name, "", "too slow to start for a quick run")
    bench.measure_all(chosen.works)
    bench.measure_growth(chosen.works)


def measure_web(chosen, is_alone, measured, noise):
    """The web's part has its own list of works and contenders."""
    if chosen.no_web or (chosen.works and "web" not in chosen.works):
        return
    web.measure(make_settings(chosen, is_alone, QUICK_WEB_S if chosen.quick else WEB_S), measured, noise)


def versions_of(measured):
    """Of the packages of those that took part, as Debian counts them."""
    names = {r["contender"] for r in measured.results}
    lines = {c.title: machine.first_line_of(["dpkg-query", "-W", "-f", "${Version}", c.package.split()[0]])
             for c in contenders.CONTENDERS + web_servers.SERVERS if c.name in names and c.package}
    return {title: line for title, line in lines.items() if line}


def interrupt(*_):
    """Once: while servers are stopped and the report is written, patience."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def measure_what_can_be(chosen, is_alone, measured, noise):
    """Returns why that is not all, or ""."""
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, interrupt)
    try:
        measure_works(chosen, is_alone, measured, noise)
        measure_web(chosen, is_alone, measured, noise)
    except KeyboardInterrupt:
        return "it was interrupted"
    except Exception as reason:  # pylint: disable=broad-except
        traceback.print_exc()
        return "it failed: %r" % reason
    return ""


def measure(chosen, is_alone):
    began = time.monotonic()
    measured, noise = Measured(), machine.Noise()
    stopped = measure_what_can_be(chosen, is_alone, measured, noise)
    return {
        "stopped": stopped,
        "machine": machine.describe(),
        "noise": noise.describe() if measured.results else None,
        "versions": versions_of(measured),
        "is_quick": chosen.quick,
        "rounds": chosen.rounds,
        "seconds": round(time.monotonic() - began),
        "results": measured.results,
        "left_out": measured.left_out,
    }


def finish(data, chosen):
    """Write the report. What is not whole does not replace what may be."""
    out = chosen.build + "/report-partial" if data["stopped"] else chosen.out
    if not data["results"]:
        say("nothing was measured" + (": " + data["stopped"] if data["stopped"] else ""))
        return 1
    report.write(data, out)
    say("the report is %s/README.md" % out)
    if data["stopped"]:
        say("it has only a part of the works: " + data["stopped"])
    return 1 if data["stopped"] else 0


def main():
    chosen = read_options()
    if chosen.again:
        with open(chosen.again, encoding="utf-8") as file:
            report.write(json.load(file), chosen.out)
        return 0
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: one processor is for servers and one for their clients; there is only one")
    is_alone = network.enter_namespace()
    if is_alone:
        network.set_up_namespace()
    network.raise_file_limit()
    return finish(measure(chosen, is_alone), chosen)
