/* TLS with other programs: openssl s_client and s_server, curl, and clients that do not use TLS. */
#include "support/process_support.h"
#include "support/suite.h"
#include "support/tls_support.h"
#include "tls/tls_certs.h"

/* A server that replies to each request with a description of the connection. */
typedef struct service {
    weft_tls *tls;
    int listener;
    weft_fiber loop;
    char port[8];
    char url[64];     /* "https://localhost:PORT/" */
    char address[32]; /* "127.0.0.1:PORT" */
    char *cert_path;  /* the certificate for clients to trust */
    unsigned served, refused;
} service;

/* Read a request up to its empty line. s_client may close earlier. */
static void read_request(weft_stream *s)
{
    char *line;
    size_t bytes;
    while (weft_stream_line(s, &line, &bytes) == 1 && bytes > 0)
        ;
}

static void reply_tls_info(weft_stream *s)
{
    weft_tls_info info;
    char text[256];
    ck_assert_int_eq(weft_tls_describe(s, &info), 0);
    snprintf(text, sizeof text, "version=%d alpn=%s name=%s peer=%s resumed=%d\n", info.version,
             info.alpn, info.server_name, info.peer_subject, info.is_resumed);
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s",
                       strlen(text), text);
}

typedef struct service_conn {
    service *service;
    int fd;
} service_conn;

static weft_value service_conn_run(void *arg)
{
    service_conn *v = arg;
    weft_stream s;
    if (weft_tls_accept(&s, v->fd, v->service->tls) < 0) {
        v->service->refused++;
        return 0; /* an error would propagate to the test */
    }
    read_request(&s);
    reply_tls_info(&s);
    (void)weft_stream_close(&s);
    v->service->served++;
    return 0;
}

static int on_conn(int fd, void *ctx)
{
    service_conn v = {ctx, fd};
    weft_spin_options options = {.arg_bytes = sizeof v};
    return weft_spin_with(service_conn_run, &v, &options) != 0 ? 0 : -ENOMEM;
}

static weft_value service_run(void *arg)
{
    service *s = arg;
    int rc = weft_accept_loop(s->listener, on_conn, s);
    return rc == -ECANCELED ? 0 : rc;
}

static void start_service(service *s, const weft_tls_options *options)
{
    weft_tls_options o = options != NULL ? *options : (weft_tls_options){0};
    make_local_cert();
    o.identity = (weft_tls_identity){.cert_pem = local_cert, .key_pem = local_key};
    s->tls = weft_tls_server_new(&o);
    ck_assert_ptr_nonnull(s->tls);
    s->cert_path = write_temp_file(local_cert);
    endpoint p;
    s->listener = listen_tcp(&p, 512);
    snprintf(s->port, sizeof s->port, "%d", ntohs(p.u.in.sin_port));
    snprintf(s->url, sizeof s->url, "https://localhost:%s/", s->port);
    snprintf(s->address, sizeof s->address, "127.0.0.1:%s", s->port);
    s->loop = weft_spin(service_run, s);
}

