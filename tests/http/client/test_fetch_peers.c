/* The HTTP client with other servers: nginx, and Python's http.server. */
#include "http/fetch_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

#include <ftw.h>
#include <sys/stat.h>

#define BIG_BYTES 300000

/* A folder with some files, and a process that serves it. */
typedef struct peer_site {
    char folder[32];
    weft_process process;
    int port, tls_port;
    char base[64];
} peer_site;

static void site_create_file(const peer_site *s, const char *name, const void *data, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    ck_assert_int_eq(fclose(file), 0);
}

static void site_create_text_file(const peer_site *s, const char *name, const char *text)
{
    site_create_file(s, name, text, strlen(text));
}

static void create_folder(peer_site *s)
{
    static unsigned char big[BIG_BYTES];
    *s = (peer_site){.folder = "/tmp/weft-fetch-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(s->folder));
    site_create_text_file(s, "hello.txt", "hello from a file\n");
    site_create_text_file(s, "page.shtml", "<!--# echo var=\"document_uri\" --> is here\n");
    fill_from(big, sizeof big, 0);
    site_create_file(s, "big.txt", big, sizeof big);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void remove_folder(const peer_site *s)
{
    nftw(s->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Return a port that is free now. Another program may take it. */
static int free_port(void)
{
    endpoint p;
    close(listen_tcp(&p, 1));
    return ntohs(p.u.in.sin_port);
}

#ifdef WEFT_HAS_TLS
#define TLS_CONF " ssl; ssl_certificate cert.pem; ssl_certificate_key key.pem"
#else
#define TLS_CONF ""
#endif

static void write_conf(const peer_site *s)
{
    char conf[4096];
    snprintf(conf, sizeof conf,
             "daemon off; master_process off; pid pid; error_log error.log;\n"
             "events { worker_connections 64; }\n"
             "http {\n"
             "  access_log off; default_type text/plain;\n"
             "  types { text/plain txt; text/html shtml; }\n"
             "  client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp;\n"
             "  uwsgi_temp_path tmp; scgi_temp_path tmp;\n"
             "  gzip on; gzip_min_length 1; gzip_types text/plain; keepalive_requests 4;\n"
             "  server {\n"
             "    listen 127.0.0.1:%d; listen 127.0.0.1:%d" TLS_CONF ";\n"
             "    root %s; add_header X-Requests $connection_requests always;\n"
             "    location /old { return 301 /hello.txt; }\n"
             "    location = /page.shtml { ssi on; gzip off; }\n"
             "    location /put/ { dav_methods PUT; create_full_put_path on; }\n"
             "    location /small/ { client_max_body_size 1k; dav_methods PUT; }\n"
             "    location /door/ { alias %s/; auth_basic door; auth_basic_user_file users; }\n"
             "  }\n"
             "}\n",
             s->port, s->tls_port, s->folder, s->folder);
    site_create_text_file(s, "nginx.conf", conf);
    site_create_text_file(s, "users", "me:{PLAIN}pass word\n");
#ifdef WEFT_HAS_TLS
    make_local_cert();
    site_create_text_file(s, "cert.pem", local_cert);
    site_create_text_file(s, "key.pem", local_key);
#endif
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

/*
 * Start nginx. Try other ports if a program has taken a port. Print a message and return false if
 * nginx is not installed.
 */
static bool start_nginx(peer_site *s)
{
    create_folder(s);
    for (int tries = 0; tries < 5; tries++) {
        s->port = free_port();
        s->tls_port = free_port();
        write_conf(s);
        char *const argv[] = {"nginx",      "-p", s->folder,   "-c",
                              "nginx.conf", "-e", "error.log", NULL};
        const char *usual = "/usr/sbin/nginx"; /* often not in PATH */
        int rc = weft_spawn_process(
            &s->process, argv,
            &(weft_process_options){.path = access(usual, X_OK) == 0 ? usual : NULL});
        if (rc < 0) {
            printf("skipped: nginx is not installed\n");
            remove_folder(s);
            return false;
        }
        snprintf(s->base, sizeof s->base, "http://127.0.0.1:%d", s->port);
        int ended = -ECANCELED;
        while (ended == -ECANCELED && !is_listening(s->tls_port))
            WEFT_MOVE_ON_AFTER(0.01)
                ended = weft_process_wait(&s->process);
        if (ended == -ECANCELED)
            return true;
        weft_process_close(&s->process);
    }
    ck_abort_msg("nginx does not start");
}

static bool start_python(peer_site *s)
{
    create_folder(s);
    char *const argv[] = {"python3",   "-u",          "-m",      "http.server", "--bind",
                          "127.0.0.1", "--directory", s->folder, "0",           NULL};
    const weft_process_options o = {.out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_NULL};
    if (weft_spawn_process(&s->process, argv, &o) < 0) {
        printf("skipped: python3 is not installed\n");
        remove_folder(s);
        return false;
    }
    char line[256];
    ssize_t n = weft_read(s->process.out, line, sizeof line - 1);
    ck_assert_int_gt(n, 0);
    line[n] = '\0';
    ck_assert_int_eq(sscanf(line, "Serving HTTP on %*s port %d", &s->port), 1);
    snprintf(s->base, sizeof s->base, "http://127.0.0.1:%d", s->port);
    return true;
}

static void stop_site(peer_site *s)
{
    weft_process_end(&s->process, 5);
    weft_process_close(&s->process);
    remove_folder(s);
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

static const char *url_at(const peer_site *s, const char *path)
{
    static char url[256];
    snprintf(url, sizeof url, "%s%s", s->base, path);
    return url;
}

static void assert_big(weft_fetcher *fetcher, const char *url)
{
    weft_fetch *f;
    char *text;
    ck_assert_int_eq(weft_fetch_get(fetcher, url, &f), 200);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), BIG_BYTES);
    assert_bytes_at((unsigned char *)text, BIG_BYTES, 0);
    weft_fetch_close(f);
}

/* nginx closes a connection after the fourth response (keepalive_requests). */
TEST(files_of_nginx_are_fetched_over_reused_connections)
{
    peer_site s;
    if (!start_nginx(&s))
        return;
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 9; i++) {
        weft_fetch *f;
        char *text;
        ck_assert_int_eq(weft_fetch_get(fetcher, url_at(&s, "/hello.txt"), &f), 200);
        ck_assert_int_eq(atoi(weft_fetch_header(f, "X-Requests")), i % 4 + 1);
        ck_assert_int_gt(weft_fetch_read_all(f, &text), 0);
        ck_assert_str_eq(text, "hello from a file\n");
        weft_fetch_close(f);
    }
    weft_fetcher_free(fetcher);
    stop_site(&s);
}

TEST(compressed_and_chunked_responses_of_nginx_are_read)
{
    peer_site s;
    if (!start_nginx(&s))
        return;
    weft_fetch *f;
    weft_fetcher *plain = weft_fetcher_new(&(weft_fetcher_options){.has_no_gzip = true});
    ck_assert_int_eq(weft_fetch_get(NULL, url_at(&s, "/big.txt"), &f), 200);
#ifdef WEFT_HAS_GZIP
    ck_assert_str_eq(weft_fetch_header(f, "Content-Encoding"), "gzip");
    ck_assert_str_eq(weft_fetch_header(f, "Transfer-Encoding"), "chunked");
#endif
    weft_fetch_close(f);
    assert_big(NULL, url_at(&s, "/big.txt"));
    ck_assert_int_eq(weft_fetch_get(plain, url_at(&s, "/big.txt"), &f), 200);
    ck_assert_int_eq(weft_fetch_length(f), BIG_BYTES);
    weft_fetch_close(f);
    assert_big(plain, url_at(&s, "/big.txt"));
    ck_assert_int_eq(weft_fetch_get(plain, url_at(&s, "/page.shtml"), &f), 200);
    ck_assert_str_eq(weft_fetch_header(f, "Transfer-Encoding"), "chunked");
    char *text;
    ck_assert_int_gt(weft_fetch_read_all(f, &text), 0);
    ck_assert_str_eq(text, "/page.shtml is here\n");
    weft_fetch_close(f);
    weft_fetcher_free(plain);
    stop_site(&s);
}

TEST(redirects_passwords_and_ranges_work_with_nginx)
{
    peer_site s;
    if (!start_nginx(&s))
        return;
    weft_fetch *f;
    char *text, url[128];
    ck_assert_fetch(NULL, url_at(&s, "/old"), "hello from a file\n");
    ck_assert_int_eq(weft_fetch_get(NULL, url_at(&s, "/none"), &f), 404);
    weft_fetch_close(f);
    ck_assert_int_eq(weft_fetch_get(NULL, url_at(&s, "/door/hello.txt"), &f), 401);
    weft_fetch_close(f);
    snprintf(url, sizeof url, "http://me:pass%%20word@127.0.0.1:%d/door/hello.txt", s.port);
    ck_assert_int_eq(weft_fetch_get(NULL, url, &f), 200);
    weft_fetch_close(f);
    const weft_fetch_field range = {"Range", "bytes=6-9"};
    const weft_fetch_request part = {
        .url = url_at(&s, "/hello.txt"), .fields = &range, .fields_count = 1};
    ck_assert_int_eq(weft_fetch_send(NULL, &part, &f), 206);
    ck_assert_int_eq(weft_fetch_read_all(f, &text), 4);
    ck_assert_str_eq(text, "from");
    weft_fetch_close(f);
    const weft_fetch_request head = {.method = "HEAD",
                                     .url = url_at(&s, "/hello.txt"),
                                     .fields = &(weft_fetch_field){"Accept-Encoding", "identity"},
                                     .fields_count = 1};
    ck_assert_int_eq(weft_fetch_send(NULL, &head, &f), 200);
    ck_assert_int_eq(weft_fetch_length(f), 18);
    weft_fetch_close(f);
    stop_site(&s);
}

TEST(uploads_to_nginx_succeed_or_get_413)
{
    static unsigned char data[BIG_BYTES];
    peer_site s;
    if (!start_nginx(&s))
        return;
    fill_from(data, sizeof data, 0);
    weft_fetch *f;
    for (int is_chunked = 0; is_chunked <= 1; is_chunked++) {
        const char *url = url_at(&s, is_chunked ? "/put/a.txt" : "/put/b.txt");
        const weft_fetch_request r = {.method = "PUT", .url = url};
        ck_assert_int_eq(weft_fetch_open(NULL, &r, is_chunked ? -1 : BIG_BYTES, &f), 0);
        for (size_t done = 0; done < BIG_BYTES; done += BIG_BYTES / 10)
            ck_assert_int_eq(weft_fetch_write(f, data + done, BIG_BYTES / 10), BIG_BYTES / 10);
        ck_assert_int_eq(weft_fetch_wait(f), 201);
        weft_fetch_close(f);
        assert_big(NULL, url);
    }
    const weft_fetch_request r = {
        .method = "PUT", .url = url_at(&s, "/small/a"), .body = data, .body_bytes = sizeof data};
    ck_assert_int_eq(weft_fetch_send(NULL, &r, &f), 413);
    weft_fetch_close(f);
    stop_site(&s);
}

#ifdef WEFT_HAS_TLS
TEST(nginx_is_reached_over_tls)
{
    peer_site s;
    if (!start_nginx(&s))
        return;
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert});
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.tls = tls});
    snprintf(s.base, sizeof s.base, "https://localhost:%d", s.tls_port);
    for (int i = 0; i < 3; i++) {
        weft_fetch *f;
        char *text;
        ck_assert_int_eq(weft_fetch_get(fetcher, url_at(&s, "/big.txt"), &f), 200);
        ck_assert_int_eq(atoi(weft_fetch_header(f, "X-Requests")), i + 1);
        ck_assert_int_eq(weft_fetch_read_all(f, &text), BIG_BYTES);
        assert_bytes_at((unsigned char *)text, BIG_BYTES, 0);
        weft_fetch_close(f);
    }
    weft_fetcher_free(fetcher);
    weft_tls_free(tls);
    stop_site(&s);
}
#endif

/* The server uses HTTP/1.0 and closes the connection after each response. */
TEST(files_of_python_are_fetched)
{
    peer_site s;
    if (!start_python(&s))
        return;
    weft_fetch *f;
    for (int i = 0; i < 3; i++)
        ck_assert_fetch(NULL, url_at(&s, "/hello.txt"), "hello from a file\n");
    assert_big(NULL, url_at(&s, "/big.txt"));
    ck_assert_int_eq(weft_fetch_get(NULL, url_at(&s, "/none"), &f), 404);
    weft_fetch_close(f);
    ck_assert_int_eq(weft_fetch_post(NULL, url_at(&s, "/hello.txt"), NULL, "x", 1, &f), 501);
    weft_fetch_close(f);
    const weft_fetch_request head = {.method = "HEAD", .url = url_at(&s, "/big.txt")};
    ck_assert_int_eq(weft_fetch_send(NULL, &head, &f), 200);
    ck_assert_int_eq(weft_fetch_length(f), BIG_BYTES);
    weft_fetch_close(f);
    stop_site(&s);
}
