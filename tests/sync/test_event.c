/*
 * Events: remembered until one fiber has waited, set from any thread, for all waiters of a thread,
 * never lost.
 */
#include "core/cord/fork_support.h"
#include "support/suite.h"
#include "sync/steps.h"

#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

static weft_event event;

static void assert_is_clear(void)
{
    ck_assert(!weft_event_is_set(&event));
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_event_wait(&event), -ECANCELED);
    }
}

static sem_t is_waiting, set_requests;

static void open_semaphores(void)
{
    sem_init(&is_waiting, 0, 0);
    sem_init(&set_requests, 0, 0);
}

FIXTURE(open_semaphores, assert_is_clear)

/* Written before the event is set, read after the wait. Only the event orders both. */
static int data;

THREAD_DO(set_and_count, data++, weft_event_set(arg))

STEP(wait_event, weft_event_wait(&event))
STEP(set, weft_event_set(&event))
STEP(is_set, weft_event_is_set(&event))
STEP(clear, (weft_event_clear(&event), 0))
/* Set the event in another thread. Its remote message is not handled yet. */
STEP(set_in_thread, join_thread(start_thread(set_and_count, &event)))

TEST(setting_an_event_wakes_its_waiter_and_leaves_it_clear)
{
    play({A, wait_event, WAITS}, {M, set}, {M, is_set, false}, /* handed to A, which has not run */
         {M, set}, {A, returns, 0}, {M, is_set, true},         /* for the next wait */
         {M, wait_event});
}

FIBER_DO(wait_and_mark, int rc = weft_event_wait(&event), mark(rc == 0 ? arg : "x"), rc)

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

/* No waiter, the first waiter, one in the middle, the last one, and all of them leave. */
TEST(setting_an_event_wakes_all_waiters_that_have_not_left_in_order)
{
    static const struct {
        const char *leaving, *woken;
    } cases[] = {{"", "0123"}, {"0", "123"}, {"1", "023"}, {"3", "012"}, {"012", "3"},
                 {"30", "12"}, {"201", "3"}, {"03", "12"}, {"0123", ""}, {"1032", ""}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_fiber f[4];
        spin_batch(f, 4);
        for (const char *c = cases[i].leaving; *c != '\0'; c++)
            ck_assert_int_eq(weft_interrupt(f[*c - '0'], -EINTR), 0);
        let_run();
        clear_trail();
        play({M, clear}, {M, set}, {M, is_set, cases[i].woken[0] == '\0'}, {M, clear});
        for (size_t j = 0; j < 4; j++)
            weft_await(f[j]);
        ck_take_trail(cases[i].woken);
    }
}

/* Let a fiber of this thread wait. Await the fiber, or with an argument end the thread. */
static void *wait_in_thread(void *is_ending)
{
    weft_fiber f = weft_spin(wait_and_mark, "w");
    weft_snooze();
    sem_post(&is_waiting);
    return is_ending != NULL ? NULL : as_arg(weft_await(f));
}

TEST(a_waiter_of_another_thread_is_refused)
{
    pthread_t thread = start_thread(wait_in_thread, NULL);
    sem_wait(&is_waiting);
    play({M, wait_event, -EXDEV});
    ck_assert_error(-EXDEV, "weft_event_wait: a fiber of another thread waits for the event");
    play({M, set});
    ck_assert_ptr_null(join_thread(thread));
}

