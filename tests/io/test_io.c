/* I/O: what comes through, whom a wait holds up, and what becomes of one that is cut short. */
#include "support.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>

static bool is_in_memory(void)
{
    return strcmp(weft_backend_name(), "sim") == 0;
}

static size_t ops_pending(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.ops_pending;
}

static void close_both(const int fd[2])
{
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

/* A pipe, or in the second round two sockets. */
static void open_pair(int fd[2], int round)
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

/* A fiber that waits in its read. */
static weft_fiber spin_reader(reading *r, int fd)
{
    r->fd = fd;
    weft_fiber f = weft_spin(read_some, r);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_uint_eq(ops_pending(), 1);
    return f;
}

/* P60 */
START_TEST(a_read_waits_for_a_write)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        reading r;
        open_pair(fd, round);
        weft_fiber f = spin_reader(&r, fd[0]);
        ck_assert_int_eq(weft_write(fd[1], "hello", 5), 5);
        ck_assert_int_eq(weft_await(f), 5);
        ck_assert_mem_eq(r.data, "hello", 5);
        close_both(fd);
    }
}
END_TEST

/* P60. On io_uring every operation waits for its turn to go to the kernel. */
START_TEST(what_is_there_already_is_read_without_a_switch)
{
    if (strcmp(weft_backend_name(), "io_uring") == 0)
        return;
    int fd[2];
    char data[8];
    open_pair(fd, 0);
    ck_assert_int_eq(weft_write(fd[1], "hello", 5), 5);
    weft_counters c;
    weft_stats(&c);
    ck_assert_int_eq(weft_read(fd[0], data, 3), 3);
    ck_assert_int_eq(weft_read(fd[0], data + 3, 5), 2);
    ck_assert_mem_eq(data, "hello", 5);
    weft_stats(&c);
    ck_assert_uint_eq(c.switches, 0);
    ck_assert_uint_eq(c.ops, 2);
    close_both(fd);
}
END_TEST

START_TEST(two_sockets_talk_in_both_directions)
{
    int fd[2];
    char data[4];
    open_pair(fd, 1);
    ck_assert_int_eq(weft_write(fd[0], "ping", 4), 4);
    ck_assert_int_eq(weft_write(fd[1], "pong", 4), 4);
    ck_assert_int_eq(weft_read(fd[0], data, 4), 4);
    ck_assert_mem_eq(data, "pong", 4);
    ck_assert_int_eq(weft_read(fd[1], data, 4), 4);
    ck_assert_mem_eq(data, "ping", 4);
    close_both(fd);
}
END_TEST

/* P60 */
START_TEST(a_read_after_the_last_data_returns_0_also_one_that_waits_already)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        char data[8];
        reading r;
        open_pair(fd, round);
        ck_assert_int_eq(weft_write(fd[1], "last", 4), 4);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        ck_assert_int_eq(weft_read_full(fd[0], data, sizeof data), 4);
        ck_assert_int_eq(weft_read(fd[0], data, sizeof data), 0);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        open_pair(fd, round);
        weft_fiber f = spin_reader(&r, fd[0]);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}
END_TEST

static size_t filled; /* bytes */

static weft_value fill(void *arg)
{
    static const char block[65536];
    ssize_t n;
    while ((n = weft_write(*(int *)arg, block, sizeof block)) > 0)
        filled += (size_t)n;
    return n;
}

/* P60: a signal would end this process */
START_TEST(a_write_to_a_closed_peer_is_an_error_and_no_signal)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        open_pair(fd, round);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(weft_write(fd[1], "x", 1), -EPIPE);
        ck_assert_int_eq(weft_write_all(fd[1], "x", 1), -EPIPE);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        open_pair(fd, round);
        weft_fiber f = weft_spin(fill, &fd[1]);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(weft_await(f), -EPIPE);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
    sigset_t pending;
    sigpending(&pending);
    ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}
END_TEST

