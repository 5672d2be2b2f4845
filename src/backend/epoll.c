/*
 * The epoll backend: tries each call at once, waits only for what would block, and makes the call
 * when the descriptor becomes ready. How a call is kept from blocking is call.c's matter.
 *
 * A descriptor is registered edge-triggered when it is first waited on and stays so until it is
 * closed. Each wait sets the registration again (EPOLL_CTL_MOD): that asks for the directions that
 * are waited on and no other, reports a readiness that came between the call and the wait, and
 * finds out that a number was closed behind our back and belongs to another file now (ENOENT).
 *
 * Regular files cannot be waited on (EPERM). What of them is not in memory is read and written by a
 * call that blocks the thread for as long as the disk takes; a pool of threads is to take this
 * over.
 */
#include "backend/backend.h"
#include "backend/call.h"
#include "backend/waiters.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Events taken in one call: 1.5 KiB on the stack of the fiber that polls. */
#define EVENTS_MAX 128
/* Descriptors in a chunk of the table, 4 KiB together. */
#define CHUNK_DESCRIPTORS 64
/* A connect that found a full backlog is tried again after so long: no readiness tells of it. */
#define RETRY_NS 1000000
/* Tells the event of wake_fd from those of descriptors, whose generation is never 0. */
#define WAKE_TAG UINT64_C(0)

#define NS_PER_S 1000000000
#define NS_PER_MS 1000000

typedef struct descriptor {
    weft__waiters waiters;
    uint32_t generation; /* of its registration, comes back with the events; 0: not registered */
    bool is_not_socket;  /* for weft__call_try */
    bool is_closing;     /* close_fd is ending what waits; nothing new is let in */
} descriptor;

typedef struct epoll_backend {
    weft__backend base;
    int epoll_fd;
    int wake_fd;
    uint32_t generation; /* the last one given out */
    bool has_no_pwait2;
    /* By number, in chunks that never move: a descriptor stays where it is while done runs. */
    descriptor **chunks;
    size_t chunk_count;
    weft__list retries; /* CONNECT that found a full backlog */
    /* What a poll found; not on the stack, which is that of some fiber and may be nearly full. */
    struct epoll_event events[EVENTS_MAX];
} epoll_backend;

static epoll_backend *epoll_of(weft__backend *base)
{
    return CONTAINER_OF(base, epoll_backend, base);
}

/* NULL if nothing was ever noted about the number. */
static descriptor *find(epoll_backend *b, int fd)
{
    size_t chunk = (unsigned)fd / CHUNK_DESCRIPTORS;
    if (chunk >= b->chunk_count || b->chunks[chunk] == NULL)
        return NULL;
    return &b->chunks[chunk][(unsigned)fd % CHUNK_DESCRIPTORS];
}

static int grow_table(epoll_backend *b, size_t chunk_count)
{
    size_t doubled = b->chunk_count * 2;
    size_t wanted = doubled > chunk_count ? doubled : chunk_count;
    descriptor **chunks = realloc(b->chunks, wanted * sizeof *chunks);
    if (chunks == NULL)
        return -ENOMEM;
    memset(chunks + b->chunk_count, 0, (wanted - b->chunk_count) * sizeof *chunks);
    b->chunks = chunks;
    b->chunk_count = wanted;
    return 0;
}

static COLD descriptor *make(epoll_backend *b, int fd)
{
    size_t chunk = (unsigned)fd / CHUNK_DESCRIPTORS;
    if (chunk >= b->chunk_count && grow_table(b, chunk + 1) < 0)
        return NULL;
    descriptor *made = calloc(CHUNK_DESCRIPTORS, sizeof *made);
    if (made == NULL)
        return NULL;
    for (int i = 0; i < CHUNK_DESCRIPTORS; i++)
        weft__waiters_init(&made[i].waiters);
    b->chunks[chunk] = made;
    return find(b, fd);
}

/* Only for a number that a call found open: a stray one would make a huge table. NULL: no room. */
static descriptor *find_or_make(epoll_backend *b, int fd)
{
    descriptor *d = find(b, fd);
    return d != NULL ? d : make(b, fd);
}

