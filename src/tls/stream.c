/*
 * The stream over a TLS connection.
 *
 * What is encrypted is taken: a write that is cut short in the middle of a record leaves the rest
 * to be sent, says that it has taken the bytes, and the next write or flush begins with the rest.
 * What a read that is cut short has got of a record is kept in the same way, by OpenSSL.
 */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* What a record holds (RFC 8446, 5.1). */
#define RECORD_BYTES ((size_t)16 << 10)
/* What one write takes: some records, so that there are not too many system calls. */
#define WRITE_BYTES_MAX (4 * RECORD_BYTES)
/* What a record is longer than what is in it, and what else may be in the way: an estimate. */
#define OVERHEAD_BYTES ((size_t)256)
/* What one who only reads may cause to be sent, before it has to wait until it is. */
#define ANSWERS_BYTES_MAX ((size_t)16 << 10)
/* How long a close waits for room for its last word, in seconds. */
#define GOODBYE_S 2.0

static void enter(weft__tls_conn *c)
{
    c->users++;
}

/* The last one frees it; it must not be used afterwards. */
static ssize_t leave(weft__tls_conn *c, ssize_t result)
{
    if (--c->users == 0)
        weft__tls_conn_free(c);
    return result;
}

static bool is_gone(const weft__tls_conn *c)
{
    return c->is_closed || weft__tls_is_over();
}

/* A call of OpenSSL has failed for good. */
static int break_off(weft__tls_conn *c)
{
    c->broken = weft__tls_explain(c);
    weft__tls_push(c); /* the alert */
    return c->broken;
}

/* Before waiting for input. One who asks and does not listen is not to fill our memory. */
static int send_answers(weft__tls_conn *c)
{
    return weft__tls_held(&c->out) > ANSWERS_BYTES_MAX ? weft__tls_drain(c)
                                                       : weft__tls_send_meanwhile(c);
}

/* What SSL_read waits for: 1 when it may be called again. */
static ssize_t more_input(weft__tls_conn *c)
{
    int rc = send_answers(c);
    if (rc < 0)
        return rc;
    ssize_t n = weft__tls_fill(c);
    if (n != 0)
        return n;
    return weft_fail(-ECONNRESET, "TLS: the connection was closed without a last word");
}

static ssize_t read_data(weft__tls_conn *c, void *data, size_t bytes)
{
    for (;;) {
        if (is_gone(c))
            return -EBADF;
        if (c->broken < 0)
            return c->broken;
        size_t n = 0;
        weft__tls_begin();
        int rc = SSL_read_ex(c->ssl, data, bytes, &n);
        if (rc == 1)
            return (ssize_t)n;
        int why = SSL_get_error(c->ssl, rc);
        if (why == SSL_ERROR_ZERO_RETURN)
            return 0;
        if (why == SSL_ERROR_WANT_WRITE)
            return -ENOMEM; /* the only reason that our BIO has */
        if (why != SSL_ERROR_WANT_READ)
            return break_off(c);
        ssize_t more = more_input(c);
        if (more <= 0)
            return more;
    }
}

static ssize_t conn_read(void *ctx, void *data, size_t bytes)
{
    weft__tls_conn *c = ctx;
    enter(c);
    return leave(c, bytes > 0 ? read_data(c, data, bytes) : 0);
}

/* Pieces that go out together, as one run of bytes. */
typedef struct run {
    const struct iovec *pieces;
    int count;
    size_t done; /* bytes of the first of them */
} run;

static void skip(run *r, size_t bytes)
{
    r->done += bytes;
    while (r->count > 0 && r->done >= r->pieces->iov_len) {
        r->done -= r->pieces->iov_len;
        r->pieces++;
        r->count--;
    }
}

/* Up to a record of what is left, in one piece: in place, or copied to room. */
static const char *next_record(const run *r, char *room, size_t *bytes)
{
    const struct iovec *piece = r->pieces;
    const char *start = (const char *)piece->iov_base + r->done;
    *bytes = piece->iov_len - r->done;
    if (*bytes >= RECORD_BYTES || r->count == 1) {
        *bytes = *bytes < RECORD_BYTES ? *bytes : RECORD_BYTES;
        return start;
    }
    memcpy(room, start, *bytes);
    for (int i = 1; i < r->count && *bytes < RECORD_BYTES; i++) {
        size_t n = RECORD_BYTES - *bytes;
        n = n < piece[i].iov_len ? n : piece[i].iov_len;
        if (n > 0)
            memcpy(room + *bytes, piece[i].iov_base, n);
        *bytes += n;
    }
    return room;
}

