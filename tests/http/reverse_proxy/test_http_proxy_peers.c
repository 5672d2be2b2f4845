/* The reverse proxy with other programs: curl as the client, nginx upstream. Also TLS both ways. */
#include "http/reverse_proxy/proxy_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#include <sys/stat.h>

#define BIG_BYTES 3000000

static char folder[] = "/tmp/weft-proxy-XXXXXX";
static weft_output output;
static int front_port;

/* Run a shell command in the folder, with $PORT. Return its status. Store its output. */
static int run_status(const char *command)
{
    char text[1024];
    snprintf(text, sizeof text, "cd %s && PORT=%d; %s", folder, front_port, command);
    char *const argv[] = {"sh", "-c", text, NULL};
    weft_output_free(&output);
    output = (weft_output){0};
    return weft_run(argv, NULL, 0, NULL, &output);
}

static const char *run_command(const char *command)
{
    int rc = run_status(command);
    ck_assert_msg(rc == 0, "%s: status %d: %.300s %.300s", command, rc, output.out, output.err);
    return output.out;
}

static void create_file(const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

static void write_conf(int port)
{
    char conf[2048];
    snprintf(conf, sizeof conf,
             "daemon off; master_process off; pid pid; error_log error.log;\n"
             "events { worker_connections 64; }\n"
             "http {\n"
             "  access_log off; default_type text/plain; types { text/plain txt; }\n"
             "  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;\n"
             "  uwsgi_temp_path tmp; scgi_temp_path tmp;\n"
             "  gzip on; gzip_min_length 1; gzip_types text/plain; gzip_proxied any;\n"
             "  gzip_http_version 1.1; keepalive_requests 4;\n"
             "  server {\n"
             "    listen 127.0.0.1:%d; root %s; add_header X-Via $http_via always;\n"
             "    location /put/ { dav_methods PUT; create_full_put_path on;\n"
             "      client_max_body_size 100m; }\n"
             "    location /small/ { client_max_body_size 1k; dav_methods PUT; }\n"
             "  }\n"
             "}\n",
             port, folder);
    create_file("nginx.conf", conf, strlen(conf));
}

static bool is_listening(int port)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    int fd = weft_dial("tcp", address);
    if (fd >= 0)
        weft_close(fd);
    return fd >= 0;
}

static int free_port(void)
{
    endpoint p;
    weft_close(listen_tcp(&p, 1));
    return ntohs(p.u.in.sin_port);
}

/* Start nginx and return its port. Try another port if a program has taken the port. */
static int start_nginx(weft_process *process)
{
    for (int tries = 0; tries < 5; tries++) {
        int port = free_port(), ended = -ECANCELED;
        write_conf(port);
        char *const argv[] = {"nginx", "-p", folder, "-c", "nginx.conf", "-e", "error.log", NULL};
        const weft_process_options o = {.path = "/usr/sbin/nginx"};
        ck_assert_int_eq(weft_spawn_process(process, argv, &o), 0);
        while (ended == -ECANCELED && !is_listening(port))
            WEFT_MOVE_ON_AFTER(0.01)
                ended = weft_process_wait(process);
        if (ended == -ECANCELED)
            return port;
        weft_process_close(process);
    }
    ck_abort_msg("nginx does not start");
}

#define CURL "curl -q -sS --noproxy '*' --max-time 15 "
#define URL "http://127.0.0.1:$PORT"

