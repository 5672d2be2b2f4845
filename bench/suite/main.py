"""The main program of tools/bench: build, measure, judge and report."""

import argparse
import json
import os
import shlex
import signal
import sys
import textwrap
import time
import traceback

from suite import contenders, echo, machine, network, report, run, web, web_servers, works
from suite.results import Measured, Settings

ROUNDS, ROUNDS_MIN = 7, 5
QUICK_ROUNDS = 3
# Time limits of all workloads except the web servers, and of the web servers. Both exclude the builds.
WORKS_S, WEB_S = 17 * 60, 11 * 60
QUICK_WORKS_S, QUICK_WEB_S = 120, 40
WORKS = [w.name for w in works.WORKS if w.counts] + [w.name for w in web.WORKS]
CONTENDERS = list(dict.fromkeys(c.name for c in contenders.CONTENDERS + web.CONTENDERS))
# The load of other processes that leads to a warning at the start.
BUSY = 0.7
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

USAGE = """tools/bench [--quick] [--rounds N] [--works WORK,...] [--only CONTENDER,...] [--no-web]
                   [--build DIR] [--out DIR] [--again RESULTS]

Measure weft and its peers in turn. Write a report to DIR (build/report): README.md, results.json
and pictures. --again writes the report from RESULTS, a results.json, without measuring. Its default
DIR is the folder of RESULTS.

Workloads: %s.
Contenders: %s.
A name also selects the names that begin with it: weft selects weft-epoll, http selects http-close.
An interrupted run writes its results to build/report-partial.""" % (
    textwrap.fill(" ".join(WORKS), 86), textwrap.fill(" ".join(dict.fromkeys(n.split("-")[0] for n in CONTENDERS)), 86))


def log(text):
    print("bench: " + text, file=sys.stderr, flush=True)


def is_of(name, family):
    return name == family or name.startswith(family + "-")


def choose(text, known, what):
    """Return the known names that a comma-separated list selects. Return [] if the list is empty."""
    names = [name for name in text.split(",") if name]
    unknown = [name for name in names if not any(is_of(k, name) for k in known)]
    if unknown:
        sys.exit("bench: no such %s: %s (known: %s)" % (what, " ".join(unknown), " ".join(known)))
    return [k for k in known if any(is_of(k, name) for name in names)]


def read_options():
    options = argparse.ArgumentParser(usage=USAGE)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--rounds", type=int)
    options.add_argument("--works", default="")
    options.add_argument("--only", default="")
    options.add_argument("--no-web", action="store_true")
    options.add_argument("--build", default="build")
    options.add_argument("--out")
    options.add_argument("--again")
    chosen = options.parse_args()
    chosen.out = chosen.out or (os.path.dirname(chosen.again) or "." if chosen.again else chosen.build + "/report")
    chosen.only = choose(chosen.only, CONTENDERS, "contender")
    chosen.works = choose(chosen.works, WORKS, "workload")
    chosen.rounds = chosen.rounds or (QUICK_ROUNDS if chosen.quick else ROUNDS)
    return chosen


def make_settings(chosen, is_alone, seconds):
    build = os.path.abspath(chosen.build)
    rounds_min = min(chosen.rounds, QUICK_ROUNDS if chosen.quick else ROUNDS_MIN)
    return Settings(build=build, peers=build + "/peers", rounds=chosen.rounds, rounds_min=rounds_min,
                    is_quick=chosen.quick, deadline=time.monotonic() + seconds, is_alone=is_alone,
                    works=chosen.works, only=chosen.only)


def wanted(chosen, measured):
    """Return the contenders of this run."""
    if chosen.only:
        return [c for c in contenders.CONTENDERS if c.name in chosen.only]
    slow = contenders.SLOW_TO_START if chosen.quick else ()
    for name in slow:
        measured.leave_out(name, "", "too slow to start for a quick run")
    return [c for c in contenders.CONTENDERS if c.name not in slow]


def measure_works(chosen, is_alone, measured, noise):
    settings = make_settings(chosen, is_alone, 0)
    roster = contenders.Roster(settings.build, settings.peers, log)
    for contender, reason in roster.enlist(wanted(chosen, measured)):
        measured.leave_out(contender.name, "", reason)
    settings = make_settings(chosen, is_alone, QUICK_WORKS_S if chosen.quick else WORKS_S)
    bench = run.Bench(roster, settings, measured, noise, log, echo.Server)
    bench.measure_all()
    bench.measure_growth()


def measure_web(chosen, is_alone, measured, noise):
    if not chosen.no_web:
        web.measure(make_settings(chosen, is_alone, QUICK_WEB_S if chosen.quick else WEB_S), measured, noise)


def versions_of(measured):
    """Return {title: Debian version} of the measured contenders."""
    names = {r["contender"] for r in measured.results}
    packages = [(c.name, c.title, c.package) for c in contenders.CONTENDERS] + web_servers.packages()
    lines = {title: machine.first_line_of(["dpkg-query", "-W", "-f", "${Version}", package.split()[0]])
             for name, title, package in packages if name in names and package}
    return {title: line for title, line in lines.items() if line}


def command():
    """Return the command line, quoted for a shell."""
    return " ".join(["tools/bench"] + [shlex.quote(word) for word in sys.argv[1:]])


def interrupt(*_):
    """Raise KeyboardInterrupt. Ignore further signals while servers stop and the report is written."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def measure_what_can_be(chosen, is_alone, measured, noise):
    """Measure. Return the reason if the results are partial, else ""."""
    for number in STOPS:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, interrupt)
    try:
        if not chosen.works or set(chosen.works) & set(works.BY_NAME):
            measure_works(chosen, is_alone, measured, noise)
        measure_web(chosen, is_alone, measured, noise)
    except KeyboardInterrupt:
        return "the run was interrupted"
    except Exception as reason:  # pylint: disable=broad-except
        traceback.print_exc()
        return "the run failed: %r" % reason
    return ""


def measure(chosen, is_alone):
    began = time.monotonic()
    described = machine.describe()  # before the run, because the tree may change meanwhile
    measured, noise = Measured(), machine.Noise()
    if noise.load >= BUSY:
        log("the machine is busy (load %.1f): figures will be noisy" % noise.load)
    stopped = measure_what_can_be(chosen, is_alone, measured, noise)
    return {
        "stopped": stopped,
        "machine": described,
        "noise": noise.describe() if measured.results else None,
        "versions": versions_of(measured),
        "command": command(),
        "is_quick": chosen.quick,
        "rounds": chosen.rounds,
        "seconds": round(time.monotonic() - began),
        "results": measured.results,
        "left_out": measured.left_out,
    }


def finish(data, chosen):
    """Write the report. A partial report does not replace a complete one. Return the exit status."""
    out = chosen.build + "/report-partial" if data["stopped"] else chosen.out
    if not data["results"]:
        log("nothing was measured" + (": " + data["stopped"] if data["stopped"] else ""))
        return 1
    report.write(data, out)
    log("report written to %s/README.md" % out)
    if data["stopped"]:
        log("the report is partial: " + data["stopped"])
    return 1 if data["stopped"] else 0


def main():
    chosen = read_options()
    if chosen.again:
        with open(chosen.again, encoding="utf-8") as file:
            report.write(json.load(file), chosen.out)
        return 0
    if not os.path.exists(chosen.build + "/bench/weft"):
        sys.exit("bench: %s/bench/weft does not exist: run make first" % chosen.build)
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: the servers and their clients need one processor each, but only one is available")
    is_alone = network.enter_namespace()
    if is_alone:
        network.set_up_namespace()
    network.raise_file_limit()
    return finish(measure(chosen, is_alone), chosen)
