/* The web client with bodies of any length, both ways: written and read piece by piece. */
#include "fetch_support.h"

#ifdef WEFT_HAS_GZIP
#include <zlib.h>
#endif

static const turn hello[] = {{.says = OK("hello", "5")}};

static weft_fetch *open_at(weft_fetcher *fetcher, const char *url, int64_t length)
{
    weft_fetch *f;
    const weft_fetch_request r = {.method = "PUT", .url = url, .type = "text/x"};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, length, &f), 0);
    return f;
}

START_TEST(a_body_is_written_in_pieces_of_a_known_length)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_at(fetcher, url_of(&sv, "/"), 6);
    ck_assert_int_eq(weft_fetch_status(f), 0);
    ck_assert_int_eq(weft_fetch_read(f, (char[4]){0}, 4), -EINVAL);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    ck_assert_int_eq(weft_fetch_wait(f), -ENODATA);
    ck_assert_int_eq(weft_fetch_write(f, "defg", 4), -EMSGSIZE);
    ck_assert_int_eq(weft_fetch_write(f, "def", 3), 3);
    ck_assert_int_eq(weft_fetch_write(f, "", 0), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_write(f, "g", 1), -EPIPE);
    weft_fetch_close(f);
    ck_assert_seen(&sv, "Content-Type: text/x\r\nContent-Length: 6\r\n\r\nabcdef");
    ck_assert_get(fetcher, url_of(&sv, "/"), "hello");
    ck_assert_uint_eq(sv.conns, 1);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(a_get_with_an_empty_body_speaks_of_none)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    const weft_fetch_request r = {.method = "GET", .url = url_of(&sv, "/")};
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, 0, &f), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_unseen(&sv, "Content-Length");
    f = open_at(fetcher, url_of(&sv, "/"), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_seen(&sv, "Content-Length: 0\r\n");
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(a_body_is_written_in_chunks)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_at(fetcher, url_of(&sv, "/"), -1);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(weft_fetch_write(f, "0123456789", (size_t)i), i);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_seen(&sv, "Transfer-Encoding: chunked\r\n\r\n001012012301234");
    f = open_at(fetcher, url_of(&sv, "/empty"), -1);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.conns, 1);
    ck_assert_int_eq(
        weft_fetch_open(fetcher, &(weft_fetch_request){.url = url_of(&sv, "/")}, -2, &f), -EINVAL);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(a_body_that_is_not_written_to_its_end_costs_the_connection)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_at(fetcher, url_of(&sv, "/"), 6);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    weft_fetch_close(f);
    let_run();
    ck_assert_uint_eq(sv.open, 0);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

/* Keeps all of it, then sends it back. */
static unsigned char stored[3000000];
static size_t stored_bytes;

static bool store_and_return(web *sv, weft_stream *s)
{
    char *line;
    (void)sv;
    while (weft_stream_line(s, &line, NULL) > 0) {
        size_t left = strtoul(line, NULL, 16);
        bool is_last = left == 0;
        while (left > 0) {
            ssize_t n = weft_stream_read(s, stored + stored_bytes, left);
            if (n <= 0)
                return false;
            stored_bytes += (size_t)n;
            left -= (size_t)n;
        }
        if (weft_stream_line(s, &line, NULL) <= 0)
            return false;
        if (is_last)
            break;
    }
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", stored_bytes);
    weft_stream_write(s, stored, stored_bytes);
    return weft_stream_flush(s) == 0;
}

START_TEST(a_large_body_goes_there_and_comes_back_as_it_was)
{
    static const turn turns[] = {{.talks = store_and_return}};
    static unsigned char data[100000];
    web sv;
    start_server(&sv, turns, 1);
    weft_fetch *f = open_at(NULL, url_of(&sv, "/"), -1);
    size_t sent = 0;
    while (sent < sizeof stored - sizeof data) {
        size_t n = 1 + random_below(sizeof data);
        fill_from(data, n, sent);
        ck_assert_int_eq(weft_fetch_write(f, data, n), (ssize_t)n);
        sent += n;
    }
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_length(f), (int64_t)sent);
    size_t back = 0;
    ssize_t n;
    while ((n = weft_fetch_read(f, data, 1 + random_below(sizeof data))) > 0) {
        assert_bytes_at(data, (size_t)n, back);
        back += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(back, sent);
    weft_fetch_close(f);
    stop_server(&sv);
}
END_TEST

