/* The head of an answer: what the client repairs before it reads it, and what it refuses. */
#include "fetch_support.h"

/* An answer that arrives byte by byte has the same meaning. */
static const char *dripped;

static bool drip(web *sv, weft_stream *s)
{
    (void)sv;
    for (const char *at = dripped; *at != '\0'; at++) {
        weft_stream_write(s, at, 1);
        weft_stream_flush(s);
        weft_snooze();
    }
    return false;
}

/* The status or the error; the answer's X-Field and body go to field and body. */
static int get_head(const turn *says, char *field, char *body, size_t room)
{
    web sv;
    weft_fetch *f;
    char *text;
    start_server(&sv, says, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    int status = weft_fetch_get(fetcher, url_of(&sv, "/"), &f);
    if (status >= 0) {
        const char *value = weft_fetch_header(f, "X-Field");
        snprintf(field, room, "%s", value != NULL ? value : "");
        ck_assert_int_ge(weft_fetch_read_all(f, &text), 0);
        snprintf(body, room, "%s", text);
        weft_fetch_close(f);
    }
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    stop_server(&sv);
    return status;
}

typedef struct row {
    const char *answer;
    int status;
    const char *field;
    const char *body;
} row;

static void check_rows(const row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char field[200] = "", body[200] = "";
        dripped = rows[i].answer;
        const turn ways[] = {{.says = rows[i].answer, .hangs_up = true}, {.talks = drip}};
        for (size_t way = 0; way < COUNT_OF(ways); way++) {
            int status = get_head(&ways[way], field, body, sizeof field);
            ck_assert_msg(status == rows[i].status, "row %zu, way %zu: %d", i, way, status);
            if (status < 0)
                continue;
            ck_assert_str_eq(field, rows[i].field);
            ck_assert_str_eq(body, rows[i].body);
        }
    }
}

#define HEAD "HTTP/1.1 200 OK\r\n"

START_TEST(a_folded_line_of_an_answer_is_read_as_one_line)
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
END_TEST

START_TEST(a_fold_that_would_change_the_meaning_of_an_answer_is_refused)
{
    static const row rows[] = {
        {HEAD " X-Field: a\r\nContent-Length: 2\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "X-Field: a\r\nContent-Length: 1\r\n 2\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "X-Fi\r\n eld: a\r\nContent-Length: 2\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "X-Field: a\n b\r\nContent-Length: 2\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "X-Field: a\r\n b\r\n", -ECONNRESET, "", ""},
    };
    check_rows(rows, COUNT_OF(rows));
}
END_TEST

START_TEST(equal_lengths_of_an_answer_are_one_length)
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
END_TEST

START_TEST(different_lengths_of_an_answer_are_refused)
{
    static const row rows[] = {
        {HEAD "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "Content-Length: 2, 3\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "Content-Length: 2, 02\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "Content-Length: 2,\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "Content-Length: ,\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "Content-Length: x, x\r\n\r\nhi", -EBADMSG, "", ""},
        {HEAD "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
         -EBADMSG, "", ""},
    };
    check_rows(rows, COUNT_OF(rows));
}
END_TEST

/* The length of the answer to a HEAD is what its repaired field says. */
START_TEST(the_length_of_a_head_answer_is_the_repaired_one)
{
    static const turn says[] = {{.says = HEAD "Content-Length: 7, 7\r\n\r\n"}};
    web sv;
    weft_fetch *f;
    start_server(&sv, says, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    const weft_fetch_request head = {.method = "HEAD", .url = url_of(&sv, "/")};
    ck_assert_int_eq(weft_fetch_send(fetcher, &head, &f), 200);
    ck_assert_int_eq(weft_fetch_length(f), 7);
    ck_assert_str_eq(weft_fetch_header(f, "Content-Length"), "7");
    weft_fetch_close(f);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    stop_server(&sv);
}
END_TEST

START_TEST(a_folded_head_over_the_limit_is_refused)
{
    static char answer[9000] = HEAD "X-Field: a\r\n b\r\nX-Long: ";
    memset(answer + strlen(answer), 'x', 8000);
    const turn says[] = {{.says = answer}};
    web sv;
    weft_fetch *f;
    start_server(&sv, says, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.head_bytes_max = 4096});
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -EMSGSIZE);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    stop_server(&sv);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_folded_line_of_an_answer_is_read_as_one_line,
        &a_fold_that_would_change_the_meaning_of_an_answer_is_refused,
        &equal_lengths_of_an_answer_are_one_length,
        &different_lengths_of_an_answer_are_refused,
        &the_length_of_a_head_answer_is_the_repaired_one,
        &a_folded_head_over_the_limit_is_refused,
    };
    forget_proxies();
    return run_suite("fetch_head", tests, COUNT_OF(tests));
}
