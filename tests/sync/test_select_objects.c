/*
 * Select with semaphores, events and signals: each clause has the effect of the single call. If
 * another clause wins, no token, event or signal is lost, even if its message is in flight.
 */
#include "support/suite.h"
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

/* The results of selects, for fibers that a test cancels. */
typedef struct selector {
    weft_clause clauses[4];
    size_t n;
    int chosen;
} selector;

static weft_value run_selector(void *arg)
{
    selector *s = arg;
    s->chosen = weft_select(s->clauses, s->n);
    return s->chosen;
}

static weft_value wait_for_sem(void *arg)
{
    int rc = weft_sem_wait(&sem);
    mark(arg);
    return rc;
}

static weft_value wait_for_event(void *arg)
{
    (void)arg;
    return weft_event_wait(&event);
}

static weft_value wait_for_usr1(void *arg)
{
    (void)arg;
    return weft_wait_signal(&usr1);
}

static weft_value select_sem_and_mark(void *arg)
{
    weft_clause c[] = {weft_clause_recv(chan), weft_clause_sem(&sem)};
    int rc = weft_select(c, 2);
    mark(arg);
    return rc;
}

/* Semaphores. */

TEST(a_semaphore_clause_takes_a_token)
{
    open_objects();
    weft_clause c[] = {weft_clause_recv(chan), weft_clause_sem(&sem)};
    ck_assert_int_eq(weft_try_select(c, 2), -EAGAIN);
    weft_sem_open(&sem, 2);
    ck_assert_int_eq(weft_select(c, 2), 1);
    ck_assert_int_eq(c[1].value, 0);
    ck_assert_int_eq(weft_try_select(c, 2), 1);
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
    selector s = {{weft_clause_sem(&sem)}, 1, 0};
    weft_fiber f = spin_waiting(run_selector, &s);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_uint_eq(weft_sem_count(&sem), 0); /* the select has the token */
    weft_cancel(f);                             /* too late */
    (void)weft_await(f);
    ck_assert_int_eq(s.chosen, 0);
    ck_assert_int_eq(s.clauses[0].value, 0);
    weft_chan_free(chan);
}

TEST(selects_and_plain_waits_for_a_semaphore_are_served_in_order)
{
    open_objects();
    weft_fiber f[] = {spin_waiting(select_sem_and_mark, "a"), spin_waiting(wait_for_sem, "b"),
                      spin_waiting(select_sem_and_mark, "c"), spin_waiting(wait_for_sem, "d"),
                      spin_waiting(select_sem_and_mark, "e")};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(weft_sem_post(&sem), 0);
    let_run();
    ck_assert_trail("abc");
    weft_cancel(f[3]);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    let_run();
    ck_assert_trail("abcde");
    ck_assert_int_eq(weft_await(f[4]), 1);
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
    weft_chan_free(chan);
}

TEST(a_token_goes_to_the_next_waiter_if_another_clause_wins)
{
    open_objects();
    weft_fiber first = spin_waiting(select_sem_and_mark, "a");
    weft_fiber second = spin_waiting(wait_for_sem, "b");
    ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_await(first), 0);
    ck_assert_int_eq(weft_await(second), 0);
    first = spin_waiting(select_sem_and_mark, "a");
    ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_uint_eq(weft_sem_count(&sem), 1);
    ck_assert_int_eq(weft_await(first), 0);
    weft_chan_free(chan);
}

TEST(a_clause_may_occur_twice)
{
    open_objects();
    selector s = {{weft_clause_sem(&sem), weft_clause_sem(&sem)}, 2, 0};
    weft_fiber f = spin_waiting(run_selector, &s);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_uint_eq(weft_sem_count(&sem), 1);

    selector e = {{weft_clause_event(&event), weft_clause_event(&event)}, 2, 0};
    f = spin_waiting(run_selector, &e);
    weft_fiber plain = spin_waiting(wait_for_event, NULL);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(plain), 0);
    ck_assert(!weft_event_is_set(&event));

    selector g = {{weft_clause_signal(&usr1), weft_clause_signal(&usr1)}, 2, 0};
    f = spin_waiting(run_selector, &g);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(g.clauses[0].value, SIGUSR1);
    ck_assert_int_eq(weft_try_select(g.clauses, 2), -EAGAIN);
    weft_chan_free(chan);
}

/* Events. */

TEST(an_event_wakes_selects_and_plain_waits)
{
    weft_clause c = weft_clause_event(&event);
    ck_assert_int_eq(weft_try_select(&c, 1), -EAGAIN);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    ck_assert_int_eq(c.value, 0);
    ck_assert(!weft_event_is_set(&event));
    selector s[2] = {{{c, weft_clause_never()}, 2, 0}, {{weft_clause_never(), c}, 2, 0}};
    weft_fiber f[] = {spin_waiting(run_selector, &s[0]), spin_waiting(wait_for_event, NULL),
                      spin_waiting(run_selector, &s[1])};
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), 0);
    ck_assert_int_eq(weft_await(f[2]), 1);
    ck_assert(!weft_event_is_set(&event));
}

