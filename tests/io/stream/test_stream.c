/*
 * Tests of streams over memory: lines, exact reads and buffered writes. Whichever underlying call
 * fails, no byte is lost or duplicated.
 */
#include "io/stream/stream_support.h"
#include "support/suite.h"

#include <malloc.h>
#include <sys/resource.h>

/* A stream over memory: its input, its output, and the calls that fail. */
typedef struct memory {
    const char *input;
    size_t input_bytes;
    size_t input_at;
    size_t read_max;  /* bytes per call; 0: no limit */
    size_t write_max; /* bytes per call; 0: no limit */
    char output[4096];
    size_t output_bytes;
    unsigned reads, writes, closes;       /* number of calls */
    unsigned failing_read, failing_write; /* number of the call that fails, from 1; 0: none */
    bool is_lasting;                      /* later writes fail too */
    int error;
    size_t room_max;       /* the largest read, in bytes */
    const void *data_last; /* the buffer of the last read or write */
    int pieces_last;
} memory;

static ssize_t memory_read(void *ctx, void *data, size_t bytes)
{
    memory *m = ctx;
    m->data_last = data;
    m->room_max = bytes > m->room_max ? bytes : m->room_max;
    if (++m->reads == m->failing_read)
        return m->error;
    size_t n = m->input_bytes - m->input_at;
    n = n < bytes ? n : bytes;
    n = m->read_max != 0 && n > m->read_max ? m->read_max : n;
    memcpy(data, m->input + m->input_at, n);
    m->input_at += n;
    return (ssize_t)n;
}

static ssize_t memory_writev(void *ctx, const struct iovec *pieces, int count)
{
    memory *m = ctx;
    size_t left = m->write_max != 0 ? m->write_max : sizeof m->output, total = 0;
    m->data_last = pieces[count - 1].iov_base;
    m->pieces_last = count;
    m->writes++;
    if (m->writes == m->failing_write || (m->is_lasting && m->writes > m->failing_write))
        return m->error;
    for (int i = 0; i < count && left > 0; i++) {
        size_t n = pieces[i].iov_len < left ? pieces[i].iov_len : left;
        if (n > sizeof m->output - m->output_bytes)
            ck_abort_msg("too many bytes were written");
        memcpy(m->output + m->output_bytes, pieces[i].iov_base, n);
        m->output_bytes += n;
        left -= n;
        total += n;
    }
    return (ssize_t)total;
}

static int memory_close(void *ctx)
{
    ((memory *)ctx)->closes++;
    return 0;
}

static const weft_stream_type memory_type = {
    .read = memory_read, .writev = memory_writev, .close = memory_close};

/* The stream of the test. */
static weft_stream s;
static memory m;

static void close_memory(void)
{
    ck_assert_int_eq(weft_stream_close(&s), 0);
}

/* Close the stream unless the test has closed it. */
static void end_stream(void)
{
    if (weft_stream_fd(&s) != -EBADF)
        close_memory();
}

FIXTURE(NULL, end_stream)

/* Open s over m. Close the stream that was open. Keep the limits and the failing calls of m. */
static void open_memory(const char *input, size_t bytes)
{
    end_stream();
    m.input = input;
    m.input_bytes = bytes;
    m.input_at = m.output_bytes = m.reads = m.writes = 0;
    ck_assert_int_eq(weft_stream_open_with(&s, &memory_type, &m), 0);
    ck_assert_int_eq(weft_stream_configure(&s, &small), 0);
}

static void assert_output(const char *expected)
{
    ck_assert_uint_eq(m.output_bytes, strlen(expected));
    ck_assert_mem_eq(m.output, expected, m.output_bytes);
}

