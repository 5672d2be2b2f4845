/* HTTP/2 sessions: a client and a server of this library, over a socket pair. */
#include "http/h2/h2_support.h"

FIXTURE(h2_set_up, NULL)

TEST(a_request_gets_its_response)
{
    h2_exchange x;
    open_both(say_hello);
    get(&x);
    expect_text(&x, "hello");
    ck_assert_str_eq(x.heads, "R");
    ck_assert_int_eq(x.st.status, 200);
    ck_assert_str_eq(x.fields, ":status: 200\n");
    ck_assert_int_eq(x.closes, 1);
    release(&x);
    close_both();
    ck_assert_int_eq(client.result, 0);
    ck_assert_int_eq(server.result, 0);
}

/* Handlers that wait for the test. */
static weft_cond go_on;

static int wait_then_echo(h2_exchange *x)
{
    if (strstr(x->fields, "/slow") == NULL)
        return echo(x);
    int rc = weft_cond_wait(&go_on, NULL);
    return rc < 0 ? rc : echo(x);
}

TEST(one_hundred_streams_share_a_connection)
{
    static h2_exchange x[100];
    open_both(say_hello);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        get(&x[i]);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        expect_text(&x[i], "hello");
    for (size_t i = 0; i < COUNT_OF(x); i++)
        release(&x[i]);
    close_both();
    ck_assert_uint_eq(server.session.counts.opened, COUNT_OF(x));
}

static size_t handled;

/* Reply, if no further request has arrived in the session. */
static int reply_in_turn(h2_exchange *x)
{
    ck_assert_uint_eq(x->end->session.counts.opened, ++handled);
    return weft__h2_stream_reply(&x->st, H2_OK, "hello", 5);
}

static void send_one_hundred_requests(void)
{
    static h2_exchange x[100];
    open_both(reply_in_turn);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        get(&x[i]);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        expect_text(&x[i], "hello");
    for (size_t i = 0; i < COUNT_OF(x); i++)
        release(&x[i]);
    close_both();
}

TEST(a_request_runs_before_the_next_one_arrives)
{
    send_one_hundred_requests();
    ck_assert_uint_lt(server.writes, 10);
}

TEST(a_step_that_is_cancelled_between_two_requests_loses_none)
{
    server.is_impatient = true;
    send_one_hundred_requests();
    ck_assert_uint_gt(server.cancels, 0);
}

/*
 * Heads.
 */

static int reply_with_all_heads(h2_exchange *x)
{
    const nghttp2_nv early[] = {h2_nv(":status", "103"), h2_nv("link", "</a>")};
    const nghttp2_nv trailer = h2_nv("x-sum", "42");
    int rc = weft__h2_stream_interim(&x->st, early, 2);
    if (rc == 0)
        rc = weft__h2_stream_head(&x->st, H2_OK, false);
    if (rc == 0)
        rc = weft__h2_stream_write(&x->st, "body", 4) == 4 ? 0 : -EIO;
    return rc < 0 ? rc : weft__h2_stream_end_with(&x->st, &trailer, 1);
}

TEST(interim_responses_and_trailers_arrive)
{
    h2_exchange x;
    open_both(reply_with_all_heads);
    get(&x);
    expect_text(&x, "body");
    ck_assert_str_eq(x.heads, "IRT");
    ck_assert_str_eq(x.fields, ":status: 103\nlink: </a>\n:status: 200\nx-sum: 42\n");
    ck_assert_int_eq(x.st.status, 200);
    release(&x);
    close_both();
}

static int reply_with_trailers_of_request(h2_exchange *x)
{
    char body[64] = "";
    ssize_t n = h2_read_all(x, body);
    bool is_good = n == 4 && strcmp(x->heads, "QT") == 0 && strstr(x->fields, "x-sum: 42\n");
    return weft__h2_stream_reply(&x->st, H2_OK, is_good ? "good" : "bad", is_good ? 4 : 3);
}

TEST(a_request_can_have_trailers)
{
    h2_exchange x = {.end = &client};
    const nghttp2_nv trailer = h2_nv("x-sum", "42");
    open_both(reply_with_trailers_of_request);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ck_assert_int_eq(weft__h2_stream_write(&x.st, "body", 4), 4);
    ck_assert_int_eq(weft__h2_stream_end_with(&x.st, &trailer, 1), 0);
    ck_assert_int_eq(weft__h2_stream_write(&x.st, "body", 4), -EPIPE);
    expect_text(&x, "good");
    release(&x);
    close_both();
}