TEST(a_select_that_leads_the_waiters_of_an_event_may_leave)
{
    open_objects();
    selector s = {
        {weft_clause_event(&event), weft_clause_recv(chan), weft_clause_event(&event)}, 3, 0};
    weft_fiber leader = spin_waiting(run_selector, &s);
    weft_fiber plain = spin_waiting(wait_for_event, NULL);
    ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
    ck_assert_int_eq(weft_await(leader), 1);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_await(plain), 0);
    ck_assert(!weft_event_is_set(&event));
    leader = spin_waiting(run_selector, &s);
    weft_cancel(leader);
    ck_assert_int_eq(weft_await(leader), -ECANCELED);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(weft_event_is_set(&event)); /* no fiber waits */
    weft_chan_free(chan);
}

static void *set_event_here(void *arg)
{
    ck_assert_int_eq(weft_event_set(arg), 0);
    return NULL;
}

/* Set the event in another thread. The message to this thread is then in flight. */
static void set_event_in_thread(void)
{
    join_thread(start_thread(set_event_here, &event));
}

TEST(another_thread_sets_the_event_of_a_select)
{
    open_objects();
    selector s = {{weft_clause_recv(chan), weft_clause_event(&event)}, 2, 0};
    weft_fiber f = spin_waiting(run_selector, &s);
    pthread_t thread = start_thread(set_event_here, &event);
    ck_assert_int_eq(weft_await(f), 1);
    join_thread(thread);
    ck_assert(!weft_event_is_set(&event));
    weft_chan_free(chan);
}

TEST(an_event_in_flight_remains_set_if_another_clause_wins)
{
    open_objects();
    selector s[2] = {
        {{weft_clause_recv(chan), weft_clause_event(&event), weft_clause_event(&event)}, 3, 0}};
    s[1] = s[0];
    weft_fiber f[] = {spin_waiting(run_selector, &s[0]), spin_waiting(run_selector, &s[1])};
    set_event_in_thread();
    ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
    ck_assert_int_eq(weft_chan_try_send(chan, 2), 0);
    ck_assert(!weft_event_is_set(&event));
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), 0);
    ck_assert(weft_event_is_set(&event));
    weft_event_clear(&event);
    ck_assert(!weft_event_is_set(&event)); /* once */
    weft_chan_free(chan);
}

TEST(an_event_in_flight_goes_to_the_other_waiters_if_another_clause_wins)
{
    open_objects();
    selector s = {{weft_clause_recv(chan), weft_clause_event(&event)}, 2, 0};
    weft_fiber f = spin_waiting(run_selector, &s), plain = spin_waiting(wait_for_event, NULL);
    set_event_in_thread();
    ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(plain), 0);
    ck_assert(!weft_event_is_set(&event));
    weft_chan_free(chan);
}

TEST(an_event_in_flight_remains_set_if_the_select_is_cancelled)
{
    open_objects();
    selector s = {{weft_clause_recv(chan), weft_clause_event(&event)}, 2, 0};
    weft_fiber f = spin_waiting(run_selector, &s);
    set_event_in_thread();
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(s.chosen, -ECANCELED);
    ck_assert(weft_event_is_set(&event));
    weft_chan_free(chan);
}

static weft_value wait_in_other_cord(void *arg)
{
    (void)arg;
    weft_fiber f = weft_spin(wait_for_event, NULL);
    weft_snooze();
    reach_stage(1);
    return weft_await(f);
}

TEST(a_select_fails_if_another_thread_waits_for_its_event)
{
    open_objects();
    reach_stage(0);
    weft_cord other = start_cord(wait_in_other_cord, NULL);
    wait_for_stage(1);
    weft_event mine = {{0}};
    weft_clause c[] = {weft_clause_event(&mine), weft_clause_event(&event), weft_clause_recv(chan)};
    ck_assert_int_eq(weft_select(c, 3), -EXDEV);
    ck_assert_error(-EXDEV, "weft_select: a fiber of another thread waits for the event");
    ck_assert_int_eq(weft_event_set(&mine), 0);
    ck_assert(weft_event_is_set(&mine)); /* the select has left */
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_cord_join(other), 0);
    weft_chan_free(chan);
}

/* Signals. */

/* Dispatch signals that have arrived. Messages to this thread are then in flight. */
static void raise_in_flight(int sig)
{
    sigset_t other;
    sigemptyset(&other);
    sigaddset(&other, SIGWINCH);
    raise(sig);
    weft_clause c = weft_clause_signal(&other);
    ck_assert_int_eq(weft_try_select(&c, 1), -EAGAIN);
}

