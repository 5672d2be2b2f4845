/*
 * Threads that run fibers, called cords.
 *
 * Each cord has its own run queue, timers and backend. A thread becomes a cord at its first call
 * that needs a fiber. weft_cord_start starts a new thread as a cord. The main fiber of this cord
 * runs a function. The cord ends when the function has returned and all fibers of the cord have
 * ended. weft stores the value and the error of the cord until a fiber joins the cord. The id of a
 * cord is the id of its main fiber. weft_tell and weft_schedule accept the id in any thread.
 *
 * Fibers never move between cords. Cords communicate by weft_tell, weft_schedule, events, shared
 * channels (weft_chan_new_shared) and the functions of this header. Fibers of any cord may call all
 * of these functions. A plain thread is a thread that is not a cord. A plain thread may call
 * weft_cord_spin, weft_cord_cancel, weft_tell, weft_try_tell, weft_schedule, weft_event_set,
 * weft_stats_of and weft_stats_total. The plain thread becomes a cord only if the call records an
 * error for weft_error().
 *
 * A cord that receives too many messages still runs its own fibers, timers and I/O. While 16,384
 * messages are pending in a cord, weft_tell waits. weft_try_tell, weft_schedule and weft_cord_spin
 * then fail with -EAGAIN. The limit does not apply to weft_cord_call, joins, cancellations, events
 * and shared channels. For these operations, the number of waiting fibers limits the number of
 * messages.
 *
 * A descriptor is not bound to a cord. To hand over a descriptor that a cord has used, first call
 * weft_fd_release in that cord. Then send the number to the other cord. See io.h for the rules.
 *
 * When the process ends, weft cancels all running cords and waits up to 5 s for their end. weft
 * then reports each cord that has not ended. weft also reports the error of each failed cord that
 * was not joined. In both cases, the exit status is not 0.
 *
 * A fiber that calls pthread_exit ends its thread and its cord. Joining fibers get -ECANCELED. With
 * musl, such a thread crashes. Return from the function of the cord or cancel the cord instead.
 */
#ifndef WEFT_CORD_H
#define WEFT_CORD_H

#include <weft/fiber.h>

WEFT_BEGIN

/* The id of a cord: the id of its main fiber. 0 is not a cord. */
typedef weft_fiber weft_cord;

/* Options of a new cord. All-zero is the default. */
typedef struct weft_cord_options {
    const char *name; /* of the main fiber, and of the thread (cut to 15 bytes); NULL: "main" */
    int cpu;          /* the CPU to run on, counted from 1; 0: any */
    /*
     * A name as in WEFT_BACKEND. If the backend cannot be opened, weft uses the best other backend,
     * and prints one line (io.h). NULL: WEFT_BACKEND, or the default.
     */
    const char *backend;
    /*
     * Release the resources that arg owns. weft calls drop once, with arg, if the cord starts and
     * weft never calls fn. NULL: arg owns no resources.
     */
    void (*drop)(void *arg);
} weft_cord_options;

/**
 * Start a thread with a main fiber that runs fn(arg).
 *
 * If fn is NULL, the cord runs only fibers that weft_cord_spin and weft_cord_call create. Such a
 * cord ends when it is cancelled, or when no thread can create another fiber in the cord. A join of
 * a cancelled cord returns -ECANCELED, even if the joining fiber is not cancelled. If options is
 * NULL, the defaults apply.
 *
 * Returns the id. On failure, returns 0 and records an error of weft_self, or one of these errors
 * for weft_error():
 * -EAGAIN if 1,024 cords exist, including ended cords that were not joined
 * -EAGAIN if the system cannot create another thread
 * -EINVAL if the backend does not exist
 * -EINVAL if the CPU does not exist
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_cord weft_cord_start(weft_fn *fn, void *arg, const weft_cord_options *options);

/**
 * Wait until a started cord has ended, and return its value or error.
 *
 * The value is the result of the cord's function. If the cord failed, weft_error() returns the
 * message. Every joining fiber gets the value or the error. After the join, the id is gone.
 *
 * If the caller is cancelled, the call cancels the cord and waits for its end. The cord gets the
 * remaining grace time of the caller (see weft_grace). A cancelled scope, an interrupt or a raised
 * error only ends the wait. The cord can then be joined again.
 *
 * Returns the value or the error of the cord, or:
 * -EDEADLK if the cord is the caller's own cord
 * -EINVAL if weft_cord_start did not start the cord
 * -ENOMEM if memory is exhausted
 * -ESRCH if the cord is gone
 */
WEFT_SWITCHPOINT weft_value weft_cord_join(weft_cord cord);

/**
 * Cancel a started cord, without waiting for its end.
 *
 * The blocking calls of the cord's main fiber fail with -ECANCELED. The children of the main fiber
 * end when its function returns. If the function has not begun, weft never calls the function. Any
 * thread may call weft_cord_cancel.
 *
 * Returns 0, or:
 * -EINVAL if weft_cord_start did not start the cord
 * -ESRCH if the cord has ended
 */
