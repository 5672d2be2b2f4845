/*
 * The watcher of a cord (fd_watcher.h): the epoll descriptor, the table of watches, the operation
 * that waits for events.
 *
 * Each registration is one-shot and has a serial. An event contains the number of the descriptor
 * and the serial. The kernel may report an event of a file whose number was closed by another
 * thread, if the file has another descriptor (dup, fork). The serial shows that no watch belongs to
 * the event.
 *
 * The struct of the watcher and the table exist from the first watch until the thread ends. The
 * epoll descriptor exists only while a watch is registered. If the program closes the epoll
 * descriptor (closefrom), the watcher opens another one.
 */
#include "io/fd_watcher.h"

#include "backend/fd_generation.h"
#include "backend/syscall/call.h"
#include "backend/syscall/count.h"
#include "backend/wake_fd.h"
#include "base/libc.h"

#include <weft/io.h>
#include <weft/local.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* The pause after a failure, for example because memory is exhausted, in ns. */
#define RETRY_NS 10000000

static weft_key watcher_key; /* 0: no key was available */
static pthread_once_t watcher_once = PTHREAD_ONCE_INIT;

/*
 * The epoll descriptors of all cords, plus 1, by the index of the cord. 0: none. A child of
 * weft_fork closes these descriptors.
 */
static atomic_int epoll_fds[1 << WEFT__CORDS_BITS];

/* The table. */

static weft__fd_watch **table_slot(const weft__fd_watcher *w, int fd)
{
    size_t chunk = (unsigned)fd / WEFT__WATCH_CHUNK;
    if (chunk >= w->chunks_count || w->table[chunk] == NULL)
        return NULL;
    return &w->table[chunk][(unsigned)fd % WEFT__WATCH_CHUNK];
}

weft__fd_watch *weft__fd_watcher_find(const weft__fd_watcher *w, int fd)
{
    weft__fd_watch **slot = table_slot(w, fd);
    return slot != NULL ? *slot : NULL;
}

static int table_add_chunks(weft__fd_watcher *w, size_t count)
{
    if (count <= w->chunks_count)
        return 0;
    count = count > 2 * w->chunks_count ? count : 2 * w->chunks_count;
    weft__fd_watch ***table = realloc(w->table, count * sizeof *table);
    if (table == NULL)
        return -ENOMEM;
    memset(table + w->chunks_count, 0, (count - w->chunks_count) * sizeof *table);
    w->table = table;
    w->chunks_count = count;
    return 0;
}

/* Create the slot of a descriptor number. The number must be open, because it may be huge. */
static int table_reserve(weft__fd_watcher *w, int fd)
{
    if (table_slot(w, fd) != NULL)
        return 0;
    size_t chunk = (unsigned)fd / WEFT__WATCH_CHUNK;
    if (!weft__call_is_open(fd))
        return -EBADF;
    if (table_add_chunks(w, chunk + 1) < 0)
        return -ENOMEM;
    w->table[chunk] = calloc(WEFT__WATCH_CHUNK, sizeof *w->table[chunk]);
    return w->table[chunk] != NULL ? 0 : -ENOMEM;
}

static void table_free(weft__fd_watcher *w)
{
    for (size_t i = 0; i < w->chunks_count; i++)
        free(w->table[i]);
    free(w->table);
    w->table = NULL;
    w->chunks_count = 0;
}

/* Call fn for each registered watch. fn may remove the watch, and add watches. */
static void table_each(weft__cord *c, weft__fd_watcher *w,
                       void (*fn)(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch))
{
    for (size_t i = 0; i < w->chunks_count; i++)
        for (size_t j = 0; i < w->chunks_count && w->table[i] != NULL && j < WEFT__WATCH_CHUNK; j++)
            if (w->table[i][j] != NULL)
                fn(c, w, w->table[i][j]);
}

/* The epoll descriptor. */

static int epoll_open(weft__cord *c, weft__fd_watcher *w)
{
    if (w->epoll_fd >= 0)
        return 0;
    int fd = epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
        return -errno;
    fd = weft__fd_move_up(fd);
    weft__fd_created(fd);
    w->epoll_fd = fd;
    atomic_store(&epoll_fds[c->index], fd + 1);
    return 0;
}