static int try_usr1(void)
{
    weft_clause c = weft_clause_signal(&usr1);
    int rc = weft_try_select(&c, 1);
    return rc < 0 ? rc : (int)c.value;
}

TEST(a_signal_wakes_selects_and_plain_waits)
{
    open_objects();
    ck_assert_int_eq(try_usr1(), -EAGAIN); /* catches the signal from now on */
    raise(SIGUSR1);
    weft_clause c = weft_clause_signal(&usr1);
    ck_assert_int_eq(weft_select(&c, 1), 0);
    ck_assert_int_eq(c.value, SIGUSR1);
    selector s[2] = {{{c, weft_clause_recv(chan)}, 2, 0}, {{weft_clause_recv(chan), c}, 2, 0}};
    weft_fiber f[] = {spin_waiting(run_selector, &s[0]), spin_waiting(wait_for_usr1, NULL),
                      spin_waiting(run_selector, &s[1])};
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), SIGUSR1);
    ck_assert_int_eq(weft_await(f[2]), 1);
    ck_assert_int_eq(s[1].clauses[1].value, SIGUSR1);
    ck_assert_int_eq(try_usr1(), -EAGAIN);
    weft_chan_free(chan);
}

static weft_value count_signal(void *arg)
{
    return increment_int(arg);
}

