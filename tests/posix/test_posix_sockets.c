/* Hooked calls on sockets: receiving, sending, time limits, connections. */
#include "posix/posix_io_support.h"

#include "support/sockets.h"

FIXTURE(adopt_in_cord, NULL)

/* A call that receives, in a fiber. */
typedef struct incoming {
    int fd, flags;
    size_t bytes;
    char data[64];
    address from;
} incoming;

static weft_value recv_some(void *arg)
{
    incoming *in = arg;
    return result_of(recv(in->fd, in->data, in->bytes, in->flags));
}

static weft_value recvfrom_some(void *arg)
{
    incoming *in = arg;
    in->from.bytes = sizeof in->from.storage;
    return result_of(
        recvfrom(in->fd, in->data, in->bytes, in->flags, sockaddr_of(&in->from), &in->from.bytes));
}

static weft_value recvmsg_some(void *arg)
{
    incoming *in = arg;
    struct iovec pieces[] = {{in->data, 2}, {in->data + 2, in->bytes - 2}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    return result_of(recvmsg(in->fd, &message, in->flags));
}

/* Returns the bytes of the first message. */
static weft_value recvmmsg_one(void *arg)
{
    incoming *in = arg;
    struct iovec piece = {in->data, in->bytes};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};
    int n = recvmmsg(in->fd, &message, 1, in->flags, NULL);
    return n == 1 ? (weft_value)message.msg_len : result_of(n);
}

static weft_fn *const receives[] = {recv_some, recvfrom_some, recvmsg_some, recvmmsg_one};
#define RECEIVES ((int)COUNT_OF(receives))

static const int socket_types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

TEST_LOOP(every_receive_waits_and_lets_other_fibers_run, 3 * RECEIVES)
{
    int fd[2];
    open_pair(fd, socket_types[_i / RECEIVES]);
    for (int round = 0; round < 20; round++) {
        incoming in = {.fd = fd[0], .bytes = 8};
        weft_fiber f = spin_waiting(receives[_i % RECEIVES], &in);
        put_text(fd[1], "abcd");
        ck_assert_int_eq(weft_await(f), 4);
        ck_assert_str_eq(in.data, "abcd");
    }
    ck_assert_uint_eq(posix_stats().waits, 20);
    assert_is_blocking(fd[0]);
}

TEST_LOOP(a_receive_that_is_ready_does_not_wait, RECEIVES)
{
    int fd[2];
    open_pair(fd, SOCK_DGRAM);
    put_text(fd[1], "abcd");
    incoming in = {.fd = fd[0], .bytes = 8};
    ck_assert_int_eq(receives[_i](&in), 4);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

static weft_value put_byte(void *arg)
{
    put_text(*(int *)arg, "x");
    return 0;
}

TEST_LOOP(errno_is_unchanged_by_a_receive_that_waits, RECEIVES)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    for (int round = 0; round < 3; round++) {
        weft_fiber f = weft_spin(put_byte, &fd[1]);
        incoming in = {.fd = fd[0], .bytes = 8};
        errno = 77;
        ck_assert_int_eq(receives[_i](&in), 1);
        ck_assert_int_eq(errno, 77);
        ck_assert_int_eq(weft_await(f), 0);
    }
    ck_assert_uint_eq(posix_stats().waits, 3);
}

TEST_LOOP(a_receive_with_MSG_DONTWAIT_gives_EAGAIN, 2 * RECEIVES)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    incoming in = {.fd = fd[0], .bytes = 8};
    if (_i < RECEIVES)
        in.flags = MSG_DONTWAIT;
    else
        set_nonblocking(fd[0]);
    ck_assert_int_eq(receives[_i % RECEIVES](&in), -EAGAIN);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

TEST(a_receive_of_the_error_queue_does_not_wait)
{
    address a = loopback_address(AF_INET);
    incoming in = {.fd = bind_address(&a, SOCK_DGRAM), .bytes = 8, .flags = MSG_ERRQUEUE};
    ck_assert_int_eq(recvmsg_some(&in), -EAGAIN);
}

