"""The contenders: their requirements, builds, commands, and the workloads that they omit.

To add a contender, write a program as bench/README.md describes, and add a line to CONTENDERS.
"""

import os
import re
import shutil
import subprocess

BUILD_S = 240
ASK_S = 20

# Workloads that depend on the backend of weft. Each is measured once per backend.
BACKEND_WORKS = ("sleepers", "timeout", "cords", "flow", "offload", "echo")
BACKENDS = ("io_uring", "epoll", "libev")

CALLBACKS = "callbacks, no fibers"
# Contenders that take longer to start than to measure. A quick run omits them.
SLOW_TO_START = ("tarantool-lua", "async", "erlang")


class Contender:
    """A line of the registry. In build, run and needs, %build and %peers stand for folders.

    needs: commands, and files if they contain a slash. package: the Debian package that has them.
    asks: {workload: name in the program}. None: all workloads of the program, under their names.
    not_for: {workload: reason} of the omitted workloads.
    source: a folder to copy and to build in the copy, for tools that write beside their sources.
    """

    def __init__(self, name, title, role, run, package="", needs=(), build="", environment=None,
                 source=None, asks=None, not_for=None, note=""):
        self.name, self.title, self.role = name, title, role
        self.run, self.build, self.source = run, build, source
        self.package, self.needs = package, needs
        self.environment = environment or {}
        self.asks, self.not_for, self.note = asks, not_for or {}, note


def weft_on(backend):
    return Contender("weft-" + backend, "weft, " + backend, "weft", "%build/bench/weft",
                     environment={"WEFT_BACKEND": backend}, asks={work: work for work in BACKEND_WORKS})


def bare(name, title, asks, role="limit"):
    return Contender(name, title, role, "%build/bench/bare", asks=asks)


def c_peer(name, title, package, header, libraries, **more):
    build = "cc -O2 -o %%peers/%s bench/peers/%s.c %s" % (name, name, libraries)
    return Contender(name, title, "peer", "%peers/" + name, package, ("cc", header), build, **more)


def cpp_peer(name, title, package, header, libraries, **more):
    build = "g++ -O2 -o %%peers/%s bench/peers/%s.cpp %s" % (name, name, libraries)
    return Contender(name, title, "peer", "%peers/" + name, package, ("g++", header), build, **more)


CONTENDERS = [
    Contender("weft", "weft", "weft", "%build/bench/weft", not_for={work: "" for work in BACKEND_WORKS}),
] + [weft_on(backend) for backend in BACKENDS] + [
    Contender("weft-loop", "weft, io_uring, weft_recv_loop", "weft", "%build/bench/weft",
              environment={"WEFT_BACKEND": "io_uring"}, asks={"echo": "echo-loop"}),
    Contender("bare", "by hand", "limit", "%build/bench/bare",
              not_for={"snooze-linked": "", "echo-epoll": "", "echo-uring": ""}),
    bare("bare-linked", "by hand, linked queue", {"snooze": "snooze-linked"}),
    bare("bare-switch", "a bare switch", {"timeout": "switch"}, "yardstick"),
    bare("bare-io_uring", "by hand, io_uring", {"echo": "echo-uring"}),
    bare("bare-epoll", "by hand, epoll", {"echo": "echo-epoll"}),
    Contender("threads", "POSIX threads", "peer", "%build/bench/threads"),
    c_peer("st", "State Threads", "libst-dev", "/usr/include/st.h", "-l:libst.a"),
    c_peer("pth", "GNU Pth", "libpth-dev", "/usr/include/pth.h", "-l:libpth.a"),
    cpp_peer("fiber", "Boost.Fiber", "libboost-fiber-dev", "/usr/include/boost/fiber/all.hpp",
             "-l:libboost_fiber.a -l:libboost_context.a -pthread"),
    cpp_peer("context", "Boost.Context", "libboost-context-dev", "/usr/include/boost/context/fiber.hpp",
             "-l:libboost_context.a", asks={"switch": "switch"}, note="no scheduler"),
    Contender("context-spin", "Boost.Context", "yardstick", "%peers/context", asks={"spin": "spin"},
              note="no scheduler, no wait"),
    c_peer("uv", "libuv", "libuv1-dev", "/usr/include/uv.h", "-l:libuv_a.a -pthread -ldl", note=CALLBACKS),
    c_peer("event", "libevent", "libevent-dev", "/usr/include/event2/event.h", "-l:libevent_core.a", note=CALLBACKS),
    c_peer("ev", "libev", "libev-dev", "/usr/include/ev.h", "-l:libev.a -lm", note=CALLBACKS),
    Contender("go", "Go", "peer", "%peers/go", "golang-go", ("go",), "go build -o %peers/go bench/peers/go/main.go"),
    Contender("tokio", "Tokio", "peer", "%peers/tokio/release/tokio_peer", "librust-tokio-dev",
              ("cargo", "/usr/share/doc/librust-tokio-dev"),
              "cargo build -q --offline --release --target-dir %peers/tokio", source="bench/peers/tokio", note="no stacks"),
    Contender("tarantool", "Tarantool, C", "peer", "tarantool bench/peers/tarantool_c.lua %peers/tarantool.so",
              "tarantool-dev", ("tarantool", "/usr/include/tarantool/module.h"),
              "cc -O2 -shared -fPIC -Ibench -o %peers/tarantool.so bench/peers/tarantool.c"),
    Contender("tarantool-lua", "Tarantool, Lua", "peer", "tarantool bench/peers/tarantool.lua", "tarantool",
              ("tarantool",)),
    Contender("async", "Ruby async", "peer", "ruby --yjit bench/peers/async.rb", "ruby-async", ("ruby",)),
    Contender("erlang", "Erlang", "peer",
              "erl +S 2:1 +P 2000000 -noinput -pa %peers -run erlang_peer main -extra", "erlang-base", ("erl", "erlc"),
              "erlc -o %peers bench/peers/erlang_peer.erl"),
]
BY_NAME = {c.name: c for c in CONTENDERS}


