/* Cords that end in odd ways: by hand, with the process, in a deadlock, while others want them. */
#include "cord_support.h"

#include "core/port.h"

#include <sched.h>

#if KNOWS_THREADS /* TSan, which does not, takes a fiber's thread for another, too */
static weft_value end_thread(void *arg)
{
    (void)arg;
    pthread_exit(NULL);
}

START_TEST(a_call_whose_fiber_ends_its_thread_by_hand_is_answered)
{
    weft_cord cord = start_cord(NULL, NULL);
    ck_assert_int_eq(weft_cord_call(cord, end_thread, NULL), -ESRCH);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
}
END_TEST
#endif

static weft_value end_process(void *arg)
{
    exit_here((int)(weft_value)arg);
    return 0;
}

static weft_value call_end_process(void *arg)
{
    return weft_cord_call(arg_id(arg), end_process, as_arg(3));
}

/* What joins it is not told that it has ended: main must not return, too. */
static int join_who_calls_the_end(void)
{
    weft_cord server = start_cord(NULL, NULL);
    weft_cord_join(start_cord(call_end_process, id_arg(server)));
    return 4;
}

START_TEST(a_called_fiber_may_end_the_process)
{
    assert_silent(run_apart(join_who_calls_the_end), 3);
}
END_TEST

static weft_value end_process_when_told(void *arg)
{
    weft_receive();
    return end_process(arg);
}

static weft_value tell_and_join(void *arg)
{
    weft_tell(arg_id(arg), 1);
    return weft_cord_join(arg_id(arg));
}

static int join_who_ends_the_process(void)
{
    weft_cord cord = start_cord(end_process_when_told, as_arg(3));
    start_cord(tell_and_join, id_arg(cord));
    return (int)weft_cord_join(cord);
}

START_TEST(a_cord_that_joins_the_one_that_ends_the_process_is_not_waited_for)
{
    assert_silent(run_apart(join_who_ends_the_process), 3);
}
END_TEST

/* Until it is turned away. */
static void call_again_and_again(void *arg)
{
    WEFT_SHIELD(INFINITY)
        while (weft_cord_call(arg_id(arg), return_arg, as_arg(1)) == 1)
            continue;
}

static weft_value call_in_the_end(void *arg)
{
    weft_defer(call_again_and_again, arg);
    return announce_and_wait(arg);
}

static int be_called_in_the_end(void)
{
    for (int i = 0; i < 4; i++) {
        start_cord(call_in_the_end, id_arg(weft_self()));
        weft_receive();
    }
    return 0;
}

START_TEST(a_main_that_has_returned_turns_calls_away)
{
    assert_silent(run_apart(be_called_in_the_end), 0);
}
END_TEST

static void start_another(void *arg)
{
    ck_assert_uint_ne(weft_cord_start(sleep_forever, arg, NULL), 0);
}

static weft_value start_another_in_the_end(void *arg)
{
    weft_defer(start_another, NULL);
    return announce_and_wait(arg);
}

static int return_while_it_waits(void)
{
    start_cord(start_another_in_the_end, id_arg(weft_self()));
    return weft_receive() != 1;
}

START_TEST(a_cord_started_while_the_process_ends_is_cancelled_at_once)
{
    assert_silent(run_apart(return_while_it_waits), 0);
}
END_TEST

/* Returns at once when a fiber has come, without letting it run. */
static void wait_for_a_child(void *arg)
{
    weft_tell(arg_id(arg), 1);
    while (weft_children(weft_self(), NULL, 0) == 0)
        weft_snooze();
}

static weft_key key;

static weft_value leave_a_local(void *arg)
{
    return weft_local_set(key, arg);
}

START_TEST(a_call_that_comes_while_a_destructor_waits_is_answered)
{
    key = weft_key_new(wait_for_a_child);
    weft_cord cord = start_cord(leave_a_local, id_arg(weft_self()));
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_cord_call(cord, return_arg, as_arg(1)), -ESRCH);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}
END_TEST

static weft_cord home;
static bool has_helped;

/* When that one sleeps, having found out whether anyone can help it. */
static void help_when_asleep(void *arg)
{
    if (has_helped)
        return;
    has_helped = true;
    bool is_asleep = false;
    while (!is_asleep) {
        weft__cord *c = weft__port_visit(weft__fiber_cord(home));
        is_asleep = atomic_load(&c->is_asleep);
        weft__port_leave(weft__fiber_cord(home));
        sched_yield();
    }
    weft_tell(home, (weft_value)arg);
}

static weft_value help_when_idle(void *arg)
{
    weft_on_idle(help_when_asleep, arg);
    return weft_receive();
}

START_TEST(a_cord_that_calls_something_when_idle_can_still_help)
{
    home = weft_self();
    weft_cord cord = start_cord(help_when_idle, as_arg(7));
    ck_assert_int_eq(weft_receive(), 7);
    weft_tell(cord, 8);
    ck_assert_int_eq(weft_cord_join(cord), 8);
}
END_TEST

static weft_value pass_on(void *arg)
{
    weft_value v;
    while ((v = weft_receive()) > 0)
        weft_tell(arg_id(arg), v);
    return v;
}

static void *tell_and_end(void *arg)
{
    weft_tell(arg_id(arg), 5);
    return NULL;
}

START_TEST(a_thread_that_ends_may_have_told_another_cord)
{
    weft_cord cord = start_cord(pass_on, id_arg(weft_self()));
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 300; i++) {
        pthread_t thread;
        ck_assert_int_eq(pthread_create(&thread, &detached, tell_and_end, id_arg(cord)), 0);
        ck_assert_int_eq(weft_receive(), 5);
    }
    weft_tell(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}
END_TEST

