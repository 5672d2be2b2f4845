/* The HTTP server with other clients: curl, openssl, wrk, nc and slowhttptest. */
#include "http/http_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

static test_server s;
static char folder[] = "/tmp/weft-clients-XXXXXX";

/* The output of the last command. */
static weft_output output;

/* Run a shell command in the folder, with $PORT. Return its status. */
static int try_run(const char *command)
{
    char port[32];
    snprintf(port, sizeof port, "PORT=%d", server_port(&s));
    char *const set[] = {port, NULL};
    char *const argv[] = {"sh", "-c", (char *)(uintptr_t)command, NULL};
    const weft_process_options o = {.set = set, .folder = folder, .has_group = true};
    weft_output_free(&output);
    output = (weft_output){0};
    return weft_run(argv, NULL, 0, &o, &output);
}

/* Run a shell command that must succeed. Return its standard output. */
static const char *run_command(const char *command)
{
    int rc = try_run(command);
    ck_assert_msg(rc == 0, "%s: status %d: %.300s %.300s", command, rc, output.out, output.err);
    return output.out;
}

#define CURL "curl -q -sS --noproxy '*' --max-time 15 "
#define URL "http://127.0.0.1:$PORT"
#define TLS_CURL CURL "--resolve localhost:$PORT:127.0.0.1 "
#define TLS_URL "https://localhost:$PORT"

/* Return whether a tool is installed. `tools/deps test` installs all of them. */
static bool has_tool(const char *tool)
{
    char command[64];
    snprintf(command, sizeof command, "command -v %s", tool);
    if (try_run(command) == 0)
        return true;
    printf("%s is not installed: skipped\n", tool);
    return false;
}

static size_t late_count; /* clients that the server disconnected because they were slow */

/* Reply with the length of the body and a checksum. */
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
    late_count += n == -ETIMEDOUT;
    return n < 0 ? (int)n : weft_http_reply_text(r, 200, "%lu %lx\n", bytes, sum);
}

static int reply_tls(weft_http_request *r)
{
    weft_tls_info info;
    int rc = weft_tls_describe(weft_http_tls(r), &info);
    return rc < 0 ? rc
                  : weft_http_reply_text(r, 200, "TLS %d, %s, %s\n", info.version,
                                         info.is_resumed ? "resumed" : "new",
                                         info.peer_subject[0] != '\0' ? info.peer_subject : "-");
}

static int reply_in_pieces(weft_http_request *r)
{
    for (int i = 0; i < 3; i++) {
        ssize_t n = weft_http_printf(r, "piece %d\n", i);
        int rc = n < 0 ? (int)n : weft_http_flush(r);
        if (rc < 0)
            return rc;
    }
    return 0;
}

#define LARGE ((size_t)4 << 20)
static char large[LARGE];

static int handle_request(weft_http_request *r, void *ctx)
{
    (void)ctx;
    const char *path = weft_http_path(r);
    if (strcmp(path, "/sum") == 0)
        return reply_sum(r);
    if (strcmp(path, "/pieces") == 0)
        return reply_in_pieces(r);
    if (strcmp(path, "/tls") == 0)
        return reply_tls(r);
    if (strcmp(path, "/cut") == 0)
        return reply_in_pieces(r) < 0 ? 0 : -EIO;
    if (strcmp(path, "/large") == 0) {
        int rc = weft_http_reply(r, 200, "text/plain", large, LARGE);
        late_count += rc == -ETIMEDOUT;
        return rc;
    }
    return weft_http_reply_text(r, 200, "%s %s in HTTP/%d\n", weft_http_method(r), path,
                                weft_http_version(r));
}

static void start_site(const weft_http_options *options)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    memset(large, 'x', LARGE);
    server_open(&s, handle_request, NULL, options);
}

static void stop_site(void)
{
    run_command("rm -r \"$PWD\"");
    weft_output_free(&output);
    ck_assert_int_eq(server_close(&s), -ECANCELED);
}

