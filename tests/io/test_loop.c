/*
 * Tests of accept and receive loops: delivered connections and data, resource shortage, and
 * leftovers for later calls.
 */
#include "support/net_support.h"
#include "support/suite.h"

/* A fiber that runs an accept loop, and its results. */
typedef struct acceptor {
    int listener;
    int fd[64];
    size_t count;
    size_t wanted; /* the callback stops the loop at this count */
    bool is_slow;  /* the callback lets other fibers run */
    int rc;
    weft_fiber fiber;
} acceptor;

#define STOP_LOOP (-EXFULL)

FIXTURE(NULL, assert_nothing_pending)

static int store_conn(int fd, void *ctx)
{
    acceptor *t = ctx;
    t->fd[t->count++] = fd;
    if (t->is_slow)
        weft_sleep(0);
    return t->count < t->wanted ? 0 : STOP_LOOP;
}

static weft_value run_accept_loop(void *arg)
{
    acceptor *t = arg;
    t->rc = weft_accept_loop(t->listener, store_conn, t);
    return 0;
}

static void spin_acceptor(acceptor *t, int listener, size_t wanted)
{
    *t = (acceptor){.listener = listener, .wanted = wanted, .rc = 1000};
    t->fiber = weft_spin(run_accept_loop, t);
    let_run();
}

/* Await a loop that its callback stops. */
static void await_stopped(const acceptor *t)
{
    ck_assert_int_eq(weft_await(t->fiber), 0);
    ck_assert_int_eq(t->rc, STOP_LOOP);
}

static void connect_many(int *fd, size_t count, const endpoint *p)
{
    for (size_t i = 0; i < count; i++) {
        fd[i] = socket_for(p);
        ck_assert_int_eq(connect(fd[i], &p->u.any, p->bytes), 0);
    }
}

