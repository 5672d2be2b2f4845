/*
 * The PROXY protocol: headers of both versions, whole and in parts, and connections that begin with
 * a header.
 */
#include "http/http_support.h"
#include "http/proxy_protocol/proxy_protocol.h"
#include "support/suite.h"
#include "support/tls_support.h"

static test_server server;
static weft_http_record last_record;
static char last_reason[128], last_peer[64];
static size_t records;

static void close_server(void)
{
    drop_client();
    if (server.fiber != 0)
        ck_assert_int_eq(server_close(&server), -ECANCELED);
}

FIXTURE(NULL, close_server)

/*
 * Headers.
 */

#define SIGNATURE "\r\n\r\n\0\r\nQUIT\n"

/* A header of version 2 from string literals. NULs are a part of the literals. */
#define V2(command, protocol, length, rest) SIGNATURE command protocol length rest
#define V4_ADDRESSES "\300\0\2\7\300\0\2\1\303\120\1\273"
#define V6_ADDRESSES                                                     \
    "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\7\x20\x01\x0d\xb8\0\0\0\0\0" \
    "\0\0\0\0\0\0\1\303\120\1\273"

#define BYTES(text) (const uint8_t *)(text), sizeof(text) - 1

static const struct {
    const uint8_t *data;
    size_t bytes;
    const char *client; /* NULL: none */
} valid[] = {
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 50000 443\r\n"), "192.0.2.7"},
    {BYTES("PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"), "255.255.255.255"},
    {BYTES("PROXY TCP6 2001:db8::7 ::1 0 1\r\n"), "2001:db8::7"},
    {BYTES("PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff "
           "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"),
     "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    {BYTES("PROXY UNKNOWN\r\n"), NULL},
    {BYTES("PROXY UNKNOWN ffff::1 anything  else\r\n"), NULL},
    {BYTES(V2("\x21", "\x11", "\0\x0c", V4_ADDRESSES)), "192.0.2.7"},
    {BYTES(V2("\x21", "\x11", "\0\x10", V4_ADDRESSES "\x04\0\1x")), "192.0.2.7"},
    {BYTES(V2("\x21", "\x21", "\0\x24", V6_ADDRESSES)), "2001:db8::7"},
    {BYTES(V2("\x21", "\0", "\0\0", "")), NULL},
    {BYTES(V2("\x21", "\0", "\0\5", "hello")), NULL},
    {BYTES(V2("\x20", "\0", "\0\0", "")), NULL},
    {BYTES(V2("\x20", "\x11", "\0\x0c", V4_ADDRESSES)), NULL},
    {BYTES(V2("\x20", "\xff", "\0\2", "xx")), NULL},
};

static void assert_header(const uint8_t *data, size_t bytes, size_t expected, const char *client_ip)
{
    weft__proxy_header header;
    char text[WEFT__IP_TEXT_BYTES] = "";
    ck_assert_int_eq(weft__proxy_header_parse(&header, data, bytes), (ssize_t)expected);
    ck_assert_int_eq(header.has_client, client_ip != NULL);
    if (header.has_client)
        weft__ip_write(&header.client, text);
    ck_assert_str_eq(text, client_ip != NULL ? client_ip : "");
}

TEST(a_header_is_complete_at_its_last_byte_whatever_follows)
{
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        uint8_t data[WEFT__PROXY_HEADER_BYTES];
        memcpy(data, valid[i].data, valid[i].bytes);
        memset(data + valid[i].bytes, 'G', sizeof data - valid[i].bytes);
        assert_header(data, valid[i].bytes, valid[i].bytes, valid[i].client);
        assert_header(data, sizeof data, valid[i].bytes, valid[i].client);
    }
}

/* Further data of version 2 may be missing, because the caller skips it. */
TEST(each_begin_of_a_header_is_incomplete)
{
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        size_t needed = valid[i].bytes;
        if (valid[i].data[0] == '\r')
            needed = valid[i].client == NULL ? 16 : valid[i].data[13] == (0x10 | 1) ? 28 : 52;
        for (size_t bytes = 0; bytes < needed; bytes++)
            assert_header(valid[i].data, bytes, 0, NULL);
        assert_header(valid[i].data, needed, valid[i].bytes, valid[i].client);
    }
}

