/*
 * The connections of a fetcher. An origin is a scheme, host, port and proxy. Each origin has a
 * limited number of slots for fetches. Fetches wait for a free slot in FIFO order. A fetch reuses
 * the most recently used idle connection.
 *
 * No fiber or timer closes expired idle connections. The next use of the fetcher closes the expired
 * connections.
 */
#include "http/client/fetch.h"

#include <weft/io.h>
#include <weft/net.h>
#include <weft/scope.h>
#include <weft/time.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Origins.
 */

static char *origin_key_of(const weft_fetch *f)
{
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "%s %s %d", f->url.scheme, f->url.host, f->url.port);
    if (f->proxy.is_used)
        weft__strbuf_printf(&w, " %s@%s %d", f->proxy.url.user, f->proxy.url.host,
                            f->proxy.url.port);
    if (!w.has_failed)
        return w.data;
    free(w.data);
    return NULL;
}

static weft__origin *find_origin(weft_fetcher *fetcher, const char *key)
{
    WEFT__LIST_FOR(node, &fetcher->origins) {
        weft__origin *origin = CONTAINER_OF(node, weft__origin, node);
        if (strcmp(origin->key, key) == 0)
            return origin;
    }
    weft__origin *origin = malloc(sizeof *origin + strlen(key) + 1);
    if (origin == NULL)
        return NULL;
    *origin = (weft__origin){0};
    strcpy(origin->key, key);
    weft__list_init(&origin->idle);
    weft_sem_open(&origin->slots, fetcher->options.connections_per_origin_max);
    weft__list_insert(&fetcher->origins, &origin->node);
    return origin;
}

static void origin_free_if_unused(weft__origin *origin)
{
    if (origin->users > 0 || !weft__list_is_empty(&origin->idle))
        return;
    weft__list_remove(&origin->node);
    free(origin);
}

/* Wait for a slot of the origin of f. */
static int origin_acquire_slot(weft_fetch *f)
{
    char *key = origin_key_of(f);
    weft__origin *origin = key != NULL ? find_origin(f->fetcher, key) : NULL;
    free(key);
    if (origin == NULL)
        return -ENOMEM;
    origin->users++;
    int rc = weft_sem_wait(&origin->slots);
    if (rc == 0) {
        f->origin = origin;
        return 0;
    }
    origin->users--;
    origin_free_if_unused(origin);
    return rc;
}

static void origin_release_slot(weft_fetch *f)
{
    weft__origin *origin = f->origin;
    f->origin = NULL;
    weft_sem_post(&origin->slots);
    origin->users--;
    origin_free_if_unused(origin);
}

/*
 * Connections.
 */

/*
 * Close a connection. Shut down both directions of an aborted connection first. Otherwise,
 * weft_stream_close would flush the stream and wait for a peer that does not read.
 */
static void close_conn(weft__fetch_conn *c, bool is_aborted)
{
    if (is_aborted)
        weft_shutdown(c->fd, SHUT_RDWR);
    weft_stream_close(&c->stream);
    free(c);
}

static void conn_unlink(weft_fetcher *fetcher, weft__fetch_conn *c)
{
    weft__list_remove(&c->node);
    weft__list_remove(&c->recent);
    fetcher->idle_count--;
}

/*
 * Close an idle connection. The call may switch fibers. Callers must not keep pointers into the
 * lists across this call.
 */
static void conn_retire(weft_fetcher *fetcher, weft__fetch_conn *c)
{
    weft__origin *origin = c->origin;
    conn_unlink(fetcher, c);
    origin_free_if_unused(origin);
    close_conn(c, false);
}

static weft__fetch_conn *oldest_idle(const weft_fetcher *fetcher)
{
    return CONTAINER_OF(fetcher->idle.next, weft__fetch_conn, recent);
}

static void retire_expired(weft_fetcher *fetcher)
{
    while (!weft__list_is_empty(&fetcher->idle) &&
           weft_now() - oldest_idle(fetcher)->idle_since >= fetcher->options.idle_s)
        conn_retire(fetcher, oldest_idle(fetcher));
    while (fetcher->idle_count > fetcher->options.idle_max)
        conn_retire(fetcher, oldest_idle(fetcher));
}

