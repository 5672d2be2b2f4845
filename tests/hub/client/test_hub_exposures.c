/* Exposed names: sharing, full mailboxes, the end of fibers, withdrawal. */
#include "hub/client/expose_support.h"

static weft_hub *hub;

static void open_own_hub(void)
{
    hub = open_hub();
}

static void close_own_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_own_hub, close_own_hub)

/* Wait until the hub has handled everything that it has told others. */
static void settle(void)
{
    let_run(); /* fibers that were spun publish before the flush */
    ck_assert_done(weft__hub_flush(hub));
    let_run();
}

TEST(a_name_is_exposed_once_by_a_hub)
{
    ck_assert_done(expose(hub, "a", weft_self()));
    ck_assert_fails(expose(hub, "a", weft_self()), -EEXIST);
    withdraw(hub, "a");
    ck_assert_done(expose(hub, "a", weft_self()));
}

FIBER(return_at_once, 0)

TEST(a_fiber_that_has_ended_cannot_expose_a_name)
{
    weft_fiber f = weft_spin(return_at_once, NULL);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(expose(hub, "a", f), -ESRCH);
    ck_assert_int_eq(expose(hub, "a", 0), -ESRCH);
}

static weft_fiber fiber_of_thread;

static void *offer_fiber(void *arg)
{
    fiber_of_thread = weft_self();
    weft_tell(arg_id(arg), 1);
    weft_receive();
    return NULL;
}

