/*
 * Read-write locks. Readers and writers share one FIFO wait queue, so neither readers nor writers
 * starve.
 */
#include "core/lifetime/cancel.h"
#include "sync/owner.h"

#include <weft/sync.h>

/*
 * Invariants between calls:
 * - The wait queue is empty while no fiber holds the lock, and after the writer has ended.
 * - While readers hold the lock, the first waiter is a writer.
 */
typedef struct rwlock {
    weft__waitq waiters; /* the how field of a waiter is a lock_mode */
    weft__owner writer;
    size_t readers;
} rwlock;

_Static_assert(sizeof(rwlock) <= sizeof(weft_rwlock), "weft_rwlock is too small");
_Static_assert(_Alignof(rwlock) <= _Alignof(weft_rwlock), "weft_rwlock is aligned too little");

typedef enum lock_mode { TO_READ, TO_WRITE } lock_mode;

static rwlock *rwlock_of(weft_rwlock *lock)
{
    return (rwlock *)(void *)lock;
}

/*
 * Handle the end of the writer. All waiters and all later attempts to lock fail with -EOWNERDEAD.
 */
static void rwlock_writer_exited(weft__exit_hook *hook)
{
    rwlock *l = CONTAINER_OF(hook, rwlock, writer.exit_hook);
    l->writer.fiber = WEFT__OWNER_DEAD;
    weft__waitq_wake_all(weft__cord_self, &l->waiters, -EOWNERDEAD);
}

/*
 * Admit all readers at the head of the wait queue. If no reader holds the lock afterwards, admit
 * the writer at the head. No writer may hold the lock.
 */
static void rwlock_admit(weft__cord *c, rwlock *l)
{
    weft__waiter *w;
    while ((w = l->waiters.first) != NULL && w->how == TO_READ) {
        l->readers++;
        weft__waitq_wake(c, w, 0);
    }
    if (w != NULL && l->readers == 0) {
        weft__owner_set(&l->writer, w->fiber);
        weft__waitq_wake(c, w, 0);
        weft__owner_update_hook(&l->writer, &l->waiters, rwlock_writer_exited);
    }
}

/* Stop waiting. A writer that stops waiting no longer blocks the readers queued after it. */
static bool rwlock_leave(weft__fiber *f)
{
    rwlock *l = f->wait_object;
    weft__waitq_leave(&f->live->waiter);
    if (l->writer.fiber == NULL)
        rwlock_admit(weft__cord_self, l);
    else
        weft__owner_update_hook(&l->writer, &l->waiters, rwlock_writer_exited);
    return true;
}

/*
 * Like rwlock_leave, but in a child of weft_fork. Do not admit other waiters, because their fibers
 * do not exist in the child.
 */
static bool rwlock_forget(weft__fiber *f)
{
    rwlock *l = f->wait_object;
    weft__waitq_leave(&f->live->waiter);
    if (l->writer.fiber != NULL)
        weft__owner_update_hook(&l->writer, &l->waiters, rwlock_writer_exited);
    return true;
}

/* Readers are only counted, so the holder is the writer or not known. */
#define RWLOCK_WAIT                                                                    \
    .leave = rwlock_leave, .forget = rwlock_forget, .describe = weft__describe_object, \
    WEFT__WAITS_FOR_OWNER(rwlock, writer)

static const weft__wait_kind waits_kinds[] = {
    [TO_READ] = {"a read lock", RWLOCK_WAIT},
    [TO_WRITE] = {"a write lock", RWLOCK_WAIT},
};

/*
 * Acquire the lock for self without waiting.
 *
 * Returns 0, or:
 * -EBUSY if the call would wait
 * -EDEADLK if self holds the lock for writing
 * -EOWNERDEAD if the writer has ended
 */
static int rwlock_take_read(rwlock *l, const weft__fiber *self)
{
    if (UNLIKELY(l->writer.fiber != NULL || !weft__waitq_is_empty(&l->waiters)))
        return weft__owner_conflict(&l->writer, self);
    l->readers++;
    return 0;
}

static int rwlock_take_write(rwlock *l, weft__fiber *self)
{
    if (UNLIKELY(l->writer.fiber != NULL || l->readers > 0))
        return weft__owner_conflict(&l->writer, self);
    weft__owner_set(&l->writer, self);
    return 0;
}

static int rwlock_wait(weft__cord *c, rwlock *l, lock_mode mode)
{
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    c->current->live->waiter.how = mode;
    weft__waitq_join(&l->waiters, &c->current->live->waiter);
    weft__owner_update_hook(&l->writer, &l->waiters, rwlock_writer_exited);
    return weft__wait_int(c, &waits_kinds[mode], l);
}

int weft_rwlock_read(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = rwlock_take_read(rwlock_of(lock), c->current);
    return LIKELY(rc != -EBUSY) ? rc : rwlock_wait(c, rwlock_of(lock), TO_READ);
}

int weft_rwlock_write(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = rwlock_take_write(rwlock_of(lock), c->current);
    return LIKELY(rc != -EBUSY) ? rc : rwlock_wait(c, rwlock_of(lock), TO_WRITE);
}

int weft_rwlock_try_read(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? rwlock_take_read(rwlock_of(lock), c->current) : weft__no_cord();
}

int weft_rwlock_try_write(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_here();
    return LIKELY(c != NULL) ? rwlock_take_write(rwlock_of(lock), c->current) : weft__no_cord();
}

int weft_rwlock_unlock(weft_rwlock *lock)
{
    weft__cord *c = weft__cord_self;
    rwlock *l = rwlock_of(lock);
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (l->readers > 0) {
        if (--l->readers == 0)
            rwlock_admit(c, l);
        return 0;
    }
    if (UNLIKELY(c == NULL || weft__owner_current(&l->writer) != c->current))
        return weft_fail(-EPERM, "weft_rwlock_unlock: the caller does not hold the lock");
    weft__owner_clear(&l->writer);
    rwlock_admit(c, l);
    return 0;
}