#define MUCH ((size_t)1 << 20)

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251);
}

static weft_value write_much(void *arg)
{
    unsigned char *data = malloc(MUCH);
    for (size_t i = 0; i < MUCH; i++)
        data[i] = byte_at(i);
    ssize_t n = weft_write_all(*(int *)arg, data, MUCH);
    free(data);
    return n;
}

/* P60 */
START_TEST(a_megabyte_comes_through_whole_and_in_order)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        open_pair(fd, round);
        weft_fiber f = weft_spin(write_much, &fd[1]);
        unsigned char *data = malloc(MUCH);
        ck_assert_int_eq(weft_read_full(fd[0], data, MUCH), (ssize_t)MUCH);
        for (size_t i = 0; i < MUCH; i++)
            if (data[i] != byte_at(i))
                ck_abort_msg("byte %zu is wrong", i);
        free(data);
        ck_assert_int_eq(weft_await(f), (ssize_t)MUCH);
        close_both(fd);
    }
}
END_TEST

static unsigned random_state = 7;

static unsigned random_below(unsigned n)
{
    random_state = random_state * 1103515245 + 12345;
    return random_state / 65536 % n;
}

/* Writes byte 0, 1, 2, ... until stopped, at odd moments; its value is how many. */
static weft_value trickle(void *arg)
{
    size_t written = 0;
    for (;;) {
        unsigned char bytes[4];
        size_t n = 1 + random_below(4);
        for (size_t i = 0; i < n; i++)
            bytes[i] = byte_at(written + i);
        WEFT_SHIELD(INFINITY) {
            ssize_t w = weft_write_all(*(int *)arg, bytes, n);
            written += w < 0 ? 0 : (size_t)w;
        }
        int rc = random_below(2) == 0 ? weft_snooze() : weft_sleep(random_below(100) * 1e-6);
        if (rc < 0)
            break;
    }
    weft_close(*(int *)arg);
    return (weft_value)written;
}

static void cut_reads_short(int round)
{
    int fd[2];
    size_t got = 0;
    open_pair(fd, round);
    weft_fiber f = weft_spin(trickle, &fd[1]);
    for (int cut_short = 0; cut_short < 200;) {
        WEFT_MOVE_ON_AFTER(random_below(120) * 1e-6) {
            unsigned char bytes[8];
            ssize_t n = weft_read(fd[0], bytes, 1 + random_below(8));
            cut_short += n == -ECANCELED;
            ck_assert(n > 0 || n == -ECANCELED);
            for (ssize_t i = 0; i < n; i++, got++)
                ck_assert_uint_eq(bytes[i], byte_at(got));
        }
    }
    weft_cancel(f);
    unsigned char byte;
    for (; weft_read(fd[0], &byte, 1) == 1; got++)
        ck_assert_uint_eq(byte, byte_at(got));
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_uint_gt(got, 0);
    ck_assert_uint_eq(ops_pending(), 0);
    weft_close(fd[0]);
}

/* P61, T96 */
START_TEST(a_read_of_a_pipe_that_is_cancelled_loses_no_data)
{
    cut_reads_short(0);
}
END_TEST

/* P61, T96 */
START_TEST(a_read_of_a_socket_that_is_cancelled_loses_no_data)
{
    cut_reads_short(1);
}
END_TEST

/* P61, P63 */
START_TEST(data_that_comes_with_a_cancel_is_delivered_or_still_there)
{
    int fd[2];
    open_pair(fd, 1);
    for (int i = 0; i < 200; i++) {
        reading r;
        char byte = 0;
        weft_fiber f = spin_reader(&r, fd[0]);
        r.data[0] = 0;
        ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
        if (random_below(2) == 0)
            weft_sleep(0);
        weft_cancel(f); /* its value is not told, but what it read is in r */
        weft_value rc = weft_await(f);
        ck_assert(rc == -ECANCELED || rc == 1); /* it may have ended before */
        if (r.data[0] != 'x') {
            ck_assert_int_eq(weft_read(fd[0], &byte, 1), 1);
            ck_assert_int_eq(byte, 'x');
        }
        ck_assert_uint_eq(ops_pending(), 0);
    }
    close_both(fd);
}
END_TEST

