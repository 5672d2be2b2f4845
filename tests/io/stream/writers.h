/*
 * Tests of several fibers that write to one stream. The tests run over each of the transports that
 * the including program defines.
 */
#ifndef TESTS_IO_STREAM_WRITERS_H
#define TESTS_IO_STREAM_WRITERS_H

#include "support/net_support.h"
#include "support/suite.h"

#include <weft.h>

/* Two connected streams. The tests write to near, and far is the peer. */
typedef struct writers_link {
    weft_stream near, far;
} writers_link;

/* A transport. */
typedef struct writers_transport {
    void (*open)(writers_link *l); /* connect the streams, over small socket buffers */
    void (*close)(void);           /* free what open has allocated; NULL: nothing */
    bool is_of_kernel;             /* not possible on sim */
} writers_transport;

/* Connect a pair of descriptors of a Unix or a TCP socket, with small socket buffers. */
static inline void open_small_sockets(int fd[2], bool is_tcp)
{
    if (!is_tcp) {
        ck_assert_int_eq(weft_socketpair(fd), 0);
    } else {
        endpoint at = tcp_endpoint();
        int listener = listen_at(&at, 1);
        fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_ge(fd[0], 0);
        ck_assert_int_eq(weft_connect(fd[0], &at.u.any, at.bytes), 0);
        fd[1] = weft_accept(listener, NULL, NULL);
        ck_assert_int_ge(fd[1], 0);
        weft_close(listener);
    }
    for (int i = 0; i < 2; i++) /* fails on sim, which has small buffers of its own */
        (void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &(int){4096}, sizeof(int));
}

/* More bytes than a connection without a reader takes. */
#define UNIT_BYTES ((size_t)1 << 20)

static char unit[UNIT_BYTES + 1]; /* 'A' and a newline at the end, as text */

static inline void fill_unit(void)
{
    memset(unit, 'A', UNIT_BYTES - 1);
    unit[UNIT_BYTES - 1] = '\n';
}

FIBER(write_unit, weft_stream_write(arg, unit, UNIT_BYTES))
FIBER(print_unit, weft_stream_printf(arg, "%s", unit))
FIBER(print_b, weft_stream_printf(arg, "B%s\n", "b"))
FIBER(put_c, weft_stream_puts(arg, "Cc\n"))
FIBER(flush_stream, weft_stream_flush(arg))

/* Assert that the peer reads the unit. */
static void expect_unit(weft_stream *far)
{
    char data[4096];
    for (size_t at = 0; at < UNIT_BYTES;) {
        size_t n = UNIT_BYTES - at < sizeof data ? UNIT_BYTES - at : sizeof data;
        ssize_t got = weft_stream_read(far, data, n);
        ck_assert_int_gt(got, 0);
        ck_assert_mem_eq(data, unit + at, (size_t)got);
        at += (size_t)got;
    }
}

static void expect_line(weft_stream *far, const char *text)
{
    char line[16];
    ck_assert_int_ge(weft_stream_gets(far, line, sizeof line), 0);
    ck_assert_str_eq(line, text);
}

static weft_value read_unit(void *arg)
{
    expect_unit(arg);
    return 0;
}

/* The transports of the program. The last has no open function. */
static const writers_transport transports[3];

static void on_each_transport(void (*check)(writers_link *l))
{
    fill_unit();
    for (const writers_transport *t = transports; t->open != NULL; t++) {
        if (t->is_of_kernel && is_sim())
            continue;
        writers_link l;
        t->open(&l);
        check(&l);
        (void)weft_stream_close(&l.near); /* -EBADF if the test has closed the stream */
        (void)weft_stream_close(&l.far);
        if (t->close != NULL)
            t->close();
        assert_nothing_pending();
    }
}

