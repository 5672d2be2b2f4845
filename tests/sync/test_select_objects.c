/*
 * Select with semaphores, events and signals: each clause has the effect of the single call. If
 * another clause wins, no token, event or signal is lost, even if its message is in flight.
 */
#include "support/suite.h"
#include "sync/select_steps.h"
#include "sync/shared_support.h"

#include <signal.h>

static weft_sem sem;
static weft_event event;
static weft_chan *chan; /* wins against the other clauses */
static sigset_t usr1;

static void open_objects(void)
{
    chan = weft_chan_new(0);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
}

static void free_objects(void)
{
    weft_chan_free(chan);
}

FIXTURE(open_objects, free_objects)

THREAD_DO(set_event_here, ck_assert_int_eq(weft_event_set(arg), 0), 0)

/* Dispatch signals that have arrived. Messages to this thread are then in flight. */
static weft_value raise_in_flight(weft_value sig)
{
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGWINCH);
    raise((int)sig);
    weft_clause c = weft_clause_signal(&other);
    ck_assert_int_eq(weft_try_select(&c, 1), -EAGAIN);
    return 0;
}

STEP(put, weft_chan_try_send(chan, arg))
STEP(post, weft_sem_post(&sem))
STEP(tokens, weft_sem_count(&sem))
STEP(event_wait, weft_event_wait(&event))
STEP(set, weft_event_set(&event))
STEP(is_set, weft_event_is_set(&event))
STEP(clear, (weft_event_clear(&event), 0))
/* Set the event in another thread. The message to this thread is then in flight. */
STEP(set_in_flight, join_thread(start_thread(set_event_here, &event)))
STEP(signal_wait, weft_wait_signal(&usr1))
STEP(send_signal, raise((int)arg))

#define RECV weft_clause_recv(chan)
#define SEM weft_clause_sem(&sem)
#define EVENT weft_clause_event(&event)
#define SIGNAL weft_clause_signal(&usr1)

TEST(a_clause_may_occur_twice)
{
    play({A, pick, WAITS, CLAUSES(SEM, SEM)}, {M, post}, {A, returns, CHOSE(0, 0)}, {M, post},
         {M, tokens, 1});
    play({A, pick, WAITS, CLAUSES(EVENT, EVENT)}, {B, event_wait, WAITS}, {M, set},
         {A, returns, CHOSE(0, 0)}, {B, returns, 0}, {M, is_set, false});
    play({A, pick, WAITS, CLAUSES(SIGNAL, SIGNAL)}, {M, raise_in_flight, 0, SIGUSR1},
         {A, returns, CHOSE(0, SIGUSR1)}, {M, try_pick, -EAGAIN, CLAUSES(SIGNAL, SIGNAL)});
}

FIBER(pick_in_fiber, pick((weft_value)arg))

TEST(an_event_in_flight_remains_set_if_other_clauses_win)
{
    play({A, pick, WAITS, CLAUSES(RECV, EVENT, EVENT)},
         {B, pick, WAITS, CLAUSES(RECV, EVENT, EVENT)}, {M, set_in_flight}, {M, put, 0, 1},
         {M, put, 0, 2}, {M, is_set, false}, {A, returns, CHOSE(0, 1)}, {B, returns, CHOSE(0, 2)},
         {M, is_set, true}, {M, clear}, {M, is_set, false}); /* once */
}

TEST(an_event_in_flight_goes_to_the_other_waiters_if_another_clause_wins)
{
    play({A, pick, WAITS, CLAUSES(RECV, EVENT)}, {B, event_wait, WAITS}, {M, set_in_flight},
         {M, put, 0, 1}, {A, returns, CHOSE(0, 1)}, {B, returns, 0}, {M, is_set, false});
}

TEST(an_event_in_flight_remains_set_if_the_select_is_cancelled)
{
    play({A, pick, WAITS, CLAUSES(RECV, EVENT)}, {M, set_in_flight}, {M, cancel, 0, A},
         {A, returns, -ECANCELED}, {M, is_set, true});
}

FIBER(wait_for_event, weft_event_wait(&event))

static weft_value wait_in_other_cord(void *arg)
{
    weft_fiber f = weft_spin(wait_for_event, NULL);
    weft_snooze();
    reach_stage(1);
    return weft_await(f);
}

