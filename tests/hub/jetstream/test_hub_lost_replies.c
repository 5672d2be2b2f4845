/* Operations whose replies are lost take effect once, and succeed. */
#include "hub/fault_support.h"

static weft_hub *hub;

static void open_with_streams(void)
{
    open_broker();
    hub = open_named("a");
    ck_assert_done(weft_hub_set(hub, "k", "", 0, NULL)); /* create the bucket */
    ck_assert_done(weft_hub_log(hub, "log", NULL));
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
}

static void close_with_streams(void)
{
    close_connected(hub);
    close_broker();
}

FIXTURE(open_with_streams, close_with_streams)

/* A new hub connects at once. A hub whose connection has broken several times waits first. */
static void renew_hub(void)
{
    weft_hub_close(hub);
    hub = open_named("a");
}

/* Cut the connection of a new hub after a number of switches, while a statement is executed. */
#define with_lost_reply(switches, statement) \
    do {                                     \
        renew_hub();                         \
        with_cut("a", switches, statement);  \
    } while (0)

/* The connection breaks at each point of an operation. */
TEST(a_set_succeeds_once_although_its_reply_is_lost)
{
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        const char *key = format("k%d", i);
        uint64_t revision = 0, last = 0;
        int rc = -1;
        with_lost_reply(i, rc = weft_hub_set(hub, key, "1", 1, &revision));
        ck_assert_int_eq(rc, 0);
        ck_assert_done(weft_hub_get(hub, key, NULL, &last));
        ck_assert_uint_eq(last, revision);
        with_lost_reply(i, rc = weft_hub_set(hub, key, "2", 1, &revision));
        ck_assert_int_eq(rc, 0); /* not -ESTALE because of its own first attempt */
        ck_assert_done(weft_hub_get(hub, key, NULL, &last));
        ck_assert_uint_eq(last, revision);
        uint64_t any = WEFT_HUB_ANY_REVISION;
        with_lost_reply(i, rc = weft_hub_set(hub, key, "3", 1, &any));
        ck_assert_int_eq(rc, 0);
        ck_assert_uint_eq(any, revision + 1);
    }
}

TEST(a_get_succeeds_although_its_reply_is_lost)
{
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        int rc = -1;
        weft_hub_msg *msg = NULL;
        with_lost_reply(i, rc = weft_hub_get(hub, "k", &msg, NULL));
        ck_assert_int_eq(rc, 0);
        weft_hub_free(msg);
    }
}

TEST(a_deletion_succeeds_although_its_reply_is_lost)
{
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        uint64_t revision = 0;
        int rc = -1;
        ck_assert_done(weft_hub_set(hub, "d", "1", 1, &revision));
        with_lost_reply(i, rc = weft_hub_delete(hub, "d", &revision));
        ck_assert_int_eq(rc, 0);
        ck_assert_int_eq(weft_hub_get(hub, "d", NULL, NULL), -ENOENT);
    }
}

TEST(an_entry_is_appended_once_although_the_reply_is_lost)
{
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        uint64_t last = 0;
        int rc = -1;
        const char *key = format("k%d", i);
        with_lost_reply(i, rc = weft_hub_append(hub, "log", key, "1", 1, &last));
        ck_assert_int_eq(rc, 0);
        with_lost_reply(i, rc = weft_hub_append(hub, "log", key, "2", 1, NULL));
        ck_assert_int_eq(rc, 0);
        weft_hub_msg *msg;
        ck_assert_done(weft_hub_next(hub, "log", key, last, &msg));
        ck_assert_str_eq(msg->data, "2");
        uint64_t second = msg->number;
        weft_hub_free(msg);
        ck_assert_int_eq(weft_hub_next(hub, "log", key, second, &msg), -ENOENT);
    }
}

/* The runs of the handler, by the number of the item. */
static int runs[2 * SWITCHES_MAX + 8], handled;
static weft_cond has_handled;

static weft_value count_runs(weft_hub_msg *item, void *arg)
{
    runs[item->number]++;
    handled++;
    weft_cond_broadcast(&has_handled);
    return 0;
}

FIBER(work_and_count, -weft_hub_work(hub, "jobs", count_runs, NULL, 16))

TEST(an_item_is_stored_once_although_the_reply_of_put_is_lost)
{
    int rc = -1, stored = 0;
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        with_lost_reply(i, rc = weft_hub_put(hub, "jobs", format("%d", i), "x", 1));
        ck_assert(rc == 0 || rc == 1);
        with_lost_reply(i, rc = weft_hub_put(hub, "jobs", NULL, "x", 1));
        ck_assert_int_eq(rc, 0);
        stored += 2;
    }
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "last", "x", 1), 0);
    weft_fiber f = weft_spin(work_and_count, NULL);
    while (handled <= stored)
        ck_assert_done(weft_cond_wait(&has_handled, NULL));
    cancel_and_await(f);
    for (int i = 1; i <= stored + 1; i++)
        ck_assert_int_eq(runs[i], 1); /* the last item has the last number */
}

TEST(a_queue_and_a_log_are_created_although_replies_are_lost)
{
    for (int i = 0; i < SWITCHES_MAX; i += switches_step()) {
        int rc = -1;
        const weft_hub_queue_options options = {.dead_letters = format("dead%d", i)};
        with_lost_reply(i, rc = weft_hub_queue(hub, format("q%d", i), &options));
        ck_assert_int_eq(rc, 0);
        with_lost_reply(i, rc = weft_hub_log(hub, format("l%d", i), NULL));
        ck_assert_int_eq(rc, 0);
    }
}

static weft_value continue_later(void *arg)
{
    weft_sleep(*(double *)arg);
    return weft_hub_broker_pause(broker, false);
}

/* The loss of a leader looks like a broker that does not reply. */
TEST(operations_wait_for_a_leader_and_obey_their_scope)
{
    double pause_s = is_sim() ? 9 : 0.5;
    uint64_t revision = 0;
    ck_assert_done(weft_hub_broker_pause(broker, true));
    ck_assert_times_out(0.1, weft_hub_set(hub, "p", "x", 1, &(uint64_t){0}));
    weft_fiber f = weft_spin(continue_later, &pause_s);
    int rc = weft_hub_set(hub, "q", "x", 1, &revision);
    ck_assert_int_eq(rc, 0);
    ck_assert_done(weft_await(f));
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
}

FIBER(create_while_paused, -weft_hub_set(hub, "new", "x", 1, &(uint64_t){0}))

TEST(an_error_that_is_raised_in_the_caller_is_not_taken_for_a_stale_revision)
{
    ck_assert_done(weft_hub_broker_pause(broker, true));
    weft_fiber f = weft_spin(create_while_paused, NULL);
    let_run();
    ck_assert_done(weft_raise(f, -ESTALE, "the name is lost"));
    let_run();
    ck_assert_done(weft_hub_broker_pause(broker, false));
    ck_assert_int_eq(weft_await(f), ESTALE); /* not 0 after another attempt */
}
