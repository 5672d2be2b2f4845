"""Check the replies of a web server. A server that ignores a request is fast, and must not be compared.

The server must send the body and the usual fields, and keep or close a connection as requested. With
TLS, the server must use TLS 1.3 and must not resume sessions. A WebSocket server must echo messages and
reply to control frames.
"""

import socket
import ssl
import struct
import subprocess

from suite.run import Failed
from suite.web_servers import BODY, HTTP2, WS

REPLY_S = 5
# The time that a connection must stay open with keep-alive.
KEPT_S = 0.1
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
CLOSE = b"Connection: close\r\n"
# HTTP/2: the preface, an empty SETTINGS frame, and a request in a HEADERS frame (GET, http, /, 127.0.0.1).
H2_HEADERS = b"\x82\x86\x84\x41\x09127.0.0.1"
H2_REQUEST = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" +
              b"\0\0%c\1\5\0\0\0\1" % len(H2_HEADERS) + H2_HEADERS)
H2_SETTINGS_ACK = b"\0\0\0\4\1\0\0\0\0"
H2_SETTINGS, H2_ACK, H2_END_STREAM = 4, 1, 1
# WebSocket: the handshake of RFC 6455, 1.3, and opcodes with the bit FIN.
WS_REQUEST = (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
WS_ACCEPT = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
TEXT, BINARY, CLOSING, PING, PONG = 0x81, 0x82, 0x88, 0x89, 0x8a
TEXT_BYTES_MAX = 125
MASK = b"\x37\xfa\x21\x3d"


def require(is_true, what):
    if not is_true:
        raise Failed(what)


def make_context():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Talk:
    """A connection to a server."""

    def __init__(self, running, context=None, session=None):
        self.socket = socket.create_connection(("127.0.0.1", running.port), timeout=REPLY_S)
        if context:
            self.socket = context.wrap_socket(self.socket, session=session)

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.socket.close()

    def ask(self, text, replies):
        """Send text and read a number of replies. Return the received bytes."""
        data = b""
        self.socket.sendall(text)
        while data.count(BODY) < replies:
            piece = self.socket.recv(65536)
            require(piece, "closes the connection after %r" % data)
            data += piece
        return data

    def is_closed(self, seconds):
        self.socket.settimeout(seconds)
        try:
            return self.socket.recv(1) == b""
        except socket.timeout:
            return False
        except OSError:  # closed without a close_notify of TLS
            return True


def check_fields(reply):
    head, _, body = reply.partition(b"\r\n\r\n")
    require(body == BODY, "wrong body: %r" % body)
    for name in (b"date:", b"content-type: text/plain", b"content-length: %d" % len(BODY)):
        require(b"\r\n" + name in head.lower(), "no %s in %r" % (name.decode(), head))


def check_reply(reply):
    require(reply.startswith(b"HTTP/1.1 200 "), "the status is not 200: %r" % reply)
    check_fields(reply)


def check_handshakes(running, context):
    """Require TLS 1.3 without resumption."""
    with Talk(running, context) as talk:
        talk.ask(REQUEST % b"", 1)
        require(talk.socket.version() == "TLSv1.3", "uses %s" % talk.socket.version())
        session = talk.socket.session
    with Talk(running, context, session) as talk:
        talk.ask(REQUEST % b"", 1)
        require(not talk.socket.session_reused, "resumes sessions")


def check_all(running, context, is_close):
    more = CLOSE if is_close else b""
    with Talk(running, context) as talk:
        reply = talk.ask(REQUEST % more, 1)
        check_reply(reply)
        if is_close:
            require(talk.is_closed(REPLY_S), "ignores Connection: close")
        else:
            talk.ask(REQUEST % b"" * 3, 3)
            require(not talk.is_closed(KEPT_S), "ignores keep-alive")
    if context:
        check_handshakes(running, context)
    return len(reply)


def exchange_http1(s):
    """Receive the reply to one request on a socket."""
    s.sendall(REQUEST % b"")
    data = b""
    while BODY not in data:
        piece = s.recv(4096)
        require(piece, "closes the connection after %r" % data)
        data += piece


# HTTP/2


def check_http2(running):
    """Check a reply as curl prints it. Return the length of its head and body."""
    more = ["-k", "--http2"] if running.is_tls else ["--http2-prior-knowledge"]
    done = subprocess.run(["curl", "-sS", "-i", "-m%d" % REPLY_S, *more, running.url()], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    require(done.returncode == 0, "no reply: " + done.stderr.decode(errors="replace").strip())
    require(done.stdout.startswith(b"HTTP/2 200"), "the status is not 200: %r" % done.stdout[:80])
    check_fields(done.stdout)
    return len(done.stdout)


def receive_exactly(s, count):
    data = b""
    while len(data) < count:
        piece = s.recv(count - len(data))
        require(piece, "closes the connection after %r" % data)
        data += piece
    return data


def exchange_http2(s):
    """Open a connection, and receive the reply to one request on a socket."""
    s.sendall(H2_REQUEST)
    while True:
        head = receive_exactly(s, 9)
        length, kind, flags, stream = int.from_bytes(head[:3], "big"), head[3], head[4], head[8]
        receive_exactly(s, length)
        if kind == H2_SETTINGS and not flags & H2_ACK:
            s.sendall(H2_SETTINGS_ACK)
        if stream == 1 and flags & H2_END_STREAM:
            return


# WebSocket


def make_frame(opcode, data):
    length = bytes([0x80 | len(data)]) if len(data) <= 125 else struct.pack("!BH", 0x80 | 126, len(data))
    return bytes([opcode]) + length + MASK + bytes(b ^ MASK[i % 4] for i, b in enumerate(data))


def receive_frame(s):
    """Return the first byte and the data of a frame."""
    opcode, length = receive_exactly(s, 2)
    if length == 126:
        length, = struct.unpack("!H", receive_exactly(s, 2))
    return opcode, receive_exactly(s, length)


def open_ws(s):
    """Perform the handshake on a socket. Return the head of the reply."""
    s.sendall(WS_REQUEST)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = s.recv(4096)
        require(piece, "closes the connection after %r" % head)
        head += piece
    require(head.startswith(b"HTTP/1.1 101 ") and WS_ACCEPT in head, "no WebSocket: %r" % head)
    require(b"extensions" not in head.lower(), "uses an extension that was not offered")
    return head


def echo(s, opcode, data, reply=None):
    s.sendall(make_frame(opcode, data))
    got = receive_frame(s)
    require(got == (reply or opcode, data), "the reply to frame %#x is frame %#x" % (opcode, got[0]))


def exchange_ws(s):
    """Open a WebSocket, and exchange one message on a socket."""
    open_ws(s)
    echo(s, TEXT, b"hello")


def check_ws(running):
    with socket.create_connection(("127.0.0.1", running.port), timeout=REPLY_S) as s:
        head = open_ws(s)
        echo(s, TEXT, "h\u00e9llo".encode())
        echo(s, BINARY, bytes(range(256)) * 16)
        echo(s, PING, b"ping", PONG)
        echo(s, CLOSING, struct.pack("!H", 1000))
        require(s.recv(1) == b"", "does not close the connection")
    return len(head)


# All protocols


def check_http1(running, is_close):
    return check_all(running, make_context() if running.is_tls else None, is_close)


def check(running, case):
    """Return the length of a reply. Raise Failed if the server is wrong."""
    try:
        if case.protocol == HTTP2:
            return check_http2(running)
        if case.protocol == WS:
            return check_ws(running)
        return check_http1(running, case.is_close)
    except OSError as reason:
        raise Failed("no reply: %s" % reason) from reason
