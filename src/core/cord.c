/*
 * Threads that are started as cords: their beginning, who cancels and joins them, and their end, if
 * need be with the process. What others send them meanwhile is errand.c's.
 */
#include <weft/cord.h>

#include "core/tenure.h"

#include "base/clock.h"
#include "base/libc.h"
#include "base/thread.h"
#include "core/alarm.h"
#include "core/end.h"
#include "core/fork.h"
#include "core/port.h"
#include "core/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENURES_MAX (1u << WEFT__CORDS_BITS)

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* one of them has */
    bool are_ending;      /* the process does: whoever is started now, is cancelled */
    uint32_t ender;       /* meaningless before: the cord that does it; TENURES_MAX: none */
    bool is_new;          /* one was started since this was last false */
    weft__tenure *at[TENURES_MAX];
} tenures = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, 0, false, {NULL}};

/* The lock is held. NULL: it is gone, or was never started. */
static weft__tenure *find(weft_cord cord)
{
    weft__tenure *t = tenures.at[weft__fiber_cord(cord)];
    return t != NULL && t->id == cord ? t : NULL;
}

/* Why there is none: a thread that runs fibers, but was not started, or nothing. */
static int missing(weft_cord cord)
{
    if (weft__is_refused(weft__cord_self))
        return weft__no_cord();
    uint32_t index = weft__fiber_cord(cord);
    weft__cord *c = cord != 0 ? weft__port_visit(index) : NULL;
    bool is_there = c != NULL && c->main->id == cord;
    if (c != NULL)
        weft__port_leave(index);
    if (!is_there)
        return -ESRCH;
    return weft_fail(-EINVAL, "a thread that was not started by weft_cord_start");
}

/*
 * The thread's life.
 */

static weft_value work(weft__tenure *t)
{
    weft__tenure_hear_cancel(t->cord);
    if (t->cord->main->is_stopped) /* before it has begun */
        return weft__tenure_drop(t);
    /* Without a function it is there for what others send. */
    return t->fn != NULL ? t->fn(t->arg) : weft_suspend();
}

static void *run(void *arg)
{
    weft__tenure *t = arg;
    t->thread = pthread_self();
    if (t->name[0] != '\0') {
        char name[16]; /* the kernel's limit */
        snprintf(name, sizeof name, "%.15s", t->name);
        pthread_setname_np(pthread_self(), name);
    }
    weft__cord_settle(t->cord, t->backend);
    t->value = -ECANCELED; /* unless the function returns */
    t->value = work(t);
    if (weft__cord_self != t->cord || t->cord->tenure != t)
        weft__fork_return(t->value); /* in a child, which has no such thread */
    weft__cord_close(t->cord);
    return NULL;
}

static void cancel(weft__tenure *t, double grace_s);

static void note(weft_cord id, weft__tenure *t)
{
    pthread_mutex_lock(&tenures.lock);
    tenures.at[weft__fiber_cord(id)] = t;
    tenures.is_new |= t != NULL;
    if (t == NULL)
        pthread_cond_broadcast(&tenures.ended); /* it never began */
    else if (tenures.are_ending)
        cancel(t, 0);
    pthread_mutex_unlock(&tenures.lock);
}

/* 0 or -errno. */
static int begin(weft__tenure *t, int cpu, weft_cord *out)
{
    int rc = weft__cord_new(&t->cord);
    if (rc < 0)
        return rc;
    t->cord->tenure = t;
    t->cord->shares_ports = t->shares_ports;
    *out = t->id = t->cord->main->id;
    if (t->name[0] != '\0')
        memcpy(t->cord->main->name, t->name, sizeof t->name);
    weft__list_init(&t->joiners);
    note(t->id, t);
    pthread_t thread; /* not in t, which may already be freed: musl stores it after the start */
    rc = weft__thread_make_on(&thread, cpu, run, t);
    if (rc < 0) {
        note(t->id, NULL);
        weft__cord_free(t->cord);
    }
    return rc;
}

static int check(const weft_cord_options *o)
{
    if (o->cpu < 0 || o->cpu > CPU_SETSIZE)
        return weft_fail(-EINVAL, "there is no CPU %d; they are counted from 1", o->cpu);
    if (o->backend != NULL && weft__backend_known(o->backend) == NULL)
        return weft_fail(-EINVAL, "no backend '%s' is built in", o->backend);
    return 0;
}