TEST(a_fiber_of_another_thread_cannot_expose_a_name)
{
    pthread_t thread = start_thread(offer_fiber, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    weft__exposure *e;
    ck_assert_int_eq(weft__expose_begin(hub, "a", fiber_of_thread, &(weft__expose_options){0}, &e),
                     -EXDEV);
    ck_assert_int_eq(weft_tell(fiber_of_thread, 1), 0);
    join_thread(thread);
}

TEST(each_message_goes_to_one_of_the_fibers_that_share_a_name)
{
    weft_hub *other = open_hub();
    int calls = 200;
    spin_exposed(hub, "shared", echo_all, NULL);
    spin_exposed(other, "shared", echo_all, NULL);
    weft_hub_counters before = hub_stats(other);
    for (int i = 0; i < calls; i++)
        assert_call(hub, "shared", "x", "x");
    uint64_t at_other = hub_stats(other).received - before.received;
    ck_assert_uint_gt(at_other, 0);
    ck_assert_uint_lt(at_other, calls);
    ck_assert_uint_eq(hub_stats(hub).received, 2 * (uint64_t)calls - at_other);
    close_hub(other);
}

/* Take messages only when told to. */
typedef struct reader {
    size_t bound;
    weft_event go;
    int received;
} reader;

static weft_value read_later(void *arg)
{
    reader *r = arg;
    weft_hub_msg *msg;
    weft_mailbox_set_bound(r->bound);
    if (weft_event_wait(&r->go) < 0)
        return 0;
    while ((msg = receive_msg()) != NULL) {
        r->received++;
        if (msg->is_call)
            weft_hub_reply(msg, msg->data, msg->bytes);
        weft_hub_free(msg);
    }
    return 0;
}

/* Spin a reader, and let it set its bound. */
static weft_fiber spin_late_reader(reader *r)
{
    weft_fiber f = spin_daemon(read_later, r);
    let_run();
    ck_assert_done(expose(hub, "a", f));
    return f;
}

TEST(tells_for_a_full_mailbox_are_dropped_and_counted)
{
    reader r = {.bound = 16};
    weft_fiber f = spin_late_reader(&r);
    for (int i = 0; i < 20000; i++)
        ck_assert_done(weft_hub_tell(hub, "a", &i, sizeof i));
    settle();
    ck_assert_uint_eq(hub_stats(hub).dropped, 20000 - 16);
    weft_event_set(&r.go);
    settle();
    ck_assert_int_eq(r.received, 16);
    weft_terminate(f, 0);
}

TEST(calls_for_a_full_mailbox_wait)
{
    reader r = {.bound = 16};
    caller c = {hub, "a"};
    weft_fiber f[2000], reader_fiber = spin_late_reader(&r);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(run_caller, &c);
    settle();
    ck_assert_uint_eq(hub_stats(hub).in_flight, COUNT_OF(f));
    weft_event_set(&r.go);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_int_eq(caller_result(f[i]), 0);
    ck_assert_int_eq(r.received, COUNT_OF(f));
    ck_assert_uint_eq(hub_stats(hub).dropped, 0);
    weft_terminate(reader_fiber, 0);
}

/* The calls have no callers: their replies go to nobody. */
static void publish_calls(const char *to, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_done(weft__hub_publish(hub, &(weft__publication){
                                                  .subject = weft__slice_of(to),
                                                  .reply = weft__slice_of("nowhere"),
                                                  .payload = {"x", 1},
                                              }));
}

TEST(too_many_waiting_calls_are_eagain)
{
    reader r = {.bound = 16};
    weft_fiber f = spin_late_reader(&r);
    publish_calls("a", 16 + 1 + 65536); /* in the mailbox, in the deliverer, waiting */
    settle();
    ck_assert_uint_eq(hub_stats(hub).dropped, 0);
    ck_assert_fails(weft_hub_call(hub, "a", "x", 1, NULL), -EAGAIN);
    ck_assert_uint_eq(hub_stats(hub).dropped, 1);
    weft_terminate(f, 0);
    settle();
    ck_assert_uint_eq(hub_stats(hub).dropped, 2 + 65536);
}

TEST(calls_that_wait_keep_their_order)
{
    weft_mailbox_set_bound(1);
    ck_assert_done(expose(hub, "a", weft_self()));
    for (int i = 0; i < 100; i++)
        ck_assert_done(weft__hub_publish(hub, &(weft__publication){
                                                  .subject = weft__slice_of("a"),
                                                  .reply = weft__slice_of("nowhere"),
                                                  .payload = {(char *)&i, sizeof i},
                                              }));
    for (int i = 0; i < 100; i++) {
        weft_hub_msg *msg = receive_msg();
        ck_assert_mem_eq(msg->data, &i, sizeof i);
        weft_hub_free(msg);
    }
}

TEST(withdrawing_a_name_ends_the_waiting_calls)
{
    reader r = {.bound = 1};
    caller c = {hub, "a"};
    weft_fiber f[10], reader_fiber = spin_late_reader(&r);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(run_caller, &c);
    settle();
    withdraw(hub, "a");
    for (size_t i = 1; i < COUNT_OF(f); i++)
        ck_assert_int_eq(caller_result(f[i]), -EHOSTUNREACH);
    weft_event_set(&r.go); /* the first call is in the mailbox */
    ck_assert_int_eq(caller_result(f[0]), 0);
    weft_terminate(reader_fiber, 0);
    ck_assert_fails(weft_hub_call(hub, "a", "x", 1, NULL), -EHOSTUNREACH);
}

TEST(the_end_of_a_fiber_ends_its_exposures_and_calls)
{
    reader r = {.bound = 2};
    caller c = {hub, "a"};
    weft_fiber f[10], reader_fiber = spin_late_reader(&r);
    ck_assert_done(expose(hub, "b", reader_fiber));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(run_caller, &c);
    settle();
    weft_terminate(reader_fiber, 0);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_int_eq(caller_result(f[i]), -EOWNERDEAD);
    settle();
    ck_assert_fails(weft_hub_call(hub, "a", "x", 1, NULL), -EHOSTUNREACH);
    ck_assert_fails(weft_hub_call(hub, "b", "x", 1, NULL), -EHOSTUNREACH);
    ck_assert_done(expose(hub, "a", weft_self()));
}

/* Keep the message of a call, and end. */
static weft_value keep_one(void *arg)
{
    *(weft_hub_msg **)arg = receive_msg();
    return 0;
}

TEST(a_message_outlives_its_fiber)
{
    weft_hub_msg *msg = NULL;
    weft_fiber f = weft_spin(keep_one, &msg);
    ck_assert_done(expose(hub, "a", f));
    ck_assert_fails(weft_hub_call(hub, "a", "kept", 4, NULL), -EOWNERDEAD);
    ck_assert_str_eq(msg->data, "kept");
    ck_assert_fails(weft_hub_reply(msg, "x", 1), -EALREADY);
    weft_hub_free(msg);
    ck_assert_int_eq(weft_await(f), 0);
}

FIBER(receive_and_fail, (weft_receive(), weft_fail(-EIO, "broken")))

TEST(a_fiber_that_fails_still_raises_its_error)
{
    weft_fiber f = weft_spin(receive_and_fail, NULL);
    ck_assert_done(expose(hub, "a", f));
    ck_assert_fails(weft_hub_call(hub, "a", "x", 1, NULL), -EIO);
}

static void note_end(void *arg)
{
    mark(arg);
}

TEST(the_end_of_a_fiber_is_told_to_the_owner_of_the_exposure)
{
    weft__exposure *e;
    weft__expose_options options = {.on_end = note_end, .ctx = "1"};
    weft_fiber f = spin_daemon(echo_all, NULL);
    ck_assert_done(weft__expose_begin(hub, "a", f, &options, &e));
    ck_assert_str_eq(weft__expose_ctx(e), "1");
    options.ctx = "2";
    ck_assert_done(weft__expose_begin(hub, "b", f, &options, &e));
    weft__expose_end(e); /* does not call on_end */
    weft_terminate(f, 0);
    settle();
    ck_assert_trail("1");
    ck_assert_ptr_null(weft__expose_find(hub, "a"));
}

TEST(a_fiber_exposes_many_names)
{
    weft_fiber f = spin_daemon(echo_all, NULL);
    for (int i = 0; i < 300; i++)
        ck_assert_done(expose(hub, format("name.%d", i), f));
    for (int i = 0; i < 300; i += 7)
        assert_call(hub, format("name.%d", i), "x", "x");
    for (int i = 0; i < 300; i += 2)
        withdraw(hub, format("name.%d", i));
    settle();
    assert_call(hub, "name.1", "x", "x");
    ck_assert_fails(weft_hub_call(hub, "name.2", "x", 1, NULL), -EHOSTUNREACH);
    weft_terminate(f, 0);
    settle();
    ck_assert_fails(weft_hub_call(hub, "name.1", "x", 1, NULL), -EHOSTUNREACH);
}

TEST(a_cancelled_expose_exposes_nothing)
{
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(expose(hub, "a", weft_self()), -ECANCELED);
    }
    ck_assert_ptr_null(weft__expose_find(hub, "a"));
    ck_assert_done(expose(hub, "a", weft_self()));
}