TEST(a_line_in_place_has_no_newline_and_no_carriage_return_before_it)
{
    const char input[] = "one\r\n\r\n\ntwo\rhalves\r\r\n\r";
    for (m.read_max = 0; m.read_max < sizeof input; m.read_max++) {
        open_memory(input, sizeof input - 1);
        ck_assert_line(&s, "one");
        ck_assert_line(&s, "");
        ck_assert_line(&s, "");
        ck_assert_line(&s, "two\rhalves\r");
        ck_assert_line(&s, "\r");
        ck_assert_at_end(&s);
    }
}

TEST(nuls_in_a_line_are_bytes_like_others)
{
    const char input[] = "\0a\0\n\0\n\0\0\nb\0";
    open_memory(input, sizeof input - 1);
    ck_assert_gets(&s, "\0a\0\n");
    ck_assert_line(&s, "\0");
    ck_assert_line(&s, "\0\0");
    ck_assert_gets(&s, "b\0");
    ck_assert_at_end(&s);
}

/* P60 */
TEST(lines_of_every_length_are_complete_however_the_input_is_split)
{
    static char text[LENGTH_MAX * LENGTH_MAX];
    size_t bytes = make_lines(text);
    for (m.read_max = 0; m.read_max < 40; m.read_max++) {
        open_memory(text, bytes);
        expect_lines(&s, text, bytes);
    }
}

TEST(a_line_over_the_limit_is_refused_and_stays_buffered)
{
    for (size_t limit = 1; limit <= 40; limit++) {
        m = (memory){.read_max = limit % 3};
        char text[128], line[64], *in_place;
        memset(text, 'x', sizeof text);
        text[limit - 1] = text[2 * limit] = '\n'; /* limit and limit + 1 bytes */
        open_memory(text, 2 * limit + 1);
        ck_assert_int_eq(weft_stream_set_line_max(&s, limit), 0);
        ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), -EMSGSIZE);
            ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), -EMSGSIZE);
        }
        ck_assert_int_eq(weft_stream_set_line_max(&s, limit + 1), 0);
        ck_assert_int_eq(weft_stream_gets(&s, line, limit + 1),
                         -EMSGSIZE); /* no room for the NUL */
        ck_assert_int_eq(weft_stream_gets(&s, line, limit + 2), (ssize_t)limit + 1);
        ck_assert_mem_eq(line, text + limit, limit + 1);
        ck_assert_at_end(&s);
    }
}

TEST(a_last_line_of_exactly_the_limit_needs_no_newline)
{
    m = (memory){.read_max = 1};
    char line[8], *in_place;
    open_memory("1234567", 7);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 6), 0);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_gets(&s, line, 8), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_gets(&s, line, 1), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_gets(&s, line, 0), -EINVAL);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 7), 0);
    ck_assert_int_eq(weft_stream_gets(&s, line, 8), 7);
    ck_assert_str_eq(line, "1234567");
    open_memory("1234567", 7);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 7), 0);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
    ck_assert_str_eq(in_place, "1234567");
    close_memory();
    /* The default limit. */
    char *big = malloc(70000);
    memset(big, 'x', 70000);
    open_memory(big, 65536);
    m.read_max = 0;
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
    open_memory(big, 65537);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 70000), 0);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
    close_memory();
    free(big);
}

/* P60 */
TEST(an_exact_read_consumes_all_bytes_or_none)
{
    char text[100], data[100];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t bytes = 1; bytes <= sizeof text; bytes++) {
        m.read_max = bytes % 8;
        open_memory(text, sizeof text);
        ssize_t at = 0, n;
        while ((n = weft_stream_read_exact(&s, data, bytes)) > 0) {
            ck_assert_int_eq(n, (ssize_t)bytes);
            ck_assert_mem_eq(data, text + at, bytes);
            at += n;
        }
        size_t rest = sizeof text % bytes;
        ck_assert_int_eq(n, rest == 0 ? 0 : -ENODATA);
        ck_assert_int_eq(weft_stream_read(&s, data, sizeof data), (ssize_t)rest);
        ck_assert_mem_eq(data, text + at, rest);
        ck_assert_at_end(&s);
    }
}