/* P65, T98 */
START_TEST(closing_a_descriptor_wakes_those_who_wait_on_it)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        reading a, b;
        open_pair(fd, round);
        weft_fiber first = spin_reader(&a, fd[0]);
        b.fd = fd[0];
        weft_fiber second = weft_spin(read_some, &b);
        let_run();
        ck_assert_int_eq(weft_close(fd[0]), 0);
        ck_assert_int_eq(weft_await(first), -EBADF);
        ck_assert_int_eq(weft_await(second), -EBADF);
        ck_assert_int_eq(weft_close(fd[0]), -EBADF);
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
}
END_TEST

/* P65 */
START_TEST(one_who_waited_on_a_closed_descriptor_gets_no_data_of_the_next_with_its_number)
{
    for (int i = 0; i < 10; i++) {
        int old[2], new[2];
        reading r, s;
        open_pair(old, i % 2);
        weft_fiber f = spin_reader(&r, old[0]);
        weft_close(old[0]);
        weft_close(old[1]);
        open_pair(new, i % 2);
        weft_fiber g = weft_spin(read_some, (s.fd = new[0], &s));
        ck_assert_int_eq(weft_await(f), -EBADF);
        ck_assert_int_eq(weft_write(new[1], "new", 3), 3);
        ck_assert_int_eq(weft_await(g), 3);
        close_both(new);
    }
}
END_TEST

/* P64 */
START_TEST(an_interrupted_read_returns_the_value_and_the_data_is_for_the_next)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        reading r;
        char data[4];
        open_pair(fd, round);
        weft_fiber f = spin_reader(&r, fd[0]);
        ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
        ck_assert_int_eq(weft_interrupt(f, -42), 0);
        ck_assert_int_eq(weft_write(fd[1], "data", 4), 4);
        ck_assert_int_eq(weft_await(f), -42);
        ck_assert_uint_eq(ops_pending(), 0);
        ck_assert_int_eq(weft_read(fd[0], data, 4), 4);
        ck_assert_mem_eq(data, "data", 4);
        close_both(fd);
    }
}
END_TEST

/* P45, P61 */
START_TEST(a_read_that_runs_out_of_time_can_be_made_again)
{
    for (int round = 0; round < 2; round++) {
        int fd[2], rc = 1;
        char data[4];
        open_pair(fd, round);
        WEFT_CANCEL_AFTER(0.002, rc) {
            ck_assert_int_eq(weft_read(fd[0], data, 4), -ECANCELED);
        }
        ck_assert_int_eq(rc, -ETIMEDOUT);
        ck_assert_int_eq(weft_write(fd[1], "data", 4), 4);
        ck_assert_int_eq(weft_read(fd[0], data, 4), 4);
        ck_assert_mem_eq(data, "data", 4);
        close_both(fd);
    }
}
END_TEST

/* P63 */
START_TEST(a_write_that_is_cancelled_while_there_is_no_room_has_written_nothing)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        open_pair(fd, round);
        weft_fiber f = weft_spin(fill, &fd[1]);
        let_run();
        ck_assert_uint_eq(ops_pending(), 1);
        weft_stop(f, 7);
        ck_assert_int_eq(weft_await(f), 7);
        ck_assert_uint_eq(ops_pending(), 0);
        ck_assert_int_eq(weft_close(fd[1]), 0);
        static char rest[65536];
        for (ssize_t n; (n = weft_read(fd[0], rest, sizeof rest)) > 0;)
            filled -= (size_t)n;
        ck_assert_uint_eq(filled, 0);
        ck_assert_int_eq(weft_close(fd[0]), 0);
    }
}
END_TEST

