/*
 * Each call of a hub, interrupted at each of its first switchpoints: by a cancellation, and by the
 * end of the hub. AddressSanitizer finds what a call leaves behind.
 */
#include "hub/hub_support.h"

#define STEPS 24 /* switchpoints, at which a call is interrupted */
#define STEP_S 0.0002
#define AFTER_S 60
#define GRACE_S 10

typedef struct operation {
    const char *name;
    int (*run)(weft_hub *hub);
} operation;

static weft_hub *victim;      /* the hub of the interrupted call */
static weft_fiber silent;     /* exposes "silent", and does not reply */
static uint64_t any_revision; /* of the last set */

static int run_tell(weft_hub *hub)
{
    return weft_hub_tell(hub, "silent", "t", 1);
}

static int run_call(weft_hub *hub)
{
    weft_hub_msg *reply = NULL;
    int rc = weft_hub_call(hub, "echo", "c", 1, &reply);
    weft_hub_free(reply);
    return rc;
}

static int run_call_silent(weft_hub *hub)
{
    return weft_hub_call(hub, "silent", "c", 1, NULL);
}

static int run_expose(weft_hub *hub)
{
    return weft_hub_expose(hub, "shared", silent, NULL);
}

static int run_expose_owned(weft_hub *hub)
{
    uint64_t token;
    return weft_hub_expose(hub, "owned", silent, &token);
}

static int run_expose_and_withdraw(weft_hub *hub)
{
    uint64_t token;
    int rc = weft_hub_expose(hub, "brief", silent, &token);
    return rc < 0 ? rc : weft_hub_withdraw(hub, "brief");
}

static int run_monitor(weft_hub *hub)
{
    return weft_hub_monitor(hub, "watched", 1);
}

static int run_queue(weft_hub *hub)
{
    const weft_hub_queue_options o = {.deliveries_max = 2, .dead_letters = "dead"};
    return weft_hub_queue(hub, "other", &o);
}

static int run_put(weft_hub *hub)
{
    return weft_hub_put(hub, "q", NULL, "item", 4);
}

static weft_value handle_after_a_switch(weft_hub_msg *item, void *arg)
{
    weft_snooze();
    return item->number % 2 == 0 ? 0 : -EIO;
}

static int run_work(weft_hub *hub)
{
    return weft_hub_work(hub, "q", handle_after_a_switch, NULL, 3);
}

static int run_set(weft_hub *hub)
{
    any_revision = WEFT_HUB_ANY_REVISION;
    return weft_hub_set(hub, "key", "value", 5, &any_revision);
}

static int run_get(weft_hub *hub)
{
    weft_hub_msg *out = NULL;
    int rc = weft_hub_get(hub, "present", &out, NULL);
    weft_hub_free(out);
    return rc;
}

static int run_delete(weft_hub *hub)
{
    return weft_hub_delete(hub, "key", NULL);
}

static int run_append(weft_hub *hub)
{
    return weft_hub_append(hub, "l", "k", "entry", 5, NULL);
}

static int run_next(weft_hub *hub)
{
    weft_hub_msg *out = NULL;
    int rc = weft_hub_next(hub, "l", "k", 0, &out);
    weft_hub_free(out);
    return rc;
}

static weft_value be_child(weft_hub_msg *job, void *arg)
{
    return weft_sleep(STEP_S);
}

static int run_offer(weft_hub *hub)
{
    return weft_hub_offer(hub, "kind", be_child, NULL, 2);
}

static int run_run(weft_hub *hub)
{
    return (int)weft_hub_run(&(weft_hub_child){.hub = hub, .kind = "offered"});
}

static int run_open(weft_hub *hub)
{
    weft_hub *second = weft_hub_open(hub_where(), NULL);
    return second == NULL ? weft_error()->code : weft_hub_close(second);
}

static const operation operations[] = {
    {"tell", run_tell},
    {"call", run_call},
    {"call without reply", run_call_silent},
    {"expose", run_expose},
    {"expose owned", run_expose_owned},
    {"expose and withdraw", run_expose_and_withdraw},
    {"monitor", run_monitor},
    {"queue", run_queue},
    {"put", run_put},
    {"work", run_work},
    {"set", run_set},
    {"get", run_get},
    {"delete", run_delete},
    {"append", run_append},
    {"next", run_next},
    {"offer", run_offer},
    {"run", run_run},
    {"open and close", run_open},
};

/* Free the messages without a reply, until cancelled. */
static weft_value stay_silent(void *arg)
{
    weft_value message;
    while (!weft_is_error(message = weft_receive()))
        continue; /* the hub frees the messages */
    weft_error_clear();
    return 0;
}

static weft_value echo_calls(void *arg)
{
    weft_value message;
    while (!weft_is_error(message = weft_receive())) {
        weft_hub_msg *msg = (weft_hub_msg *)message;
        weft_hub_reply(msg, msg->data, msg->bytes);
        weft_hub_free(msg);
    }
    weft_error_clear();
    return 0;
}

