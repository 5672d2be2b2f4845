/* Messages between threads: order, bounds, and what strikes either side meanwhile. */
#include "support.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static pthread_t start(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    return thread;
}

static weft_value join(pthread_t thread)
{
    void *result;
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return (weft_value)result;
}

/* The same for one that needs this thread's fibers to run before it can end. */
static weft_value join_meanwhile(pthread_t thread)
{
    void *result;
    while (pthread_tryjoin_np(thread, &result) != 0)
        weft_snooze();
    return (weft_value)result;
}

static weft_fiber receiver; /* whom the threads tell something; set before they start */

static weft_value tell_it(void *arg)
{
    return weft_tell(receiver, (weft_value)arg);
}

/* Messages say from whom they are, and which. */
#define EACH 10000
#define SENDERS 4

static weft_value message_of(weft_value sender, weft_value n)
{
    return sender * 1000000 + n;
}

static void *tell_thousands(void *arg)
{
    for (weft_value i = 0; i < EACH; i++)
        if (weft_tell(receiver, message_of((weft_value)arg, i)) != 0)
            return as_arg(1);
    return NULL;
}

static void *tell_a_thousand(void *arg)
{
    for (weft_value i = 0; i < 1000; i++)
        if (weft_tell(receiver, message_of((weft_value)arg, i)) != 0)
            return as_arg(1);
    return NULL;
}

