/*
 * The stream over a TLS connection.
 *
 * Output goes two ways: who writes has it encrypted and sends it, who reads may cause some (an
 * answer to a key update, an alert). All of it is appended to out in the order in which OpenSSL made
 * it; who sends holds out_lock, and moves it to sending first, where nothing is appended any more
 * that could move memory which the kernel reads. What is encrypted is taken: a write that is cut
 * short in the middle of a record leaves the rest in sending, says that it has taken the bytes, and
 * the next write or flush begins with the rest.
 */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <math.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* The largest record (RFC 8446, 5.2) and its header, and a little of the next. */
#define IN_BYTES ((size_t)17 << 10)
#define RECORD_BYTES ((size_t)16 << 10)
/* What one write takes: some records, so that there are not too many system calls. */
#define WRITE_BYTES_MAX (4 * RECORD_BYTES)
/* What a record is longer than what is in it, at most; and what else may be in the way. */
#define OVERHEAD_BYTES ((size_t)512)
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

void weft__tls_conn_free(weft__tls_conn *c)
{
    /* At the end of the process OpenSSL's memory is left to the system. */
    if (!weft__tls_is_over()) {
        SSL_free(c->ssl);
        weft__tls_config_unref(c->config);
    }
    weft__tls_release(&c->in);
    weft__tls_release(&c->out);
    weft__tls_release(&c->sending);
    free(c->server_name);
    free(c->place);
    free(c->alpn);
    free(c->subject);
    weft_tls_free(c->tls);
    free(c);
}

static bool is_gone(const weft__tls_conn *c)
{
    return c->is_closed || weft__tls_is_over();
}

/* Whether something is to be sent. The caller holds out_lock, or will not switch. */
static bool has_output(const weft__tls_conn *c)
{
    return weft__tls_held(&c->sending) + weft__tls_held(&c->out) > 0;
}

/* Move on to what has been appended meanwhile. False: all is sent. */
static bool load_sending(weft__tls_conn *c)
{
    if (weft__tls_held(&c->sending) > 0)
        return true;
    weft__tls_release(&c->sending);
    if (weft__tls_held(&c->out) == 0)
        return false;
    c->sending = c->out;
    c->out = (weft__tls_buffer){0};
    return true;
}

/* The caller holds out_lock. */
static int send_all(weft__tls_conn *c)
{
    while (load_sending(c)) {
        size_t held = weft__tls_held(&c->sending);
        ssize_t n =
            c->is_closed ? -EBADF : weft_write(c->fd, c->sending.data + c->sending.head, held);
        if (n < 0 || (size_t)n > held) /* interrupted with a value that no write returns */
            return n < 0 ? (int)n : -EINTR;
        c->sending.head += (size_t)n;
    }
    return 0;
}

int weft__tls_drain(weft__tls_conn *c)
{
    if (!has_output(c))
        return 0;
    int rc = weft_mutex_lock(&c->out_lock);
    if (rc < 0)
        return rc;
    rc = send_all(c);
    weft_mutex_unlock(&c->out_lock);
    return rc;
}

/* Once, without waiting. The caller holds out_lock; there is something to send. */
static ssize_t send_some(weft__tls_conn *c)
{
    size_t held = weft__tls_held(&c->sending);
    ssize_t n =
        weft_send(c->fd, c->sending.data + c->sending.head, held, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0 && (size_t)n <= held)
        c->sending.head += (size_t)n;
    return n;
}

void weft__tls_push(weft__tls_conn *c)
{
    if (!has_output(c) || c->is_closed || weft_mutex_try_lock(&c->out_lock) < 0)
        return;
    WEFT_SHIELD(INFINITY) {
        while (!c->is_closed && load_sending(c))
            if (send_some(c) < 0)
                break;
    }
    weft_mutex_unlock(&c->out_lock);
}

/*
 * Before waiting for input: see that what is to be sent goes out, unless another fiber is at it,
 * but never wait for that alone: the other side may not read before we do. If it takes no more,
 * the next write or flush says so.
 */
static int send_meanwhile(weft__tls_conn *c)
{
    while (has_output(c) && !c->is_closed && weft_mutex_try_lock(&c->out_lock) == 0) {
        ssize_t n = load_sending(c) ? send_some(c) : 0;
        weft_mutex_unlock(&c->out_lock);
        if (n == -ECANCELED || n == -EBADF)
            return (int)n;
        if (n < 0 && n != -EAGAIN && n != -ENOTSOCK)
            return 0;
        if (n >= 0 || c->is_closed)
            continue;
        int events = weft_wait_fd(c->fd, POLLIN | POLLOUT);
        if (events < 0 || (events & ~POLLOUT) != 0)
            return events < 0 ? events : 0;
    }
    return 0;
}

