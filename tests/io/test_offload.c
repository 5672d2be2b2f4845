/* Calls on plain threads: what comes back, and what happens when nobody waits for it any more. */
#include "offload_support.h"

static weft_value note_thread(void *arg)
{
    *(pthread_t *)arg = pthread_self();
    return 42;
}

/* P58 */
START_TEST(another_thread_makes_the_call_and_its_value_comes_back)
{
    pthread_t thread = pthread_self();
    ck_assert_int_eq(weft_offload(note_thread, &thread), 42);
    ck_assert(!pthread_equal(thread, pthread_self()));
    ck_assert_int_eq(weft_offload(return_arg, as_arg(0)), 0);
    ck_assert_int_eq(weft_offload(return_arg, as_arg(INTPTR_MAX)), INTPTR_MAX);
    ck_assert_int_eq(weft_offload(return_arg, as_arg(INTPTR_MIN + 1)), INTPTR_MIN + 1);
}
END_TEST

START_TEST(others_run_while_a_fiber_waits_for_a_call)
{
    gate g;
    gate_init(&g, 7);
    weft_fiber f = spin_begun(&g);
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
END_TEST

static weft_value fail_deeply(void *arg)
{
    weft_fail(-ENOENT, "no file %d", *(int *)arg);
    return weft_fail(-EIO, "cannot load %d", *(int *)arg);
}

/* P58 */
START_TEST(an_error_comes_back_with_its_words_and_causes)
{
    int number = 5;
    weft_name(weft_self(), "asker");
    ck_assert_int_eq(weft_offload(fail_deeply, &number), -EIO);
    ck_assert_words(-EIO, "cannot load 5");
    const weft_error_info *e = weft_error();
    ck_assert_uint_eq(e->fiber, weft_self());
    ck_assert_str_eq(e->fiber_name, "asker");
    ck_assert_ptr_nonnull(e->cause);
    ck_assert_str_eq(e->cause->message, "no file 5");
    ck_assert_ptr_null(e->cause->cause);
    weft_error_clear();
    ck_assert_int_eq(weft_offload(return_arg, as_arg(-EIO)), -EIO);
    ck_assert_ptr_null(weft_error()); /* those were another call's */
    ck_assert_int_eq(weft_offload(fail_with, as_arg(-EPERM)), -EPERM);
    ck_assert_words(-EPERM, "broken");
}
END_TEST

static weft_value forget_error(void *arg)
{
    weft_fail(-EIO, "never mind");
    bool was_there = weft_error() != NULL && weft_error()->code == -EIO;
    weft_error_clear();
    (void)arg;
    return was_there && weft_error() == NULL ? 1 : 0;
}

START_TEST(an_error_that_a_call_deals_with_stays_its_own)
{
    ck_assert_int_eq(weft_offload(forget_error, NULL), 1);
    ck_assert_ptr_null(weft_error());
}
END_TEST

static weft_value sleep_and_fail(void *arg)
{
    if (weft_sleep(0.0001) != 0)
        return 1;
    return arg != NULL ? weft_fail(-EIO, "%s", (char *)arg) : -EIO;
}

static atomic_bool has_child_ended;

static void note_end(void *arg)
{
    (void)arg;
    atomic_store(&has_child_ended, true);
}

static weft_value sleep_long(void *arg)
{
    weft_defer(note_end, NULL);
    (void)arg;
    return weft_sleep(INFINITY);
}

static weft_value leave_a_fiber(void *arg)
{
    (void)arg;
    return weft_spin(sleep_long, NULL) != 0 ? weft_sleep(0.0001) : -ENOMEM;
}

START_TEST(what_a_call_has_spun_ends_with_it)
{
    ck_assert_int_eq(weft_offload(leave_a_fiber, NULL), 0);
    ck_assert(atomic_load(&has_child_ended));
    if (!is_sanitized())
        ck_assert_int_eq(weft_suspend(), 0); /* its thread is not another one that runs fibers */
}
END_TEST

START_TEST(a_call_may_itself_wait_and_the_words_of_its_error_are_not_the_next_ones)
{
    ck_assert_int_eq(weft_offload_limit(1), 0); /* one thread for all */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_offload(sleep_and_fail, "tired"), -EIO);
        ck_assert_words(-EIO, "tired");
        weft_error_clear();
        ck_assert_int_eq(weft_offload(sleep_and_fail, NULL), -EIO);
        ck_assert_ptr_null(weft_error());
    }
}
END_TEST

