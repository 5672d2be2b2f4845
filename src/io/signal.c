/*
 * Signals: who is told of them. The relay (relay.h) hears of a signal, and those who wait for it
 * and the one who ordered something are told by letters, whatever thread they are in.
 *
 * One lock guards everything; the handler takes none. Letters are part of what they are about:
 * telling does not allocate, and cannot fail.
 */
#include "io/signal.h"

#include "base/libc.h"
#include "core/alarm.h"
#include "core/report.h"

#include <weft/signal.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A fiber that waits. */
typedef struct waiter {
    weft__letter letter;
    weft__list link; /* among the waiters; in none: served, the letter is under way */
    uint64_t mask;   /* bit n: signal n + 1 */
    weft_fiber fiber;
    bool is_held;
} waiter;

/* An order that was given. */
typedef struct standing {
    weft__letter letter; /* to the main fiber of the thread that gave it */
    weft__signal_order order;
    weft_fiber main;
    unsigned owed; /* occurrences that it has not been told of */
    bool is_posted;
    bool is_dropped; /* by the last letter it is told so, and freed */
} standing;

typedef struct signal_state {
    standing *standing; /* NULL: nobody's order */
    unsigned kept;      /* occurrences for the next wait */
    bool is_awaited;    /* it has been waited for: what finds nobody is kept */
} signal_state;

static struct {
    pthread_mutex_t lock;
    weft__list waiters;
    signal_state of[WEFT__SIGNALS_END];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .waiters = {&state.waiters, &state.waiters}};

/* By which a thread's orders end with its main fiber. */
static __thread struct {
    weft__claim claim;
    weft_fiber main; /* whose; 0: none */
} here;

static uint64_t bit(int sig)
{
    return UINT64_C(1) << (sig - 1);
}

/* So many more of the calling thread's fibers hope for a signal. */
static void count_due(weft__cord *c, bool is_held, int more)
{
    c->signals_due += (size_t)more;
    c->held_signals += is_held ? (size_t)more : 0;
}

/* Telling fibers. */

static bool leave_signal(weft__fiber *f);

static const weft__wait_kind waits_signal = {"a signal", .leave = leave_signal};
static const weft__wait_kind waits_served = {.name = "a signal that is on its way"};

static bool leave_signal(weft__fiber *f)
{
    waiter *w = f->wait_object;
    pthread_mutex_lock(&state.lock);
    bool is_out = !weft__list_is_empty(&w->link);
    weft__list_remove(&w->link);
    pthread_mutex_unlock(&state.lock);
    if (!is_out) {
        f->waits_in = &waits_served;
        return false;
    }
    count_due(weft__cord_self, w->is_held, -1);
    free(w);
    return true;
}

static void deliver_signal(weft__cord *c, weft__letter *l)
{
    waiter *w = CONTAINER_OF(l, waiter, letter);
    weft__fiber *f = weft__fiber_waiting(c, w->fiber, w);
    if (f != NULL)
        weft__wake(c, f, weft__settle(f, l->value), WEFT__TAIL);
    if (c != NULL)
        count_due(c, w->is_held, -1);
    free(w);
}

static void deliver_order(weft__cord *c, weft__letter *l)
{
    standing *s = CONTAINER_OF(l, standing, letter);
    pthread_mutex_lock(&state.lock);
    unsigned times = s->owed;
    bool is_dropped = s->is_dropped;
    const weft__signal_order order = s->order;
    s->owed = 0;
    s->is_posted = false;
    pthread_mutex_unlock(&state.lock);
    if (is_dropped) {
        if (c != NULL && order.is_held)
            count_due(c, true, -1);
        free(s);
    } else if (c != NULL && times > 0) {
        order.act(c, &order, times);
    }
}

/* Under the lock: have the order's thread look at it. False: that thread is gone, and so is it. */
static bool post(standing *s)
{
    if (s->is_posted)
        return true;
    s->letter = (weft__letter){NULL, deliver_order, s->main, 0};
    s->is_posted = true;
    if (weft__cord_post(&s->letter) == 0)
        return true;
    free(s);
    return false;
}

/* Under the lock: take an order back. Its thread is told: it may wait for nothing but this. */
static void drop(signal_state *of)
{
    standing *s = of->standing;
    of->standing = NULL;
    if (s == NULL)
        return;
    weft__relay_set_at_once(s->order.sig, NULL);
    s->is_dropped = true;
    post(s);
}

