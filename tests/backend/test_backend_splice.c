/*
 * Tests of splice and tee. They can wait on either side. Neither a blocking socket nor a regular
 * file blocks the thread.
 */
#include "backend/backend_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static intptr_t start_copy(test_op *t, weft__opcode code, int in, int out, size_t bytes)
{
    weft__op op = {.code = code, .fd = in};
    op.u.copy.bytes = bytes;
    op.u.copy.fd_out = out;
    return start_op(t, op);
}

static intptr_t start_splice(test_op *t, int in, int out, size_t bytes)
{
    return start_copy(t, WEFT__OP_SPLICE, in, out, bytes);
}

/* The input and the output of a splice. In each pair, fd[0] reads what fd[1] writes. */
typedef struct copy_ends {
    int from[2], to[2];
} copy_ends;

enum { PIPE_TO_PIPE, PIPE_TO_SOCKET, SOCKET_TO_PIPE, TEE, COPY_KINDS };

static copy_ends open_copy_ends(int kind)
{
    copy_ends l;
    bool is_from_socket = kind == SOCKET_TO_PIPE, is_to_socket = kind == PIPE_TO_SOCKET;
    int rc = is_from_socket ? type->socketpair(backend, l.from) : type->pipe(backend, l.from);
    ck_assert_int_eq(rc, 0);
    rc = is_to_socket ? type->socketpair(backend, l.to) : type->pipe(backend, l.to);
    ck_assert_int_eq(rc, 0);
    return l;
}

static weft__opcode code_of(int kind)
{
    return kind == TEE ? WEFT__OP_TEE : WEFT__OP_SPLICE;
}

static intptr_t start_copy_between(test_op *t, int kind, const copy_ends *l)
{
    return start_copy(t, code_of(kind), l->from[0], l->to[1], 100000);
}

/* Fill the output of a splice. Leave no write pending. Return the bytes written. */
static size_t fill_output(int fd)
{
    test_op write = {0};
    static const char block[4096];
    size_t filled = fill_pending(&write, fd, block, sizeof block);
    ck_assert_int_eq(cancel_op(&write), -ECANCELED);
    return filled;
}

static void close_copy_ends(const copy_ends *l)
{
    backend_close_pair(l->from);
    backend_close_pair(l->to);
}

static void expect_bytes(int fd, const char *text)
{
    char got[16] = "";
    ck_assert_int_eq(read_now(fd, got, sizeof got), (intptr_t)strlen(text));
    ck_assert_str_eq(got, text);
}

TEST_LOOP(a_splice_moves_available_bytes, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&t, start_copy_between(&t, _i, &l)), 3);
    expect_bytes(l.to[0], "abc");
    if (_i == TEE)
        expect_bytes(l.from[0], "abc");
    ck_assert_int_eq(type->close_fd(backend, l.from[1]), 0);
    ck_assert_int_eq(finish_op(&t, start_copy_between(&t, _i, &l)), 0);
    ck_assert_int_eq(type->close_fd(backend, l.from[0]), 0);
    backend_close_pair(l.to);
}

TEST_LOOP(a_splice_waits_for_input, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    ck_assert(try_finish_op(&t, start_copy_between(&t, _i, &l)) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), 3);
    expect_bytes(l.to[0], "abc");
    close_copy_ends(&l);
}

TEST_LOOP(a_splice_waits_for_room_on_the_output_side, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    size_t filled = fill_output(l.to[1]);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert(try_finish_op(&t, start_copy_between(&t, _i, &l)) == WEFT__OP_PENDING);
    drain_bytes(l.to[0], filled);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), 3);
    expect_bytes(l.to[0], "abc");
    close_copy_ends(&l);
}

TEST_LOOP(a_splice_waits_for_input_and_then_for_room, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    size_t filled = fill_output(l.to[1]);
    ck_assert(try_finish_op(&t, start_copy_between(&t, _i, &l)) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert(try_finish_op(&t, WEFT__OP_PENDING) == WEFT__OP_PENDING);
    drain_bytes(l.to[0], filled);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), 3);
    expect_bytes(l.to[0], "abc");
    close_copy_ends(&l);
}

