/*
 * Fibers: making them, switching between them, waiting for them, ending them.
 *
 * There is always a current fiber. A thread's own stack is its main fiber; nothing has to be
 * started or initialised. Every other fiber has a parent, and is dead only when its children are:
 * as a fiber ends, its children are cancelled and joined. A child that fails while nobody awaits it
 * hands its error to its parent, whose current or next blocking call fails with it. When the
 * process ends (main returns, or exit is called), all fibers of that thread are ended first, and
 * threads that were started as cords (cord.h) with theirs.
 *
 * A cancelled fiber is expected to end: its blocking calls fail until it does. A fiber that ignores
 * this is paused for a millisecond at each call, and named on stderr with its backtrace after about
 * one second. Fibers that wait for its end keep waiting. 5 s after main has ended, the process ends
 * without such fibers of main's thread, with status 1 unless main returned another failure. Weft
 * waits for clean-up behind a shield, however long it takes.
 *
 * A fiber never moves to another thread. Unless a function says otherwise, it is to be called from
 * the thread that the fiber belongs to; an id of another thread's fiber is -EXDEV there.
 *
 * A fiber has ended when its function has returned, its clean-up is done and its children are dead.
 * It is gone when its value has been awaited too, or its parent has ended.
 *
 * Functions that return an int or a weft_value return a negative errno when they fail. Every
 * switchpoint can fail with -ECANCELED (the fiber is being stopped, or a scope around the call is
 * over) or with an error that was raised in the caller (weft_raise, or a child that failed); in a
 * main fiber also with -EDEADLK, when nothing is left that could ever wake it.
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <weft/base.h>

WEFT_BEGIN

/* Where a fiber is in its life. */
typedef enum weft_state {
    WEFT_RUNNING,  /* the current fiber of its thread */
    WEFT_RUNNABLE, /* on the run queue */
    WEFT_WAITING,  /* for something, or never started yet */
    WEFT_DEAD      /* ended, or gone */
} weft_state;

/* How to make a fiber; all-zero is the default. */
typedef struct weft_spin_options {
    const char *name; /* copied, cut to 31 bytes; NULL: none */
    /* 0: the default (64 KiB, or WEFT_STACK); else 16 KiB to 1 GiB. See weft_guard_set. */
    size_t stack_bytes;
    weft_fiber parent; /* 0: the caller */
    bool is_daemon;    /* does not keep a main fiber's weft_suspend waiting for it */
    size_t arg_bytes;  /* copy so many bytes of arg onto the new stack, and pass the copy */
    /*
     * Release what arg owns. Called once, with the argument of fn, if the fiber ends before fn is
     * called: cancelled, or ended with its parent, its group or its thread. Blocking calls fail in
     * drop, and it must not create fibers; weft_close and free are fine. If the fiber cannot be
     * created, drop is not called and the caller still owns arg. NULL: arg owns nothing.
     */
    void (*drop)(void *arg);
} weft_spin_options;

/**
 * Make a child of the caller that will run fn(arg), and put it at the tail of the run queue.
 *
 * It does not run before the caller reaches a switchpoint. What fn returns is the fiber's value,
 * for weft_await; it is kept until the fiber has been awaited or its parent has ended. Use weft_go
 * for fibers that nobody awaits. Of ended children that were not awaited, the last 1,024 keep their
 * records. Older ones keep only value and error: weft_restart, weft_name and weft_info_of fail with
 * -ESRCH for them. 100,000 of them under one parent are reported on stderr, once.
 *
 * Returns 0 if the fiber cannot be made; weft_error() says why: -EINVAL for a NULL fn,
 * -ENOMEM when there is no memory for it, -EAGAIN when the thread has as many fibers as it can.
 */
WEFT_API weft_fiber weft_spin(weft_fn *fn, void *arg);

/**
 * The same with options; NULL for none.
 *
 * Beside the errors of weft_spin:
 * -EINVAL if stack_bytes is out of range, or arg_bytes is more than a quarter of the stack;
 * -ESRCH if the parent is gone;
 * -EXDEV if the parent belongs to another thread.
 */
WEFT_API weft_fiber weft_spin_with(weft_fn *fn, void *arg, const weft_spin_options *options);

