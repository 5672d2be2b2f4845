/* The model of mutexes, conditions and read-write locks for test_sync_random.c. */
#ifndef TESTS_SYNC_SYNC_LOCKS_H
#define TESTS_SYNC_SYNC_LOCKS_H

#include "sync/sync_model.h"

typedef struct mutex_model {
    weft_mutex mutex;
    waitq_model waitq;
    actor *owner;       /* set when its lock call has returned; NULL: none */
    bool has_conds;     /* waiters of a condition wait here too, so the next owner is unknown */
    bool owner_may_end; /* actors may end while they hold the mutex */
    bool is_dead;
} mutex_model;

static mutex_model mutexes[4] = {[2] = {.has_conds = true}, [3] = {.owner_may_end = true}};

typedef struct cond_model {
    weft_cond cond;
    mutex_model *mutex; /* NULL: none */
    waitq_model waitq;
} cond_model;

static cond_model conds[3] = {{.mutex = &mutexes[2]}, {.mutex = &mutexes[2]}, {.mutex = NULL}};

typedef struct rwlock_model {
    weft_rwlock lock;
    waitq_model waitq;
    actor *writer; /* holds the lock, or is expected to; NULL: none */
    size_t readers;
    bool owner_may_end; /* actors may end while they hold the write lock */
    bool is_dead;
} rwlock_model;

static rwlock_model rwlocks[3] = {[2] = {.owner_may_end = true}};

enum { READ, WRITE };

/* Mutexes. */

static bool lock_mutex(actor *me, mutex_model *m)
{
    enter_waitq(me, &m->waitq, 0, 0);
    if (m->is_dead)
        expect_at_once(me, -EOWNERDEAD);
    else if (m->owner == me)
        expect_at_once(me, -EDEADLK);
    else if (weft_mutex_owner(&m->mutex) == 0)
        expect_at_once(me, 0);
    int rc = weft_mutex_lock(&m->mutex);
    if (!check_result(me, rc, m->has_conds) || rc != 0)
        return false;
    REQUIRE(m->owner == NULL && weft_mutex_owner(&m->mutex) == me->id);
    m->owner = me;
    return true;
}

static bool try_lock_mutex(actor *me, mutex_model *m)
{
    weft_fiber owner = weft_mutex_owner(&m->mutex);
    int rc = weft_mutex_try_lock(&m->mutex);
    REQUIRE(rc == (m->is_dead ? -EOWNERDEAD : m->owner == me ? -EDEADLK : owner != 0 ? -EBUSY : 0));
    if (rc == 0)
        m->owner = me;
    return rc == 0;
}

static void unlock_mutex(actor *me, mutex_model *m)
{
    REQUIRE(m->owner == me);
    entry *next = first_waiting(&m->waitq);
    REQUIRE(weft_mutex_unlock(&m->mutex) == 0);
    REQUIRE(weft_mutex_unlock(&m->mutex) == -EPERM);
    m->owner = NULL;
    weft_fiber owner = weft_mutex_owner(&m->mutex);
    if (m->has_conds) {
        REQUIRE(next == NULL || owner != 0);
        return;
    }
    REQUIRE(owner == (next != NULL ? next->actor->id : 0));
    if (next != NULL)
        expect_woken(next, 0);
}

/* True if owner is inside a call that will return with the mutex. */
static bool is_about_to_own(const mutex_model *m, weft_fiber owner)
{
    for (const entry *e = m->waitq.first; e != NULL; e = e->next)
        if (e->actor->id == owner)
            return m->has_conds || e->actor->expectation == EXPECT_VALUE;
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        for (const entry *e = conds[i].waitq.first; e != NULL; e = e->next)
            if (e->actor->id == owner)
                return conds[i].mutex == m && !is_waiting(e);
    return false;
}

static void check_mutex(const mutex_model *m)
{
    weft_fiber owner = weft_mutex_owner(&m->mutex);
    if (m->owner != NULL)
        REQUIRE(owner == m->owner->id);
    else if (owner != 0)
        REQUIRE(is_about_to_own(m, owner));
    else
        REQUIRE(first_waiting(&m->waitq) == NULL);
}

/*
 * When no actor is runnable: an actor that has left the queue of a condition waits for the mutex.
 */
static void check_idle_mutex(const mutex_model *m)
{
    bool is_wanted = false;
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        for (const entry *e = conds[i].waitq.first; e != NULL; e = e->next)
            is_wanted |= conds[i].mutex == m && !is_waiting(e);
    REQUIRE(!is_wanted || m->owner != NULL);
}