/* Receive so many from each, in order. */
static void receive_each(weft_value each)
{
    weft_value next[SENDERS] = {0};
    for (weft_value i = 0; i < SENDERS * each; i++) {
        weft_value m = weft_receive(), sender = m / 1000000;
        ck_assert(m >= 0 && sender < SENDERS);
        ck_assert_int_eq(m % 1000000, next[sender]++);
    }
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

static void be_told_by_threads(void *(*fn)(void *), weft_value each)
{
    receiver = weft_self();
    pthread_t threads[SENDERS];
    for (int i = 0; i < SENDERS; i++)
        threads[i] = start(fn, as_arg(i));
    receive_each(each);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(join(threads[i]), 0);
}

/* P49 */
START_TEST(what_threads_without_fibers_tell_arrives_in_the_order_of_each)
{
    be_told_by_threads(tell_thousands, EACH);
}
END_TEST

/* P49, P51 */
START_TEST(threads_without_fibers_wait_for_room_in_a_bounded_mailbox)
{
    ck_assert_int_eq(weft_mailbox_bound(3), 0);
    be_told_by_threads(tell_a_thousand, 1000);
}
END_TEST

#define FIBERS (MANY_FIBERS / 10)

/* Every thread is one sender, but each of its messages is told by another fiber. */
static void *tell_by_fibers(void *arg)
{
    for (weft_value i = 0; i < FIBERS; i++) {
        weft_fiber f = weft_spin(tell_it, as_arg(message_of((weft_value)arg, i)));
        if (weft_await(f) != 0)
            return as_arg(1);
    }
    return NULL;
}

/* P49 */
START_TEST(what_fibers_of_other_threads_tell_arrives_whatever_the_bound)
{
    for (size_t bound = 0; bound < 3; bound++) {
        ck_assert_int_eq(weft_mailbox_bound(bound), 0);
        be_told_by_threads(tell_by_fibers, FIBERS);
    }
}
END_TEST

static weft_value change_bound_all_the_time(void *arg)
{
    (void)arg;
    for (size_t i = 0;; i++) {
        weft_mailbox_bound(i % 3);
        weft_value out[2];
        size_t n = weft_receive_all(out, 2);
        for (size_t j = 0; j < n; j++)
            if (weft_tell(weft_main(), out[j]) != 0)
                return -EIO;
        int rc = weft_snooze();
        if (rc < 0)
            return rc;
    }
}

START_TEST(the_order_of_each_sender_holds_while_the_bound_comes_and_goes)
{
    weft_fiber middle = receiver = weft_spin(change_bound_all_the_time, NULL);
    pthread_t threads[SENDERS];
    for (int i = 0; i < SENDERS; i++)
        threads[i] = start(tell_a_thousand, as_arg(i));
    receive_each(1000);
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(join_meanwhile(threads[i]), 0);
    weft_cancel(middle);
    weft_await(middle);
}
END_TEST

static void *tell_once(void *arg)
{
    return as_arg(weft_tell(receiver, (weft_value)arg));
}

START_TEST(what_a_thread_tells_arrives_although_it_ends_at_once)
{
    receiver = weft_self();
    for (int i = 0; i < 200; i++) {
        pthread_t thread = start(tell_once, as_arg(i));
        ck_assert_int_eq(weft_receive(), i);
        ck_assert_int_eq(join(thread), 0);
    }
}
END_TEST

/* Two threads whose mailboxes are both bounded. */
#define ROUNDS 5000

static void *answer_each(void *arg)
{
    (void)arg;
    weft_mailbox_bound(1);
    if (weft_tell(receiver, (weft_value)weft_self()) != 0)
        return as_arg(-1);
    for (weft_value i = 0; i < ROUNDS; i++)
        if (weft_receive() != i || weft_tell(receiver, i) != 0)
            return as_arg(i + 1);
    return NULL;
}

START_TEST(two_threads_with_bounded_mailboxes_talk_to_and_fro)
{
    weft_mailbox_bound(1);
    receiver = weft_self();
    pthread_t thread = start(answer_each, NULL);
    weft_fiber other = (weft_fiber)weft_receive();
    for (weft_value i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(weft_tell(other, i), 0);
        ck_assert_int_eq(weft_receive(), i);
    }
    ck_assert_int_eq(join(thread), 0);
}
END_TEST

/* Each is refused; the index of the first that is not, else 0. */
static void *misuse(void *arg)
{
    weft_fiber f = receiver;
    (void)arg;
    const weft_value results[] = {
        weft_tell(f, -EIO) - -EINVAL,   weft_tell(0, 1) - -ESRCH, weft_try_tell(f, 1) - -EXDEV,
        weft_mailbox_count(f) - -EXDEV, weft_monitor(f) - -EXDEV, weft_unmonitor(f) - -EXDEV,
        weft_tell(weft_self(), 1) /* fine */
    };
    for (size_t i = 0; i < COUNT_OF(results); i++)
        if (results[i] != 0)
            return as_arg((weft_value)i + 1);
    return NULL;
}

START_TEST(what_makes_no_sense_between_threads_is_refused)
{
    receiver = weft_self();
    for (size_t bound = 0; bound < 2; bound++) {
        weft_mailbox_bound(bound);
        ck_assert_int_eq(join(start(misuse, NULL)), 0);
    }
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}
END_TEST

static void *leave_id(void *arg)
{
    weft_mailbox_bound((size_t)arg);
    receiver = weft_self();
    return NULL;
}

START_TEST(telling_a_fiber_of_a_thread_that_has_ended_is_refused)
{
    weft_self();
    for (weft_value bound = 0; bound < 2; bound++) {
        join(start(leave_id, as_arg(bound)));
        ck_assert_int_eq(weft_tell(receiver, 1), -ESRCH);
    }
}
END_TEST

static weft_value bound_and_return(void *arg)
{
    return weft_mailbox_bound((size_t)arg);
}

START_TEST(telling_an_ended_fiber_of_another_thread_is_refused)
{
    receiver = weft_spin(bound_and_return, as_arg(5));
    weft_await(receiver); /* and its bound has ended with it */
    ck_assert_int_eq(join_meanwhile(start(tell_once, as_arg(1))), -ESRCH);
    weft_mailbox_bound(5);
    ck_assert_int_eq(join_meanwhile(start(tell_once, as_arg(1))), -ESRCH);
}
END_TEST

/* What strikes a fiber of another thread while its message waits for room. */
typedef enum strike { CANCEL, INTERRUPT, RAISE, TIMEOUT, STRIKES } strike;

static sem_t may_strike;

typedef struct victim {
    weft_scope scope;
    weft_value result; /* of its call: its own value is another matter */
} victim;

static weft_value tell_5_in_a_scope(void *arg)
{
    victim *v = arg;
    weft_scope_open(&v->scope, INFINITY);
    v->result = weft_tell(receiver, 5);
    return weft_scope_close(&v->scope);
}

static void strike_it(weft_fiber f, strike how, weft_scope *scope)
{
    if (how == CANCEL)
        weft_cancel(f);
    else if (how == INTERRUPT)
        weft_interrupt(f, -77);
    else if (how == RAISE)
        weft_raise(f, -EPROTO, "struck");
    else
        weft_scope_cancel(scope);
}

/*
 * It tells 5, and is struck once the other thread has said so, with what that sent already unread.
 */
static void *be_struck_while_telling(void *arg)
{
    victim v;
    weft_fiber f = weft_spin(tell_5_in_a_scope, &v);
    let_run();
    weft_schedule(receiver, 1);
    sem_wait(&may_strike);
    strike_it(f, (strike)(intptr_t)arg, &v.scope);
    weft_await(f);
    return as_arg(v.result);
}

static pthread_t start_a_victim(strike how)
{
    receiver = weft_self();
    ck_assert_int_eq(weft_mailbox_bound(1), 0);
    ck_assert_int_eq(weft_tell(receiver, 1), 0);
    sem_init(&may_strike, 0, 0);
    pthread_t thread = start(be_struck_while_telling, as_arg(how));
    ck_assert_int_eq(weft_suspend(), 1); /* what it told is here */
    ck_assert_int_eq(weft_mailbox_count(receiver), 1);
    return thread;
}

START_TEST(a_sender_that_is_struck_while_it_waits_has_told_nothing)
{
    const weft_value results[] = {-ECANCELED, -77, -EPROTO, -ECANCELED};
    for (strike how = CANCEL; how < STRIKES; how++) {
        pthread_t thread = start_a_victim(how);
        sem_post(&may_strike);
        ck_assert_int_eq(join_meanwhile(thread), results[how]);
        ck_assert_int_eq(weft_receive(), 1);
        ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    }
}
END_TEST

START_TEST(a_sender_that_is_struck_after_its_message_was_let_in_has_told_it)
{
    for (strike how = CANCEL; how < STRIKES; how++) {
        pthread_t thread = start_a_victim(how);
        ck_assert_int_eq(weft_receive(), 1); /* lets it in */
        ck_assert_int_eq(weft_mailbox_count(receiver), 1);
        sem_post(&may_strike);
        ck_assert_int_eq(join_meanwhile(thread), 0);
        ck_assert_int_eq(weft_receive(), 5);
        ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    }
}
END_TEST

static void *tell_while_cancelled(void *arg)
{
    (void)arg;
    weft_value rc = 1;
    WEFT_MOVE_ON_AFTER(0) {
        rc = weft_tell(receiver, 2);
    }
    return as_arg(rc);
}

/* T40 */
START_TEST(a_cancelled_fiber_does_not_begin_to_wait_for_an_answer)
{
    receiver = weft_self();
    weft_mailbox_bound(1);
    ck_assert_int_eq(join(start(tell_while_cancelled, NULL)), -ECANCELED);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}
END_TEST

static weft_value bound_and_suspend(void *arg)
{
    weft_mailbox_bound(1);
    weft_tell(weft_self(), 1);
    weft_value v = weft_suspend();
    return v == 0 && arg != NULL ? weft_receive() : v;
}

/* A fiber of the thread tells 5; the receiver's thread is told when that is there. */
static void *tell_5_and_say_so(void *arg)
{
    weft_fiber f = weft_spin(tell_it, as_arg(5));
    let_run();
    weft_schedule(arg_id(arg), 1);
    return as_arg(weft_await(f));
}

START_TEST(a_sender_is_told_when_the_receiver_ends_meanwhile)
{
    receiver = weft_spin(bound_and_suspend, NULL);
    let_run();
    pthread_t thread = start(tell_5_and_say_so, id_arg(weft_self()));
    ck_assert_int_eq(weft_suspend(), 1);
    weft_schedule(receiver, 9);
    ck_assert_int_eq(weft_await(receiver), 9);
    ck_assert_int_eq(join_meanwhile(thread), -ESRCH);
}
END_TEST

START_TEST(a_sender_is_heard_by_the_next_run_of_a_receiver_that_is_restarted_meanwhile)
{
    receiver = weft_spin(bound_and_suspend, NULL);
    let_run();
    pthread_t thread = start(tell_5_and_say_so, id_arg(weft_self()));
    ck_assert_int_eq(weft_suspend(), 1);
    ck_assert_int_eq(weft_restart(receiver), 0);
    ck_assert_int_eq(join_meanwhile(thread), 0);
    weft_cancel(receiver);
    weft_await(receiver);
}
END_TEST

static _Atomic weft_fiber bounded; /* a main fiber whose mailbox is full */
static sem_t may_end;

/* Ends when it is scheduled: it has seen what was sent before. */
static void *be_full_and_suspend(void *arg)
{
    (void)arg;
    weft_mailbox_bound(1);
    weft_tell(weft_self(), 1);
    atomic_store(&bounded, weft_self());
    weft_suspend();
    return NULL;
}

/* Ends without having looked. */
static void *be_full_and_look_away(void *arg)
{
    (void)arg;
    weft_mailbox_bound(1);
    weft_tell(weft_self(), 1);
    atomic_store(&bounded, weft_self());
    sem_wait(&may_end);
    return NULL;
}

static void wait_until_full(void)
{
    while ((receiver = atomic_load(&bounded)) == 0)
        weft_snooze();
}

START_TEST(a_sender_is_told_when_the_thread_of_the_receiver_ends_meanwhile)
{
    pthread_t thread = start(be_full_and_suspend, NULL);
    wait_until_full();
    weft_fiber f = weft_spin(tell_it, as_arg(5));
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(weft_schedule(receiver, 0), 0);
    ck_assert_int_eq(weft_await(f), -ESRCH);
    ck_assert_int_eq(join(thread), 0);
}
END_TEST

START_TEST(a_sender_is_told_when_the_thread_of_the_receiver_ends_without_having_looked)
{
    sem_init(&may_end, 0, 0);
    pthread_t thread = start(be_full_and_look_away, NULL);
    wait_until_full();
    weft_fiber f[2] = {weft_spin(tell_it, as_arg(5)), weft_spin(tell_it, as_arg(6))};
    let_run();
    ck_assert_int_eq(weft_interrupt(f[1], -7), 0); /* too late for that too */
    sem_post(&may_end);
    ck_assert_int_eq(weft_await(f[0]), -ESRCH);
    ck_assert_int_eq(weft_await(f[1]), -ESRCH);
    ck_assert_int_eq(join(thread), 0);
    f[0] = weft_spin(tell_it, as_arg(5));
    ck_assert_int_eq(weft_await(f[0]), -ESRCH);
}
END_TEST

static void *leave_senders_behind(void *arg)
{
    for (weft_value i = 0; i < 3; i++)
        weft_go(tell_it, as_arg(10 + i));
    let_run();
    weft_schedule(arg_id(arg), 1);
    return NULL;
}

START_TEST(when_a_thread_ends_what_its_fibers_could_not_tell_yet_is_taken_back)
{
    receiver = weft_self();
    weft_mailbox_bound(1);
    weft_tell(receiver, 1);
    pthread_t thread = start(leave_senders_behind, id_arg(receiver));
    ck_assert_int_eq(weft_suspend(), 1);
    ck_assert_int_eq(join_meanwhile(thread), 0);
    ck_assert_int_eq(weft_receive(), 1);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}
END_TEST

static weft_value end_thread(void *arg)
{
    weft_schedule(arg_id(arg), 1);
    pthread_exit(as_arg(3));
}

/* Its main fiber, which tells 5, never comes back from that. */
static void *end_in_a_fiber_while_telling(void *arg)
{
    weft_go(end_thread, arg);
    weft_tell(receiver, 5);
    return NULL;
}

/* TSan does not let a thread end in a fiber. */
static bool is_tsan(void)
{
#if defined(__SANITIZE_THREAD__)
    return true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    return true;
#endif
#endif
    return false;
}

START_TEST(a_thread_may_end_in_one_fiber_while_its_main_fiber_tells)
{
    if (is_tsan())
        return;
    for (int i = 0; i < 20; i++) {
        receiver = weft_self();
        weft_mailbox_bound(1);
        weft_tell(receiver, 1);
        pthread_t thread = start(end_in_a_fiber_while_telling, id_arg(receiver));
        ck_assert_int_eq(weft_suspend(), 1);
        ck_assert_int_eq(i % 2 == 0 ? join(thread) : join_meanwhile(thread), 3);
        let_run(); /* the message is recalled by nobody who is left */
        ck_assert_int_eq(weft_receive(), 1);
        ck_assert_int_eq(weft_try_receive(), -EAGAIN);
    }
}
END_TEST

/* A storm: fibers of several threads tell, with little time each. */
#define CROWD 5
#define TOLD 100

static __thread unsigned random_state;

static unsigned random_below(unsigned n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static weft_value tell_in_time(void *arg)
{
    for (weft_value told = 0; told < TOLD;) {
        weft_value rc = 1;
        WEFT_MOVE_ON_AFTER(random_below(3) == 0 ? INFINITY : random_below(200) * 1e-6) {
            rc = weft_tell(receiver, message_of((weft_value)arg, told));
        }
        if (rc != 0 && rc != -ECANCELED && rc != -77)
            return 1;
        told += rc == 0;
    }
    return 0;
}

static void *tell_by_a_crowd(void *arg)
{
    weft_fiber f[CROWD];
    random_state = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < CROWD; i++)
        f[i] = weft_spin(tell_in_time, as_arg((weft_value)arg * CROWD + i));
    for (int i = 0; i < 200; i++) {
        weft_interrupt(f[random_below(CROWD)], -77);
        weft_sleep(random_below(50) * 1e-6);
    }
    return as_arg(weft_await_all(f, CROWD, NULL));
}

START_TEST(in_a_storm_of_cancelled_senders_no_message_is_lost_or_doubled)
{
    weft_value next[SENDERS * CROWD] = {0};
    pthread_t threads[SENDERS];
    receiver = weft_self();
    weft_mailbox_bound(2);
    for (int i = 0; i < SENDERS; i++)
        threads[i] = start(tell_by_a_crowd, as_arg(i));
    for (int i = 0; i < SENDERS * CROWD * TOLD; i++) {
        weft_value m = weft_receive();
        ck_assert(m >= 0 && m / 1000000 < SENDERS * CROWD);
        ck_assert_int_eq(m % 1000000, next[m / 1000000]++);
        if (random_below(4) == 0)
            weft_sleep(random_below(100) * 1e-6);
    }
    for (int i = 0; i < SENDERS; i++)
        ck_assert_int_eq(join_meanwhile(threads[i]), 0);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}
END_TEST

static const TTest *const *const tests[] = {
    &what_threads_without_fibers_tell_arrives_in_the_order_of_each,
    &threads_without_fibers_wait_for_room_in_a_bounded_mailbox,
    &what_fibers_of_other_threads_tell_arrives_whatever_the_bound,
    &the_order_of_each_sender_holds_while_the_bound_comes_and_goes,
    &what_a_thread_tells_arrives_although_it_ends_at_once,
    &two_threads_with_bounded_mailboxes_talk_to_and_fro,
    &what_makes_no_sense_between_threads_is_refused,
    &telling_a_fiber_of_a_thread_that_has_ended_is_refused,
    &telling_an_ended_fiber_of_another_thread_is_refused,
    &a_sender_that_is_struck_while_it_waits_has_told_nothing,
    &a_sender_that_is_struck_after_its_message_was_let_in_has_told_it,
    &a_cancelled_fiber_does_not_begin_to_wait_for_an_answer,
    &a_sender_is_told_when_the_receiver_ends_meanwhile,
    &a_sender_is_heard_by_the_next_run_of_a_receiver_that_is_restarted_meanwhile,
    &a_sender_is_told_when_the_thread_of_the_receiver_ends_meanwhile,
    &a_sender_is_told_when_the_thread_of_the_receiver_ends_without_having_looked,
    &when_a_thread_ends_what_its_fibers_could_not_tell_yet_is_taken_back,
    &a_thread_may_end_in_one_fiber_while_its_main_fiber_tells,
    &in_a_storm_of_cancelled_senders_no_message_is_lost_or_doubled,
};

int main(void)
{
    return run_suite("abroad", tests, COUNT_OF(tests));
}
