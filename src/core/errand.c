/*
 * Fibers that are made in other cords: an errand is a letter that becomes a fiber where it arrives.
 * A call is one whose end somebody waits for: the fiber's value comes back in another letter.
 */
#include <weft/cord.h>

#include "core/alarm.h"
#include "core/error.h"
#include "core/port.h"
#include "core/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct errand {
    weft__letter letter; /* to the fiber that it will be */
    weft_fn *fn;
    void *arg;
    weft_spin_options options;
    char name[WEFT__NAME_BYTES];
    char bytes[] __attribute__((aligned(16))); /* a copy of arg, if the options say so */
} errand;

/* The errand has arrived: a fiber, or why there is none. */
static int arrive(weft__cord *c, errand *e, weft__fiber **f)
{
    if (c == NULL)
        return -ESRCH;
    return weft__fiber_arrive(c, e->letter.fiber, e->fn, e->arg, &e->options, f);
}

/* Call drop between two fibers: the current fiber must not wait. */
static void drop_arg(void (*drop)(void *arg), void *arg)
{
    if (drop == NULL)
        return;
    bool has_fibers = weft__cord_self != NULL;
    if (has_fibers)
        weft_no_switch_begin();
    drop(arg);
    if (has_fibers)
        weft_no_switch_end();
}

static void deliver_errand(weft__cord *c, weft__letter *l)
{
    errand *e = CONTAINER_OF(l, errand, letter);
    weft__fiber *f;
    int rc = arrive(c, e, &f);
    if (rc < 0 && c != NULL)
        weft__report("a fiber '%s' that another thread made could not be: %s", e->name,
                     weft__error_text(rc));
    if (rc < 0)
        drop_arg(e->options.drop, e->arg);
    free(e);
}

static void fill(errand *e, weft_fn *fn, void *arg, const weft_spin_options *o)
{
    *e = (errand){.letter.deliver = deliver_errand, .fn = fn, .arg = arg, .options = *o};
    if (o->name != NULL) {
        snprintf(e->name, sizeof e->name, "%s", o->name);
        e->options.name = e->name;
    }
    if (o->arg_bytes > 0)
        e->arg = memcpy(e->bytes, arg, o->arg_bytes);
}

/* Take an id for a fiber of a visited cord. 0, -ESRCH, -ENOMEM, -EAGAIN. */
static int take_id(weft__cord *c, weft_cord cord, bool may_be_refused, weft_fiber *id)
{
    if (c->main->id != cord)
        return -ESRCH;
    if (may_be_refused && c != weft__cord_self && weft__inbox_is_full(c))
        return -EAGAIN;
    return weft__reserve_take(c, id);
}

/*
 * Give it an id in that cord, and send it there. 0, -ESRCH, -EXDEV, -ENOMEM; -EAGAIN if there are
 * too many fibers or, where it may be refused, too many messages.
 */
static int dispatch(errand *e, weft_cord cord, bool may_be_refused, weft_fiber *id)
{
    uint32_t index = weft__fiber_cord(cord);
    if (e->options.parent != 0 && weft__fiber_cord(e->options.parent) != index)
        return -EXDEV;
    weft__cord *c = cord != 0 ? weft__port_visit(index) : NULL;
    if (c == NULL)
        return -ESRCH;
    int rc = take_id(c, cord, may_be_refused, id);
    if (rc == 0) {
        e->letter.fiber = *id;
        if (c == weft__cord_self)
            e->letter.deliver(c, &e->letter); /* others here may reach for it at once */
        else
            weft__cord_put(c, &e->letter);
    }
    weft__port_leave(index);
    return rc;
}

static int spin(weft_cord cord, weft_fn *fn, void *arg, const weft_spin_options *o, weft_fiber *id)
{
    int rc = weft__spin_check(fn, arg, o);
    if (rc < 0)
        return rc;
    errand *e = malloc(sizeof *e + o->arg_bytes);
    if (e == NULL)
        return weft_fail(-ENOMEM, "no memory for a fiber in another thread");
    fill(e, fn, arg, o);
    rc = dispatch(e, cord, true, id);
    if (rc == 0)
        return 0;
    free(e);
    return weft_fail(rc, "weft_cord_spin: %s cord #%llu",
                     rc == -EAGAIN ? "too many messages or fibers in" : "no fiber can be made in",
                     (unsigned long long)cord);
}

weft_fiber weft_cord_spin_with(weft_cord cord, weft_fn *fn, void *arg,
                               const weft_spin_options *options)
{
    weft_fiber id;
    int rc = spin(cord, fn, arg, options != NULL ? options : &(weft_spin_options){0}, &id);
    return rc == 0 ? id : 0;
}

weft_fiber weft_cord_spin(weft_cord cord, weft_fn *fn, void *arg)
{
    return weft_cord_spin_with(cord, fn, arg, NULL);
}

/*
 * Calls.
 */

/*
 * Owned by the thread that it is at, but for the recall, which is the caller's to write and send,
 * and what never changes.
 */
typedef struct call {
    weft__letter answer; /* back to the caller */
    weft__letter recall; /* after the errand: its fiber is to end */
    weft__waiter waiter; /* there: among those who await the fiber */
    atomic_int letters;  /* under way; with the last one it is freed */
    weft_fiber caller;
    void (*drop)(void *arg);
    bool *has_ended; /* the caller's, while it waits; NULL: it does not ask */
    bool may_be_left;
    bool has_begun;     /* there is a fiber, or was */
    weft__error *words; /* beside the answer; NULL: none */
    errand errand;      /* the last: it is of any size */
} call;

