/*
 * The connections of a fetcher. A fetch over HTTP/1 reuses the most recently used idle connection.
 * All fetches of an origin over HTTP/2 share one connection.
 *
 * No fiber or timer closes expired idle connections. The next use of the fetcher closes the expired
 * connections.
 */
#include "base/compiler.h"
#include "http/client/fetch.h"
#include "http/url/ip.h"

#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>
#include <weft/time.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Shut down both directions of an aborted connection first. Otherwise, weft_stream_close would
 * flush the stream and wait for a peer that does not read.
 */
void weft__conn_free(weft__fetch_conn *c, bool is_aborted)
{
    c->is_freeing = true;
    if (c->h2 != NULL)
        weft__h2_conn_close(c, is_aborted);
    if (is_aborted)
        weft_shutdown(c->fd, SHUT_RDWR);
    weft_stream_close(&c->stream);
    if (!weft__list_is_empty(&c->all)) {
        weft__list_remove(&c->all);
        weft_cond_broadcast(&c->fetcher->conn_freed);
    }
    free(c);
}

void weft__conn_pool_set_idle(weft__fetch_conn *c, bool is_idle)
{
    bool was_idle = !weft__list_is_empty(&c->recent);
    c->fetcher->idle_count += (size_t)is_idle - (size_t)was_idle;
    weft__list_remove(&c->recent);
    weft__list_remove(&c->node);
    if (!is_idle)
        return;
    c->idle_since = weft_now();
    weft__list_insert(&c->fetcher->idle, &c->recent);
    if (c->h2 == NULL)
        weft__list_insert(c->origin->idle.next, &c->node);
}

/*
 * Close an idle connection. The call may switch fibers. Callers must not keep pointers into the
 * lists across this call.
 */
static void conn_retire(weft__fetch_conn *c)
{
    weft__origin *origin = c->origin;
    weft__conn_pool_set_idle(c, false);
    if (c->h2 != NULL)
        weft__origin_unshare(c);
    else
        weft__origin_free_if_unused(origin);
    weft__conn_free(c, false);
}

static weft__fetch_conn *oldest_idle(const weft_fetcher *fetcher)
{
    return CONTAINER_OF(fetcher->idle.next, weft__fetch_conn, recent);
}

static void retire_expired(weft_fetcher *fetcher)
{
    while (!weft__list_is_empty(&fetcher->idle) &&
           weft_now() - oldest_idle(fetcher)->idle_since >= fetcher->options.idle_s)
        conn_retire(oldest_idle(fetcher));
    while (fetcher->idle_count > fetcher->options.idle_max)
        conn_retire(oldest_idle(fetcher));
}

/*
 * After fork, parent and child share the connections. Redirect the descriptor of a connection with
 * TLS or HTTP/2 to /dev/null. The last bytes of the child then do not reach the server.
 */
static void conn_disown(weft__fetch_conn *c)
{
    bool says_goodbye = c->is_tls || c->h2 != NULL;
    int null_fd = says_goodbye ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null_fd < 0)
        return;
    dup3(null_fd, c->fd, O_CLOEXEC);
    close(null_fd);
}

/* After fork, reset an origin. The fibers that held slots or waited exist only in the parent. */
static void origin_reset(weft_fetcher *fetcher, weft__origin *origin)
{
    weft_sem_open(&origin->slots, fetcher->options.connections_per_origin_max);
    origin->changed = (weft_cond){0};
    origin->is_dialing = false;
}

/* After fork, reset the origins. Close the idle connections and those of HTTP/2. */
static void fetcher_check_fork(weft_fetcher *fetcher)
{
    pid_t pid = getpid();
    if (fetcher->pid == pid)
        return;
    fetcher->pid = pid;
    WEFT__LIST_FOR(node, &fetcher->origins)
        origin_reset(fetcher, CONTAINER_OF(node, weft__origin, node));
    fetcher->conn_freed = (weft_cond){0};
    WEFT__LIST_FOR(node, &fetcher->h2_conns) {
        weft__fetch_conn *c = CONTAINER_OF(node, weft__fetch_conn, all);
        if (!c->is_freeing)
            weft__h2_conn_forget(c);
        if (c->users > 0) /* not in the list below */
            conn_disown(c);
        c->users = 0;
    }
    WEFT__LIST_FOR(node, &fetcher->idle)
        conn_disown(CONTAINER_OF(node, weft__fetch_conn, recent));
    weft__conn_pool_clear(fetcher);
}

/* Return a connection of HTTP/2 without users that no call frees yet, or NULL. */
static weft__fetch_conn *find_unused_h2(const weft_fetcher *fetcher)
{
    WEFT__LIST_FOR(node, &fetcher->h2_conns) {
        weft__fetch_conn *c = CONTAINER_OF(node, weft__fetch_conn, all);
        if (c->users == 0 && !c->is_freeing)
            return c;
    }
    return NULL;
}

