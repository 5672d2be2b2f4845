/*
 * Cancel each operation after each number of switches. The operation ends, leaks nothing, and the
 * next operations succeed. LeakSanitizer checks the memory.
 */
#include "hub/names/names_support.h"

static weft_hub *hub, *other;
static weft_fiber server;

static weft_value handle_nothing(weft_hub_msg *item, void *arg)
{
    return weft_sleep(0.001);
}

FIBER(offer_always, -weft_hub_offer(other, "kind", handle_nothing, NULL, 4))

static weft_fiber offer;

static void open_two_hubs(void)
{
    uint64_t token;
    hub = open_hub();
    other = open_hub();
    server = spin_server("x");
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    ck_assert_done(weft_hub_log(hub, "log", NULL));
    ck_assert_done(weft_hub_set(hub, "key", "1", 1, NULL));
    ck_assert_done(weft_hub_expose(other, "room", server, &token));
    offer = weft_spin(offer_always, NULL);
    let_run();
}

static void close_two_hubs(void)
{
    cancel_and_await(offer);
    cancel_and_await(server);
    close_hub(hub);
    close_hub(other);
}

FIXTURE(open_two_hubs, close_two_hubs)

static int round_number;

static weft_value cancelled_get(void)
{
    weft_hub_msg *msg;
    int rc = weft_hub_get(hub, "key", &msg, NULL);
    if (rc == 0)
        weft_hub_free(msg);
    return rc;
}

static weft_value cancelled_next(void)
{
    weft_hub_msg *msg;
    int rc = weft_hub_next(hub, "log", "k", 0, &msg);
    if (rc == 0)
        weft_hub_free(msg);
    return rc == -ENOENT ? 0 : rc;
}

static weft_value cancelled_queue(void)
{
    const weft_hub_queue_options options = {.dead_letters = format("dead%d", round_number)};
    return weft_hub_queue(hub, format("q%d", round_number), &options);
}

/* Works until it is cancelled. A round without a cancellation ends by its own deadline. */
static weft_value cancelled_work(void)
{
    int rc = 0;
    for (int i = 0; rc >= 0 && i < 3; i++)
        rc = weft_hub_put(hub, "jobs", NULL, "x", 1);
    if (rc < 0)
        return rc;
    int timeout = 0;
    WEFT_CANCEL_AFTER(0.05, timeout) {
        rc = weft_hub_work(hub, "jobs", handle_nothing, NULL, 2);
    }
    return timeout == -ETIMEDOUT ? 0 : rc;
}

static weft_value cancelled_offer(void)
{
    int rc = 0, timeout = 0;
    WEFT_CANCEL_AFTER(0.05, timeout) {
        rc = weft_hub_offer(hub, "other", handle_nothing, NULL, 2);
    }
    return timeout == -ETIMEDOUT ? 0 : rc;
}

static weft_value cancelled_expose(void)
{
    uint64_t token;
    const char *name = format("name%d", round_number);
    int rc = weft_hub_expose(hub, name, server, &token);
    return rc < 0 ? rc : weft_hub_withdraw(hub, name);
}

static weft_value cancelled_expose_until_end(void)
{
    uint64_t token;
    return weft_hub_expose(hub, format("name%d", round_number), weft_self(), &token);
}

static weft_value cancelled_monitor(void)
{
    int rc = weft_hub_monitor(hub, "room", 1);
    return rc < 0 || round_number % 2 == 0 ? rc : weft_hub_unmonitor(hub, "room");
}

static weft_value cancelled_run(void)
{
    weft_hub_child child = {hub, "kind", "x", 1};
    return weft_hub_run(&child);
}

static weft_value cancelled_set(void)
{
    return weft_hub_set(hub, format("k%d", round_number), "x", 1, &(uint64_t){0});
}

static weft_value cancelled_put(void)
{
    return weft_hub_put(hub, "jobs", format("%d", round_number), "x", 1);
}

static weft_value cancelled_append(void)
{
    return weft_hub_append(hub, "log", "k", "x", 1, NULL);
}

static weft_value cancelled_delete(void)
{
    return weft_hub_delete(hub, "key", NULL);
}

static weft_value cancelled_log(void)
{
    return weft_hub_log(hub, format("log%d", round_number), NULL);
}

typedef weft_value operation(void);

static operation *const operations[] = {
    cancelled_get,
    cancelled_next,
    cancelled_queue,
    cancelled_work,
    cancelled_offer,
    cancelled_expose,
    cancelled_expose_until_end,
    cancelled_monitor,
    cancelled_run,
    cancelled_set,
    cancelled_put,
    cancelled_append,
    cancelled_delete,
    cancelled_log,
};

/* Return 0 or 1. An error of a fiber would be raised in the main fiber. */
static weft_value run_operation(void *arg)
{
    weft_value rc = (*(operation *const *)arg)();
    ck_assert_msg(rc >= 0 || rc == -ECANCELED, "%d: %s", (int)rc, strerror((int)-rc));
    weft_error_clear();
    return rc >= 0;
}

/* The hub may be closed before, during and after the operation. */
static weft_value run_until_closed(void *arg)
{
    weft_value rc = (*(operation *const *)arg)();
    ck_assert_msg(rc >= 0 || rc == -EBADF || rc == -ENOENT, "%d: %s", (int)rc,
                  weft_error() == NULL ? "" : weft_error()->message);
    weft_error_clear();
    return 1;
}

#define ROUNDS_MAX 400

TEST_ROWS(an_operation_that_is_cancelled_after_any_number_of_switches_leaks_nothing, operations)
{
    int completed = 0;
    for (round_number = 0; completed < 2 && round_number < ROUNDS_MAX; round_number++) {
        weft_fiber f = weft_spin(run_operation, (void *)(uintptr_t)&operations[_i]);
        for (int i = 0; i < round_number && weft_state_of(f) != WEFT_DEAD; i++)
            weft_sleep(0);
        bool has_ended = weft_state_of(f) == WEFT_DEAD;
        if (!has_ended)
            weft_cancel(f);
        weft_value is_done = weft_await(f);
        completed += has_ended && is_done == 1;
    }
    ck_assert_done(weft_hub_set(hub, "last", "x", 1, NULL));
    while (hub_stats(hub).in_flight > 0) /* the hub releases names after a cancelled expose */
        weft_sleep(0.001);
}

TEST_ROWS(an_operation_ends_if_its_hub_is_closed_after_any_number_of_switches, operations)
{
    int rounds = is_sim() ? 40 : 12;
    for (round_number = 0; round_number < rounds; round_number++) {
        weft_hub *spare = open_hub(), *kept = hub;
        hub = spare;
        weft_fiber f = weft_spin(run_until_closed, (void *)(uintptr_t)&operations[_i]);
        for (int i = 0; i < round_number; i++)
            weft_sleep(0);
        weft_hub_close(spare);
        hub = kept;
        ck_assert_int_eq(weft_await(f), 1);
    }
}
