/*
 * More remote messages than a cord can handle at once. Fibers, timers and I/O still run, no message
 * is lost or reordered, and senders wait or are refused.
 */
#include "support/cord_support.h"
#include "support/suite.h"

#include "core/cord/inbox.h"

#include <semaphore.h>

#define FULL WEFT__REMOTE_PENDING_MAX
/* Fewer than FULL, but more than a cord handles in one batch. */
#define MANY (IS_SLOW ? 2500 : 15000)
/* The messages of one batch plus the switches until the next one, with a margin of 2. */
#define BOUND (2 * (WEFT__REMOTE_BATCH + WEFT__TICK_SWITCHES_MAX))

static weft_value join_meanwhile(pthread_t thread)
{
    void *result;
    while (pthread_tryjoin_np(thread, &result) != 0)
        weft_sleep(0);
    return (weft_value)result;
}

static weft_fiber target; /* the target of the threads; set before they start */
static size_t ran_count;  /* number of remote fibers that have run */

FIBER_DO(count_remote_run, ran_count++, 0)

/* Spin up to arg remote fibers, until one is refused. Return the number of created ones. */
static void *spin_fibers(void *arg)
{
    weft_value i = 0;
    while (i < (weft_value)arg && weft_cord_spin(target, count_remote_run, NULL) != 0)
        i++;
    if (i < (weft_value)arg)
        ck_assert_int_eq(weft_error()->code, -EAGAIN);
    return as_arg(i);
}

static void *schedule_target(void *arg)
{
    weft_value i = 0;
    while (i < (weft_value)arg && weft_schedule(target, 1) == 0)
        i++;
    return as_arg(i);
}

/*
 * Run fn in a thread and wait for its end. No fiber of this thread runs meanwhile, so all messages
 * are pending.
 */
static weft_value flood_from_thread(void *(*fn)(void *), weft_value most)
{
    target = weft_self();
    return (weft_value)join_thread(start_thread(fn, as_arg(most)));
}

FIBER_DO(sleep_a_moment, int rc = weft_sleep(1e-9), *(size_t *)arg = ran_count, rc)

TEST(a_timer_fires_after_a_few_batches_of_remote_fibers)
{
    size_t ran_before_the_timer = SIZE_MAX;
    ck_assert_int_eq(flood_from_thread(spin_fibers, MANY), MANY);
    weft_fiber sleeper = weft_spin(sleep_a_moment, &ran_before_the_timer);
    ck_assert_int_eq(weft_await(sleeper), 0);
    ck_assert_uint_le(ran_before_the_timer, BOUND);
    while (ran_count < MANY)
        ck_assert_int_eq(weft_snooze(), 0);
}

static weft_value read_and_count(void *arg)
{
    char byte;
    ssize_t n = weft_read(*(int *)arg, &byte, 1);
    return n == 1 ? (weft_value)ran_count : -EIO;
}

TEST(a_read_completes_before_all_remote_fibers_have_run)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_fiber reader = spin_waiting(read_and_count, &fd[0]);
    ck_assert_int_eq(flood_from_thread(spin_fibers, MANY), MANY);
    ck_assert_int_eq(weft_write(fd[1], "x", 1), 1);
    weft_value ran_before = weft_await(reader);
    ck_assert(ran_before >= 0 && ran_before < MANY);
    while (ran_count < MANY)
        ck_assert_int_eq(weft_snooze(), 0);
    close_fd_pair(fd);
}

#define BUSY (IS_SLOW ? 100 : 2000)

static size_t most_fibers; /* at the same time */

static weft_value stay_runnable(void *arg)
{
    int rc;
    do {
        size_t fibers = stats().fibers;
        most_fibers = fibers > most_fibers ? fibers : most_fibers;
        rc = weft_snooze();
    } while (rc == 0 && ran_count < MANY);
    return rc;
}

TEST(remote_fibers_do_not_accumulate_beside_fibers_that_are_always_runnable)
{
    for (int i = 0; i < BUSY; i++)
        weft_spin(stay_runnable, NULL);
    ck_assert_int_eq(flood_from_thread(spin_fibers, MANY), MANY);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_uint_eq(ran_count, MANY);
    ck_assert_uint_le(most_fibers, BUSY + 2 + BOUND);
}

FIBER(set_event, weft_event_set(arg))
FIBER(wait_for_arg_event, weft_event_wait(arg))

