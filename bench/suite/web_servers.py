"""Build, configure, start and stop the web servers. Each server has one processor.

To add a server, add a line to SERVERS, and its program or configuration to bench/http or bench/ws. A server
replies to each request with "Hello, world", a date, a type and a length, or echoes WebSocket messages.
web_check.py refuses other servers.
"""

import math
import os
import pwd
import re
import shutil
import signal
import string
import subprocess
import tempfile

from suite import network
from suite.run import Failed, set_up_child

START_S = 10
BUILD_S = 240
BODY = b"Hello, world\n"
# Protocols.
HTTP1, HTTP2, WS = "HTTP/1.1", "HTTP/2", "WebSocket"
# Packages of Debian, for Go and for Node.
DEBIAN_GO, DEBIAN_NODE = "/usr/share/gocode", "/usr/share/nodejs"
TICKS = os.sysconf("SC_CLK_TCK")
# Values of ${ssl}. Session tickets are off, so that no handshake is resumed.
H2O_TLS = """\
  ssl:
    certificate-file: %(cert)s
    key-file: %(key)s
    minimum-version: TLSv1.3
    neverbleed: OFF
"""
LIGHTTPD_TLS = """\
ssl.engine = "enable"
ssl.pemfile = "%(cert)s"
ssl.privkey = "%(key)s"
ssl.openssl.ssl-conf-cmd = ("MinProtocol" => "TLSv1.3", "Options" => "-SessionTicket")
"""


class Program:
    """How a server speaks a protocol. Variables: %port, %cert, %key, %dir (files of the server), %build, %peers.

    clear, tls: additional arguments without and with TLS. tls is None: the program has no TLS.
    close: additional arguments to close connections, for programs that do not read the request.
    config: a template in bench/http. ssl: its ${ssl} with TLS. file: the name of the served file.
    make: the tool, the folder and the command that build the program.
    package: the Debian packages. The first has the version of the program.
    count_max: the largest number of connections. With more, the program takes too long.
    note: a remark for the report.
    """

    def __init__(self, run, package="", environment=None, clear="", tls=None, close="", config=None, ssl="",
                 file="hello.txt", make=None, count_max=math.inf, note=""):
        self.count_max = count_max
        self.run, self.package, self.environment = run, package, environment or {}
        self.clear, self.tls, self.close = clear, tls, close
        self.config, self.ssl, self.file, self.make, self.note = config, ssl, file, make, note


class Server:
    """A line of the registry. programs: {protocol: Program}."""

    def __init__(self, name, title, role, programs):
        self.name, self.title, self.role, self.programs = name, title, role, programs


def weft_on(backend):
    def weft(program, tls=None):
        return Program("%build/bench/" + program + " --port %port", environment={"WEFT_BACKEND": backend}, tls=tls)

    tls = "--tls %cert %key"
    return Server("weft-" + backend, "weft, " + backend, "weft",
                  {HTTP1: weft("http/http_weft", tls), HTTP2: weft("http/http_weft", tls), WS: weft("ws/ws_weft")})


def bare(backend, program):
    return Server("bare-" + backend, "by hand, " + backend, "limit",
                  {HTTP1: Program("%build/bench/http/" + program + " --port %port", close="--close",
                                  note="parses nothing")})


def peer(name, title, programs):
    return Server(name, title, "peer", programs)


def both(program):
    """Return the programs of a server that speaks HTTP/1.1 and HTTP/2."""
    return {HTTP1: program, HTTP2: program}


def go(folder, program, package, tls=None, note=""):
    return Program("%peers/" + program + " %port", package, {"GOMAXPROCS": "1"}, tls=tls, note=note,
                   make=("go", folder + "/" + program, "go build -o %peers/" + program + " main.go"))


def node(script, package, tls=None, note=""):
    return Program("node " + script + " %port", package, {"NODE_PATH": DEBIAN_NODE}, tls=tls, note=note)


