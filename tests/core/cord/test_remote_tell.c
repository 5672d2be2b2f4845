/*
 * Messages between threads: bounds, cancelled or interrupted senders, and ends. The property of
 * test_cord_traffic.c covers their order.
 */
#include "core/cord/fork_support.h"
#include "support/suite.h"

#include <semaphore.h>
#include <stdatomic.h>

/* Join a thread while fibers of this thread run. */
static weft_value join_meanwhile(pthread_t thread)
{
    void *result;
    while (pthread_tryjoin_np(thread, &result) != 0)
        weft_snooze();
    return (weft_value)result;
}

static weft_fiber receiver; /* the target of the threads; set before they start */

FIBER(tell_receiver, weft_tell(receiver, (weft_value)arg))
THREAD(tell_once, weft_tell(receiver, (weft_value)arg))

TEST(a_message_of_a_thread_that_ends_at_once_arrives)
{
    receiver = weft_self();
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start_thread(tell_once, as_arg(i));
        ck_assert_int_eq(weft_receive(), i);
        ck_assert_int_eq((weft_value)join_thread(thread), 0);
    }
}

/* Make calls that must be refused. Return the index of the first that is not, or 0. */
static void *make_refused_calls(void *arg)
{
    weft_fiber f = receiver;
    const weft_value results[] = {
        weft_tell(f, -EIO) - -EINVAL,   weft_tell(0, 1) - -ESRCH,
        weft_mailbox_count(f) - -EXDEV, weft_monitor(f) - -EXDEV,
        weft_unmonitor(f) - -EXDEV,     weft_tell(weft_self(), 1) /* allowed */
    };
    weft_value i = 0;
    while (i < (weft_value)COUNT_OF(results) && results[i] == 0)
        i++;
    return as_arg(i < (weft_value)COUNT_OF(results) ? i + 1 : 0);
}

