/*
 * Traces: when each fiber ran, what it waited for, and which fiber woke it.
 *
 * A trace is a file in the JSON format of Chrome. Open the file with https://ui.perfetto.dev or
 * chrome://tracing. Each cord is a process with one track per fiber, and a track "cord" for its
 * idle time. Arrows lead from the fiber that wakes to the woken fiber, also between cords.
 *
 * Set WEFT_TRACE=FILE in the environment to trace a whole run. The file is written when main
 * returns or exit(3) is called. In FILE, %p is replaced by the process id.
 *
 * Each cord records events in a ring in memory. If the ring is full, new events replace the oldest
 * events, so the file has the end of the run. The file states the number of replaced events
 * ("events_dropped" in "otherData"). A recorded event takes about 20 ns. Without a trace, events
 * cost nothing.
 *
 * weft does not record the lock of a free mutex, or a message that stays in a queue of the same
 * cord.
 *
 * The same events are USDT probes of the provider weft, if weft was built with <sys/sdt.h>. The
 * names of the probes are those of weft_trace_kind in lower case, for example weft:wake.
 */
#ifndef WEFT_TRACE_H
#define WEFT_TRACE_H

#include <weft/fiber.h>

WEFT_BEGIN

/* The kinds of events. */
typedef enum weft_trace_kind {
    WEFT_TRACE_SPIN,     /* fiber was created by other */
    WEFT_TRACE_WAIT,     /* fiber waits for reason, or is runnable if reason is NULL */
    WEFT_TRACE_RUN,      /* fiber runs, after other */
    WEFT_TRACE_WAKE,     /* fiber was woken by other with value; 0: by the kernel or a timer */
    WEFT_TRACE_CANCEL,   /* fiber was cancelled, or an error was raised in it, by other */
    WEFT_TRACE_END,      /* the function of fiber has returned value */
    WEFT_TRACE_SUBMIT,   /* fiber submitted the operation reason on fd to the kernel */
    WEFT_TRACE_COMPLETE, /* the operation reason of fiber on fd is complete, with value */
    WEFT_TRACE_SEND,     /* fiber sent a message to the fiber other of another cord */
    WEFT_TRACE_RECEIVE,  /* a message from another cord has arrived for fiber */
    WEFT_TRACE_IDLE,     /* no fiber of the cord is runnable, and the cord polls its backend */
    WEFT_TRACE_BUSY,     /* a fiber of the cord is runnable again */
    WEFT_TRACE_MARK,     /* fiber called weft_trace_mark with text */
    WEFT_TRACE_BEGIN,    /* fiber called weft_trace_begin with text */
    WEFT_TRACE_STOP,     /* fiber called weft_trace_end */
} weft_trace_kind;

/* An event, for the function of weft_trace_set_hook. The strings are valid during the call. */
typedef struct weft_trace_event {
    weft_trace_kind kind;
    weft_fiber fiber;   /* 0: none */
    weft_fiber other;   /* 0: none */
    const char *reason; /* as waits_for of weft_info; NULL: none */
    const void *object; /* the object of a wait, for example the mutex; NULL: none */
    int fd;             /* the descriptor of an operation; -1: none */
    int64_t value;
    const char *text; /* NULL: none */
    int64_t time_ns;  /* on the monotonic clock, or on the virtual clock of the sim backend */
} weft_trace_event;

/* Options of a trace. All-zero is the default. */
typedef struct weft_trace_options {
    size_t events_max; /* events in the ring of each cord, at most 2^26; 0: 65,536, in 4 MiB */
} weft_trace_options;

/**
 * Start to trace all cords, as weft_trace_start, with options.
 *
 * If options is NULL, the defaults apply.
 */
WEFT_API int weft_trace_start_with(const char *path, const weft_trace_options *options);

/**
 * Start to trace all cords of the process.
 *
 * The call creates the file, or empties it. In path, %p is replaced by the process id. Cords of
 * other threads start to record at their next switch, at most 64 switches later. Cords that start
 * later are traced from their start. A plain thread does not become a cord.
 *
 * There is one trace per process. weft_trace_stop or the end of the process writes the file. A
 * child of weft_fork is not traced, unless WEFT_TRACE contains %p.
 *
 * Returns 0, an error of open(2), or:
 * -EBUSY if a trace is running
 * -EINVAL if path is NULL or empty, or events_max is too large
 * -ENAMETOOLONG if path is too long
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
static inline int weft_trace_start(const char *path)
{
    return weft_trace_start_with(path, (const weft_trace_options *)0);
}

/**
 * Stop the trace, and write the file.
 *
 * The call blocks the thread until the other cords have stopped, at most 0.5 s, and until the file
 * is written. A cord that does not switch in that time remains in the file, but fibers that it did
 * not end may lack their names.
 *
 * Returns 0, an error of open(2) or write(2), or:
 * -ENODATA if no trace is running
 * -ENOMEM if memory is exhausted; there is no trace any more
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
WEFT_API int weft_trace_stop(void);

/**
 * Return whether a trace of the process is running.
 */
WEFT_API bool weft_trace_is_on(void);

/**
 * Record a mark: an instant in the current fiber, with a text of at most 200 bytes.
 *
 * Without a trace in the calling thread, the call does nothing. weft copies the text.
 */
WEFT_API void weft_trace_mark(const char *text);

/**
 * Begin a span in the current fiber, with a text of at most 200 bytes.
 *
 * Spans of a fiber nest. A span contains all waits of the fiber until weft_trace_end. Without a
 * trace in the calling thread, the call does nothing.
 */
WEFT_API void weft_trace_begin(const char *text);

/**
 * End the innermost span of the current fiber.
 *
 * If the span began before the trace, the call has no effect.
 */
WEFT_API void weft_trace_end(void);

/** A function for events of the calling thread. */
typedef void weft_trace_hook(const weft_trace_event *event, void *arg);

/**
 * Set a function to call at each event of the calling thread.
 *
 * weft calls fn(event, arg), also without a trace. fn must not switch. weft does not call fn for
 * events that fn causes. If fn is NULL, the call removes the function.
 *
 * Returns 0, an error of weft_self, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_trace_set_hook(weft_trace_hook *fn, void *arg);

WEFT_END

#endif