static void do_mutex(actor *me)
{
    mutex_model *m = &mutexes[random_below(COUNT_OF(mutexes))];
    if (m->is_dead && random_below(4) == 0) { /* no waiters are left: initialise it again */
        REQUIRE(first_waiting(&m->waitq) == NULL);
        m->mutex = (weft_mutex){{0}};
        m->is_dead = false;
    }
    if (!(random_below(5) == 0 ? try_lock_mutex : lock_mutex)(me, m))
        return;
    check_mutex(m);
    run_ops_while_holding(me);
    if (m->owner_may_end && me->depth == 1 && random_below(8) == 0)
        me->ends_holding = true; /* will end with the mutex, without further calls */
    else
        unlock_mutex(me, m);
    check_mutex(m);
}

/* Conditions. */

static void wait_on_cond(actor *me, cond_model *c)
{
    mutex_model *m = c->mutex;
    bool is_refused = weft_is_cancelled();
    enter_waitq(me, &c->waitq, 0, 0);
    if (m != NULL && !is_refused)
        m->owner = NULL;
    int rc = weft_cond_wait(&c->cond, m != NULL ? &m->mutex : NULL);
    check_result(me, rc, false);
    if (m == NULL)
        return;
    REQUIRE(m->owner == (is_refused ? me : NULL));
    REQUIRE(weft_mutex_owner(&m->mutex) == me->id);
    m->owner = me;
}

static void signal_cond(cond_model *c, bool is_for_all)
{
    size_t n = list_waiting(&c->waitq, scratch, is_for_all ? ACTORS : 1);
    int rc = (is_for_all ? weft_cond_broadcast : weft_cond_signal)(&c->cond);
    REQUIRE(rc == (int)n);
    for (size_t i = 0; i < n; i++) {
        REQUIRE(!is_waiting(scratch[i]));
        expect_value(scratch[i], 0);
    }
}

static void do_cond(actor *me)
{
    cond_model *c = &conds[random_below(COUNT_OF(conds))];
    if (random_below(4) == 0)
        signal_cond(c, random_below(8) == 0);
    if (c->mutex != NULL && !lock_mutex(me, c->mutex))
        return;
    if (random_below(3) == 0)
        signal_cond(c, random_below(8) == 0);
    else
        wait_on_cond(me, c);
    if (c->mutex != NULL)
        unlock_mutex(me, c->mutex);
}

/*
 * Read-write locks. If a waiting writer gives up, other waiters may get the lock unknown to the
 * model.
 */

/*
 * Store the next holders of a free lock in scratch: one writer, or all readers before the next
 * writer. Return their number.
 */
static size_t find_next_holders(const rwlock_model *l)
{
    size_t n = list_waiting(&l->waitq, scratch, ACTORS), readers = 0;
    if (n > 0 && scratch[0]->mode == WRITE)
        return 1;
    while (readers < n && scratch[readers]->mode == READ)
        readers++;
    return readers;
}

static void unlock_rwlock(actor *me, rwlock_model *l)
{
    bool is_known = is_waitq_known(&l->waitq);
    if (l->writer == me) {
        l->writer = NULL;
    } else {
        REQUIRE(l->readers > 0);
        l->readers--;
    }
    size_t n = is_known && l->readers == 0 ? find_next_holders(l) : 0;
    REQUIRE(weft_rwlock_unlock(&l->lock) == 0);
    for (size_t i = 0; i < n; i++) {
        expect_woken(scratch[i], 0);
        if (scratch[i]->mode == WRITE)
            l->writer = scratch[i]->actor;
        else
            l->readers++;
    }
}

static bool can_lock_rwlock(const rwlock_model *l, int mode)
{
    return l->writer == NULL && (mode == READ ? first_waiting(&l->waitq) == NULL : l->readers == 0);
}

static void record_rwlock_locked(actor *me, rwlock_model *l, int mode)
{
    REQUIRE(l->writer == NULL);
    if (mode == READ) {
        l->readers++;
        return;
    }
    REQUIRE(l->readers == 0);
    l->writer = me;
}

