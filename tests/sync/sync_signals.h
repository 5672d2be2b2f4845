/* The model of semaphores, events, latches and barriers. */
#ifndef TESTS_SYNC_SYNC_SIGNALS_H
#define TESTS_SYNC_SYNC_SIGNALS_H

#include "sync/sync_model.h"

typedef struct sem_model {
    weft_sem sem;
    waitq_model waitq;
    size_t tokens; /* available now */
} sem_model;

static sem_model sems[2];

typedef struct event_model {
    weft_event event;
    waitq_model waitq;
    bool is_set;
} event_model;

static event_model events[3];

static struct {
    weft_latch latch;
    waitq_model waitq;
    size_t count;
} latches[2];

#define BARRIER_FIBERS 5
static struct {
    weft_barrier barrier;
    waitq_model waitq;
} barrier;

/* Semaphores. */

static bool take_token(actor *me, sem_model *s)
{
    enter_waitq(me, &s->waitq, 0, 0);
    if (s->tokens > 0)
        expect_at_once(me, 0);
    int rc = weft_sem_wait(&s->sem);
    s->tokens -= me->must_not_switch;
    return check_result(me, rc, false);
}

static bool try_token(actor *me, sem_model *s)
{
    int rc = weft_sem_try_wait(&s->sem);
    REQUIRE(rc == (s->tokens > 0 ? 0 : -EAGAIN));
    s->tokens -= rc == 0;
    return rc == 0;
}

static void give_token(sem_model *s)
{
    entry *next = first_waiting(&s->waitq);
    REQUIRE(weft_sem_post(&s->sem) == 0);
    if (next != NULL)
        expect_woken(next, 0);
    else
        s->tokens++;
}

static void check_sem(const sem_model *s)
{
    REQUIRE(weft_sem_count(&s->sem) == s->tokens);
    REQUIRE(s->tokens == 0 || first_waiting(&s->waitq) == NULL);
}

static void do_sem(actor *me)
{
    sem_model *s = &sems[random_below(COUNT_OF(sems))];
    if (!(random_below(5) == 0 ? try_token : take_token)(me, s))
        return;
    run_ops_while_holding(me);
    give_token(s);
    check_sem(s);
}

/* Events. Setting an event wakes all waiters. */

static void set_event(event_model *e)
{
    size_t waiting = list_waiting(&e->waitq, scratch, ACTORS);
    REQUIRE(weft_event_set(&e->event) == 0);
    if (waiting == 0)
        e->is_set = true;
    for (size_t i = 0; i < waiting; i++)
        if (scratch[i]->actor->expectation == UNDECIDED) /* a select may have the clause twice */
            expect_woken(scratch[i], 0);
}

static void wait_for_event(actor *me, event_model *e)
{
    enter_waitq(me, &e->waitq, 0, 0);
    if (e->is_set)
        expect_at_once(me, 0);
    int rc = weft_event_wait(&e->event);
    if (me->must_not_switch)
        e->is_set = false;
    check_result(me, rc, false);
}

static void do_event(actor *me)
{
    event_model *e = &events[random_below(COUNT_OF(events))];
    if (random_below(20) == 0) {
        weft_event_clear(&e->event);
        e->is_set = false;
    } else if (random_below(2) == 0) {
        set_event(e);
    } else {
        wait_for_event(me, e);
    }
    REQUIRE(weft_event_is_set(&e->event) == e->is_set);
}

/* Latches and the barrier: all waiters wake at once. */

static void do_latch(actor *me)
{
    size_t i = random_below(COUNT_OF(latches));
    weft_latch *latch = &latches[i].latch;
    if (random_below(2) == 0) {
        enter_waitq(me, &latches[i].waitq, 0, 0);
        if (latches[i].count == 0)
            expect_at_once(me, 0);
        int rc = weft_latch_wait(latch);
        check_result(me, rc, false);
        return;
    }
    size_t n = random_below(3) + 1;
    REQUIRE(weft_latch_add(latch, n) == 0);
    latches[i].count += n;
    run_ops_while_holding(me);
    while (n-- > 0) {
        size_t waiting = list_waiting(&latches[i].waitq, scratch, ACTORS);
        REQUIRE(weft_latch_done(latch) == 0);
        if (--latches[i].count > 0)
            continue;
        while (waiting-- > 0)
            expect_woken(scratch[waiting], 0);
    }
}

static void do_barrier(actor *me)
{
    size_t n = list_waiting(&barrier.waitq, scratch, BARRIER_FIBERS);
    REQUIRE(n < BARRIER_FIBERS);
    enter_waitq(me, &barrier.waitq, 0, 0);
    if (n == BARRIER_FIBERS - 1) {
        expect_at_once(me, 1);
        for (size_t i = 0; i < n; i++)
            expect_value(scratch[i], 0);
    }
    int rc = weft_barrier_wait(&barrier.barrier);
    check_result(me, rc, false);
}

static void check_signals(void)
{
    for (size_t i = 0; i < COUNT_OF(sems); i++)
        check_sem(&sems[i]);
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        REQUIRE(weft_event_is_set(&events[i].event) == events[i].is_set);
        REQUIRE(!events[i].is_set || first_waiting(&events[i].waitq) == NULL);
    }
    for (size_t i = 0; i < COUNT_OF(latches); i++) {
        REQUIRE(weft_latch_count(&latches[i].latch) == latches[i].count);
        REQUIRE(latches[i].count > 0 || first_waiting(&latches[i].waitq) == NULL);
    }
    REQUIRE(count_waiting(&barrier.waitq) < BARRIER_FIBERS);
}

static void open_signals(void)
{
    for (size_t i = 0; i < COUNT_OF(sems); i++)
        weft_sem_open(&sems[i].sem, sems[i].tokens = 1 + 3 * i);
    REQUIRE(weft_barrier_open(&barrier.barrier, BARRIER_FIBERS) == 0);
}

/* After the end of all actors: all tokens are back. */
static void close_signals(void)
{
    check_signals();
    for (size_t i = 0; i < COUNT_OF(sems); i++)
        REQUIRE(sems[i].tokens == 1 + 3 * i);
    for (size_t i = 0; i < COUNT_OF(latches); i++)
        REQUIRE(latches[i].count == 0);
}

#endif
