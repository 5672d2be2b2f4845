/* The client: its handshake with a server that follows a script, and its frames. */
#include "http/fetch_support.h"
#include "support/suite.h"

#define ACCEPTED(fields)                                                                       \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" fields \
    "Sec-WebSocket-Accept: %s\r\n\r\n"

#include "ws/ws.h"

static weft_ws *ws;
static const char *reply_format; /* with %s for the value of Sec-WebSocket-Accept */
static const char *frames;       /* that follow the response */
static size_t frames_bytes;
static unsigned char from_client[200]; /* the frames of the client */
static size_t from_client_bytes;

/* Answer the handshake, send frames, and record the frames of the client until it ends. */
static bool answer_handshake(script_server *sv, weft_stream *s)
{
    char key[25] = "";
    const char *field = strstr(sv->received, "Sec-WebSocket-Key: ");
    ck_assert_ptr_nonnull(field);
    memcpy(key, field + strlen("Sec-WebSocket-Key: "), 24);
    ck_assert(weft__ws_key_is_valid(key));
    weft__strbuf accept = {0};
    weft__ws_add_accept(&accept, key);
    weft_stream_printf(s, reply_format, accept.data);
    weft_stream_write(s, frames, frames_bytes);
    weft_stream_flush(s);
    free(accept.data);
    ssize_t n = 1;
    while (n > 0 && from_client_bytes < sizeof from_client) {
        n = weft_stream_read(s, from_client + from_client_bytes,
                             sizeof from_client - from_client_bytes);
        from_client_bytes += n > 0 ? (size_t)n : 0;
    }
    return false;
}

static void open_answer(void)
{
    open_site(STEPS({.handle = answer_handshake}));
    reply_format = ACCEPTED("");
    frames = "";
    frames_bytes = 0;
    from_client_bytes = 0;
}

static void end_connect(void)
{
    weft_ws_free(ws);
    ws = NULL;
    close_site();
}

FIXTURE(open_answer, end_connect)

/* The site does not end a connection first. Therefore do not wait long for that. */
static int connect_to(const char *url, weft_ws_options options)
{
    options.close_s = options.close_s > 0 ? options.close_s : 0.001;
    return weft_ws_connect(fetcher, url, &options, &ws);
}

static const char *site_url(void)
{
    return format("ws://127.0.0.1:%d/chat?a=b", site.port);
}

#define FRAMES(text) (frames = (text), frames_bytes = sizeof(text) - 1)

TEST(the_request_of_the_client_is_that_of_the_rfc)
{
    const weft_fetch_field field = {"Origin", "http://a.test"};
    FRAMES("\x88\x00");
    const weft_ws_options o = {
        .protocols = "a, b", .fields = &field, .fields_count = 1, .has_no_deflate = true};
    ck_assert_int_eq(connect_to(site_url(), o), 0);
    ck_assert_has(site.received, "GET /chat?a=b HTTP/1.1\r\n",
                  format("Host: 127.0.0.1:%d\r\n", site.port),
                  "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Sec-WebSocket-Version: 13\r\n",
                  "Sec-WebSocket-Protocol: a, b\r\n", "Origin: http://a.test\r\n");
    ck_assert_lacks(site.received, "Sec-WebSocket-Extensions");
    ck_assert_str_eq(weft_ws_protocol(ws), "");
}

/* Copy the key of the request that has arrived. */
static void get_key(char key[25])
{
    const char *field = strstr(site.received, "Sec-WebSocket-Key: ");
    ck_assert_ptr_nonnull(field);
    snprintf(key, 25, "%s", field + strlen("Sec-WebSocket-Key: "));
    ck_assert(weft__ws_key_is_valid(key));
}

TEST(each_handshake_has_another_key)
{
    char first[25], second[25];
    FRAMES("\x88\x00");
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){0}), 0);
    get_key(first);
    weft_ws_free(ws);
    site.requests = site.received_bytes = 0;
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){0}), 0);
    get_key(second);
    ck_assert_str_ne(first, second);
}

TEST(the_offered_subprotocols_differ_and_are_tokens)
{
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){.protocols = "a, b, a"}), -EINVAL);
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){.protocols = "a b"}), -EINVAL);
    ck_assert_ptr_null(ws);
}

