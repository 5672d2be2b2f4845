/*
 * Tests of kernel sockets with unusual readiness: TCP connections that the backend has cached as
 * drained, urgent bytes, resets, datagrams to a full queue, and descriptors in messages.
 */
#include "backend/backend_harness.h"
#include "support/net_support.h"

#include <netinet/tcp.h>

FIXTURE(open_backend, close_backend)

/* Open a connection over loopback. The backend uses fd[0], the test itself uses fd[1]. */
static void open_tcp(int fd[2])
{
    int one = 1;
    tcp_pair(fd);
    setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* The actions of the peer, and the expected result. */
typedef struct script {
    void (*steps[4])(int fd);
    int count;
    const char *data;
    intptr_t end; /* the result of the last read: 0, or an error */
} script;

static void send_abc(int fd)
{
    ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
}

static void send_urgent(int fd)
{
    ck_assert_int_eq(send(fd, "!", 1, MSG_OOB), 1);
}

static void end_stream(int fd)
{
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
}

static void reset_conn(int fd)
{
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    int nowhere = open("/dev/null", O_RDONLY);
    dup2(nowhere, fd); /* closes fd, but keeps the number in use */
    close(nowhere);
}

static const script scripts[] = {
    {{send_abc, end_stream}, 2, "abc", 0},
    {{send_abc, send_abc, end_stream}, 3, "abcabc", 0},
    {{send_abc, send_urgent, send_abc, end_stream}, 4, "abcabc", 0},
    {{send_abc, reset_conn}, 2, NULL, -ECONNRESET}, /* a reset discards unread data */
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

/* The reader of a connection, which starts reads and polls for events. */
typedef struct reader {
    test_op t;
    char piece[64];
    char got[64];
    size_t bytes;
    bool is_reading;
    bool is_at_end;
    intptr_t result;
} reader;

static void reader_complete(reader *r, intptr_t n)
{
    r->is_reading = false;
    r->is_at_end = n <= 0;
    r->result = n;
    if (n > 0) {
        memcpy(r->got + r->bytes, r->piece, (size_t)n);
        r->bytes += (size_t)n;
    }
}

static void reader_start(reader *r, int fd)
{
    if (r->is_reading || r->is_at_end)
        return;
    intptr_t n = start_read(&r->t, fd, r->piece, sizeof r->piece);
    r->is_reading = n == WEFT__OP_PENDING;
    if (!r->is_reading)
        reader_complete(r, n);
}

static void reader_poll(reader *r)
{
    type->poll(backend, 0);
    if (r->is_reading && r->t.is_done)
        reader_complete(r, r->t.result);
}

static void reader_finish(reader *r, int fd)
{
    while (!r->is_at_end) {
        reader_start(r, fd);
        if (r->is_reading)
            reader_complete(r, finish_op(&r->t, WEFT__OP_PENDING));
    }
}

/* Open a connection and read it empty. */
static void open_drained(int fd[2])
{
    char got[64];
    test_op t = {0};
    open_tcp(fd);
    intptr_t submitted = start_read(&t, fd[0], got, sizeof got);
    ck_assert_int_eq(send(fd[1], "first", 5, 0), 5);
    ck_assert_int_eq(finish_op(&t, submitted), 5);
}

/*
 * Run the actions of the reader between two steps of the peer. Each action has two bits: start a
 * read, poll.
 */
static void run_reader_actions(reader *r, int fd, unsigned actions)
{
    for (; actions != 0; actions >>= 2) {
        if (actions & 1)
            reader_start(r, fd);
        if (actions & 2)
            reader_poll(r);
    }
}

static void expect_script(const script *s, const reader *r)
{
    ck_assert_int_eq(r->result, s->end);
    if (s->data == NULL)
        return;
    ck_assert_uint_eq(r->bytes, strlen(s->data));
    ck_assert_int_eq(memcmp(r->got, s->data, r->bytes), 0);
}

/*
 * Run a script with one interleaving of peer and reader, then read to the end of the stream. One of
 * 16 pairs of actions follows each step of the peer.
 */
static void run_script(const script *s, unsigned order)
{
    int fd[2];
    reader r = {.bytes = 0};
    open_drained(fd);
    run_reader_actions(&r, fd[0], order & 15);
    for (int i = 0; i < s->count; i++) {
        s->steps[i](fd[1]);
        order >>= 4;
        run_reader_actions(&r, fd[0], order & 15);
    }
    reader_finish(&r, fd[0]);
    expect_script(s, &r);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    close(fd[1]);
}

/* 512 of the interleavings, spread over all of them. */
TEST_LOOP(a_short_read_before_the_end_never_hangs, SCRIPTS)
{
    for (unsigned i = 0; i < 512; i++)
        run_script(&scripts[_i], i * 2654435761u >> 8);
}

static intptr_t recv_now(int fd, void *to, size_t bytes, int flags)
{
    return op_now((weft__op){.code = WEFT__OP_RECV, .fd = fd, .u.packet = {to, bytes, flags}});
}

TEST(an_urgent_byte_that_is_read_first_hides_no_data)
{
    int fd[2];
    char got[64] = "", urgent = 0;
    open_drained(fd);
    send_abc(fd[1]);
    send_urgent(fd[1]);
    send_abc(fd[1]);
    intptr_t rc;
    while ((rc = recv_now(fd[0], &urgent, 1, MSG_OOB)) == -EAGAIN || rc == -EINVAL)
        continue; /* not yet arrived */
    ck_assert_int_eq(rc, 1);
    ck_assert_int_eq(urgent, '!');
    type->poll(backend, 0);
    size_t bytes = 0;
    while (bytes < 6) {
        intptr_t n = recv_now(fd[0], got + bytes, sizeof got - bytes, 0);
        ck_assert_int_gt(n, 0);
        bytes += (size_t)n;
    }
    ck_assert_str_eq(got, "abcabc");
}

TEST(a_peek_does_not_drain_a_connection)
{
    int fd[2];
    char got[64] = "";
    open_drained(fd);
    send_abc(fd[1]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(recv_now(fd[0], got, sizeof got, MSG_PEEK), 3);
    ck_assert_int_eq(recv_now(fd[0], got, sizeof got, 0), 3);
}

TEST_LOOP(closing_a_drained_connection_drops_its_cached_state, 3)
{
    int fd[2];
    char got[8];
    open_drained(fd);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    close(fd[1]);
    open_tcp(fd);
    ck_assert_int_eq(send(fd[1], "abc", 3, 0), 3);
    ck_assert_int_eq(shutdown(fd[1], SHUT_WR), 0);
    size_t bytes = 0;
    intptr_t n;
    while ((n = read_now(fd[0], got, sizeof got)) > 0)
        bytes += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(bytes, 3);
}

/* Fill the queue of a datagram socket from a temporary socket. Return the number of datagrams. */
static int fill_queue(const struct sockaddr *address, socklen_t bytes)
{
    int filler = socket(AF_UNIX, SOCK_DGRAM, 0), sent = 0;
    while (sendto(filler, "x", 1, MSG_DONTWAIT, address, bytes) == 1)
        sent++;
    close(filler);
    return sent;
}

/*
 * The sending socket is always writable. Its readiness does not depend on the queue of the
 * receiver.
 */
TEST(a_datagram_waits_for_room_in_the_queue_of_the_receiver)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct sockaddr *any = (struct sockaddr *)&address;
    socklen_t bytes = sizeof address;
    int to = socket(AF_UNIX, SOCK_DGRAM, 0), from = socket(AF_UNIX, SOCK_DGRAM, 0);
    ck_assert_int_eq(bind(to, any, sizeof(sa_family_t)), 0);
    ck_assert_int_eq(getsockname(to, any, &bytes), 0);
    struct iovec piece = {(char[]){"y"}, 1};
    struct msghdr header = {.msg_iov = &piece, .msg_iovlen = 1};
    header.msg_name = &address;
    header.msg_namelen = bytes;
    weft__op op = {.code = WEFT__OP_SENDMSG, .fd = from, .u.message = {&header, 0}};
    test_op t[2] = {{.is_done = false}};
    int sent = fill_queue(any, bytes);
    for (int i = 0; i < 2; i++)
        ck_assert(try_finish_op(&t[i], start_op(&t[i], op)) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&t[1]), -ECANCELED);
    char got = 0;
    for (int i = 0; i < sent; i++)
        ck_assert_int_eq(read(to, &got, 1), 1);
    ck_assert_int_eq(finish_op(&t[0], WEFT__OP_PENDING), 1);
    ck_assert_int_eq(read_now(to, &got, 1), 1);
    ck_assert_int_eq(got, 'y');
    fill_queue(any, bytes);
    ck_assert(try_finish_op(&t[0], start_op(&t[0], op)) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, from), 0);
    ck_assert_int_eq(finish_op(&t[0], WEFT__OP_PENDING), -EBADF);
}