SERVERS = [
    weft_on("io_uring"),
    weft_on("epoll"),
    bare("io_uring", "http_raw_uring"),
    bare("epoll", "http_raw_epoll"),
    peer("nginx", "nginx", both(Program("nginx -p %dir -e %dir/nginx.log -c %dir/nginx.conf", "nginx", tls="",
                                        config="nginx.conf", ssl="ssl"))),
    peer("h2o", "h2o", both(Program("h2o -m worker -c %dir/h2o.conf", "h2o", tls="", config="h2o.conf", ssl=H2O_TLS,
                                    note="serves an open file"))),
    peer("nghttpd", "nghttpd", {
        HTTP2: Program("nghttpd -a 127.0.0.1 -d %dir/root --mime-types-file %dir/nghttpd.types %port", "nghttp2-server",
                       clear="--no-tls", tls="%key %cert", config="nghttpd.types", file="index.html",
                       note="serves an open file"),
    }),
    peer("lighttpd", "lighttpd", {
        HTTP1: Program("lighttpd -D -f %dir/lighttpd.conf", "lighttpd lighttpd-mod-openssl", tls="",
                       config="lighttpd.conf", ssl=LIGHTTPD_TLS, note="serves a cached file"),
    }),
    peer("go", "Go", {
        HTTP1: go("bench/http", "http_go", "golang-go", "%cert %key"),
        HTTP2: go("bench/http", "http2_go", "golang-golang-x-net-dev golang-go", "%cert %key"),
        WS: go("bench/ws", "ws_go", "golang-github-gorilla-websocket-dev golang-go", note="does not check UTF-8"),
    }),
    peer("lws", "libwebsockets", {
        WS: Program("%peers/ws_lws %port", "libwebsockets-dev", count_max=1000,
                    make=("gcc", "bench/ws", "gcc -O2 -o %peers/ws_lws ws_lws.c -lwebsockets")),
    }),
    peer("hyper", "hyper", {
        HTTP1: Program("%peers/release/http_hyper %port", "librust-hyper-dev librust-tokio-dev cargo",
                       make=("cargo", "%peers/hyper", "cargo build -q --offline --release --target-dir %peers")),
    }),
    peer("node", "Node", {
        HTTP1: node("bench/http/http_node.js", "nodejs", "%cert %key"),
        HTTP2: node("bench/http/http2_node.js", "nodejs", "%cert %key"),
        WS: node("bench/ws/ws_node.js", "node-ws nodejs"),
    }),
]
BY_NAME = {s.name: s for s in SERVERS}


def packages():
    """Return [(name, title, packages)] of all programs. The title of a second package has the protocol."""
    found = {}
    for server in SERVERS:
        for number, (protocol, program) in enumerate(server.programs.items()):
            title = "%s, %s" % (server.title, protocol) if number else server.title
            found.setdefault((server.name, program.package), title)
    return [(name, title, package) for (name, package), title in found.items()]


def fill_in(text, values):
    return re.sub(r"%(\w+)", lambda found: str(values.get(found.group(1), "")), text)


def last_line(text):
    return (text.strip().splitlines() or ["no output"])[-1]


# Building


