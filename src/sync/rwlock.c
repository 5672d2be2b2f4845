/* Locks to read and to write: one line for both, so neither is starved. */
#include "core/alarm.h"
#include "sync/owner.h"

#include <weft/sync.h>

/*
 * Between calls: if nobody holds it, or its writer is dead, nobody waits; if readers hold it, the
 * first who waits is a writer.
 */
typedef struct rwlock {
    weft__line waiters; /* each has in how what it waits for */
    weft__owner writer;
    size_t readers;
} rwlock;

_Static_assert(sizeof(rwlock) <= sizeof(weft_rwlock), "weft_rwlock is too small");
_Static_assert(_Alignof(rwlock) <= _Alignof(weft_rwlock), "weft_rwlock is aligned too little");

typedef enum purpose { TO_READ, TO_WRITE } purpose;

static rwlock *private_of(weft_rwlock *lock)
{
    return (rwlock *)(void *)lock;
}

/* The writer ends: so says the lock from then on, to all. */
static void lapse(weft__claim *own)
{
    rwlock *l = CONTAINER_OF(own, rwlock, writer.claim);
    l->writer.fiber = WEFT__OWNER_DEAD;
    weft__serve_all(weft__cord_self, &l->waiters, -EOWNERDEAD);
}

/* Nobody writes: let in the readers at the front, or the writer if nobody reads. */
static void admit(weft__cord *c, rwlock *l)
{
    weft__waiter *w;
    while ((w = l->waiters.first) != NULL && w->how == TO_READ) {
        l->readers++;
        weft__serve(c, w, 0);
    }
    if (w != NULL && l->readers == 0) {
        weft__owner_set(&l->writer, w->fiber);
        weft__serve(c, w, 0);
        weft__owner_note(&l->writer, &l->waiters, lapse);
    }
}

/* A writer that gives up stood in the way of the readers behind it. */
static bool leave(weft__fiber *f)
{
    rwlock *l = f->wait_object;
    weft__line_leave(&f->life->waiter);
    if (l->writer.fiber == NULL)
        admit(weft__cord_self, l);
    else
        weft__owner_note(&l->writer, &l->waiters, lapse);
    return true;
}

/* Those behind it are gone, too. */
static bool forget(weft__fiber *f)
{
    rwlock *l = f->wait_object;
    weft__line_leave(&f->life->waiter);
    if (l->writer.fiber != NULL)
        weft__owner_note(&l->writer, &l->waiters, lapse);
    return true;
}

static const weft__wait_kind waits_kinds[] = {
    [TO_READ] = {"a lock, to read", .leave = leave, .forget = forget},
    [TO_WRITE] = {"a lock, to write", .leave = leave, .forget = forget},
};

/* Take it, if that does not take waiting. 0; -EBUSY: it does. -EDEADLK, -EOWNERDEAD. */
static int take_to_read(rwlock *l, const weft__fiber *self)
{
    if (UNLIKELY(l->writer.fiber != NULL || !weft__line_is_empty(&l->waiters)))
        return weft__owner_why_not(&l->writer, self);
    l->readers++;
    return 0;
}

static int take_to_write(rwlock *l, weft__fiber *self)
{
    if (UNLIKELY(l->writer.fiber != NULL || l->readers > 0))
        return weft__owner_why_not(&l->writer, self);
    weft__owner_set(&l->writer, self);
    return 0;
}

static int wait_for(weft__cord *c, rwlock *l, purpose how)
{
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    c->current->life->waiter.how = how;
    weft__line_join(&l->waiters, &c->current->life->waiter);
    weft__owner_note(&l->writer, &l->waiters, lapse);
    return weft__wait_int(c, &waits_kinds[how], l);
}

int weft_rwlock_read(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = take_to_read(private_of(lock), c->current);
    return LIKELY(rc != -EBUSY) ? rc : wait_for(c, private_of(lock), TO_READ);
}

int weft_rwlock_write(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = take_to_write(private_of(lock), c->current);
    return LIKELY(rc != -EBUSY) ? rc : wait_for(c, private_of(lock), TO_WRITE);
}

int weft_rwlock_try_read(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? take_to_read(private_of(lock), c->current) : weft__no_cord();
}

int weft_rwlock_try_write(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? take_to_write(private_of(lock), c->current) : weft__no_cord();
}

int weft_rwlock_unlock(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_self;
    rwlock *l = private_of(lock);
    if (weft__is_refused(c))
        return weft__no_cord();
    if (l->readers > 0) {
        if (--l->readers == 0)
            admit(c, l);
        return 0;
    }
    if (UNLIKELY(c == NULL || weft__owner_now(&l->writer) != c->current))
        return weft_fail(-EPERM, "unlocking a lock that the caller does not hold");
    weft__owner_clear(&l->writer);
    admit(c, l);
    return 0;
}