TEST(a_unix_client_has_no_address)
{
    uint8_t data[WEFT__PROXY_HEADER_BYTES] = V2("\x21", "\x31", "\0\xd8", "/run/app");
    assert_header(data, sizeof data, 16 + 216, NULL);
    assert_header(data, sizeof data - 1, 0, NULL);
}

static const struct {
    const uint8_t *data;
    size_t bytes;
    int error;
} invalid[] = {
    {BYTES("GET / HTTP/1.1\r\n"), -EBADMSG},
    {BYTES("\x16\x03\x01"), -EBADMSG},
    {BYTES("PROXY\r\n"), -EBADMSG},
    {BYTES("PROXY \r\n"), -EBADMSG},
    {BYTES("proxy TCP4 192.0.2.7 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1 2\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1 2\rx"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 3\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1 2 \r\n"), -EBADMSG},
    {BYTES("PROXY TCP4  192.0.2.7 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY  TCP4 192.0.2.7 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.007 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 ::1 ::1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 ::1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP6 192.0.2.7 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP6 fe80::1%eth0 ::1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 65536 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1 -2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 01 2\r\n"), -EBADMSG},
    {BYTES("PROXY TCP4 192.0.2.7 192.0.2.1 1 2\0\r\n"), -EBADMSG},
    {BYTES("PROXY UNKNOWN\0\r\n"), -EBADMSG},
    {BYTES("PROXY UNKNOWNS\r\n"), -EBADMSG},
    {BYTES("PROXY TCP5 192.0.2.7 192.0.2.1 1 2\r\n"), -EBADMSG},
    {BYTES("PROXY UNKNOWN aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
           "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
     -EMSGSIZE},
    {BYTES("\r\n\r\n\0\r\nQUIX"), -EBADMSG},
    {BYTES(SIGNATURE "\x11"), -EBADMSG},
    {BYTES(V2("\x22", "\x11", "\0\x0c", V4_ADDRESSES)), -EBADMSG},
    {BYTES(V2("\x31", "\x11", "\0\x0c", V4_ADDRESSES)), -EBADMSG},
    {BYTES(V2("\x21", "\x11", "\0\x0b", V4_ADDRESSES)), -EBADMSG},
    {BYTES(V2("\x21", "\x12", "\0\x0c", V4_ADDRESSES)), -EBADMSG},
    {BYTES(V2("\x21", "\x21", "\0\x23", V6_ADDRESSES)), -EBADMSG},
    {BYTES(V2("\x21", "\x41", "\0\x0c", V4_ADDRESSES)), -EBADMSG},
    {BYTES(V2("\x21", "\x01", "\0\0", "")), -EBADMSG},
    {BYTES(V2("\x21", "\x31", "\0\xd7", "")), -EBADMSG},
    {BYTES(V2("\x21", "\x11", "\x10\x01", V4_ADDRESSES)), -EMSGSIZE},
    {BYTES(V2("\x20", "\0", "\xff\xff", "")), -EMSGSIZE},
};

TEST(malformed_and_too_long_headers_are_refused)
{
    weft__proxy_header header;
    for (size_t i = 0; i < COUNT_OF(invalid); i++) {
        ssize_t n = weft__proxy_header_parse(&header, invalid[i].data, invalid[i].bytes);
        ck_assert_msg(n == invalid[i].error, "row %zu: %zd", i, n);
        ck_assert(!header.has_client);
    }
}

/*
 * Connections.
 */

static int reply_peer(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "%s", weft_http_peer(r));
}

static void keep_record(const weft_http_record *record, void *ctx)
{
    (void)ctx;
    records++;
    last_record = *record;
    snprintf(last_reason, sizeof last_reason, "%s", record->reason);
    snprintf(last_peer, sizeof last_peer, "%s", record->peer);
}

#define REQUEST "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

static void open_behind_proxy(const char *peers)
{
    close_server();
    server_open(&server, reply_peer, NULL,
                &(weft_http_options){.proxy_protocol_peers = peers, .log = keep_record});
}

static const char *receive_reply(void)
{
    client_receive_all(&client);
    drop_client();
    return client.received;
}

TEST(the_client_in_the_header_is_the_peer_of_its_requests)
{
    open_behind_proxy("127.0.0.1");
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        server_connect(&server, &client);
        client_send_bytes(&client, valid[i].data, valid[i].bytes);
        client_send(&client, REQUEST);
        const char *expected = valid[i].client != NULL ? valid[i].client : "127.0.0.1";
        ck_assert_str_eq(body_of(receive_reply()), expected);
        ck_assert_str_eq(last_peer, expected);
    }
}

TEST(a_header_may_arrive_byte_by_byte)
{
    open_behind_proxy("127.0.0.1");
    for (size_t i = 0; i < COUNT_OF(valid); i++) {
        server_connect(&server, &client);
        for (size_t k = 0; k < valid[i].bytes; k++) {
            client_send_bytes(&client, valid[i].data + k, 1);
            let_run();
        }
        client_send(&client, REQUEST);
        ck_assert_str_eq(body_of(receive_reply()),
                         valid[i].client != NULL ? valid[i].client : "127.0.0.1");
    }
}

TEST(further_data_of_a_header_is_skipped)
{
    static uint8_t data[16 + WEFT__PROXY_V2_LENGTH_MAX] =
        V2("\x21", "\x11", "\x10\0", V4_ADDRESSES);
    open_behind_proxy("127.0.0.1");
    memset(data + 28, 'P', sizeof data - 28);
    server_connect(&server, &client);
    client_send_bytes(&client, data, sizeof data);
    client_send(&client, REQUEST);
    ck_assert_str_eq(body_of(receive_reply()), "192.0.2.7");
}

TEST(a_connection_without_a_valid_header_is_closed_and_logged)
{
    open_behind_proxy("127.0.0.1");
    for (size_t i = 0; i < COUNT_OF(invalid); i++) {
        size_t before = records;
        server_connect(&server, &client);
        client_send_bytes(&client, invalid[i].data, invalid[i].bytes);
        ssize_t n;
        while ((n = client_receive_some(&client)) > 0)
            ;
        ck_assert(n == 0 || n == -ECONNRESET);
        ck_assert_str_eq(client.received, "");
        drop_client();
        ck_assert_uint_eq(records, before + 1);
        ck_assert_has(last_reason, "PROXY protocol");
        ck_assert_int_eq(last_record.status, 0);
        ck_assert_str_eq(last_peer, "127.0.0.1");
    }
}

TEST(a_header_that_does_not_arrive_in_time_ends_the_connection)
{
    server_open(&server, reply_peer, NULL,
                &(weft_http_options){.proxy_protocol_peers = "127.0.0.1",
                                     .limits.first_byte_s = 0.01,
                                     .log = keep_record});
    server_connect(&server, &client);
    client_send(&client, "PROXY TCP4 ");
    ck_assert_str_eq(receive_reply(), "");
    ck_assert_has(last_reason, "in time");
}

TEST(the_drain_does_not_wait_for_headers)
{
    server_open(&server, reply_peer, NULL,
                &(weft_http_options){.proxy_protocol_peers = "127.0.0.1",
                                     .limits.first_byte_s = INFINITY,
                                     .drain_s = INFINITY});
    server_connect(&server, &client);
    client_send(&client, "PROXY");
    let_run();
    ck_assert_int_eq(server_close(&server), -ECANCELED);
}

TEST(other_peers_are_clients_and_send_no_header)
{
    open_behind_proxy("10.0.0.0/8, unix");
    server_connect(&server, &client);
    client_send(&client, REQUEST);
    ck_assert_str_eq(body_of(receive_reply()), "127.0.0.1");
    server_connect(&server, &client);
    client_send(&client, "PROXY TCP4 192.0.2.7 192.0.2.1 50000 443\r\n" REQUEST);
    ck_assert_int_eq(status_of(receive_reply()), 400);
    ck_assert_str_eq(last_peer, "127.0.0.1");
}

/* The client is the peer for X-Forwarded-For. A client therefore cannot use trust in the proxy. */
TEST(forwarded_headers_need_trust_in_the_client)
{
    server_open(&server, reply_peer, NULL,
                &(weft_http_options){.proxy_protocol_peers = "127.0.0.1",
                                     .trusted_peers = "127.0.0.1, 192.0.2.7"});
    static const char *const cases[][2] = {{"192.0.2.7", "198.51.100.9"},
                                           {"192.0.2.8", "192.0.2.8"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        server_connect(&server, &client);
        client_send(&client, format("PROXY TCP4 %s 192.0.2.1 1 2\r\n"
                                    "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                    "X-Forwarded-For: 198.51.100.9\r\n\r\n",
                                    cases[i][0]));
        ck_assert_str_eq(body_of(receive_reply()), cases[i][1]);
    }
}

TEST(connections_count_for_the_client_and_not_for_the_proxy)
{
    static test_client others[3];
    static const char *const clients[] = {"192.0.2.1", "192.0.2.2", "192.0.2.3"};
    server_open(&server, reply_peer, NULL,
                &(weft_http_options){.proxy_protocol_peers = "127.0.0.1",
                                     .limits.connections_per_peer_max = 1});
    for (size_t i = 0; i < COUNT_OF(clients); i++) {
        server_connect(&server, &others[i]);
        client_send(&others[i], format("PROXY TCP4 %s 192.0.2.1 1 2\r\nGET / HTTP/1.1\r\n"
                                       "Host: a\r\n\r\n",
                                       clients[i]));
        client_expect(&others[i], clients[i]);
    }
    for (int i = 0; i < 2; i++) {
        server_connect(&server, &client);
        client_send(&client, "PROXY TCP4 192.0.2.1 192.0.2.1 1 2\r\n" REQUEST);
        ck_assert_int_eq(status_of(receive_reply()), 429);
    }
    weft_close(others[0].fd);
    int status;
    do { /* until the server has seen the end of the first connection */
        server_connect(&server, &client);
        client_send(&client, "PROXY TCP4 192.0.2.1 192.0.2.1 1 2\r\n" REQUEST);
        status = status_of(receive_reply());
    } while (status == 429);
    ck_assert_int_eq(status, 200);
    weft_close(others[1].fd);
    weft_close(others[2].fd);
}

TEST(a_single_connection_and_a_unix_socket_may_begin_with_a_header)
{
    const weft_http_options o = {.proxy_protocol_peers = "unix"};
    client_exchange(&client, reply_peer, NULL, &o,
                    "PROXY TCP4 192.0.2.7 192.0.2.1 50000 443\r\n" REQUEST);
    ck_assert_str_eq(body_of(client.received), "192.0.2.7");
}

TEST(with_tls_the_header_precedes_the_handshake)
{
    char *cert, *key, reply[512] = "";
    weft_stream stream;
    ck_assert_int_eq(weft_tls_self_signed("localhost", 2, &cert, &key), 0);
    weft_tls *tls =
        weft_tls_server_new(&(weft_tls_options){.identity = {.cert_pem = cert, .key_pem = key}});
    weft_tls *trust = weft_tls_client_new(&(weft_tls_options){.ca_pem = cert});
    server_open(&server, reply_peer, NULL,
                &(weft_http_options){.proxy_protocol_peers = "127.0.0.1", .tls = tls});
    server_connect(&server, &client);
    client_send_bytes(&client, valid[6].data, valid[6].bytes);
    ck_assert_int_eq(weft_tls_connect(&stream, client.fd, trust, "localhost"), 0);
    ck_assert_int_gt(weft_stream_write(&stream, REQUEST, strlen(REQUEST)), 0);
    ck_assert_int_eq(weft_stream_flush(&stream), 0);
    ssize_t n = 0, got;
    while ((got = weft_stream_read(&stream, reply + n, sizeof reply - 1 - (size_t)n)) > 0)
        n += got;
    ck_assert_str_eq(body_of(reply), "192.0.2.7");
    weft_stream_close(&stream);
    client.fd = -1;
    close_server();
    weft_tls_free(tls);
    weft_tls_free(trust);
    free(cert);
    free(key);
}

TEST(a_malformed_list_of_peers_is_refused)
{
    ck_assert_int_eq(weft_http_serve("127.0.0.1:0", reply_peer, NULL,
                                     &(weft_http_options){.proxy_protocol_peers = "10.0.0.0/40"}),
                     -EINVAL);
    ck_assert_has(weft_error()->message, "10.0.0.0/40");
}
