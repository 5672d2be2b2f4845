/* Upgrades through the reverse proxy: after a 101 the proxy forwards bytes in both directions. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"

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
    (void)sv;
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
    static const script_step steps[] = {{.handle = echo_upgraded}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\nearly,"); /* "early," is sent before the 101 */
    client_expect(&client, "welcome,early,");
    ck_assert_int_eq(strncmp(client.received, "HTTP/1.1 101 ", 13), 0);
    ck_assert_received(&client, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    ck_assert_received(&client, "Sec-WebSocket-Accept: xyz\r\n");
    ck_assert_uint_eq(count_in(client.received, "Upgrade: "), 1);
    ck_assert_server_received(&c.upstream, "Upgrade: websocket\r\nConnection: Upgrade\r\n");
    ck_assert_server_received(&c.upstream, "Sec-WebSocket-Key: abc\r\n");
    for (int i = 0; i < 100; i++) {
        char word[16];
        snprintf(word, sizeof word, "<%d>", i);
        client_send(&client, word);
        client_expect(&client, word);
    }
    weft_shutdown(client.fd, SHUT_WR); /* the client still receives */
    client_receive_all(&client);
    ck_assert_received(&client, "<99>farewell");
    weft_close(client.fd);
    chain_close(&c);
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
    static const script_step steps[] = {{.handle = half_close_first}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    client_receive_all(&client);
    ck_assert_received(&client, "\r\n\r\nbye");
    client_send(&client, "more");
    client_send(&client, " and more");
    weft_shutdown(client.fd, SHUT_WR);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    ck_assert_server_received(&c.upstream, "more and more");
    weft_close(client.fd);
    chain_close(&c);
}

TEST(the_upstream_server_may_choose_a_protocol_of_any_upgrade_header)
{
    static const script_step steps[] = {{.reply = SWITCH("websocket") "bye", .closes = true}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("foo") "Upgrade: bar, websocket\r\n\r\n");
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 101);
    client_expect(&client, "bye");
    weft_close(client.fd);
    chain_close(&c);
}

#define STREAM_BYTES ((size_t)4 << 20)

static bool send_upgraded(script_server *sv, weft_stream *s)
{
    static unsigned char data[64 << 10];
    (void)sv;
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
    static const script_step steps[] = {{.handle = send_upgraded}};
    static unsigned char data[16 << 10];
    proxy_chain c;
    test_client client;
    ssize_t n;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
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
    weft_close(client.fd);
    chain_close(&c);
}

