/*
 * Acceptance tests 9 and 10: a server restarts under calls. Each call returns a reply or one of the
 * promised errors, and exposed names are back. All of that needs one thread.
 */
#include "hub/accept/accept_support.h"
#include "hub/nats_server.h"

#include <sys/resource.h>

#define CALLERS 64
#define NAME "echo"

static weft_hub *hub;
static nats_server server;

static weft_value echo_calls(void *arg)
{
    weft_value message;
    while (!weft_is_error(message = weft_receive())) {
        weft_hub_msg *call = (weft_hub_msg *)message;
        ck_assert_done(weft_hub_reply(call, call->data, call->bytes));
        weft_hub_free(call);
    }
    return 0;
}

static weft_fiber expose_echo(weft_hub *at)
{
    weft_fiber f = weft_spin(echo_calls, NULL);
    ck_assert_done(weft_hub_expose(at, NAME, f, NULL));
    return f;
}

static struct {
    weft_hub *hub;
    unsigned remaining, replies, resets, unreachable;
} calls;

static void call_echo(unsigned number)
{
    char text[16];
    weft_hub_msg *reply = NULL;
    snprintf(text, sizeof text, "%u", number);
    int rc = weft_hub_call(calls.hub, NAME, text, strlen(text), &reply);
    ck_assert_msg(rc == 0 || rc == -ECONNRESET || rc == -EHOSTUNREACH, "call is %d", rc);
    calls.replies += rc == 0;
    calls.resets += rc == -ECONNRESET;
    calls.unreachable += rc == -EHOSTUNREACH;
    if (rc < 0)
        return;
    ck_assert_str_eq(reply->data, text);
    weft_hub_free(reply);
}

static weft_value call_repeatedly(void *arg)
{
    while (calls.remaining > 0)
        call_echo(--calls.remaining);
    return 0;
}

/* Call the service, and kill the server after a third of the calls. Restart it. */
static void call_through_a_restart(weft_hub *at, unsigned n)
{
    weft_fiber callers[CALLERS];
    calls.hub = at;
    calls.remaining = n;
    for (int i = 0; i < CALLERS; i++)
        callers[i] = weft_spin(call_repeatedly, NULL);
    ck_await(60, calls.remaining < n * 2 / 3);
    nats_server_kill(&server);
    ck_assert_uint_gt(calls.remaining, 0);
    nats_server_restart(&server);
    await_each_as(callers, CALLERS, 0);
    print_figures("| calls %u | replies %u | -ECONNRESET %u | -EHOSTUNREACH %u |\n", n,
                  calls.replies, calls.resets, calls.unreachable);
    ck_assert_uint_eq(calls.replies + calls.resets + calls.unreachable, n);
    /* Calls that started after the kill waited for the connection. */
    ck_assert_uint_le(calls.resets, CALLERS);
}

/* The hub restores its names before it sends a call. */
TEST_WITHIN(90, calls_of_the_exposing_hub_during_a_restart_are_answered_or_reset)
{
    nats_server_start(&server, "");
    hub = open_hub_at(server.url, NULL);
    weft_fiber echo = expose_echo(hub);
    call_through_a_restart(hub, 10000);
    ck_assert_uint_eq(calls.unreachable, 0);
    ck_assert_uint_ge(hub_stats(hub).reconnects, 1);
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
    cancel_and_await(echo);
    close_hub(hub);
    nats_server_end(&server);
}

/* The hub of the caller may be the first to connect again. */
TEST_WITHIN(90, calls_of_another_hub_during_a_restart_are_answered_again)
{
    nats_server_start(&server, "");
    weft_hub *service = open_hub_at(server.url, &(weft_hub_options){.name = "service"});
    hub = open_hub_at(server.url, &(weft_hub_options){.name = "caller"});
    weft_fiber echo = expose_echo(service);
    ck_await(10, weft_hub_call(hub, NAME, "", 0, NULL) == 0);
    call_through_a_restart(hub, 10000);
    ck_await(30, weft_hub_call(hub, NAME, "", 0, NULL) == 0);
    cancel_and_await(echo);
    close_hub(hub);
    close_hub(service);
    nats_server_end(&server);
}

/* Return the number of threads of this process. */
static int count_threads(void)
{
    char text[4096];
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    read_all(fd, text, sizeof text);
    close(fd);
    return atoi(strstr(text, "Threads:") + strlen("Threads:"));
}

static weft_value stop_at_item(weft_hub_msg *item, void *arg)
{
    weft_event_set(arg);
    return 0;
}

static weft_value work_on_thread_items(void *arg)
{
    ck_assert_int_eq(weft_hub_work(hub, "thread", stop_at_item, arg, 4), -ECANCELED);
    return 0;
}

static void use_durable_parts(void)
{
    weft_event is_handled = {0};
    uint64_t revision = 0, last = 0;
    ck_assert_done(weft_hub_queue(hub, "thread", NULL));
    ck_assert_done(weft_hub_put(hub, "thread", NULL, "item", 4));
    weft_fiber worker = weft_spin(work_on_thread_items, &is_handled);
    ck_assert_int_eq(weft_event_wait(&is_handled), 0);
    cancel_and_await(worker);
    ck_assert_done(weft_hub_set(hub, "key", "value", 5, &revision));
    ck_assert_done(weft_hub_get(hub, "key", NULL, NULL));
    ck_assert_done(weft_hub_log(hub, "history", NULL));
    ck_assert_done(weft_hub_append(hub, "history", "room", "line", 4, &last));
}

static void use_names(void)
{
    uint64_t token;
    weft_fiber owner = weft_spin(echo_calls, NULL);
    ck_assert_done(weft_hub_expose(hub, "owned", owner, &token));
    ck_assert_done(weft_hub_monitor(hub, "owned", 1));
    ck_assert_done(weft_hub_withdraw(hub, "owned"));
    ck_assert_int_eq(weft_receive(), 1);
    cancel_and_await(owner);
}

/* Return the processor time of this process in seconds. */
static double used_cpu_s(void)
{
    struct rusage u;
    ck_assert_int_eq(getrusage(RUSAGE_SELF, &u), 0);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Print the processor time of the client and the service for one call. */
static void measure_calls(unsigned n)
{
    weft_fiber callers[CALLERS];
    double begin = used_cpu_s();
    calls.hub = hub;
    calls.remaining = n;
    for (int i = 0; i < CALLERS; i++)
        callers[i] = weft_spin(call_repeatedly, NULL);
    await_each_as(callers, CALLERS, 0);
    print_figures("| calls at 64 at a time | %.2f us of CPU per call, caller and service |\n",
                  (used_cpu_s() - begin) * 1e6 / n);
}

TEST_WITHIN(90, a_hub_needs_no_further_thread)
{
    nats_server_start(&server, "");
    hub = open_hub_at(server.url, NULL);
    weft_fiber echo = expose_echo(hub);
    measure_calls(20000);
    use_durable_parts();
    use_names();
    nats_server_kill(&server);
    nats_server_restart(&server);
    ck_await(30, weft_hub_call(hub, NAME, "again", 5, NULL) == 0);
    ck_assert_int_eq(count_threads(), 1);
    cancel_and_await(echo);
    close_hub(hub);
    nats_server_end(&server);
}
