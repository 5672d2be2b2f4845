/*
 * Owned names and placed children whose hubs are isolated or lose their connections. Most tests
 * last for several leases, and therefore only run with virtual time.
 */
#include "hub/fault_support.h"
#include "hub/names/names_support.h"

#include <limits.h>

static weft_hub *a, *b, *c;

static void open_three(void)
{
    open_broker();
    a = open_named("a");
    b = open_named("b");
    c = open_named("c");
}

static void close_three(void)
{
    close_connected(a);
    close_connected(b);
    close_connected(c);
    close_broker();
}

FIXTURE(open_three, close_three)

#define LEASE_S 15

static void isolate(const char *name, bool is_isolated)
{
    ck_assert_done(weft_hub_broker_isolate(broker, name, is_isolated));
}

/* The time at which an owner has learned that its name is lost. */
static double lost_s;

static weft_value own_until_lost(void *arg)
{
    weft_value rc = weft_receive();
    lost_s = weft_now();
    weft_error_clear();
    return -rc;
}

TEST(an_isolated_owner_loses_the_name_before_another_one_gets_it)
{
    if (!is_sim())
        return;
    weft_fiber f = weft_spin(own_until_lost, NULL), g = spin_server("b");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    weft_sleep(20);
    isolate("a", true);
    ck_assert_uint_gt(own_when_free(b, "room", g), token);
    ck_assert(lost_s > 0 && lost_s <= weft_now());
    ck_assert_int_eq(weft_await(f), ESTALE);
    isolate("a", false);
    ck_assert_int_eq(weft_hub_withdraw(a, "room"), -ENOENT);
    assert_answer(a, "room", "b");
    cancel_and_await(g);
}

TEST(an_owner_keeps_its_name_if_it_is_isolated_for_less_than_a_lease)
{
    if (!is_sim())
        return;
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t token, other;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    for (int i = 0; i < 5; i++) {
        isolate("a", true);
        ck_assert_int_eq(weft_hub_expose(b, "room", g, &other), -EEXIST);
        weft_sleep(9);
        isolate("a", false);
        weft_sleep(7);
    }
    ck_assert_int_eq(weft_hub_expose(b, "room", g, &other), -EEXIST);
    assert_answer(b, "room", "a");
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(no_name_changes_hands_while_the_broker_does_not_reply_for_9_s)
{
    if (!is_sim())
        return;
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t token, other;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    for (int i = 0; i < 5; i++) {
        weft_sleep(1.5);
        ck_assert_done(weft_hub_broker_pause(broker, true));
        weft_sleep(9);
        ck_assert_done(weft_hub_broker_pause(broker, false));
        weft_sleep(4);
        ck_assert_int_eq(weft_hub_expose(b, "room", g, &other), -EEXIST);
        assert_answer(b, "room", "a");
    }
    cancel_and_await(f);
    cancel_and_await(g);
}

/* The connection breaks at each point of the exposure. */
TEST(a_name_is_owned_and_released_although_connections_break)
{
    weft_fiber f = spin_server("a"), g = spin_server("b");
    uint64_t last = 0;
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        weft_hub *own = open_named("own");
        uint64_t token = 0;
        int rc = -1;
        with_cut("own", i, rc = weft_hub_expose(own, "room", f, &token));
        ck_assert_int_eq(rc, 0);
        ck_assert_uint_gt(token, last);
        with_cut("own", i, rc = weft_hub_withdraw(own, "room"));
        ck_assert_int_eq(rc, 0);
        ck_assert_done(weft_hub_expose(b, "room", g, &last));
        ck_assert_uint_gt(last, token);
        ck_assert_done(weft_hub_withdraw(b, "room"));
        weft_hub_close(own);
    }
    cancel_and_await(f);
    cancel_and_await(g);
}

TEST(the_monitor_of_a_hanging_owner_is_told_after_the_lease)
{
    if (!is_sim())
        return;
    weft_fiber f = weft_spin(own_until_lost, NULL);
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room", 3));
    ck_assert_int_eq(receive_soon(40), -ECANCELED);
    isolate("a", true);
    ck_assert_int_eq(receive_soon(LEASE_S / 2), -ECANCELED); /* pings without a reply say nothing */
    ck_assert_int_eq(receive_soon(LEASE_S / 2 + 3), 3);
    ck_assert_int_eq(receive_soon(40), -ECANCELED);
    ck_assert_int_eq(weft_await(f), ESTALE);
    isolate("a", false);
}