/* P58 */
START_TEST(a_cancelled_call_leaves_at_once_and_its_late_value_never_reaches_the_next_one)
{
    static gate g[100];
    for (int i = 0; i < 100; i++) {
        gate_init(&g[i], -1000000 - i);
        weft_fiber f = spin_begun(&g[i]);
        weft_cancel(f);
        ck_assert_int_eq(weft_await(f), -ECANCELED);
        ck_assert_int_eq(g[i].result, -ECANCELED);
        ck_assert(!g[i].has_ended);
        sem_post(&g[i].may_end);
        ck_assert_int_eq(weft_offload(return_arg, as_arg(i)), i);
    }
    gate last;
    gate_init(&last, 3);
    weft_fiber f = spin_begun(&last);
    flush(&last);
    ck_assert_int_eq(weft_await(f), 3);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(g[i].runs, 1);
}
END_TEST

static weft_value cancel_each_other(void *arg)
{
    weft_value *sum = arg;
    for (int i = 1; i <= 200; i++) {
        weft_value value = 0;
        int rc;
        WEFT_CANCEL_AFTER(i % 3 ? 10 : 0, rc) {
            value = weft_offload(return_arg, as_arg(i));
        }
        if (rc != -ETIMEDOUT && value != i)
            return -EBADMSG;
        *sum += rc == 0;
    }
    return 0;
}

START_TEST(calls_that_are_given_up_at_odd_moments_do_not_mix)
{
    weft_value sums[20] = {0};
    weft_fiber f[20];
    for (int i = 0; i < 20; i++)
        f[i] = weft_spin(cancel_each_other, &sums[i]);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(weft_await(f[i]), 0);
        ck_assert_int_ge(sums[i], 200 * 2 / 3);
    }
}
END_TEST