TEST(curl_gets_the_same_responses_through_the_proxy_as_from_nginx)
{
    static unsigned char big[BIG_BYTES];
    proxy_chain c = {.front_options = {.gzip_level = 6}};
    weft_process nginx;
    char upstream[64];
    if (access("/usr/sbin/nginx", X_OK) != 0 || run_status("command -v curl") != 0) {
        printf("skipped: nginx or curl is not installed\n");
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(folder));
    fill_from(big, sizeof big, 0);
    create_file("big.bin", big, sizeof big);
    create_file("hello.txt", "hello from a file\n", 18);
    snprintf(upstream, sizeof upstream, "http://127.0.0.1:%d", start_nginx(&nginx));
    chain_open_at(&c, upstream, &(weft_http_proxy_options){.body_bytes_max = UINT64_MAX});
    front_port = server_port(&c.front);

    ck_assert_str_eq(run_command(CURL URL "/hello.txt"), "hello from a file\n");
    ck_assert_str_eq(run_command(CURL "-0 " URL "/hello.txt"), "hello from a file\n");
    ck_assert_str_eq(run_command(CURL "--compressed " URL "/hello.txt"), "hello from a file\n");
    ck_assert_ptr_nonnull(
        strstr(run_command(CURL "-D- -o/dev/null -H 'Accept-Encoding: gzip' " URL "/hello.txt"),
               "Content-Encoding: gzip\r\n"));
    ck_assert_ptr_nonnull(
        strstr(run_command(CURL "-I " URL "/big.bin"), "Content-Length: 3000000\r\n"));
    ck_assert_ptr_nonnull(strstr(output.out, "Server: nginx"));
    ck_assert_ptr_nonnull(strstr(output.out, "X-Via: 1.1 weft-"));
    run_command(CURL "-o got " URL "/big.bin && cmp got big.bin");
    ck_assert_str_eq(run_command(CURL "-r 6-9 " URL "/hello.txt"), "from");
    run_command(CURL "-D head -o/dev/null " URL "/hello.txt");
    ck_assert_str_eq(
        run_command(CURL "-w '%{http_code}' -H \"If-None-Match: $(sed -n 's/^ETag: //p' head "
                         "| tr -d '\\r')\" " URL "/hello.txt"),
        "304");
    ck_assert_str_eq(run_command(CURL "-w '%{http_code}' -o/dev/null " URL "/none"), "404");
    /* Chunked, and with Expect: 100-continue, which curl sends for a body of this length. */
    run_command(CURL "-T big.bin " URL "/put/sized && cmp put/sized big.bin");
    run_command(CURL "-T - " URL "/put/chunked < big.bin && cmp put/chunked big.bin");
    ck_assert_str_eq(run_command(CURL "-w '%{http_code}' -o/dev/null -T big.bin " URL "/small/x"),
                     "413");
    /* More requests on one connection than nginx allows on a connection of the proxy. */
    ck_assert_str_eq(run_command(CURL URL "/hello.txt " URL "/hello.txt " URL "/hello.txt " URL
                                          "/hello.txt " URL "/hello.txt -w '%{num_connects}'"),
                     "hello from a file\n1hello from a file\n0hello from a file\n0"
                     "hello from a file\n0hello from a file\n0");

    chain_close_front(&c);
    weft_process_end(&nginx, 5);
    weft_process_close(&nginx);
    run_command("rm -r \"$PWD\"");
    weft_output_free(&output);
}

#ifdef WEFT_HAS_TLS
static int echo_or_upgrade(weft_http_request *r, void *ctx)
{
    const void *piece;
    weft_stream *stream;
    ssize_t n, rc;
    (void)ctx;
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

static void connect_tls(const proxy_chain *c, weft_stream *s, weft_tls *tls)
{
    test_client client;
    server_connect(&c->front, &client);
    ck_assert_good(weft_tls_connect(s, client.fd, tls, "localhost"));
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
    proxy_chain c;
    test_server upstream_server;
    weft_stream s;
    char upstream[64];
    new_tls_pair(&tls, NULL, NULL);
    const weft_http_options options = {.tls = tls.server_tls,
                                       .limits = {.body_bytes_max = UINT64_MAX}};
    c.front_options = options;
    server_open(&upstream_server, echo_or_upgrade, NULL, &options);
    snprintf(upstream, sizeof upstream, "https://localhost:%d", server_port(&upstream_server));
    chain_open_at(&c, upstream, &(weft_http_proxy_options){.tls = tls.client_tls});

    connect_tls(&c, &s, tls.client_tls);
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

    chain_close_front(&c);
    weft_cancel(upstream_server.fiber);
    (void)weft_await(upstream_server.fiber);
    weft_close(upstream_server.listener);
    free_tls_pair(&tls);
}
#endif
