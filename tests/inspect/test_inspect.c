/* The inspector: its page, the rows of its views, the details of a fiber. */
#include "inspect/inspect_support.h"

FIXTURE(open_inspector, close_inspector)

static weft_value wait_for_message(void *arg)
{
    return weft_receive();
}

static weft_value wait_for_mutex(void *mutex)
{
    return weft_mutex_lock(mutex);
}

static weft_value parent_of_workers(void *arg)
{
    for (int n = 0; n < (int)(intptr_t)arg; n++)
        spin_named(wait_for_message, NULL, format("worker %d", n));
    return weft_sleep(INFINITY);
}

TEST(the_page_and_its_files_are_served_with_a_strict_policy)
{
    static const struct {
        const char *target, *type, *text;
    } files[] = {
        {"/", "text/html", "<script src=\"inspector.js\">"},
        {"/inspector.css", "text/css", ":root"},
        {"/inspector.js", "text/javascript", "EventSource"},
        {"/icon.svg", "image/svg+xml", "<svg"},
    };
    for (size_t n = 0; n < COUNT_OF(files); n++) {
        const char *response = get_part(files[n].target);
        ck_assert_int_eq(status_of(response), 200);
        assert_has(response, format("Content-Type: %s", files[n].type));
        assert_has(response, "default-src 'none'; script-src 'self'; style-src 'self'");
        assert_lacks(response, "unsafe-inline");
        assert_has(response, "nosniff");
        assert_has(body_of(response), files[n].text);
    }
    ck_assert_int_eq(status_of(get_part("/nothing")), 404);
    ck_assert_int_eq(status_of(ask_inspector("POST /", "Host: localhost\r\nContent-Length: 0\r\n")),
                     405);
}

TEST(the_page_names_no_other_origin)
{
    assert_lacks(body_of(get_part("/")), "://");
    assert_lacks(body_of(get_part("/inspector.css")), "://");
    const char *script = body_of(get_part("/inspector.js"));
    ck_assert_uint_eq(count_in(script, "://"), 1); /* the name space of SVG */
    assert_has(script, "http://www.w3.org/2000/svg");
    assert_lacks(script, "innerHTML");
    assert_lacks(script, "eval(");
}

TEST(a_mounted_inspector_redirects_to_its_folder)
{
    weft_http_router *routes = weft_http_router_new();
    ck_assert_int_eq(
        weft_http_route(routes, NULL, "/a/inspect/{path...}", weft_http_serve_inspector, inspector),
        0);
    const char *response = client_exchange(&client, weft_http_serve_routes, routes, NULL,
                                           "GET /a/inspect HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ck_assert_int_eq(status_of(response), 301);
    assert_has(response, "Location: /a/inspect/\r\n");
    response = client_exchange(&client, weft_http_serve_routes, routes, NULL,
                               "GET /a/inspect/icon.svg HTTP/1.1\r\nHost: localhost\r\n\r\n");
    ck_assert_int_eq(status_of(response), 200);
    weft_http_router_free(routes);
}

TEST(a_view_shows_each_fiber_below_its_parent_with_the_reason_of_its_wait)
{
    weft_mutex mutex = {0};
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    weft_fiber auditor = spin_named(wait_for_mutex, &mutex, "auditor");
    weft_fiber parent = spin_named(parent_of_workers, as_arg(2), "workers");
    let_run();
    const char *update = view_once("");
    const char *row = row_named(update, "auditor");
    assert_has(row, "\"wait\":\"a mutex\"");
    assert_has(row, "\"state\":\"waiting\"");
    assert_has(row, "\"fn\":\"wait_for_mutex\"");
    assert_has(row, format("\"holder\":\"%llu\"", (unsigned long long)weft_self()));
    assert_has(row, format("\"id\":\"%llu\"", (unsigned long long)auditor));
    ck_assert_int_eq(number_in(row, "level"), 2);
    ck_assert_int_gt(number_in(row, "since"), 0);
    ck_assert_int_gt(number_in(row, "stack"), 0);
    ck_assert_int_eq(number_in(row_named(update, "workers"), "level"), 2);
    ck_assert_int_eq(number_in(row_named(update, "worker 0"), "level"), 3);
    assert_has(row_named(update, "worker 1"), "\"wait\":\"a message\"");
    assert_has(update, "{\"reason\":\"a message\",\"count\":2,");
    assert_has(update, "{\"reason\":\"a mutex\",\"count\":1,");
    assert_has(strstr(update, "\"advice\":["), "\"fn\":\"wait_for_mutex\",\"fibers\":1,");
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await(auditor), 0);
    cancel_and_await(parent);
}

