/* The connections of the HTTP client: reuse, limits, repeated requests, threads, and fork. */
#include "http/fetch_support.h"
#include "support/suite.h"

static const script_step hello[] = {{.reply = OK("hello", "5")}};
static const script_step held[] = {{.reply = OK("held", "4"), .is_held = true}};

TEST(a_connection_is_reused_for_sequential_requests)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 5; i++)
        ck_assert_fetch(fetcher, url_of(&sv, "/"), "hello");
    ck_assert_uint_eq(sv.conns, 1);
    ck_assert_uint_eq(sv.requests, 5);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    let_run();
    ck_assert_uint_eq(sv.open_conns, 0);
    stop_server(&sv);
}

/* Reply with the id of the fiber that serves this connection. */
static bool reply_fiber_id(script_server *sv, weft_stream *s)
{
    char id[32];
    (void)sv;
    int n = snprintf(id, sizeof id, "%llu", (unsigned long long)weft_self());
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nX-Who: %s\r\nContent-Length: %d\r\n\r\n%s", id, n,
                       id);
    return weft_stream_flush(s) == 0;
}

TEST(the_most_recently_used_connection_is_reused_first)
{
    static const script_step steps[] = {{.handle = reply_fiber_id}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 2; i++) {
        weft_fetch *f[2];
        char last[32];
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f[k]), 200);
        snprintf(last, sizeof last, "%s", weft_fetch_header(f[i], "X-Who"));
        weft_fetch_close(f[!i]);
        weft_fetch_close(f[i]);
        for (int k = 0; k < 3; k++)
            ck_assert_fetch(fetcher, url_of(&sv, "/"), last);
    }
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(at_most_idle_max_connections_stay_open)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.idle_max = 1});
    weft_fetch *a, *b;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/a"), &a), 200);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/b"), &b), 200);
    weft_fetch_close(a);
    let_run();
    ck_assert_uint_eq(sv.open_conns, 2);
    weft_fetch_close(b); /* exceeds idle_max, so the older connection is closed */
    let_run();
    ck_assert_uint_eq(sv.open_conns, 1);
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "hello");
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(origins_do_not_share_connections)
{
    script_server one, two;
    start_server(&one, hello, 1);
    start_server(&two, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_fetch(fetcher, url_of(&one, "/"), "hello");
        ck_assert_fetch(fetcher, url_of(&two, "/"), "hello");
    }
    ck_assert_uint_eq(one.conns, 1);
    ck_assert_uint_eq(two.conns, 1);
    weft_fetcher_free(fetcher);
    stop_server(&one);
    stop_server(&two);
}

TEST(an_idle_connection_that_the_server_has_closed_is_not_used)
{
    static const script_step steps[] = {{.reply = OK("bye", "3"), .closes = true},
                                        {.reply = OK("new", "3")}};
    script_server sv;
    start_server(&sv, steps, COUNT_OF(steps));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "bye");
    let_run(); /* until the close has arrived */
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&sv, "/"), NULL, "x", 1, &f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.requests, 2);
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

/* The server closes the connection on the second request without a reply. */
static const script_step closes_second[] = {
    {.reply = OK("one", "3")}, {.reply = NULL, .closes = true}, {.reply = OK("two", "3")}};

TEST(an_idempotent_request_is_repeated_on_a_new_connection)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        script_server sv;
        start_server(&sv, closes_second, COUNT_OF(closes_second));
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        ck_assert_fetch(fetcher, url_of(&sv, "/"), "one");
        const weft_fetch_request r = {.method = methods[i],
                                      .url = url_of(&sv, "/again"),
                                      .body = i == 2 ? "body" : NULL,
                                      .body_bytes = i == 2 ? 4 : 0};
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 200);
        weft_fetch_close(f);
        ck_assert_uint_eq(sv.conns, 2);
        ck_assert_uint_eq(count_in(sv.received, "/again HTTP/1.1"), 2);
        ck_assert_uint_eq(count_in(sv.received, "body"), i == 2 ? 2 : 0);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}

TEST(other_requests_are_not_repeated)
{
    static const char *const methods[] = {"POST", "PATCH", "BREW"};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        script_server sv;
        start_server(&sv, closes_second, COUNT_OF(closes_second));
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        ck_assert_fetch(fetcher, url_of(&sv, "/"), "one");
        const weft_fetch_request r = {.method = methods[i], .url = url_of(&sv, "/")};
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), -ECONNRESET);
        ck_assert_uint_eq(sv.requests, 2);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}