static void assert_url(const char *url, const char *expected)
{
    site.requests = site.received_bytes = 0;
    int rc = connect_to(
        strncmp(url, "here", 4) == 0 ? format("%s%d/", strchr(url, ' ') + 1, site.port) : url,
        (weft_ws_options){0});
    ck_assert_msg(rc == -atoi(expected), "%s: %d", url, rc);
    ck_assert_int_eq(ws == NULL, rc < 0);
    weft_ws_free(ws);
    ws = NULL;
}

/* 22 is EINVAL. */
TEST(urls_of_websocket_and_of_http_are_accepted)
{
    FRAMES("\x88\x00");
    EACH_PAIR(assert_url, "here ws://127.0.0.1: -> 0", "here WS://127.0.0.1: -> 0",
              "here http://127.0.0.1: -> 0", "ftp://a.test/ -> 22", "ws://a.test/#x -> 22",
              "ws:/// -> 22", "127.0.0.1 -> 22", " -> 22", "wsx://a.test/ -> 22");
    ck_assert_int_eq(weft_ws_connect(fetcher, NULL, NULL, &ws), -EINVAL);
}

static void assert_answer(const char *reply, const char *expected)
{
    reply_format = reply;
    FRAMES("\x88\x00");
    site.requests = site.received_bytes = 0;
    int rc = connect_to(site_url(), (weft_ws_options){.protocols = "a, b"});
    ck_assert_msg(rc == -atoi(expected), "%s: %d", reply, rc);
    ck_assert_int_eq(ws == NULL, rc < 0);
    weft_ws_free(ws);
    ws = NULL;
}

/* 74 is EBADMSG, 111 is ECONNREFUSED. */
TEST(the_client_checks_the_answer_of_the_server)
{
    ck_assert_int_eq(EBADMSG, 74);
    ck_assert_int_eq(ECONNREFUSED, 111);
    EACH_PAIR(assert_answer, ACCEPTED("") " -> 0",
              ACCEPTED("Sec-WebSocket-Protocol: b\r\n") " -> 0",
              ACCEPTED("Sec-WebSocket-Protocol: c\r\n") " -> 74",
              ACCEPTED("Sec-WebSocket-Protocol: a, b\r\n") " -> 74",
              ACCEPTED("Sec-WebSocket-Protocol: A\r\n") " -> 74",
              ACCEPTED("Sec-WebSocket-Extensions: foo\r\n") " -> 74",
              ACCEPTED("Sec-WebSocket-Extensions: a;\r\n") " -> 74",
              "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n -> 74",
              "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
              "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n -> 74",
              "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: WEBSOCKET\r\n"
              "Sec-WebSocket-Accept: %s\r\n\r\n -> 0",
              "HTTP/1.1 101 X\r\nConnection: close\r\nUpgrade: websocket\r\n"
              "Sec-WebSocket-Accept: %s\r\n\r\n -> 74",
              "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n -> 74",
              "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n -> 74",
              ACCEPTED("Sec-WebSocket-Accept: x\r\n") " -> 74",
              ACCEPTED("Sec-WebSocket-Protocol: a\r\nSec-WebSocket-Protocol: a\r\n") " -> 74",
              "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
              "Sec-WebSocket-Accept: %s\r\n\r\n -> 74",
              "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n -> 111",
              "HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n -> 111",
              "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n -> 111", "nonsense\r\n\r\n -> 74");
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

TEST(frames_that_arrive_with_the_answer_are_received)
{
    weft_ws_message m;
    FRAMES("\x81\x05Hello\x82\x02\xff\x00\x88\x02\x0b\xb8");
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){0}), 0);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    ck_assert_str_eq(m.data, "Hello");
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    ck_assert_uint_eq(m.bytes, 2);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    ck_assert_int_eq(weft_ws_close_code(ws), 3000);
}

/* Unmask a frame at from_client + at. Return the offset of the next frame. */
static size_t unmask_at(size_t at, unsigned *first, char *payload)
{
    size_t bytes = from_client[at + 1] & 0x7f;
    ck_assert(from_client[at + 1] & 0x80);
    ck_assert_uint_lt(bytes, 126);
    *first = from_client[at];
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (char)(from_client[at + 6 + i] ^ from_client[at + 2 + i % 4]);
    payload[bytes] = '\0';
    return at + 6 + bytes;
}

