/*
 * splice and tee: they may wait on either side, and neither a blocking socket nor a file on disk
 * holds the thread up.
 */
#include "backend_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static intptr_t start_copy(trial *t, weft__opcode code, int in, int out, size_t bytes)
{
    weft__op op = {.code = code, .fd = in};
    op.u.copy.bytes = bytes;
    op.u.copy.fd_out = out;
    return start(t, op);
}

static intptr_t start_splice(trial *t, int in, int out, size_t bytes)
{
    return start_copy(t, WEFT__OP_SPLICE, in, out, bytes);
}

/* What is between the ends of a splice: fd[0] reads what fd[1] writes. */
typedef struct line {
    int from[2], to[2];
} line;

enum { PIPE_TO_PIPE, PIPE_TO_SOCKET, SOCKET_TO_PIPE, TEE, LINES };

static line open_line(int kind)
{
    line l;
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

static intptr_t start_line(trial *t, int kind, const line *l)
{
    return start_copy(t, code_of(kind), l->from[0], l->to[1], 100000);
}

/* Fill what the splice is to write to; nothing waits there afterwards. Returns the bytes. */
static size_t fill_output(int fd)
{
    trial write = {0};
    static const char piece[4096];
    size_t filled = fill(&write, fd, piece, sizeof piece);
    ck_assert_int_eq(give_up(&write), -ECANCELED);
    return filled;
}

static void close_line(const line *l)
{
    close_both(l->from);
    close_both(l->to);
}

static void expect_bytes(int fd, const char *text)
{
    char got[16] = "";
    ck_assert_int_eq(read_now(fd, got, sizeof got), (intptr_t)strlen(text));
    ck_assert_str_eq(got, text);
}

START_TEST(it_moves_what_is_there)
{
    line l = open_line(_i);
    trial t = {0};
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&t, start_line(&t, _i, &l)), 3);
    expect_bytes(l.to[0], "abc");
    if (_i == TEE)
        expect_bytes(l.from[0], "abc");
    ck_assert_int_eq(type->close_fd(backend, l.from[1]), 0);
    ck_assert_int_eq(finish(&t, start_line(&t, _i, &l)), 0);
    ck_assert_int_eq(type->close_fd(backend, l.from[0]), 0);
    close_both(l.to);
}
END_TEST

START_TEST(it_waits_for_the_input)
{
    line l = open_line(_i);
    trial t = {0};
    ck_assert(try_now(&t, start_line(&t, _i, &l)) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), 3);
    expect_bytes(l.to[0], "abc");
    close_line(&l);
}
END_TEST

START_TEST(it_waits_for_the_output)
{
    line l = open_line(_i);
    trial t = {0};
    size_t filled = fill_output(l.to[1]);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert(try_now(&t, start_line(&t, _i, &l)) == WEFT__OP_PENDING);
    drain(l.to[0], filled);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), 3);
    expect_bytes(l.to[0], "abc");
    close_line(&l);
}
END_TEST

START_TEST(it_waits_for_the_one_after_the_other)
{
    line l = open_line(_i);
    trial t = {0};
    size_t filled = fill_output(l.to[1]);
    ck_assert(try_now(&t, start_line(&t, _i, &l)) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert(try_now(&t, WEFT__OP_PENDING) == WEFT__OP_PENDING);
    drain(l.to[0], filled);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), 3);
    expect_bytes(l.to[0], "abc");
    close_line(&l);
}
END_TEST

/* Where it waits: for the input, for the output, or there after having waited for the input. */
enum { AT_INPUT, AT_OUTPUT, PASSED_ON, PLACES };

static line wait_at(trial *t, int kind, int place)
{
    line l = open_line(kind);
    if (place != AT_INPUT)
        fill_output(l.to[1]);
    if (place == AT_OUTPUT)
        ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert(try_now(t, start_line(t, kind, &l)) == WEFT__OP_PENDING);
    if (place == PASSED_ON) {
        ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
        ck_assert(try_now(t, WEFT__OP_PENDING) == WEFT__OP_PENDING);
    }
    return l;
}

