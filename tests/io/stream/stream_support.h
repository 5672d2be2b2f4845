/* Helpers for the tests of streams: small buffers, and expected lines. */
#ifndef TESTS_IO_STREAM_STREAM_SUPPORT_H
#define TESTS_IO_STREAM_STREAM_SUPPORT_H

#include "support/support.h"

/*
 * As ck_assert, which is slow because it records its position. For conditions that are checked a
 * million times.
 */
#define require(condition)                          \
    do {                                            \
        if (!(condition))                           \
            ck_abort_msg("failed: %s", #condition); \
    } while (0)

/* Buffers that are small enough to be exceeded by little data. */
static const weft_stream_options small = {.read_bytes = 16, .write_bytes = 16};

#define ck_assert_gets(s, expected)                                    \
    do {                                                               \
        char ck_line[256];                                             \
        ck_assert_int_eq(weft_stream_gets(s, ck_line, sizeof ck_line), \
                         (ssize_t)sizeof(expected) - 1);               \
        ck_assert_mem_eq(ck_line, expected, sizeof(expected));         \
    } while (0)

#define ck_assert_line(s, expected)                                    \
    do {                                                               \
        char *ck_line;                                                 \
        size_t ck_bytes;                                               \
        ck_assert_int_eq(weft_stream_line(s, &ck_line, &ck_bytes), 1); \
        ck_assert_uint_eq(ck_bytes, sizeof(expected) - 1);             \
        ck_assert_mem_eq(ck_line, expected, sizeof(expected));         \
    } while (0)

/* Assert that weft_stream_puts accepts the whole text. */
#define ck_assert_puts(s, text) ck_assert_int_eq(weft_stream_puts(s, text), (ssize_t)strlen(text))

/* Return an error as a positive value, so that the parent does not receive it. */
static inline weft_value as_value(ssize_t result)
{
    return result < 0 ? -result : result;
}

FIBER(read_a_line, as_value(weft_stream_line(arg, &(char *){NULL}, NULL)))
FIBER(close_stream, as_value(weft_stream_close(arg)))

static inline weft_value put_and_flush(void *arg)
{
    ck_assert_puts(arg, "hello\n");
    return as_value(weft_stream_flush(arg));
}

#define ck_assert_at_end(s)                                           \
    do {                                                              \
        char ck_line[8] = "before", *ck_in_place;                     \
        ck_assert_int_eq(weft_stream_gets(s, ck_line, 8), 0);         \
        ck_assert_str_eq(ck_line, "");                                \
        ck_assert_int_eq(weft_stream_line(s, &ck_in_place, NULL), 0); \
        ck_assert_int_eq(weft_stream_read(s, ck_line, 8), 0);         \
        ck_assert_int_eq(weft_stream_read_exact(s, ck_line, 8), 0);   \
    } while (0)

#define LENGTH_MAX 70 /* bytes; more than four small buffers */

/* Write lines of 0 to LENGTH_MAX bytes. Return the length of the text. */
static inline size_t make_lines(char *text)
{
    size_t n = 0;
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        for (size_t i = 0; i < length; i++)
            text[n++] = (char)('a' + (length + i) % 26);
        text[n++] = '\n';
    }
    return n;
}

/* Assert all lines. Read them alternately with weft_stream_gets and weft_stream_line. */
static inline void expect_lines(weft_stream *s, const char *text, size_t bytes)
{
    for (size_t at = 0, length; at < bytes; at += length) {
        length = (size_t)((const char *)memchr(text + at, '\n', bytes - at) - text) + 1 - at;
        char line[LENGTH_MAX + 2], *in_place;
        size_t n;
        if (length % 2 == 0) {
            ck_assert_int_eq(weft_stream_gets(s, line, sizeof line), (ssize_t)length);
            ck_assert_mem_eq(line, text + at, length);
        } else {
            ck_assert_int_eq(weft_stream_line(s, &in_place, &n), 1);
            ck_assert_uint_eq(n, length - 1);
            ck_assert_mem_eq(in_place, text + at, n);
            ck_assert_int_eq(in_place[n], '\0');
        }
    }
    ck_assert_at_end(s);
}

#endif
