/*
 * The stream over a TLS connection.
 *
 * A write has accepted bytes when OpenSSL has encrypted them. An interrupted write returns the
 * number of accepted bytes. The next write or flush first sends the accepted bytes that are not
 * sent yet. If a read is interrupted within a record, OpenSSL keeps the received part of the
 * record.
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

/* The maximum data in a record (RFC 8446, 5.1). */
#define RECORD_BYTES ((size_t)16 << 10)
/* The maximum data of one write: several records, to save system calls. */
#define WRITE_BYTES_MAX (4 * RECORD_BYTES)
/* An estimate of the additional bytes of a record, and of other output before the record. */
#define OVERHEAD_BYTES ((size_t)256)
/* The maximum unsent output during a read. Beyond this limit, the read first sends the output. */
#define OUTPUT_BYTES_MAX ((size_t)16 << 10)
/* The maximum time that a close waits to send close_notify. */
#define CLOSE_NOTIFY_S 2.0

static void conn_enter(weft__tls_conn *c)
{
    c->users++;
}

/* End a call and return its result. The last user frees c. The caller must not use c afterwards. */
static ssize_t conn_leave(weft__tls_conn *c, ssize_t result)
{
    if (--c->users == 0)
        weft__tls_conn_free(c);
    return result;
}

static bool conn_is_unusable(const weft__tls_conn *c)
{
    return c->is_closed || weft__tls_is_cleaned_up();
}

/* Handle a permanent failure of a call of OpenSSL. Send the alert. */
static int conn_fail(weft__tls_conn *c)
{
    c->failure = weft__tls_error_explain(c);
    weft__tls_conn_try_send(c);
    return c->failure;
}

/* Send output before a wait for input. Limit the output for a peer that does not read. */
static int conn_send_output(weft__tls_conn *c)
{
    return weft__tls_buffer_held(&c->out) > OUTPUT_BYTES_MAX ? weft__tls_conn_drain(c)
                                                             : weft__tls_conn_send_before_wait(c);
}

/* Read more input for OpenSSL. Return a positive number or an error. */
static ssize_t conn_more_input(weft__tls_conn *c)
{
    int rc = conn_send_output(c);
    if (rc < 0)
        return rc;
    ssize_t n = weft__tls_conn_fill(c);
    if (n != 0)
        return n;
    return weft_fail(-ECONNRESET, "TLS: the peer closed the connection without close_notify");
}

static ssize_t conn_read_data(weft__tls_conn *c, void *data, size_t bytes)
{
    for (;;) {
        if (conn_is_unusable(c))
            return -EBADF;
        if (c->failure < 0)
            return c->failure;
        size_t n = 0;
        weft__tls_clear_errors();
        int rc = SSL_read_ex(c->ssl, data, bytes, &n);
        if (rc == 1)
            return (ssize_t)n;
        int ssl_error = SSL_get_error(c->ssl, rc);
        if (ssl_error == SSL_ERROR_ZERO_RETURN)
            return 0;
        if (ssl_error == SSL_ERROR_WANT_WRITE)
            return -ENOMEM; /* a write to the BIO fails only if memory is exhausted */
        if (ssl_error != SSL_ERROR_WANT_READ)
            return conn_fail(c);
        ssize_t more = conn_more_input(c);
        if (more <= 0)
            return more;
    }
}

static ssize_t conn_read(void *ctx, void *data, size_t bytes)
{
    weft__tls_conn *c = ctx;
    conn_enter(c);
    return conn_leave(c, bytes > 0 ? conn_read_data(c, data, bytes) : 0);
}

/* A position in an array of buffers. */
typedef struct iov_cursor {
    const struct iovec *iov;
    int count;
    size_t done; /* bytes of the first buffer before the position */
} iov_cursor;

static void iov_cursor_skip(iov_cursor *r, size_t bytes)
{
    r->done += bytes;
    while (r->count > 0 && r->done >= r->iov->iov_len) {
        r->done -= r->iov->iov_len;
        r->iov++;
        r->count--;
    }
}

/* Return up to one record of contiguous bytes: in place, or copied to copy. */
static const char *next_record(const iov_cursor *r, char *copy, size_t *bytes)
{
    const struct iovec *iov = r->iov;
    const char *start = (const char *)iov->iov_base + r->done;
    *bytes = iov->iov_len - r->done;
    if (*bytes >= RECORD_BYTES || r->count == 1) {
        *bytes = *bytes < RECORD_BYTES ? *bytes : RECORD_BYTES;
        return start;
    }
    memcpy(copy, start, *bytes);
    for (int i = 1; i < r->count && *bytes < RECORD_BYTES; i++) {
        size_t n = RECORD_BYTES - *bytes;
        n = n < iov[i].iov_len ? n : iov[i].iov_len;
        if (n > 0)
            memcpy(copy + *bytes, iov[i].iov_base, n);
        *bytes += n;
    }
    return copy;
}

