/* Mutexes: handed over directly, and broken when a fiber ends with one. */
#include "sync/mutex.h"

#include "core/alarm.h"

static const weft__wait_kind waits_mutex = {"a mutex", .leave = weft__leave_line};

static weft__mutex *private_of(weft_mutex *mutex)
{
    return (weft__mutex *)(void *)mutex;
}

void weft__mutex_lapse(weft__claim *own)
{
    weft__mutex *m = CONTAINER_OF(own, weft__mutex, claim);
    m->owner = WEFT__OWNER_DEAD;
    weft__serve_all(weft__cord_self, &m->waiters, -EOWNERDEAD);
}

int weft_mutex_lock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return -ENOMEM;
    weft__mutex *m = private_of(mutex);
    int rc = weft__mutex_take(m, c->current);
    if (LIKELY(rc != -EBUSY))
        return rc;
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return weft__line_wait_int(c, &m->waiters, &waits_mutex, m);
}

int weft_mutex_try_lock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? weft__mutex_take(private_of(mutex), c->current) : -ENOMEM;
}

int weft_mutex_unlock(weft_mutex *mutex)
{
    weft__cord *c = weft__cord_self;
    weft__mutex *m = private_of(mutex);
    if (UNLIKELY(c == NULL || m->owner != c->current))
        return weft_fail(-EPERM, "unlocking a mutex that the caller does not hold");
    weft__mutex_pass_on(c, m);
    return 0;
}

weft_fiber weft_mutex_owner(const weft_mutex *mutex)
{
    const weft__fiber *owner = ((const weft__mutex *)(const void *)mutex)->owner;
    return owner != NULL && owner != WEFT__OWNER_DEAD ? owner->id : 0;
}