TEST(a_receive_tells_the_sender)
{
    address a = loopback_address(AF_INET), b = loopback_address(AF_INET);
    int one = bind_address(&a, SOCK_DGRAM), other = bind_address(&b, SOCK_DGRAM);
    incoming in = {.fd = one, .bytes = 8};
    weft_fiber f = spin_waiting(recvfrom_some, &in);
    ck_assert_int_eq(sendto(other, "abc", 3, 0, sockaddr_of(&a), a.bytes), 3);
    ck_assert_int_eq(weft_await(f), 3);
    ck_assert_uint_eq(in.from.bytes, b.bytes);
    ck_assert_mem_eq(&in.from.storage, &b.storage, b.bytes);
}

static weft_fn *const waitall_receives[] = {recv_some, recvfrom_some, recvmsg_some};

TEST_ROWS(MSG_WAITALL_returns_all_bytes, waitall_receives)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    for (int first = 0; first < 2; first++) {
        incoming in = {.fd = fd[0], .bytes = 9, .flags = MSG_WAITALL};
        if (first == 1)
            put_text(fd[1], "ab"); /* the call finds a part */
        weft_fiber f = spin_waiting(waitall_receives[_i], &in);
        put_text(fd[1], first == 1 ? "c" : "abc");
        let_run();
        put_text(fd[1], "def");
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        put_text(fd[1], "ghi");
        ck_assert_int_eq(weft_await(f), 9);
        ck_assert_str_eq(in.data, "abcdefghi");
    }
}

TEST_LOOP(MSG_WAITALL_returns_a_part_when_it_is_cancelled_or_the_input_ends, 4)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    incoming in = {.fd = fd[0], .bytes = 9, .flags = MSG_WAITALL};
    if (_i % 2 == 0)
        put_text(fd[1], "ab");
    observed o = {recv_some, &in, 0};
    weft_fiber f = spin_waiting(observe, &o);
    if (_i % 2 == 1)
        put_text(fd[1], "ab");
    let_run();
    if (_i / 2 == 0)
        ck_assert_int_eq(close(fd[1]), 0);
    else
        ck_assert_int_eq(weft_cancel(f), 0);
    weft_await(f);
    ck_assert_int_eq(o.result, 2);
}

/* Time limits of sockets. */

static void set_limit(int fd, int option, long microseconds)
{
    struct timeval limit = {.tv_usec = microseconds};
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit), 0);
}

TEST_LOOP(SO_RCVTIMEO_ends_a_receive_with_EAGAIN, RECEIVES)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    incoming in = {.fd = fd[0], .bytes = 8};
    weft_fiber f = spin_waiting(receives[_i], &in); /* the first call has no limit */
    put_text(fd[1], "x");
    ck_assert_int_eq(weft_await(f), 1);
    set_limit(fd[0], SO_RCVTIMEO, 10000);
    double begin = weft_now();
    ck_assert_int_eq(receives[_i](&in), -EAGAIN);
    ck_assert_slept(begin, 0.01);
    ck_assert_int_eq(receives[_i](&in), -EAGAIN);
    ck_assert_slept(begin, 0.02);
    set_limit(fd[0], SO_RCVTIMEO, 0); /* no limit, again */
    f = spin_waiting(receives[_i], &in);
    ck_assert_int_eq(weft_sleep(0.02), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    put_text(fd[1], "y");
    ck_assert_int_eq(weft_await(f), 1);
}

TEST(SO_RCVTIMEO_counts_for_the_next_socket_with_the_number)
{
    int fd[2], limited[2];
    open_pair(fd, SOCK_STREAM);
    open_pair(limited, SOCK_STREAM);
    incoming in = {.fd = fd[0], .bytes = 8};
    weft_fiber f = spin_waiting(recv_some, &in); /* the first socket has no limit */
    put_text(fd[1], "x");
    ck_assert_int_eq(weft_await(f), 1);
    set_limit(limited[0], SO_RCVTIMEO, 10000);
    ck_assert_int_eq(dup2(limited[0], fd[0]), fd[0]);
    ck_assert_int_eq(recv_some(&in), -EAGAIN);
}

TEST(SO_RCVTIMEO_ends_a_read_with_EAGAIN)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    set_limit(fd[0], SO_RCVTIMEO, 10000);
    char byte;
    ck_assert_errno(read(fd[0], &byte, 1), EAGAIN);
}

