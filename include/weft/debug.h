/*
 * Debugging: the tree of fibers, counters, CPU time and the watchdog.
 *
 * All functions except weft_cords, weft_dump, weft_stats_of, weft_stats_total and weft_watchdog
 * apply to the calling thread. No function switches.
 *
 * weft_info and weft_counters may gain fields at their end. See version.h.
 */
#ifndef WEFT_DEBUG_H
#define WEFT_DEBUG_H

#include <weft/cord.h>
#include <weft/histogram.h>

WEFT_BEGIN

/* Information about one fiber. The pointers are valid until the fiber runs again. */
typedef struct weft_info {
    weft_fiber id;
    weft_fiber parent; /* 0: a main fiber */
    const char *name;  /* "": unnamed */
    weft_fn *fn;       /* NULL: a main fiber */
    weft_state state;
    const char *waits_for;      /* "sleep", "read", "a mutex", ...; "": not waiting */
    weft_fiber waits_for_fiber; /* 0: not waiting for a fiber */
    double waiting_s;           /* since the wait began; 0: not waiting */
    uint64_t switches;          /* number of switches from this fiber to another fiber */
    double cpu_s;               /* CPU time while weft_account was on */
    double cpu_share;           /* share of recent time, 0 to 1; 0 if not measured; see weft_top */
    double slice_s;             /* failure time of a time slice; INFINITY: none */
    size_t stack_bytes;         /* usable size; 0: a main fiber or an ended fiber */
    size_t stack_used;          /* maximum use so far, rounded up to whole pages */
    bool is_daemon;
    bool is_parked;
    int fd;               /* the descriptor of the operation that the fiber waits for; -1: none */
    const void *waits_on; /* the object of the wait, for example the mutex; NULL: not known */
    double deadline_s; /* time until a sleep or a scope of the fiber ends; INFINITY: no deadline */
    const void *spun_at; /* the return address of the call that created the fiber; NULL: none */
} weft_info;

/*
 * Counters of one thread, or of the process. The fields marked * never decrease. To count the
 * events of a period, subtract two readings, except of runnable_max. The other fields are current
 * values.
 */
typedef struct weft_counters {
    uint64_t switches;       /* * switches between fibers */
    uint64_t polls;          /* * polls of the backend (io.h) */
    uint64_t polls_blocking; /* * polls that were allowed to wait */
    uint64_t ops;            /* * operations submitted to the backend */
    uint64_t messages;       /* * messages received from other threads */
    uint64_t wakes;          /* * wake-ups of the thread by messages from other threads */
    size_t ops_pending;      /* operations pending in the backend */
    size_t runnable;         /* fibers on the run queue */
    size_t runnable_max;     /* * maximum of runnable since the start of the thread */
    size_t fibers;           /* live fibers, without the main fiber */
    size_t fibers_unawaited; /* ended fibers with a value that no fiber has awaited */
    size_t stacks;           /* mapped stacks */
    size_t stacks_cached;    /* mapped stacks in the stack cache */
    size_t stacks_unguarded; /* mapped stacks without a guard, because of vm.max_map_count */
    size_t timers;           /* armed timers */
    double idle_s;           /* time without a runnable fiber since weft_account(true); 0: off */
    double idle_share;       /* share of recent time, 0 to 1; see weft_top */
    /*
     * * System calls of the backend. Counted are calls that wait for events, change registrations,
     * wake a thread, close a descriptor or perform an operation. The sum of weft_stats_total also
     * includes the calls that workers make (offload.h). Not counted are calls that open or close a
     * backend, calls for memory, locks and threads, and the calls with which libev changes its
     * registrations.
     */
    uint64_t syscalls;
    uint64_t fibers_spun; /* * fibers created, without main fibers */
    /*
     * * Times that fibers of the thread ran for 10 ms or longer without giving weft the time to
     * poll. Events, timers and messages waited meanwhile. stall_ns is the sum of these times.
     */
    uint64_t stalls;
    uint64_t stall_ns;       /* * see stalls */
    size_t cords;            /* threads with fibers: 1, or their number in the process */
    size_t stack_bytes;      /* address space of the mapped stacks, with their guards */
    size_t messages_pending; /* messages from other threads that were not delivered yet */
    size_t watches;          /* open watches of descriptors (fd_watch.h) */
    /*
     * * Samples of the time from the wake-up of a fiber until the fiber runs. A sample is the wait
     * of the fiber at the tail of the run queue, which waits longest. A sample begins when the
     * thread has polled and a fiber is runnable, at most every 10 ms. The time that an event waits
     * in the kernel is not included, see stalls. On the sim backend, there are no samples.
     */
    weft_histogram wake_latency;
} weft_counters;

