/*
 * The HTTP/2 server with clients of others, in clear and over TLS: curl, nghttp, h2load, Node and
 * Python. The drain of a server.
 */
#include "http/h2/h2_raw.h"
#include "support/peer_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

static test_server s;
static weft_tls *server_tls;
static weft_event may_end;
static size_t running;

#define LARGE ((size_t)4 << 20)
static char large[LARGE];

static int reply_sum(weft_http_request *r)
{
    const void *piece;
    ssize_t n;
    unsigned long bytes = 0, sum = 0;
    while ((n = weft_http_read_piece(r, &piece)) > 0) {
        bytes += (unsigned long)n;
        for (ssize_t i = 0; i < n; i++)
            sum = sum * 31 + ((const unsigned char *)piece)[i];
    }
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%lu %lx\n", bytes, sum);
}

static int reply_three_pieces(weft_http_request *r)
{
    for (int i = 0; i < 3; i++) {
        ssize_t n = weft_http_printf(r, "piece %d\n", i);
        int rc = n < 0 ? (int)n : weft_http_flush(r);
        if (rc < 0)
            return rc;
    }
    return weft_http_set_trailer(r, "X-Sum", "3");
}

static int reply_late(weft_http_request *r)
{
    running++;
    int rc = weft_event_wait(&may_end);
    return rc < 0 ? rc : weft_http_reply(r, 200, NULL, "late\n", 5);
}

static int serve_client(weft_http_request *r, void *ctx)
{
    const char *path = weft_http_path(r);
    if (strcmp(path, "/sum") == 0)
        return reply_sum(r);
    if (strcmp(path, "/pieces") == 0)
        return reply_three_pieces(r);
    if (strcmp(path, "/cut") == 0)
        return reply_three_pieces(r) < 0 ? 0 : -EIO;
    if (strcmp(path, "/large") == 0)
        return weft_http_reply(r, 200, "text/plain", large, LARGE);
    if (strcmp(path, "/late") == 0)
        return reply_late(r);
    if (strcmp(path, "/hints") == 0 && weft_http_add(r, "Link", "</a.css>") == 0 &&
        weft_http_inform(r, 103) < 0)
        return -EIO;
    return weft_http_reply_text(r, 200, "%s %s in HTTP/%d over %s\n", weft_http_method(r), path,
                                weft_http_version(r), weft_http_scheme(r));
}

static void open_site_folder(void)
{
    open_folder();
    memset(large, 'x', LARGE);
}

static void close_site(void)
{
    if (h2_deflater != NULL) {
        nghttp2_hd_deflate_del(h2_deflater);
        nghttp2_hd_inflate_del(h2_inflater);
        h2_deflater = NULL;
    }
    drop_client();
    close_folder();
    if (s.fiber != 0)
        ck_assert_int_eq(server_close(&s), -ECANCELED);
    weft_tls_free(server_tls);
    free(local_cert);
    free(local_key);
}

FIXTURE(open_site_folder, close_site)

static void start_site(weft_http_options o, bool has_tls)
{
    o.limits.body_bytes_max = 8 << 20;
    if (has_tls) {
        make_local_cert();
        const weft_tls_options tls = {.alpn = weft_http_alpn(),
                                      .identity = {.cert_pem = local_cert, .key_pem = local_key}};
        o.tls = server_tls = weft_tls_server_new(&tls);
        ck_assert_ptr_nonnull(server_tls);
        create_peer_text("ca", local_cert);
    }
    server_open(&s, serve_client, NULL, &o);
    peer_port = server_port(&s);
}

#define H2_CURL CURL "--http2-prior-knowledge "
#define TLS_CURL CURL "--resolve localhost:$PORT:127.0.0.1 --cacert ca --http2 "
#define TLS_URL "https://localhost:$PORT"
#define PIECES "piece 0\npiece 1\npiece 2\n"

TEST(curl_uses_prior_knowledge)
{
    start_site((weft_http_options){0}, false);
    run_command("head -c 3000000 /dev/urandom >file");
    char sum[64];
    snprintf(sum, sizeof sum, "%s", run_command(CURL "-T file " URL "/sum"));
    EACH_PAIR(assert_command, H2_CURL URL "/a -> GET /a in HTTP/20 over http\n",
              H2_CURL URL "/pieces -> " PIECES,
              H2_CURL "-o large -w '%{size_download} %{http_version}' " URL "/large -> 4194304 2",
              H2_CURL "-d '' " URL "/sum -> 0 0\n");
    assert_command(H2_CURL "-T file " URL "/sum", sum);
    assert_command(H2_CURL "-H 'Expect: 100-continue' -T - " URL "/sum <file", sum);
    ck_assert_has(run_command(H2_CURL "-I " URL "/a"), "HTTP/2 200 \r\n");
    ck_assert_has(run_command(H2_CURL "-i " URL "/hints"), "HTTP/2 103 \r\nlink: </a.css>\r\n");
    assert_command_fails(H2_CURL URL "/cut");
    assert_command(CURL URL "/a", "GET /a in HTTP/11 over http\n");
}