TEST(SO_RCVTIMEO_does_not_hide_a_deadline_or_a_cancellation)
{
    int fd[2], rc;
    open_pair(fd, SOCK_STREAM);
    set_limit(fd[0], SO_RCVTIMEO, 900000);
    incoming in = {.fd = fd[0], .bytes = 8};
    weft_value n = 0;
    WEFT_CANCEL_AFTER(0.01, rc) {
        n = recv_some(&in);
    }
    ck_assert_int_eq(n, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(cancelled_result(recv_some, &in), -ECANCELED);
}

/* A call that sends, in a fiber. */
typedef struct outgoing {
    int fd, flags;
    const char *data;
    size_t bytes;
} outgoing;

static weft_value send_all(void *arg)
{
    const outgoing *out = arg;
    return result_of(send(out->fd, out->data, out->bytes, out->flags));
}

static weft_value sendto_all(void *arg)
{
    const outgoing *out = arg;
    return result_of(sendto(out->fd, out->data, out->bytes, out->flags, NULL, 0));
}

#define PIECES 40

static weft_value sendmsg_all(void *arg)
{
    const outgoing *out = arg;
    struct iovec pieces[PIECES];
    size_t bytes = out->bytes / PIECES;
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){(char *)(uintptr_t)out->data + i * bytes, bytes};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = PIECES};
    return result_of(sendmsg(out->fd, &message, out->flags));
}

/* Send two messages. Returns their bytes. */
static weft_value sendmmsg_all(void *arg)
{
    const outgoing *out = arg;
    char *data = (char *)(uintptr_t)out->data;
    size_t half = out->bytes / 2;
    struct iovec pieces[] = {{data, half}, {data + half, out->bytes - half}};
    struct mmsghdr messages[] = {{.msg_hdr = {.msg_iov = &pieces[0], .msg_iovlen = 1}},
                                 {.msg_hdr = {.msg_iov = &pieces[1], .msg_iovlen = 1}}};
    int n = sendmmsg(out->fd, messages, 2, out->flags);
    if (n < 2)
        return n < 0 ? -errno : (weft_value)messages[0].msg_len;
    return (weft_value)messages[0].msg_len + messages[1].msg_len;
}

static weft_fn *const sends[] = {send_all, sendto_all, sendmsg_all, sendmmsg_all};
#define SENDS ((int)COUNT_OF(sends))

TEST_LOOP(a_blocking_send_returns_after_all_bytes_are_sent, 2 * SENDS)
{
    int fd[2];
    if (_i / SENDS == 0)
        open_pair(fd, SOCK_STREAM);
    else
        ck_assert(connect_sockets(fd, TCP4, SOCK_CLOEXEC));
    char *data = new_pattern(10 * MIB);
    weft_fiber f = spin_waiting(sends[_i % SENDS], &(outgoing){fd[1], 0, data, 10 * MIB});
    weft_fiber reader = weft_spin(drain, &(draining){fd[0], data, 10 * MIB});
    ck_assert_int_eq(weft_await(f), (ssize_t)(10 * MIB));
    ck_assert_int_eq(weft_await(reader), 0);
    free(data);
}

TEST_LOOP(a_send_that_is_cancelled_half_way_returns_the_bytes_sent, SENDS)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    char *data = new_pattern(4 * MIB);
    weft_value n = cancelled_result(sends[_i], &(outgoing){fd[1], 0, data, 4 * MIB});
    ck_assert(n > 0 && (size_t)n < 4 * MIB);
    ck_assert_int_eq(cancelled_result(send_all, &(outgoing){fd[1], 0, data, 1}), -ECANCELED);
    ck_assert_int_eq(send_all(&(outgoing){fd[1], MSG_DONTWAIT, data, 1}), -EAGAIN);
    free(data);
}

TEST(SO_SNDTIMEO_ends_a_send)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    set_limit(fd[1], SO_SNDTIMEO, 10000);
    char *data = new_pattern(4 * MIB);
    weft_value n = send_all(&(outgoing){fd[1], 0, data, 4 * MIB});
    ck_assert(n > 0 && (size_t)n < 4 * MIB);
    ck_assert_int_eq(send_all(&(outgoing){fd[1], 0, data, 1}), -EAGAIN);
    free(data);
}

TEST_LOOP(a_send_to_a_closed_connection_raises_SIGPIPE_unless_refused, 2 * SENDS)
{
    int fd[2], flags = _i / SENDS == 0 ? 0 : MSG_NOSIGNAL;
    open_pair(fd, SOCK_STREAM);
    handle_signal(SIGPIPE, 0);
    ck_assert_int_eq(close(fd[0]), 0);
    char *data = new_pattern(100);
    ck_assert_int_eq(sends[_i % SENDS](&(outgoing){fd[1], flags, data, 100}), -EPIPE);
    ck_assert_int_eq(signals_seen, flags == 0);
    free(data);
}