START_TEST(a_deadline_and_an_interrupt_end_the_wait_too)
{
    gate g;
    gate_init(&g, 1);
    int rc;
    WEFT_CANCEL_AFTER(0.002, rc) {
        ck_assert_int_eq(weft_offload(pass_gate, &g), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    flush(&g);
    gate_init(&g, 1);
    weft_fiber f = spin_begun(&g);
    ck_assert_int_eq(weft_interrupt(f, -77), 0);
    ck_assert_int_eq(weft_await(f), -77);
    ck_assert(!g.has_ended);
    ck_assert_int_eq(g.next, 0);
    flush(&g);
}
END_TEST

START_TEST(a_call_that_is_given_up_in_the_queue_is_never_made)
{
    ck_assert_int_eq(weft_offload_limit(1), 0);
    gate busy, plain, kept;
    gate_init(&busy, 1);
    gate_init(&plain, 2);
    gate_init(&kept, 3);
    kept.options.is_kept = true;
    weft_fiber b = spin_begun(&busy), p = spin_gate(&plain), k = spin_gate(&kept);
    weft_cancel(p);
    weft_cancel(k);
    ck_assert_int_eq(weft_await(p), -ECANCELED);
    ck_assert_int_eq(weft_await(k), -ECANCELED);
    flush(&busy);
    ck_assert_int_eq(weft_await(b), 1);
    ck_assert_int_eq(plain.runs + kept.runs, 0);
    weft_offload_counters now;
    weft_offload_stats(&now);
    ck_assert_uint_eq(now.user.given_up, 2);
    ck_assert_uint_eq(now.user.done, 1);
}
END_TEST

/* T93 */
START_TEST(a_kept_call_returns_its_value_despite_a_wake_up_and_a_cancel_in_between)
{
    gate g;
    gate_init(&g, 42);
    g.options.is_kept = true;
    g.options.drop = drop_gate;
    weft_fiber f = spin_begun(&g);
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
END_TEST

START_TEST(what_a_call_works_on_is_dropped_once_if_and_only_if_its_value_was_not_had)
{
    ck_assert_int_eq(weft_offload_limit(1), 0);
    gate ended, running, queued, refused;
    gate *all[] = {&ended, &running, &queued, &refused};
    for (int i = 0; i < 4; i++) {
        gate_init(all[i], i);
        all[i]->options.drop = drop_gate;
    }
    weft_fiber f = spin_begun(&ended);
    sem_post(&ended.may_end);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert(ended.has_ended);

    f = spin_begun(&running);
    weft_fiber q = spin_gate(&queued);
    weft_cancel(q);
    ck_assert_int_eq(queued.drops, 1); /* at once */
    ck_assert_int_eq(weft_await(q), -ECANCELED);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(running.drops, 0); /* not before it is over */
    flush(&running);
    wait_for(&running.dropped);

    WEFT_MOVE_ON_AFTER(0) {
        weft_sleep(1);
        ck_assert_int_eq(offload_gate(&refused), -ECANCELED);
    }
    ck_assert_int_eq(refused.drops, 1);
    ck_assert_int_eq(ended.drops, 0);
    ck_assert_int_eq(running.drops, 1);
    ck_assert_int_eq(queued.drops, 1);
    ck_assert(!running.has_ended && !queued.has_ended && !refused.has_ended);
    ck_assert_int_eq(queued.runs + refused.runs, 0);
    gate none;
    gate_init(&none, 0);
    ck_assert_int_eq(weft_offload_with(NULL, &none, &(weft_offload_options){.drop = drop_gate}),
                     -EINVAL);
    ck_assert_int_eq(none.drops, 1);
}
END_TEST

typedef struct sum {
    int a, b, result;
    const void *seen_at;
    gate *gate; /* NULL: at once */
} sum;

static weft_value add(void *arg)
{
    sum *s = arg;
    s->seen_at = s;
    if (s->gate != NULL)
        pass_gate(s->gate);
    s->result = s->a + s->b;
    return 0;
}

static weft_value read_constant(void *arg)
{
    return strcmp(arg, "constant");
}

START_TEST(a_call_works_on_a_copy_which_is_copied_back)
{
    sum s = {.a = 2, .b = 3};
    ck_assert_int_eq(weft_offload_copy(add, &s, sizeof s), 0);
    ck_assert_int_eq(s.result, 5);
    ck_assert_ptr_ne(s.seen_at, &s);
    static const char constant[] = "constant"; /* it could not be written to */
    ck_assert_int_eq(weft_offload_copy(read_constant, (void *)constant, sizeof constant), 0);
    ck_assert_int_eq(weft_offload_copy(add, NULL, 1), -EINVAL);
    ck_assert_any_words(-EINVAL);
    if (!is_sanitized())
        ck_assert_int_eq(weft_offload_copy(add, &s, SIZE_MAX / 2), -ENOMEM);
    ck_assert_int_eq(weft_offload_copy(add, &s, SIZE_MAX), -ENOMEM);
}
END_TEST

static void note_sum(void *arg)
{
    sum *s = arg;
    s->gate->value = s->result;
    drop_gate(s->gate);
}

static weft_value add_on_the_stack(void *arg)
{
    sum s = {.a = 2, .b = 3, .gate = arg};
    weft_value value = weft_offload_with(
        add, &s, &(weft_offload_options){.arg_bytes = sizeof s, .drop = note_sum});
    ck_assert_ptr_null(s.seen_at);
    return value;
}

START_TEST(a_copy_that_was_left_is_dropped_and_the_callers_stack_is_not_touched)
{
    gate g;
    gate_init(&g, 0);
    weft_fiber f = weft_spin(add_on_the_stack, &g);
    let_run();
    wait_for(&g.begun);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    sem_post(&g.may_end);
    wait_for(&g.dropped);
    ck_assert_int_eq(g.value, 5); /* what drop gets is what the call worked on */
    flush(&g);
    ck_assert_int_eq(g.drops, 1);
}
END_TEST

static weft_value post_arg(void *arg)
{
    sem_post(arg);
    return 0;
}

static void *cast_from_thread(void *arg)
{
    return as_arg(weft_offload_go(post_arg, arg));
}

/* P58 */
START_TEST(a_cast_is_made_from_any_thread_and_nobody_waits)
{
    sem_t happened;
    sem_init(&happened, 0, 0);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(weft_offload_go(post_arg, &happened), 0);
    pthread_t thread;
    void *rc;
    ck_assert_int_eq(pthread_create(&thread, NULL, cast_from_thread, &happened), 0);
    pthread_join(thread, &rc);
    ck_assert_ptr_null(rc);
    for (int i = 0; i < 51; i++)
        wait_for(&happened);
    ck_assert_int_eq(weft_offload_go(NULL, NULL), -EINVAL);
    ck_assert_any_words(-EINVAL);
}
END_TEST

static weft_value wake_fiber(void *arg)
{
    return weft_schedule(arg_id(arg), 9);
}

START_TEST(main_waits_for_a_cast_that_wakes_it)
{
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(weft_offload_go(wake_fiber, id_arg(weft_self())), 0);
        ck_assert_int_eq(weft_suspend(), 9);
    }
    if (!is_sanitized()) /* TSan has threads of its own, in a child of fork more than elsewhere */
        ck_assert_int_eq(weft_suspend(), 0); /* idle threads wake nobody */
}
END_TEST

static int cast_in_vain(void)
{
    weft_offload_counters now;
    weft_offload_go(fail_with, as_arg(-EIO));
    weft_offload_go(fail_with, as_arg(-EIO));
    weft_offload_go(return_arg, as_arg(-EPERM));
    do {
        weft_sleep(0.0001);
        weft_offload_stats(&now);
    } while (now.unheard < 3);
    return 0;
}

START_TEST(the_first_error_that_nobody_hears_is_reported)
{
    const outcome *o = run_apart(cast_in_vain);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "a call that nobody waits for (weft_offload_go) has failed: ");
    ck_assert_uint_eq(count_in(o->text, "\n"), 1);
}
END_TEST

static int end_with_a_call_under_way(void)
{
    static gate g;
    gate_init(&g, 0);
    weft_offload_go(pass_gate, &g);
    wait_for(&g.begun);
    spin_begun(&g);
    return 7;
}

START_TEST(a_program_ends_while_a_call_is_under_way)
{
    assert_silent(run_apart(end_with_a_call_under_way), 7);
}
END_TEST

/* A thread that looks for the next call counts as one that takes it. */
START_TEST(calls_one_after_the_other_are_all_made_by_one_thread)
{
    for (weft_value i = 0; i < 5000; i++)
        ck_assert_int_eq(weft_offload(return_arg, as_arg(i)), i);
    weft_offload_counters counters;
    ck_assert_int_eq(weft_offload_stats(&counters), 0);
    ck_assert_uint_eq(counters.user.threads, 1);
    ck_assert_uint_eq(counters.user.done, 5000);
}
END_TEST

static const TTest *const *const tests[] = {
    &another_thread_makes_the_call_and_its_value_comes_back,
    &others_run_while_a_fiber_waits_for_a_call,
    &an_error_comes_back_with_its_words_and_causes,
    &an_error_that_a_call_deals_with_stays_its_own,
    &what_a_call_has_spun_ends_with_it,
    &a_call_may_itself_wait_and_the_words_of_its_error_are_not_the_next_ones,
    &a_cancelled_call_leaves_at_once_and_its_late_value_never_reaches_the_next_one,
    &calls_that_are_given_up_at_odd_moments_do_not_mix,
    &a_deadline_and_an_interrupt_end_the_wait_too,
    &a_call_that_is_given_up_in_the_queue_is_never_made,
    &a_kept_call_returns_its_value_despite_a_wake_up_and_a_cancel_in_between,
    &what_a_call_works_on_is_dropped_once_if_and_only_if_its_value_was_not_had,
    &a_call_works_on_a_copy_which_is_copied_back,
    &a_copy_that_was_left_is_dropped_and_the_callers_stack_is_not_touched,
    &a_cast_is_made_from_any_thread_and_nobody_waits,
    &main_waits_for_a_cast_that_wakes_it,
    &the_first_error_that_nobody_hears_is_reported,
    &calls_one_after_the_other_are_all_made_by_one_thread,
    &a_program_ends_while_a_call_is_under_way,
};

int main(void)
{
    return run_suite("offload", tests, COUNT_OF(tests));
}