TEST(a_request_is_not_repeated_after_its_response_has_begun)
{
    static const script_step steps[] = {{.reply = OK("one", "3")},
                                        {.reply = "HTTP/1.1 2", .closes = true}};
    script_server sv;
    start_server(&sv, steps, COUNT_OF(steps));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "one");
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -ECONNRESET);
    ck_assert_uint_eq(sv.requests, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}

TEST(a_request_is_repeated_only_once)
{
    static const script_step steps[] = {{.reply = OK("one", "3")}, {.reply = NULL, .closes = true}};
    script_server sv;
    start_server(&sv, steps, COUNT_OF(steps));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "one");
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -ECONNRESET);
    ck_assert_uint_eq(sv.requests, 3);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
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
    script_server sv;
    start_server(&sv, held, 1);
    weft_fetcher *fetcher =
        weft_fetcher_new(&(weft_fetcher_options){.connections_per_origin_max = 2});
    const char *const names[] = {"/a", "/b", "/c", "/d", "/e"};
    request_args args[5];
    weft_fiber fibers[5];
    for (int i = 0; i < 5; i++) {
        args[i] = (request_args){fetcher, &sv, names[i]};
        fibers[i] = weft_spin(get_and_mark, &args[i]);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_sem_wait(&sv.arrived), 0);
    let_run();
    ck_assert_uint_eq(sv.requests, 2);
    weft_cancel(fibers[2]); /* does not block the others */
    weft_await(fibers[2]);
    ck_assert_trail("!");
    for (int i = 0; i < 2; i++) {
        release_replies(&sv, 1);
        ck_assert_int_eq(weft_sem_wait(&sv.arrived), 0);
    }
    for (int i = 3; i < 5; i++) {
        release_replies(&sv, 1);
        weft_await(fibers[i]);
    }
    ck_assert_trail("!/a/b/d/e");
    ck_assert_uint_eq(sv.conns, 2);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    stop_server(&sv);
}

TEST(a_fetcher_with_an_open_fetch_cannot_be_freed)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    ck_assert_int_eq(weft_fetcher_free(fetcher), -EBUSY);
    weft_fetch_close(f);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    ck_assert_int_eq(weft_fetcher_free(NULL), 0);
    stop_server(&sv);
}

TEST(a_connection_idle_for_too_long_is_closed_at_the_next_use)
{
    script_server one, two;
    start_server(&one, hello, 1);
    start_server(&two, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.idle_s = 0.001});
    ck_assert_fetch(fetcher, url_of(&one, "/"), "hello");
    weft_sleep(0.002);
    ck_assert_fetch(fetcher, url_of(&two, "/"), "hello");
    let_run();
    ck_assert_uint_eq(one.open_conns, 0);
    ck_assert_fetch(fetcher, url_of(&one, "/"), "hello");
    ck_assert_uint_eq(one.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&one);
    stop_server(&two);
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
    static const script_step steps[] = {{.handle = send_blocks}};
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_fetch *f;
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/short"), &f), 200);
        weft_fetch_close(f);
    }
    ck_assert_uint_eq(sv.conns, 1);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/long"), &f), 200);
        weft_fetch_close(f);
    }
    ck_assert_uint_eq(sv.conns, 3);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
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
    static const script_step steps[] = {{.handle = send_endless_body}};
    warm_up();
    script_server sv;
    start_server(&sv, steps, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_sleep(0);
    size_t before = count_descriptors();
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(count_descriptors(), before + 1); /* the server's end of the connection */
    release_replies(&sv, 1);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
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
    script_server sv;
    start_server(&sv, hello, 1);
    char url[80];
    snprintf(url, sizeof url, "%s/", sv.base);
    for (int i = 0; i < 2; i++) {
        weft_cord cord =
            weft_cord_start(i == 0 ? fetch_with_thread_fetcher : fetch_in_another_fiber, url, NULL);
        ck_assert_uint_ne(cord, 0);
        ck_assert_int_eq(weft_cord_join(cord), 200);
        while (sv.open_conns > 0) /* the thread may end after the join */
            weft_sleep(0.001);
    }
    ck_assert_uint_eq(sv.conns, 2);
    stop_server(&sv);
}

TEST(the_child_of_a_fork_does_not_use_connections_of_its_parent)
{
    script_server sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_fetch(fetcher, url_of(&sv, "/"), "hello");
    pid_t pid = weft_fork();
    if (pid == 0) {
        char text[64];
        bool is_good = fetch_text(fetcher, url_of(&sv, "/child"), text, sizeof text) == 200;
        _exit(is_good && weft_fetcher_free(fetcher) == 0 ? 7 : 8);
    }
    int status = 0;
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    ck_assert_uint_eq(sv.conns, 2);
    ck_assert_fetch(fetcher, url_of(&sv, "/parent"), "hello");
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
