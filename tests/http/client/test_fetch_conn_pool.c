/* The web client's connections: which are kept, which are taken, and who waits for one. */
#include "fetch_support.h"

static const turn hello[] = {{.says = OK("hello", "5")}};
static const turn held[] = {{.says = OK("held", "4"), .is_held = true}};

START_TEST(a_connection_serves_one_request_after_the_other)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 5; i++)
        ck_assert_get(fetcher, url_of(&sv, "/"), "hello");
    ck_assert_uint_eq(sv.conns, 1);
    ck_assert_uint_eq(sv.asked, 5);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    let_run();
    ck_assert_uint_eq(sv.open, 0);
    stop_server(&sv);
}
END_TEST

/* Says which connection it is, by the fiber that serves it. */
static bool talk_who(web *sv, weft_stream *s)
{
    char who[32];
    (void)sv;
    int n = snprintf(who, sizeof who, "%llu", (unsigned long long)weft_self());
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nX-Who: %s\r\nContent-Length: %d\r\n\r\n%s", who, n,
                       who);
    return weft_stream_flush(s) == 0;
}

START_TEST(the_connection_used_last_is_taken_first)
{
    static const turn turns[] = {{.talks = talk_who}};
    web sv;
    start_server(&sv, turns, 1);
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
            ck_assert_get(fetcher, url_of(&sv, "/"), last);
    }
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(only_so_many_connections_are_kept)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.idle_max = 1});
    weft_fetch *a, *b;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/a"), &a), 200);
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/b"), &b), 200);
    weft_fetch_close(a);
    let_run();
    ck_assert_uint_eq(sv.open, 2);
    weft_fetch_close(b); /* one too many: the older one goes */
    let_run();
    ck_assert_uint_eq(sv.open, 1);
    ck_assert_get(fetcher, url_of(&sv, "/"), "hello");
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(origins_have_connections_of_their_own)
{
    web one, two;
    start_server(&one, hello, 1);
    start_server(&two, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_get(fetcher, url_of(&one, "/"), "hello");
        ck_assert_get(fetcher, url_of(&two, "/"), "hello");
    }
    ck_assert_uint_eq(one.conns, 1);
    ck_assert_uint_eq(two.conns, 1);
    weft_fetcher_free(fetcher);
    stop_server(&one);
    stop_server(&two);
}
END_TEST

START_TEST(a_kept_connection_that_the_server_has_closed_is_not_used)
{
    static const turn turns[] = {{.says = OK("bye", "3"), .hangs_up = true},
                                 {.says = OK("new", "3")}};
    web sv;
    start_server(&sv, turns, COUNT_OF(turns));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_get(fetcher, url_of(&sv, "/"), "bye");
    let_run(); /* the end has come */
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_post(fetcher, url_of(&sv, "/"), NULL, "x", 1, &f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(sv.asked, 2);
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

/* The server hangs up on the second request of a connection without a word. */
static const turn fickle[] = {
    {.says = OK("one", "3")}, {.says = NULL, .hangs_up = true}, {.says = OK("two", "3")}};

START_TEST(a_request_that_may_be_repeated_is_sent_again_on_a_new_connection)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS"};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        web sv;
        start_server(&sv, fickle, COUNT_OF(fickle));
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        ck_assert_get(fetcher, url_of(&sv, "/"), "one");
        const weft_fetch_request r = {.method = methods[i],
                                      .url = url_of(&sv, "/again"),
                                      .body = i == 2 ? "body" : NULL,
                                      .body_bytes = i == 2 ? 4 : 0};
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), 200);
        weft_fetch_close(f);
        ck_assert_uint_eq(sv.conns, 2);
        ck_assert_uint_eq(count_in(sv.seen, "/again HTTP/1.1"), 2);
        ck_assert_uint_eq(count_in(sv.seen, "body"), i == 2 ? 2 : 0);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}
END_TEST