/* One record. Returns 1 if it is in out, 0 if OpenSSL has to read something first. */
static int encrypt_record(weft__tls_conn *c, const char *data, size_t bytes)
{
    size_t n = 0;
    weft__tls_begin();
    int rc = SSL_write_ex(c->ssl, data, bytes, &n);
    if (rc == 1)
        return 1;
    int why = SSL_get_error(c->ssl, rc);
    if (why == SSL_ERROR_WANT_READ)
        return 0;
    return why == SSL_ERROR_WANT_WRITE ? (c->broken = -ENOMEM) : break_off(c);
}

static size_t bytes_of(const struct iovec *pieces, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    return bytes;
}

/* What becomes of so many bytes: as far as one call takes them. */
static size_t encrypted_bytes_max(size_t bytes)
{
    bytes = bytes < WRITE_BYTES_MAX ? bytes : WRITE_BYTES_MAX;
    return bytes + (bytes / RECORD_BYTES + 2) * OVERHEAD_BYTES;
}

/* Some records. Returns how many bytes are in out, 0 if OpenSSL has to read something first. */
static ssize_t encrypt(weft__tls_conn *c, const struct iovec *pieces, int count)
{
    run r = {pieces, count, 0};
    size_t taken = 0, total = bytes_of(pieces, count);
    if (weft__tls_reserve(&c->out, encrypted_bytes_max(total)) < 0)
        return -ENOMEM;
    skip(&r, 0);
    char *room = r.count > 1 ? malloc(RECORD_BYTES < total ? RECORD_BYTES : total) : NULL;
    if (r.count > 1 && room == NULL)
        return -ENOMEM;
    int rc = 1;
    while (r.count > 0 && taken < WRITE_BYTES_MAX && rc == 1) {
        size_t bytes;
        const char *data = next_record(&r, room, &bytes);
        rc = encrypt_record(c, data, bytes);
        if (rc == 1) {
            taken += bytes;
            skip(&r, bytes);
        }
    }
    free(room);
    return taken > 0 ? (ssize_t)taken : rc;
}

/* The error that could not be returned when it happened. */
static int take_unsaid(weft__tls_conn *c)
{
    int error = c->unsaid;
    c->unsaid = 0;
    return error;
}

/* Nothing is taken from one who is cancelled: it could be told of that only later. */
static int check_write(weft__tls_conn *c)
{
    int rc = take_unsaid(c);
    if (rc == 0)
        rc = is_gone(c) ? -EBADF : c->broken;
    if (rc == 0 && c->is_finished)
        rc = -EPIPE;
    return rc == 0 && weft_is_cancelled() ? -ECANCELED : rc;
}

/* The caller holds out_lock. */
static ssize_t send_pieces(weft__tls_conn *c, const struct iovec *pieces, int count)
{
    int rc = weft__tls_send_all(c);
    if (rc == 0)
        rc = check_write(c);
    if (rc < 0)
        return rc;
    ssize_t taken = encrypt(c, pieces, count);
    if (taken <= 0)
        return taken;
    rc = weft__tls_send_all(c);
    if (rc != -ECANCELED) /* which tells itself again */
        c->unsaid = rc;
    return taken;
}

static ssize_t write_pieces(weft__tls_conn *c, const struct iovec *pieces, int count)
{
    ssize_t n = 0;
    while (n == 0) {
        int rc = weft_mutex_lock(&c->out_lock);
        if (rc < 0)
            return rc;
        n = send_pieces(c, pieces, count);
        weft_mutex_unlock(&c->out_lock);
        if (n != 0)
            break;
        /* In the middle of a message about keys that came in several records. */
        ssize_t more = weft__tls_fill(c);
        if (more <= 0)
            return more < 0 ? more : -ECONNRESET;
    }
    if (c->broken < 0)
        weft__tls_push(c); /* the alert */
    return n;
}