TEST(a_select_fails_if_another_thread_waits_for_its_event)
{
    weft_cord other = start_cord(wait_in_other_cord, NULL);
    wait_for_stage(1);
    weft_event mine = {{0}};
    play({M, pick, -EXDEV, CLAUSES(weft_clause_event(&mine), EVENT, RECV)});
    ck_assert_error(-EXDEV, "weft_select: a fiber of another thread waits for the event");
    ck_assert_int_eq(weft_event_set(&mine), 0);
    ck_assert(weft_event_is_set(&mine)); /* the select has left */
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_cord_join(other), 0);
}

TEST(a_signal_wakes_selects_and_plain_waits)
{
    play({M, try_pick, -EAGAIN, CLAUSES(SIGNAL)}, /* catches the signal from now on */
         {M, send_signal, 0, SIGUSR1}, {M, pick, CHOSE(0, SIGUSR1), CLAUSES(SIGNAL)},
         {A, pick, WAITS, CLAUSES(SIGNAL, RECV)}, {B, signal_wait, WAITS});
    weft_fiber f = spin_waiting(pick_in_fiber, (void *)CLAUSES(RECV, SIGNAL));
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), CHOSE(1, SIGUSR1));
    play({A, returns, CHOSE(0, SIGUSR1)}, {B, returns, SIGUSR1},
         {M, try_pick, -EAGAIN, CLAUSES(SIGNAL)});
}

TEST(a_signal_in_flight_is_stored_once_if_other_clauses_win)
{
    int handled = 0;
    ck_assert_int_eq(weft_on_signal(SIGUSR1, increment_int, &handled), 0);
    play({A, pick, WAITS, CLAUSES(RECV, SIGNAL)}, {B, pick, WAITS, CLAUSES(RECV, SIGNAL)},
         {M, raise_in_flight, 0, SIGUSR1}, {M, put, 0, 1}, {M, put, 0, 2},
         {A, returns, CHOSE(0, 1)}, {B, returns, CHOSE(0, 2)}, {M, signal_wait, SIGUSR1},
         {M, try_pick, -EAGAIN, CLAUSES(SIGNAL)}, {M, run});
    ck_assert_int_eq(handled, 1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
}

TEST(a_signal_in_flight_goes_to_the_other_waiters_if_another_clause_wins)
{
    for (int plain = A; plain <= C; plain += 2) { /* before and after the select in the queue */
        selection s = {{RECV, SIGNAL}, 2};
        if (plain == A)
            play({A, signal_wait, WAITS});
        play({B, pick, WAITS, (weft_value)&s});
        if (plain == C)
            play({C, signal_wait, WAITS});
        play({M, raise_in_flight, 0, SIGUSR1}, {M, put, 0, 1}, {B, returns, CHOSE(0, 1)},
             {plain, returns, SIGUSR1}, {M, try_pick, -EAGAIN, CLAUSES(SIGNAL)});
    }
}

TEST(a_signal_in_flight_is_stored_if_the_select_is_cancelled)
{
    play({A, pick, WAITS, CLAUSES(RECV, SIGNAL)}, {M, raise_in_flight, 0, SIGUSR1},
         {M, cancel, 0, A}, {A, returns, -ECANCELED}, {M, signal_wait, SIGUSR1});
}

TEST(a_cancelled_select_takes_nothing)
{
    ck_assert_times_out(0.001, play({M, pick, -ECANCELED, CLAUSES(SEM, EVENT, SIGNAL)}));
    play({A, pick, WAITS, CLAUSES(SEM, EVENT, SIGNAL)}, {M, interrupt, 0, A}, {A, returns, -EINTR},
         {A, pick, WAITS, CLAUSES(SEM, EVENT, SIGNAL)}, {M, cancel, 0, A}, {A, returns, -ECANCELED},
         {M, post}, {M, tokens, 1}, {M, set}, {M, is_set, true}, {M, send_signal, 0, SIGUSR1},
         {M, try_pick, CHOSE(0, SIGUSR1), CLAUSES(SIGNAL)});
}

TEST(a_select_chooses_among_ready_objects_at_random)
{
    int chosen[3] = {0};
    play({M, try_pick, -EAGAIN, CLAUSES(SIGNAL)});
    for (int i = 0; i < 300; i++) {
        weft_sem_open(&sem, 1);
        weft_event_set(&event);
        raise(SIGUSR1);
        weft_clause c[] = {SEM, EVENT, SIGNAL};
        int rc = weft_select(c, 3);
        ck_assert(rc >= 0 && rc < 3);
        chosen[rc]++;
        ck_assert_uint_eq(weft_sem_count(&sem), rc != 0);
        ck_assert_int_eq(weft_event_is_set(&event), rc != 1);
    }
    ck_assert(chosen[0] > 0 && chosen[1] > 0 && chosen[2] > 0);
}

static void assert_clause_refused(weft_clause clause, const char *reason)
{
    char message[128];
    snprintf(message, sizeof message, "weft_select: clause 1: the %s", reason);
    play({M, pick, -EINVAL, CLAUSES(RECV, clause)});
    ck_assert_error(-EINVAL, message);
}

TEST(invalid_clauses_are_refused)
{
    sigset_t empty, uncatchable;
    sigemptyset(&empty);
    sigemptyset(&uncatchable);
    sigaddset(&uncatchable, SIGKILL);
    assert_clause_refused(weft_clause_sem(NULL), "semaphore, the event or the set is NULL");
    assert_clause_refused(weft_clause_event(NULL), "semaphore, the event or the set is NULL");
    assert_clause_refused(weft_clause_signal(NULL), "semaphore, the event or the set is NULL");
    assert_clause_refused(weft_clause_signal(&empty), "set is empty");
    assert_clause_refused(weft_clause_signal(&uncatchable),
                          "set contains a signal that cannot be caught");
}

/* Selects that other threads wake: by a shared channel, by the event, or both. */

#define ROUNDS 2000

static weft_chan *shared;

static weft_value send_and_set(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(weft_event_set(&event), 0);
        ck_assert_int_eq(weft_chan_send(shared, i), 0);
    }
    weft_chan_close(shared);
    return 0;
}

