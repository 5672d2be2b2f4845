/* Connections of HTTP/2 without streams: their fiber ends, and input starts another one. */
#include "http/h2/h2_raw.h"
#include "http/rest/rest_support.h"

/* Connect to the server, and send the preface. */
static void begin_h2(void)
{
    server_connect(&s, &client);
    h2_begin();
    client_send(&client, H2_MAGIC);
    h2_send(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

/* Connect to the server, and receive its settings. */
static void connect_h2(void)
{
    begin_h2();
    h2_expect("SETTINGS 0 ACK\n");
    acknowledge(client.fd);
}

static void close_h2(void)
{
    hang_up(&client);
    h2_finish();
}

/* Send a request in a stream, and expect the reply with this number. */
static void ask_h2(uint32_t id, size_t number)
{
    h2_send_head(id, H2_WHOLE, H2_GET);
    h2_expect(format("reply %zu.\n", number));
    acknowledge(client.fd);
}

TEST(a_connection_without_streams_has_no_fiber_and_the_next_request_gets_its_reply)
{
    open_server(serve_count, NULL);
    connect_h2();
    for (uint32_t i = 0; i < 4; i++) {
        ask_h2(2 * i + 1, i + 1);
        await_rest();
    }
    close_h2();
    await_rest();
}

TEST(a_connection_rests_before_its_first_request_too)
{
    open_server(serve_count, NULL);
    connect_h2();
    await_rest();
    ask_h2(1, 1);
    close_h2();
}

TEST(a_ping_wakes_a_connection_and_gets_its_reply)
{
    open_server(serve_count, NULL);
    connect_h2();
    for (int i = 0; i < 3; i++) {
        await_rest();
        h2_sync();
        acknowledge(client.fd);
    }
    await_rest();
    close_h2();
}

TEST(a_frame_in_two_parts_wakes_a_connection)
{
    static uint8_t block[256];
    open_server(serve_count, NULL);
    connect_h2();
    await_rest();
    uint8_t frame[9 + sizeof block] = {0};
    size_t bytes = h2_block(block, sizeof block, H2_GET);
    h2_put(frame, (uint32_t)bytes, 3);
    frame[3] = NGHTTP2_HEADERS;
    frame[4] = H2_WHOLE;
    h2_put(frame + 5, 1, 4);
    memcpy(frame + 9, block, bytes);
    client_send_bytes(&client, frame, 5);
    while (stats().fibers < 2)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    await_rest(); /* a part of a frame is in the session, not in the stream */
    client_send_bytes(&client, frame + 5, 9 + bytes - 5);
    h2_expect("reply 1.\n");
    close_h2();
}

TEST(a_connection_with_a_stream_keeps_its_fiber)
{
    open_server(serve_count, NULL);
    connect_h2();
    await_rest();
    h2_send_head(1, H2_END_HEADERS, H2_HEAD("POST", "/"));
    h2_expect("reply 1.\n"); /* the reply does not wait for the body, the stream lingers */
    weft_sleep(5 * REST_S);
    ck_assert_uint_ge(stats().fibers, 2);
    close_h2();
}

TEST(a_connection_at_rest_gets_goaway_after_the_idle_time)
{
    open_server(serve_count, &(weft_http_options){.limits = {.idle_s = 10 * REST_S}});
    begin_h2();
    ask_h2(1, 1); /* with the preface: the idle time begins after the reply */
    await_rest();
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=1 NO_ERROR\n");
    close_h2();
    await_rest();
}

TEST(a_draining_server_sends_goaway_to_connections_at_rest)
{
    open_server(serve_count, &(weft_http_options){.drain_s = INFINITY});
    connect_h2();
    ask_h2(1, 1);
    await_rest();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=1 NO_ERROR\n");
    close_h2();
    end_server();
}

TEST(a_server_without_drain_time_ends_connections_of_http_2_at_rest)
{
    open_server(serve_count, &(weft_http_options){.drain_s = 1e-9});
    connect_h2();
    await_rest();
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    h2_receive_all();
    close_h2();
}

TEST(a_peer_that_leaves_a_connection_of_http_2_at_rest_frees_its_place)
{
    open_server(serve_count, &(weft_http_options){.limits = {.connections_max = 1}});
    for (int i = 0; i < 2; i++) {
        connect_h2();
        await_rest();
        close_h2();
        while (count_descriptors() > descriptors + 1) /* the listener */
            ck_assert_int_eq(weft_sleep(0.001), 0);
    }
}

TEST(the_limit_of_requests_of_http_2_counts_those_before_the_rest)
{
    open_server(serve_count, &(weft_http_options){.limits = {.requests_max = 2}});
    connect_h2();
    ask_h2(1, 1);
    await_rest();
    h2_send_head(3, H2_WHOLE, H2_GET);
    h2_receive_all();
    ck_assert_has(h2_log, "reply 2.\n", "GOAWAY 0 last=3 NO_ERROR\n");
    close_h2();
}

#ifdef WEFT_HAS_TLS
TEST(a_connection_of_http_2_over_tls_rests_and_continues)
{
    make_local_cert();
    weft_tls *server_side = weft_tls_server_new(&(weft_tls_options){
        .identity = {.cert_pem = local_cert, .key_pem = local_key}, .alpn = "h2,http/1.1"});
    weft_tls *tls =
        weft_tls_client_new(&(weft_tls_options){.verify = WEFT_TLS_VERIFY_NONE, .alpn = "h2"});
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.tls = tls});
    ck_assert_ptr_nonnull(fetcher);
    server_tls = server_side;
    open_server(serve_count, &(weft_http_options){.tls = server_side});
    for (int i = 1; i <= 3; i++) {
        weft_fetch *f;
        char *text;
        ck_assert_int_eq(
            weft_fetch_get(fetcher, format("https://localhost:%d/", server_port(&s)), &f), 200);
        ck_assert_int_eq(weft_fetch_version(f), 20);
        ck_assert_int_gt(weft_fetch_read_all(f, &text), 0);
        ck_assert_str_eq(text, format("reply %d\n", i));
        weft_fetch_close(f);
        await_fibers(1); /* the reader of the client */
    }
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    weft_tls_free(tls);
}
#endif
