/*
 * The libev backend: readiness by whatever libev knows (epoll, poll, select, kqueue, ports), with
 * ready.c above it. It has a loop of its own, never libev's default one, and no watchers for
 * signals or children: nothing of the process is touched but memory and descriptors.
 *
 * A descriptor's watcher is active for the directions that somebody waits for, and for no other:
 * libev is level-triggered, and readiness that nobody uses would keep poll from waiting. What has
 * changed is told to libev once, before it waits: a fiber that was served and waits again by then
 * costs no call. (One thing lasts that no call takes away: an error queue that nobody reads makes
 * poll return at once for as long as somebody waits on its socket.)
 *
 * libev ends the process where we would return an error, and could be asked not to only for all
 * loops of the process, which are not ours alone. What is done about it, and what is left:
 *   no memory        We ask malloc for what libev's tables will take before they grow, and say
 *                    -ENOMEM if it is not to be had. libev allocates a little later, in ev_run in
 *                    part: it aborts if the memory has gone to another thread by then.
 *   no descriptors   ev_async is not used, since libev aborts if it gets no descriptor for it.
 *                    Waking is an eventfd of our own.
 *   bad descriptors  A descriptor closed by close(2) while somebody waits on it fails an assertion
 *                    (Debian's libev has them), with epoll where it is registered, with poll each
 *                    time. So they are looked at before ev_run, see update. What is closed by
 *                    another thread just then still aborts; and with epoll when libev has to set up
 *                    its descriptor anew, after an event of a file that has lost its number. So
 *                    does an epoll descriptor that leads to itself (ELOOP).
 *   lost descriptors The program may close the eventfd and the loop's own descriptor. That is
 *                    looked at before ev_run, by the eventfd; a loop whose own descriptor alone was
 *                    closed still aborts, and so does one that waits by poll while another thread
 *                    closes them.
 *   a failed wait    epoll_wait, poll or select fails with what is not EINTR, EBADF or ENOMEM: the
 *                    loop's own descriptor was closed, or more are waited on than RLIMIT_NOFILE
 *                    allows since.
 */
#include "backend/backend.h"
#include "backend/call.h"
#include "backend/ready.h"
#include "backend/wake_fd.h"
#include "base/clock.h"
#include "base/libc.h"

#include <errno.h>
#include <ev.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * What libev's tables take for each number up to the highest, of all methods together: 16 in
 * anfds, 16 in pendings, 12 in epoll_events, 16 for poll, 1 for select; as much as there was
 * before is still held while a table moves to one of twice the size.
 */
#define TABLE_BYTES_PER_NUMBER 96
/* The tables of a new loop, and the loop: they grow when a number reaches this. */
#define TABLE_NUMBERS_MIN 256

/* select takes microseconds, and libev cuts off what is less; a double is exact to far below. */
#define ROUNDING_NS 2000

typedef struct watcher {
    ev_io io;
    bool is_doubtful;  /* libev is not to believe that the number still means the same file */
    weft__list link;   /* in watchers */
    weft__list change; /* in changed, or in no list */
} watcher;

typedef struct libev_backend {
    weft__backend base;
    weft__ready ready;
    struct ev_loop *loop;
    bool has_lost_loop; /* one whose descriptors were closed under it */
    ev_timer timeout;   /* active while a poll that has one waits */
    ev_io wake;
    weft__wake_fd wake_fd;
    uint32_t generation; /* the last one given out */
    size_t numbers;      /* descriptors below this fit into libev's tables */
    weft__list watchers; /* all of them */
    weft__list changed;  /* those whose waiters have come or gone since the last ev_run */
    bool must_check_all; /* libev hands all of them to the kernel each time */
    unsigned method;     /* that the loop was made with */
} libev_backend;

static libev_backend *libev_of(weft__backend *base)
{
    return CONTAINER_OF(base, libev_backend, base);
}

/* Would libev find the memory for its tables, were they to hold this number? 0 or -ENOMEM. */
static int make_room(libev_backend *b, size_t number)
{
    if (LIKELY(number < b->numbers))
        return 0;
    size_t numbers = b->numbers * 2 > number ? b->numbers * 2 : number + 1;
    void *volatile room = malloc(numbers * TABLE_BYTES_PER_NUMBER); /* not to be optimized away */
    if (room == NULL)
        return -ENOMEM;
    free(room);
    b->numbers = numbers;
    return 0;
}

