/*
 * Cords: threads that run fibers, each with its own run queue, timers and backend.
 *
 * Any thread becomes a cord when it first calls weft. One started here ends when its function,
 * which runs in the cord's main fiber, has returned and all its fibers have ended; its value and
 * its error are kept until someone joins it. A cord's id is the id of its main fiber: weft_tell and
 * weft_schedule take it, from anywhere.
 *
 * Fibers never move. What crosses cords is messages (weft_tell), weft_schedule, events, channels
 * made by weft_chan_new_shared, and what is below. All of it may be called from any fiber of any
 * cord; weft_cord_spin, weft_cord_cancel, weft_tell and weft_schedule also from a plain thread,
 * which does not become a cord by it.
 *
 * A cord that gets more messages than it can handle goes on with its own fibers, timers and I/O.
 * With 16,384 messages pending in a cord, weft_tell waits, and weft_schedule and weft_cord_spin
 * fail with -EAGAIN, until the cord has caught up. Calls, joins, cancels, events and channels are
 * never refused: each of them has at most one message under way.
 *
 * A descriptor is not bound to a cord. To hand one over, call weft_fd_release if this cord has used
 * it, then pass the number on (weft_cord_spin, weft_tell). io.h has the rules.
 *
 * When the process ends, cords that still run are cancelled, and waited for, for at most five
 * seconds. A cord that has not ended by then is reported, and so is the error of one that nobody
 * has joined. In both cases the exit status is not 0.
 *
 * A fiber that calls pthread_exit ends its thread, and with it the cord. Joiners get -ECANCELED.
 * With musl such a thread crashes: return from the function of the cord, or cancel the cord.
 */
#ifndef WEFT_CORD_H
#define WEFT_CORD_H

#include <weft/fiber.h>

WEFT_BEGIN

/* The id of a cord's main fiber; 0 is none. */
typedef weft_fiber weft_cord;

/* How to start a cord; all-zero is the default. */
typedef struct weft_cord_options {
    const char *name;    /* of its thread, cut to 15 bytes, and of its main fiber; NULL: "main" */
    int cpu;             /* the CPU to stay on, counted from 1; 0: any */
    const char *backend; /* as in WEFT_BACKEND; NULL: what that or the default says */
    /* As in weft_spin_options: called once if the cord has started and fn is never called. */
    void (*drop)(void *arg);
} weft_cord_options;

/**
 * Start a thread whose main fiber runs fn(arg). Without a function it serves: it runs what
 * weft_cord_spin and weft_cord_call send it, until it is cancelled, or nobody is left who could
 * send anything. (Cancelled, it is joined with -ECANCELED, though the joiner is not cancelled.)
 *
 * Returns 0 if it cannot be started; weft_error() says why: -EINVAL for a CPU or a backend that is
 * not there, -EAGAIN for too many threads (1,024 with fibers, those included that have ended and
 * were not joined), -ENOMEM.
 */
WEFT_API weft_cord weft_cord_start(weft_fn *fn, void *arg, const weft_cord_options *options);

/**
 * Wait until a cord that was started has ended; returns what its function returned, or the error
 * that ended it, whose words come along, the same to everyone who waits. Its id is gone then.
 *
 * A caller that is cancelled passes that on: the cord is cancelled, with the grace time that the
 * caller has left (weft_grace), and the call waits for its end.
 * A deadline, an interrupt or a raised error only ends the wait; it can be joined again. -EDEADLK
 * for one's own cord, -EINVAL for one that was not started here, -ESRCH if it is gone.
 */
WEFT_SWITCHPOINT weft_value weft_cord_join(weft_cord cord);

/**
 * Cancel a cord that was started: its main fiber's blocking calls fail with -ECANCELED, and as that
 * returns its children end. One whose function has not begun never runs it. Does not wait.
 * -EINVAL for one that was not started here, -ESRCH if it has ended.
 */
WEFT_API int weft_cord_cancel(weft_cord cord);

/**
 * Make a fiber in a cord, a child of its main fiber, that runs fn(arg) there. Returns its id at
 * once, to be told or scheduled like any other. Its error goes to that main fiber. As with weft_go
 * nothing is kept of an ended fiber: a fiber of that cord can await it while it lives.
 *
 * Never waits. Returns 0 if the fiber cannot be made; weft_error() says why:
 * -EINVAL if fn is NULL
 * -ESRCH if the cord has ended
 * -EAGAIN if 16,384 messages are pending in the cord, or it has as many fibers as it can: try again
 *  later (weft_cord_call waits until what was sent before has arrived)
 * -ENOMEM if there is no memory
 */
WEFT_API weft_fiber weft_cord_spin(weft_cord cord, weft_fn *fn, void *arg);

/**
 * The same with options, as for weft_spin_with; a parent must be a fiber of that cord. If the
 * parent is gone or there is no stack when it arrives, the fiber is not made, and that is said on
 * stderr; the cord's thread calls drop. It also calls drop if the cord ends before the fiber
 * arrives.
 */
WEFT_API weft_fiber weft_cord_spin_with(weft_cord cord, weft_fn *fn, void *arg,
                                        const weft_spin_options *options);

/**
 * Run fn(arg) in a fiber of a cord, and wait for its end here: returns its value, or its error,
 * whose words come along.
 *
 * As arg is the caller's, the call returns after that fiber has ended, whatever happens: cut short,
 * it cancels the fiber, and waits. What fn then returns is the result, unless it is -ECANCELED.
 * -EINVAL for a NULL fn, -ESRCH if the cord has ended, or ends meanwhile and fn had no other result
 * than that; -ENOMEM.
 */
WEFT_SWITCHPOINT weft_value weft_cord_call(weft_cord cord, weft_fn *fn, void *arg);

/* How to call; all-zero is the default. */
typedef struct weft_call_options {
    /*
     * The call may be left: cut short, it returns at once, and the fiber there is cancelled. drop
     * is called, once, if the call ends in any way but with the end of that fiber (then arg is the
     * caller's, as before): when there was none, at once; else after it has ended, by the thread
     * that called, between two fibers: it must not wait. It gets arg, or the copy. NULL: not so.
     */
    void (*drop)(void *arg);
    size_t arg_bytes; /* copy so many bytes of arg, and pass the copy: then it may be left, too */
    const char *name; /* of the fiber; NULL: none */
    /* If not NULL: told whether the call ended with that fiber. If not, drop has arg. */
    bool *has_ended;
} weft_call_options;

/** The same with options. */
WEFT_SWITCHPOINT weft_value weft_cord_call_with(weft_cord cord, weft_fn *fn, void *arg,
                                                const weft_call_options *options);

/** The cord of the calling thread: the id of its main fiber. */
WEFT_API weft_cord weft_cord_self(void);

/**
 * Run fn(arg) in the main fibers of n cords at once, and wait until all have ended; 0 for as many
 * as the process has CPUs. The first error stops the others and is returned, else 0; cancelled, it
 * cancels them all.
 *
 * For servers: in these cords weft_listen shares its port with the others (SO_REUSEPORT), and the
 * kernel spreads the connections. All have to name the same port: with port 0 each gets another.
 * Another process of the same user that shares it, too, an old server say, goes unnoticed.
 */
WEFT_SWITCHPOINT int weft_serve_cords(unsigned n, weft_fn *fn, void *arg);

WEFT_END

#endif