START_TEST(a_request_that_may_not_be_repeated_is_not)
{
    static const char *const methods[] = {"POST", "PATCH", "BREW"};
    for (size_t i = 0; i < COUNT_OF(methods); i++) {
        web sv;
        start_server(&sv, fickle, COUNT_OF(fickle));
        weft_fetcher *fetcher = weft_fetcher_new(NULL);
        ck_assert_get(fetcher, url_of(&sv, "/"), "one");
        const weft_fetch_request r = {.method = methods[i], .url = url_of(&sv, "/")};
        weft_fetch *f;
        ck_assert_int_eq(weft_fetch_send(fetcher, &r, &f), -ECONNRESET);
        ck_assert_uint_eq(sv.asked, 2);
        weft_fetcher_free(fetcher);
        stop_server(&sv);
    }
}
END_TEST

START_TEST(an_answer_that_has_begun_is_not_asked_for_again)
{
    static const turn turns[] = {{.says = OK("one", "3")},
                                 {.says = "HTTP/1.1 2", .hangs_up = true}};
    web sv;
    start_server(&sv, turns, COUNT_OF(turns));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_get(fetcher, url_of(&sv, "/"), "one");
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -ECONNRESET);
    ck_assert_uint_eq(sv.asked, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

START_TEST(a_server_that_always_hangs_up_is_asked_twice_at_most)
{
    static const turn turns[] = {{.says = OK("one", "3")}, {.says = NULL, .hangs_up = true}};
    web sv;
    start_server(&sv, turns, COUNT_OF(turns));
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_get(fetcher, url_of(&sv, "/"), "one");
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), -ECONNRESET);
    ck_assert_uint_eq(sv.asked, 3);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

typedef struct asker {
    weft_fetcher *fetcher;
    const web *server;
    const char *name;
} asker;

static weft_value ask(void *arg)
{
    const asker *a = arg;
    char text[64];
    int status = get_text(a->fetcher, url_of(a->server, a->name), text, sizeof text);
    mark(status == 200 ? a->name : "!");
    return 0;
}

START_TEST(requests_over_the_limit_of_an_origin_wait_their_turn)
{
    web sv;
    start_server(&sv, held, 1);
    weft_fetcher *fetcher =
        weft_fetcher_new(&(weft_fetcher_options){.connections_per_origin_max = 2});
    const char *const names[] = {"/a", "/b", "/c", "/d", "/e"};
    asker askers[5];
    weft_fiber fibers[5];
    for (int i = 0; i < 5; i++) {
        askers[i] = (asker){fetcher, &sv, names[i]};
        fibers[i] = weft_spin(ask, &askers[i]);
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_sem_wait(&sv.arrived), 0);
    let_run();
    ck_assert_uint_eq(sv.asked, 2);
    weft_cancel(fibers[2]); /* who gives up does not hold up the others */
    weft_await(fibers[2]);
    ck_assert_trail("!");
    for (int i = 0; i < 2; i++) {
        let_go(&sv, 1);
        ck_assert_int_eq(weft_sem_wait(&sv.arrived), 0);
    }
    for (int i = 3; i < 5; i++) {
        let_go(&sv, 1);
        weft_await(fibers[i]);
    }
    ck_assert_trail("!/a/b/d/e");
    ck_assert_uint_eq(sv.conns, 2);
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    stop_server(&sv);
}
END_TEST

START_TEST(a_fetcher_with_an_open_fetch_cannot_be_freed)
{
    web sv;
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
END_TEST

START_TEST(what_was_idle_for_too_long_is_closed_at_the_next_use)
{
    web one, two;
    start_server(&one, hello, 1);
    start_server(&two, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.idle_s = 0.001});
    ck_assert_get(fetcher, url_of(&one, "/"), "hello");
    weft_sleep(0.002);
    ck_assert_get(fetcher, url_of(&two, "/"), "hello");
    let_run();
    ck_assert_uint_eq(one.open, 0);
    ck_assert_get(fetcher, url_of(&one, "/"), "hello");
    ck_assert_uint_eq(one.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&one);
    stop_server(&two);
}
END_TEST