TEST(buffered_input_can_be_peeked_in_place_and_skipped)
{
    m = (memory){.read_max = 3};
    const void *data;
    char copy[8];
    open_memory("0123456789", 10);
    ck_assert_int_eq(weft_stream_peek(&s, 0, &data), 0);
    ck_assert_uint_eq(m.reads, 0);
    ck_assert_int_eq(weft_stream_skip(&s, 1), -EINVAL);
    ck_assert_int_eq(weft_stream_peek(&s, 4, &data), 6);
    ck_assert_mem_eq(data, "012345", 6);
    ck_assert_int_eq(weft_stream_skip(&s, 7), -EINVAL);
    ck_assert_int_eq(weft_stream_skip(&s, 2), 0);
    ck_assert_int_eq(weft_stream_peek(&s, 0, &data), 4);
    ck_assert_int_eq(weft_stream_read(&s, copy, 1), 1);
    ck_assert_int_eq(copy[0], '2');
    ck_assert_int_eq(weft_stream_peek(&s, 20, &data), 7);
    ck_assert_mem_eq(data, "3456789", 7);
    ck_assert_int_eq(weft_stream_skip(&s, 7), 0);
    ck_assert_int_eq(weft_stream_peek(&s, 1, &data), 0);
    close_memory();
    ck_assert_uint_eq(m.closes, 1);
}

TEST(a_large_read_bypasses_the_buffer_and_a_small_one_does_not)
{
    char data[32];
    open_memory("0123456789012345678901234567890123456789", 40);
    ck_assert_int_eq(weft_stream_read(&s, data, 15), 15);
    ck_assert_ptr_ne(m.data_last, data);
    ck_assert_int_eq(weft_stream_read(&s, data, 16), 1);
    ck_assert_uint_eq(m.reads, 1);
    ck_assert_int_eq(weft_stream_read(&s, data, 16), 16);
    ck_assert_ptr_eq(m.data_last, data);
    ck_assert_int_eq(weft_stream_read(&s, data, 0), 0);
    ck_assert_uint_eq(m.reads, 2);
    ck_assert_int_eq(weft_stream_read(&s, data, sizeof data), 8);
    ck_assert_mem_eq(data, "23456789", 8);
}

TEST(the_buffer_grows_only_for_longer_input_and_shrinks_afterwards)
{
    char text[400], data[100];
    memset(text, 'x', sizeof text);
    text[350] = '\n';
    open_memory(text, sizeof text);
    for (int i = 0; i < 25; i++)
        ck_assert_int_eq(weft_stream_read_exact(&s, data, 10), 10);
    ck_assert_uint_le(m.room_max, 16);
    ck_assert_int_eq(weft_stream_gets(&s, data, sizeof data), -EMSGSIZE);
    ck_assert_uint_gt(m.room_max, 16);
    ck_assert_int_eq(weft_stream_read_exact(&s, data, 100), 100);
    const void *in_place;
    ck_assert_int_eq(weft_stream_skip(&s, (size_t)weft_stream_peek(&s, 0, &in_place)), 0);
    m.room_max = 0;
    while (weft_stream_read(&s, data, 5) > 0)
        ;
    ck_assert_uint_eq(m.room_max, 16);
}

__attribute__((format(printf, 1, 2))) static ssize_t print_args(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ssize_t n = weft_stream_vprintf(&s, format, args);
    va_end(args);
    return n;
}

TEST(output_waits_for_a_flush_or_a_full_buffer)
{
    open_memory("", 0);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    ck_assert_int_eq(weft_stream_write(&s, NULL, 0), 0);
    ck_assert_puts(&s, "0123456789");
    ck_assert_int_eq(weft_stream_printf(&s, "%s%d", "ab", 12), 4);
    ck_assert_int_eq(print_args("%d%s", 3, "4"), 2);
    ck_assert_uint_eq(m.writes, 0);
    ck_assert_puts(&s, "x");
    ck_assert_uint_eq(m.writes, 1);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    assert_output("0123456789ab1234x");
    ck_assert_puts(&s, "end");
    close_memory();
    assert_output("0123456789ab1234xend");
}

