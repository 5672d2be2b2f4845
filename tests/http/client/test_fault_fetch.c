/*
 * The HTTP client with faults: the n-th call fails, as in test_fault.c. A failed call returns no
 * fetch, nothing is leaked, and the same fetcher performs the next request.
 */
#include "http/fault_web.h"
#include "support/suite.h"

#include <weft/web.h>

static const char *url_of(const char *path)
{
    return format("http://127.0.0.1:%d%s", canned.port, path);
}

/* Require the body "hello", or the error of a fault. Close the fetch. */
static bool finish_fetch(int status, weft_fetch *f)
{
    if (!REQUIRE_OR_PEER_FAULT(status)) {
        weft_fetch_close(f);
        return false;
    }
    char *text;
    ssize_t n = weft_fetch_read_all(f, &text);
    bool is_good = REQUIRE_OR_PEER_FAULT(n);
    if (is_good)
        REQUIRE(status == 200 && n == 5 && strcmp(text, "hello") == 0);
    weft_fetch_close(f);
    return is_good;
}

static bool fetch_get(weft_fetcher *fetcher, const char *path)
{
    weft_fetch *f;
    int status = weft_fetch_get(fetcher, url_of(path), &f);
    REQUIRE(status > 0 || f == NULL);
    return finish_fetch(status, f);
}

static bool fetch_post(weft_fetcher *fetcher)
{
    weft_fetch *f;
    int status = weft_fetch_post(fetcher, url_of("/"), "text/plain", "the end", 7, &f);
    REQUIRE(status > 0 || f == NULL);
    return finish_fetch(status, f);
}

static bool fetch_streamed(weft_fetcher *fetcher)
{
    const weft_fetch_field field = {"X-Mine", "1"};
    const weft_fetch_request r = {.url = url_of("/"), .fields = &field, .fields_count = 1};
    weft_fetch *f;
    int rc = weft_fetch_open(fetcher, &r, -1, &f);
    if (!REQUIRE_OR_PEER_FAULT(rc))
        return false;
    REQUIRE_OR_PEER_FAULT(weft_fetch_write(f, "some", 4));
    return finish_fetch(weft_fetch_wait(f), f);
}

SCENARIO(fetch_all)
{
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    if (!require_object(fetcher))
        return false;
    bool is_done = fetch_get(fetcher, "/");
    is_done &= fetch_get(fetcher, "/go");
    is_done &= fetch_get(fetcher, "/zipped");
    is_done &= fetch_post(fetcher);
    is_done &= fetch_streamed(fetcher);
    is_done &= fetch_get(fetcher, "/");
    REQUIRE(weft_fetcher_free(fetcher) == 0);
    return is_done;
}

TEST(a_failed_fetch_leaks_nothing_and_the_next_succeeds)
{
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    unsetenv("ALL_PROXY");
    start_canned_server(&canned);
    fail_some_calls(fetch_all, 1);
    stop_canned_server(&canned);
}

TEST(a_failed_fetch_through_a_proxy_leaks_nothing)
{
    start_canned_server(&canned);
    setenv("http_proxy", format("user:pw@127.0.0.1:%d", canned.port), 1);
    setenv("no_proxy", "nowhere.test", 1);
    fail_some_calls(fetch_all, 1);
    stop_canned_server(&canned);
}
