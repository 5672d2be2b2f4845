/* Events: remembered until one fiber has waited, set from any thread, and never lost. */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

static weft_event event;

/* Marks that it has the signal; its value is what the wait returned. */
static weft_value wait_for_it(void *arg)
{
    (void)arg;
    int rc = weft_event_wait(&event);
    if (rc == 0)
        mark("w");
    return rc;
}

static weft_fiber spin_waiting(void)
{
    weft_fiber f = weft_spin(wait_for_it, NULL);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

static void assert_is_clear(void)
{
    ck_assert(!weft_event_is_set(&event));
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_event_wait(&event), -ECANCELED);
    }
}

/* P56 */
START_TEST(a_signal_is_remembered_until_one_has_waited_for_it)
{
    weft_spin(mark_and_return, "switched");
    ck_assert(!weft_event_is_set(&event));
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(weft_event_is_set(&event));
    ck_assert_int_eq(weft_event_wait(&event), 0);
    ck_assert_trail("");
    assert_is_clear();
}
END_TEST

/* P56 */
START_TEST(several_signals_before_a_wait_are_one)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_event_wait(&event), 0);
    assert_is_clear();
}
END_TEST

START_TEST(a_signal_can_be_forgotten)
{
    weft_event_clear(&event);
    weft_event_set(&event);
    weft_event_clear(&event);
    assert_is_clear();
    weft_fiber f = spin_waiting();
    weft_event_clear(&event); /* nothing to forget; who waits is left alone */
    weft_event_set(&event);
    ck_assert_int_eq(weft_await(f), 0);
}
END_TEST

START_TEST(one_who_waits_goes_on_when_it_is_set_and_it_is_clear_again)
{
    weft_fiber f = spin_waiting();
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(!weft_event_is_set(&event)); /* it is the waiter's before that has run */
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert(weft_event_is_set(&event)); /* the second is for the next who comes */
    ck_assert_int_eq(weft_event_wait(&event), 0);
}
END_TEST

/* P56 */
START_TEST(a_second_who_waits_is_refused)
{
    weft_fiber f = spin_waiting();
    ck_assert_int_eq(weft_event_wait(&event), -EBUSY);
    ck_assert_any_words(-EBUSY);
    weft_event_set(&event);
    ck_assert_int_eq(weft_await(f), 0);
}
END_TEST

/* P56 */
START_TEST(a_wait_that_is_cancelled_leaves_the_signal_to_the_next)
{
    weft_fiber f = spin_waiting();
    weft_cancel(f);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("");
    ck_assert(weft_event_is_set(&event));
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_event_wait(&event), 0); /* also to one that is cancelled */
    }
}
END_TEST

/* P56 */
START_TEST(one_that_is_cancelled_after_it_was_set_returns_as_set)
{
    weft_fiber f = spin_waiting();
    weft_event_set(&event);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("w");
    assert_is_clear();
}
END_TEST

START_TEST(a_wait_can_be_interrupted_fail_or_time_out)
{
    weft_fiber f = spin_waiting();
    ck_assert_int_eq(weft_interrupt(f, -7), 0);
    ck_assert_int_eq(weft_await(f), -7);
    f = spin_waiting();
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_words(-EIO, "raised");
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_event_wait(&event), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    f = spin_waiting(); /* nobody is in the way */
    weft_event_set(&event);
    ck_assert_int_eq(weft_await(f), 0);
}
END_TEST

START_TEST(one_that_is_stopped_before_it_ever_ran_does_not_wait)
{
    weft_fiber f = weft_spin(wait_for_it, NULL);
    weft_stop(f, 2);
    ck_assert_int_eq(weft_await(f), 2);
    weft_event_set(&event);
    ck_assert(weft_event_is_set(&event));
}
END_TEST

