/* The model of locks and conditions: what test_sync_random.c does with them, and what must hold. */
#ifndef TESTS_SYNC_LOCKS_H
#define TESTS_SYNC_LOCKS_H

#include "sync_model.h"

typedef struct mutex_model {
    weft_mutex mutex;
    place line;
    actor *owner; /* who knows that it has it; NULL: nobody */
    bool
        has_conds; /* those who come back from a condition stand in line too: nothing is promised */
    bool is_mortal; /* some end while they hold it */
    bool is_dead;
} mutex_model;

static mutex_model mutexes[4] = {[2] = {.has_conds = true}, [3] = {.is_mortal = true}};

typedef struct cond_model {
    weft_cond cond;
    mutex_model *mutex; /* NULL: none */
    place line;
} cond_model;

static cond_model conds[3] = {{.mutex = &mutexes[2]}, {.mutex = &mutexes[2]}, {.mutex = NULL}};

typedef struct rwlock_model {
    weft_rwlock lock;
    place line;
    actor *writer; /* has it, or it was promised to it */
    size_t readers;
    bool is_mortal; /* some end while they write */
    bool is_dead;
} rwlock_model;

static rwlock_model rwlocks[3] = {[2] = {.is_mortal = true}};

enum { READ, WRITE };

/* Mutexes. */

static bool lock(actor *me, mutex_model *m)
{
    enter(me, &m->line, 0, 0);
    if (m->is_dead)
        keep(me, -EOWNERDEAD);
    else if (m->owner == me)
        keep(me, -EDEADLK);
    else if (weft_mutex_owner(&m->mutex) == 0)
        keep(me, 0);
    int rc = weft_mutex_lock(&m->mutex);
    if (!judge(me, rc, m->has_conds) || rc != 0)
        return false;
    REQUIRE(m->owner == NULL && weft_mutex_owner(&m->mutex) == me->id);
    m->owner = me;
    return true;
}

static bool try_lock(actor *me, mutex_model *m)
{
    weft_fiber owner = weft_mutex_owner(&m->mutex);
    int rc = weft_mutex_try_lock(&m->mutex);
    REQUIRE(rc == (m->is_dead ? -EOWNERDEAD : m->owner == me ? -EDEADLK : owner != 0 ? -EBUSY : 0));
    if (rc == 0)
        m->owner = me;
    return rc == 0;
}

static void unlock(actor *me, mutex_model *m)
{
    REQUIRE(m->owner == me);
    entry *next = first_in(&m->line);
    REQUIRE(weft_mutex_unlock(&m->mutex) == 0);
    REQUIRE(weft_mutex_unlock(&m->mutex) == -EPERM);
    m->owner = NULL;
    weft_fiber owner = weft_mutex_owner(&m->mutex);
    if (m->has_conds) {
        REQUIRE(next == NULL || owner != 0);
        return;
    }
    REQUIRE(owner == (next != NULL ? next->who->id : 0));
    if (next != NULL)
        promise(next, 0);
}

/* Who owns a mutex without having run since is in a call that returns with it. */
static bool is_about_to_own(const mutex_model *m, weft_fiber owner)
{
    for (const entry *e = m->line.first; e != NULL; e = e->next)
        if (e->who->id == owner)
            return m->has_conds || e->who->fate == KEPT;
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        for (const entry *e = conds[i].line.first; e != NULL; e = e->next)
            if (e->who->id == owner)
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
        REQUIRE(first_in(&m->line) == NULL);
}

/* With nobody runnable: who is not in the line of a condition any more waits for the mutex. */
static void check_idle_mutex(const mutex_model *m)
{
    bool is_wanted = false;
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        for (const entry *e = conds[i].line.first; e != NULL; e = e->next)
            is_wanted |= conds[i].mutex == m && !is_waiting(e);
    REQUIRE(!is_wanted || m->owner != NULL);
}

