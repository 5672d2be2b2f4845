/* Mutexes: handed over directly, and broken when a fiber ends with one. */
#include "sync/mutex.h"

#include "core/alarm.h"

static weft__mutex *private_of(weft_mutex *mutex)
{
    return (weft__mutex *)(void *)mutex;
}

/* The owner ends: so says the mutex from then on, to all. */
static void lapse(weft__claim *own)
{
    weft__mutex *m = CONTAINER_OF(own, weft__mutex, owner.claim);
    m->owner.fiber = WEFT__OWNER_DEAD;
    weft__serve_all(weft__cord_self, &m->waiters, -EOWNERDEAD);
}

void weft__mutex_join(weft__mutex *m, weft__waiter *w)
{
    weft__line_join(&m->waiters, w);
    weft__owner_note(&m->owner, &m->waiters, lapse);
}

void weft__mutex_leave(weft__mutex *m, weft__waiter *w)
{
    if (w->line != &m->waiters)
        return; /* served */
    weft__line_leave(w);
    weft__owner_note(&m->owner, &m->waiters, lapse);
}

void weft__mutex_hand_over(weft__cord *c, weft__mutex *m)
{
    weft__waiter *w = m->waiters.first;
    weft__owner_set(&m->owner, w->fiber);
    weft__serve(c, w, 0);
    weft__owner_note(&m->owner, &m->waiters, lapse);
}

static bool leave(weft__fiber *f)
{
    weft__mutex_leave(f->wait_object, &f->life->waiter);
    return true;
}

static const weft__wait_kind waits_mutex = {"a mutex", .leave = leave, .forget = leave};

int weft_mutex_lock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft__mutex *m = private_of(mutex);
    int rc = weft__mutex_take(m, c->current);
    if (LIKELY(rc != -EBUSY))
        return rc;
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    weft__mutex_join(m, &c->current->life->waiter);
    return weft__wait_int(c, &waits_mutex, m);
}

int weft_mutex_try_lock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? weft__mutex_take(private_of(mutex), c->current) : weft__no_cord();
}

COLD static int refuse_unlock(const weft__cord *c)
{
    if (weft__is_refused(c))
        return weft__no_cord();
    return weft_fail(-EPERM, "unlocking a mutex that the caller does not hold");
}

int weft_mutex_unlock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_self;
    weft__mutex *m = private_of(mutex);
    if (UNLIKELY(c == NULL || weft__owner_now(&m->owner) != c->current))
        return refuse_unlock(c);
    weft__mutex_pass_on(c, m);
    return 0;
}

weft_fiber weft_mutex_owner(const weft_mutex *mutex)
{
    const weft__fiber *owner = weft__owner_now(&((const weft__mutex *)(const void *)mutex)->owner);
    return owner != NULL && owner != WEFT__OWNER_DEAD ? owner->id : 0;
}
