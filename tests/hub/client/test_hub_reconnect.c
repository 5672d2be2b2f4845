/*
 * Connections that break, with the faults of a broker. With a server of another process, only
 * test_hub_failover.c breaks connections.
 */
#include "hub/client/expose_support.h"

static weft_hub_broker *broker;
static weft_hub *hub;

static void open_own_hub(void)
{
    if (is_on_server())
        return;
    broker = weft_hub_broker_get("");
    ck_assert_ptr_nonnull(broker);
    hub = open_hub_at("mem:", &(weft_hub_options){.name = "host"});
}

static void close_own_hub(void)
{
    if (is_on_server())
        return;
    close_hub(hub);
    weft_hub_broker_release(broker);
}

FIXTURE(open_own_hub, close_own_hub)

/* Define a test that needs the faults of a broker. */
#define BROKER_TEST(name)          \
    static void name##_body(void); \
    TEST(name)                     \
    {                              \
        if (!is_on_server())       \
            name##_body();         \
    }                              \
    static void name##_body(void)

/* Break the connection, and wait for the next one. */
static void cut_and_wait(void)
{
    uint64_t connection = weft__hub_connection(hub);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "host"), 1);
    while (weft__hub_connection(hub) == connection)
        weft_sleep(0.001);
}

BROKER_TEST(exposed_names_are_restored)
{
    spin_exposed(hub, "echo", echo_all, NULL);
    for (int i = 1; i <= 3; i++) {
        cut_and_wait();
        ck_assert_uint_eq(hub_stats(hub).reconnects, i);
        assert_call(hub, "echo", "x", "x");
    }
}

BROKER_TEST(names_that_change_without_a_connection_are_right_afterwards)
{
    spin_exposed(hub, "old", echo_all, NULL);
    weft_fiber f = spin_daemon(echo_all, NULL);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "host"), 1);
    while (weft__hub_is_connected(hub))
        weft_snooze();
    withdraw(hub, "old");
    ck_assert_done(expose(hub, "new", f)); /* waits for the connection */
    assert_call(hub, "new", "x", "x");
    ck_assert_fails(weft_hub_call(hub, "old", "x", 1, NULL), -EHOSTUNREACH);
}

BROKER_TEST(messages_that_are_told_without_a_connection_are_sent_later)
{
    weft_hub *other = open_hub_at("mem:", &(weft_hub_options){.name = "other"});
    ck_assert_done(expose(other, "a", weft_self()));
    ck_assert_int_eq(weft_hub_broker_cut(broker, "host"), 1);
    while (weft__hub_is_connected(hub))
        weft_snooze();
    for (int i = 0; i < 100; i++)
        ck_assert_done(weft_hub_tell(hub, "a", "x", 1));
    for (int i = 0; i < 100; i++)
        weft_hub_free(receive_msg());
    ck_assert_uint_eq(hub_stats(hub).lost, 0);
    close_hub(other);
}

/* 64 callers, while the connection breaks again and again. */
typedef struct storm {
    unsigned answered, reset, others;
    bool is_over;
} storm;

static weft_value call_in_storm(void *arg)
{
    storm *s = arg;
    while (!s->is_over) {
        int rc = weft_hub_call(hub, "echo", "x", 1, NULL);
        s->answered += rc == 0;
        s->reset += rc == -ECONNRESET;
        s->others += rc != 0 && rc != -ECONNRESET;
        weft_error_clear();
    }
    return 0;
}

BROKER_TEST(a_call_returns_a_reply_or_econnreset_whenever_the_connection_breaks)
{
    storm s = {0};
    weft_fiber f[64];
    spin_exposed(hub, "echo", echo_all, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(call_in_storm, &s);
    for (int i = 0; i < 5; i++) {
        unsigned wanted = s.answered + 200;
        while (s.answered < wanted)
            weft_sleep(0.001);
        cut_and_wait();
    }
    s.is_over = true;
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_uint_gt(s.reset, 0);
    ck_assert_uint_eq(s.others, 0);
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
}

static int connects;

static void count_connect(weft__hub_watcher *w)
{
    connects++;
    weft__hub_unwatch(w); /* a watcher may leave */
}

BROKER_TEST(watchers_are_called_after_a_new_connection)
{
    weft__hub_watcher first = {.on_connect = count_connect}, second = first;
    weft__hub_watch(hub, &first);
    weft__hub_watch(hub, &second);
    cut_and_wait();
    ck_assert_int_eq(connects, 2);
    cut_and_wait();
    ck_assert_int_eq(connects, 2);
}

/* Only in virtual time: the hub drops a silent server after 6 to 8 s. */
BROKER_TEST(a_silent_server_is_dropped)
{
    if (!is_sim())
        return;
    caller c = {hub, "a"};
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "host", true), 0);
    weft_fiber f = weft_spin(run_caller, &c);
    double begin = weft_now();
    ck_assert_int_eq(caller_result(f), -ECONNRESET);
    ck_assert_slept(begin, 6);
    ck_assert(weft_now() - begin < 8.001);
    ck_assert(!weft__hub_is_connected(hub));
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "host", false), 0);
    ck_assert_int_eq(weft__hub_wait_connected(hub), 0);
}

BROKER_TEST(a_hub_that_is_idle_for_a_long_time_stays_connected)
{
    if (!is_sim())
        return;
    weft_sleep(1000);
    ck_assert_uint_eq(hub_stats(hub).reconnects, 0);
    ck_assert_fails(weft_hub_call(hub, "nobody", "x", 1, NULL), -EHOSTUNREACH);
}

BROKER_TEST(a_closed_hub_wakes_a_call_that_waits_for_a_connection)
{
    weft_hub *other = open_hub_at("mem:", &(weft_hub_options){.name = "other", .connect_s = 100});
    caller c = {other, "a"};
    ck_assert_int_eq(weft_hub_broker_isolate(broker, "other", true), 0);
    ck_assert_int_eq(weft_hub_broker_cut(broker, "other"), 1);
    while (weft__hub_is_connected(other))
        weft_snooze();
    weft_fiber f = weft_spin(run_caller, &c);
    let_run();
    ck_assert_fails(weft_hub_close(other), -ENOTCONN);
    ck_assert_int_eq(caller_result(f), -EBADF);
}

BROKER_TEST(the_data_of_a_broker_outlives_the_connection_of_its_last_hub)
{
    ck_assert_done(weft_hub_set(hub, "key", "value", 5, NULL));
    weft_hub_broker *own = broker;
    ck_assert_int_eq(weft_hub_broker_cut(own, "host"), 1);
    weft_hub_broker_release(own);
    weft_hub_msg *msg;
    ck_assert_done(weft_hub_get(hub, "key", &msg, NULL));
    ck_assert_str_eq(msg->data, "value");
    weft_hub_free(msg);
    broker = NULL;
}
