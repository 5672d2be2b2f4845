/* The HTTP server with other clients: curl, wrk, nc and slowhttptest. */
#include "http/http_support.h"
#include "support/peer_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

static test_server s;

#define TLS_CURL CURL "--resolve localhost:$PORT:127.0.0.1 --cacert ca "
#define TLS_URL "https://localhost:$PORT"
#define CODE "-o body -w '%{http_code}' "
#define PIECES "piece 0\npiece 1\npiece 2\n"

/* Clients that the server disconnected because of slow headers, bodies and reads. */
static size_t late_heads, late_bodies, late_reads;

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
    late_bodies += n == -ETIMEDOUT;
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
        late_reads += rc == -ETIMEDOUT;
        return rc;
    }
    return weft_http_reply_text(r, 200, "%s %s in HTTP/%d\n", weft_http_method(r), path,
                                weft_http_version(r));
}

static weft_tls *server_tls; /* of a TLS server */

static void open_site_folder(void)
{
    open_folder();
    memset(large, 'x', LARGE);
}

static void close_site(void)
{
    close_folder();
    if (s.fiber != 0)
        ck_assert_int_eq(server_close(&s), -ECANCELED);
    weft_tls_free(server_tls);
    free(local_cert);
    free(local_key);
}

FIXTURE(open_site_folder, close_site)

static void start_site(const weft_http_options *options)
{
    server_open(&s, handle_request, NULL, options);
    peer_port = server_port(&s);
}

TEST(curl_gets_pages_with_http_1_0_and_1_1_over_one_connection)
{
    start_site(NULL);
    EACH_PAIR(assert_command, CURL "--http1.0 " URL "/a -> GET /a in HTTP/10\n",
              CURL "--http1.0 " URL "/pieces -> " PIECES,
              CURL "-w '%{num_connects}\n' " URL "/a " URL "/pieces " URL
                   "/b -> GET /a in HTTP/11\n1\n" PIECES "0\nGET /b in HTTP/11\n0\n",
              CURL "--http1.0 -H 'Connection: keep-alive' -w '%{num_connects}\n' " URL "/a " URL
                   "/b -> GET /a in HTTP/10\n1\nGET /b in HTTP/10\n0\n",
              CURL "-o large -w '%{size_download}' " URL "/large -> 4194304",
              CURL "-X OPTIONS --request-target '*' " URL " -> OPTIONS * in HTTP/11\n");
    ck_assert_has(run_command(CURL "-I " URL "/pieces"), "HTTP/1.1 200 OK\r\n");
    /* A truncated reply is an error. */
    EACH_TEXT(assert_command_fails, CURL URL "/cut", CURL "--http1.0 " URL "/cut");
}

static char sum[64]; /* the reply for the whole file */

static void assert_sum(const char *command)
{
    ck_assert_str_eq(run_command(command), sum);
}

TEST(curl_sends_bodies_with_and_without_a_length)
{
    start_site(&(weft_http_options){.limits = {.body_bytes_max = 8 << 20}});
    run_command("head -c 3000000 /dev/urandom >file");
    snprintf(sum, sizeof sum, "%s", run_command(CURL "-T file " URL "/sum"));
    ck_assert_int_eq(strncmp(sum, "3000000 ", 8), 0);
    EACH_TEXT(assert_sum, CURL "--data-binary @file " URL "/sum",
              CURL "-H 'Expect: 100-continue' -T file " URL "/sum",
              CURL "-H 'Expect:' -T file " URL "/sum", CURL "-T - " URL "/sum <file",
              CURL "-H 'Transfer-Encoding: chunked' --data-binary @file " URL "/sum",
              CURL "--http1.0 --data-binary @file " URL "/sum",
              CURL "-X DELETE --data-binary @file " URL "/sum");
    assert_command(CURL "-d '' " URL "/sum", "0 0\n");
}

TEST(curl_gets_413_for_a_large_body)
{
    start_site(&(weft_http_options){.limits = {.body_bytes_max = 1000}});
    run_command("head -c 30000000 /dev/zero >file");
    EACH_PAIR(assert_command, CURL CODE "-T file " URL "/sum -> 413",
              CURL "-H 'Expect:' " CODE "-T file " URL "/sum -> 413",
              CURL "-H 'Expect:' " CODE "-T file " URL "/unread -> 200");
}

#ifdef WEFT_HAS_GZIP
TEST(curl_gets_compressed_replies)
{
    start_site(&(weft_http_options){.gzip_level = 6});
    run_command(CURL "-o plain " URL "/large");
    const char *bytes =
        run_command(CURL "--compressed -o packed -w '%{size_download}' " URL "/large");
    ck_assert_uint_lt(strtoul(bytes, NULL, 10), LARGE / 100);
    run_command("cmp plain packed");
    assert_command(CURL "--compressed " URL "/pieces", PIECES);
    ck_assert_has(run_command(CURL "--compressed -I " URL "/large"), "Content-Encoding: gzip\r\n");
}
#endif

#ifdef WEFT_HAS_TLS