TEST(a_large_write_is_sent_in_one_call_with_buffered_output)
{
    const char *large = "a text of more than sixteen bytes";
    open_memory("", 0);
    ck_assert_puts(&s, "head ");
    ck_assert_puts(&s, large);
    ck_assert_uint_eq(m.writes, 1);
    ck_assert_int_eq(m.pieces_last, 2);
    ck_assert_ptr_eq(m.data_last, large);
    ck_assert_puts(&s, large);
    ck_assert_int_eq(m.pieces_last, 1);
    assert_output("head a text of more than sixteen bytesa text of more than sixteen bytes");
    close_memory();
    ck_assert_uint_eq(m.writes, 2);
}

/* The output of write_with_retries. Return its length. */
static size_t make_output(char *text, size_t room)
{
    size_t n = 0;
    for (int length = 0; length <= LENGTH_MAX; length += 3)
        n += (size_t)snprintf(text + n, room - n, "%*d|%0*d|", length, length, length, length);
    return n;
}

/* Repeat a write until all bytes are accepted. Return the number of failures. */
static unsigned write_until_accepted(const char *data, size_t bytes)
{
    unsigned failed = 0;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = weft_stream_write(&s, data + done, bytes - done);
        require(n > 0 || n == -EIO || n == -ECANCELED);
        require(n <= (ssize_t)(bytes - done));
        failed += n < 0;
        done += n < 0 ? 0 : (size_t)n;
    }
    return failed;
}

/* Write the test output, and repeat failed calls. Return the number of failures. */
static unsigned write_with_retries(void)
{
    unsigned failed = 0;
    for (int length = 0; length <= LENGTH_MAX; length += 3) {
        char text[LENGTH_MAX + 8];
        ssize_t n;
        while ((n = weft_stream_printf(&s, "%*d|", length, length)) < 0) {
            require(n == -EIO || n == -ECANCELED);
            failed++;
        }
        int bytes = snprintf(text, sizeof text, "%0*d|", length, length);
        failed += write_until_accepted(text, (size_t)bytes);
    }
    int rc;
    while ((rc = weft_stream_flush(&s)) < 0) {
        require(rc == -EIO || rc == -ECANCELED);
        failed++;
    }
    return failed;
}

static void fail_each_write(const char *expected, size_t bytes)
{
    bool has_failed = true;
    for (m.failing_write = 1; has_failed; m.failing_write++) {
        open_memory("", 0);
        unsigned failed = write_with_retries();
        has_failed = m.writes >= m.failing_write;
        ck_assert_uint_le(failed, has_failed);
        if (m.error == -EIO)
            ck_assert_uint_eq(failed, has_failed); /* the error is reported once, now or later */
        ck_assert_uint_eq(m.output_bytes, bytes);
        ck_assert_mem_eq(m.output, expected, bytes);
    }
}

/* P61 */
TEST(whichever_write_fails_each_byte_is_written_once)
{
    char expected[4096];
    size_t bytes = make_output(expected, sizeof expected);
    for (m.write_max = 0; m.write_max < 40; m.write_max += 5)
        for (int i = 0; i < 2; i++) {
            m.error = i == 0 ? -EIO : -ECANCELED;
            fail_each_write(expected, bytes);
        }
}