/**
 * Spin a fiber that nobody will await: nothing is kept once it has ended. Its errors still go to
 * its parent. Returns 0, or the error that weft_spin would have recorded.
 */
WEFT_API int weft_go(weft_fn *fn, void *arg);

/**
 * The same with options; NULL for none. For a fiber that owns its argument:
 *
 *     if (weft_go_with(serve, conn, &(weft_spin_options){.drop = conn_free}) < 0)
 *         conn_free(conn);
 *
 * Returns 0, or the error that weft_spin_with would have recorded.
 */
WEFT_API int weft_go_with(weft_fn *fn, void *arg, const weft_spin_options *options);

/**
 * Make a child of the caller and leave it waiting: weft_start, weft_schedule or weft_transfer sets
 * it going. Fails as weft_spin does.
 */
WEFT_API weft_fiber weft_new(weft_fn *fn, void *arg);

/**
 * Run a fiber made by weft_new at once: control goes to it now and comes back here at its first
 * switchpoint or at its end, before any other fiber runs. Starts may nest.
 *
 * Returns 0; -EBUSY if it has been started or scheduled already, -ESRCH if it has ended.
 */
WEFT_SWITCHPOINT weft_value weft_start(weft_fiber fiber);

/**
 * The bare symmetric switch: fiber runs now, and its weft_suspend or weft_transfer returns value.
 * The caller waits until someone transfers to it or schedules it, and returns what it is given.
 *
 * A fiber made by weft_new starts; it finds value by weft_first_value. A transfer to oneself
 * returns value at once. In a main fiber it returns 0, as weft_suspend does, when nothing is left
 * that could run. -EBUSY if the fiber waits in anything else, -ESRCH if it is gone.
 */
WEFT_SWITCHPOINT weft_value weft_transfer(weft_fiber fiber, weft_value value);

/**
 * The value that the caller was scheduled or transferred to with before it first ran; 0 if it was
 * only spun or started.
 */
WEFT_API weft_value weft_first_value(void);

/**
 * The current fiber. 0 only in a thread that cannot have fibers: for want of memory, or because
 * 1,024 other threads have some.
 */
WEFT_API weft_fiber weft_self(void);

/**
 * The fiber that will be told of this one's errors and ends it; 0 for a main fiber and for one that
 * is gone.
 */
WEFT_API weft_fiber weft_parent(weft_fiber fiber);

/** The main fiber of the calling thread. */
WEFT_API weft_fiber weft_main(void);

/**
 * Where the fiber is in its life; WEFT_DEAD also for an id that is gone, never was, or is another
 * thread's.
 */
WEFT_API weft_state weft_state_of(weft_fiber fiber);

/**
 * Name a fiber; names show up in reports. The name is copied and cut to 31 bytes.
 * -EINVAL for NULL, -ESRCH if the fiber is gone.
 */
WEFT_API int weft_name(weft_fiber fiber, const char *name);

/**
 * The fiber's name, "" if it has none, NULL if the fiber is gone. Valid until it ends or is
 * renamed.
 */
WEFT_API const char *weft_name_of(weft_fiber fiber);

/**
 * Make a fiber that is in weft_suspend or weft_transfer runnable, resumed with value; one made by
 * weft_new starts, and one that was spun and has not run yet goes to the tail again. It goes to the
 * tail of the run queue; the caller goes on. From any thread.
 *
 * Scheduled again before it has run, it moves to the tail and the later value wins, except that a
 * plain value never displaces an error. An error code as value makes the call that it waits in
 * fail. -EBUSY if it is running or waits in anything else (weft_interrupt is for that), -ESRCH if
 * it has ended.
 *
 * Called from another thread, the call returns 0 once the request is under way; a fiber that is not
 * waiting when it arrives is left alone. If the call fails, nothing is sent:
 * -ESRCH if the fiber or its thread has ended
 * -EAGAIN if 16,384 messages are pending in that thread: try again later, or use an event
 *  (weft_event_set), which is never refused
 * -ENOMEM if there is no memory
 */
WEFT_API int weft_schedule(weft_fiber fiber, weft_value value);

