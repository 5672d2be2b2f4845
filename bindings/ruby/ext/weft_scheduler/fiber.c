/* Hooks that start and interrupt fibers: fiber, fiber_interrupt; and Weft::Scheduler#raise. */
#include "scheduler.h"

static ID id_new, id_merge;
static VALUE fiber_class;
static VALUE non_blocking; /* the usual keyword arguments of Fiber.new, frozen */

struct fiber_start {
    struct scheduler *scheduler;
    struct waiter caller;
    VALUE fiber;
};

/*
 * The caller is ready, not waiting, and queued before the transfer: the new fiber may never return
 * to it. Ruby continues the root fiber when a fiber ends, so the caller may also run early.
 */
static VALUE start_transfer(VALUE arg)
{
    struct fiber_start *start = (struct fiber_start *)arg;
    waiter_wake(start->scheduler, &start->caller);
    start->scheduler->switches++;
    rb_fiber_transfer(start->fiber, 0, NULL);
    return Qnil;
}

static VALUE start_end(VALUE arg)
{
    struct fiber_start *start = (struct fiber_start *)arg;
    waiter_leave(start->scheduler, &start->caller);
    return Qnil;
}

/* Return the keyword arguments of Fiber.new. */
static VALUE fiber_options(int argc, VALUE *argv)
{
    VALUE options;
    rb_scan_args(argc, argv, ":", &options);
    return NIL_P(options) ? non_blocking : rb_funcall(non_blocking, id_merge, 1, options);
}

/* fiber(**options) { ... }: run the block in a new fiber until it waits. Return the fiber. */
static VALUE hook_fiber(int argc, VALUE *argv, VALUE self)
{
    VALUE options = fiber_options(argc, argv);
    VALUE block = rb_block_proc();
    VALUE fiber =
        rb_funcall_with_block_kw(fiber_class, id_new, 1, &options, block, RB_PASS_KEYWORDS);
    RB_GC_GUARD(block); /* Ruby does not mark the block of the call */
    struct fiber_start start = {.scheduler = scheduler_get(self), .fiber = fiber};
    waiter_enter(start.scheduler, &start.caller, "schedule");
    rb_ensure(start_transfer, (VALUE)&start, start_end, (VALUE)&start);
    RB_GC_GUARD(self);
    RB_GC_GUARD(fiber);
    return fiber;
}

static void raise_later(VALUE self, VALUE fiber, VALUE exception)
{
    struct scheduler *scheduler = scheduler_get(self);
    if (scheduler->is_closed || !RTEST(rb_fiber_alive_p(fiber)))
        return;
    ready_queue_push_exception(scheduler, fiber, exception);
    scheduler_wake_poll(scheduler);
}

/* fiber_interrupt(fiber, exception): any thread. Raise exception in fiber, later. */
static VALUE hook_fiber_interrupt(VALUE self, VALUE fiber, VALUE exception)
{
    raise_later(self, fiber, rb_ary_new_from_args(1, exception));
    return Qnil;
}

/*
 * raise(fiber, ...): raise an exception in a waiting fiber, with the arguments of Kernel#raise. The
 * caller continues. With Fiber#raise it would wait until the other fiber ends. Without a fiber, the
 * call is Kernel#raise: methods of subclasses use it.
 */
static VALUE scheduler_raise(int argc, VALUE *argv, VALUE self)
{
    if (argc == 0 || !RTEST(rb_obj_is_kind_of(argv[0], fiber_class)))
        return rb_call_super(argc, argv);
    VALUE exception = rb_make_exception(argc - 1, argv + 1);
    if (NIL_P(exception))
        exception = rb_exc_new_cstr(rb_eRuntimeError, "unhandled exception");
    if (argv[0] == rb_fiber_current())
        rb_exc_raise(exception);
    raise_later(self, argv[0], rb_ary_new_from_args(1, exception));
    return Qnil;
}

void init_fiber_hooks(VALUE klass)
{
    id_new = rb_intern("new");
    fiber_class = rb_path2class("Fiber");
    rb_gc_register_mark_object(fiber_class);
    id_merge = rb_intern("merge");
    non_blocking = rb_hash_new();
    rb_hash_aset(non_blocking, ID2SYM(rb_intern("blocking")), Qfalse);
    rb_obj_freeze(non_blocking);
    rb_gc_register_mark_object(non_blocking);
    rb_define_method(klass, "fiber", hook_fiber, -1);
    rb_define_method(klass, "fiber_interrupt", hook_fiber_interrupt, 2);
    rb_define_method(klass, "raise", scheduler_raise, -1);
}
