/*
 * Fibers that wait for signals, and signal handlers. The signal thread (signal_thread.h) sends a
 * remote message to each waiting fiber, and to the thread that installed a handler.
 *
 * One lock protects all state. The real signal handler does not take the lock. The messages are
 * members of their objects, so sending a message allocates no memory.
 */
#include "core/signal/signal.h"

#include "base/libc.h"
#include "core/cord/inbox.h"
#include "core/debug/diag.h"
#include "core/lifetime/cancel.h"
#include "core/signal/signal_mask.h"

#include <weft/signal.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A waiting fiber. The lock protects link, is_sent and is_taken. */
typedef struct weft__signal_waiter {
    weft__remote_msg msg; /* to the fiber */
    /*
     * In state.waiters. After msg was sent: the other waiters with a message of the same
     * occurrence, a circular list without a head.
     */
    weft__list link;
    uint64_t mask; /* bit n: signal n + 1 */
    weft_fiber fiber;
    bool (*offer)(void *owner, int sig); /* NULL: the fiber is in weft_wait_signal */
    void *owner;   /* argument of offer; NULL: the wait is over, but msg is in flight */
    bool is_held;  /* the fiber is not a daemon */
    bool is_sent;  /* msg was sent */
    bool is_taken; /* another waiter has taken the occurrence */
} signal_waiter;

/* An installed handler. */
typedef struct registration {
    weft__remote_msg msg; /* to the main fiber */
    weft__signal_handler handler;
    weft_fiber main;      /* the main fiber of the thread that installed the handler */
    unsigned undelivered; /* occurrences of the signal that act has not handled yet */
    bool is_posted;       /* msg is in flight */
    bool is_dropped;      /* the handler was removed; the delivery of msg frees the registration */
} registration;

/* The state of one signal. */
typedef struct signal_state {
    registration *registration; /* NULL: no handler */
    unsigned queued;            /* occurrences that the next waits take */
    /* A fiber has waited for the signal. Occurrences without a waiter are then queued. */
    bool is_awaited;
} signal_state;

static struct {
    pthread_mutex_t lock;
    weft__list waiters; /* list of signal_waiter.link */
    signal_state entry[WEFT__SIGNALS_END];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .waiters = {&state.waiters, &state.waiters}};

/* Exit hook that removes the handlers of a thread when its main fiber ends. */
static __thread struct {
    weft__exit_hook exit_hook;
    weft_fiber main; /* 0: exit_hook is not installed */
} this_thread;

/* Add delta to the number of signals that the calling thread waits for. */
static void add_signals_due(weft__cord *c, bool is_held, int delta)
{
    c->signals_due += (size_t)delta;
    c->held_signals += is_held ? (size_t)delta : 0;
}

/*
 * Delivery.
 */

/* Remove and free a waiter. Return false if its message is in flight. */
static bool signal_leave(signal_waiter *w)
{
    pthread_mutex_lock(&state.lock);
    bool is_sent = w->is_sent;
    if (!is_sent)
        weft__list_remove(&w->link);
    pthread_mutex_unlock(&state.lock);
    if (is_sent)
        return false;
    add_signals_due(weft__cord_self, w->is_held, -1);
    free(w);
    return true;
}

static const weft__wait_kind waits_delivery = {.name = "the delivery of a signal"};

static bool leave_signal(weft__fiber *f)
{
    bool has_left = signal_leave(f->wait_object);
    if (!has_left)
        f->waits_in = &waits_delivery;
    return has_left;
}

static const weft__wait_kind waits_signal = {"a signal", .leave = leave_signal};

static bool signal_wake_waiters(int sig);

/*
 * Record whether the fiber of a waiter has taken its occurrence. If no fiber takes the occurrence,
 * give it to the fibers that wait now, or store it. The caller must hold the lock.
 */
static void occurrence_settle(signal_waiter *w, bool is_taken)
{
    int sig = (int)w->msg.value;
    bool is_last = weft__list_is_empty(&w->link);
    if (is_taken && !w->is_taken)
        WEFT__LIST_FOR(node, &w->link)
            CONTAINER_OF(node, signal_waiter, link)->is_taken = true;
    weft__list_remove(&w->link);
    if (is_last && !is_taken && !w->is_taken && !signal_wake_waiters(sig))
        state.entry[sig].queued += state.entry[sig].is_awaited;
}