START_TEST(a_parked_fiber_has_the_signal_all_the_same)
{
    weft_fiber f = spin_waiting();
    weft_park(f);
    weft_event_set(&event);
    let_run();
    assert_is_clear();
    ck_assert_trail("");
    weft_unpark(f);
    ck_assert_int_eq(weft_await(f), 0);
}
END_TEST

static pthread_t start(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static void join(pthread_t thread)
{
    void *result;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_null(result);
}

static int data; /* written before the event is set, read after the wait: no lock in between */

static void *set(void *arg)
{
    data++;
    return as_arg(weft_event_set(arg));
}

/* It is set by another thread; nothing is read of what that has sent. */
static void set_from_outside(void)
{
    join(start(set, &event));
}

/* P56 */
START_TEST(a_plain_thread_sets_it_for_a_main_fiber_that_waits)
{
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start(set, &event); /* before the wait, or meanwhile */
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
        join(thread);
    }
    assert_is_clear();
}
END_TEST

/* P56 */
START_TEST(a_plain_thread_sets_it_before_anyone_waits)
{
    set_from_outside();
    set_from_outside();
    ck_assert(weft_event_is_set(&event));
    ck_assert_int_eq(weft_event_wait(&event), 0);
    ck_assert_int_eq(data, 2);
    assert_is_clear();
}
END_TEST

/* The tests from here on have the word of the other thread on its way: sent, and not read yet. */

START_TEST(one_that_is_cancelled_while_the_word_is_on_its_way_returns_as_set)
{
    weft_fiber f = spin_waiting();
    set_from_outside();
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_interrupt(f, -7), -EBUSY);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("w");
    assert_is_clear();
}
END_TEST

START_TEST(one_that_is_interrupted_while_the_word_is_on_its_way_returns_as_set)
{
    weft_fiber f = spin_waiting();
    set_from_outside();
    ck_assert_int_eq(weft_interrupt(f, -7), 0);
    ck_assert_int_eq(weft_await(f), 0);
    f = spin_waiting(); /* and the value is lost, not kept for later */
    set_from_outside();
    ck_assert_int_eq(weft_await(f), 0);
    assert_is_clear();
}
END_TEST

static weft_value wait_and_sleep(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_event_wait(&event), 0);
    mark("w");
    return weft_sleep(INFINITY);
}

START_TEST(an_error_raised_while_the_word_is_on_its_way_is_for_the_next_call)
{
    weft_fiber f = weft_spin(wait_and_sleep, NULL);
    let_run();
    set_from_outside();
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_raise(f, -EPIPE, "raised too"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_words(-EIO, "raised");
    ck_assert_trail("w");
}
END_TEST

START_TEST(a_signal_after_one_that_is_on_its_way_is_for_the_next_wait)
{
    weft_fiber f = spin_waiting();
    set_from_outside();
    assert_is_clear();
    weft_fiber g = weft_spin(wait_for_it, NULL); /* f waits for it no more */
    weft_event_set(&event);
    ck_assert(weft_event_is_set(&event));
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(g), 0);
    assert_is_clear();
}
END_TEST

static weft_value set_and_exit(void *arg)
{
    (void)arg;
    set_from_outside();
    exit_here(3);
    return 0;
}

/* The end of the process has to wait for it, so the word arrives meanwhile. */
static weft_value end_slowly(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
    }
    return 0;
}

static int wait_while_a_child_exits(void)
{
    weft_spin(end_slowly, NULL);
    weft_spin(set_and_exit, NULL);
    weft_event_wait(&event);
    return 0;
}

static int end_while_one_waits(void)
{
    weft_spin(wait_for_it, NULL);
    weft_snooze();
    set_from_outside();
    return 0;
}

START_TEST(the_process_may_end_while_the_word_is_on_its_way)
{
    ck_assert_quiet(run_apart(wait_while_a_child_exits), 3);
    ck_assert_quiet(run_apart(end_while_one_waits), 0);
}
END_TEST

/* And from here on threads run side by side. */

static sem_t go;

static void *set_when_told(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        sem_wait(&go);
        set(&event);
    }
    return NULL;
}

