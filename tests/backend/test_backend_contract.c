/*
 * What every backend promises, driven through its table: operations on the pipes and socket pairs
 * that it makes. The backend is the one that WEFT_BACKEND or the first argument names. Most tests
 * run four times: with a pipe and a socket pair, and where the kernel is behind them with
 * O_NONBLOCK set.
 */
#include "backend_harness.h"

#include <fcntl.h>
#include <pthread.h>

enum { PIPE, SOCKETS, PIPE_NONBLOCK, SOCKETS_NONBLOCK, KINDS };

/* fd[0] reads what fd[1] writes. */
static void open_kind(int kind, int fd[2])
{
    bool is_pipe = kind == PIPE || kind == PIPE_NONBLOCK;
    ck_assert_int_eq(is_pipe ? type->pipe(backend, fd) : type->socketpair(backend, fd), 0);
    if (kind < PIPE_NONBLOCK || strcmp(type->name, "sim") == 0)
        return;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(fcntl(fd[i], F_SETFL, fcntl(fd[i], F_GETFL) | O_NONBLOCK), 0);
}

START_TEST(a_read_waits_for_a_write)
{
    int fd[2];
    trial read = {0};
    char got[8] = "";
    open_kind(_i, fd);
    ck_assert(start_read(&read, fd[0], got, sizeof got) == WEFT__OP_PENDING);
    ck_assert_uint_eq(backend->pending, 1);
    type->poll(backend, 0);
    ck_assert(!read.is_done);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 3);
    ck_assert_str_eq(got, "abc");
    ck_assert_uint_eq(backend->pending, 0);
    close_both(fd);
}
END_TEST

START_TEST(a_read_of_what_is_there_does_not_wait)
{
    int fd[2];
    trial read = {0};
    char got[2];
    open_kind(_i, fd);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(try_now(&read, start_read(&read, fd[0], got, 2)), 2);
    ck_assert_int_eq(try_now(&read, start_read(&read, fd[0], got, 2)), 1);
    close_both(fd);
}
END_TEST

START_TEST(a_read_of_no_bytes_does_not_wait)
{
    int fd[2];
    char nothing;
    open_kind(_i, fd);
    ck_assert_int_eq(read_now(fd[0], &nothing, 0), 0);
    close_both(fd);
}
END_TEST

