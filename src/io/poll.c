/*
 * Wait for several descriptors, as poll(2) does. poll(2) with timeout 0 finds the ready
 * descriptors, before and after the wait. The wait itself only reports that some descriptor may be
 * ready:
 *   - one descriptor with POLLIN or POLLOUT: an operation of the backend
 *   - up to SELECT_MAX such descriptors: a select
 *   - all others: a private epoll descriptor
 */
#include "backend/syscall/call.h"
#include "base/libc.h"
#include "core/op/op.h"

#include <weft/error.h>
#include <weft/io.h>
#include <weft/scope.h>
#include <weft/select.h>
#include <weft/time.h>

#include <math.h>
#include <poll.h>
#include <sys/epoll.h>

#define SELECT_MAX 8

/* The pause after two waits that found no ready descriptor, in seconds. */
#define SPURIOUS_PAUSE_S 0.001

/* An error that poll(2) always reports. epoll(7) reports both without a request, too. */
#define ALWAYS_REPORTED (POLLERR | POLLHUP)

static int poll_now(struct pollfd *fds, size_t n)
{
    int ready = TEMP_FAILURE_RETRY(poll(fds, n, 0));
    return ready < 0 ? -errno : ready;
}

/*
 * Return the events that the WAIT operation must wait for. Return 0 if WAIT cannot wait for them.
 */
static int simple_events(const struct pollfd *p)
{
    int events = p->events & ~ALWAYS_REPORTED;
    if (events & POLLIN) /* these events come with POLLIN */
        events &= ~(POLLRDNORM | POLLRDHUP);
    if (events & POLLOUT)
        events &= ~(POLLWRNORM | POLLWRBAND);
    return events & ~(POLLIN | POLLOUT) ? 0 : events;
}

/*
 * Add clauses for all descriptors. Returns the number of clauses. Returns 0 if there is no
 * descriptor, or if clauses cannot wait for the descriptors.
 */
static size_t clauses_fill(weft_clause clauses[SELECT_MAX], const struct pollfd *fds, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        if (fds[i].fd < 0)
            continue;
        int events = simple_events(&fds[i]);
        if (events == 0 || count == SELECT_MAX)
            return 0;
        clauses[count++] = weft_clause_fd(fds[i].fd, events);
    }
    return count;
}

static intptr_t wait_clauses(weft_clause *clauses, size_t count)
{
    if (count == 1)
        return weft_wait_fd(clauses[0].of.fd, clauses[0].events);
    int winner = weft_select(clauses, count);
    return winner < 0 ? winner : clauses[winner].value;
}

/* Return the events of all entries for one descriptor. */
static uint32_t events_of_fd(const struct pollfd *fds, size_t n, int fd)
{
    uint32_t events = 0;
    for (size_t i = 0; i < n; i++)
        if (fds[i].fd == fd)
            events |= (unsigned short)fds[i].events;
    return events;
}

/* The bits of poll(2) and epoll(7) are the same. */
static int epoll_add(int epoll_fd, const struct pollfd *fds, size_t n, const struct pollfd *p)
{
    struct epoll_event event = {.events = (unsigned short)p->events};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, p->fd, &event) == 0 || errno == EPERM)
        return 0; /* EPERM: a regular file. It has no other events than POLLIN and POLLOUT. */
    if (errno != EEXIST)
        return -errno;
    event.events = events_of_fd(fds, n, p->fd);
    return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, p->fd, &event) < 0 ? -errno : 0;
}

static intptr_t wait_epoll(const struct pollfd *fds, size_t n)
{
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        return -errno;
    weft__fd_created(epoll_fd);
    intptr_t rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        if (fds[i].fd >= 0)
            rc = epoll_add(epoll_fd, fds, n, &fds[i]);
    if (rc == 0)
        rc = weft_wait_fd(epoll_fd, POLLIN);
    weft_close(epoll_fd);
    return rc;
}

static bool has_descriptor(const struct pollfd *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i].fd >= 0)
            return true;
    return false;
}

/* Wait until a descriptor may be ready. Returns >= 0, or the error that ended the wait. */
static intptr_t wait_any(const struct pollfd *fds, size_t n)
{
    if (!has_descriptor(fds, n))
        return weft_sleep(INFINITY);
    weft_clause clauses[SELECT_MAX];
    size_t count = clauses_fill(clauses, fds, n);
    return count > 0 ? wait_clauses(clauses, count) : wait_epoll(fds, n);
}

/* Wait until a descriptor is ready. Returns the number of ready descriptors, or an error. */
static intptr_t poll_waiting(struct pollfd *fds, size_t n)
{
    intptr_t rc = 0;
    for (bool is_again = false; rc >= 0; is_again = true) {
        rc = wait_any(fds, n);
        int ready = rc >= 0 ? poll_now(fds, n) : 0;
        if (ready != 0)
            return ready;
        /* Another fiber or thread took the data. Pause, so that the loop cannot take all time. */
        if (rc >= 0 && is_again)
            rc = weft_sleep(SPURIOUS_PAUSE_S);
    }
    return rc;
}

int weft_poll(struct pollfd *fds, size_t n, double timeout_s)
{
    if (isnan(timeout_s) || timeout_s < 0)
        return weft_fail(-EINVAL, "weft_poll: timeout_s is negative or NaN");
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return (int)weft__no_cord();
    int ready = poll_now(fds, n);
    if (ready != 0)
        return (int)weft__op_finish_now(c, ready);
    if (timeout_s == 0)
        return weft_sleep(0);
    weft_scope scope;
    weft_scope_open(&scope, timeout_s);
    intptr_t rc = poll_waiting(fds, n);
    if (weft_scope_close(&scope) == -ETIMEDOUT && rc == -ECANCELED)
        rc = poll_now(fds, n);
    return (int)rc;
}