/* The short one goes out with its head: it is there when the head is. */
static bool talk_blocks(web *sv, weft_stream *s)
{
    static const char block[1024];
    size_t blocks = strstr(sv->seen, "/long") != NULL ? 100 : 5;
    weft_stream_printf(s, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n", blocks * sizeof block);
    for (size_t i = 0; i < blocks; i++)
        weft_stream_write(s, block, sizeof block);
    return weft_stream_flush(s) == 0;
}

START_TEST(a_short_body_that_nobody_reads_does_not_cost_the_connection)
{
    static const turn turns[] = {{.talks = talk_blocks}};
    web sv;
    start_server(&sv, turns, 1);
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
END_TEST

static bool talk_without_end(web *sv, weft_stream *s)
{
    weft_stream_puts(s, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    weft_stream_flush(s);
    weft_sem_wait(&sv->gate);
    return false;
}

START_TEST(a_body_that_does_not_end_does_not_hold_up_its_close)
{
    static const turn turns[] = {{.talks = talk_without_end}};
    warm_up();
    web sv;
    start_server(&sv, turns, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    weft_sleep(0);
    size_t before = count_descriptors();
    weft_fetch *f;
    ck_assert_int_eq(weft_fetch_get(fetcher, url_of(&sv, "/"), &f), 200);
    weft_fetch_close(f);
    ck_assert_uint_eq(count_descriptors(), before + 1); /* the server's */
    let_go(&sv, 1);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

/* A cord asks with the client of its thread, from its main fiber or from another one. */
static weft_value ask_own(void *arg)
{
    char text[64];
    return get_text(NULL, arg, text, sizeof text);
}

static weft_value ask_own_in_a_fiber(void *arg)
{
    return weft_await(weft_spin(ask_own, arg));
}

START_TEST(the_client_of_a_thread_goes_with_the_thread)
{
    warm_up();
    web sv;
    start_server(&sv, hello, 1);
    char url[80];
    snprintf(url, sizeof url, "%s/", sv.base);
    for (int i = 0; i < 2; i++) {
        weft_cord cord = weft_cord_start(i == 0 ? ask_own : ask_own_in_a_fiber, url, NULL);
        ck_assert_uint_ne(cord, 0);
        ck_assert_int_eq(weft_cord_join(cord), 200);
        while (sv.open > 0) /* its thread ends a little later */
            weft_sleep(0.001);
    }
    ck_assert_uint_eq(sv.conns, 2);
    stop_server(&sv);
}
END_TEST

START_TEST(the_child_of_a_fork_leaves_the_connections_of_its_parent_alone)
{
    web sv;
    start_server(&sv, hello, 1);
    weft_fetcher *fetcher = weft_fetcher_new(NULL);
    ck_assert_get(fetcher, url_of(&sv, "/"), "hello");
    pid_t pid = weft_fork();
    if (pid == 0) {
        char text[64];
        bool is_good = get_text(fetcher, url_of(&sv, "/child"), text, sizeof text) == 200;
        _exit(is_good && weft_fetcher_free(fetcher) == 0 ? 7 : 8);
    }
    int status = 0;
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(WEXITSTATUS(status), 7);
    ck_assert_uint_eq(sv.conns, 2);
    ck_assert_get(fetcher, url_of(&sv, "/parent"), "hello");
    ck_assert_uint_eq(sv.conns, 2);
    weft_fetcher_free(fetcher);
    stop_server(&sv);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_connection_serves_one_request_after_the_other,
        &the_connection_used_last_is_taken_first,
        &only_so_many_connections_are_kept,
        &origins_have_connections_of_their_own,
        &a_kept_connection_that_the_server_has_closed_is_not_used,
        &a_request_that_may_be_repeated_is_sent_again_on_a_new_connection,
        &a_request_that_may_not_be_repeated_is_not,
        &an_answer_that_has_begun_is_not_asked_for_again,
        &a_server_that_always_hangs_up_is_asked_twice_at_most,
        &requests_over_the_limit_of_an_origin_wait_their_turn,
        &a_fetcher_with_an_open_fetch_cannot_be_freed,
        &what_was_idle_for_too_long_is_closed_at_the_next_use,
        &a_short_body_that_nobody_reads_does_not_cost_the_connection,
        &a_body_that_does_not_end_does_not_hold_up_its_close,
        &the_client_of_a_thread_goes_with_the_thread,
        &the_child_of_a_fork_leaves_the_connections_of_its_parent_alone,
    };
    forget_proxies();
    return run_suite("fetch_pool", tests, COUNT_OF(tests));
}
