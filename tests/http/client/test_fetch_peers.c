/* The HTTP client with other servers: nginx, and Python's http.server. */
#include "http/fetch_support.h"
#include "support/peer_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#define BIG_BYTES 300000

static nginx server;

static void create_site_files(void)
{
    static unsigned char big[BIG_BYTES];
    open_folder();
    create_peer_text("hello.txt", "hello from a file\n");
    create_peer_text("page.shtml", "<!--# echo var=\"document_uri\" --> is here\n");
    create_peer_text("users", "me:{PLAIN}pass word\n");
    fill_from(big, sizeof big, 0);
    create_peer_file("big.txt", big, sizeof big);
}

static void open_base(int port)
{
    site.port = port;
    snprintf(site.base, sizeof site.base, "http://127.0.0.1:%d", port);
    fetcher = weft_fetcher_new(NULL);
}

static bool open_nginx(void)
{
    bool has_tls = false;
    char conf[1024];
    create_site_files();
#ifdef WEFT_HAS_TLS
    has_tls = true;
    make_local_cert();
    create_peer_text("cert.pem", local_cert);
    create_peer_text("key.pem", local_key);
#endif
    snprintf(conf, sizeof conf,
             "add_header X-Requests $connection_requests always;\n"
             "location /old { return 301 /hello.txt; }\n"
             "location = /page.shtml { ssi on; gzip off; }\n"
             "location /put/ { dav_methods PUT; create_full_put_path on; }\n"
             "location /small/ { client_max_body_size 1k; dav_methods PUT; }\n"
             "location /door/ { alias %s/; auth_basic door; auth_basic_user_file users; }\n",
             peer_folder);
    if (!start_nginx(&server, has_tls, conf)) {
        close_folder();
        return false;
    }
    open_base(server.port);
    return true;
}

static bool open_python(void)
{
    char line[256];
    char *const argv[] = {"python3",   "-u",          "-m",        "http.server", "--bind",
                          "127.0.0.1", "--directory", peer_folder, "0",           NULL};
    const weft_process_options o = {.out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_NULL};
    create_site_files();
    if (weft_spawn_process(&server.process, argv, &o) < 0) {
        printf("skipped: python3 is not installed\n");
        close_folder();
        return false;
    }
    ssize_t n = weft_read(server.process.out, line, sizeof line - 1);
    ck_assert_int_gt(n, 0);
    line[n] = '\0';
    ck_assert_int_eq(sscanf(line, "Serving HTTP on %*s port %d", &server.port), 1);
    open_base(server.port);
    return true;
}

/* Close the client and the server, unless the server is not installed. */
static void close_peer(void)
{
    close_fetch();
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    if (fetcher != NULL) {
        stop_process(&server.process);
        close_folder();
    }
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

FIXTURE(NULL, close_peer)

static void assert_big(const char *path)
{
    char *text;
    ck_assert_int_eq(get(path), 200);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), BIG_BYTES);
    assert_bytes_at((unsigned char *)text, BIG_BYTES, 0);
}

/* nginx closes a connection after the fourth response (keepalive_requests). */
TEST(files_of_nginx_are_fetched_over_reused_connections)
{
    if (!open_nginx())
        return;
    for (int i = 0; i < 9; i++) {
        ck_assert_int_eq(get("/hello.txt"), 200);
        ck_assert_int_eq(atoi(weft_fetch_header(fetch, "X-Requests")), i % 4 + 1);
        assert_body("hello from a file\n");
        close_fetch();
    }
}

