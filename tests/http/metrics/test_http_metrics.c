/* Metrics: the counters of servers, and the page for monitoring systems. */
#include "http/http_support.h"
#include "http/metrics_support.h"
#include "support/cord_support.h"
#include "support/result_support.h"
#include "support/suite.h"

#include <locale.h>
#include <stdatomic.h>
#include <time.h>

FIXTURE(NULL, end_test)

static weft_http_counters http_counters(void)
{
    weft_http_counters now;
    ck_assert_int_eq(weft_http_stats(&now), 0);
    return now;
}

static uint64_t replies_of(const weft_http_counters *c)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < WEFT_HTTP_CLASSES; i++)
        sum += c->replies[i];
    return sum;
}

/* Read the body, and reply with as many bytes as the query says. */
static int echo_bytes(weft_http_request *r, void *ctx)
{
    char *body;
    if (weft_http_read_all(r, &body) < 0)
        return -EBADMSG;
    size_t bytes = (size_t)atoi(weft_http_query(r));
    char *reply = weft_http_alloc(r, bytes + 1);
    memset(reply, 'x', bytes);
    return weft_http_reply(r, 200, "text/plain", reply, bytes);
}

#define REQUESTS 100
#define BYTES_IN 7
#define BYTES_OUT 1000

TEST(requests_replies_and_bytes_of_a_known_workload_are_counted)
{
    weft_http_counters before = http_counters();
    client_open(&client, echo_bytes, NULL, NULL);
    for (int i = 0; i < REQUESTS; i++) {
        client.received_bytes = 0;
        client_send(&client, "POST /?1000 HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\n1234567");
        while (client.received_bytes < BYTES_OUT || !strstr(client.received, "\r\n\r\nx") ||
               strlen(body_of(client.received)) < BYTES_OUT)
            ck_assert_int_gt(client_receive_some(&client), 0);
    }
    ck_assert_uint_eq(http_counters().connections, before.connections + 1);
    end_client();
    weft_http_counters after = http_counters();
    uint64_t requests =
        after.requests_http1 + after.requests_http2 - before.requests_http1 - before.requests_http2;
    ck_assert_uint_eq(requests, REQUESTS);
    ck_assert_uint_eq(is_over_http2() ? after.requests_http2 : after.requests_http1, REQUESTS);
    ck_assert_uint_eq(after.replies[2] - before.replies[2], REQUESTS);
    ck_assert_uint_eq(after.bytes_in - before.bytes_in, REQUESTS * BYTES_IN);
    ck_assert_uint_eq(after.bytes_out - before.bytes_out, REQUESTS * BYTES_OUT);
    ck_assert_uint_eq(after.requests_pending, 0);
    ck_assert_uint_eq(after.connections, before.connections);
    ck_assert_uint_eq(after.connections_accepted - before.connections_accepted, 1);
    uint64_t durations = weft_histogram_count(&after.duration);
    ck_assert_uint_le(durations, REQUESTS);
    ck_assert_uint_gt(durations + 16, REQUESTS);
    ck_assert_uint_gt(after.duration.sum_ns, 0);
}

static void ignore_record(const weft_http_record *record, void *ctx)
{
    (void)record;
    (void)ctx;
}

static int reply_ok(weft_http_request *r, void *ctx)
{
    return weft_http_reply_text(r, 200, "ok\n");
}