typedef union control {
    struct cmsghdr header; /* for alignment */
    char bytes[CMSG_SPACE(sizeof(int))];
} control;

static struct msghdr message_with(struct iovec *piece, control *c)
{
    struct msghdr header = {.msg_iov = piece, .msg_iovlen = 1};
    header.msg_control = c->bytes;
    header.msg_controllen = sizeof c->bytes;
    return header;
}

static void send_descriptor(int fd, int passed)
{
    control c = {.bytes = {0}};
    struct msghdr header = message_with(&(struct iovec){(char[]){"d"}, 1}, &c);
    struct cmsghdr *part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof passed);
    memcpy(CMSG_DATA(part), &passed, sizeof passed);
    weft__op op = {.code = WEFT__OP_SENDMSG, .fd = fd, .u.message = {&header, 0}};
    ck_assert_int_eq(op_now(op), 1);
}

TEST(a_descriptor_received_in_a_message_has_no_cached_state)
{
    int pair[2], pipes[2], passed[2];
    char got[8] = "";
    test_op t = {0};
    ck_assert_int_eq(type->socketpair(backend, pair), 0);
    ck_assert_int_eq(type->pipe(backend, passed), 0);
    /* A number that the backend has cached as a socket, and that was closed without the backend. */
    ck_assert_int_eq(type->socketpair(backend, pipes), 0);
    ck_assert(start_read(&t, pipes[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&t), -ECANCELED);
    close(pipes[0]);
    send_descriptor(pair[1], passed[0]);
    control c;
    struct msghdr header = message_with(&(struct iovec){got, sizeof got}, &c);
    weft__op op = {.code = WEFT__OP_RECVMSG, .fd = pair[0], .u.message = {&header, 0}};
    ck_assert_int_eq(finish_op(&t, start_op(&t, op)), 1);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
    ck_assert_int_eq(fd, pipes[0]);
    ck_assert(start_read(&t, fd, got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(passed[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), 3);
}

/* A read of a Unix stream stops at a message with descriptors, although more data follows. */
TEST(reading_continues_after_a_read_that_stopped_at_a_descriptor)
{
    int pair[2], passed[2];
    char got[8] = "";
    test_op t = {0};
    ck_assert_int_eq(type->socketpair(backend, pair), 0);
    ck_assert_int_eq(type->pipe(backend, passed), 0);
    ck_assert(start_read(&t, pair[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(pair[1], "a", 1), 1);
    send_descriptor(pair[1], passed[0]);
    ck_assert_int_eq(write(pair[1], "b", 1), 1);
    size_t bytes = 0;
    for (intptr_t n = finish_op(&t, WEFT__OP_PENDING); bytes + (size_t)n < 3;) {
        ck_assert_int_gt(n, 0);
        bytes += (size_t)n;
        n = read_now(pair[0], got, 8);
    }
}
