/* The HTTP client over HTTP/2 with other servers: nghttpd, nginx, Node, and Python's h2. */
#include "http/fetch_support.h"
#include "support/peer_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#define BIG_BYTES 300000

static weft_process peer;
static nginx web;
static bool has_peer, has_nginx;
static unsigned char big[BIG_BYTES];

static void open_files(void)
{
    open_folder();
    make_local_cert();
    create_peer_text("hello.txt", "hello from a file\n");
    create_peer_text("cert.pem", local_cert);
    create_peer_text("key.pem", local_key);
    fill_from(big, sizeof big, 0);
    create_peer_file("big.txt", big, sizeof big);
}

static void close_peers(void)
{
    close_fetch();
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    fetcher = NULL;
    if (has_peer)
        stop_process(&peer);
    if (has_nginx)
        stop_process(&web.process);
    if (peer_folder[0] != '\0')
        close_folder();
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

FIXTURE(NULL, close_peers)

static void use_port(int port, bool is_tls)
{
    site.port = port;
    snprintf(site.base, sizeof site.base, "%s://localhost:%d", is_tls ? "https" : "http", port);
    use_fetcher((weft_fetcher_options){.has_prior_knowledge = true});
}

/* Start a program that prints its port first. Return false if the program is not installed. */
static bool start_peer(char *const argv[])
{
    char line[64];
    const weft_process_options o = {.out = WEFT_STDIO_PIPE, .folder = peer_folder};
    if (weft_spawn_process(&peer, argv, &o) < 0) {
        printf("skipped: %s is not installed\n", argv[0]);
        return false;
    }
    has_peer = true;
    ssize_t n = weft_read(peer.out, line, sizeof line - 1);
    ck_assert_int_gt(n, 0);
    line[n] = '\0';
    use_port(atoi(line), false);
    return true;
}

static void assert_big(const char *path)
{
    char *text;
    ck_assert_int_eq(get(path), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 20);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), BIG_BYTES);
    assert_bytes_at((unsigned char *)text, BIG_BYTES, 0);
}

/* Post a body and assert that it comes back. */
static void assert_echo(const char *path)
{
    char *text;
    close_fetch();
    ck_assert_int_eq(
        weft_fetch_post(fetcher, url_of(&site, path), "text/plain", big, BIG_BYTES, &fetch), 200);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), BIG_BYTES);
    assert_bytes_at((unsigned char *)text, BIG_BYTES, 0);
}

static weft_value fetch_hello(void *arg)
{
    char text[64] = "";
    int status = fetch_text(fetcher, arg, text, sizeof text);
    return status < 0 ? status : strcmp(text, "hello from a file\n") == 0 ? status : -EILSEQ;
}

static void fetch_many(size_t count)
{
    weft_fiber f[200];
    char url[128];
    snprintf(url, sizeof url, "%s", url_of(&site, "/hello.txt"));
    for (size_t i = 0; i < count; i++)
        f[i] = weft_spin(fetch_hello, url);
    for (size_t i = 0; i < count; i++)
        ck_assert_int_eq(weft_await(f[i]), 200);
}

/*
 * nghttpd.
 */

static bool is_listening(int port)
{
    int fd = weft_dial("tcp", format("127.0.0.1:%d", port));
    if (fd >= 0)
        weft_close(fd);
    return fd >= 0;
}

static bool start_nghttpd(bool is_tls)
{
    open_files();
    for (int tries = 0; tries < 5; tries++) {
        int port = free_port(), ended = -ECANCELED;
        char number[16];
        snprintf(number, sizeof number, "%d", port);
        char *const plain[] = {"nghttpd", "--no-tls",  "--echo-upload", "--trailer=x-end: yes",
                               "-d",      peer_folder, number,          NULL};
        char *const tls[] = {"nghttpd", "-d", peer_folder, number, "key.pem", "cert.pem", NULL};
        const weft_process_options o = {
            .folder = peer_folder, .out = WEFT_STDIO_NULL, .err = WEFT_STDIO_NULL};
        if (weft_spawn_process(&peer, is_tls ? tls : plain, &o) < 0) {
            printf("skipped: nghttpd is not installed\n");
            return false;
        }
        while (ended == -ECANCELED && !is_listening(port))
            WEFT_MOVE_ON_AFTER(0.01)
                ended = weft_process_wait(&peer);
        has_peer = ended == -ECANCELED;
        if (has_peer) {
            use_port(port, is_tls);
            return true;
        }
        weft_process_close(&peer);
    }
    ck_abort_msg("nghttpd does not start");
}