static void stop_service(service *s)
{
    ck_assert_int_eq(weft_cancel(s->loop), 0);
    (void)weft_await(s->loop);
    weft_close(s->listener);
    weft_tls_free(s->tls);
    remove_temp_file(s->cert_path);
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

/* Run a program and return its output. The caller frees the output. */
static char *run_program(char *const argv[], const char *input, int *status)
{
    weft_output output;
    int rc = weft_run(argv, input, strlen(input), NULL, &output);
    ck_assert_good(rc);
    if (status != NULL)
        *status = WEXITSTATUS(rc);
    char *text;
    ck_assert_int_ge(asprintf(&text, "%s%s", output.out, output.err), 0);
    weft_output_free(&output);
    return text;
}

#define ck_assert_contains(text, part) \
    ck_assert_msg(strstr(text, part) != NULL, "'%s' is not in: %.400s", part, text)

TEST(curl_fetches_with_tls_1_2_and_1_3)
{
    service s = {0};
    start_service(&s, &(weft_tls_options){.alpn = "http/1.1"});
    for (int version = 12; version <= 13; version++) {
        char *max = version == 12 ? "1.2" : "1.3";
        char *text = run_program(
            ARGV("curl", "-sS", "--tls-max", max, "--cacert", s.cert_path, "--noproxy", "*", s.url),
            "", NULL);
        ck_assert_contains(text, version == 12 ? "version=12" : "version=13");
        ck_assert_contains(text, "alpn=http/1.1 name=localhost");
        free(text);
    }
    int status;
    char *text = run_program(ARGV("curl", "-sS", "--noproxy", "*", s.url), "", &status);
    ck_assert_int_eq(status, 60); /* CURLE_PEER_FAILED_VERIFICATION */
    free(text);
    ck_assert_uint_eq(s.served, 2);
    stop_service(&s);
}

TEST(curl_sends_a_client_certificate)
{
    test_cert *ca = issue_ca("ca");
    test_cert *alice = issue_for(ca, "alice", NULL);
    char *cert = write_temp_file(alice->cert_pem), *key = write_temp_file(alice->key_pem);
    service s = {0};
    start_service(&s,
                  &(weft_tls_options){.ca_pem = ca->cert_pem, .verify = WEFT_TLS_VERIFY_REQUIRED});
    char *text = run_program(ARGV("curl", "-sS", "--cacert", s.cert_path, "--cert", cert, "--key",
                                  key, "--noproxy", "*", s.url),
                             "", NULL);
    ck_assert_contains(text, "peer=CN=alice");
    free(text);
    int status;
    text = run_program(ARGV("curl", "-sS", "--cacert", s.cert_path, "--noproxy", "*", s.url), "",
                       &status);
    ck_assert_int_ne(status, 0);
    ck_assert_contains(text, "certificate required");
    free(text);
    ck_assert_uint_eq(s.served, 1);
    ck_assert_uint_eq(s.refused, 1);
    stop_service(&s);
    remove_temp_file(cert);
    remove_temp_file(key);
    free_certs();
}

TEST(s_client_resumes_a_session)
{
    service s = {0};
    start_service(&s, NULL);
    for (int version = 12; version <= 13; version++) {
        char *path = write_temp_file("");
        char *flag = version == 12 ? "-tls1_2" : "-tls1_3";
        char *text = run_program(ARGV("openssl", "s_client", "-connect", s.address, flag,
                                      "-ign_eof", "-servername", "localhost", "-sess_out", path),
                                 "GET /\n\n", NULL);
        ck_assert_contains(text, "resumed=0");
        free(text);
        text = run_program(ARGV("openssl", "s_client", "-connect", s.address, flag, "-ign_eof",
                                "-servername", "localhost", "-sess_in", path),
                           "GET /\n\n", NULL);
        ck_assert_contains(text, "Reused, TLSv1.");
        ck_assert_contains(text, "resumed=1");
        free(text);
        remove_temp_file(path);
    }
    stop_service(&s);
}

TEST(s_client_gets_an_alert_without_a_common_protocol)
{
    service s = {0};
    start_service(&s, &(weft_tls_options){.alpn = "h2"});
    char *text =
        run_program(ARGV("openssl", "s_client", "-connect", s.address, "-alpn", "x,h2"), "", NULL);
    ck_assert_contains(text, "ALPN protocol: h2");
    free(text);
    text = run_program(ARGV("openssl", "s_client", "-connect", s.address, "-alpn", "x"), "", NULL);
    ck_assert_contains(text, "no application protocol");
    free(text);
    stop_service(&s);
}

TEST(old_versions_and_renegotiation_are_refused)
{
    service s = {0};
    start_service(&s, NULL);
    char *text = run_program(
        ARGV("openssl", "s_client", "-connect", s.address, "-tls1_1", "-cipher", "ALL@SECLEVEL=0"),
        "", NULL);
    ck_assert_contains(text, "Cipher is (NONE)");
    free(text);
    text = run_program(ARGV("openssl", "s_client", "-connect", s.address, "-tls1_2"), "R\n", NULL);
    ck_assert_contains(text, "no renegotiation");
    free(text);
    text = run_program(ARGV("openssl", "s_client", "-connect", s.address, "-ign_eof"), "GET /\n\n",
                       NULL);
    ck_assert_contains(text, "version=13");
    free(text);
    stop_service(&s);
}

/* Connect, send bytes, and close. */
static void send_and_close(const service *s, const char *data, size_t bytes)
{
    char byte;
    int fd = weft_dial("tcp", s->address);
    ck_assert_int_ge(fd, 0);
    if (bytes > 0)
        ck_assert_int_eq(weft_write_all(fd, data, bytes), (ssize_t)bytes);
    ck_assert_int_eq(weft_shutdown(fd, SHUT_WR), 0);
    while (weft_read(fd, &byte, 1) > 0)
        ;
    ck_assert_int_eq(weft_close(fd), 0);
}

TEST(an_accept_loop_continues_after_bad_clients)
{
    static const char hello[] = "\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03";
    service s = {0};
    start_service(&s, NULL);
    int silent = weft_dial("tcp", s.address); /* stays open and sends nothing */
    send_and_close(&s, "", 0);
    send_and_close(&s, "GET / HTTP/1.1\r\n\r\n", 18);
    send_and_close(&s, hello, sizeof hello - 1);
    send_and_close(&s, hello, 3);
    send_and_close(&s, (const char *)memset((char[3000]){0}, 0xa5, 3000), 3000);
    char *text = run_program(ARGV("curl", "-sS", "--cacert", s.cert_path, "--noproxy", "*", s.url),
                             "", NULL);
    ck_assert_contains(text, "version=13");
    free(text);
    ck_assert_uint_eq(s.refused, 5);
    ck_assert_uint_eq(s.served, 1);
    weft_close(silent);
    stop_service(&s);
}

/* Wait until s_server listens and store its address. */
static void await_server(weft_process *p, char *address, size_t room)
{
    char text[256] = "";
    size_t used = 0;
    const char *found;
    /* "ACCEPT 127.0.0.1:43435 PID=..." */
    while ((found = strstr(text, "ACCEPT ")) == NULL || strchr(found, '\n') == NULL) {
        ssize_t n = weft_read(p->out, text + used, sizeof text - 1 - used);
        ck_assert_int_gt(n, 0);
        text[used += (size_t)n] = '\0';
    }
    const char *colon = strchr(found, ':');
    ck_assert_ptr_nonnull(colon);
    snprintf(address, room, "127.0.0.1:%d", atoi(colon + 1));
}

static weft_process spawn_server(char *const argv[], char *address, size_t room)
{
    weft_process p =
        spawn(argv, (weft_process_options){
                        .in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_OUT});
    await_server(&p, address, room);
    return p;
}

static void fetch_page(weft_tls *tls, const char *address, int version, bool is_resumed)
{
    weft_stream s;
    weft_tls_info info;
    char data[4096];
    ssize_t n, total = 0;
    ck_assert_good(weft_tls_connect(&s, weft_dial("tcp", address), tls, "localhost"));
    ck_assert_int_eq(weft_tls_describe(&s, &info), 0);
    ck_assert_int_eq(info.version, version);
    ck_assert_int_eq(info.is_resumed, is_resumed);
    ck_assert_int_gt(weft_stream_puts(&s, "GET / HTTP/1.0\r\n\r\n"), 0);
    while ((n = weft_stream_read(&s, data, sizeof data)) > 0)
        total += n;
    ck_assert_int_eq(n, 0);
    ck_assert_int_gt(total, 500);
    ck_assert_int_eq(weft_stream_close(&s), 0);
}

TEST(a_weft_client_fetches_from_s_server_and_resumes)
{
    for (int version = 12; version <= 13; version++) {
        char address[32];
        make_local_cert();
        char *cert = write_temp_file(local_cert), *key = write_temp_file(local_key);
        char *flag = version == 12 ? "-tls1_2" : "-tls1_3";
        weft_process p =
            spawn_server(ARGV("openssl", "s_server", "-accept", "127.0.0.1:0", flag, "-cert", cert,
                              "-key", key, "-www", "-max_send_frag", "512"),
                         address, sizeof address);
        weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.ca_file = cert});
        ck_assert_ptr_nonnull(tls);
        fetch_page(tls, address, version, false);
        fetch_page(tls, address, version, true);
        fetch_page(tls, address, version, true);
        ck_assert_int_ge(weft_process_end(&p, 1), 0);
        weft_process_close(&p);
        weft_tls_free(tls);
        remove_temp_file(cert);
        remove_temp_file(key);
        free(local_cert);
        free(local_key);
        local_cert = local_key = NULL;
    }
}

