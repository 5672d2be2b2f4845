/* Fibers: made of records, found, named, given back. */
#include "core/fiber.h"

#include "core/alarm.h"
#include "core/end.h"
#include "core/error.h"
#include "core/tree.h"

#include <stdlib.h>
#include <string.h>

void weft__life_init(weft__life *life, weft__fiber *f)
{
    *life = (weft__life){.waiter.fiber = f};
    weft__timer_init(&life->timer, weft__sleep_over);
    weft__timer_init(&life->deadline, weft__scope_over);
    weft__list_init(&life->children);
    weft__list_init(&life->ended);
    f->life = life;
}

/*
 * The top of what is the fiber's own of its stack, with the copy of its argument: its life is
 * above.
 */
static inline char *own_top(const weft__fiber *f)
{
#ifdef WEFT__ASAN
    return f->stack.low + f->stack.bytes - WEFT__LIFE_BYTES;
#else
    return __builtin_assume_aligned(f->life, 64);
#endif
}

static inline size_t own_bytes(const weft__fiber *f)
{
    return (size_t)(own_top(f) - f->stack.low);
}

/* Where the life of a fiber with a stack is. */
static weft__life *place_of_life(weft__fiber *f)
{
#ifdef WEFT__ASAN
    return &f->own_life;
#else
    return (void *)(f->stack.low + f->stack.bytes - WEFT__LIFE_BYTES);
#endif
}

int weft__fiber_take_stack(weft__cord *c, weft__fiber *f, size_t bytes)
{
    int rc = weft__stack_acquire(&c->stacks, bytes, &f->stack);
    if (rc < 0)
        return rc;
    f->life = place_of_life(f);
    if (f->life->waiter.fiber == NULL) /* the stack has never been used, or its pages are new */
        weft__life_init(f->life, f);
    f->life->waiter.fiber = f;
    weft__context_tell_stack(&f->context, f->stack.low, own_bytes(f));
    return 0;
}

/* What few fibers leave behind there. */
static void clear_life(weft__life *life)
{
    life->grace_ns = 0;
    life->cpu_ns = 0;
}

void weft__fiber_release_stack(weft__cord *c, weft__fiber *f)
{
    weft__context_forget_stack(&f->context);
    clear_life(f->life);
    f->life = NULL;
    weft__stack_release(&c->stacks, &f->stack);
}

weft__fiber *weft__fiber_new_main(weft__cord *c)
{
    weft__fiber *f = weft__fiber_of_sibling(weft__list_pop(&c->bare));
    weft__fiber_set_id(f, weft__id_new(f));
    weft__fiber_set_phase(f, WEFT__ALIVE);
    weft__life_init(&c->main_life, f);
    strcpy(f->name, "main");
    return f;
}

void weft__claims_lapse(weft__claim **claims)
{
    weft__claim *first;
    while ((first = *claims) != NULL) {
        weft__claim_drop(first);
        first->lapse(first);
    }
}

/* What few fibers leave behind in their record. */
COLD static void clear_rare(weft__fiber *f)
{
    weft__error_set(f, NULL);
    weft__claims_lapse(&f->monitors);
    f->keeper = NULL;
}

void weft__fiber_free(weft__cord *c, weft__fiber *f)
{
    weft__fiber_set_id(f, 0);
    weft__fiber_set_phase(f, WEFT__FREE);
    f->alarm = 0;
    f->waits_in = NULL;
    f->is_parked = false;
    /* Bits of one word all. */
    f->is_stopped = f->is_shutdown = f->is_restarting = f->is_interrupted = false;
    f->was_struck = f->is_closing = f->is_daemon = f->is_unawaited = f->has_drop = f->has_short =
        false;
    f->name[0] = '\0';
    f->refusals = 0;
    uint32_t arg_room = f->arg_room;
    f->arg_room = 0;
    uintptr_t rare = (uintptr_t)f->error | (uintptr_t)f->monitors | (uintptr_t)f->keeper;
    if (UNLIKELY(rare != 0))
        clear_rare(f);
    if (f->stack.low != NULL && weft__fiber_can_stay_warm(c, f)) {
        clear_life(f->life);
        if (arg_room != 0)
            weft__frame_make(&f->context, f->stack.low, own_bytes(f), weft__fiber_entry);
        weft__fiber_keep_warm(c, f);
        return;
    }
    if (f->stack.low != NULL)
        weft__fiber_release_stack(c, f);
    c->records_used--;
    weft__record_put(c->bare.next, f);
}

void weft__fiber_rewind(weft__fiber *f)
{
    weft__context_make(&f->context, f->stack.low, own_bytes(f) - f->arg_room, weft__fiber_entry);
}

