/* Open and close the loop of the libev backend (ev.h), and check the memory for its tables. */
#include "backend/ready/ev.h"

#include "backend/syscall/count.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/*
 * The bytes in libev's tables per descriptor number. All methods together need 16 in anfds, 16 in
 * pendings, 12 in epoll_events, 16 for poll and 1 for select. libev copies a full table to a table
 * of twice the size. Both are allocated meanwhile, so the value is about 1.5 times the sum.
 */
#define TABLE_BYTES_PER_NUMBER 96
/* The size of the tables of a new loop, with space for the loop itself. */
#define TABLE_NUMBERS_MIN 256

int weft__ev_tables_reserve(weft__ev_backend *b, size_t number)
{
    if (LIKELY(number < b->fd_capacity))
        return 0;
    size_t fd_capacity = b->fd_capacity * 2 > number ? b->fd_capacity * 2 : number + 1;
    /* volatile prevents the compiler from removing malloc and free. */
    void *volatile probe = malloc(fd_capacity * TABLE_BYTES_PER_NUMBER);
    if (probe == NULL)
        return -ENOMEM;
    free(probe);
    b->fd_capacity = fd_capacity;
    return 0;
}

static void on_timeout(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)timer, (void)events; /* the only effect is that ev_run returns */
}

static void on_wake(struct ev_loop *loop, ev_io *io, int events)
{
    (void)events;
    uint64_t count;
    (void)!WEFT__COUNTED(read(io->fd, &count, sizeof count));
    ev_io_start(loop, io); /* libev stops the ev_io when the kernel is out of memory */
}

/*
 * A loop that has lost its descriptors. ev_loop_destroy would close numbers that may belong to
 * other files. The list leaked_loops keeps the loop reachable for leak checkers until the process
 * ends.
 */
typedef struct leaked_loop {
    struct ev_loop *loop;
    struct leaked_loop *next;
} leaked_loop;

static _Atomic(leaked_loop *) leaked_loops;

static void leak_loop(weft__ev_backend *b)
{
    b->has_leaked_loop = true;
    leaked_loop *leaked = malloc(sizeof *leaked);
    if (leaked == NULL)
        return;
    leaked->loop = b->loop;
    leaked->next = atomic_load(&leaked_loops);
    while (!atomic_compare_exchange_weak(&leaked_loops, &leaked->next, leaked))
        continue;
}

void weft__ev_loop_close(weft__ev_backend *b)
{
    if (b->loop != NULL && weft__wake_fd_is_own(&b->wake_fd))
        ev_loop_destroy(b->loop);
    else if (b->loop != NULL)
        leak_loop(b);
    b->loop = NULL;
    weft__wake_fd_close(&b->wake_fd);
}

int weft__ev_loop_open(weft__ev_backend *b, unsigned method)
{
    if (method != 0 && !(ev_supported_backends() & method))
        return -ENOSYS;
    const int flags = EFD_CLOEXEC | EFD_NONBLOCK;
    /*
     * libev opens its own descriptor at the lowest free number. A program that closes this number
     * usually closes the numbers beside it. So open the eventfd beside it, because the backend
     * notices only the loss of the eventfd.
     */
    int rc = b->has_leaked_loop ? weft__wake_fd_open(&b->wake_fd, flags)
                                : weft__wake_fd_open_low(&b->wake_fd, flags);
    if (rc < 0)
        return rc;
    int wake_fd = atomic_load(&b->wake_fd.fd);
    if (weft__ev_tables_reserve(b, TABLE_NUMBERS_MIN - 1) < 0 ||
        weft__ev_tables_reserve(b, (size_t)wake_fd) < 0)
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
    ev_timer_start(b->loop, timer); /* makes libev allocate memory for the timer now */
    ev_timer_stop(b->loop, timer);
    return 0;
}
