/*
 * The n-th call fails, as in test_fault.c, for the web client: whoever is told of an error has no
 * fetch to close, nothing is left open, and the same client serves the next request.
 */
#include "fault_web.h"

static const char *url_of(const char *path)
{
    static char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", fault_web.port, path);
    return url;
}

/* The body is "hello", or a fault was told; closed in any case. */
static bool finish(int status, weft_fetch *f)
{
    if (!REQUIRE_FELT(status)) {
        weft_fetch_close(f);
        return false;
    }
    char *text;
    ssize_t n = weft_fetch_read_all(f, &text);
    bool is_good = REQUIRE_FELT(n);
    if (is_good)
        REQUIRE(status == 200 && n == 5 && strcmp(text, "hello") == 0);
    weft_fetch_close(f);
    return is_good;
}

static bool get(weft_fetcher *fetcher, const char *path)
{
    weft_fetch *f;
    int status = weft_fetch_get(fetcher, url_of(path), &f);
    REQUIRE(status > 0 || f == NULL);
    return finish(status, f);
}

static bool post(weft_fetcher *fetcher)
{
    weft_fetch *f;
    int status = weft_fetch_post(fetcher, url_of("/"), "text/plain", "the end", 7, &f);
    REQUIRE(status > 0 || f == NULL);
    return finish(status, f);
}

static bool stream(weft_fetcher *fetcher)
{
    const weft_fetch_field field = {"X-Mine", "1"};
    const weft_fetch_request r = {.url = url_of("/"), .fields = &field, .fields_count = 1};
    weft_fetch *f;
    int rc = weft_fetch_open(fetcher, &r, -1, &f);
    if (!REQUIRE_FELT(rc))
        return false;
    REQUIRE_FELT(weft_fetch_write(f, "some", 4));
    return finish(weft_fetch_wait(f), f);
}

static bool fetching(void)
{
    if (!become_a_cord())
        return false;
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    if (fetcher == NULL) {
        REQUIRE(atomic_load(&fault.struck) > 0);
        weft_error_clear();
        return false;
    }
    bool is_done = get(fetcher, "/");
    is_done &= get(fetcher, "/go");
    is_done &= get(fetcher, "/zipped");
    is_done &= post(fetcher);
    is_done &= stream(fetcher);
    is_done &= get(fetcher, "/");
    REQUIRE(weft_fetcher_free(fetcher) == 0);
    weft_error_clear();
    return is_done;
}

START_TEST(a_fetch_that_failed_leaves_nothing_and_the_next_succeeds)
{
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
    start_web(&fault_web);
    strike_some_calls(fetching, 1);
    stop_web(&fault_web);
}
END_TEST

START_TEST(a_fetch_by_a_proxy_that_failed_leaves_nothing)
{
    char proxy[64];
    start_web(&fault_web);
    snprintf(proxy, sizeof proxy, "user:pw@127.0.0.1:%d", fault_web.port);
    setenv("http_proxy", proxy, 1);
    setenv("no_proxy", "nowhere.test", 1);
    strike_some_calls(fetching, 1);
    stop_web(&fault_web);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_fetch_that_failed_leaves_nothing_and_the_next_succeeds,
        &a_fetch_by_a_proxy_that_failed_leaves_nothing,
    };
    return run_suite("fault_fetch", tests, COUNT_OF(tests));
}
