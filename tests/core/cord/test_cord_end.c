/*
 * Unusual ends of cords: by pthread_exit, with the process, in a deadlock, and while other threads
 * use them.
 */
#include "support/cord_support.h"
#include "support/suite.h"

#include "core/cord/registry.h"

#include <sched.h>

#if HAS_ONLY_OWN_THREADS /* not with TSan: it treats the threads of fibers as foreign threads */
static weft_value end_thread(void *arg)
{
    pthread_exit(NULL);
}

TEST(a_call_to_a_fiber_that_calls_pthread_exit_returns)
{
    weft_cord cord = start_cord(NULL, NULL);
    ck_assert_int_eq(weft_cord_call(cord, end_thread, NULL), -ESRCH);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}
#endif

FIBER(call_exit, weft_cord_call(arg_id(arg), exit_with, as_arg(3)))

/*
 * The join of a cord in which a call ends the process must not return. Otherwise main would return
 * too.
 */
TEST_PROGRAM(a_called_fiber_may_end_the_process, 3, "")
{
    weft_cord server = start_cord(NULL, NULL);
    weft_cord_join(start_cord(call_exit, id_arg(server)));
    return 4;
}

FIBER_DO(exit_after_message, weft_receive(), exit_with(arg))
FIBER_DO(tell_and_join, weft_tell(arg_id(arg), 1), weft_cord_join(arg_id(arg)))

TEST_PROGRAM(a_cord_that_joins_the_cord_that_exits_does_not_block_process_exit, 3, "")
{
    weft_cord cord = start_cord(exit_after_message, as_arg(3));
    start_cord(tell_and_join, id_arg(cord));
    return (int)weft_cord_join(cord);
}

static void call_until_refused(void *arg)
{
    WEFT_SHIELD(INFINITY)
        while (weft_cord_call(arg_id(arg), return_arg, as_arg(1)) == 1)
            continue;
}

FIBER_DO(call_at_end, weft_defer(call_until_refused, arg), announce_and_wait(arg))

TEST_PROGRAM(calls_to_a_main_thread_that_has_returned_are_refused, 0, "")
{
    for (int i = 0; i < 4; i++) {
        start_cord(call_at_end, id_arg(weft_self()));
        weft_receive();
    }
    return 0;
}

CALLBACK(start_sleeping_cord, ck_assert_uint_ne(weft_cord_start(sleep_forever, arg, NULL), 0))
FIBER_DO(start_cord_at_end, weft_defer(start_sleeping_cord, NULL), announce_and_wait(arg))

TEST_PROGRAM(a_cord_started_while_the_process_ends_is_cancelled_at_once, 0, "")
{
    start_cord(start_cord_at_end, id_arg(weft_self()));
    return weft_receive() != 1;
}

/* Return when a child has been created, without running it. */
static void wait_for_a_child(void *arg)
{
    weft_tell(arg_id(arg), 1);
    while (weft_children(weft_self(), NULL, 0) == 0)
        weft_snooze();
}

static weft_key key;

FIBER(end_with_local, weft_local_set(key, arg))