TEST(a_thread_that_ends_leaves_the_signal_to_others)
{
    for (int i = 0; i < 100; i++) {
        pthread_t thread = start_thread(wait_in_thread, &event);
        sem_wait(&is_waiting);
        play({M, set}); /* wakes the fiber, or no fiber waits */
        ck_assert_ptr_null(join_thread(thread));
        weft_event_clear(&event);
        assert_is_clear();
    }
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

TEST(a_parked_fiber_gets_the_signal)
{
    play({A, wait_event, WAITS}, {M, park, 0, A}, {M, set}, {A, returns, WAITS}, {M, is_set, false},
         {M, unpark, 0, A}, {A, returns, 0});
}

TEST(a_thread_without_fibers_sets_an_event_without_waiters)
{ /* P56 */
    play({M, set_in_thread}, {M, set_in_thread}, {M, is_set, true}, {M, wait_event});
    ck_assert_int_eq(data, 2);
}

/* In the tests up to the end of the process, the message of the other thread is in flight. */

TEST(a_waiter_cancelled_while_the_remote_message_is_in_flight_returns_as_set)
{
    play({A, wait_event, WAITS}, {M, set_in_thread}, {M, cancel, 0, A});
    ck_assert_int_eq(weft_state_of(actors[A].fiber), WEFT_WAITING);
    play({M, interrupt, -EBUSY, A}, {A, returns, 0});
}

TEST(a_waiter_interrupted_while_the_remote_message_is_in_flight_returns_as_set)
{
    play({A, wait_event, WAITS}, {M, set_in_thread}, {M, interrupt, 0, A}, {A, returns, 0},
         {A, wait_event, WAITS}, /* the interrupt is discarded, not delivered later */
         {M, set_in_thread}, {A, returns, 0});
}

STEP(wait_and_sleep, weft_event_wait(&event) == 0 ? weft_sleep(INFINITY) : 1)

TEST(an_error_raised_while_the_remote_message_is_in_flight_is_for_the_next_call)
{
    play({A, wait_and_sleep, WAITS}, {M, set_in_thread}, {M, raise_error, 0, A});
    ck_assert_int_eq(weft_raise(actors[A].fiber, -EPIPE, "raised too"), 0);
    play({A, returns, RAISED});
}

TEST(a_remote_message_wakes_its_batch_and_not_the_next_one)
{
    weft_fiber f[3];
    spin_batch(f, 3);
    play({M, set_in_thread});
    ck_assert_int_eq(weft_interrupt(f[0], -7), 0); /* discarded: the waits have their result */
    ck_assert_int_eq(weft_cancel(f[1]), 0);
    weft_fiber g = weft_spin(wait_and_mark, "g");
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), -ECANCELED);
    ck_assert_int_eq(weft_await(f[2]), 0);
    let_run();
    ck_take_trail("012");
    play({M, set});
    ck_assert_int_eq(weft_await(g), 0);
}

TEST(a_signal_after_one_in_flight_is_for_the_next_wait)
{
    play({A, wait_event, WAITS}, {M, set_in_thread}, {M, is_set, false}, {M, set},
         {M, is_set, true}, {B, wait_event, 0}, {A, returns, 0});
}

FIBER_DO(set_and_exit, set_in_thread(0), exit_here(3), 0)

/* The end of the process waits for this fiber. The remote message arrives meanwhile. */
static weft_value end_after_shield(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
    }
    return 0;
}

TEST_PROGRAM(the_process_may_end_while_main_waits_and_the_remote_message_is_in_flight, 3, "")
{
    weft_spin(end_after_shield, NULL);
    weft_spin(set_and_exit, NULL);
    weft_event_wait(&event);
    return 0;
}

TEST_PROGRAM(the_process_may_end_while_a_fiber_waits_and_the_remote_message_is_in_flight, 0, "")
{
    weft_spin(wait_and_mark, "w");
    weft_snooze();
    set_in_thread(0);
    return 0;
}

/* In the remaining tests, threads run concurrently. */

static weft_event ping;

static void *set_when_posted(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        sem_wait(&set_requests);
        set_and_count(&event);
    }
    return NULL;
}

static void *answer_pings(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        ck_assert_int_eq(weft_event_wait(&ping), 0);
        set_and_count(&event);
    }
    return NULL;
}

