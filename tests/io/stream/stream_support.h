/* What the tests of streams share: small buffers, and lines to expect. */
#ifndef TESTS_STREAM_SUPPORT_H
#define TESTS_STREAM_SUPPORT_H

#include "support.h"

/* As ck_assert, which notes where it is each time, for what is asked a million times. */
#define require(condition)                          \
    do {                                            \
        if (!(condition))                           \
            ck_abort_msg("not so: %s", #condition); \
    } while (0)

/* Small buffers, so that little data is more than they hold. */
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

#define ck_assert_at_end(s)                                         \
    do {                                                            \
        char ck_line[8] = "before", *ck_place;                      \
        ck_assert_int_eq(weft_stream_gets(s, ck_line, 8), 0);       \
        ck_assert_str_eq(ck_line, "");                              \
        ck_assert_int_eq(weft_stream_line(s, &ck_place, NULL), 0);  \
        ck_assert_int_eq(weft_stream_read(s, ck_line, 8), 0);       \
        ck_assert_int_eq(weft_stream_read_exact(s, ck_line, 8), 0); \
    } while (0)

#define LENGTH_MAX 70 /* bytes; over four of the small buffers */

/* Lines of 0 to LENGTH_MAX bytes and a newline. Returns its length. */
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

/* Line by line, by gets and in place in turn. */
static inline void expect_lines(weft_stream *s, const char *text, size_t bytes)
{
    for (size_t at = 0, length; at < bytes; at += length) {
        length = (size_t)((const char *)memchr(text + at, '\n', bytes - at) - text) + 1 - at;
        char line[LENGTH_MAX + 2], *place;
        size_t n;
        if (length % 2 == 0) {
            ck_assert_int_eq(weft_stream_gets(s, line, sizeof line), (ssize_t)length);
            ck_assert_mem_eq(line, text + at, length);
        } else {
            ck_assert_int_eq(weft_stream_line(s, &place, &n), 1);
            ck_assert_uint_eq(n, length - 1);
            ck_assert_mem_eq(place, text + at, n);
            ck_assert_int_eq(place[n], '\0');
        }
    }
    ck_assert_at_end(s);
}

#endif