TEST(a_sender_that_waits_gets_its_count_and_then_EPIPE_when_the_peer_closes)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    handle_signal(SIGPIPE, SA_RESTART);
    char *data = new_pattern(4 * MIB);
    weft_fiber f = spin_waiting(send_all, &(outgoing){fd[1], 0, data, 4 * MIB});
    ck_assert_int_eq(close(fd[0]), 0);
    weft_value n = weft_await(f);
    ck_assert(n > 0 && (size_t)n < 4 * MIB);
    weft_value next = send_all(&(outgoing){fd[1], 0, data, 1});
    ck_assert(next == -EPIPE || next == -ECONNRESET);
    free(data);
}

TEST(a_message_with_a_descriptor_arrives_once_even_if_it_is_sent_in_parts)
{
    int fd[2], passed[2];
    open_pair(fd, SOCK_STREAM);
    open_pipe(passed);
    char *data = new_pattern(4 * MIB);
    struct iovec piece = {data, 4 * MIB};
    fd_message m;
    struct msghdr *message = fd_message_wrap(&m);
    message->msg_iov = &piece;
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    *control = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(control), &passed[1], sizeof(int));
    weft_fiber reader = weft_spin(drain, &(draining){fd[0], data, 4 * MIB});
    ck_assert_int_eq(sendmsg(fd[1], message, 0), (ssize_t)(4 * MIB));
    ck_assert_int_eq(weft_await(reader), 0);
    free(data);
}

TEST(a_datagram_to_a_full_socket_waits_until_it_has_space)
{
    address a = abstract_address(1);
    int receiver = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(receiver, sockaddr_of(&a), a.bytes), 0);
    int sender = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int sent = 0;
    while (sendto(sender, "x", 1, MSG_DONTWAIT, sockaddr_of(&a), a.bytes) == 1)
        sent++;
    weft_fiber f = weft_spin(drain, &(draining){receiver, "x", 1});
    ck_assert_int_eq(sendto(sender, "y", 1, 0, sockaddr_of(&a), a.bytes), 1);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_gt(sent, 0);
}

/* Batches. */

#define BATCH 3

typedef struct batch {
    int fd, flags;
    struct timespec *timeout;
    struct mmsghdr messages[BATCH];
    struct iovec pieces[BATCH];
    char data[BATCH][8];
} batch;

static weft_value recv_batch(void *arg)
{
    batch *b = arg;
    for (int i = 0; i < BATCH; i++) {
        b->pieces[i] = (struct iovec){b->data[i], sizeof b->data[i]};
        b->messages[i].msg_hdr = (struct msghdr){.msg_iov = &b->pieces[i], .msg_iovlen = 1};
    }
    return result_of(recvmmsg(b->fd, b->messages, BATCH, b->flags, b->timeout));
}

TEST(recvmmsg_waits_until_all_messages_are_there)
{
    int fd[2];
    open_pair(fd, SOCK_DGRAM);
    batch b = {.fd = fd[0]};
    weft_fiber f = spin_waiting(recv_batch, &b);
    for (int i = 0; i < BATCH; i++) {
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        put_text(fd[1], "abcdefg" + i);
        let_run();
    }
    ck_assert_int_eq(weft_await(f), BATCH);
    for (int i = 0; i < BATCH; i++)
        ck_assert_uint_eq(b.messages[i].msg_len, 7 - (unsigned)i);
}

TEST(recvmmsg_with_MSG_WAITFORONE_returns_what_is_there)
{
    int fd[2];
    open_pair(fd, SOCK_DGRAM);
    batch b = {.fd = fd[0], .flags = MSG_WAITFORONE};
    weft_fiber f = spin_waiting(recv_batch, &b);
    put_text(fd[1], "a");
    ck_assert_int_eq(weft_await(f), 1);
}

TEST(recvmmsg_returns_after_its_time_with_the_messages_so_far)
{
    int fd[2];
    open_pair(fd, SOCK_DGRAM);
    put_text(fd[1], "a");
    batch b = {.fd = fd[0], .timeout = &(struct timespec){.tv_nsec = 10000000}};
    ck_assert_int_eq(recv_batch(&b), 1);
    ck_assert_int_eq(b.timeout->tv_sec, 0);
    ck_assert_int_eq(b.timeout->tv_nsec, 0);
}

