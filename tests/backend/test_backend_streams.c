/*
 * Tests of all operations that move bytes over a stream, on every backend: read, readv, recv,
 * recvmsg, and their counterparts that write. Without flags they behave alike.
 * test_backend_contract.c tests READ and WRITE in detail.
 */
#include "backend/backend_harness.h"

#include <limits.h>

enum { BUFFER, VECTOR, PACKET, MESSAGE, OP_KINDS };

/* An operation, and the structures that it points to. */
typedef struct stream_op {
    test_op t;
    struct iovec pieces[2];
    struct msghdr header;
} stream_op;

/* Split the buffer unevenly, for operations that take several buffers. */
static void split_buffer(stream_op *p, void *data, size_t bytes)
{
    size_t first = bytes / 3;
    p->pieces[0] = (struct iovec){data, first};
    p->pieces[1] = (struct iovec){(char *)data + first, bytes - first};
    p->header = (struct msghdr){.msg_iov = p->pieces, .msg_iovlen = 2};
}

static intptr_t start_kind(stream_op *p, int kind, bool is_read, int socket, void *data,
                           size_t bytes)
{
    split_buffer(p, data, bytes);
    const weft__op ops[] = {
        {.code = is_read ? WEFT__OP_READ : WEFT__OP_WRITE,
         .fd = socket,
         .u.buffer = {data, bytes, WEFT__OFFSET_CURRENT}},
        {.code = is_read ? WEFT__OP_READV : WEFT__OP_WRITEV,
         .fd = socket,
         .u.vector = {p->pieces, 2, WEFT__OFFSET_CURRENT}},
        {.code = is_read ? WEFT__OP_RECV : WEFT__OP_SEND,
         .fd = socket,
         .u.packet = {data, bytes, 0}},
        {.code = is_read ? WEFT__OP_RECVMSG : WEFT__OP_SENDMSG,
         .fd = socket,
         .u.message = {&p->header, 0}},
    };
    return start_op(&p->t, ops[kind]);
}

static intptr_t start_receive(stream_op *p, int kind, int socket, void *to, size_t bytes)
{
    return start_kind(p, kind, true, socket, to, bytes);
}

static intptr_t start_send(stream_op *p, int kind, int socket, const void *from, size_t bytes)
{
    return start_kind(p, kind, false, socket, (void *)(uintptr_t)from, bytes);
}

/* Send until a send would block. Leave that send pending. Return the bytes sent. */
static size_t fill_send_buffer(stream_op *p, int kind, int socket)
{
    static const char piece[4096];
    size_t sent = 0;
    intptr_t n;
    while ((n = try_finish_op(&p->t, start_send(p, kind, socket, piece, sizeof piece))) !=
           WEFT__OP_PENDING) {
        ck_assert_int_gt(n, 0);
        sent += (size_t)n;
    }
    return sent;
}

static intptr_t packet_now(weft__opcode code, int socket, void *data, size_t bytes, int flags)
{
    return op_now((weft__op){.code = code, .fd = socket, .u.packet = {data, bytes, flags}});
}

static intptr_t receive_message_now(int socket, struct msghdr *header, int flags)
{
    return op_now((weft__op){.code = WEFT__OP_RECVMSG, .fd = socket, .u.message = {header, flags}});
}

/* The sockets of a test, and its data. */
static int fd[2];
static char got[16];

static void open_backend_pair(void)
{
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
}

static void open_backend_and_pair(void)
{
    open_backend();
    open_backend_pair();
}

FIXTURE(open_backend_and_pair, close_backend)

