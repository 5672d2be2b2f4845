/* Tests of offloaded calls: their values and errors, and calls that are cancelled. */
#include "io/offload_support.h"
#include "support/suite.h"

static weft_value store_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return 42;
}

/* P58 */
TEST(a_call_runs_on_another_thread_and_returns_its_value)
{
    pthread_t thread = pthread_self();
    ck_assert_int_eq(weft_offload(store_thread, &thread), 42);
    ck_assert(!pthread_equal(thread, pthread_self()));
    ck_assert_int_eq(weft_offload(return_arg, as_arg(0)), 0);
    ck_assert_int_eq(weft_offload(return_arg, as_arg(INTPTR_MAX)), INTPTR_MAX);
    ck_assert_int_eq(weft_offload(return_arg, as_arg(INTPTR_MIN + 1)), INTPTR_MIN + 1);
}

TEST(other_fibers_run_while_a_fiber_waits_for_a_call)
{
    gated_call g;
    gated_call_init(&g, 7);
    weft_fiber f = spin_begun_call(&g);
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(weft_sleep(0.0001), 0);
    weft_info info;
    ck_assert_int_eq(weft_info_of(f, &info), 0);
    ck_assert_str_eq(info.waits_for, "a call on another thread");
    sem_post(&g.may_end);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert(g.has_ended);
    ck_assert_int_eq(g.next, 0);
}

static weft_value fail_deeply(void *arg)
{
    weft_fail(-ENOENT, "no file %d", *(int *)arg);
    return weft_fail(-EIO, "cannot load %d", *(int *)arg);
}

/* P58 */
TEST(an_error_is_returned_with_its_message_and_causes)
{
    int number = 5;
    weft_set_name(weft_self(), "caller");
    ck_assert_int_eq(weft_offload(fail_deeply, &number), -EIO);
    ck_assert_error(-EIO, "cannot load 5");
    const weft_error_info *e = weft_error();
    ck_assert_uint_eq(e->fiber, weft_self());
    ck_assert_str_eq(e->fiber_name, "caller");
    ck_assert_ptr_nonnull(e->cause);
    ck_assert_str_eq(e->cause->message, "no file 5");
    ck_assert_ptr_null(e->cause->cause);
    weft_error_clear();
    ck_assert_int_eq(weft_offload(return_arg, as_arg(-EIO)), -EIO);
    ck_assert_ptr_null(weft_error()); /* the error belonged to another call */
    ck_assert_int_eq(weft_offload(fail_with, as_arg(-EPERM)), -EPERM);
    ck_assert_error(-EPERM, "broken");
}

static weft_value handle_error(void *arg)
{
    weft_fail(-EIO, "never mind");
    bool was_set = weft_error() != NULL && weft_error()->code == -EIO;
    weft_error_clear();
    return was_set && weft_error() == NULL ? 1 : 0;
}

TEST(an_error_that_a_call_handles_is_not_returned)
{
    ck_assert_int_eq(weft_offload(handle_error, NULL), 1);
    ck_assert_ptr_null(weft_error());
}

static weft_value sleep_and_fail(void *arg)
{
    if (weft_sleep(0.0001) != 0)
        return 1;
    return arg != NULL ? weft_fail(-EIO, "%s", (char *)arg) : -EIO;
}

static atomic_bool has_child_ended;

static void set_child_ended(void *arg)
{
    atomic_store(&has_child_ended, true);
}

static weft_value sleep_long(void *arg)
{
    weft_defer(set_child_ended, NULL);
    return weft_sleep(INFINITY);
}

FIBER(spin_and_return, weft_spin(sleep_long, NULL) != 0 ? weft_sleep(0.0001) : -ENOMEM)

TEST(fibers_spun_by_a_call_end_with_it)
{
    ck_assert_int_eq(weft_offload(spin_and_return, NULL), 0);
    ck_assert(atomic_load(&has_child_ended));
    if (!is_sanitized())
        /* the worker no longer counts as a thread with fibers */
        ck_assert_int_eq(weft_suspend(), 0);
}

TEST(a_call_may_wait_and_its_error_does_not_leak_into_the_next_call)
{
    ck_assert_int_eq(weft_offload_set_limit(1), 0); /* one worker for all calls */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_offload(sleep_and_fail, "tired"), -EIO);
        ck_assert_error(-EIO, "tired");
        weft_error_clear();
        ck_assert_int_eq(weft_offload(sleep_and_fail, NULL), -EIO);
        ck_assert_ptr_null(weft_error());
    }
}

/* P58 */
TEST(a_cancelled_call_returns_immediately_and_its_late_value_is_discarded)
{
    static gated_call g[100];
    for (int i = 0; i < 100; i++) {
        gated_call_init(&g[i], -1000000 - i);
        weft_fiber f = spin_begun_call(&g[i]);
        ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
        ck_assert_int_eq(g[i].result, -ECANCELED);
        ck_assert(!g[i].has_ended);
        sem_post(&g[i].may_end);
        ck_assert_int_eq(weft_offload(return_arg, as_arg(i)), i);
    }
    gated_call last;
    gated_call_init(&last, 3);
    weft_fiber f = spin_begun_call(&last);
    finish_abandoned_call(&last);
    ck_assert_int_eq(weft_await(f), 3);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(g[i].runs, 1);
}

