/*
 * Between a connection's buffers and its descriptor.
 *
 * Output comes from two sides: who writes, and who reads, which may cause some (an answer to a key
 * update, an alert). All of it is appended to out in the order in which OpenSSL made it; who sends
 * holds out_lock, and moves it to sending first, where nothing is appended any more that would move
 * the memory which the kernel reads. What could not be sent stays there, and goes first next time.
 */
#include "tls/tls.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>

#include <math.h>
#include <poll.h>
#include <stdlib.h>

/* The largest record (RFC 8446, 5.2) and its header, and a little of the next. */
#define IN_BYTES ((size_t)17 << 10)

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

int weft__tls_send_all(weft__tls_conn *c)
{
    while (load_sending(c)) {
        size_t held = weft__tls_held(&c->sending);
        ssize_t n =
            c->is_closed ? -EBADF : weft_write(c->fd, c->sending.data + c->sending.head, held);
        if (n < 0)
            return (int)n;
        c->sending.head += (size_t)n;
    }
    return 0;
}

int weft__tls_drain(weft__tls_conn *c)
{
    if (!weft__tls_has_output(c))
        return 0;
    int rc = weft_mutex_lock(&c->out_lock);
    if (rc < 0)
        return rc;
    rc = weft__tls_send_all(c);
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
    if (!weft__tls_has_output(c) || c->is_closed || weft_mutex_try_lock(&c->out_lock) < 0)
        return;
    WEFT_SHIELD(INFINITY) {
        while (!c->is_closed && load_sending(c))
            if (send_some(c) < 0)
                break;
    }
    weft_mutex_unlock(&c->out_lock);
}

int weft__tls_send_meanwhile(weft__tls_conn *c)
{
    while (weft__tls_has_output(c) && !c->is_closed && weft_mutex_try_lock(&c->out_lock) == 0) {
        ssize_t n = load_sending(c) ? send_some(c) : 0;
        weft_mutex_unlock(&c->out_lock);
        if (n >= 0 || c->is_closed)
            continue;
        if (n != -EAGAIN) /* that it takes no more, the next write or flush says */
            return n == -EPIPE || n == -ECONNRESET || n == -ENOTSOCK ? 0 : (int)n;
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
    if (weft__tls_held(&c->in) > 0)
        return 1;
    if (c->is_ended)
        return 0;
    c->in.head = c->in.tail = 0;
    if (weft__tls_reserve(&c->in, IN_BYTES) < 0)
        return -ENOMEM;
    ssize_t n = weft_read(c->fd, c->in.data, c->in.bytes);
    c->in.tail += n > 0 ? (size_t)n : 0;
    c->is_ended |= n == 0;
    return n;
}

ssize_t weft__tls_fill(weft__tls_conn *c)
{
    /* Another fiber that has read meanwhile may have got what this one waits for. */
    bool is_late = weft_mutex_owner(&c->in_lock) != 0;
    int rc = weft_mutex_lock(&c->in_lock);
    if (rc < 0)
        return rc;
    ssize_t n = is_late ? 1 : read_some(c);
    weft_mutex_unlock(&c->in_lock);
    return n;
}

void weft__tls_hang_up(weft__tls_conn *c)
{
    char eaten[2048];
    size_t total = 0;
    ssize_t n = 1;
    if (weft_shutdown(c->fd, SHUT_WR) < 0)
        return;
    WEFT_SHIELD(INFINITY) {
        while (n > 0 && total < IN_BYTES) {
            n = weft_recv(c->fd, eaten, sizeof eaten, MSG_DONTWAIT);
            total += n > 0 ? (size_t)n : 0;
        }
    }
}
