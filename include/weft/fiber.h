/*
 * Creation, switching, waiting and ending of fibers.
 *
 * Every thread has a current fiber. The main fiber runs on the stack of the thread. weft needs no
 * initialisation. Every other fiber has a parent. A fiber that ends first cancels and joins its
 * children. If a child fails and no fiber awaits the child, weft raises the error in the parent.
 * The parent's current or next blocking call then fails with this error. When main returns or the
 * program calls exit(3), weft first ends all fibers of the thread and all cords (see cord.h).
 *
 * A cancelled fiber must end. Its blocking calls fail until the fiber ends. After 1,000 such
 * failures in a row, weft pauses the fiber for 1 ms at each further call. After 1,000 pauses, about
 * 1 s, weft reports the fiber on stderr with a backtrace. Fibers that wait for the end of this
 * fiber continue to wait. 5 s after main has ended, the process exits even if such fibers remain in
 * the main thread. The exit status is then 1, unless main returned another nonzero status. weft
 * waits without a time limit for cleanup in WEFT_SHIELD.
 *
 * A fiber never moves to another thread. Call a function in the thread of the fiber, unless the
 * comment of the function allows any thread. For the id of another thread's fiber, functions that
 * return an int or a weft_value fail with -EXDEV.
 *
 * A fiber has ended when its function has returned, its cleanup is complete and its children have
 * ended. An ended fiber is gone when a fiber has awaited its value, or when its parent has ended.
 *
 * Functions that return an int or a weft_value return a negative errno on failure. Every
 * switchpoint can fail with an error that weft_raise or a failed child has raised in the caller.
 * Every switchpoint can also fail with:
 * -ECANCELED if a scope around the call is cancelled
 * -ECANCELED if the caller is being stopped
 * -EDEADLK if the caller is a main fiber and no event can wake the caller
 * -EPERM if the call would switch after weft_no_switch_begin
 */
#ifndef WEFT_FIBER_H
#define WEFT_FIBER_H

#include <weft/base.h>
#include <weft/local.h>

#include <stdarg.h>

WEFT_BEGIN

/* The state of a fiber. */
typedef enum weft_state {
    WEFT_RUNNING,  /* the current fiber of its thread */
    WEFT_RUNNABLE, /* ready to run */
    WEFT_WAITING,  /* in a blocking call, or created by weft_new and not started */
    WEFT_DEAD      /* ended, or gone */
} weft_state;

/* Options of a new fiber. All-zero is the default. */
typedef struct weft_spin_options {
    const char *name; /* copied, cut to 31 bytes; NULL: none */
    /* 16 KiB to 1 GiB; 0: the default (64 KiB, or WEFT_STACK). See weft_set_guard. */
    size_t stack_bytes;
    weft_fiber parent; /* 0: the caller */
    bool is_daemon;    /* weft_suspend in a main fiber does not wait for the fiber */
    size_t arg_bytes;  /* copy these bytes of arg to the new stack, and pass the copy; 0: none */
    /*
     * Release the resources that arg owns. weft calls drop once, with the argument of fn, if the
     * fiber ends before weft calls fn. Such a fiber was cancelled, or ended with its parent, its
     * group or its thread. Blocking calls in drop fail. drop must not create fibers, but may call
     * weft_close and free. If the fiber cannot be created, weft does not call drop, and the caller
     * still owns arg. NULL: arg owns no resources.
     */
    void (*drop)(void *arg);
} weft_spin_options;

/**
 * Create a child of the caller that runs fn(arg). The call adds the fiber to the tail of the run
 * queue. The fiber first runs after the caller has switched. The result of fn is the value of the
 * fiber. weft stores the value until a fiber awaits it or the parent ends. Use weft_go for fibers
 * that are not awaited.
 *
 * weft keeps the records of a parent's last 1,024 ended, unawaited children. For older children,
 * weft keeps only the value and the error. weft_restart, weft_set_name and weft_info_of then fail
 * with -ESRCH. weft reports 100,000 unawaited children of one parent on stderr, once per process.
 * Returns the id. On failure, returns 0 and records an error of weft_self, or one of these errors
 * for weft_error():
 * -EAGAIN if the thread has reached its limit of 2^22 fibers
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_fiber weft_spin(weft_fn *fn, void *arg);

/**
 * Like weft_spin, but with options. If options is NULL, the defaults apply.
 * Errors in addition to those of weft_spin:
 * -EINVAL if arg is NULL and arg_bytes is not 0
 * -EINVAL if arg_bytes is more than a quarter of the stack
 * -EINVAL if stack_bytes is out of range
 * -ESRCH if the parent has ended
 * -EXDEV if the parent belongs to another thread
 */
