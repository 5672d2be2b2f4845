/*
 * Tests of the contract of all backends, through the function table: operations on the pipes and
 * socket pairs that the backend creates. WEFT_BACKEND selects the backend. Most tests run with a
 * pipe and with a socket pair. Kernel backends also run them with O_NONBLOCK set.
 */
#include "backend/backend_harness.h"

#include <fcntl.h>

FIXTURE(open_backend, close_backend)

enum { PIPE, SOCKETS, PIPE_NONBLOCK, SOCKETS_NONBLOCK, KINDS };

/* The descriptors of a test, and its data. fd[0] reads what fd[1] writes. */
static int fd[2];
static char got[8];
static const char block[4096];

static void open_kind(int kind, int pair[2])
{
    bool is_pipe = kind == PIPE || kind == PIPE_NONBLOCK;
    ck_assert_int_eq(is_pipe ? type->pipe(backend, pair) : type->socketpair(backend, pair), 0);
    if (kind < PIPE_NONBLOCK || strcmp(type->name, "sim") == 0)
        return;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(pair[i], F_SETFL, fcntl(pair[i], F_GETFL) | O_NONBLOCK), 0);
}

TEST_LOOP(a_read_waits_for_a_write_and_not_if_data_is_available, KINDS)
{
    test_op read = {0};
    open_kind(_i, fd);
    ck_assert(start_read(&read, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    ck_assert_uint_eq(backend->pending, 1);
    type->poll(backend, 0);
    ck_assert(!read.is_done);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
    ck_assert_str_eq(got, "abc");
    ck_assert_uint_eq(backend->pending, 0);
    ck_assert_int_eq(read_now(fd[0], got, 0), 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(try_finish_op(&read, start_read(&read, fd[0], got, 2)), 2);
    ck_assert_int_eq(try_finish_op(&read, start_read(&read, fd[0], got, 2)), 1);
}

TEST_LOOP(closing_the_other_end_is_the_end_of_file, KINDS)
{
    test_op read = {0};
    open_kind(_i, fd);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(read_now(fd[0], got, 8), 0);
}

TEST(both_directions_of_a_socket_wait_independently)
{
    test_op read = {0}, write = {0};
    open_kind(SOCKETS, fd);
    size_t filled = fill_pending(&write, fd[0], block, sizeof block);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_uint_eq(backend->pending, 2);
    ck_assert_int_eq(write_now(fd[1], "in", 2), 2);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 2);
    ck_assert_str_eq(got, "in");
    ck_assert(!write.is_done);
    drain_bytes(fd[1], filled);
    ck_assert_int_gt(finish_op(&write, WEFT__OP_PENDING), 0);
}

TEST_LOOP(several_readers_complete_in_fifo_order, KINDS)
{
    test_op read[4] = {{.is_done = false}};
    open_kind(_i, fd);
    for (int i = 0; i < 3; i++)
        ck_assert(start_read(&read[i], fd[0], &got[i], 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    /* Data is available, but it belongs to the earlier readers. */
    ck_assert(start_read(&read[3], fd[0], &got[3], 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(finish_op(&read[2], WEFT__OP_PENDING), 1);
    for (int i = 0; i < 3; i++) {
        ck_assert(read[i].is_done && (i == 0 || read[i].order > read[i - 1].order));
        ck_assert_int_eq(got[i], "abc"[i]);
    }
    ck_assert(!read[3].is_done);
    ck_assert_int_eq(write_now(fd[1], "d", 1), 1);
    ck_assert_int_eq(finish_op(&read[3], WEFT__OP_PENDING), 1);
    ck_assert_int_eq(got[3], 'd');
}

TEST_LOOP(a_cancelled_read_consumes_no_data, KINDS)
{
    test_op read[2] = {{.is_done = false}};
    char cancelled_data[8] = "";
    open_kind(_i, fd);
    ck_assert(start_read(&read[0], fd[0], cancelled_data, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&read[0]), -ECANCELED);
    ck_assert_uint_eq(backend->pending, 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    type->poll(backend, 0);
    ck_assert_int_eq(read_now(fd[0], got, 8), 3);
    ck_assert_str_eq(cancelled_data, "");
    /* If the data is already available, exactly one of the two reads gets it. */
    ck_assert(start_read(&read[0], fd[0], cancelled_data, 8) == WEFT__OP_PENDING);
    ck_assert(start_read(&read[1], fd[0], got, 8) == WEFT__OP_PENDING);
    test_op write = {0};
    intptr_t written = start_write(&write, fd[1], "defg", 4);
    intptr_t cancel_result = cancel_op(&read[0]);
    ck_assert_int_eq(finish_op(&write, written), 4);
    if (cancel_result == -ECANCELED) {
        ck_assert_str_eq(cancelled_data, "");
    } else {
        ck_assert_str_eq(cancelled_data, "defg");
        ck_assert_int_eq(write_now(fd[1], "defg", 4), 4);
    }
    ck_assert_int_eq(finish_op(&read[1], WEFT__OP_PENDING), 4);
    ck_assert_str_eq(got, "defg");
}

TEST_LOOP(closing_a_descriptor_ends_its_pending_operations, KINDS)
{
    test_op read[2] = {{.is_done = false}}, write = {0}, wait = {0};
    open_kind(_i, fd);
    ck_assert(start_read(&read[0], fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert(start_read(&read[1], fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(finish_op(&read[0], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish_op(&read[1], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish_op(&wait, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);

    open_kind(_i, fd);
    fill_pending(&write, fd[1], block, sizeof block);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(finish_op(&write, WEFT__OP_PENDING), -EBADF);
}

TEST_LOOP(waiting_for_readiness_consumes_no_data, KINDS)
{
    test_op wait = {0};
    open_kind(_i, fd);
    ck_assert_int_eq(start_wait(&wait, fd[0], 0), -EINVAL);
    ck_assert_int_eq(start_wait(&wait, fd[1], POLLOUT), POLLOUT);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&wait, WEFT__OP_PENDING), POLLIN);
    ck_assert_int_eq(start_wait(&wait, fd[0], POLLIN), POLLIN);
    ck_assert_int_eq(read_now(fd[0], got, 8), 3);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_ne(finish_op(&wait, WEFT__OP_PENDING) & POLLHUP, 0);
}

TEST_LOOP(a_wait_for_writability_ends_when_there_is_room, KINDS)
{
    test_op write = {0}, wait[2] = {{.is_done = false}};
    open_kind(_i, fd);
    size_t filled = fill_pending(&write, fd[1], block, sizeof block);
    ck_assert_int_eq(cancel_op(&write), -ECANCELED);
    ck_assert(start_wait(&wait[0], fd[1], POLLOUT) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait[1], fd[1], POLLIN | POLLOUT) == WEFT__OP_PENDING);
    type->poll(backend, 0);
    ck_assert(!wait[0].is_done && !wait[1].is_done);
    drain_bytes(fd[0], filled);
    ck_assert_int_eq(finish_op(&wait[0], WEFT__OP_PENDING), POLLOUT);
    ck_assert_int_eq(finish_op(&wait[1], WEFT__OP_PENDING), POLLOUT);
}

static test_op second_read;
static char second_got[8];
static intptr_t second_submitted;

static void read_again(test_op *t)
{
    second_submitted = start_read(&second_read, t->op.fd, second_got, 1);
}

TEST_LOOP(done_may_start_another_operation, KINDS)
{
    test_op read = {.then = read_again};
    open_kind(_i, fd);
    ck_assert(start_read(&read, fd[0], got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "a", 1), 1);
    finish_op(&read, WEFT__OP_PENDING);
    ck_assert(second_submitted == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "b", 1), 1);
    ck_assert_int_eq(finish_op(&second_read, WEFT__OP_PENDING), 1);
    ck_assert_int_eq(second_got[0], 'b');
}

static void close_own_fd(test_op *t)
{
    if (t->result != -EBADF)
        ck_assert_int_eq(type->close_fd(backend, t->op.fd), 0);
}

static void assert_refused_while_closing(test_op *t)
{
    char byte;
    test_op late = {0};
    if (t->result == 1)
        return; /* the read completed before the close */
    ck_assert_int_eq(t->result, -EBADF);
    ck_assert_int_eq(start_read(&late, t->op.fd, &byte, 1), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, t->op.fd), -EBADF);
}

TEST_LOOP(done_may_close_the_descriptor_of_other_operations, KINDS)
{
    test_op first = {.then = close_own_fd}, second = {.then = assert_refused_while_closing};
    test_op wait = {.then = close_own_fd};
    open_kind(_i, fd);
    ck_assert(start_read(&first, fd[0], &got[0], 1) == WEFT__OP_PENDING);
    ck_assert(start_read(&second, fd[0], &got[1], 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&first, WEFT__OP_PENDING), 1);
    finish_op(&second, WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);

    open_kind(_i, fd);
    ck_assert(start_read(&second, fd[0], &got[1], 1) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    second.then = NULL;
    ck_assert_int_eq(write_now(fd[1], "a", 1), 1);
    ck_assert_int_eq(finish_op(&second, WEFT__OP_PENDING), 1);
    if (!wait.is_done) /* the wait may have completed first and closed the descriptor */
        ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    intptr_t result = finish_op(&wait, WEFT__OP_PENDING);
    ck_assert(result == -EBADF || result == POLLIN);
}

static void close_both_ends(test_op *t)
{
    backend_close_pair(fd);
}

TEST_LOOP(done_may_close_both_ends, KINDS)
{
    test_op read = {.then = close_both_ends}, write = {0};
    open_kind(_i, fd);
    if (_i == SOCKETS || _i == SOCKETS_NONBLOCK) /* a write waits in the other direction too */
        fill_pending(&write, fd[0], block, sizeof block);
    ck_assert(start_read(&read, fd[0], got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "a", 1), 1);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 1);
    ck_assert_uint_eq(backend->pending, 0);
}

TEST_LOOP(many_descriptors_wait_at_once, KINDS)
{
    enum { MANY = 300 };
    static int fds[MANY][2];
    static test_op read[MANY];
    static char bytes[MANY];
    for (int i = 0; i < MANY; i++) {
        open_kind(_i, fds[i]);
        ck_assert(start_read(&read[i], fds[i][0], &bytes[i], 1) == WEFT__OP_PENDING);
    }
    ck_assert_uint_eq(backend->pending, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(write_now(fds[i][1], &(char){(char)i}, 1), 1);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(finish_op(&read[i], WEFT__OP_PENDING), 1);
        ck_assert_int_eq(bytes[i], (char)i);
        backend_close_pair(fds[i]);
    }
}

static void *wake_backend(void *unused)
{
    type->wake(backend);
    return NULL;
}

TEST(another_thread_can_wake_a_waiting_poll)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread = start_thread(wake_backend, NULL);
        ck_assert_int_eq(type->poll(backend, -1), 0);
        join_thread(thread);
    }
    ck_assert_uint_eq(backend->pending, 0);
}

TEST(a_wake_before_the_poll_is_not_lost)
{
    type->wake(backend);
    type->wake(backend);
    ck_assert_int_eq(type->poll(backend, -1), 0);
}

TEST(an_idle_poll_lasts_for_its_whole_timeout)
{
    int64_t before = type->now_ns(backend);
    ck_assert_int_gt(before, 0);
    ck_assert_int_eq(type->poll(backend, 1500000), 0);
    ck_assert_int_ge(type->now_ns(backend), before + 1500000);
}