/**
 * Wait to be scheduled; returns the value. In a main fiber, with nothing left that could run or
 * wake anyone, returns 0: the way for main to wait until all the work is done. Like every blocking
 * call it fails early if a child of the caller does: look at what it returns.
 *
 * As long as the process has other threads, one of them might schedule a fiber: then the call keeps
 * waiting, unless they all run fibers and wait themselves. So does every other wait of a main
 * fiber, which would otherwise fail with -EDEADLK. The end of a thread without fibers is noticed
 * only in the first second of such a wait. After that only a message ends the wait.
 */
WEFT_SWITCHPOINT weft_value weft_suspend(void);

/** Go to the back of the run queue. Returns 0. */
WEFT_SWITCHPOINT int weft_snooze(void);

/**
 * Wait for a fiber to end; returns its value or its error, the same to everyone who waits.
 *
 * Any fiber may await any other of its thread. Once it has ended, has been awaited and nobody waits
 * any more, its id is gone. A wait that is cut short leaves the fiber as it is; it can be awaited
 * again. The error's words come along: weft_error(). -EDEADLK for oneself or one's own ancestor (it
 * cannot end before the caller), -ESRCH if it is gone.
 */
WEFT_SWITCHPOINT weft_value weft_await(weft_fiber fiber);

/**
 * Wait for n fibers; their values go to out (may be NULL), in the order of f. Out is left alone
 * unless all have succeeded.
 *
 * The first one that fails ends the wait: the others are stopped and waited for, and its error is
 * returned. The same happens when the caller is cancelled. Returns 0 otherwise.
 */
WEFT_SWITCHPOINT int weft_await_all(const weft_fiber *f, size_t n, weft_value *out);

/**
 * Wait for the first of n fibers to end; returns its index and puts its value (or error) into
 * *out (may be NULL). The others go on. One that has ended already wins, the lowest index first.
 * -EINVAL for n = 0, -ESRCH if one of them is gone; nothing has changed then.
 */
WEFT_SWITCHPOINT int weft_await_any(const weft_fiber *f, size_t n, weft_value *out) WEFT_MUST_CHECK;

/** The same, and the others are stopped and waited for. */
WEFT_SWITCHPOINT int weft_select_fibers(const weft_fiber *f, size_t n, weft_value *out);

/**
 * End a fiber: its blocking calls fail with -ECANCELED from now on, and its value is value whatever
 * it returns. If it has not run yet it never will. It is moved to the front of the run queue.
 * Stopped twice, the later value counts; once its function has returned, it is too late for one.
 * -ESRCH if it has ended (its value stays what it was), -EINVAL for a main fiber.
 */
WEFT_API int weft_stop(weft_fiber fiber, weft_value value);

/** The same, ending with -ECANCELED; an end that was asked for is not an error to its parent. */
WEFT_API int weft_cancel(weft_fiber fiber);

/**
 * Make the fiber's current or next blocking call fail once, with code and words. Raised errors
 * queue up; those that are not delivered when the fiber is stopped are dropped. If the fiber's
 * function returns without another blocking call, its value stays what it returned, and the error
 * is reported on stderr. In the main fiber of a process the error then makes the process fail.
 * (Without memory for the words the code travels alone, but only one such code can wait.)
 *
 * -EINVAL if code is not in -4095..-1, or format is NULL
 * -ESRCH if the fiber has ended
 * -ENOMEM if there is no memory and a code without words waits already
 */
WEFT_API int weft_raise(weft_fiber fiber, int code, const char *format, ...) WEFT_PRINTF(3, 4);

/**
 * Make the blocking call in which the fiber waits fail with code, once. If the kernel has already
 * completed its I/O, the call returns the result instead, and code is discarded.
 *
 * -EINVAL if code is not in -4095..-1
 * -EBUSY if the fiber waits in no call, or in one that cannot be cut short
 * -ESRCH if the fiber has ended
 */
WEFT_API int weft_interrupt(weft_fiber fiber, int code);

