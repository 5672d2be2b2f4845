/* Tests of sockets: data, addresses, descriptors in messages, and receives that are interrupted. */
#include "support/sockets.h"
#include "support/suite.h"

/* P70 */
TEST_LOOP(streams_of_each_kind_carry_data_in_both_directions, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    for (int kind = 0; kind < KINDS; kind++) {
        int fd[2];
        receiving r;
        if (!connect_sockets(fd, kind, mode))
            continue;
        for (int side = 0; side < 2; side++) {
            weft_fiber f = spin_receiver(&r, fd[side], sizeof r.data, 0);
            ck_assert_int_eq(weft_send(fd[!side], "hello", 5, 0), 5);
            ck_assert_int_eq(weft_await(f), 5);
            ck_assert_mem_eq(r.data, "hello", 5);
        }
        assert_blocking_mode(fd[0], mode);
        assert_blocking_mode(fd[1], mode);
        close_idle_fd_pair(fd);
    }
}

typedef struct receiving_from {
    int fd;
    address from;
    char data[16];
} receiving_from;

static weft_value receive_from(void *arg)
{
    receiving_from *r = arg;
    r->from.bytes = sizeof r->from.storage;
    return weft_recvfrom(r->fd, r->data, sizeof r->data, 0, sockaddr_of(&r->from), &r->from.bytes);
}

static void assert_same_address(address *a, address *b)
{
    ck_assert_uint_eq(a->bytes, b->bytes);
    ck_assert_mem_eq(&a->storage, &b->storage, a->bytes);
}

/*
 * Send datagrams from a to b and back. Assert the address of each sender. The first receiver
 * already waits.
 */
static void exchange_datagrams(address a, address b, int mode)
{
    int fd[2] = {bind_address(&a, SOCK_DGRAM | mode), bind_address(&b, SOCK_DGRAM | mode)};
    if (fd[0] < 0 || fd[1] < 0)
        return;
    receiving_from r = {.fd = fd[1]};
    weft_fiber f = spin_waiting(receive_from, &r);
    ck_assert_int_eq(weft_sendto(fd[0], "question", 8, 0, sockaddr_of(&b), b.bytes), 8);
    ck_assert_int_eq(weft_await(f), 8);
    ck_assert_mem_eq(r.data, "question", 8);
    assert_same_address(&r.from, &a);
    ck_assert_int_eq(weft_sendto(fd[1], "answer", 6, 0, sockaddr_of(&r.from), r.from.bytes), 6);
    r.fd = fd[0];
    ck_assert_int_eq(receive_from(&r), 6);
    ck_assert_mem_eq(r.data, "answer", 6);
    assert_same_address(&r.from, &b);
    assert_blocking_mode(fd[0], mode);
    close_idle_fd_pair(fd);
}

/* P70 */
TEST_LOOP(datagrams_of_each_kind_carry_the_address_of_their_sender, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    exchange_datagrams(loopback_address(AF_INET), loopback_address(AF_INET), mode);
    exchange_datagrams(loopback_address(AF_INET6), loopback_address(AF_INET6), mode);
    exchange_datagrams(abstract_address(1), abstract_address(2), mode);
}

/* As recvfrom(2). */
TEST(the_address_of_a_sender_can_be_omitted_or_truncated)
{
    int fd[2];
    address a = loopback_address(AF_INET), b = a;
    char data[4];
    fd[0] = bind_address(&a, SOCK_DGRAM);
    fd[1] = bind_address(&b, SOCK_DGRAM);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(weft_sendto(fd[0], "data", 4, 0, sockaddr_of(&b), b.bytes), 4);
    socklen_t no_bytes = 0, short_bytes = 4;
    struct sockaddr_in from = {.sin_port = 4711};
    ck_assert_int_eq(weft_recvfrom(fd[1], data, 4, 0, NULL, NULL), 4);
    ck_assert_int_eq(weft_recvfrom(fd[1], data, 4, 0, (struct sockaddr *)&from, &no_bytes), 4);
    ck_assert_uint_eq(no_bytes, sizeof from);
    ck_assert_int_eq(weft_recvfrom(fd[1], data, 4, 0, (struct sockaddr *)&from, &short_bytes), 4);
    ck_assert_uint_eq(short_bytes, sizeof from);
    ck_assert_uint_eq(from.sin_addr.s_addr, 0);
    ck_assert_int_eq(weft_recvfrom(fd[1], data, 4, 0, (struct sockaddr *)&from, NULL), -EFAULT);
    ck_assert_int_eq(weft_connect(fd[0], sockaddr_of(&b), b.bytes), 0);
    ck_assert_int_eq(weft_sendto(fd[0], "", 0, 0, NULL, 0), 0); /* empty, but still a datagram */
    ck_assert_int_eq(weft_recv(fd[1], data, 4, 0), 4);
    ck_assert_int_eq(weft_recv(fd[1], data, 4, 0), 0);
    close_idle_fd_pair(fd);
}