/** Like weft_info_of, for a result of size bytes. Private. */
WEFT_API int weft__info_of(weft_fiber fiber, weft_info *out, size_t size);

/**
 * Get information about a fiber.
 *
 * Returns 0, or:
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
static inline int weft_info_of(weft_fiber fiber, weft_info *out)
{
    return weft__info_of(fiber, out, sizeof *out);
}

/**
 * Call fn for each live fiber, until fn returns a nonzero value.
 *
 * The call visits the main fiber first, and parents before their children. fn must not switch.
 *
 * Returns 0, the nonzero result of fn, or:
 * -EINVAL if fn is NULL
 */
WEFT_API int weft_walk(int (*fn)(const weft_info *info, void *context), void *context);

/** Like weft_stats, for a result of size bytes. Private. */
WEFT_API int weft__stats(weft_counters *out, size_t size);

/** Like weft_stats_of, for a result of size bytes. Private. */
WEFT_API int weft__stats_of(weft_cord cord, weft_counters *out, size_t size);

/** Like weft_stats_total, for a result of size bytes. Private. */
WEFT_API int weft__stats_total(weft_counters *out, size_t size);

/**
 * Get the counters of the calling thread.
 *
 * The call resets no counter, so several readers do not disturb each other. A child of weft_fork
 * starts with the counters of its parent.
 *
 * Returns 0, or an error of weft_self.
 */
static inline int weft_stats(weft_counters *out)
{
    return weft__stats(out, sizeof *out);
}

/**
 * Get the counters of a cord, from any thread.
 *
 * The cord can be any thread that has fibers. Each cord copies its counters for other threads when
 * the cord switches or waits, at least every 0.1 s. The result can therefore be 0.1 s old. While a
 * fiber computes or blocks its thread, the result is older. idle_s and idle_share are 0 unless
 * weft_account is on in that cord. A plain thread does not become a cord.
 *
 * Returns 0, or:
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if the cord has ended
 */
static inline int weft_stats_of(weft_cord cord, weft_counters *out)
{
    return weft__stats_of(cord, out, sizeof *out);
}