/* Offer a signal to the fiber of a waiter. Return false if the fiber does not take the signal. */
static bool signal_offer(weft__cord *c, signal_waiter *w)
{
    int sig = (int)w->msg.value;
    if (w->offer != NULL)
        return w->owner != NULL && w->offer(w->owner, sig);
    weft__fiber *f = weft__fiber_waiting(c, w->fiber, w);
    if (f != NULL)
        weft__wake(c, f, weft__cancel_resolve(f, sig), WEFT__TAIL);
    return f != NULL;
}

static void deliver_signal(weft__cord *c, weft__remote_msg *msg)
{
    signal_waiter *w = CONTAINER_OF(msg, signal_waiter, msg);
    bool is_taken = c != NULL && signal_offer(c, w);
    if (c != NULL)
        add_signals_due(c, w->is_held, -1);
    pthread_mutex_lock(&state.lock);
    occurrence_settle(w, is_taken);
    pthread_mutex_unlock(&state.lock);
    free(w);
}

static void deliver_to_handler(weft__cord *c, weft__remote_msg *msg)
{
    registration *r = CONTAINER_OF(msg, registration, msg);
    pthread_mutex_lock(&state.lock);
    unsigned times = r->undelivered;
    bool is_dropped = r->is_dropped;
    const weft__signal_handler handler = r->handler;
    r->undelivered = 0;
    r->is_posted = false;
    pthread_mutex_unlock(&state.lock);
    if (is_dropped) {
        if (c != NULL && handler.is_held)
            add_signals_due(c, true, -1);
        free(r);
    } else if (c != NULL && times > 0) {
        handler.act(c, &handler, times);
    }
}

/*
 * Send msg to the thread of the handler. If the thread has ended, free r and return false. The
 * caller must hold the lock.
 */
static bool registration_post(registration *r)
{
    if (r->is_posted)
        return true;
    r->msg = (weft__remote_msg){NULL, deliver_to_handler, r->main, 0, 0};
    r->is_posted = true;
    if (weft__cord_post(&r->msg) == 0)
        return true;
    free(r);
    return false;
}

/*
 * Remove a handler. Send a message to its thread, because the thread may wait only for this signal.
 * The caller must hold the lock.
 */
static void registration_drop(signal_state *entry)
{
    registration *r = entry->registration;
    entry->registration = NULL;
    if (r == NULL)
        return;
    weft__signal_thread_set_hook(r->handler.sig, NULL);
    r->is_dropped = true;
    registration_post(r);
}

/*
 * Wake all fibers that wait for the signal. Return true if there was a waiting fiber. The caller
 * must hold the lock.
 */
static bool signal_wake_waiters(int sig)
{
    weft__list woken, *next;
    weft__list_init(&woken);
    for (weft__list *node = state.waiters.next; node != &state.waiters; node = next) {
        signal_waiter *w = CONTAINER_OF(node, signal_waiter, link);
        next = node->next;
        if (!(w->mask & weft__signal_bit(sig)))
            continue;
        weft__list_remove(node);
        w->msg = (weft__remote_msg){NULL, deliver_signal, w->fiber, sig, 0};
        w->is_sent = true;
        if (weft__cord_post(&w->msg) == 0)
            weft__list_insert(&woken, node); /* the delivery waits for the lock */
        else
            free(w);
    }
    bool has_waiters = !weft__list_is_empty(&woken);
    weft__list_unlink(&woken);
    return has_waiters;
}

/* Deliver `times` occurrences of a signal. The caller must hold the lock. */
static void signal_dispatch(int sig, unsigned times)
{
    signal_state *entry = &state.entry[sig];
    unsigned taken_count = signal_wake_waiters(sig); /* one occurrence wakes all waiting fibers */
    if (entry->is_awaited)
        entry->queued += times - taken_count;
    if (entry->registration == NULL)
        return;
    entry->registration->undelivered += times;
    if (!registration_post(entry->registration))
        entry->registration = NULL;
}

/* Deliver all signals that the real handler has counted. The caller must hold the lock. */
static void dispatch_all(void)
{
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        unsigned times = weft__signal_thread_take(sig);
        if (times > 0)
            signal_dispatch(sig, times);
    }
}

static void on_signals(void)
{
    pthread_mutex_lock(&state.lock);
    dispatch_all();
    pthread_mutex_unlock(&state.lock);
}

/* Stop catching a signal. The caller must hold the lock. */
static void disposition_restore(int sig)
{
    state.entry[sig].is_awaited = false;
    state.entry[sig].queued = 0;
    weft__signal_thread_release(sig);
}

static void signal_before_fork(void)
{
    pthread_mutex_lock(&state.lock);
}

