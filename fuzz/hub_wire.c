/*
 * Fuzz the protocol of NATS. The first byte seeds the sizes of the pieces in which the rest
 * arrives. The operations must not depend on the pieces. Each message is written again, parsed
 * again, and must be the same. The headers and subjects of messages go through their own parsers.
 */
#include "hub/text/header.h"
#include "hub/text/subject.h"
#include "hub/wire/output.h"
#include "hub/wire/parse.h"
#include "require.h"

#include <errno.h>

#define PAYLOAD_MAX 1000

static void require_inside(weft__slice s, const char *data, size_t bytes)
{
    REQUIRE(s.bytes == 0 || (s.data >= data && s.data + s.bytes <= data + bytes));
}

static void require_equal(weft__slice a, weft__slice b)
{
    REQUIRE(a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0));
}

static void require_same_op(const weft__op_line *a, const weft__op_line *b)
{
    REQUIRE(a->verb == b->verb && a->sid == b->sid && a->messages_max == b->messages_max);
    require_equal(a->args, b->args);
    require_equal(a->subject, b->subject);
    require_equal(a->reply, b->reply);
    require_equal(a->queue, b->queue);
    require_equal(a->headers, b->headers);
    require_equal(a->payload, b->payload);
}

static void fuzz_headers(weft__slice headers)
{
    int status = weft__header_status(headers);
    REQUIRE(status == 0 || (status >= 100 && status <= 999));
    require_inside(weft__header_status_text(headers), headers.data, headers.bytes);
    require_inside(weft__header_find(headers, "Nats-Msg-Id"), headers.data, headers.bytes);
    (void)weft__header_number(headers, "a", 0);
    (void)weft__header_is_valid(headers);
}

static void fuzz_subject(weft__slice subject)
{
    static const char *const patterns[] = {">", "*", "a.*", "a.>", "*.*.b"};
    bool is_pattern = weft__subject_is_valid(subject, true);
    REQUIRE(is_pattern || !weft__subject_is_valid(subject, false));
    if (!weft__subject_is_valid(subject, false))
        return;
    REQUIRE(weft__subject_matches(subject, subject));
    REQUIRE(weft__subject_matches(weft__slice_of(">"), subject));
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        (void)weft__subject_matches(weft__slice_of(patterns[i]), subject);
}

/* Write a message, and parse what was written. */
static void fuzz_rewrite(const weft__op_line *op)
{
    weft__buffer out = {0};
    weft__publication p = {op->subject, op->reply, op->headers, op->payload};
    weft__op_line again;
    size_t need;
    REQUIRE((op->verb == WEFT__VERB_MSG ? weft__output_msg(&out, &p, op->sid)
                                        : weft__output_pub(&out, &p)) == 0);
    REQUIRE(weft__wire_parse(out.data, out.bytes, PAYLOAD_MAX, &again, &need) ==
            (ssize_t)out.bytes);
    require_same_op(op, &again);
    weft__buffer_free(&out);
}

static void fuzz_op(const weft__op_line *op, const char *data, size_t bytes)
{
    const weft__slice slices[] = {op->args,  op->subject, op->reply,
                                  op->queue, op->headers, op->payload};
    for (size_t i = 0; i < sizeof slices / sizeof slices[0]; i++)
        require_inside(slices[i], data, bytes);
    fuzz_headers(op->headers);
    fuzz_subject(op->subject);
    if (op->verb == WEFT__VERB_MSG || op->verb == WEFT__VERB_PUB)
        fuzz_rewrite(op);
}

/* Parse a copy of the exact size, so that ASan finds reads after its end. */
static ssize_t parse_exactly(const char *data, size_t bytes, weft__op_line *op, size_t *need,
                             char **copy)
{
    *copy = malloc(bytes > 0 ? bytes : 1);
    REQUIRE(*copy != NULL);
    memcpy(*copy, data, bytes);
    return weft__wire_parse(*copy, bytes, PAYLOAD_MAX, op, need);
}

/* Parse data as a part of it has arrived, up to whole: its result is known. */
static void fuzz_part(const char *data, size_t part, ssize_t whole, const weft__op_line *expected)
{
    weft__op_line op;
    size_t need = 0;
    char *copy;
    ssize_t rc = parse_exactly(data, part, &op, &need, &copy);
    if (rc == 0)
        REQUIRE(need > part && (whole <= 0 || need <= (size_t)whole));
    else
        REQUIRE(rc == whole);
    if (rc > 0)
        require_same_op(&op, expected);
    REQUIRE(rc != 0 || whole <= 0 || part < (size_t)whole);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t input_bytes)
{
    if (input_bytes == 0)
        return 0;
    const char *data = (const char *)input + 1;
    size_t bytes = input_bytes - 1;
    for (unsigned step = 1 + input[0] % 32;;) {
        weft__op_line op;
        size_t need = 0;
        char *copy;
        ssize_t rc = parse_exactly(data, bytes, &op, &need, &copy);
        REQUIRE(rc == -EPROTO || rc == -EMSGSIZE || (rc >= 0 && (size_t)rc <= bytes));
        size_t all = rc > 0 ? (size_t)rc : bytes;
        for (size_t part = 0; part <= all; part += step)
            fuzz_part(data, part, rc, &op);
        if (rc > 0)
            fuzz_op(&op, copy, (size_t)rc);
        free(copy);
        if (rc <= 0)
            return 0;
        data += rc;
        bytes -= (size_t)rc;
    }
}
