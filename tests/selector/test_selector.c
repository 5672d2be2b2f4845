/* Tests of each operation of a selector, of cancellation, time limits and errors. */
#include "selector/selector_support.h"
#include "support/sockets.h"

FIXTURE(open_selector, close_selector)

static int fd[2];
static weft_selector_op op;
static char got[16];

/* Reads, writes and readiness. */

enum { PIPE, PIPE_NONBLOCK, SOCKETS, SOCKETS_NONBLOCK, FD_KINDS };

static void open_kind(int kind)
{
    kind < SOCKETS ? new_pipe(fd) : new_sockets(fd);
    if (kind == PIPE_NONBLOCK || kind == SOCKETS_NONBLOCK)
        for (int i = 0; i < 2; i++)
            fcntl(fd[i], F_SETFL, O_NONBLOCK);
}

static void assert_mode_unchanged(int kind)
{
    bool is_nonblock = kind == PIPE_NONBLOCK || kind == SOCKETS_NONBLOCK;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(!!(fcntl(fd[i], F_GETFL) & O_NONBLOCK), is_nonblock);
}

TEST_LOOP(a_read_returns_available_data_at_once_and_else_waits, FD_KINDS)
{
    open_kind(_i);
    put(fd[1], "ab");
    ck_assert_int_eq(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT), 2);
    ck_assert(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT) == PENDING);
    ck_assert_uint_eq(weft_selector_pending(selector), 1);
    assert_none_completes();
    put(fd[1], "cde");
    ck_assert_int_eq(finish(&op, PENDING), 3);
    ck_assert_int_eq(memcmp(got, "cde", 3), 0);
    close(fd[1]);
    ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, fd[0], got, 8, CURRENT)), 0);
    close(fd[0]);
}

TEST_LOOP(a_write_to_a_full_file_waits_and_the_mode_is_unchanged, FD_KINDS)
{
    static const char block[65536];
    open_kind(_i);
    weft_value n;
    size_t sent = 0;
    while ((n = weft_selector_write(selector, &op, fd[1], block, sizeof block, CURRENT)) > 0)
        sent += (size_t)n;
    ck_assert(n == PENDING);
    assert_none_completes();
    size_t received = 0;
    while (received < sent)
        received += (size_t)read(fd[0], (char[65536]){0}, 65536);
    ck_assert_int_gt(finish(&op, PENDING), 0);
    assert_mode_unchanged(_i);
    close(fd[0]);
    ck_assert_int_eq(weft_selector_write(selector, &op, fd[1], "x", 1, CURRENT), -EPIPE);
    close(fd[1]);
}

TEST(send_and_recv_wait_and_honour_flags)
{
    new_sockets(fd);
    ck_assert_int_eq(weft_selector_recv(selector, &op, fd[0], got, 8, MSG_DONTWAIT), -EAGAIN);
    ck_assert_int_eq(weft_selector_recv(selector, &op, fd[0], got, 8, MSG_WAITALL), -EINVAL);
    ck_assert(weft_selector_recv(selector, &op, fd[0], got, 8, MSG_PEEK) == PENDING);
    weft_selector_op sending = {0};
    ck_assert_int_eq(weft_selector_send(selector, &sending, fd[1], "abc", 3, 0), 3);
    ck_assert_int_eq(finish(&op, PENDING), 3);
    ck_assert_int_eq(weft_selector_recv(selector, &op, fd[0], got, 8, 0), 3);
    close(fd[0]);
    ck_assert_int_eq(weft_selector_send(selector, &op, fd[1], "x", 1, 0), -EPIPE);
    close(fd[1]);
}