/* The directions that somebody waits for, as libev names them. */
static int wanted_events(const weft__waiters *w)
{
    bool has_either = !weft__list_is_empty(&w->either);
    int events = 0;
    if (has_either || !weft__list_is_empty(&w->readers))
        events |= EV_READ;
    if (has_either || !weft__list_is_empty(&w->writers))
        events |= EV_WRITE;
    return events;
}

static void note_change(libev_backend *b, watcher *w)
{
    if (weft__list_is_empty(&w->change))
        weft__list_insert(&b->changed, &w->change);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events);

static COLD watcher *add_watcher(libev_backend *b, int fd, weft__descriptor *d)
{
    watcher *w = malloc(sizeof *w);
    if (w == NULL)
        return NULL;
    ev_io *io = &w->io;
    ev_io_init(io, on_io, fd, 0);
    ev_io_start(b->loop, io); /* for nothing yet: now there is memory for its tables */
    weft__list_init(&w->change);
    weft__list_insert(&b->watchers, &w->link);
    if (++b->generation == 0)
        b->generation = 1;
    d->generation = b->generation;
    d->watcher = w;
    return w;
}

static int libev_watch(weft__backend *base, int fd, weft__descriptor *d)
{
    libev_backend *b = libev_of(base);
    watcher *w = d->watcher;
    if (w == NULL || d->is_doubtful) {
        int rc = weft__call_check_waitable(fd);
        if (rc == 0)
            rc = make_room(b, (size_t)fd);
        if (rc < 0)
            return rc;
        w = w != NULL ? w : add_watcher(b, fd, d);
        if (w == NULL)
            return -ENOMEM;
        w->is_doubtful = true;
        d->is_doubtful = false;
    }
    note_change(b, w);
    return 0;
}

static void free_watcher(libev_backend *b, watcher *w)
{
    if (b->loop != NULL)
        ev_io_stop(b->loop, &w->io);
    weft__list_remove(&w->change);
    weft__list_remove(&w->link);
    free(w);
}

static void libev_unwatch(weft__backend *base, int fd, weft__descriptor *d)
{
    (void)fd;
    if (d->watcher != NULL)
        free_watcher(libev_of(base), d->watcher);
    d->watcher = NULL;
    d->generation = 0;
}

/* The descriptor cannot be watched any more. Their calls tell those who wait why, as a rule. */
static COLD void give_up(libev_backend *b, watcher *w, weft__descriptor *d)
{
    const uint32_t generation = d->generation;
    ev_io_stop(b->loop, &w->io);
    weft__ready_event(&b->ready, w->io.fd, d, POLLIN | POLLOUT | POLLERR | POLLHUP);
    weft__list *queues[] = {&d->waiters.readers, &d->waiters.writers, &d->waiters.either};
    for (int i = 0; i < 3; i++)
        while (d->generation == generation && !weft__list_is_empty(queues[i]))
            weft__waiters_end(&b->base, weft__waiters_first(queues[i]), -ENOMEM);
}

static void on_io(struct ev_loop *loop, ev_io *io, int events)
{
    libev_backend *b = ev_userdata(loop);
    watcher *w = CONTAINER_OF(io, watcher, io);
    weft__descriptor *d = weft__ready_find(&b->ready, io->fd);
    note_change(b, w); /* now: the watcher may be gone afterwards */
    if (UNLIKELY(events & EV_ERROR)) {
        give_up(b, w, d);
        return;
    }
    int ready = (events & EV_READ ? POLLIN : 0) | (events & EV_WRITE ? POLLOUT : 0);
    weft__ready_event(&b->ready, io->fd, d, ready);
}

/*
 * Tell libev what is waited for now. What it is going to hand to the kernel must be open; for poll
 * that is all, each time. False: it is not, and those who waited have been told.
 */
