/*
 * Read the header of a connection (proxy_protocol.h). The call takes exactly the header from the
 * socket, because TLS and the codecs read the socket next. It therefore looks at the received bytes
 * first (MSG_PEEK).
 */
#include "http/proxy_protocol/proxy_protocol.h"

#include <weft/io.h>
#include <weft/net.h>

#include <sys/socket.h>

/* Read exactly this number of bytes. Returns 0 or an error. */
static int take_bytes(int fd, uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = weft_recv(fd, data, bytes, 0);
        if (n <= 0)
            return n < 0 ? (int)n : -ECONNRESET;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Read and discard the rest of a header. */
static int skip_bytes(int fd, size_t bytes)
{
    uint8_t data[256];
    int rc = 0;
    while (rc == 0 && bytes > 0) {
        size_t part = bytes < sizeof data ? bytes : sizeof data;
        rc = take_bytes(fd, data, part);
        bytes -= part;
    }
    return rc;
}

/* Read a header. Returns 0, or an error as in weft__proxy_header_accept. */
static int read_header(int fd, weft__proxy_header *header)
{
    uint8_t data[WEFT__PROXY_HEADER_BYTES];
    size_t taken = 0;
    for (;;) {
        ssize_t n = weft_recv(fd, data + taken, sizeof data - taken, MSG_PEEK);
        if (n <= 0)
            return n < 0 ? (int)n : -ECONNRESET;
        size_t arrived = taken + (size_t)n;
        ssize_t length = weft__proxy_header_parse(header, data, arrived);
        if (length < 0)
            return (int)length;
        size_t end = length > 0 && (size_t)length < arrived ? (size_t)length : arrived;
        int rc = take_bytes(fd, data + taken, end - taken);
        if (rc < 0)
            return rc;
        taken = end;
        if (length > 0)
            return skip_bytes(fd, (size_t)length - taken);
    }
}

/* Count the connection for its client, and no longer for the sender of the header. */
static int change_peer(weft__conn *c, weft__peer *peer, const weft__ip *client)
{
    weft__server *s = c->server;
    const weft__peer next = {.ip = *client};
    bool is_counted = s->group != NULL; /* false: weft_http_serve_conn */
    int rc = is_counted ? weft__conn_limit_enter(&s->conn_limit, &next,
                                                 s->options.limits.connections_per_peer_max)
                        : 0;
    if (rc < 0)
        return rc;
    if (is_counted)
        weft__conn_limit_leave(&s->conn_limit, peer);
    *peer = c->peer = next;
    return 0;
}

static const char *reason_of(int error)
{
    switch (error) {
    case -EBADMSG:
        return "a malformed header of the PROXY protocol";
    case -EMSGSIZE:
        return "a too long header of the PROXY protocol";
    case -ETIMEDOUT:
        return "no header of the PROXY protocol in time";
    default:
        return NULL; /* the peer is gone, or the server ends */
    }
}

/* Log a connection without a valid header. The record has no request and the status 0. */
static void log_failure(const weft__conn *c, int error)
{
    const weft_http_options *o = &c->server->options;
    char peer[WEFT__IP_TEXT_BYTES] = "unix";
    const char *reason = reason_of(error);
    if (o->log == NULL || reason == NULL)
        return;
    if (!c->peer.is_unix)
        weft__ip_write(&c->peer.ip, peer);
    const weft_http_record record = {.peer = peer,
                                     .method = "",
                                     .target = "",
                                     .host = "",
                                     .referer = "",
                                     .user_agent = "",
                                     .reason = reason};
    o->log(&record, o->log_ctx);
}

/* Read the header in a scope that the drain can cancel. */
static int read_header_in_time(weft__conn *c, weft__proxy_header *header)
{
    weft_scope scope;
    int rc = c->server->is_draining
                 ? -ECANCELED
                 : weft_scope_open(&scope, c->server->options.limits.first_byte_s);
    if (rc < 0)
        return rc;
    c->wait_scope = &scope;
    rc = read_header(c->fd, header);
    c->wait_scope = NULL;
    int late = weft_scope_close(&scope);
    return rc == -ECANCELED && late < 0 ? late : rc;
}

int weft__proxy_header_accept(weft__conn *c, weft__peer *peer)
{
    weft__proxy_header header;
    if (!weft__proxy_header_is_due(c->server, peer))
        return 0;
    int rc = read_header_in_time(c, &header);
    if (rc == 0 && header.has_client) {
        rc = change_peer(c, peer, &header.client);
        if (rc < 0) {
            weft__server_turn_away(c->server, c->fd, rc == -EBUSY ? 429 : 503);
            return rc;
        }
    }
    if (rc == 0)
        return 0;
    log_failure(c, rc);
    weft_close(c->fd);
    return rc;
}