TEST(files_of_nghttpd_are_fetched)
{
    if (!start_nghttpd(false))
        return;
    ck_assert_int_eq(get("/hello.txt"), 200);
    assert_body("hello from a file\n");
    ck_assert_str_eq(weft_fetch_trailer(fetch, "x-end"), "yes");
    assert_big("/big.txt");
    assert_status("/none", 404);
    fetch_many(150);
    const weft_fetch_request head = {.method = "HEAD", .url = url_of(&site, "/big.txt")};
    close_fetch();
    ck_assert_int_eq(weft_fetch_send(fetcher, &head, &fetch), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), BIG_BYTES);
    assert_echo("/echo");
}

TEST(nghttpd_is_reached_over_tls)
{
    if (!start_nghttpd(true))
        return;
    weft_tls *tls =
        weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert, .alpn = "h2,http/1.1"});
    use_fetcher((weft_fetcher_options){.tls = tls});
    fetch_many(50);
    assert_big("/big.txt");
    use_fetcher((weft_fetcher_options){0});
    weft_tls_free(tls);
}

/*
 * nginx. It sends GOAWAY after 4 requests of a connection.
 */

static bool open_nginx(void)
{
    open_files();
    web.has_http2 = true;
    has_nginx = start_nginx(&web, true,
                            "location /put/ { dav_methods PUT; create_full_put_path on; }\n"
                            "location /small/ { client_max_body_size 1k; dav_methods PUT; }\n");
    return has_nginx;
}

TEST(nginx_may_go_away_after_some_requests)
{
    if (!open_nginx())
        return;
    use_port(web.h2_port, false);
    fetch_many(100);
    assert_big("/big.txt");
    for (int i = 0; i < 2; i++) {
        const weft_fetch_request r = {.method = "PUT", .url = url_of(&site, "/put/a.txt")};
        close_fetch();
        ck_assert_int_eq(weft_fetch_open(fetcher, &r, i == 0 ? -1 : BIG_BYTES, &fetch), 0);
        for (size_t done = 0; done < BIG_BYTES; done += BIG_BYTES / 10)
            ck_assert_int_eq(weft_fetch_write(fetch, big + done, BIG_BYTES / 10), BIG_BYTES / 10);
        ck_assert_int_eq(weft_fetch_wait(fetch), i == 0 ? 201 : 204);
    }
    assert_big("/put/a.txt");
    weft_fetch_request r = {
        .method = "PUT", .url = url_of(&site, "/small/a"), .body = big, .body_bytes = BIG_BYTES};
    ck_assert_int_eq(send_request(r), 413);
}

TEST(nginx_chooses_the_protocol_over_tls)
{
    if (!open_nginx())
        return;
    weft_tls *tls =
        weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert, .alpn = "h2,http/1.1"});
    use_port(web.h2_tls_port, true);
    use_fetcher((weft_fetcher_options){.tls = tls});
    fetch_many(30);
    assert_big("/big.txt");
    use_port(web.tls_port, true); /* without HTTP/2 */
    use_fetcher((weft_fetcher_options){.tls = tls});
    fetch_many(30);
    ck_assert_int_eq(get("/hello.txt"), 200);
    ck_assert_int_eq(weft_fetch_version(fetch), 11);
    use_fetcher((weft_fetcher_options){0});
    weft_tls_free(tls);
}

/*
 * Node.
 */

static const char node_server[] =
    "const http2 = require('http2');\n"
    "const server = http2.createServer({settings: {initialWindowSize: 1000,\n"
    "                                              maxConcurrentStreams: 3}});\n"
    "let refused = 0;\n"
    "server.on('stream', (stream, headers) => {\n"
    "  stream.on('error', () => {});\n"
    "  switch (headers[':path']) {\n"
    "  case '/echo':\n"
    "    stream.respond({':status': 200});\n"
    "    stream.pipe(stream);\n"
    "    break;\n"
    "  case '/trailers':\n"
    "    stream.additionalHeaders({':status': 103, link: '</a>'});\n"
    "    stream.respond({':status': 200}, {waitForTrailers: true});\n"
    "    stream.on('wantTrailers', () => stream.sendTrailers({'x-end': 'yes'}));\n"
    "    stream.end('body');\n"
    "    break;\n"
    "  case '/reset':\n"
    "    stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);\n"
    "    break;\n"
    "  case '/refuse':\n"
    "    if (refused++ < 2) { stream.close(http2.constants.NGHTTP2_REFUSED_STREAM); break; }\n"
    "    stream.respond({':status': 200});\n"
    "    stream.end('at last');\n"
    "    break;\n"
    "  case '/bye':\n"
    "    stream.respond({':status': 200});\n"
    "    stream.end('bye');\n"
    "    stream.session.close();\n"
    "    break;\n"
    "  default:\n"
    "    stream.respond({':status': 200, 'content-type': 'text/plain'});\n"
    "    stream.end('hello from a file\\n');\n"
    "  }\n"
    "});\n"
    "server.listen(0, '127.0.0.1', () => console.log(server.address().port));\n";

