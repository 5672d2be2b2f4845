/*
 * The connection to one server: dial, handshake, read and write.
 *
 * The handshake: the server sends INFO in plain. If TLS is needed, the TLS handshake follows. The
 * client sends CONNECT and PING, and the server replies PONG, or -ERR.
 */
#include "hub/client/hub.h"

#include "hub/broker/connect.h"
#include "hub/client/credentials.h"

#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>
#include <weft/stream.h>
#include <weft/time.h>
#include <weft/tls.h>
#include <weft/version.h>

#define INPUT_BYTES (64 * 1024)

/* Operations that a server may send between INFO and PONG. */
#define HANDSHAKE_OPS_MAX 16

void weft__session_close(weft_hub *hub)
{
    if (hub->session.server == NULL)
        return;
    weft_stream_close(&hub->session.stream);
    hub->session.fd = -1;
    hub->session.server = NULL;
}

ssize_t weft__session_read(weft_hub *hub, weft__op_line *op)
{
    size_t need = 1;
    for (;;) {
        const void *data;
        ssize_t n = weft_stream_peek(&hub->session.stream, need, &data);
        if (n < 0)
            return n;
        if ((size_t)n < need)
            return weft_fail(-ECONNRESET, "the server has closed the connection");
        n = weft__wire_parse(data, (size_t)n, hub->options.message_bytes, op, &need);
        if (n < 0)
            return weft_fail((int)n, "the server does not speak the protocol of NATS");
        if (n > 0)
            return n;
    }
}

/*
 * A plain descriptor is written without the buffer of the stream. Another fiber may close the
 * connection and open the next one during a write: the rest is then not for the new one.
 */
