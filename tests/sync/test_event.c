/*
 * Events: remembered until one fiber has waited, set from any thread, for all waiters of a thread,
 * never lost.
 */
#include "core/cord/fork_support.h"
#include "support/suite.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

static weft_event event;

/* Wait for the event. Mark "w" if it was set. Return the result of the wait. */
static weft_value wait_and_mark_set(void *arg)
{
    (void)arg;
    int rc = weft_event_wait(&event);
    if (rc == 0)
        mark("w");
    return rc;
}

static weft_fiber spin_event_waiter(void)
{
    weft_fiber f = weft_spin(wait_and_mark_set, NULL);
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
TEST(a_signal_is_remembered_until_a_fiber_has_waited_for_it)
{
    weft_spin(mark_and_return, "switched");
    ck_assert(!weft_event_is_set(&event));
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(weft_event_is_set(&event));
    ck_assert_int_eq(weft_event_wait(&event), 0);
    ck_assert_trail("");
    assert_is_clear();
}

/* P56 */
TEST(several_signals_before_a_wait_are_one)
{
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_event_wait(&event), 0);
    assert_is_clear();
}

TEST(a_signal_can_be_cleared)
{
    weft_event_clear(&event);
    weft_event_set(&event);
    weft_event_clear(&event);
    assert_is_clear();
    weft_fiber f = spin_event_waiter();
    weft_event_clear(&event); /* no effect; the waiter keeps waiting */
    weft_event_set(&event);
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(setting_an_event_wakes_its_waiter_and_leaves_it_clear)
{
    weft_fiber f = spin_event_waiter();
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(!weft_event_is_set(&event)); /* handed to the waiter, which has not run yet */
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert(weft_event_is_set(&event)); /* the second signal is for the next wait */
    ck_assert_int_eq(weft_event_wait(&event), 0);
}

/* Wait for the event, and mark the text. */
static weft_value wait_and_mark(void *text)
{
    int rc = weft_event_wait(&event);
    mark(rc == 0 ? text : "x");
    return rc;
}

/* Spin fibers that wait for the event and mark "0", "1", "2" ... */
static void spin_batch(weft_fiber *f, size_t n)
{
    static char digits[10][2];
    for (size_t i = 0; i < n; i++) {
        digits[i][0] = (char)('0' + i);
        f[i] = weft_spin(wait_and_mark, digits[i]);
    }
    let_run();
}

TEST(setting_an_event_wakes_all_waiters_in_order_and_leaves_it_clear)
{
    weft_fiber f[5];
    spin_batch(f, 5);
    weft_event_clear(&event); /* has no effect on waiters */
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(!weft_event_is_set(&event));
    ck_assert_int_eq(weft_await_all(f, 5, NULL), 0);
    ck_assert_trail("01234");
    assert_is_clear();
}

/* The first waiter, one in the middle, the last one, and all of them. */
TEST(waiters_that_leave_do_not_affect_the_others)
{
    static const struct {
        size_t leaving[4], n;
        const char *woken;
    } cases[] = {{{0}, 1, "123"},         {{1}, 1, "023"},   {{3}, 1, "012"},
                 {{0, 1, 2}, 3, "3"},     {{3, 0}, 2, "12"}, {{2, 0, 1}, 3, "3"},
                 {{0, 1, 2, 3}, 4, NULL}, {{0, 3}, 2, "12"}, {{1, 0, 3, 2}, 4, NULL}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_fiber f[4];
        trail[0] = '\0';
        spin_batch(f, 4);
        for (size_t j = 0; j < cases[i].n; j++)
            ck_assert_int_eq(weft_interrupt(f[cases[i].leaving[j]], -EINTR), 0);
        let_run();
        trail[0] = '\0';
        ck_assert_int_eq(weft_event_set(&event), 0);
        ck_assert(weft_event_is_set(&event) == (cases[i].woken == NULL));
        weft_event_clear(&event);
        for (size_t j = 0; j < 4; j++)
            weft_await(f[j]);
        ck_assert_trail(cases[i].woken != NULL ? cases[i].woken : "");
    }
}

static sem_t is_waiting;

static void *wait_in_thread(void *arg)
{
    weft_fiber f = weft_spin(wait_and_mark_set, NULL);
    weft_snooze();
    sem_post(&is_waiting);
    (void)arg;
    return as_arg(weft_await(f));
}

TEST(a_waiter_of_another_thread_is_refused)
{
    sem_init(&is_waiting, 0, 0);
    pthread_t thread = start_thread(wait_in_thread, NULL);
    sem_wait(&is_waiting);
    ck_assert_int_eq(weft_event_wait(&event), -EXDEV);
    ck_assert_error(-EXDEV, "weft_event_wait: a fiber of another thread waits for the event");
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_ptr_null(join_thread(thread));
    assert_is_clear();
}

static weft_value select_event(void *arg)
{
    weft_clause c[] = {weft_clause_event(&event), weft_clause_never()};
    (void)arg;
    return weft_select(c, 2);
}

/* Use an event for which only a fiber of another thread of the parent waits. */
static void use_event_in_child(bool is_set_first)
{
    require(!weft_event_is_set(&event));
    weft_fiber f = is_set_first ? 0 : weft_spin(select_event, NULL);
    require(weft_snooze() == 0 && weft_event_set(&event) == 0);
    require(weft_event_is_set(&event) == is_set_first);
    require((is_set_first ? weft_event_wait(&event) : weft_await(f)) == 0);
    _exit(0);
}

TEST(in_a_child_an_event_has_no_waiters_of_other_threads)
{
    sem_init(&is_waiting, 0, 0);
    pthread_t thread = start_thread(wait_in_thread, NULL);
    sem_wait(&is_waiting);
    for (int i = 0; i < 2; i++) {
        pid_t pid = weft_fork();
        if (pid == 0)
            use_event_in_child(i);
        ck_assert_int_eq(wait_for_exit(pid), 0);
    }
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_ptr_null(join_thread(thread));
}

/* P56 */
TEST(a_cancelled_wait_leaves_the_signal_to_the_next)
{
    weft_fiber f = spin_event_waiter();
    weft_cancel(f);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("");
    ck_assert(weft_event_is_set(&event));
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_event_wait(&event), 0); /* a cancelled fiber gets it too */
    }
}