/* Where a splice waits: for input, for room, or for room after it has waited for input. */
enum { AT_INPUT, AT_OUTPUT, INPUT_THEN_OUTPUT, WAIT_STAGES };

static copy_ends open_waiting_copy(test_op *t, int kind, int stage)
{
    copy_ends l = open_copy_ends(kind);
    if (stage != AT_INPUT)
        fill_output(l.to[1]);
    if (stage == AT_OUTPUT)
        ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert(try_finish_op(t, start_copy_between(t, kind, &l)) == WEFT__OP_PENDING);
    if (stage == INPUT_THEN_OUTPUT) {
        ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
        ck_assert(try_finish_op(t, WEFT__OP_PENDING) == WEFT__OP_PENDING);
    }
    return l;
}

TEST_LOOP(a_cancelled_splice_has_moved_nothing, COPY_KINDS *WAIT_STAGES)
{
    test_op t = {0};
    int stage = _i / COPY_KINDS;
    copy_ends l = open_waiting_copy(&t, _i % COPY_KINDS, stage);
    ck_assert_int_eq(cancel_op(&t), -ECANCELED);
    ck_assert_uint_eq(backend->pending, 0);
    if (stage == AT_INPUT)
        ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    type->poll(backend, 0);
    expect_bytes(l.from[0], "abc");
    close_copy_ends(&l);
}

TEST_LOOP(closing_either_descriptor_ends_a_splice, COPY_KINDS *WAIT_STAGES)
{
    for (int side = 0; side < 2; side++) {
        test_op t = {0};
        copy_ends l = open_waiting_copy(&t, _i % COPY_KINDS, _i / COPY_KINDS);
        int fd = side == 0 ? l.from[0] : l.to[1];
        ck_assert_int_eq(type->close_fd(backend, fd), 0);
        ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), -EBADF);
        ck_assert_uint_eq(backend->pending, 0);
        const int others[3] = {l.from[1], l.to[0], side == 0 ? l.to[1] : l.from[0]};
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(type->close_fd(backend, others[i]), 0);
    }
}

TEST_LOOP(a_splice_to_a_closed_reader_fails_without_a_signal, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(type->close_fd(backend, l.to[0]), 0);
    ck_assert_int_eq(finish_op(&t, start_copy_between(&t, _i, &l)), -EPIPE);
    sigset_t pending;
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));
    ck_assert_int_eq(type->close_fd(backend, l.to[1]), 0);
    backend_close_pair(l.from);
}

TEST_LOOP(a_splice_leaves_the_blocking_mode_unchanged, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    int flags[2] = {fcntl(l.from[0], F_GETFL), fcntl(l.to[1], F_GETFL)};
    ck_assert_int_eq(flags[0] & O_NONBLOCK, 0);
    ck_assert(try_finish_op(&t, start_copy_between(&t, _i, &l)) == WEFT__OP_PENDING);
    ck_assert_int_eq(fcntl(l.from[0], F_GETFL), flags[0]);
    ck_assert_int_eq(fcntl(l.to[1], F_GETFL), flags[1]);
    ck_assert_int_eq(cancel_op(&t), -ECANCELED);
    close_copy_ends(&l);
}

TEST_LOOP(splice_f_nonblock_fails_instead_of_waiting, COPY_KINDS)
{
    copy_ends l = open_copy_ends(_i);
    test_op t = {0};
    weft__op op = {.code = code_of(_i), .fd = l.from[0]};
    op.u.copy.bytes = 100;
    op.u.copy.fd_out = l.to[1];
    op.u.copy.flags = SPLICE_F_NONBLOCK;
    ck_assert_int_eq(finish_op(&t, start_op(&t, op)), -EAGAIN);
    close_copy_ends(&l);
}

