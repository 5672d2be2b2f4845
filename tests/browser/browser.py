"""Drive a headless Chromium through the HTTP interface of chromedriver (W3C WebDriver)."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
]
STARTS_MAX = 10
WAIT_S = 20  # for an expected event on a busy machine


SKIPPED = 77  # an exit status that meson counts as skipped


@contextlib.contextmanager
def started(*command):
    """Start a server, yield the URL that it prints, then end it and check its exit status."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"https?://[^ ]*/", process.stdout.readline()).group(0)
    except BaseException:
        process.kill()
        raise
    finally:
        process.terminate()
        status = process.wait(timeout=30)
        process.stdout.close()
    check(status, 0)


def check(got, wanted):
    if got != wanted:
        raise AssertionError("%r, not %r" % (got, wanted))


def is_installed():
    return shutil.which("chromedriver") and shutil.which("chromium")


class Browser:
    """A context manager. Leaving its block ends the browser and deletes its profile."""

    def __init__(self, flags=()):
        self.profile = tempfile.mkdtemp(prefix="weft-browser-")
        self.session = None
        self.base = "http://127.0.0.1:%d" % self._start_driver()
        options = {
            "binary": shutil.which("chromium"),
            "args": FLAGS + ["--user-data-dir=" + self.profile + "/profile"] + list(flags),
        }
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self.session = self.call("POST", "/session", {"capabilities": wanted})["sessionId"]

    def _start_driver(self):
        """Start chromedriver and return its port. Retry if the port is in use for IPv4 or IPv6."""
        for _ in range(STARTS_MAX):
            # Set HOME too: Chromium writes caches there, independently of its profile.
            self.driver = subprocess.Popen(
                ["chromedriver", "--port=0"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "HOME": self.profile},
            )
            for line in self.driver.stdout:
                found = re.search(r"started successfully on port (\d+)", line)
                if found:
                    return int(found.group(1))
            self.driver.wait()
        raise RuntimeError("chromedriver does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.driver.stdout.close()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        prefix = "/session/" + self.session if self.session else ""
        request = urllib.request.Request(
            self.base + prefix + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """Run JavaScript and return its result."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0])?.textContent", selector)

    def find(self, selector):
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return "/element/" + next(iter(found.values()))

    def click(self, selector):
        self.call("POST", self.find(selector) + "/click", {})

    def type(self, selector, text):
        self.call("POST", self.find(selector) + "/value", {"text": text})

    def keys(self, *keys):
        """Press keys one after the other, or several together if an item is a tuple."""
        actions = []
        for item in keys:
            together = item if isinstance(item, tuple) else (item,)
            actions += [{"type": "keyDown", "value": key} for key in together]
            actions += [{"type": "keyUp", "value": key} for key in reversed(together)]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def cdp(self, command, **parameters):
        """Call a command of the DevTools protocol."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def emulate(self, width, height, scheme):
        """Set the size of the page, and its colour scheme: light or dark."""
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def drag(self, selector, points):
        """Draw with the mouse. The points are relative to the centre of the element."""
        origin = dict(self.call("POST", "/element", {"using": "css selector", "value": selector}))
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        moves = [{"type": "pointerMove", "origin": origin, "x": x, "y": y, "duration": 20} for x, y in points]
        moves[1:1] = [{"type": "pointerDown", "button": 0}]
        moves.append({"type": "pointerUp", "button": 0})
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": moves}
        self.call("POST", "/actions", {"actions": [mouse]})

    def wait(self, what, script, *arguments):
        """Run JavaScript until its result is true, and return the result."""
        deadline = time.monotonic() + WAIT_S
        while True:
            value = self.run(script, *arguments)
            if value:
                return value
            if time.monotonic() > deadline:
                raise AssertionError("timed out: %s\n%s" % (what, self.text("body")))
            time.sleep(0.05)

    def windows(self):
        return self.call("GET", "/window/handles")

    def new_window(self):
        return self.call("POST", "/window/new", {"type": "window"})["handle"]

    def switch(self, window):
        self.call("POST", "/window", {"handle": window})

    def close_window(self):
        self.call("DELETE", "/window")

    def resize(self, width, height):
        self.call("POST", "/window/rect", {"width": width, "height": height})

    def console_errors(self):
        """Return the errors of the console since the last call."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("GET", "/screenshot")))
