/*
 * The epoll backend: what ready.c needs of epoll. A descriptor is registered edge-triggered when it
 * is first waited on, for the direction that is waited for, then for both, and stays so until it is
 * closed: most waits make no call for it. Readiness for writing is not asked for before somebody
 * needs it: a unix socket tells of it whenever its peer has read.
 */
#include "backend/call.h"
#include "backend/ready.h"
#include "backend/wake_fd.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Events taken in one call. */
#define EVENTS_MAX 128
/*
 * How many are handled before those whom they wake run: what the kernel and the fiber have of a
 * connection is still in the cache then.
 */
#define PART 16
/* How many events ahead what they concern is fetched: descriptor, operation, its owner. */
#define FETCH_AHEAD 8
#define FETCH_OP_AHEAD 4
#define FETCH_OWNER_AHEAD 2
/* Tells the event of wake_fd from those of descriptors, whose generation is never 0. */
#define WAKE_TAG UINT64_C(0)

#define NS_PER_MS 1000000

typedef struct epoll_backend {
    weft__backend base;
    weft__ready ready;
    int epoll_fd;
    weft__wake_fd wake;
    uint32_t generation; /* the last one given out */
    bool has_no_pwait2;
    /* What a poll found; not on the stack, which is that of some fiber and may be nearly full. */
    struct epoll_event events[EVENTS_MAX];
    int events_count, events_done; /* how many there are, and how many of them have been handled */
} epoll_backend;

static epoll_backend *epoll_of(weft__backend *base)
{
    return CONTAINER_OF(base, epoll_backend, base);
}

/* What is waited for, as poll(2) names it. */
static uint8_t wanted_events(const weft__waiters *w)
{
    bool has_either = !weft__list_is_empty(&w->either);
    uint8_t events = 0;
    if (has_either || !weft__list_is_empty(&w->readers))
        events |= POLLIN;
    if (has_either || !weft__list_is_empty(&w->writers))
        events |= POLLOUT;
    return events;
}

/* Readers are to hear of the end and of urgent bytes, too: see ready.c. */
static int control(epoll_backend *b, int what, int fd, uint8_t events, uint32_t generation)
{
    uint32_t all = events | EPOLLET | (events & POLLIN ? EPOLLRDHUP | EPOLLPRI : 0);
    struct epoll_event event = {all, {.u64 = (uint64_t)generation << 32 | (unsigned)fd}};
    return epoll_ctl(b->epoll_fd, what, fd, &event) < 0 ? -errno : 0;
}

static int register_new(epoll_backend *b, int fd, weft__descriptor *d, uint8_t events)
{
    if (++b->generation == 0)
        b->generation = 1;
    int rc = control(b, EPOLL_CTL_ADD, fd, events, b->generation);
    if (rc == -EEXIST) /* a file that had this number before has it again (dup2) */
        rc = control(b, EPOLL_CTL_MOD, fd, events, b->generation);
    d->generation = rc < 0 ? 0 : b->generation;
    d->watched = rc < 0 ? 0 : events;
    return rc;
}

/*
 * To set a registration again (EPOLL_CTL_MOD) reports a readiness that is there, and finds out that
 * the number was closed behind our back and belongs to another file now (ENOENT).
 */
static int set_again(epoll_backend *b, int fd, weft__descriptor *d, uint8_t wanted)
{
    uint8_t events = d->watched | wanted;
    int rc = control(b, EPOLL_CTL_MOD, fd, events, d->generation);
    if (rc == -ENOENT)
        return register_new(b, fd, d, wanted);
    d->watched = rc < 0 ? d->watched : events;
    return rc;
}

static int epoll_watch(weft__backend *base, int fd, weft__descriptor *d)
{
    epoll_backend *b = epoll_of(base);
    uint8_t wanted = wanted_events(&d->waiters);
    bool is_doubtful = d->is_doubtful;
    d->is_doubtful = false;
    if (d->generation == 0)
        return register_new(b, fd, d, wanted);
    if ((d->watched & wanted) == wanted && !is_doubtful)
        return 0;
    return set_again(b, fd, d, wanted);
}