TEST(a_cancelled_recvmmsg_returns_the_messages_so_far)
{
    int fd[2];
    open_pair(fd, SOCK_DGRAM);
    put_text(fd[1], "a");
    batch b = {.fd = fd[0]};
    ck_assert_int_eq(cancelled_result(recv_batch, &b), 1);
}

/* Two readers. */

TEST(two_fibers_that_read_one_socket_get_different_bytes)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    incoming a = {.fd = fd[0], .bytes = 1}, b = a;
    weft_fiber one = spin_waiting(recv_some, &a), other = spin_waiting(recv_some, &b);
    put_text(fd[1], "1");
    let_run();
    put_text(fd[1], "2");
    ck_assert_int_eq(weft_await(one), 1);
    ck_assert_int_eq(weft_await(other), 1);
    ck_assert_int_eq(a.data[0] + b.data[0], '1' + '2');
}

/* Connections. */

typedef struct accepting {
    int fd, flags;
    address peer;
} accepting;

static weft_value accept_one(void *arg)
{
    accepting *a = arg;
    a->peer.bytes = sizeof a->peer.storage;
    if (a->flags == 0)
        return result_of(accept(a->fd, sockaddr_of(&a->peer), &a->peer.bytes));
    return result_of(accept4(a->fd, sockaddr_of(&a->peer), &a->peer.bytes, a->flags));
}

static const int accept_flags[] = {0, SOCK_CLOEXEC, SOCK_NONBLOCK, SOCK_CLOEXEC | SOCK_NONBLOCK};

TEST_ROWS(an_accept_waits_and_changes_no_flags, accept_flags)
{
    address a = loopback_address(AF_INET);
    int listener = listen_address(&a, 0, 5);
    accepting in = {.fd = listener, .flags = accept_flags[_i]};
    weft_fiber f = spin_waiting(accept_one, &in);
    int client = new_stream_socket(AF_INET, 0);
    ck_assert_int_eq(connect(client, sockaddr_of(&a), a.bytes), 0);
    int fd = (int)weft_await(f);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(in.peer.storage.ss_family, AF_INET);
    ck_assert_int_eq(!(fcntl(fd, F_GETFL) & O_NONBLOCK), !(in.flags & SOCK_NONBLOCK));
    ck_assert_int_eq(!(fcntl(fd, F_GETFD) & FD_CLOEXEC), !(in.flags & SOCK_CLOEXEC));
    assert_is_blocking(listener);
    assert_is_blocking(client);
}

TEST(three_fibers_accept_from_one_listener)
{
    address a = loopback_address(AF_INET);
    int listener = listen_address(&a, 0, 5);
    accepting in[3];
    weft_fiber fibers[3];
    for (int i = 0; i < 3; i++) {
        in[i] = (accepting){.fd = listener};
        fibers[i] = spin_waiting(accept_one, &in[i]);
    }
    for (int i = 0; i < 3; i++) {
        int client = new_stream_socket(AF_INET, 0);
        ck_assert_int_eq(connect(client, sockaddr_of(&a), a.bytes), 0);
        let_run();
    }
    int seen[3];
    for (int i = 0; i < 3; i++) {
        seen[i] = (int)weft_await(fibers[i]);
        ck_assert_int_ge(seen[i], 0);
        for (int j = 0; j < i; j++)
            ck_assert_int_ne(seen[i], seen[j]);
    }
}

TEST(an_accept_of_a_non_blocking_listener_gives_EAGAIN)
{
    address a = loopback_address(AF_INET);
    int listener = listen_address(&a, SOCK_NONBLOCK, 5);
    ck_assert_errno(accept(listener, NULL, NULL), EAGAIN);
    int plain = new_stream_socket(AF_INET, 0);
    ck_assert_errno(accept(plain, NULL, NULL), EINVAL);
    int limited = listen_address(&(address){.storage.ss_family = AF_INET, .bytes = a.bytes}, 0, 5);
    set_limit(limited, SO_RCVTIMEO, 10000);
    ck_assert_errno(accept(limited, NULL, NULL), EAGAIN);
}

TEST(a_connect_without_a_listener_is_refused)
{
    address a = loopback_address(AF_INET);
    int closed = bind_address(&a, SOCK_STREAM);
    int client = new_stream_socket(AF_INET, 0);
    ck_assert_errno(connect(client, sockaddr_of(&a), a.bytes), ECONNREFUSED);
    close(closed);
}