/* Read with one of four calls, selected by how. Return the bytes read, or the error. */
static ssize_t read_by_kind(unsigned how, char *data, size_t room)
{
    const void *in_place;
    char *line;
    size_t bytes;
    ssize_t n;
    switch (how % 4) {
    case 0:
        return weft_stream_gets(&s, data, room);
    case 1:
        n = weft_stream_line(&s, &line, &bytes);
        if (n <= 0)
            return n;
        memcpy(data, line, bytes);
        data[bytes] = '\n'; /* there are no carriage returns */
        return (ssize_t)bytes + 1;
    case 2:
        return weft_stream_read_exact(&s, data, how % 37 + 1);
    default:
        n = weft_stream_peek(&s, how % 41 + 1, &in_place);
        n = n > (ssize_t)room ? (ssize_t)room : n;
        if (n <= 0)
            return n;
        memcpy(data, in_place, (size_t)n);
        ck_assert_int_eq(weft_stream_skip(&s, (size_t)n), 0);
        return n;
    }
}

/* P61 */
TEST(whichever_read_fails_each_byte_is_read_once)
{
    static char text[LENGTH_MAX * LENGTH_MAX], got[LENGTH_MAX * LENGTH_MAX];
    size_t bytes = make_lines(text);
    m = (memory){.error = -ECANCELED};
    for (m.read_max = 0; m.read_max < 40; m.read_max += 13) {
        bool has_failed = true;
        for (m.failing_read = 1; has_failed; m.failing_read++) {
            open_memory(text, bytes);
            size_t at = 0;
            unsigned failed = 0;
            ssize_t n = 1;
            for (unsigned how = 0; n != 0; how++) {
                n = read_by_kind(how, got + at, 100);
                require(n >= 0 || n == -ECANCELED || n == -ENODATA);
                failed += n == -ECANCELED;
                at += n < 0 ? 0 : (size_t)n;
            }
            has_failed = m.reads >= m.failing_read;
            ck_assert_uint_eq(failed, has_failed);
            ck_assert_uint_eq(at, bytes);
            ck_assert_mem_eq(got, text, bytes);
            close_memory();
        }
    }
}

TEST(replies_to_buffered_input_are_sent_together)
{
    char *line;
    open_memory("1\n2\n3\n4\n", 8);
    while (weft_stream_line(&s, &line, NULL) > 0)
        ck_assert_int_eq(weft_stream_printf(&s, "%s.", line), 2);
    assert_output("1.2.3.4.");
    ck_assert_uint_eq(m.writes, 1);
}

/* A stream with a read and a write that wait until the close, and then report one byte. */
typedef struct late_stream {
    weft_fiber waiting[2];
    unsigned calls;
} late_stream;

static ssize_t late_read(void *ctx, void *data, size_t bytes)
{
    late_stream *l = ctx;
    l->calls++;
    l->waiting[0] = weft_self();
    memset(data, 'x', bytes > 0);
    return weft_suspend();
}

static ssize_t late_writev(void *ctx, const struct iovec *pieces, int count)
{
    (void)pieces, (void)count;
    late_stream *l = ctx;
    l->calls++;
    l->waiting[1] = weft_self();
    return weft_suspend();
}

static int late_close(void *ctx)
{
    late_stream *l = ctx;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(l->waiting[i] != 0 ? weft_schedule(l->waiting[i], 1) : 0, 0);
    return 0;
}

static int late_wait(void *ctx)
{
    ((late_stream *)ctx)->calls++;
    return 0;
}

static weft_value put_and_wait(void *arg)
{
    ck_assert_puts(arg, "x"); /* the wait flushes this byte first */
    return as_value(weft_stream_wait(arg));
}

/* P65: another file may have the number by then */
TEST_LOOP(no_underlying_call_follows_the_close, 2)
{
    static const weft_stream_type late_type = {
        .read = late_read, .writev = late_writev, .close = late_close, .wait = late_wait};
    late_stream l = {0};
    ck_assert_int_eq(weft_stream_open_with(&s, &late_type, &l), 0);
    weft_fiber reader = _i == 0 ? spin_waiting(read_a_line, &s) : 0;
    weft_fiber writer = spin_waiting(_i == 0 ? put_and_flush : put_and_wait, &s);
    ck_assert_int_eq(weft_await(weft_spin(close_stream, &s)), EBADF);
    if (reader != 0)
        ck_assert_int_eq(weft_await(reader), EBADF);
    ck_assert_int_eq(weft_await(writer), EBADF);
    ck_assert_uint_eq(l.calls, reader != 0 ? 2 : 1);
}

