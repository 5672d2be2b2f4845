/*
 * The epoll backend, based on ready.c. At the first wait on a descriptor, the backend registers the
 * descriptor edge-triggered for the direction of the wait. A later wait may add the other
 * direction. The registration lasts until the descriptor is closed, so most waits need no system
 * call. The backend registers writability only if necessary, because a unix socket reports
 * writability whenever the peer has read.
 *
 * If hosted, the number may belong to another file at each wait. The backend then registers at each
 * wait, and the registration reports once (EPOLLONESHOT). If the number belongs to another file,
 * EPOLL_CTL_MOD fails with ENOENT.
 */
#include "backend/ready/ready.h"
#include "backend/syscall/call.h"
#include "backend/syscall/count.h"
#include "backend/wake_fd.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* The maximum number of events per epoll_wait. */
#define EVENTS_MAX 128
/*
 * The maximum number of events that poll handles before the woken fibers run. The data of the
 * connections is then still in the cache.
 */
#define BATCH 16
/* The event data of the eventfd. In the data of other events, the generation is never 0. */
#define WAKE_TAG UINT64_C(0)

#define NS_PER_MS 1000000

typedef struct epoll_backend {
    weft__backend base;
    weft__ready ready;
    int epoll_fd;
    weft__wake_fd wake;
    uint32_t generation; /* of the last registration */
    bool lacks_pwait2;
    /*
     * The events of the last epoll_wait. poll runs on the stack of any fiber, and the stack may be
     * nearly full. Therefore the events are not on the stack.
     */
    struct epoll_event events[EVENTS_MAX];
    int events_count, events_done; /* the numbers of events and of handled events */
} epoll_backend;

static epoll_backend *epoll_of(weft__backend *base)
{
    return CONTAINER_OF(base, epoll_backend, base);
}

/*
 * Return the events to register. Readers also need reports of the end of the input and of urgent
 * bytes (see ready.c). If hosted, nothing is drained, and the registration reports once.
 */
static uint32_t registration_events(const epoll_backend *b, uint8_t events)
{
    if (b->base.is_hosted)
        return events | EPOLLONESHOT;
    return events | EPOLLET | (events & POLLIN ? EPOLLRDHUP | EPOLLPRI : 0);
}

static int registration_set(epoll_backend *b, int operation, int fd, uint8_t events,
                            uint32_t generation)
{
    uint32_t all = registration_events(b, events);
    struct epoll_event event = {all, {.u64 = (uint64_t)generation << 32 | (unsigned)fd}};
    return WEFT__COUNTED(epoll_ctl(b->epoll_fd, operation, fd, &event)) < 0 ? -errno : 0;
}

static int registration_add(epoll_backend *b, int fd, weft__descriptor *d, uint8_t events)
{
    if (++b->generation == 0)
        b->generation = 1;
    int rc = registration_set(b, EPOLL_CTL_ADD, fd, events, b->generation);
    if (rc == -EEXIST) /* an earlier file has this number again (dup2) */
        rc = registration_set(b, EPOLL_CTL_MOD, fd, events, b->generation);
    d->generation = rc < 0 ? 0 : b->generation;
    d->armed = rc < 0 ? 0 : events;
    return rc;
}

/*
 * Change the events of a registration. EPOLL_CTL_MOD also reports existing readiness. ENOENT means
 * that the number was closed and now belongs to another file.
 */
static int registration_modify(epoll_backend *b, int fd, weft__descriptor *d, uint8_t wanted)
{
    uint8_t events = b->base.is_hosted ? wanted : d->armed | wanted;
    int rc = registration_set(b, EPOLL_CTL_MOD, fd, events, d->generation);
    if (rc == -ENOENT)
        return registration_add(b, fd, d, wanted);
    d->armed = rc < 0 ? d->armed : events;
    return rc;
}

static int epoll_arm(weft__backend *base, int fd, weft__descriptor *d)
{
    epoll_backend *b = epoll_of(base);
    uint8_t wanted = (uint8_t)weft__waiters_events(&d->waiters);
    bool needs_rearm = d->needs_rearm;
    d->needs_rearm = base->is_hosted;
    if (d->generation == 0)
        return registration_add(b, fd, d, wanted);
    if ((d->armed & wanted) == wanted && !needs_rearm)
        return 0;
    return registration_modify(b, fd, d, wanted);
}

/*
 * Remove the registration. Otherwise a file that is also open with another descriptor (dup, fork)
 * would keep its registration.
 */
static void epoll_disarm(weft__backend *base, int fd, weft__descriptor *d)
{
    (void)WEFT__COUNTED(epoll_ctl(epoll_of(base)->epoll_fd, EPOLL_CTL_DEL, fd, NULL));
    d->generation = 0;
    d->armed = 0;
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
        return; /* edge-triggered: every write is a new event, so the eventfd is not read */
    int fd = (int)(uint32_t)event->data.u64;
    weft__descriptor *d = weft__ready_find(&b->ready, fd);
    if (d == NULL || d->generation != (uint32_t)(event->data.u64 >> 32))
        return; /* an event of an earlier file with this number */
    weft__ready_event(&b->ready, fd, d, (int)event->events); /* EPOLL bits are equal to POLL bits */
}