/* P56 */
TEST(a_waiter_cancelled_after_the_event_was_set_returns_as_set)
{
    weft_fiber f = spin_event_waiter();
    weft_event_set(&event);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("w");
    assert_is_clear();
}

TEST(a_wait_can_be_interrupted_fail_or_time_out)
{
    weft_fiber f = spin_event_waiter();
    ck_assert_int_eq(weft_interrupt(f, -7), 0);
    ck_assert_int_eq(weft_await(f), -7);
    f = spin_event_waiter();
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "raised");
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_event_wait(&event), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    f = spin_event_waiter(); /* the event has no waiter any more */
    weft_event_set(&event);
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(a_fiber_stopped_before_it_ran_does_not_wait)
{
    weft_fiber f = weft_spin(wait_and_mark_set, NULL);
    weft_stop(f, 2);
    ck_assert_int_eq(weft_await(f), 2);
    weft_event_set(&event);
    ck_assert(weft_event_is_set(&event));
}

TEST(a_parked_fiber_gets_the_signal)
{
    weft_fiber f = spin_event_waiter();
    weft_park(f);
    weft_event_set(&event);
    let_run();
    assert_is_clear();
    ck_assert_trail("");
    weft_unpark(f);
    ck_assert_int_eq(weft_await(f), 0);
}

/* Written before the event is set, read after the wait. Only the event orders both. */
static int data;

static void *set_and_count(void *arg)
{
    data++;
    return as_arg(weft_event_set(arg));
}

/* Set the event in another thread. Its remote message is not handled yet. */
static void set_in_thread(void)
{
    ck_assert_ptr_null(join_thread(start_thread(set_and_count, &event)));
}

/* P56 */
TEST(a_thread_without_fibers_sets_an_event_on_which_the_main_fiber_waits)
{
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start_thread(set_and_count, &event); /* before or during the wait */
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
        ck_assert_ptr_null(join_thread(thread));
    }
    assert_is_clear();
}

/* P56 */
TEST(a_thread_without_fibers_sets_an_event_without_waiters)
{
    set_in_thread();
    set_in_thread();
    ck_assert(weft_event_is_set(&event));
    ck_assert_int_eq(weft_event_wait(&event), 0);
    ck_assert_int_eq(data, 2);
    assert_is_clear();
}

/*
 * In the tests up to the end of the process, the remote message of the other thread is in flight.
 */