static bool update(libev_backend *b, watcher *w)
{
    weft__descriptor *d = weft__ready_find(&b->ready, w->io.fd);
    int wanted = wanted_events(&d->waiters);
    bool is_same = ev_is_active(&w->io) && w->io.events == wanted && !w->is_doubtful;
    if (is_same && !b->must_check_all)
        return true;
    if (wanted != 0 && !weft__call_is_open(w->io.fd)) {
        give_up(b, w, d);
        return false;
    }
    if (is_same)
        return true;
    ev_io_stop(b->loop, &w->io);
    w->is_doubtful = false;
    if (wanted != 0) {
        ev_io_set(&w->io, w->io.fd, wanted);
        ev_io_start(b->loop, &w->io);
    }
    return true;
}

/* Returns whether all are well. */
static bool update_all(libev_backend *b)
{
    if (b->must_check_all)
        WEFT__LIST_FOR(node, &b->watchers)
            note_change(b, CONTAINER_OF(node, watcher, link));
    bool is_well = true;
    weft__list changed, *node;
    weft__list_init(&changed);
    weft__list_splice(&changed, &b->changed);
    while ((node = weft__list_pop(&changed)) != NULL)
        is_well &= update(b, CONTAINER_OF(node, watcher, change));
    return is_well;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)timer, (void)events; /* that ev_run returned is all it is for */
}

static void on_wake(struct ev_loop *loop, ev_io *io, int events)
{
    (void)events;
    uint64_t count;
    (void)!read(io->fd, &count, sizeof count);
    ev_io_start(loop, io); /* libev stops it when the kernel is out of memory */
}

/* ev_run counts from the time that it last saw. */
static void start_timeout(libev_backend *b, int64_t timeout_ns)
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
    libev_backend *b = libev_of(base);
    if (!weft__wake_fd_is_own(&b->wake_fd))
        return -EBADF; /* libev would end the process */
    timeout_ns = weft__ready_timeout(&b->ready, timeout_ns);
    if (!update_all(b))
        timeout_ns = 0;
    if (timeout_ns > 0)
        start_timeout(b, timeout_ns);
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
    libev_backend *b = libev_of(base);
    int fd = op->wait_fd;
    bool is_out = weft__ready_cancel(&b->ready, op);
    weft__descriptor *d = fd >= 0 ? weft__ready_find(&b->ready, fd) : NULL;
    if (d != NULL && d->watcher != NULL)
        note_change(b, d->watcher);
    return is_out;
}

static int libev_close_fd(weft__backend *base, int fd)
{
    return weft__ready_close_fd(&libev_of(base)->ready, fd);
}

static int libev_release_fd(weft__backend *base, int fd)
{
    return weft__ready_release_fd(&libev_of(base)->ready, fd);
}

