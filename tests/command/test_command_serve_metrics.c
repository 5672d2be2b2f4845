/* The command `weft serve --metrics`, with curl as the client. */
#include "command/serve_support.h"
#include "http/metrics_support.h"
#include "support/suite.h"

#include <sys/socket.h>

FIXTURE(create_folder, end_serving)

/* The URL of the page, as the server prints it. */
static char metrics_url[160];

/* Start the server, and read the URL of its page. */
#define SERVE_METRICS(...)                                  \
    do {                                                    \
        SERVE_SITE("--metrics=127.0.0.1:0", ##__VA_ARGS__); \
        read_metrics_url();                                 \
    } while (0)

static void read_metrics_url(void)
{
    char line[512];
    do
        ck_assert_int_gt(weft_stream_gets(&server.out, line, sizeof line), 0);
    while (strstr(line, " -> metrics") == NULL);
    ck_assert_int_eq(sscanf(line, "%159[^ ]", metrics_url), 1);
}

static double value_of(const char *series)
{
    return metric_of(curl(ARGV(metrics_url)), series);
}

/* Wait until a series of the page has a value. */
static void await_value(const char *series, double value)
{
    while (value_of(series) != value)
        weft_sleep(0.001);
}

TEST(metrics_are_served_at_their_own_address_and_follow_the_format)
{
    SERVE_METRICS();
    ck_assert_ptr_nonnull(strstr(metrics_url, "http://127.0.0.1:"));
    ck_assert_ptr_nonnull(strstr(metrics_url, "/metrics"));
    assert_metrics(curl(ARGV(metrics_url)), false);
    assert_metrics(curl(ARGV("-H", "Accept: application/openmetrics-text", metrics_url)), true);
    const char *head = curl(ARGV("-I", metrics_url));
    ck_assert_ptr_nonnull(strstr(head, "200 OK"));
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of("/metrics"))),
                     "404"); /* not a page of the site */
}

TEST(without_the_option_there_is_no_page_of_metrics)
{
    start_serving(ARGV(folder_path("site")));
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of("/metrics"))),
                     "404");
}

#define REQUESTS 20

TEST(requests_of_all_cords_are_counted)
{
    SERVE_METRICS("--cords=2");
    await_value("weft_cords", 3); /* the main thread serves the page */
    for (int i = 0; i < REQUESTS; i++)
        ck_assert_page("the site\n");
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of("/none"))), "404");
    await_value("weft_http_replies_total{class=\"4xx\"}", 1);
    /* Each page counts itself after its reply. */
    double pages = value_of("weft_http_replies_total{class=\"2xx\"}") - REQUESTS;
    ck_assert_double_gt(pages, 0);
    double requests = value_of("weft_http_requests_total{protocol=\"http/1\"}");
    ck_assert_double_ge(requests, REQUESTS + 1 + pages);
    ck_assert_double_gt(value_of("weft_http_reply_body_bytes_total"), REQUESTS * 9);
}

TEST(http_2_and_tls_handshakes_are_counted)
{
    SERVE_METRICS("--self-signed");
    ck_assert_page("the site\n", "-k", "--http2");
    ck_assert_page(""); /* curl does not trust the certificate, and ends the handshake */
    await_value("weft_http_tls_handshakes_total{result=\"failed\"}", 1);
    await_value("weft_http_tls_handshakes_total{result=\"ok\"}", 1);
    await_value("weft_http_requests_total{protocol=\"http/2\"}", 1);
}

TEST(resting_and_refused_connections_are_counted)
{
    SERVE_METRICS("--cords=1", "--max-connections=1");
    int fd = dial_server();
    ck_assert_int_ge(fd, 0);
    await_value("weft_http_connections_resting", 1);           /* after a second */
    ck_assert_double_eq(value_of("weft_http_connections"), 2); /* and that of the page */
    ck_assert_str_eq(curl(ARGV("-o", "/dev/null", "-w", "%{http_code}", url_of("/"))), "503");
    await_value("weft_http_connections_refused_total", 1);
    weft_close(fd);
    await_value("weft_http_connections_resting", 0);
}

/* Each value of --metrics that is not an address is the folder. */
TEST(the_address_is_optional)
{
    expect_failure(2, "--metrics", ARGV("--metrics=nowhere", folder_path("site")));
    expect_failure(2, "more than one directory",
                   ARGV("--metrics", folder_path("site"), folder_path("other")));
}

TEST(an_address_in_use_is_reported)
{
    SERVE_METRICS();
    char address[64];
    snprintf(address, sizeof address, "--metrics=127.0.0.1:%d",
             atoi(strrchr(metrics_url, ':') + 1));
    expect_failure(1, "Address already in use",
                   ARGV("--listen=127.0.0.1:0", address, folder_path("site")));
}

TEST(a_unix_socket_of_metrics_is_removed_at_the_end)
{
    char socket[160], option[200];
    snprintf(socket, sizeof socket, "%s", folder_path("metrics.sock"));
    snprintf(option, sizeof option, "--metrics=%s", socket);
    SERVE_SITE(option);
    expect_line_with(&server.out, " -> metrics");
    assert_metrics(curl(ARGV("--unix-socket", socket, "http://a/metrics")), false);
    stop_serving();
    server.process.pid = 0;
    ck_assert_int_lt(access(socket, F_OK), 0);
}

TEST(the_page_does_not_delay_the_end)
{
    SERVE_METRICS();
    int fd = weft_dial("tcp", strstr(server.origin, "://") + 3);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%d", atoi(strrchr(metrics_url, ':') + 1));
    int idle = weft_dial("tcp", address);
    ck_assert_int_ge(idle, 0);
    stop_serving();
    server.process.pid = 0;
    weft_close(fd);
    weft_close(idle);
}
