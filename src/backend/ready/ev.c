/*
 * The libev backend, based on ready.c. libev supplies readiness by one of its methods: epoll, poll
 * or select. The backend has a private loop. It does not use libev for signals or child processes.
 * It changes nothing in the process except memory and descriptors.
 *
 * A registration (an ev_io of libev) is active only for the directions with waiters. libev is
 * level-triggered, so readiness without a waiter would make every poll return at once. The backend
 * passes changes to libev once, before libev waits. Therefore a fiber that resumes and waits again
 * before the next poll costs no call. While a fiber waits on a socket with an unread error queue,
 * every poll returns at once.
 *
 * libev aborts the process on some errors. The error handlers of libev are global to the process,
 * so the backend does not replace them. The errors are:
 *   memory            Before libev's tables grow, weft__ev_tables_reserve checks that malloc can
 *                     provide the memory. libev allocates later, partly in ev_run. libev aborts if
 *                     another thread has allocated the memory meanwhile.
 *   no descriptors    ev_async would abort if it could not open a descriptor. The backend uses its
 *                     own eventfd instead.
 *   bad descriptors   An assertion of libev fails if the program calls close(2) on a descriptor
 *                     while a fiber waits on it. (Debian builds libev with assertions.) With the
 *                     method epoll, the assertion fails at registration. With the method poll, it
 *                     fails at each wait. registration_update finds closed descriptors before
 *                     ev_run. libev still aborts if another thread closes a descriptor during
 *                     ev_run. With epoll, an event for a reused number makes libev replace its
 *                     epoll descriptor. libev then aborts on any closed descriptor. libev also
 *                     aborts on an epoll descriptor that contains itself (ELOOP).
 *   lost descriptors  The program may close the eventfd and the loop's descriptor. The backend
 *                     checks the eventfd before ev_run. libev aborts if the program has closed only
 *                     the loop's descriptor. libev also aborts if another thread closes both while
 *                     the loop waits with poll.
 *   failed wait       libev aborts if epoll_wait, poll or select fails with an error other than
 *                     EINTR, EBADF and ENOMEM. The wait fails if the loop's descriptor was closed.
 *                     The wait also fails if RLIMIT_NOFILE was lowered below the number of
 *                     descriptors.
 */
#include "backend/ready/ev.h"
#include "backend/syscall/call.h"
#include "backend/syscall/count.h"
#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>

/*
 * The time that is added to each timeout. select(2) counts in microseconds, and libev rounds down.
 */
#define ROUNDING_NS 2000

typedef struct registration {
    ev_io io;
    bool needs_rearm; /* libev must register again, because the number may belong to another file */
    weft__list link;  /* in registrations */
    weft__list change; /* in changed, or in no list */
} registration;

static weft__ev_backend *libev_of(weft__backend *base)
{
    return CONTAINER_OF(base, weft__ev_backend, base);
}

/* Return the directions with waiters, as events of libev. */
static int wanted_events(const weft__waiters *w)
{
    int events = weft__waiters_events(w);
    return (events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0);
}

static void registration_note_change(weft__ev_backend *b, registration *reg)
{
    if (weft__list_is_empty(&reg->change))
        weft__list_insert(&b->changed, &reg->change);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events);

static COLD registration *registration_add(weft__ev_backend *b, int fd, weft__descriptor *d)
{
    registration *reg = malloc(sizeof *reg);
    if (reg == NULL)
        return NULL;
    ev_io *io = &reg->io;
    ev_io_init(io, on_io, fd, 0);
    ev_io_start(b->loop, io); /* without events, so that libev's tables grow now */
    weft__list_init(&reg->change);
    weft__list_insert(&b->registrations, &reg->link);
    if (++b->generation == 0)
        b->generation = 1;
    d->generation = b->generation;
    d->backend_data = reg;
    return reg;
}

static int libev_arm(weft__backend *base, int fd, weft__descriptor *d)
{
    weft__ev_backend *b = libev_of(base);
    registration *reg = d->backend_data;
    if (reg == NULL || d->needs_rearm) {
        int rc = weft__call_check_waitable(fd);
        if (rc == 0)
            rc = weft__ev_tables_reserve(b, (size_t)fd);
        if (rc < 0)
            return rc;
        reg = reg != NULL ? reg : registration_add(b, fd, d);
        if (reg == NULL)
            return -ENOMEM;
        reg->needs_rearm = true;
        d->needs_rearm = base->is_hosted;
    }
    registration_note_change(b, reg);
    return 0;
}

static void registration_free(weft__ev_backend *b, registration *reg)
{
    if (b->loop != NULL)
        ev_io_stop(b->loop, &reg->io);
    weft__list_remove(&reg->change);
    weft__list_remove(&reg->link);
    free(reg);
}

static void libev_disarm(weft__backend *base, int fd, weft__descriptor *d)
{
    (void)fd;
    if (d->backend_data != NULL)
        registration_free(libev_of(base), d->backend_data);
    d->backend_data = NULL;
    d->generation = 0;
}