static ssize_t conn_writev(void *ctx, const struct iovec *pieces, int count)
{
    weft__tls_conn *c = ctx;
    enter(c);
    return leave(c, bytes_of(pieces, count) > 0 ? write_pieces(c, pieces, count) : 0);
}

static int conn_flush(void *ctx)
{
    weft__tls_conn *c = ctx;
    int rc = take_unsaid(c);
    if (rc < 0)
        return rc;
    enter(c);
    return (int)leave(c, is_gone(c) ? -EBADF : weft__tls_drain(c));
}

/* Without holding memory. */
static int wait_for_descriptor(weft__tls_conn *c)
{
    int rc = send_answers(c);
    if (rc == 0)
        rc = weft_mutex_lock(&c->in_lock);
    if (rc < 0)
        return rc;
    if (weft__tls_held(&c->in) == 0)
        weft__tls_release(&c->in);
    (void)SSL_free_buffers(c->ssl); /* unless something is in them */
    rc = c->is_closed ? -EBADF : weft_wait_fd(c->fd, POLLIN);
    weft_mutex_unlock(&c->in_lock);
    return rc < 0 ? rc : 0;
}

/* Whether read would return at once: with bytes, the end or an error. */
static bool is_readable(weft__tls_conn *c)
{
    char byte;
    size_t n;
    if (c->broken < 0 || (c->is_ended && weft__tls_held(&c->in) == 0))
        return true;
    weft__tls_begin();
    int rc = SSL_peek_ex(c->ssl, &byte, 1, &n);
    int why = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, rc);
    if (why != SSL_ERROR_NONE && why != SSL_ERROR_ZERO_RETURN && why != SSL_ERROR_WANT_READ &&
        why != SSL_ERROR_WANT_WRITE)
        break_off(c);
    return why != SSL_ERROR_WANT_READ;
}

/* What comes may be for OpenSSL alone (a ticket, a key), or only half of a record. */
static int wait_for_input(weft__tls_conn *c)
{
    while (!is_gone(c)) {
        if (is_readable(c))
            return 0;
        int rc = wait_for_descriptor(c);
        ssize_t n = rc < 0 ? rc : weft__tls_fill(c);
        if (n < 0)
            return (int)n;
    }
    return -EBADF;
}

static int conn_wait(void *ctx)
{
    weft__tls_conn *c = ctx;
    enter(c);
    return (int)leave(c, wait_for_input(c));
}

/* Have OpenSSL write the last word of this side. */
static void write_goodbye(weft__tls_conn *c)
{
    c->is_finished = true;
    ERR_clear_error();
    (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
}

/* Tell the other side that this is the end, if that can be had without waiting for long. */
static void say_goodbye(weft__tls_conn *c)
{
    if (is_gone(c) || c->broken < 0 || weft_mutex_owner(&c->out_lock) != 0)
        return;
    if (!c->is_finished)
        write_goodbye(c);
    weft__tls_push(c);
    if (!weft__tls_has_output(c))
        return;
    WEFT_MOVE_ON_AFTER(GOODBYE_S) {
        (void)weft__tls_drain(c);
    }
}

static int conn_close(void *ctx)
{
    weft__tls_conn *c = ctx;
    say_goodbye(c);
    if (c->broken < 0)
        weft__tls_hang_up(c);
    c->is_closed = true;
    return (int)leave(c, weft_close(c->fd));
}

const weft_stream_type weft__tls_stream = {conn_read, conn_writev, conn_close, conn_wait,
                                           conn_flush};

static int finish(weft__tls_conn *c)
{
    if (is_gone(c))
        return -EBADF;
    if (c->broken < 0)
        return c->broken;
    if (!c->is_finished)
        write_goodbye(c);
    int rc = weft__tls_drain(c);
    return rc < 0 ? rc : weft_shutdown(c->fd, SHUT_WR);
}

int weft_tls_shutdown(weft_stream *stream)
{
    int rc = weft_stream_flush(stream);
    if (rc < 0)
        return rc;
    weft__tls_conn *c = weft_stream_ctx(stream, &weft__tls_stream);
    if (c == NULL)
        return -EINVAL;
    enter(c);
    return (int)leave(c, finish(c));
}
