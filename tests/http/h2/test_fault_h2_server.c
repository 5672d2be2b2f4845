/*
 * The HTTP/2 server with faults: the n-th call fails, as in test_fault.c, also in nghttp2. Each
 * reply is complete, has the status of a failure, or its stream or connection ends without
 * END_STREAM. Nothing is leaked.
 */
#include "http/fault_conn.h"
#include "support/suite.h"

static const weft_http_options options = {.server_name = "weft", .gzip_level = 1};

static int handle_faulty_request(weft_http_request *r, void *ctx)
{
    char *body;
    const char *path = weft_http_path(r);
    if (strcmp(path, "/pieces") == 0)
        return reply_in_pieces(r);
    if (strcmp(path, "/echo") == 0)
        return echo_line(r);
    if (strcmp(path, "/hints") == 0 && weft_http_inform(r, 103) < 0)
        return -ENOMEM;
    ssize_t n = weft_http_read_all(r, &body);
    return n < 0 ? (int)n : weft_http_reply(r, 200, "text/plain", body, (size_t)n);
}

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"
/* Fields of the static table, and literals without an index. */
#define GET            \
    "\x82\x86\x41\x01" \
    "a"
#define POST           \
    "\x83\x86\x41\x01" \
    "a"

/* Find the end of a stream in the received frames. Return its DATA, or NULL if it has not ended. */
static const char *ended_body(uint32_t id)
{
    static char body[65536];
    size_t bytes = 0;
    const uint8_t *at = (const uint8_t *)fault_received, *end = at + fault_received_bytes;
    while (end - at >= 9) {
        size_t length = (size_t)at[0] << 16 | (size_t)at[1] << 8 | at[2];
        uint32_t frame_id = (uint32_t)at[7] << 8 | at[8];
        REQUIRE((size_t)(end - at) >= 9 + length || atomic_load(&fault.injected) > 0);
        if ((size_t)(end - at) < 9 + length)
            return NULL;
        if (frame_id == id && at[3] == 0) {
            memcpy(body + bytes, at + 9, length);
            bytes += length;
        }
        body[bytes] = '\0';
        if (frame_id == id && at[3] <= 1 && (at[4] & 1) != 0)
            return body;
        at += 9 + length;
    }
    return NULL;
}

/* Return whether a stream has ended with this body. Otherwise, require another status. */
static bool has_body(uint32_t id, const char *expected)
{
    const char *body = ended_body(id);
    bool is_done = body != NULL && strstr(body, expected) != NULL;
    REQUIRE_UNLESS_FAULT(is_done);
    REQUIRE(is_done || body == NULL || strncmp(body, "50", 2) == 0);
    return is_done;
}

TEST_FAULTS(requests_of_a_connection_get_a_reply_or_fail)
{
    static const char requests[] = PREFACE "\0\0\x06\x01\x05\0\0\0\x01" GET "\x84"
                                           "\0\0\x06\x01\x04\0\0\0\x03" POST "\x84"
                                           "\0\0\x05\0\0\0\0\0\x03"
                                           "hello"
                                           "\0\0\x05\x01\x05\0\0\0\x03"
                                           "\0\x01"
                                           "x\x01"
                                           "y"
                                           "\0\0\x0e\x01\x05\0\0\0\x05" GET "\x04\x07/pieces"
                                           "\0\0\x0d\x01\x05\0\0\0\x07" GET "\x04\x06/hints";
    fault_conn.handler = handle_faulty_request;
    fault_conn.options = &options;
    (void)fault_exchange_bytes(requests, sizeof requests - 1);
    bool is_done = has_body(1, "");
    is_done &= has_body(3, "hello");
    is_done &= has_body(5, "piece 2 0;");
    is_done &= has_body(7, "");
    return is_done;
}

TEST_FAULTS(an_extended_connect_succeeds_or_the_stream_ends)
{
    static const char requests[] = PREFACE "\0\0\x24\x01\x04\0\0\0\x01"
                                           "\x02\x07"
                                           "CONNECT"
                                           "\x86\x41\x01"
                                           "a"
                                           "\x04\x05/echo"
                                           "\0\x09:protocol"
                                           "\x04"
                                           "echo"
                                           "\0\0\x06\0\x01\0\0\0\x01"
                                           "hello\n";
    fault_conn.handler = handle_faulty_request;
    fault_conn.options = &options;
    (void)fault_exchange_bytes(requests, sizeof requests - 1);
    return has_body(1, "<hello>");
}