/* Define a test that runs over each transport. */
/* clang-format off */
#define WRITERS_TEST(name)                    \
    static void name##_check(writers_link *l); \
    TEST(name)                                \
    {                                         \
        on_each_transport(name##_check);      \
    }                                         \
    static void name##_check(writers_link *l)
/* clang-format on */

/* Many writers, whole lines. */

#define WRITERS 24
#define LINES 30 /* of a writer */
#define LINE_BYTES_MAX 3000

typedef struct line_writer {
    weft_stream *stream;
    int number;
} line_writer;

/* Compose line i of a writer: numbers, then letters. Return its length. */
static int compose_line(char *line, int writer, int i)
{
    int n = sprintf(line, "%d %d ", writer, i);
    int letters = (writer * 131 + i * i * 37) % (LINE_BYTES_MAX - 40);
    memset(line + n, 'a' + (writer + i) % 26, (size_t)letters);
    strcpy(line + n + letters, "\n");
    return n + letters + 1;
}

static ssize_t send_line(weft_stream *s, const char *line, int bytes, int how)
{
    size_t half = (size_t)bytes / 2;
    const struct iovec pieces[] = {{(void *)(uintptr_t)line, half},
                                   {(void *)(uintptr_t)(line + half), (size_t)bytes - half}};
    switch (how % 4) {
    case 0:
        return weft_stream_printf(s, "%s", line);
    case 1:
        return weft_stream_puts(s, line);
    case 2:
        return weft_stream_writev(s, pieces, 2);
    default:
        return weft_stream_write(s, line, (size_t)bytes);
    }
}

static weft_value write_lines(void *arg)
{
    const line_writer *w = arg;
    char line[LINE_BYTES_MAX];
    for (int i = 0; i < LINES; i++) {
        int bytes = compose_line(line, w->number, i);
        ck_assert_int_eq(send_line(w->stream, line, bytes, w->number + i), bytes);
        if (i % 5 == 0)
            ck_assert_int_eq(weft_stream_flush(w->stream), 0);
    }
    return weft_stream_flush(w->stream);
}

static void expect_whole_lines(weft_stream *far)
{
    int next[WRITERS] = {0};
    char expected[LINE_BYTES_MAX], *line;
    for (int total = 0; total < WRITERS * LINES; total++) {
        ck_assert_int_eq(weft_stream_line(far, &line, NULL), 1);
        int writer = atoi(line);
        ck_assert(writer >= 0 && writer < WRITERS);
        int bytes = compose_line(expected, writer, next[writer]++);
        expected[bytes - 1] = '\0';
        ck_assert_str_eq(line, expected);
        weft_snooze();
    }
}

WRITERS_TEST(lines_of_many_writers_arrive_whole_and_in_order)
{
    line_writer writers[WRITERS];
    weft_fiber fibers[WRITERS];
    ck_assert_int_eq(weft_stream_configure(&l->near, &(weft_stream_options){.write_bytes = 512}),
                     0);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (line_writer){&l->near, i};
        fibers[i] = weft_spin(write_lines, &writers[i]);
    }
    expect_whole_lines(&l->far);
    for (int i = 0; i < WRITERS; i++)
        ck_assert_int_eq(weft_await(fibers[i]), 0);
}

/* Cancellation. */

static weft_value print_d_in_time(void *arg)
{
    int rc, printed = 0;
    WEFT_CANCEL_AFTER(0.001, rc) {
        printed = (int)weft_stream_printf(arg, "D\n");
    }
    ck_assert_int_eq(printed, -ECANCELED);
    return rc;
}

WRITERS_TEST(a_writer_that_is_cancelled_in_the_queue_has_written_nothing)
{
    weft_fiber a = spin_waiting(write_unit, &l->near);
    weft_fiber b = spin_waiting(print_b, &l->near), c = spin_waiting(put_c, &l->near);
    weft_fiber d = weft_spin(print_d_in_time, &l->near), b2 = spin_waiting(print_b, &l->near);
    weft_fiber interrupted = spin_waiting(flush_stream, &l->near);
    ck_assert_int_eq(cancel_and_await(b), -ECANCELED);
    ck_assert_int_eq(weft_await(d), -ETIMEDOUT);
    ck_assert_int_eq(weft_interrupt(interrupted, -EINTR), 0);
    ck_assert_int_eq(weft_await(interrupted), -EINTR);
    weft_fiber last = spin_waiting(flush_stream, &l->near);
    expect_unit(&l->far);
    expect_line(&l->far, "Cc\n");
    expect_line(&l->far, "Bb\n");
    ck_assert_int_eq(weft_await(a), UNIT_BYTES);
    ck_assert_int_eq(weft_await(c), 3);
    ck_assert_int_eq(weft_await(b2), 3);
    ck_assert_int_eq(weft_await(last), 0);
}

