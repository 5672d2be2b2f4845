/*
 * Offload: calls that block or compute for a long time, on worker threads.
 *
 * The calling fiber waits for the call. Other fibers continue to run.
 *
 * weft creates worker threads (workers) on demand, up to a limit. A worker ends after 10 s without
 * work. There are three worker queues: calls of the program (64 workers, or
 * weft_offload_set_limit), files (64 workers) and names (32 workers). Each queue has its own
 * workers. A full queue therefore does not delay another queue.
 *
 * A call ends in one of two ways. Usually fn returns, and the fiber gets the value of fn. If the
 * fiber is cancelled, interrupted or past a deadline, the fiber abandons the call and continues at
 * once. If fn has not started, weft never calls fn. If fn has started, fn continues, and weft
 * discards the value. fn may therefore outlive the call. The memory that fn uses must outlive fn:
 *
 *   weft_offload_copy(fn, &local, sizeof local)     is safe: fn works on a copy
 *   weft_offload(fn, number or NULL)                is safe: fn uses no memory of the caller
 *   weft_offload(fn, pointer)                       is safe only if the memory is never freed
 *   weft_offload_with(fn, pointer, {.drop = free})  is safe: drop frees the memory
 *   weft_offload_with(fn, &local, {.is_kept})       is safe: the fiber waits for fn
 *
 * fn runs on a thread without fibers. fn may call weft_fail. fn may reach fibers with weft_tell and
 * weft_schedule. If fn calls a function of weft that waits, the thread of fn runs fibers until fn
 * returns. Fibers that fn has created end when fn returns. Workers block signals. fn must not call
 * pthread_exit. Workers belong to the process. The end of the process ends all calls in progress.
 *
 * On the sim backend (io.h), the thread of the calling fiber runs fn, on the stack of the fiber.
 */
#ifndef WEFT_OFFLOAD_H
#define WEFT_OFFLOAD_H

#include <weft/base.h>

WEFT_BEGIN

/* Options of a call. All-zero is the default. */
typedef struct weft_offload_options {
    /*
     * Copy this number of bytes of arg for fn, aligned as by malloc(3). If the fiber gets the value
     * of fn, weft copies changes back to arg. 0: fn gets arg itself.
     */
    size_t arg_bytes;
    /*
     * Release arg if the fiber does not get the value of fn. weft then calls drop once, with the
     * argument of fn. If fn has not started, weft calls drop at once. If fn has started, the thread
     * of fn calls drop after fn. weft frees a copy of arg after drop. drop then releases only the
     * memory that the copy points to. If the fiber gets the value of fn, the caller still owns arg.
     * NULL: none.
     */
    void (*drop)(void *arg);
    /*
     * Wait for fn once fn has started. A cancellation then takes effect at the next call. fn gets
     * arg itself, even if arg_bytes is not 0.
     */
    bool is_kept;
    /* Receives true if the fiber gets the value of fn, else false. NULL: not used. */
    bool *has_ended;
} weft_offload_options;

/**
 * Call fn(arg) on a worker thread and return its value.
 *
 * If fn returns an error that it has recorded with weft_fail, weft_error() returns the error.
 *
 * If the fiber is cancelled, interrupted or past a deadline, the call returns at once. If fn has
 * started, fn continues. arg must therefore not point to the stack of the caller. See
 * weft_offload_copy. At most 1,024 abandoned calls can run at the same time. If this limit is
 * reached, the call waits for fn.
 *
 * Returns the value of fn, or:
 * -EAGAIN if there is no worker, and no thread can be created
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT weft_value weft_offload(weft_fn *fn, void *arg);

/**
 * Like weft_offload, but with a copy of arg, which may be on the stack.
 *
 * fn gets a copy of the first bytes bytes of arg. The call does not copy memory that arg points to.
 * When fn returns, the call copies changes back to arg. fn can therefore return more than one
 * value. If the fiber abandons the call, weft discards the copy.
 *
 * Errors in addition to those of weft_offload:
 * -EINVAL if arg is NULL and bytes is not 0
 */
WEFT_SWITCHPOINT weft_value weft_offload_copy(weft_fn *fn, void *arg, size_t bytes);

/**
 * Like weft_offload, but with options.
 *
 * If options is NULL, the defaults apply. Errors in addition to those of weft_offload:
 * -EINVAL if arg is NULL and arg_bytes is not 0
 */
WEFT_SWITCHPOINT weft_value weft_offload_with(weft_fn *fn, void *arg,
                                              const weft_offload_options *options);

/**
 * Call fn(arg) on a worker thread without waiting for fn.
 *
 * arg must remain valid until fn has returned. fn may free arg. weft discards the value of fn. If
 * the value is an error, weft_offload_stats counts the error. weft reports the first error of the
 * process on stderr.
 *
 * weft_suspend in the main fiber waits for the end of fn. The end of the process does not wait for
 * fn. If this call fails, weft does not call fn. Any thread may call this function.
 *
 * Returns 0, or:
 * -EAGAIN if there is no worker, and no thread can be created
 * -EINVAL if fn is NULL
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_offload_go(weft_fn *fn, void *arg);

/**
 * Set the maximum number of workers for calls of the program.
 *
 * If threads is 0, the default of 64 applies. Further calls wait in a queue, in FIFO order. After a
 * reduction, surplus workers end when their calls have ended. Any thread may call this function.
 *
 * Returns 0, or:
 * -EINVAL if threads is more than 4096
 */
WEFT_API int weft_offload_set_limit(unsigned threads);

/* Counters of one worker queue. Every call is queued, running, done or abandoned. */
typedef struct weft_offload_queue {
    unsigned threads;          /* workers */
    unsigned idle;             /* workers without a call */
    unsigned running;          /* workers in a call, including abandoned calls */
    unsigned queued;           /* calls that wait for a worker */
    uint64_t done;             /* calls that have ended, without abandoned calls */
    uint64_t abandoned;        /* abandoned calls, before or after their start */
    double queue_s_total;      /* time of all started calls in the queue */
    double queue_s_max;        /* maximum time of a started call in the queue */
    uint64_t weft__private[4]; /* 0; space for further fields */
} weft_offload_queue;

/* Counters of all worker queues. May gain fields at the end. See version.h. */
typedef struct weft_offload_counters {
    weft_offload_queue user;  /* calls of the program */
    weft_offload_queue files; /* file operations that block */
    weft_offload_queue names; /* name lookups */
    uint64_t go_errors;       /* errors that fn of weft_offload_go has returned */
} weft_offload_counters;

/** Like weft_offload_stats, for a result of size bytes. Private. */
WEFT_API int weft__offload_stats(weft_offload_counters *out, size_t size);

/**
 * Get the counters of all workers of the process.
 *
 * Any thread may call this function. Returns 0.
 */
static inline int weft_offload_stats(weft_offload_counters *out)
{
    return weft__offload_stats(out, sizeof *out);
}

WEFT_END

#endif
