"""Check the replies of a web server. A server that ignores a request is fast, and must not be compared.

The server must send the body and the usual fields, and keep or close a connection as requested. With
TLS, the server must use TLS 1.3 and must not resume sessions.
"""

import socket
import ssl

from suite.run import Failed
from suite.web_servers import BODY

REPLY_S = 5
# The time that a connection must stay open with keep-alive.
KEPT_S = 0.1
REQUEST = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n"
CLOSE = b"Connection: close\r\n"


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


def check_reply(reply):
    head, _, body = reply.partition(b"\r\n\r\n")
    require(head.startswith(b"HTTP/1.1 200 "), "the status is not 200: %r" % head)
    require(body == BODY, "wrong body: %r" % body)
    for name in (b"date:", b"content-type: text/plain", b"content-length: %d" % len(BODY)):
        require(b"\r\n" + name in head.lower(), "no %s in %r" % (name.decode(), head))


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


def check(running, is_close):
    """Return the length of a reply. Raise Failed if the server is wrong."""
    context = make_context() if running.is_tls else None
    try:
        return check_all(running, context, is_close)
    except OSError as reason:
        raise Failed("no reply: %s" % reason) from reason