static weft_value offload_with_timeouts(void *arg)
{
    weft_value *sum = arg;
    for (int i = 1; i <= 200; i++) {
        weft_value value = 0;
        int rc;
        WEFT_CANCEL_AFTER(i % 3 ? 10 : 0, rc)
            value = weft_offload(return_arg, as_arg(i));
        if (rc != -ETIMEDOUT && value != i)
            return -EBADMSG;
        *sum += rc == 0;
    }
    return 0;
}

TEST(calls_cancelled_at_random_times_do_not_mix_their_values)
{
    weft_value sums[20] = {0};
    weft_fiber f[20];
    for (int i = 0; i < 20; i++)
        f[i] = weft_spin(offload_with_timeouts, &sums[i]);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(weft_await(f[i]), 0);
        ck_assert_int_ge(sums[i], 200 * 2 / 3);
    }
}

TEST(a_deadline_and_an_interrupt_end_the_wait_too)
{
    gated_call g;
    gated_call_init(&g, 1);
    int rc;
    WEFT_CANCEL_AFTER(0.002, rc)
        ck_assert_int_eq(weft_offload(run_gated_call, &g), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    finish_abandoned_call(&g);
    gated_call_init(&g, 1);
    weft_fiber f = spin_begun_call(&g);
    ck_assert_int_eq(weft_interrupt(f, -77), 0);
    ck_assert_int_eq(weft_await(f), -77);
    ck_assert(!g.has_ended);
    ck_assert_int_eq(g.next, 0);
    finish_abandoned_call(&g);
}

TEST(a_call_cancelled_in_the_queue_never_runs)
{
    ck_assert_int_eq(weft_offload_set_limit(1), 0);
    gated_call busy, plain, kept_call;
    gated_call_init(&busy, 1);
    gated_call_init(&plain, 2);
    gated_call_init(&kept_call, 3);
    kept_call.options.is_kept = true;
    weft_fiber b = spin_begun_call(&busy), p = spin_gated_call(&plain),
               k = spin_gated_call(&kept_call);
    weft_cancel(p);
    weft_cancel(k);
    ck_assert_int_eq(weft_await(p), -ECANCELED);
    ck_assert_int_eq(weft_await(k), -ECANCELED);
    finish_abandoned_call(&busy);
    ck_assert_int_eq(weft_await(b), 1);
    ck_assert_int_eq(plain.runs + kept_call.runs, 0);
    weft_offload_counters now;
    weft_offload_stats(&now);
    ck_assert_uint_eq(now.user.abandoned, 2);
    ck_assert_uint_eq(now.user.done, 1);
}

/* T93 */
TEST(a_kept_call_returns_its_value_despite_a_wake_up_and_a_cancel_in_between)
{
    gated_call g;
    gated_call_init(&g, 42);
    g.options.is_kept = true;
    g.options.drop = drop_gated_call;
    weft_fiber f = spin_begun_call(&g);
    ck_assert_int_eq(weft_schedule(f, 1), -EBUSY);
    weft_cancel(f);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    sem_post(&g.may_end);
    weft_await(f);
    ck_assert_int_eq(g.result, 42);
    ck_assert(g.has_ended);
    ck_assert_int_eq(g.next, -ECANCELED);
    ck_assert_int_eq(g.drops, 0);
}

TEST(an_argument_is_dropped_once_if_and_only_if_the_call_returned_no_value)
{
    ck_assert_int_eq(weft_offload_set_limit(1), 0);
    gated_call ended, running, queued, refused;
    gated_call *all[] = {&ended, &running, &queued, &refused};
    for (int i = 0; i < 4; i++) {
        gated_call_init(all[i], i);
        all[i]->options.drop = drop_gated_call;
    }
    weft_fiber f = spin_begun_call(&ended);
    sem_post(&ended.may_end);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert(ended.has_ended);

    f = spin_begun_call(&running);
    weft_fiber q = spin_gated_call(&queued);
    weft_cancel(q);
    ck_assert_int_eq(queued.drops, 1); /* immediately */
    ck_assert_int_eq(weft_await(q), -ECANCELED);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_int_eq(running.drops, 0); /* only after the call has ended */
    finish_abandoned_call(&running);
    wait_sem(&running.dropped);

    WEFT_MOVE_ON_AFTER(0) {
        weft_sleep(1);
        ck_assert_int_eq(offload_gated_call(&refused), -ECANCELED);
    }
    ck_assert_int_eq(refused.drops, 1);
    ck_assert_int_eq(ended.drops, 0);
    ck_assert_int_eq(running.drops, 1);
    ck_assert_int_eq(queued.drops, 1);
    ck_assert(!running.has_ended && !queued.has_ended && !refused.has_ended);
    ck_assert_int_eq(queued.runs + refused.runs, 0);
    gated_call none;
    gated_call_init(&none, 0);
    ck_assert_int_eq(
        weft_offload_with(NULL, &none, &(weft_offload_options){.drop = drop_gated_call}), -EINVAL);
    ck_assert_int_eq(none.drops, 1);
}

typedef struct sum {
    int a, b, result;
    const void *seen_at;
    gated_call *call; /* NULL: do not wait */
} sum;

static weft_value add_numbers(void *arg)
{
    sum *s = arg;
    s->seen_at = s;
    if (s->call != NULL)
        run_gated_call(s->call);
    s->result = s->a + s->b;
    return 0;
}

FIBER(read_constant, strcmp(arg, "constant"))

TEST(a_call_works_on_a_copy_which_is_copied_back)
{
    sum s = {.a = 2, .b = 3};
    ck_assert_int_eq(weft_offload_copy(add_numbers, &s, sizeof s), 0);
    ck_assert_int_eq(s.result, 5);
    ck_assert_ptr_ne(s.seen_at, &s);
    static const char constant[] = "constant"; /* read-only memory */
    ck_assert_int_eq(weft_offload_copy(read_constant, (void *)constant, sizeof constant), 0);
    ck_assert_fails(weft_offload_copy(add_numbers, NULL, 1), -EINVAL);
    if (!is_sanitized())
        ck_assert_int_eq(weft_offload_copy(add_numbers, &s, SIZE_MAX / 2), -ENOMEM);
    ck_assert_int_eq(weft_offload_copy(add_numbers, &s, SIZE_MAX), -ENOMEM);
}

static void store_sum(void *arg)
{
    sum *s = arg;
    s->call->value = s->result;
    drop_gated_call(s->call);
}

static weft_value offload_stack_copy(void *arg)
{
    sum s = {.a = 2, .b = 3, .call = arg};
    weft_value value = weft_offload_with(
        add_numbers, &s, &(weft_offload_options){.arg_bytes = sizeof s, .drop = store_sum});
    ck_assert_ptr_null(s.seen_at);
    return value;
}

TEST(an_abandoned_copy_is_dropped_and_the_callers_stack_is_not_written)
{
    gated_call g;
    gated_call_init(&g, 0);
    weft_fiber f = spin_waiting(offload_stack_copy, &g);
    wait_sem(&g.begun);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    sem_post(&g.may_end);
    wait_sem(&g.dropped);
    ck_assert_int_eq(g.value, 5); /* drop gets the copy that the call has used */
    finish_abandoned_call(&g);
    ck_assert_int_eq(g.drops, 1);
}

static weft_value post_arg(void *arg)
{
    sem_post(arg);
    return 0;
}

static void *offload_from_thread(void *arg)
{
    return as_arg(weft_offload_go(post_arg, arg));
}

/* P58 */
TEST(any_thread_can_offload_a_call_without_waiting)
{
    sem_t happened;
    sem_init(&happened, 0, 0);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(weft_offload_go(post_arg, &happened), 0);
    ck_assert_ptr_null(join_thread(start_thread(offload_from_thread, &happened)));
    for (int i = 0; i < 51; i++)
        wait_sem(&happened);
    ck_assert_fails(weft_offload_go(NULL, NULL), -EINVAL);
}

FIBER(wake_fiber, weft_schedule(arg_id(arg), 9))

TEST(main_waits_for_a_detached_call_that_wakes_it)
{
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(weft_offload_go(wake_fiber, id_arg(weft_self())), 0);
        ck_assert_int_eq(weft_suspend(), 9);
    }
    if (!is_sanitized()) /* TSan has its own threads, and more of them in a forked child */
        ck_assert_int_eq(weft_suspend(), 0); /* idle workers cannot wake a fiber */
}

