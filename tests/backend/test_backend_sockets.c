/*
 * Sockets of the kernel that have their own ideas of readiness: TCP connections of which the
 * backend believes to know that they are empty, urgent bytes, resets, datagrams to a queue that is
 * full, descriptors that come with a message.
 */
#include "backend_harness.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* A connection over loopback: fd[0] is the backend's, fd[1] the test's own peer. */
static void open_tcp(int fd[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd[1], (struct sockaddr *)&address, bytes), 0);
    fd[0] = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd[0], 0);
    close(listener);
    int one = 1;
    setsockopt(fd[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* Everything that the peer does, and what is to arrive. */
typedef struct script {
    void (*steps[4])(int fd);
    int count;
    const char *data;
    intptr_t end; /* of the stream: 0, or an error */
} script;

static void send_abc(int fd)
{
    ck_assert_int_eq(send(fd, "abc", 3, 0), 3);
}

static void send_urgent(int fd)
{
    ck_assert_int_eq(send(fd, "!", 1, MSG_OOB), 1);
}

static void end(int fd)
{
    ck_assert_int_eq(shutdown(fd, SHUT_WR), 0);
}

static void reset(int fd)
{
    struct linger at_once = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    int nowhere = open("/dev/null", O_RDONLY);
    dup2(nowhere, fd); /* closes it, and keeps the number */
    close(nowhere);
}

static const script scripts[] = {
    {{send_abc, end}, 2, "abc", 0},
    {{send_abc, send_abc, end}, 3, "abcabc", 0},
    {{send_abc, send_urgent, send_abc, end}, 4, "abcabc", 0},
    {{send_abc, reset}, 2, NULL, -ECONNRESET}, /* what was unread is lost with it */
};
enum { SCRIPTS = sizeof scripts / sizeof *scripts };

/* What the reader does: begin to read if it does not already, or look for events. */
typedef struct reader {
    trial t;
    char piece[64];
    char got[64];
    size_t bytes;
    bool is_reading;
    bool is_at_end;
    intptr_t result;
} reader;

static void take(reader *r, intptr_t n)
{
    r->is_reading = false;
    r->is_at_end = n <= 0;
    r->result = n;
    if (n > 0) {
        memcpy(r->got + r->bytes, r->piece, (size_t)n);
        r->bytes += (size_t)n;
    }
}

static void begin(reader *r, int fd)
{
    if (r->is_reading || r->is_at_end)
        return;
    intptr_t n = start_read(&r->t, fd, r->piece, sizeof r->piece);
    r->is_reading = n == WEFT__OP_PENDING;
    if (!r->is_reading)
        take(r, n);
}

static void look(reader *r)
{
    type->poll(backend, 0);
    if (r->is_reading && r->t.is_done)
        take(r, r->t.result);
}

static void read_to_the_end(reader *r, int fd)
{
    while (!r->is_at_end) {
        begin(r, fd);
        if (r->is_reading)
            take(r, finish(&r->t, WEFT__OP_PENDING));
    }
}

/* A connection that has been read empty before. */
static void open_drained(int fd[2])
{
    char got[64];
    trial t = {0};
    open_tcp(fd);
    intptr_t submitted = start_read(&t, fd[0], got, sizeof got);
    ck_assert_int_eq(send(fd[1], "first", 5, 0), 5);
    ck_assert_int_eq(finish(&t, submitted), 5);
}

/* Between two steps of the peer: the reader's acts, two bits each. */
static void interlude(reader *r, int fd, unsigned acts)
{
    for (; acts != 0; acts >>= 2) {
        if (acts & 1)
            begin(r, fd);
        if (acts & 2)
            look(r);
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
 * Whatever the order of what the peer does and of what the reader does: it comes to the end. Each
 * step of the peer is followed by one of 16 pairs of acts.
 */
static void play(const script *s, unsigned order)
{
    int fd[2];
    reader r = {.bytes = 0};
    open_drained(fd);
    interlude(&r, fd[0], order & 15);
    for (int i = 0; i < s->count; i++) {
        s->steps[i](fd[1]);
        order >>= 4;
        interlude(&r, fd[0], order & 15);
    }
    read_to_the_end(&r, fd[0]);
    expect_script(s, &r);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    close(fd[1]);
}

START_TEST(a_short_read_before_the_end_never_hangs)
{
    const script *s = &scripts[_i];
    unsigned orders = s->count > 2 ? 4096 : 1u << 4 * (s->count + 1);
    unsigned stride = s->count > 2 ? 16u : 1;
    for (unsigned order = 0; order < orders; order += stride)
        play(s, s->count > 2 ? order * 2654435761u >> 8 : order);
}
END_TEST

static intptr_t recv_now(int fd, void *to, size_t bytes, int flags)
{
    trial t = {0};
    weft__op op = {.code = WEFT__OP_RECV, .fd = fd, .u.packet = {to, bytes, flags}};
    return finish(&t, start(&t, op));
}

START_TEST(an_urgent_byte_taken_first_hides_nothing)
{
    int fd[2];
    char got[64] = "", urgent = 0;
    open_drained(fd);
    send_abc(fd[1]);
    send_urgent(fd[1]);
    send_abc(fd[1]);
    intptr_t rc;
    while ((rc = recv_now(fd[0], &urgent, 1, MSG_OOB)) == -EAGAIN || rc == -EINVAL)
        continue; /* not yet here */
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
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    close(fd[1]);
}
END_TEST

START_TEST(a_look_does_not_empty_a_connection)
{
    int fd[2];
    char got[64] = "";
    open_drained(fd);
    send_abc(fd[1]);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(recv_now(fd[0], got, sizeof got, MSG_PEEK), 3);
    ck_assert_int_eq(recv_now(fd[0], got, sizeof got, 0), 3);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    close(fd[1]);
}
END_TEST

START_TEST(an_empty_connection_that_is_closed_gives_its_number_away_clean)
{
    for (int round = 0; round < 20; round++) {
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
        ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
        close(fd[1]);
    }
}
END_TEST

/* Fill the queue of a datagram socket, from a socket that nobody else knows. */
static int fill_queue(const struct sockaddr *address, socklen_t bytes)
{
    int filler = socket(AF_UNIX, SOCK_DGRAM, 0), sent = 0;
    while (sendto(filler, "x", 1, MSG_DONTWAIT, address, bytes) == 1)
        sent++;
    close(filler);
    return sent;
}

/* Its own socket is writable all the time: no readiness tells of the other's queue. */
START_TEST(a_datagram_waits_for_room_in_the_queue_of_another)
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
    trial t[2] = {{.is_done = false}};
    int sent = fill_queue(any, bytes);
    for (int i = 0; i < 2; i++)
        ck_assert(try_now(&t[i], start(&t[i], op)) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&t[1]), -ECANCELED);
    char got = 0;
    for (int i = 0; i < sent; i++)
        ck_assert_int_eq(read(to, &got, 1), 1);
    ck_assert_int_eq(finish(&t[0], WEFT__OP_PENDING), 1);
    ck_assert_int_eq(read_now(to, &got, 1), 1);
    ck_assert_int_eq(got, 'y');
    fill_queue(any, bytes);
    ck_assert(try_now(&t[0], start(&t[0], op)) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, from), 0);
    ck_assert_int_eq(finish(&t[0], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, to), 0);
}
END_TEST

typedef union control {
    struct cmsghdr header; /* for its alignment */
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
    trial t = {0};
    weft__op op = {.code = WEFT__OP_SENDMSG, .fd = fd, .u.message = {&header, 0}};
    ck_assert_int_eq(finish(&t, start(&t, op)), 1);
}

START_TEST(a_descriptor_that_came_with_a_message_is_a_new_one)
{
    int pair[2], pipes[2], passed[2];
    char got[8] = "";
    trial t = {0};
    ck_assert_int_eq(type->socketpair(backend, pair), 0);
    ck_assert_int_eq(type->pipe(backend, passed), 0);
    /* A number that is known as that of a socket, and was closed behind our back. */
    ck_assert_int_eq(type->socketpair(backend, pipes), 0);
    ck_assert(start_read(&t, pipes[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&t), -ECANCELED);
    close(pipes[0]);
    send_descriptor(pair[1], passed[0]);
    control c;
    struct msghdr header = message_with(&(struct iovec){got, sizeof got}, &c);
    weft__op op = {.code = WEFT__OP_RECVMSG, .fd = pair[0], .u.message = {&header, 0}};
    ck_assert_int_eq(finish(&t, start(&t, op)), 1);
    int fd;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof fd);
    ck_assert_int_eq(fd, pipes[0]);
    ck_assert(start_read(&t, fd, got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(passed[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), 3);
    close_both(pair);
    close_both(passed);
    close_both((int[]){fd, pipes[1]});
}
END_TEST

/* On a unix stream a read stops where descriptors were sent along, with more behind. */
START_TEST(a_read_that_stops_at_a_descriptor_goes_on_behind_it)
{
    int pair[2], passed[2];
    char got[8] = "";
    trial t = {0};
    ck_assert_int_eq(type->socketpair(backend, pair), 0);
    ck_assert_int_eq(type->pipe(backend, passed), 0);
    ck_assert(start_read(&t, pair[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(pair[1], "a", 1), 1);
    send_descriptor(pair[1], passed[0]);
    ck_assert_int_eq(write(pair[1], "b", 1), 1);
    size_t bytes = 0;
    for (intptr_t n = finish(&t, WEFT__OP_PENDING); bytes + (size_t)n < 3;) {
        ck_assert_int_gt(n, 0);
        bytes += (size_t)n;
        n = read_now(pair[0], got, 8);
    }
    close_both(pair);
    close_both(passed);
}
END_TEST

int main(int argc, char **argv)
{
    name_backend(argc, argv);
    Suite *suite = suite_create("backend sockets");
    TCase *tests = tcase_create("backend sockets");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_short_read_before_the_end_never_hangs, 0, SCRIPTS);
    tcase_add_test(tests, an_urgent_byte_taken_first_hides_nothing);
    tcase_add_test(tests, a_look_does_not_empty_a_connection);
    tcase_add_test(tests, an_empty_connection_that_is_closed_gives_its_number_away_clean);
    tcase_add_test(tests, a_datagram_waits_for_room_in_the_queue_of_another);
    tcase_add_test(tests, a_descriptor_that_came_with_a_message_is_a_new_one);
    tcase_add_test(tests, a_read_that_stops_at_a_descriptor_goes_on_behind_it);
    return run_suite(suite);
}