static int reply_without_body(h2_exchange *x)
{
    return weft__h2_stream_head(&x->st, H2_OK, true);
}

TEST(a_response_can_have_no_body)
{
    h2_exchange x;
    open_both(reply_without_body);
    get(&x);
    expect_text(&x, "");
    ck_assert(x.st.is_remote_ended);
    release(&x);
    close_both();
}

static int reply_by_head_size(h2_exchange *x)
{
    const nghttp2_nv too_large = h2_nv(":status", "431");
    return x->st.is_head_too_large ? weft__h2_stream_head(&x->st, &too_large, 1, true)
                                   : say_hello(x);
}

/* Send a request with a long field. */
static void get_with(h2_exchange *x, const char *name, const char *value)
{
    const nghttp2_nv head[] = {h2_nv(":method", "GET"), h2_nv(":scheme", "http"),
                               h2_nv(":authority", "a"), h2_nv(":path", "/"), h2_nv(name, value)};
    *x = (h2_exchange){.end = &client};
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x->st, head, 5, true), 0);
}

TEST(the_owner_learns_of_a_head_that_is_too_large)
{
    h2_exchange x;
    char value[600];
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    server.options.head_bytes_max = 500;
    open_both(reply_by_head_size);
    get_with(&x, "x-long", value);
    expect_text(&x, "");
    ck_assert_int_eq(x.st.status, 431);
    release(&x);
    get_with(&x, "x-short", "1");
    expect_text(&x, "hello");
    release(&x);
    close_both();
}

TEST(a_head_with_too_many_fields_is_too_large)
{
    h2_exchange x;
    server.options.fields_max = 4;
    open_both(reply_by_head_size);
    get_with(&x, "x-fifth", "1");
    expect_text(&x, "");
    ck_assert_int_eq(x.st.status, 431);
    release(&x);
    close_both();
}

TEST(a_head_far_above_the_limit_resets_its_stream)
{
    h2_exchange x;
    static char value[9000];
    memset(value, 'v', sizeof value - 1);
    server.options.head_bytes_max = 500;
    open_both(reply_by_head_size);
    get_with(&x, "x-long", value);
    ck_assert_int_eq(h2_await_head(&x), 0);
    ck_assert_uint_eq(x.st.code, NGHTTP2_INTERNAL_ERROR);
    release(&x);
    get(&x);
    expect_text(&x, "hello");
    release(&x);
    close_both();
}

/* Reply with the length of the long field. */
static int reply_length(h2_exchange *x)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%zu", x->st.session->head.bytes);
    return weft__h2_stream_reply(&x->st, H2_OK, text, (size_t)n);
}

TEST(a_long_head_is_sent_in_several_frames)
{
    /* Compression does not shorten '~'. Some heads have the length of one or two whole frames. */
    static const size_t lengths[] = {16000, 16300, 32600, 50000};
    server.options.head_bytes_max = 60000;
    open_both(reply_length);
    for (size_t i = 0; i < 100 * COUNT_OF(lengths); i++) {
        h2_exchange x;
        size_t length = lengths[i / 100] + i % 100;
        char *value = malloc(length + 1), expected[32];
        memset(value, '~', length);
        value[length] = '\0';
        get_with(&x, "x-long", value);
        snprintf(expected, sizeof expected, "%zu", 6 + length + 5 * 32 + 38);
        expect_text(&x, expected);
        release(&x);
        free(value);
    }
    close_both();
}

TEST(a_head_that_is_much_too_long_is_not_sent)
{
    h2_exchange x = {.end = &client};
    char *value = malloc((2 << 20) + 1);
    memset(value, 'v', 2 << 20);
    value[2 << 20] = '\0';
    const nghttp2_nv head[] = {h2_nv(":method", "GET"), h2_nv(":scheme", "http"),
                               h2_nv(":authority", "a"), h2_nv(":path", "/"), h2_nv("x", value)};
    open_both(say_hello);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, head, 5, true), -EMSGSIZE);
    free(value);
    get(&x);
    expect_text(&x, "hello");
    release(&x);
    close_both();
}

TEST(an_owner_that_rejects_a_field_resets_the_stream)
{
    h2_exchange x;
    open_both(say_hello);
    get_with(&x, "x-refuse", "1");
    ck_assert_int_eq(h2_read_all(&x, NULL), -ECONNRESET);
    ck_assert_uint_eq(x.st.code, NGHTTP2_INTERNAL_ERROR);
    release(&x);
    close_both();
}