static void signal_after_fork(void)
{
    pthread_mutex_unlock(&state.lock);
}

/* Reset the state in the child. Waiters and handlers exist only in the parent. */
static void signal_after_fork_child(void)
{
    /* The hook is still in main, which may be the only fiber of the child. */
    if (this_thread.main != 0)
        weft__exit_hook_remove(&this_thread.exit_hook);
    weft__signal_thread_reset();
    memset(state.entry, 0, sizeof state.entry);
    weft__list_init(&state.waiters);
    this_thread.main = 0;
    if (weft__cord_self != NULL)
        weft__cord_self->signals_due = weft__cord_self->held_signals = 0;
    pthread_mutex_unlock(&state.lock);
}

static int atfork_error;

static void signal_install_atfork(void)
{
    atfork_error = pthread_atfork(signal_before_fork, signal_after_fork, signal_after_fork_child);
}

/* Install the fork handlers once, and take the lock. Return 0 or a negative errno. */
static int state_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, signal_install_atfork);
    if (atfork_error != 0)
        return -atfork_error;
    pthread_mutex_lock(&state.lock);
    return 0;
}

/*
 * weft_wait_signal.
 */

/* Report an invalid set. mask is the result of weft__signal_mask. */
COLD static int refuse_set(uint64_t mask)
{
    if (mask == 0)
        return weft_fail(-EINVAL, "weft_wait_signal: set is empty");
    return weft_fail(-EINVAL, "weft_wait_signal: set contains SIG%s, which is not supported",
                     sigabbrev_np(__builtin_ctzll(mask) + 1));
}

/* Catch all signals of a mask. The caller must hold the lock. */
static int catch_mask(uint64_t mask)
{
    int rc = 0;
    for (int sig = 1; sig < WEFT__SIGNALS_END && rc == 0; sig++) {
        if (!(mask & weft__signal_bit(sig)))
            continue;
        rc = weft__signal_thread_catch(sig, on_signals);
        state.entry[sig].is_awaited |= rc == 0;
    }
    return rc;
}

/* Return a queued signal of the mask, or 0 if there is none. The caller must hold the lock. */
static int find_queued(uint64_t mask)
{
    dispatch_all(); /* the signal thread may not have run yet */
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++)
        if ((mask & weft__signal_bit(sig)) && state.entry[sig].queued > 0)
            return sig;
    return 0;
}

/*
 * Return the number of a queued signal. Take the signal if is_taken is true. If no signal is
 * queued, add waiter to the waiters, unless waiter is NULL, and return 0. Return a negative errno
 * on failure.
 */
static int poll_or_wait(uint64_t mask, bool is_taken, signal_waiter *waiter)
{
    int rc = state_lock();
    if (rc < 0)
        return rc;
    rc = catch_mask(mask);
    if (rc == 0)
        rc = find_queued(mask);
    if (rc > 0 && is_taken)
        state.entry[rc].queued--;
    if (rc == 0 && waiter != NULL)
        weft__list_insert(&state.waiters, &waiter->link);
    pthread_mutex_unlock(&state.lock);
    return rc;
}

int weft__signal_poll(uint64_t mask, bool is_taken)
{
    return poll_or_wait(mask, is_taken, NULL);
}

int weft__signal_begin(weft__cord *c, uint64_t mask, bool (*offer)(void *owner, int sig),
                       void *owner, weft__signal_waiter **waiter)
{
    signal_waiter *w = malloc(sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    *w = (signal_waiter){.mask = mask, .fiber = c->current->id, .offer = offer, .owner = owner};
    w->is_held = !c->current->is_daemon;
    int rc = poll_or_wait(mask, true, w);
    if (rc == 0) {
        add_signals_due(c, w->is_held, 1);
        *waiter = w;
    } else {
        free(w);
    }
    return rc;
}

void weft__signal_end(weft__signal_waiter *w)
{
    if (!signal_leave(w))
        w->owner = NULL;
}

int weft_wait_signal(const sigset_t *set)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    uint64_t mask;
    if (weft__signal_mask(set, &mask) < 0)
        return refuse_set(mask);
    signal_waiter *w = NULL;
    int rc = weft__signal_poll(mask, true);
    if (rc == 0 && c->current->pending)
        return (int)weft__call_refuse(c);
    if (rc == 0)
        rc = weft__signal_begin(c, mask, NULL, NULL, &w);
    return w != NULL ? weft__wait_int(c, &waits_signal, w) : rc;
}