TEST(with_a_log_each_duration_is_measured)
{
    const weft_http_options options = {.log = ignore_record};
    client_open(&client, reply_ok, NULL, &options);
    for (int i = 0; i < REQUESTS; i++) {
        client.received_bytes = 0;
        client.received[0] = '\0';
        client_send(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect(&client, "ok\n");
    }
    end_client();
    weft_http_counters c = http_counters();
    ck_assert_uint_eq(weft_histogram_count(&c.duration), REQUESTS);
}

static int reply_status_of_query(weft_http_request *r, void *ctx)
{
    return weft_http_reply_status(r, atoi(weft_http_query(r)));
}

TEST(replies_are_counted_by_the_class_of_the_status)
{
    static const int statuses[] = {200, 204, 301, 404, 404, 404, 500, 503};
    for (size_t i = 0; i < COUNT_OF(statuses); i++)
        client_exchange(&client, reply_status_of_query, NULL, NULL,
                        format("GET /?%d HTTP/1.1\r\nHost: a\r\n\r\n", statuses[i]));
    weft_http_counters c = http_counters();
    ck_assert_uint_eq(c.replies[2], 2);
    ck_assert_uint_eq(c.replies[3], 1);
    ck_assert_uint_eq(c.replies[4], 3);
    ck_assert_uint_eq(c.replies[5], 2);
    ck_assert_uint_eq(c.replies[0] + c.replies[1] + c.rejected + c.aborted, 0);
}

TEST(rejected_requests_are_requests_with_a_reply)
{
    ONLY_HTTP_1;
    ck_assert_int_eq(status_of(client_exchange(&client, reply_ok, NULL, NULL, "bad\r\n\r\n")), 400);
    client_exchange(&client, reply_ok, NULL, NULL, "GET /%2 HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 400);
    weft_http_counters c = http_counters();
    ck_assert_uint_eq(c.requests_http1, 2);
    ck_assert_uint_eq(c.rejected, 2);
    ck_assert_uint_eq(c.replies[4], 2);
    ck_assert_uint_eq(c.requests_pending, 0);
    ck_assert_uint_eq(weft_histogram_count(&c.duration), 0);
}

static int fail_after_a_part(weft_http_request *r, void *ctx)
{
    weft_http_begin(r, 200, 100);
    weft_http_write(r, "part", 4);
    weft_http_flush(r);
    return -EIO;
}

TEST(an_incomplete_reply_is_counted_as_aborted)
{
    client_exchange(&client, fail_after_a_part, NULL, NULL, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    weft_http_counters c = http_counters();
    ck_assert_uint_eq(c.aborted, 1);
    ck_assert_uint_eq(c.replies[2], 1);
}

static int switch_protocols(weft_http_request *r, void *ctx)
{
    weft_stream *stream;
    return weft_http_upgrade(r, "echo", &stream);
}

TEST(an_upgrade_is_counted_and_has_no_duration)
{
    ONLY_HTTP_1;
    client_exchange(&client, switch_protocols, NULL, NULL,
                    "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    ck_assert_int_eq(status_of(client.received), 101);
    weft_http_counters c = http_counters();
    ck_assert_uint_eq(c.upgrades, 1);
    ck_assert_uint_eq(c.requests_pending, 0);
    ck_assert_uint_eq(weft_histogram_count(&c.duration), 0);
}

/* The events of a handler that waits. */
typedef struct handler_wait {
    weft_event entered, may_return;
} handler_wait;

static int wait_in_handler(weft_http_request *r, void *ctx)
{
    handler_wait *wait = ctx;
    weft_event_set(&wait->entered);
    return weft_event_wait(&wait->may_return) < 0 ? -ECANCELED : weft_http_reply_status(r, 200);
}

TEST(a_request_is_pending_while_its_handler_runs)
{
    handler_wait wait = {0};
    client_open(&client, wait_in_handler, &wait, NULL);
    client_send(&client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    ck_assert_int_eq(weft_event_wait(&wait.entered), 0);
    ck_assert_uint_eq(http_counters().requests_pending, 1);
    weft_event_set(&wait.may_return);
    client_expect(&client, "200 OK");
    end_client();
    ck_assert_uint_eq(http_counters().requests_pending, 0);
}

/* Get the page. */
static const char *get_page(const char *method, const char *fields)
{
    return client_exchange(&client, weft_http_metrics, NULL, NULL,
                           format("%s /metrics HTTP/1.1\r\nHost: a\r\n%s\r\n", method, fields));
}

TEST(the_page_follows_the_format_of_prometheus)
{
    const char *page = get_page("GET", "");
    ck_assert_int_eq(status_of(page), 200);
    ck_assert_ptr_nonnull(strcasestr(page, "\r\nContent-Type: text/plain; version=0.0.4"));
    ck_assert_ptr_nonnull(strcasestr(page, "\r\nCache-Control: no-store\r\n"));
    assert_metrics(body_of(page), false);
}

TEST(the_page_follows_the_format_of_openmetrics_if_the_client_accepts_it)
{
    const char *page =
        get_page("GET", "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n");
    ck_assert_ptr_nonnull(strcasestr(page, "\r\nContent-Type: application/openmetrics-text;"));
    assert_metrics(body_of(page), true);
}

TEST(head_has_the_length_of_the_page_and_no_body)
{
    const char *page = get_page("HEAD", "");
    ck_assert_int_eq(status_of(page), 200);
    ck_assert_str_eq(body_of(page), "");
    ck_assert_int_gt(atoi(strcasestr(page, "\r\nContent-Length: ") + 18), 5000);
}

TEST(other_methods_are_not_allowed)
{
    const char *page = get_page("DELETE", "");
    ck_assert_int_eq(status_of(page), 405);
    ck_assert_ptr_nonnull(strcasestr(page, "\r\nAllow: GET, HEAD\r\n"));
}

TEST(the_page_shows_the_counters_of_the_process)
{
    const char *body = body_of(get_page("GET", ""));
    weft_counters total;
    ck_assert_int_eq(weft_stats_total(&total), 0);
    ck_assert_double_eq(metric_of(body, "weft_cords"), 1);
    ck_assert_double_gt(metric_of(body, "weft_switches_total"), 0);
    ck_assert_double_le(metric_of(body, "weft_switches_total"), (double)total.switches);
    ck_assert_double_eq(metric_of(body, "weft_fibers_spun_total"), (double)total.fibers_spun);
    ck_assert_double_ge(metric_of(body, "weft_cord_fibers{cord=\"0\"}"), 1);
    ck_assert_double_eq(metric_of(body, "weft_http_connections"), 1);
    ck_assert_double_eq(metric_of(body, "weft_http_requests_pending"), 1); /* this request */
    ck_assert_double_gt(metric_of(body, "process_start_time_seconds"), 1e9);
    ck_assert_double_le(metric_of(body, "process_start_time_seconds"), (double)time(NULL) + 1);
    ck_assert_double_gt(metric_of(body, "process_resident_memory_bytes"), 1e5);
}

/* The numbers need a point, whatever the locale of the program is. */
TEST(the_page_does_not_depend_on_the_locale)
{
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL)
        return;
    assert_metrics(body_of(get_page("GET", "")), false);
}

/* promtool is a part of the package prometheus. */
TEST(promtool_accepts_the_page)
{
    if (system("command -v promtool >/dev/null") != 0)
        return;
    const char *body = body_of(get_page("GET", ""));
    FILE *promtool = popen("promtool check metrics", "w");
    ck_assert_ptr_nonnull(promtool);
    fputs(body, promtool);
    ck_assert_int_eq(pclose(promtool), 0);
}

static int fill_http_stats(void *out, size_t size)
{
    return weft__http_stats(out, size);
}

TEST(counters_for_programs_with_older_and_newer_headers_have_their_size)
{
    assert_result_is_sized(sizeof(weft_http_counters), fill_http_stats);
}

static void assert_not_decreased(const weft_http_counters *before, const weft_http_counters *after)
{
    ck_assert_uint_ge(after->connections_accepted, before->connections_accepted);
    ck_assert_uint_ge(after->requests_http1, before->requests_http1);
    ck_assert_uint_ge(replies_of(after), replies_of(before));
    ck_assert_uint_ge(after->bytes_out, before->bytes_out);
    for (size_t i = 0; i < WEFT_HISTOGRAM_BUCKETS; i++)
        ck_assert_uint_ge(after->duration.buckets[i], before->duration.buckets[i]);
    ck_assert_uint_le(replies_of(after), after->requests_http1 + after->requests_http2);
}

#define CORDS 3
#define ROUNDS (IS_SLOW ? 20 : 100)

/* Serve pages in a cord, through socket pairs. */
static weft_value serve_pages(void *done)
{
    test_client *own = calloc(1, sizeof *own);
    int failures = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int fd[2];
        failures += weft_socketpair(fd) < 0;
        *own = (test_client){.fd = fd[0], .server_fd = fd[1], .handler = weft_http_metrics};
        own->fiber = weft_spin(serve_conn_fiber, own);
        static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        failures += weft_write_all(fd[0], request, sizeof request - 1) < 0;
        while (client_receive_some(own) > 0)
            ;
        failures += strstr(own->received, "weft_http_request_duration_seconds_count ") == NULL;
        weft_close(fd[0]);
        failures += weft_await(own->fiber) < 0;
    }
    free(own);
    atomic_fetch_add((atomic_int *)done, 1);
    return failures;
}

TEST(pages_of_many_cords_are_whole_and_counters_never_decrease)
{
    ONLY_HTTP_1;
    atomic_int done = 0;
    weft_cord cords[CORDS];
    weft_http_counters before = http_counters(), last = before;
    for (int i = 0; i < CORDS; i++)
        cords[i] = start_cord(serve_pages, &done);
    while (atomic_load(&done) < CORDS) {
        weft_http_counters now = http_counters();
        assert_not_decreased(&last, &now);
        last = now;
        sched_yield();
    }
    for (int i = 0; i < CORDS; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    weft_http_counters after = http_counters();
    ck_assert_uint_eq(after.requests_http1 - before.requests_http1, CORDS * ROUNDS);
    ck_assert_uint_eq(after.replies[2] - before.replies[2], CORDS * ROUNDS);
    ck_assert_uint_eq(after.connections, before.connections);
}