TEST(a_refused_stream_has_its_code)
{
    h2_exchange x;
    server.refuses = true;
    open_both(say_hello);
    get(&x);
    ck_assert_int_eq(h2_read_all(&x, NULL), -ECONNRESET);
    ck_assert_uint_eq(x.st.code, NGHTTP2_REFUSED_STREAM);
    ck_assert_uint_eq(server.session.counts.refused, 1);
    release(&x);
    close_both();
}

TEST(a_client_sees_how_many_streams_the_server_allows)
{
    h2_exchange x[3];
    server.options.streams_max = 2;
    open_both(wait_then_echo);
    while (client.settings == 0)
        ck_assert_int_eq(weft_cond_wait(&client.has_event, NULL), 0);
    ck_assert_uint_eq(weft__h2_session_streams_left(&client.session), 2);
    get(&x[0]);
    get(&x[1]);
    x[2] = (h2_exchange){.end = &client};
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x[2].st, H2_GET, true), -EAGAIN);
    expect_text(&x[0], "");
    release(&x[0]);
    get(&x[2]);
    expect_text(&x[1], "");
    expect_text(&x[2], "");
    release(&x[1]);
    release(&x[2]);
    close_both();
}

/*
 * Output.
 */

static int replies_waiting;

static int reply_with_all(h2_exchange *x)
{
    replies_waiting++;
    int rc = weft_cond_wait(&go_on, NULL);
    return rc < 0 ? rc : say_hello(x);
}

TEST(replies_of_runnable_fibers_leave_together)
{
    static h2_exchange x[100];
    open_both(reply_with_all);
    ck_assert_int_eq(weft_snooze(), 0);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        get(&x[i]);
    while (replies_waiting < 100 || server.session.is_writing)
        ck_assert_int_eq(weft_snooze(), 0);
    size_t before = server.writes;
    weft_cond_broadcast(&go_on);
    for (size_t i = 0; i < COUNT_OF(x); i++)
        expect_text(&x[i], "hello");
    /* sim runs the writer between the others, if WEFT_SEED shuffles them. */
    ck_assert_uint_le(server.writes, before + (runs_on("sim") ? 50 : 1));
    for (size_t i = 0; i < COUNT_OF(x); i++)
        release(&x[i]);
    close_both();
}

/*
 * A weft_stream over a stream.
 */

static int talk(h2_exchange *x)
{
    weft_stream s;
    char line[100];
    ssize_t n;
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    if (rc == 0)
        rc = weft_stream_open_with(&s, &weft__h2_transport, &x->st);
    if (rc < 0)
        return rc;
    while ((n = weft_stream_gets(&s, line, sizeof line)) > 0)
        (void)weft_stream_printf(&s, "you said %s", line);
    rc = weft_stream_close(&s);
    return n < 0 ? (int)n : rc;
}

TEST(a_weft_stream_works_over_a_stream)
{
    h2_exchange x = {.end = &client};
    weft_stream s;
    char line[100];
    open_both(talk);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ck_assert_int_eq(weft_stream_open_with(&s, &weft__h2_transport, &x.st), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_gt(weft_stream_puts(&s, format("line %d\n", i)), 0);
        ck_assert_int_gt(weft_stream_gets(&s, line, sizeof line), 0);
        ck_assert_str_eq(line, format("you said line %d\n", i));
    }
    ck_assert_int_eq(weft_stream_close(&s), 0);
    ck_assert_int_eq(weft__h2_stream_finish(&x.st), 0);
    ck_assert_int_eq(h2_read_all(&x, NULL), -EBADF);
    release(&x);
    close_both();
}

static weft_value read_line_of(void *arg)
{
    char line[100];
    return weft_stream_gets(arg, line, sizeof line);
}

TEST(closing_a_weft_stream_wakes_its_reader)
{
    h2_exchange x = {.end = &client};
    weft_stream s;
    open_both(talk);
    ck_assert_int_eq(weft__h2_stream_open(&client.session, &x.st, H2_POST, false), 0);
    ck_assert_int_eq(weft_stream_open_with(&s, &weft__h2_transport, &x.st), 0);
    weft_fiber f = weft_spin(read_line_of, &s);
    while (!x.st.is_reading)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_stream_close(&s), 0);
    ck_assert_int_eq(weft_await(f), -EBADF);
    release(&x);
    close_both();
}