TEST(curl_gets_pages_with_http_1_0_and_1_1_over_one_connection)
{
    start_site(NULL);
    ck_assert_str_eq(run_command(CURL "--http1.0 " URL "/a"), "GET /a in HTTP/10\n");
    ck_assert_str_eq(run_command(CURL "--http1.1 " URL "/a"), "GET /a in HTTP/11\n");
    ck_assert_str_eq(run_command(CURL "--http1.0 " URL "/pieces"), "piece 0\npiece 1\npiece 2\n");
    ck_assert_str_eq(run_command(CURL "-w '%{num_connects}\n' " URL "/a " URL "/pieces " URL "/b"),
                     "GET /a in HTTP/11\n1\npiece 0\npiece 1\npiece 2\n0\nGET /b in HTTP/11\n0\n");
    ck_assert_str_eq(run_command(CURL
                                 "--http1.0 -H 'Connection: keep-alive' -w '%{num_connects}\n' " URL
                                 "/a " URL "/b"),
                     "GET /a in HTTP/10\n1\nGET /b in HTTP/10\n0\n");
    ck_assert_ptr_nonnull(strstr(run_command(CURL "-I " URL "/pieces"), "HTTP/1.1 200 OK\r\n"));
    ck_assert_str_eq(run_command(CURL "-o large -w '%{size_download}' " URL "/large"), "4194304");
    ck_assert_int_ne(try_run(CURL URL "/cut"), 0); /* a truncated reply is an error */
    ck_assert_int_ne(try_run(CURL "--http1.0 " URL "/cut"), 0);
    ck_assert_str_eq(run_command(CURL "-X OPTIONS --request-target '*' " URL),
                     "OPTIONS * in HTTP/11\n");
    stop_site();
}

TEST(curl_sends_bodies_with_and_without_a_length)
{
    const weft_http_options o = {.limits = {.body_bytes_max = 8 << 20}};
    static const char *const commands[] = {
        CURL "-T file " URL "/sum",
        CURL "--data-binary @file " URL "/sum",
        CURL "-H 'Expect: 100-continue' -T file " URL "/sum",
        CURL "-H 'Expect:' -T file " URL "/sum",
        CURL "-T - " URL "/sum <file",
        CURL "-H 'Transfer-Encoding: chunked' --data-binary @file " URL "/sum",
        CURL "--http1.0 --data-binary @file " URL "/sum",
        CURL "-X DELETE --data-binary @file " URL "/sum",
    };
    start_site(&o);
    run_command("head -c 3000000 /dev/urandom >file");
    char expected[64];
    snprintf(expected, sizeof expected, "%s", run_command(commands[0]));
    ck_assert_int_eq(strncmp(expected, "3000000 ", 8), 0);
    for (size_t i = 1; i < COUNT_OF(commands); i++)
        ck_assert_str_eq(run_command(commands[i]), expected);
    ck_assert_str_eq(run_command(CURL "-d '' " URL "/sum"), "0 0\n");
    stop_site();
}

TEST(curl_gets_413_for_a_large_body)
{
    const weft_http_options o = {.limits = {.body_bytes_max = 1000}};
    start_site(&o);
    run_command("head -c 30000000 /dev/zero >file");
    ck_assert_str_eq(run_command(CURL "-o body -w '%{http_code}' -T file " URL "/sum"), "413");
    ck_assert_str_eq(run_command(CURL "-H 'Expect:' -o body -w '%{http_code}' -T file " URL "/sum"),
                     "413");
    ck_assert_str_eq(
        run_command(CURL "-H 'Expect:' -o body -w '%{http_code}' -T file " URL "/unread"), "200");
    stop_site();
}

#ifdef WEFT_HAS_GZIP
TEST(curl_gets_compressed_replies)
{
    const weft_http_options o = {.gzip_level = 6};
    start_site(&o);
    run_command(CURL "-o plain " URL "/large");
    unsigned long bytes = strtoul(
        run_command(CURL "--compressed -o packed -w '%{size_download}' " URL "/large"), NULL, 10);
    ck_assert_uint_lt(bytes, LARGE / 100);
    run_command("cmp plain packed");
    ck_assert_str_eq(run_command(CURL "--compressed " URL "/pieces"),
                     "piece 0\npiece 1\npiece 2\n");
    ck_assert_ptr_nonnull(
        strstr(run_command(CURL "--compressed -I " URL "/large"), "Content-Encoding: gzip\r\n"));
    stop_site();
}
#endif

#ifdef WEFT_HAS_TLS

