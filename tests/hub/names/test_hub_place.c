/* Children that run in other processes, without faults of servers. */
#include "hub/names/names_support.h"

static weft_hub *a, *b;

static void open_two(void)
{
    a = open_hub_at(hub_where(), &(weft_hub_options){.name = "a"});
    b = open_hub_at(hub_where(), &(weft_hub_options){.name = "b"});
}

static void close_two(void)
{
    close_hub(a);
    close_hub(b);
}

FIXTURE(open_two, close_two)

/* A fiber in weft_hub_offer. */
typedef struct offerer {
    weft_hub *hub;
    weft_hub_fn *fn;
    unsigned at_once;
    weft_fiber fiber;
} offerer;

static weft_value offerer_run(void *arg)
{
    offerer *o = arg;
    return -weft_hub_offer(o->hub, "kind", o->fn, o, o->at_once);
}

static void offerer_start(offerer *o)
{
    o->fiber = weft_spin(offerer_run, o);
    let_run();
}

static void offerer_stop(const offerer *o)
{
    weft_cancel(o->fiber);
    ck_assert_int_eq(weft_await(o->fiber), -ECANCELED);
}

/* Run a child, and try again while no process offers its kind. */
static weft_value run_text(weft_hub *hub, const char *text)
{
    weft_hub_child child = {hub, "kind", text, strlen(text)};
    weft_value value = -ETIMEDOUT;
    int timeout = 0;
    WEFT_CANCEL_AFTER(PATIENCE_S, timeout) {
        while ((value = weft_hub_run(&child)) == -EHOSTUNREACH && weft_sleep(0.01) == 0)
            continue;
    }
    return value;
}

static uint64_t last_token;

static weft_value return_number(weft_hub_msg *job, void *arg)
{
    ck_assert_str_eq(job->to, "kind");
    ck_assert_uint_gt(job->number, last_token);
    last_token = job->number;
    int number = atoi(job->data);
    return number < 0 ? weft_fail(number, "the number is %d", number) : number;
}

TEST(a_run_returns_the_value_of_its_child_and_tokens_grow)
{
    offerer o = {b, return_number, 4};
    offerer_start(&o);
    ck_assert_int_eq(run_text(a, "0"), 0);
    ck_assert_int_eq(run_text(a, "42"), 42);
    ck_assert_int_eq(run_text(b, "2147483647"), 2147483647); /* also on the same hub */
    offerer_stop(&o);
}

TEST(a_run_returns_the_error_of_its_child_with_its_message)
{
    offerer o = {b, return_number, 4};
    offerer_start(&o);
    ck_assert_int_eq(run_text(a, format("%d", -EDOM)), -EDOM);
    ck_assert_error(-EDOM, format("the number is %d", -EDOM));
    offerer_stop(&o);
}

static weft_value return_large(weft_hub_msg *job, void *arg)
{
    return (weft_value)INT32_MAX + 1;
}

TEST(a_value_that_does_not_fit_is_an_error)
{
    offerer o = {b, return_large, 1};
    offerer_start(&o);
    ck_assert_int_eq(run_text(a, ""), -EOVERFLOW);
    offerer_stop(&o);
}

TEST(a_run_without_an_offer_fails_at_once)
{
    weft_hub_child child = {a, "kind", "", 0};
    ck_assert_fails(weft_hub_run(&child), -EHOSTUNREACH);
}

/* Counts of children. */
static int started[2], ended;
static weft_cond has_changed;

static weft_value child_wait(weft_hub_msg *job, void *arg)
{
    started[((offerer *)arg)->hub == b]++;
    weft_cond_broadcast(&has_changed);
    int rc = weft_sleep(INFINITY);
    ended++;
    weft_cond_broadcast(&has_changed);
    return rc;
}

static weft_value run_in_fiber(void *arg)
{
    return -run_text(arg, "x");
}

static void wait_started(int n)
{
    while (started[0] + started[1] < n)
        ck_assert_done(weft_cond_wait(&has_changed, NULL));
}