START_TEST(a_large_body_in_memory_is_sent_whole)
{
    static const turn turns[] = {{.says = OK("hello", "5")}};
    static char body[50000];
    memset(body, 'b', sizeof body);
    web sv;
    start_server(&sv, turns, 1);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(NULL, url_of(&sv, "/"), NULL, body, sizeof body, &f), 200);
    weft_fetch_close(f);
    const char *at = strstr(sv.seen, "\r\n\r\n") + 4;
    ck_assert_uint_eq(strspn(at, "b"), sizeof body);
    stop_server(&sv);
}
END_TEST

#define TOO_LARGE "HTTP/1.1 413 Too large\r\nContent-Length: 3\r\n\r\nno!"

/* The server answers from the head alone; it hangs up, or it does not and never reads. */
START_TEST(an_answer_before_the_end_of_the_body_stops_that)
{
    for (int hangs_up = 0; hangs_up <= 1; hangs_up++) {
        const turn turns[] = {{.says = TOO_LARGE, .is_early = true, .hangs_up = hangs_up}};
        static const char data[100000];
        web sv;
        start_server(&sv, turns, 1);
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        weft_fetch *f = open_at(fetcher, url_of(&sv, "/"), (int64_t)1 << 40);
        ssize_t n = 0;
        while ((n = weft_fetch_write(f, data, sizeof data)) > 0)
            continue;
        ck_assert_int_eq(n, -EPIPE);
        ck_assert_int_eq(weft_fetch_write(f, data, 1), -EPIPE);
        int status = weft_fetch_wait(f);
        /* Hung up with bytes unread, the kernel may take the answer back by a reset. */
        ck_assert(status == 413 || (hangs_up && status == -ECONNRESET));
        weft_fetch_close(f);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}
END_TEST

START_TEST(an_answer_before_the_end_of_a_body_in_memory_is_the_answer)
{
    static const turn turns[] = {{.says = TOO_LARGE, .is_early = true}};
    const size_t bytes = (size_t)32 << 20; /* more than the kernel takes */
    char *body = calloc(1, bytes), *text;
    web sv;
    start_server(&sv, turns, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&sv, "/"), NULL, body, bytes, &f), 413);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 3);
    ck_assert_str_eq(text, "no!");
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(body);
    stop_server(&sv);
}
END_TEST

static weft_value post_much(void *arg)
{
    const size_t bytes = (size_t)64 << 20; /* more than the kernel takes */
    char *body = calloc(1, bytes);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    int status = weft_fetch_post(fetcher, url_of(arg, "/"), NULL, body, bytes, &f);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(body);
    return status;
}

/* The server reads nothing, and answers only when the client can write no more. */
START_TEST(who_is_held_up_in_writing_hears_of_the_answer)
{
    static const turn turns[] = {{.says = TOO_LARGE, .is_early = true, .is_held = true}};
    web sv;
    start_server(&sv, turns, 1);
    weft_fiber client = weft_spin(post_much, &sv);
    ck_assert_int_eq(weft_sem_wait(&sv.arrived), 0);
    let_run();
    let_go(&sv, 1);
    ck_assert_int_eq(weft_await(client), 413);
    stop_server(&sv);
}
END_TEST

static bool talk_continue(web *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 100 Continue\r\n\r\n");
    if (!read_body(sv, s, 4))
        return false;
    weft_stream_puts(s, OK("thanks", "6"));
    return weft_stream_flush(s) == 0;
}

START_TEST(who_expects_to_be_told_waits_for_it_before_the_body)
{
    static const turn yes[] = {{.talks = talk_continue}};
    static const turn no[] = {{.says = TOO_LARGE, .is_early = true}};
    const weft_fetch_field field = {"Expect", "100-continue"};
    weft_fetch_request r = {.fields = &field, .fields_count = 1, .body = "body", .body_bytes = 4};
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    web sv;
    weft_fetch *f;
    start_server(&sv, yes, 1);
    r.url = url_of(&sv, "/");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 200);
    weft_fetch_close(f);
    ck_assert_seen(&sv, "Expect: 100-continue\r\n\r\nbody");
    stop_server(&sv);
    start_server(&sv, no, 1);
    r.url = url_of(&sv, "/");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 413);
    weft_fetch_close(f);
    r.body = NULL;
    r.body_bytes = 0;
    ck_assert_int_eq(weft_fetch_open(fetcher, &r, 4, &f), 0);
    ck_assert_int_eq(weft_fetch_write(f, "body", 4), -EPIPE);
    ck_assert_int_eq(weft_fetch_wait(f), 413);
    weft_fetch_close(f);
    ck_assert_unseen(&sv, "body");
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(who_expects_to_be_told_is_not_told_of_another_protocol)
{
    static const turn turns[] = {
        {.says = "HTTP/1.1 101 Change\r\nUpgrade: x\r\n\r\n", .is_early = true}};
    const weft_fetch_field field = {"Expect", "100-continue"};
    weft_fetch_request r = {.fields = &field, .fields_count = 1, .body = "body", .body_bytes = 4};
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    web sv;
    weft_fetch *f;
    start_server(&sv, turns, 1);
    r.url = url_of(&sv, "/");
    ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), -EBADMSG);
    ck_assert_ptr_null(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(a_wait_that_is_cancelled_can_be_waited_for_again)
{
    static const turn turns[] = {{.says = OK("late", "4"), .is_held = true}};
    web sv;
    start_server(&sv, turns, 1);
    weft_fetch *f = open_at(NULL, url_of(&sv, "/"), -1);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    int status = 0;
    WEFT_MOVE_ON_AFTER(0.01)
        status = weft_fetch_wait(f);
    ck_assert_int_eq(status, -ECANCELED);
    ck_assert_int_eq(weft_fetch_write(f, "d", 1), -EINVAL);
    let_go(&sv, 1);
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.asked, 1);
    stop_server(&sv);
}
END_TEST