WEFT_API weft_fiber weft_spin_with(weft_fn *fn, void *arg, const weft_spin_options *options);

/**
 * Create a child of the caller that no fiber awaits. The fiber is gone when it has ended. weft
 * raises its error in the parent. Returns 0, or one of the errors of weft_spin.
 */
WEFT_API int weft_go(weft_fn *fn, void *arg);

/**
 * Like weft_go, but with options. If options is NULL, the defaults apply. Set drop for a fiber that
 * owns its argument:
 *
 *     if (weft_go_with(serve, conn, &(weft_spin_options){.drop = conn_free}) < 0)
 *         conn_free(conn);
 *
 * Returns 0, or one of the errors of weft_spin_with.
 */
WEFT_API int weft_go_with(weft_fn *fn, void *arg, const weft_spin_options *options);

/**
 * Create a child of the caller without starting it. The fiber waits until weft_start, weft_schedule
 * or weft_transfer starts it. Returns the id, or 0 on failure. The errors are those of weft_spin.
 */
WEFT_API weft_fiber weft_new(weft_fn *fn, void *arg);

/**
 * Start a fiber that weft_new created, and switch to it. The call returns when the fiber first
 * switches or ends. If the fiber calls weft_transfer, other fibers run first. Calls may nest.
 * Returns 0, or:
 * -EBUSY if the fiber is parked, scheduled or started
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_SWITCHPOINT weft_value weft_start(weft_fiber fiber);

/**
 * Switch directly to a fiber, and resume the fiber with a value. The fiber must be in weft_suspend
 * or weft_transfer. Its call then returns value. A fiber that weft_new created starts, and gets
 * value from weft_first_value. The caller waits until another fiber transfers to the caller or
 * schedules the caller. A transfer to the caller itself returns value without a switch. In a main
 * fiber, the call can return 0 as weft_suspend does.
 * Returns the value that resumes the caller, or:
 * -EBUSY if the fiber is parked or in any other call
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_SWITCHPOINT weft_value weft_transfer(weft_fiber fiber, weft_value value);

/**
 * Return the value that first resumed the caller. weft_schedule or weft_transfer sets the value
 * before the caller first runs. Returns 0 if neither function was called.
 */
WEFT_API weft_value weft_first_value(void);

/**
 * Return the id of the current fiber.
 *
 * On failure, returns 0 and records one of these errors for weft_error():
 * -EAGAIN if 1,024 other threads have fibers
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
WEFT_API weft_fiber weft_self(void);

/**
 * Return the parent of a fiber. weft raises errors of a fiber in its parent. The end of the parent
 * ends the fiber.
 *
 * Returns 0 if the fiber is a main fiber. A main fiber has no parent, and the call then records no
 * error. On failure, returns 0 and records one of these errors for weft_error():
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API weft_fiber weft_parent(weft_fiber fiber);

/**
 * Return the main fiber of the calling thread. On failure, returns 0 and records an error of
 * weft_self.
 */
WEFT_API weft_fiber weft_main(void);

/** Return the state of a fiber. Returns WEFT_DEAD if no fiber of this thread has the id. */
WEFT_API weft_state weft_state_of(weft_fiber fiber);