/* Under the lock: all who wait for it have it. False: nobody did. */
static bool serve(int sig)
{
    bool is_any = false;
    weft__list *next;
    for (weft__list *node = state.waiters.next; node != &state.waiters; node = next) {
        waiter *w = CONTAINER_OF(node, waiter, link);
        next = node->next;
        if (!(w->mask & bit(sig)))
            continue;
        is_any = true;
        weft__list_remove(node);
        w->letter = (weft__letter){NULL, deliver_signal, w->fiber, sig};
        if (weft__cord_post(&w->letter) < 0)
            free(w);
    }
    return is_any;
}

/* Under the lock: it has come so many times. */
static void tell(int sig, unsigned times)
{
    signal_state *of = &state.of[sig];
    unsigned taken = serve(sig);
    if (of->is_awaited)
        of->kept += times - taken;
    if (of->standing == NULL)
        return;
    of->standing->owed += times;
    if (!post(of->standing))
        of->standing = NULL;
}

/* Under the lock: tell of everything that has come. */
static void tell_all(void)
{
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        unsigned times = weft__relay_take(sig);
        if (times > 0)
            tell(sig, times);
    }
}

static void on_bell(void)
{
    pthread_mutex_lock(&state.lock);
    tell_all();
    pthread_mutex_unlock(&state.lock);
}

/* Under the lock. */
static void put_back(int sig)
{
    state.of[sig].is_awaited = false;
    state.of[sig].kept = 0;
    weft__relay_release(sig);
}

static void before_fork(void)
{
    pthread_mutex_lock(&state.lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&state.lock);
}

/* The child begins anew: those who wait are the parent's. */
static void after_fork_in_child(void)
{
    if (here.main != 0) /* its main fiber may be the one that goes on */
        weft__claim_drop(&here.claim);
    weft__relay_reset();
    memset(state.of, 0, sizeof state.of);
    weft__list_init(&state.waiters);
    here.main = 0;
    if (weft__cord_self != NULL)
        weft__cord_self->signals_due = weft__cord_self->held_signals = 0;
    pthread_mutex_unlock(&state.lock);
}

static int set_up_error;

static void set_up(void)
{
    set_up_error = pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

static uint64_t refused(void)
{
    return bit(SIGKILL) | bit(SIGSTOP) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) |
           bit(SIGTRAP) | bit(SIGSYS);
}

/* The lock, with everything set up. 0 or -errno. */
static int lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up);
    if (set_up_error != 0)
        return -set_up_error;
    pthread_mutex_lock(&state.lock);
    return 0;
}

/* Waiting. */

static int read_set(const sigset_t *set, uint64_t *mask)
{
    *mask = 0;
    for (int sig = 1; set != NULL && sig < WEFT__SIGNALS_END; sig++)
        if (sigismember(set, sig) == 1)
            *mask |= bit(sig);
    if (*mask == 0)
        return weft_fail(-EINVAL, "waiting for none of no signals");
    if (*mask & refused())
        return weft_fail(-EINVAL, "SIG%s cannot be waited for",
                         sigabbrev_np(__builtin_ctzll(*mask & refused()) + 1));
    return 0;
}

/* Under the lock. */
static int catch_all(uint64_t mask)
{
    int rc = 0;
    for (int sig = 1; sig < WEFT__SIGNALS_END && rc == 0; sig++) {
        if (!(mask & bit(sig)))
            continue;
        rc = weft__relay_catch(sig, on_bell);
        state.of[sig].is_awaited |= rc == 0;
    }
    return rc;
}

/* Under the lock: a signal that was kept; 0: none. */
static int take_kept(uint64_t mask)
{
    tell_all(); /* the relay may be slower than the caller */
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        if ((mask & bit(sig)) && state.of[sig].kept > 0) {
            state.of[sig].kept--;
            return sig;
        }
    }
    return 0;
}

/* Take what is there: its number. 0: nothing is; then wait is in line, if it is not NULL. */
static int take_or_join(uint64_t mask, waiter *wait)
{
    int rc = lock();
    if (rc < 0)
        return rc;
    rc = catch_all(mask);
    if (rc == 0)
        rc = take_kept(mask);
    if (rc == 0 && wait != NULL)
        weft__list_insert(&state.waiters, &wait->link);
    pthread_mutex_unlock(&state.lock);
    return rc;
}