static ssize_t send_descriptor(int through, int fd)
{
    fd_message p = {.byte = 'd'};
    struct cmsghdr *c = CMSG_FIRSTHDR(fd_message_wrap(&p));
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return weft_sendmsg(through, &p.header, 0);
}

/* Return the received descriptor, or -ENODATA if there is none. */
static weft_value receive_descriptor(void *arg)
{
    fd_message *p = arg;
    ssize_t n = weft_recvmsg(p->fd, fd_message_wrap(p), MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n;
    struct cmsghdr *c = CMSG_FIRSTHDR(&p->header);
    int fd = -ENODATA;
    if (c != NULL && c->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* P70 */
TEST_LOOP(a_descriptor_is_passed_to_a_waiting_and_to_a_later_receiver, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    for (int is_late = 0; is_late < 2; is_late++) {
        int fd[2], pipe_fd[2];
        unix_pair(fd, SOCK_STREAM, mode);
        ck_assert_int_eq(weft_pipe(pipe_fd), 0);
        fd_message p = {.fd = fd[1]};
        weft_fiber f = is_late ? 0 : weft_spin(receive_descriptor, &p);
        let_run();
        ck_assert_int_eq(send_descriptor(fd[0], pipe_fd[1]), 1);
        int got = (int)(is_late ? receive_descriptor(&p) : weft_await(f));
        ck_assert_int_ge(got, 0);
        char byte;
        ck_assert_int_eq(weft_write(got, "x", 1), 1);
        ck_assert_int_eq(weft_read(pipe_fd[0], &byte, 1), 1);
        ck_assert_int_eq(byte, 'x');
        weft_close(got);
        close_idle_fd_pair(pipe_fd);
        close_idle_fd_pair(fd);
    }
}

/* P61, for descriptors */
TEST_LOOP(a_cancelled_receive_loses_no_descriptor, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    int fd[2], pipe_fd[2];
    unix_pair(fd, SOCK_STREAM, mode);
    ck_assert_int_eq(weft_pipe(pipe_fd), 0);
    int sent_count = 0, received_count = 0;
    for (int i = 0; i < 200; i++) {
        fd_message p = {.fd = fd[1]};
        weft_fiber f = weft_spin(receive_descriptor, &p);
        let_run();
        if (i % 4 > 0) /* not sent, sent, or sent with a snooze before the interrupt */
            sent_count += (int)send_descriptor(fd[0], pipe_fd[1]);
        if (i % 4 == 2)
            weft_snooze();
        weft_interrupt(f, -ECANCELED);
        int got = (int)weft_await(f);
        if (got >= 0) {
            received_count++;
            weft_close(got);
        }
    }
    while (received_count < sent_count) { /* receive the remaining descriptors */
        fd_message p = {.fd = fd[1]};
        int got = (int)receive_descriptor(&p);
        ck_assert_int_ge(got, 0);
        weft_close(got);
        received_count++;
    }
    char byte;
    ck_assert_int_eq(weft_recv(fd[1], &byte, 1, MSG_DONTWAIT), -EAGAIN);
    close_idle_fd_pair(pipe_fd);
    close_idle_fd_pair(fd);
}

TEST_LOOP(a_peek_leaves_the_data_in_the_socket, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    int fd[2];
    receiving r;
    char data[4];
    unix_pair(fd, SOCK_STREAM, mode);
    weft_fiber f = spin_receiver(&r, fd[0], 4, MSG_PEEK); /* a peek waits for data */
    ck_assert_int_eq(weft_send(fd[1], "ab", 2, 0), 2);
    ck_assert_int_eq(weft_await(f), 2);
    ck_assert_mem_eq(r.data, "ab", 2);
    ck_assert_int_eq(weft_recv(fd[0], data, 4, MSG_PEEK | MSG_WAITALL), 2);
    ck_assert_int_eq(weft_recv(fd[0], data, 4, 0), 2);
    ck_assert_mem_eq(data, "ab", 2);
    close_idle_fd_pair(fd);
}

TEST_LOOP(msg_dontwait_gives_eagain, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    int fd[2];
    char data[4096] = {0};
    fd_message p;
    unix_pair(fd, SOCK_STREAM, mode);
    ck_assert_int_eq(weft_recv(fd[0], data, 4, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(weft_recvmsg(fd[0], fd_message_wrap(&p), MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(weft_recv(fd[0], data, 4, MSG_DONTWAIT | MSG_WAITALL), -EAGAIN);
    ck_assert_int_eq(weft_recvmsg(fd[0], fd_message_wrap(&p), MSG_ERRQUEUE), -EAGAIN);
    ssize_t n;
    while ((n = weft_send(fd[0], data, sizeof data, MSG_DONTWAIT)) > 0)
        continue;
    ck_assert_int_eq(n, -EAGAIN);
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    ck_assert_int_eq(weft_sendmsg(fd[0], &message, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(weft_recv(fd[1], data, 10, MSG_DONTWAIT | MSG_WAITALL), 10);
    close_idle_fd_pair(fd);
}

TEST_LOOP(msg_waitall_waits_for_all_bytes, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    for (int kind = 0; kind < KINDS; kind++) {
        int fd[2];
        receiving r;
        if (!connect_sockets(fd, kind, mode))
            continue;
        weft_fiber f = spin_receiver(&r, fd[0], 9, MSG_WAITALL);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
            ck_assert_int_eq(weft_send(fd[1], &"onetwosix"[3 * i], 3, 0), 3);
            ck_assert_int_eq(weft_sleep(0), 0);
            let_run();
        }
        ck_assert_int_eq(weft_await(f), 9);
        ck_assert_mem_eq(r.data, "onetwosix", 9);
        close_idle_fd_pair(fd);
    }
}

typedef struct two_receives {
    receiving first;
    double limit_s;
    ssize_t second; /* of the second call */
} two_receives;

static weft_value receive_twice(void *arg)
{
    two_receives *t = arg;
    weft_value n = 0;
    WEFT_MOVE_ON_AFTER(t->limit_s) {
        n = receive(&t->first);
        t->second = weft_recv(t->first.fd, t->first.data + 4, 1, 0);
    }
    return n;
}

/* What ends a receive that has a part of its bytes, and the result of the next call. */
enum { END, TIMEOUT, RAISED_ERROR, RESET, CAUSES };
static const ssize_t next_results[] = {0, -ECANCELED, -EPROTO, -ECONNRESET};

TEST_LOOP(msg_waitall_returns_the_bytes_it_has_and_the_next_call_returns_the_error, 2 * CAUSES)
{
    const int mode = blocking_modes[_i % 2], cause = _i / 2;
    int fd[2];
    unix_pair(fd, SOCK_STREAM, mode);
    two_receives t = {.first = {.fd = fd[0], .bytes = 9, .flags = MSG_WAITALL},
                      .limit_s = cause == TIMEOUT ? 0.002 : INFINITY};
    ck_assert_int_eq(weft_send(fd[1], "some", 4, 0), 4);
    ck_assert_int_eq(weft_send(fd[0], "unread", 6, 0), 6);
    weft_fiber f = spin_waiting(receive_twice, &t);
    if (cause == END)
        ck_assert_int_eq(weft_shutdown(fd[1], SHUT_WR), 0);
    else if (cause == RAISED_ERROR)
        ck_assert_int_eq(weft_raise(f, -EPROTO, "enough"), 0);
    else if (cause == RESET) /* the peer has unread data */
        ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_int_eq(weft_await(f), 4);
    ck_assert_mem_eq(t.first.data, "some", 4);
    ck_assert_int_eq(t.second, next_results[cause]);
    ck_assert_uint_eq(ops_pending(), 0);
}

TEST_LOOP(msg_waitall_does_not_join_messages, 4)
{
    int fd[2];
    char data[9];
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    unix_pair(fd, _i < 2 ? SOCK_DGRAM : SOCK_SEQPACKET, blocking_modes[_i % 2]);
    ck_assert_int_eq(weft_send(fd[1], "one", 3, 0), 3);
    ck_assert_int_eq(weft_send(fd[1], "two", 3, 0), 3);
    ck_assert_int_eq(weft_recv(fd[0], data, 9, MSG_WAITALL), 3);
    ck_assert_int_eq(weft_recvmsg(fd[0], &message, MSG_WAITALL), 3);
    ck_assert_mem_eq(data, "two", 3);
    close_idle_fd_pair(fd);
}

typedef struct scattered_receive {
    int fd;
    char a[2], b[5], c[3];
    struct iovec pieces[4];
    struct msghdr header;
} scattered_receive;

static weft_value receive_scattered(void *arg)
{
    scattered_receive *s = arg;
    memcpy(
        s->pieces,
        (struct iovec[]){{s->a, sizeof s->a}, {NULL, 0}, {s->b, sizeof s->b}, {s->c, sizeof s->c}},
        sizeof s->pieces);
    s->header = (struct msghdr){.msg_iov = s->pieces, .msg_iovlen = 4};
    return weft_recvmsg(s->fd, &s->header, MSG_WAITALL);
}

TEST_LOOP(msg_waitall_fills_all_buffers_of_a_message, COUNT_OF(blocking_modes))
{
    const int mode = blocking_modes[_i];
    int fd[2];
    unix_pair(fd, SOCK_STREAM, mode);
    scattered_receive s = {.fd = fd[0]};
    weft_fiber f = weft_spin(receive_scattered, &s);
    static const char *const parts[] = {"0", "123", "45678", "9"};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        struct iovec piece = {(void *)parts[i], strlen(parts[i])};
        struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
        ck_assert_int_eq(weft_sendmsg(fd[1], &message, 0), (ssize_t)piece.iov_len);
        weft_sleep(0);
    }
    ck_assert_int_eq(weft_await(f), 10);
    ck_assert_mem_eq(s.a, "01", 2);
    ck_assert_mem_eq(s.b, "23456", 5);
    ck_assert_mem_eq(s.c, "789", 3);
    close_idle_fd_pair(fd);
}

/* The call returns after the bytes that carry the descriptor. The descriptor is not lost. */
TEST(a_descriptor_ends_a_receive_with_msg_waitall)
{
    int fd[2];
    char data[8];
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    unix_pair(fd, SOCK_STREAM, SOCK_CLOEXEC);
    ck_assert_int_eq(weft_send(fd[1], "abc", 3, 0), 3);
    ck_assert_int_eq(send_descriptor(fd[1], fd[1]), 1);
    ck_assert_int_eq(weft_send(fd[1], "xyz", 3, 0), 3);
    struct iovec piece = {data, sizeof data};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control};
    ck_assert_int_eq(weft_recvmsg(fd[0], &message, MSG_WAITALL), 4);
    ck_assert_mem_eq(data, "abcd", 4);
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    ck_assert_ptr_nonnull(c);
    int got;
    memcpy(&got, CMSG_DATA(c), sizeof got);
    ck_assert_int_eq(weft_close(got), 0);
    ck_assert_int_eq(weft_recv(fd[0], data, 3, MSG_WAITALL), 3);
    ck_assert_mem_eq(data, "xyz", 3);
    close_idle_fd_pair(fd);
}