static void libev_forget_fd(weft__backend *base, int fd)
{
    weft__ready_forget(&libev_of(base)->ready, fd);
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

/*
 * A loop that has lost its descriptors is not destroyed, since libev would close their numbers. It
 * stays until the process ends, and is on a list so that it is no leak.
 */
typedef struct lost_loop {
    struct ev_loop *loop;
    struct lost_loop *next;
} lost_loop;

static _Atomic(lost_loop *) lost_loops;

static void lose_loop(libev_backend *b)
{
    b->has_lost_loop = true;
    lost_loop *lost = malloc(sizeof *lost);
    if (lost == NULL)
        return;
    lost->loop = b->loop;
    lost->next = atomic_load(&lost_loops);
    while (!atomic_compare_exchange_weak(&lost_loops, &lost->next, lost))
        continue;
}

/* Close what is still ours, and forget the rest. */
static void close_loop(libev_backend *b)
{
    if (b->loop != NULL && libev_check(&b->base) == 0)
        ev_loop_destroy(b->loop);
    else if (b->loop != NULL)
        lose_loop(b);
    b->loop = NULL;
    weft__wake_fd_close(&b->wake_fd);
}

static void libev_close(weft__backend *base)
{
    libev_backend *b = libev_of(base);
    weft__finished_close(&b->base);
    while (!weft__list_is_empty(&b->watchers))
        free_watcher(b, CONTAINER_OF(b->watchers.next, watcher, link));
    weft__ready_close(&b->ready);
    close_loop(b);
    free(b);
}

/*
 * What libev has open, it only closes with the loop; which for that must not be another thread's,
 * in the middle of something.
 */
static void libev_abandon(weft__backend *base, bool is_own)
{
    libev_backend *b = libev_of(base);
    if (is_own)
        close_loop(b);
    else
        weft__wake_fd_close(&b->wake_fd);
}

/* Make the loop and what it always has. 0 or -errno; what was made stays in b. */
static int open_loop(libev_backend *b, unsigned method)
{
    if (method != 0 && !(ev_supported_backends() & method))
        return -ENOSYS;
    const int flags = EFD_CLOEXEC | EFD_NONBLOCK;
    int rc = b->has_lost_loop ? weft__wake_fd_renew(&b->wake_fd, flags)
                              : weft__wake_fd_open(&b->wake_fd, flags);
    if (rc < 0)
        return rc;
    int wake_fd = atomic_load(&b->wake_fd.fd);
    if (make_room(b, TABLE_NUMBERS_MIN - 1) < 0 || make_room(b, (size_t)wake_fd) < 0)
        return -ENOMEM;
    errno = 0;
    b->loop = ev_loop_new(method | EVFLAG_NOENV | EVFLAG_NOSIGMASK);
    if (b->loop == NULL)
        return errno != 0 ? -errno : -ENOSYS;
    b->must_check_all = ev_backend(b->loop) == EVBACKEND_POLL;
    ev_set_userdata(b->loop, b);
    ev_io *wake = &b->wake;
    ev_timer *timer = &b->timeout;
    ev_io_init(wake, on_wake, wake_fd, EV_READ);
    ev_io_start(b->loop, wake);
    ev_timer_init(timer, on_timeout, 0, 0);
    ev_timer_start(b->loop, timer); /* libev makes room for it once and for all */
    ev_timer_stop(b->loop, timer);
    return 0;
}

static void rewatch(libev_backend *b, watcher *w)
{
    ev_io *io = &w->io;
    int fd = io->fd;
    ev_io_init(io, on_io, fd, 0);
    w->is_doubtful = true;
    note_change(b, w); /* whether it is still open is asked before the next ev_run */
}

static int libev_repair(weft__backend *base)
{
    libev_backend *b = libev_of(base);
    close_loop(b);
    weft__ready_forget_closed(&b->ready); /* before their numbers are used again */
    int rc = open_loop(b, b->method);
    if (rc < 0)
        return rc;
    WEFT__LIST_FOR(node, &b->watchers)
        rewatch(b, CONTAINER_OF(node, watcher, link));
    return 0;
}

static void libev_give_up(weft__backend *base, int error)
{
    libev_backend *b = libev_of(base);
    close_loop(b);
    weft__ready_give_up(&b->ready, error);
}

static int open_method(weft__backend **out, const weft__backend_type *type, unsigned method)
{
    libev_backend *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->base.type = type;
    atomic_init(&b->wake_fd.fd, -1);
    b->method = method;
    weft__finished_init(&b->base);
    weft__list_init(&b->watchers);
    weft__list_init(&b->changed);
    weft__ready_open(&b->ready, &b->base, libev_watch, libev_unwatch);
    int rc = open_loop(b, method);
    if (rc < 0)
        libev_close(&b->base);
    else
        *out = &b->base;
    return rc;
}

static int open_any(weft__backend **out)
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

/* They differ in how the loop is made. */
#define TYPE(name_, open_)                                                                      \
    {                                                                                           \
        .name = name_, .open = open_, .close = libev_close, .abandon = libev_abandon,           \
        .now_ns = libev_now_ns, .submit = libev_submit, .cancel = libev_cancel,                 \
        .poll = libev_poll, .wake = libev_wake, .check = libev_check, .repair = libev_repair,   \
        .give_up = libev_give_up, .close_fd = libev_close_fd, .forget_fd = libev_forget_fd,     \
        .release_fd = libev_release_fd, .shutdown_fd = weft__call_shutdown, .pipe = libev_pipe, \
        .socketpair = libev_socketpair,                                                         \
    }

const weft__backend_type weft__backend_ev = TYPE("libev", open_any);
const weft__backend_type weft__backend_ev_epoll = TYPE("libev-epoll", open_epoll);
const weft__backend_type weft__backend_ev_poll = TYPE("libev-poll", open_poll);
const weft__backend_type weft__backend_ev_select = TYPE("libev-select", open_select);