/* Closing alone leaves the registration of a file that is open elsewhere (dup, fork). */
static void epoll_unwatch(weft__backend *base, int fd, weft__descriptor *d)
{
    epoll_ctl(epoll_of(base)->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    d->generation = 0;
    d->watched = 0;
}

static intptr_t epoll_submit(weft__backend *base, weft__op *op)
{
    return weft__ready_submit(&epoll_of(base)->ready, op);
}

static bool epoll_cancel(weft__backend *base, weft__op *op)
{
    return weft__ready_cancel(&epoll_of(base)->ready, op);
}

static void handle_event(epoll_backend *b, const struct epoll_event *event)
{
    if (event->data.u64 == WAKE_TAG)
        return; /* not read: edge-triggered, every write is an event of its own */
    int fd = (int)(uint32_t)event->data.u64;
    weft__descriptor *d = weft__ready_find(&b->ready, fd);
    if (d == NULL || d->generation != (uint32_t)(event->data.u64 >> 32))
        return; /* of a file that had the number before */
    weft__ready_event(&b->ready, fd, d, (int)event->events); /* the bits are those of poll */
}

/* The descriptor of an event so many places from now; NULL: there is none. */
static const weft__descriptor *peek(const epoll_backend *b, int ahead)
{
    int i = b->events_done + ahead;
    if (i >= b->events_count)
        return NULL;
    return weft__ready_find(&b->ready, (int)(uint32_t)b->events[i].data.u64);
}

/* With many connections none of this is in the cache: it is fetched while others are handled. */
FETCHER void fetch_op(const epoll_backend *b, int ahead)
{
    const weft__descriptor *d = peek(b, ahead);
    if (d != NULL)
        weft__fetch(weft__waiters_first(&d->waiters.readers), WEFT__OP_LINES);
}

FETCHER void fetch_owner(const epoll_backend *b, int ahead)
{
    const weft__descriptor *d = peek(b, ahead);
    if (d != NULL && !weft__list_is_empty(&d->waiters.readers))
        weft__fetch(weft__waiters_first(&d->waiters.readers)->owner, WEFT__OWNER_LINES);
}

/* The first ones, all at once: that takes no longer than one of them. */
FETCHER void fetch_first(const epoll_backend *b)
{
    for (int i = 0; i < FETCH_AHEAD; i++)
        weft__fetch(peek(b, i), WEFT__DESCRIPTOR_LINES);
    for (int i = 0; i < FETCH_OP_AHEAD; i++)
        fetch_op(b, i);
    for (int i = 0; i < FETCH_OWNER_AHEAD; i++)
        fetch_owner(b, i);
}

static void handle_part(epoll_backend *b)
{
    fetch_first(b);
    for (int i = 0; i < PART && b->events_done < b->events_count; i++) {
        weft__fetch(peek(b, FETCH_AHEAD), WEFT__DESCRIPTOR_LINES);
        fetch_op(b, FETCH_OP_AHEAD);
        fetch_owner(b, FETCH_OWNER_AHEAD);
        handle_event(b, &b->events[b->events_done++]);
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
        struct timespec timeout = weft__clock_spec(timeout_ns);
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
    if (b->events_done == b->events_count) {
        int count = wait_events(b, weft__ready_timeout(&b->ready, timeout_ns));
        if (count < 0 && count != -EINTR)
            return count;
        b->events_done = 0;
        b->events_count = count > 0 ? count : 0;
    }
    handle_part(b);
    weft__ready_poll(&b->ready);
    return 0;
}

static void epoll_wake(weft__backend *base)
{
    if (!weft__wake_fd_write(&epoll_of(base)->wake))
        weft__backend_interrupt(base);
}

static int epoll_close_fd(weft__backend *base, int fd)
{
    return weft__ready_close_fd(&epoll_of(base)->ready, fd);
}

static int epoll_release_fd(weft__backend *base, int fd)
{
    return weft__ready_release_fd(&epoll_of(base)->ready, fd);
}

static void forget_fd(weft__backend *base, int fd)
{
    weft__ready_forget(&epoll_of(base)->ready, fd);
}

static int epoll_pipe(weft__backend *base, int fd[2])
{
    return weft__ready_pipe(&epoll_of(base)->ready, fd);
}

static int epoll_socketpair(weft__backend *base, int fd[2])
{
    return weft__ready_socketpair(&epoll_of(base)->ready, fd);
}

static int64_t epoll_now_ns(weft__backend *base)
{
    (void)base;
    return weft__clock_ns();
}

static int add_wake(epoll_backend *b)
{
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = WAKE_TAG}};
    return epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, atomic_load(&b->wake.fd), &event) < 0 ? -errno : 0;
}