TEST(a_signal_in_flight_is_stored_once_if_other_clauses_win)
{
    open_objects();
    int handled = 0;
    ck_assert_int_eq(weft_on_signal(SIGUSR1, count_signal, &handled), 0);
    selector s[2] = {{{weft_clause_recv(chan), weft_clause_signal(&usr1)}, 2, 0}};
    s[1] = s[0];
    weft_fiber f[] = {spin_waiting(run_selector, &s[0]), spin_waiting(run_selector, &s[1])};
    raise_in_flight(SIGUSR1);
    ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
    ck_assert_int_eq(weft_chan_try_send(chan, 2), 0);
    ck_assert_int_eq(weft_await(f[0]), 0);
    ck_assert_int_eq(weft_await(f[1]), 0);
    ck_assert_int_eq(weft_wait_signal(&usr1), SIGUSR1);
    ck_assert_int_eq(try_usr1(), -EAGAIN);
    let_run();
    ck_assert_int_eq(handled, 1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    weft_chan_free(chan);
}

TEST(a_signal_in_flight_goes_to_the_other_waiters_if_another_clause_wins)
{
    open_objects();
    for (int is_first = 0; is_first < 2; is_first++) {
        selector s = {{weft_clause_recv(chan), weft_clause_signal(&usr1)}, 2, 0};
        weft_fiber plain = is_first ? 0 : spin_waiting(wait_for_usr1, NULL);
        weft_fiber f = spin_waiting(run_selector, &s);
        plain = is_first ? spin_waiting(wait_for_usr1, NULL) : plain;
        raise_in_flight(SIGUSR1);
        ck_assert_int_eq(weft_chan_try_send(chan, 1), 0);
        ck_assert_int_eq(weft_await(f), 0);
        ck_assert_int_eq(weft_await(plain), SIGUSR1);
        let_run();
        ck_assert_int_eq(try_usr1(), -EAGAIN);
    }
    weft_chan_free(chan);
}

TEST(a_signal_in_flight_is_stored_if_the_select_is_cancelled)
{
    open_objects();
    selector s = {{weft_clause_recv(chan), weft_clause_signal(&usr1)}, 2, 0};
    weft_fiber f = spin_waiting(run_selector, &s);
    raise_in_flight(SIGUSR1);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(weft_wait_signal(&usr1), SIGUSR1);
    weft_chan_free(chan);
}

static weft_value select_until_cancelled(void *arg)
{
    (void)arg;
    weft_clause c[] = {weft_clause_sem(&sem), weft_clause_event(&event), weft_clause_signal(&usr1)};
    return weft_select(c, 3);
}

/* All three. */

TEST(a_cancelled_select_takes_nothing)
{
    open_objects();
    weft_fiber f = spin_waiting(select_until_cancelled, NULL);
    weft_cancel(f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    f = spin_waiting(select_until_cancelled, NULL);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    ck_assert_int_eq(weft_await(f), -EINTR);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(select_until_cancelled(NULL), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_uint_eq(weft_sem_count(&sem), 1);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert(weft_event_is_set(&event));
    raise(SIGUSR1);
    ck_assert_int_eq(try_usr1(), SIGUSR1);
    weft_chan_free(chan);
}

TEST(a_select_chooses_among_ready_objects_at_random)
{
    open_objects();
    int chosen[3] = {0};
    ck_assert_int_eq(try_usr1(), -EAGAIN);
    for (int i = 0; i < 300; i++) {
        weft_sem_open(&sem, 1);
        weft_event_set(&event);
        raise(SIGUSR1);
        weft_clause c[] = {weft_clause_sem(&sem), weft_clause_event(&event),
                           weft_clause_signal(&usr1)};
        int rc = weft_select(c, 3);
        ck_assert(rc >= 0 && rc < 3);
        chosen[rc]++;
        ck_assert_uint_eq(weft_sem_count(&sem), rc != 0);
        ck_assert_int_eq(weft_event_is_set(&event), rc != 1);
    }
    ck_assert(chosen[0] > 0 && chosen[1] > 0 && chosen[2] > 0);
    weft_chan_free(chan);
}

TEST(invalid_clauses_are_refused)
{
    open_objects();
    sigset_t empty, kill;
    sigemptyset(&empty);
    sigemptyset(&kill);
    sigaddset(&kill, SIGKILL);
    const struct {
        weft_clause clause;
        const char *message;
    } cases[] = {
        {weft_clause_sem(NULL),
         "weft_select: clause 1: the semaphore, the event or the set is NULL"},
        {weft_clause_event(NULL),
         "weft_select: clause 1: the semaphore, the event or the set is NULL"},
        {weft_clause_signal(NULL),
         "weft_select: clause 1: the semaphore, the event or the set is NULL"},
        {weft_clause_signal(&empty), "weft_select: clause 1: the set is empty"},
        {weft_clause_signal(&kill),
         "weft_select: clause 1: the set contains a signal that cannot be caught"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_clause c[] = {weft_clause_recv(chan), cases[i].clause};
        ck_assert_int_eq(weft_select(c, 2), -EINVAL);
        ck_assert_error(-EINVAL, cases[i].message);
    }
    weft_chan_free(chan);
}

/* Selects that other threads wake: by a shared channel, by the event, or both. */

#define ROUNDS 2000

static weft_chan *shared;

static weft_value send_and_set(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(weft_event_set(&event), 0);
        ck_assert_int_eq(weft_chan_send(shared, i), 0);
    }
    weft_chan_close(shared);
    return 0;
}

static weft_value post_tokens(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(weft_sem_post(&sem), 0);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    return 0;
}

typedef struct totals {
    int values, tokens, events;
    bool is_closed;
} totals;

static weft_value select_all(void *arg)
{
    totals *t = arg;
    while (!t->is_closed || t->tokens < ROUNDS) {
        weft_clause c[] = {weft_clause_sem(&sem), weft_clause_event(&event),
                           t->is_closed ? weft_clause_never() : weft_clause_recv(shared),
                           weft_clause_time(1e-3)};
        switch (weft_select(c, 4)) {
        case 0:
            t->tokens++;
            break;
        case 1:
            t->events++;
            break;
        case 2:
            t->is_closed |= c[2].value == -EPIPE;
            t->values += c[2].value != -EPIPE;
            break;
        default:
            break;
        }
    }
    return 0;
}

TEST(tokens_and_values_of_several_threads_are_taken_once)
{
    shared = weft_chan_new_shared(1);
    totals t = {0};
    weft_fiber f[3];
    weft_cord other = start_cord(send_and_set, NULL);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(select_all, &t);
    weft_fiber poster = weft_spin(post_tokens, NULL);
    ck_assert_int_eq(weft_await(poster), 0);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_int_eq(weft_await(f[i]), 0);
    ck_assert_int_eq(weft_cord_join(other), 0);
    ck_assert_int_eq(t.values, ROUNDS);
    ck_assert_int_eq(t.tokens, ROUNDS);
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
    ck_assert_int_gt(t.events, 0);
    weft_chan_free(shared);
}

/*
 * The event of a ping-pong between threads. The fiber waits in a select whose other clauses also
 * happen. Each set must be seen, because the other thread waits for the answer.
 */

static weft_event answer;

static weft_value ping(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        ck_assert_int_eq(weft_event_set(&event), 0);
        ck_assert_int_eq(weft_event_wait(&answer), 0);
    }
    return 0;
}

static weft_value post_until_cancelled(void *arg)
{
    (void)arg;
    int rc;
    do
        weft_sem_post(&sem);
    while ((rc = weft_snooze()) == 0);
    return rc;
}

TEST(no_event_of_another_thread_is_lost_to_another_clause)
{
    weft_cord other = start_cord(ping, NULL);
    weft_fiber poster = weft_spin(post_until_cancelled, NULL);
    for (int answered = 0; answered < ROUNDS;) {
        weft_clause c[] = {weft_clause_sem(&sem), weft_clause_event(&event)};
        int rc = weft_select(c, 2);
        ck_assert(rc == 0 || rc == 1);
        if (rc == 1) {
            answered++;
            ck_assert_int_eq(weft_event_set(&answer), 0);
        }
    }
    weft_cancel(poster);
    (void)weft_await(poster);
    ck_assert_int_eq(weft_cord_join(other), 0);
}
