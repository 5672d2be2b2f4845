"""The description of the machine, and its noise during a run."""

import os
import platform
import subprocess
import time

from suite import judge

# Iterations of the loop of Noise, which takes a few hundredths of a second.
LOOPS = 400000


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def field_of(text, key):
    for line in text.splitlines():
        name, _, value = line.partition(":" if ":" in line else "=")
        if name.strip() == key:
            return value.strip().strip('"')
    return ""


def first_line_of(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next((line.strip() for line in done.stdout.splitlines() if line.strip()), "")


def describe():
    cpu = read("/proc/cpuinfo")
    is_virtual = "hypervisor" in field_of(cpu, "flags").split()
    return {
        "processor": field_of(cpu, "model name") or platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "is_virtual": is_virtual,
        "memory_gib": round(int(field_of(read("/proc/meminfo"), "MemTotal").split()[0]) / (1 << 20), 1),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "system": field_of(read("/etc/os-release"), "PRETTY_NAME"),
        "compiler": first_line_of(["cc", "--version"]),
        "weft": first_line_of(["git", "describe", "--always", "--dirty"]),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
    }


def times():
    """Return the ticks of all processors so far: total, idle, stolen by other guests of the host."""
    ticks = [int(n) for n in read("/proc/stat").split("\n", 1)[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4], ticks[7]


class Noise:
    """A constant loop, timed once per round on the processor of workloads with one thread.

    The variation of its times is the noise of the machine."""

    def __init__(self):
        self.before = times()
        self.load = os.getloadavg()[0]
        self.cpu_ms, self.real_ms = [], []

    def sample(self, cpu):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cpu})
        cpu_ns, real_ns = time.process_time_ns(), time.monotonic_ns()
        for _ in range(LOOPS):
            pass
        self.cpu_ms.append((time.process_time_ns() - cpu_ns) / 1e6)
        self.real_ms.append((time.monotonic_ns() - real_ns) / 1e6)
        os.sched_setaffinity(0, allowed)

    def describe(self):
        after = times()
        total = max(after[0] - self.before[0], 1)
        figures = judge.Figures(self.cpu_ms)
        return {
            "samples": len(self.cpu_ms),
            "loop_ms": figures.median,
            "loop_spread": figures.spread,
            "loop_worst": max(self.cpu_ms) / figures.median,
            "real_per_cpu": judge.median([r / c for r, c in zip(self.real_ms, self.cpu_ms)]),
            "stolen": (after[2] - self.before[2]) / total,
            "load_before": self.load,
            "load_after": os.getloadavg()[0],
        }
