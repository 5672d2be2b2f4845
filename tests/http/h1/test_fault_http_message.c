/* The HTTP/1 parser without memory: the parser returns -ENOMEM and frees its memory. */
#include "http/h1/message.h"
#include "support/fault.h"
#include "support/suite.h"

static const weft__message_limits limits = {8192, 32768, 100};

/* Write a head with 22 fields, for which the parser allocates twice. Return its length. */
static size_t write_head(char *text)
{
    size_t bytes = (size_t)sprintf(text, "POST / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 20; i++)
        bytes += (size_t)sprintf(text + bytes, "F%d: v\r\n", i);
    bytes += (size_t)sprintf(text + bytes, "Transfer-Encoding: chunked\r\n\r\n");
    return bytes;
}

/* Read trailers, for which the parser allocates twice. Return whether this succeeded. */
static bool read_trailers(weft__message *m)
{
    char text[1024];
    size_t bytes = (size_t)sprintf(text, "0\r\nA: %0200d\r\nB: %0200d\r\n\r\n", 0, 0);
    size_t used, piece_bytes;
    const char *piece;
    int rc = weft__message_body(m, text, bytes, &used, &piece, &piece_bytes);
    if (!REQUIRE_OR_FAULT(rc)) {
        REQUIRE(weft__message_body(m, text, bytes, &used, &piece, &piece_bytes) == rc);
        return false;
    }
    REQUIRE(m->is_complete && used == bytes);
    REQUIRE(m->trailers_bytes == 2 * (2 + 201));
    return true;
}

static bool read_messages(void)
{
    char head[1024];
    size_t bytes = write_head(head);
    weft__message m;
    weft__message_open(&m, WEFT__REQUEST, &limits);
    bool is_done = true;
    for (int i = 0; i < 2; i++) {
        ssize_t rc = weft__message_head(&m, head, bytes);
        if (REQUIRE_OR_FAULT(rc)) {
            REQUIRE((size_t)rc == bytes && m.fields_count == 22);
            is_done &= read_trailers(&m);
        } else {
            REQUIRE(weft__message_head(&m, head, bytes) == rc);
            is_done = false;
        }
        weft__message_reset(&m);
    }
    weft__message_close(&m);
    return is_done;
}

FAULT_TEST(a_message_without_memory_is_an_error, read_messages, 1)
