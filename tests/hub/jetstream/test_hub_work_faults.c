/* Workers whose connections break, hang, or end. */
#include "hub/fault_support.h"
#include "hub/jetstream/worker_support.h"

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

/* Wait in the first run of an item, and end it in the following ones. */
static weft_value hang_once(weft_hub_msg *item, void *arg)
{
    note_run(item);
    if (item->deliveries == 1) {
        int rc = weft_sleep(INFINITY);
        return rc;
    }
    note_handled();
    return 0;
}

TEST(an_item_of_a_worker_that_is_gone_goes_to_another_worker)
{
    worker w[] = {{a, "jobs", hang_once, 1}, {b, "jobs", handle_item, 1}};
    ck_assert_done(weft_hub_queue(c, "jobs", &(weft_hub_queue_options){.ack_s = 0.5}));
    put_items(c, "jobs", 0, 1);
    worker_start(&w[0]);
    wait_until(done.runs[0] == 1);
    ck_assert_done(weft_hub_broker_isolate(broker, "a", true));
    worker_start(&w[1]);
    wait_until(done.handled == 1);
    ck_assert_int_eq(done.runs[0], 2);
    ck_assert_uint_eq(hub_stats(b).redelivered, 1);
    ck_assert_done(weft_hub_broker_isolate(broker, "a", false));
    worker_stop(&w[0]);
    worker_stop(&w[1]);
}

TEST_LOOP(a_worker_continues_after_its_connection_breaks, SWITCHES_MAX / 4)
{
    worker w = {a, "jobs", handle_item, 4};
    ck_assert_done(weft_hub_queue(c, "jobs", &(weft_hub_queue_options){.ack_s = 0.5}));
    worker_start(&w);
    for (int i = 0; i < 4; i++)
        with_cut("a", 4 * _i + i, put_items(c, "jobs", 10 * i, 10));
    wait_until(done.handled >= 40);
    for (int i = 0; i < 40; i++)
        ck_assert_int_ge(done.runs[i], 1);
    worker_stop(&w);
}

TEST(a_worker_continues_after_a_broker_that_did_not_reply)
{
    worker w = {a, "jobs", handle_item, 4};
    ck_assert_done(weft_hub_queue(c, "jobs", NULL));
    worker_start(&w);
    put_items(c, "jobs", 0, 5);
    wait_until(done.handled == 5);
    ck_assert_done(weft_hub_broker_pause(broker, true));
    weft_sleep(is_sim() ? 40 : 0.5); /* on sim: pulls expire */
    ck_assert_done(weft_hub_broker_pause(broker, false));
    put_items(c, "jobs", 5, 5);
    wait_until(done.handled == 10);
    worker_stop(&w);
}

static weft_value mark_dead_letter(weft_hub_msg *item, void *arg)
{
    mark(item->id);
    note_handled();
    return 0;
}

TEST(an_item_whose_workers_die_becomes_a_dead_letter)
{
    worker w[] = {{a, "jobs", hang_once, 1}, {b, "jobs", handle_item, 1}};
    const weft_hub_queue_options options = {
        .ack_s = 0.5, .deliveries_max = 1, .dead_letters = "dead"};
    ck_assert_done(weft_hub_queue(c, "jobs", &options));
    put_items(c, "jobs", 0, 1);
    worker_start(&w[0]);
    wait_until(done.runs[0] == 1);
    ck_assert_done(weft_hub_broker_isolate(broker, "a", true));
    worker_start(&w[1]);
    worker undertaker = {c, "dead", mark_dead_letter, 1};
    worker_start(&undertaker);
    wait_until(done.handled == 1);
    ck_assert_trail("jobs.1");
    ck_assert_int_eq(done.runs[0], 1);
    ck_assert_done(weft_hub_broker_isolate(broker, "a", false));
    worker_stop(&w[0]);
    worker_stop(&w[1]);
    worker_stop(&undertaker);
}

/* Break, isolate and pause in turn, for as long as items remain. */
static weft_value disturb(void *arg)
{
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0;; i++) {
        const char *name = names[i % 3];
        bool is_pause = i % 7 == 6, is_cut = i % 2 == 0;
        int rc = is_pause ? weft_hub_broker_pause(broker, true)
                 : is_cut ? weft_hub_broker_cut(broker, name)
                          : weft_hub_broker_isolate(broker, name, true);
        if (!weft_is_error(rc))
            rc = weft_sleep(0.02 * (i % 5));
        weft_hub_broker_pause(broker, false);
        weft_hub_broker_isolate(broker, name, false);
        if (!weft_is_error(rc))
            rc = weft_sleep(0.05);
        if (weft_is_error(rc))
            return 0;
    }
}

#define DISTURBED_ITEMS 200

static weft_value put_all(void *arg)
{
    for (int i = 0; i < DISTURBED_ITEMS; i++) {
        int rc = weft_hub_put(c, "jobs", format("%d", i), "x", 1);
        ck_assert(rc == 0 || rc == 1);
        weft_sleep(0.002);
    }
    return 0;
}

static bool all_have_run(void)
{
    for (int i = 0; i < DISTURBED_ITEMS; i++)
        if (done.runs[i] == 0)
            return false;
    return true;
}

TEST_LOOP(no_item_is_lost_while_connections_break, 3)
{
    worker w[] = {{a, "jobs", handle_item, 4}, {b, "jobs", handle_item, 4}};
    ck_assert_done(weft_hub_queue(c, "jobs", &(weft_hub_queue_options){.ack_s = 1}));
    worker_start(&w[0]);
    worker_start(&w[1]);
    weft_fiber saboteur = weft_spin(disturb, NULL), producer = weft_spin(put_all, NULL);
    ck_assert_done(weft_await(producer));
    cancel_and_await(saboteur);
    wait_until(all_have_run());
    worker_stop(&w[0]);
    worker_stop(&w[1]);
}
