/* Creation, names and states of fibers, and the release of their records. */
#include "core/fiber/fiber.h"

#include "core/fiber/error.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/tree.h"
#include "core/trace/trace.h"

#include <stdlib.h>
#include <string.h>

void weft__fiber_live_init(weft__fiber_live *live, weft__fiber *f)
{
    *live = (weft__fiber_live){.waiter.fiber = f};
    weft__timer_init(&live->timer, weft__sleep_expired);
    weft__timer_init(&live->deadline, weft__scope_expired);
    weft__list_init(&live->children);
    weft__list_init(&live->ended);
    f->live = live;
}

/*
 * Return the top of the stack below weft__fiber_live. A copy of the argument starts there and grows
 * downwards.
 */
static inline char *usable_top(const weft__fiber *f)
{
#ifdef WEFT__ASAN
    return f->stack.low + f->stack.bytes - WEFT__FIBER_LIVE_BYTES;
#else
    return __builtin_assume_aligned(f->live, 64);
#endif
}

static inline size_t usable_bytes(const weft__fiber *f)
{
    return (size_t)(usable_top(f) - f->stack.low);
}

/* Return the bytes below a copy of the argument. Tell the compiler that their end is aligned. */
static inline size_t context_bytes(const weft__fiber *f, size_t arg_room)
{
    size_t bytes = usable_bytes(f) - arg_room;
    if (((uintptr_t)f->stack.low + bytes) % 16 != 0)
        __builtin_unreachable();
    return bytes;
}

/* Return the address of weft__fiber_live. The fiber must have a stack. */
static weft__fiber_live *live_address(weft__fiber *f)
{
#ifdef WEFT__ASAN
    return &f->own_live;
#else
    return (void *)(f->stack.low + f->stack.bytes - WEFT__FIBER_LIVE_BYTES);
#endif
}

int weft__fiber_take_stack(weft__cord *c, weft__fiber *f, size_t bytes)
{
    int rc = weft__stack_acquire(&c->stacks, bytes, &f->stack);
    if (rc < 0)
        return rc;
    f->live = live_address(f);
    if (f->live->waiter.fiber == NULL) /* the page is new and reads as zeros */
        weft__fiber_live_init(f->live, f);
    f->live->waiter.fiber = f;
    weft__context_register_stack(&f->context, f->stack.low, usable_bytes(f));
    return 0;
}

/* Reset the fields that the end of a fiber does not reset. */
static void live_clear(weft__fiber_live *live)
{
    live->grace_ns = 0;
    live->cpu_ns = 0;
}

void weft__fiber_release_stack(weft__cord *c, weft__fiber *f)
{
    weft__context_unregister_stack(&f->context);
    live_clear(f->live);
    f->live = NULL;
    weft__stack_release(&c->stacks, &f->stack);
}

weft__fiber *weft__fiber_new_main(weft__cord *c)
{
    weft__fiber *f = weft__fiber_of_sibling(weft__list_pop(&c->uncached));
    weft__fiber_set_id(f, weft__id_new(f));
    weft__fiber_set_phase(f, WEFT__ALIVE);
    weft__fiber_live_init(&c->main_live, f);
    strcpy(f->name, "main");
    return f;
}

void weft__exit_hooks_run(weft__exit_hook **exit_hooks)
{
    weft__exit_hook *first;
    while ((first = *exit_hooks) != NULL) {
        weft__exit_hook_remove(first);
        first->on_exit(first);
    }
}

/* Reset the fields that few fibers set. */
COLD static void record_clear_rare(weft__fiber *f)
{
    weft__error_set(f, NULL);
    weft__exit_hooks_run(&f->monitors);
    f->reaper = NULL;
}