TEST(schedules_and_remote_fibers_beyond_the_limit_are_refused_until_the_cord_has_run)
{
    weft_event event = {0};
    weft_fiber waiter = spin_waiting(wait_for_arg_event, &event);
    ck_assert_int_eq(flood_from_thread(schedule_target, 2 * FULL), FULL);
    ck_assert_int_eq(weft_cord_join(start_cord(set_event, &event)), 0); /* never refused */
    ck_assert_int_eq(weft_await(waiter), 0);
    while (weft_sleep(0), weft__cord_has_messages(weft__cord_self))
        continue;
    ck_assert_int_eq(flood_from_thread(schedule_target, 10), 10);
    while (weft_sleep(0), weft__cord_has_messages(weft__cord_self))
        continue;
    ck_assert_int_eq(flood_from_thread(spin_fibers, 2 * FULL), FULL);
    while (ran_count < FULL)
        ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(flood_from_thread(spin_fibers, 10), 10);
    while (ran_count < FULL + 10)
        ck_assert_int_eq(weft_snooze(), 0);
}

FIBER(call_target, weft_cord_call(target, return_arg, arg))
static sem_t is_blocked, may_continue;

/* Block the thread of a cord, then run the function in arg. */
static weft_value block_thread(void *arg)
{
    sem_post(&is_blocked);
    sem_wait(&may_continue);
    return arg != NULL ? ((weft_fn *)arg)(NULL) : 0;
}

static weft_cord start_blocked(weft_fn *then)
{
    sem_init(&is_blocked, 0, 0);
    sem_init(&may_continue, 0, 0);
    weft_cord cord = start_cord(block_thread, (void *)then);
    sem_wait(&is_blocked);
    return cord;
}

TEST(calls_events_and_cancels_are_never_refused)
{
    target = start_blocked(sleep_forever);
    while (weft_schedule(target, 1) == 0)
        continue;
    ck_assert_int_eq(weft_schedule(target, 1), -EAGAIN);
    weft_fiber call = weft_spin(call_target, as_arg(7));
    weft_fiber cancelled = spin_waiting(call_target, as_arg(8));
    weft_cancel(cancelled);
    sem_post(&may_continue);
    ck_assert_int_eq(weft_await(call), 7);
    weft_value rc = weft_await(cancelled);
    ck_assert(rc == 8 || rc == -ECANCELED);
    ck_assert_int_eq(weft_cord_cancel(target), 0);
    ck_assert_int_eq(weft_cord_join(target), -ECANCELED);
}

#define MORE 1000

static _Atomic weft_value told_count; /* number of told messages */

