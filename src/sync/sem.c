/* Semaphores. weft_sem_post hands a token directly to the first waiter. */
#include "core/lifetime/cancel.h"
#include "sync/clause.h"

#include <weft/sync.h>

/* Invariant between calls: if a fiber waits and its select is not claimed, tokens is 0. */
typedef struct sem {
    weft__waitq waiters;
    size_t tokens;
} sem;

_Static_assert(sizeof(sem) <= sizeof(weft_sem), "weft_sem is too small");

static const weft__wait_kind waits_sem = {"a semaphore", .leave = weft__waitq_abort_wait,
                                          .describe = weft__describe_object};

static sem *sem_of(weft_sem *semaphore)
{
    return (sem *)(void *)semaphore;
}

void weft_sem_open(weft_sem *semaphore, size_t tokens)
{
    *sem_of(semaphore) = (sem){.tokens = tokens};
}

int weft_sem_try_wait(weft_sem *semaphore)
{
    sem *s = sem_of(semaphore);
    if (UNLIKELY(s->tokens == 0))
        return -EAGAIN;
    s->tokens--;
    return 0;
}

int weft_sem_wait(weft_sem *semaphore)
{
    if (LIKELY(weft_sem_try_wait(semaphore) == 0))
        return 0;
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    sem *s = sem_of(semaphore);
    return weft__waitq_wait_int(c, &s->waiters, &waits_sem, s);
}

int weft_sem_post(weft_sem *semaphore)
{
    sem *s = sem_of(semaphore);
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    weft__waiter *w = weft__waitq_next(&s->waiters);
    if (w != NULL) {
        weft__waitq_wake(c, w, 0);
        return 0;
    }
    if (UNLIKELY(s->tokens == SIZE_MAX))
        return -EOVERFLOW;
    s->tokens++;
    return 0;
}

size_t weft_sem_count(const weft_sem *semaphore)
{
    return ((const sem *)(const void *)semaphore)->tokens;
}

/* Clauses. */

static int sem_clause_check(const weft_clause *clause, const char **fault)
{
    (void)fault;
    return weft_sem_count(clause->of.sem) > 0;
}

static bool sem_clause_take(weft_clause *clause)
{
    clause->value = weft_sem_try_wait(clause->of.sem);
    return clause->value == 0;
}

static weft__waitq *sem_clause_waitq(const weft_clause *clause)
{
    return &sem_of(clause->of.sem)->waiters;
}

const weft__clause_ops weft__clause_sem = {
    .check = sem_clause_check, .take = sem_clause_take, .waitq = sem_clause_waitq};