TEST(a_monitor_whose_own_connection_breaks_is_not_told)
{
    weft_fiber f = spin_server("a");
    uint64_t token;
    ck_assert_done(weft_hub_expose(a, "room", f, &token));
    ck_assert_done(weft_hub_monitor(b, "room", 3));
    for (int i = 0; i < (is_sim() ? 20 : 3); i++) {
        weft_hub_broker_cut(broker, "b");
        ck_assert_int_eq(receive_soon(0.07 * i), -ECANCELED);
    }
    weft_hub_broker_cut(broker, NULL); /* the server of all hubs is restarted */
    ck_assert_int_eq(receive_soon(is_sim() ? 60 : 3), -ECANCELED);
    ck_assert_done(weft_hub_withdraw(a, "room"));
    ck_assert_int_eq(receive_soon(PATIENCE_S), 3);
    cancel_and_await(f);
}

/* Children that wait until they are cancelled. */
static int started[2], ended[2];
static uint64_t tokens[2];
static weft_cond has_changed;

static weft_value child_wait(weft_hub_msg *job, void *arg)
{
    int i = arg == b;
    started[i]++;
    tokens[i] = job->number;
    weft_cond_broadcast(&has_changed);
    int rc = weft_sleep(INFINITY);
    ended[i]++;
    weft_cond_broadcast(&has_changed);
    return rc;
}

FIBER(offer_child_wait, -weft_hub_offer(arg, "kind", child_wait, arg, 1))

static void wait_for(const int *number)
{
    while (*number == 0)
        ck_assert_done(weft_cond_wait(&has_changed, NULL));
}

static weft_hub_child job = {NULL, "kind", "x", 1};

static weft_value supervise_job(void *arg)
{
    const weft_child children[] = {{.name = "remote", .fn = weft_hub_run, .arg = &job}};
    const weft_supervise_options options = {.restarts_max = UINT_MAX, .backoff_s = 0.1};
    return -weft_supervise(children, 1, &options);
}

TEST(a_supervisor_starts_the_child_of_a_hub_that_is_gone_on_another_hub)
{
    if (!is_sim())
        return;
    job.hub = c;
    weft_fiber offers[] = {weft_spin(offer_child_wait, a), 0};
    weft_fiber supervisor = weft_spin(supervise_job, NULL);
    wait_for(&started[0]);
    offers[1] = weft_spin(offer_child_wait, b);
    weft_sleep(30);
    ck_assert_int_eq(started[1], 0);
    isolate("a", true);
    wait_for(&started[1]);
    ck_assert_uint_gt(tokens[1], tokens[0]);
    wait_for(&ended[0]); /* the isolated hub cancels its child */
    ck_assert_int_eq(started[1], 1);
    isolate("a", false);
    cancel_and_await(supervisor);
    ck_assert_int_eq(ended[1], 1);
    cancel_and_await(offers[0]);
    cancel_and_await(offers[1]);
}

FIBER(run_job, -weft_hub_run(&job))

TEST(a_child_ends_if_the_hub_of_its_run_is_isolated_for_a_lease)
{
    if (!is_sim())
        return;
    job.hub = c;
    weft_fiber offer = weft_spin(offer_child_wait, a);
    let_run();
    weft_fiber run = weft_spin(run_job, NULL);
    wait_for(&started[0]);
    isolate("c", true);
    wait_for(&ended[0]);
    ck_assert_int_eq(weft_await(run), EOWNERDEAD);
    isolate("c", false);
    cancel_and_await(offer);
}

TEST(a_child_and_its_run_survive_broken_connections)
{
    job.hub = c;
    weft_fiber offer = weft_spin(offer_child_wait, a);
    let_run();
    weft_fiber run = weft_spin(run_job, NULL);
    wait_for(&started[0]);
    weft_sleep(1); /* the run has heard of its child */
    for (int i = 0; i < 3; i++) {
        weft_hub_broker_cut(broker, i == 0 ? "a" : i == 1 ? "c" : NULL);
        weft_sleep(is_sim() ? 30 : 0.5);
    }
    ck_assert_int_eq(ended[0], 0);
    ck_assert_int_ne(weft_state_of(run), WEFT_DEAD);
    ck_assert_int_eq(cancel_and_await(run), -ECANCELED);
    ck_assert_int_eq(ended[0], 1);
    cancel_and_await(offer);
}

static weft_value child_return(weft_hub_msg *msg, void *arg)
{
    return 7;
}

FIBER(offer_child_return, -weft_hub_offer(arg, "kind", child_return, arg, 1))

/* The connection of one side breaks at each point of a run. */
TEST(a_run_returns_the_value_of_its_child_or_eownerdead)
{
    static const char *const names[] = {"own", "a"};
    weft_fiber offer = weft_spin(offer_child_return, a);
    int values = 0;
    for (int i = 0; i < 2 * SWITCHES_MAX; i += switches_step()) {
        weft_hub *own = open_named("own");
        job.hub = own;
        weft_value value = 0;
        with_cut(names[i % 2], i / 2, value = weft_hub_run(&job));
        ck_assert(value == 7 || value == -EOWNERDEAD || value == -EHOSTUNREACH);
        values += value == 7;
        weft_hub_close(own);
    }
    ck_assert_int_gt(values, 0);
    weft_error_clear();
    cancel_and_await(offer);
}