static weft_value tell_more_than_fit(void *arg)
{
    for (told_count = 0; told_count < FULL + MORE; told_count++) {
        int rc = weft_tell(arg_id(arg), told_count);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static weft_value receive_more_than_fit(void *arg)
{
    for (weft_value i = 0; i < FULL + MORE; i++)
        if (weft_receive() != i)
            return -EBADMSG;
    return 0;
}

static void *tell_too_much(void *arg)
{
    weft_value rc = tell_more_than_fit(arg);
    return as_arg(weft__cord_self == NULL ? rc : -EISCONN); /* the thread is not a cord */
}

TEST(a_fiber_or_a_thread_that_tells_too_much_waits_and_all_messages_arrive_in_order)
{
    weft_cord cord = start_blocked(receive_more_than_fit);
    weft_fiber f = spin_waiting(tell_more_than_fit, id_arg(cord));
    ck_assert_int_eq(told_count, FULL);
    sem_post(&may_continue);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    told_count = 0;
    cord = start_blocked(receive_more_than_fit);
    pthread_t thread = start_thread(tell_too_much, id_arg(cord));
    while (atomic_load(&told_count) < FULL)
        sched_yield();
    sem_post(&may_continue);
    ck_assert_int_eq((weft_value)join_thread(thread), 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

static weft_value received; /* by the cord; read after its join */

static weft_value count_messages(void *arg)
{
    weft_value rc;
    while ((rc = weft_receive()) >= 0)
        received++;
    return rc;
}

static weft_value receive_and_tell(void *arg)
{
    for (int i = 0; i < 100; i++)
        weft_receive();
    weft_tell(arg_id(arg), 1);
    return count_messages(arg);
}

TEST(each_tell_of_a_cancelled_sender_that_succeeded_has_arrived)
{
    weft_cord cord = start_blocked(count_messages);
    weft_fiber f = spin_waiting(tell_more_than_fit, id_arg(cord));
    weft_cancel(f);
    sem_post(&may_continue);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    weft_value sent = told_count;
    ck_assert_int_ge(sent, FULL);
    /* Handled after all told messages. */
    ck_assert_int_eq(weft_cord_call(cord, return_arg, NULL), 0);
    weft_cord_cancel(cord);
    ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
    ck_assert_int_eq(received, sent);
}

static weft_cord pair[2];

static weft_value tell_cord_of_pair(void *arg)
{
    for (weft_value i = 0; i < 2 * FULL; i++) {
        int rc = weft_tell(pair[(intptr_t)arg], i);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* arg is the index of the other cord. */
static weft_value flood_other_cord(void *arg)
{
    sem_wait(&may_continue); /* both cords have started */
    weft_fiber sender = weft_spin(tell_cord_of_pair, arg);
    for (weft_value i = 0; i < 2 * FULL; i++)
        if (weft_receive() != i)
            return -EBADMSG;
    return weft_await(sender);
}

TEST(two_cords_that_flood_each_other_both_continue)
{
    sem_init(&may_continue, 0, 0);
    for (int i = 0; i < 2; i++)
        pair[i] = start_cord(flood_other_cord, as_arg(1 - i));
    for (int i = 0; i < 2; i++)
        sem_post(&may_continue);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(weft_cord_join(pair[i]), 0);
}

static void *tell_until_refused(void *arg)
{
    int rc;
    while ((rc = weft_tell(arg_id(arg), 1)) == 0)
        continue;
    return as_arg(rc);
}

static void *schedule_until_refused(void *arg)
{
    int rc;
    while ((rc = weft_schedule(arg_id(arg), 1)) == 0 || rc == -EAGAIN)
        continue;
    return as_arg(rc);
}

static void *spin_until_refused(void *arg)
{
    int rc = 0;
    do {
        if (weft_cord_spin(arg_id(arg), return_arg, NULL) == 0)
            rc = weft_error()->code;
    } while (rc == 0 || rc == -EAGAIN);
    return as_arg(rc);
}

TEST(a_flooded_cord_can_be_cancelled_and_its_senders_get_esrch)
{
    static void *(*const senders[])(void *) = {tell_until_refused, schedule_until_refused,
                                               spin_until_refused};
    for (int round = 0; round < 2; round++) {
        weft_cord cord = start_cord(receive_and_tell, id_arg(weft_self()));
        pthread_t threads[COUNT_OF(senders)];
        for (size_t i = 0; i < COUNT_OF(senders); i++)
            threads[i] = start_thread(senders[i], id_arg(cord));
        ck_assert_int_eq(weft_receive(), 1);
        ck_assert_int_eq(weft_cord_cancel(cord), 0);
        ck_assert_int_eq(weft_cord_join(cord), -ECANCELED);
        for (size_t i = 0; i < COUNT_OF(senders); i++)
            ck_assert_int_eq((weft_value)join_thread(threads[i]), -ESRCH);
    }
}

TEST(waiting_senders_get_esrch_when_the_cord_ends_without_reading_its_inbox)
{
    weft_cord cord = start_blocked(return_arg);
    weft_fiber f = spin_waiting(tell_more_than_fit, id_arg(cord));
    pthread_t thread = start_thread(tell_until_refused, id_arg(cord));
    sem_post(&may_continue);
    weft_value rc = weft_await(f);
    ck_assert(rc == 0 || rc == -ESRCH);
    ck_assert_int_eq(join_meanwhile(thread), -ESRCH);
    ck_assert_int_eq(weft_cord_join(cord), 0);
}

static void *schedule_running_then_waiting(void *arg)
{
    weft_fiber running = ((weft_fiber *)arg)[0], waiter = ((weft_fiber *)arg)[1];
    for (int i = 0; i < 3 * WEFT__REMOTE_BATCH; i++)
        ck_assert_int_eq(weft_schedule(running, 1), 0);
    return as_arg(weft_schedule(waiter, 42));
}

TEST(messages_behind_the_first_batch_do_not_cause_a_deadlock_report)
{ /* P80 */
    weft_fiber fibers[] = {weft_self(), weft_spin(suspend, NULL)};
    let_run();
    pthread_t thread = start_thread(schedule_running_then_waiting, fibers);
    ck_assert_int_eq((weft_value)join_thread(thread), 0);
    ck_assert_int_eq(weft_await(fibers[1]), 42);
}