START_TEST(given_up_it_has_moved_nothing)
{
    trial t = {0};
    int place = _i / LINES;
    line l = wait_at(&t, _i % LINES, place);
    ck_assert_int_eq(give_up(&t), -ECANCELED);
    ck_assert_uint_eq(backend->pending, 0);
    if (place == AT_INPUT)
        ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    type->poll(backend, 0);
    expect_bytes(l.from[0], "abc");
    close_line(&l);
}
END_TEST

START_TEST(closing_either_descriptor_ends_it)
{
    for (int side = 0; side < 2; side++) {
        trial t = {0};
        line l = wait_at(&t, _i % LINES, _i / LINES);
        int fd = side == 0 ? l.from[0] : l.to[1];
        ck_assert_int_eq(type->close_fd(backend, fd), 0);
        ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), -EBADF);
        ck_assert_uint_eq(backend->pending, 0);
        const int others[3] = {l.from[1], l.to[0], side == 0 ? l.to[1] : l.from[0]};
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(type->close_fd(backend, others[i]), 0);
    }
}
END_TEST

START_TEST(a_reader_that_is_gone_is_an_error_and_no_signal)
{
    line l = open_line(_i);
    trial t = {0};
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(type->close_fd(backend, l.to[0]), 0);
    ck_assert_int_eq(finish(&t, start_line(&t, _i, &l)), -EPIPE);
    sigset_t pending;
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));
    ck_assert_int_eq(type->close_fd(backend, l.to[1]), 0);
    close_both(l.from);
}
END_TEST

START_TEST(a_blocking_socket_is_one_again_afterwards)
{
    line l = open_line(_i);
    trial t = {0};
    int flags[2] = {fcntl(l.from[0], F_GETFL), fcntl(l.to[1], F_GETFL)};
    ck_assert_int_eq(flags[0] & O_NONBLOCK, 0);
    ck_assert(try_now(&t, start_line(&t, _i, &l)) == WEFT__OP_PENDING);
    ck_assert_int_eq(fcntl(l.from[0], F_GETFL), flags[0]);
    ck_assert_int_eq(fcntl(l.to[1], F_GETFL), flags[1]);
    ck_assert_int_eq(give_up(&t), -ECANCELED);
    close_line(&l);
}
END_TEST

START_TEST(a_caller_who_does_not_want_to_wait_does_not)
{
    line l = open_line(_i);
    trial t = {0};
    weft__op op = {.code = code_of(_i), .fd = l.from[0]};
    op.u.copy.bytes = 100;
    op.u.copy.fd_out = l.to[1];
    op.u.copy.flags = SPLICE_F_NONBLOCK;
    ck_assert_int_eq(finish(&t, start(&t, op)), -EAGAIN);
    close_line(&l);
}
END_TEST