static bool lock_rwlock(actor *me, rwlock_model *l, int mode)
{
    bool is_known = is_waitq_known(&l->waitq), is_free = can_lock_rwlock(l, mode);
    enter_waitq(me, &l->waitq, mode, 0);
    if (l->is_dead)
        expect_at_once(me, -EOWNERDEAD);
    else if (l->writer == me)
        expect_at_once(me, -EDEADLK);
    else if (is_known && is_free)
        expect_at_once(me, 0);
    int rc = (mode == READ ? weft_rwlock_read : weft_rwlock_write)(&l->lock);
    bool is_expected = me->woken_entry != NULL;
    if (!check_result(me, rc, true) || rc != 0)
        return false;
    if (!is_expected)
        record_rwlock_locked(me, l, mode);
    return true;
}

static bool try_rwlock(actor *me, rwlock_model *l, int mode)
{
    bool is_known = is_waitq_known(&l->waitq), is_free = can_lock_rwlock(l, mode);
    int rc = (mode == READ ? weft_rwlock_try_read : weft_rwlock_try_write)(&l->lock);
    if (l->is_dead || l->writer == me)
        REQUIRE(rc == (l->is_dead ? -EOWNERDEAD : -EDEADLK));
    else if (is_known)
        REQUIRE(rc == (is_free ? 0 : -EBUSY));
    else
        REQUIRE(rc == 0 || rc == -EBUSY);
    if (rc == 0)
        record_rwlock_locked(me, l, mode);
    return rc == 0;
}

static void check_rwlock(const rwlock_model *l)
{
    REQUIRE(l->writer == NULL || l->readers == 0);
    const entry *first = first_waiting(&l->waitq);
    if (first == NULL || !is_waitq_known(&l->waitq))
        return;
    REQUIRE(l->writer != NULL || (l->readers > 0 && first->mode == WRITE));
}

static void do_rwlock(actor *me)
{
    rwlock_model *l = &rwlocks[random_below(COUNT_OF(rwlocks))];
    int mode = random_below(3) == 0 ? WRITE : READ;
    if (l->is_dead && random_below(4) == 0) {
        REQUIRE(first_waiting(&l->waitq) == NULL);
        l->lock = (weft_rwlock){{0}};
        l->is_dead = false;
    }
    if (!(random_below(5) == 0 ? try_rwlock : lock_rwlock)(me, l, mode))
        return;
    check_rwlock(l);
    run_ops_while_holding(me);
    if (l->owner_may_end && l->writer == me && me->depth == 1 && random_below(8) == 0)
        me->ends_holding = true;
    else
        unlock_rwlock(me, l);
    check_rwlock(l);
}

/* Expect -EOWNERDEAD from all waiters of a lock. Its owner ends while it holds the lock. */

static void expect_owner_dead(const waitq_model *waitq)
{
    for (size_t n = list_waiting(waitq, scratch, ACTORS); n-- > 0;)
        expect_value(scratch[n], -EOWNERDEAD);
}

static void abandon_locks(const actor *me)
{
    for (size_t i = 0; i < COUNT_OF(mutexes); i++) {
        if (mutexes[i].owner != me)
            continue;
        mutexes[i].is_dead = true;
        mutexes[i].owner = NULL;
        expect_owner_dead(&mutexes[i].waitq);
    }
    for (size_t i = 0; i < COUNT_OF(rwlocks); i++) {
        if (rwlocks[i].writer != me)
            continue;
        rwlocks[i].is_dead = true;
        rwlocks[i].writer = NULL;
        expect_owner_dead(&rwlocks[i].waitq);
    }
}

static void check_locks(void)
{
    for (size_t i = 0; i < COUNT_OF(mutexes); i++)
        check_mutex(&mutexes[i]);
    for (size_t i = 0; i < COUNT_OF(rwlocks); i++)
        check_rwlock(&rwlocks[i]);
}

FIBER(wait_without_mutex, weft_cond_wait(arg, NULL))

static void open_locks(void)
{
    static char name[64];
    weft_cond cond = {{0}};
    record_wait_reason(name, wait_without_mutex, &cond);
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        conds[i].waitq.waits_for = name;
}

/* After the end of all actors: no lock is held. */
static void close_locks(void)
{
    check_locks();
    for (size_t i = 0; i < COUNT_OF(mutexes); i++)
        REQUIRE(mutexes[i].owner == NULL && weft_mutex_owner(&mutexes[i].mutex) == 0);
    for (size_t i = 0; i < COUNT_OF(rwlocks); i++)
        REQUIRE(weft_rwlock_try_write(&rwlocks[i].lock) == (rwlocks[i].is_dead ? -EOWNERDEAD : 0));
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        REQUIRE(weft_cond_broadcast(&conds[i].cond) == 0);
}

#endif