TEST(compressed_and_chunked_responses_of_nginx_are_read)
{
    if (!open_nginx())
        return;
    assert_big("/big.txt");
#ifdef WEFT_HAS_GZIP
    ck_assert_str_eq(weft_fetch_header(fetch, "Content-Encoding"), "gzip");
    ck_assert_str_eq(weft_fetch_header(fetch, "Transfer-Encoding"), "chunked");
#endif
    use_fetcher((weft_fetcher_options){.has_no_gzip = true});
    assert_big("/big.txt");
    ck_assert_int_eq(weft_fetch_length(fetch), BIG_BYTES);
    ck_assert_int_eq(get("/page.shtml"), 200);
    ck_assert_str_eq(weft_fetch_header(fetch, "Transfer-Encoding"), "chunked");
    assert_body("/page.shtml is here\n");
}

TEST(redirects_passwords_and_ranges_work_with_nginx)
{
    static const weft_fetch_field range = {"Range", "bytes=6-9"};
    static const weft_fetch_field identity = {"Accept-Encoding", "identity"};
    if (!open_nginx())
        return;
    assert_page("/old", "hello from a file\n");
    assert_status("/none", 404);
    assert_status("/door/hello.txt", 401);
    const char *url = format("http://me:pass%%20word@127.0.0.1:%d/door/hello.txt", server.port);
    ck_assert_int_eq(weft_fetch_get(NULL, url, &fetch), 200);
    close_fetch();
    weft_fetch_request r = {
        .url = url_of(&site, "/hello.txt"), .fields = &range, .fields_count = 1};
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &fetch), 206);
    assert_body("from");
    close_fetch();
    r.method = "HEAD";
    r.fields = &identity;
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &fetch), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), 18);
}

TEST(uploads_to_nginx_succeed_or_get_413)
{
    static unsigned char data[BIG_BYTES];
    if (!open_nginx())
        return;
    fill_from(data, sizeof data, 0);
    for (int is_chunked = 0; is_chunked <= 1; is_chunked++) {
        const char *path = is_chunked ? "/put/a.txt" : "/put/b.txt";
        const weft_fetch_request r = {.method = "PUT", .url = url_of(&site, path)};
        ck_assert_int_eq(weft_fetch_open(NULL, &r, is_chunked ? -1 : BIG_BYTES, &fetch), 0);
        for (size_t done = 0; done < BIG_BYTES; done += BIG_BYTES / 10)
            ck_assert_int_eq(weft_fetch_write(fetch, data + done, BIG_BYTES / 10), BIG_BYTES / 10);
        ck_assert_int_eq(weft_fetch_wait(fetch), 201);
        close_fetch();
        assert_big(path);
        close_fetch();
    }
    weft_fetch_request r = {
        .method = "PUT", .url = url_of(&site, "/small/a"), .body = data, .body_bytes = sizeof data};
    ck_assert_int_eq(send_request(r), 413);
}

#ifdef WEFT_HAS_TLS
TEST(nginx_is_reached_over_tls)
{
    if (!open_nginx())
        return;
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert});
    use_fetcher((weft_fetcher_options){.tls = tls});
    snprintf(site.base, sizeof site.base, "https://localhost:%d", server.tls_port);
    for (int i = 0; i < 3; i++) {
        assert_big("/big.txt");
        ck_assert_int_eq(atoi(weft_fetch_header(fetch, "X-Requests")), i + 1);
        close_fetch();
    }
    use_fetcher((weft_fetcher_options){0});
    weft_tls_free(tls);
}
#endif

/* The server uses HTTP/1.0 and closes the connection after each response. */
TEST(files_of_python_are_fetched)
{
    if (!open_python())
        return;
    for (int i = 0; i < 3; i++)
        assert_page("/hello.txt", "hello from a file\n");
    assert_big("/big.txt");
    assert_status("/none", 404);
    ck_assert_int_eq(weft_fetch_post(NULL, url_of(&site, "/hello.txt"), NULL, "x", 1, &fetch), 501);
    close_fetch();
    const weft_fetch_request head = {.method = "HEAD", .url = url_of(&site, "/big.txt")};
    ck_assert_int_eq(weft_fetch_send(NULL, &head, &fetch), 200);
    ck_assert_int_eq(weft_fetch_length(fetch), BIG_BYTES);
}