TEST(equal_fibers_are_one_row_until_the_viewer_opens_it)
{
    weft_fiber parent = spin_named(parent_of_workers, as_arg(50), "workers");
    let_run();
    const char *update = view_once("");
    const char *row = row_named(update, "worker #");
    ck_assert_int_eq(number_in(row, "count"), 50);
    assert_has(row, "\"open\":false");
    ck_assert_ptr_null(row_named(update, "worker 7"));
    char key[32];
    sscanf(strstr(row_named(update, "worker #"), "\"key\":\"") + 7, "%16[0-9a-f]", key);
    size_t closed = (size_t)number_in(update, "total");
    update = view_once(format("toggled=%s", key));
    assert_has(row_named(update, "worker #"), "\"open\":true");
    ck_assert_int_eq(number_in(row_named(update, "worker 7"), "level"), 4);
    ck_assert_uint_eq((size_t)number_in(update, "total"), closed + 50);
    cancel_and_await(parent);
}

TEST(a_closed_fiber_hides_its_children)
{
    weft_fiber parent = spin_named(parent_of_workers, as_arg(2), "workers");
    let_run();
    const char *update = view_once(format("toggled=%llx", (unsigned long long)parent << 1));
    assert_has(row_named(update, "workers"), "\"open\":false");
    ck_assert_ptr_null(row_named(update, "worker 0"));
    cancel_and_await(parent);
}

TEST(pages_cover_each_row_once)
{
    weft_fiber parent = spin_named(parent_of_workers, as_arg(45), "workers");
    let_run();
    static unsigned seen[45];
    memset(seen, 0, sizeof seen);
    for (int from = 0; from < 60; from += 20) {
        const char *update =
            view_once(format("mode=list&sort=name&q=worker%%20&from=%d&limit=20", from));
        ck_assert_int_eq(number_in(update, "total"), 45);
        for (int n = 0; n < 45; n++)
            seen[n] += row_named(update, format("worker %d", n)) != NULL;
    }
    for (int n = 0; n < 45; n++)
        ck_assert_uint_eq(seen[n], 1);
    /* A page beyond the end is the last page. */
    const char *update = view_once("mode=list&q=worker%20&from=4000&limit=20");
    ck_assert_int_eq(number_in(update, "from"), 40);
    cancel_and_await(parent);
}

TEST(filters_select_by_name_state_reason_cord_and_id)
{
    weft_mutex mutex = {0};
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    weft_fiber auditor = spin_named(wait_for_mutex, &mutex, "auditor");
    weft_fiber parent = spin_named(parent_of_workers, as_arg(3), "workers");
    let_run();
    char by_id[40], by_cord[40];
    snprintf(by_id, sizeof by_id, "q=%%23%llu", (unsigned long long)auditor);
    snprintf(by_cord, sizeof by_cord, "cord=%d&q=audit", (int)gettid());
    const struct {
        const char *query;
        int matching;
    } rows[] = {
        {"q=WORKER%202", 1},
        {"q=worker", 4},
        {by_id, 1},
        {"reason=a%20mutex", 1},
        {"reason=a%20message&q=worker", 3},
        {"state=running", 1}, /* the fiber of the viewer */
        {"state=waiting&q=audit", 1},
        {"state=runnable&q=audit", 0},
        {by_cord, 1},
        {"cord=1", 0},
        {"q=nobody", 0},
    };
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        const char *update = view_once(rows[n].query);
        ck_assert_msg(number_in(update, "matching") == rows[n].matching, "%s: %s", rows[n].query,
                      update);
    }
    /* In the tree, the parents of a match give the context. */
    const char *update = view_once("q=worker%202");
    assert_has(row_named(update, "workers"), "\"context\":true");
    ck_assert_ptr_null(row_named(update, "auditor"));
    weft_mutex_unlock(&mutex);
    (void)weft_await(auditor);
    cancel_and_await(parent);
}

TEST(a_bad_view_is_refused)
{
    ck_assert_int_eq(status_of(get_part("/events?toggled=xyz")), 400);
    ck_assert_uint_eq(inspector->viewers, 0);
}

TEST(a_name_cannot_leave_its_json_string)
{
    weft_fiber evil = spin_named(wait_for_message, NULL, "</script>\"\n\xff\xc3\xa9\\");
    let_run();
    const char *update = view_once("");
    assert_has(update, "\"name\":\"</script>\\\"\\u000a\\u00ff\\u00e9\\\\\"");
    cancel_and_await(evil);
}