#ifdef WEFT_HAS_TLS
TEST(curl_chooses_http_2_by_alpn)
{
    start_site((weft_http_options){0}, true);
    run_command("head -c 3000000 /dev/urandom >file");
    EACH_PAIR(assert_command, TLS_CURL TLS_URL "/a -> GET /a in HTTP/20 over https\n",
              TLS_CURL "--http1.1 " TLS_URL "/a -> GET /a in HTTP/11 over https\n",
              TLS_CURL "--no-alpn " TLS_URL "/a -> GET /a in HTTP/11 over https\n",
              TLS_CURL "-o large -w '%{size_download} %{http_version}' " TLS_URL
                       "/large -> 4194304 2");
    char sum[64];
    snprintf(sum, sizeof sum, "%s", run_command(TLS_CURL "--http1.1 -T file " TLS_URL "/sum"));
    assert_command(TLS_CURL "-T file " TLS_URL "/sum", sum);
    assert_command(TLS_CURL "-Z -o 1 -o 2 -o 3 " TLS_URL "/large " TLS_URL "/a " TLS_URL
                            "/pieces && cat 2 3",
                   "GET /a in HTTP/20 over https\n" PIECES);
}
#endif

TEST(nghttp_and_h2load_report_no_error)
{
    start_site((weft_http_options){.limits = {.streams_max = 200}}, false);
    if (!has_tool("nghttp") || !has_tool("h2load"))
        return;
    assert_command("nghttp " URL "/pieces", PIECES);
    ck_assert_has(run_command("nghttp -nv " URL "/pieces"), "x-sum: 3");
    assert_command("nghttp -m 5 " URL "/a " URL "/a | grep -c 'in HTTP/20'", "10\n");
    ck_assert_has(run_command("h2load -n 5000 -c 5 -m 100 " URL "/a"), " 5000 succeeded, 0 failed");
    ck_assert_has(run_command("h2load -n 500 -c 5 -m 1 " URL "/pieces"), " 500 succeeded");
    ck_assert_has(run_command("h2load -n 50 -c 2 -m 10 " URL "/large"), " 50 succeeded, 0 failed");
    ck_assert_has(
        run_command("head -c 100000 /dev/zero >f; h2load -n 100 -c 2 -m 10 -d f " URL "/sum"),
        " 100 succeeded, 0 failed");
}

static const char node_client[] =
    "const h2 = require('http2');\n"
    "const c = h2.connect('http://127.0.0.1:' + process.env.PORT);\n"
    "const ask = (head, body) => new Promise((resolve, reject) => {\n"
    "  let text = '', status, trailer = '';\n"
    "  const s = c.request(head);\n"
    "  s.on('response', h => status = h[':status']);\n"
    "  s.on('trailers', h => trailer = h['x-sum']);\n"
    "  s.on('data', d => text += d);\n"
    "  s.on('error', e => resolve('error ' + e.code));\n"
    "  s.on('end', () => resolve(status + ' ' + text.length + ' ' + trailer));\n"
    "  s.end(body);\n"
    "});\n"
    "Promise.all([ask({':path': '/a'}), ask({':path': '/large'}), ask({':path': '/pieces'}),\n"
    "  ask({':path': '/cut'}), ask({':path': '/sum', ':method': 'POST'}, 'x'.repeat(300000))])\n"
    "  .then(r => { console.log(r.join(', ')); c.close(); });\n";

TEST(node_multiplexes_requests)
{
    start_site((weft_http_options){0}, false);
    if (!has_tool("node"))
        return;
    create_peer_text("client.js", node_client);
    const char *text = run_command("node client.js");
    ck_assert_has(text, "200 28 , 200 4194304 , 200 24 3, ", "200 ");
    ck_assert_has(text, "error ERR_HTTP2_STREAM_ERROR");
}