weft_cord weft__cord_start(weft_fn *fn, void *arg, const weft_cord_options *o, bool shares_ports)
{
    if (weft__cord_here() == NULL || check(o) < 0) /* here: so that an error can have words */
        return 0;
    weft__tenure *t = calloc(1, sizeof *t);
    if (t == NULL) {
        weft_fail(-ENOMEM, "no memory for another thread");
        return 0;
    }
    t->fn = fn;
    t->arg = arg;
    t->drop = o->drop;
    t->shares_ports = shares_ports;
    t->backend = o->backend != NULL ? weft__backend_known(o->backend) : NULL;
    if (o->name != NULL)
        snprintf(t->name, sizeof t->name, "%s", o->name);
    weft__cord_check_now(weft__cord_self);
    weft_cord id = 0;
    int rc = begin(t, o->cpu, &id);
    if (rc == 0)
        return id;
    weft_fail(rc, "a thread cannot be started");
    free(t);
    return 0;
}

weft_cord weft_cord_start(weft_fn *fn, void *arg, const weft_cord_options *options)
{
    static const weft_cord_options none;
    return weft__cord_start(fn, arg, options != NULL ? options : &none, false);
}

/* Cancelling. */

static void deliver_cancel(weft__cord *c, weft__letter *l)
{
    weft__tenure *t = CONTAINER_OF(l, weft__tenure, cancel);
    weft__fiber *f = c != NULL && !t->is_cancel_heard ? weft__fiber_find(c, l->fiber) : NULL;
    if (f == NULL || f->phase == WEFT__ENDING)
        return;
    t->is_cancel_heard = true;
    f->life->grace_ns = l->value > 0 ? weft__deadline(c, (double)l->value * 1e-6) : 0;
    weft__fiber_end(c, f, -ECANCELED, WEFT__END_AS_TOLD);
}

/* The lock is held. The clocks of two cords need not agree: what travels is how much is left. */
static void cancel(weft__tenure *t, double grace_s)
{
    if (t->is_cancelled || t->has_ended)
        return;
    weft_value grace_us = (weft_value)(grace_s < 1e9 ? grace_s * 1e6 : 1e15);
    t->cancel = (weft__letter){NULL, deliver_cancel, t->id, grace_us};
    atomic_store_explicit(&t->is_cancelled, true, memory_order_release);
    (void)weft__cord_post(&t->cancel); /* too late: it ends by itself */
}

/* What is left of the time that a fiber of this cord has to end. */
static double grace_of(const weft__fiber *f)
{
    int64_t left_ns = f->life->grace_ns - weft__cord_now(weft__cord_self);
    return f->life->grace_ns != 0 && left_ns > 0 ? (double)left_ns * 1e-9 : 0;
}

int weft_cord_cancel(weft_cord cord)
{
    pthread_mutex_lock(&tenures.lock);
    weft__tenure *t = find(cord);
    bool is_running = t != NULL && !t->has_ended;
    if (is_running)
        cancel(t, 0);
    pthread_mutex_unlock(&tenures.lock);
    if (is_running)
        return 0;
    return t != NULL ? -ESRCH : missing(cord);
}

/*
 * Joining.
 */

/*
 * Someone who waits for the end. In memory of its own: a fiber whose frames are never returned to,
 * because its thread ends, leaves the letter that is on its way to it.
 */
typedef struct joiner {
    weft__list link; /* in the tenure's, under the lock; empty: it has been told */
    weft__letter letter;
    weft__tenure *tenure;
    weft__error *words; /* for this one; NULL: none */
} joiner;

/* Nobody wants it any more. may_wait: for the last steps of its thread. */
static void reap(weft__tenure *t, bool may_wait)
{
    if (may_wait)
        pthread_join(t->thread, NULL);
    else
        pthread_detach(t->thread);
    weft__port_free(weft__fiber_cord(t->id));
    weft__error_unref(t->words);
    free(t);
}

/* One who was told is done with it; the last one clears up. */
static void let_go(weft__tenure *t, bool may_wait)
{
    pthread_mutex_lock(&tenures.lock);
    bool was_last = --t->told == 0;
    if (was_last)
        tenures.at[weft__fiber_cord(t->id)] = NULL;
    pthread_mutex_unlock(&tenures.lock);
    if (was_last)
        reap(t, may_wait);
}

static void drop(joiner *j)
{
    let_go(j->tenure, false);
    weft__error_unref(j->words);
    free(j);
}

static bool leave_cord(weft__fiber *f);

static const weft__wait_kind waits_cord = {"the end of a thread", .leave = leave_cord};
static const weft__wait_kind waits_for_good = {.name = "the end of a thread, whatever happens",
                                               .is_owed = true};

static void deliver_end(weft__cord *c, weft__letter *l)
{
    joiner *j = CONTAINER_OF(l, joiner, letter);
    weft__fiber *f = weft__fiber_waiting(c, l->fiber, j);
    if (f != NULL)
        weft__wake(c, f, weft__settle(f, l->value), WEFT__TAIL);
    else
        drop(j);
}