/*
 * After fork, parent and child share the connections. Redirect the descriptor of a TLS connection
 * to /dev/null. The close_notify of the child then does not reach the server.
 */
static void conn_disown(weft__fetch_conn *c)
{
    int null_fd = c->is_tls ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (null_fd < 0)
        return;
    dup3(null_fd, c->fd, O_CLOEXEC);
    close(null_fd);
}

/*
 * After fork, reset the slots and close the idle connections. The fibers that held slots or waited
 * for slots exist only in the parent.
 */
static void fetcher_check_fork(weft_fetcher *fetcher)
{
    pid_t pid = getpid();
    if (fetcher->pid == pid)
        return;
    fetcher->pid = pid;
    WEFT__LIST_FOR(node, &fetcher->origins)
        weft_sem_open(&CONTAINER_OF(node, weft__origin, node)->slots,
                      fetcher->options.connections_per_origin_max);
    WEFT__LIST_FOR(node, &fetcher->idle)
        conn_disown(CONTAINER_OF(node, weft__fetch_conn, recent));
    weft__conn_pool_clear(fetcher);
}

void weft__conn_pool_clear(weft_fetcher *fetcher)
{
    fetcher_check_fork(fetcher);
    while (!weft__list_is_empty(&fetcher->idle))
        conn_retire(fetcher, oldest_idle(fetcher));
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
        conn_unlink(f->fetcher, c);
        if (conn_is_reusable(c))
            return c;
        close_conn(c, false);
    }
    return NULL;
}

static int conn_new(weft_fetch *f)
{
    weft__fetch_conn *c = calloc(1, sizeof *c);
    if (c == NULL)
        return -ENOMEM;
    weft__list_init(&c->node);
    weft__list_init(&c->recent);
    c->origin = f->origin;
    int rc = weft__fetch_dial(f, c);
    if (rc < 0) {
        free(c);
        return rc;
    }
    weft_stream_configure(&c->stream,
                          &(weft_stream_options){.read_bytes = WEFT__FETCH_READ_BYTES,
                                                 .write_bytes = WEFT__FETCH_WRITE_BYTES});
    f->conn = c;
    return 0;
}

int weft__conn_pool_acquire(weft_fetch *f, bool is_fresh)
{
    fetcher_check_fork(f->fetcher);
    retire_expired(f->fetcher);
    int rc = f->origin == NULL ? origin_acquire_slot(f) : 0;
    if (rc < 0)
        return rc;
    f->conn = is_fresh ? NULL : origin_take_idle(f);
    f->is_reused = f->conn != NULL;
    f->must_close = f->has_input = false;
    f->is_unsent = true;
    if (f->conn == NULL)
        rc = conn_new(f);
    if (rc < 0)
        origin_release_slot(f);
    return rc;
}

void weft__conn_pool_drop(weft_fetch *f)
{
    weft__fetch_conn *c = f->conn;
    f->conn = NULL;
    f->taken = f->piece_bytes = 0;
    if (c != NULL)
        close_conn(c, true);
}

static bool conn_has_input(weft__fetch_conn *c)
{
    const void *data;
    return weft_stream_peek(&c->stream, 0, &data) != 0;
}

void weft__conn_pool_release(weft_fetch *f, bool is_reusable)
{
    weft_fetcher *fetcher = f->fetcher;
    weft__fetch_conn *c = f->conn;
    if (c != NULL && f->taken > 0)
        weft_stream_skip(&c->stream, f->taken);
    f->taken = f->piece_bytes = 0;
    if (c == NULL || !is_reusable || f->must_close || conn_has_input(c)) {
        weft__conn_pool_drop(f);
    } else {
        f->conn = NULL;
        c->idle_since = weft_now();
        weft__list_insert(f->origin->idle.next, &c->node);
        weft__list_insert(&fetcher->idle, &c->recent);
        fetcher->idle_count++;
    }
    if (f->origin != NULL)
        origin_release_slot(f);
    retire_expired(fetcher);
}
