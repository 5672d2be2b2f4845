/* The connections of the HTTP client: reuse, limits, repeated requests, threads, and fork. */
#include "http/fetch_support.h"
#include "support/suite.h"

FIXTURE(open_hello, close_site)

static const script_step held[] = {{.reply = OK("held", "4"), .is_held = true}};

TEST(a_connection_is_reused_for_sequential_requests)
{
    for (int i = 0; i < 5; i++)
        assert_page("/", "hello");
    ck_assert_uint_eq(site.conns, 1);
    ck_assert_uint_eq(site.requests, 5);
    use_fetcher((weft_fetcher_options){0}); /* closes the connections of the first */
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
}

/* Reply with the id of the fiber that serves this connection. */
static bool reply_fiber_id(script_server *sv, weft_stream *s)
{
    char id[32];
    int n = snprintf(id, sizeof id, "%llu", (unsigned long long)weft_self());
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nX-Who: %s\r\nContent-Length: %d\r\n\r\n%s", id, n,
                       id);
    return weft_stream_flush(s) == 0;
}

TEST(the_most_recently_used_connection_is_reused_first)
{
    open_site(STEPS({.handle = reply_fiber_id}));
    for (int i = 0; i < 2; i++) {
        weft_fetch *f[2];
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&site, "/"), &f[k]), 200);
        const char *last = format("%s", weft_fetch_header(f[i], "X-Who"));
        weft_fetch_close(f[!i]);
        weft_fetch_close(f[i]);
        for (int k = 0; k < 3; k++)
            assert_page("/", last);
    }
    ck_assert_uint_eq(site.conns, 2);
}

TEST(at_most_idle_max_connections_stay_open)
{
    use_fetcher((weft_fetcher_options){.idle_max = 1});
    weft_fetch *a, *b;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&site, "/a"), &a), 200);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&site, "/b"), &b), 200);
    weft_fetch_close(a);
    let_run();
    ck_assert_uint_eq(site.open_conns, 2);
    weft_fetch_close(b); /* exceeds idle_max, so the older connection is closed */
    let_run();
    ck_assert_uint_eq(site.open_conns, 1);
    assert_page("/", "hello");
    ck_assert_uint_eq(site.conns, 2);
}

TEST(origins_do_not_share_connections)
{
    start_server(&other, hello, 1);
    for (int i = 0; i < 3; i++) {
        assert_page("/", "hello");
        ck_assert_fetch(fetcher, url_of(&other, "/"), "hello");
    }
    ck_assert_uint_eq(site.conns, 1);
    ck_assert_uint_eq(other.conns, 1);
}

TEST(an_idle_connection_that_the_server_has_closed_is_not_used)
{
    open_site(STEPS({.reply = OK("bye", "3"), .closes = true}, {.reply = OK("new", "3")}));
    assert_page("/", "bye");
    let_run(); /* until the close has arrived */
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&site, "/"), NULL, "x", 1, &fetch), 200);
    close_fetch();
    ck_assert_uint_eq(site.requests, 2);
    ck_assert_uint_eq(site.conns, 2);
}

/* The server closes the connection on the second request without a reply. */
static const script_step closes_second[] = {
    {.reply = OK("one", "3")}, {.reply = NULL, .closes = true}, {.reply = OK("two", "3")}};

/* Send a request on a connection that has served one request. Return the status or the error. */
static int send_second(const char *method, const char *body)
{
    assert_page("/", "one");
    return send_request((weft_fetch_request){.method = method,
                                             .url = url_of(&site, "/again"),
                                             .body = body,
                                             .body_bytes = body != NULL ? strlen(body) : 0});
}

static void assert_repeated(const char *method)
{
    bool has_body = strcmp(method, "PUT") == 0;
    open_site(closes_second, COUNT_OF(closes_second));
    ck_assert_int_eq(send_second(method, has_body ? "body" : NULL), 200);
    ck_assert_uint_eq(site.conns, 2);
    ck_assert_uint_eq(count_in(site.received, "/again HTTP/1.1"), 2);
    ck_assert_uint_eq(count_in(site.received, "body"), has_body ? 2 : 0);
}

static void assert_not_repeated(const char *method)
{
    open_site(closes_second, COUNT_OF(closes_second));
    ck_assert_int_eq(send_second(method, NULL), -ECONNRESET);
    ck_assert_uint_eq(site.requests, 2);
}

TEST(only_an_idempotent_request_is_repeated_on_a_new_connection)
{
    EACH_TEXT(assert_repeated, "GET", "HEAD", "PUT", "DELETE", "OPTIONS");
    EACH_TEXT(assert_not_repeated, "POST", "PATCH", "BREW");
}

TEST(a_request_is_not_repeated_after_its_response_has_begun)
{
    open_site(STEPS({.reply = OK("one", "3")}, {.reply = "HTTP/1.1 2", .closes = true}));
    ck_assert_int_eq(send_second("GET", NULL), -ECONNRESET);
    ck_assert_uint_eq(site.requests, 2);
}

TEST(a_request_is_repeated_only_once)
{
    open_site(STEPS({.reply = OK("one", "3")}, {.closes = true}));
    ck_assert_int_eq(send_second("GET", NULL), -ECONNRESET);
    ck_assert_uint_eq(site.requests, 3);
}