WRITERS_TEST(a_text_whose_writer_is_cancelled_arrives_whole)
{
    weft_fiber a = spin_waiting(print_unit, &l->near);
    weft_fiber b = spin_waiting(print_b, &l->near), last = spin_waiting(flush_stream, &l->near);
    weft_cancel(a);
    (void)weft_await(a); /* the text is taken */
    ck_assert_int_eq(weft_state_of(b), WEFT_WAITING);
    expect_unit(&l->far);
    expect_line(&l->far, "Bb\n");
    ck_assert_int_eq(weft_await(b), 3);
    ck_assert_int_eq(weft_await(last), 0);
}

/* Store the result of the write, because the value of a cancelled fiber is -ECANCELED. */
typedef struct part_writer {
    weft_stream *stream;
    ssize_t taken;
} part_writer;

static weft_value write_part(void *arg)
{
    part_writer *w = arg;
    w->taken = weft_stream_write(w->stream, unit, UNIT_BYTES);
    return 0;
}

static weft_value flush_reporting(void *arg)
{
    int rc = weft_stream_flush(arg);
    if (rc < 0)
        ck_assert_error(-EIO, "weft_stream: another fiber has written only a part of its bytes");
    return rc;
}

/* Abort a write after a part. Assert the value of the writing fiber and the error of a flush. */
static void abort_write(writers_link *l, int (*abort)(weft_fiber f), weft_value value, int later)
{
    part_writer part = {.stream = &l->near};
    weft_fiber a = spin_waiting(write_part, &part);
    weft_fiber b = spin_waiting(print_b, &l->near), c = spin_waiting(put_c, &l->near);
    weft_fiber f = spin_waiting(flush_reporting, &l->near);
    ck_assert_int_eq(abort(a), 0);
    ck_assert_int_eq(weft_await(a), value);
    ck_assert(part.taken > 0 && part.taken < (ssize_t)UNIT_BYTES);
    ck_assert_int_eq(weft_await(b), -EIO);
    ck_assert_int_eq(weft_await(c), -EIO);
    ck_assert_int_eq(weft_await(f), -EIO);
    if (later < 0)
        ck_assert_int_eq(weft_stream_flush(&l->near), later);
    weft_fiber reader = weft_spin(read_unit, &l->far);
    ssize_t rest = (ssize_t)UNIT_BYTES - part.taken; /* the stream still works */
    ck_assert_int_eq(weft_stream_write(&l->near, unit + part.taken, (size_t)rest), rest);
    ck_assert_int_eq(print_b(&l->near), 3);
    ck_assert_int_eq(weft_stream_flush(&l->near), 0);
    ck_assert_int_eq(weft_await(reader), 0);
    expect_line(&l->far, "Bb\n");
}

WRITERS_TEST(a_write_that_is_cancelled_after_a_part_fails_the_queued_writers)
{
    abort_write(l, weft_cancel, -ECANCELED, 0);
}

static int interrupt_fiber(weft_fiber f)
{
    return weft_interrupt(f, -EPIPE);
}

WRITERS_TEST(a_write_that_is_interrupted_after_a_part_fails_the_queued_writers)
{
    abort_write(l, interrupt_fiber, 0, -EPIPE);
}

static int raise_in_fiber(weft_fiber f)
{
    return weft_raise(f, -EPROTO, "raised");
}

WRITERS_TEST(a_write_that_gets_a_raised_error_after_a_part_fails_the_queued_writers)
{
    abort_write(l, raise_in_fiber, 0, -EPROTO);
}

/* Errors and close. */