FIBER(put_hello, weft_stream_puts(arg, "hello\n"))

TEST(a_read_does_not_flush_output_of_another_fiber)
{
    open_memory("1\n", 2);
    ck_assert_int_eq(weft_await(weft_spin(put_hello, &s)), 6);
    ck_assert_gets(&s, "1\n");
    ck_assert_at_end(&s);
    ck_assert_uint_eq(m.writes, 0);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    assert_output("hello\n");
}

TEST(a_peer_that_stopped_reading_can_still_be_read_from)
{
    for (int i = 0; i < 2; i++) {
        m = (memory){.failing_write = 1, .error = i == 0 ? -EPIPE : -ECONNRESET};
        open_memory("last words\n", 11);
        ck_assert_puts(&s, "hello");
        ck_assert_gets(&s, "last words\n");
        ck_assert_int_eq(weft_stream_puts(&s, "more"), m.error);
        close_memory(); /* the second write succeeds */
        assert_output("hello");
        m.failing_write = 1;
        m.error = -EIO;
        open_memory("1\n", 2);
        ck_assert_puts(&s, "hello");
        char line[8];
        ck_assert_int_eq(weft_stream_gets(&s, line, 8), -EIO);
        ck_assert_gets(&s, "1\n");
        assert_output("hello");
    }
}

TEST(a_large_write_that_fails_halfway_returns_its_bytes_and_then_the_error)
{
    m = (memory){.write_max = 20, .failing_write = 2, .error = -EIO};
    const char *text = "0123456789012345678901234567890123456789";
    open_memory("", 0);
    ck_assert_puts(&s, "abcd");
    ck_assert_int_eq(weft_stream_puts(&s, text), 16);
    ck_assert_int_eq(weft_stream_puts(&s, text + 16), -EIO);
    ck_assert_int_eq(weft_stream_puts(&s, text + 16), 24);
    close_memory();
    assert_output("abcd0123456789012345678901234567890123456789");

    open_memory("", 0);
    ck_assert_int_eq(weft_stream_puts(&s, text), 20);
    ck_assert_int_eq(weft_stream_close(&s), -EIO);
    m.error = -ECANCELED; /* of a scope that has ended before the next call */
    open_memory("", 0);
    ck_assert_int_eq(weft_stream_puts(&s, text), 20);
    ck_assert_int_eq(weft_stream_puts(&s, text + 20), 20);
    close_memory();
    assert_output(text);
}

TEST(a_text_longer_than_the_buffer_is_accepted_once_if_it_cannot_be_flushed)
{
    m = (memory){.failing_write = 1, .error = -ECANCELED, .is_lasting = true};
    open_memory("", 0);
    ck_assert_puts(&s, "<");
    ck_assert_int_eq(weft_stream_printf(&s, "%20d", 1), 20);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_stream_printf(&s, "%20d", 2), -ECANCELED);
    m.error = -EIO;
    ck_assert_int_eq(weft_stream_flush(&s), -EIO);
    m.failing_write = 100;
    ck_assert_puts(&s, ">");
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    assert_output("<                   1>");

    unsigned writes = m.writes;
    ck_assert_puts(&s, "0123456789");
    ck_assert_uint_eq(m.writes, writes);
    ck_assert_puts(&s, "0123456789"); /* the buffer is small again */
    ck_assert_uint_eq(m.writes, writes + 1);

    m.failing_write = m.writes + 1;
    ck_assert_int_eq(weft_stream_printf(&s, "%20d", 3), 20);
    ck_assert_int_eq(weft_stream_printf(&s, "%20d", 4), -EIO);
    m.failing_write = 100;
    close_memory();
    assert_output("<                   1>01234567890123456789                   3");
}

