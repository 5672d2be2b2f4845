"""The network namespace of servers and clients, and their limit of open files.

The namespace has no other connections. Its congestion control is reno, which needs no pacing timers.
"""

import os
import resource
import shutil
import socket
import subprocess
import sys
import time

INSIDE = "WEFT_BENCH_INSIDE"
FILES_MAX = 25000
SERVER_CPU, CLIENT_CPU = 0, 1


def quietly(command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def enter_namespace():
    """Execute this program again in a network namespace, if possible. Return True in the namespace."""
    if os.environ.get(INSIDE):
        return os.environ[INSIDE] == "namespace"
    command = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    is_able = shutil.which("unshare") and shutil.which("ip") and quietly(command + ["ip", "link", "set", "lo", "up"])
    os.environ[INSIDE] = "namespace" if is_able else "host"
    if is_able:
        os.execvp("unshare", command + [sys.executable] + sys.argv)
    return False


def set_up_namespace():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for name, value in (("tcp_congestion_control", "reno"), ("ip_local_port_range", "10000 65000")):
        with open("/proc/sys/net/ipv4/" + name, "w", encoding="ascii") as file:
            file.write(value)
    # The kernel limits the backlog of the servers, 4,096, to this value.
    with open("/proc/sys/net/core/somaxconn", "w", encoding="ascii") as file:
        file.write("4096")


def raise_file_limit():
    """Raise the limit of this process and its children. Return the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until_up(process, port, seconds):
    """Return True when the server accepts connections. Return False after a timeout or if it ends."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def family_of(pid):
    """Return the process and all its descendants."""
    found, waiting = [], [pid]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        try:
            for task in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as file:
                    waiting += [int(child) for child in file.read().split()]
        except OSError:
            pass
    return found


def cpu_s(pid):
    """Return the CPU time of all threads of a process and its descendants so far, to the nanosecond.

    The ids of the clocks are those of clock_getcpuclockid(3)."""
    return sum(time.clock_gettime(~p << 3 | 2) for p in family_of(pid))