TEST(a_waiter_cancelled_while_the_remote_message_is_in_flight_returns_as_set)
{
    weft_fiber f = spin_event_waiter();
    set_in_thread();
    ck_assert_int_eq(weft_cancel(f), 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_interrupt(f, -7), -EBUSY);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("w");
    assert_is_clear();
}

TEST(a_waiter_interrupted_while_the_remote_message_is_in_flight_returns_as_set)
{
    weft_fiber f = spin_event_waiter();
    set_in_thread();
    ck_assert_int_eq(weft_interrupt(f, -7), 0);
    ck_assert_int_eq(weft_await(f), 0);
    f = spin_event_waiter(); /* the interrupt is discarded, not delivered later */
    set_in_thread();
    ck_assert_int_eq(weft_await(f), 0);
    assert_is_clear();
}

static weft_value wait_and_sleep(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_event_wait(&event), 0);
    mark("w");
    return weft_sleep(INFINITY);
}

TEST(an_error_raised_while_the_remote_message_is_in_flight_is_for_the_next_call)
{
    weft_fiber f = weft_spin(wait_and_sleep, NULL);
    let_run();
    set_in_thread();
    ck_assert_int_eq(weft_raise(f, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_raise(f, -EPIPE, "raised too"), 0);
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "raised");
    ck_assert_trail("w");
}

TEST(a_remote_message_wakes_its_batch_and_not_the_next_one)
{
    weft_fiber f[3];
    spin_batch(f, 3);
    set_in_thread();
    ck_assert_int_eq(weft_interrupt(f[0], -7), 0); /* discarded: the waits have their result */
    ck_assert_int_eq(weft_cancel(f[1]), 0);
    weft_fiber g = weft_spin(wait_and_mark_set, NULL);
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), -ECANCELED);
    ck_assert_int_eq(weft_await(f[2]), 0);
    ck_assert_trail("012");
    let_run();
    ck_assert_int_eq(weft_state_of(g), WEFT_WAITING);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(g), 0);
    assert_is_clear();
}

TEST(a_signal_after_one_in_flight_is_for_the_next_wait)
{
    weft_fiber f = spin_event_waiter();
    set_in_thread();
    assert_is_clear();
    weft_fiber g = weft_spin(wait_and_mark_set, NULL); /* allowed: the wait of f has its result */
    weft_event_set(&event);
    ck_assert(weft_event_is_set(&event));
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(g), 0);
    assert_is_clear();
}

static weft_value set_and_exit(void *arg)
{
    (void)arg;
    set_in_thread();
    exit_here(3);
    return 0;
}

/* The end of the process waits for this fiber. The remote message arrives meanwhile. */
static weft_value end_after_shield(void *arg)
{
    (void)arg;
    weft_suspend();
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
    }
    return 0;
}

static int wait_event_while_a_child_exits(void)
{
    weft_spin(end_after_shield, NULL);
    weft_spin(set_and_exit, NULL);
    weft_event_wait(&event);
    return 0;
}

static int end_while_a_fiber_waits_for_event(void)
{
    weft_spin(wait_and_mark_set, NULL);
    weft_snooze();
    set_in_thread();
    return 0;
}

TEST(the_process_may_end_while_the_remote_message_is_in_flight)
{
    ck_assert_quiet(run_apart(wait_event_while_a_child_exits), 3);
    ck_assert_quiet(run_apart(end_while_a_fiber_waits_for_event), 0);
}

/* In the remaining tests, threads run concurrently. */

static sem_t set_requests;

static void *set_when_posted(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        sem_wait(&set_requests);
        set_and_count(&event);
    }
    return NULL;
}

TEST(ten_thousand_signals_of_a_thread_without_fibers_arrive_one_by_one)
{
    int n = 10000;
    sem_init(&set_requests, 0, 0);
    pthread_t thread = start_thread(set_when_posted, &n);
    for (int i = 0; i < n; i++) {
        sem_post(&set_requests);
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
    }
    ck_assert_ptr_null(join_thread(thread));
    assert_is_clear();
}

static weft_event ping;

static void *answer_pings(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        ck_assert_int_eq(weft_event_wait(&ping), 0);
        set_and_count(&event);
    }
    return NULL;
}

TEST(two_threads_with_fibers_signal_each_other_in_turn)
{
    int n = 10000;
    pthread_t thread = start_thread(answer_pings, &n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(weft_event_set(&ping), 0);
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
    }
    ck_assert_ptr_null(join_thread(thread));
}

static atomic_int sent;

