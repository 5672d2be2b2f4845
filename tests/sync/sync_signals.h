/* The model of semaphores, events, latches and barriers. */
#ifndef TESTS_SYNC_SIGNALS_H
#define TESTS_SYNC_SIGNALS_H

#include "sync_model.h"

typedef struct sem_model {
    weft_sem sem;
    place line;
    size_t tokens; /* there to be taken */
} sem_model;

static sem_model sems[2];

typedef struct event_model {
    weft_event event;
    place line;
    bool is_set;
} event_model;

static event_model events[3];

static struct {
    weft_latch latch;
    place line;
    size_t count;
} latches[2];

#define BARRIER_FIBERS 5
static struct {
    weft_barrier barrier;
    place line;
} barrier;

/* Semaphores. */

static bool take_token(actor *me, sem_model *s)
{
    enter(me, &s->line, 0, 0);
    if (s->tokens > 0)
        keep(me, 0);
    int rc = weft_sem_wait(&s->sem);
    s->tokens -= me->is_at_once;
    return judge(me, rc, false);
}

static bool try_token(actor *me, sem_model *s)
{
    int rc = weft_sem_try_wait(&s->sem);
    REQUIRE(rc == (s->tokens > 0 ? 0 : -EAGAIN));
    s->tokens -= rc == 0;
    (void)me;
    return rc == 0;
}

static void give_token(sem_model *s)
{
    entry *next = first_in(&s->line);
    REQUIRE(weft_sem_post(&s->sem) == 0);
    if (next != NULL)
        promise(next, 0);
    else
        s->tokens++;
}

static void check_sem(const sem_model *s)
{
    REQUIRE(weft_sem_count(&s->sem) == s->tokens);
    REQUIRE(s->tokens == 0 || first_in(&s->line) == NULL);
}

static void do_sem(actor *me)
{
    sem_model *s = &sems[roll(COUNT_OF(sems))];
    if (!(roll(5) == 0 ? try_token : take_token)(me, s))
        return;
    act_while_holding(me);
    give_token(s);
    check_sem(s);
}

/* Events: one waits at a time. */

static void set_event(event_model *e)
{
    entry *waiter = first_in(&e->line);
    REQUIRE(weft_event_set(&e->event) == 0);
    if (waiter != NULL)
        promise(waiter, 0);
    else
        e->is_set = true;
}

static void wait_for_event(actor *me, event_model *e)
{
    const entry *waiter = first_in(&e->line);
    enter(me, &e->line, 0, 0);
    if (e->is_set)
        keep(me, 0);
    else if (waiter != NULL)
        keep(me, -EBUSY);
    int rc = weft_event_wait(&e->event);
    if (me->is_at_once)
        e->is_set = false;
    judge(me, rc, false);
}

static void do_event(actor *me)
{
    event_model *e = &events[roll(COUNT_OF(events))];
    if (roll(20) == 0) {
        weft_event_clear(&e->event);
        e->is_set = false;
    } else if (roll(2) == 0) {
        set_event(e);
    } else {
        wait_for_event(me, e);
    }
    REQUIRE(weft_event_is_set(&e->event) == e->is_set);
}

/* Latches and the barrier: all who wait go on at once. */

static void do_latch(actor *me)
{
    size_t i = roll(COUNT_OF(latches));
    weft_latch *latch = &latches[i].latch;
    if (roll(2) == 0) {
        enter(me, &latches[i].line, 0, 0);
        if (latches[i].count == 0)
            keep(me, 0);
        int rc = weft_latch_wait(latch);
        judge(me, rc, false);
        return;
    }
    size_t n = roll(3) + 1;
    REQUIRE(weft_latch_add(latch, n) == 0);
    latches[i].count += n;
    act_while_holding(me);
    while (n-- > 0) {
        size_t waiting = waiting_in(&latches[i].line, scratch, ACTORS);
        REQUIRE(weft_latch_done(latch) == 0);
        if (--latches[i].count > 0)
            continue;
        while (waiting-- > 0)
            promise(scratch[waiting], 0);
    }
}

static void do_barrier(actor *me)
{
    size_t n = waiting_in(&barrier.line, scratch, BARRIER_FIBERS);
    REQUIRE(n < BARRIER_FIBERS);
    enter(me, &barrier.line, 0, 0);
    if (n == BARRIER_FIBERS - 1) {
        keep(me, 1);
        for (size_t i = 0; i < n; i++)
            pledge(scratch[i], 0);
    }
    int rc = weft_barrier_wait(&barrier.barrier);
    judge(me, rc, false);
}

static void check_signals(void)
{
    for (size_t i = 0; i < COUNT_OF(sems); i++)
        check_sem(&sems[i]);
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        REQUIRE(weft_event_is_set(&events[i].event) == events[i].is_set);
        REQUIRE(count_in_line(&events[i].line) <= !events[i].is_set);
    }
    for (size_t i = 0; i < COUNT_OF(latches); i++) {
        REQUIRE(weft_latch_count(&latches[i].latch) == latches[i].count);
        REQUIRE(latches[i].count > 0 || first_in(&latches[i].line) == NULL);
    }
    REQUIRE(count_in_line(&barrier.line) < BARRIER_FIBERS);
}

static void open_signals(void)
{
    for (size_t i = 0; i < COUNT_OF(sems); i++)
        weft_sem_open(&sems[i].sem, sems[i].tokens = 1 + 3 * i);
    REQUIRE(weft_barrier_open(&barrier.barrier, BARRIER_FIBERS) == 0);
}

/* Everyone is dead: all tokens are back. */
static void close_signals(void)
{
    check_signals();
    for (size_t i = 0; i < COUNT_OF(sems); i++)
        REQUIRE(sems[i].tokens == 1 + 3 * i);
    for (size_t i = 0; i < COUNT_OF(latches); i++)
        REQUIRE(latches[i].count == 0);
}

#endif
