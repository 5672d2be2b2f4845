/* Workers of durable queues, without faults of servers. */
#include "hub/jetstream/api.h"
#include "hub/jetstream/worker_support.h"

static weft_hub *hub;

static void open_work_hub(void)
{
    hub = open_hub();
}

static void close_work_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_work_hub, close_work_hub)

TEST(each_item_is_handled_once_without_faults)
{
    weft_hub *other = open_hub();
    worker w[] = {{hub, "jobs", handle_item, 8}, {other, "jobs", handle_item, 1}};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 100);
    worker_start(&w[0]);
    worker_start(&w[1]);
    put_items(hub, "jobs", 100, 200);
    wait_until(done.handled == 300);
    worker_stop(&w[0]);
    worker_stop(&w[1]);
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(done.runs[i], 1);
    ck_assert_uint_eq(hub_stats(hub).redelivered + hub_stats(other).redelivered, 0);
    close_hub(other);
}

static weft_value check_fields(weft_hub_msg *item, void *arg)
{
    ck_assert_str_eq(item->to, "jobs");
    ck_assert_str_eq(item->id, "7");
    ck_assert_mem_eq(item->data, "item 7", 7);
    ck_assert_uint_eq(item->bytes, 6);
    ck_assert_uint_eq(item->deliveries, 1);
    ck_assert_uint_eq(item->number, 2);
    ck_assert(!item->is_call);
    return handle_item(item, arg);
}

TEST(an_item_has_the_queue_the_id_the_data_and_a_number)
{
    worker w = {hub, "jobs", check_fields, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    worker first = {hub, "jobs", handle_item, 1};
    put_items(hub, "jobs", 1, 1);
    worker_start(&first);
    wait_until(done.handled == 1);
    worker_stop(&first);
    put_items(hub, "jobs", 7, 1);
    worker_start(&w);
    wait_until(done.handled == 2);
    worker_stop(&w);
}

static weft_value note_generated_id(weft_hub_msg *item, void *arg)
{
    ck_assert_uint_gt(strlen(item->id), 0);
    note_handled();
    return 0;
}

TEST(an_item_that_was_put_without_an_id_has_a_generated_id)
{
    worker w = {hub, "jobs", note_generated_id, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    ck_assert_int_eq(weft_hub_put(hub, "jobs", NULL, NULL, 0), 0);
    worker_start(&w);
    wait_until(done.handled == 1);
    worker_stop(&w);
}

static weft_value handle_slowly(weft_hub_msg *item, void *arg)
{
    note_run(item);
    done.running_max = ++done.running > done.running_max ? done.running : done.running_max;
    int rc = weft_sleep(0.002);
    done.running--;
    if (rc == 0)
        note_handled();
    return rc;
}

TEST(at_most_at_once_handlers_run_and_all_of_them_if_there_are_items)
{
    worker w = {hub, "jobs", handle_slowly, 5};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 60);
    worker_start(&w);
    wait_until(done.handled == 60);
    worker_stop(&w);
    ck_assert_int_eq(done.running_max, 5);
}

/* Item 0 fails three times. Item 1 succeeds. */
static weft_value fail_item_0(weft_hub_msg *item, void *arg)
{
    mark(format("%s.%u ", item->id, item->deliveries));
    note_run(item);
    if (item_index(item) == 0 && item->deliveries < 4)
        return weft_fail(-EIO, "not yet");
    note_handled();
    return 0;
}

TEST(a_failed_item_is_delivered_again_after_a_growing_delay)
{
    worker w = {hub, "jobs", fail_item_0, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 2);
    double begin = weft_now();
    worker_start(&w);
    wait_until(done.handled == 2);
    ck_assert_trail("0.1 1.1 0.2 0.3 0.4 ");
    ck_assert(weft_now() - begin >= 0.69); /* 0.1 + 0.2 + 0.4, by the clock of the server */
    worker_stop(&w);
    ck_assert_uint_eq(hub_stats(hub).redelivered, 3);
}

static weft_value handle_for_long(weft_hub_msg *item, void *arg)
{
    note_run(item);
    int rc = weft_sleep(2);
    if (rc == 0)
        note_handled();
    return rc;
}

TEST(the_delivery_is_prolonged_while_a_handler_runs)
{
    weft_hub *other = open_hub();
    worker w[] = {{hub, "jobs", handle_for_long, 2}, {other, "jobs", handle_for_long, 2}};
    ck_assert_done(weft_hub_queue(hub, "jobs", &(weft_hub_queue_options){.ack_s = 0.5}));
    put_items(hub, "jobs", 0, 3);
    worker_start(&w[0]);
    worker_start(&w[1]);
    wait_until(done.handled == 3);
    ck_assert_int_eq(done.runs[0] + done.runs[1] + done.runs[2], 3);
    worker_stop(&w[0]);
    worker_stop(&w[1]);
    close_hub(other);
}

static weft_value fail_always(weft_hub_msg *item, void *arg)
{
    note_run(item);
    return -EIO;
}

static weft_value check_dead_letter(weft_hub_msg *item, void *arg)
{
    mark(item->id);
    ck_assert_mem_eq(item->data, "item 5", 7);
    note_handled();
    return 0;
}

TEST(an_item_that_fails_deliveries_max_times_becomes_a_dead_letter)
{
    worker w = {hub, "jobs", fail_always, 4};
    worker undertaker = {hub, "dead", check_dead_letter, 1};
    const weft_hub_queue_options options = {.deliveries_max = 3, .dead_letters = "dead"};
    ck_assert_done(weft_hub_queue(hub, "jobs", &options));
    put_items(hub, "jobs", 5, 1);
    worker_start(&w);
    worker_start(&undertaker);
    wait_until(done.handled == 1);
    ck_assert_trail("jobs.1");
    ck_assert_int_eq(done.runs[5], 3);
    worker_stop(&w);
    worker_stop(&undertaker);
    ck_assert_uint_eq(hub_stats(hub).dead_letters, 1);
}

/* Fail items below 10. */
static weft_value fail_low_ids(weft_hub_msg *item, void *arg)
{
    return item_index(item) < 10 ? fail_always(item, arg) : handle_item(item, arg);
}

TEST(dead_letters_without_a_queue_are_discarded)
{
    worker w = {hub, "jobs", fail_low_ids, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs",
                                  &(weft_hub_queue_options){.deliveries_max = 1, .items_max = 1}));
    put_items(hub, "jobs", 5, 1);
    worker_start(&w);
    put_items(hub, "jobs", 10, 1); /* there is room only after the dead letter is removed */
    wait_until(done.handled == 1);
    worker_stop(&w);
    ck_assert_int_eq(done.runs[5], 1);
    ck_assert_uint_eq(hub_stats(hub).dead_letters, 1);
}

