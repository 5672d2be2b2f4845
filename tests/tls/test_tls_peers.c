/* TLS with other programs: openssl s_client and s_server, and clients that do not use TLS. */
#include "support/peer_support.h"
#include "support/process_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

/* A server that replies to each request with a description of the connection. */
static weft_tls *service_tls;
static int service_listener;
static weft_fiber service_loop;
static char service_address[32];
static unsigned served, refused;

static weft_value service_conn_run(void *arg)
{
    weft_stream s;
    weft_tls_info info;
    char *line;
    size_t bytes;
    if (weft_tls_accept(&s, *(int *)arg, service_tls) < 0) {
        refused++;
        return 0; /* an error would propagate to the test */
    }
    while (weft_stream_line(&s, &line, &bytes) == 1 && bytes > 0) /* s_client may close earlier */
        ;
    ck_assert_int_eq(weft_tls_describe(&s, &info), 0);
    weft_stream_printf(&s, "version=%d resumed=%d\n", info.version, info.is_resumed);
    (void)weft_stream_close(&s);
    served++;
    return 0;
}

static int on_conn(int fd, void *ctx)
{
    weft_spin_options options = {.arg_bytes = sizeof fd};
    return weft_spin_with(service_conn_run, &fd, &options) != 0 ? 0 : -ENOMEM;
}

static weft_value service_run(void *arg)
{
    int rc = weft_accept_loop(service_listener, on_conn, NULL);
    return rc == -ECANCELED ? 0 : rc;
}

static void start_service(const char *alpn)
{
    endpoint p;
    make_local_cert();
    service_tls = weft_tls_server_new(&(weft_tls_options){
        .identity = {.cert_pem = local_cert, .key_pem = local_key}, .alpn = alpn});
    ck_assert_ptr_nonnull(service_tls);
    open_folder();
    create_peer_text("cert", local_cert);
    create_peer_text("key", local_key);
    service_listener = listen_tcp(&p, 512);
    peer_port = ntohs(p.u.in.sin_port);
    snprintf(service_address, sizeof service_address, "127.0.0.1:%d", peer_port);
    service_loop = weft_spin(service_run, NULL);
}

static void stop_service(void)
{
    ck_assert_int_eq(weft_stop(service_loop, 0), 0);
    weft_close(service_listener);
    weft_tls_free(service_tls);
    close_folder();
    free(local_cert);
    free(local_key);
    local_cert = local_key = NULL;
}

static void start_default_service(void)
{
    start_service(NULL);
}

FIXTURE(start_default_service, stop_service)

/* Run s_client with options and input. The output includes stderr. */
#define S_CLIENT(input, options)                                                             \
    run_command("printf '" input "' | timeout 15 openssl s_client -connect 127.0.0.1:$PORT " \
                "-servername localhost " options " 2>&1 || true")

TEST(s_client_resumes_a_session)
{
    ck_assert_has(S_CLIENT("GET /\\n\\n", "-tls1_2 -ign_eof -sess_out 2"), "version=12 resumed=0");
    ck_assert_has(S_CLIENT("GET /\\n\\n", "-tls1_2 -ign_eof -sess_in 2"), "Reused, TLSv1.",
                  "version=12 resumed=1");
    ck_assert_has(S_CLIENT("GET /\\n\\n", "-tls1_3 -ign_eof -sess_out 3"), "version=13 resumed=0");
    ck_assert_has(S_CLIENT("GET /\\n\\n", "-tls1_3 -ign_eof -sess_in 3"), "Reused, TLSv1.",
                  "version=13 resumed=1");
}

TEST(s_client_gets_an_alert_without_a_common_protocol)
{
    stop_service();
    start_service("h2");
    ck_assert_has(S_CLIENT("", "-alpn x,h2"), "ALPN protocol: h2");
    ck_assert_has(S_CLIENT("", "-alpn x"), "no application protocol");
}

TEST(old_versions_and_renegotiation_are_refused)
{
    ck_assert_has(S_CLIENT("", "-tls1_1 -cipher ALL@SECLEVEL=0"), "Cipher is (NONE)");
    ck_assert_has(S_CLIENT("R\\n", "-tls1_2"), "no renegotiation");
    ck_assert_has(S_CLIENT("GET /\\n\\n", "-ign_eof"), "version=13");
}

/* Connect, send bytes, and close. */
static void send_and_close(const char *data, size_t bytes)
{
    char byte;
    int fd = weft_dial("tcp", service_address);
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
    int silent = weft_dial("tcp", service_address); /* stays open and sends nothing */
    send_and_close("", 0);
    send_and_close("GET / HTTP/1.1\r\n\r\n", 18);
    send_and_close(hello, sizeof hello - 1);
    send_and_close(hello, 3);
    send_and_close((const char *)memset((char[3000]){0}, 0xa5, 3000), 3000);
    ck_assert_has(S_CLIENT("GET /\\n\\n", "-ign_eof -verify_return_error -CAfile cert"),
                  "version=13");
    ck_assert_uint_eq(refused, 5);
    ck_assert_uint_eq(served, 1);
    weft_close(silent);
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

TEST_LOOP(a_weft_client_fetches_from_s_server_and_resumes, 2)
{
    int version = 12 + _i;
    char address[32];
    char *cert = format("%s/cert", peer_folder);
    char *key = format("%s/key", peer_folder);
    char *flag = version == 12 ? "-tls1_2" : "-tls1_3";
    weft_process p = spawn_server(ARGV("openssl", "s_server", "-accept", "127.0.0.1:0", flag,
                                       "-cert", cert, "-key", key, "-www", "-max_send_frag", "512"),
                                  address, sizeof address);
    weft_tls *tls = weft_tls_client_new(&(weft_tls_options){.ca_file = cert});
    ck_assert_ptr_nonnull(tls);
    fetch_page(tls, address, version, false);
    fetch_page(tls, address, version, true);
    fetch_page(tls, address, version, true);
    stop_process(&p);
    weft_tls_free(tls);
}

/* Many clients that send their requests when all are connected. */
static weft_tls *clients_tls;
static weft_latch connecting;

static weft_value connect_and_wait(void *arg)
{
    weft_stream s;
    ck_assert_good(
        weft_tls_connect(&s, weft_dial("tcp", service_address), clients_tls, "localhost"));
    ck_assert_int_eq(weft_latch_done(&connecting), 0);
    ck_assert_int_eq(weft_latch_wait(&connecting), 0);
    weft_stream_puts(&s, "GET /\n\n");
    ck_assert_line(&s, "version=13 resumed=0");
    return weft_stream_close(&s);
}

TEST(a_hundred_connections_are_open_at_once)
{
    enum { CLIENTS = 100 };
    weft_fiber clients[CLIENTS];
    raise_descriptor_limit(2 * CLIENTS + 100);
    clients_tls = weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert});
    weft_latch_add(&connecting, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = weft_spin(connect_and_wait, NULL);
    await_each_as(clients, CLIENTS, 0);
    while (served < CLIENTS)
        weft_snooze();
    weft_tls_free(clients_tls);
}
