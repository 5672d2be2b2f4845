/*
 * Looking inside: the tree of fibers as text, as a walk and as numbers; who uses the time, and who
 * does not let the others run. But for the watchdog, all of it concerns the calling thread. None of
 * it switches.
 */
#ifndef WEFT_DEBUG_H
#define WEFT_DEBUG_H

#include <weft/fiber.h>

WEFT_BEGIN

/* What can be known of one fiber. Pointers are valid until the fiber runs again. */
typedef struct weft_info {
    weft_fiber id;
    weft_fiber parent; /* 0: a main fiber */
    const char *name;  /* "" if it has none */
    weft_fn *fn;       /* NULL: a main fiber */
    weft_state state;
    const char *waits_for;      /* "sleep", "await", "read", ...; "" unless it waits */
    weft_fiber waits_for_fiber; /* the one, if it is one; 0: not a fiber */
    double waiting_s;           /* since when; 0 unless it waits */
    uint64_t switches;          /* times it gave up control */
    double cpu_s;               /* time it ran for; 0 unless weft_account(true) came before */
    double cpu_share;           /* its part of the recent time, 0 to 1; 0 as cpu_s; see weft_top */
    double slice_s;             /* how long it may compute, for weft_check_slice */
    size_t stack_bytes;         /* usable; 0: a main fiber, or an ended one */
    size_t stack_used;          /* high-water mark of the stack's use, in whole pages */
    bool is_daemon;
    bool is_parked;
} weft_info;

/* Counters of the calling thread. Those marked * start again at zero when they are read. */
typedef struct weft_counters {
    uint64_t switches;       /* * */
    uint64_t polls;          /* * times the backend was asked */
    uint64_t polls_blocking; /* * of these, those that could wait */
    uint64_t ops;            /* * operations handed to the backend */
    uint64_t letters;        /* * received from other threads */
    uint64_t wakes;          /* * times that one of these had to wake the thread */
    size_t ops_pending;      /* waiting in the backend now */
    size_t runnable;         /* on the run queue now */
    size_t runnable_max;     /* * the most there were */
    size_t fibers;           /* alive, without the main fiber */
    size_t fibers_unawaited; /* ended, their values kept until someone awaits them */
    size_t stacks;           /* mapped */
    size_t stacks_cached;    /* of these, waiting for the next fiber */
    size_t stacks_unguarded; /* of these, without a guard page: the system had none left to give */
    size_t timers;           /* armed */
    double idle_s;           /* time it waited for the outside world; while weft_account is on */
    double idle_share;       /* its part of the recent time, as cpu_share */
} weft_counters;

/** What is known of a fiber. -ESRCH if it is gone. */
WEFT_API int weft_info_of(weft_fiber fiber, weft_info *out);

/**
 * Call fn for every living fiber, parents before their children, until it returns non-zero; that is
 * returned, else 0.
 */
WEFT_API int weft_walk(int (*fn)(const weft_info *info, void *context), void *context);

/** The counters. Returns 0. */
WEFT_API int weft_stats(weft_counters *out);

/**
 * Write the tree of fibers to a descriptor: id, name, state, what it waits for and since when,
 * stack, backtrace. Returns 0 or -errno.
 */
WEFT_API int weft_dump(int fd);

/**
 * The return addresses of a fiber's frames, innermost first, at most n; returns how many. 0 for one
 * that never ran; -ESRCH.
 */
WEFT_API int weft_backtrace(weft_fiber fiber, void **out, size_t n);

/**
 * Measure each fiber's CPU time from now on, or stop it. Costs a clock read a switch. Times go on
 * where they were when it was stopped, shares begin again.
 */
WEFT_API void weft_account(bool on);

/**
 * Write a table of the living fibers to a descriptor, the busiest first: the share of the recent
 * time in percent, the CPU time, the switches. A line "idle" has the time in which the thread
 * waited for the outside world. Recent are the last seconds: each counts half as much as the one
 * after it. The shares are parts of all that time, so that their sum is never more than 100.
 * weft_info and weft_counters have the same numbers. Returns 0, -ENODATA if weft_account is not on,
 * -ENOMEM, or the error of the write.
 */
WEFT_API int weft_top(int fd);

/**
 * From now on a fiber of any thread that has not switched for s seconds is reported on stderr, once
 * until it switches, with its id and name, its thread, and a backtrace of where it is. It may be
 * computing, or in a call that blocks the thread; a thread that waits for the outside world because
 * no fiber is runnable is not reported. 0 or INFINITY: not any more. The last call counts, for the
 * whole process; a child of fork has no watchdog until it asks for one.
 *
 * It is a thread that looks at the others four times in s seconds (no more often than once a
 * millisecond), so a report comes up to a quarter late. The backtrace is taken by the reported
 * thread itself, in the handler of a signal: the highest real-time signal below SIGRTMAX whose
 * disposition is the default when the watchdog is turned on. It is set back when it is turned off.
 * As after any signal, a call that the thread blocks in may fail with EINTR if it is one that
 * SA_RESTART does not concern, poll or nanosleep. A thread that blocks the signal is reported
 * without backtrace.
 *
 * -EINVAL if s is negative or NaN; -EBUSY if no such signal is free; -EAGAIN or -ENOMEM if there
 * can be no thread.
 */
WEFT_API int weft_watchdog(double s);

/**
 * Call fn(arg) each time the thread is about to wait for the outside world; NULL removes it. It
 * must not switch.
 */
WEFT_API void weft_on_idle(void (*fn)(void *), void *arg);

WEFT_END

#endif