/**
 * Cancel a fiber and wait until it has ended, even if the caller is cancelled, stopped or past a
 * deadline: afterwards it is safe to free what the fiber used. If it has not ended after grace_s
 * seconds, report on stderr which fiber does not end, and keep waiting. Errors raised in the caller
 * meanwhile wait for its next call; weft_interrupt does not end the wait. Returns 0.
 *
 * -EINVAL if grace_s is negative or NaN
 * -ESRCH if the fiber is gone
 * -EDEADLK if the fiber is the caller or an ancestor of the caller, or if nothing is left that
 *  could end it
 * -EDEADLK if the fiber itself is in weft_terminate and waits for the caller: it is cancelled, and
 *  not waited for
 * -EPERM where switching is forbidden; nothing has changed then
 */
WEFT_SWITCHPOINT int weft_terminate(weft_fiber fiber, double grace_s);

/**
 * While the caller is being ended by weft_terminate with a grace time, or by a parent that is: the
 * seconds of it that are left, for clean-up to use (WEFT_SHIELD(weft_grace()) { }). 0 if it was
 * just cancelled, or is not being ended.
 */
WEFT_API double weft_grace(void);

/**
 * Stop a fiber, then run the same function with the same argument under the same id. Its children
 * are ended first; its name, its parent and those who await it stay. One that has ended, and was
 * not awaited yet, runs again, if it is among the last 1,024 such children of its parent. Returns
 * when the old run is over.
 * -EINVAL for a main fiber, oneself or one's own ancestor, -ESRCH if it is gone or ends with its
 * parent or its group meanwhile, -ENOMEM if it had ended and no stack is to be had.
 */
WEFT_SWITCHPOINT int weft_restart(weft_fiber fiber);

/**
 * Move a fiber under another parent. -EINVAL if that would make a circle, or for a main fiber;
 * -ESRCH, -EXDEV.
 */
WEFT_API int weft_attach(weft_fiber fiber, weft_fiber parent);

/** Move a fiber under the main fiber: it outlives its former parent, and its errors go to main. */
WEFT_API int weft_detach(weft_fiber fiber);

/**
 * The living children of a fiber in the order of their making, at most n; returns how many there
 * are.
 */
WEFT_API int weft_children(weft_fiber fiber, weft_fiber *out, size_t n);

/**
 * Cancel all children of the caller and wait until they have ended, whatever the state of the
 * caller, as weft_terminate does. Returns 0. Fails as weft_terminate does.
 */
WEFT_SWITCHPOINT int weft_terminate_children(double grace_s);

/**
 * Wait until no child of the caller lives. Returns 0, or the first error of a child; the others go
 * on.
 */
WEFT_SWITCHPOINT int weft_await_children(void);

/**
 * Hold a fiber: it does not run, though it may be woken or scheduled; weft_unpark lets it go on
 * with the value it then has. For debuggers and tests. -EINVAL for oneself, -ESRCH if it has ended.
 */
WEFT_API int weft_park(weft_fiber fiber);

/** Let a parked fiber go on. 0 also if it was not parked; -ESRCH if it has ended. */
WEFT_API int weft_unpark(weft_fiber fiber);

/**
 * For code that computes for long: has the caller used up its slice, the time that it may run
 * before it lets the others run? Returns 0; -ETIME if so, until it switches. Before that, one line
 * on stderr says so, once a slice. The time counts from the first call since the caller's last
 * switch.
 */
WEFT_API int weft_check_slice(void);

/**
 * The caller's own slice: after warn_s seconds it is said, after fail_s weft_check_slice fails; 0:
 * never. It also holds for the slice under way. -EINVAL if one is negative or NaN, -ENOMEM.
 */
WEFT_API int weft_set_slice(double warn_s, double fail_s);

/** The same for all fibers of the thread without one of their own; at first 0.5 and 1 s. */
WEFT_API int weft_set_default_slice(double warn_s, double fail_s);

/** Make the slice under way so much longer. -EINVAL if that is negative or NaN. */
WEFT_API int weft_extend_slice(double seconds);

/**
 * Give the caller floating-point modes of its own (rounding, precision, traps, flush to zero), or
 * take them from it. They are the thread's otherwise: who sets them otherwise and puts them back
 * before its next blocking call needs nothing, but what is left set is set for all. Its own begin
 * as those of the thread, are to be changed after this call, and end with it. Each switch from and
 * to the fiber takes some nanoseconds more. 0, -ENOMEM.
 */
WEFT_API int weft_own_modes(bool is_own);

