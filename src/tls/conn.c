/*
 * Move bytes between the buffers of a connection and its descriptor.
 *
 * Both writes and reads of the stream produce output: a read may reply to a key update or send an
 * alert. OpenSSL appends all output to the buffer out, in order. A sender holds out_lock and moves
 * out to the buffer sending. Appends to out then do not move the memory that the kernel reads.
 * Unsent bytes remain in sending. The next sender sends these bytes first.
 */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <math.h>
#include <poll.h>
#include <stdlib.h>

/* The largest record (RFC 8446, 5.2) with its header, and the start of the next record. */
#define IN_BYTES ((size_t)17 << 10)

void weft__tls_conn_free(weft__tls_conn *c)
{
    /* After its cleanup, OpenSSL must not be called. The process is exiting. */
    if (!weft__tls_is_cleaned_up()) {
        SSL_free(c->ssl);
        weft__tls_config_unref(c->config);
    }
    weft__tls_buffer_release(&c->in);
    weft__tls_buffer_release(&c->out);
    weft__tls_buffer_release(&c->sending);
    free(c->server_name);
    free(c->server_key);
    free(c->alpn);
    free(c->subject);
    weft_tls_free(c->tls);
    free(c);
}

/* Move new output to sending if sending is empty. Return false if both buffers are empty. */
static bool conn_load_sending(weft__tls_conn *c)
{
    if (weft__tls_buffer_held(&c->sending) > 0)
        return true;
    weft__tls_buffer_release(&c->sending);
    if (weft__tls_buffer_held(&c->out) == 0)
        return false;
    c->sending = c->out;
    c->out = (weft__tls_buffer){0};
    return true;
}

int weft__tls_conn_send_all(weft__tls_conn *c)
{
    while (conn_load_sending(c)) {
        size_t held = weft__tls_buffer_held(&c->sending);
        ssize_t n =
            c->is_closed ? -EBADF : weft_write(c->fd, c->sending.data + c->sending.head, held);
        if (n < 0)
            return (int)n;
        c->sending.head += (size_t)n;
    }
    return 0;
}

int weft__tls_conn_drain(weft__tls_conn *c)
{
    if (!weft__tls_conn_has_output(c))
        return 0;
    int rc = weft_mutex_lock(&c->out_lock);
    if (rc < 0)
        return rc;
    rc = weft__tls_conn_send_all(c);
    weft_mutex_unlock(&c->out_lock);
    return rc;
}

/* Send once, without waiting. The caller must hold out_lock. sending must not be empty. */
static ssize_t conn_send_some(weft__tls_conn *c)
{
    size_t held = weft__tls_buffer_held(&c->sending);
    ssize_t n =
        weft_send(c->fd, c->sending.data + c->sending.head, held, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0 && (size_t)n <= held)
        c->sending.head += (size_t)n;
    return n;
}

void weft__tls_conn_try_send(weft__tls_conn *c)
{
    if (!weft__tls_conn_has_output(c) || c->is_closed || weft_mutex_try_lock(&c->out_lock) < 0)
        return;
    WEFT_SHIELD(INFINITY) {
        while (!c->is_closed && conn_load_sending(c))
            if (conn_send_some(c) < 0)
                break;
    }
    weft_mutex_unlock(&c->out_lock);
}

int weft__tls_conn_send_before_wait(weft__tls_conn *c)
{
    while (weft__tls_conn_has_output(c) && !c->is_closed &&
           weft_mutex_try_lock(&c->out_lock) == 0) {
        ssize_t n = conn_load_sending(c) ? conn_send_some(c) : 0;
        weft_mutex_unlock(&c->out_lock);
        if (n >= 0 || c->is_closed)
            continue;
        if (n != -EAGAIN) /* after a disconnect, the next write or flush returns the error */
            return n == -EPIPE || n == -ECONNRESET || n == -ENOTSOCK ? 0 : (int)n;
        int events = weft_wait_fd(c->fd, POLLIN | POLLOUT);
        if (events < 0 || (events & ~POLLOUT) != 0)
            return events < 0 ? events : 0;
    }
    return 0;
}

/* Read once. The caller must hold in_lock. */
static ssize_t conn_read_some(weft__tls_conn *c)
{
    if (c->is_closed)
        return -EBADF;
    if (weft__tls_buffer_held(&c->in) > 0)
        return 1;
    if (c->is_input_ended)
        return 0;
    c->in.head = c->in.tail = 0;
    if (weft__tls_buffer_reserve(&c->in, IN_BYTES) < 0)
        return -ENOMEM;
    ssize_t n = weft_read(c->fd, c->in.data, c->in.bytes);
    c->in.tail += n > 0 ? (size_t)n : 0;
    c->is_input_ended |= n == 0;
    return n;
}

ssize_t weft__tls_conn_fill(weft__tls_conn *c)
{
    /* If another fiber holds the lock, that fiber may read the bytes that the caller needs. */
    bool is_locked = weft_mutex_owner(&c->in_lock) != 0;
    int rc = weft_mutex_lock(&c->in_lock);
    if (rc < 0)
        return rc;
    ssize_t n = is_locked ? 1 : conn_read_some(c);
    weft_mutex_unlock(&c->in_lock);
    return n;
}

void weft__tls_conn_hang_up(weft__tls_conn *c)
{
    char discarded[2048];
    size_t total = 0;
    ssize_t n = 1;
    if (weft_shutdown(c->fd, SHUT_WR) < 0)
        return;
    WEFT_SHIELD(INFINITY) {
        while (n > 0 && total < IN_BYTES) {
            n = weft_recv(c->fd, discarded, sizeof discarded, MSG_DONTWAIT);
            total += n > 0 ? (size_t)n : 0;
        }
    }
}
