/*
 * Offload: calls that block, or compute for long, made by plain threads, while the calling fiber
 * waits and the others go on.
 *
 * The threads are made when there is something to do, up to a limit, and end when they have been
 * idle for ten seconds. They have three lanes, each with a queue and a limit of its own, so that
 * none holds up another: the program's calls (64 threads, or weft_offload_limit), files (64), names
 * (32).
 *
 * A call ends in one of two ways. Mostly fn returns, and its value is what the fiber gets. But a
 * fiber that is cancelled, interrupted or out of time is let go at once: a call that was not begun
 * is never made; one that is under way goes on without it, and its value is dropped. So fn may
 * outlive the call, and what it works on must outlive fn:
 *
 *   weft_offload_copy(fn, &local, sizeof local)     is safe: fn works on a copy, which is copied
 *                                                   back if fn returns in time
 *   weft_offload(fn, number or NULL)                is safe: there is nothing to outlive
 *   weft_offload(fn, pointer)                       only if what it points to is never freed
 *   weft_offload_with(fn, pointer, {.drop = free})  for memory that is handed over
 *   weft_offload_with(fn, &local, {.is_kept})       is safe, and cannot be given up
 *
 * fn runs on a thread that has no fibers. It may use weft_fail, and weft_tell and weft_schedule to
 * reach fibers. If it calls anything of weft that waits, its thread runs fibers for as long as the
 * call lasts: it waits by itself, and what it has spun ends with it. Signals are blocked. It must
 * not call pthread_exit. The threads are the process's: when that ends, calls under way are cut
 * off.
 *
 * On the sim backend the calling fiber's thread makes the calls, in place, on the fiber's stack.
 */
#ifndef WEFT_OFFLOAD_H
#define WEFT_OFFLOAD_H

#include <weft/base.h>

WEFT_BEGIN

/* How a call is to be made; all-zero: as weft_offload does. */
typedef struct weft_offload_options {
    /*
     * Bytes of arg that fn gets a copy of, aligned as by malloc; 0: it gets arg itself. When fn has
     * returned in time, what it changed in the copy is copied back to arg.
     */
    size_t arg_bytes;
    /*
     * Called, once, if the call ends in any way but with fn's value (then arg is the caller's, as
     * before): when it was not begun, at once; else after fn, on its thread. It gets what fn got,
     * or would have got; a copy is freed after it, so it frees what the copy points to.
     */
    void (*drop)(void *arg);
    /*
     * Wait for fn once it has begun, whatever happens: a cancel strikes at the next call, as with
     * I/O whose buffer the kernel holds. fn gets arg itself.
     */
    bool is_kept;
    /* If not NULL: told whether the call ended with fn's value. If not, drop has arg. */
    bool *has_ended;
} weft_offload_options;

/**
 * Have a thread call fn(arg), wait for it, and return its value. If it is an error that fn recorded
 * with weft_fail, the words are the caller's last error.
 *
 * A fiber that is cancelled, interrupted or out of time leaves at once; fn goes on if it was begun.
 * So arg must not point to the caller's stack: see weft_offload_copy. (With 1024 calls that were
 * left and still run, no more can be left: the next ones wait for fn.)
 *
 * -EAGAIN: there is no thread, and the system lets us make none. -ENOMEM. -EINVAL: no fn.
 */
WEFT_SWITCHPOINT weft_value weft_offload(weft_fn *fn, void *arg);

/**
 * The same with a copy of so many bytes of arg, which may be on the stack. When fn has returned,
 * what it changed in the copy is copied back: so it can leave more results than one value. When the
 * caller has left before, the copy is dropped. What arg points to is not copied.
 */
WEFT_SWITCHPOINT weft_value weft_offload_copy(weft_fn *fn, void *arg, size_t bytes);

/** The same with options (NULL: none). -EINVAL also for bytes to copy from nowhere. */
WEFT_SWITCHPOINT weft_value weft_offload_with(weft_fn *fn, void *arg,
                                              const weft_offload_options *options);

/**
 * Have a thread call fn(arg); nobody waits for it, and its value is lost. From any thread. arg must
 * be there until fn has returned, fn may free it.
 *
 * Nobody hears of an error that fn returns, but the first one in the process is reported on stderr,
 * and all are counted (weft_offload_stats). weft_suspend in main waits for such calls; the end of
 * the process does not.
 *
 * 0, -EAGAIN, -ENOMEM, -EINVAL as weft_offload; then fn is not called.
 */
WEFT_API int weft_offload_go(weft_fn *fn, void *arg);

/**
 * How many threads make calls of the program's at once; 0: the default, 64. More calls wait in a
 * queue, in order. Those that are too many end when their calls are over. From any thread. -EINVAL:
 * over 4096.
 */
WEFT_API int weft_offload_limit(unsigned threads);

/* One lane. Every call is queued, running, done or given up. */
typedef struct weft_offload_lane {
    unsigned threads;     /* that there are now */
    unsigned idle;        /* of them: without a call */
    unsigned running;     /* of them: in a call, those included that were given up */
    unsigned queued;      /* calls that wait for a thread */
    uint64_t done;        /* calls that ended, and somebody had waited for it */
    uint64_t given_up;    /* calls whose caller left, before or after they were begun */
    double queue_s_total; /* seconds in the queue, of all calls that were begun */
    double queue_s_max;   /* the longest of them */
} weft_offload_lane;

typedef struct weft_offload_counters {
    weft_offload_lane user;  /* this header's calls */
    weft_offload_lane files; /* what cannot be done without a thread that waits */
    weft_offload_lane names; /* weft_resolve, weft_dial */
    uint64_t unheard;        /* errors of calls made with weft_offload_go */
} weft_offload_counters;

/** What the threads do and have done, of the whole process. From any thread. Always 0. */
WEFT_API int weft_offload_stats(weft_offload_counters *out);

WEFT_END

#endif
