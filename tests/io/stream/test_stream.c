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

/* Open s over m. Keep the limits and the failing calls of m. */
static void open_memory(weft_stream *s, memory *m, const char *input, size_t bytes)
{
    m->input = input;
    m->input_bytes = bytes;
    m->input_at = m->output_bytes = m->reads = m->writes = 0;
    ck_assert_int_eq(weft_stream_open_with(s, &memory_type, m), 0);
    ck_assert_int_eq(weft_stream_configure(s, &small), 0);
}

static void assert_output(const memory *m, const char *expected)
{
    ck_assert_uint_eq(m->output_bytes, strlen(expected));
    ck_assert_mem_eq(m->output, expected, m->output_bytes);
}

TEST(a_line_in_place_has_no_newline_and_no_carriage_return_before_it)
{
    weft_stream s;
    memory m = {0};
    const char input[] = "one\r\n\r\n\ntwo\rhalves\r\r\n\r";
    for (m.read_max = 0; m.read_max < sizeof input; m.read_max++) {
        open_memory(&s, &m, input, sizeof input - 1);
        ck_assert_line(&s, "one");
        ck_assert_line(&s, "");
        ck_assert_line(&s, "");
        ck_assert_line(&s, "two\rhalves\r");
        ck_assert_line(&s, "\r");
        ck_assert_at_end(&s);
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

TEST(nuls_in_a_line_are_bytes_like_others)
{
    weft_stream s;
    memory m = {0};
    const char input[] = "\0a\0\n\0\n\0\0\nb\0";
    open_memory(&s, &m, input, sizeof input - 1);
    ck_assert_gets(&s, "\0a\0\n");
    ck_assert_line(&s, "\0");
    ck_assert_line(&s, "\0\0");
    ck_assert_gets(&s, "b\0");
    ck_assert_at_end(&s);
    ck_assert_int_eq(weft_stream_close(&s), 0);
}

/* P60 */
TEST(lines_of_every_length_are_complete_however_the_input_is_split)
{
    static char text[LENGTH_MAX * LENGTH_MAX];
    size_t bytes = make_lines(text);
    weft_stream s;
    memory m = {0};
    for (m.read_max = 0; m.read_max < 40; m.read_max++) {
        open_memory(&s, &m, text, bytes);
        expect_lines(&s, text, bytes);
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

TEST(a_line_over_the_limit_is_refused_and_stays_buffered)
{
    for (size_t limit = 1; limit <= 40; limit++) {
        weft_stream s;
        memory m = {.read_max = limit % 3};
        char text[128], line[64], *in_place;
        memset(text, 'x', sizeof text);
        text[limit - 1] = text[2 * limit] = '\n'; /* limit and limit + 1 bytes */
        open_memory(&s, &m, text, 2 * limit + 1);
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
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

TEST(a_last_line_of_exactly_the_limit_needs_no_newline)
{
    weft_stream s;
    memory m = {.read_max = 1};
    char line[8], *in_place;
    open_memory(&s, &m, "1234567", 7);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 6), 0);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_gets(&s, line, 8), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_gets(&s, line, 1), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_gets(&s, line, 0), -EINVAL);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 7), 0);
    ck_assert_int_eq(weft_stream_gets(&s, line, 8), 7);
    ck_assert_str_eq(line, "1234567");
    ck_assert_int_eq(weft_stream_close(&s), 0);
    open_memory(&s, &m, "1234567", 7);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 7), 0);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
    ck_assert_str_eq(in_place, "1234567");
    ck_assert_int_eq(weft_stream_close(&s), 0);
    /* The default limit. */
    char *big = malloc(70000);
    memset(big, 'x', 70000);
    open_memory(&s, &m, big, 65536);
    m.read_max = 0;
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    open_memory(&s, &m, big, 65537);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), -EMSGSIZE);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 70000), 0);
    ck_assert_int_eq(weft_stream_line(&s, &in_place, NULL), 1);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    free(big);
}