typedef struct request_args {
    weft_fetcher *fetcher;
    const script_server *server;
    const char *name;
} request_args;

static weft_value get_and_mark(void *arg)
{
    const request_args *a = arg;
    char text[64];
    int status = fetch_text(a->fetcher, url_of(a->server, a->name), text, sizeof text);
    mark(status == 200 ? a->name : "!");
    return 0;
}

TEST(requests_over_the_limit_of_an_origin_wait_in_order)
{
    open_site(held, 1);
    use_fetcher((weft_fetcher_options){.connections_per_origin_max = 2});
    const char *const names[] = {"/a", "/b", "/c", "/d", "/e"};
    request_args args[5];
    weft_fiber fibers[5];
    for (int i = 0; i < 5; i++) {
        args[i] = (request_args){fetcher, &site, names[i]};
        fibers[i] = weft_spin(get_and_mark, &args[i]);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_sem_wait(&site.arrived), 0);
    let_run();
    ck_assert_uint_eq(site.requests, 2);
    weft_cancel(fibers[2]); /* does not block the others */
    weft_await(fibers[2]);
    ck_assert_trail("!");
    for (int i = 0; i < 2; i++) {
        release_replies(&site, 1);
        ck_assert_int_eq(weft_sem_wait(&site.arrived), 0);
    }
    for (int i = 3; i < 5; i++) {
        release_replies(&site, 1);
        weft_await(fibers[i]);
    }
    ck_assert_trail("!/a/b/d/e");
    ck_assert_uint_eq(site.conns, 2);
}

TEST(a_fetcher_with_an_open_fetch_cannot_be_freed)
{
    ck_assert_int_eq(get("/"), 200);
    ck_assert_int_eq(weft_fetcher_free(fetcher), -EBUSY);
    close_fetch();
    ck_assert_int_eq(weft_fetcher_free(NULL), 0);
}

TEST(a_connection_idle_for_too_long_is_closed_at_the_next_use)
{
    start_server(&other, hello, 1);
    use_fetcher((weft_fetcher_options){.idle_s = 0.001});
    assert_page("/", "hello");
    weft_sleep(0.002);
    ck_assert_fetch(fetcher, url_of(&other, "/"), "hello");
    let_run();
    ck_assert_uint_eq(site.open_conns, 0);
    assert_page("/", "hello");
    ck_assert_uint_eq(site.conns, 2);
}

/* The short body arrives together with its head. */
static bool send_blocks(script_server *sv, weft_stream *s)
{
    static const char block[1024];
    size_t blocks = strstr(sv->received, "/long") != NULL ? 100 : 5;
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", blocks * sizeof block);
    for (size_t i = 0; i < blocks; i++)
        weft_stream_write(s, block, sizeof block);
    return weft_stream_flush(s) == 0;
}

TEST(a_connection_is_reused_after_a_short_unread_body)
{
    open_site(STEPS({.handle = send_blocks}));
    for (int i = 0; i < 3; i++)
        assert_status("/short", 200);
    ck_assert_uint_eq(site.conns, 1);
    for (int i = 0; i < 3; i++)
        assert_status("/long", 200);
    ck_assert_uint_eq(site.conns, 3);
}

static bool send_endless_body(script_server *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    return false;
}

TEST(an_endless_body_does_not_block_the_close)
{
    warm_up();
    open_site(STEPS({.handle = send_endless_body}));
    weft_sleep(0);
    size_t before = count_descriptors();
    assert_status("/", 200);
    ck_assert_uint_eq(count_descriptors(), before + 1); /* the server's end of the connection */
    release_replies(&site, 1);
}

/* Send a request with the thread's own fetcher. */
static weft_value fetch_with_thread_fetcher(void *arg)
{
    char text[64];
    return fetch_text(NULL, arg, text, sizeof text);
}

static weft_value fetch_in_another_fiber(void *arg)
{
    return weft_await(weft_spin(fetch_with_thread_fetcher, arg));
}

TEST(the_fetcher_of_a_thread_is_freed_with_the_thread)
{
    warm_up();
    char *url = format("%s/", site.base);
    for (int i = 0; i < 2; i++) {
        weft_cord cord =
            weft_cord_start(i == 0 ? fetch_with_thread_fetcher : fetch_in_another_fiber, url, NULL);
        ck_assert_uint_ne(cord, 0);
        ck_assert_int_eq(weft_cord_join(cord), 200);
        while (site.open_conns > 0) /* the thread may end after the join */
            weft_sleep(0.001);
    }
    ck_assert_uint_eq(site.conns, 2);
}

TEST(the_child_of_a_fork_does_not_use_connections_of_its_parent)
{
    assert_page("/", "hello");
    pid_t pid = weft_fork();
    if (pid == 0) {
        char text[64];
        bool is_good = fetch_text(fetcher, url_of(&site, "/child"), text, sizeof text) == 200;
        _exit(is_good && weft_fetcher_free(fetcher) == 0 ? 7 : 8);
    }
    int status = 0;
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    ck_assert_uint_eq(site.conns, 2);
    assert_page("/parent", "hello");
    ck_assert_uint_eq(site.conns, 2);
}