static void handle_batch(epoll_backend *b)
{
    for (int i = 0; i < BATCH && b->events_done < b->events_count; i++)
        handle_event(b, &b->events[b->events_done++]);
}

/* The caller counts the system call. */
static int wait_ms(epoll_backend *b, int64_t timeout_ns)
{
    int64_t ms = timeout_ns < 0 ? -1 : timeout_ns / NS_PER_MS + (timeout_ns % NS_PER_MS != 0);
    return epoll_wait(b->epoll_fd, b->events, EVENTS_MAX, ms > INT32_MAX ? INT32_MAX : (int)ms);
}

/* Wait without epoll_pwait2, which the kernel lacks (before Linux 5.11). */
COLD static int wait_ms_first(epoll_backend *b, int64_t timeout_ns)
{
    b->lacks_pwait2 = true;
    return WEFT__COUNTED(wait_ms(b, timeout_ns));
}

/* The caller counts the first system call. */
static int wait_ns(epoll_backend *b, int64_t timeout_ns)
{
    struct timespec timeout = weft__clock_spec(timeout_ns);
    const struct timespec *limit = timeout_ns < 0 ? NULL : &timeout;
    int count = epoll_pwait2(b->epoll_fd, b->events, EVENTS_MAX, limit, NULL);
    return UNLIKELY(count < 0 && errno == ENOSYS) ? wait_ms_first(b, timeout_ns) : count;
}

/* Return the number of events or -errno. */
static int wait_events(epoll_backend *b, int64_t timeout_ns)
{
    int count = WEFT__COUNTED(b->lacks_pwait2 ? wait_ms(b, timeout_ns) : wait_ns(b, timeout_ns));
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
    do {
        handle_batch(b);
    } while (base->is_hosted &&
             b->events_done < b->events_count); /* the host has its own batches */
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

static int epoll_forget_fd(weft__backend *base, int fd)
{
    return weft__ready_forget(&epoll_of(base)->ready, fd);
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

static int add_wake_fd(epoll_backend *b)
{
    struct epoll_event event = {EPOLLIN | EPOLLET, {.u64 = WAKE_TAG}};
    return WEFT__COUNTED(epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, atomic_load(&b->wake.fd), &event)) <
                   0
               ? -errno
               : 0;
}

/* If the eventfd is registered already (EEXIST), both descriptors belong to this backend. */
static int epoll_check(weft__backend *base)
{
    epoll_backend *b = epoll_of(base);
    if (!weft__wake_fd_is_own(&b->wake))
        return -EBADF;
    int rc = add_wake_fd(b);
    if (rc == 0) /* epoll_fd is another epoll instance: remove the eventfd again */
        epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, atomic_load(&b->wake.fd), NULL);
    return rc == 0 || rc == -EBADF || rc == -EINVAL || rc == -EPERM ? -EBADF : 0;
}

/* Close the descriptors if they still belong to the backend, and set the numbers to -1. */
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
    weft__finished_jobs_close(&b->base);
    weft__ready_close(&b->ready);
    close_descriptors(b);
    free(b);
}

static void epoll_abandon(weft__backend *base, bool is_own)
{
    (void)is_own;
    close_descriptors(epoll_of(base));
}

/* Open the epoll descriptor and the eventfd, at high numbers. Returns 0 or -errno. */
static int open_descriptors(epoll_backend *b)
{
    const int flags = EFD_CLOEXEC | EFD_NONBLOCK;
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (b->epoll_fd < 0)
        return -errno;
    b->epoll_fd = weft__fd_move_up(b->epoll_fd);
    int rc = weft__wake_fd_open(&b->wake, flags);
    if (rc == 0)
        rc = add_wake_fd(b);
    if (rc < 0) {
        weft__wake_fd_close(&b->wake);
        close(b->epoll_fd);
        b->epoll_fd = -1;
    }
    return rc;
}

/*
 * The backend does not close lost descriptors. If the program has closed only one of the two
 * descriptors, the other descriptor may leak.
 */
static int epoll_repair(weft__backend *base)
{
    epoll_backend *b = epoll_of(base);
    close_descriptors(b);
    weft__ready_forget_closed(&b->ready); /* before new descriptors can receive closed numbers */
    b->events_count = b->events_done = 0;
    int rc = open_descriptors(b);
    if (rc == 0)
        weft__ready_rearm(&b->ready);
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
    weft__finished_jobs_init(&b->base);
    weft__ready_open(&b->ready, &b->base, epoll_arm, epoll_disarm);
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
    .forget_fd = epoll_forget_fd,
    .release_fd = epoll_release_fd,
    .shutdown_fd = weft__call_shutdown,
    .pipe = epoll_pipe,
    .socketpair = epoll_socketpair,
};
