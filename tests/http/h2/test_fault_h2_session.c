/*
 * HTTP/2 sessions with faults: the n-th call fails, as in test_fault.c, also in nghttp2. Each
 * exchange is complete, or ends with an error at both ends. Nothing is leaked.
 */
#include "support/fault.h"

#include "http/h2/h2_support.h"

/* Open both ends. Returns whether both are open. */
static bool open_with_faults(h2_handler *handler)
{
    int fd[2];
    h2_set_up();
    WITHOUT_FAULTS(REQUIRE(weft_socketpair(fd) == 0));
    server.handler = handler;
    if (!REQUIRE_OR_FAULT(h2_end_open(&server, fd[0]))) {
        weft_close(fd[1]);
        return false;
    }
    if (REQUIRE_OR_FAULT(h2_end_open(&client, fd[1])))
        return true;
    REQUIRE(weft_await(server.fiber) == 0);
    return false;
}

static bool close_with_faults(bool is_done)
{
    weft__h2_session_goaway(&client.session, NGHTTP2_NO_ERROR);
    /* Without memory for GOAWAY the client does not end. */
    if (!client.session.is_goaway_sent)
        (void)weft_cancel(client.fiber);
    (void)weft_await(client.fiber);
    REQUIRE(weft_await(server.fiber) == 0);
    REQUIRE(server.session.buffered_bytes == 0 && client.session.buffered_bytes == 0);
    return is_done && client.result == 0 && server.result == 0;
}

static bool is_fault(long result)
{
    bool is_shut = result == -ESHUTDOWN && client.session.failure < 0;
    REQUIRE(result >= 0 || is_shut || fault_explains_at_peer(result));
    return result < 0;
}

/* Echo the body of a request with trailers. */
static int echo_with_trailers(h2_exchange *x)
{
    const nghttp2_nv early[] = {h2_nv(":status", "103"), h2_nv("link", "</a>")};
    const nghttp2_nv trailer = h2_nv("x-sum", "42");
    const void *piece;
    ssize_t n = 0;
    int rc = weft__h2_stream_interim(&x->st, early, 2);
    if (rc == 0)
        rc = weft__h2_stream_head(&x->st, H2_OK, false);
    while (rc >= 0 && (n = weft__h2_stream_piece(&x->st, &piece)) > 0)
        rc = (int)weft__h2_stream_write(&x->st, piece, (size_t)n);
    if (rc >= 0 && n >= 0)
        rc = weft__h2_stream_end_with(&x->st, &trailer, 1);
    return rc < 0 ? rc : (int)n;
}

/* The length of the body. It exceeds the window, and needs several chunks. */
#define BODY_BYTES ((size_t)100000)

static weft_value upload_with_faults(void *arg)
{
    h2_exchange *x = arg;
    static char body[BODY_BYTES];
    h2_fill_body(body, sizeof body);
    ssize_t n = 0;
    for (size_t done = 0; done < sizeof body && n >= 0; done += n > 0 ? (size_t)n : 0)
        n = weft__h2_stream_write(&x->st, body + done, sizeof body - done);
    if (n >= 0)
        n = weft__h2_stream_end(&x->st);
    return is_fault(n) ? 1 : 0;
}

static bool exchange_with_faults(h2_exchange *x)
{
    if (is_fault(weft__h2_stream_open(&client.session, &x->st, H2_POST, false)))
        return false;
    weft_fiber f = require_created(weft_spin(upload_with_faults, x));
    if (f == 0)
        return false;
    ssize_t n = h2_check_body(x);
    if (is_fault(n))
        weft__h2_stream_reset(&x->st, NGHTTP2_CANCEL);
    bool is_sent = weft_await(f) == 0;
    REQUIRE(n < 0 || n == (ssize_t)BODY_BYTES);
    return n >= 0 && is_sent && strcmp(x->heads, "IRT") == 0;
}

TEST_FAULTS(an_exchange_is_complete_or_fails)
{
    if (!open_with_faults(echo_with_trailers))
        return false;
    h2_exchange x = {.end = &client};
    bool is_done = exchange_with_faults(&x);
    weft__h2_stream_close(&x.st, NGHTTP2_CANCEL);
    return close_with_faults(is_done);
}

TEST_FAULTS(ten_streams_are_complete_or_fail)
{
    static h2_exchange x[10];
    char text[64];
    bool is_done = true;
    if (!open_with_faults(say_hello))
        return false;
    for (size_t i = 0; i < COUNT_OF(x); i++) {
        x[i] = (h2_exchange){.end = &client};
        is_done &= !is_fault(weft__h2_stream_open(&client.session, &x[i].st, H2_GET, true));
    }
    for (size_t i = 0; i < COUNT_OF(x); i++) {
        ssize_t n = x[i].st.session != NULL ? h2_read_all(&x[i], text) : -ENOMEM;
        is_done &= !is_fault(n);
        REQUIRE(n < 0 || (n == 5 && memcmp(text, "hello", 5) == 0));
        weft__h2_stream_close(&x[i].st, NGHTTP2_CANCEL);
    }
    return close_with_faults(is_done);
}