/* P60 */
TEST(an_exact_read_consumes_all_bytes_or_none)
{
    weft_stream s;
    memory m = {0};
    char text[100], data[100];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)i;
    for (size_t bytes = 1; bytes <= sizeof text; bytes++) {
        m.read_max = bytes % 8;
        open_memory(&s, &m, text, sizeof text);
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
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

TEST(buffered_input_can_be_peeked_in_place_and_skipped)
{
    weft_stream s;
    memory m = {.read_max = 3};
    const void *data;
    char copy[8];
    open_memory(&s, &m, "0123456789", 10);
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
    ck_assert_int_eq(weft_stream_close(&s), 0);
    ck_assert_uint_eq(m.closes, 1);
}

TEST(a_large_read_bypasses_the_buffer_and_a_small_one_does_not)
{
    weft_stream s;
    memory m = {0};
    char data[32];
    open_memory(&s, &m, "0123456789012345678901234567890123456789", 40);
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
    ck_assert_int_eq(weft_stream_close(&s), 0);
}

TEST(the_buffer_grows_only_for_longer_input_and_shrinks_afterwards)
{
    weft_stream s;
    memory m = {0};
    char text[400], data[100];
    memset(text, 'x', sizeof text);
    text[350] = '\n';
    open_memory(&s, &m, text, sizeof text);
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
    ck_assert_int_eq(weft_stream_close(&s), 0);
}

__attribute__((format(printf, 2, 3))) static ssize_t print_args(weft_stream *s, const char *format,
                                                                ...)
{
    va_list args;
    va_start(args, format);
    ssize_t n = weft_stream_vprintf(s, format, args);
    va_end(args);
    return n;
}

TEST(output_waits_for_a_flush_or_a_full_buffer)
{
    weft_stream s;
    memory m = {0};
    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    ck_assert_int_eq(weft_stream_write(&s, NULL, 0), 0);
    ck_assert_int_eq(weft_stream_puts(&s, "0123456789"), 10);
    ck_assert_int_eq(weft_stream_printf(&s, "%s%d", "ab", 12), 4);
    ck_assert_int_eq(print_args(&s, "%d%s", 3, "4"), 2);
    ck_assert_uint_eq(m.writes, 0);
    ck_assert_int_eq(weft_stream_puts(&s, "x"), 1);
    ck_assert_uint_eq(m.writes, 1);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    assert_output(&m, "0123456789ab1234x");
    ck_assert_int_eq(weft_stream_puts(&s, "end"), 3);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    assert_output(&m, "0123456789ab1234xend");
}

TEST(a_large_write_is_sent_in_one_call_with_buffered_output)
{
    weft_stream s;
    memory m = {0};
    const char *large = "a text of more than sixteen bytes";
    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_puts(&s, "head "), 5);
    ck_assert_int_eq(weft_stream_puts(&s, large), (ssize_t)strlen(large));
    ck_assert_uint_eq(m.writes, 1);
    ck_assert_int_eq(m.pieces_last, 2);
    ck_assert_ptr_eq(m.data_last, large);
    ck_assert_int_eq(weft_stream_puts(&s, large), (ssize_t)strlen(large));
    ck_assert_int_eq(m.pieces_last, 1);
    assert_output(&m, "head a text of more than sixteen bytesa text of more than sixteen bytes");
    ck_assert_int_eq(weft_stream_close(&s), 0);
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
static unsigned write_until_accepted(weft_stream *s, const char *data, size_t bytes)
{
    unsigned failed = 0;
    for (size_t done = 0; done < bytes;) {
        ssize_t n = weft_stream_write(s, data + done, bytes - done);
        require(n > 0 || n == -EIO || n == -ECANCELED);
        require(n <= (ssize_t)(bytes - done));
        failed += n < 0;
        done += n < 0 ? 0 : (size_t)n;
    }
    return failed;
}

/* Write the test output, and repeat failed calls. Return the number of failures. */
static unsigned write_with_retries(weft_stream *s)
{
    unsigned failed = 0;
    for (int length = 0; length <= LENGTH_MAX; length += 3) {
        char text[LENGTH_MAX + 8];
        ssize_t n;
        while ((n = weft_stream_printf(s, "%*d|", length, length)) < 0) {
            require(n == -EIO || n == -ECANCELED);
            failed++;
        }
        int bytes = snprintf(text, sizeof text, "%0*d|", length, length);
        failed += write_until_accepted(s, text, (size_t)bytes);
    }
    int rc;
    while ((rc = weft_stream_flush(s)) < 0) {
        require(rc == -EIO || rc == -ECANCELED);
        failed++;
    }
    return failed;
}

static void fail_each_write(memory *m, const char *expected, size_t bytes)
{
    bool has_failed = true;
    for (m->failing_write = 1; has_failed; m->failing_write++) {
        weft_stream s;
        open_memory(&s, m, "", 0);
        unsigned failed = write_with_retries(&s);
        has_failed = m->writes >= m->failing_write;
        ck_assert_uint_le(failed, has_failed);
        if (m->error == -EIO)
            ck_assert_uint_eq(failed, has_failed); /* the error is reported once, now or later */
        ck_assert_uint_eq(m->output_bytes, bytes);
        ck_assert_mem_eq(m->output, expected, bytes);
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

/* P61 */
TEST(whichever_write_fails_each_byte_is_written_once)
{
    char expected[4096];
    size_t bytes = make_output(expected, sizeof expected);
    memory m = {0};
    for (m.write_max = 0; m.write_max < 40; m.write_max += 5)
        for (int i = 0; i < 2; i++) {
            m.error = i == 0 ? -EIO : -ECANCELED;
            fail_each_write(&m, expected, bytes);
        }
}

/* Read with one of four calls, selected by how. Return the bytes read, or the error. */
static ssize_t read_by_kind(weft_stream *s, unsigned how, char *data, size_t room)
{
    const void *in_place;
    char *line;
    size_t bytes;
    ssize_t n;
    switch (how % 4) {
    case 0:
        return weft_stream_gets(s, data, room);
    case 1:
        n = weft_stream_line(s, &line, &bytes);
        if (n <= 0)
            return n;
        memcpy(data, line, bytes);
        data[bytes] = '\n'; /* there are no carriage returns */
        return (ssize_t)bytes + 1;
    case 2:
        return weft_stream_read_exact(s, data, how % 37 + 1);
    default:
        n = weft_stream_peek(s, how % 41 + 1, &in_place);
        n = n > (ssize_t)room ? (ssize_t)room : n;
        if (n <= 0)
            return n;
        memcpy(data, in_place, (size_t)n);
        ck_assert_int_eq(weft_stream_skip(s, (size_t)n), 0);
        return n;
    }
}

/* P61 */
TEST(whichever_read_fails_each_byte_is_read_once)
{
    static char text[LENGTH_MAX * LENGTH_MAX], got[LENGTH_MAX * LENGTH_MAX];
    size_t bytes = make_lines(text);
    memory m = {.error = -ECANCELED};
    for (m.read_max = 0; m.read_max < 40; m.read_max += 13) {
        bool has_failed = true;
        for (m.failing_read = 1; has_failed; m.failing_read++) {
            weft_stream s;
            open_memory(&s, &m, text, bytes);
            size_t at = 0;
            unsigned failed = 0;
            ssize_t n = 1;
            for (unsigned how = 0; n != 0; how++) {
                n = read_by_kind(&s, how, got + at, 100);
                require(n >= 0 || n == -ECANCELED || n == -ENODATA);
                failed += n == -ECANCELED;
                at += n < 0 ? 0 : (size_t)n;
            }
            has_failed = m.reads >= m.failing_read;
            ck_assert_uint_eq(failed, has_failed);
            ck_assert_uint_eq(at, bytes);
            ck_assert_mem_eq(got, text, bytes);
            ck_assert_int_eq(weft_stream_close(&s), 0);
        }
    }
}

TEST(replies_to_buffered_input_are_sent_together)
{
    weft_stream s;
    memory m = {0};
    char *line;
    open_memory(&s, &m, "1\n2\n3\n4\n", 8);
    while (weft_stream_line(&s, &line, NULL) > 0)
        ck_assert_int_eq(weft_stream_printf(&s, "%s.", line), 2);
    assert_output(&m, "1.2.3.4.");
    ck_assert_uint_eq(m.writes, 1);
    ck_assert_int_eq(weft_stream_close(&s), 0);
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
        ck_assert_int_eq(weft_schedule(l->waiting[i], 1), 0);
    return 0;
}

/* Return an error as a positive value, so that the parent does not receive it. */
static weft_value as_value(ssize_t result)
{
    return result < 0 ? -result : result;
}

static weft_value read_a_line(void *arg)
{
    char *line;
    return as_value(weft_stream_line(arg, &line, NULL));
}

static weft_value put_and_flush(void *arg)
{
    ck_assert_int_eq(weft_stream_puts(arg, "hello\n"), 6);
    return as_value(weft_stream_flush(arg));
}

FIBER(close_stream, as_value(weft_stream_close(arg)))

/* P65: another file may have the number by then */
TEST(no_underlying_call_follows_the_close)
{
    static const weft_stream_type late_type = {
        .read = late_read, .writev = late_writev, .close = late_close};
    weft_stream s;
    late_stream l = {0};
    ck_assert_int_eq(weft_stream_open_with(&s, &late_type, &l), 0);
    weft_fiber reader = weft_spin(read_a_line, &s), writer = weft_spin(put_and_flush, &s);
    let_run();
    ck_assert_int_eq(weft_await(weft_spin(close_stream, &s)), EBADF);
    ck_assert_int_eq(weft_await(reader), EBADF);
    ck_assert_int_eq(weft_await(writer), EBADF);
    ck_assert_uint_eq(l.calls, 2);
}

FIBER(put_hello, weft_stream_puts(arg, "hello\n"))

TEST(a_read_does_not_flush_output_of_another_fiber)
{
    weft_stream s;
    memory m = {0};
    open_memory(&s, &m, "1\n", 2);
    ck_assert_int_eq(weft_await(weft_spin(put_hello, &s)), 6);
    ck_assert_gets(&s, "1\n");
    ck_assert_at_end(&s);
    ck_assert_uint_eq(m.writes, 0);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    assert_output(&m, "hello\n");
    ck_assert_int_eq(weft_stream_close(&s), 0);
}

TEST(a_peer_that_stopped_reading_can_still_be_read_from)
{
    for (int i = 0; i < 2; i++) {
        weft_stream s;
        memory m = {.failing_write = 1, .error = i == 0 ? -EPIPE : -ECONNRESET};
        open_memory(&s, &m, "last words\n", 11);
        ck_assert_int_eq(weft_stream_puts(&s, "hello"), 5);
        ck_assert_gets(&s, "last words\n");
        ck_assert_int_eq(weft_stream_puts(&s, "more"), m.error);
        ck_assert_int_eq(weft_stream_close(&s), 0); /* the second write succeeds */
        assert_output(&m, "hello");
        m.failing_write = 1;
        m.error = -EIO;
        open_memory(&s, &m, "1\n", 2);
        ck_assert_int_eq(weft_stream_puts(&s, "hello"), 5);
        char line[8];
        ck_assert_int_eq(weft_stream_gets(&s, line, 8), -EIO);
        ck_assert_gets(&s, "1\n");
        assert_output(&m, "hello");
        ck_assert_int_eq(weft_stream_close(&s), 0);
    }
}

TEST(a_large_write_that_fails_halfway_returns_its_bytes_and_then_the_error)
{
    weft_stream s;
    memory m = {.write_max = 20, .failing_write = 2, .error = -EIO};
    const char *text = "0123456789012345678901234567890123456789";
    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_puts(&s, "abcd"), 4);
    ck_assert_int_eq(weft_stream_puts(&s, text), 16);
    ck_assert_int_eq(weft_stream_puts(&s, text + 16), -EIO);
    ck_assert_int_eq(weft_stream_puts(&s, text + 16), 24);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    assert_output(&m, "abcd0123456789012345678901234567890123456789");

    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_puts(&s, text), 20);
    ck_assert_int_eq(weft_stream_close(&s), -EIO);
    m.error = -ECANCELED; /* of a scope that has ended before the next call */
    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_puts(&s, text), 20);
    ck_assert_int_eq(weft_stream_puts(&s, text + 20), 20);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    assert_output(&m, text);
}