static const char python_client[] =
    "import os, socket, h2.connection, h2.events, h2.config\n"
    "s = socket.create_connection(('127.0.0.1', int(os.environ['PORT'])))\n"
    "c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding='utf-8'))\n"
    "c.initiate_connection()\n"
    "for i, path in enumerate(['/a', '/large', '/pieces', '/hints']):\n"
    "    c.send_headers(2 * i + 1, [(':method', 'GET'), (':path', path), (':scheme', 'http'),\n"
    "                               (':authority', 'a')], end_stream=True)\n"
    "s.sendall(c.data_to_send())\n"
    "sizes, ended = {}, 0\n"
    "while ended < 4:\n"
    "    data = s.recv(65536)\n"
    "    assert data\n"
    "    for e in c.receive_data(data):\n"
    "        if isinstance(e, h2.events.DataReceived):\n"
    "            sizes[e.stream_id] = sizes.get(e.stream_id, 0) + len(e.data)\n"
    "            c.acknowledge_received_data(e.flow_controlled_length, e.stream_id)\n"
    "        elif isinstance(e, h2.events.StreamEnded):\n"
    "            ended += 1\n"
    "        elif isinstance(e, h2.events.InformationalResponseReceived):\n"
    "            print(dict(e.headers))\n"
    "        elif isinstance(e, h2.events.TrailersReceived):\n"
    "            print(dict(e.headers))\n"
    "    s.sendall(c.data_to_send())\n"
    "print(sorted(sizes.items()))\n";

TEST(python_acknowledges_each_frame)
{
    start_site((weft_http_options){0}, false);
    if (try_run("/usr/bin/python3 -c 'import h2'") != 0)
        return;
    create_peer_text("client.py", python_client);
    const char *text = run_command("/usr/bin/python3 client.py");
    ck_assert_has(text, "[(1, 28), (3, 4194304), (5, 24), (7, 32)]\n", "{'x-sum': '3'}\n",
                  "{':status': '103', 'link': '</a.css>'}\n");
}

/* The drain */

static void connect_raw(void)
{
    server_connect(&s, &client);
    ck_assert_int_eq(nghttp2_hd_deflate_new(&h2_deflater, 4096), 0);
    ck_assert_int_eq(nghttp2_hd_inflate_new(&h2_inflater), 0);
    h2_log[0] = '\0';
    h2_input_bytes = 0;
    h2_is_acking = true;
    client_send(&client, H2_MAGIC);
    h2_send(NGHTTP2_SETTINGS, 0, 0, NULL, 0);
}

/* Reply to PING until the record contains a text. */
static void expect_with_pong(const char *text)
{
    while (strstr(h2_log, text) == NULL) {
        ck_assert_msg(h2_receive(), "expected \"%s\", received:\n%s", text, h2_log);
        char *ping = strstr(h2_log, "PING 0\n");
        if (ping != NULL) {
            *ping = 'p';
            h2_send(NGHTTP2_PING, H2_END, 0, "\0\0\0\0\0\0\0\0", 8);
        }
    }
}

TEST(a_draining_server_announces_the_end_and_finishes_requests)
{
    start_site((weft_http_options){.drain_s = INFINITY}, false);
    connect_raw();
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_sync();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    h2_expect("GOAWAY 0 last=2147483647 NO_ERROR\n");
    h2_send_head(3, H2_WHOLE, H2_HEAD("GET", "/a")); /* was on its way */
    expect_with_pong("GOAWAY 0 last=3 NO_ERROR\n");
    ck_assert_has(h2_log, "DATA 3 END ");
    h2_send_head(5, H2_WHOLE, H2_HEAD("GET", "/a"));
    let_run();
    weft_event_set(&may_end);
    h2_receive_all();
    ck_assert_has(h2_log, "DATA 1 END 5 late.\n");
    ck_assert_lacks(h2_log, "HEADERS 5");
    (void)weft_await(s.fiber);
    ck_assert_int_eq(s.result, -ECANCELED);
    s.fiber = 0;
    weft_close(s.listener);
}

TEST(a_draining_server_closes_idle_connections_at_once)
{
    start_site((weft_http_options){.drain_s = INFINITY}, false);
    connect_raw();
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/a"));
    h2_expect("DATA 1 END ");
    h2_sync();
    ck_assert_int_eq(weft_cancel(s.fiber), 0);
    h2_receive_all();
    ck_assert_has(h2_log, "GOAWAY 0 last=1 NO_ERROR\n");
    drop_client();
    (void)weft_await(s.fiber);
    s.fiber = 0;
    weft_close(s.listener);
}

TEST(requests_that_exceed_the_drain_time_are_cancelled)
{
    start_site((weft_http_options){.drain_s = 0.02}, false);
    connect_raw();
    h2_send_head(1, H2_WHOLE, H2_HEAD("GET", "/late"));
    h2_sync();
    ck_assert_uint_eq(running, 1);
    ck_assert_int_eq(server_close(&s), -ECANCELED);
    h2_receive_all();
    ck_assert_lacks(h2_log, "late");
}