static void *set_many(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        atomic_fetch_add_explicit(&sent, 1, memory_order_relaxed);
        weft_event_set(&event);
    }
    return NULL;
}

TEST(the_last_signal_of_many_threads_is_not_lost)
{
    int n = 3000;
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(set_many, &n);
    while (atomic_load_explicit(&sent, memory_order_relaxed) < (int)COUNT_OF(threads) * n)
        ck_assert_int_eq(weft_event_wait(&event), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_ptr_null(join_thread(threads[i]));
}

static atomic_bool has_set_again;

/* Relaxed: only the event orders the writes of this thread and the reads of the waiter. */
static void *set_again(void *arg)
{
    while (!weft_event_is_set(arg))
        sched_yield();
    set_and_count(arg);
    atomic_store_explicit(&has_set_again, true, memory_order_relaxed);
    return NULL;
}

TEST(data_written_before_setting_a_set_event_is_visible_to_the_waiter)
{
    pthread_t thread = start_thread(set_again, &event);
    weft_event_set(&event);
    while (!atomic_load_explicit(&has_set_again, memory_order_relaxed))
        sched_yield();
    ck_assert_int_eq(weft_event_wait(&event), 0);
    ck_assert_int_eq(data, 1);
    ck_assert_ptr_null(join_thread(thread));
}

static _Atomic(weft_event *) new_event;

static void *set_new_events(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        weft_event *e;
        while ((e = atomic_exchange(&new_event, NULL)) == NULL)
            sched_yield();
        set_and_count(e);
    }
    return NULL;
}

TEST(an_event_may_be_freed_as_soon_as_the_wait_is_over)
{
    int n = 2000;
    pthread_t thread = start_thread(set_new_events, &n);
    for (int i = 0; i < n; i++) {
        weft_event *e = calloc(1, sizeof *e);
        atomic_store(&new_event, e);
        ck_assert_int_eq(weft_event_wait(e), 0);
        free(e);
    }
    ck_assert_ptr_null(join_thread(thread));
}

static atomic_int sets_allowed; /* how many times the other thread may set the event */

/* As set_when_posted, but poll, so that both threads race. */
static void *set_when_allowed(void *arg)
{
    for (int i = 0, n = *(int *)arg; i < n; i++) {
        for (int j = 1; atomic_load(&sets_allowed) <= i; j++)
            if (j % 1000 == 0)
                sched_yield();
        set_and_count(&event);
    }
    return NULL;
}

/* Delay by a different time in each round. */
static void delay(int i)
{
    for (int j = i % 300; j > 0; j--)
        atomic_load(&sets_allowed);
}

/*
 * Interrupt or cancel a waiting fiber while another thread sets the event. Either the fiber or the
 * event has the signal.
 */
static void race_with_set(void (*disturb)(weft_fiber f), int disturbed_rc)
{
    int n = 6000;
    pthread_t thread = start_thread(set_when_allowed, &n);
    for (int i = 0; i < n; i++) {
        trail[0] = '\0';
        weft_fiber f = spin_event_waiter();
        atomic_fetch_add(&sets_allowed, 1);
        delay(i);
        disturb(f);
        weft_value rc = weft_await(f);
        ck_assert(rc == 0 || rc == disturbed_rc);
        if (trail[0] == '\0')
            ck_assert_int_eq(weft_event_wait(&event), 0);
        assert_is_clear();
    }
    ck_assert_ptr_null(join_thread(thread));
    ck_assert_int_eq(data, n);
}

static void cancel_fiber(weft_fiber f)
{
    weft_cancel(f);
}

static void interrupt_fiber(weft_fiber f)
{
    weft_interrupt(f, -EINTR);
}

TEST(a_cancel_that_races_with_a_signal_loses_nothing)
{
    race_with_set(cancel_fiber, -ECANCELED);
}

TEST(an_interrupt_that_races_with_a_signal_loses_nothing)
{
    race_with_set(interrupt_fiber, -EINTR);
}

TEST(a_timeout_that_races_with_a_signal_loses_nothing)
{
    int n = 500;
    sem_init(&set_requests, 0, 0);
    pthread_t thread = start_thread(set_when_posted, &n);
    for (int i = 0; i < n; i++) {
        int wait_rc = 0, rc;
        WEFT_CANCEL_AFTER(i * 1e-7, rc) {
            sem_post(&set_requests);
            wait_rc = weft_event_wait(&event);
        }
        if (wait_rc != 0) {
            ck_assert_int_eq(rc, -ETIMEDOUT);
            ck_assert_int_eq(weft_event_wait(&event), 0);
        }
        ck_assert_int_eq(data, i + 1);
        assert_is_clear();
    }
    ck_assert_ptr_null(join_thread(thread));
}