/* Close the epoll descriptor. If op waits for it, op ends, now or later. */
static void epoll_close(weft__cord *c, weft__fd_watcher *w)
{
    int fd = w->epoll_fd;
    if (fd < 0)
        return;
    w->epoll_fd = -1;
    w->is_releasing = w->is_waiting;
    atomic_store(&epoll_fds[c->index], 0);
    weft_close(fd);
}

static int epoll_register(const weft__fd_watcher *w, const weft__fd_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT,
                                .data.u64 = (uint64_t)watch->serial << 32 | (uint32_t)watch->fd};
    if (WEFT__COUNTED(epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event)) == 0)
        return 0;
    /* EEXIST: close(2) has closed the number, but the file exists and has the number again. */
    if (errno == EEXIST &&
        WEFT__COUNTED(epoll_ctl(w->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event)) == 0)
        return 0;
    return -errno;
}

/* Register a watch again. If that fails, end the watch with the error. */
static void watch_register_again(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    int rc = w->epoll_fd >= 0 ? epoll_register(w, watch) : -EBADF;
    if (rc < 0)
        weft__fd_watch_end(c, w, watch, rc);
}

/*
 * Replace the epoll descriptor, because the program has closed it. The number may belong to another
 * file, so do not close the number.
 */
static COLD void epoll_repair(weft__cord *c, weft__fd_watcher *w)
{
    w->epoll_fd = -1;
    w->is_releasing = w->is_waiting;
    if (w->is_waiting && c->backend->type->cancel(c->backend, &w->op))
        w->is_waiting = w->is_releasing = false;
    if (epoll_open(c, w) == 0)
        table_each(c, w, watch_register_again);
}

static bool is_epoll_lost(int error)
{
    return error == EBADF || error == EINVAL;
}

/* Running. */

static void watcher_op_done(weft__op *op, intptr_t result);

/* Call watcher_run after delay_ns. */
static void watcher_wake_after(weft__cord *c, weft__fd_watcher *w, int64_t delay_ns)
{
    weft__timer_disarm(&c->wheel, &w->timer);
    weft__timer_arm(&c->wheel, &w->timer, weft__ns_later(weft__cord_now(c), delay_ns));
}

void weft__fd_watcher_wake(weft__cord *c, weft__fd_watcher *w)
{
    if (!weft__timer_is_armed(&w->timer))
        watcher_wake_after(c, w, 0);
}

void weft__fd_watcher_settle(weft__cord *c, weft__fd_watcher *w)
{
    if (w->registered == 0 && weft__list_is_empty(&w->due))
        weft__timer_disarm(&c->wheel, &w->timer);
}

/* Wait for events of the epoll descriptor, unless the watcher waits already. */
static void watcher_wait(weft__cord *c, weft__fd_watcher *w)
{
    if (w->registered == 0 || w->is_waiting)
        return;
    w->op = (weft__op){
        .code = WEFT__OP_WAIT, .fd = w->epoll_fd, .u.events = POLLIN, .done = watcher_op_done};
    weft__list_init(&w->op.link);
    intptr_t result = c->backend->type->submit(c->backend, &w->op);
    w->is_waiting = result == WEFT__OP_PENDING;
    if (!w->is_waiting)
        watcher_wake_after(c, w, result < 0 ? RETRY_NS : 0);
}

/* Add the watches with events to `due`. */
static void take_events(weft__cord *c, weft__fd_watcher *w)
{
    struct epoll_event events[WEFT__WATCH_BATCH];
    if (w->registered == 0)
        return;
    int n = WEFT__COUNTED(epoll_wait(w->epoll_fd, events, WEFT__WATCH_BATCH, 0));
    if (n < 0 && is_epoll_lost(errno))
        epoll_repair(c, w);
    for (int i = 0; i < n; i++) {
        int fd = (int)(uint32_t)events[i].data.u64;
        weft__fd_watch *watch = weft__fd_watcher_find(w, fd);
        if (watch == NULL || watch->serial != events[i].data.u64 >> 32)
            continue;
        bool is_stale = watch->generation != weft__fd_generation(fd);
        weft__fd_watch_end(c, w, watch, is_stale ? -EBADF : 0);
    }
}

