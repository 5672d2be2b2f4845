"""Build, configure, start and stop the web servers. Each server has one processor.

To add a server, add a line to SERVERS, and its program or configuration to bench/http. A server replies
to each request with "Hello, world", a date, a type and a length. web_check.py refuses other servers.
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


class Server:
    """A line of the registry. Variables: %port, %cert, %key, %dir (files of the server), %build, %peers.

    tls: additional arguments for TLS. None: the server has no TLS.
    close: additional arguments to close connections, for servers that do not read the request.
    config: a template in bench/http. ssl: its ${ssl} with TLS.
    make: the tool, the folder and the command that build the server.
    package: the Debian packages. The first has the version of the server.
    note: a remark for the report.
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
           note="serves an open file"),
    Server("lighttpd", "lighttpd", "peer", "lighttpd -D -f %dir/lighttpd.conf", "lighttpd lighttpd-mod-openssl",
           tls="", config="lighttpd.conf", ssl=LIGHTTPD_TLS, note="serves a cached file"),
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
    return (text.strip().splitlines() or ["no output"])[-1]


# Building


def check_backend(server, places):
    """Raise Failed if the backend is not available. weft would use another backend."""
    done = subprocess.run([places["build"] + "/bench/weft"], env=dict(os.environ, **server.environment),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failed("does not run: " + last_line(done.stdout))


def build(server, places):
    """Build a server. Raise Failed with the reason if that is not possible."""
    if server.role == "weft":
        check_backend(server, places)
    if server.make is None:
        return
    tool, folder, command = server.make
    if shutil.which(tool) is None:
        raise Failed("not installed (%s)" % server.package)
    os.makedirs(places["peers"], exist_ok=True)
    if tool == "cargo":
        # Build in a copy, because cargo writes its lock file beside the sources.
        shutil.copytree("bench/http/http_hyper", places["peers"] + "/hyper", dirs_exist_ok=True)
    # Without GOCACHE, Go would write its cache to the home folder.
    environment = dict(os.environ, GOCACHE=places["peers"] + "/go-cache", GO111MODULE="off")
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
            raise Failed("not installed (%s)" % server.package if server.package else str(reason)) from reason

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