static weft_value wait_forever(weft_hub_msg *item, void *arg)
{
    note_run(item);
    return weft_sleep(INFINITY);
}

TEST(a_cancelled_worker_gives_its_items_back)
{
    worker w = {hub, "jobs", wait_forever, 2}, next = {hub, "jobs", handle_item, 2};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL)); /* ack_s is 30 s */
    put_items(hub, "jobs", 0, 2);
    worker_start(&w);
    wait_until(done.runs[0] == 1 && done.runs[1] == 1);
    worker_stop(&w);
    worker_start(&next);
    wait_until(done.handled == 2);
    worker_stop(&next);
}

TEST(a_cancelled_worker_gives_items_in_transit_back)
{
    worker w = {hub, "jobs", wait_forever, 100}, next = {hub, "jobs", handle_item, 100};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    worker_start(&w);
    put_items(hub, "jobs", 0, 100);
    worker_stop(&w);
    worker_start(&next);
    wait_until(done.handled == 100);
    worker_stop(&next);
}

/* Return a value although cancelled. */
static weft_value handle_when_cancelled(weft_hub_msg *item, void *arg)
{
    note_run(item);
    weft_sleep(INFINITY);
    note_handled();
    return 0;
}

TEST(an_item_whose_handler_succeeds_although_cancelled_is_acknowledged)
{
    worker w = {hub, "jobs", handle_when_cancelled, 1}, next = {hub, "jobs", handle_item, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 1);
    worker_start(&w);
    wait_until(done.runs[0] == 1);
    worker_stop(&w);
    put_items(hub, "jobs", 1, 1);
    worker_start(&next);
    wait_until(done.handled == 2);
    worker_stop(&next);
    ck_assert_int_eq(done.runs[0], 1);
}

TEST(closing_the_hub_ends_a_worker_and_gives_its_items_back)
{
    weft_hub *other = open_hub();
    worker w = {other, "jobs", wait_forever, 1}, next = {hub, "jobs", handle_item, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 1);
    worker_start(&w);
    wait_until(done.runs[0] == 1);
    close_hub(other);
    ck_assert_int_eq(weft_await(w.fiber), EBADF);
    worker_start(&next);
    wait_until(done.handled == 1);
    worker_stop(&next);
}

TEST(a_put_into_a_full_queue_waits_for_a_worker)
{
    worker w = {hub, "jobs", handle_slowly, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", &(weft_hub_queue_options){.items_max = 3}));
    worker_start(&w);
    put_items(hub, "jobs", 0, 30);
    wait_until(done.handled == 30);
    worker_stop(&w);
}

TEST(the_deletion_of_the_queue_ends_a_worker)
{
    worker w = {hub, "jobs", handle_item, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 1);
    worker_start(&w);
    wait_until(done.handled == 1);
    weft__js_answer answer;
    ck_assert_done(weft__js_api(hub, "STREAM.DELETE.WEFT_Q_jobs", "", &answer));
    weft__js_answer_free(&answer);
    ck_assert_int_eq(weft_await(w.fiber), ENOENT);
}

static weft_value handle_and_raise(weft_hub_msg *item, void *arg)
{
    note_run(item);
    if (item->deliveries == 1)
        weft_raise(((worker *)arg)->fiber, -EXFULL, "enough");
    return 0;
}

TEST(an_error_that_is_raised_in_the_caller_ends_the_call)
{
    worker w = {hub, "jobs", handle_and_raise, 1};
    ck_assert_done(weft_hub_queue(hub, "jobs", NULL));
    put_items(hub, "jobs", 0, 1);
    worker_start(&w);
    ck_assert_int_eq(weft_await(w.fiber), EXFULL);
}

TEST(wrong_arguments_are_refused)
{
    ck_assert_fails(weft_hub_work(hub, "a.b", handle_item, NULL, 1), -EINVAL);
    ck_assert_fails(weft_hub_work(hub, "jobs", NULL, NULL, 1), -EINVAL);
    ck_assert_fails(weft_hub_work(hub, "jobs", handle_item, NULL, 0), -EINVAL);
    ck_assert_fails(weft_hub_work(hub, "jobs", handle_item, NULL, 65537), -EINVAL);
    ck_assert_fails(weft_hub_work(hub, "jobs", handle_item, NULL, 1), -ENOENT);
}