TEST(node_serves_with_small_windows_and_few_streams)
{
    open_files();
    create_peer_text("server.js", node_server);
    if (!start_peer((char *[]){"node", "server.js", NULL}))
        return;
    fetch_many(100);
    assert_echo("/echo");
    ck_assert_int_eq(get("/trailers"), 200);
    assert_body("body");
    ck_assert_str_eq(weft_fetch_trailer(fetch, "x-end"), "yes");
    ck_assert_int_eq(get("/reset"), -ECONNRESET);
    assert_page("/refuse", "at last");
    for (int i = 0; i < 3; i++)
        assert_page("/bye", "bye");
    fetch_many(20);
}

/*
 * Python's h2, with a script of misbehaviour.
 */

static const char python_server[] =
    "import socket, sys, h2.connection, h2.config, h2.events, h2.settings\n"
    "listener = socket.create_server(('127.0.0.1', 0))\n"
    "print(listener.getsockname()[1], flush=True)\n"
    "S = h2.settings.SettingCodes\n"
    "def serve(sock):\n"
    "    c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))\n"
    "    c.initiate_connection()\n"
    "    c.update_settings({S.INITIAL_WINDOW_SIZE: 10})\n"
    "    sock.sendall(c.data_to_send())\n"
    "    bodies = {}\n"
    "    while True:\n"
    "        data = sock.recv(65536)\n"
    "        if not data: return\n"
    "        for e in c.receive_data(data):\n"
    "            if isinstance(e, h2.events.RequestReceived):\n"
    "                bodies[e.stream_id] = (dict(e.headers)[b':path'], [])\n"
    "            if isinstance(e, h2.events.DataReceived):\n"
    "                bodies[e.stream_id][1].append(e.data)\n"
    "                for i in range(len(e.data)):\n"
    "                    if i < 3: c.increment_flow_control_window(1, e.stream_id)\n"
    "                n = e.flow_controlled_length\n"
    "                if n > 3: c.increment_flow_control_window(n - 3, e.stream_id)\n"
    "                c.increment_flow_control_window(n)\n"
    "            if isinstance(e, h2.events.StreamEnded):\n"
    "                path, body = bodies[e.stream_id]\n"
    "                if path == b'/ping':\n"
    "                    for i in range(100): c.ping(b'%08d' % i)\n"
    "                if path == b'/settings':\n"
    "                    for n in (1, 100, 0, 65535):\n"
    "                        c.update_settings({S.INITIAL_WINDOW_SIZE: n})\n"
    "                if path == b'/close':\n"
    "                    return\n"
    "                count = 40 if path == b'/head' else 0\n"
    "                big = [('x-%d' % i, 'v' * 1000) for i in range(count)]\n"
    "                c.send_headers(e.stream_id, [(':status', '200')] + big)\n"
    "                body = b''.join(body) or b'hello from a file\\n'\n"
    "                c.send_data(e.stream_id, body, end_stream=True)\n"
    "                if path == b'/bye':\n"
    "                    c.close_connection(last_stream_id=e.stream_id)\n"
    "                    sock.sendall(c.data_to_send())\n"
    "                    return\n"
    "            sock.sendall(c.data_to_send())\n"
    "while True:\n"
    "    sock, _ = listener.accept()\n"
    "    try: serve(sock)\n"
    "    except Exception as e: print(e, file=sys.stderr)\n"
    "    sock.close()\n";

TEST(a_server_in_python_misbehaves_within_the_protocol)
{
    open_files();
    create_peer_text("server.py", python_server);
    if (access("/usr/lib/python3/dist-packages/h2", R_OK) < 0) {
        printf("skipped: python3-h2 is not installed\n");
        return;
    }
    if (!start_peer((char *[]){"/usr/bin/python3", "-u", "server.py", NULL}))
        return;
    const char *hello_text = "hello from a file\n";
    assert_page("/", hello_text);
    assert_page("/ping", hello_text);
    assert_page("/settings", hello_text);
    ck_assert_int_eq(get("/head"), 200); /* HEADERS and CONTINUATION */
    ck_assert_uint_eq(strlen(weft_fetch_header(fetch, "x-39")), 1000);
    close_fetch();
    char body[2001] = "";
    memset(body, 'b', 2000);
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, body, 2000, &fetch), 200);
    assert_body(body);
    close_fetch();
    assert_page("/bye", hello_text);
    assert_page("/", hello_text);
    ck_assert_int_eq(get("/close"), -ECONNRESET); /* sent again once, and closed again */
    assert_page("/", hello_text);
}