/*
 * A caller that is being stopped passes it on and waits; anything else that cuts the wait short
 * ends only the wait. One that has been told is woken in a moment.
 */
static bool leave_cord(weft__fiber *f)
{
    joiner *j = f->wait_object;
    bool is_stop = weft__alarm_is_stop(f);
    pthread_mutex_lock(&tenures.lock);
    bool is_out = !is_stop && !weft__list_is_empty(&j->link);
    if (is_out)
        weft__list_remove(&j->link);
    else if (is_stop)
        cancel(j->tenure, grace_of(f));
    pthread_mutex_unlock(&tenures.lock);
    f->waits_in = &waits_for_good;
    if (is_out) {
        f->wait_object = NULL;
        free(j);
    }
    return is_out;
}

/* The lock is held. */
static void tell(weft__tenure *t, joiner *j)
{
    t->told++;
    weft__list_remove(&j->link);
    j->words = weft__error_clone(t->words);
    j->letter.value = t->value;
    if (weft__cord_post(&j->letter) == 0)
        return;
    t->told--; /* its thread has ended, and did not get to leave */
    weft__error_unref(j->words);
    free(j);
}

void weft__tenure_settle(weft__tenure *t, weft__cord *c)
{
    t->value = weft__cord_end(c, t->value, &t->words);
}

/*
 * The lock is held. A thread that nobody ends, the first above all, is not to go on because others
 * end with the process, which yet another one has chosen to end: it might return from main.
 */
static bool is_held_back(weft_fiber fiber)
{
    uint32_t index = weft__fiber_cord(fiber);
    return tenures.are_ending && tenures.at[index] == NULL && index != tenures.ender;
}

/* The lock is held. */
static void end(weft__tenure *t)
{
    t->has_ended = true;
    for (weft__list *node = t->joiners.next, *next; node != &t->joiners; node = next) {
        joiner *j = CONTAINER_OF(node, joiner, link);
        next = node->next;
        if (!is_held_back(j->letter.fiber))
            tell(t, j);
    }
    pthread_cond_broadcast(&tenures.ended);
}

void weft__tenure_end(weft__tenure *t)
{
    pthread_mutex_lock(&tenures.lock);
    end(t);
    pthread_mutex_unlock(&tenures.lock);
}

void weft__tenure_exit(weft__tenure *t)
{
    pthread_mutex_lock(&tenures.lock);
    t->told++; /* for good: its thread still runs, and whoever joins it is not to wait for that */
    end(t);
    pthread_mutex_unlock(&tenures.lock);
}

/* What came of it, for the current fiber. */
static weft_value take(weft__cord *c, weft__tenure *t, weft_value value, weft__error *words)
{
    let_go(t, true);
    if (weft_is_error(value))
        weft__error_set(c->current, words);
    else
        weft__error_unref(words);
    return value;
}

/* The lock is held; it gives it up. */
static weft_value wait_for(weft__cord *c, weft__tenure *t)
{
    weft__fiber *f = c->current;
    bool is_stop = f->alarm && weft__alarm_is_stop(f);
    joiner *j = malloc(sizeof *j);
    if (j == NULL) {
        pthread_mutex_unlock(&tenures.lock);
        return -ENOMEM;
    }
    *j = (joiner){.letter = {NULL, deliver_end, f->id, 0}, .tenure = t};
    weft__list_insert(&t->joiners, &j->link);
    if (is_stop)
        cancel(t, grace_of(f));
    pthread_mutex_unlock(&tenures.lock);
    weft_value value = weft__wait(c, is_stop ? &waits_for_good : &waits_cord, j);
    if (f->wait_object != j)
        return value; /* it has left */
    weft__error *words = j->words;
    free(j);
    return take(c, t, value, words);
}

weft_value weft_cord_join(weft_cord cord)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    pthread_mutex_lock(&tenures.lock);
    weft__tenure *t = find(cord);
    bool is_held = is_held_back(c->main->id);
    bool has_ended = t != NULL && t->has_ended && !is_held;
    bool may_wait = t != NULL && !has_ended && t->id != c->main->id &&
                    (!c->current->alarm || weft__alarm_is_stop(c->current));
    if (may_wait)
        return wait_for(c, t);
    weft_value value = has_ended ? t->value : 0;
    weft__error *words = has_ended ? weft__error_clone(t->words) : NULL;
    if (has_ended)
        t->told++;
    pthread_mutex_unlock(&tenures.lock);
    if (has_ended)
        return take(c, t, value, words);
    if (cord == c->main->id)
        return -EDEADLK;
    if (t == NULL && is_held)
        weft__thread_stay();
    return t == NULL ? missing(cord) : weft__refuse(c);
}