/**
 * Set the name of a fiber, for reports. The call copies the name, and cuts the copy to 31 bytes.
 * Returns 0, or:
 * -EINVAL if name is NULL
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_set_name(weft_fiber fiber, const char *name);

/**
 * Return the name of a fiber. Returns "" if the fiber has no name. The result is valid until the
 * fiber ends or is renamed.
 *
 * On failure, returns NULL and records one of these errors for weft_error():
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API const char *weft_name_of(weft_fiber fiber);

/**
 * Make a suspended fiber runnable. Its blocking call returns value when the fiber runs. The fiber
 * must be in weft_suspend or weft_transfer. The call also starts a fiber that weft_new created. The
 * call adds the fiber to the tail of the run queue. If the fiber was scheduled or spun and has not
 * run since, the call moves the fiber to the tail. The new value then replaces the earlier value.
 * However, if the earlier value is an error and the new value is not, the call has no effect.
 *
 * Any thread may call this function. The call does not switch. From another thread, the call sends
 * a request and returns 0. The request has no effect if the fiber is not suspended when the request
 * arrives. For a wake-up without a limit on messages, use weft_event_set. To end any other blocking
 * call, use weft_interrupt.
 * Returns 0, or:
 * -EAGAIN if 16,384 messages are pending in the fiber's thread
 * -EBUSY if the fiber is running or in any other call
 * -ENOMEM if memory is exhausted
 * -ESRCH if the fiber or its thread has ended
 */
WEFT_API int weft_schedule(weft_fiber fiber, weft_value value);

/**
 * Wait until the caller is scheduled, and return the value. In a main fiber, the call returns 0 if
 * no fiber can run and events can wake only daemons. main can therefore wait until all work is
 * done. Like every blocking call, weft_suspend fails if a child of the caller fails. Check the
 * result.
 *
 * Another thread might schedule a fiber. Therefore a main fiber waits while the process has other
 * threads. The wait ends if all these threads run fibers that no event can wake. Every wait that
 * would otherwise fail with -EDEADLK follows this rule. weft detects the end of a thread without
 * fibers only in the first second of a wait. After that second, only a message ends the wait.
 */
WEFT_SWITCHPOINT weft_value weft_suspend(void);

/**
 * Move the caller to the tail of the run queue, and let other fibers run.
 *
 * A child that fails meanwhile makes the next switchpoint of the caller fail, not this call.
 *
 * Returns 0, an error that was raised in the caller before, or:
 * -ECANCELED if the caller is cancelled
 */
WEFT_SWITCHPOINT int weft_snooze(void);

/**
 * Wait until a fiber ends, and return its value or its error. A fiber can await any other fiber of
 * its thread. Every waiting fiber gets the value or the error. The ended fiber is then gone. An
 * interrupted wait does not affect the fiber. The fiber can be awaited again. If the fiber failed,
 * weft_error() returns the message.
 * Returns the value or the error of the fiber, or:
 * -EDEADLK if the fiber is the caller or an ancestor of the caller
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_SWITCHPOINT weft_value weft_await(weft_fiber fiber);

/**
 * Wait until n fibers end, and store their values in out. The values have the order of f. If out is
 * NULL or a fiber fails, the call stores no values. If a fiber fails or the wait fails, the call
 * cancels the other fibers and waits for their end. The errors below change nothing.
 * Returns 0, the error of the first fiber that fails, or:
 * -EDEADLK if a fiber is the caller or an ancestor of the caller
 * -EINVAL if f is NULL and n is not 0
 * -ENOMEM if memory is exhausted
 * -ESRCH if a fiber is gone
 * -EXDEV if a fiber belongs to another thread
 */
WEFT_SWITCHPOINT int weft_await_all(const weft_fiber *f, size_t n, weft_value *out);

/**
 * Wait until the first of n fibers ends, and return its index. The call stores the value or the
 * error of that fiber in *out, unless out is NULL. The other fibers continue. If several fibers
 * have already ended, the call returns the lowest index.
 * Returns the index. Errors in addition to those of weft_await_all:
 * -EINVAL if n is 0
 */
WEFT_SWITCHPOINT int weft_await_any(const weft_fiber *f, size_t n, weft_value *out) WEFT_MUST_CHECK;

/** Like weft_await_any, but also cancel and join the other fibers. */
WEFT_SWITCHPOINT int weft_select_fibers(const weft_fiber *f, size_t n, weft_value *out);

/**
 * End a fiber with a value. After the call, the blocking calls of the fiber fail with -ECANCELED.
 * The fiber ends with value instead of the result of its function. weft does not raise value in the
 * parent, even if value is an error. A fiber that has not run yet never runs. The fiber moves to
 * the front of the run queue. A later call replaces the value, until the function has returned.
 * Returns 0, or:
 * -EINVAL if the fiber is a main fiber
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_stop(weft_fiber fiber, weft_value value);

/** Like weft_stop, but with the value -ECANCELED. */
WEFT_API int weft_cancel(weft_fiber fiber);