/* An epoll in which this eventfd is registered already (EEXIST) is ours, and so is the eventfd. */
static int epoll_check(weft__backend *base)
{
    epoll_backend *b = epoll_of(base);
    if (!weft__wake_fd_is_own(&b->wake))
        return -EBADF;
    int rc = add_wake(b);
    if (rc == 0) /* another one: take it out again */
        epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, atomic_load(&b->wake.fd), NULL);
    return rc == 0 || rc == -EBADF || rc == -EINVAL || rc == -EPERM ? -EBADF : 0;
}

/* Close what is still ours, and forget the numbers. */
static void close_descriptors(epoll_backend *b)
{
    if (b->epoll_fd >= 0 && epoll_check(&b->base) == 0)
        close(b->epoll_fd);
    weft__wake_fd_close(&b->wake);
    b->epoll_fd = -1;
}

static void epoll_close(weft__backend *base)
{
    epoll_backend *b = epoll_of(base);
    weft__finished_close(&b->base);
    weft__ready_close(&b->ready);
    close_descriptors(b);
    free(b);
}

static void epoll_abandon(weft__backend *base, bool is_own)
{
    (void)is_own;
    close_descriptors(epoll_of(base));
}

/* Make the kernel's objects, once more if they were lost. 0 or -errno. */
static int open_descriptors(epoll_backend *b, bool is_again)
{
    const int flags = EFD_CLOEXEC | EFD_NONBLOCK;
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll_fd < 0)
        return -errno;
    if (is_again)
        b->epoll_fd = weft__fd_move_up(b->epoll_fd);
    int rc = is_again ? weft__wake_fd_renew(&b->wake, flags) : weft__wake_fd_open(&b->wake, flags);
    if (rc == 0)
        rc = add_wake(b);
    if (rc < 0) {
        weft__wake_fd_close(&b->wake);
        close(b->epoll_fd);
        b->epoll_fd = -1;
    }
    return rc;
}

/*
 * Descriptors that have been lost are not closed: one of the two may be leaked, if the program has
 * closed only the other.
 */
static int epoll_repair(weft__backend *base)
{
    epoll_backend *b = epoll_of(base);
    close_descriptors(b);
    weft__ready_forget_closed(&b->ready); /* before their numbers are used again */
    b->events_count = b->events_done = 0;
    int rc = open_descriptors(b, true);
    if (rc == 0)
        weft__ready_rewatch(&b->ready);
    return rc;
}

static void epoll_give_up(weft__backend *base, int error)
{
    close_descriptors(epoll_of(base));
    weft__ready_give_up(&epoll_of(base)->ready, error);
}

static int epoll_open(weft__backend **out)
{
    epoll_backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->base.type = &weft__backend_epoll;
    b->epoll_fd = -1;
    atomic_init(&b->wake.fd, -1);
    weft__finished_init(&b->base);
    weft__ready_open(&b->ready, &b->base, epoll_watch, epoll_unwatch);
    int rc = open_descriptors(b, false);
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
    .abandon = epoll_abandon,
    .now_ns = epoll_now_ns,
    .submit = epoll_submit,
    .cancel = epoll_cancel,
    .poll = epoll_poll,
    .wake = epoll_wake,
    .check = epoll_check,
    .repair = epoll_repair,
    .give_up = epoll_give_up,
    .close_fd = epoll_close_fd,
    .forget_fd = forget_fd,
    .release_fd = epoll_release_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = epoll_pipe,
    .socketpair = epoll_socketpair,
};