/* A chain of fibers, each the child of the one before. */
static weft_value nest(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth > 0)
        weft_spin_with(nest, as_arg(depth - 1), &(weft_spin_options){.stack_bytes = 16384});
    return weft_sleep(INFINITY);
}

TEST(deeply_nested_fibers_are_shown_without_a_deep_stack)
{
    enum { DEPTH = 3000 };
    weft_fiber first = weft_spin(nest, as_arg(DEPTH));
    while (stats().fibers < DEPTH + 1)
        let_run();
    const char *update = view_once("from=2990&limit=10");
    ck_assert_int_eq(number_in(strstr(update, "\"rows\""), "level"), 2991);
    cancel_and_await(first);
}

TEST(the_details_of_a_fiber_have_its_wait_addresses_and_backtrace)
{
    int fd[2];
    tcp_pair(fd);
    struct sockaddr_in own, peer;
    socklen_t bytes = sizeof own;
    ck_assert_int_eq(getsockname(fd[0], (struct sockaddr *)&own, &bytes), 0);
    bytes = sizeof peer;
    ck_assert_int_eq(getpeername(fd[0], (struct sockaddr *)&peer, &bytes), 0);
    weft_fiber reader = spin_named(read_byte, &fd[0], "reader");
    let_run();
    const char *json = body_of(get_part(format("/fiber?id=%llu", (unsigned long long)reader)));
    assert_has(json, "\"name\":\"reader\"");
    assert_has(json, "\"wait\":\"read\"");
    assert_has(json, format("\"fd\":%d", fd[0]));
    assert_has(json, format("\"local\":\"127.0.0.1:%d\"", ntohs(own.sin_port)));
    assert_has(json, format("\"peer\":\"127.0.0.1:%d\"", ntohs(peer.sin_port)));
    assert_has(json, "\"parent\":{\"id\":");
    assert_has(strstr(json, "\"frames\":["), "\"function\":\"read_byte\"");
    assert_has(strstr(json, "\"spunAt\":{"), "\"function\":\"");
    ck_assert_int_gt(number_in(json, "stack"), 0);
    cancel_and_await(reader);
    ck_assert_int_eq(status_of(get_part(format("/fiber?id=%llu", (unsigned long long)reader))),
                     404);
    close_fd_pair(fd);
}

TEST(a_request_for_details_needs_the_id_of_a_fiber)
{
    static const char *const targets[] = {"/fiber", "/fiber?id=", "/fiber?id=0", "/fiber?id=1x",
                                          "/fiber?id=-1"};
    for (size_t n = 0; n < sizeof targets / sizeof targets[0]; n++)
        ck_assert_int_eq(status_of(get_part(targets[n])), 404);
    ck_assert_int_eq(
        status_of(get_part(format("/fiber?id=%llux", (unsigned long long)weft_self()))), 404);
}

TEST(the_details_name_the_holder_of_a_mutex)
{
    weft_mutex mutex = {0};
    ck_assert_int_eq(weft_mutex_lock(&mutex), 0);
    weft_fiber auditor = spin_named(wait_for_mutex, &mutex, "auditor");
    let_run();
    watch_with(&client, ""); /* the names of other fibers are those of the last sample */
    next_update(&client);
    static test_client other;
    const char *json =
        body_of(client_exchange(&other, weft_http_serve_inspector, inspector, NULL,
                                format("GET /fiber?id=%llu HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                       (unsigned long long)auditor)));
    assert_has(json, "\"wait\":\"a mutex\"");
    assert_has(json, format("\"holder\":{\"id\":\"%llu\",\"name\":\"main\"}",
                            (unsigned long long)weft_self()));
    assert_has(json, format("\"object\":\"%p\"", (void *)&mutex));
    stop_watching(&client);
    weft_mutex_unlock(&mutex);
    ck_assert_int_eq(weft_await(auditor), 0);
}

TEST(options_are_checked)
{
    const weft_inspector_options rows[] = {
        {.token = "short"},   {.token = "with a space in it"}, {.period_s = -1}, {.period_s = NAN},
        {.cpu_share_max = 2},
    };
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        ck_assert_ptr_null(weft_inspector_new(&rows[n]));
        ck_assert_int_eq(weft_error()->code, -EINVAL);
    }
    weft_inspector_free(NULL);
}
