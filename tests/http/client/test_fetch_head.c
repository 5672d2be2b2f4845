/* The head of a response: violations that the client tolerates, and violations that it refuses. */
#include "http/fetch_support.h"
#include "support/suite.h"

FIXTURE(open_hello, close_site)

/* The reply that send_byte_by_byte sends. */
static const char *byte_by_byte_reply;

static bool send_byte_by_byte(script_server *sv, weft_stream *s)
{
    for (const char *at = byte_by_byte_reply; *at != '\0'; at++) {
        weft_stream_write(s, at, 1);
        weft_stream_flush(s);
        weft_snooze();
    }
    return false;
}

typedef struct row {
    const char *reply;
    int status;
    const char *field;
    const char *body;
} row;

static void check_rows(const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        byte_by_byte_reply = rows[i].reply;
        const script_step steps[] = {{.reply = rows[i].reply, .closes = true},
                                     {.handle = send_byte_by_byte}};
        for (size_t k = 0; k < COUNT_OF(steps); k++) {
            open_site(&steps[k], 1);
            int status = get("/");
            ck_assert_msg(status == rows[i].status, "row %zu, step %zu: %d", i, k, status);
            if (status >= 0) {
                ck_assert_str_eq(weft_fetch_header(fetch, "X-Field"), rows[i].field);
                assert_body(rows[i].body);
                close_fetch();
            }
        }
    }
}

#define HEAD "HTTP/1.1 200 OK\r\n"

TEST(a_folded_line_of_a_response_is_one_line)
{
    static const row rows[] = {
        {HEAD "X-Field: a\r\n b\r\nContent-Length: 2\r\n\r\nhi", 200, "a   b", "hi"},
        {HEAD "X-Field: a\r\n\tb\r\n  c\r\nContent-Length: 2\r\n\r\nhi", 200, "a  \tb    c", "hi"},
        {HEAD "X-Field:\r\n a\r\nContent-Length: 2\r\n\r\nhi", 200, "a", "hi"},
        {HEAD "Content-Length: 2\r\nX-Field: a\r\n \r\n\r\nhi", 200, "a", "hi"},
        {HEAD "X-Field: a\r\nContent-Length:\r\n 2\r\n\r\nhi", 200, "a", "hi"},
        {HEAD "X-Field: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", 200, "a",
         "hi"},
        {"HTTP/1.1 103 Hints\r\nX-Field: x\r\n y\r\n\r\n" HEAD
         "X-Field: a\r\n b\r\nContent-Length: 2\r\n\r\nhi",
         200, "a   b", "hi"},
    };
    check_rows(rows, COUNT_OF(rows));
}

TEST(a_fold_that_would_change_the_meaning_of_a_response_is_refused)
{
    static const row rows[] = {
        {HEAD " X-Field: a\r\nContent-Length: 2\r\n\r\nhi", -EBADMSG},
        {HEAD "X-Field: a\r\nContent-Length: 1\r\n 2\r\n\r\nhi", -EBADMSG},
        {HEAD "X-Fi\r\n eld: a\r\nContent-Length: 2\r\n\r\nhi", -EBADMSG},
        {HEAD "X-Field: a\n b\r\nContent-Length: 2\r\n\r\nhi", -EBADMSG},
        {HEAD "X-Field: a\r\n b\r\n", -ECONNRESET},
    };
    check_rows(rows, COUNT_OF(rows));
}

TEST(equal_content_lengths_of_a_response_are_one_length)
{
    static const row rows[] = {
        {HEAD "Content-Length: 2\r\nContent-Length: 2\r\nX-Field: a\r\n\r\nhi", 200, "a", "hi"},
        {HEAD "Content-Length: 2, 2\r\nX-Field: a\r\n\r\nhi", 200, "a", "hi"},
        {HEAD "content-length: 2 ,2,  2\r\nX-Field: a\r\nCONTENT-LENGTH:2\r\n\r\nhi", 200, "a",
         "hi"},
        {HEAD "X-Field: a\r\n b\r\nContent-Length: 2,\r\n 2\r\nContent-Length: 2\r\n\r\nhi", 200,
         "a   b", "hi"},
    };
    check_rows(rows, COUNT_OF(rows));
}

TEST(different_content_lengths_of_a_response_are_refused)
{
    static const row rows[] = {
        {HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", -EBADMSG},
        {HEAD "Content-Length: 2, 3\r\n\r\nhi", -EBADMSG},
        {HEAD "Content-Length: 2, 02\r\n\r\nhi", -EBADMSG},
        {HEAD "Content-Length: 2,\r\n\r\nhi", -EBADMSG},
        {HEAD "Content-Length: ,\r\n\r\nhi", -EBADMSG},
        {HEAD "Content-Length: x, x\r\n\r\nhi", -EBADMSG},
        {HEAD "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
         -EBADMSG},
    };
    check_rows(rows, COUNT_OF(rows));
}

TEST(the_length_of_a_response_to_head_is_the_merged_one)
{
    open_site(STEPS({.reply = HEAD "Content-Length: 7, 7\r\n\r\n"}));
    const weft_fetch_request head = {.method = "HEAD", .url = url_of(&site, "/")};
    ck_assert_int_eq(weft_fetch_send(fetcher, &head, &fetch), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), 7);
    ck_assert_str_eq(weft_fetch_header(fetch, "Content-Length"), "7");
}

TEST(a_folded_head_over_the_limit_is_refused)
{
    static char reply[9000] = HEAD "X-Field: a\r\n b\r\nX-Long: ";
    memset(reply + strlen(reply), 'x', 8000);
    const script_step steps[] = {{.reply = reply}};
    open_site(steps, 1);
    use_fetcher((weft_fetcher_options){.head_bytes_max = 4096});
    ck_assert_int_eq(get("/"), -EMSGSIZE);
}
