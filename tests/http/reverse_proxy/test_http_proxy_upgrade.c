/* Upgrades through the reverse proxy: after a 101 the proxy forwards bytes in both directions. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

FIXTURE(chain_open_hello, chain_close)

#define UPGRADE(protocol)                         \
    "GET /chat HTTP/1.1\r\nHost: example.org\r\n" \
    "Connection: keep-alive, Upgrade\r\nUpgrade: " protocol "\r\nSec-WebSocket-Key: abc\r\n"
#define SWITCH(protocol)                                                  \
    "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: " protocol \
    "\r\nSec-WebSocket-Accept: xyz\r\n\r\n"

static weft_sem ended; /* posted when the input of the upstream server has ended */

static bool send_and_flush(weft_stream *s, const char *reply)
{
    weft_stream_puts(s, reply);
    return weft_stream_flush(s) == 0;
}

/* Echo until the input ends, then send "farewell". */
static bool echo_upgraded(script_server *sv, weft_stream *s)
{
    const void *data;
    ssize_t n;
    send_and_flush(s, SWITCH("websocket") "welcome,");
    while ((n = weft_stream_peek(s, 1, &data)) > 0) {
        weft_stream_write(s, data, (size_t)n);
        weft_stream_flush(s);
        weft_stream_skip(s, (size_t)n);
    }
    weft_stream_puts(s, n == 0 ? "farewell" : "");
    weft_sem_post(&ended);
    return false;
}

TEST(after_an_upgrade_bytes_are_forwarded_both_ways_until_both_sides_end)
{
    chain_open(STEPS({.handle = echo_upgraded}), NULL);
    chain_send(UPGRADE("websocket") "\r\nearly,"); /* "early," is sent before the 101 */
    client_expect(&client, "welcome,early,");
    ck_assert_int_eq(strncmp(client.received, "HTTP/1.1 101 ", 13), 0);
    ck_assert_has(client.received, "Connection: Upgrade\r\nUpgrade: websocket\r\n",
                  "Sec-WebSocket-Accept: xyz\r\n");
    ck_assert_uint_eq(count_in(client.received, "Upgrade: "), 1);
    ck_assert_has(upstream.received, "Upgrade: websocket\r\nConnection: Upgrade\r\n",
                  "Sec-WebSocket-Key: abc\r\n");
    for (int i = 0; i < 100; i++) {
        const char *word = format("<%d>", i);
        client_send(&client, word);
        client_expect(&client, word);
    }
    weft_shutdown(client.fd, SHUT_WR); /* the client still receives */
    client_receive_all(&client);
    ck_assert_has(client.received, "<99>farewell");
}

/* Half-close immediately, and continue to read. */
static bool half_close_first(script_server *sv, weft_stream *s)
{
    char data[64];
    ssize_t n;
    send_and_flush(s, SWITCH("websocket") "bye");
    weft_shutdown(weft_stream_fd(s), SHUT_WR);
    while ((n = weft_stream_read(s, data, sizeof data)) > 0)
        record_received(sv, data, (size_t)n);
    weft_sem_post(&ended);
    return false;
}

TEST(a_half_closed_side_still_receives)
{
    chain_open(STEPS({.handle = half_close_first}), NULL);
    chain_send(UPGRADE("websocket") "\r\n");
    client_receive_all(&client);
    ck_assert_has(client.received, "\r\n\r\nbye");
    client_send(&client, "more");
    client_send(&client, " and more");
    weft_shutdown(client.fd, SHUT_WR);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    ck_assert_has(upstream.received, "more and more");
}

TEST(the_upstream_server_may_choose_a_protocol_of_any_upgrade_header)
{
    chain_open(STEPS({.reply = SWITCH("websocket") "bye", .closes = true}), NULL);
    chain_send(UPGRADE("foo") "Upgrade: bar, websocket\r\n\r\n");
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 101);
    client_expect(&client, "bye");
}

#define STREAM_BYTES ((size_t)4 << 20)

static bool send_upgraded(script_server *sv, weft_stream *s)
{
    static unsigned char data[64 << 10];
    send_and_flush(s, SWITCH("websocket"));
    for (size_t done = 0; done < STREAM_BYTES; done += sizeof data) {
        fill_from(data, sizeof data, done);
        weft_stream_write(s, data, sizeof data);
    }
    weft_stream_flush(s);
    return false;
}

