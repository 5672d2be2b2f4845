/* Which clients the inspector serves, and which actions it accepts. */
#include "inspect/inspect_support.h"

FIXTURE(open_inspector, close_inspector)

static weft_value wait_for_end(void *arg)
{
    return weft_sleep(INFINITY);
}

static const char *act(const char *action, weft_fiber fiber, const char *lines)
{
    char body[32];
    int bytes = snprintf(body, sizeof body, "id=%llu", (unsigned long long)fiber);
    return client_exchange(
        &client, weft_http_serve_inspector, inspector, NULL,
        format("POST /%s HTTP/1.1\r\nHost: localhost:80\r\nContent-Length: %d\r\n"
               "Content-Type: application/x-www-form-urlencoded\r\n%s\r\n%s",
               action, bytes, lines, body));
}

#define BEARER "Authorization: Bearer " TOKEN "\r\n"

TEST(a_stop_needs_the_token_and_the_own_origin)
{
    static const struct {
        const char *lines;
        int status;
    } rows[] = {
        {"", 401},
        {"Authorization: Bearer correct-horse-batterz\r\n", 401},
        {"Authorization: Bearer correct-horse-batter\r\n", 401},
        {"Authorization: Bearer correct-horse-batteryy\r\n", 401},
        {"Authorization: Bearer \r\n", 401},
        {"Authorization: Basic " TOKEN "\r\n", 401},
        {BEARER "Origin: http://evil.example\r\n", 403},
        {BEARER "Origin: https://localhost:80\r\n", 403},
        {BEARER "Origin: http://localhost:81\r\n", 403},
        {BEARER "Origin: null\r\n", 403},
        {BEARER "Sec-Fetch-Site: cross-site\r\n", 403},
        {BEARER "Sec-Fetch-Site: same-site\r\n", 403},
    };
    weft_fiber fiber = spin_named(wait_for_end, NULL, "victim");
    let_run();
    for (size_t n = 0; n < COUNT_OF(rows); n++)
        ck_assert_msg(status_of(act("stop", fiber, rows[n].lines)) == rows[n].status, "%s",
                      rows[n].lines);
    ck_assert_int_eq(info_of(fiber).state, WEFT_WAITING);
    const char *response =
        act("stop", fiber, BEARER "Origin: http://localhost:80\r\nSec-Fetch-Site: same-origin\r\n");
    ck_assert_int_eq(status_of(response), 200);
    ck_assert_int_eq(weft_await(fiber), -ECANCELED);
    ck_assert_int_eq(status_of(act("stop", fiber, BEARER)), 404);
}

TEST(a_token_in_the_url_or_a_GET_does_nothing)
{
    weft_fiber fiber = spin_named(wait_for_end, NULL, "victim");
    let_run();
    unsigned long long id = fiber;
    const char *lines = "Host: localhost\r\n" BEARER;
    const char *response = ask_inspector(format("GET /stop?id=%llu&token=" TOKEN, id), lines);
    ck_assert_int_eq(status_of(response), 405);
    assert_has(response, "Allow: POST");
    ck_assert_int_eq(status_of(act(format("stop?token=" TOKEN), fiber, "")), 401);
    ck_assert_int_eq(info_of(fiber).state, WEFT_WAITING);
    cancel_and_await(fiber);
}

TEST(without_a_token_actions_do_not_exist)
{
    weft_inspector_free(inspector);
    inspector = weft_inspector_new(NULL);
    weft_fiber fiber = spin_named(wait_for_end, NULL, "victim");
    let_run();
    ck_assert_int_eq(status_of(act("stop", fiber, BEARER)), 404);
    ck_assert_int_eq(status_of(act("dump", fiber, "Authorization: Bearer \r\n")), 404);
    assert_has(view_once(""), "\"hasActions\":false");
    cancel_and_await(fiber);
}

TEST(a_main_fiber_cannot_be_stopped)
{
    ck_assert_int_eq(status_of(act("stop", weft_self(), BEARER)), 409);
}

