/* The callback trace of a client, and the properties of a fetch that the callback can read. */
#include "http/fetch_support.h"
#include "support/suite.h"
#include "support/tls_support.h"

FIXTURE(open_hello, close_site)

static char steps[4096]; /* a line for each step */

static void note_step(weft_fetch *f, weft_fetch_event event, const char *text, void *ctx)
{
    static const char *const names[] = {"connected", "reused", "request", "response"};
    size_t bytes = strlen(steps);
    const char *location = weft_fetch_header(f, "Location");
    ck_assert_str_eq(ctx, "context");
    snprintf(steps + bytes, sizeof steps - bytes, "%s %.*s %d %d %s\n", names[event],
             (int)strcspn(text, ":\r"), text, weft_fetch_status(f), weft_fetch_version(f),
             location != NULL ? location : "-");
}

static void open_traced(const script_step *script, size_t count)
{
    open_site(script, count);
    use_fetcher((weft_fetcher_options){.trace = note_step, .trace_ctx = "context"});
    steps[0] = '\0';
}

TEST(each_step_of_a_fetch_is_reported)
{
    open_traced(STEPS({.reply = "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 1\r\n\r\nx"},
                      {.reply = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"}));
    ck_assert_fetch(fetcher, url_of(&site, "/a"), "hello");
    ck_assert_str_eq(steps, "connected 127.0.0.1 0 0 -\n"
                            "request GET /a HTTP/1.1 0 0 -\n"
                            "response  302 11 /b\n"
                            "reused 127.0.0.1 0 0 -\n"
                            "request GET /b HTTP/1.1 0 0 -\n"
                            "response  200 10 -\n");
}

TEST(a_failed_connection_has_no_step)
{
    open_traced(hello, 1);
    ck_assert_int_eq(weft_fetch_get(fetcher, "http://127.0.0.1:1/", &fetch), -ECONNREFUSED);
    ck_assert_str_eq(steps, "");
}

TEST(a_fetch_has_a_tls_stream_while_it_has_a_connection)
{
    make_local_cert();
    weft_tls *server = weft_tls_server_new(
        &(weft_tls_options){.identity = {.cert_pem = local_cert, .key_pem = local_key}});
    weft_tls *client = weft_tls_client_new(&(weft_tls_options){.ca_pem = local_cert});
    open_site(hello, 1);
    site.tls = server;
    use_fetcher((weft_fetcher_options){.tls = client});
    char url[64], *text;
    weft_tls_info info;
    snprintf(url, sizeof url, "https://localhost:%d/", site.port);
    ck_assert_int_eq(weft_fetch_get(fetcher, url, &fetch), 200);
    ck_assert_int_eq(weft_tls_describe(weft_fetch_tls(fetch), &info), 0);
    ck_assert_int_eq(info.version, 13);
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), 5);
    ck_assert_ptr_null(weft_fetch_tls(fetch));
    site.tls = NULL;
    ck_assert_int_eq(get("/"), 200);
    ck_assert_ptr_null(weft_fetch_tls(fetch));
    close_site();
    weft_tls_free(server);
    weft_tls_free(client);
}