START_TEST(ten_thousand_signals_of_a_plain_thread_arrive_one_by_one)
{
    int n = 10000;
    sem_init(&go, 0, 0);
    pthread_t thread = start(set_when_told, &n);
    for (int i = 0; i < n; i++) {
        sem_post(&go);
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
    }
    join(thread);
    assert_is_clear();
}
END_TEST

static weft_event there;

static void *play(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        ck_assert_int_eq(weft_event_wait(&there), 0);
        set(&event);
    }
    return NULL;
}

START_TEST(two_threads_with_fibers_play_ping_pong)
{
    int n = 10000;
    pthread_t thread = start(play, &n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(weft_event_set(&there), 0);
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
    }
    join(thread);
}
END_TEST

static atomic_int sent;

static void *send_many(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        atomic_fetch_add_explicit(&sent, 1, memory_order_relaxed);
        weft_event_set(&event);
    }
    return NULL;
}

START_TEST(the_last_signal_of_many_threads_is_not_lost)
{
    int n = 3000;
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start(send_many, &n);
    while (atomic_load_explicit(&sent, memory_order_relaxed) < (int)COUNT_OF(threads) * n)
        ck_assert_int_eq(weft_event_wait(&event), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        join(threads[i]);
}
END_TEST

static atomic_bool has_set_again;

/* Relaxed: the event is all that orders what this thread writes and what the other reads. */
static void *set_again(void *arg)
{
    while (!weft_event_is_set(arg))
        sched_yield();
    set(arg);
    atomic_store_explicit(&has_set_again, true, memory_order_relaxed);
    return NULL;
}

START_TEST(who_sets_what_is_set_already_has_its_data_seen_too)
{
    pthread_t thread = start(set_again, &event);
    weft_event_set(&event);
    while (!atomic_load_explicit(&has_set_again, memory_order_relaxed))
        sched_yield();
    ck_assert_int_eq(weft_event_wait(&event), 0);
    ck_assert_int_eq(data, 1);
    join(thread);
}
END_TEST

static _Atomic(weft_event *) fresh;

static void *set_fresh_ones(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        weft_event *e;
        while ((e = atomic_exchange(&fresh, NULL)) == NULL)
            sched_yield();
        set(e);
    }
    return NULL;
}

START_TEST(an_event_may_be_freed_as_soon_as_the_wait_is_over)
{
    int n = 2000;
    pthread_t thread = start(set_fresh_ones, &n);
    for (int i = 0; i < n; i++) {
        weft_event *e = calloc(1, sizeof *e);
        atomic_store(&fresh, e);
        ck_assert_int_eq(weft_event_wait(e), 0);
        free(e);
    }
    join(thread);
}
END_TEST

static atomic_int told; /* how often the other thread is to have set it */

/* The same without sleeping in between, so that the two threads meet. */
static void *set_when_told_at_once(void *arg)
{
    for (int i = 0, n = *(int *)arg; i < n; i++) {
        for (int j = 1; atomic_load(&told) <= i; j++)
            if (j % 1000 == 0)
                sched_yield();
        set(&event);
    }
    return NULL;
}

/* At a different point each time. */
static void dawdle(int i)
{
    for (int j = i % 300; j > 0; j--)
        atomic_load(&told);
}

/*
 * A fiber waits; another thread sets the event while this one cuts the wait short. One of them has
 * the signal: the fiber, or the event.
 */
static void race(void (*cut_short)(weft_fiber f), int struck)
{
    int n = 6000;
    pthread_t thread = start(set_when_told_at_once, &n);
    for (int i = 0; i < n; i++) {
        trail[0] = '\0';
        weft_fiber f = spin_waiting();
        atomic_fetch_add(&told, 1);
        dawdle(i);
        cut_short(f);
        weft_value rc = weft_await(f);
        ck_assert(rc == 0 || rc == struck);
        if (trail[0] == '\0')
            ck_assert_int_eq(weft_event_wait(&event), 0);
        assert_is_clear();
    }
    join(thread);
    ck_assert_int_eq(data, n);
}