/* In line, as furnish: every fiber that is made with options comes here. */
__attribute__((always_inline)) static inline int check_options(weft_fn *fn, const void *arg,
                                                               const weft_spin_options *o)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "a fiber needs a function");
    size_t bytes = o->stack_bytes;
    if (bytes != 0 && (bytes < WEFT__STACK_BYTES_MIN || bytes > WEFT__STACK_BYTES_MAX))
        return weft_fail(-EINVAL, "a stack of %zu bytes: it takes %zu to %zu", bytes,
                         WEFT__STACK_BYTES_MIN, WEFT__STACK_BYTES_MAX);
    if (o->arg_bytes > weft__stack_bytes(bytes) / 4 || (o->arg_bytes > 0 && arg == NULL))
        return weft_fail(-EINVAL, "an argument of %zu bytes does not fit the stack", o->arg_bytes);
    return 0;
}

int weft__spin_check(weft_fn *fn, const void *arg, const weft_spin_options *o)
{
    return check_options(fn, arg, o);
}

/* Can that fiber be made, and under whom? 0, or -EINVAL, -ESRCH, -EXDEV with words. */
static inline int check(weft__cord *c, weft_fn *fn, const void *arg, const weft_spin_options *o,
                        weft__fiber **parent)
{
    int rc = check_options(fn, arg, o);
    if (rc < 0)
        return rc;
    *parent = o->parent != 0 ? weft__fiber_find(c, o->parent) : c->current;
    if (*parent == NULL || (*parent)->phase == WEFT__ENDED)
        return weft_fail(weft__fiber_missing(c, o->parent), "the parent is not there");
    return 0;
}

/* Copy the argument to the top of the new stack. */
static void place_arg(weft__fiber *f, const void *arg, size_t bytes)
{
    f->arg_room = (uint32_t)((bytes + 63) & ~(size_t)63);
    f->arg = memcpy(own_top(f) - f->arg_room, arg, bytes);
}

static void copy_name(weft__fiber *f, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes > sizeof f->name - 1)
        bytes = sizeof f->name - 1;
    memmove(f->name, name, bytes); /* it may be the fiber's own name */
    f->name[bytes] = '\0';
}

/* A clean record becomes a fiber, but for its context and its phase. */
static inline void begin(weft__fiber *f, weft_fiber id, weft_fn *fn, void *arg)
{
    weft__fiber_set_id(f, id);
    f->value = 0;
    f->switches = 0;
    f->fn = fn;
    f->arg = arg;
}

/* A clean record with a stack becomes what the options say. */
__attribute__((always_inline)) static inline void furnish(weft__cord *c, weft__fiber *f,
                                                          weft_fiber id, weft_fn *fn, void *arg,
                                                          const weft_spin_options *o,
                                                          weft__fiber *parent)
{
    f->has_own_size = o->stack_bytes != 0;
    f->is_daemon = o->is_daemon;
    if (o->name != NULL)
        copy_name(f, o->name);
    if (o->drop != NULL) {
        f->has_drop = true;
        f->life->drop = o->drop;
    }
    if (o->arg_bytes > 0) {
        place_arg(f, arg, o->arg_bytes);
        arg = f->arg;
    }
    begin(f, id, fn, arg);
    weft__fiber_set_phase(f, WEFT__FRESH);
    weft__fiber_rewind(f);
    weft__tree_link(f, parent);
    if (UNLIKELY(parent->is_closing))
        weft__fiber_end(c, f, -ECANCELED, WEFT__END_WITH_PARENT);
}

/* The common case of weft__record_take in short. */
static inline int take_record(weft__cord *c, size_t stack_bytes, weft__fiber **out)
{
    if (UNLIKELY(stack_bytes != 0 || c->warm_count == 0))
        return weft__record_take(c, stack_bytes, out);
    *out = c->warm[c->warm_count - 1];
    if (UNLIKELY(weft__fiber_is_spent(*out)))
        return weft__record_take(c, stack_bytes, out);
    c->warm_count--;
    return 0;
}

/* A fiber in no queue. 0, or -errno with words. */
static int make(weft__cord *c, weft_fn *fn, void *arg, const weft_spin_options *o,
                weft__fiber **out)
{
    weft__fiber *parent = NULL;
    int rc = check(c, fn, arg, o, &parent);
    if (rc < 0)
        return rc;
    weft__fiber *f;
    rc = take_record(c, o->stack_bytes, &f);
    if (rc < 0)
        return weft_fail(rc, "no room for another fiber (there are %u)", weft__cord_fibers(c));
    furnish(c, f, weft__id_new(f), fn, arg, o, parent);
    *out = f;
    return 0;
}

static inline weft_fiber queue_new(weft__cord *c, weft__fiber *f)
{
    f->woken_open = true;
    weft__runqueue_push(&c->runqueue, &f->queued);
    return f->id;
}