TEST(a_full_datagram_socket_delays_a_send_and_loses_no_message)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, fd), 0);
    weft_value n;
    int sent = 0;
    while ((n = weft_selector_send(selector, &op, fd[1], "abc", 3, 0)) == 3)
        sent++;
    ck_assert(n == PENDING);
    weft_selector_op reading = {0};
    for (int i = 0; i < sent; i++)
        ck_assert_int_eq(weft_selector_recv(selector, &reading, fd[0], got, 8, 0), 3);
    ck_assert_int_eq(finish(&op, PENDING), 3);
    ck_assert_int_eq(weft_selector_recv(selector, &reading, fd[0], got, 8, MSG_DONTWAIT), 3);
    ck_assert_int_eq(weft_selector_recv(selector, &reading, fd[0], got, 8, MSG_DONTWAIT), -EAGAIN);
    close_pair(fd);
}

TEST(files_are_read_and_written_at_an_offset_and_at_the_position)
{
    FILE *file = tmpfile();
    int file_fd = fileno(file);
    ck_assert_int_eq(finish(&op, weft_selector_write(selector, &op, file_fd, "abcdef", 6, CURRENT)),
                     6);
    ck_assert_int_eq(finish(&op, weft_selector_write(selector, &op, file_fd, "X", 1, 2)), 1);
    ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, file_fd, got, 3, 1)), 3);
    ck_assert_int_eq(memcmp(got, "bXd", 3), 0);
    ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, file_fd, got, 3, CURRENT)), 0);
    ck_assert_int_eq(weft_selector_read(selector, &op, file_fd, got, 3, -2), -EINVAL);
    fclose(file);
}

/* The data of a file that is not in memory is complete, and the position is right. */
TEST(a_file_that_is_not_in_memory_is_read_completely)
{
    enum { BYTES = 4 << 20 };
    static char written[BYTES], data[BYTES];
    for (int i = 0; i < BYTES; i++)
        written[i] = (char)(i * 7 >> 3);
    char path[] = "selector-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(write(file, written, BYTES), BYTES);
    ck_assert_int_eq(fsync(file), 0);
    posix_fadvise(file, BYTES / 2, BYTES / 2, POSIX_FADV_DONTNEED);
    lseek(file, 0, SEEK_SET);
    ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, file, data, BYTES, CURRENT)),
                     BYTES);
    ck_assert_int_eq(memcmp(written, data, BYTES), 0);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), BYTES);
    close(file);
}

TEST(an_offset_on_a_pipe_is_an_error)
{
    new_pipe(fd);
    ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, fd[0], got, 1, 5)), -ESPIPE);
    close_pair(fd);
}

TEST_LOOP(a_wait_reports_the_events_that_have_occurred, FD_KINDS)
{
    open_kind(_i);
    ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
    assert_none_completes();
    put(fd[1], "a");
    ck_assert_int_eq(finish(&op, PENDING), POLLIN);
    ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, fd[0], POLLIN)), POLLIN);
    ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, fd[1], POLLOUT)), POLLOUT);
    if (_i >= SOCKETS)
        ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, fd[0], POLLIN | POLLOUT)),
                         POLLIN | POLLOUT);
    close_pair(fd);
}

TEST(the_end_of_the_peer_wakes_both_directions)
{
    weft_selector_op ops[2] = {{0}};
    new_pipe(fd);
    ck_assert_int_ge(fcntl(fd[1], F_SETPIPE_SZ, 4096), 4096);
    put(fd[1], (char[4097]){[0 ... 4095] = 'x'});
    ck_assert(weft_selector_wait_fd(selector, &ops[0], fd[1], POLLOUT) == PENDING);
    assert_none_completes();
    close(fd[0]);
    ck_assert_int_ne(finish(&ops[0], PENDING), 0);
    close(fd[1]);
    new_pipe(fd);
    ck_assert(weft_selector_wait_fd(selector, &ops[1], fd[0], POLLIN) == PENDING);
    assert_none_completes();
    close(fd[1]);
    ck_assert_int_ne(finish(&ops[1], PENDING), 0);
    close(fd[0]);
}

TEST(files_and_directories_are_ready_at_once)
{
    const char *const paths[] = {"/proc/self/exe", "/"};
    for (int i = 0; i < 2; i++) {
        int file = open(paths[i], O_RDONLY | O_CLOEXEC);
        ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, file, POLLIN)), POLLIN);
        ck_assert_int_eq(weft_selector_wait_fd(selector, &op, file, POLLPRI), -EPERM);
        close(file);
    }
}