void weft__conn_pool_clear(weft_fetcher *fetcher)
{
    weft__fetch_conn *c;
    fetcher_check_fork(fetcher);
    while (!weft__list_is_empty(&fetcher->idle))
        conn_retire(oldest_idle(fetcher));
    while ((c = find_unused_h2(fetcher)) != NULL)
        conn_retire(c);
}

void weft__conn_pool_close(weft_fetcher *fetcher)
{
    weft__conn_pool_clear(fetcher);
    WEFT_SHIELD(INFINITY)
        while (!weft__list_is_empty(&fetcher->h2_conns))
            (void)weft_cond_wait(&fetcher->conn_freed, NULL);
}

/*
 * Return whether TLS has no buffered input. TLS may hold records that arrived with the last record
 * of the response. Only a read returns these records.
 */
static bool tls_is_reusable(weft__fetch_conn *c)
{
    const void *data;
    ssize_t n = 0;
    WEFT_SHIELD(INFINITY)
        WEFT_MOVE_ON_AFTER(0)
            n = weft_stream_peek(&c->stream, 1, &data);
    return n == -ECANCELED;
}

/*
 * Return whether an idle connection has no input. Input means that the server has closed the
 * connection, or has sent bytes without a request.
 */
static bool conn_is_reusable(weft__fetch_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
    return poll(&p, 1, 0) == 0 && (!c->is_tls || tls_is_reusable(c));
}

/*
 * Take an idle connection of the origin of f. The slot of f keeps the origin alive. Return NULL if
 * the origin has no reusable connection.
 */
static weft__fetch_conn *origin_take_idle(weft_fetch *f)
{
    while (!weft__list_is_empty(&f->origin->idle)) {
        weft__fetch_conn *c = CONTAINER_OF(f->origin->idle.next, weft__fetch_conn, node);
        weft__conn_pool_set_idle(c, false);
        if (conn_is_reusable(c))
            return c;
        weft__conn_free(c, false);
    }
    return NULL;
}

/*
 * New connections.
 */

static int conn_new(weft_fetch *f, weft__fetch_conn **conn)
{
    weft__fetch_conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    weft__list_init(&c->node);
    weft__list_init(&c->recent);
    weft__list_init(&c->all);
    c->fetcher = f->fetcher;
    c->origin = f->origin;
    int rc = weft__fetch_dial(f, c);
    if (rc < 0) {
        free(c);
        return rc;
    }
    weft_stream_configure(&c->stream,
                          &(weft_stream_options){.read_bytes = WEFT__FETCH_READ_BYTES,
                                                 .write_bytes = WEFT__FETCH_WRITE_BYTES});
    *conn = c;
    return 0;
}

/* Report the connection of f with its address: "192.0.2.1:80", "[::1]:80" or "unix". */
static COLD void trace_conn(weft_fetch *f)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[WEFT__IP_TEXT_BYTES], text[WEFT__IP_TEXT_BYTES + 16] = "unix";
    const weft__fetch_conn *c = f->conn != NULL ? f->conn : weft__h2_fetch_conn(f);
    (void)getpeername(c->fd, (struct sockaddr *)&address, &bytes);
    weft__ip_write_peer((struct sockaddr *)&address, host);
    bool is_v6 = strchr(host, ':') != NULL;
    /* Both families have the port in the same place. */
    unsigned port = ntohs(((struct sockaddr_in *)&address)->sin_port);
    if (address.ss_family == AF_INET || address.ss_family == AF_INET6)
        snprintf(text, sizeof text, is_v6 ? "[%s]:%u" : "%s:%u", host, port);
    weft__fetch_trace(f, f->is_reused ? WEFT_FETCH_REUSED : WEFT_FETCH_CONNECTED, text);
}

/* Use a new connection with the protocol that the server has chosen. */
static int conn_begin(weft_fetch *f, weft__fetch_conn *c)
{
    int rc = weft__fetch_conn_is_h2(f, c);
    if (rc == 0) {
        f->origin->is_http1 |= weft__origin_may_share(f);
        f->conn = c;
        return 0;
    }
    if (rc > 0)
        rc = weft__h2_conn_open(c);
    if (rc < 0) {
        weft__conn_free(c, true);
        return rc;
    }
    f->origin->shared = c;
    weft__list_insert(&f->fetcher->h2_conns, &c->all);
    weft__conn_pool_set_idle(c, true);
    weft__origin_release_slot(f);
    return weft__h2_conn_attach(c, f);
}

/*
 * Open a connection. While the protocol is unknown, other fetches wait for this one, so that they
 * can share its connection.
 */
