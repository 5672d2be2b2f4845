/*
 * Condition variables. A signal moves a waiter from the wait queue of the condition variable to the
 * wait queue of the mutex. The fiber is woken once it owns the mutex. A broadcast therefore wakes
 * no fiber that would wait for the mutex again.
 */
#include "core/lifetime/cancel.h"
#include "sync/mutex.h"

typedef struct cond {
    /*
     * In each waiter, data is the mutex or NULL, and how is a cond_stage. Waiters may have
     * different mutexes.
     */
    weft__waitq waiters;
} cond;

_Static_assert(sizeof(cond) <= sizeof(weft_cond), "weft_cond is too small");

typedef enum cond_stage {
    UNSIGNALLED, /* waits for a signal; a fiber woken at this stage does not own the mutex */
    SIGNALLED,   /* woken as the owner of the mutex, or with -EOWNERDEAD */
} cond_stage;

static const weft__wait_kind waits_signal = {
    "a condition variable", .leave = weft__waitq_abort_wait, .describe = weft__describe_object};
static bool cond_forget(weft__fiber *f)
{
    weft__mutex_leave(f->wait_object, &f->live->waiter);
    return true;
}

/*
 * This wait cannot be cancelled, because weft_cond_wait guarantees that the caller owns the mutex
 * afterwards.
 */
static const weft__wait_kind waits_mutex_again = {
    "the mutex of a condition variable", .forget = cond_forget,
    WEFT__WAITS_FOR_OWNER(weft__mutex, owner), .describe = weft__describe_object};

static cond *cond_of(weft_cond *condition)
{
    return (cond *)(void *)condition;
}

/*
 * Signal the first waiter. If the fiber need not wait for the mutex, wake the fiber. Otherwise move
 * the waiter to the wait queue of the mutex.
 */
static void cond_wake_first(weft__cord *c, cond *cv)
{
    weft__waiter *w = weft__waitq_pop(&cv->waiters);
    weft__mutex *m = w->data;
    w->how = SIGNALLED;
    int rc = m != NULL ? weft__mutex_try_lock(m, w->fiber) : 0;
    if (rc != -EBUSY) {
        weft__wake(c, w->fiber, rc, WEFT__TAIL);
        return;
    }
    weft__mutex_join(m, w);
    w->fiber->waits_in = &waits_mutex_again;
    w->fiber->wait_object = m;
}

/*
 * End a wait for the mutex. Only deadlock detection can interrupt this wait. The main fiber is then
 * woken with -EDEADLK while its waiter is still queued.
 */
static int finish_mutex_wait(weft__fiber *f, weft__mutex *m, int rc)
{
    if (m != NULL)
        weft__mutex_leave(m, &f->live->waiter);
    return rc;
}

/*
 * Lock the mutex again after an interrupted wait for a signal. The wait for the mutex cannot be
 * cancelled. reason is the error that interrupted the wait. Returns reason, or the error if locking
 * fails.
 */
COLD static int cond_relock(weft__cord *c, weft__mutex *m, int reason)
{
    weft__fiber *self = c->current;
    int rc = weft__mutex_try_lock(m, self);
    if (rc == -EBUSY) {
        weft__mutex_join(m, &self->live->waiter);
        rc = finish_mutex_wait(self, m, weft__wait_int(c, &waits_mutex_again, m));
    }
    return rc == 0 ? reason : rc;
}

/* Check that the caller owns the mutex. m may be NULL. */
static int cond_check_owner(const weft__mutex *m, const weft__fiber *self)
{
    const weft__fiber *owner = m != NULL ? weft__owner_current(&m->owner) : self;
    if (LIKELY(owner == self))
        return 0;
    if (owner == WEFT__OWNER_DEAD)
        return -EOWNERDEAD;
    return weft_fail(-EPERM, "weft_cond_wait: the caller does not hold the mutex");
}

int weft_cond_wait(weft_cond *condition, weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    cond *cv = cond_of(condition);
    weft__mutex *m = (weft__mutex *)(void *)mutex;
    weft__fiber *self = c->current;
    int rc = cond_check_owner(m, self);
    if (UNLIKELY(rc < 0))
        return rc;
    if (UNLIKELY(self->pending))
        return (int)weft__call_refuse(c);
    self->live->waiter.data = m;
    self->live->waiter.how = UNSIGNALLED;
    if (LIKELY(m != NULL))
        weft__mutex_release(c, m);
    rc = weft__waitq_wait_int(c, &cv->waiters, &waits_signal, cv);
    if (LIKELY(self->live->waiter.how == SIGNALLED))
        return finish_mutex_wait(self, m, rc);
    return m != NULL ? cond_relock(c, m, rc) : rc;
}

int weft_cond_signal(weft_cond *condition)
{
    cond *cv = cond_of(condition);
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (weft__waitq_is_empty(&cv->waiters))
        return 0;
    cond_wake_first(c, cv);
    return 1;
}

int weft_cond_broadcast(weft_cond *condition)
{
    int n = 0, rc;
    while ((rc = weft_cond_signal(condition)) == 1)
        n++;
    return rc < 0 ? rc : n;
}