void weft__fiber_free(weft__cord *c, weft__fiber *f)
{
    weft__fiber_set_id(f, 0);
    weft__fiber_set_phase(f, WEFT__FREE);
    f->pending = 0;
    f->waits_in = NULL;
    f->is_parked = false;
    /* These fields are bits of one word, so the compiler combines the writes. */
    f->is_stopped = f->is_shutdown = f->is_restarting = f->is_interrupted = false;
    f->was_interrupted = f->is_closing = f->is_daemon = f->is_unawaited = f->has_drop =
        f->has_unawaited = f->is_value_taken = false;
    f->name[0] = '\0';
    f->refusals = 0;
    uint32_t arg_room = f->arg_room;
    f->arg_room = 0;
    if (UNLIKELY(f->error != NULL || f->monitors != NULL || f->reaper != NULL))
        record_clear_rare(f);
    if (f->stack.low != NULL && weft__fiber_can_stay_warm(c, f)) {
        live_clear(f->live);
        if (arg_room != 0)
            weft__frame_make(&f->context, f->stack.low, usable_bytes(f), weft__fiber_entry);
        weft__fiber_keep_warm(c, f);
        return;
    }
    if (f->stack.low != NULL)
        weft__fiber_release_stack(c, f);
    c->records_used--;
    weft__record_put(c->uncached.next, f);
}

void weft__fiber_reset_context(weft__fiber *f)
{
    weft__context_make(&f->context, f->stack.low, context_bytes(f, f->arg_room), weft__fiber_entry);
}

/* Without the forced inlining here and in fiber_set_up(): spin-batch +8 % time (docs/adr/0051). */
__attribute__((always_inline)) static inline int check_spin_options(weft_fn *fn, const void *arg,
                                                                    const weft_spin_options *o)
{
    if (fn == NULL)
        return weft_fail(-EINVAL, "new fiber: fn is NULL");
    size_t bytes = o->stack_bytes;
    if (bytes != 0 && (bytes < WEFT__STACK_BYTES_MIN || bytes > WEFT__STACK_BYTES_MAX))
        return weft_fail(-EINVAL, "new fiber: stack_bytes is %zu, which is not in %zu..%zu", bytes,
                         WEFT__STACK_BYTES_MIN, WEFT__STACK_BYTES_MAX);
    if (o->arg_bytes > weft__stack_bytes(bytes) / 4 || (o->arg_bytes > 0 && arg == NULL))
        return weft_fail(-EINVAL,
                         "new fiber: arg is NULL, or arg_bytes (%zu) is too large for the stack",
                         o->arg_bytes);
    return 0;
}

int weft__spin_check(weft_fn *fn, const void *arg, const weft_spin_options *o)
{
    return check_spin_options(fn, arg, o);
}

/*
 * Check the arguments of a new fiber, and find its parent.
 *
 * Returns 0. On failure, records a message and returns:
 * -EINVAL if an argument or an option is invalid
 * -ESRCH if the parent has ended
 * -EXDEV if the parent belongs to another thread
 */
static inline int check_spin(weft__cord *c, weft_fn *fn, const void *arg,
                             const weft_spin_options *o, weft__fiber **parent)
{
    int rc = check_spin_options(fn, arg, o);
    if (rc < 0)
        return rc;
    *parent = o->parent != 0 ? weft__fiber_find(c, o->parent) : c->current;
    if (*parent == NULL || (*parent)->phase == WEFT__ENDED)
        return weft_fail(weft__fiber_find_error(c, o->parent),
                         "new fiber: parent has ended or belongs to another thread");
    return 0;
}

/* Copy the argument to the top of the fiber's stack. */
static void stack_copy_arg(weft__fiber *f, const void *arg, size_t bytes)
{
    f->arg_room = (uint32_t)((bytes + 63) & ~(size_t)63);
    f->arg = memcpy(usable_top(f) - f->arg_room, arg, bytes);
}

static void fiber_copy_name(weft__fiber *f, const char *name)
{
    size_t bytes = strlen(name);
    if (bytes > sizeof f->name - 1)
        bytes = sizeof f->name - 1;
    memmove(f->name, name, bytes); /* name may be f->name */
    f->name[bytes] = '\0';
}

/* Initialise a fiber, except its context and its phase. The record must be clean. */
static inline void record_begin(weft__fiber *f, weft_fiber id, weft_fn *fn, void *arg)
{
    weft__fiber_set_id(f, id);
    f->value = 0;
    f->switches = 0;
    f->fn = fn;
    f->arg = arg;
}