/* T97 */
START_TEST(two_who_wait_on_one_descriptor_are_served_in_their_order)
{
    int fd[2];
    reading a, b;
    open_pair(fd, 0);
    weft_fiber first = spin_reader(&a, fd[0]);
    b.fd = fd[0];
    weft_fiber second = weft_spin(read_some, &b);
    let_run();
    ck_assert_int_eq(weft_write(fd[1], "one", 3), 3);
    ck_assert_int_eq(weft_await(first), 3);
    ck_assert_mem_eq(a.data, "one", 3);
    ck_assert_int_eq(weft_state_of(second), WEFT_WAITING);
    ck_assert_int_eq(weft_write(fd[1], "two", 3), 3);
    ck_assert_int_eq(weft_await(second), 3);
    ck_assert_mem_eq(b.data, "two", 3);
    close_both(fd);
}
END_TEST

/* T97 */
START_TEST(when_the_first_of_two_who_wait_is_cancelled_the_second_gets_the_data)
{
    int fd[2];
    reading a, b;
    open_pair(fd, 0);
    weft_fiber first = spin_reader(&a, fd[0]);
    b.fd = fd[0];
    weft_fiber second = weft_spin(read_some, &b);
    let_run();
    weft_cancel(first); /* before: else the kernel may have given it the data already */
    ck_assert_int_eq(weft_write(fd[1], "data", 4), 4);
    ck_assert_int_eq(weft_await(first), -ECANCELED);
    ck_assert_int_eq(weft_await(second), 4);
    close_both(fd);
}
END_TEST

/* API: weft_wait_fd */
START_TEST(waiting_for_readiness_tells_what_a_descriptor_is_ready_for)
{
    int fd[2];
    char byte;
    open_pair(fd, 1);
    ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN | POLLOUT), POLLOUT);
    ck_assert_int_eq(weft_wait_fd(fd[0], 0), -EINVAL);
    ck_assert_any_words(-EINVAL);
    WEFT_MOVE_ON_AFTER(0.002) {
        ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN), -ECANCELED);
    }
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    ck_assert_int_eq(weft_wait_fd(fd[0], POLLIN), POLLIN);
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 1);
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert(weft_wait_fd(fd[0], POLLIN) & POLLHUP);
    ck_assert_int_eq(weft_close(fd[0]), 0);
}
END_TEST

/* API: weft_wait_fd */
START_TEST(a_file_cannot_be_waited_on_but_can_be_read_and_written)
{
    FILE *file = tmpfile();
    int fd = fileno(file);
    char data[5];
    ck_assert_int_eq(weft_wait_fd(fd, POLLIN), -EPERM);
    ck_assert_int_eq(weft_write_all(fd, "words", 5), 5);
    ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
    ck_assert_int_eq(weft_read_full(fd, data, 5), 5);
    ck_assert_mem_eq(data, "words", 5);
    ck_assert_int_eq(weft_read(fd, data, 5), 0);
    fclose(file);
}
END_TEST

START_TEST(what_is_no_descriptor_is_refused)
{
    static const int bad[] = {-1, 1000, 1 << 29};
    char byte = 0;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_read(bad[i], &byte, 1), -EBADF);
        ck_assert_int_eq(weft_write(bad[i], &byte, 1), -EBADF);
        ck_assert_int_eq(weft_wait_fd(bad[i], POLLIN), -EBADF);
        ck_assert_int_eq(weft_close(bad[i]), -EBADF);
    }
}
END_TEST

START_TEST(a_pipe_has_one_direction_and_reading_nothing_does_not_wait)
{
    int fd[2];
    char byte = 0;
    open_pair(fd, 0);
    ck_assert_int_eq(weft_write(fd[0], &byte, 1), -EBADF);
    ck_assert_int_eq(weft_read(fd[1], &byte, 1), -EBADF);
    ck_assert_int_eq(weft_read(fd[0], &byte, 0), 0);
    ck_assert_int_eq(weft_write_all(fd[1], &byte, 0), 0);
    ck_assert_int_eq(weft_read_full(fd[0], &byte, 0), 0);
    close_both(fd);
}
END_TEST

