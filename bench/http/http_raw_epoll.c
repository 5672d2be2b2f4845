/*
 * A hello world server that parses nothing, as a hand-written epoll loop.
 *
 * The loop is edge-triggered and registers each connection once, as bench/bare/echo_epoll.c. A
 * request takes two system calls, and less than one call to wait.
 */
#include "raw.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define ENDED (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

typedef struct connection {
    size_t line_bytes; /* length of the unfinished line */
    size_t pending;    /* unsent bytes of replies; sent before the next read */
} connection;

static connection connections[RAW_FDS_MAX]; /* by descriptor */
static raw_replies replies;
static bool is_close;

static void add_fd(int epoll_fd, int fd, uint32_t events)
{
    struct epoll_event event = {events | EPOLLET, {.fd = fd}};
    raw_require(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
}

static void accept_all(int epoll_fd, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        raw_require(fd < RAW_FDS_MAX, "too many connections");
        connections[fd] = (connection){0};
        add_fd(epoll_fd, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP);
    }
    raw_require(errno == EAGAIN || errno == ECONNABORTED, "accept");
}

/* Send the pending bytes. Return false if bytes remain or the connection has ended. */
static bool send_pending(int fd)
{
    connection *c = &connections[fd];
    while (c->pending > 0) {
        /* A short send may have left the end of a reply. Send that end first. */
        size_t skip = (replies.each - c->pending % replies.each) % replies.each;
        size_t most = RAW_REPLIES_MAX * replies.each - skip;
        size_t bytes = c->pending < most ? c->pending : most;
        ssize_t n = send(fd, replies.data + skip, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return false;
        if (n < 0) {
            close(fd);
            return false;
        }
        c->pending -= (size_t)n;
    }
    return true;
}

/* Handle received bytes. Return false if the caller must not read more bytes for now. */
static bool answer(int fd, const char *data, size_t bytes)
{
    connection *c = &connections[fd];
    size_t count = raw_count_requests(data, bytes, &c->line_bytes);
    if (count == 0)
        return true;
    if (is_close) {
        send(fd, replies.data, replies.each, MSG_NOSIGNAL);
        close(fd);
        return false;
    }
    c->pending += count * replies.each;
    return send_pending(fd);
}

static void serve(int fd, bool is_last)
{
    char buffer[RAW_BUFFER_BYTES];
    if (!send_pending(fd))
        return;
    for (;;) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN)
                close(fd);
            return;
        }
        bool is_empty = n < (ssize_t)sizeof buffer && !is_last;
        if (!answer(fd, buffer, (size_t)n) || is_empty)
            return;
    }
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS_MAX];
    raw_options options = raw_options_read(argc, argv);
    int listener = raw_listen(options.port), epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    raw_require(epoll_fd >= 0, "epoll_create1");
    is_close = options.is_close;
    replies = raw_replies_make(is_close);
    add_fd(epoll_fd, listener, EPOLLIN);
    for (;;) {
        int count = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == listener)
                accept_all(epoll_fd, listener);
            else
                serve(events[i].data.fd, events[i].events & ENDED);
        }
    }
}