static void arrived(call *c)
{
    if (atomic_fetch_sub_explicit(&c->letters, 1, memory_order_acq_rel) > 1)
        return;
    weft__error_unref(c->words);
    free(c);
}

static bool leave_call(weft__fiber *f);

static const weft__wait_kind waits_call = {"a call in another thread", .leave = leave_call};
static const weft__wait_kind waits_callee = {.name = "the end of a call that it has cancelled",
                                             .is_owed = true};

/* Nobody waits for the answer any more. */
static void abandon(call *k)
{
    drop_arg(k->drop, k->errand.arg);
    arrived(k);
}

static void deliver_answer(weft__cord *c, weft__letter *l)
{
    call *k = CONTAINER_OF(l, call, answer);
    weft__fiber *f = weft__fiber_waiting(c, k->caller, k);
    if (f == NULL) {
        abandon(k);
        return;
    }
    if (!k->has_begun)
        drop_arg(k->drop, k->errand.arg);
    else if (k->has_ended != NULL)
        *k->has_ended = true;
    weft_value value = weft__settle(f, l->value);
    if (weft_is_error(value) && value == l->value) {
        weft__error_set(f, k->words);
        k->words = NULL;
    }
    weft__wake(c, f, value, WEFT__TAIL);
    arrived(k);
}

static void answer(call *k, weft_value value, const weft__error *words)
{
    k->words = weft_is_error(value) ? weft__error_clone(words) : NULL;
    k->answer = (weft__letter){NULL, deliver_answer, k->caller, value};
    if (weft__cord_post(&k->answer) < 0)
        abandon(k); /* nobody is left to read it */
}

/* The fiber has ended. */
static void answer_waiter(weft__waiter *w, weft_value value)
{
    call *k = CONTAINER_OF(w, call, waiter);
    const weft__fiber *f = weft__fiber_find(weft__cord_self, k->errand.letter.fiber);
    /* The caller was not cancelled: what it called has gone. */
    bool has_gone = value == -ECANCELED && f != NULL && f->is_shutdown;
    answer(k, has_gone ? -ESRCH : value, f != NULL && !has_gone ? f->error : NULL);
}

static void deliver_call(weft__cord *c, weft__letter *l)
{
    call *k = CONTAINER_OF(CONTAINER_OF(l, errand, letter), call, errand);
    weft__fiber *f;
    int rc = arrive(c, &k->errand, &f);
    if (rc < 0) {
        answer(k, rc, NULL);
        return;
    }
    k->has_begun = true;
    k->waiter = (weft__waiter){.served = answer_waiter};
    weft__line_join(&f->life->awaiters, &k->waiter);
}

static void deliver_recall(weft__cord *c, weft__letter *l)
{
    if (c != NULL)
        weft_cancel(l->fiber);
    arrived(CONTAINER_OF(l, call, recall));
}

/* arg is the caller's: unless it may be left, it is waited for after all. */
static bool leave_call(weft__fiber *f)
{
    call *k = f->wait_object;
    k->recall = (weft__letter){NULL, deliver_recall, k->errand.letter.fiber, 0};
    atomic_fetch_add_explicit(&k->letters, 1, memory_order_relaxed);
    bool is_left = k->may_be_left;
    f->waits_in = &waits_callee;
    if (weft__cord_post(&k->recall) < 0)
        arrived(k); /* that thread ends, which answers it */
    return is_left;
}

/* It does not come to a call at all. */
static weft_value refuse(weft_value code, void *arg, const weft_call_options *o)
{
    if (o->drop != NULL)
        o->drop(arg);
    return code;
}

static weft_value send_call(weft__cord *c, weft_cord cord, void *arg, const weft_call_options *o,
                            call *k)
{
    k->letters = 1;
    k->caller = c->current->id;
    k->errand.letter.deliver = deliver_call;
    weft_fiber id;
    int rc = dispatch(&k->errand, cord, false, &id);
    if (rc < 0) {
        free(k);
        weft_fail(rc, "thread #%llu cannot be called", (unsigned long long)cord);
        return refuse(rc, arg, o);
    }
    return weft__wait(c, &waits_call, k);
}

weft_value weft_cord_call_with(weft_cord cord, weft_fn *fn, void *arg,
                               const weft_call_options *options)
{
    const weft_call_options *o = options != NULL ? options : &(weft_call_options){0};
    weft_spin_options spun = {.name = o->name, .arg_bytes = o->arg_bytes};
    if (o->has_ended != NULL)
        *o->has_ended = false;
    int rc = weft__spin_check(fn, arg, &spun);
    if (rc < 0)
        return refuse(rc, arg, o);
    weft__cord *c = weft__cord_here();
    if (c != NULL && c->current->alarm)
        return refuse(weft__refuse(c), arg, o);
    call *k = c != NULL ? calloc(1, sizeof *k + o->arg_bytes) : NULL;
    if (k == NULL)
        return refuse(c == NULL ? weft__no_cord() : -ENOMEM, arg, o);
    k->drop = o->drop;
    k->has_ended = o->has_ended;
    k->may_be_left = o->drop != NULL || o->arg_bytes > 0;
    fill(&k->errand, fn, arg, &spun);
    return send_call(c, cord, arg, o, k);
}

weft_value weft_cord_call(weft_cord cord, weft_fn *fn, void *arg)
{
    return weft_cord_call_with(cord, fn, arg, NULL);
}