#if KNOWS_THREADS
/* Nothing ends it. */
static weft_value wait_shielded(void *arg)
{
    WEFT_SHIELD(INFINITY)
        if (weft_receive() > 0)
            *(int *)arg = 1;
    return 1;
}

static int call_who_waits_for_ever(void)
{
    is_exiting_in_a_fiber = true; /* or LeakSanitizer finds what is left in one that never ends */
    weft_cord cord = start_cord(NULL, NULL);
    int arg = 0;
    weft_value value = weft_cord_call(cord, wait_shielded, &arg);
    if (value != -ESRCH && value != -EDEADLK)
        return 1;
    return weft_cord_join(cord) == 0 ? 0 : 2;
}

START_TEST(a_cord_that_ends_in_a_deadlock_answers_its_calls)
{
    const outcome *o = run_apart(call_who_waits_for_ever);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "deadlock");
}
END_TEST

static weft_value tell_home(void *arg)
{
    return weft_tell(home, (weft_value)arg);
}

/* Home is told once it waits. */
static weft_value join_arg(void *arg)
{
    weft_spin(tell_home, as_arg(1));
    return weft_cord_join(arg_id(arg));
}

static int cancel_who_joins(void)
{
    home = weft_self();
    int arg = 0;
    weft_cord cord = start_cord(wait_shielded, &arg);
    weft_cord other = start_cord(join_arg, id_arg(cord));
    weft_receive();
    weft_cord_cancel(other);
    weft_value value = weft_cord_join(other);
    if (value == -EDEADLK) { /* this one was told first, and does something about it */
        weft_tell(cord, 1);
        value = weft_cord_join(other);
    }
    return value == -ECANCELED && weft_cord_join(cord) == -ESRCH ? 0 : 1;
}

START_TEST(a_cancelled_joiner_is_not_told_of_a_deadlock_before_the_cord_is)
{
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(run_apart(cancel_who_joins)->status, 0);
}
END_TEST
#endif

/* What becomes of the argument. */

static atomic_int drops;
static void *dropped;

static void note_drop(void *arg)
{
    dropped = arg;
    atomic_fetch_add(&drops, 1);
}

START_TEST(a_call_that_does_not_come_to_be_drops_its_argument_at_once)
{
    int arg;
    bool has_ended = true;
    weft_call_options o = {.drop = note_drop, .has_ended = &has_ended};
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
END_TEST

/* Cancelled by its own cord, not by the caller: the two look the same. */
static weft_value fail_as_if_cancelled(void *arg)
{
    (void)arg;
    return -ECANCELED;
}

START_TEST(a_call_whose_fiber_was_cancelled_there_leaves_the_argument_to_the_caller)
{
    bool has_ended = false;
    weft_cord cord = start_cord(NULL, NULL);
    weft_call_options o = {.drop = note_drop, .has_ended = &has_ended};
    ck_assert_int_eq(weft_cord_call_with(cord, fail_as_if_cancelled, &o, &o), -ECANCELED);
    ck_assert(has_ended);
    ck_assert_int_eq(drops, 0);
    weft_cord_cancel(cord);
    weft_cord_join(cord);
}
END_TEST

/* Says who it is, and goes on when it is told to, whatever happens. */
static weft_value wait_for_word(void *arg)
{
    (void)arg;
    weft_tell(home, (weft_value)weft_self());
    WEFT_SHIELD(INFINITY)
        weft_receive();
    return 0;
}

static int copied;
static int told_in_drop;

static void read_and_wait(void *arg)
{
    copied = *(int *)arg;
    told_in_drop = weft_sleep(0.001);
    atomic_fetch_add(&drops, 1);
}

static weft_value leave_a_copy(void *arg)
{
    int number = 12;
    weft_call_options o = {.drop = read_and_wait, .arg_bytes = sizeof number};
    weft_value value = weft_cord_call_with(arg_id(arg), wait_for_word, &number, &o);
    *(volatile int *)&number = 0;
    return value;
}

START_TEST(a_drop_gets_the_copy_and_cannot_wait)
{
    home = weft_self();
    weft_cord cord = start_cord(NULL, NULL);
    weft_fiber caller = weft_spin(leave_a_copy, id_arg(cord));
    weft_fiber there = (weft_fiber)weft_receive();
    weft_cancel(caller);
    ck_assert_int_eq(weft_await(caller), -ECANCELED);
    ck_assert_int_eq(drops, 0);
    weft_tell(there, 1);
    weft_schedule(cord, 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    while (atomic_load(&drops) == 0)
        weft_sleep(0);
    ck_assert_int_eq(drops, 1);
    ck_assert_int_eq(copied, 12);
    ck_assert_int_eq(told_in_drop, -EPERM);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_called_fiber_may_end_the_process,
    &a_cord_that_joins_the_one_that_ends_the_process_is_not_waited_for,
    &a_main_that_has_returned_turns_calls_away,
    &a_cord_started_while_the_process_ends_is_cancelled_at_once,
    &a_call_that_comes_while_a_destructor_waits_is_answered,
    &a_cord_that_calls_something_when_idle_can_still_help,
    &a_thread_that_ends_may_have_told_another_cord,
#if KNOWS_THREADS
    &a_call_whose_fiber_ends_its_thread_by_hand_is_answered,
    &a_cord_that_ends_in_a_deadlock_answers_its_calls,
    &a_cancelled_joiner_is_not_told_of_a_deadlock_before_the_cord_is,
#endif
    &a_call_that_does_not_come_to_be_drops_its_argument_at_once,
    &a_call_whose_fiber_was_cancelled_there_leaves_the_argument_to_the_caller,
    &a_drop_gets_the_copy_and_cannot_wait,
};

int main(void)
{
    return run_suite("cord_end", tests, COUNT_OF(tests));
}