static void cancel(weft_fiber f)
{
    weft_cancel(f);
}

static void interrupt(weft_fiber f)
{
    weft_interrupt(f, -EINTR);
}

START_TEST(a_cancel_that_races_with_a_signal_loses_nothing)
{
    race(cancel, -ECANCELED);
}
END_TEST

START_TEST(an_interrupt_that_races_with_a_signal_loses_nothing)
{
    race(interrupt, -EINTR);
}
END_TEST

START_TEST(a_timeout_that_races_with_a_signal_loses_nothing)
{
    int n = 500;
    sem_init(&go, 0, 0);
    pthread_t thread = start(set_when_told, &n);
    for (int i = 0; i < n; i++) {
        int wait_rc = 0, rc;
        WEFT_CANCEL_AFTER(i * 1e-7, rc) {
            sem_post(&go);
            wait_rc = weft_event_wait(&event);
        }
        if (wait_rc != 0) {
            ck_assert_int_eq(rc, -ETIMEDOUT);
            ck_assert_int_eq(weft_event_wait(&event), 0);
        }
        ck_assert_int_eq(data, i + 1);
        assert_is_clear();
    }
    join(thread);
}
END_TEST

static sem_t is_waiting;

static weft_value wait_there(void *arg)
{
    return weft_event_wait(arg);
}

static void *end_while_a_fiber_waits(void *arg)
{
    weft_spin(wait_there, arg);
    weft_snooze();
    sem_post(&is_waiting);
    return NULL;
}

START_TEST(a_thread_that_ends_leaves_the_signal_to_others)
{
    sem_init(&is_waiting, 0, 0);
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start(end_while_a_fiber_waits, &event);
        sem_wait(&is_waiting);
        ck_assert_int_eq(weft_event_set(&event), 0); /* its fiber has it, or nobody waits */
        join(thread);
        weft_event_clear(&event);
        assert_is_clear();
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &a_signal_is_remembered_until_one_has_waited_for_it,
    &several_signals_before_a_wait_are_one,
    &a_signal_can_be_forgotten,
    &one_who_waits_goes_on_when_it_is_set_and_it_is_clear_again,
    &a_second_who_waits_is_refused,
    &a_wait_that_is_cancelled_leaves_the_signal_to_the_next,
    &one_that_is_cancelled_after_it_was_set_returns_as_set,
    &a_wait_can_be_interrupted_fail_or_time_out,
    &one_that_is_stopped_before_it_ever_ran_does_not_wait,
    &a_parked_fiber_has_the_signal_all_the_same,
    &a_plain_thread_sets_it_for_a_main_fiber_that_waits,
    &a_plain_thread_sets_it_before_anyone_waits,
    &one_that_is_cancelled_while_the_word_is_on_its_way_returns_as_set,
    &one_that_is_interrupted_while_the_word_is_on_its_way_returns_as_set,
    &an_error_raised_while_the_word_is_on_its_way_is_for_the_next_call,
    &a_signal_after_one_that_is_on_its_way_is_for_the_next_wait,
    &the_process_may_end_while_the_word_is_on_its_way,
    &ten_thousand_signals_of_a_plain_thread_arrive_one_by_one,
    &two_threads_with_fibers_play_ping_pong,
    &the_last_signal_of_many_threads_is_not_lost,
    &who_sets_what_is_set_already_has_its_data_seen_too,
    &an_event_may_be_freed_as_soon_as_the_wait_is_over,
    &a_cancel_that_races_with_a_signal_loses_nothing,
    &an_interrupt_that_races_with_a_signal_loses_nothing,
    &a_timeout_that_races_with_a_signal_loses_nothing,
    &a_thread_that_ends_leaves_the_signal_to_others,
};

int main(void)
{
    return run_suite("event", tests, COUNT_OF(tests));
}