static int session_write_plain(weft_hub *hub, const char *data, size_t bytes)
{
    uint64_t serial = hub->session.serial;
    while (bytes > 0) {
        ssize_t n = weft_write(hub->session.fd, data, bytes);
        if (n < 0)
            return (int)n;
        if (serial != hub->session.serial || hub->session.fd < 0)
            return -ECONNRESET;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int session_write_stream(weft_hub *hub, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = weft_stream_write(&hub->session.stream, data, bytes);
        if (n < 0)
            return (int)n;
        data += n;
        bytes -= (size_t)n;
    }
    return weft_stream_flush(&hub->session.stream);
}

int weft__session_write(weft_hub *hub, const void *data, size_t bytes)
{
    return hub->session.has_tls ? session_write_stream(hub, data, bytes)
                                : session_write_plain(hub, data, bytes);
}

/* Hold the broker as long as the hub: its data outlives a broken connection. */
static int session_dial_broker(weft__server *server)
{
    weft_hub_broker *broker = weft_hub_broker_get(server->host);
    if (broker == NULL)
        return weft_error()->code;
    int fd = weft__broker_connect(server->host);
    weft_hub_broker_release(server->broker);
    server->broker = broker;
    return fd;
}

static int session_dial(weft_hub *hub, weft__server *server)
{
    char address[WEFT__SERVER_TEXT_BYTES];
    int fd = server->port == 0 ? session_dial_broker(server)
                               : weft_dial("tcp", weft__server_text(server, address));
    if (fd < 0)
        return fd;
    int rc = weft_stream_open(&hub->session.stream, fd);
    if (rc < 0) {
        weft_close(fd);
        return rc;
    }
    hub->session.server = server;
    hub->session.fd = fd;
    hub->session.has_tls = false;
    hub->session.serial++;
    hub->session.break_code = 0;
    return weft_stream_configure(&hub->session.stream,
                                 &(weft_stream_options){.read_bytes = INPUT_BYTES});
}

/* Read the INFO that a server begins with. */
static int session_read_info(weft_hub *hub)
{
    weft__op_line op;
    ssize_t n = weft__session_read(hub, &op);
    if (n < 0)
        return (int)n;
    if (op.verb == WEFT__VERB_ERR)
        return weft_fail(weft__server_error_code(op.args), "the server says: %.*s",
                         (int)op.args.bytes, op.args.data);
    if (op.verb != WEFT__VERB_INFO)
        return weft_fail(-EPROTO, "the server does not begin with INFO");
    int rc = weft__info_read(hub, op.args);
    if (rc < 0)
        return rc;
    weft_stream_skip(&hub->session.stream, (size_t)n);
    if (!hub->info.has_headers)
        return weft_fail(-EPROTO, "the server has no headers; NATS 2.2 or later is needed");
    return 0;
}

/* Return the configuration for TLS. A hub without one verifies servers by the CAs of the system. */
static weft_tls *session_tls(weft_hub *hub)
{
    if (hub->options.tls != NULL)
        return hub->options.tls;
    if (hub->own_tls == NULL)
        hub->own_tls = weft_tls_client_new(NULL);
    return hub->own_tls;
}

/*
 * Continue with TLS. A server that sends more than INFO in plain would have its bytes read as if
 * they were protected: weft_stream_detach fails then.
 */
static int session_start_tls(weft_hub *hub)
{
    weft__session *session = &hub->session;
    weft_tls *tls = session_tls(hub);
    if (tls == NULL)
        return weft_error()->code;
    int fd = weft_stream_detach(&session->stream);
    if (fd < 0)
        return weft_fail(fd == -ENOTEMPTY ? -EPROTO : fd, "cannot begin TLS after INFO");
    int rc = weft_tls_connect(&session->stream, fd, tls, session->server->tls_name);
    if (rc < 0) {
        session->server = NULL; /* closed by weft_tls_connect */
        session->fd = -1;
        return rc;
    }
    session->has_tls = true;
    return weft_stream_configure(&session->stream,
                                 &(weft_stream_options){.read_bytes = INPUT_BYTES});
}

static int session_secure(weft_hub *hub)
{
    bool is_demanded = hub->session.server->has_tls || hub->options.tls != NULL;
    if (hub->session.server->port == 0 || !(is_demanded || hub->info.needs_tls))
        return 0;
    if (!hub->info.needs_tls && !hub->info.has_tls)
        return weft_fail(-EPROTO, "the server has no TLS");
    return session_start_tls(hub);
}

static int connect_write(weft_hub *hub, weft__buffer *out)
{
    int rc = weft__output_printf(out,
                                 "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,"
                                 "\"no_responders\":true,\"echo\":true,\"protocol\":1,"
                                 "\"lang\":\"c\",\"version\":\"%s\",\"tls_required\":%s,"
                                 "\"name\":",
                                 weft_version(), hub->session.has_tls ? "true" : "false");
    if (rc == 0)
        rc = weft__output_json_string(out, hub->options.name);
    if (rc == 0)
        rc = weft__credentials_write(out, hub->options.credentials, hub->session.server,
                                     hub->info.nonce);
    return rc == 0 ? weft__output_text(out, "}\r\nPING\r\n") : rc;
}

/* Send CONNECT and PING. */
static int session_login(weft_hub *hub)
{
    weft__buffer out = {0};
    int rc = connect_write(hub, &out);
    if (rc == 0)
        rc = weft__session_write(hub, out.data, out.bytes);
    if (out.data != NULL)
        explicit_bzero(out.data, out.bytes);
    weft__buffer_free(&out);
    return rc;
}

/* Handle an operation before the PONG. Returns 1 for the PONG, 0 to go on, or an error. */
static int session_greet(weft_hub *hub, const weft__op_line *op)
{
    switch (op->verb) {
    case WEFT__VERB_PONG:
        return 1;
    case WEFT__VERB_OK:
        return 0;
    case WEFT__VERB_PING:
        return weft__session_write(hub, "PONG\r\n", 6);
    case WEFT__VERB_INFO:
        return weft__info_read(hub, op->args);
    case WEFT__VERB_ERR:
        return weft_fail(weft__server_error_code(op->args), "the server says: %.*s",
                         (int)op->args.bytes, op->args.data);
    default:
        return weft_fail(-EPROTO, "the server sent an operation before PONG");
    }
}

static int session_wait_pong(weft_hub *hub)
{
    for (int i = 0; i < HANDSHAKE_OPS_MAX; i++) {
        weft__op_line op;
        ssize_t n = weft__session_read(hub, &op);
        if (n < 0)
            return (int)n;
        int rc = session_greet(hub, &op);
        if (rc < 0)
            return rc;
        weft_stream_skip(&hub->session.stream, (size_t)n);
        if (rc == 1)
            return 0;
    }
    return weft_fail(-EPROTO, "the server sent %d operations before PONG", HANDSHAKE_OPS_MAX);
}

static int session_establish(weft_hub *hub, weft__server *server)
{
    int rc = session_dial(hub, server);
    if (rc == 0)
        rc = session_read_info(hub);
    if (rc == 0)
        rc = session_secure(hub);
    if (rc == 0)
        rc = session_login(hub);
    if (rc == 0)
        rc = session_wait_pong(hub);
    if (rc == 0 && hub->info.is_lame)
        rc = weft_fail(-ESHUTDOWN, "the server ends soon");
    return rc;
}

int weft__session_open(weft_hub *hub, weft__server *server)
{
    int rc = 0, timeout_rc = 0;
    WEFT_CANCEL_AFTER(hub->options.connect_s, timeout_rc) {
        rc = session_establish(hub, server);
    }
    if (rc < 0)
        weft__session_close(hub);
    if (rc == -ECANCELED && timeout_rc < 0)
        rc = weft_fail(-ETIMEDOUT, "no connection within %g s", hub->options.connect_s);
    if (rc == 0)
        hub->session.since = weft_now();
    return rc;
}