TEST(a_refused_upgrade_is_an_ordinary_response)
{
    static const script_step steps[] = {{.reply = "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno"},
                                        {.reply = OK("hello", "5")}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 2, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    client_expect(&client, "\r\n\r\nno");
    ck_assert_int_eq(status_of(client.received), 403);
    client.received_bytes = 0;
    client_send(&client, GET "\r\n"); /* both connections are still usable */
    client_expect(&client, "hello");
    ck_assert_uint_eq(c.upstream.conns, 1);
    weft_close(client.fd);
    chain_close(&c);
}

TEST(only_allowed_protocols_are_forwarded)
{
    static const struct {
        const char *allowed, *request;
        bool is_forwarded;
    } rows[] = {
        {NULL, UPGRADE("websocket") "\r\n", true},
        {NULL, UPGRADE("foo, bar") "\r\n", true},
        {NULL, UPGRADE("h2c") "HTTP2-Settings: x\r\n\r\n", false},
        {NULL, UPGRADE("websocket, H2C") "\r\n", false},
        {NULL, UPGRADE("h2c/1") "\r\n", false},
        {NULL, UPGRADE("\"h2c\"") "\r\n", false},
        {NULL, UPGRADE("h2c;q=1") "\r\n", false},
        {NULL, UPGRADE("foo/2") "\r\n", true},
        {"websocket, foo", UPGRADE("foo/2") "\r\n", true},
        {"foo/2", UPGRADE("foo/2") "\r\n", true},
        {"foo/2", UPGRADE("foo/3") "\r\n", false},
        {"websocket, foo", UPGRADE("WebSocket") "\r\n", true},
        {"websocket, foo", UPGRADE("bar") "\r\n", false},
        {"", UPGRADE("websocket") "\r\n", false},
    };
    static const script_step steps[] = {{.reply = OK("hello", "5")}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        proxy_chain c;
        test_client client;
        chain_open(&c, steps, 1, &(weft_http_proxy_options){.upgrades = rows[i].allowed});
        server_connect(&c.front, &client);
        client_send(&client, rows[i].request);
        client_expect(&client, "hello");
        bool is_forwarded = strstr(c.upstream.received, "Upgrade: ") != NULL;
        ck_assert_msg(is_forwarded == rows[i].is_forwarded, "row %zu: %s", i, c.upstream.received);
        ck_assert_int_eq(strstr(c.upstream.received, "Connection:") != NULL, is_forwarded);
        weft_close(client.fd);
        chain_close(&c);
    }
}

TEST(a_protocol_that_was_not_requested_is_502)
{
    static const script_step steps[] = {{.reply = SWITCH("other")}};
    proxy_chain c;
    test_client client;
    chain_open(&c, steps, 1, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    client_expect(&client, "\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 502);
    weft_close(client.fd);
    chain_close(&c);
}

/* Wait until the proxy closes the connection. */
static bool wait_for_close(script_server *sv, weft_stream *s)
{
    const void *data;
    (void)sv;
    send_and_flush(s, SWITCH("websocket") "here");
    weft_stream_peek(s, 1, &data);
    weft_sem_post(&ended);
    return false;
}

TEST(an_idle_tunnel_is_reset)
{
    static const script_step steps[] = {{.handle = wait_for_close}};
    proxy_chain c;
    test_client client;
    ssize_t n;
    chain_open(&c, steps, 1, &(weft_http_proxy_options){.upgraded_idle_s = 0.02});
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    while ((n = client_receive_some(&client)) > 0)
        continue;
    ck_assert_int_eq(n, -ECONNRESET);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    weft_close(client.fd);
    chain_close(&c);
}

/* Close with a reset after the first byte of input. */
static bool reset_after_input(script_server *sv, weft_stream *s)
{
    const void *data;
    (void)sv;
    send_and_flush(s, SWITCH("websocket") "here");
    weft_stream_peek(s, 1, &data);
    const struct linger reset = {.l_onoff = 1};
    setsockopt(weft_stream_fd(s), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    return false;
}

TEST(a_reset_of_one_side_resets_the_other_side)
{
    static const script_step steps[] = {{.handle = reset_after_input}, {.handle = wait_for_close}};
    proxy_chain c;
    test_client client;
    ssize_t n;
    chain_open(&c, steps, 2, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    client_expect(&client, "here");
    client_send(&client, "x");
    while ((n = client_receive_some(&client)) > 0)
        continue;
    ck_assert_int_eq(n, -ECONNRESET);
    weft_close(client.fd);

    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    client_expect(&client, "here");
    const struct linger reset = {.l_onoff = 1};
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    weft_close(client.fd);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    chain_close(&c);
}

TEST(a_server_closes_tunnels_when_its_drain_time_ends)
{
    static const script_step steps[] = {{.handle = wait_for_close}};
    proxy_chain c;
    test_client client;
    start_server(&c.upstream, steps, 1);
    c.front_options = (weft_http_options){.drain_s = 0.02};
    chain_open_at(&c, c.upstream.base, NULL);
    server_connect(&c.front, &client);
    client_send(&client, UPGRADE("websocket") "\r\n");
    client_expect(&client, "here");
    chain_close_front(&c);
    ck_assert_int_eq(weft_sem_wait(&ended), 0);
    client_receive_all(&client);
    weft_close(client.fd);
    stop_server(&c.upstream);
}