/* Create the fibers of due watches. Returns 0, or an error if a fiber cannot be created now. */
static int spin_due(weft__cord *c, weft__fd_watcher *w)
{
    int rc = 0;
    for (int i = 0; i < WEFT__WATCH_BATCH && rc == 0 && !weft__list_is_empty(&w->due); i++)
        rc = weft__fd_watch_spin(c, w);
    return rc;
}

/*
 * Return whether the last fiber that was created has not run yet. The run queue is FIFO, so the
 * fibers before it have run when it runs.
 */
static bool is_last_queued(const weft__cord *c, const weft__fd_watcher *w)
{
    const weft__fiber *f = weft__fiber_find(c, w->last);
    return f != NULL && f->phase == WEFT__FRESH && weft__runnable_is_queued(&f->queued);
}

/* Create fibers, at most WEFT__WATCH_BATCH. Then wait for further events. */
static void watcher_run(weft__cord *c, weft__fd_watcher *w)
{
    if (is_last_queued(c, w)) {
        watcher_wake_after(c, w, 0);
        return;
    }
    if (weft__list_is_empty(&w->due))
        take_events(c, w);
    int rc = spin_due(c, w);
    weft__timer_disarm(&c->wheel, &w->timer);
    if (rc < 0)
        watcher_wake_after(c, w, RETRY_NS);
    else if (!weft__list_is_empty(&w->due))
        watcher_wake_after(c, w, 0);
    else
        watcher_wait(c, w);
}

static void watcher_timer_fire(weft__timer *timer)
{
    watcher_run(weft__cord_self, CONTAINER_OF(timer, weft__fd_watcher, timer));
}

/*
 * After an error, do not submit again at once: the backend may be ending all its operations.
 */
static void watcher_op_done(weft__op *op, intptr_t result)
{
    weft__cord *c = weft__cord_self;
    weft__fd_watcher *w = CONTAINER_OF(op, weft__fd_watcher, op);
    bool was_releasing = w->is_releasing;
    w->is_waiting = w->is_releasing = false;
    if (w->closer != NULL)
        weft__wake(c, w->closer, 0, WEFT__TAIL);
    else if (was_releasing && w->registered > 0)
        weft__fd_watcher_wake(c, w);
    else if (was_releasing)
        return;
    else if (result < 0)
        watcher_wake_after(c, w, RETRY_NS);
    else
        watcher_run(c, w);
}

/* Registering. */

/* Like epoll_register, but replace the epoll descriptor if the program has closed it. */
static int watch_register(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    int rc = epoll_open(c, w);
    if (rc < 0)
        return rc;
    watch->serial = ++w->serial;
    watch->generation = weft__fd_generation(watch->fd);
    rc = epoll_register(w, watch);
    if (!is_epoll_lost(-rc) || !weft__call_is_open(watch->fd))
        return rc;
    epoll_repair(c, w);
    return w->epoll_fd >= 0 ? epoll_register(w, watch) : rc;
}

int weft__fd_watcher_add(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    int rc = table_reserve(w, watch->fd);
    if (rc == 0)
        rc = weft__fd_reserve(watch->fd);
    if (rc == 0)
        rc = watch_register(c, w, watch);
    if (rc == 0) {
        *table_slot(w, watch->fd) = watch;
        w->registered++;
        watcher_wait(c, w);
    } else if (w->registered == 0) {
        epoll_close(c, w);
    }
    return rc;
}

void weft__fd_watcher_remove(weft__fd_watcher *w, weft__fd_watch *watch)
{
    /*
     * If another thread has closed the number, the number may belong to another file, which is not
     * registered. The call then fails.
     */
    (void)WEFT__COUNTED(epoll_ctl(w->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL));
    *table_slot(w, watch->fd) = NULL;
    if (--w->registered == 0)
        epoll_close(weft__cord_self, w);
}

/* The begin and the end. */

static bool has_watches(const weft__fd_watcher *w)
{
    return w->registered > 0 || !weft__list_is_empty(&w->own_ops) || !weft__list_is_empty(&w->due);
}

