"""The web servers: how each is built, configured, started and stopped. Each has one processor.

To add one: a line in SERVERS, and what it serves with in bench/http. It answers every request with
"Hello, world", a date, a type and a length, and is refused if it does not (web_check.py).
"""

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
TICKS = os.sysconf("SC_CLK_TCK")
# What ${ssl} stands for. Nobody gets a ticket: each handshake is a whole one.
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


class Server:
    """A line of the registry. %port %cert %key and %dir (of its files), %build, %peers (built peers).

    tls: what is added for TLS; None: it has none. close: what makes it close connections, for those
    that cannot read that they should. config: a template in bench/http, and ssl what its ${ssl} is
    under TLS. make: the tool that builds it, in which folder, and the command. package: what has it,
    the first of them in its version. note: what must be known beside its figures.
    """

    def __init__(self, name, title, role, run, package="", environment=None, tls=None, close="", config=None,
                 ssl="", make=None, note=""):
        self.name, self.title, self.role = name, title, role
        self.run, self.package, self.environment = run, package, environment or {}
        self.tls, self.close = tls, close
        self.config, self.ssl, self.make, self.note = config, ssl, make, note


def weft_on(backend):
    return Server("weft-" + backend, "weft, " + backend, "weft", "%build/bench/http/http_weft --port %port",
                  environment={"WEFT_BACKEND": backend}, tls="--tls %cert %key")


def bare(backend, program):
    return Server("bare-" + backend, "by hand, " + backend, "limit", "%build/bench/http/" + program + " --port %port",
                  close="--close", note="parses nothing")


SERVERS = [
    weft_on("io_uring"),
    weft_on("epoll"),
    bare("io_uring", "http_raw_uring"),
    bare("epoll", "http_raw_epoll"),
    Server("nginx", "nginx", "peer", "nginx -p %dir -e %dir/nginx.log -c %dir/nginx.conf", "nginx", tls="",
           config="nginx.conf", ssl="ssl"),
    Server("h2o", "h2o", "peer", "h2o -m worker -c %dir/h2o.conf", "h2o", tls="", config="h2o.conf", ssl=H2O_TLS,
           note="a file that it keeps open"),
    Server("lighttpd", "lighttpd", "peer", "lighttpd -D -f %dir/lighttpd.conf", "lighttpd lighttpd-mod-openssl",
           tls="", config="lighttpd.conf", ssl=LIGHTTPD_TLS, note="a file that it keeps in mind"),
    Server("go", "Go", "peer", "%peers/http_go %port", "golang-go", {"GOMAXPROCS": "1"}, "%cert %key",
           make=("go", "bench/http/http_go", "go build -o %peers/http_go main.go")),
    Server("hyper", "hyper", "peer", "%peers/release/http_hyper %port", "librust-hyper-dev librust-tokio-dev cargo",
           make=("cargo", "%peers/hyper", "cargo build -q --offline --release --target-dir %peers")),
    Server("node", "Node", "peer", "node bench/http/http_node.js %port", "nodejs", tls="%cert %key"),
]
BY_NAME = {s.name: s for s in SERVERS}


def fill_in(text, values):
    return re.sub(r"%(\w+)", lambda found: str(values.get(found.group(1), "")), text)


def last_line(text):
    return (text.strip().splitlines() or ["it says nothing"])[-1]


# Building


def check_backend(server, places):
    """Where weft's backend is not to be had another one stands in, whose figures are not its."""
    done = subprocess.run([places["build"] + "/bench/weft"], env=dict(os.environ, **server.environment),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failed("it does not run here: " + last_line(done.stdout))


def build(server, places):
    """Failed: why it cannot be."""
    if server.role == "weft":
        check_backend(server, places)
    if server.make is None:
        return
    tool, folder, command = server.make
    if shutil.which(tool) is None:
        raise Failed("not installed here (%s)" % server.package)
    os.makedirs(places["peers"], exist_ok=True)
    if tool == "cargo":
        # It writes its lock file beside the sources, so it gets a copy.
        shutil.copytree("bench/http/http_hyper", places["peers"] + "/hyper", dirs_exist_ok=True)
    # Go keeps what it compiled in the home folder otherwise.
    environment = dict(os.environ, GOCACHE=places["peers"] + "/go-cache", GO111MODULE="off")
    try:
        done = subprocess.run(fill_in(command, places).split(), cwd=fill_in(folder, places), env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=BUILD_S, check=False)
    except subprocess.TimeoutExpired as reason:
        raise Failed("it takes too long to build") from reason
    if done.returncode != 0:
        raise Failed("it cannot be built here: " + last_line(done.stdout))


def make_certificate(folder):
    """ECDSA over P-256, the same for all."""
    cert, key = folder + "/cert.pem", folder + "/key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
                    "30", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout",
                    key, "-out", cert], check=True, stderr=subprocess.DEVNULL)
    # Servers that change their user read it too.
    for path in (cert, key):
        os.chmod(path, 0o644)
    return cert, key


def make_places(settings, temp):
    """Where things are, for all servers."""
    os.chmod(temp, 0o755)
    cert, key = make_certificate(temp)
    return {"temp": temp, "cert": cert, "key": key, "build": settings.build, "peers": settings.peers + "/http",
            "user": pwd.getpwuid(os.geteuid()).pw_name}


# Running


class Running:
    """A server's process and its children, from start to stop."""

    def __init__(self, server, is_tls, is_close, places):
        self.server, self.is_tls = server, is_tls
        self.port = network.free_port()
        self.dir = tempfile.mkdtemp(prefix=server.name + "-", dir=places["temp"])
        values = dict(places, port=self.port, dir=self.dir)
        self.configure(values)
        more = ((server.tls or "") if is_tls else "") + " " + (server.close if is_close else "")
        command = fill_in(server.run + " " + more, values).split()
        cpus = {sorted(os.sched_getaffinity(0))[network.SERVER_CPU]}
        self.log = open(self.dir + "/output", "w+", encoding="utf-8")
        try:
            self.process = subprocess.Popen(command, env=dict(os.environ, **server.environment),
                                            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            preexec_fn=lambda: set_up_child(cpus))
        except OSError as reason:
            self.log.close()
            raise Failed("not installed here (%s)" % server.package if server.package else str(reason)) from reason

    def configure(self, values):
        if self.server.config is None:
            return
        os.makedirs(self.dir + "/root")
        with open(self.dir + "/root/hello.txt", "wb") as file:
            file.write(BODY)
        ssl = self.server.ssl % values if self.is_tls else ""
        modules = '"mod_openssl"' if self.is_tls else ""
        with open("bench/http/" + self.server.config, encoding="utf-8") as file:
            text = string.Template(file.read()).substitute(values, ssl=ssl, modules=modules)
        with open("%s/%s" % (self.dir, self.server.config), "w", encoding="utf-8") as file:
            file.write(text)

    def wait_until_up(self):
        if not network.wait_until_up(self.process, self.port, START_S):
            raise Failed("it does not start: " + self.said())

    def said(self):
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
        """What is theirs, and their share of what others have mapped, too."""
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
