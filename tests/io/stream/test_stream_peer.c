/* Tests of streams over descriptors: two ends that wait for each other, cancellation, and close. */
#include "io/stream/stream_support.h"
#include "support/random.h"
#include "support/suite.h"

static int pair_fd[2]; /* the descriptors of open_stream_pair */

/* Open two connected streams. */
static void open_stream_pair(weft_stream s[2])
{
    ck_assert_int_eq(weft_socketpair(pair_fd), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(weft_stream_open(&s[i], pair_fd[i]), 0);
        ck_assert_int_eq(weft_stream_configure(&s[i], &small), 0);
    }
}

static void close_stream_pair(weft_stream s[2])
{
    ck_assert_int_eq(weft_stream_close(&s[0]), 0);
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
    ck_assert_uint_eq(ops_pending(), 0);
}

static void send_text(weft_stream *s, const char *text)
{
    ck_assert_int_eq(weft_stream_puts(s, text), (ssize_t)strlen(text));
    ck_assert_int_eq(weft_stream_flush(s), 0);
}

/* P60 */
TEST(gets_returns_lines_with_newlines_and_the_last_line_without_one)
{
    weft_stream s[2];
    open_stream_pair(s);
    send_text(&s[0], "one\n\nthree\r\nlast");
    ck_assert_int_eq(weft_stream_close(&s[0]), 0);
    ck_assert_gets(&s[1], "one\n");
    ck_assert_gets(&s[1], "\n");
    ck_assert_gets(&s[1], "three\r\n");
    ck_assert_gets(&s[1], "last");
    ck_assert_at_end(&s[1]);
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
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
        int fd[2];
        weft_stream s;
        ck_assert_int_eq(weft_pipe(fd), 0);
        f.fd = fd[1];
        ck_assert_int_eq(weft_stream_open(&s, fd[0]), 0);
        ck_assert_int_eq(weft_stream_configure(&s, &small), 0);
        weft_fiber feeder = weft_spin(feed_slowly, &f);
        expect_lines(&s, text, f.bytes);
        ck_assert_int_eq(weft_await(feeder), 0);
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

typedef struct exact_read {
    weft_stream *s;
    char data[64];
    size_t bytes;
} exact_read;

static weft_value read_exactly(void *arg)
{
    exact_read *e = arg;
    return weft_stream_read_exact(e->s, e->data, e->bytes);
}

/* P61 */
TEST(a_read_cancelled_at_any_byte_leaves_the_bytes_to_the_next_read)
{
    const char text[] = "a message that is longer than the buffer";
    for (size_t cut = 0; cut < sizeof text; cut++) {
        weft_stream s[2];
        open_stream_pair(s);
        exact_read e = {.s = &s[1], .bytes = sizeof text};
        weft_fiber f = weft_spin(read_exactly, &e);
        ck_assert_int_eq(weft_stream_write(&s[0], text, cut), (ssize_t)cut);
        ck_assert_int_eq(weft_stream_flush(&s[0]), 0);
        let_run();
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
        ck_assert_int_eq(weft_stream_write(&s[0], text + cut, sizeof text - cut),
                         (ssize_t)(sizeof text - cut));
        ck_assert_int_eq(weft_stream_flush(&s[0]), 0);
        ck_assert_int_eq(read_exactly(&e), (ssize_t)sizeof text);
        ck_assert_str_eq(e.data, text);
        close_stream_pair(s);
    }
}

static weft_value echo_lines(void *arg)
{
    weft_stream *s = arg;
    char *line;
    int rc;
    while ((rc = weft_stream_line(s, &line, NULL)) > 0)
        ck_assert_int_gt(weft_stream_printf(s, "<%s>\n", line), 0);
    ck_assert_int_eq(weft_stream_close(s), 0);
    return rc;
}

TEST(a_read_flushes_buffered_output_before_it_waits)
{
    weft_stream s[2];
    open_stream_pair(s);
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
    weft_stream s[2];
    open_stream_pair(s);
    send_text(&s[1], "bye\n");
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

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 251);
}