TEST(the_client_masks_each_frame_with_another_key)
{
    char payload[128];
    unsigned first;
    FRAMES("\x89\x04ping\x88\x02\x0b\xb8");
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){0}), 0);
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_printf(ws, "a text"), 0);
    ck_assert_int_eq(weft_ws_recv(ws, &m), 0);
    weft_ws_free(ws);
    ws = NULL;
    let_run();
    size_t second = unmask_at(0, &first, payload);
    ck_assert_uint_eq(first, 0x81);
    ck_assert_str_eq(payload, "a text");
    size_t third = unmask_at(second, &first, payload);
    ck_assert_uint_eq(first, 0x8a);
    ck_assert_str_eq(payload, "ping");
    ck_assert_uint_eq(unmask_at(third, &first, payload), from_client_bytes);
    ck_assert_uint_eq(first, 0x88);
    ck_assert_int_eq(memcmp(payload, "\x0b\xb8", 3), 0);
    ck_assert_int_ne(memcmp(from_client + 2, from_client + second + 2, 4), 0);
    ck_assert_int_ne(memcmp(from_client + 2, from_client + third + 2, 4), 0);
}

/* Each case is a frame of the server, in hexadecimal notation, and the code of the client. */
static void assert_refused(const char *hex, const char *expected)
{
    static char data[64];
    weft_ws_message m;
    char payload[128];
    unsigned first, byte;
    frames_bytes = 0;
    for (const char *p = hex; sscanf(p, "%2x", &byte) == 1; p += p[2] == ' ' ? 3 : 2)
        data[frames_bytes++] = (char)byte;
    frames = data;
    from_client_bytes = site.requests = site.received_bytes = 0;
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){0}), 0);
    ck_assert_int_eq(weft_ws_recv(ws, &m), -EBADMSG);
    ck_assert_int_eq(weft_ws_recv(ws, &m), -EBADMSG);
    ck_assert_int_eq(weft_ws_send(ws, WEFT_WS_TEXT, "x", 1), -EBADMSG);
    weft_ws_free(ws);
    ws = NULL;
    let_run();
    unmask_at(0, &first, payload);
    ck_assert_uint_eq(first, 0x88);
    ck_assert_int_eq((unsigned char)payload[0] << 8 | (unsigned char)payload[1], atoi(expected));
}

TEST(the_client_refuses_masked_and_invalid_frames)
{
    EACH_PAIR(assert_refused, "81 81 00 00 00 00 61 -> 1002", "81 80 00 00 00 00 -> 1002",
              "A1 00 -> 1002", "83 00 -> 1002", "80 00 -> 1002", "81 01 FF -> 1007",
              "88 01 03 -> 1002", "C0 00 -> 1002");
}

TEST(the_client_waits_for_the_server_to_end_the_connection)
{
    FRAMES("\x88\x00");
    ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){.close_s = 0.001}), 0);
    ck_assert_int_eq(weft_ws_close(ws, 1000, NULL), 0);
    weft_ws_free(ws); /* the server does not end the connection within close_s */
    ws = NULL;
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

TEST(a_cancelled_connect_closes_its_connection)
{
    open_site(STEPS({.reply = OK("", "0"), .is_held = true}));
    WEFT_MOVE_ON_AFTER(0.001)
        ck_assert_int_eq(connect_to(site_url(), (weft_ws_options){0}), -ECANCELED);
    ck_assert_ptr_null(ws);
    release_replies(&site, 1);
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

TEST(the_client_connects_through_a_tunnel_of_a_proxy)
{
    FRAMES("\x81\x02hi\x88\x00");
    open_site(STEPS({.reply = "HTTP/1.1 200 OK\r\n\r\n"}, {.handle = answer_handshake}));
    setenv("http_proxy", format("http://127.0.0.1:%d", site.port), 1);
    ck_assert_int_eq(connect_to("ws://nowhere.test/", (weft_ws_options){0}), 0);
    weft_ws_message m;
    ck_assert_int_eq(weft_ws_recv(ws, &m), 1);
    ck_assert_str_eq(m.data, "hi");
    ck_assert_has(site.received, "CONNECT nowhere.test:80 HTTP/1.1\r\n",
                  "GET / HTTP/1.1\r\nHost: nowhere.test\r\n");
    unset_proxies();
}