static void do_mutex(actor *me)
{
    mutex_model *m = &mutexes[roll(COUNT_OF(mutexes))];
    if (m->is_dead && roll(4) == 0) { /* everyone who waited has been told: set it right */
        REQUIRE(first_in(&m->line) == NULL);
        m->mutex = (weft_mutex){{0}};
        m->is_dead = false;
    }
    if (!(roll(5) == 0 ? try_lock : lock)(me, m))
        return;
    check_mutex(m);
    act_while_holding(me);
    if (m->is_mortal && me->depth == 1 && roll(8) == 0)
        me->is_mortal = true; /* it will end with it, and does nothing more before */
    else
        unlock(me, m);
    check_mutex(m);
}

/* Conditions. */

static void wait_for_signal(actor *me, cond_model *c)
{
    mutex_model *m = c->mutex;
    bool is_refused = weft_is_cancelled();
    enter(me, &c->line, 0, 0);
    if (m != NULL && !is_refused)
        m->owner = NULL;
    int rc = weft_cond_wait(&c->cond, m != NULL ? &m->mutex : NULL);
    judge(me, rc, false);
    if (m == NULL)
        return;
    REQUIRE(m->owner == (is_refused ? me : NULL));
    REQUIRE(weft_mutex_owner(&m->mutex) == me->id);
    m->owner = me;
}

static void give_signal(cond_model *c, bool is_for_all)
{
    size_t n = waiting_in(&c->line, scratch, is_for_all ? ACTORS : 1);
    int rc = (is_for_all ? weft_cond_broadcast : weft_cond_signal)(&c->cond);
    REQUIRE(rc == (int)n);
    for (size_t i = 0; i < n; i++) {
        REQUIRE(!is_waiting(scratch[i]));
        pledge(scratch[i], 0);
    }
}

static void do_cond(actor *me)
{
    cond_model *c = &conds[roll(COUNT_OF(conds))];
    if (roll(4) == 0)
        give_signal(c, roll(8) == 0);
    if (c->mutex != NULL && !lock(me, c->mutex))
        return;
    if (roll(3) == 0)
        give_signal(c, roll(8) == 0);
    else
        wait_for_signal(me, c);
    if (c->mutex != NULL)
        unlock(me, c->mutex);
}

/* Locks for readers and writers. Who waits to write and goes away may let others in unseen. */

/*
 * Those who get it when nobody has it any more, into scratch: one writer, or all readers before the
 * next one.
 */
static size_t find_next(const rwlock_model *l)
{
    size_t n = waiting_in(&l->line, scratch, ACTORS), readers = 0;
    if (n > 0 && scratch[0]->how == WRITE)
        return 1;
    while (readers < n && scratch[readers]->how == READ)
        readers++;
    return readers;
}

static void unlock_rwlock(actor *me, rwlock_model *l)
{
    bool is_known = is_clear(&l->line);
    if (l->writer == me) {
        l->writer = NULL;
    } else {
        REQUIRE(l->readers > 0);
        l->readers--;
    }
    size_t n = is_known && l->readers == 0 ? find_next(l) : 0;
    REQUIRE(weft_rwlock_unlock(&l->lock) == 0);
    for (size_t i = 0; i < n; i++) {
        promise(scratch[i], 0);
        if (scratch[i]->how == WRITE)
            l->writer = scratch[i]->who;
        else
            l->readers++;
    }
}

static bool can_have(const rwlock_model *l, int how)
{
    return l->writer == NULL && (how == READ ? first_in(&l->line) == NULL : l->readers == 0);
}

static void have_rwlock(actor *me, rwlock_model *l, int how)
{
    REQUIRE(l->writer == NULL);
    if (how == READ) {
        l->readers++;
        return;
    }
    REQUIRE(l->readers == 0);
    l->writer = me;
}