TEST(a_call_that_arrives_while_a_destructor_waits_returns)
{
    key = weft_key_new(wait_for_a_child);
    weft_cord cord = start_cord(end_with_local, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_cord_call(cord, return_arg, as_arg(1)), -ESRCH);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

static weft_cord home;
static bool has_told;

/* Wait until home is asleep, after its deadlock detection. Then tell home. */
static void tell_home_when_asleep(void *arg)
{
    if (has_told)
        return;
    has_told = true;
    bool is_asleep = false;
    while (!is_asleep) {
        weft__cord *c = weft__registry_acquire(weft__fiber_cord(home));
        is_asleep = atomic_load(&c->is_asleep);
        weft__registry_release(weft__fiber_cord(home));
        sched_yield();
    }
    weft_tell(home, (weft_value)arg);
}

FIBER_DO(tell_home_when_idle, weft_on_idle(tell_home_when_asleep, arg), weft_receive())

TEST(a_cord_with_an_idle_callback_is_not_part_of_a_deadlock)
{
    home = weft_self();
    weft_cord cord = start_cord(tell_home_when_idle, as_arg(7));
    ck_assert_int_eq(weft_receive(), 7);
    weft_tell(cord, 8);
    ck_assert_int_eq(weft_cord_join(cord), 8);
}

#if HAS_ONLY_OWN_THREADS
/* Wait in a shield, so that a cancel has no effect. */
static weft_value wait_shielded(void *arg)
{
    WEFT_SHIELD(INFINITY)
        if (weft_receive() > 0)
            *(int *)arg = 1;
    return 1;
}

TEST_PROGRAM_PRINTS(a_cord_that_ends_in_a_deadlock_replies_to_its_calls, 0, "deadlock")
{
    is_exiting_in_a_fiber = true; /* LeakSanitizer would find memory of the fiber that never ends */
    weft_cord cord = start_cord(NULL, NULL);
    int arg = 0;
    weft_value value = weft_cord_call(cord, wait_shielded, &arg);
    if (value != -ESRCH && value != -EDEADLK)
        return 1;
    return weft_cord_join(cord) == 0 ? 0 : 2;
}

FIBER(tell_home, weft_tell(home, (weft_value)arg))
FIBER_DO(join_arg, weft_spin(tell_home, as_arg(1)), weft_cord_join(arg_id(arg)))

static int cancel_joiner_in_deadlock(void)
{
    home = weft_self();
    int arg = 0;
    weft_cord cord = start_cord(wait_shielded, &arg);
    weft_cord other = start_cord(join_arg, id_arg(cord));
    weft_receive();
    weft_cord_cancel(other);
    weft_value value = weft_cord_join(other);
    if (value == -EDEADLK) { /* main was the first to get -EDEADLK; resolve the deadlock */
        weft_tell(cord, 1);
        value = weft_cord_join(other);
    }
    return value == -ECANCELED && weft_cord_join(cord) == -ESRCH ? 0 : 1;
}

TEST(a_deadlock_is_reported_to_the_cord_before_its_cancelled_joiner)
{
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(run_apart(cancel_joiner_in_deadlock)->status, 0);
}
#endif

static atomic_int drops;
static void *dropped;

static void record_drop(void *arg)
{
    dropped = arg;
    atomic_fetch_add(&drops, 1);
}

TEST(a_refused_call_drops_its_argument_at_once)
{
    int arg;
    bool has_ended = true;
    weft_call_options o = {.drop = record_drop, .has_ended = &has_ended};
    ck_assert_int_eq(weft_cord_call_with(0, return_arg, &arg, &o), -ESRCH);
    ck_assert_int_eq(drops, 1);
    ck_assert(!has_ended && dropped == &arg);
    ck_assert_int_eq(weft_cord_call_with(weft_cord_self(), NULL, &arg, &o), -EINVAL);
    ck_assert_int_eq(drops, 2);
    WEFT_MOVE_ON_AFTER(0) {
        weft_sleep(1);
        ck_assert_int_eq(weft_cord_call_with(weft_cord_self(), return_arg, &arg, &o), -ECANCELED);
    }
    ck_assert_int_eq(drops, 3);
    ck_assert(!has_ended);
}

/* The called fiber ends with -ECANCELED, and the caller is not cancelled. */
FIBER(return_ecanceled, -ECANCELED)

TEST(a_call_to_a_fiber_that_ends_with_ecanceled_leaves_the_argument_to_the_caller)
{
    bool has_ended = false;
    weft_cord cord = start_cord(NULL, NULL);
    weft_call_options o = {.drop = record_drop, .has_ended = &has_ended};
    ck_assert_int_eq(weft_cord_call_with(cord, return_ecanceled, &o, &o), -ECANCELED);
    ck_assert(has_ended);
    ck_assert_int_eq(drops, 0);
    weft_cord_cancel(cord);
    weft_cord_join(cord);
}

/* Tell home the id of this fiber. End after the next message, even if cancelled. */
static weft_value announce_and_receive(void *arg)
{
    weft_tell(home, (weft_value)weft_self());
    WEFT_SHIELD(INFINITY)
        weft_receive();
    return 0;
}

static int copied;
static int sleep_rc_in_drop;

static void record_copy_and_sleep(void *arg)
{
    copied = *(int *)arg;
    sleep_rc_in_drop = weft_sleep(0.001);
    atomic_fetch_add(&drops, 1);
}

static weft_value call_with_copy_and_drop(void *arg)
{
    int number = 12;
    weft_call_options o = {.drop = record_copy_and_sleep, .arg_bytes = sizeof number};
    weft_value value = weft_cord_call_with(arg_id(arg), announce_and_receive, &number, &o);
    *(volatile int *)&number = 0;
    return value;
}

TEST(a_drop_callback_gets_the_copy_and_cannot_wait)
{
    home = weft_self();
    weft_cord cord = start_cord(NULL, NULL);
    weft_fiber caller = weft_spin(call_with_copy_and_drop, id_arg(cord));
    weft_fiber called = (weft_fiber)weft_receive();
    ck_assert_int_eq(cancel_and_await(caller), -ECANCELED);
    ck_assert_int_eq(drops, 0);
    weft_tell(called, 1);
    weft_schedule(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    while (atomic_load(&drops) == 0)
        weft_sleep(0);
    ck_assert_int_eq(drops, 1);
    ck_assert_int_eq(copied, 12);
    ck_assert_int_eq(sleep_rc_in_drop, -EPERM);
}