/* API: weft_close */
START_TEST(a_descriptor_is_closed_also_by_one_who_is_cancelled)
{
    int fd[2];
    char byte;
    open_pair(fd, 0);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_close(fd[1]), 0);
    }
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 0);
    ck_assert_int_eq(weft_close(fd[0]), 0);
}
END_TEST

/* DESIGN 1: main reads from a terminal or a pipe that blocks */
START_TEST(a_descriptor_that_blocks_holds_up_its_fiber_only_and_stays_as_it_is)
{
    if (is_in_memory())
        return; /* there only pipes of weft do not block the thread */
    int fd[2];
    reading r;
    ck_assert_int_eq(pipe(fd), 0);
    int flags = fcntl(fd[0], F_GETFL);
    ck_assert_int_eq(flags & O_NONBLOCK, 0);
    weft_fiber f = spin_reader(&r, fd[0]);
    ck_assert_int_eq(weft_sleep(0.002), 0);
    ck_assert_int_eq(fcntl(fd[0], F_GETFL), flags);
    ck_assert_int_eq(write(fd[1], "typed\n", 6), 6);
    ck_assert_int_eq(weft_await(f), 6);
    f = weft_spin(fill, &fd[1]);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(fcntl(fd[1], F_GETFL) & O_NONBLOCK, 0);
    weft_stop(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    close_both(fd);
}
END_TEST

/* DESIGN 7 */
START_TEST(a_descriptor_that_does_not_block_is_waited_for_all_the_same)
{
    if (is_in_memory())
        return;
    int fd[2];
    reading r;
    ck_assert_int_eq(pipe2(fd, O_NONBLOCK), 0);
    weft_fiber f = spin_reader(&r, fd[0]);
    ck_assert_int_eq(weft_write(fd[1], "data", 4), 4);
    ck_assert_int_eq(weft_await(f), 4);
    close_both(fd);
}
END_TEST

/* A listening socket on a free port of this machine, and its address. */
static int listen_here(struct sockaddr_in *address)
{
    socklen_t bytes = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET};
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)address, bytes), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)address, &bytes), 0);
    return fd;
}

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char data[64];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0 && weft_write_all(fd, data, (size_t)n) == n)
        continue;
    weft_close(fd);
    return n;
}

