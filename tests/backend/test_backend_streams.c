/*
 * Every way to move bytes over a stream, on every backend: read, readv, recv and recvmsg behave the
 * same where they mean the same, and differ where their flags say so. What READ and WRITE promise
 * in detail is in test_backend_contract.c.
 */
#include "backend_harness.h"

#include <limits.h>
#include <sys/socket.h>

enum { BUFFER, VECTOR, PACKET, MESSAGE, WAYS };

/* An operation, and what it points to. */
typedef struct parcel {
    trial t;
    struct iovec pieces[2];
    struct msghdr header;
} parcel;

/* Two pieces where the operation takes several: an uneven split. */
static void cut(parcel *p, void *data, size_t bytes)
{
    size_t first = bytes / 3;
    p->pieces[0] = (struct iovec){data, first};
    p->pieces[1] = (struct iovec){(char *)data + first, bytes - first};
    p->header = (struct msghdr){.msg_iov = p->pieces, .msg_iovlen = 2};
}

static intptr_t start_way(parcel *p, int way, bool is_read, int fd, void *data, size_t bytes)
{
    weft__op op = {.fd = fd};
    cut(p, data, bytes);
    switch (way) {
    case BUFFER:
        op.code = is_read ? WEFT__OP_READ : WEFT__OP_WRITE;
        op.u.buffer.data = data;
        op.u.buffer.bytes = bytes;
        op.u.buffer.offset = WEFT__OFFSET_CURRENT;
        break;
    case VECTOR:
        op.code = is_read ? WEFT__OP_READV : WEFT__OP_WRITEV;
        op.u.vector.pieces = p->pieces;
        op.u.vector.count = 2;
        op.u.vector.offset = WEFT__OFFSET_CURRENT;
        break;
    case PACKET:
        op.code = is_read ? WEFT__OP_RECV : WEFT__OP_SEND;
        op.u.packet.data = data;
        op.u.packet.bytes = bytes;
        break;
    default:
        op.code = is_read ? WEFT__OP_RECVMSG : WEFT__OP_SENDMSG;
        op.u.message.header = &p->header;
        break;
    }
    return start(&p->t, op);
}

static intptr_t start_in(parcel *p, int way, int fd, void *to, size_t bytes)
{
    return start_way(p, way, true, fd, to, bytes);
}

static intptr_t start_out(parcel *p, int way, int fd, const void *from, size_t bytes)
{
    return start_way(p, way, false, fd, (void *)(uintptr_t)from, bytes);
}

static void open_pair(int fd[2])
{
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
}

/* Send until it would block, and leave that pending. Returns the bytes sent. */
static size_t fill_out(parcel *p, int way, int fd)
{
    static const char piece[4096];
    size_t sent = 0;
    intptr_t n;
    while ((n = try_now(&p->t, start_out(p, way, fd, piece, sizeof piece))) != WEFT__OP_PENDING) {
        ck_assert_int_gt(n, 0);
        sent += (size_t)n;
    }
    return sent;
}

START_TEST(what_goes_in_one_way_comes_out_the_other)
{
    int fd[2];
    char got[16] = "";
    parcel in = {.t.is_done = false}, out = {.t.is_done = false};
    open_pair(fd);
    ck_assert(start_in(&in, _i % WAYS, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    intptr_t sent = start_out(&out, _i / WAYS, fd[1], "abcdefg", 7);
    ck_assert_int_eq(finish(&out.t, sent), 7);
    ck_assert_int_eq(finish(&in.t, WEFT__OP_PENDING), 7);
    ck_assert_str_eq(got, "abcdefg");
    sent = start_out(&out, _i / WAYS, fd[1], "hij", 3);
    ck_assert_int_eq(finish(&out.t, sent), 3);
    memset(got, 0, sizeof got);
    ck_assert_int_eq(try_now(&in.t, start_in(&in, _i % WAYS, fd[0], got, 2)), 2);
    ck_assert_int_eq(try_now(&in.t, start_in(&in, _i % WAYS, fd[0], got + 2, 8)), 1);
    ck_assert_str_eq(got, "hij");
    close_both(fd);
}
END_TEST

START_TEST(a_cancelled_receive_takes_nothing)
{
    int fd[2];
    char kept[16] = "", got[16] = "";
    parcel in = {.t.is_done = false};
    open_pair(fd);
    ck_assert(start_in(&in, _i, fd[0], kept, sizeof kept) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&in.t), -ECANCELED);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    type->poll(backend, 0);
    ck_assert_str_eq(kept, "");
    ck_assert_int_eq(finish(&in.t, start_in(&in, _i, fd[0], got, sizeof got)), 3);
    ck_assert_str_eq(got, "abc");
    close_both(fd);
}
END_TEST

START_TEST(a_send_waits_for_room_and_can_be_given_up)
{
    int fd[2];
    parcel out = {.t.is_done = false};
    open_pair(fd);
    size_t sent = fill_out(&out, _i, fd[1]);
    ck_assert_int_eq(give_up(&out.t), -ECANCELED);
    sent += fill_out(&out, _i, fd[1]);
    drain(fd[0], sent);
    intptr_t last = finish(&out.t, WEFT__OP_PENDING);
    ck_assert_int_gt(last, 0);
    drain(fd[0], (size_t)last);
    trial read = {0};
    char more;
    ck_assert(try_now(&read, start_read(&read, fd[0], &more, 1)) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&read), -ECANCELED); /* what was given up had sent nothing */
    close_both(fd);
}
END_TEST