static bool lock_rwlock(actor *me, rwlock_model *l, int how)
{
    bool is_known = is_clear(&l->line), is_free = can_have(l, how);
    enter(me, &l->line, how, 0);
    if (l->is_dead)
        keep(me, -EOWNERDEAD);
    else if (l->writer == me)
        keep(me, -EDEADLK);
    else if (is_known && is_free)
        keep(me, 0);
    int rc = (how == READ ? weft_rwlock_read : weft_rwlock_write)(&l->lock);
    bool is_promised = me->served != NULL;
    if (!judge(me, rc, true) || rc != 0)
        return false;
    if (!is_promised)
        have_rwlock(me, l, how);
    return true;
}

static bool try_rwlock(actor *me, rwlock_model *l, int how)
{
    bool is_known = is_clear(&l->line), is_free = can_have(l, how);
    int rc = (how == READ ? weft_rwlock_try_read : weft_rwlock_try_write)(&l->lock);
    if (l->is_dead || l->writer == me)
        REQUIRE(rc == (l->is_dead ? -EOWNERDEAD : -EDEADLK));
    else if (is_known)
        REQUIRE(rc == (is_free ? 0 : -EBUSY));
    else
        REQUIRE(rc == 0 || rc == -EBUSY);
    if (rc == 0)
        have_rwlock(me, l, how);
    return rc == 0;
}

static void check_rwlock(const rwlock_model *l)
{
    REQUIRE(l->writer == NULL || l->readers == 0);
    const entry *first = first_in(&l->line);
    if (first == NULL || !is_clear(&l->line))
        return;
    REQUIRE(l->writer != NULL || (l->readers > 0 && first->how == WRITE));
}

static void do_rwlock(actor *me)
{
    rwlock_model *l = &rwlocks[roll(COUNT_OF(rwlocks))];
    int how = roll(3) == 0 ? WRITE : READ;
    if (l->is_dead && roll(4) == 0) {
        REQUIRE(first_in(&l->line) == NULL);
        l->lock = (weft_rwlock){{0}};
        l->is_dead = false;
    }
    if (!(roll(5) == 0 ? try_rwlock : lock_rwlock)(me, l, how))
        return;
    check_rwlock(l);
    act_while_holding(me);
    if (l->is_mortal && l->writer == me && me->depth == 1 && roll(8) == 0)
        me->is_mortal = true;
    else
        unlock_rwlock(me, l);
    check_rwlock(l);
}

/* An actor ends now with what it holds: all who wait are told, and all who come. */

static void tell_all(const place *line)
{
    for (size_t n = waiting_in(line, scratch, ACTORS); n-- > 0;)
        pledge(scratch[n], -EOWNERDEAD);
}

static void die_holding(const actor *me)
{
    for (size_t i = 0; i < COUNT_OF(mutexes); i++) {
        if (mutexes[i].owner != me)
            continue;
        mutexes[i].is_dead = true;
        mutexes[i].owner = NULL;
        tell_all(&mutexes[i].line);
    }
    for (size_t i = 0; i < COUNT_OF(rwlocks); i++) {
        if (rwlocks[i].writer != me)
            continue;
        rwlocks[i].is_dead = true;
        rwlocks[i].writer = NULL;
        tell_all(&rwlocks[i].line);
    }
}

static void check_locks(void)
{
    for (size_t i = 0; i < COUNT_OF(mutexes); i++)
        check_mutex(&mutexes[i]);
    for (size_t i = 0; i < COUNT_OF(rwlocks); i++)
        check_rwlock(&rwlocks[i]);
}

static weft_value wait_without_mutex(void *cond)
{
    return weft_cond_wait(cond, NULL);
}

static void open_locks(void)
{
    static char name[64];
    weft_cond cond = {{0}};
    learn_reason(name, wait_without_mutex, &cond);
    for (size_t i = 0; i < COUNT_OF(conds); i++)
        conds[i].line.waits_for = name;
}

/* Everyone is dead: all is free. */
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