TEST(a_non_blocking_connect_gives_EINPROGRESS)
{
    address a = loopback_address(AF_INET);
    listen_address(&a, 0, 5);
    int client = new_stream_socket(AF_INET, SOCK_NONBLOCK);
    ck_assert_errno(connect(client, sockaddr_of(&a), a.bytes), EINPROGRESS);
    struct pollfd p = {client, POLLOUT, 0};
    ck_assert_int_eq(poll(&p, 1, -1), 1);
    ck_assert_int_eq(connect(client, sockaddr_of(&a), a.bytes), 0);
}

typedef struct connecting {
    int fd;
    address to;
} connecting;

static weft_value connect_one(void *arg)
{
    connecting *c = arg;
    return result_of(connect(c->fd, sockaddr_of(&c->to), c->to.bytes));
}

/* A unix listener whose queue is full. */
static address full_listener(void)
{
    address a = abstract_address(2);
    listen_address(&a, 0, 0);
    int first = new_stream_socket(AF_UNIX, 0);
    ck_assert_int_eq(connect(first, sockaddr_of(&a), a.bytes), 0);
    return a;
}

TEST(a_connect_that_waits_can_be_cancelled)
{
    connecting c = {.fd = new_stream_socket(AF_UNIX, 0), .to = full_listener()};
    ck_assert_int_eq(cancelled_result(connect_one, &c), -ECANCELED);
    assert_is_blocking(c.fd);
}

TEST(SO_SNDTIMEO_ends_a_connect)
{
    connecting c = {.fd = new_stream_socket(AF_UNIX, 0), .to = full_listener()};
    set_limit(c.fd, SO_SNDTIMEO, 10000);
    weft_value rc = connect_one(&c);
    ck_assert(rc == -EAGAIN || rc == -EINPROGRESS);
}

TEST(calls_on_other_descriptors_have_the_errors_of_libc)
{
    int fd[2];
    char byte = 0;
    open_pipe(fd);
    ck_assert_errno(recv(fd[0], &byte, 1, 0), ENOTSOCK);
    ck_assert_errno(send(fd[1], &byte, 1, 0), ENOTSOCK);
    ck_assert_errno(accept(fd[0], NULL, NULL), ENOTSOCK);
    ck_assert_errno(recv(1000, &byte, 1, 0), EBADF);
    ck_assert_errno(send(1000, &byte, 1, 0), EBADF);
    int plain = new_stream_socket(AF_INET, 0);
    ck_assert_errno(recv(plain, &byte, 1, 0), ENOTCONN);
}

/*
 * Descriptors that another thread closes during a call. TSan reports the reuse of the number.
 */

#ifndef __SANITIZE_THREAD__
/* A pair whose first socket a thread closes. Another pair gets the number of this socket. */
typedef struct replaced_pair {
    int old[2], new[2];
} replaced_pair;

static void *replace_pair(void *arg)
{
    replaced_pair *p = arg;
    ck_assert_int_eq(close(p->old[0]), 0);
    open_pair(p->new, SOCK_STREAM);
    ck_assert_int_eq(p->new[0], p->old[0]);
    char *data = malloc(MIB);
    /* The fiber wakes when the old socket is writable. */
    while (recv(p->old[1], data, MIB, MSG_DONTWAIT) > 0)
        continue;
    free(data);
    return NULL;
}

static weft_value send_pattern(void *arg)
{
    char *data = new_pattern(MIB);
    weft_value n = result_of(send(*(int *)arg, data, MIB, 0));
    free(data);
    return n;
}

TEST(a_send_does_not_write_to_the_next_file_with_the_number)
{
    replaced_pair p;
    char byte;
    open_pair(p.old, SOCK_STREAM);
    int kept = dup(p.old[0]); /* so that epoll(7) still reports events of the old socket */
    weft_fiber f = spin_waiting(send_pattern, &p.old[0]);
    ck_assert_ptr_null(join_thread(start_thread(replace_pair, &p)));
    weft_value n = weft_await(f);
    ck_assert_int_gt(n, 0);
    ck_assert_int_lt(n, (ssize_t)MIB);
    ck_assert_errno(recv(p.new[1], &byte, 1, MSG_DONTWAIT), EAGAIN);
    close(kept);
}
#endif