class Absent(Exception):
    """The reason why a contender is omitted."""


class Roster:
    """The contenders that run on this machine, and their workloads."""

    def __init__(self, build, peers, log):
        self.places = {"build": build, "peers": peers}
        self.log = log
        self.works = {}  # {contender: {workload: name in the program}}
        self.known = {}  # {(command, environment): its output without arguments}

    def fill_in(self, text):
        return re.sub(r"%(build|peers)\b", lambda found: self.places[found.group(1)], text)

    def command(self, contender):
        return self.fill_in(contender.run).split()

    def environment(self, contender):
        """Return the environment. Without GOCACHE, Go would write its cache to the home folder."""
        return dict(os.environ, GOCACHE=self.places["peers"] + "/go-cache", GO111MODULE="off",
                    **contender.environment)

    def enlist(self, contenders):
        """Build contenders and read their workloads. Yield (contender, reason) of the omitted ones."""
        os.makedirs(self.places["peers"], exist_ok=True)
        for contender in contenders:
            try:
                self.build(contender)
                self.works[contender.name] = self.ask(contender)
            except Absent as reason:
                self.log("%s is omitted: %s" % (contender.title, reason))
                yield contender, str(reason)

    def build(self, contender):
        for need in contender.needs:
            if not (os.path.exists(need) if "/" in need else shutil.which(need)):
                raise Absent("not installed (%s)" % contender.package)
        folder = "."
        if contender.source:
            folder = "%s/%s-source" % (self.places["peers"], contender.name)
            shutil.copytree(contender.source, folder, dirs_exist_ok=True)
        if contender.build:
            done = self.call(contender, self.fill_in(contender.build).split(), BUILD_S, folder)
            if done.returncode != 0:
                raise Absent("build failed: " + last_line(done.stdout))

    def call(self, contender, command, seconds, folder="."):
        try:
            return subprocess.run(command, cwd=folder, env=self.environment(contender), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
                                  check=False)
        except (OSError, subprocess.TimeoutExpired) as reason:
            raise Absent(str(reason)) from reason

    def ask(self, contender):
        command = self.command(contender)
        key = (*command, *contender.environment.items())
        if key not in self.known:
            done = self.call(contender, command, ASK_S)
            if done.returncode != 0:
                raise Absent("does not run: " + last_line(done.stdout))
            self.known[key] = done.stdout.split()
        asks = contender.asks or {work: work for work in self.known[key]}
        return {work: theirs for work, theirs in asks.items()
                if theirs in self.known[key] and work not in contender.not_for}

    def contenders_for(self, work):
        return [c for c in CONTENDERS if work in self.works.get(c.name, ())]


def last_line(text):
    return (text.strip().splitlines() or [""])[-1]