static int dump_a_fiber(void)
{
    weft_fiber fiber = spin_named(wait_for_end, NULL, "dumped");
    let_run();
    bool is_right = status_of(act("dump", fiber, "")) == 401;
    const char *response = act("dump", fiber, BEARER);
    is_right = is_right && status_of(response) == 200;
    is_right = is_right && strstr(body_of(response), "'dumped' waiting: sleep for ") != NULL;
    is_right = is_right && info_of(fiber).state == WEFT_WAITING;
    weft_cancel(fiber);
    (void)weft_await(fiber);
    close_inspector();
    return is_right ? 0 : 1;
}

TEST(a_dump_is_written_to_stderr)
{
    const outcome *o = run_apart(dump_a_fiber);
    assert_prints(o, 0, (const char *[]){"'dumped' waiting: sleep for ", NULL});
    ck_assert_uint_eq(count_in(o->text, "'dumped'"), 1);
}

TEST(an_unknown_name_of_the_host_is_refused)
{
    static const struct {
        const char *host, *hosts;
        int status;
    } rows[] = {
        {"localhost", NULL, 200},
        {"LOCALHOST:8080", NULL, 200},
        {"127.0.0.1:9", NULL, 200},
        {"[::1]:80", NULL, 200},
        {"192.168.7.9", NULL, 200}, /* an address cannot refer to another machine */
        {"evil.example", NULL, 403},
        {"localhost.evil.example", NULL, 403},
        {"127.0.0.1.evil.example", NULL, 403},
        {"debug.example", "debug.example", 200},
        {"debug.example:81", "other.example, Debug.Example", 200},
        {"debug.examples", "debug.example", 403},
        {"any.example", "*", 200},
    };
    for (size_t n = 0; n < COUNT_OF(rows); n++) {
        weft_inspector_free(inspector);
        inspector = weft_inspector_new(&(weft_inspector_options){.hosts = rows[n].hosts});
        const char *lines = format("Host: %s\r\n", rows[n].host);
        ck_assert_msg(status_of(ask_inspector("GET /", lines)) == rows[n].status, "%s",
                      rows[n].host);
        ck_assert_int_eq(status_of(ask_inspector("GET /fiber?id=1", lines)),
                         rows[n].status == 200 ? 404 : 403);
    }
}

TEST(clients_of_other_machines_need_permission)
{
    const weft_http_options server = {.trusted_peers = "unix"};
    for (int is_allowed = 0; is_allowed < 2; is_allowed++) {
        weft_inspector_free(inspector);
        inspector = weft_inspector_new(&(weft_inspector_options){.allows_remote = is_allowed != 0});
        static const char *const peers[] = {"203.0.113.7", "127.0.0.1", "2001:db8::1"};
        for (size_t n = 0; n < COUNT_OF(peers); n++) {
            const char *response = client_exchange(
                &client, weft_http_serve_inspector, inspector, &server,
                format("GET / HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: %s\r\n\r\n",
                       peers[n]));
            ck_assert_int_eq(status_of(response), is_allowed || n == 1 ? 200 : 403);
        }
    }
}

TEST(the_own_server_listens_on_loopback_addresses_only)
{
    ck_assert_int_eq(weft_inspect_serve("0.0.0.0:0", NULL), -EPERM);
    ck_assert_str_eq(weft_error()->message,
                     "weft_inspect_serve: 0.0.0.0:0 is not a loopback address");
    ck_assert_int_eq(weft_inspect_serve("127.0.0.1:0", &(weft_inspector_options){.token = "x"}),
                     -EINVAL);
    static const weft_inspector_options remote = {.allows_remote = true};
    static const struct {
        const char *address;
        const weft_inspector_options *options;
    } rows[] = {{"127.0.0.1:0", NULL}, {"0.0.0.0:0", &remote}};
    for (size_t n = 0; n < COUNT_OF(rows); n++)
        ck_assert_times_out(
            0.05,
            ck_assert_int_eq(weft_inspect_serve(rows[n].address, rows[n].options), -ECANCELED));
}