/* The parent is closing, or the cord has a trace. */
COLD static void fiber_set_up_rare(weft__cord *c, weft__fiber *f, const weft__fiber *parent)
{
    if (parent->is_closing)
        weft__fiber_stop(c, f, -ECANCELED, WEFT__EXIT_WITH_PARENT);
    if (f->is_traced)
        weft__trace_spin(c, f);
}

/* Initialise a fiber with options. The record must be clean and have a stack. */
__attribute__((always_inline)) static inline void
fiber_set_up(weft__cord *c, weft__fiber *f, weft_fiber id, weft_fn *fn, void *arg,
             const weft_spin_options *o, weft__fiber *parent)
{
    f->has_own_size = o->stack_bytes != 0;
    f->is_daemon = o->is_daemon;
    if (o->name != NULL)
        fiber_copy_name(f, o->name);
    if (o->drop != NULL) {
        f->has_drop = true;
        f->live->drop = o->drop;
    }
    if (o->arg_bytes > 0) {
        stack_copy_arg(f, arg, o->arg_bytes);
        arg = f->arg;
    }
    record_begin(f, id, fn, arg);
    weft__fiber_set_phase(f, WEFT__FRESH);
    c->spun++;
    weft__fiber_reset_context(f);
    weft__tree_link(f, parent);
    if (UNLIKELY(parent->is_closing || parent->is_traced))
        fiber_set_up_rare(c, f, parent);
}

/*
 * Create a fiber, but do not queue the fiber. Returns 0. On failure, records a message and returns
 * an error of check_spin or weft__record_take.
 */
static int fiber_make(weft__cord *c, weft_fn *fn, void *arg, const weft_spin_options *o,
                      weft__fiber **out)
{
    weft__fiber *parent = NULL;
    int rc = check_spin(c, fn, arg, o, &parent);
    if (rc < 0)
        return rc;
    weft__fiber *f;
    rc = weft__record_take(c, o->stack_bytes, &f);
    if (rc < 0)
        return weft_fail(rc, "new fiber: memory or ids are exhausted (%u fibers exist)",
                         weft__cord_fibers(c));
    fiber_set_up(c, f, weft__id_new(f), fn, arg, o, parent);
    *out = f;
    return 0;
}

static inline weft_fiber fiber_queue_new(weft__cord *c, weft__fiber *f)
{
    f->is_wait_open = true;
    weft__runqueue_push(&c->runqueue, &f->queued);
    return f->id;
}

int weft__fiber_new_reserved(weft__cord *c, weft_fiber id, weft_fn *fn, void *arg,
                             const weft_spin_options *o, const void *spun_at, weft__fiber **out)
{
    weft__fiber *f = *out = weft__record_at(c, weft__fiber_slot(id));
    weft__fiber *parent = o->parent != 0 ? weft__fiber_find(c, o->parent) : c->main;
    int rc = parent != NULL && parent->phase != WEFT__ENDED ? weft__cord_make_room(c, 0) : -ESRCH;
    if (rc == 0)
        rc = weft__fiber_take_stack(c, f, weft__stack_bytes(o->stack_bytes));
    if (rc == 0) {
        weft__records_add_used(c);
        fiber_set_up(c, f, id, fn, arg, o, parent);
        f->live->spun_at = spun_at;
        f->is_unawaited = true; /* the creator is in another thread and cannot await the fiber */
        fiber_queue_new(c, f);
        weft__id_reserve_refill(c);
    } else {
        weft__record_put(&c->uncached, f);
    }
    atomic_fetch_sub(&c->id_reserve.in_flight, 1); /* after the id is set, or on failure */
    return rc;
}

static const weft_spin_options no_options;

weft_fiber weft__spin_at(weft_fn *fn, void *arg, const weft_spin_options *options,
                         const void *spun_at)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f;
    const weft_spin_options *o = options != NULL ? options : &no_options;
    if (c == NULL || fiber_make(c, fn, arg, o, &f) < 0)
        return 0;
    f->live->spun_at = spun_at;
    return fiber_queue_new(c, f);
}

weft_fiber weft_spin_with(weft_fn *fn, void *arg, const weft_spin_options *options)
{
    return weft__spin_at(fn, arg, options, __builtin_return_address(0));
}