/*
 * Handlers.
 */

/*
 * Remove the handlers of the calling thread, because its main fiber ends. Handlers with in_handler
 * remain installed.
 */
static void handlers_remove_own(weft__exit_hook *exit_hook)
{
    (void)exit_hook;
    pthread_mutex_lock(&state.lock);
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        signal_state *entry = &state.entry[sig];
        if (entry->registration == NULL || entry->registration->main != this_thread.main ||
            entry->registration->handler.in_handler)
            continue;
        registration_drop(entry);
        if (!entry->is_awaited)
            disposition_restore(sig);
    }
    pthread_mutex_unlock(&state.lock);
    this_thread.main = 0;
}

/* Return true if a fiber waits for the signal. The caller must hold the lock. */
static bool has_waiter(int sig)
{
    WEFT__LIST_FOR(node, &state.waiters)
        if (CONTAINER_OF(node, signal_waiter, link)->mask & weft__signal_bit(sig))
            return true;
    return false;
}

/* Remove the handler of a signal. The caller must hold the lock. */
static void handler_remove(int sig)
{
    signal_state *entry = &state.entry[sig];
    dispatch_all(); /* signals that have already arrived still use the handler */
    registration_drop(entry);
    if (weft__signal_thread_catches(sig) && !has_waiter(sig))
        disposition_restore(sig);
}

/*
 * Install a handler. If the signal already has a handler, replace that handler, and take over its
 * undelivered occurrences. The caller must hold the lock.
 */
static int handler_install(registration *r)
{
    signal_state *entry = &state.entry[r->handler.sig];
    int rc = weft__signal_thread_catch(r->handler.sig, on_signals);
    if (rc < 0)
        return rc;
    dispatch_all();
    if (entry->registration != NULL) {
        r->undelivered = entry->registration->undelivered;
        entry->registration->undelivered = 0;
    }
    registration_drop(entry);
    entry->registration = r;
    weft__signal_thread_set_hook(r->handler.sig, r->handler.in_handler);
    if (r->undelivered > 0)
        registration_post(r);
    return 0;
}

static int handler_add(weft__cord *c, const weft__signal_handler *handler)
{
    registration *r = malloc(sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    *r = (registration){.handler = *handler, .main = c->main->id};
    int rc = state_lock();
    if (rc == 0) {
        rc = handler_install(r);
        pthread_mutex_unlock(&state.lock);
    }
    if (rc < 0) {
        free(r);
        return rc;
    }
    if (handler->is_held)
        add_signals_due(c, true, 1);
    if (this_thread.main != c->main->id)
        weft__exit_hook_add(&c->main->live->exit_hooks, &this_thread.exit_hook,
                            handlers_remove_own);
    this_thread.main = c->main->id;
    return 0;
}

int weft__signal_set_handler(const weft__signal_handler *handler)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    int sig = handler->sig;
    if (sig <= 0 || sig >= WEFT__SIGNALS_END ||
        (weft__signal_bit(sig) & weft__signals_unsupported()))
        return weft_fail(-EINVAL, "weft_on_signal: signal %d cannot be handled", sig);
    if (handler->act != NULL)
        return handler_add(c, handler);
    int rc = state_lock();
    if (rc < 0)
        return rc;
    handler_remove(sig);
    pthread_mutex_unlock(&state.lock);
    return 0;
}

/*
 * Create a fiber for each occurrence of a signal. The handler of weft_on_signal uses this function
 * as act. No fiber awaits the new fibers.
 */
static void spin_handlers(weft__cord *c, const weft__signal_handler *handler, unsigned times)
{
    char name[WEFT__NAME_BYTES];
    const char *text = sigabbrev_np(handler->sig);
    snprintf(name, sizeof name, "signal %s", text != NULL ? text : "RT");
    for (; times > 0; times--) {
        const weft_spin_options options = {.name = name, .parent = c->main->id};
        weft_fiber f = weft_spin_with(handler->fn, handler->arg, &options);
        if (f == 0)
            weft__diag(LOG_ERR, "weft_on_signal: cannot create a fiber for signal %d",
                       handler->sig);
        else
            weft__fiber_find(c, f)->is_unawaited = true;
    }
}

int weft_on_signal(int sig, weft_fn *fn, void *arg)
{
    return weft__signal_set_handler(
        &(weft__signal_handler){.act = fn != NULL ? spin_handlers : NULL,
                                .sig = sig,
                                .fn = fn,
                                .arg = arg,
                                .is_held = true});
}
