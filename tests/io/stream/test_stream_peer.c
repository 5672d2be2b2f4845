/* Tests of streams over descriptors: two ends that wait for each other, cancellation, and close. */
#include "io/stream/stream_support.h"
#include "support/net_support.h"
#include "support/suite.h"

static int pair_fd[2];
static weft_stream s[2]; /* two connected streams over pair_fd */

static void open_pair(void)
{
    ck_assert_int_eq(weft_socketpair(pair_fd), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(weft_stream_open(&s[i], pair_fd[i]), 0);
        ck_assert_int_eq(weft_stream_configure(&s[i], &small), 0);
    }
}

/* Close the streams that the test has not closed. */
static void close_pair(void)
{
    for (int i = 0; i < 2; i++)
        if (weft_stream_fd(&s[i]) != -EBADF)
            ck_assert_int_eq(weft_stream_close(&s[i]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

FIXTURE(open_pair, close_pair)

static void send_text(int end, const char *text)
{
    ck_assert_puts(&s[end], text);
    ck_assert_int_eq(weft_stream_flush(&s[end]), 0);
}

/* P60 */
TEST(gets_returns_lines_with_newlines_and_the_last_line_without_one)
{
    send_text(0, "one\n\nthree\r\nlast");
    ck_assert_int_eq(weft_stream_close(&s[0]), 0);
    ck_assert_gets(&s[1], "one\n");
    ck_assert_gets(&s[1], "\n");
    ck_assert_gets(&s[1], "three\r\n");
    ck_assert_gets(&s[1], "last");
    ck_assert_at_end(&s[1]);
}

typedef struct slow_feed {
    int fd;
    const char *text;
    size_t bytes, chunk_bytes;
} slow_feed;

/* Write chunk_bytes at a time, each time after all other fibers have run. */
static weft_value feed_slowly(void *arg)
{
    const slow_feed *f = arg;
    for (size_t at = 0, n; at < f->bytes; at += n) {
        n = f->bytes - at < f->chunk_bytes ? f->bytes - at : f->chunk_bytes;
        let_run();
        ck_assert_int_eq(weft_write_all(f->fd, f->text + at, n), (ssize_t)n);
    }
    return weft_close(f->fd);
}

TEST(lines_are_complete_from_a_descriptor_that_is_fed_in_small_parts)
{
    static char text[LENGTH_MAX * LENGTH_MAX];
    slow_feed f = {.text = text, .bytes = make_lines(text)};
    for (f.chunk_bytes = 1; f.chunk_bytes < 40; f.chunk_bytes += 6) {
        f.fd = weft_stream_detach(&s[1]);
        weft_fiber feeder = weft_spin(feed_slowly, &f);
        expect_lines(&s[0], text, f.bytes);
        ck_assert_int_eq(weft_await(feeder), 0);
        close_pair();
        open_pair();
    }
}

static const char message[] = "a message that is longer than the buffer";
static char received[sizeof message];

FIBER(read_message, weft_stream_read_exact(&s[1], received, sizeof message))

static void write_message(size_t from, size_t to)
{
    ck_assert_int_eq(weft_stream_write(&s[0], message + from, to - from), (ssize_t)(to - from));
    ck_assert_int_eq(weft_stream_flush(&s[0]), 0);
}

/* P61 */
TEST_LOOP(a_read_cancelled_at_any_byte_leaves_the_bytes_to_the_next_read, sizeof message)
{
    weft_fiber f = weft_spin(read_message, NULL);
    write_message(0, (size_t)_i);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    write_message((size_t)_i, sizeof message);
    ck_assert_int_eq(read_message(NULL), (ssize_t)sizeof message);
    ck_assert_str_eq(received, message);
}

static weft_value echo_lines(void *arg)
{
    char *line;
    int rc;
    while ((rc = weft_stream_line(arg, &line, NULL)) > 0)
        ck_assert_int_gt(weft_stream_printf(arg, "<%s>\n", line), 0);
    return rc;
}

TEST(a_read_flushes_buffered_output_before_it_waits)
{
    weft_fiber f = weft_spin(echo_lines, &s[1]);
    ck_assert_puts(&s[0], "one\n");
    ck_assert_gets(&s[0], "<one>\n");
    ck_assert_puts(&s[0], "two\nthree\n");
    ck_assert_line(&s[0], "<two>");
    ck_assert_line(&s[0], "<three>");
    ck_assert_int_eq(weft_stream_close(&s[0]), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

/* P60 */
TEST(writing_to_a_closed_peer_fails_each_time_without_a_signal)
{
    send_text(1, "bye\n");
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
    ck_assert_puts(&s[0], "hello");
    ck_assert_int_eq(weft_stream_flush(&s[0]), -EPIPE);
    ck_assert_int_eq(weft_stream_puts(&s[0], "a longer text than the buffer holds"), -EPIPE);
    ck_assert_int_eq(weft_stream_printf(&s[0], "%30d", 1), 30);
    ck_assert_int_eq(weft_stream_printf(&s[0], "%30d", 1), -EPIPE);
    ck_assert_gets(&s[0], "bye\n");
    ck_assert_at_end(&s[0]);
    ck_assert_int_eq(weft_stream_close(&s[0]), -EPIPE);
    ck_assert_int_eq(weft_stream_close(&s[0]), -EBADF);
}

#define MIB ((size_t)1 << 20)

/* Write all bytes in parts of random size. */
static weft_value write_mebibyte(void *arg)
{
    static unsigned char data[MIB];
    fill_from(data, MIB, 0);
    for (size_t at = 0, n; at < MIB; at += n) {
        n = random_below(8) == 0 ? random_below(100000) : random_below(40);
        n = n < MIB - at ? n : MIB - at;
        ck_assert_int_eq(weft_stream_write(arg, data + at, n), (ssize_t)n);
    }
    return weft_stream_close(arg);
}

/* P60 */
TEST(a_mebibyte_reaches_a_slow_stream_reader)
{
    weft_fiber f = weft_spin(write_mebibyte, &s[0]);
    size_t at = 0;
    ssize_t n;
    static unsigned char data[4096];
    while ((n = weft_stream_read(&s[1], data, 1 + random_below(sizeof data - 1))) > 0) {
        assert_bytes_at(data, (size_t)n, at);
        at += (size_t)n;
        weft_snooze();
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(at, MIB);
    ck_assert_int_eq(weft_await(f), 0);
}

/* One end in a storm. */
typedef struct storm_end {
    weft_stream *s;
    unsigned interrupts_left; /* calls still to interrupt; the storm ends when both ends have 0 */
    size_t moved;
    const struct storm_end *peer;
} storm_end;

#define INTERRUPTS 300

static double random_timeout(const storm_end *e)
{
    return e->interrupts_left > 0 ? random_below(60) * 1e-6 : INFINITY;
}

static ssize_t write_once(storm_end *w)
{
    unsigned char data[300];
    size_t bytes = 1 + (random_below(4) == 0 ? random_below(sizeof data - 1) : random_below(20));
    fill_from(data, bytes, w->moved);
    ssize_t n = weft_stream_write(w->s, data, bytes);
    w->moved += n < 0 ? 0 : (size_t)n;
    return n >= 0 && random_below(4) == 0 ? weft_stream_flush(w->s) : n;
}

static weft_value write_in_a_storm(void *arg)
{
    storm_end *w = arg;
    while (w->interrupts_left > 0 || w->peer->interrupts_left > 0) {
        WEFT_MOVE_ON_AFTER(random_timeout(w)) {
            ssize_t n = write_once(w);
            w->interrupts_left -= n == -ECANCELED;
            require(n >= 0 || n == -ECANCELED);
        }
        if (random_below(16) == 0)
            weft_sleep(random_below(50) * 1e-6);
    }
    return weft_stream_close(w->s);
}

static ssize_t read_once(storm_end *r)
{
    unsigned char data[300];
    size_t bytes = 1 + (random_below(4) == 0 ? random_below(sizeof data - 1) : random_below(20));
    const void *in_place = data;
    unsigned how = random_below(3);
    ssize_t n = how == 0   ? weft_stream_read(r->s, data, bytes)
                : how == 1 ? weft_stream_read_exact(r->s, data, bytes)
                           : weft_stream_peek(r->s, bytes, &in_place);
    if (n > 0) {
        assert_bytes_at(in_place, (size_t)n, r->moved);
        r->moved += (size_t)n;
    }
    if (n > 0 && how == 2)
        ck_assert_int_eq(weft_stream_skip(r->s, (size_t)n), 0);
    return n;
}

/* P61: calls of both ends are interrupted at random times */
TEST(in_a_storm_of_cancellations_no_byte_is_lost_or_duplicated)
{
    storm_end w = {.s = &s[0], .interrupts_left = INTERRUPTS},
              r = {.s = &s[1], .interrupts_left = INTERRUPTS, .peer = &w};
    w.peer = &r;
    weft_fiber f = weft_spin(write_in_a_storm, &w);
    for (ssize_t n = 1; n != 0;) {
        WEFT_MOVE_ON_AFTER(random_timeout(&r)) {
            n = read_once(&r);
            r.interrupts_left -= n == -ECANCELED;
            require(n >= 0 || n == -ECANCELED || n == -ENODATA);
        }
        if (random_below(16) == 0)
            weft_sleep(random_below(50) * 1e-6);
    }
    ck_assert_uint_eq(r.moved, w.moved);
    ck_assert_int_eq(weft_await(f), 0);
}

typedef struct filler {
    int fd;
    size_t bytes;
} filler;

static weft_value fill_fd(void *arg)
{
    static const char block[4096];
    const filler *f = arg;
    ssize_t n;
    while ((n = weft_write(f->fd, block, f->bytes)) > 0)
        ;
    return n;
}

/* Write until not even one byte fits. */
static void fill_connection(int fd)
{
    for (size_t bytes = 4096; bytes > 0; bytes /= 4096) {
        weft_fiber f = spin_waiting(fill_fd, &(filler){fd, bytes});
        ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    }
}

TEST(one_fiber_may_read_while_another_writes_but_two_may_not_read)
{
    char data[8];
    const void *in_place;
    weft_fiber reader = spin_waiting(read_a_line, &s[0]);
    ck_assert_int_eq(weft_stream_gets(&s[0], data, 8), -EBUSY);
    ck_assert_error(-EBUSY, "weft_stream: another fiber is reading from this stream");
    ck_assert_int_eq(weft_stream_read(&s[0], data, 8), -EBUSY);
    ck_assert_int_eq(weft_stream_peek(&s[0], 0, &in_place), -EBUSY);
    ck_assert_int_eq(weft_stream_skip(&s[0], 0), -EBUSY);
    ck_assert_int_eq(weft_stream_detach(&s[0]), -EBUSY);
    send_text(0, "to the other side\n");
    ck_assert_gets(&s[1], "to the other side\n");
    send_text(1, "and back\n");
    ck_assert_int_eq(weft_await(reader), 1);

    fill_connection(pair_fd[0]);
    weft_fiber writer = spin_waiting(put_and_flush, &s[0]);
    send_text(1, "still\n");
    ck_assert_gets(&s[0], "still\n");
    ck_assert_int_eq(cancel_and_await(writer), -ECANCELED);
    WEFT_MOVE_ON_AFTER(0) {
        /* the buffered output is lost: the error reports it */
        ck_assert_int_eq(weft_stream_close(&s[0]), -ECANCELED);
    }
}

/* Close s[0]. The caller owns its memory again: clear it, and open_pair may use it. */
static void close_and_clear(int expected)
{
    ck_assert_int_eq(weft_stream_close(&s[0]), expected);
    memset(&s[0], 0xff, sizeof s[0]);
    let_run();
    memset(&s[0], 0, sizeof s[0]);
}

/* P65, T98 */
TEST(closing_a_stream_wakes_its_waiters)
{
    weft_fiber reader = spin_waiting(read_a_line, &s[0]);
    ck_assert_puts(&s[0], "still sent");
    close_and_clear(0);
    ck_assert_int_eq(weft_await(reader), EBADF);
    ck_assert_gets(&s[1], "still sent");
    close_pair();

    open_pair();
    fill_connection(pair_fd[0]);
    reader = weft_spin(read_a_line, &s[0]);
    weft_fiber writer = spin_waiting(put_and_flush, &s[0]);
    WEFT_MOVE_ON_AFTER(0) {
        close_and_clear(-EBADF);
    }
    ck_assert_int_eq(weft_await(reader), EBADF);
    ck_assert_int_eq(weft_await(writer), EBADF);
}

TEST(calls_on_a_closing_stream_fail)
{
    char data[8];
    fill_connection(pair_fd[0]);
    ck_assert_puts(&s[0], "x");
    weft_fiber closer = spin_waiting(close_stream, &s[0]);
    ck_assert_int_eq(weft_stream_puts(&s[0], "x"), -EBADF);
    ck_assert_int_eq(weft_stream_read(&s[0], data, 8), -EBADF);
    ck_assert_int_eq(weft_stream_close(&s[0]), -EBADF);
    ck_assert_int_eq(weft_stream_detach(&s[0]), -EBADF);
    static char rest[5000];
    while (weft_stream_read(&s[1], rest, sizeof rest) > 0)
        ;
    ck_assert_int_eq(weft_await(closer), 0);
}

TEST(detaching_a_descriptor_loses_no_data)
{
    char data[16];
    const void *in_place;
    send_text(0, "line\nrest");
    ck_assert_gets(&s[1], "line\n");
    ck_assert_puts(&s[1], "answer");
    ck_assert_int_eq(weft_stream_detach(&s[1]), -ENOTEMPTY);
    ck_assert_int_eq(weft_stream_peek(&s[1], 0, &in_place), 4);
    ck_assert_mem_eq(in_place, "rest", 4);
    ck_assert_int_eq(weft_stream_skip(&s[1], 4), 0);
    int fd = weft_stream_detach(&s[1]);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_stream_puts(&s[1], "x"), -EBADF);
    send_text(0, "raw");
    ck_assert_int_eq(weft_read(fd, data, sizeof data), 3);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_gets(&s[0], "answer");
}