/*
 * A broadcast: threads publish rounds and set the event. Fibers wait until they have seen the last
 * round, and some waits are interrupted or time out. A lost wake-up leaves a fiber waiting forever.
 */

#define BROADCAST_FIBERS 40
static int broadcast_rounds = 4000;
static atomic_int rounds;       /* published; the event orders the writes */
static atomic_int setters_left; /* threads that still publish */

static void *publish_rounds(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
        weft_event_set(&event);
        if (n % 64 == 0)
            sched_yield();
    }
    atomic_fetch_sub(&setters_left, 1);
    weft_event_set(&event);
    return NULL;
}

/* A set without waiters wakes only the next waiter, which therefore sets the event again. */
static weft_value wait_for_last_round(void *arg)
{
    for (intptr_t i = (intptr_t)arg; atomic_load(&setters_left) > 0; i++) {
        int rc, timeout_rc;
        if (i % 3 == 0) {
            WEFT_CANCEL_AFTER((double)(i % 7) * 1e-6, timeout_rc) {
                rc = weft_event_wait(&event);
            }
        } else {
            rc = weft_event_wait(&event);
            ck_assert(rc == 0 || rc == -EINTR);
        }
    }
    return weft_event_set(&event);
}

static void race_with_broadcasts(size_t threads_count)
{
    pthread_t threads[4];
    weft_fiber f[BROADCAST_FIBERS];
    atomic_store(&setters_left, (int)threads_count);
    for (size_t i = 0; i < threads_count; i++)
        threads[i] = start_thread(publish_rounds, &broadcast_rounds);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(wait_for_last_round, as_arg((weft_value)i));
    for (size_t i = 0; atomic_load(&setters_left) > 0; i++) {
        (void)weft_interrupt(f[i % COUNT_OF(f)], -EINTR); /* fails if the fiber does not wait */
        weft_snooze();
    }
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    for (size_t i = 0; i < threads_count; i++)
        ck_assert_ptr_null(join_thread(threads[i]));
}

TEST(no_wake_up_of_many_waiters_is_lost_while_threads_set_the_event)
{
    race_with_broadcasts(1);
    race_with_broadcasts(4);
}

/* In each round, a thread sets the event once while fibers wait. Each wait returns once. */
static weft_value count_rounds(void *arg)
{
    size_t *seen = arg;
    int rc;
    while ((rc = weft_event_wait(&event)) == 0) {
        ++*seen;
        if (weft_event_wait(&ping) < 0)
            break;
    }
    return 0;
}

TEST(each_set_by_a_thread_wakes_each_waiter_exactly_once)
{
    int n = 2000;
    size_t seen[8] = {0};
    weft_fiber f[COUNT_OF(seen)];
    sem_init(&set_requests, 0, 0);
    pthread_t thread = start_thread(set_when_posted, &n);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(count_rounds, &seen[i]);
    for (size_t round = 1; round <= (size_t)n; round++) {
        let_run();
        sem_post(&set_requests);
        while (seen[0] < round)
            ck_assert_int_eq(weft_sleep(0), 0);
        for (size_t i = 0; i < COUNT_OF(seen); i++)
            ck_assert_uint_eq(seen[i], round);
        ck_assert_int_eq(weft_event_set(&ping), 0);
    }
    ck_assert_ptr_null(join_thread(thread));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        weft_stop(f[i], 0);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
}

static weft_value wait_for_arg_event(void *arg)
{
    return weft_event_wait(arg);
}

static void *end_while_a_fiber_waits(void *arg)
{
    weft_spin(wait_for_arg_event, arg);
    weft_snooze();
    sem_post(&is_waiting);
    return NULL;
}

TEST(a_thread_that_ends_leaves_the_signal_to_others)
{
    sem_init(&is_waiting, 0, 0);
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start_thread(end_while_a_fiber_waits, &event);
        sem_wait(&is_waiting);
        ck_assert_int_eq(weft_event_set(&event), 0); /* wakes the fiber, or no fiber waits */
        ck_assert_ptr_null(join_thread(thread));
        weft_event_clear(&event);
        assert_is_clear();
    }
}
