/* Locks to read and to write: one line for both, so neither is starved. */
#include "core/alarm.h"
#include "sync/mutex.h"

/*
 * Between calls: if nobody holds it, or its writer is dead, nobody waits; if readers hold it, the
 * first who waits is a writer.
 */
typedef struct rwlock {
    weft__line waiters;  /* each has in how what it waits for */
    weft__fiber *writer; /* NULL: none; or WEFT__OWNER_DEAD */
    weft__claim claim;   /* the writer's */
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
    rwlock *l = CONTAINER_OF(own, rwlock, claim);
    l->writer = WEFT__OWNER_DEAD;
    weft__serve_all(weft__cord_self, &l->waiters, -EOWNERDEAD);
}

static void give_to_write(rwlock *l, weft__fiber *f)
{
    l->writer = f;
    weft__claim_make(&f->claims, &l->claim, lapse);
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
        give_to_write(l, w->fiber);
        weft__serve(c, w, 0);
    }
}

/* A writer that gives up stood in the way of the readers behind it. */
static bool leave(weft__fiber *f)
{
    rwlock *l = f->wait_object;
    weft__line_leave(&f->waiter);
    if (l->writer == NULL)
        admit(weft__cord_self, l);
    return true;
}

static const weft__wait_kind waits_kinds[] = {
    [TO_READ] = {"a lock, to read", .leave = leave},
    [TO_WRITE] = {"a lock, to write", .leave = leave},
};

/* Why it cannot be had at once. */
static int why_not(const rwlock *l, const weft__fiber *self)
{
    if (l->writer == WEFT__OWNER_DEAD)
        return -EOWNERDEAD;
    return l->writer != self ? -EBUSY : -EDEADLK;
}

/* Take it, if that does not take waiting. 0; -EBUSY: it does. -EDEADLK, -EOWNERDEAD. */
static int take_to_read(rwlock *l, const weft__fiber *self)
{
    if (UNLIKELY(l->writer != NULL || !weft__line_is_empty(&l->waiters)))
        return why_not(l, self);
    l->readers++;
    return 0;
}

static int take_to_write(rwlock *l, weft__fiber *self)
{
    if (UNLIKELY(l->writer != NULL || l->readers > 0))
        return why_not(l, self);
    give_to_write(l, self);
    return 0;
}

static int wait_for(weft__cord *c, rwlock *l, purpose how)
{
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    c->current->waiter.how = how;
    return weft__line_wait_int(c, &l->waiters, &waits_kinds[how], l);
}

int weft_rwlock_read(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return -ENOMEM;
    int rc = take_to_read(private_of(lock), c->current);
    return LIKELY(rc != -EBUSY) ? rc : wait_for(c, private_of(lock), TO_READ);
}

int weft_rwlock_write(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return -ENOMEM;
    int rc = take_to_write(private_of(lock), c->current);
    return LIKELY(rc != -EBUSY) ? rc : wait_for(c, private_of(lock), TO_WRITE);
}

int weft_rwlock_try_read(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? take_to_read(private_of(lock), c->current) : -ENOMEM;
}

int weft_rwlock_try_write(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? take_to_write(private_of(lock), c->current) : -ENOMEM;
}

int weft_rwlock_unlock(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_self;
    rwlock *l = private_of(lock);
    if (l->readers > 0) {
        if (--l->readers == 0)
            admit(c, l);
        return 0;
    }
    if (UNLIKELY(c == NULL || l->writer != c->current))
        return weft_fail(-EPERM, "unlocking a lock that the caller does not hold");
    weft__claim_drop(&l->claim);
    l->writer = NULL;
    admit(c, l);
    return 0;
}
