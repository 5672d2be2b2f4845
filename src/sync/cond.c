/*
 * Conditions. Who is signalled goes from the condition's line straight to that of its mutex, and is
 * not woken before it has that: no crowd wakes up to wait again.
 */
#include "core/alarm.h"
#include "sync/mutex.h"

typedef struct cond {
    /* A waiter has in data its mutex, which may be another for each, and in how a stage. */
    weft__line waiters;
} cond;

_Static_assert(sizeof(cond) <= sizeof(weft_cond), "weft_cond is too small");

typedef enum stage {
    WAITS,     /* for a signal; whatever wakes it now, it has no mutex */
    SIGNALLED, /* it is woken with its mutex, or with -EOWNERDEAD */
} stage;

static const weft__wait_kind waits_signal = {"a condition", .leave = weft__leave_line};
static bool forget_mutex(weft__fiber *f)
{
    weft__mutex_leave(f->wait_object, &f->life->waiter);
    return true;
}

/* The promise to the caller: it has its mutex again, so nothing cuts this short. */
static const weft__wait_kind waits_mutex_again = {"its mutex, after a condition",
                                                  .forget = forget_mutex};

static cond *private_of(weft_cond *condition)
{
    return (cond *)(void *)condition;
}

/* The first who waits goes on as soon as it has its mutex, which may be now. */
static void signal_first(weft__cord *c, cond *cv)
{
    weft__waiter *w = weft__line_pop(&cv->waiters);
    weft__mutex *m = w->data;
    w->how = SIGNALLED;
    int rc = m != NULL ? weft__mutex_take(m, w->fiber) : 0;
    if (rc != -EBUSY) {
        weft__wake(c, w->fiber, rc, WEFT__TAIL);
        return;
    }
    weft__mutex_join(m, w);
    w->fiber->waits_in = &waits_mutex_again;
    w->fiber->wait_object = m;
}

/*
 * What a wait for the mutex returns that cannot be cut short. Not quite: a main fiber that would
 * wait for ever is woken with -EDEADLK where it stands. It goes without the mutex then.
 */
static int settle(weft__fiber *f, weft__mutex *m, int rc)
{
    if (m != NULL)
        weft__mutex_leave(m, &f->life->waiter);
    return rc;
}

/* The wait was cut short, with reason: have the mutex again, whatever strikes meanwhile. */
COLD static int take_again(weft__cord *c, weft__mutex *m, int reason)
{
    weft__fiber *self = c->current;
    int rc = weft__mutex_take(m, self);
    if (rc == -EBUSY) {
        weft__mutex_join(m, &self->life->waiter);
        rc = settle(self, m, weft__wait_int(c, &waits_mutex_again, m));
    }
    return rc == 0 ? reason : rc;
}

/* The caller holds the mutex? */
static int check_owner(const weft__mutex *m, const weft__fiber *self)
{
    const weft__fiber *owner = m != NULL ? weft__owner_now(&m->owner) : self;
    if (LIKELY(owner == self))
        return 0;
    if (owner == WEFT__OWNER_DEAD)
        return -EOWNERDEAD;
    return weft_fail(-EPERM, "waiting with a mutex that the caller does not hold");
}

int weft_cond_wait(weft_cond *condition, weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    cond *cv = private_of(condition);
    weft__mutex *m = (weft__mutex *)(void *)mutex;
    weft__fiber *self = c->current;
    int rc = check_owner(m, self);
    if (UNLIKELY(rc < 0))
        return rc;
    if (UNLIKELY(self->alarm))
        return (int)weft__refuse(c);
    self->life->waiter.data = m;
    self->life->waiter.how = WAITS;
    if (LIKELY(m != NULL))
        weft__mutex_pass_on(c, m);
    rc = weft__line_wait_int(c, &cv->waiters, &waits_signal, cv);
    if (LIKELY(self->life->waiter.how == SIGNALLED))
        return settle(self, m, rc);
    return m != NULL ? take_again(c, m, rc) : rc;
}

int weft_cond_signal(weft_cond *condition)
{
    cond *cv = private_of(condition);
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (weft__line_is_empty(&cv->waiters))
        return 0;
    signal_first(c, cv);
    return 1;
}

int weft_cond_broadcast(weft_cond *condition)
{
    int n = 0, rc;
    while ((rc = weft_cond_signal(condition)) == 1)
        n++;
    return rc < 0 ? rc : n;
}