int weft_wait_signal(const sigset_t *set)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    uint64_t mask;
    int rc = read_set(set, &mask);
    if (rc < 0)
        return rc;
    weft__fiber *f = c->current;
    waiter *w = f->alarm ? NULL : malloc(sizeof *w);
    if (w != NULL)
        *w = (waiter){.mask = mask, .fiber = f->id, .is_held = !f->is_daemon};
    rc = take_or_join(mask, w);
    if (rc == 0 && w != NULL) {
        count_due(c, w->is_held, 1);
        return weft__wait_int(c, &waits_signal, w);
    }
    free(w);
    if (rc != 0)
        return rc;
    return f->alarm ? (int)weft__refuse(c) : -ENOMEM;
}

/* Orders. */

static void end_orders(weft__claim *claim)
{
    (void)claim;
    pthread_mutex_lock(&state.lock);
    for (int sig = 1; sig < WEFT__SIGNALS_END; sig++) {
        signal_state *of = &state.of[sig];
        if (of->standing == NULL || of->standing->main != here.main || of->standing->order.at_once)
            continue;
        drop(of);
        if (!of->is_awaited)
            put_back(sig);
    }
    pthread_mutex_unlock(&state.lock);
    here.main = 0;
}

/* Under the lock. */
static bool is_waited_for(int sig)
{
    WEFT__LIST_FOR(node, &state.waiters)
        if (CONTAINER_OF(node, waiter, link)->mask & bit(sig))
            return true;
    return false;
}

/* Under the lock. */
static void take_back(int sig)
{
    signal_state *of = &state.of[sig];
    tell_all(); /* what came before goes where it would have gone */
    drop(of);
    if (weft__relay_catches(sig) && !is_waited_for(sig))
        put_back(sig);
}

/* Under the lock. s replaces what is there, and inherits what that has not been told. */
static int set_order(standing *s)
{
    signal_state *of = &state.of[s->order.sig];
    int rc = weft__relay_catch(s->order.sig, on_bell);
    if (rc < 0)
        return rc;
    tell_all();
    if (of->standing != NULL) {
        s->owed = of->standing->owed;
        of->standing->owed = 0;
    }
    drop(of);
    of->standing = s;
    weft__relay_set_at_once(s->order.sig, s->order.at_once);
    if (s->owed > 0)
        post(s);
    return 0;
}

static int add_order(weft__cord *c, const weft__signal_order *order)
{
    standing *s = malloc(sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    *s = (standing){.order = *order, .main = c->main->id};
    int rc = lock();
    if (rc == 0) {
        rc = set_order(s);
        pthread_mutex_unlock(&state.lock);
    }
    if (rc < 0) {
        free(s);
        return rc;
    }
    if (order->is_held)
        count_due(c, true, 1);
    if (here.main != c->main->id)
        weft__claim_make(&c->main->life->claims, &here.claim, end_orders);
    here.main = c->main->id;
    return 0;
}

int weft__signal_handle(const weft__signal_order *order)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    int sig = order->sig;
    if (sig <= 0 || sig >= WEFT__SIGNALS_END || (bit(sig) & refused()))
        return weft_fail(-EINVAL, "signal %d cannot be handled", sig);
    if (order->act != NULL)
        return add_order(c, order);
    int rc = lock();
    if (rc < 0)
        return rc;
    take_back(sig);
    pthread_mutex_unlock(&state.lock);
    return 0;
}

/* A fiber for each; nobody awaits them. */
static void spin_runs(weft__cord *c, const weft__signal_order *order, unsigned times)
{
    char name[WEFT__NAME_BYTES];
    const char *text = sigabbrev_np(order->sig);
    snprintf(name, sizeof name, "signal %s", text != NULL ? text : "RT");
    for (; times > 0; times--) {
        const weft_spin_options options = {.name = name, .parent = c->main->id};
        weft_fiber f = weft_spin_with(order->fn, order->arg, &options);
        if (f == 0)
            weft__report("no fiber can be made for signal %d", order->sig);
        else
            weft__fiber_find(c, f)->is_unawaited = true;
    }
}

int weft_on_signal(int sig, weft_fn *fn, void *arg)
{
    return weft__signal_handle(&(weft__signal_order){
        .act = fn != NULL ? spin_runs : NULL, .sig = sig, .fn = fn, .arg = arg, .is_held = true});
}