/**
 * Begin a stretch in which a switch is a mistake: it is reported on stderr and the call fails with
 * -EPERM. Nests.
 */
WEFT_API void weft_no_switch_begin(void);

/** End it. */
WEFT_API void weft_no_switch_end(void);

/**
 * Call fn(arg) when this fiber ends, last in first out, before its children are ended. In a main
 * fiber: when its thread or the process ends. -EINVAL for NULL, -ENOMEM.
 */
WEFT_API int weft_defer(void (*fn)(void *), void *arg);

/* A kind of fiber-local value; 0 is none. */
typedef unsigned weft_key;

/**
 * A new key for fiber-local values, for all threads; destructor (may be NULL) gets every value that
 * is not NULL when its fiber ends. Returns 0 when there are none left (64 in all).
 */
WEFT_API weft_key weft_key_new(void (*destructor)(void *)) WEFT_MUST_CHECK;

/** The caller's value for a key; NULL if there is none. */
WEFT_API void *weft_local_get(weft_key key);

/** Set it. -EINVAL for a key that was never made, -ENOMEM. */
WEFT_API int weft_local_set(weft_key key, void *value);

/**
 * Give the pages of the caller's stack that lie below what it uses now back to the system: for one
 * that has been deep, and is about to wait for long. Costs a system call, and a page fault for each
 * page that is used again.
 */
WEFT_API void weft_trim_stack(void);

/**
 * Set the size of the guard below every stack of the process, rounded up to an odd number of pages.
 * The default is WEFT_GUARD from the environment (bytes, or a number followed by K or M), else one
 * page. Call this once, before the first fiber is created in any thread.
 *
 * A function whose frame is larger than the guard can step over it and write to the stack of
 * another fiber without a fault. Code compiled with -fstack-clash-protection touches every page of
 * its frames and hits a guard of any size; pkg-config gives this flag for weft. A larger guard is
 * for code that is compiled without it. Page tables cost 8 bytes per page of guard, for every
 * stack: a guard of 64 KiB doubles those of a stack of the default size.
 *
 * Returns 0.
 * -EINVAL if bytes is 0 or more than 16 MiB
 * -EBUSY if a fiber has been created or the size has been set already
 */
WEFT_API int weft_guard_set(size_t bytes);

/**
 * Memory of this fiber, aligned for anything, freed when it has ended and its children too. NULL if
 * there is none.
 */
WEFT_API void *weft_alloc(size_t bytes) WEFT_MUST_CHECK;

/* What WEFT_DEFER leaves on the stack in C. Private. */
typedef struct weft__deferred {
    void (*fn)(void); /* really: anything that takes one integer or pointer */
    intptr_t x;
} weft__deferred;

/** The clean-up function of WEFT_DEFER: calls d->fn(d->x). Private. */
WEFT_API void weft__deferred_run(weft__deferred *d);

WEFT_END

/*
 * WEFT_DEFER(fn, x): call fn(x) when this block is left in any way: by its end, return, break or
 * goto. x, an integer or a pointer, is evaluated here, once; fn's result is ignored. Several run
 * last in first out.
 */
#define WEFT_DEFER(fn, x) WEFT__DEFER(fn, x, WEFT__PASTE(weft__defer_, __COUNTER__))

#ifdef __cplusplus
#if __cplusplus < 201703L
#error "weft's headers want C11 or C++17"
#endif
template <typename F> struct weft__guard {
    F call;
    ~weft__guard()
    {
        call();
    }
};
template <typename F> weft__guard(F) -> weft__guard<F>;
#define WEFT__DEFER(fn, x, name)                 \
    [[maybe_unused]] weft__guard name            \
    {                                            \
        [weft__x = (x)] { (void)(fn)(weft__x); } \
    }
#else
#define WEFT__DEFER(fn, x, name)                         \
    __attribute__((cleanup(weft__deferred_run), unused)) \
    weft__deferred name = {(void (*)(void))(fn), (intptr_t)(x) + WEFT__CHECK_CALL(fn, x)}

/* 0, if x can be passed to fn: else it does not compile. Nothing is called. */
#define WEFT__CHECK_CALL(fn, x) (0 * (intptr_t)sizeof(((void)(fn)(x), 0)))
#endif

#endif