TEST(a_text_longer_than_the_buffer_is_accepted_once_if_it_cannot_be_flushed)
{
    weft_stream s;
    memory m = {.failing_write = 1, .error = -ECANCELED, .is_lasting = true};
    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_puts(&s, "<"), 1);
    ck_assert_int_eq(weft_stream_printf(&s, "%20d", 1), 20);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_stream_printf(&s, "%20d", 2), -ECANCELED);
    m.error = -EIO;
    ck_assert_int_eq(weft_stream_flush(&s), -EIO);
    m.failing_write = 100;
    ck_assert_int_eq(weft_stream_puts(&s, ">"), 1);
    ck_assert_int_eq(weft_stream_flush(&s), 0);
    assert_output(&m, "<                   1>");

    unsigned writes = m.writes;
    ck_assert_int_eq(weft_stream_puts(&s, "0123456789"), 10);
    ck_assert_uint_eq(m.writes, writes);
    ck_assert_int_eq(weft_stream_puts(&s, "0123456789"), 10); /* the buffer is small again */
    ck_assert_uint_eq(m.writes, writes + 1);

    m.failing_write = m.writes + 1;
    ck_assert_int_eq(weft_stream_printf(&s, "%20d", 3), 20);
    ck_assert_int_eq(weft_stream_printf(&s, "%20d", 4), -EIO);
    m.failing_write = 100;
    ck_assert_int_eq(weft_stream_close(&s), 0);
    assert_output(&m, "<                   1>01234567890123456789                   3");
}