/* The state of many clients that send their requests when all are connected. */
typedef struct client_group {
    service service;
    weft_tls *tls;
    weft_latch connecting;
} client_group;

static weft_value connect_and_wait(void *arg)
{
    client_group *c = arg;
    weft_stream s;
    int rc = weft_tls_connect(&s, weft_dial("tcp", c->service.address), c->tls, "localhost");
    ck_assert_good(rc);
    ck_assert_int_eq(weft_latch_done(&c->connecting), 0);
    ck_assert_int_eq(weft_latch_wait(&c->connecting), 0);
    weft_stream_puts(&s, "GET /\n\n");
    char *line;
    ck_assert_int_eq(weft_stream_line(&s, &line, NULL), 1);
    ck_assert_str_eq(line, "HTTP/1.1 200 OK");
    return weft_stream_close(&s);
}

TEST(two_hundred_connections_are_open_at_once)
{
    enum { CLIENTS = 200 };
    client_group c = {0};
    weft_fiber clients[CLIENTS];
    raise_descriptor_limit(2 * CLIENTS + 100);
    start_service(&c.service, NULL);
    c.tls = weft_tls_client_new(&(weft_tls_options){.ca_file = c.service.cert_path});
    weft_latch_add(&c.connecting, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = weft_spin(connect_and_wait, &c);
    for (int i = 0; i < CLIENTS; i++)
        ck_assert_int_eq(weft_await(clients[i]), 0);
    while (c.service.served < CLIENTS)
        weft_snooze();
    weft_tls_free(c.tls);
    stop_service(&c.service);
}
