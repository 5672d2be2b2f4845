/* weft_shutdown_all: who is ended, in which order, and the wait for them. */
#include "io/shutdown.h"

#include "base/clock.h"
#include "core/op.h"
#include "core/report.h"
#include "core/tenure.h"
#include "core/tree.h"

#include <weft/scope.h>
#include <weft/shutdown.h>
#include <weft/time.h>

#include <stdlib.h>

/*
 * Polls that those who accept get before the others are ended: a few serve, unless something else
 * is held up.
 */
#define POLLS_MAX 16

/* All fibers from the last to the first, children before their parents; main is the end. */
static weft__fiber *last_below(weft__fiber *f)
{
    while (weft__tree_has_children(f, NULL))
        f = weft__fiber_of_sibling(f->life->children.prev);
    return f;
}

static weft__fiber *before(const weft__fiber *f)
{
    if (f->sibling.prev == &f->parent->life->children)
        return f->parent;
    return last_below(weft__fiber_of_sibling(f->sibling.prev));
}

/* Is it to end, if the current fiber ends everything? */
static bool is_to_end(const weft__cord *c, const weft__fiber *f)
{
    return !f->is_daemon && !weft__tree_is_above(f, c->current);
}

static bool is_accepting(const weft__fiber *f)
{
    return f->waits_in != NULL && f->waits_in->is_accept;
}

/* True: there was one. */
static bool end_doors(weft__cord *c, int64_t grace_ns)
{
    bool is_any = false;
    for (weft__fiber *f = last_below(c->main);; f = before(f)) {
        bool is_above = weft__tree_is_above(f, c->current);
        is_any |= is_accepting(f);
        if (is_accepting(f) && is_above)
            weft_interrupt(f->id, -ECANCELED);
        else if (is_accepting(f))
            weft__tree_stop(c, f, grace_ns, WEFT__END_AS_TOLD);
        if (f->parent == NULL)
            return is_any;
    }
}

/* Does the kernel still hold what a fiber that is to end waits in? */
static bool is_any_held(const weft__cord *c)
{
    for (weft__fiber *f = last_below(c->main); f->parent != NULL; f = before(f))
        if (f->is_stopped && f->waits_in == &weft__waits_release)
            return true;
    return false;
}

void weft__shutdown_doors(weft__cord *c, int64_t grace_ns)
{
    if (!end_doors(c, grace_ns))
        return;
    /* What the kernel holds it lets go of in a poll; then they run, and may give up more. */
    int calm = 0;
    for (int i = 0; i < POLLS_MAX && calm < 2; i++) {
        weft_sleep(0);
        calm = is_any_held(c) ? 0 : calm + 1;
    }
}

/* In this order each goes to the front of the run queue: so parents run before their children. */
static void end_others(weft__cord *c, int64_t grace_ns)
{
    for (weft__fiber *f = last_below(c->main);; f = before(f)) {
        if (is_to_end(c, f))
            weft__tree_stop(c, f, grace_ns, WEFT__END_AS_TOLD);
        else
            f->is_closing = true;
        if (f->parent == NULL)
            return;
    }
}

/* The wait for one of them. */
typedef struct ending {
    weft__claim claim; /* of the one that ends; it lapses as the last of that one's clean-up */
    weft__fiber *waiter;
} ending;

static bool leave_ending(weft__fiber *f)
{
    weft__claim_drop(&((ending *)f->wait_object)->claim);
    return true;
}

static const weft__wait_kind waits_endings = {"all others to end", .leave = leave_ending};

static void go_on(weft__claim *claim)
{
    weft__fiber *f = CONTAINER_OF(claim, ending, claim)->waiter;
    weft__wake(weft__cord_self, f, 0, WEFT__TAIL);
}

/* The first that is still there and is to end; NULL: none. */
static weft__fiber *find_left(const weft__cord *c)
{
    for (weft__fiber *f = last_below(c->main); f->parent != NULL; f = before(f))
        if (is_to_end(c, f))
            return f;
    return NULL;
}