static void write_file(const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

/* Start a TLS server. Write ca, and a certificate for clients, cert and key, to the folder. */
static weft_tls *start_tls_site(weft_http_options *o, weft_tls_verify verify)
{
    char *cert, *key;
    make_local_cert();
    ck_assert_int_eq(weft_tls_self_signed("alice", 2, &cert, &key), 0);
    const weft_tls_options tls = {
        .identity = {.cert_pem = local_cert, .key_pem = local_key},
        .ca_pem = verify != WEFT_TLS_VERIFY_DEFAULT ? cert : NULL,
        .verify = verify,
    };
    o->tls = weft_tls_server_new(&tls);
    ck_assert_ptr_nonnull(o->tls);
    start_site(o);
    write_file("ca", local_cert);
    write_file("cert", cert);
    write_file("key", key);
    free(cert);
    free(key);
    return o->tls;
}

static void stop_tls_site(weft_tls *tls)
{
    stop_site();
    weft_tls_free(tls);
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

TEST(curl_connects_with_tls_1_2_and_1_3)
{
    weft_http_options o = {.limits = {.body_bytes_max = 1 << 20}};
    weft_tls *tls = start_tls_site(&o, WEFT_TLS_VERIFY_DEFAULT);
    ck_assert_str_eq(run_command(TLS_CURL "--cacert ca --tls-max 1.2 " TLS_URL "/tls"),
                     "TLS 12, new, -\n");
    ck_assert_str_eq(run_command(TLS_CURL "--cacert ca --tlsv1.3 " TLS_URL "/tls"),
                     "TLS 13, new, -\n");
    ck_assert_str_eq(run_command(TLS_CURL "--cacert ca -o 1 -o 2 -w '%{num_connects}' " TLS_URL
                                          "/large " TLS_URL "/a"),
                     "10");
    run_command("head -c 900000 /dev/urandom >file");
    char expected[64];
    snprintf(expected, sizeof expected, "%s",
             run_command(TLS_CURL "--cacert ca -T file " TLS_URL "/sum"));
    ck_assert_str_eq(run_command(TLS_CURL "--cacert ca -T - " TLS_URL "/sum <file"), expected);
    run_command("head -c 9000000 /dev/zero >file");
    ck_assert_str_eq(
        run_command(TLS_CURL "--cacert ca -H 'Expect:' -o body -w '%{http_code}' -T file " TLS_URL
                             "/sum"),
        "413");
    ck_assert_int_ne(try_run(TLS_CURL "--cacert ca " TLS_URL "/cut"), 0);
    ck_assert_int_ne(try_run(TLS_CURL "--cacert ca --http1.0 " TLS_URL "/cut"), 0);
    ck_assert_int_ne(try_run(TLS_CURL TLS_URL "/tls"), 0);           /* without --cacert */
    ck_assert_int_ne(try_run(CURL "-f http://127.0.0.1:$PORT/"), 0); /* without TLS */
    ck_assert_int_ne(try_run(TLS_CURL "--cacert ca --tls-max 1.1 " TLS_URL "/tls"), 0);
    ck_assert_str_eq(run_command(TLS_CURL "--cacert ca " TLS_URL "/a"), "GET /a in HTTP/11\n");
    stop_tls_site(tls);
}

TEST(curl_sends_a_client_certificate)
{
    weft_http_options o = {0};
    weft_tls *tls = start_tls_site(&o, WEFT_TLS_VERIFY_REQUIRED);
    ck_assert_str_eq(run_command(TLS_CURL "--cacert ca --cert cert --key key " TLS_URL "/tls"),
                     "TLS 13, new, CN=alice\n");
    ck_assert_str_eq(
        run_command(TLS_CURL "--cacert ca --cert cert --key key --tls-max 1.2 " TLS_URL "/tls"),
        "TLS 12, new, CN=alice\n");
    ck_assert_int_ne(try_run(TLS_CURL "--cacert ca " TLS_URL "/tls"), 0);
    ck_assert_int_ne(try_run(TLS_CURL "--cacert ca --tls-max 1.2 " TLS_URL "/tls"), 0);
    stop_tls_site(tls);
}

#define S_CLIENT                                                                    \
    "printf 'GET /tls HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' | " \
    "timeout 15 openssl s_client -connect 127.0.0.1:$PORT -CAfile ca -ign_eof "

TEST(openssl_resumes_sessions)
{
    weft_http_options o = {0};
    weft_tls *tls = start_tls_site(&o, WEFT_TLS_VERIFY_DEFAULT);
    if (has_tool("openssl")) {
        ck_assert_ptr_nonnull(strstr(run_command(S_CLIENT "-tls1_3 -sess_out 3"), "TLS 13, new"));
        ck_assert_ptr_nonnull(
            strstr(run_command(S_CLIENT "-tls1_3 -sess_in 3"), "TLS 13, resumed"));
        ck_assert_ptr_nonnull(strstr(run_command(S_CLIENT "-tls1_2 -sess_out 2"), "TLS 12, new"));
        ck_assert_ptr_nonnull(
            strstr(run_command(S_CLIENT "-tls1_2 -sess_in 2"), "TLS 12, resumed"));
    }
    stop_tls_site(tls);
}

#endif

TEST(wrk_reports_no_error)
{
    start_site(NULL);
    if (has_tool("wrk")) {
        const char *text = run_command("wrk -t 1 -c 16 -d 1s " URL "/a 2>&1");
        ck_assert_ptr_nonnull(strstr(text, "Requests/sec"));
        ck_assert_msg(strstr(text, "errors") == NULL && strstr(text, "Non-2xx") == NULL, "%s",
                      text);
        ck_assert_ptr_null(strstr(text, "\n  0 requests"));
    }
    stop_site();
}

TEST(nc_gets_a_reply)
{
    start_site(NULL);
    if (has_tool("nc")) {
        const char *text = run_command("printf 'GET /a HTTP/1.0\\r\\n\\r\\n' | nc 127.0.0.1 $PORT");
        ck_assert_str_eq(body_of(text), "GET /a in HTTP/10\n");
        text = run_command("printf 'hello\\r\\n' | nc -N 127.0.0.1 $PORT");
        ck_assert_int_eq(status_of(text), 400);
    }
    stop_site();
}

TEST(an_endless_pipeline_does_not_starve_other_clients)
{
    const weft_http_options o = {.limits = {.requests_max = SIZE_MAX}};
    start_site(&o);
    if (has_tool("nc")) {
        run_command("for i in $(seq 1000); do "
                    "printf 'GET /a HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'; done >requests");
        run_command(
            "for i in 1 2 3 4 5 6 7 8; do cat requests requests requests requests; done >many");
        const char *text = run_command(
            "(while cat many; do :; done | nc 127.0.0.1 $PORT >responses) & "
            "while [ ! -s responses ]; do sleep 0.01; done; "
            "for i in 1 2 3 4 5; do " CURL "-o page -w '%{http_code} ' " URL "/b; done; "
            "before=$(stat -c %s responses); sleep 0.1; "
            "[ $before -lt $(stat -c %s responses) ] && echo still; kill $!");
        ck_assert_str_eq(text, "200 200 200 200 200 still\n");
    }
    stop_site();
}

static void count_late(const weft_http_record *record, void *ctx)
{
    (void)ctx;
    late_count += record->status == 408 && record->reason[0] != '\0';
}

/* Assert that other clients are served during an attack, and that all slow clients time out. */
static void assert_survives(const char *attack)
{
    const weft_http_options o = {
        .limits = {.head_s = 0.5, .slow_s = 0.5, .body_bytes_per_s_min = 5e4}, .log = count_late};
    char command[512];
    start_site(&o);
    if (has_tool("slowhttptest")) {
        snprintf(command, sizeof command,
                 "slowhttptest -c 40 -r 400 -l 3 -i 1 -p 3 %s >report & "
                 "for i in 1 2 3 4 5; do " CURL "-o page " URL "/a || exit 1; sleep 0.2; done; "
                 "wait $!; tail -c 500 report",
                 attack);
        const char *text = run_command(command);
        ck_assert_msg(late_count >= 40, "%zu clients timed out: %s", late_count, text);
        ck_assert_ptr_null(strstr(text, "NO\033"));
    }
    stop_site();
}

TEST(clients_with_slow_headers_do_not_block_others)
{
    assert_survives("-H -u " URL "/a");
}

TEST(clients_with_slow_bodies_do_not_block_others)
{
    assert_survives("-B -s 100000 -x 10 -u " URL "/sum");
}

TEST(clients_that_read_slowly_do_not_block_others)
{
    assert_survives("-X -w 10 -y 20 -n 1 -z 5 -k 1 -u " URL "/large");
}