/* P56. The other thread has no fibers, or waits for an event too. */
TEST_LOOP(the_signals_of_another_thread_arrive_one_by_one, 2)
{
    int n = 5000;
    pthread_t thread = start_thread(_i == 0 ? set_when_posted : answer_pings, &n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(_i == 0 ? sem_post(&set_requests) : weft_event_set(&ping), 0);
        ck_assert_int_eq(weft_event_wait(&event), 0);
        ck_assert_int_eq(data, i + 1);
    }
    ck_assert_ptr_null(join_thread(thread));
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
    play({M, wait_event});
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

/* Either the fiber or the event has the signal. The delay differs from round to round. */
TEST_LOOP(a_cancel_or_an_interrupt_that_races_with_a_signal_loses_nothing, 2)
{
    int n = 4000;
    pthread_t thread = start_thread(set_when_allowed, &n);
    for (int i = 0; i < n; i++) {
        clear_trail();
        weft_fiber f = spin_waiting(wait_and_mark, "w");
        atomic_fetch_add(&sets_allowed, 1);
        for (int j = i % 300; j > 0; j--)
            atomic_load(&sets_allowed);
        (void)(_i == 0 ? weft_cancel(f) : weft_interrupt(f, -EINTR));
        weft_value rc = weft_await(f);
        ck_assert(rc == 0 || rc == (_i == 0 ? -ECANCELED : -EINTR));
        if (strcmp(trail, "w") != 0)
            ck_assert_int_eq(weft_event_wait(&event), 0);
        assert_is_clear();
    }
    ck_assert_ptr_null(join_thread(thread));
    ck_assert_int_eq(data, n);
}

TEST(a_timeout_that_races_with_a_signal_loses_nothing)
{
    int n = 500;
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
 * A broadcast: threads set the event. Fibers wait until all threads have ended, and some waits are
 * interrupted or time out. A lost wake-up leaves a fiber waiting forever.
 */

static atomic_int setters_left;

static void *set_often(void *arg)
{
    for (int n = *(int *)arg; n > 0; n--) {
        weft_event_set(&event);
        if (n % 64 == 0)
            sched_yield();
    }
    atomic_fetch_sub(&setters_left, 1);
    weft_event_set(&event);
    return NULL;
}

/* A set without waiters wakes only the next waiter, which therefore sets the event again. */
static weft_value wait_for_last_setter(void *arg)
{
    for (intptr_t i = (intptr_t)arg; atomic_load(&setters_left) > 0; i++) {
        double timeout = i % 3 == 0 ? (double)(i % 7) * 1e-6 : INFINITY;
        WEFT_MOVE_ON_AFTER(timeout) {
            int rc = weft_event_wait(&event);
            ck_assert(rc == 0 || rc == -EINTR || i % 3 == 0);
        }
    }
    return weft_event_set(&event);
}

static const size_t setter_counts[] = {1, 4};

TEST_ROWS(no_wake_up_of_many_waiters_is_lost_while_threads_set_the_event, setter_counts)
{
    size_t setters = setter_counts[_i];
    int rounds = 3000;
    pthread_t threads[4];
    weft_fiber f[40];
    atomic_store(&setters_left, (int)setters);
    for (size_t i = 0; i < setters; i++)
        threads[i] = start_thread(set_often, &rounds);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(wait_for_last_setter, as_arg((weft_value)i));
    for (size_t i = 0; atomic_load(&setters_left) > 0; i++) {
        (void)weft_interrupt(f[i % COUNT_OF(f)], -EINTR); /* fails if the fiber does not wait */
        weft_snooze();
    }
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    for (size_t i = 0; i < setters; i++)
        ck_assert_ptr_null(join_thread(threads[i]));
    weft_event_clear(&event);
}

/* In each round, a thread sets the event once while fibers wait. Each wait returns once. */
static weft_value count_rounds(void *arg)
{
    while (weft_event_wait(&event) == 0) {
        increment_int(arg);
        if (weft_event_wait(&ping) < 0)
            break;
    }
    return 0;
}

TEST(each_set_by_a_thread_wakes_each_waiter_exactly_once)
{
    int n = 1000, seen[8] = {0};
    weft_fiber f[COUNT_OF(seen)];
    pthread_t thread = start_thread(set_when_posted, &n);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(count_rounds, &seen[i]);
    for (int round = 1; round <= n; round++) {
        let_run();
        sem_post(&set_requests);
        while (seen[0] < round)
            ck_assert_int_eq(weft_sleep(0), 0);
        for (size_t i = 0; i < COUNT_OF(seen); i++)
            ck_assert_int_eq(seen[i], round);
        ck_assert_int_eq(weft_event_set(&ping), 0);
    }
    ck_assert_ptr_null(join_thread(thread));
    for (size_t i = 0; i < COUNT_OF(f); i++)
        weft_stop(f[i], 0);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
}
