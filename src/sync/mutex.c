/* Mutexes. Unlocking passes a mutex to the first waiter. If the owner ends, the mutex is dead. */
#include "sync/mutex.h"

#include "core/lifetime/cancel.h"

static weft__mutex *mutex_of(weft_mutex *mutex)
{
    return (weft__mutex *)(void *)mutex;
}

/* Handle the end of the owner. All waiters and all later attempts to lock fail with -EOWNERDEAD. */
static void mutex_owner_exited(weft__exit_hook *hook)
{
    weft__mutex *m = CONTAINER_OF(hook, weft__mutex, owner.exit_hook);
    m->owner.fiber = WEFT__OWNER_DEAD;
    weft__waitq_wake_all(weft__cord_self, &m->waiters, -EOWNERDEAD);
}

void weft__mutex_join(weft__mutex *m, weft__waiter *w)
{
    weft__waitq_join(&m->waiters, w);
    weft__owner_update_hook(&m->owner, &m->waiters, mutex_owner_exited);
}

void weft__mutex_leave(weft__mutex *m, weft__waiter *w)
{
    if (w->waitq != &m->waiters)
        return; /* already woken */
    weft__waitq_leave(w);
    weft__owner_update_hook(&m->owner, &m->waiters, mutex_owner_exited);
}

void weft__mutex_hand_over(weft__cord *c, weft__mutex *m)
{
    weft__waiter *w = m->waiters.first;
    weft__owner_set(&m->owner, w->fiber);
    weft__waitq_wake(c, w, 0);
    weft__owner_update_hook(&m->owner, &m->waiters, mutex_owner_exited);
}

static bool mutex_leave(weft__fiber *f)
{
    weft__mutex_leave(f->wait_object, &f->live->waiter);
    return true;
}

static const weft__wait_kind waits_mutex = {"a mutex", .leave = mutex_leave, .forget = mutex_leave,
                                            WEFT__WAITS_FOR_OWNER(weft__mutex, owner),
                                            .describe = weft__describe_object};

int weft_mutex_lock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft__mutex *m = mutex_of(mutex);
    int rc = weft__mutex_try_lock(m, c->current);
    if (LIKELY(rc != -EBUSY))
        return rc;
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    weft__mutex_join(m, &c->current->live->waiter);
    return weft__wait_int(c, &waits_mutex, m);
}

int weft_mutex_try_lock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? weft__mutex_try_lock(mutex_of(mutex), c->current) : weft__no_cord();
}

COLD static int refuse_unlock(const weft__cord *c)
{
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    return weft_fail(-EPERM, "weft_mutex_unlock: the caller does not hold the mutex");
}

int weft_mutex_unlock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_self;
    weft__mutex *m = mutex_of(mutex);
    if (UNLIKELY(c == NULL || weft__owner_current(&m->owner) != c->current))
        return refuse_unlock(c);
    weft__mutex_release(c, m);
    return 0;
}

weft_fiber weft_mutex_owner(const weft_mutex *mutex)
{
    return weft__owner_id(&((const weft__mutex *)(const void *)mutex)->owner);
}