WRITERS_TEST(an_error_of_the_peer_ends_all_queued_writers)
{
    weft_fiber writers[4];
    for (size_t i = 0; i < COUNT_OF(writers); i++)
        writers[i] = spin_waiting(write_unit, &l->near);
    ck_assert_int_eq(weft_stream_close(&l->far), 0);
    ck_assert_int_lt(weft_await(writers[0]), UNIT_BYTES);
    for (size_t i = 1; i < COUNT_OF(writers); i++) {
        weft_value rc = weft_await(writers[i]);
        ck_assert(rc == -EPIPE || rc == -ECONNRESET);
    }
}

WRITERS_TEST(closing_a_stream_wakes_its_queued_writers)
{
    weft_fiber a = spin_waiting(write_unit, &l->near);
    weft_fiber b = spin_waiting(print_b, &l->near), c = spin_waiting(put_c, &l->near);
    weft_fiber f = spin_waiting(flush_stream, &l->near);
    ck_assert_int_eq(weft_stream_close(&l->near), -EBADF);
    memset(&l->near, 0xff, sizeof l->near); /* the caller owns the memory again */
    ck_assert_int_lt(weft_await(a), UNIT_BYTES);
    ck_assert_int_eq(weft_await(b), -EBADF);
    ck_assert_int_eq(weft_await(c), -EBADF);
    ck_assert_int_eq(weft_await(f), -EBADF);
    memset(&l->near, 0, sizeof l->near);
}

/* Read until the input ends or fails. */
static weft_value read_to_end(void *arg)
{
    char data[4096];
    while (weft_stream_read(arg, data, sizeof data) > 0)
        ;
    return 0;
}

WRITERS_TEST(a_stream_can_be_closed_before_its_next_writer_runs)
{
    weft_fiber b = weft_spin(print_b, &l->near), reader = weft_spin(read_to_end, &l->far);
    ck_assert_int_eq(weft_stream_write(&l->near, unit, UNIT_BYTES), UNIT_BYTES);
    ck_assert_int_eq(weft_state_of(b), WEFT_RUNNABLE); /* has the stream, but has not run */
    ck_assert_int_eq(weft_stream_close(&l->near), -EBADF);
    ck_assert_int_eq(weft_await(b), -EBADF);
    ck_assert_int_eq(weft_await(reader), 0);
}

/* Sections in which switching is forbidden. */

/* Close the near stream where the close would switch. Assert that nothing is closed. */
static void expect_close_refused(writers_link *l)
{
    weft_no_switch_begin();
    int rc = weft_stream_close(&l->near);
    weft_no_switch_end();
    ck_assert_int_eq(rc, -EPERM);
}

static weft_value read_near_byte(void *arg)
{
    char byte;
    return weft_stream_read(arg, &byte, 1);
}

WRITERS_TEST(a_close_that_would_switch_where_switching_is_forbidden_closes_nothing)
{
    weft_fiber a = spin_waiting(write_unit, &l->near), b = spin_waiting(print_b, &l->near);
    expect_close_refused(l); /* would wait for the writer */
    expect_unit(&l->far);
    ck_assert_int_eq(weft_await(a), UNIT_BYTES);
    ck_assert_int_eq(weft_await(b), 3);
    expect_close_refused(l); /* would flush */
    ck_assert_int_eq(put_c(&l->near), 3);
    ck_assert_int_eq(weft_stream_flush(&l->near), 0);
    expect_line(&l->far, "Bb\n");
    expect_line(&l->far, "Cc\n");
    weft_fiber reader = spin_waiting(read_near_byte, &l->near);
    expect_close_refused(l); /* would wait for the reader */
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    ck_assert_int_eq(weft_stream_close(&l->near), 0);
    ck_assert_int_eq(weft_await(reader), -EBADF);
}

WRITERS_TEST(a_stream_without_users_and_output_is_closed_where_switching_is_forbidden)
{
    weft_no_switch_begin();
    int rc = weft_stream_close(&l->near);
    weft_no_switch_end();
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(weft_stream_close(&l->near), -EBADF); /* already closed */
    ck_assert_int_le(read_near_byte(&l->far), 0);
}

#endif