/**
 * Raise an error in a fiber. The current or next blocking call of the fiber fails once, with code
 * and a message. weft queues raised errors. If the fiber is stopped, weft drops the queued errors.
 * If the function of the fiber returns before another blocking call, weft reports the error on
 * stderr. The value of the fiber does not change. If the fiber is the main fiber of the process,
 * the process fails. If memory is exhausted, the error has no message. Only one error without a
 * message can be queued.
 * Returns 0, or:
 * -EINVAL if code is not in -4095..-1
 * -EINVAL if format is NULL
 * -ENOMEM if memory is exhausted and an error without a message is already queued
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_raise(weft_fiber fiber, int code, const char *format, ...) WEFT_PRINTF(3, 4);

/** Like weft_raise, but with a va_list. */
WEFT_API int weft_raisev(weft_fiber fiber, int code, const char *format, va_list args)
    WEFT_PRINTF(3, 0);

/**
 * Make the current blocking call of a fiber fail with code. If the kernel has already completed the
 * I/O of that blocking call, the blocking call returns its result, and weft discards code. A call
 * that waits for the end of cancelled fibers cannot be interrupted, for example weft_terminate.
 * Returns 0, or:
 * -EBUSY if the blocking call cannot be interrupted
 * -EBUSY if the fiber is not in a blocking call
 * -EINVAL if code is not in -4095..-1
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_interrupt(weft_fiber fiber, int code);

/**
 * Cancel a fiber and wait until it has ended. The call waits even if the caller is cancelled,
 * stopped or past a deadline. After the call, the caller may free memory that the fiber used. If
 * the fiber has not ended after grace_s seconds, weft reports the fiber on stderr. The call then
 * continues to wait. If an error is raised in the caller meanwhile, the caller's next blocking call
 * fails with that error. weft_interrupt of the caller fails with -EBUSY. If two fibers terminate
 * each other, the second call cancels the fiber and fails with -EDEADLK.
 * Returns 0, or:
 * -EDEADLK if no event can end the fiber
 * -EDEADLK if the fiber is the caller or an ancestor of the caller
 * -EDEADLK if the fiber waits for the caller in weft_terminate
 * -EINVAL if grace_s is negative or NaN
 * -EPERM if switching is forbidden
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_SWITCHPOINT int weft_terminate(weft_fiber fiber, double grace_s);

/**
 * Return the remaining grace time of the caller, in seconds. weft_terminate and weft_supervise set
 * the grace time of a fiber and its children. Cleanup can use this time in
 * WEFT_SHIELD(weft_grace()). Returns 0 if the caller is not being ended, or has no grace time.
 */
WEFT_API double weft_grace(void);

/**
 * Stop a fiber, and run its function again. The id does not change. The children of the fiber end
 * first. The fiber keeps its argument, name, parent and waiters. An ended fiber runs again if no
 * fiber has awaited its value. Such a fiber must be among the last 1,024 unawaited children of its
 * parent. The call returns when the old run has ended.
 * Returns 0, or:
 * -EINVAL if the fiber is the caller or an ancestor of the caller
 * -ENOMEM if the fiber has ended and memory for a stack is exhausted
 * -ESRCH if the fiber is gone, or is stopped during the call
 * -ESRCH if the parent or the group of the fiber is ending
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_SWITCHPOINT int weft_restart(weft_fiber fiber);

/**
 * Move a fiber to another parent. The fiber leaves its group or supervisor.
 * Returns 0, or:
 * -EINVAL if parent is ending
 * -EINVAL if the fiber is a main fiber
 * -EINVAL if the fiber is parent or an ancestor of parent
 * -ESRCH if the fiber or parent has ended
 * -EXDEV if the fiber or parent belongs to another thread
 */
WEFT_API int weft_attach(weft_fiber fiber, weft_fiber parent);

/**
 * Make the main fiber of the thread the parent of a fiber. The fiber outlives its former parent.
 * Returns 0, or one of the errors of weft_attach.
 */
WEFT_API int weft_detach(weft_fiber fiber);