/*
 * End the operations of a descriptor that libev cannot register. Usually the system calls of the
 * operations return the error. The remaining operations end with -ENOMEM.
 */
static COLD void registration_fail(weft__ev_backend *b, registration *reg, weft__descriptor *d)
{
    const uint32_t generation = d->generation;
    ev_io_stop(b->loop, &reg->io);
    weft__ready_event(&b->ready, reg->io.fd, d, POLLIN | POLLOUT | POLLERR | POLLHUP);
    weft__list *queues[] = {&d->waiters.readers, &d->waiters.writers, &d->waiters.either};
    for (int i = 0; i < 3; i++)
        while (d->generation == generation && !weft__list_is_empty(queues[i]))
            weft__waiters_end(&b->base, weft__waiters_first(queues[i]), -ENOMEM);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    weft__ev_backend *b = ev_userdata(loop);
    registration *reg = CONTAINER_OF(io, registration, io);
    weft__descriptor *d = weft__ready_find(&b->ready, io->fd);
    registration_note_change(b, reg); /* before weft__ready_event, which may free reg */
    if (UNLIKELY(events & EV_ERROR)) {
        registration_fail(b, reg, d);
        return;
    }
    int ready = (events & EV_READ ? POLLIN : 0) | (events & EV_WRITE ? POLLOUT : 0);
    weft__ready_event(&b->ready, io->fd, d, ready);
}

/*
 * Pass the directions with waiters to libev. A descriptor must be open when libev passes it to the
 * kernel. With the method poll, libev passes all descriptors before each wait. Returns false if the
 * descriptor is closed. Its operations were then resumed.
 */
static bool registration_update(weft__ev_backend *b, registration *reg)
{
    weft__descriptor *d = weft__ready_find(&b->ready, reg->io.fd);
    int wanted = wanted_events(&d->waiters);
    bool is_same = ev_is_active(&reg->io) && reg->io.events == wanted && !reg->needs_rearm;
    if (is_same && !b->must_check_all)
        return true;
    if (wanted != 0 && !weft__call_is_open(reg->io.fd)) {
        registration_fail(b, reg, d);
        return false;
    }
    if (is_same)
        return true;
    ev_io_stop(b->loop, &reg->io);
    reg->needs_rearm = false;
    if (wanted != 0) {
        ev_io_set(&reg->io, reg->io.fd, wanted);
        ev_io_start(b->loop, &reg->io);
    }
    return true;
}

/* Update the changed registrations. Returns false if a descriptor is closed. */
static bool registrations_update(weft__ev_backend *b)
{
    if (b->must_check_all)
        WEFT__LIST_FOR(node, &b->registrations)
            registration_note_change(b, CONTAINER_OF(node, registration, link));
    bool are_all_open = true;
    weft__list changed, *node;
    weft__list_init(&changed);
    weft__list_splice(&changed, &b->changed);
    while ((node = weft__list_pop(&changed)) != NULL)
        are_all_open &= registration_update(b, CONTAINER_OF(node, registration, change));
    return are_all_open;
}

/* Start the timer. ev_run measures the time from a cached time, so update the cached time first. */
static void start_timeout(weft__ev_backend *b, int64_t timeout_ns)
{
    ev_timer *timer = &b->timeout;
    ev_now_update(b->loop);
    ev_timer_set(timer, ((double)timeout_ns + ROUNDING_NS) / 1e9, 0);
    ev_timer_start(b->loop, timer);
}

static int libev_check(weft__backend *base)
{
    return weft__wake_fd_is_own(&libev_of(base)->wake_fd) ? 0 : -EBADF;
}

static int libev_poll(weft__backend *base, int64_t timeout_ns)
{
    weft__ev_backend *b = libev_of(base);
    if (!weft__wake_fd_is_own(&b->wake_fd))
        return -EBADF; /* libev would abort */
    timeout_ns = weft__ready_timeout(&b->ready, timeout_ns);
    if (!registrations_update(b))
        timeout_ns = 0;
    if (timeout_ns > 0)
        start_timeout(b, timeout_ns);
    weft__syscalls_made++; /* libev waits once */
    ev_run(b->loop, timeout_ns == 0 ? EVRUN_NOWAIT : EVRUN_ONCE);
    ev_timer_stop(b->loop, &b->timeout);
    weft__ready_poll(&b->ready);
    return 0;
}

static void libev_wake(weft__backend *base)
{
    if (!weft__wake_fd_write(&libev_of(base)->wake_fd))
        weft__backend_interrupt(base);
}

static intptr_t libev_submit(weft__backend *base, weft__op *op)
{
    return weft__ready_submit(&libev_of(base)->ready, op);
}

static bool libev_cancel(weft__backend *base, weft__op *op)
{
    weft__ev_backend *b = libev_of(base);
    int fd = op->wait_fd;
    bool is_cancelled = weft__ready_cancel(&b->ready, op);
    weft__descriptor *d = fd >= 0 ? weft__ready_find(&b->ready, fd) : NULL;
    if (d != NULL && d->backend_data != NULL)
        registration_note_change(b, d->backend_data);
    return is_cancelled;
}

