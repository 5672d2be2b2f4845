/*
 * HTTP/2 of the client with faults: the n-th call fails, as in test_fault.c. A failed call returns
 * no fetch, nothing is leaked, and the same fetcher performs the next request.
 */
#include "support/fault.h"

#include "http/client/fetch_h2_support.h"

#include <sys/prctl.h>

/* Redirect, or send the body back, or say hello. */
static int serve_all(h2_exchange *x)
{
    const nghttp2_nv go[] = {h2_nv(":status", "302"), h2_nv("location", "/")};
    const nghttp2_nv trailer = h2_nv("x-end", "1");
    if (h2_path_is(x, "/go"))
        return weft__h2_stream_reply(&x->st, go, 2, "gone", 4);
    if (strstr(x->fields, ":method: POST\n") != NULL)
        return h2_echo(x);
    int rc = weft__h2_stream_head(&x->st, H2_OK, false);
    if (rc == 0)
        rc = weft__h2_stream_write(&x->st, "hello", 5) == 5 ? 0 : -EIO;
    return rc < 0 ? rc : weft__h2_stream_end_with(&x->st, &trailer, 1);
}

static pid_t server_pid;
static int server_port;

/* Run the server in a process of its own, which no fault affects. */
static void start_h2_server(void)
{
    int port[2];
    ck_assert_int_eq(pipe(port), 0);
    server_pid = fork();
    ck_assert_int_ge(server_pid, 0);
    if (server_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        h2_set_up();
        h2_site_open(serve_all);
        _exit(write(port[1], &h2.port, sizeof h2.port) < 0 || weft_await(h2.fiber) < 0);
    }
    ck_assert_int_eq(read(port[0], &server_port, sizeof server_port), sizeof server_port);
    close(port[0]);
    close(port[1]);
}

static char url[64];

/* Require the body "hello", or the error of a fault. Close the fetch. */
static bool finish_h2_fetch(int status, weft_fetch *f)
{
    char *text;
    if (!REQUIRE_OR_PEER_FAULT(status)) {
        weft_fetch_close(f);
        return false;
    }
    ssize_t n = weft_fetch_read_all(f, &text);
    bool is_good = REQUIRE_OR_PEER_FAULT(n);
    if (is_good)
        REQUIRE(status == 200 && n == 5 && strcmp(text, "hello") == 0 &&
                weft_fetch_version(f) == 20);
    weft_fetch_close(f);
    return is_good;
}

static bool get_h2(weft_fetcher *own, const char *path)
{
    weft_fetch *f;
    int status = weft_fetch_get(own, format("%s%s", url, path), &f);
    REQUIRE(status > 0 || f == NULL);
    return finish_h2_fetch(status, f);
}

static bool post_h2(weft_fetcher *own)
{
    weft_fetch *f;
    int status = weft_fetch_post(own, url, "text/plain", "hello", 5, &f);
    REQUIRE(status > 0 || f == NULL);
    return finish_h2_fetch(status, f);
}

static bool stream_h2(weft_fetcher *own)
{
    const weft_fetch_field field = {"X-Mine", "1"};
    const weft_fetch_request r = {
        .url = url, .method = "POST", .fields = &field, .fields_count = 1};
    weft_fetch *f;
    int rc = weft_fetch_open(own, &r, -1, &f);
    if (!REQUIRE_OR_PEER_FAULT(rc))
        return false;
    REQUIRE_OR_PEER_FAULT(weft_fetch_write(f, "hello", 5));
    return finish_h2_fetch(weft_fetch_wait(f), f);
}

static weft_value get_in_fiber(void *arg)
{
    return get_h2(arg, "/") ? 1 : 0;
}

/* Three fetches at once share a connection. */
static bool get_many(weft_fetcher *own)
{
    bool is_done = true;
    weft_fiber f[3];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = require_created(weft_spin(get_in_fiber, own));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        is_done &= f[i] != 0 && weft_await(f[i]) == 1;
    return is_done;
}

SCENARIO(fetch_h2)
{
    weft_fetcher *own = weft_fetcher_new(&(weft_fetcher_options){.has_prior_knowledge = true});
    if (!require_object(own))
        return false;
    bool is_done = get_many(own);
    is_done &= get_h2(own, "/go");
    is_done &= post_h2(own);
    is_done &= stream_h2(own);
    REQUIRE(weft_fetcher_free(own) == 0);
    return is_done;
}

TEST(a_failed_fetch_over_http2_leaks_nothing_and_the_next_succeeds)
{
    start_h2_server();
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server_port);
    fail_some_calls(fetch_h2, 1);
    kill(server_pid, SIGKILL);
    ck_assert_int_eq(waitpid(server_pid, NULL, 0), server_pid);
}