TEST(urgent_data_ends_a_wait_for_urgent_data)
{
    address a = loopback_address(AF_INET);
    int listener = listen_address(&a, SOCK_CLOEXEC, 1), client = new_stream_socket(AF_INET, 0);
    ck_assert_int_eq(connect(client, sockaddr_of(&a), a.bytes), 0);
    int server = accept(listener, NULL, NULL);
    ck_assert(weft_selector_wait_fd(selector, &op, server, POLLPRI) == PENDING);
    put(client, "a");
    assert_none_completes();
    ck_assert_int_eq(send(client, "!", 1, MSG_OOB), 1);
    ck_assert_int_eq(finish(&op, PENDING), POLLPRI);
    ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, server, POLLIN | POLLPRI)),
                     POLLIN | POLLPRI);
    close(client);
    close(server);
    close(listener);
}

TEST_ROWS(accept_and_connect_leave_the_mode_unchanged, blocking_modes)
{
    address a = loopback_address(AF_INET), peer = {.bytes = sizeof peer.storage};
    int listener = listen_address(&a, blocking_modes[_i], 1);
    int client = new_stream_socket(AF_INET, blocking_modes[_i]);
    weft_selector_op connecting = {0};
    ck_assert(weft_selector_accept(selector, &op, listener, sockaddr_of(&peer), &peer.bytes) ==
              PENDING);
    assert_none_completes();
    weft_value connected =
        weft_selector_connect(selector, &connecting, client, sockaddr_of(&a), a.bytes);
    int left = connected == PENDING ? 2 : 1;
    while (left-- > 0)
        next_op(selector);
    ck_assert_int_eq(connected == PENDING ? connecting.result : connected, 0);
    ck_assert_int_ge(op.result, 0);
    ck_assert_int_eq(peer.storage.ss_family, AF_INET);
    ck_assert(fcntl((int)op.result, F_GETFD) & FD_CLOEXEC);
    ck_assert(!(fcntl((int)op.result, F_GETFL) & O_NONBLOCK));
    assert_blocking_mode(listener, blocking_modes[_i]);
    assert_blocking_mode(client, blocking_modes[_i]);
    close((int)op.result);
    close(client);
    close(listener);
}

TEST(a_refused_connection_is_an_error)
{
    address a = loopback_address(AF_INET);
    close(listen_address(&a, SOCK_CLOEXEC, 1));
    int client = new_stream_socket(AF_INET, 0);
    ck_assert_int_eq(
        finish(&op, weft_selector_connect(selector, &op, client, sockaddr_of(&a), a.bytes)),
        -ECONNREFUSED);
    close(client);
}

/* Time. */

TEST(sleeps_end_in_the_order_of_their_times)
{
    enum { COUNT = 10000 };
    static struct {
        weft_selector_op op; /* the first field */
        double earliest, latest;
    } sleeps[COUNT];
    for (int i = 0; i < COUNT; i++) {
        double seconds = 0.05 + i * 7919 % COUNT * 1e-5;
        sleeps[i].earliest = weft_selector_now() + seconds;
        ck_assert(weft_selector_sleep(selector, &sleeps[i].op, seconds) == PENDING);
        sleeps[i].latest = weft_selector_now() + seconds + 1e-6;
    }
    double earliest = 0;
    for (int i = 0; i < COUNT; i++) {
        typeof(&sleeps[0]) sleep = (void *)next_op(selector);
        ck_assert(sleep->latest >= earliest);
        earliest = sleep->earliest > earliest ? sleep->earliest : earliest;
    }
}