TEST(closed_streams_and_invalid_arguments_are_refused)
{
    weft_stream s = {{0}};
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
    memory m = {0};
    open_memory(&s, &m, "", 0);
    ck_assert_int_eq(weft_stream_detach(&s), -EOPNOTSUPP);
    ck_assert_int_eq(weft_stream_set_line_max(&s, SIZE_MAX), -EINVAL);
    ck_assert_int_eq(weft_stream_configure(&s, &(weft_stream_options){.read_bytes = SIZE_MAX}),
                     -EINVAL);
    ck_assert_int_eq(weft_stream_configure(&s, NULL), 0);
    ck_assert_int_eq(weft_stream_set_line_max(&s, 0), 0);
    ck_assert_int_eq(weft_stream_close(&s), 0);
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
    weft_stream s;
    memory m = {0};
    char line[32];
    open_memory(&s, &m, "a line of more than sixteen\n", 28);
    limit_memory(32 << 20);
    weft_stream_options huge = {.read_bytes = (size_t)1 << 30, .write_bytes = (size_t)1 << 30};
    ck_assert_int_eq(weft_stream_configure(&s, &huge), 0);
    ck_assert_int_eq(weft_stream_gets(&s, line, sizeof line), -ENOMEM);
    ck_assert_int_eq(weft_stream_puts(&s, "x"), -ENOMEM);
    ck_assert_int_eq(weft_stream_printf(&s, "x"), -ENOMEM);
    ck_assert_int_eq(weft_stream_configure(&s, &small), 0);
    ck_assert_int_eq(weft_stream_printf(&s, "%*d", 64 << 20, 1), -ENOMEM);
    ck_assert_int_eq(weft_stream_puts(&s, "x"), 1);
    ck_assert_gets(&s, "a line of more than sixteen\n");
    ck_assert_int_eq(weft_stream_close(&s), 0);
    assert_output(&m, "x");
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
    weft_stream s;
    memory m = {0};
    weft_stream_options o = {.read_bytes = bytes, .write_bytes = bytes};
    open_memory(&s, &m, "a line\n", 7);
    ck_assert_int_eq(weft_stream_configure(&s, &o), 0);
    ck_assert_int_eq(weft_stream_puts(&s, "x"), 1);
    *end_before = sbrk(0);
    ck_assert_gets(&s, "a line\n");
    ck_assert_int_eq(weft_stream_close(&s), 0);
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