/* Assert that ours and theirs are the ends of the same connections. Close all. */
static void assert_match(const int *ours, const int *theirs, size_t count)
{
    bool is_seen[64] = {false};
    for (size_t i = 0; i < count; i++) {
        unsigned char number = (unsigned char)i;
        ck_assert_int_eq(write(theirs[i], &number, 1), 1);
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char number;
        ck_assert_int_eq(weft_read(ours[i], &number, 1), 1);
        ck_assert_uint_lt(number, count);
        ck_assert(!is_seen[number]);
        is_seen[number] = true;
        ck_assert_int_eq(fcntl(ours[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        ck_assert_int_eq(weft_close(ours[i]), 0);
    }
    for (size_t i = 0; i < count; i++)
        close(theirs[i]);
}

static const unsigned families[] = {AF_INET, AF_UNIX};

static int listen_family(unsigned family, endpoint *p)
{
    return family == AF_INET ? listen_tcp(p, 64) : listen_unix(p, 64);
}

TEST_LOOP(an_accept_loop_delivers_every_connection_until_the_callback_stops_it, COUNT_OF(families))
{
    endpoint p;
    acceptor t;
    int theirs[40], listener = listen_family(families[_i], &p);
    spin_acceptor(&t, listener, 40);
    connect_many(theirs, 20, &p);
    while (t.count < 20)
        ck_assert_int_eq(weft_sleep(0), 0);
    connect_many(theirs + 20, 20, &p);
    await_stopped(&t);
    assert_match(t.fd, theirs, 40);
}

/*
 * Read a file and close it with close(2), so that the cached state of its number is stale. Return
 * the number.
 */
static int leave_stale_number(void)
{
    char byte;
    int fd = open_unnamed_file();
    ck_assert_int_eq(write(fd, "x", 1), 1);
    ck_assert_int_eq(weft_pread(fd, &byte, 1, 0), 1);
    ck_assert_int_eq(close(fd), 0);
    return fd;
}

TEST_LOOP(a_connection_is_not_treated_as_the_file_that_had_its_number, 2)
{
    endpoint p;
    acceptor t;
    char text[16];
    int theirs, ours, listener = listen_tcp(&p, 64);
    connect_many(&theirs, 1, &p);
    int number = leave_stale_number();
    if (_i) {
        spin_acceptor(&t, listener, 1);
        ck_assert_int_eq(weft_await(t.fiber), 0);
        ours = t.fd[0];
    } else {
        ours = weft_accept(listener, NULL, NULL);
    }
    ck_assert_int_eq(ours, number);
    ck_assert_int_eq(write(theirs, "hello", 5), 5);
    ck_assert_int_eq(weft_read(ours, text, sizeof text), 5);
}

/* Connections that the kernel has accepted in advance are not lost. */
TEST(leftover_connections_of_a_loop_are_returned_by_the_next_accepts)
{
    warm_up();
    size_t descriptors = count_descriptors();
    for (int round = 0; round < 12; round++) {
        endpoint p, from = {.bytes = sizeof from.u};
        acceptor t;
        int theirs[30], ours[30], listener = listen_family(families[round % 2], &p);
        size_t accepted = (size_t)round + 1;
        spin_acceptor(&t, listener, accepted);
        t.is_slow = round % 4 >= 2;
        connect_many(theirs, 30, &p);
        await_stopped(&t);
        ck_assert_uint_eq(t.count, accepted);
        memcpy(ours, t.fd, accepted * sizeof *ours);
        for (size_t i = accepted; i < 20; i++)
            ours[i] = weft_accept(listener, &from.u.any, &from.bytes);
        ck_assert_uint_eq(from.u.any.sa_family, families[round % 2]);
        spin_acceptor(&t, listener, 10); /* the remaining connections go to another loop */
        ck_assert_int_eq(weft_await(t.fiber), 0);
        memcpy(ours + 20, t.fd, 10 * sizeof *ours);
        assert_match(ours, theirs, 30);
        assert_nothing_pending();
        ck_assert_int_eq(weft_close(listener), 0);
        ck_assert_uint_eq(count_descriptors(), descriptors);
    }
}

/* Accept one connection. */
static weft_value accept_one(void *arg)
{
    acceptor *t = arg;
    t->fd[0] = weft_accept(t->listener, NULL, NULL);
    t->count = 1;
    return 0;
}

TEST_LOOP(leftover_connections_of_a_loop_go_to_the_waiters_behind_it, 4)
{
    endpoint p;
    acceptor first, second;
    int theirs[12], ours[12], listener = listen_tcp(&p, 64);
    spin_acceptor(&first, listener, 2);
    first.is_slow = true;
    if (_i % 2 == 0) {
        spin_acceptor(&second, listener, 10);
    } else {
        second = (acceptor){.listener = listener, .wanted = 1};
        second.fiber = weft_spin(accept_one, &second);
        let_run();
    }
    connect_many(theirs, 12, &p);
    ck_assert_int_eq(weft_await(first.fiber), 0);
    ck_assert_int_eq(weft_await(second.fiber), 0); /* there is enough for both */
    size_t count = first.count + second.count;
    ck_assert_uint_eq(count, _i % 2 == 0 ? 12 : 3);
    memcpy(ours, first.fd, first.count * sizeof *ours);
    memcpy(ours + first.count, second.fd, second.count * sizeof *ours);
    for (; count < 12; count++)
        ours[count] = weft_accept(listener, NULL, NULL);
    assert_match(ours, theirs, 12);
}

/* Both loops end with leftover connections. */
TEST(leftover_connections_of_two_loops_are_all_returned_by_the_next_accepts)
{
    warm_up();
    size_t descriptors = count_descriptors();
    endpoint p;
    acceptor a, b;
    int theirs[40], ours[40], listener = listen_tcp(&p, 64);
    spin_acceptor(&a, listener, 1);
    spin_acceptor(&b, listener, 1);
    connect_many(theirs, 20, &p);
    ck_assert_int_eq(weft_await(a.fiber), 0);
    connect_many(theirs + 20, 20, &p);
    ck_assert_int_eq(weft_await(b.fiber), 0);
    ours[0] = a.fd[0];
    ours[1] = b.fd[0];
    for (size_t i = 2; i < 40; i++)
        ours[i] = weft_accept(listener, NULL, NULL);
    assert_match(ours, theirs, 40);
    ck_assert_int_eq(weft_close(listener), 0);
    ck_assert_uint_eq(count_descriptors(), descriptors);
}

/* The loop ends by a cancellation or by a raised error. */
TEST(an_interrupted_accept_loop_loses_no_connection)
{
    static const int ends[] = {-ECANCELED, -ENOTNAM, -ECANCELED};
    warm_up();
    size_t descriptors = count_descriptors();
    for (int round = 0; round < 30; round++) {
        endpoint p;
        acceptor t;
        int theirs[30], listener = listen_family(families[round % 2], &p);
        spin_acceptor(&t, listener, 1000);
        if (round % 5 != 0)
            ck_assert_int_eq(weft_sleep(0), 0);
        connect_many(theirs, 30, &p);
        if (round % 7 != 0)
            ck_assert_int_eq(weft_sleep(0), 0);
        if (round % 3 == 1)
            weft_raise(t.fiber, -ENOTNAM, "raised");
        else
            weft_cancel(t.fiber);
        ck_assert_int_eq(weft_await(t.fiber), round % 3 == 1 ? 0 : -ECANCELED);
        ck_assert_int_eq(t.rc, ends[round % 3]);
        while (t.count < 30)
            t.fd[t.count++] = weft_accept(listener, NULL, NULL);
        assert_match(t.fd, theirs, 30);
        assert_nothing_pending();
        ck_assert_int_eq(weft_close(listener), 0);
    }
    ck_assert_uint_eq(count_descriptors(), descriptors);
}

/* The peers of connections that were not delivered see the close. */
TEST(closing_a_listener_ends_the_loop_and_closes_undelivered_connections)
{
    warm_up();
    size_t descriptors = count_descriptors();
    for (int round = 0; round < 6; round++) {
        endpoint p;
        acceptor t;
        char byte;
        int theirs[30], listener = listen_family(families[round % 2], &p);
        spin_acceptor(&t, listener, 1000);
        ck_assert_int_eq(weft_sleep(0), 0);
        if (round >= 2)
            connect_many(theirs, 30, &p);
        if (round >= 4)
            ck_assert_int_eq(weft_sleep(0), 0);
        ck_assert_int_eq(weft_close(listener), 0);
        ck_assert_int_eq(weft_await(t.fiber), 0);
        ck_assert_int_eq(t.rc, -EBADF);
        for (size_t i = 0; i < t.count; i++)
            ck_assert_int_eq(weft_close(t.fd[i]), 0);
        for (int i = 0; round >= 2 && i < 30; i++) {
            ck_assert_int_le(weft_read(theirs[i], &byte, 1), 0);
            ck_assert_int_eq(weft_close(theirs[i]), 0);
        }
        assert_nothing_pending();
        ck_assert_uint_eq(count_descriptors(), descriptors);
    }
}

static void limit_descriptors(int limit)
{
    struct rlimit now;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &now), 0);
    now.rlim_cur = (rlim_t)limit;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
}

static int run_out_of_descriptors(void)
{
    endpoint p;
    acceptor t;
    int theirs[10];
    warm_up();
    int listener = listen_tcp(&p, 64);
    connect_many(theirs, 10, &p);
    limit_descriptors(theirs[9] + 1 + 3);
    spin_acceptor(&t, listener, 10);
    uint64_t polls = stats().polls;
    for (int i = 0; i < 4; i++)
        MUST(weft_sleep(0.05) == 0);
    MUST(t.count == 3 && weft_state_of(t.fiber) != WEFT_DEAD);
    MUST(stats().polls - polls <= 100);
    limit_descriptors(theirs[9] + 20);
    MUST(weft_await(t.fiber) == 0 && t.rc == STOP_LOOP && t.count == 10);
    for (int i = 0; i < 10; i++) {
        char byte;
        MUST(write(theirs[i], "x", 1) == 1 && weft_read(t.fd[i], &byte, 1) == 1);
    }
    return 0;
}

/* The loop continues after a message, without busy polling. */
TEST(an_accept_loop_without_descriptors_prints_one_message_and_continues_later)
{
    if (RUNNING_ON_VALGRIND) {
        printf("skipped: Valgrind closes descriptors beyond its limit, so a connection is lost\n");
        return;
    }
    const outcome *o = run_apart(run_out_of_descriptors);
    ck_assert_msg(o->status == 0, "%d: %s", o->status, o->text);
    ck_assert_uint_eq(count_in(o->text, "\n"), 1);
    assert_printed(o, strerror(EMFILE));
}

/* A fiber that runs a receive loop, and its results. */
typedef struct receiver {
    int fd;
    size_t got;
    size_t wanted; /* the callback stops the loop at this count */
    bool is_slow;  /* the callback sleeps */
    int rc;
    weft_fiber fiber;
} receiver;

static int check_data(const void *data, size_t bytes, void *ctx)
{
    receiver *r = ctx;
    ck_assert_uint_gt(bytes, 0);
    assert_bytes_at(data, bytes, r->got);
    r->got += bytes;
    if (r->is_slow)
        weft_sleep(0.0001);
    return r->got < r->wanted ? 0 : STOP_LOOP;
}

static weft_value run_recv_loop(void *arg)
{
    receiver *r = arg;
    r->rc = weft_recv_loop(r->fd, check_data, r);
    return 0;
}

static void spin_receiver(receiver *r, int fd, size_t got, size_t wanted)
{
    *r = (receiver){.fd = fd, .got = got, .wanted = wanted, .rc = 1000};
    r->fiber = weft_spin(run_recv_loop, r);
    let_run();
}

static weft_value send_stream(void *arg)
{
    int fd = *(int *)arg;
    static unsigned char data[300000];
    fill_from(data, sizeof data, 0);
    ck_assert_int_eq(weft_write_all(fd, data, sizeof data), sizeof data);
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

TEST_LOOP(a_receive_loop_delivers_all_data_in_order_and_returns_at_the_end, STREAM_KINDS)
{
    int fd[2];
    receiver r;
    open_stream(fd, _i);
    spin_receiver(&r, fd[0], 0, SIZE_MAX);
    weft_fiber sender = weft_spin(send_stream, &fd[1]);
    ck_assert_int_eq(weft_await(r.fiber), 0);
    ck_assert_int_eq(weft_await(sender), 0);
    ck_assert_int_eq(r.rc, 0);
    ck_assert_uint_eq(r.got, 300000);
}

/* Write a part of the test stream to fd without weft, in small parts. */
static void put_stream(int fd, size_t from, size_t to)
{
    unsigned char data[100];
    for (size_t n; from < to; from += n) {
        n = 1 + random_below(sizeof data);
        n = n < to - from ? n : to - from;
        fill_from(data, n, from);
        ck_assert_int_eq(write(fd, data, n), (ssize_t)n);
    }
}

/* Read the test stream with single calls, from offset got to offset to. */
static size_t read_stream(int fd, size_t got, size_t to)
{
    while (got < to) {
        unsigned char data[64];
        size_t bytes = 1 + random_below(sizeof data - 1);
        bytes = bytes < to - got ? bytes : to - got;
        ssize_t n =
            random_below(2) == 0 ? weft_read(fd, data, bytes) : weft_read_full(fd, data, bytes);
        ck_assert_int_gt(n, 0);
        assert_bytes_at(data, (size_t)n, got);
        got += (size_t)n;
    }
    return got;
}

/* No byte is lost or duplicated, whichever call reads next. */
TEST_LOOP(leftover_data_of_a_receive_loop_is_returned_by_the_next_read, 12)
{
    random_state = (uint64_t)_i + 1;
    int fd[2];
    char byte;
    receiver r;
    size_t got = 0, end = 0;
    open_stream(fd, _i % STREAM_KINDS);
    for (int stage = 0; stage < 6; stage++) {
        spin_receiver(&r, fd[0], got, got + 200);
        if (_i % 2 == 0)
            ck_assert_int_eq(weft_sleep(0), 0);
        put_stream(fd[1], end, end + 1000);
        end += 1000;
        if (stage % 3 == 2) /* the loop may have received nothing, or more */
            weft_cancel(r.fiber);
        weft_await(r.fiber);
        ck_assert(r.rc == STOP_LOOP || stage % 3 == 2);
        got = r.got;
        if (got < end)
            got = read_stream(fd[0], got, got + 1 + random_below((unsigned)(end - got)));
    }
    ck_assert_uint_eq(read_stream(fd[0], got, end), end);
    assert_nothing_pending();
    ck_assert_int_eq(weft_close(fd[1]), 0);
    ck_assert_int_eq(weft_read(fd[0], &byte, 1), 0);
}

/*
 * The loop starts with partly read leftovers of another loop, and is cancelled before it delivers
 * any.
 */
TEST(a_receive_loop_cancelled_at_its_start_keeps_earlier_leftovers)
{
    int fd[2];
    receiver r;
    static unsigned char data[40000];
    open_stream(fd, 1);
    spin_receiver(&r, fd[0], 0, 1);
    ck_assert_int_eq(weft_sleep(0), 0);
    fill_from(data, sizeof data, 0);
    ck_assert_int_eq(write(fd[1], data, sizeof data), sizeof data);
    ck_assert_int_eq(weft_await(r.fiber), 0);
    ck_assert_int_eq(r.rc, STOP_LOOP);
    const size_t end = sizeof data + 500; /* the loop may have received all of the first data */
    put_stream(fd[1], sizeof data, end);
    size_t got = read_stream(fd[0], r.got, r.got + 7);
    r = (receiver){.fd = fd[0], .got = got, .wanted = SIZE_MAX};
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(weft_recv_loop(fd[0], check_data, &r), -ECANCELED);
    ck_assert_uint_eq(read_stream(fd[0], r.got, end), end);
}

static weft_value trickle(void *arg)
{
    int fd = *(int *)arg;
    for (size_t at = 0; at < 5000;) {
        size_t n = 1 + random_below(40);
        put_stream(fd, at, at + n);
        at += n;
        weft_sleep(random_below(50) * 1e-6);
    }
    ck_assert_int_eq(weft_close(fd), 0);
    return 0;
}

/* P61, for loops: deadlines pass while data arrives */
TEST_LOOP(an_interrupted_receive_loop_loses_no_byte, STREAM_KINDS)
{
    int fd[2], rc = -ECANCELED;
    receiver r = {.wanted = SIZE_MAX};
    open_stream(fd, _i);
    r.fd = fd[0];
    weft_fiber sender = weft_spin(trickle, &fd[1]);
    while (rc == -ECANCELED) {
        WEFT_MOVE_ON_AFTER(random_below(300) * 1e-6)
            rc = weft_recv_loop(fd[0], check_data, &r);
        if (rc == -ECANCELED && random_below(2) == 0 && r.got < 5000)
            r.got = read_stream(fd[0], r.got, r.got + 1);
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(weft_await(sender), 0);
    ck_assert_uint_ge(r.got, 5000);
}

TEST_LOOP(closing_a_descriptor_ends_its_receive_loop, 2 * STREAM_KINDS)
{
    int fd[2];
    receiver r;
    open_stream(fd, _i / 2);
    spin_receiver(&r, fd[0], 0, SIZE_MAX);
    if (_i % 2 == 0)
        ck_assert_int_eq(weft_sleep(0), 0);
    ck_assert_int_eq(weft_close(fd[0]), 0);
    ck_assert_int_eq(weft_await(r.fiber), 0);
    ck_assert_int_eq(r.rc, -EBADF);
}

/* The next file with the same number does not get the leftovers. */
TEST(leftovers_of_a_receive_loop_are_dropped_with_its_descriptor)
{
    int old[2], new[2];
    receiver r;
    char data[8];
    open_stream(old, 1);
    spin_receiver(&r, old[0], 0, 1);
    ck_assert_int_eq(weft_sleep(0), 0);
    put_stream(old[1], 0, 500);
    ck_assert_int_eq(weft_await(r.fiber), 0);
    close_fd_pair(old);
    open_stream(new, 1);
    ck_assert_int_eq(new[0], old[0]);
    ck_assert_int_eq(write(new[1], "new", 3), 3);
    ck_assert_int_eq(weft_read(new[0], data, sizeof data), 3);
    ck_assert_mem_eq(data, "new", 3);
}

/* More loops than registered buffers, each with a slow callback. */
#define LOOPS 600

TEST(more_receive_loops_than_kernel_buffers_lose_no_data)
{
    static receiver r[LOOPS];
    static int fd[LOOPS][2];
    ck_assert_uint_ge(raise_descriptor_limit(2 * LOOPS + 64), 2 * LOOPS + 64);
    for (size_t i = 0; i < LOOPS; i++) {
        open_stream(fd[i], 1);
        r[i] = (receiver){.fd = fd[i][0], .wanted = SIZE_MAX, .is_slow = true, .rc = 1000};
        r[i].fiber = weft_spin(run_recv_loop, &r[i]);
    }
    ck_assert_int_eq(weft_sleep(0), 0);
    for (size_t i = 0; i < LOOPS; i++)
        put_stream(fd[i][1], 0, 500);
    for (size_t i = 0; i < LOOPS; i++)
        ck_assert_int_eq(weft_close(fd[i][1]), 0);
    for (size_t i = 0; i < LOOPS; i++) {
        ck_assert_int_eq(weft_await(r[i].fiber), 0);
        ck_assert_int_eq(r[i].rc, 0);
        ck_assert_uint_eq(r[i].got, 500);
        ck_assert_int_eq(weft_close(fd[i][0]), 0);
    }
}