/**
 * Get the sum of the counters of all cords of the process, from any thread.
 *
 * The fields marked * include ended cords, and never decrease. Therefore they are suitable as
 * counters of a monitoring system. runnable_max is the maximum of all cords. All other fields are
 * sums over the cords that exist. In particular, idle_share is the average number of idle threads.
 *
 * The counters of other cords are as old as those of weft_stats_of. In a child of weft_fork, the
 * sum contains only cords of the child. A plain thread does not become a cord.
 *
 * Returns 0, or:
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
static inline int weft_stats_total(weft_counters *out)
{
    return weft__stats_total(out, sizeof *out);
}

/**
 * Get the ids of all cords of the process, from any thread.
 *
 * Each cord has an index, which a later cord may use again. cords[i] receives the id of the cord
 * with the index i, or 0 if there is no such cord, for each i less than n. Use weft_stats_of to get
 * the counters of a cord.
 *
 * Returns the highest index of a cord plus 1, which may be more than n, or:
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
WEFT_API int weft_cords(weft_cord *cords, size_t n);

/**
 * Write the trees of fibers of all threads to a descriptor.
 *
 * Each fiber has a line with its id, name, state, stack, CPU time and switches. For a waiting
 * fiber, the line also has the reason and the duration of the wait, the descriptor or the object,
 * and the time until a deadline. The next lines have the function, the call that created the
 * fiber, and a backtrace. Fibers with the same parent, function, state and backtrace are one
 * paragraph. The last lines have the use of stacks (see weft_stack_advice).
 *
 * Each thread copies its own fibers, within 0.5 s. The dump shows only the running fiber of a
 * thread that does not switch in this time. The calling thread blocks, and does not switch. A
 * plain thread does not become a cord.
 *
 * If memory is exhausted, the dump shows only the fibers of the calling thread, and its first line
 * says so. The call ignores errors of all writes after the first write.
 *
 * Returns 0, the error of the first write, or:
 * -ENOMEM if memory is exhausted and the calling thread has no fibers
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
WEFT_API int weft_dump(int fd);

/**
 * Get the return addresses of a fiber's frames.
 *
 * The call stores at most n addresses, and at most 256. The innermost frame is the first. A fiber
 * that has not run yet or has ended has no frames. The call stores no address if the stack of the
 * fiber has too little free space for the unwinder.
 *
 * Returns the number of addresses, or:
 * -ESRCH if the fiber is gone
 * -EXDEV if the fiber belongs to another thread
 */
WEFT_API int weft_backtrace(weft_fiber fiber, void **out, size_t n);

/**
 * Start or stop measuring the CPU time of each fiber.
 *
 * Measuring costs one clock read per switch. The CPU time of a fiber accumulates over several
 * periods of measuring. Each start and each stop resets all shares and idle_s to 0. The call
 * applies to the calling thread.
 */
WEFT_API void weft_account(bool on);

/**
 * Write a table of the live fibers to a descriptor, busiest first.
 *
 * Each row contains the share of recent time in percent, the CPU time and the number of switches.
 * The row "idle" contains the time in which no fiber was runnable. Each second of recent time has
 * half the weight of the following second. The shares add up to at most 100. weft_info and
 * weft_counters contain the same numbers.
 *
 * Returns 0, an error of write(2), or:
 * -ENODATA if weft_account is off
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_top(int fd);

/**
 * Report fibers that do not switch for s seconds.
 *
 * The watchdog monitors the fibers of all threads. For each stall, the watchdog writes one report
 * to stderr. The report contains the id and the name of the fiber, its thread and a backtrace. A
 * stalled fiber computes, or blocks its thread in a system call, which the report names. The
 * watchdog does not report a thread without a runnable fiber.
 *
 * WEFT_WATCHDOG in the environment is a value for s. weft then turns the watchdog on when the
 * program first calls weft.
 *
 * If s is 0 or INFINITY, the call turns the watchdog off. There is one watchdog per process. Each
 * call replaces the time of the previous call. The watchdog is off in a child of fork(2) until the
 * child calls this function.
 *
 * A separate thread checks the other threads 4 times in s seconds, at most once per millisecond. A
 * report is therefore late by at most a quarter of s. The stalled thread takes its backtrace in a
 * signal handler. The watchdog uses the highest real-time signal below SIGRTMAX that has the
 * default disposition. Turning the watchdog off restores the disposition. SA_RESTART does not
 * restart every interrupted system call. For example, the signal can make poll(2) fail with EINTR.
 * If a thread blocks the signal, its report contains no backtrace.
 *
 * Returns 0, or:
 * -EAGAIN if no thread can be created
 * -EBUSY if no real-time signal has the default disposition
 * -EINVAL if s is negative or NaN
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_watchdog(double s);

/**
 * Set a function to call before the thread waits for events.
 *
 * weft calls fn(arg) each time the thread starts to wait because no fiber is runnable. fn must not
 * switch. If fn is NULL, the call removes the function.
 */
WEFT_API void weft_on_idle(void (*fn)(void *), void *arg);

WEFT_END

#endif
