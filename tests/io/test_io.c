/* Tests of reads, writes and readiness waits: data, order, blocking, and interrupted calls. */
#include "support/net_support.h"
#include "support/suite.h"

/* The descriptors of a test: a pipe in round 0, else a socket pair. */
static int fd[2];

static void open_pipe_or_sockets(int round)
{
    ck_assert_int_eq(round == 0 ? weft_pipe(fd) : weft_socketpair(fd), 0);
}

typedef struct reading {
    int fd;
    char data[64];
} reading;

static weft_value read_some(void *arg)
{
    reading *r = arg;
    return weft_read(r->fd, r->data, sizeof r->data);
}

/* Return a fiber that waits in weft_read. */
static weft_fiber spin_reader(reading *r)
{
    r->fd = fd[0];
    weft_fiber f = spin_waiting(read_some, r);
    ck_assert_uint_eq(ops_pending(), 1);
    return f;
}

/* P60. On io_uring every operation waits for the next submission. */
TEST(available_data_is_read_without_a_switch)
{
    if (strcmp(weft_backend_name(), "io_uring") == 0)
        return;
    char data[8];
    open_pipe_or_sockets(0);
    ck_assert_int_eq(weft_write(fd[1], "hello", 5), 5);
    weft_counters before, after;
    weft_stats(&before);
    ck_assert_int_eq(weft_read(fd[0], data, 3), 3);
    ck_assert_int_eq(weft_read(fd[0], data + 3, 5), 2);
    ck_assert_mem_eq(data, "hello", 5);
    weft_stats(&after);
    ck_assert_uint_eq(after.switches, before.switches);
    ck_assert_uint_eq(after.ops, before.ops + 2);
    close_idle_fd_pair(fd);
}

/* P60 */
TEST_LOOP(a_read_at_the_end_returns_0_even_if_it_already_waits, 2)
{
    char data[8];
    reading r;
    open_pipe_or_sockets(_i);
    ck_assert_int_eq(weft_write(fd[1], "last", 4), 4);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_int_eq(weft_read_full(fd[0], data, sizeof data), 4);
    ck_assert_int_eq(weft_read(fd[0], data, sizeof data), 0);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    open_pipe_or_sockets(_i);
    weft_fiber f = spin_reader(&r);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

static weft_value write_until_error(void *arg)
{
    static const char block[65536];
    ssize_t n;
    while ((n = weft_write(*(int *)arg, block, sizeof block)) > 0)
        continue;
    return n;
}

/* P60: SIGPIPE would end this process */
TEST(a_write_to_a_closed_peer_fails_without_a_signal)
{
    for (int round = 0; round < 2; round++) {
        open_pipe_or_sockets(round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(weft_write(fd[1], "x", 1), -EPIPE);
        ck_assert_int_eq(weft_write_all(fd[1], "x", 1), -EPIPE);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        open_pipe_or_sockets(round);
        weft_fiber f = spin_waiting(write_until_error, &fd[1]);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(weft_await(f), -EPIPE);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
    sigset_t pending;
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}

#define MIB ((size_t)1 << 20)

/* Parts of a page, so that a full pipe ends a write between two of them. */
#define PIECES (MIB / 4096)

static weft_value write_mebibyte(void *arg)
{
    unsigned char *data = malloc(MIB);
    fill_from(data, MIB, 0);
    ssize_t n = weft_write_all(*(int *)arg, data, MIB);
    free(data);
    return n;
}

static weft_value write_mebibyte_in_pieces(void *arg)
{
    static unsigned char data[MIB];
    struct iovec pieces[PIECES];
    fill_from(data, MIB, 0);
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){data + i * 4096, 4096};
    return weft_writev_all(*(int *)arg, pieces, PIECES);
}

/* P60 */
TEST_LOOP(a_mebibyte_arrives_complete_and_in_order, 4)
{
    open_pipe_or_sockets(_i % 2);
    weft_fiber f = weft_spin(_i < 2 ? write_mebibyte : write_mebibyte_in_pieces, &fd[1]);
    unsigned char *data = malloc(MIB);
    ck_assert_int_eq(weft_read_full(fd[0], data, MIB), (ssize_t)MIB);
    assert_bytes_at(data, MIB, 0);
    free(data);
    ck_assert_int_eq(weft_await(f), (ssize_t)MIB);
    close_idle_fd_pair(fd);
}

/* T97 */
TEST_LOOP(two_readers_of_one_descriptor_complete_in_order_unless_one_is_cancelled, 2)
{
    reading a, b = {0};
    open_pipe_or_sockets(0);
    weft_fiber first = spin_reader(&a);
    b.fd = fd[0];
    weft_fiber second = spin_waiting(read_some, &b);
    if (_i == 0) {
        ck_assert_int_eq(weft_write(fd[1], "one", 3), 3);
        ck_assert_int_eq(weft_await(first), 3);
        ck_assert_mem_eq(a.data, "one", 3);
        ck_assert_int_eq(weft_state_of(second), WEFT_WAITING);
    } else {
        weft_cancel(first); /* before the write, otherwise the first read may complete */
    }
    ck_assert_int_eq(weft_write(fd[1], "two", 3), 3);
    if (_i == 1)
        ck_assert_int_eq(weft_await(first), -ECANCELED);
    ck_assert_int_eq(weft_await(second), 3);
    ck_assert_mem_eq(b.data, "two", 3);
    close_idle_fd_pair(fd);
}

/* API: weft_wait_fd */
TEST(waiting_for_readiness_returns_the_ready_events)
{
    char byte;
    open_pipe_or_sockets(1);
    ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN | POLLOUT), POLLOUT);
    ck_assert_fails(weft_wait_fd(fd[0], 0), -EINVAL);
    WEFT_MOVE_ON_AFTER(0.002)
        ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN), -ECANCELED);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN), POLLIN);
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 1);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert(weft_wait_fd(fd[0], POLLIN) & POLLHUP);
}

