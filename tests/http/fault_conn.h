/* A connection to a handler, for the fault tests of the server, of files and of the proxy. */
#ifndef TESTS_HTTP_FAULT_CONN_H
#define TESTS_HTTP_FAULT_CONN_H

#include "support/fault.h"

#include <weft/web.h>

/* The served end of the connection. */
static struct fault_conn {
    int pair[2];
    weft_http_handler *handler;
    void *ctx;
    const weft_http_options *options;
    bool is_open; /* do not half-close after the request */
} fault_conn;

static char fault_received[65536];
static size_t fault_received_bytes;

static weft_value serve_fault_conn(void *arg)
{
    (void)arg;
    (void)weft_http_serve_conn(fault_conn.pair[1], fault_conn.handler, fault_conn.ctx,
                               fault_conn.options);
    return 0;
}

/* Send bytes at once and return all responses. */
static inline const char *fault_exchange_bytes(const void *requests, size_t requests_bytes)
{
    size_t bytes = 0;
    ssize_t n = 0;
    int fd;
    WITHOUT_FAULTS(REQUIRE(weft_socketpair(fault_conn.pair) == 0));
    fd = fault_conn.pair[0];
    weft_fiber f = require_created(weft_spin(serve_fault_conn, NULL));
    if (f == 0) {
        weft_close(fault_conn.pair[1]);
    } else if (REQUIRE_OR_PEER_FAULT(weft_write_all(fd, requests, requests_bytes))) {
        if (!fault_conn.is_open)
            (void)weft_shutdown(fd, SHUT_WR);
        while (bytes + 1 < sizeof fault_received &&
               (n = weft_read(fd, fault_received + bytes, sizeof fault_received - 1 - bytes)) > 0)
            bytes += (size_t)n;
        REQUIRE(n == 0 || fault_explains_at_peer(n));
    }
    weft_close(fd);
    if (f != 0)
        REQUIRE(weft_await(f) == 0);
    fault_received[bytes] = '\0';
    fault_received_bytes = bytes;
    return fault_received;
}

/* Send the requests at once and return all responses. */
static inline const char *fault_exchange(const char *requests)
{
    return fault_exchange_bytes(requests, strlen(requests));
}

/*
 * Handlers of both protocols.
 */

static inline int reply_in_pieces(weft_http_request *r)
{
    int rc = weft_http_set(r, "X-Long", "a header of some length");
    for (int i = 0; i < 3 && rc >= 0; i++) {
        rc = (int)weft_http_printf(r, "piece %d %0*d;", i, 3000 * (i == 1), 0);
        if (rc >= 0)
            rc = weft_http_flush(r);
    }
    return rc < 0 ? rc : weft_http_set_trailer(r, "X-End", "yes");
}

static inline int echo_line(weft_http_request *r)
{
    weft_stream *stream;
    char *line;
    int rc = weft_http_upgrade(r, "echo", &stream);
    if (rc == 0)
        rc = weft_stream_line(stream, &line, NULL);
    return rc <= 0 ? rc : (int)weft_stream_printf(stream, "<%s>", line);
}

#endif