TEST_LOOP(every_receive_operation_gets_the_bytes_of_every_send_operation, OP_KINDS *OP_KINDS)
{
    stream_op in = {.t.is_done = false}, out = {.t.is_done = false};
    ck_assert(start_receive(&in, _i % OP_KINDS, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    intptr_t sent = start_send(&out, _i / OP_KINDS, fd[1], "abcdefg", 7);
    ck_assert_int_eq(finish_op(&out.t, sent), 7);
    ck_assert_int_eq(finish_op(&in.t, WEFT__OP_PENDING), 7);
    ck_assert_str_eq(got, "abcdefg");
    sent = start_send(&out, _i / OP_KINDS, fd[1], "hij", 3);
    ck_assert_int_eq(finish_op(&out.t, sent), 3);
    memset(got, 0, sizeof got);
    ck_assert_int_eq(try_finish_op(&in.t, start_receive(&in, _i % OP_KINDS, fd[0], got, 2)), 2);
    ck_assert_int_eq(try_finish_op(&in.t, start_receive(&in, _i % OP_KINDS, fd[0], got + 2, 8)), 1);
    ck_assert_str_eq(got, "hij");
}

TEST_LOOP(a_pending_receive_or_send_ends_with_a_cancel_a_close_or_the_end_of_the_peer, OP_KINDS)
{
    char untouched[16] = "";
    stream_op in = {.t.is_done = false}, out = {.t.is_done = false};
    ck_assert(start_receive(&in, _i, fd[0], untouched, sizeof untouched) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&in.t), -ECANCELED);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    type->poll(backend, 0);
    ck_assert_str_eq(untouched, "");
    ck_assert_int_eq(finish_op(&in.t, start_receive(&in, _i, fd[0], got, sizeof got)), 3);
    ck_assert_str_eq(got, "abc");
    ck_assert(start_receive(&in, _i, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(finish_op(&in.t, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(finish_op(&out.t, start_send(&out, _i, fd[0], "x", 1)), -EPIPE);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    open_backend_pair();
    fill_send_buffer(&out, _i, fd[0]);
    ck_assert(start_receive(&in, _i, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(finish_op(&in.t, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish_op(&out.t, WEFT__OP_PENDING), -EBADF);
}

TEST_LOOP(a_send_waits_for_room_and_can_be_cancelled, OP_KINDS)
{
    stream_op out = {.t.is_done = false};
    size_t sent = fill_send_buffer(&out, _i, fd[1]);
    ck_assert_int_eq(cancel_op(&out.t), -ECANCELED);
    sent += fill_send_buffer(&out, _i, fd[1]);
    drain_bytes(fd[0], sent);
    intptr_t last = finish_op(&out.t, WEFT__OP_PENDING);
    ck_assert_int_gt(last, 0);
    drain_bytes(fd[0], (size_t)last);
    test_op read = {0};
    char more;
    ck_assert(try_finish_op(&read, start_read(&read, fd[0], &more, 1)) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&read), -ECANCELED); /* the cancelled send had sent nothing */
}

TEST(msg_dontwait_fails_instead_of_waiting)
{
    stream_op p = {.t.is_done = false};
    test_op read = {0};
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    split_buffer(&p, got, sizeof got);
    ck_assert_int_eq(receive_message_now(fd[0], &p.header, MSG_DONTWAIT), -EAGAIN);
    /* a read without the flag waits */
    ck_assert(start_read(&read, fd[0], got, 16) == WEFT__OP_PENDING);
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    fill_send_buffer(&p, PACKET, fd[0]);
    ck_assert_int_eq(packet_now(WEFT__OP_SEND, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(cancel_op(&read), -ECANCELED);
    ck_assert_int_eq(cancel_op(&p.t), -ECANCELED);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), 3);
}

TEST(a_peek_leaves_the_data_in_place)
{
    test_op peek = {0};
    weft__op op = {.code = WEFT__OP_RECV, .fd = fd[0], .u.packet = {got, sizeof got, MSG_PEEK}};
    ck_assert(start_op(&peek, op) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&peek, WEFT__OP_PENDING), 3);
    for (int i = 0; i < 2; i++) {
        memset(got, 0, sizeof got);
        ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, i == 0 ? MSG_PEEK : 0), 3);
        ck_assert_str_eq(got, "abc");
    }
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
}

TEST(a_shutdown_ends_one_direction_for_both_sides)
{
    test_op read = {0};
    ck_assert_int_eq(write_now(fd[1], "last", 4), 4);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[1], SHUT_WR), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    ck_assert_int_eq(read_now(fd[0], got, 16), 4);
    ck_assert_int_eq(read_now(fd[0], got, 16), 0);
    /* the other direction is open */
    ck_assert(start_read(&read, fd[1], got, 16) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[0], "back", 4), 4);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 4);
}

TEST(a_shutdown_wakes_waiters)
{
    test_op mine = {0}, theirs = {0};
    ck_assert(start_read(&mine, fd[0], got, 16) == WEFT__OP_PENDING);
    ck_assert(start_read(&theirs, fd[1], got, 16) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[0], SHUT_RDWR), 0);
    ck_assert_int_eq(finish_op(&mine, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(finish_op(&theirs, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    test_op wait = {0};
    intptr_t ready = finish_op(&wait, start_wait(&wait, fd[0], POLLIN));
    ck_assert_int_eq(ready & (POLLIN | POLLHUP), POLLIN | POLLHUP);
    backend_close_pair(fd);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[0], SHUT_RD), -EBADF);
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[0], SHUT_RD), -ENOTSOCK);
}

TEST(socket_calls_and_offsets_fail_on_a_pipe)
{
    struct iovec piece = {got, sizeof got};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, 0), -ENOTSOCK);
    ck_assert_int_eq(packet_now(WEFT__OP_SEND, fd[1], got, 16, 0), -ENOTSOCK);
    weft__op read = {.code = WEFT__OP_READ, .fd = fd[0], .u.buffer = {got, 16, 0}};
    weft__op readv = {.code = WEFT__OP_READV, .fd = fd[0], .u.vector = {&piece, 1, 5}};
    ck_assert_int_eq(op_now(read), -ESPIPE);
    ck_assert_int_eq(op_now(readv), -ESPIPE);
}

TEST(empty_and_oversized_vectors_do_not_wait)
{
    struct iovec nothing[2] = {{got, 0}, {got, 0}};
    static const int counts[] = {2, -1, IOV_MAX + 1}, results[] = {0, -EINVAL, -EINVAL};
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        ck_assert_int_eq(op_now((weft__op){.code = WEFT__OP_READV,
                                           .fd = fd[0],
                                           .u.vector = {nothing, counts[i], WEFT__OFFSET_CURRENT}}),
                         results[i]);
}

TEST(a_message_reports_that_it_has_no_name_and_no_control_data)
{
    char control[64], name[64];
    struct iovec piece = {got, sizeof got};
    struct msghdr header = {.msg_name = name,
                            .msg_namelen = sizeof name,
                            .msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control,
                            .msg_flags = MSG_TRUNC};
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(receive_message_now(fd[0], &header, 0), 3);
    ck_assert_uint_eq(header.msg_namelen, 0);
    ck_assert_uint_eq(header.msg_controllen, 0);
    ck_assert_int_eq(header.msg_flags & MSG_TRUNC, 0);
}