START_TEST(a_write_that_is_cancelled_cuts_the_fetch)
{
    static const turn turns[] = {{.is_early = true}};
    static const char data[100000];
    warm_up();
    web sv;
    start_server(&sv, turns, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f = open_at(fetcher, url_of(&sv, "/"), -1);
    ssize_t n = 1;
    WEFT_MOVE_ON_AFTER(0.05)
        while (n > 0)
            n = weft_fetch_write(f, data, sizeof data);
    ck_assert_int_eq(n, -ECANCELED);
    ck_assert_int_eq(weft_fetch_write(f, data, 1), -ECANCELED);
    ck_assert_int_eq(weft_fetch_wait(f), -ECANCELED);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

/* A redirect of a streamed body: followed if it needs the body no more. */
START_TEST(a_streamed_request_is_redirected_without_its_body_only)
{
    static const turn see[] = {
        {.says = "HTTP/1.1 303 See\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"},
        {.says = OK("seen", "4")}};
    static const turn again[] = {
        {.says = "HTTP/1.1 307 Again\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"}};
    web sv;
    start_server(&sv, see, 2);
    weft_fetch *f = open_at(NULL, url_of(&sv, "/a"), -1);
    ck_assert_int_eq(weft_fetch_write(f, "abc", 3), 3);
    char *text;
    ck_assert_int_eq(weft_fetch_wait(f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 4);
    ck_assert_str_eq(weft_fetch_url(f), url_of(&sv, "/b"));
    weft_fetch_close(f);
    ck_assert_uint_eq(count_in(sv.seen, "Content-Type"), 1);
    ck_assert_uint_eq(count_in(sv.seen, "Transfer-Encoding"), 1);
    stop_server(&sv);
    start_server(&sv, again, 1);
    f = open_at(NULL, url_of(&sv, "/a"), 0);
    ck_assert_int_eq(weft_fetch_wait(f), 307);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.asked, 1);
    stop_server(&sv);
}
END_TEST

#ifdef WEFT_HAS_GZIP
static char *zipped;
static size_t zipped_bytes;

/* So many bytes of the stream, or zeros, as one member behind what is there. */
static void zip(size_t bytes, bool is_zero)
{
    unsigned char *data = calloc(1, bytes + 1);
    if (!is_zero)
        fill_from(data, bytes, 0);
    z_stream z = {0};
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t room = deflateBound(&z, bytes) + 32;
    zipped = realloc(zipped, zipped_bytes + room);
    z.next_in = data;
    z.avail_in = (uInt)bytes;
    z.next_out = (Bytef *)zipped + zipped_bytes;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    zipped_bytes += z.total_out;
    deflateEnd(&z);
    free(data);
}

/* In chunks of 1,000 bytes: a piece of input ends anywhere. */
static bool talk_zipped(web *sv, weft_stream *s)
{
    (void)sv;
    weft_stream_puts(
        s, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < zipped_bytes; at += 1000) {
        size_t n = zipped_bytes - at < 1000 ? zipped_bytes - at : 1000;
        weft_stream_printf(s, "%zx\r\n", n);
        weft_stream_write(s, zipped + at, n);
        weft_stream_puts(s, "\r\n");
    }
    weft_stream_puts(s, "0\r\n\r\n");
    return weft_stream_flush(s) == 0;
}

static const turn zipped_turns[] = {{.talks = talk_zipped}};

START_TEST(a_compressed_body_is_read_uncompressed)
{
    web sv;
    start_server(&sv, zipped_turns, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    char *text;
    zip(300000, false);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_seen(&sv, "Accept-Encoding: gzip\r\n");
    ck_assert_int_eq(weft_fetch_length(f), -1);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 300000);
    assert_bytes_at((unsigned char *)text, 300000, 0);
    weft_fetch_close(f);
    size_t first = zipped_bytes;
    zip(0, false); /* more members */
    zip(5000, false);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 305000);
    assert_bytes_at((unsigned char *)text + 300000, 5000, 0);
    weft_fetch_close(f);
    zipped_bytes = 0; /* a body of nothing */
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 0);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.conns, 1);
    const size_t bad[] = {1, 9, 500, first - 1}; /* cut short */
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        zipped_bytes = bad[i];
        ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), -EBADMSG);
        weft_fetch_close(f);
    }
    zipped_bytes = first;
    zipped[first / 2] ^= 0x55; /* or wrong: by its sum at the latest */
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EBADMSG);
    weft_fetch_close(f);
    memcpy(zipped, "not gzip", 8);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EBADMSG);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(zipped);
    stop_server(&sv);
}
END_TEST