START_TEST(closing_ends_what_waits_in_any_way)
{
    int fd[2];
    char got[16];
    parcel in = {.t.is_done = false}, out = {.t.is_done = false};
    open_pair(fd);
    fill_out(&out, _i, fd[0]);
    ck_assert(start_in(&in, _i, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(finish(&in.t, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish(&out.t, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}
END_TEST

START_TEST(a_peer_that_is_gone_is_the_end_and_a_broken_pipe)
{
    int fd[2];
    char got[16];
    parcel in = {.t.is_done = false}, out = {.t.is_done = false};
    open_pair(fd);
    ck_assert(start_in(&in, _i, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(finish(&in.t, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(finish(&out.t, start_out(&out, _i, fd[0], "x", 1)), -EPIPE);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
}
END_TEST

static intptr_t packet_now(weft__opcode code, int fd, void *data, size_t bytes, int flags)
{
    trial t = {0};
    weft__op op = {.code = code, .fd = fd, .u.packet = {data, bytes, flags}};
    return finish(&t, start(&t, op));
}

static intptr_t message_now(weft__opcode code, int fd, struct msghdr *header, int flags)
{
    trial t = {0};
    weft__op op = {.code = code, .fd = fd, .u.message = {header, flags}};
    return finish(&t, start(&t, op));
}

START_TEST(what_is_not_to_wait_does_not)
{
    int fd[2];
    char got[16] = "";
    parcel p = {.t.is_done = false};
    trial read = {0};
    open_pair(fd);
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    cut(&p, got, sizeof got);
    ck_assert_int_eq(message_now(WEFT__OP_RECVMSG, fd[0], &p.header, MSG_DONTWAIT), -EAGAIN);
    ck_assert(start_read(&read, fd[0], got, 16) == WEFT__OP_PENDING); /* others do */
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    fill_out(&p, PACKET, fd[0]);
    ck_assert_int_eq(packet_now(WEFT__OP_SEND, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(give_up(&read), -ECANCELED);
    ck_assert_int_eq(give_up(&p.t), -ECANCELED);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), 3);
    close_both(fd);
}
END_TEST

START_TEST(a_look_leaves_the_data_where_it_is)
{
    int fd[2];
    char got[16] = "";
    trial peek = {0};
    open_pair(fd);
    weft__op op = {.code = WEFT__OP_RECV, .fd = fd[0], .u.packet = {got, sizeof got, MSG_PEEK}};
    ck_assert(start(&peek, op) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&peek, WEFT__OP_PENDING), 3);
    for (int i = 0; i < 2; i++) {
        memset(got, 0, sizeof got);
        ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, i == 0 ? MSG_PEEK : 0), 3);
        ck_assert_str_eq(got, "abc");
    }
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, MSG_DONTWAIT), -EAGAIN);
    close_both(fd);
}
END_TEST

START_TEST(a_shutdown_ends_one_direction_for_both_sides)
{
    int fd[2];
    char got[16] = "";
    trial read = {0};
    open_pair(fd);
    ck_assert_int_eq(write_now(fd[1], "last", 4), 4);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[1], SHUT_WR), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    ck_assert_int_eq(read_now(fd[0], got, 16), 4);
    ck_assert_int_eq(read_now(fd[0], got, 16), 0);
    ck_assert(start_read(&read, fd[1], got, 16) == WEFT__OP_PENDING); /* the other one is open */
    ck_assert_int_eq(write_now(fd[0], "back", 4), 4);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 4);
    close_both(fd);
}
END_TEST

START_TEST(a_shutdown_wakes_who_waits)
{
    int fd[2];
    char got[16];
    trial mine = {0}, theirs = {0};
    open_pair(fd);
    ck_assert(start_read(&mine, fd[0], got, 16) == WEFT__OP_PENDING);
    ck_assert(start_read(&theirs, fd[1], got, 16) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[0], SHUT_RDWR), 0);
    ck_assert_int_eq(finish(&mine, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(finish(&theirs, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    trial wait = {0};
    intptr_t ready = finish(&wait, start_wait(&wait, fd[0], POLLIN));
    ck_assert_int_eq(ready & (POLLIN | POLLHUP), POLLIN | POLLHUP);
    close_both(fd);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[0], SHUT_RD), -EBADF);
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(type->shutdown_fd(backend, fd[0], SHUT_RD), -ENOTSOCK);
    close_both(fd);
}
END_TEST

START_TEST(a_pipe_is_no_socket_and_has_no_offsets)
{
    int fd[2];
    char got[16];
    struct iovec piece = {got, sizeof got};
    trial t = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(packet_now(WEFT__OP_RECV, fd[0], got, 16, 0), -ENOTSOCK);
    ck_assert_int_eq(packet_now(WEFT__OP_SEND, fd[1], got, 16, 0), -ENOTSOCK);
    weft__op op = {.code = WEFT__OP_READ, .fd = fd[0], .u.buffer = {got, 16, 0}};
    ck_assert_int_eq(finish(&t, start(&t, op)), -ESPIPE);
    op = (weft__op){.code = WEFT__OP_READV, .fd = fd[0], .u.vector = {&piece, 1, 5}};
    ck_assert_int_eq(finish(&t, start(&t, op)), -ESPIPE);
    close_both(fd);
}
END_TEST

START_TEST(vectors_of_nothing_and_of_too_much_do_not_wait)
{
    int fd[2];
    char got[16];
    struct iovec nothing[2] = {{got, 0}, {got, 0}};
    trial t = {0};
    open_pair(fd);
    weft__op op = {.code = WEFT__OP_READV, .fd = fd[0]};
    op.u.vector.pieces = nothing;
    op.u.vector.offset = WEFT__OFFSET_CURRENT;
    op.u.vector.count = 2;
    ck_assert_int_eq(finish(&t, start(&t, op)), 0);
    op.u.vector.count = -1;
    ck_assert_int_eq(finish(&t, start(&t, op)), -EINVAL);
    op.u.vector.count = IOV_MAX + 1;
    ck_assert_int_eq(finish(&t, start(&t, op)), -EINVAL);
    close_both(fd);
}
END_TEST

START_TEST(a_message_tells_that_nothing_came_along)
{
    int fd[2];
    char got[16], control[64], name[64];
    struct iovec piece = {got, sizeof got};
    struct msghdr header = {.msg_name = name,
                            .msg_namelen = sizeof name,
                            .msg_iov = &piece,
                            .msg_iovlen = 1,
                            .msg_control = control,
                            .msg_controllen = sizeof control,
                            .msg_flags = MSG_TRUNC};
    open_pair(fd);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(message_now(WEFT__OP_RECVMSG, fd[0], &header, 0), 3);
    ck_assert_uint_eq(header.msg_namelen, 0);
    ck_assert_uint_eq(header.msg_controllen, 0);
    ck_assert_int_eq(header.msg_flags & MSG_TRUNC, 0);
    close_both(fd);
}
END_TEST

int main(int argc, char **argv)
{
    name_backend(argc, argv);
    Suite *suite = suite_create("backend streams");
    TCase *tests = tcase_create("backend streams");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, what_goes_in_one_way_comes_out_the_other, 0, WAYS * WAYS);
    tcase_add_loop_test(tests, a_cancelled_receive_takes_nothing, 0, WAYS);
    tcase_add_loop_test(tests, a_send_waits_for_room_and_can_be_given_up, 0, WAYS);
    tcase_add_loop_test(tests, closing_ends_what_waits_in_any_way, 0, WAYS);
    tcase_add_loop_test(tests, a_peer_that_is_gone_is_the_end_and_a_broken_pipe, 0, WAYS);
    tcase_add_test(tests, what_is_not_to_wait_does_not);
    tcase_add_test(tests, a_look_leaves_the_data_where_it_is);
    tcase_add_test(tests, a_shutdown_ends_one_direction_for_both_sides);
    tcase_add_test(tests, a_shutdown_wakes_who_waits);
    tcase_add_test(tests, a_pipe_is_no_socket_and_has_no_offsets);
    tcase_add_test(tests, vectors_of_nothing_and_of_too_much_do_not_wait);
    tcase_add_test(tests, a_message_tells_that_nothing_came_along);
    return run_suite(suite);
}