TEST(invalid_calls_between_threads_are_refused)
{
    receiver = weft_self();
    for (size_t bound = 0; bound < 2; bound++) {
        weft_mailbox_set_bound(bound);
        ck_assert_int_eq((weft_value)join_thread(start_thread(make_refused_calls, NULL)), 0);
    }
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

static void *store_id_of_thread(void *arg)
{
    weft_mailbox_set_bound((size_t)arg);
    receiver = weft_self();
    return NULL;
}

FIBER(bound_and_return, weft_mailbox_set_bound(5))

TEST(telling_a_fiber_that_has_ended_with_or_before_its_thread_is_refused)
{
    for (weft_value bound = 0; bound < 2; bound++) {
        join_thread(start_thread(store_id_of_thread, as_arg(bound)));
        ck_assert_int_eq(weft_tell(receiver, 1), -ESRCH);
    }
    receiver = weft_spin(bound_and_return, NULL);
    weft_await(receiver); /* its bound has ended with it */
    for (size_t bound = 0; bound < 6; bound += 5) {
        weft_mailbox_set_bound(bound);
        ck_assert_int_eq(join_meanwhile(start_thread(tell_once, as_arg(1))), -ESRCH);
    }
}

/* Disturb a fiber of another thread while its message waits for room. */
typedef enum disturbance { CANCEL, INTERRUPT, RAISE, TIMEOUT, DISTURBANCES } disturbance;

static sem_t may_disturb;

typedef struct teller {
    weft_scope scope;
    weft_value result; /* result of weft_tell, not the value of the fiber */
} teller;

static weft_value tell_5_in_a_scope(void *arg)
{
    teller *v = arg;
    weft_scope_open(&v->scope, INFINITY);
    v->result = weft_tell(receiver, 5);
    return weft_scope_close(&v->scope);
}

static void disturb_teller(weft_fiber f, disturbance kind, weft_scope *scope)
{
    if (kind == CANCEL)
        weft_cancel(f);
    else if (kind == INTERRUPT)
        weft_interrupt(f, -77);
    else if (kind == RAISE)
        weft_raise(f, -EPROTO, "raised");
    else
        weft_scope_cancel(scope);
}

/*
 * Let a fiber tell 5. Disturb it when the other thread allows it, before this thread handles the
 * reply.
 */
static void *disturb_while_telling(void *arg)
{
    teller v;
    weft_fiber f = spin_waiting(tell_5_in_a_scope, &v);
    weft_schedule(receiver, 1);
    sem_wait(&may_disturb);
    disturb_teller(f, (disturbance)(intptr_t)arg, &v.scope);
    weft_await(f);
    return as_arg(v.result);
}

static pthread_t start_teller(disturbance kind)
{
    receiver = weft_self();
    ck_assert_int_eq(weft_mailbox_set_bound(1), 0);
    ck_assert_int_eq(weft_tell(receiver, 1), 0);
    sem_init(&may_disturb, 0, 0);
    pthread_t thread = start_thread(disturb_while_telling, as_arg(kind));
    ck_assert_int_eq(weft_suspend(), 1); /* the message has arrived */
    ck_assert_int_eq(weft_mailbox_count(receiver), 1);
    return thread;
}

TEST_LOOP(an_interrupted_sender_has_told_its_message_only_if_it_was_admitted_before, DISTURBANCES)
{
    const weft_value results[] = {-ECANCELED, -77, -EPROTO, -ECANCELED};
    pthread_t thread = start_teller(_i);
    sem_post(&may_disturb);
    ck_assert_int_eq(join_meanwhile(thread), results[_i]);
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    thread = start_teller(_i);
    ck_assert_int_eq(weft_receive(), 1); /* admits the message */
    ck_assert_int_eq(weft_mailbox_count(receiver), 1);
    sem_post(&may_disturb);
    ck_assert_int_eq(join_meanwhile(thread), 0);
    ck_assert_int_eq(weft_receive(), 5);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

static void *tell_while_cancelled(void *arg)
{
    weft_value rc = 1;
    WEFT_MOVE_ON_AFTER(0) {
        rc = weft_tell(receiver, 2);
    }
    return as_arg(rc);
}

TEST(a_cancelled_fiber_does_not_wait_for_a_reply)
{ /* T40 */
    receiver = weft_self();
    weft_mailbox_set_bound(1);
    ck_assert_int_eq((weft_value)join_thread(start_thread(tell_while_cancelled, NULL)), -ECANCELED);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

FIBER_DO(bound_and_suspend, weft_mailbox_set_bound(1), weft_tell(weft_self(), 1), weft_suspend())

/* Let a fiber tell 5. Schedule the fiber in arg when the message has arrived. */
static void *tell_5_and_schedule(void *arg)
{
    weft_fiber f = spin_waiting(tell_receiver, as_arg(5));
    weft_schedule(arg_id(arg), 1);
    return as_arg(weft_await(f));
}

/* Return a thread whose message 5 waits for room in the mailbox of a fiber of this thread. */
static pthread_t start_waiting_teller(void)
{
    receiver = spin_waiting(bound_and_suspend, NULL);
    pthread_t thread = start_thread(tell_5_and_schedule, id_arg(weft_self()));
    ck_assert_int_eq(weft_suspend(), 1);
    return thread;
}

TEST(a_waiting_sender_gets_esrch_when_the_receiver_ends_but_reaches_its_next_run)
{
    pthread_t thread = start_waiting_teller();
    weft_schedule(receiver, 9);
    ck_assert_int_eq(weft_await(receiver), 9);
    ck_assert_int_eq(join_meanwhile(thread), -ESRCH);
    thread = start_waiting_teller();
    ck_assert_int_eq(weft_restart(receiver), 0);
    ck_assert_int_eq(join_meanwhile(thread), 0);
    cancel_and_await(receiver);
}

static _Atomic weft_fiber bounded; /* a main fiber with a full mailbox */
static sem_t may_end;

/* With an argument, end without handling messages. Otherwise handle messages, and end later. */
static void *fill_mailbox_and_wait(void *blocks)
{
    weft_mailbox_set_bound(1);
    weft_tell(weft_self(), 1);
    atomic_store(&bounded, weft_self());
    if (blocks != NULL)
        sem_wait(&may_end);
    else
        weft_suspend();
    return NULL;
}

static pthread_t start_full_receiver(bool blocks)
{
    pthread_t thread = start_thread(fill_mailbox_and_wait, as_arg(blocks));
    while ((receiver = atomic_load(&bounded)) == 0)
        weft_snooze();
    return thread;
}

TEST(a_waiting_sender_gets_esrch_when_the_receiving_thread_ends)
{
    pthread_t thread = start_full_receiver(false);
    weft_fiber f = spin_waiting(tell_receiver, as_arg(5));
    ck_assert_int_eq(weft_schedule(receiver, 0), 0);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_int_eq((weft_value)join_thread(thread), 0);
}

TEST(a_waiting_sender_gets_esrch_when_the_receiving_thread_ends_with_an_unread_inbox)
{
    sem_init(&may_end, 0, 0);
    pthread_t thread = start_full_receiver(true);
    weft_fiber f[2] = {weft_spin(tell_receiver, as_arg(5)), weft_spin(tell_receiver, as_arg(6))};
    let_run();
    ck_assert_int_eq(weft_interrupt(f[1], -7), 0); /* has no effect any more */
    sem_post(&may_end);
    ck_assert_int_eq(weft_await(f[0]), -ESRCH);
    ck_assert_int_eq(weft_await(f[1]), -ESRCH);
    ck_assert_int_eq((weft_value)join_thread(thread), 0);
    ck_assert_int_eq(weft_tell(receiver, 5), -ESRCH);
}

static void *end_with_waiting_senders(void *arg)
{
    for (weft_value i = 0; i < 3; i++)
        weft_go(tell_receiver, as_arg(10 + i));
    let_run();
    weft_schedule(arg_id(arg), 1);
    return NULL;
}

TEST(waiting_messages_of_a_thread_that_ends_are_withdrawn)
{
    receiver = weft_self();
    weft_mailbox_set_bound(1);
    weft_tell(receiver, 1);
    pthread_t thread = start_thread(end_with_waiting_senders, id_arg(receiver));
    ck_assert_int_eq(weft_suspend(), 1);
    ck_assert_int_eq(join_meanwhile(thread), 0);
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

static weft_value end_thread(void *arg)
{
    weft_schedule(arg_id(arg), 1);
    pthread_exit(as_arg(3));
}

/* The main fiber tells 5 and never returns. */
static void *end_in_a_fiber_while_telling(void *arg)
{
    weft_go(end_thread, arg);
    weft_tell(receiver, 5);
    return NULL;
}

TEST(a_thread_may_end_in_a_fiber_while_its_main_fiber_tells)
{
    if (HAS_TSAN)
        return; /* TSan does not let a thread end in a fiber */
    for (int i = 0; i < 20; i++) {
        receiver = weft_self();
        weft_mailbox_set_bound(1);
        weft_tell(receiver, 1);
        pthread_t thread = start_thread(end_in_a_fiber_while_telling, id_arg(receiver));
        ck_assert_int_eq(weft_suspend(), 1);
        ck_assert_int_eq(i % 2 == 0 ? (weft_value)join_thread(thread) : join_meanwhile(thread), 3);
        let_run(); /* handles the cancel request of the ended thread */
        ck_assert_int_eq(weft_receive(), 1);
        ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    }
}
