/*
 * The client's connections: so many to an origin, those that are idle kept for a while, the one
 * used last taken first. A request that finds all of them busy waits its turn.
 *
 * There is no fiber or timer behind it: what has been idle for too long is closed when the fetcher
 * is used next.
 */
#include "http/fetch.h"

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

static char *key_of(const weft_fetch *f)
{
    weft__words w = {0};
    weft__words_print(&w, "%s %s %d", f->url.scheme, f->url.host, f->url.port);
    if (f->proxy.is_used)
        weft__words_print(&w, " %s@%s %d", f->proxy.url.user, f->proxy.url.host, f->proxy.url.port);
    if (!w.has_failed)
        return w.data;
    free(w.data);
    return NULL;
}

static weft__origin *find_origin(weft_fetcher *o, const char *key)
{
    WEFT__LIST_FOR(node, &o->origins) {
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
    weft_sem_open(&origin->slots, o->options.connections_per_origin_max);
    weft__list_insert(&o->origins, &origin->node);
    return origin;
}

static void forget_if_unused(weft__origin *origin)
{
    if (origin->users > 0 || !weft__list_is_empty(&origin->idle))
        return;
    weft__list_remove(&origin->node);
    free(origin);
}

/* Wait for a slot at the origin that f is aimed at. */
static int enter_origin(weft_fetch *f)
{
    char *key = key_of(f);
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
    forget_if_unused(origin);
    return rc;
}

static void leave_origin(weft_fetch *f)
{
    weft__origin *origin = f->origin;
    f->origin = NULL;
    weft_sem_post(&origin->slots);
    origin->users--;
    forget_if_unused(origin);
}

/*
 * Connections.
 */

/*
 * Nothing may be left to be flushed of one that is cut, as its peer need not read: so both
 * directions are shut first, and what is tried then fails at once.
 */
static void close_conn(weft__fetch_conn *c, bool is_cut)
{
    if (is_cut)
        weft_shutdown(c->fd, SHUT_RDWR);
    weft_stream_close(&c->stream);
    free(c);
}

static void take_out(weft_fetcher *o, weft__fetch_conn *c)
{
    weft__list_remove(&c->node);
    weft__list_remove(&c->recent);
    o->idle_count--;
}

/* Other fibers run while it closes: no pointer into the lists lives across it. */
static void retire(weft_fetcher *o, weft__fetch_conn *c)
{
    weft__origin *origin = c->origin;
    take_out(o, c);
    forget_if_unused(origin);
    close_conn(c, false);
}

static weft__fetch_conn *oldest_of(const weft_fetcher *o)
{
    return CONTAINER_OF(o->idle.next, weft__fetch_conn, recent);
}

static void retire_old(weft_fetcher *o)
{
    while (!weft__list_is_empty(&o->idle) &&
           weft_now() - oldest_of(o)->idle_since >= o->options.idle_s)
        retire(o, oldest_of(o));
    while (o->idle_count > o->options.idle_max)
        retire(o, oldest_of(o));
}

/*
 * In the child of a fork: what is kept is the parent's as well, and not ours to use or to say
 * farewell on. Under TLS that is said to nobody.
 */
static void disown(weft__fetch_conn *c)
{
    int nobody = c->is_tls ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
    if (nobody < 0)
        return;
    dup3(nobody, c->fd, O_CLOEXEC);
    close(nobody);
}

/* Fibers that held slots, or waited for them, are the parent's, too. */
static void notice_fork(weft_fetcher *o)
{
    pid_t pid = getpid();
    if (o->pid == pid)
        return;
    o->pid = pid;
    WEFT__LIST_FOR(node, &o->origins)
        weft_sem_open(&CONTAINER_OF(node, weft__origin, node)->slots,
                      o->options.connections_per_origin_max);
    WEFT__LIST_FOR(node, &o->idle)
        disown(CONTAINER_OF(node, weft__fetch_conn, recent));
    weft__pool_clear(o);
}

void weft__pool_clear(weft_fetcher *o)
{
    notice_fork(o);
    while (!weft__list_is_empty(&o->idle))
        retire(o, oldest_of(o));
}

/* TLS may hold records that came with the last one of the answer: seen by who reads only. */
static bool is_quiet_inside(weft__fetch_conn *c)
{
    const void *data;
    ssize_t n = 0;
    WEFT_SHIELD(INFINITY)
        WEFT_MOVE_ON_AFTER(0)
            n = weft_stream_peek(&c->stream, 1, &data);
    return n == -ECANCELED;
}

/*
 * An idle connection has nothing to say: if there is something, it is the end, or nonsense, which
 * must not be taken for the answer to the next request.
 */
static bool is_quiet(weft__fetch_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN | POLLRDHUP};
    return poll(&p, 1, 0) == 0 && (!c->is_tls || is_quiet_inside(c));
}

/* One of f's origin, which f's slot keeps there; NULL: none. */
static weft__fetch_conn *take_idle(weft_fetch *f)
{
    while (!weft__list_is_empty(&f->origin->idle)) {
        weft__fetch_conn *c = CONTAINER_OF(f->origin->idle.next, weft__fetch_conn, node);
        take_out(f->fetcher, c);
        if (is_quiet(c))
            return c;
        close_conn(c, false);
    }
    return NULL;
}

static int make_conn(weft_fetch *f)
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

int weft__pool_take(weft_fetch *f, bool is_fresh)
{
    notice_fork(f->fetcher);
    retire_old(f->fetcher);
    int rc = f->origin == NULL ? enter_origin(f) : 0;
    if (rc < 0)
        return rc;
    f->conn = is_fresh ? NULL : take_idle(f);
    f->is_reused = f->conn != NULL;
    f->is_spoiled = f->has_input = false;
    f->is_unsent = true;
    if (f->conn == NULL)
        rc = make_conn(f);
    if (rc < 0)
        leave_origin(f);
    return rc;
}

void weft__pool_drop(weft_fetch *f)
{
    weft__fetch_conn *c = f->conn;
    f->conn = NULL;
    f->taken = f->piece_bytes = 0;
    if (c != NULL)
        close_conn(c, true);
}

static bool has_leftover(weft__fetch_conn *c)
{
    const void *data;
    return weft_stream_peek(&c->stream, 0, &data) != 0;
}

void weft__pool_give(weft_fetch *f, bool is_kept)
{
    weft_fetcher *o = f->fetcher;
    weft__fetch_conn *c = f->conn;
    if (c != NULL && f->taken > 0)
        weft_stream_skip(&c->stream, f->taken);
    f->taken = f->piece_bytes = 0;
    if (c == NULL || !is_kept || f->is_spoiled || has_leftover(c)) {
        weft__pool_drop(f);
    } else {
        f->conn = NULL;
        c->idle_since = weft_now();
        weft__list_insert(f->origin->idle.next, &c->node);
        weft__list_insert(&o->idle, &c->recent);
        o->idle_count++;
    }
    if (f->origin != NULL)
        leave_origin(f);
    retire_old(o);
}