/* 0 when all have ended, or why the wait was cut short. */
static int wait_for_fibers(weft__cord *c)
{
    weft__fiber *f;
    while ((f = find_left(c)) != NULL) {
        if (c->current->alarm)
            return (int)weft__refuse(c);
        ending e = {.waiter = c->current};
        weft__claim_make(&f->life->claims, &e.claim, go_on);
        int rc = weft__wait_int(c, &waits_endings, &e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static bool are_cords_over(const weft__cord *c)
{
    return weft__tenures_are_over(c->tenure, 0); /* long ago: so it only looks */
}

/* For the pool: the wait for other threads. */
typedef struct threads_wait {
    const weft__tenure *except;
    int64_t until_ns;
} threads_wait;

static intptr_t wait_for_threads(void *arg)
{
    const threads_wait *w = arg;
    return weft__tenures_are_over(w->except, w->until_ns) ? 0 : -ETIMEDOUT;
}

static int wait_for_cords(weft__cord *c, double grace_s)
{
    if (are_cords_over(c))
        return 0;
    threads_wait *w = malloc(sizeof *w);
    if (w == NULL)
        return -ENOMEM;
    w->except = c->tenure;
    w->until_ns = weft__ns_later(weft__clock_ns(), weft__whole_ns(grace_s * 1e9));
    weft__op op = {.code = WEFT__OP_CALL, .fd = -1, .u.call = {wait_for_threads, w, free}};
    int rc = (int)weft__op_run(&op);
    free(op.u.call.arg);
    return rc;
}

static void name_thread(weft_cord id, const char *name)
{
    weft__report("thread #%llu '%s' has not ended though it was told to", (unsigned long long)id,
                 name);
}

static void name_those_left(weft__cord *c, double grace_s)
{
    weft__tenures_name_left(c->tenure, name_thread);
    for (weft__fiber *f = last_below(c->main); f->parent != NULL; f = before(f)) {
        weft_info i;
        bool is_joining = f->phase == WEFT__ENDING && weft__tree_has_children(f, NULL);
        if (!is_to_end(c, f) || is_joining)
            continue;
        weft__fiber_info(c, f, &i);
        weft__report("fiber #%llu '%s' has not ended %g s after it was told to%s%s",
                     (unsigned long long)i.id, i.name, grace_s,
                     i.state == WEFT_WAITING ? "; it waits for " : "", i.waits_for);
    }
}

int weft_shutdown_all(double grace_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "a grace time of %g s", grace_s);
    int64_t grace_ns = grace_s > 0 ? weft__deadline(c, grace_s) : 0;
    weft__shutdown_doors(c, grace_ns);
    end_others(c, grace_ns);
    weft__tenures_cancel(c->tenure, grace_s);
    if (grace_s == 0)
        weft_sleep(0);
    weft_scope grace;
    weft_scope_open(&grace, grace_s);
    int rc = wait_for_fibers(c);
    if (rc == 0)
        rc = wait_for_cords(c, grace_s);
    if (weft_scope_close(&grace) == -ETIMEDOUT && rc == -ECANCELED)
        rc = -ETIMEDOUT;
    if (rc == -ETIMEDOUT)
        name_those_left(c, grace_s);
    return rc;
}

int weft_set_daemon(bool is_daemon)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->parent == NULL)
        return weft_fail(-EINVAL, "a main fiber is no daemon");
    if (f->is_daemon == is_daemon)
        return 0;
    bool has_timer = weft__timer_is_armed(&f->life->deadline);
    c->held_timers += is_daemon ? -(size_t)has_timer : (size_t)has_timer;
    f->is_daemon = is_daemon;
    weft__claim *next;
    for (weft__claim *claim = f->life->claims; is_daemon && claim != NULL; claim = next) {
        next = claim->next;
        if (claim->lapse != go_on)
            continue;
        weft__claim_drop(claim);
        go_on(claim);
    }
    return 0;
}