/*
 * The fast path of weft_spin. Create a fiber in a warm record, and put the fiber on the run queue.
 * Return NULL if the slow path is necessary. Nothing has changed then. Without the fast path: spin
 * +50 % instructions, go +33 % (docs/adr/0051).
 */
static inline weft__fiber *spin_fast(weft__cord *c, weft_fn *fn, void *arg)
{
    if (UNLIKELY(c == NULL || fn == NULL || c->warm_count == 0))
        return NULL;
    weft__fiber *parent = c->current, *f = c->warm[c->warm_count - 1];
    weft_fiber id;
    if (UNLIKELY(parent->is_closing || parent->has_children_reaper || parent->is_traced ||
                 !weft__id_next(f, &id)))
        return NULL;
    c->warm_count--;
    c->spun++;
    f->last_id = id;
    record_begin(f, id, fn, arg);
    weft__fiber_set_phase(f, WEFT__FRESH);
    weft__context_remake(&f->context, f->stack.low, context_bytes(f, 0), weft__fiber_entry);
    weft__tree_link_only(f, parent);
    fiber_queue_new(c, f);
    return f;
}

weft_fiber weft_spin(weft_fn *fn, void *arg)
{
    weft__fiber *f = spin_fast(weft__cord_self, fn, arg);
    if (UNLIKELY(f == NULL))
        return weft__spin_at(fn, arg, NULL, __builtin_return_address(0));
    f->live->spun_at = __builtin_return_address(0);
    return f->id;
}

static int go_at(weft_fn *fn, void *arg, const weft_spin_options *options, const void *spun_at)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__fiber *f;
    int rc = fiber_make(c, fn, arg, options != NULL ? options : &no_options, &f);
    if (rc < 0)
        return rc;
    f->live->spun_at = spun_at;
    f->is_unawaited = true;
    fiber_queue_new(c, f);
    return 0;
}

int weft_go_with(weft_fn *fn, void *arg, const weft_spin_options *options)
{
    return go_at(fn, arg, options, __builtin_return_address(0));
}

int weft_go(weft_fn *fn, void *arg)
{
    weft__fiber *f = spin_fast(weft__cord_self, fn, arg);
    if (UNLIKELY(f == NULL))
        return go_at(fn, arg, NULL, __builtin_return_address(0));
    f->is_unawaited = true;
    f->live->spun_at = __builtin_return_address(0);
    return 0;
}

weft_fiber weft__new_with(weft_fn *fn, void *arg, const weft_spin_options *options,
                          const void *spun_at)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f;
    if (c == NULL || fiber_make(c, fn, arg, options, &f) < 0)
        return 0;
    f->live->spun_at = spun_at;
    f->waits_in = &weft__waits_new;
    f->is_wait_open = true;
    f->wait_since_ns = c->now_ns;
    if (f->is_stopped)
        weft__cancel_raise(c, f, WEFT__TAIL); /* the parent is ending, so the fiber must end */
    return f->id;
}

weft_fiber weft_new(weft_fn *fn, void *arg)
{
    return weft__new_with(fn, arg, &no_options, __builtin_return_address(0));
}

weft_value weft_first_value(void)
{
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->current->live->first_value : 0;
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
        return WEFT_WAITING; /* even while the fiber polls the backend */
    return f == c->current ? WEFT_RUNNING : WEFT_RUNNABLE;
}

weft_state weft_state_of(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    return f != NULL ? weft__fiber_state(c, f) : WEFT_DEAD;
}

int weft_set_name(weft_fiber fiber, const char *name)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (name == NULL)
        return weft_fail(-EINVAL, "weft_set_name: name is NULL");
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL)
        return weft__fiber_find_error(c, fiber);
    fiber_copy_name(f, name);
    return 0;
}

const char *weft_name_of(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return NULL;
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f == NULL)
        weft_fail(weft__fiber_find_error(c, fiber),
                  "weft_name_of: fiber #%llu is gone or belongs to another thread",
                  (unsigned long long)fiber);
    return f != NULL ? f->name : NULL;
}

void weft_trim_stack(void)
{
    weft__cord *c = weft__cord_here();
    if (c != NULL && c->current->stack.low != NULL)
        weft__stack_trim_below(&c->current->stack, __builtin_frame_address(0));
}
