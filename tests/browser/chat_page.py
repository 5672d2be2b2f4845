"""The page of the chat: visitors, connections that a test can cut, and accessibility."""

import contextlib
import socket
import struct
import threading

from browser import check

PHONE, DESKTOP = (390, 844), (1280, 800)
CONTRAST_MIN, CONTRAST_LARGE_MIN = 4.5, 3.0  # WCAG 2, level AA


class Proxy:
    """A TCP proxy whose connections a test can cut."""

    def __init__(self, target):
        self.target = target
        self.is_open = True
        self.is_mute = False  # drop what the server sends
        self.pairs = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d/" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if not self.is_open:
                    client.close()
                    continue
                server = socket.create_connection(self.target)
                self.pairs.add((client, server))
                threading.Thread(target=self._copy, args=(client, server, False), daemon=True).start()
                threading.Thread(target=self._copy, args=(server, client, True), daemon=True).start()

    def _copy(self, source, sink, is_reply):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not (is_reply and self.is_mute):
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self):
        """Reset all connections, and refuse new ones."""
        self.is_open = False
        for pair in self.pairs:
            for end in pair:
                # Linger for 0 s: the close sends RST. The shutdown wakes the thread that reads.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RD)
                end.close()
        self.pairs.clear()

    def mend(self):
        self.is_open, self.is_mute = True, False


def address_of(url):
    host, port = url.split("/")[2].split(":")
    return host, int(port)


class Visitor:
    """A window of the browser with the chat."""

    def __init__(self, b, url, name, room="lobby"):
        self.b = b
        self.window = b.new_window()
        b.switch(self.window)
        b.open(url + "#" + room)
        b.wait("the dialog", "return document.getElementById('hello').open")
        b.run("document.getElementById('hello-name').value = ''")
        b.type("#hello-name", name)
        b.click("#hello button")
        b.wait("the room", "return document.querySelectorAll('#people li').length > 0")

    def look(self):
        self.b.switch(self.window)
        return self.b

    def say(self, *texts):
        b = self.look()
        for text in texts:
            b.type("#text", text)
            b.click("#send")

    def retry(self):
        """Press the button, unless the page has already connected again."""
        self.look().run("document.getElementById('retry').click()")

    def sent(self):
        self.look().wait("confirmations", "return !document.querySelector('.pending')")

    def texts(self):
        """The texts of all messages in the window."""
        return self.look().run("return [...document.querySelectorAll('.bubble')].map(e => e.textContent)")

    def reads(self, *texts):
        """Wait for messages at the end of the conversation."""
        self.look().wait(
            "the messages %s" % (texts,),
            "const got = [...document.querySelectorAll('.bubble')].map(e => e.textContent);"
            "return !document.querySelector('.pending') &&"
            " JSON.stringify(got.slice(-arguments[0].length)) === JSON.stringify(arguments[0])",
            list(texts),
        )

    def sees(self, selector, text):
        self.look().wait(
            "%s in %s" % (text, selector),
            "return document.querySelector(arguments[0])?.textContent.includes(arguments[1])",
            selector,
            text,
        )


# Return a list of all visible texts whose contrast is too low.
CONTRAST = """
const [min, largeMin] = arguments, canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
canvas.canvas.width = canvas.canvas.height = 1;
function rgba(color) {
  canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255];
}
function over(top, below) { return [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1); }
function background(e) {
  if (!e) return rgba('Canvas');
  const own = rgba(getComputedStyle(e).backgroundColor);
  return own[3] === 1 ? own : over(own, background(e.parentElement));
}
function luminance(c) {
  const [r, g, b] = c.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
  return .2126 * r + .7152 * g + .0722 * b;
}
const bad = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const e = walker.currentNode.parentElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  if (!walker.currentNode.textContent.trim() || !e.checkVisibility({visibilityProperty: true}) || box.width < 2) continue;
  if (e.closest('dialog:not([open]), .hidden, symbol, noscript, .skip, script')) continue;
  const below = background(e), [a, b] = [luminance(over(rgba(style.color), below)), luminance(below)];
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05), size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  if (ratio < (isLarge ? largeMin : min)) bad.push(e.className + ' ' + e.id + ': ' + walker.currentNode.textContent.trim() + ' ' + ratio.toFixed(2));
}
return bad;
"""

# Return a list of faults that assistive technology would meet.
STRUCTURE = """
const bad = [], ids = [...document.querySelectorAll('[id]')].map(e => e.id);
if (new Set(ids).size !== ids.length) bad.push('an id occurs twice');
if (!document.documentElement.lang) bad.push('no language');
for (const [selector, count] of [['main', 1], ['nav', 1], ['aside', 1], ['h1', 1], ['[role=log]', 1]])
  if (document.querySelectorAll(selector).length !== count) bad.push(selector);
for (const e of document.querySelectorAll('img:not([alt])')) bad.push('img without alt ' + e.src);
for (const e of document.querySelectorAll('[aria-controls], [aria-describedby], [aria-labelledby]'))
  for (const name of ['aria-controls', 'aria-describedby', 'aria-labelledby'])
    for (const id of (e.getAttribute(name) ?? '').split(' ').filter(Boolean))
      if (!document.getElementById(id)) bad.push(name + ' ' + id);
for (const e of document.querySelectorAll('button, input, textarea')) {
  const box = e.getBoundingClientRect();
  if (e.checkVisibility({visibilityProperty: true}) && !e.classList.contains('link') && (box.width < 40 || box.height < 38))
    bad.push('small target ' + e.id + e.className);
}
if (document.documentElement.scrollWidth > innerWidth) bad.push('the page is wider than the window');
return bad;
"""

INTERACTIVE = {"button", "link", "textbox", "log", "dialog", "navigation", "complementary", "main"}


def the_page_is_accessible(b, label):
    check((label, b.run(STRUCTURE)), (label, []))
    check((label, b.run(CONTRAST, CONTRAST_MIN, CONTRAST_LARGE_MIN)), (label, []))
    nodes = b.cdp("Accessibility.getFullAXTree")["nodes"]
    shown = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in INTERACTIVE]
    check((label, [n for n in shown if not n.get("name", {}).get("value")]), (label, []))
    check((label, {"log", "main", "textbox"} <= {n["role"]["value"] for n in shown}), (label, True))


def still(b):
    b.wait("the end of movements", "return !document.getAnimations().some(a => a instanceof CSSTransition)")