/* Call drop for all watches. */
static void drop_all(weft__cord *c, weft__fd_watcher *w)
{
    table_each(c, w, weft__fd_watch_drop);
    while (!weft__list_is_empty(&w->own_ops))
        weft__fd_watch_drop(c, w, CONTAINER_OF(w->own_ops.next, weft__watch_op, link)->watch);
    while (!weft__list_is_empty(&w->due))
        weft__fd_watch_drop(c, w, weft__fd_watch_first_due(w));
}

static void spins_free(weft__fd_watcher *w)
{
    for (weft__list *node; (node = weft__list_pop(&w->spins)) != NULL;)
        free(CONTAINER_OF(node, weft__watch_spin, link));
}

/*
 * End the watcher, because the thread ends. The destructor of watcher_key calls this function in a
 * fiber, after the children of the main fiber have ended.
 */
static void watcher_end(void *value)
{
    weft__cord *c = weft__cord_self;
    weft__fd_watcher *w = value;
    while (has_watches(w)) /* drop may open watches */
        drop_all(c, w);
    weft__timer_disarm(&c->wheel, &w->timer);
    if (w->is_waiting) {
        w->closer = c->current;
        weft__wait(c, &weft__waits_release, w);
    }
    c->fd_watcher = NULL;
    table_free(w);
    spins_free(w);
    free(w);
}

static void watcher_init(weft__fd_watcher *w)
{
    *w = (weft__fd_watcher){.epoll_fd = -1};
    weft__list_init(&w->due);
    weft__list_init(&w->own_ops);
    weft__list_init(&w->spins);
    weft__timer_init(&w->timer, watcher_timer_fire);
}

static void watch_forget(weft__cord *c, weft__fd_watcher *w, weft__fd_watch *watch)
{
    (void)c;
    (void)w;
    weft__fd_watch_forget(watch);
}

/* Mark the watches of the parent process as closed. The backend and the timers do not exist. */
static void watcher_reset_in_child(weft__cord *c, weft__fd_watcher *w)
{
    table_each(c, w, watch_forget);
    WEFT__LIST_FOR(node, &w->own_ops)
        weft__fd_watch_forget(CONTAINER_OF(node, weft__watch_op, link)->watch);
    for (weft__list *node; (node = weft__list_pop(&w->due)) != NULL;)
        weft__fd_watch_forget(CONTAINER_OF(node, weft__fd_watch, timer.link));
    table_free(w);
    spins_free(w);
    watcher_init(w); /* not freed: own_ops, which lists of the parent's backend contain */
}

/*
 * The child handler of fork(2). In a child of weft_fork, reset the watcher, and close the epoll
 * descriptors of all cords, because they belong to the parent. A child of plain fork(2) has no
 * cord.
 */
static void watcher_after_fork(void)
{
    weft__cord *c = weft__cord_self;
    if (c == NULL)
        return;
    for (size_t i = 0; i < sizeof epoll_fds / sizeof *epoll_fds; i++) {
        int fd = atomic_exchange(&epoll_fds[i], 0) - 1;
        if (fd >= 0) {
            weft__fd_advance(fd);
            close(fd);
        }
    }
    if (c->fd_watcher != NULL)
        watcher_reset_in_child(c, c->fd_watcher);
}

static void watcher_set_up(void)
{
    if (pthread_atfork(NULL, NULL, watcher_after_fork) == 0)
        watcher_key = weft_key_new(watcher_end);
}

weft__fd_watcher *weft__fd_watcher_of(weft__cord *c)
{
    weft__fd_watcher *w = c->fd_watcher;
    /* The main fiber of a child of weft_fork may be another fiber, without the value of the key. */
    if (LIKELY(w != NULL) && weft__cord_local(c, watcher_key) == w)
        return w;
    pthread_once(&watcher_once, watcher_set_up);
    if (w == NULL && watcher_key != 0 && (w = malloc(sizeof *w)) != NULL)
        watcher_init(w);
    if (w == NULL || weft__cord_local_set(c, watcher_key, w) < 0) {
        if (w != c->fd_watcher)
            free(w);
        return NULL;
    }
    return c->fd_watcher = w;
}