TEST(readers_and_a_splice_share_an_input)
{
    copy_ends l = open_copy_ends(PIPE_TO_PIPE);
    test_op read = {0}, splice = {0}, late = {0};
    char got[8] = "", rest[8] = "";
    size_t filled = fill_output(l.to[1]);
    ck_assert(start_read(&read, l.from[0], got, 1) == WEFT__OP_PENDING);
    ck_assert(try_finish_op(&splice, start_splice(&splice, l.from[0], l.to[1], 1)) ==
              WEFT__OP_PENDING);
    ck_assert(start_read(&late, l.from[0], rest, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 1);
    /* the splice waits for room, not for input */
    ck_assert_int_eq(finish_op(&late, WEFT__OP_PENDING), 1);
    drain_bytes(l.to[0], filled);
    ck_assert_int_eq(finish_op(&splice, WEFT__OP_PENDING), 1);
    close_copy_ends(&l);
}

static int open_file(const char *text)
{
    char path[] = "/tmp/weft-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

TEST(a_splice_from_a_file_to_a_pipe_waits_for_room)
{
    int fd = open_file("content"), out[2];
    test_op t = {0};
    int64_t offset = 3;
    ck_assert_int_eq(type->pipe(backend, out), 0);
    ck_assert_int_eq(finish_op(&t, start_splice(&t, fd, out[1], 3)), 3);
    expect_bytes(out[0], "con");
    weft__op op = {.code = WEFT__OP_SPLICE, .fd = fd};
    op.u.copy.offset_in = &offset;
    op.u.copy.fd_out = out[1];
    op.u.copy.bytes = 100;
    ck_assert_int_eq(finish_op(&t, start_op(&t, op)), 4);
    ck_assert_int_eq(offset, 7);
    expect_bytes(out[0], "tent");
    ck_assert_int_eq(finish_op(&t, start_op(&t, op)), 0);
    size_t filled = fill_output(out[1]);
    ck_assert(try_finish_op(&t, start_splice(&t, fd, out[1], 100)) == WEFT__OP_PENDING);
    drain_bytes(out[0], filled);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), 4);
    expect_bytes(out[0], "tent");
    backend_close_pair(out);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}

TEST(a_splice_from_a_pipe_to_a_file_waits_for_input)
{
    int fd = open_file(""), in[2];
    char got[8] = "";
    test_op t = {0};
    ck_assert_int_eq(type->pipe(backend, in), 0);
    ck_assert(try_finish_op(&t, start_splice(&t, in[0], fd, 100)) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(in[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), 3);
    ck_assert_int_eq(pread(fd, got, 8, 0), 3);
    ck_assert_str_eq(got, "abc");
    ck_assert(try_finish_op(&t, start_splice(&t, in[0], fd, 100)) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert_int_eq(finish_op(&t, WEFT__OP_PENDING), -EBADF);
    backend_close_pair(in);
}

TEST(a_splice_of_unsupported_descriptors_fails)
{
    int fd[2], file = open_file("content");
    test_op t = {0};
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert_int_eq(finish_op(&t, start_splice(&t, fd[0], fd[1], 10)), -EINVAL);
    ck_assert_int_eq(finish_op(&t, start_splice(&t, file, fd[1], 10)), -EINVAL);
    ck_assert_int_eq(finish_op(&t, start_splice(&t, -1, fd[1], 10)), -EBADF);
    ck_assert_int_eq(finish_op(&t, start_splice(&t, fd[0], INT32_MAX, 10)), -EBADF);
    ck_assert_int_eq(finish_op(&t, start_copy(&t, WEFT__OP_TEE, -1, fd[1], 10)), -EBADF);
    ck_assert_int_eq(finish_op(&t, start_copy(&t, WEFT__OP_TEE, fd[0], fd[1], 10)), -EINVAL);
    backend_close_pair(fd);
    ck_assert_int_eq(type->close_fd(backend, file), 0);
}
