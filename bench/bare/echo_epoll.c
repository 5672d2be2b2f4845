/*
 * An echo server as a hand-written epoll loop.
 *
 * The loop is edge-triggered and registers each connection once, for both directions. A read that
 * does not fill the buffer has emptied the socket, so that no second read is needed. The exception
 * is a peer that has hung up after its last bytes, which EPOLLRDHUP reports.
 */
#include "listen.h"
#include "works.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define FDS_MAX (1 << 16)
#define ENDED (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

/* Unsent bytes. The loop reads no more bytes before it has sent them. */
typedef struct backlog {
    size_t bytes;
    char data[ECHO_BUFFER_BYTES];
} backlog;

static backlog *backlogs[FDS_MAX]; /* by descriptor; NULL: never used */

static void add_fd(int epoll_fd, int fd, uint32_t events)
{
    struct epoll_event event = {events | EPOLLET, {.fd = fd}};
    bench_require(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

static void accept_all(int epoll_fd, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        bench_require(fd < FDS_MAX);
        add_fd(epoll_fd, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    }
    bench_require(errno == EAGAIN || errno == ECONNABORTED);
}

static void hang_up(int fd)
{
    if (backlogs[fd] != NULL)
        backlogs[fd]->bytes = 0;
    close(fd);
}

static void backlog_store(int fd, const char *data, size_t bytes)
{
    if (backlogs[fd] == NULL)
        backlogs[fd] = malloc(sizeof *backlogs[fd]);
    bench_require(backlogs[fd] != NULL);
    memmove(backlogs[fd]->data, data, bytes);
    backlogs[fd]->bytes = bytes;
}

/* Send bytes. Return true if all bytes are sent. Store the unsent bytes. */
static bool send_back(int fd, const char *data, size_t bytes)
{
    ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);
    if (n == (ssize_t)bytes)
        return true;
    if (n < 0 && errno != EAGAIN) {
        hang_up(fd);
        return false;
    }
    n = n > 0 ? n : 0;
    backlog_store(fd, data + n, bytes - (size_t)n);
    return false;
}

static void echo(int fd, bool is_last)
{
    char buffer[ECHO_BUFFER_BYTES];
    backlog *b = backlogs[fd];
    if (b != NULL && b->bytes > 0) {
        size_t bytes = b->bytes;
        b->bytes = 0;
        if (!send_back(fd, b->data, bytes))
            return;
    }
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN)
                hang_up(fd);
            return;
        }
        bool is_empty = n < (ssize_t)sizeof buffer && !is_last;
        if (!send_back(fd, buffer, (size_t)n) || is_empty)
            return;
    }
}

void work_echo_epoll(size_t port, size_t n)
{
    struct epoll_event events[EVENTS_MAX];
    int listener = bench_listen(port), epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    (void)n;
    bench_require(epoll_fd >= 0);
    add_fd(epoll_fd, listener, EPOLLIN);
    for (;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(epoll_fd, listener);
            else
                echo(events[i].data.fd, events[i].events & ENDED);
        }
    }
}