TEST(a_sleep_of_0_completes_in_a_poll_and_never_early)
{
    ck_assert(weft_selector_sleep(selector, &op, 0) == PENDING);
    ck_assert_ptr_null(weft_selector_next(selector));
    ck_assert_int_eq(weft_selector_poll(selector, INFINITY), 1);
    ck_assert_ptr_eq(weft_selector_next(selector), &op);
    double before = weft_selector_now();
    ck_assert_int_eq(finish(&op, weft_selector_sleep(selector, &op, 0.01)), 0);
    ck_assert(weft_selector_now() - before >= 0.01);
    ck_assert_int_eq(weft_selector_sleep(selector, &op, -1), -EINVAL);
    ck_assert_int_eq(weft_selector_sleep(selector, &op, (double)NAN), -EINVAL);
    ck_assert(weft_selector_sleep(selector, &op, INFINITY) == PENDING);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
}

TEST(a_poll_ends_after_its_time)
{
    double before = weft_selector_now();
    ck_assert_int_eq(weft_selector_poll(selector, 0.02), 0);
    ck_assert(weft_selector_now() - before >= 0.02);
    before = weft_selector_now();
    ck_assert_int_eq(weft_selector_poll(selector, 0.15), 0); /* longer than the check */
    ck_assert(weft_selector_now() - before >= 0.15);
    ck_assert_int_eq(weft_selector_poll(selector, -1), -EINVAL);
    ck_assert_int_eq(weft_selector_poll(selector, (double)NAN), -EINVAL);
}

TEST_LOOP(a_limit_ends_an_operation_and_takes_no_data, FD_KINDS)
{
    open_kind(_i);
    ck_assert(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT) == PENDING);
    ck_assert_int_eq(weft_selector_limit(selector, &op, 0.01), 0);
    ck_assert_int_eq(finish(&op, PENDING), -ETIMEDOUT);
    ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
    ck_assert_int_eq(weft_selector_limit(selector, &op, 0), 0);
    ck_assert_int_eq(finish(&op, PENDING), -ETIMEDOUT);
    put(fd[1], "ab");
    ck_assert_int_eq(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT), 2);
    close_pair(fd);
}

TEST(a_limit_can_be_replaced_and_removed_and_does_not_outlive_its_operation)
{
    new_pipe(fd);
    ck_assert_int_eq(weft_selector_limit(selector, &op, 1), -EINVAL); /* not pending */
    ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
    ck_assert_int_eq(weft_selector_limit(selector, &op, -1), -EINVAL);
    ck_assert_int_eq(weft_selector_limit(selector, &op, 0), 0);
    ck_assert_int_eq(weft_selector_limit(selector, &op, INFINITY), 0);
    assert_none_completes();
    ck_assert_int_eq(weft_selector_limit(selector, &op, 0.001), 0);
    put(fd[1], "a");
    ck_assert_int_eq(weft_selector_poll(selector, INFINITY), 1);
    ck_assert_int_eq(weft_selector_limit(selector, &op, 0), 0); /* has no effect any more */
    ck_assert_ptr_eq(weft_selector_next(selector), &op);
    weft_selector_op sleep = {0};
    ck_assert_int_eq(finish(&sleep, weft_selector_sleep(selector, &sleep, 0.005)), 0);
    assert_none_completes();
    close_pair(fd);
}

/* Cancellation. */

TEST_LOOP(a_cancelled_read_takes_no_data, FD_KINDS)
{
    for (int polls = 0; polls < 2; polls++) {
        open_kind(_i);
        ck_assert(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT) == PENDING);
        if (polls)
            assert_none_completes();
        ck_assert_int_eq(cancel_and_finish(&op), -ECANCELED);
        put(fd[1], "ab");
        ck_assert_int_eq(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT), 2);
        close_pair(fd);
    }
}

TEST_LOOP(a_cancelled_wait_ends_at_once, FD_KINDS)
{
    for (int polls = 0; polls < 2; polls++) {
        open_kind(_i);
        ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
        if (polls)
            assert_none_completes();
        ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
        ck_assert_int_eq(op.result, -ECANCELED);
        ck_assert_uint_eq(weft_selector_pending(selector), 0);
        memset(&op, 0xff, sizeof op); /* the host may free it */
        put(fd[1], "a");
        assert_none_completes();
        memset(&op, 0, sizeof op);
        ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, fd[0], POLLIN)), POLLIN);
        close_pair(fd);
    }
}

