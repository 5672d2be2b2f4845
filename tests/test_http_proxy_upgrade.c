/* The reverse proxy and other protocols: 101, then bytes both ways. */
#include "proxy_support.h"

#define ASK(protocol)                             \
    "GET /chat HTTP/1.1\r\nHost: example.org\r\n" \
    "Connection: keep-alive, Upgrade\r\nUpgrade: " protocol "\r\nSec-WebSocket-Key: abc\r\n"
#define SWITCH(protocol)                                                  \
    "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: " protocol \
    "\r\nSec-WebSocket-Accept: xyz\r\n\r\n"

static weft_sem ended; /* by the upstream server, when its input has */

static bool switch_to(weft_stream *s, const char *answer)
{
    weft_stream_puts(s, answer);
    return weft_stream_flush(s) == 0;
}

/* Says back what comes, until that ends; then a word of farewell. */
static bool echo(web *sv, weft_stream *s)
{
    const void *data;
    ssize_t n;
    (void)sv;
    switch_to(s, SWITCH("websocket") "welcome,");
    while ((n = weft_stream_peek(s, 1, &data)) > 0) {
        weft_stream_write(s, data, (size_t)n);
        weft_stream_flush(s);
        weft_stream_skip(s, (size_t)n);
    }
    weft_stream_puts(s, n == 0 ? "farewell" : "");
    weft_sem_post(&ended);
    return false;
}