static int register_new(epoll_backend *b, int fd, descriptor *d, uint32_t events)
{
    if (++b->generation == 0)
        b->generation = 1;
    struct epoll_event event = {events, {.u64 = (uint64_t)b->generation << 32 | (unsigned)fd}};
    int rc = epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    if (rc < 0 && errno == EEXIST) /* a file that had this number before has it again (dup2) */
        rc = epoll_ctl(b->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    d->generation = rc < 0 ? 0 : b->generation;
    return rc < 0 ? -errno : 0;
}

/* Have epoll report, from now on, what the descriptor's waiters wait for. 0 or -errno. */
static int arm(epoll_backend *b, int fd, descriptor *d)
{
    uint32_t events = EPOLLET;
    bool has_either = !weft__list_is_empty(&d->waiters.either);
    if (has_either || !weft__list_is_empty(&d->waiters.readers))
        events |= EPOLLIN;
    if (has_either || !weft__list_is_empty(&d->waiters.writers))
        events |= EPOLLOUT;
    if (d->generation != 0) {
        struct epoll_event event = {events, {.u64 = (uint64_t)d->generation << 32 | (unsigned)fd}};
        if (epoll_ctl(b->epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0)
            return 0;
        if (errno != ENOENT)
            return -errno;
    }
    return register_new(b, fd, d, events);
}

/* Queue an operation and have its descriptor watched. 0, or -errno: it is not queued then. */
static int enqueue(epoll_backend *b, weft__op *op, descriptor *d)
{
    weft__list_insert(weft__waiters_queue(&d->waiters, op), &op->link);
    int rc = arm(b, op->fd, d);
    if (rc < 0)
        weft__list_remove(&op->link);
    else
        b->base.pending++;
    return rc;
}

static intptr_t try_call(epoll_backend *b, weft__op *op, descriptor *d)
{
    bool is_not_socket = d != NULL && d->is_not_socket;
    bool was = is_not_socket;
    intptr_t result = weft__call_try(op, &is_not_socket);
    if (is_not_socket != was) {
        d = find_or_make(b, op->fd); /* no memory: it is only a hint */
        if (d != NULL)
            d->is_not_socket = is_not_socket;
    }
    return result;
}

/* It would block: wait. A regular file comes here, too, when its data is not in memory. */
static intptr_t wait_for_call(epoll_backend *b, weft__op *op)
{
    descriptor *d = find_or_make(b, op->fd);
    if (d == NULL)
        return -ENOMEM;
    if (op->code == WEFT__OP_CONNECT && op->progress == 0) {
        weft__list_insert(&b->retries, &op->link);
        b->base.pending++;
        return WEFT__OP_PENDING;
    }
    int rc = enqueue(b, op, d);
    if (rc == -EPERM)
        return weft__call_block(op);
    return rc < 0 ? rc : WEFT__OP_PENDING;
}

static intptr_t submit_wait(epoll_backend *b, weft__op *op)
{
    if (!(op->u.events & (POLLIN | POLLOUT)))
        return -EINVAL;
    intptr_t result = try_call(b, op, NULL);
    if (result < 0 && result != -EAGAIN)
        return result;
    descriptor *d = find_or_make(b, op->fd);
    if (d == NULL)
        return -ENOMEM;
    /* Registered even if it is ready: poll calls every regular file ready, epoll says -EPERM. */
    int rc = enqueue(b, op, d);
    if (rc < 0)
        return rc;
    if (result == -EAGAIN)
        return WEFT__OP_PENDING;
    weft__list_remove(&op->link);
    b->base.pending--;
    return result;
}

static intptr_t epoll_submit(weft__backend *base, weft__op *op)
{
    epoll_backend *b = epoll_of(base);
    op->progress = 0;
    descriptor *d = find(b, op->fd);
    if (d != NULL && d->is_closing)
        return -EBADF;
    if (op->code == WEFT__OP_WAIT)
        return submit_wait(b, op);
    /* Not past those who wait already. A connect is started in any case: it waits for no turn. */
    bool is_next = d == NULL || weft__list_is_empty(weft__waiters_queue(&d->waiters, op));
    if (is_next || op->code == WEFT__OP_CONNECT) {
        intptr_t result = try_call(b, op, d);
        if (result != -EAGAIN)
            return result;
    }
    return wait_for_call(b, op);
}

static bool epoll_cancel(weft__backend *base, weft__op *op)
{
    weft__list_remove(&op->link);
    base->pending--;
    return true;
}

/* Let the waiters go on, in order. done may close the descriptor: its generation tells. */
static void run_queue(epoll_backend *b, descriptor *d, weft__list *queue, uint32_t generation)
{
    while (d->generation == generation && !weft__list_is_empty(queue)) {
        weft__op *op = weft__waiters_first(queue);
        intptr_t result = try_call(b, op, d);
        if (result == -EAGAIN)
            return;
        weft__waiters_end(&b->base, op, result);
    }
}

static void handle_event(epoll_backend *b, const struct epoll_event *event)
{
    if (event->data.u64 == WAKE_TAG)
        return; /* not read: edge-triggered, every write is an event of its own */
    uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    descriptor *d = find(b, (int)(uint32_t)event->data.u64);
    if (d == NULL || d->generation != generation)
        return; /* of a file that had the number before */
    uint32_t for_both = event->events & (EPOLLERR | EPOLLHUP);
    run_queue(b, d, &d->waiters.either, generation);
    if (for_both || event->events & EPOLLIN)
        run_queue(b, d, &d->waiters.readers, generation);
    if (for_both || event->events & EPOLLOUT)
        run_queue(b, d, &d->waiters.writers, generation);
}

/* One round over those that are on the list now. */
static void retry_connects(epoll_backend *b)
{
    size_t count = 0;
    WEFT__LIST_FOR(node, &b->retries)
        count++;
    for (; count > 0 && !weft__list_is_empty(&b->retries); count--) {
        weft__op *op = weft__waiters_first(&b->retries);
        intptr_t result = try_call(b, op, find(b, op->fd));
        if (result == -EAGAIN) {
            epoll_cancel(&b->base, op);
            result = wait_for_call(b, op);
            if (result == WEFT__OP_PENDING)
                continue;
            b->base.pending++;
        }
        weft__waiters_end(&b->base, op, result);
    }
}

static int wait_ms(epoll_backend *b, int64_t timeout_ns)
{
    int64_t ms = timeout_ns < 0 ? -1 : timeout_ns / NS_PER_MS + (timeout_ns % NS_PER_MS != 0);
    return epoll_wait(b->epoll_fd, b->events, EVENTS_MAX, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* The number of events, or -errno. */
static int wait_events(epoll_backend *b, int64_t timeout_ns)
{
    int count = -1;
    if (!b->has_no_pwait2) {
        struct timespec timeout = {timeout_ns / NS_PER_S, timeout_ns % NS_PER_S};
        const struct timespec *at_most = timeout_ns < 0 ? NULL : &timeout;
        count = epoll_pwait2(b->epoll_fd, b->events, EVENTS_MAX, at_most, NULL);
        b->has_no_pwait2 = count < 0 && errno == ENOSYS; /* before Linux 5.11 */
    }
    if (b->has_no_pwait2)
        count = wait_ms(b, timeout_ns);
    return count < 0 ? -errno : count;
}

static int epoll_poll(weft__backend *base, int64_t timeout_ns)
{
    epoll_backend *b = epoll_of(base);
    bool has_retries = !weft__list_is_empty(&b->retries);
    if (timeout_ns == WEFT__POLL_FOR_WAKE)
        timeout_ns = WEFT__POLL_FOR_WAKE_NS;
    if (has_retries && (timeout_ns < 0 || timeout_ns > RETRY_NS))
        timeout_ns = RETRY_NS;
    int count = wait_events(b, timeout_ns);
    if (count < 0)
        return count == -EINTR ? 0 : count;
    for (int i = 0; i < count; i++)
        handle_event(b, &b->events[i]);
    if (has_retries)
        retry_connects(b);
    return 0;
}

static void epoll_wake(weft__backend *base)
{
    uint64_t one = 1;
    /* It can only fail when the counter is full, and then it has been woken often enough. */
    (void)!TEMP_FAILURE_RETRY(write(epoll_of(base)->wake_fd, &one, sizeof one));
}

static void end_retries_on(epoll_backend *b, int fd)
{
    bool is_found;
    do {
        is_found = false;
        WEFT__LIST_FOR(node, &b->retries) {
            weft__op *op = CONTAINER_OF(node, weft__op, link);
            if (op->fd == fd) {
                is_found = true;
                weft__waiters_end(&b->base, op, -EBADF);
                break; /* done may have changed the list */
            }
        }
    } while (is_found);
}

static int epoll_close_fd(weft__backend *base, int fd)
{
    epoll_backend *b = epoll_of(base);
    descriptor *d = find(b, fd);
    if (d != NULL) {
        if (d->is_closing)
            return -EBADF;
        d->is_closing = true;
        /* Closing alone leaves the registration of a file that is open elsewhere (dup, fork). */
        if (d->generation != 0)
            epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        d->generation = 0;
        weft__waiters_end_all(base, &d->waiters.readers, -EBADF);
        weft__waiters_end_all(base, &d->waiters.writers, -EBADF);
        weft__waiters_end_all(base, &d->waiters.either, -EBADF);
        end_retries_on(b, fd);
        d->is_not_socket = false;
        d->is_closing = false;
    }
    /* On Linux the descriptor is gone also after EINTR; a second close could hit another file. */
    return weft__call_close(fd);
}

static int64_t epoll_now_ns(weft__backend *base)
{
    (void)base;
    return weft__clock_ns();
}

static void epoll_close(weft__backend *base)
{
    epoll_backend *b = epoll_of(base);
    for (size_t i = 0; i < b->chunk_count; i++)
        free(b->chunks[i]);
    free(b->chunks);
    if (b->wake_fd >= 0)
        close(b->wake_fd);
    if (b->epoll_fd >= 0)
        close(b->epoll_fd);
    free(b);
}

/* Make the kernel's objects. 0 or -errno; what was opened stays in b. */
static int open_descriptors(epoll_backend *b)
{
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll_fd < 0)
        return -errno;
    b->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->wake_fd < 0)
        return -errno;
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = WAKE_TAG}};
    return epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, b->wake_fd, &event) < 0 ? -errno : 0;
}

static int epoll_open(weft__backend **out)
{
    epoll_backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->base.type = &weft__backend_epoll;
    b->epoll_fd = b->wake_fd = -1;
    weft__finished_init(&b->base.pooled);
    weft__list_init(&b->retries);
    int rc = open_descriptors(b);
    if (rc < 0)
        epoll_close(&b->base);
    else
        *out = &b->base;
    return rc;
}

const weft__backend_type weft__backend_epoll = {
    .name = "epoll",
    .open = epoll_open,
    .close = epoll_close,
    .now_ns = epoll_now_ns,
    .submit = epoll_submit,
    .cancel = epoll_cancel,
    .poll = epoll_poll,
    .wake = epoll_wake,
    .close_fd = epoll_close_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = weft__call_pipe,
    .socketpair = weft__call_socketpair,
};