/* Write all bytes in parts of random size. */
static weft_value write_mebibyte(void *arg)
{
    static unsigned char data[MIB];
    for (size_t i = 0; i < MIB; i++)
        data[i] = byte_at(i);
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
    weft_stream s[2];
    open_stream_pair(s);
    weft_fiber f = weft_spin(write_mebibyte, &s[0]);
    size_t at = 0;
    ssize_t n;
    static unsigned char data[4096];
    while ((n = weft_stream_read(&s[1], data, 1 + random_below(sizeof data - 1))) > 0) {
        for (ssize_t i = 0; i < n; i++, at++)
            if (data[i] != byte_at(at))
                ck_abort_msg("byte %zu is wrong", at);
        weft_snooze();
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(at, MIB);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
}

/* One end in a storm. */
typedef struct storm_end {
    weft_stream *s;
    unsigned interrupts_left; /* calls still to interrupt; the storm ends when both ends have 0 */
    size_t moved;
    const struct storm_end *peer;
} storm_end;

#define INTERRUPTS 300

static double random_timeout(const storm_end *s)
{
    return s->interrupts_left > 0 ? random_below(60) * 1e-6 : INFINITY;
}

static ssize_t write_once(storm_end *w)
{
    unsigned char data[300];
    size_t bytes = 1 + (random_below(4) == 0 ? random_below(sizeof data - 1) : random_below(20));
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_at(w->moved + i);
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
    for (ssize_t i = 0; i < n; i++, r->moved++)
        if (((const unsigned char *)in_place)[i] != byte_at(r->moved))
            ck_abort_msg("byte %zu is wrong", r->moved);
    if (n > 0 && how == 2)
        ck_assert_int_eq(weft_stream_skip(r->s, (size_t)n), 0);
    return n;
}

/* P61: calls of both ends are interrupted at random times */
TEST(in_a_storm_of_cancellations_no_byte_is_lost_or_duplicated)
{
    weft_stream s[2];
    open_stream_pair(s);
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
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
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
    weft_stream s[2];
    char data[8];
    const void *in_place;
    open_stream_pair(s);
    weft_fiber reader = spin_waiting(read_a_line, &s[0]);
    ck_assert_int_eq(weft_stream_gets(&s[0], data, 8), -EBUSY);
    ck_assert_error(-EBUSY, "weft_stream: another fiber is reading from this stream");
    ck_assert_int_eq(weft_stream_read(&s[0], data, 8), -EBUSY);
    ck_assert_int_eq(weft_stream_peek(&s[0], 0, &in_place), -EBUSY);
    ck_assert_int_eq(weft_stream_skip(&s[0], 0), -EBUSY);
    ck_assert_int_eq(weft_stream_detach(&s[0]), -EBUSY);
    send_text(&s[0], "to the other side\n");
    ck_assert_gets(&s[1], "to the other side\n");
    send_text(&s[1], "and back\n");
    ck_assert_int_eq(weft_await(reader), 1);

    fill_connection(pair_fd[0]);
    weft_fiber writer = spin_waiting(put_and_flush, &s[0]);
    send_text(&s[1], "still\n");
    ck_assert_gets(&s[0], "still\n");
    ck_assert_int_eq(cancel_and_await(writer), -ECANCELED);
    WEFT_MOVE_ON_AFTER(0) {
        /* the buffered output is lost: the error reports it */
        ck_assert_int_eq(weft_stream_close(&s[0]), -ECANCELED);
    }
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
}

/* P65, T98 */
TEST(closing_a_stream_wakes_its_waiters)
{
    weft_stream s[2];
    open_stream_pair(s);
    weft_fiber reader = spin_waiting(read_a_line, &s[0]);
    ck_assert_puts(&s[0], "still sent");
    ck_assert_int_eq(weft_stream_close(&s[0]), 0);
    memset(&s[0], 0xff, sizeof s[0]); /* the caller owns the memory again */
    ck_assert_int_eq(weft_await(reader), EBADF);
    ck_assert_gets(&s[1], "still sent");
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);

    open_stream_pair(s);
    fill_connection(pair_fd[0]);
    reader = weft_spin(read_a_line, &s[0]);
    weft_fiber writer = spin_waiting(put_and_flush, &s[0]);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_stream_close(&s[0]), -EBADF);
    }
    memset(&s[0], 0xff, sizeof s[0]);
    ck_assert_int_eq(weft_await(reader), EBADF);
    ck_assert_int_eq(weft_await(writer), EBADF);
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
}

TEST(calls_on_a_closing_stream_fail)
{
    weft_stream s[2];
    char data[8];
    open_stream_pair(s);
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
    ck_assert_int_eq(weft_stream_close(&s[1]), 0);
}

TEST(detaching_a_descriptor_loses_no_data)
{
    weft_stream s[2];
    char data[16];
    const void *in_place;
    open_stream_pair(s);
    send_text(&s[0], "line\nrest");
    ck_assert_gets(&s[1], "line\n");
    ck_assert_puts(&s[1], "answer");
    ck_assert_int_eq(weft_stream_detach(&s[1]), -ENOTEMPTY);
    ck_assert_int_eq(weft_stream_peek(&s[1], 0, &in_place), 4);
    ck_assert_mem_eq(in_place, "rest", 4);
    ck_assert_int_eq(weft_stream_skip(&s[1], 4), 0);
    int fd = weft_stream_detach(&s[1]);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_stream_puts(&s[1], "x"), -EBADF);
    send_text(&s[0], "raw");
    ck_assert_int_eq(weft_read(fd, data, sizeof data), 3);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_gets(&s[0], "answer");
    ck_assert_int_eq(weft_stream_close(&s[0]), 0);
}