/* Post *arg tokens, or until cancelled. */
static weft_value post_tokens(void *arg)
{
    for (int n = *(int *)arg; n != 0; n--) {
        ck_assert_int_eq(weft_sem_post(&sem), 0);
        if (weft_snooze() < 0)
            break;
    }
    return 0;
}

/* How often select_all chose the semaphore, the event, the channel and the time. */
static int chosen_in_all[4];
static bool is_closed;

static weft_value select_all(void *arg)
{
    while (!is_closed || chosen_in_all[0] < ROUNDS) {
        weft_clause c[] = {SEM, EVENT, is_closed ? weft_clause_never() : weft_clause_recv(shared),
                           weft_clause_time(1e-3)};
        int rc = weft_select(c, 4);
        ck_assert_int_ge(rc, 0);
        bool is_end = rc == 2 && c[2].value == -EPIPE;
        is_closed |= is_end;
        chosen_in_all[rc] += !is_end;
    }
    return 0;
}

TEST(tokens_and_values_of_several_threads_are_taken_once)
{
    shared = weft_chan_new_shared(1);
    weft_cord other = start_cord(send_and_set, NULL);
    int tokens_posted = ROUNDS;
    weft_fiber f[4];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(i == 0 ? post_tokens : select_all, &tokens_posted);
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_int_eq(weft_cord_join(other), 0);
    ck_assert_int_eq(chosen_in_all[0], ROUNDS);
    ck_assert_int_gt(chosen_in_all[1], 0);
    ck_assert_int_eq(chosen_in_all[2], ROUNDS);
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
    weft_chan_free(shared);
}

/*
 * The event of a ping-pong between threads. The fiber waits in a select whose other clauses also
 * happen. Each set must be seen, because the other thread waits for the answer.
 */

static weft_event answer;

static weft_value ping(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(weft_event_set(&event), 0);
        ck_assert_int_eq(weft_event_wait(&answer), 0);
    }
    return 0;
}

TEST(no_event_of_another_thread_is_lost_to_another_clause)
{
    weft_cord other = start_cord(ping, NULL);
    weft_fiber poster = weft_spin(post_tokens, &(int){-1});
    for (int answered = 0; answered < ROUNDS;) {
        weft_clause c[] = {SEM, EVENT};
        int rc = weft_select(c, 2);
        ck_assert(rc == 0 || rc == 1);
        if (rc == 1) {
            answered++;
            ck_assert_int_eq(weft_event_set(&answer), 0);
        }
    }
    cancel_and_await(poster);
    ck_assert_int_eq(weft_cord_join(other), 0);
}