def check_backend(program, places):
    """Raise Failed if the backend is not available. weft would use another backend."""
    done = subprocess.run([places["build"] + "/bench/weft"], env=dict(os.environ, **program.environment),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failed("does not run: " + last_line(done.stdout))


def build(server, protocol, places):
    """Build the program for a protocol. Raise Failed with the reason if that is not possible."""
    program = server.programs[protocol]
    if server.role == "weft":
        check_backend(program, places)
    if program.make is None:
        return
    tool, folder, command = program.make
    if shutil.which(tool) is None:
        raise Failed("not installed (%s)" % program.package)
    os.makedirs(places["peers"], exist_ok=True)
    if tool == "cargo":
        # Build in a copy, because cargo writes its lock file beside the sources.
        shutil.copytree("bench/http/http_hyper", places["peers"] + "/hyper", dirs_exist_ok=True)
    # Without GOCACHE, Go would write its cache to the home folder.
    environment = dict(os.environ, GOCACHE=places["peers"] + "/go-cache", GO111MODULE="off", GOPATH=DEBIAN_GO)
    try:
        done = subprocess.run(fill_in(command, places).split(), cwd=fill_in(folder, places), env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired as reason:
        raise Failed("the build takes too long") from reason
    if done.returncode != 0:
        raise Failed("build failed: " + last_line(done.stdout))


def make_certificate(folder):
    """Create the certificate of all servers: ECDSA over P-256. Return its files."""
    cert, key = folder + "/cert.pem", folder + "/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
                    key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    # Servers that change their user also read the files.
    for path in (cert, key):
        os.chmod(path, 0o644)
    return cert, key


def make_places(settings, temp):
    """Return the values of variables that all servers share."""
    os.chmod(temp, 0o755)
    cert, key = make_certificate(temp)
    return {"temp": temp, "cert": cert, "key": key, "build": settings.build, "peers": settings.peers + "/http",
            "user": pwd.getpwuid(os.geteuid()).pw_name}


# Running


class Running:
    """A running server: its process and children."""

    def __init__(self, server, case, places):
        self.protocol, self.is_tls = case.protocol, case.is_tls
        self.program = program = server.programs[case.protocol]
        self.port = network.free_port()
        self.dir = tempfile.mkdtemp(prefix=server.name + "-", dir=places["temp"])
        values = dict(places, port=self.port, dir=self.dir)
        self.configure(values)
        more = (program.tls or "" if self.is_tls else program.clear) + " " + (program.close if case.is_close else "")
        command = fill_in(program.run + " " + more, values).split()
        cpus = {sorted(os.sched_getaffinity(0))[network.SERVER_CPU]}
        self.log = open(self.dir + "/output", "w+", encoding="utf-8")
        try:
            self.process = subprocess.Popen(command, env=dict(os.environ, **program.environment),
                                            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            preexec_fn=lambda: set_up_child(cpus))
        except OSError as reason:
            self.log.close()
            raise Failed("not installed (%s)" % program.package if program.package else str(reason)) from reason

    def configure(self, values):
        program = self.program
        if program.config is None:
            return
        os.makedirs(self.dir + "/root")
        with open("%s/root/%s" % (self.dir, program.file), "wb") as file:
            file.write(BODY)
        ssl = program.ssl % values if self.is_tls else ""
        modules = '"mod_openssl"' if self.is_tls else ""
        http2 = "http2" if self.protocol == HTTP2 else ""
        with open("bench/http/" + program.config, encoding="utf-8") as file:
            text = string.Template(file.read()).substitute(values, ssl=ssl, modules=modules, http2=http2)
        with open("%s/%s" % (self.dir, program.config), "w", encoding="utf-8") as file:
            file.write(text)

    def wait_until_up(self):
        if not network.wait_until_up(self.process, self.port, START_S):
            raise Failed("does not start: " + self.last_output())

    def last_output(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return last_line(file.read())

    def url(self):
        return "%s://127.0.0.1:%d/" % ("https" if self.is_tls else "http", self.port)

    def pids(self):
        return network.family_of(self.process.pid)

    def cpu_s(self):
        return network.cpu_s(self.process.pid)

    def user_and_system_s(self):
        user = system = 0
        for pid in self.pids():
            with open("/proc/%d/stat" % pid, encoding="ascii") as file:
                fields = file.read().rsplit(") ", 1)[1].split()
            user, system = user + int(fields[11]), system + int(fields[12])
        return user / TICKS, system / TICKS

    def memory_bytes(self):
        """Return the memory of all processes, with their share of pages that are shared (Pss)."""
        total = 0
        for pid in self.pids():
            with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
                total += sum(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
        return total

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=START_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