static int libev_close_fd(weft__backend *base, int fd)
{
    return weft__ready_close_fd(&libev_of(base)->ready, fd);
}

static int libev_release_fd(weft__backend *base, int fd)
{
    return weft__ready_release_fd(&libev_of(base)->ready, fd);
}

static int libev_forget_fd(weft__backend *base, int fd)
{
    return weft__ready_forget(&libev_of(base)->ready, fd);
}

static int libev_pipe(weft__backend *base, int fd[2])
{
    return weft__ready_pipe(&libev_of(base)->ready, fd);
}

static int libev_socketpair(weft__backend *base, int fd[2])
{
    return weft__ready_socketpair(&libev_of(base)->ready, fd);
}

static int64_t libev_now_ns(weft__backend *base)
{
    (void)base;
    return weft__clock_ns();
}

static void libev_close(weft__backend *base)
{
    weft__ev_backend *b = libev_of(base);
    weft__finished_jobs_close(&b->base);
    while (!weft__list_is_empty(&b->registrations))
        registration_free(b, CONTAINER_OF(b->registrations.next, registration, link));
    weft__ready_close(&b->ready);
    weft__ev_loop_close(b);
    free(b);
}

/*
 * libev closes its descriptors only when the loop is destroyed. The loop of another thread may be
 * inconsistent. The call does not destroy such a loop.
 */
static void libev_abandon(weft__backend *base, bool is_own)
{
    weft__ev_backend *b = libev_of(base);
    if (is_own)
        weft__ev_loop_close(b);
    else
        weft__wake_fd_close(&b->wake_fd);
}

static void registration_reset(weft__ev_backend *b, registration *reg)
{
    ev_io *io = &reg->io;
    int fd = io->fd;
    ev_io_init(io, on_io, fd, 0);
    reg->needs_rearm = true;
    registration_note_change(b, reg); /* the next poll passes the registration to libev */
}

static int libev_repair(weft__backend *base)
{
    weft__ev_backend *b = libev_of(base);
    weft__ev_loop_close(b);
    weft__ready_forget_closed(&b->ready); /* before new descriptors can receive closed numbers */
    int rc = weft__ev_loop_open(b, b->method);
    if (rc < 0)
        return rc;
    WEFT__LIST_FOR(node, &b->registrations)
        registration_reset(b, CONTAINER_OF(node, registration, link));
    return 0;
}

static void libev_give_up(weft__backend *base, int error)
{
    weft__ev_backend *b = libev_of(base);
    weft__ev_loop_close(b);
    weft__ready_give_up(&b->ready, error);
}

static int open_method(weft__backend **out, const weft__backend_type *type, unsigned method)
{
    weft__ev_backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->base.type = type;
    atomic_init(&b->wake_fd.fd, -1);
    b->method = method;
    weft__finished_jobs_init(&b->base);
    weft__list_init(&b->registrations);
    weft__list_init(&b->changed);
    weft__ready_open(&b->ready, &b->base, libev_arm, libev_disarm);
    b->ready.lacks_priority = true;
    int rc = weft__ev_loop_open(b, method);
    if (rc < 0)
        libev_close(&b->base);
    else
        *out = &b->base;
    return rc;
}

static int open_default(weft__backend **out)
{
    return open_method(out, &weft__backend_ev, 0);
}

static int open_epoll(weft__backend **out)
{
    return open_method(out, &weft__backend_ev_epoll, EVBACKEND_EPOLL);
}

static int open_poll(weft__backend **out)
{
    return open_method(out, &weft__backend_ev_poll, EVBACKEND_POLL);
}

static int open_select(weft__backend **out)
{
    return open_method(out, &weft__backend_ev_select, EVBACKEND_SELECT);
}

/* The backends differ only in the method of the loop. */
#define TYPE(name_, open_)                                                                      \
    {                                                                                           \
        .name = name_, .open = open_, .close = libev_close, .abandon = libev_abandon,           \
        .now_ns = libev_now_ns, .submit = libev_submit, .cancel = libev_cancel,                 \
        .poll = libev_poll, .wake = libev_wake, .check = libev_check, .repair = libev_repair,   \
        .give_up = libev_give_up, .close_fd = libev_close_fd, .forget_fd = libev_forget_fd,     \
        .release_fd = libev_release_fd, .shutdown_fd = weft__call_shutdown, .pipe = libev_pipe, \
        .socketpair = libev_socketpair,                                                         \
    }

const weft__backend_type weft__backend_ev = TYPE("libev", open_default);
const weft__backend_type weft__backend_ev_epoll = TYPE("libev-epoll", open_epoll);
const weft__backend_type weft__backend_ev_poll = TYPE("libev-poll", open_poll);
const weft__backend_type weft__backend_ev_select = TYPE("libev-select", open_select);
