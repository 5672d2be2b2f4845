/*
 * Helpers for the tests of descriptors that several cords use: sources of all kinds, and reading
 * fibers.
 */
#ifndef TESTS_BACKEND_FD_SUPPORT_H
#define TESTS_BACKEND_FD_SUPPORT_H

#include "support/cord_support.h"
#include "support/net_support.h"

typedef enum kind { FILE_ON_DISK, PIPE, TCP, UDP, UNIX, KINDS } kind;

/* A descriptor to read from, and the descriptor through which a test feeds it. */
typedef struct source {
    kind kind;
    int fd, feed;
    char path[32]; /* of a regular file, until it is open */
} source;

static struct {
    int fd;
    endpoint at;
} listener;

static inline void open_listener(void)
{
    listener.fd = listen_tcp(&listener.at, 16);
}

/* Create a source except its descriptor, so that the descriptor gets the lowest free number. */
static inline source prepare_source(kind k)
{
    source s = {.kind = k, .fd = -1, .feed = -1};
    if (k == FILE_ON_DISK) {
        strcpy(s.path, "/tmp/weft-fd-reuse-XXXXXX");
        s.feed = mkostemp(s.path, O_CLOEXEC);
        ck_assert_int_ge(s.feed, 0);
    } else if (k == TCP) {
        s.feed = socket_for(&listener.at);
        ck_assert_int_eq(connect(s.feed, &listener.at.u.any, listener.at.bytes), 0);
    }
    return s;
}

static inline void open_source_pair(source *s)
{
    int fd[2];
    ck_assert_int_eq(s->kind == PIPE ? weft_pipe(fd) : weft_socketpair(fd), 0);
    s->fd = fd[0];
    s->feed = fd[1];
}

static inline void open_udp(source *s)
{
    endpoint at = {.bytes = sizeof at.u};
    s->fd = weft_listen("udp4", "127.0.0.1:0");
    ck_assert_int_eq(getsockname(s->fd, &at.u.any, &at.bytes), 0);
    s->feed = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(connect(s->feed, &at.u.any, at.bytes), 0);
}

/* Open the descriptor of the source. Each kind uses a different weft call. */
static inline void open_prepared(source *s)
{
    switch (s->kind) {
    case FILE_ON_DISK:
        s->fd = weft_open(s->path, O_RDONLY);
        unlink(s->path);
        break;
    case TCP:
        s->fd = weft_accept(listener.fd, NULL, NULL);
        break;
    case UDP:
        open_udp(s);
        break;
    default:
        open_source_pair(s);
        break;
    }
    ck_assert_int_ge(s->fd, 0);
}

static inline source open_source(kind k)
{
    source s = prepare_source(k);
    open_prepared(&s);
    return s;
}

/*
 * Move the source to a number without weft, so that only the call that closed the number has
 * announced the change. Another thread of the runtime may hold the number briefly, for a file of
 * /proc.
 */
static inline void move_source(source *s, int number)
{
    int moved;
    while ((moved = fcntl(s->fd, F_DUPFD_CLOEXEC, number)) > number)
        close(moved);
    ck_assert_int_eq(moved, number);
    close(s->fd);
    s->fd = number;
}

static inline void feed_source(const source *s, const char *text)
{
    ck_assert_int_eq(write(s->feed, text, strlen(text)), (ssize_t)strlen(text));
}

FIBER(close_fd_arg, weft_close((int)(intptr_t)arg))

static inline void close_source(const source *s, weft_cord closer)
{
    ck_assert_int_eq(weft_cord_call(closer, close_fd_arg, as_arg(s->fd)), 0);
    close(s->feed);
}

/* A call in another cord, which tells its observer 1 when it waits. */
typedef struct remote_call {
    weft_cord cord;
    weft_fn *fn;
    void *arg;
} remote_call;

static inline weft_value run_remote_call(void *arg)
{
    const remote_call *r = arg;
    return weft_cord_call(r->cord, r->fn, r->arg);
}

/* Return a local fiber that makes the call. */
static inline weft_fiber spin_remote_call(remote_call *r)
{
    weft_fiber caller = weft_spin(run_remote_call, r);
    ck_assert_int_eq(weft_receive(), 1);
    return caller;
}

typedef struct reader {
    int fd;
    remote_call call;
    weft_fiber observer; /* receives a message when the reader waits */
    ssize_t result;
    char data[101];
} reader;

static inline weft_value read_some(void *arg)
{
    reader *r = arg;
    memset(r->data, 0, sizeof r->data);
    r->result = weft_read(r->fd, r->data, sizeof r->data - 1);
    return 0;
}

static inline void await_waiting(weft_fiber f)
{
    while (weft_state_of(f) != WEFT_WAITING)
        weft_snooze();
    weft_sleep(0); /* let the backend poll */
}

static inline weft_value read_and_tell(void *arg)
{
    reader *r = arg;
    weft_fiber child = weft_spin(read_some, r);
    await_waiting(child);
    weft_tell(r->observer, 1);
    return weft_await(child);
}

static inline void assert_read(weft_cord cord, int fd, const char *text)
{
    reader r = {.fd = fd};
    ck_assert_int_eq(weft_cord_call(cord, read_some, &r), 0);
    ck_assert_int_eq(r.result, (ssize_t)strlen(text));
    ck_assert_str_eq(r.data, text);
}

/* Make a fiber of cord wait for input. Return the local fiber that awaits it. */
static inline weft_fiber spin_reader(reader *r, weft_cord cord, int fd)
{
    *r = (reader){.fd = fd, .observer = weft_self(), .result = 1000};
    r->call = (remote_call){cord, read_and_tell, r};
    return spin_remote_call(&r->call);
}

static inline void assert_read_later(weft_cord cord, const source *s, const char *text)
{
    reader r;
    weft_fiber caller = spin_reader(&r, cord, s->fd);
    feed_source(s, text);
    ck_assert_int_eq(weft_await(caller), 0);
    ck_assert_int_eq(r.result, (ssize_t)strlen(text));
    ck_assert_str_eq(r.data, text);
}

/*
 * Use the source until cord has cached all state of its descriptor: the kind of file, whether it is
 * drained, and how to wait.
 */
static inline void use_source_in(weft_cord cord, const source *s)
{
    feed_source(s, "first");
    assert_read(cord, s->fd, "first");
    if (s->kind == FILE_ON_DISK) {
        assert_read(cord, s->fd, "");
        return;
    }
    assert_read_later(cord, s, "second");
    assert_read_later(cord, s, "third");
}

static inline weft_cord start_idle_cord(void)
{
    weft_cord cord = weft_cord_start(NULL, NULL, NULL);
    ck_assert_uint_ne(cord, 0);
    return cord;
}

static inline void end_cord(weft_cord cord)
{
    ck_assert_int_eq(weft_cord_cancel(cord), 0);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}

#endif