static weft_value serve(void *arg)
{
    int listener = *(int *)arg, fd;
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    while ((fd = weft_accept(listener, (struct sockaddr *)&peer, &bytes)) >= 0) {
        if (peer.sin_family != AF_INET || !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
            return 1;
        weft_go(echo, as_arg(fd));
        bytes = sizeof peer;
    }
    return fd;
}

/* P70, P63 */
START_TEST(connections_over_tcp_are_accepted_and_served_side_by_side)
{
    if (is_in_memory())
        return;
    struct sockaddr_in address;
    int listener = listen_here(&address), fd[8];
    weft_fiber server = weft_spin(serve, &listener);
    for (size_t i = 0; i < COUNT_OF(fd); i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(weft_connect(fd[i], (struct sockaddr *)&address, sizeof address), 0);
    }
    for (size_t i = COUNT_OF(fd); i-- > 0;) {
        char sent[3] = {'n', 'r', (char)('0' + i)}, got[3];
        ck_assert_int_eq(weft_write_all(fd[i], sent, 3), 3);
        ck_assert_int_eq(weft_read_full(fd[i], got, 3), 3);
        ck_assert_mem_eq(got, sent, 3);
    }
    for (size_t i = 0; i < COUNT_OF(fd); i++)
        ck_assert_int_eq(weft_close(fd[i]), 0);
    ck_assert_int_eq(weft_close(listener), 0);
    ck_assert_int_eq(weft_await(server), -EBADF);
    ck_assert_int_eq(weft_snooze(), 0);
}
END_TEST

/* P63, T95 */
START_TEST(accept_and_connect_fail_as_the_system_calls_do_and_can_be_cancelled)
{
    if (is_in_memory())
        return;
    struct sockaddr_in address;
    int listener = listen_here(&address), rc = 1;
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert_int_eq(weft_accept(listener, NULL, NULL), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_uint_eq(ops_pending(), 0);
    ck_assert_int_eq(weft_close(listener), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(weft_connect(fd, (struct sockaddr *)&address, sizeof address), -ECONNREFUSED);
    ck_assert_int_eq(weft_accept(fd, NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_close(fd), 0);
}
END_TEST

START_TEST(no_memory_to_read_into_or_write_from_is_efault_and_nothing_is_lost)
{
    for (int round = 0; round < 2; round++) {
        int fd[2];
        char got[8] = "";
        struct iovec nowhere = {NULL, 4};
        open_pair(fd, round);
        ck_assert_int_eq(weft_write(fd[1], NULL, 4), -EFAULT);
        ck_assert_int_eq(weft_writev(fd[1], &nowhere, 1), -EFAULT);
        ck_assert_int_eq(weft_writev(fd[1], NULL, 1), -EFAULT);
        ck_assert_int_eq(weft_write(fd[1], NULL, 0), 0);
        ck_assert_int_eq(weft_write(fd[1], "abcd", 4), 4);
        ck_assert_int_eq(weft_read(fd[0], NULL, 4), -EFAULT);
        ck_assert_int_eq(weft_readv(fd[0], &nowhere, 1), -EFAULT);
        ck_assert_int_eq(weft_readv(fd[0], NULL, 1), -EFAULT);
        ck_assert_int_eq(weft_read(fd[0], NULL, 0), 0);
        if (round == 1) {
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
        close_both(fd);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_read_waits_for_a_write,
    &what_is_there_already_is_read_without_a_switch,
    &two_sockets_talk_in_both_directions,
    &a_read_after_the_last_data_returns_0_also_one_that_waits_already,
    &a_write_to_a_closed_peer_is_an_error_and_no_signal,
    &a_megabyte_comes_through_whole_and_in_order,
    &a_read_of_a_pipe_that_is_cancelled_loses_no_data,
    &a_read_of_a_socket_that_is_cancelled_loses_no_data,
    &data_that_comes_with_a_cancel_is_delivered_or_still_there,
    &closing_a_descriptor_wakes_those_who_wait_on_it,
    &one_who_waited_on_a_closed_descriptor_gets_no_data_of_the_next_with_its_number,
    &an_interrupted_read_returns_the_value_and_the_data_is_for_the_next,
    &a_read_that_runs_out_of_time_can_be_made_again,
    &a_write_that_is_cancelled_while_there_is_no_room_has_written_nothing,
    &two_who_wait_on_one_descriptor_are_served_in_their_order,
    &when_the_first_of_two_who_wait_is_cancelled_the_second_gets_the_data,
    &waiting_for_readiness_tells_what_a_descriptor_is_ready_for,
    &a_file_cannot_be_waited_on_but_can_be_read_and_written,
    &what_is_no_descriptor_is_refused,
    &a_pipe_has_one_direction_and_reading_nothing_does_not_wait,
    &a_descriptor_is_closed_also_by_one_who_is_cancelled,
    &a_descriptor_that_blocks_holds_up_its_fiber_only_and_stays_as_it_is,
    &a_descriptor_that_does_not_block_is_waited_for_all_the_same,
    &connections_over_tcp_are_accepted_and_served_side_by_side,
    &accept_and_connect_fail_as_the_system_calls_do_and_can_be_cancelled,
    &no_memory_to_read_into_or_write_from_is_efault_and_nothing_is_lost,
};

int main(void)
{
    return run_suite("io", tests, COUNT_OF(tests));
}