TEST(closed_streams_and_invalid_arguments_are_refused)
{
    weft_stream_type type = memory_type;
    char *line;
    ck_assert_int_eq(weft_stream_open(&s, -1), -EBADF);
    ck_assert_int_eq(weft_stream_close(&s), -EBADF);
    ck_assert_int_eq(weft_stream_flush(&s), -EBADF);
    ck_assert_int_eq(weft_stream_line(&s, &line, NULL), -EBADF);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 1), -EBADF);
    ck_assert_int_eq(weft_stream_configure(&s, NULL), -EBADF);
    ck_assert_int_eq(weft_stream_open_with(&s, NULL, NULL), -EINVAL);
    type.close = NULL;
    ck_assert_int_eq(weft_stream_open_with(&s, &type, NULL), -EINVAL);
    open_memory("", 0);
    ck_assert_int_eq(weft_stream_detach(&s), -EOPNOTSUPP);
    ck_assert_int_eq(weft_stream_set_line_max(&s, SIZE_MAX), -EINVAL);
    ck_assert_int_eq(weft_stream_configure(&s, &(weft_stream_options){.read_bytes = SIZE_MAX}),
                     -EINVAL);
    ck_assert_int_eq(weft_stream_configure(&s, NULL), 0);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 0), 0);
}

/* Limit the process to this number of additional bytes. */
static void limit_memory(size_t bytes)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + bytes;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

TEST(without_memory_for_a_buffer_a_call_fails_and_can_be_repeated)
{
    if (is_sanitized())
        return; /* shadow memory exceeds any limit */
    char line[32];
    open_memory("a line of more than sixteen\n", 28);
    limit_memory(32 << 20);
    weft_stream_options huge = {.read_bytes = (size_t)1 << 30, .write_bytes = (size_t)1 << 30};
    ck_assert_int_eq(weft_stream_configure(&s, &huge), 0);
    ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), -ENOMEM);
    ck_assert_int_eq(weft_stream_puts(&s, "x"), -ENOMEM);
    ck_assert_int_eq(weft_stream_printf(&s, "x"), -ENOMEM);
    ck_assert_int_eq(weft_stream_configure(&s, &small), 0);
    ck_assert_int_eq(weft_stream_printf(&s, "%*d", 64 << 20, 1), -ENOMEM);
    ck_assert_puts(&s, "x");
    ck_assert_gets(&s, "a line of more than sixteen\n");
    close_memory();
    assert_output("x");
}

/* Make the C library trim the heap immediately, and allocate everything from the heap. */
static void make_heap_tight(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_TRIM_THRESHOLD, 0); /* sanitizers have their own heap, and refuse */
    (void)mallopt(M_TOP_PAD, 0);
    (void)mallopt(M_MMAP_THRESHOLD, 16 << 20);
#endif
}

static void write_and_flush(size_t bytes, void **end_before, void **end_after)
{
    weft_stream_options o = {.read_bytes = bytes, .write_bytes = bytes};
    open_memory("a line\n", 7);
    ck_assert_int_eq(weft_stream_configure(&s, &o), 0);
    ck_assert_puts(&s, "x");
    *end_before = sbrk(0);
    ck_assert_gets(&s, "a line\n");
    close_memory();
    *end_after = sbrk(0);
}

TEST(a_buffer_of_any_size_is_cached_and_does_not_move_the_end_of_the_heap)
{
    static const size_t sizes[] = {1 << 10, 8 << 10, 24 << 10, 64 << 10, 200 << 10, 1 << 20};
    make_heap_tight();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *end, *before, *after;
        write_and_flush(sizes[i], &before, &end);
        for (int round = 0; round < 10; round++) {
            write_and_flush(sizes[i], &before, &after);
            ck_assert_ptr_eq(before, end);
            ck_assert_ptr_eq(after, end);
        }
    }
}