/* Encrypt one record to out. Return 1, 0 if OpenSSL needs input first, or an error. */
static int encrypt_record(weft__tls_conn *c, const char *data, size_t bytes)
{
    size_t n = 0;
    weft__tls_clear_errors();
    int rc = SSL_write_ex(c->ssl, data, bytes, &n);
    if (rc == 1)
        return 1;
    int ssl_error = SSL_get_error(c->ssl, rc);
    if (ssl_error == SSL_ERROR_WANT_READ)
        return 0;
    return ssl_error == SSL_ERROR_WANT_WRITE ? (c->failure = -ENOMEM) : conn_fail(c);
}

static size_t iov_bytes(const struct iovec *iov, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

/* Return an estimate of the encrypted length of one write. */
static size_t encrypted_bytes_max(size_t bytes)
{
    bytes = bytes < WRITE_BYTES_MAX ? bytes : WRITE_BYTES_MAX;
    return bytes + (bytes / RECORD_BYTES + 2) * OVERHEAD_BYTES;
}

/*
 * Encrypt several records. Return the number of accepted bytes, 0 if OpenSSL needs input first, or
 * an error.
 */
static ssize_t encrypt_iov(weft__tls_conn *c, const struct iovec *iov, int count)
{
    iov_cursor r = {iov, count, 0};
    size_t taken = 0, total = iov_bytes(iov, count);
    if (weft__tls_buffer_reserve(&c->out, encrypted_bytes_max(total)) < 0)
        return -ENOMEM;
    iov_cursor_skip(&r, 0);
    char *copy = r.count > 1 ? malloc(RECORD_BYTES < total ? RECORD_BYTES : total) : NULL;
    if (r.count > 1 && copy == NULL)
        return -ENOMEM;
    int rc = 1;
    while (r.count > 0 && taken < WRITE_BYTES_MAX && rc == 1) {
        size_t bytes;
        const char *data = next_record(&r, copy, &bytes);
        rc = encrypt_record(c, data, bytes);
        if (rc == 1) {
            taken += bytes;
            iov_cursor_skip(&r, bytes);
        }
    }
    free(copy);
    return taken > 0 ? (ssize_t)taken : rc;
}

/* Return the deferred error of an earlier write, and clear it. */
static int conn_take_deferred_error(weft__tls_conn *c)
{
    int error = c->deferred_error;
    c->deferred_error = 0;
    return error;
}

/*
 * Return 0 if c accepts bytes, or an error. In a cancelled fiber, return -ECANCELED before bytes
 * are accepted, because a write that has accepted bytes cannot report the cancellation.
 */
static int conn_check_write(weft__tls_conn *c)
{
    int rc = conn_take_deferred_error(c);
    if (rc == 0)
        rc = conn_is_unusable(c) ? -EBADF : c->failure;
    if (rc == 0 && c->is_output_ended)
        rc = -EPIPE;
    return rc == 0 && weft_is_cancelled() ? -ECANCELED : rc;
}

/*
 * Encrypt and send. Return the result of encrypt_iov, or an error. The caller must hold out_lock.
 */
static ssize_t conn_send_iov(weft__tls_conn *c, const struct iovec *iov, int count)
{
    int rc = conn_take_deferred_error(c); /* return a deferred interrupt before waiting again */
    if (rc == 0)
        rc = weft__tls_conn_send_all(c);
    if (rc == 0)
        rc = conn_check_write(c);
    if (rc < 0)
        return rc;
    ssize_t taken = encrypt_iov(c, iov, count);
    if (taken <= 0)
        return taken;
    rc = weft__tls_conn_send_all(c);
    if (rc != -ECANCELED) /* the next call detects the cancellation itself */
        c->deferred_error = rc;
    return taken;
}

static ssize_t conn_write_iov(weft__tls_conn *c, const struct iovec *iov, int count)
{
    ssize_t n = 0;
    while (n == 0) {
        int rc = weft_mutex_lock(&c->out_lock);
        if (rc < 0)
            return rc;
        n = conn_send_iov(c, iov, count);
        weft_mutex_unlock(&c->out_lock);
        if (n != 0)
            break;
        /* OpenSSL has received a part of a key update and needs the rest. */
        ssize_t more = weft__tls_conn_fill(c);
        if (more <= 0)
            return more < 0 ? more : -ECONNRESET;
    }
    if (c->failure < 0)
        weft__tls_conn_try_send(c); /* conn_fail could not send the alert with out_lock held */
    return n;
}

static ssize_t conn_writev(void *ctx, const struct iovec *iov, int count)
{
    weft__tls_conn *c = ctx;
    conn_enter(c);
    return conn_leave(c, iov_bytes(iov, count) > 0 ? conn_write_iov(c, iov, count) : 0);
}

static int conn_flush(void *ctx)
{
    weft__tls_conn *c = ctx;
    int rc = conn_take_deferred_error(c);
    if (rc < 0)
        return rc;
    conn_enter(c);
    return (int)conn_leave(c, conn_is_unusable(c) ? -EBADF : weft__tls_conn_drain(c));
}

/* Free the buffers and wait for input. */
static int conn_wait_for_fd(weft__tls_conn *c)
{
    int rc = conn_send_output(c);
    if (rc == 0)
        rc = weft_mutex_lock(&c->in_lock);
    if (rc < 0)
        return rc;
    if (weft__tls_buffer_held(&c->in) == 0)
        weft__tls_buffer_release(&c->in);
    (void)SSL_free_buffers(c->ssl); /* fails if the buffers are in use */
    rc = c->is_closed ? -EBADF : weft_wait_fd(c->fd, POLLIN);
    weft_mutex_unlock(&c->in_lock);
    return rc < 0 ? rc : 0;
}

/* Return whether a read would return without waiting: bytes, the end or an error. */
static bool conn_is_readable(weft__tls_conn *c)
{
    char byte;
    size_t n;
    if (c->failure < 0 || (c->is_input_ended && weft__tls_buffer_held(&c->in) == 0))
        return true;
    weft__tls_clear_errors();
    int rc = SSL_peek_ex(c->ssl, &byte, 1, &n);
    int ssl_error = rc == 1 ? SSL_ERROR_NONE : SSL_get_error(c->ssl, rc);
    if (ssl_error != SSL_ERROR_NONE && ssl_error != SSL_ERROR_ZERO_RETURN &&
        ssl_error != SSL_ERROR_WANT_READ && ssl_error != SSL_ERROR_WANT_WRITE)
        conn_fail(c);
    return ssl_error != SSL_ERROR_WANT_READ;
}

/* Wait in a loop, because input may be only a ticket, a key update or a part of a record. */
static int conn_wait_for_input(weft__tls_conn *c)
{
    while (!conn_is_unusable(c)) {
        if (conn_is_readable(c))
            return 0;
        int rc = conn_wait_for_fd(c);
        ssize_t n = rc < 0 ? rc : weft__tls_conn_fill(c);
        if (n < 0)
            return (int)n;
    }
    return -EBADF;
}

static int conn_wait(void *ctx)
{
    weft__tls_conn *c = ctx;
    conn_enter(c);
    return (int)conn_leave(c, conn_wait_for_input(c));
}

/* Append close_notify to the output. */
static void write_close_notify(weft__tls_conn *c)
{
    c->is_output_ended = true;
    ERR_clear_error();
    (void)SSL_shutdown(c->ssl);
    ERR_clear_error();
}

/* Send close_notify. Do nothing if another fiber is writing. */
static void send_close_notify(weft__tls_conn *c)
{
    if (conn_is_unusable(c) || c->failure < 0 || weft_mutex_owner(&c->out_lock) != 0)
        return;
    if (!c->is_output_ended)
        write_close_notify(c);
    weft__tls_conn_try_send(c);
    if (!weft__tls_conn_has_output(c))
        return;
    WEFT_MOVE_ON_AFTER(CLOSE_NOTIFY_S) {
        (void)weft__tls_conn_drain(c);
    }
}

static int conn_close(void *ctx)
{
    weft__tls_conn *c = ctx;
    send_close_notify(c);
    if (c->failure < 0)
        weft__tls_conn_hang_up(c);
    c->is_closed = true;
    return (int)conn_leave(c, weft_close(c->fd));
}

const weft_stream_type weft__tls_stream = {conn_read, conn_writev, conn_close, conn_wait,
                                           conn_flush};

static int conn_shutdown(weft__tls_conn *c)
{
    if (conn_is_unusable(c))
        return -EBADF;
    if (c->failure < 0)
        return c->failure;
    if (!c->is_output_ended)
        write_close_notify(c);
    int rc = weft__tls_conn_drain(c);
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
    conn_enter(c);
    return (int)conn_leave(c, conn_shutdown(c));
}