WEFT_API int weft_cord_cancel(weft_cord cord);

/**
 * Create a fiber in a cord, as a child of the cord's main fiber.
 *
 * The fiber runs fn(arg). The id is valid for weft_tell and weft_schedule as soon as the call
 * returns. weft raises an error of the fiber in the cord's main fiber. As with weft_go, weft does
 * not store the value. A fiber of the cord can await the new fiber before the new fiber ends.
 *
 * Any thread may call this function. The call never waits. After -EAGAIN, try again later. Unlike
 * weft_cord_spin, weft_cord_call waits until earlier messages have arrived.
 *
 * Returns the id. On failure, returns 0 and records one of these errors for weft_error():
 * -EAGAIN if 16,384 messages are pending in the cord
 * -EAGAIN if the cord has reached its limit of 2^22 fibers
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 * -ESRCH if the cord has ended
 */
WEFT_API weft_fiber weft_cord_spin(weft_cord cord, weft_fn *fn, void *arg);

/**
 * Like weft_cord_spin, but with options.
 *
 * The options are those of weft_spin_with. If options is NULL, the defaults apply. The parent in
 * options must be a fiber of the cord. The cord cannot create the fiber if the parent is gone or
 * memory for a stack is exhausted. The cord then reports the failure on stderr and calls drop. If
 * the cord ends before the request arrives, weft also calls drop.
 *
 * Errors in addition to those of weft_cord_spin:
 * -EINVAL if arg is NULL and arg_bytes is not 0
 * -EINVAL if arg_bytes is more than a quarter of the stack
 * -EINVAL if stack_bytes is out of range
 * -EXDEV if the parent belongs to another thread
 */
WEFT_API weft_fiber weft_cord_spin_with(weft_cord cord, weft_fn *fn, void *arg,
                                        const weft_spin_options *options);

/**
 * Run fn(arg) in a new fiber of a cord, and return its value or error.
 *
 * The call waits until the fiber has ended. If the fiber failed, weft_error() returns the message.
 * If the caller is cancelled or interrupted, the call cancels the fiber and waits for its end,
 * because fn may use memory of the caller. The call then returns the result of fn. If this result
 * is -ECANCELED, the call returns the error that interrupted the wait.
 *
 * Returns the value or the error of the fiber, or:
 * -EAGAIN if the cord has reached its limit of 2^22 fibers
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 * -ESRCH if the cord ends before fn has returned a result
 * -ESRCH if the cord has ended
 */
WEFT_SWITCHPOINT weft_value weft_cord_call(weft_cord cord, weft_fn *fn, void *arg);

/* Options of weft_cord_call_with. All-zero is the default. */
typedef struct weft_call_options {
    /*
     * Allow a cancelled or interrupted call to return before the fiber has ended. The call then
     * cancels the fiber. After the fiber has ended, weft calls drop once, with arg or its copy.
     * drop runs in the thread of the caller, between two fibers, and must not wait. If no fiber was
     * created, weft calls drop before the call returns. If the call returns the result of the
     * fiber, weft does not call drop, and the caller still owns arg. If drop is NULL and arg_bytes
     * is 0, the call waits for the fiber.
     */
    void (*drop)(void *arg);
    size_t arg_bytes; /* copy these bytes of arg, and pass the copy; the call may return early */
    const char *name; /* of the fiber; NULL: none */
    /* Set to true if the call returns the result of the fiber, else to false. NULL: not set. */
    bool *has_ended;
} weft_call_options;

/**
 * Like weft_cord_call, but with options. If options is NULL, the defaults apply.
 *
 * Errors in addition to those of weft_cord_call:
 * -EINVAL if arg is NULL and arg_bytes is not 0
 * -EINVAL if arg_bytes is more than a quarter of the stack
 */
WEFT_SWITCHPOINT weft_value weft_cord_call_with(weft_cord cord, weft_fn *fn, void *arg,
                                                const weft_call_options *options);

/**
 * Return the cord of the calling thread.
 *
 * On failure, returns 0 and records an error of weft_self.
 */
WEFT_API weft_cord weft_cord_self(void);

/**
 * Run fn(arg) in n new cords, and wait until all of them have ended.
 *
 * If n is 0, the call starts one cord per CPU of the process. fn runs in the main fiber of each
 * cord. The first error of a cord cancels the other cords. If the caller is cancelled, the call
 * cancels all cords.
 *
 * In these cords, weft_listen shares its port with the other cords (SO_REUSEPORT). The kernel
 * distributes the connections. Pass the same nonzero port in all cords. With port 0, each cord gets
 * a different port. weft does not detect that another process of the same user shares the port, for
 * example an older server.
 *
 * Returns 0, or the first error of a cord. Errors in addition to those of weft_cord_start:
 * -EINVAL if fn is NULL
 */
WEFT_SWITCHPOINT int weft_serve_cords(unsigned n, weft_fn *fn, void *arg);

WEFT_END

#endif