static int origin_dial(weft_fetch *f)
{
    weft__origin *origin = f->origin;
    weft__fetch_conn *c;
    bool is_awaited = weft__origin_may_share(f);
    origin->is_dialing |= is_awaited;
    int rc = conn_new(f, &c);
    if (rc == 0)
        rc = conn_begin(f, c);
    if (is_awaited) {
        origin->is_dialing = false;
        origin->dials++;
        origin->dial_result = rc;
        weft_cond_broadcast(&origin->changed);
    }
    return rc;
}

/* Wait until another fetch has opened a connection. Return 0, or the error of that fetch. */
static int origin_await_dial(weft__origin *origin)
{
    size_t dials = origin->dials;
    int rc = weft_cond_wait(&origin->changed, NULL);
    if (rc < 0 || origin->dials == dials || origin->dial_result == -ECANCELED)
        return rc;
    return origin->dial_result;
}

/*
 * Use the shared connection of the origin. Wait while the connection has no room, or another fetch
 * opens a connection. Return 1 if f has a stream, 0 if there is no shared connection, or an error.
 */
static int origin_join_shared(weft_fetch *f)
{
    weft__origin *origin = f->origin;
    int rc = 0;
    while (rc == 0 && weft__origin_may_share(f)) {
        weft__fetch_conn *c = origin->shared;
        if (c == NULL && !origin->is_dialing)
            return 0;
        if (c == NULL) {
            rc = origin_await_dial(origin);
        } else if (!weft__h2_conn_has_room(c)) {
            rc = weft_cond_wait(&origin->changed, NULL);
        } else {
            rc = weft__h2_conn_check(c);
            if (rc == 0) {
                rc = weft__h2_conn_attach(c, f);
                return rc < 0 ? rc : 1;
            }
            rc = rc > 0 ? 0 : rc;
        }
    }
    return rc;
}

static int origin_wait_for_slot(weft_fetch *f)
{
    if (f->has_slot)
        return 0;
    int rc = weft_sem_wait(&f->origin->slots);
    f->has_slot = rc == 0;
    return rc;
}

/* Get a connection of the origin of f. */
static int origin_connect(weft_fetch *f, bool is_fresh)
{
    for (;;) {
        int rc = origin_join_shared(f);
        if (rc != 0)
            return rc < 0 ? rc : 0;
        rc = origin_wait_for_slot(f);
        if (rc < 0)
            return rc;
        /* Another fetch may have opened a shared connection while f waited for a slot. */
        if (weft__origin_may_share(f) && (f->origin->shared != NULL || f->origin->is_dialing)) {
            weft__origin_release_slot(f);
            continue;
        }
        f->conn = is_fresh ? NULL : origin_take_idle(f);
        f->is_reused = f->conn != NULL;
        return f->conn != NULL ? 0 : origin_dial(f);
    }
}

int weft__conn_pool_acquire(weft_fetch *f, bool is_fresh)
{
    fetcher_check_fork(f->fetcher);
    retire_expired(f->fetcher);
    f->codec = &weft__fetch_h1;
    f->is_reused = f->must_close = f->has_input = f->is_unprocessed = false;
    f->is_unsent = true;
    int rc = f->origin == NULL ? weft__origin_enter(f) : 0;
    if (rc < 0)
        return rc;
    rc = origin_connect(f, is_fresh);
    if (rc < 0)
        weft__origin_leave(f);
    else if (f->fetcher->options.trace != NULL)
        trace_conn(f);
    return rc;
}

/*
 * Release.
 */

void weft__conn_pool_drop(weft_fetch *f)
{
    if (f->codec == &weft__fetch_h2) {
        f->codec->release(f, false);
        return;
    }
    weft__fetch_conn *c = f->conn;
    f->conn = NULL;
    f->taken = f->piece_bytes = 0;
    if (c != NULL)
        weft__conn_free(c, true);
}

void weft__conn_pool_detach(weft_fetch *f)
{
    f->conn->origin = NULL;
    weft__origin_leave(f);
}

static bool conn_has_input(weft__fetch_conn *c)
{
    const void *data;
    return weft_stream_peek(&c->stream, 0, &data) != 0;
}

void weft__conn_pool_release_h1(weft_fetch *f, bool is_reusable)
{
    weft__fetch_conn *c = f->conn;
    if (c != NULL && f->taken > 0)
        weft_stream_skip(&c->stream, f->taken);
    f->taken = f->piece_bytes = 0;
    if (c == NULL || !is_reusable || f->must_close || conn_has_input(c)) {
        weft__conn_pool_drop(f);
    } else {
        f->conn = NULL;
        weft__conn_pool_set_idle(c, true);
    }
    if (f->origin != NULL)
        weft__origin_leave(f);
}

void weft__conn_pool_release(weft_fetch *f, bool is_reusable)
{
    weft_fetcher *fetcher = f->fetcher;
    f->codec->release(f, is_reusable);
    retire_expired(fetcher);
}