/*
 * The end of the process.
 */

void weft__tenures_close(const weft__cord *by)
{
    pthread_mutex_lock(&tenures.lock);
    tenures.are_ending = true;
    tenures.ender = by != NULL ? by->index : TENURES_MAX;
    pthread_mutex_unlock(&tenures.lock);
}

void weft__tenures_cancel(const weft__tenure *except, double grace_s)
{
    pthread_mutex_lock(&tenures.lock);
    for (uint32_t i = 0; i < TENURES_MAX; i++)
        if (tenures.at[i] != NULL && tenures.at[i] != except)
            cancel(tenures.at[i], grace_s);
    pthread_mutex_unlock(&tenures.lock);
}

/* The lock is held, and given up meanwhile. False: it is late, and one of them has not ended. */
static bool wait_at(uint32_t i, const weft__tenure *except, int64_t until_ns)
{
    const struct timespec until = weft__clock_spec(until_ns);
    const weft__tenure *t; /* others may join it meanwhile, and it is gone */
    while ((t = tenures.at[i]) != NULL && t != except && !t->has_ended)
        if (pthread_cond_clockwait(&tenures.ended, &tenures.lock, CLOCK_MONOTONIC, &until) != 0)
            return false;
    return true;
}

bool weft__tenures_are_over(const weft__tenure *except, int64_t until_ns)
{
    bool are_over = true;
    pthread_mutex_lock(&tenures.lock);
    for (uint32_t i = 0; i < TENURES_MAX && are_over; i++)
        are_over = wait_at(i, except, until_ns);
    pthread_mutex_unlock(&tenures.lock);
    return are_over;
}

/* A handler may have come while the lock was held: then they are not named. */
void weft__tenures_name_left(const weft__tenure *except,
                             void (*say)(weft_cord id, const char *name))
{
    if (pthread_mutex_trylock(&tenures.lock) != 0)
        return;
    for (uint32_t i = 0; i < TENURES_MAX; i++) {
        const weft__tenure *t = tenures.at[i];
        if (t != NULL && t != except && !t->has_ended)
            say(t->id, t->name);
    }
    pthread_mutex_unlock(&tenures.lock);
}

/* Nobody has asked what came of it. */
static bool has_failed_unseen(const weft__tenure *t)
{
    bool was_asked_for = t->is_cancelled && t->value == -ECANCELED;
    return t->has_ended && t->told == 0 && weft_is_error(t->value) && !was_asked_for;
}

/* The lock is held, and given up meanwhile. Nobody will ask for it any more. */
static void reap_ended(uint32_t i)
{
    weft__tenure *t = tenures.at[i];
    if (!t->has_ended || t->told > 0)
        return;
    if (!weft__list_is_empty(&t->joiners)) { /* one that is held back: it stays */
        t->told = 1;
        pthread_detach(t->thread);
        return;
    }
    tenures.at[i] = NULL;
    pthread_mutex_unlock(&tenures.lock);
    reap(t, true);
    pthread_mutex_lock(&tenures.lock);
}

/* The same. It has ended, or would not. True: it failed, or is cut off. */
static bool take_leave(uint32_t i, bool has_ended)
{
    const weft__tenure *t = tenures.at[i];
    bool has_failed = has_failed_unseen(t);
    if (!has_ended)
        weft__report("thread #%llu '%s' would not end with the process", (unsigned long long)t->id,
                     t->name);
    if (has_failed)
        weft__report_unhandled(t->words, (int)t->value);
    reap_ended(i);
    return has_failed || !has_ended;
}

bool weft__tenures_wait(const weft__tenure *except)
{
    int64_t until_ns = weft__clock_ns() + WEFT__EXIT_GRACE_S * (int64_t)WEFT__NS_PER_S;
    bool have_failed = false, have_ended = true;
    pthread_mutex_lock(&tenures.lock);
    do { /* again, if one was started where it had been looked before */
        tenures.is_new = false;
        for (uint32_t i = 0; i < TENURES_MAX; i++) {
            bool has_ended = wait_at(i, except, until_ns);
            have_ended &= has_ended;
            if (tenures.at[i] != NULL && tenures.at[i] != except)
                have_failed |= take_leave(i, has_ended);
        }
    } while (tenures.is_new && have_ended);
    pthread_mutex_unlock(&tenures.lock);
    return have_failed;
}

void weft__tenures_renew(void)
{
    tenures.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it */
    pthread_cond_init(&tenures.ended, NULL);
    tenures.are_ending = false;
    memset(tenures.at, 0, sizeof tenures.at);
}

weft_cord weft_cord_self(void)
{
    return weft_main();
}