START_TEST(closing_the_other_end_is_the_end_of_file)
{
    int fd[2];
    trial read = {0};
    char got[8];
    open_kind(_i, fd);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(read_now(fd[0], got, 8), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
}
END_TEST

START_TEST(what_was_written_before_the_end_is_still_read)
{
    int fd[2];
    char got[8];
    open_kind(_i, fd);
    ck_assert_int_eq(write_now(fd[1], "last", 4), 4);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(read_now(fd[0], got, 8), 4);
    ck_assert_int_eq(read_now(fd[0], got, 8), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
}
END_TEST

START_TEST(writing_to_a_closed_reader_is_an_error_and_no_signal)
{
    int fd[2];
    trial write = {0};
    static const char piece[4096];
    open_kind(_i, fd);
    fill(&write, fd[1], piece, sizeof piece);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    intptr_t result = finish(&write, WEFT__OP_PENDING);
    /* A socket closed with data unread is reset, which the first call after it may say instead. */
    ck_assert(result == -EPIPE || result == -ECONNRESET);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}
END_TEST

START_TEST(both_directions_of_a_socket_wait_side_by_side)
{
    int fd[2];
    trial read = {0}, write = {0};
    char got[8] = "";
    static const char piece[4096];
    open_kind(_i, fd);
    size_t filled = fill(&write, fd[0], piece, sizeof piece);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_uint_eq(backend->pending, 2);
    ck_assert_int_eq(write_now(fd[1], "in", 2), 2);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 2);
    ck_assert_str_eq(got, "in");
    ck_assert(!write.is_done);
    drain(fd[1], filled);
    ck_assert_int_gt(finish(&write, WEFT__OP_PENDING), 0);
    close_both(fd);
}
END_TEST

START_TEST(several_readers_are_served_in_the_order_they_came)
{
    int fd[2];
    trial read[4] = {{.is_done = false}};
    char got[4] = "";
    open_kind(_i, fd);
    for (int i = 0; i < 3; i++)
        ck_assert(start_read(&read[i], fd[0], &got[i], 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    /* The data is there, but it belongs to those who waited. */
    ck_assert(start_read(&read[3], fd[0], &got[3], 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(finish(&read[2], WEFT__OP_PENDING), 1);
    for (int i = 0; i < 3; i++) {
        ck_assert(read[i].is_done && (i == 0 || read[i].order > read[i - 1].order));
        ck_assert_int_eq(got[i], "abc"[i]);
    }
    ck_assert(!read[3].is_done);
    ck_assert_int_eq(write_now(fd[1], "d", 1), 1);
    ck_assert_int_eq(finish(&read[3], WEFT__OP_PENDING), 1);
    ck_assert_int_eq(got[3], 'd');
    close_both(fd);
}
END_TEST

START_TEST(a_cancelled_read_takes_no_data)
{
    int fd[2];
    trial read[2] = {{.is_done = false}};
    char got[8] = "", kept[8] = "";
    open_kind(_i, fd);
    ck_assert(start_read(&read[0], fd[0], kept, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(give_up(&read[0]), -ECANCELED);
    ck_assert_uint_eq(backend->pending, 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    type->poll(backend, 0);
    ck_assert_int_eq(read_now(fd[0], got, 8), 3);
    ck_assert_str_eq(kept, "");
    /* And when the data was there already: it goes to the one or to the other. */
    ck_assert(start_read(&read[0], fd[0], kept, 8) == WEFT__OP_PENDING);
    ck_assert(start_read(&read[1], fd[0], got, 8) == WEFT__OP_PENDING);
    trial write = {0};
    intptr_t written = start_write(&write, fd[1], "defg", 4);
    intptr_t given_up = give_up(&read[0]);
    ck_assert_int_eq(finish(&write, written), 4);
    if (given_up == -ECANCELED) {
        ck_assert_str_eq(kept, "");
    } else {
        ck_assert_str_eq(kept, "defg");
        ck_assert_int_eq(write_now(fd[1], "defg", 4), 4);
    }
    ck_assert_int_eq(finish(&read[1], WEFT__OP_PENDING), 4);
    ck_assert_str_eq(got, "defg");
    close_both(fd);
}
END_TEST

START_TEST(closing_a_descriptor_ends_what_waits_on_it)
{
    int fd[2];
    trial read[2] = {{.is_done = false}}, write = {0}, wait = {0};
    char got[8];
    static const char piece[4096];
    open_kind(_i, fd);
    ck_assert(start_read(&read[0], fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert(start_read(&read[1], fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(finish(&read[0], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish(&read[1], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish(&wait, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);

    open_kind(_i, fd);
    fill(&write, fd[1], piece, sizeof piece);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_eq(finish(&write, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
}
END_TEST

START_TEST(what_is_not_open_is_a_bad_descriptor)
{
    int fd[2];
    trial t = {0};
    char byte = 0;
    open_kind(_i, fd);
    close_both(fd);
    const int bad[] = {fd[0], fd[1], -1, INT32_MAX};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(read_now(bad[i], &byte, 1), -EBADF);
        ck_assert_int_eq(write_now(bad[i], &byte, 1), -EBADF);
        ck_assert_int_eq(finish(&t, start_wait(&t, bad[i], POLLIN)), -EBADF);
        ck_assert_int_eq(type->close_fd(backend, bad[i]), -EBADF);
    }
}
END_TEST

START_TEST(a_new_descriptor_hears_nothing_of_the_old_one_with_its_number)
{
    int fd[2];
    char got[8];
    for (int round = 0; round < 20; round++) {
        trial old = {0}, new = {0};
        open_kind(_i, fd);
        ck_assert(start_read(&old, fd[0], got, 8) == WEFT__OP_PENDING);
        ck_assert_int_eq(write_now(fd[1], "old", 3), 3);
        close_both(fd); /* the event is on its way, or was faster */
        intptr_t result = finish(&old, WEFT__OP_PENDING);
        ck_assert(result == -EBADF || result == 3);
        open_kind(_i, fd);
        ck_assert(start_read(&new, fd[0], got, 8) == WEFT__OP_PENDING);
        type->poll(backend, 0);
        ck_assert(!new.is_done);
        ck_assert_int_eq(write_now(fd[1], "x", 1), 1);
        ck_assert_int_eq(finish(&new, WEFT__OP_PENDING), 1);
        close_both(fd);
    }
}
END_TEST

START_TEST(a_mebibyte_goes_through_to_a_slow_reader)
{
    enum { TOTAL = 1 << 20 };
    static unsigned char sent[TOTAL], received[TOTAL];
    int fd[2];
    for (int i = 0; i < TOTAL; i++)
        sent[i] = (unsigned char)(i * 31 + i / 251);
    open_kind(_i, fd);
    trial write = {0};
    size_t out = 0, in = 0;
    bool is_waiting = false;
    while (in < TOTAL) {
        if (is_waiting && write.is_done) {
            ck_assert_int_gt(write.result, 0);
            out += (size_t)write.result;
            is_waiting = false;
        }
        while (!is_waiting && out < TOTAL) {
            intptr_t n = start_write(&write, fd[1], sent + out, TOTAL - out);
            is_waiting = n == WEFT__OP_PENDING;
            out += is_waiting ? 0 : (size_t)n;
        }
        intptr_t n = read_now(fd[0], received + in, 1000);
        ck_assert_int_gt(n, 0);
        in += (size_t)n;
        ck_assert_int_eq(type->poll(backend, 0), 0);
    }
    ck_assert_int_eq(memcmp(sent, received, TOTAL), 0);
    close_both(fd);
}
END_TEST

START_TEST(waiting_for_readiness_takes_nothing)
{
    int fd[2];
    trial wait = {0};
    char got[8];
    open_kind(_i, fd);
    ck_assert_int_eq(start_wait(&wait, fd[0], 0), -EINVAL);
    ck_assert_int_eq(start_wait(&wait, fd[1], POLLOUT), POLLOUT);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&wait, WEFT__OP_PENDING), POLLIN);
    ck_assert_int_eq(start_wait(&wait, fd[0], POLLIN), POLLIN);
    ck_assert_int_eq(read_now(fd[0], got, 8), 3);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
    ck_assert_int_ne(finish(&wait, WEFT__OP_PENDING) & POLLHUP, 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
}
END_TEST

START_TEST(readiness_for_writing_comes_when_there_is_room)
{
    int fd[2];
    trial write = {0}, wait[2] = {{.is_done = false}};
    static const char piece[4096];
    open_kind(_i, fd);
    size_t filled = fill(&write, fd[1], piece, sizeof piece);
    ck_assert_int_eq(give_up(&write), -ECANCELED);
    ck_assert(start_wait(&wait[0], fd[1], POLLOUT) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait[1], fd[1], POLLIN | POLLOUT) == WEFT__OP_PENDING);
    type->poll(backend, 0);
    ck_assert(!wait[0].is_done && !wait[1].is_done);
    drain(fd[0], filled);
    ck_assert_int_eq(finish(&wait[0], WEFT__OP_PENDING), POLLOUT);
    ck_assert_int_eq(finish(&wait[1], WEFT__OP_PENDING), POLLOUT);
    close_both(fd);
}
END_TEST

static trial second_read;
static char second_got[8];
static intptr_t second_submitted;

static void read_again(trial *t)
{
    second_submitted = start_read(&second_read, t->op.fd, second_got, 1);
}

START_TEST(done_may_start_another_operation)
{
    int fd[2];
    char got;
    trial read = {.then = read_again};
    open_kind(_i, fd);
    ck_assert(start_read(&read, fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "a", 1), 1);
    finish(&read, WEFT__OP_PENDING);
    ck_assert(second_submitted == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "b", 1), 1);
    ck_assert_int_eq(finish(&second_read, WEFT__OP_PENDING), 1);
    ck_assert_int_eq(second_got[0], 'b');
    close_both(fd);
}
END_TEST

static void close_own(trial *t)
{
    if (t->result != -EBADF)
        ck_assert_int_eq(type->close_fd(backend, t->op.fd), 0);
}

static void refuse_while_closing(trial *t)
{
    char byte;
    trial late = {0};
    if (t->result == 1)
        return; /* it was faster */
    ck_assert_int_eq(t->result, -EBADF);
    ck_assert_int_eq(start_read(&late, t->op.fd, &byte, 1), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, t->op.fd), -EBADF);
}

START_TEST(done_may_close_the_descriptor_under_the_others)
{
    int fd[2];
    char got[2];
    trial first = {.then = close_own}, second = {.then = refuse_while_closing};
    trial wait = {.then = close_own};
    open_kind(_i, fd);
    ck_assert(start_read(&first, fd[0], &got[0], 1) == WEFT__OP_PENDING);
    ck_assert(start_read(&second, fd[0], &got[1], 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish(&first, WEFT__OP_PENDING), 1);
    finish(&second, WEFT__OP_PENDING);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);

    open_kind(_i, fd);
    ck_assert(start_read(&second, fd[0], &got[1], 1) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    second.then = NULL;
    ck_assert_int_eq(write_now(fd[1], "a", 1), 1);
    ck_assert_int_eq(finish(&second, WEFT__OP_PENDING), 1);
    if (!wait.is_done) /* it might have been faster, and closed it */
        ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    intptr_t result = finish(&wait, WEFT__OP_PENDING);
    ck_assert(result == -EBADF || result == POLLIN);
    ck_assert_int_eq(type->close_fd(backend, fd[1]), 0);
}
END_TEST

static int own_pair[2];

static void close_pair(trial *t)
{
    (void)t;
    close_both(own_pair);
}

START_TEST(done_may_close_both_ends)
{
    char got;
    trial read = {.then = close_pair}, write = {0};
    static const char piece[4096];
    open_kind(_i, own_pair);
    if (_i == SOCKETS || _i == SOCKETS_NONBLOCK) /* somebody waits in the other direction, too */
        fill(&write, own_pair[0], piece, sizeof piece);
    ck_assert(start_read(&read, own_pair[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(own_pair[1], "a", 1), 1);
    ck_assert_int_eq(finish(&read, WEFT__OP_PENDING), 1);
    ck_assert_uint_eq(backend->pending, 0);
}
END_TEST

START_TEST(many_descriptors_wait_at_once)
{
    enum { MANY = 300 };
    static int fd[MANY][2];
    static trial read[MANY];
    static char got[MANY];
    for (int i = 0; i < MANY; i++) {
        open_kind(_i, fd[i]);
        ck_assert(start_read(&read[i], fd[i][0], &got[i], 1) == WEFT__OP_PENDING);
    }
    ck_assert_uint_eq(backend->pending, MANY);
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(write_now(fd[i][1], &(char){(char)i}, 1), 1);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(finish(&read[i], WEFT__OP_PENDING), 1);
        ck_assert_int_eq(got[i], (char)i);
        close_both(fd[i]);
    }
}
END_TEST

static void *wake_backend(void *unused)
{
    (void)unused;
    type->wake(backend);
    return NULL;
}

START_TEST(another_thread_can_wake_a_poll_that_waits)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, NULL, wake_backend, NULL), 0);
        ck_assert_int_eq(type->poll(backend, -1), 0);
        pthread_join(thread, NULL);
    }
    ck_assert_uint_eq(backend->pending, 0);
}
END_TEST

START_TEST(a_wake_before_the_poll_is_not_lost)
{
    type->wake(backend);
    type->wake(backend);
    ck_assert_int_eq(type->poll(backend, -1), 0);
}
END_TEST

START_TEST(a_poll_with_nothing_to_do_lasts_as_long_as_it_was_told)
{
    int64_t before = type->now_ns(backend);
    ck_assert_int_gt(before, 0);
    ck_assert_int_eq(type->poll(backend, 1500000), 0);
    ck_assert_int_ge(type->now_ns(backend), before + 1500000);
}
END_TEST

int main(int argc, char **argv)
{
    name_backend(argc, argv);
    Suite *suite = suite_create("backend contract");
    TCase *tests = tcase_create("backend contract");
    suite_add_tcase(suite, tests);
    tcase_set_timeout(tests, 30);
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_read_waits_for_a_write, 0, KINDS);
    tcase_add_loop_test(tests, a_read_of_what_is_there_does_not_wait, 0, KINDS);
    tcase_add_loop_test(tests, a_read_of_no_bytes_does_not_wait, 0, KINDS);
    tcase_add_loop_test(tests, closing_the_other_end_is_the_end_of_file, 0, KINDS);
    tcase_add_loop_test(tests, what_was_written_before_the_end_is_still_read, 0, KINDS);
    tcase_add_loop_test(tests, writing_to_a_closed_reader_is_an_error_and_no_signal, 0, KINDS);
    tcase_add_loop_test(tests, both_directions_of_a_socket_wait_side_by_side, SOCKETS, SOCKETS + 1);
    tcase_add_loop_test(tests, several_readers_are_served_in_the_order_they_came, 0, KINDS);
    tcase_add_loop_test(tests, a_cancelled_read_takes_no_data, 0, KINDS);
    tcase_add_loop_test(tests, closing_a_descriptor_ends_what_waits_on_it, 0, KINDS);
    tcase_add_loop_test(tests, what_is_not_open_is_a_bad_descriptor, 0, KINDS);
    tcase_add_loop_test(tests, a_new_descriptor_hears_nothing_of_the_old_one_with_its_number, 0,
                        KINDS);
    tcase_add_loop_test(tests, a_mebibyte_goes_through_to_a_slow_reader, 0, KINDS);
    tcase_add_loop_test(tests, waiting_for_readiness_takes_nothing, 0, KINDS);
    tcase_add_loop_test(tests, readiness_for_writing_comes_when_there_is_room, 0, KINDS);
    tcase_add_loop_test(tests, done_may_start_another_operation, 0, KINDS);
    tcase_add_loop_test(tests, done_may_close_the_descriptor_under_the_others, 0, KINDS);
    tcase_add_loop_test(tests, done_may_close_both_ends, 0, KINDS);
    tcase_add_loop_test(tests, many_descriptors_wait_at_once, 0, KINDS);
    tcase_add_test(tests, another_thread_can_wake_a_poll_that_waits);
    tcase_add_test(tests, a_wake_before_the_poll_is_not_lost);
    tcase_add_test(tests, a_poll_with_nothing_to_do_lasts_as_long_as_it_was_told);
    return run_suite(suite);
}