/**
 * Store the ids of the living children of a fiber in out. The call stores at most n ids, in the
 * order in which the fibers became children.
 * Returns the number of living children, which may be more than n, or:
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_children(weft_fiber fiber, weft_fiber *out, size_t n);

/**
 * Cancel all children of the caller and wait until they have ended. The call waits as
 * weft_terminate does. If switching is forbidden, the call cancels the children and fails
 * with -EPERM. Returns 0, or one of the errors of weft_terminate.
 */
WEFT_SWITCHPOINT int weft_terminate_children(double grace_s);

/**
 * Wait until the caller has no living children. Returns 0, or the first error of a child. After an
 * error, the other children continue.
 */
WEFT_SWITCHPOINT int weft_await_children(void);

/**
 * Prevent a fiber from running, for debuggers and tests. A parked fiber can be woken and scheduled,
 * but does not run. After weft_unpark, the fiber resumes with its latest value.
 * Returns 0, or:
 * -EINVAL if the fiber is the caller
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_park(weft_fiber fiber);

/**
 * Allow a parked fiber to run.
 * Returns 0, even if the fiber is not parked, or:
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_unpark(weft_fiber fiber);

/**
 * Check whether the caller has used up its time slice. Call this function during long computations.
 * A time slice starts with the first call of weft_check_slice or weft_extend_slice after a switch.
 * The time slice has a warning time and a failure time. After the warning time, the call reports
 * the fiber on stderr, once per time slice.
 * Returns 0, or:
 * -ETIME if the failure time has passed
 */
WEFT_API int weft_check_slice(void);

/**
 * Set the warning time and the failure time of the caller's time slices. If a time is 0, there is
 * no warning or no failure. The times also apply to the current time slice.
 * Returns 0, or:
 * -EINVAL if warn_s or fail_s is negative or NaN
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_set_slice(double warn_s, double fail_s);

/**
 * Like weft_set_slice, for all fibers of the calling thread. The times do not apply to fibers that
 * have called weft_set_slice. The initial times are 0.5 s and 1 s.
 */
WEFT_API int weft_set_default_slice(double warn_s, double fail_s);

/**
 * Extend the caller's current time slice.
 * Returns 0, or:
 * -EINVAL if seconds is negative or NaN
 */
WEFT_API int weft_extend_slice(double seconds);

/**
 * Add or remove a private FPU environment of the caller. An FPU environment consists of rounding
 * mode, precision, traps and flush-to-zero. By default, all fibers of a thread share one
 * environment. A fiber that changes the shared environment must restore it before its next blocking
 * call. If is_own is true, the caller gets a copy of the shared environment. This private
 * environment lasts until the fiber ends or calls weft_own_fpu_env(false). Each switch from or to
 * such a fiber costs a few additional nanoseconds.
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_own_fpu_env(bool is_own);

/**
 * Begin a section in which the caller must not switch. If a call would switch, weft reports the
 * call on stderr, and the call fails with -EPERM. Sections nest.
 */
WEFT_API void weft_no_switch_begin(void);

/** End the section that weft_no_switch_begin began. */
WEFT_API void weft_no_switch_end(void);

/**
 * Return unused pages of the caller's stack to the system. Call this function before a long wait in
 * a fiber that has used much of its stack. The call costs a system call. Each page that the fiber
 * uses again costs a page fault.
 */
WEFT_API void weft_trim_stack(void);

/**
 * Set the size of the guard below every stack of the process. The call rounds the size up to an odd
 * number of pages. The default is WEFT_GUARD from the environment, in bytes or with the suffix K or
 * M. Without WEFT_GUARD, the default is 1 page. Call this function once, before any thread creates
 * a fiber.
 *
 * A function with a frame larger than the guard can write to the stack of another fiber without a
 * fault. Code that is compiled with -fstack-clash-protection touches every page of its frames. Such
 * code hits a guard of any size. pkg-config returns this flag for weft. A larger guard is for code
 * that is compiled without the flag. For every stack, page tables take 8 bytes per page of guard.
 * With the default stack size, a guard of 64 KiB doubles the page tables.
 * Returns 0, or:
 * -EBUSY if a fiber has been created
 * -EBUSY if the size has already been set
 * -EINVAL if bytes is 0 or more than 16 MiB
 */
WEFT_API int weft_set_guard(size_t bytes);

WEFT_END

#endif