TEST(all_upgraded_bytes_arrive_before_the_end)
{
    static unsigned char data[16 << 10];
    ssize_t n;
    chain_open(STEPS({.handle = send_upgraded}), NULL);
    chain_send(UPGRADE("websocket") "\r\n");
    client_expect(&client, "\r\n\r\n");
    size_t head = (size_t)(body_of(client.received) - client.received),
           done = client.received_bytes - head;
    assert_bytes_at((unsigned char *)client.received + head, done, 0);
    while ((n = weft_read(client.fd, data, sizeof data)) > 0) {
        assert_bytes_at(data, (size_t)n, done);
        done += (size_t)n;
    }
    ck_assert_int_eq(n, 0);
    ck_assert_uint_eq(done, STREAM_BYTES);
}

TEST(a_refused_upgrade_is_an_ordinary_response)
{
    chain_open(STEPS({.reply = "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"},
                     {.reply = OK("hello", "5")}),
               NULL);
    chain_send(UPGRADE("websocket") "\r\n");
    client_expect(&client, "\r\n\r\nno");
    ck_assert_int_eq(status_of(client.received), 403);
    client.received_bytes = 0;
    client_send(&client, GET "\r\n"); /* both connections are still usable */
    client_expect(&client, "hello");
    ck_assert_uint_eq(upstream.conns, 1);
}

static const char *allowed;

static void assert_upgrade_forwarded(const char *protocol, const char *is_expected)
{
    const char *request = format(UPGRADE("%s") "\r\n", protocol);
    chain_open(STEPS({.reply = OK("hello", "5")}), &(weft_http_proxy_options){.upgrades = allowed});
    chain_send(request);
    client_expect(&client, "hello");
    bool is_forwarded = strstr(upstream.received, "Upgrade: ") != NULL;
    ck_assert_msg(is_forwarded == (is_expected[0] == 'y'), "%s: %s", protocol, upstream.received);
    ck_assert_int_eq(strstr(upstream.received, "Connection:") != NULL, is_forwarded);
}

TEST(only_allowed_protocols_are_forwarded)
{
    EACH_PAIR(assert_upgrade_forwarded, "websocket -> yes", "foo, bar -> yes", "h2c -> no",
              "websocket, H2C -> no", "h2c/1 -> no", "\"h2c\" -> no", "h2c;q=1 -> no",
              "foo/2 -> yes");
    allowed = "websocket, foo";
    EACH_PAIR(assert_upgrade_forwarded, "foo/2 -> yes", "WebSocket -> yes", "bar -> no");
    allowed = "foo/2";
    EACH_PAIR(assert_upgrade_forwarded, "foo/2 -> yes", "foo/3 -> no");
    allowed = "";
    EACH_PAIR(assert_upgrade_forwarded, "websocket -> no");
}

TEST(a_protocol_that_was_not_requested_is_502)
{
    chain_open(STEPS({.reply = SWITCH("other")}), NULL);
    chain_send(UPGRADE("websocket") "\r\n");
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 502);
}

/* Wait until the proxy closes the connection. */
static bool wait_for_close(script_server *sv, weft_stream *s)
{
    const void *data;
    send_and_flush(s, SWITCH("websocket") "here");
    weft_stream_peek(s, 1, &data);
    weft_sem_post(&ended);
    return false;
}

TEST(an_idle_tunnel_is_reset)
{
    chain_open(STEPS({.handle = wait_for_close}),
               &(weft_http_proxy_options){.upgraded_idle_s = 0.02});
    chain_send(UPGRADE("websocket") "\r\n");
    assert_client_reset();
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
}

/* Close with a reset after the first byte of input. */
static bool reset_after_input(script_server *sv, weft_stream *s)
{
    const void *data;
    send_and_flush(s, SWITCH("websocket") "here");
    weft_stream_peek(s, 1, &data);
    const struct linger reset = {.l_onoff = 1};
    setsockopt(weft_stream_fd(s), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return false;
}

TEST(a_reset_of_one_side_resets_the_other_side)
{
    chain_open(STEPS({.handle = reset_after_input}, {.handle = wait_for_close}), NULL);
    chain_send(UPGRADE("websocket") "\r\n");
    client_expect(&client, "here");
    client_send(&client, "x");
    assert_client_reset();

    chain_send(UPGRADE("websocket") "\r\n");
    client_expect(&client, "here");
    const struct linger reset = {.l_onoff = 1};
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    drop_client();
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
}

TEST(a_server_closes_tunnels_when_its_drain_time_ends)
{
    front_options = (weft_http_options){.drain_s = 0.02};
    chain_open(STEPS({.handle = wait_for_close}), NULL);
    chain_send(UPGRADE("websocket") "\r\n");
    client_expect(&client, "here");
    chain_close_front();
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    client_receive_all(&client);
}
