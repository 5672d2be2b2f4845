/*
 * Hooks of select and pselect. select(2) without waiting fills the sets, before and after the wait.
 * The wait itself is a poll of the same descriptors. A set may be larger than fd_set.
 */
#include "posix/io/fd_wait.h"
#include "posix/io/seconds.h"
#include "posix/io/sigmask.h"

#include <weft/io.h>
#include <weft/time.h>

#include <stdlib.h>
#include <string.h>

enum { READ_SET, WRITE_SET, EXCEPT_SET, SETS };

#define WORD_BITS (8 * sizeof(unsigned long))

/* A call of select. */
typedef struct select_call {
    int count;             /* of the numbers in each set */
    fd_set *sets[SETS];    /* of the caller; NULL: not used */
    size_t set_bytes;      /* of each set */
    unsigned long *wanted; /* a copy of all sets */
    struct pollfd *fds;
    size_t fds_count;
    const sigset_t *mask; /* NULL: none */
} select_call;

/*
 * Return the number of entries in the kernel's table of descriptors, or -1 if the number is not
 * known. This size is only available as text.
 */
static int fd_table_size(void)
{
    static const char name[] = "\nFDSize:";
    char text[1024]; /* the line is one of the first lines */
    int fd = REAL(open)("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t bytes = REAL(read)(fd, text, sizeof text - 1);
    REAL(close)(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    const char *line = strstr(text, name);
    return line != NULL ? atoi(line + strlen(name)) : -1;
}

/*
 * Return how many numbers of the sets the kernel uses, or -1 if this is not known. The kernel
 * ignores numbers that its table of descriptors has no room for. A program may pass a large count,
 * for example of getdtablesize(3), with sets of type fd_set. The memory beyond is not part of the
 * sets.
 */
static int used_count(int count)
{
    if (count <= FD_SETSIZE)
        return count;
    int size = fd_table_size();
    return size < count ? size : count;
}

static unsigned long *wanted_of(const select_call *c, int set)
{
    return c->wanted + (size_t)set * c->set_bytes / sizeof(unsigned long);
}

static bool is_wanted(const select_call *c, int set, int fd)
{
    size_t number = (size_t)fd;
    return wanted_of(c, set)[number / WORD_BITS] >> (number % WORD_BITS) & 1;
}

/* Copy the sets of the caller, which select(2) changes. Returns 0 or -ENOMEM. */
static int select_open(select_call *c)
{
    c->set_bytes = ((size_t)c->count + WORD_BITS - 1) / WORD_BITS * sizeof(unsigned long);
    c->wanted = calloc(SETS, c->set_bytes + 1);
    c->fds = NULL;
    if (c->wanted == NULL)
        return -ENOMEM;
    for (int i = 0; i < SETS; i++)
        if (c->sets[i] != NULL)
            memcpy(wanted_of(c, i), c->sets[i], c->set_bytes);
    return 0;
}

static void select_close(select_call *c)
{
    free(c->wanted);
    free(c->fds);
}

static short select_events(const select_call *c, int fd)
{
    return (short)((is_wanted(c, READ_SET, fd) ? POLLIN : 0) |
                   (is_wanted(c, WRITE_SET, fd) ? POLLOUT : 0) |
                   (is_wanted(c, EXCEPT_SET, fd) ? POLLPRI : 0));
}

/* Create the entries for poll. Returns 0 or -ENOMEM. */
static int select_fill(select_call *c)
{
    c->fds_count = 0;
    for (int fd = 0; fd < c->count; fd++)
        c->fds_count += select_events(c, fd) != 0;
    c->fds = calloc(c->fds_count + 1, sizeof *c->fds);
    if (c->fds == NULL)
        return -ENOMEM;
    struct pollfd *next = c->fds;
    for (int fd = 0; fd < c->count; fd++)
        if (select_events(c, fd) != 0)
            *next++ = (struct pollfd){.fd = fd, .events = select_events(c, fd)};
    return 0;
}

/* Call select(2) without waiting, with the sets of the caller. Returns the result or -errno. */
static int select_now(const select_call *c)
{
    for (int i = 0; i < SETS; i++)
        if (c->sets[i] != NULL)
            memcpy(c->sets[i], wanted_of(c, i), c->set_bytes);
    struct timeval no_wait = {0};
    fd_set *const *sets = c->sets;
    int n = REAL(select)(c->count, sets[READ_SET], sets[WRITE_SET], sets[EXCEPT_SET], &no_wait);
    return n < 0 ? -errno : n;
}

/*
 * Wait until a descriptor is ready, for at most some seconds. poll(2) also reports errors and
 * closed connections that select(2) does not report, for example for the write set. Pause then.
 */
static int select_for(void *context, double seconds)
{
    select_call *c = context;
    double end = weft_now() + seconds, delay_s = 0;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_NEVER_RESTARTS, WEFT__HOOK_FOREVER);
    int rc = weft_poll(c->fds, c->fds_count, seconds);
    while (rc > 0 && (rc = select_now(c)) == 0 && weft_now() < end) {
        rc = weft__hook_retry_pause(&delay_s);
        if (rc == 0)
            rc = weft_poll(c->fds, c->fds_count, weft__seconds_left(end, weft_now()));
    }
    return (int)weft__hook_wait_end(&w, rc);
}

/* Wait. timeout_s is the limit, and receives the remaining time. Returns the result or -errno. */
static int select_wait(select_call *c, double *timeout_s)
{
    int rc = select_fill(c);
    if (rc < 0)
        return rc;
    double end = weft_now() + *timeout_s;
    rc = weft__mask_wait(c->mask, *timeout_s, select_for, c);
    *timeout_s = weft__seconds_left(end, weft_now());
    return rc;
}

/*
 * Returns as select(2). Sets that the call did not fill because of an error are unchanged, as after
 * an error of select(2).
 */
static int select_in_fiber(select_call *c, double *timeout_s)
{
    int error = errno, rc = select_open(c);
    if (rc < 0)
        return weft__hook_fail(rc);
    if (weft__mask_unblocks(c->mask))
        rc = weft__mask_handle(c->mask);
    if (rc == 0)
        rc = select_now(c);
    if (rc == 0 && *timeout_s > 0) {
        rc = select_wait(c, timeout_s);
        for (int i = 0; rc < 0 && i < SETS; i++)
            if (c->sets[i] != NULL)
                memcpy(c->sets[i], wanted_of(c, i), c->set_bytes);
    }
    select_close(c);
    errno = error;
    return (int)weft__hook_result(rc);
}

static bool timeval_is_valid(const struct timeval *t)
{
    return t->tv_sec >= 0 && t->tv_usec >= 0;
}

HOOK_DEFINE(int, select,
            (int count, fd_set *reads, fd_set *writes, fd_set *excepts, struct timeval *timeout))
{
    if (!weft__hook_is_on() || count < 0 || (timeout != NULL && !timeval_is_valid(timeout)))
        return REAL(select)(count, reads, writes, excepts, timeout);
    int used = used_count(count);
    if (used < 0)
        return REAL(select)(count, reads, writes, excepts, timeout);
    double timeout_s = timeout != NULL ? weft__seconds_of_timeval(timeout) : INFINITY;
    select_call c = {.count = used, .sets = {reads, writes, excepts}};
    int n = select_in_fiber(&c, &timeout_s);
    if (timeout != NULL)
        *timeout = weft__timeval_of_seconds(timeout_s);
    return n;
}

HOOK_DEFINE(int, pselect,
            (int count, fd_set *reads, fd_set *writes, fd_set *excepts,
             const struct timespec *timeout, const sigset_t *mask))
{
    if (!weft__hook_is_on() || count < 0 || (timeout != NULL && !weft__timespec_is_valid(timeout)))
        return REAL(pselect)(count, reads, writes, excepts, timeout, mask);
    int used = used_count(count);
    if (used < 0)
        return REAL(pselect)(count, reads, writes, excepts, timeout, mask);
    double timeout_s = timeout != NULL ? weft__seconds_of_timespec(timeout) : INFINITY;
    select_call c = {.count = used, .sets = {reads, writes, excepts}, .mask = mask};
    return select_in_fiber(&c, &timeout_s);
}