/* The caller holds in_lock. */
static ssize_t read_some(weft__tls_conn *c)
{
    if (c->is_closed)
        return -EBADF;
    /* What another fiber has read while we waited is to be used up first. */
    if (weft__tls_held(&c->in) > 0)
        return 1;
    if (c->is_ended)
        return 0;
    c->in.head = c->in.tail = 0;
    if (weft__tls_reserve(&c->in, IN_BYTES) < 0)
        return -ENOMEM;
    ssize_t n = weft_read(c->fd, c->in.data, c->in.bytes);
    if (n > 0 && (size_t)n > c->in.bytes)
        return -EINTR;
    c->in.tail += n > 0 ? (size_t)n : 0;
    c->is_ended |= n == 0;
    return n;
}

ssize_t weft__tls_fill(weft__tls_conn *c)
{
    int rc = weft_mutex_lock(&c->in_lock);
    if (rc < 0)
        return rc;
    ssize_t n = read_some(c);
    weft_mutex_unlock(&c->in_lock);
    return n;
}

/* A call of OpenSSL has failed for good. */
static int break_off(weft__tls_conn *c)
{
    c->broken = weft__tls_explain(c);
    weft__tls_push(c); /* the alert */
    return c->broken;
}

/* What SSL_read waits for: 1 when it may be called again, 0 at the end. */
static ssize_t more_input(weft__tls_conn *c)
{
    int rc = weft__tls_held(&c->out) > ANSWERS_BYTES_MAX ? weft__tls_drain(c) : send_meanwhile(c);
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
        ERR_clear_error();
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
    if (weft__tls_reserve(&c->out, bytes + OVERHEAD_BYTES) < 0)
        return -ENOMEM;
    size_t n = 0;
    ERR_clear_error();
    int rc = SSL_write_ex(c->ssl, data, bytes, &n);
    if (rc == 1)
        return 1;
    int why = SSL_get_error(c->ssl, rc);
    if (why == SSL_ERROR_WANT_READ)
        return 0;
    return why == SSL_ERROR_WANT_WRITE ? (c->broken = -ENOMEM) : break_off(c);
}

/* Some records. Returns how many bytes are in out, 0 if OpenSSL has to read something first. */
static ssize_t encrypt(weft__tls_conn *c, const struct iovec *pieces, int count)
{
    run r = {pieces, count, 0};
    skip(&r, 0);
    char *room = r.count > 1 ? malloc(RECORD_BYTES) : NULL;
    if (r.count > 1 && room == NULL)
        return -ENOMEM;
    size_t taken = 0;
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
    return rc == 0 && weft_is_cancelled() ? -ECANCELED : rc;
}

/* The caller holds out_lock. */
static ssize_t send_pieces(weft__tls_conn *c, const struct iovec *pieces, int count)
{
    int rc = send_all(c);
    if (rc == 0)
        rc = check_write(c);
    if (rc < 0)
        return rc;
    ssize_t taken = encrypt(c, pieces, count);
    if (taken <= 0)
        return taken;
    rc = send_all(c);
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
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += pieces[i].iov_len;
    enter(c);
    return leave(c, bytes > 0 ? write_pieces(c, pieces, count) : 0);
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

/* Without memory: what is decrypted, or can be, is there for read; else the descriptor tells. */
static int wait_for_input(weft__tls_conn *c)
{
    if (is_gone(c))
        return -EBADF;
    if (c->broken < 0 || c->is_ended || SSL_has_pending(c->ssl) || weft__tls_held(&c->in) > 0 ||
        (SSL_get_shutdown(c->ssl) & SSL_RECEIVED_SHUTDOWN) != 0)
        return 0;
    int rc = send_meanwhile(c);
    if (rc < 0)
        return rc;
    rc = weft_mutex_lock(&c->in_lock);
    if (rc < 0)
        return rc;
    if (weft__tls_held(&c->in) == 0)
        weft__tls_release(&c->in);
    rc = c->is_closed ? -EBADF : weft_wait_fd(c->fd, POLLIN);
    weft_mutex_unlock(&c->in_lock);
    return rc < 0 ? rc : 0;
}

static int conn_wait(void *ctx)
{
    weft__tls_conn *c = ctx;
    enter(c);
    return (int)leave(c, wait_for_input(c));
}

/* Tell the other side that this is the end, if that can be had without waiting for long. */
static void say_goodbye(weft__tls_conn *c)
{
    if (is_gone(c) || c->broken < 0)
        return;
    ERR_clear_error();
    SSL_shutdown(c->ssl);
    ERR_clear_error();
    weft__tls_push(c);
    if (!has_output(c))
        return;
    WEFT_MOVE_ON_AFTER(GOODBYE_S) {
        (void)weft__tls_drain(c);
    }
}

static int conn_close(void *ctx)
{
    weft__tls_conn *c = ctx;
    say_goodbye(c);
    c->is_closed = true;
    return (int)leave(c, weft_close(c->fd));
}

const weft_stream_type weft__tls_stream = {conn_read, conn_writev, conn_close, conn_wait,
                                           conn_flush};