static int fail_detached_calls(void)
{
    weft_offload_counters now;
    weft_offload_go(fail_with, as_arg(-EIO));
    weft_offload_go(fail_with, as_arg(-EIO));
    weft_offload_go(return_arg, as_arg(-EPERM));
    do {
        weft_sleep(0.0001);
        weft_offload_stats(&now);
    } while (now.go_errors < 3);
    return 0;
}

TEST(the_first_error_of_a_detached_call_is_reported)
{
    const outcome *o = run_apart(fail_detached_calls);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "weft_offload_go: the call has failed: ");
    ck_assert_uint_eq(count_in(o->text, "\n"), 1);
}

TEST_PROGRAM(a_program_can_end_during_a_call, 7, "")
{
    static gated_call g;
    gated_call_init(&g, 0);
    weft_offload_go(run_gated_call, &g);
    wait_sem(&g.begun);
    spin_begun_call(&g);
    return 7;
}

/* A worker that looks for its next call counts as available. */
TEST(consecutive_calls_use_one_worker)
{
    for (weft_value i = 0; i < 5000; i++)
        ck_assert_int_eq(weft_offload(return_arg, as_arg(i)), i);
    weft_offload_counters now;
    ck_assert_int_eq(weft_offload_stats(&now), 0);
    ck_assert_uint_eq(now.user.threads, 1);
    ck_assert_uint_eq(now.user.done, 5000);
}