START_TEST(readers_and_a_splice_share_an_input)
{
    line l = open_line(PIPE_TO_PIPE);
    trial read = {0}, splice = {0}, late = {0};
    char got[8] = "", rest[8] = "";
    size_t filled = fill_output(l.to[1]);
    ck_assert(start_read(&read, l.from[0], got, 1) == WEFT__OP_PENDING);
    ck_assert(try_now(&splice, start_splice(&splice, l.from[0], l.to[1], 1)) == WEFT__OP_PENDING);
    ck_assert(start_read(&late, l.from[0], rest, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(l.from[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 1);
    ck_assert_int_eq(finish(&late, WEFT__OP_PENDING), 1); /* the splice has other worries */
    drain(l.to[0], filled);
    ck_assert_int_eq(finish(&splice, WEFT__OP_PENDING), 1);
    close_line(&l);
}
END_TEST

static int open_file(const char *text)
{
    char path[] = "/tmp/weft-test-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    ck_assert_int_eq(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
    return fd;
}

START_TEST(a_file_goes_into_a_pipe_when_there_is_room)
{
    int fd = open_file("content"), out[2];
    trial t = {0};
    int64_t offset = 3;
    ck_assert_int_eq(type->pipe(backend, out), 0);
    ck_assert_int_eq(finish(&t, start_splice(&t, fd, out[1], 3)), 3);
    expect_bytes(out[0], "con");
    weft__op op = {.code = WEFT__OP_SPLICE, .fd = fd};
    op.u.copy.offset_in = &offset;
    op.u.copy.fd_out = out[1];
    op.u.copy.bytes = 100;
    ck_assert_int_eq(finish(&t, start(&t, op)), 4);
    ck_assert_int_eq(offset, 7);
    expect_bytes(out[0], "tent");
    ck_assert_int_eq(finish(&t, start(&t, op)), 0);
    size_t filled = fill_output(out[1]);
    ck_assert(try_now(&t, start_splice(&t, fd, out[1], 100)) == WEFT__OP_PENDING);
    drain(out[0], filled);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), 4);
    expect_bytes(out[0], "tent");
    close_both(out);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
}
END_TEST

START_TEST(a_pipe_goes_into_a_file_when_something_comes)
{
    int fd = open_file(""), in[2];
    char got[8] = "";
    trial t = {0};
    ck_assert_int_eq(type->pipe(backend, in), 0);
    ck_assert(try_now(&t, start_splice(&t, in[0], fd, 100)) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(in[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), 3);
    ck_assert_int_eq(pread(fd, got, 8, 0), 3);
    ck_assert_str_eq(got, "abc");
    ck_assert(try_now(&t, start_splice(&t, in[0], fd, 100)) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd), 0);
    ck_assert_int_eq(finish(&t, WEFT__OP_PENDING), -EBADF);
    close_both(in);
}
END_TEST

START_TEST(what_cannot_be_spliced_is_told)
{
    int fd[2], file = open_file("content");
    trial t = {0};
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert_int_eq(finish(&t, start_splice(&t, fd[0], fd[1], 10)), -EINVAL);
    ck_assert_int_eq(finish(&t, start_splice(&t, file, fd[1], 10)), -EINVAL);
    ck_assert_int_eq(finish(&t, start_splice(&t, -1, fd[1], 10)), -EBADF);
    ck_assert_int_eq(finish(&t, start_splice(&t, fd[0], INT32_MAX, 10)), -EBADF);
    ck_assert_int_eq(finish(&t, start_copy(&t, WEFT__OP_TEE, -1, fd[1], 10)), -EBADF);
    ck_assert_int_eq(finish(&t, start_copy(&t, WEFT__OP_TEE, fd[0], fd[1], 10)), -EINVAL);
    close_both(fd);
    ck_assert_int_eq(type->close_fd(backend, file), 0);
}
END_TEST

int main(int argc, char **argv)
{
    name_backend(argc, argv);
    Suite *suite = suite_create("backend splice");
    TCase *tests = tcase_create("backend splice");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, it_moves_what_is_there, 0, LINES);
    tcase_add_loop_test(tests, it_waits_for_the_input, 0, LINES);
    tcase_add_loop_test(tests, it_waits_for_the_output, 0, LINES);
    tcase_add_loop_test(tests, it_waits_for_the_one_after_the_other, 0, LINES);
    tcase_add_loop_test(tests, given_up_it_has_moved_nothing, 0, LINES * PLACES);
    tcase_add_loop_test(tests, closing_either_descriptor_ends_it, 0, LINES * PLACES);
    tcase_add_loop_test(tests, a_reader_that_is_gone_is_an_error_and_no_signal, 0, LINES);
    tcase_add_loop_test(tests, a_blocking_socket_is_one_again_afterwards, 0, LINES);
    tcase_add_loop_test(tests, a_caller_who_does_not_want_to_wait_does_not, 0, LINES);
    tcase_add_test(tests, readers_and_a_splice_share_an_input);
    tcase_add_test(tests, a_file_goes_into_a_pipe_when_there_is_room);
    tcase_add_test(tests, a_pipe_goes_into_a_file_when_something_comes);
    tcase_add_test(tests, what_cannot_be_spliced_is_told);
    return run_suite(suite);
}