TEST(cancelling_a_completed_operation_returns_its_result)
{
    new_pipe(fd);
    ck_assert(weft_selector_read(selector, &op, fd[0], got, 8, CURRENT) == PENDING);
    put(fd[1], "abc");
    while (weft_selector_poll(selector, INFINITY) == 0)
        continue;
    ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
    ck_assert_int_eq(op.result, 3);
    ck_assert_uint_eq(weft_selector_pending(selector), 0);
    ck_assert_ptr_null(weft_selector_next(selector));
    ck_assert_int_eq(weft_selector_cancel(selector, &op), -EINVAL);
    close_pair(fd);
}

TEST(a_cancelled_sleep_does_not_complete)
{
    ck_assert(weft_selector_sleep(selector, &op, 0) == PENDING);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
    assert_none_completes();
}

TEST(closing_a_selector_cancels_everything)
{
    weft_selector *s = new_selector();
    weft_selector_op *ops = calloc(5, sizeof *ops);
    char *buffer = malloc(8);
    new_sockets(fd);
    ck_assert(weft_selector_read(s, &ops[0], fd[0], buffer, 8, CURRENT) == PENDING);
    ck_assert(weft_selector_wait_fd(s, &ops[1], fd[0], POLLIN) == PENDING);
    ck_assert(weft_selector_sleep(s, &ops[2], 1) == PENDING);
    ck_assert_int_eq(weft_selector_poll(s, 0), 0);
    ck_assert(weft_selector_wait_fd(s, &ops[3], fd[1], POLLIN) == PENDING);
    ck_assert_int_eq(weft_selector_cancel(s, &ops[1]), 0);
    ck_assert(weft_selector_sleep(s, &ops[4], 0) == PENDING);
    free(ops); /* only buffers must be valid */
    weft_selector_close(s);
    free(buffer);
    close_pair(fd);
}

/* Errors. */

TEST(bad_descriptors_and_arguments_are_errors)
{
    for (int bad = -1; bad < 1 << 20; bad += 1 << 20) {
        ck_assert_int_eq(finish(&op, weft_selector_wait_fd(selector, &op, bad, POLLIN)), -EBADF);
        ck_assert_int_eq(finish(&op, weft_selector_read(selector, &op, bad, got, 1, CURRENT)),
                         -EBADF);
        ck_assert_int_eq(finish(&op, weft_selector_accept(selector, &op, bad, NULL, NULL)), -EBADF);
        ck_assert_int_eq(weft_selector_close_fd(selector, bad), -EBADF);
    }
    new_pipe(fd);
    ck_assert_int_eq(weft_selector_wait_fd(selector, &op, fd[0], 0), -EINVAL);
    ck_assert_int_eq(weft_selector_wait_fd(selector, &op, fd[0], POLLRDHUP), -EINVAL);
    ck_assert_int_eq(weft_selector_offload(selector, &op, NULL, NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), -EINVAL);
    ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
    ck_assert_int_eq(weft_selector_sleep(selector, &op, 0), -EBUSY);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
    ck_assert_int_eq(finish(&op, weft_selector_accept(selector, &op, fd[0], NULL, NULL)),
                     -ENOTSOCK);
    close_pair(fd);
}

TEST(the_backend_is_chosen_by_name_or_by_the_environment)
{
    weft_selector *s;
    ck_assert_int_eq(weft_selector_open(&s, &(weft_selector_options){.backend = "sim"}),
                     -EOPNOTSUPP);
    ck_assert_int_eq(weft_selector_open(&s, &(weft_selector_options){.backend = "kqueue"}),
                     -EINVAL);
    ck_assert_int_eq(weft_selector_open(NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_selector_open(&s, &(weft_selector_options){.backend = "epoll"}), 0);
    ck_assert_str_eq(weft_selector_backend(s), "epoll");
    weft_selector_close(s);
    setenv("WEFT_BACKEND", "sim", 1);
    ck_assert_int_eq(weft_selector_open(&s, NULL), -EOPNOTSUPP);
    weft_selector_close(NULL);
}