/* API: weft_wait_fd */
TEST(a_file_cannot_be_waited_on_but_can_be_read_and_written)
{
    FILE *file = tmpfile();
    int plain = fileno(file);
    char data[5];
    ck_assert_int_eq(weft_wait_fd(plain, POLLIN), -EPERM);
    ck_assert_int_eq(weft_write_all(plain, "words", 5), 5);
    ck_assert_int_eq(lseek(plain, 0, SEEK_SET), 0);
    ck_assert_int_eq(weft_read_full(plain, data, 5), 5);
    ck_assert_mem_eq(data, "words", 5);
    ck_assert_int_eq(weft_read(plain, data, 5), 0);
}

TEST(an_invalid_descriptor_is_refused)
{
    static const int bad[] = {-1, 1000, 1 << 29};
    char byte = 0;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_read(bad[i], &byte, 1), -EBADF);
        ck_assert_int_eq(weft_write(bad[i], &byte, 1), -EBADF);
        ck_assert_int_eq(weft_recv(bad[i], &byte, 1, 0), -EBADF);
        ck_assert_int_eq(weft_send(bad[i], &byte, 1, 0), -EBADF);
        ck_assert_int_eq(weft_wait_fd(bad[i], POLLIN), -EBADF);
        ck_assert_int_eq(weft_close(bad[i]), -EBADF);
    }
}

TEST(a_pipe_has_one_direction_and_reading_nothing_does_not_wait)
{
    char byte = 0;
    open_pipe_or_sockets(0);
    ck_assert_int_eq(weft_write(fd[0], &byte, 1), -EBADF);
    ck_assert_int_eq(weft_read(fd[1], &byte, 1), -EBADF);
    ck_assert_int_eq(weft_read(fd[0], &byte, 0), 0);
    ck_assert_int_eq(weft_write_all(fd[1], &byte, 0), 0);
    ck_assert_int_eq(weft_read_full(fd[0], &byte, 0), 0);
    close_idle_fd_pair(fd);
}

/* API: weft_close */
TEST(a_cancelled_fiber_can_close_a_descriptor)
{
    char byte;
    open_pipe_or_sockets(0);
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 0);
}

/* DESIGN 1: main reads from a blocking terminal or pipe */
TEST(a_blocking_descriptor_blocks_only_its_fiber_and_keeps_its_mode)
{
    if (is_sim())
        return; /* on sim, descriptors that weft did not create block the thread */
    reading r;
    ck_assert_int_eq(pipe(fd), 0);
    int flags = fcntl(fd[0], F_GETFL);
    ck_assert_int_eq(flags & O_NONBLOCK, 0);
    weft_fiber f = spin_reader(&r);
    ck_assert_int_eq(weft_sleep(0.002), 0);
    ck_assert_int_eq(fcntl(fd[0], F_GETFL), flags);
    ck_assert_int_eq(write(fd[1], "typed\n", 6), 6);
    ck_assert_int_eq(weft_await(f), 6);
    f = spin_waiting(write_until_error, &fd[1]);
    ck_assert_int_eq(fcntl(fd[1], F_GETFL) & O_NONBLOCK, 0);
    weft_stop(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    close_idle_fd_pair(fd);
}

TEST_LOOP(a_null_buffer_gives_EFAULT_and_loses_no_data, 2)
{
    char got[8] = "";
    struct iovec nowhere = {NULL, 4};
    open_pipe_or_sockets(_i);
    ck_assert_int_eq(weft_write(fd[1], NULL, 4), -EFAULT);
    ck_assert_int_eq(weft_writev(fd[1], &nowhere, 1), -EFAULT);
    ck_assert_int_eq(weft_writev(fd[1], NULL, 1), -EFAULT);
    ck_assert_int_eq(weft_write(fd[1], NULL, 0), 0);
    ck_assert_int_eq(weft_write(fd[1], "abcd", 4), 4);
    ck_assert_int_eq(weft_read(fd[0], NULL, 4), -EFAULT);
    ck_assert_int_eq(weft_readv(fd[0], &nowhere, 1), -EFAULT);
    ck_assert_int_eq(weft_readv(fd[0], NULL, 1), -EFAULT);
    ck_assert_int_eq(weft_read(fd[0], NULL, 0), 0);
    if (_i == 1) {
        struct msghdr message = {.msg_iov = &nowhere, .msg_iovlen = 1};
        ck_assert_int_eq(weft_send(fd[1], NULL, 4, 0), -EFAULT);
        ck_assert_int_eq(weft_sendmsg(fd[1], &message, 0), -EFAULT);
        ck_assert_int_eq(weft_sendmsg(fd[1], NULL, 0), -EFAULT);
        ck_assert_int_eq(weft_recv(fd[0], NULL, 4, 0), -EFAULT);
        ck_assert_int_eq(weft_recvmsg(fd[0], &message, 0), -EFAULT);
        ck_assert_int_eq(weft_recvmsg(fd[0], NULL, 0), -EFAULT);
    }
    ck_assert_int_eq(weft_read(fd[0], got, sizeof got), 4);
    ck_assert_str_eq(got, "abcd");
    close_idle_fd_pair(fd);
}