int weft__fiber_arrive(weft__cord *c, weft_fiber id, weft_fn *fn, void *arg,
                       const weft_spin_options *o, weft__fiber **out)
{
    weft__fiber *f = *out = weft__cord_at(c, weft__fiber_slot(id));
    weft__fiber *parent = o->parent != 0 ? weft__fiber_find(c, o->parent) : c->main;
    int rc = parent != NULL && parent->phase != WEFT__ENDED ? weft__cord_make_room(c, 0) : -ESRCH;
    if (rc == 0)
        rc = weft__fiber_take_stack(c, f, weft__stack_bytes(o->stack_bytes));
    if (rc == 0) {
        weft__records_count(c);
        furnish(c, f, id, fn, arg, o, parent);
        f->is_unawaited = true; /* who made it, in another thread, cannot await it */
        queue_new(c, f);
        weft__reserve_refill(c);
    } else {
        weft__record_put(&c->bare, f);
    }
    atomic_fetch_sub(&c->reserve.under_way, 1); /* now that its id is there, or never will be */
    return rc;
}

static const weft_spin_options no_options;

weft_fiber weft_spin_with(weft_fn *fn, void *arg, const weft_spin_options *options)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f;
    if (c == NULL || make(c, fn, arg, options != NULL ? options : &no_options, &f) < 0)
        return 0;
    return queue_new(c, f);
}

/*
 * In one piece for the most common kind: on a warm stack, by a fiber to which nothing applies. On
 * the run queue; NULL: that is not so, nothing has been done.
 */
static inline weft__fiber *spin_warm(weft__cord *c, weft_fn *fn, void *arg)
{
    if (UNLIKELY(c == NULL || fn == NULL || c->warm_count == 0))
        return NULL;
    weft__fiber *parent = c->current, *f = c->warm[c->warm_count - 1];
    weft_fiber id;
    if (UNLIKELY(parent->is_closing || parent->has_nursery || !weft__id_next(f, &id)))
        return NULL;
    c->warm_count--;
    f->last_id = id;
    begin(f, id, fn, arg);
    weft__context_again(&f->context, f->stack.low, own_bytes(f), weft__fiber_entry);
    weft__tree_hang(f, parent);
    weft__fiber_set_fresh(f, weft__runqueue_add(&c->runqueue, &f->queued));
    return f;
}

weft_fiber weft_spin(weft_fn *fn, void *arg)
{
    weft__fiber *f = spin_warm(weft__cord_self, fn, arg);
    return LIKELY(f != NULL) ? f->id : weft_spin_with(fn, arg, NULL);
}

int weft_go_with(weft_fn *fn, void *arg, const weft_spin_options *options)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f;
    int rc = make(c, fn, arg, options != NULL ? options : &no_options, &f);
    if (rc < 0)
        return rc;
    f->is_unawaited = true;
    queue_new(c, f);
    return 0;
}

int weft_go(weft_fn *fn, void *arg)
{
    weft__fiber *f = spin_warm(weft__cord_self, fn, arg);
    if (UNLIKELY(f == NULL))
        return weft_go_with(fn, arg, NULL);
    f->is_unawaited = true;
    return 0;
}

weft_fiber weft__new_with(weft_fn *fn, void *arg, const weft_spin_options *options)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f;
    if (c == NULL || make(c, fn, arg, options, &f) < 0)
        return 0;
    f->waits_in = &weft__waits_new;
    f->wait_since_ns = c->now_ns;
    if (f->is_stopped)
        weft__alarm_raise(c, f, WEFT__TAIL); /* made too late: let it end */
    return f->id;
}

weft_fiber weft_new(weft_fn *fn, void *arg)
{
    return weft__new_with(fn, arg, &no_options);
}

weft_value weft_first_value(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->current->life->first_value : 0;
}

weft_fiber weft_self(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->current->id : 0;
}

weft_fiber weft_main(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->main->id : 0;
}

weft_state weft__fiber_state(const weft__cord *c, const weft__fiber *f)
{
    if (f->phase == WEFT__ENDED || f->phase == WEFT__FREE)
        return WEFT_DEAD;
    if (f->waits_in != NULL)
        return WEFT_WAITING; /* also while it polls for the others */
    return f == c->current ? WEFT_RUNNING : WEFT_RUNNABLE;
}

weft_state weft_state_of(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    return f != NULL ? weft__fiber_state(c, f) : WEFT_DEAD;
}

int weft_name(weft_fiber fiber, const char *name)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (name == NULL)
        return weft_fail(-EINVAL, "a name is not NULL");
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL)
        return weft__fiber_missing(c, fiber);
    copy_name(f, name);
    return 0;
}

const char *weft_name_of(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    return f != NULL ? f->name : NULL;
}

void weft_trim_stack(void)
{
    weft__cord *c = weft__cord_here();
    if (c != NULL && c->current->stack.low != NULL)
        weft__stack_trim_below(&c->current->stack, __builtin_frame_address(0));
}