static weft_value offer_always(void *hub)
{
    weft_hub_offer(hub, "offered", be_child, NULL, 100);
    weft_error_clear();
    return 0;
}

/* What the operations need. Returns the hub that serves them. */
static weft_hub *serve_operations(weft_fiber fibers[3])
{
    uint64_t token;
    weft_hub *hub = open_hub();
    silent = fibers[0] = weft_spin(stay_silent, NULL);
    fibers[1] = weft_spin(echo_calls, NULL);
    fibers[2] = weft_spin(offer_always, hub);
    ck_assert_done(weft_hub_expose(hub, "silent", silent, NULL));
    ck_assert_done(weft_hub_expose(hub, "echo", fibers[1], NULL));
    ck_assert_done(weft_hub_expose(hub, "watched", silent, &token));
    ck_assert_done(weft_hub_queue(hub, "q", NULL));
    ck_assert_done(weft_hub_log(hub, "l", NULL));
    ck_assert_done(weft_hub_append(hub, "l", "k", "first", 5, NULL));
    ck_assert_done(weft_hub_set(hub, "present", "p", 1, NULL));
    return hub;
}

static weft_value run_operation(void *arg)
{
    const operation *o = arg;
    int rc = o->run(victim);
    weft_error_clear();
    return -rc; /* an error would be raised in the main fiber */
}

/* Let other fibers run for a number of steps. */
static void let_pass(int steps)
{
    for (int i = 0; i < steps; i++)
        ck_assert_int_eq(i < STEPS / 2 ? weft_snooze() : weft_sleep(STEP_S), 0);
}

static void assert_hub_works(weft_hub *hub)
{
    int timeout = 0;
    WEFT_CANCEL_AFTER(AFTER_S, timeout) {
        ck_assert_done(run_call(hub));
        ck_assert_done(run_set(hub));
        while (hub_stats(hub).in_flight > 0) /* a fiber of the hub gives a name up */
            ck_assert_int_eq(weft_sleep(STEP_S), 0);
    }
    ck_assert_int_eq(timeout, 0);
}

TEST_ROWS(a_call_can_be_cancelled_at_any_switchpoint, operations)
{
    weft_fiber fibers[3];
    weft_hub *server = serve_operations(fibers);
    victim = open_hub();
    for (int steps = 0; steps < STEPS; steps++) {
        weft_fiber caller = weft_spin(run_operation, (void *)&operations[_i]);
        let_pass(steps);
        weft_cancel(caller);
        weft_await(caller);
        weft_error_clear();
        assert_hub_works(victim);
        weft_hub_withdraw(victim, "shared");
        weft_hub_withdraw(victim, "owned");
        weft_error_clear();
    }
    close_hub(victim);
    for (int i = 0; i < 3; i++)
        weft_terminate(fibers[i], GRACE_S);
    close_hub(server);
}

TEST_ROWS(a_hub_can_be_closed_at_any_switchpoint_of_a_call, operations)
{
    weft_fiber fibers[3];
    weft_hub *server = serve_operations(fibers);
    for (int steps = 0; steps < STEPS; steps++) {
        victim = open_hub();
        weft_fiber caller = weft_spin(run_operation, (void *)&operations[_i]);
        let_pass(steps);
        ck_assert_int_eq(weft_hub_close(victim), 0);
        WEFT_MOVE_ON_AFTER(AFTER_S) {
            weft_value value = weft_await(caller);
            ck_assert_msg(value != -ECANCELED, "%s waits after %d steps", operations[_i].name,
                          steps);
        }
    }
    assert_hub_works(server);
    for (int i = 0; i < 3; i++)
        weft_terminate(fibers[i], GRACE_S);
    close_hub(server);
}

static size_t count_fibers(void)
{
    weft_counters counters;
    weft_stats(&counters);
    return counters.fibers;
}

static weft_value close_victim(void *arg)
{
    int rc = weft_hub_close(victim);
    weft_error_clear();
    return -rc;
}

/* A call that starts while the hub is being closed. */
TEST_ROWS(a_call_can_start_while_the_hub_is_closed, operations)
{
    weft_fiber fibers[3];
    weft_hub *server = serve_operations(fibers);
    size_t fibers_before = count_fibers();
    for (int steps = 0; steps < 6; steps++) {
        victim = open_hub();
        weft_fiber closer = weft_spin(close_victim, NULL);
        let_pass(steps);
        bool is_alive = weft_state_of(closer) != WEFT_DEAD;
        weft_fiber caller = is_alive ? weft_spin(run_operation, (void *)&operations[_i]) : 0;
        ck_assert_int_eq(weft_await(closer), 0);
        WEFT_MOVE_ON_AFTER(AFTER_S) {
            if (caller != 0)
                ck_assert_int_ne(weft_await(caller), -ECANCELED);
        }
        let_run();
        ck_assert_uint_eq(count_fibers(), fibers_before);
    }
    for (int i = 0; i < 3; i++)
        weft_terminate(fibers[i], GRACE_S);
    close_hub(server);
}
