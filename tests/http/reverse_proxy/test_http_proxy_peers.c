/* The reverse proxy with other programs: curl as the client, nginx upstream. Also TLS both ways. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/peer_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#define BIG_BYTES 3000000
#define HELLO "hello from a file\n"

TEST(curl_gets_the_same_responses_through_the_proxy_as_from_nginx)
{
    static unsigned char big[BIG_BYTES];
    nginx server = {0};
    open_folder();
    fill_from(big, sizeof big, 0);
    create_peer_file("big.bin", big, sizeof big);
    create_peer_text("hello.txt", HELLO);
    if (!has_tool("curl") ||
        !start_nginx(&server, false,
                     "add_header X-Via $http_via always;\n"
                     "location /put/ { dav_methods PUT; create_full_put_path on;\n"
                     "  client_max_body_size 100m; }\n"
                     "location /small/ { client_max_body_size 1k; dav_methods PUT; }\n")) {
        close_folder();
        return;
    }
    const char *url = format("http://127.0.0.1:%d", server.port);
    front_options.gzip_level = 6;
    chain_open_at(url, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
    peer_port = server_port(&front);
    ck_assert_has(run_command(CURL "-D- -o/dev/null -H 'Accept-Encoding: gzip' " URL "/hello.txt"),
                  "Content-Encoding: gzip\r\n");
    ck_assert_has(run_command(CURL "-I " URL "/big.bin"), "Content-Length: 3000000\r\n",
                  "Server: nginx", "X-Via: 1.1 weft-");
    run_command(CURL "-D head -o/dev/null " URL "/hello.txt");
    /* curl sends Expect: 100-continue for a body of this length. */
    run_command(CURL "-o got " URL "/big.bin && cmp got big.bin && " CURL "-T big.bin " URL
                     "/put/sized && cmp put/sized big.bin && " CURL "-T - " URL
                     "/put/chunked < big.bin && cmp put/chunked big.bin");
    /* The last has more requests on one connection than nginx allows on a connection. */
    EACH_PAIR(
        assert_command, CURL URL "/hello.txt -> " HELLO, CURL "-0 " URL "/hello.txt -> " HELLO,
        CURL "--compressed " URL "/hello.txt -> " HELLO, CURL "-r 6-9 " URL "/hello.txt -> from",
        CURL
        "-w '%{http_code}' -H \"If-None-Match: $(sed -n 's/^ETag: //p' head | tr -d '\\r')\" " URL
        "/hello.txt -> 304",
        CURL "-w '%{http_code}' -o/dev/null " URL "/none -> 404",
        CURL "-w '%{http_code}' -o/dev/null -T big.bin " URL "/small/x -> 413",
        CURL URL "/hello.txt " URL "/hello.txt " URL "/hello.txt " URL "/hello.txt " URL
                 "/hello.txt -w '%{num_connects}' -> " HELLO "1" HELLO "0" HELLO "0" HELLO "0" HELLO
                 "0");
    chain_close_front();
    stop_process(&server.process);
    close_folder();
}

#ifdef WEFT_HAS_TLS
static int echo_or_upgrade(weft_http_request *r, void *ctx)
{
    const void *piece;
    weft_stream *stream;
    ssize_t n, rc;
    if (weft_http_header(r, "Upgrade") != NULL) {
        rc = weft_http_upgrade(r, "echo", &stream);
        while (rc >= 0 && (n = weft_stream_peek(stream, 1, &piece)) > 0) {
            rc = weft_stream_write(stream, piece, (size_t)n);
            weft_stream_flush(stream);
            weft_stream_skip(stream, (size_t)n);
        }
        return rc < 0 ? (int)rc : (int)weft_stream_puts(stream, "farewell");
    }
    rc = weft_http_set(r, "X-Proto", weft_http_header(r, "X-Forwarded-Proto"));
    if (rc == 0)
        rc = weft_http_begin(r, 200, weft_http_length(r));
    while (rc >= 0 && (n = weft_http_read_piece(r, &piece)) > 0)
        rc = weft_http_write(r, piece, (size_t)n);
    return rc < 0 ? (int)rc : (int)n;
}

/* Write a body while the response is being read. */
static weft_value write_body(void *arg)
{
    static unsigned char data[50000];
    for (size_t done = 0; done < BIG_BYTES; done += sizeof data) {
        fill_from(data, sizeof data, done);
        weft_stream_write(arg, data, sizeof data);
    }
    return weft_stream_flush(arg);
}

static void read_head(weft_stream *s)
{
    char *line = NULL;
    do
        ck_assert_int_eq(weft_stream_line(s, &line, NULL), 1);
    while (*line != '\0');
}

TEST(both_sides_of_a_proxy_may_use_tls)
{
    static unsigned char data[BIG_BYTES];
    tls_pair tls = {0};
    test_server upstream_server;
    weft_stream s;
    new_tls_pair(&tls, NULL, NULL);
    const weft_http_options options = {.tls = tls.server_tls,
                                       .limits = {.body_bytes_max = UINT64_MAX}};
    front_options = options;
    server_open(&upstream_server, echo_or_upgrade, NULL, &options);
    const char *url = format("https://localhost:%d", server_port(&upstream_server));
    chain_open_at(url, &(weft_http_proxy_options){.tls = tls.client_tls});

    server_connect(&front, &client);
    ck_assert_good(weft_tls_connect(&s, client.fd, tls.client_tls, "localhost"));
    weft_stream_puts(&s, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n");
    weft_stream_flush(&s);
    weft_fiber writing = weft_spin(write_body, &s);
    ck_assert_line(&s, "HTTP/1.1 200 OK");
    read_head(&s);
    for (size_t done = 0; done < sizeof data;) {
        ssize_t n = weft_stream_read(&s, data + done, sizeof data - done);
        ck_assert_int_gt(n, 0);
        done += (size_t)n;
    }
    assert_bytes_at(data, sizeof data, 0);
    ck_assert_int_eq(weft_await(writing), 0);

    /* Upgrade the connection. The client half-closes first. */
    weft_stream_puts(&s,
                     "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    weft_stream_flush(&s);
    ck_assert_line(&s, "HTTP/1.1 101 Switching Protocols");
    read_head(&s);
    weft_stream_puts(&s, "one\n");
    ck_assert_line(&s, "one");
    weft_stream_puts(&s, "two\n");
    ck_assert_good(weft_tls_shutdown(&s));
    ck_assert_line(&s, "two");
    ck_assert_line(&s, "farewell");
    weft_stream_close(&s);

    chain_close_front();
    server_close(&upstream_server);
    free_tls_pair(&tls);
}
#endif