TEST(a_busy_process_leaves_jobs_to_others)
{
    offerer o[] = {{a, child_wait, 2}, {b, child_wait, 3}};
    weft_fiber f[5];
    offerer_start(&o[0]);
    offerer_start(&o[1]);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(run_in_fiber, a);
    wait_started(5);
    ck_assert_int_eq(started[0], 2);
    ck_assert_int_eq(started[1], 3);
    weft_hub_child child = {a, "kind", "", 0};
    ck_assert_fails(weft_hub_run(&child), -EHOSTUNREACH); /* all are busy */
    for (size_t i = 0; i < COUNT_OF(f); i++)
        cancel_and_await(f[i]);
    ck_assert_int_eq(ended, 5);
    offerer_stop(&o[0]);
    offerer_stop(&o[1]);
}

TEST(cancelling_a_run_cancels_its_child_and_waits_for_it)
{
    offerer o = {b, child_wait, 1};
    offerer_start(&o);
    weft_fiber f = weft_spin(run_in_fiber, a);
    wait_started(1);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_int_eq(ended, 1);
    f = weft_spin(run_in_fiber, a); /* there is room again */
    wait_started(2);
    cancel_and_await(f);
    offerer_stop(&o);
}

TEST(the_end_of_an_offer_ends_its_children)
{
    offerer o = {b, child_wait, 1};
    offerer_start(&o);
    weft_fiber f = weft_spin(run_in_fiber, a);
    wait_started(1);
    offerer_stop(&o);
    ck_assert_int_eq(weft_await(f), ECANCELED);
    ck_assert_int_eq(ended, 1);
}

TEST(closing_the_hub_ends_its_offers_and_runs)
{
    weft_hub *c = open_hub(), *d = open_hub();
    offerer o = {c, child_wait, 1};
    offerer_start(&o);
    weft_fiber f = weft_spin(run_in_fiber, d);
    wait_started(1);
    close_hub(d);
    ck_assert_int_eq(weft_await(f), EBADF);
    close_hub(c);
    ck_assert_int_eq(weft_await(o.fiber), EBADF);
    ck_assert_int_eq(ended, 1);
}

/* The first two runs fail. */
static weft_value fail_twice(weft_hub_msg *job, void *arg)
{
    static int runs;
    return ++runs < 3 ? weft_fail(-EIO, "run %d", runs) : 0;
}

TEST(a_supervisor_starts_a_failed_child_again)
{
    offerer o[] = {{a, fail_twice, 1}, {b, fail_twice, 1}};
    offerer_start(&o[0]);
    offerer_start(&o[1]);
    weft_hub_child child = {a, "kind", "x", 1};
    weft_child children[] = {
        {.name = "remote", .fn = weft_hub_run, .arg = &child, .restart = WEFT_ON_ERROR}};
    ck_assert_done(weft_supervise(children, 1, NULL));
    offerer_stop(&o[0]);
    offerer_stop(&o[1]);
}

TEST(wrong_arguments_are_refused)
{
    ck_assert_fails(weft_hub_offer(a, "*", child_wait, NULL, 1), -EINVAL);
    ck_assert_fails(weft_hub_offer(a, "kind", NULL, NULL, 1), -EINVAL);
    ck_assert_fails(weft_hub_offer(a, "kind", child_wait, NULL, 0), -EINVAL);
    ck_assert_fails(weft_hub_offer(a, "kind", child_wait, NULL, 65537), -EINVAL);
    ck_assert_fails(weft_hub_run(NULL), -EINVAL);
    ck_assert_fails(weft_hub_run(&(weft_hub_child){a, "", NULL, 0}), -EINVAL);
    ck_assert_fails(weft_hub_run(&(weft_hub_child){a, "kind", NULL, 1}), -EINVAL);
    ck_assert_int_eq(weft_hub_run(&(weft_hub_child){NULL, "kind", NULL, 0}), -EINVAL);
}