START_TEST(what_blows_up_stops_at_the_limit)
{
    web sv;
    start_server(&sv, zipped_turns, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.body_bytes_max = 1 << 20});
    zip((size_t)20 << 20, true);
    ck_assert_uint_lt(zipped_bytes, 100000);
    weft_fetch *f;
    char *text;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), -EMSGSIZE);
    weft_fetch_close(f);
    const void *piece; /* but in pieces it can be read */
    size_t sum = 0;
    ssize_t n;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    while ((n = weft_fetch_read_piece(f, &piece)) > 0)
        sum += (size_t)n;
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(sum, (size_t)20 << 20);
    weft_fetch_close(f);
    weft_fetcher_free(fetcher);
    free(zipped);
    stop_server(&sv);
}
END_TEST

START_TEST(who_asks_for_an_encoding_himself_gets_it_as_it_is)
{
    web sv;
    start_server(&sv, zipped_turns, 1);
    zip(1000, false);
    const weft_fetch_field fields[] = {{"Accept-Encoding", "gzip"}, {"Range", "bytes=0-"}};
    weft_fetcher *fetchers[] = {weft_fetcher_new(NULL),
                                weft_fetcher_new(&(weft_fetcher_options){.has_no_gzip = true})};
    for (int i = 0; i < 3; i++) {
        const weft_fetch_request r = {
            .url = url_of(&sv, "/"), .fields = &fields[i % 2], .fields_count = i < 2};
        weft_fetch *f;
        char *text;
        ck_assert_int_eq(weft_fetch_send(fetchers[i == 2], &r, &f), 200);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), (ssize_t)zipped_bytes);
        ck_assert_mem_eq(text, zipped, zipped_bytes);
        weft_fetch_close(f);
    }
    ck_assert_uint_eq(count_in(sv.seen, "Accept-Encoding"), 1);
    weft_fetcher_free(fetchers[0]);
    weft_fetcher_free(fetchers[1]);
    free(zipped);
    stop_server(&sv);
}
END_TEST
#endif

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_body_is_written_in_pieces_of_a_known_length,
        &a_get_with_an_empty_body_speaks_of_none,
        &a_body_is_written_in_chunks,
        &a_body_that_is_not_written_to_its_end_costs_the_connection,
        &a_large_body_goes_there_and_comes_back_as_it_was,
        &a_large_body_in_memory_is_sent_whole,
        &an_answer_before_the_end_of_the_body_stops_that,
        &an_answer_before_the_end_of_a_body_in_memory_is_the_answer,
        &who_is_held_up_in_writing_hears_of_the_answer,
        &who_expects_to_be_told_waits_for_it_before_the_body,
        &who_expects_to_be_told_is_not_told_of_another_protocol,
        &a_wait_that_is_cancelled_can_be_waited_for_again,
        &a_write_that_is_cancelled_cuts_the_fetch,
        &a_streamed_request_is_redirected_without_its_body_only,
#ifdef WEFT_HAS_GZIP
        &a_compressed_body_is_read_uncompressed,
        &what_blows_up_stops_at_the_limit,
        &who_asks_for_an_encoding_himself_gets_it_as_it_is,
#endif
    };
    forget_proxies();
    return run_suite("fetch_stream", tests, COUNT_OF(tests));
}