/* Start a TLS server. Write ca, and a certificate for clients, cert and key, to the folder. */
static void start_tls_site(weft_http_options o, weft_tls_verify verify)
{
    char *cert, *key;
    make_local_cert();
    ck_assert_int_eq(weft_tls_self_signed("alice", 2, &cert, &key), 0);
    const weft_tls_options tls = {
        .identity = {.cert_pem = local_cert, .key_pem = local_key},
        .ca_pem = verify != WEFT_TLS_VERIFY_DEFAULT ? cert : NULL,
        .verify = verify,
    };
    o.tls = server_tls = weft_tls_server_new(&tls);
    ck_assert_ptr_nonnull(server_tls);
    start_site(&o);
    create_peer_text("ca", local_cert);
    create_peer_text("cert", cert);
    create_peer_text("key", key);
    free(cert);
    free(key);
}

TEST(curl_connects_with_tls_1_2_and_1_3)
{
    start_tls_site((weft_http_options){.limits = {.body_bytes_max = 1 << 20}},
                   WEFT_TLS_VERIFY_DEFAULT);
    run_command("head -c 900000 /dev/urandom >file; head -c 9000000 /dev/zero >zeros");
    EACH_PAIR(assert_command, TLS_CURL "--tls-max 1.2 " TLS_URL "/tls -> TLS 12, new, -\n",
              TLS_CURL "--tlsv1.3 " TLS_URL "/tls -> TLS 13, new, -\n",
              TLS_CURL "-o 1 -o 2 -w '%{num_connects}' " TLS_URL "/large " TLS_URL "/a -> 10",
              TLS_CURL "-H 'Expect:' " CODE "-T zeros " TLS_URL "/sum -> 413");
    snprintf(sum, sizeof sum, "%s", run_command(TLS_CURL "-T file " TLS_URL "/sum"));
    assert_sum(TLS_CURL "-T - " TLS_URL "/sum <file");
    /* A truncated reply, no trusted certificate, no TLS, and an old version. */
    EACH_TEXT(assert_command_fails, TLS_CURL TLS_URL "/cut", TLS_CURL "--http1.0 " TLS_URL "/cut",
              CURL "--resolve localhost:$PORT:127.0.0.1 " TLS_URL "/tls", CURL "-f " URL,
              TLS_CURL "--tls-max 1.1 " TLS_URL "/tls");
    assert_command(TLS_CURL TLS_URL "/a", "GET /a in HTTP/11\n");
}

TEST(curl_sends_a_client_certificate)
{
    start_tls_site((weft_http_options){0}, WEFT_TLS_VERIFY_REQUIRED);
    EACH_PAIR(
        assert_command, TLS_CURL "--cert cert --key key " TLS_URL "/tls -> TLS 13, new, CN=alice\n",
        TLS_CURL "--cert cert --key key --tls-max 1.2 " TLS_URL "/tls -> TLS 12, new, CN=alice\n");
    EACH_TEXT(assert_command_fails, TLS_CURL TLS_URL "/tls",
              TLS_CURL "--tls-max 1.2 " TLS_URL "/tls");
}

#endif

TEST(wrk_reports_no_error)
{
    start_site(NULL);
    if (has_tool("wrk")) {
        const char *text = run_command("wrk -t 1 -c 16 -d 1s " URL "/a 2>&1");
        ck_assert_has(text, "Requests/sec");
        ck_assert_lacks(text, "errors", "Non-2xx", "\n  0 requests");
    }
}

TEST(an_endless_pipeline_does_not_starve_other_clients)
{
    start_site(&(weft_http_options){.limits = {.requests_max = SIZE_MAX}});
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
}

static void count_late_heads(const weft_http_record *record, void *ctx)
{
    late_heads += record->status == 408 && strcmp(record->target, "/a") == 0;
}

#define ATTACK "slowhttptest -c 40 -r 400 -l 2 -i 1 -p 2 "

/* Three attacks at once. Other clients are served meanwhile, and all slow clients time out. */
TEST(clients_with_slow_headers_bodies_and_reads_do_not_block_others)
{
    const weft_http_options o = {
        .limits = {.head_s = 0.3, .slow_s = 0.3, .body_bytes_per_s_min = 5e4},
        .log = count_late_heads};
    start_site(&o);
    if (has_tool("slowhttptest")) {
        const char *text = run_command(
            ATTACK "-H -u " URL "/a >1 & " ATTACK "-B -s 100000 -x 10 -u " URL "/sum >2 & " ATTACK
                   "-X -w 10 -y 20 -n 1 -z 5 -k 1 -u " URL "/large >3 & "
                   "for i in 1 2 3 4 5; do " CURL "-o page " URL "/a || exit 1; sleep 0.1; done; "
                   "wait; tail -c 500 1 2 3");
        ck_assert_msg(late_heads >= 40 && late_bodies >= 40 && late_reads >= 40,
                      "%zu, %zu and %zu clients timed out: %s", late_heads, late_bodies, late_reads,
                      text);
        ck_assert_lacks(text, "NO\033");
    }
}