START_TEST(after_an_upgrade_bytes_pass_both_ways_until_both_sides_end)
{
    static const turn says[] = {{.talks = echo}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\nearly,"); /* before it is known whether they are wanted */
    talk_hear(&t, "welcome,early,");
    ck_assert_int_eq(strncmp(t.heard, "HTTP/1.1 101 ", 13), 0);
    ck_assert_heard(&t, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    ck_assert_heard(&t, "Sec-WebSocket-Accept: xyz\r\n");
    ck_assert_uint_eq(times_in(t.heard, "Upgrade: "), 1);
    ck_assert_seen(&c.up, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    ck_assert_seen(&c.up, "Sec-WebSocket-Key: abc\r\n");
    for (int i = 0; i < 100; i++) {
        char word[16];
        snprintf(word, sizeof word, "<%d>", i);
        talk_send(&t, word);
        talk_hear(&t, word);
    }
    weft_shutdown(t.fd, SHUT_WR); /* what the other side says then still comes */
    talk_hear_all(&t);
    ck_assert_heard(&t, "<99>farewell");
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

/* Ends its side at once, and reads on. */
static bool end_first(web *sv, weft_stream *s)
{
    char data[64];
    ssize_t n;
    switch_to(s, SWITCH("websocket") "bye");
    weft_shutdown(weft_stream_fd(s), SHUT_WR);
    while ((n = weft_stream_read(s, data, sizeof data)) > 0)
        note(sv, data, (size_t)n);
    weft_sem_post(&ended);
    return false;
}

START_TEST(a_side_that_has_ended_still_receives)
{
    static const turn says[] = {{.talks = end_first}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear_all(&t);
    ck_assert_heard(&t, "\r\n\r\nbye");
    talk_send(&t, "more");
    talk_send(&t, " and more");
    weft_shutdown(t.fd, SHUT_WR);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    ck_assert_seen(&c.up, "more and more");
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

START_TEST(a_protocol_of_any_upgrade_header_may_be_chosen)
{
    static const turn says[] = {{.says = SWITCH("websocket") "bye", .hangs_up = true}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("foo") "Upgrade: bar, websocket\r\n\r\n");
    talk_hear(&t, "\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 101);
    talk_hear(&t, "bye");
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

#define MUCH ((size_t)4 << 20)

static bool send_much(web *sv, weft_stream *s)
{
    static unsigned char data[64 << 10];
    (void)sv;
    switch_to(s, SWITCH("websocket"));
    for (size_t done = 0; done < MUCH; done += sizeof data) {
        fill_from(data, sizeof data, done);
        weft_stream_write(s, data, sizeof data);
    }
    weft_stream_flush(s);
    return false; /* all that was sent arrives before the end */
}

START_TEST(all_that_was_sent_arrives_before_the_end)
{
    static const turn says[] = {{.talks = send_much}};
    static unsigned char data[16 << 10];
    chain c;
    talk t;
    ssize_t n;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear(&t, "\r\n\r\n");
    size_t head = (size_t)(body_of(t.heard) - t.heard), done = t.heard_bytes - head;
    assert_bytes_at((unsigned char *)t.heard + head, done, 0);
    while ((n = weft_read(t.fd, data, sizeof data)) > 0) {
        assert_bytes_at(data, (size_t)n, done);
        done += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(done, MUCH);
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

START_TEST(an_upgrade_that_is_refused_is_an_ordinary_answer)
{
    static const turn says[] = {{.says = "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"},
                                {.says = OK("hello", "5")}};
    chain c;
    talk t;
    chain_open(&c, says, 2, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear(&t, "\r\n\r\nno");
    ck_assert_int_eq(status_of(t.heard), 403);
    t.heard_bytes = 0;
    talk_send(&t, GET "\r\n"); /* both connections go on */
    talk_hear(&t, "hello");
    ck_assert_uint_eq(c.up.conns, 1);
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

START_TEST(only_protocols_that_are_allowed_are_asked_for)
{
    static const struct {
        const char *allowed, *request;
        bool is_asked;
    } rows[] = {
        {NULL, ASK("websocket") "\r\n", true},
        {NULL, ASK("foo, bar") "\r\n", true},
        {NULL, ASK("h2c") "HTTP2-Settings: x\r\n\r\n", false},
        {NULL, ASK("websocket, H2C") "\r\n", false},
        {NULL, ASK("h2c/1") "\r\n", false},
        {NULL, ASK("\"h2c\"") "\r\n", false},
        {NULL, ASK("h2c;q=1") "\r\n", false},
        {NULL, ASK("foo/2") "\r\n", true},
        {"websocket, foo", ASK("foo/2") "\r\n", true},
        {"foo/2", ASK("foo/2") "\r\n", true},
        {"foo/2", ASK("foo/3") "\r\n", false},
        {"websocket, foo", ASK("WebSocket") "\r\n", true},
        {"websocket, foo", ASK("bar") "\r\n", false},
        {"", ASK("websocket") "\r\n", false},
    };
    static const turn says[] = {{.says = OK("hello", "5")}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        chain c;
        talk t;
        chain_open(&c, says, 1, &(weft_http_proxy_options){.upgrades = rows[i].allowed});
        site_call(&c.front, &t);
        talk_send(&t, rows[i].request);
        talk_hear(&t, "hello");
        bool is_asked = strstr(c.up.seen, "Upgrade: ") != NULL;
        ck_assert_msg(is_asked == rows[i].is_asked, "row %zu: %s", i, c.up.seen);
        ck_assert_int_eq(strstr(c.up.seen, "Connection:") != NULL, is_asked);
        weft_close(t.fd);
        chain_close(&c);
    }
}
END_TEST

START_TEST(a_protocol_that_nobody_asked_for_is_a_bad_gateway)
{
    static const turn says[] = {{.says = SWITCH("other")}};
    chain c;
    talk t;
    chain_open(&c, says, 1, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear(&t, "\r\n\r\n");
    ck_assert_int_eq(status_of(t.heard), 502);
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

/* Waits for the other side to end. */
static bool stay(web *sv, weft_stream *s)
{
    const void *data;
    (void)sv;
    switch_to(s, SWITCH("websocket") "here");
    weft_stream_peek(s, 1, &data);
    weft_sem_post(&ended);
    return false;
}

START_TEST(a_tunnel_through_which_nothing_passes_is_cut)
{
    static const turn says[] = {{.talks = stay}};
    chain c;
    talk t;
    ssize_t n;
    chain_open(&c, says, 1, &(weft_http_proxy_options){.upgraded_idle_s = 0.02});
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    while ((n = talk_hear_some(&t)) > 0)
        continue;
    ck_assert_int_eq(n, -ECONNRESET);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    weft_close(t.fd);
    chain_close(&c);
}
END_TEST

/* Breaks off: its peer is told that this is not an end. */
static bool break_off(web *sv, weft_stream *s)
{
    const void *data;
    (void)sv;
    switch_to(s, SWITCH("websocket") "here");
    weft_stream_peek(s, 1, &data);
    const struct linger reset = {.l_onoff = 1};
    setsockopt(weft_stream_fd(s), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return false;
}

START_TEST(a_side_that_breaks_off_breaks_the_other_one_off)
{
    static const turn says[] = {{.talks = break_off}, {.talks = stay}};
    chain c;
    talk t;
    ssize_t n;
    chain_open(&c, says, 2, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear(&t, "here");
    talk_send(&t, "x");
    while ((n = talk_hear_some(&t)) > 0)
        continue;
    ck_assert_int_eq(n, -ECONNRESET);
    weft_close(t.fd);

    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear(&t, "here");
    const struct linger reset = {.l_onoff = 1};
    setsockopt(t.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    weft_close(t.fd);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    chain_close(&c);
}
END_TEST

START_TEST(a_server_whose_drain_is_over_ends_tunnels)
{
    static const turn says[] = {{.talks = stay}};
    chain c;
    talk t;
    start_server(&c.up, says, 1);
    c.front_options = (weft_http_options){.drain_s = 0.02};
    chain_open_at(&c, c.up.base, NULL);
    site_call(&c.front, &t);
    talk_send(&t, ASK("websocket") "\r\n");
    talk_hear(&t, "here");
    front_close(&c);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    talk_hear_all(&t);
    weft_close(t.fd);
    stop_server(&c.up);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &after_an_upgrade_bytes_pass_both_ways_until_both_sides_end,
        &a_side_that_has_ended_still_receives,
        &a_protocol_of_any_upgrade_header_may_be_chosen,
        &all_that_was_sent_arrives_before_the_end,
        &an_upgrade_that_is_refused_is_an_ordinary_answer,
        &only_protocols_that_are_allowed_are_asked_for,
        &a_protocol_that_nobody_asked_for_is_a_bad_gateway,
        &a_tunnel_through_which_nothing_passes_is_cut,
        &a_side_that_breaks_off_breaks_the_other_one_off,
        &a_server_whose_drain_is_over_ends_tunnels,
    };
    forget_proxies();
    return run_suite("http_proxy_upgrade", tests, COUNT_OF(tests));
}
