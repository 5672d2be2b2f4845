/*
 * Stack overflows: say whose stack it was before the program dies of it.
 *
 * A fault in a guard page is reported on stderr, then happens again with the disposition that was
 * there before ours: core dump and exit status are those of any SIGSEGV. Any other fault goes to
 * whoever handled it before us.
 */
#ifndef WEFT_CORE_OVERFLOW_H
#define WEFT_CORE_OVERFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a report says. The strings must live until the process ends. */
typedef struct weft__overflow_facts {
    uint64_t id;
    const char *name;   /* NULL or "": it has none */
    void *fn;           /* what the fiber was made to run; NULL: unknown */
    size_t stack_bytes; /* weft__stack_slot_bytes, or of the thread's own stack */
    bool is_thread;     /* the stack is the thread's own: a main fiber's */
} weft__overflow_facts;

/*
 * Is the address in the guard of the stack that the calling thread runs on? Then fill in *out. sp
 * is the stack pointer of what faulted; NULL: unknown. Called in a signal handler, in any thread,
 * also in one without fibers.
 */
typedef bool weft__overflow_finder(const void *address, const void *sp, weft__overflow_facts *out);

/*
 * Handle SIGSEGV and SIGBUS from now on, unless WEFT_CATCH_FAULTS or weft_catch_faults says no. The
 * first call counts, for the whole process; from any thread. A program that installs handlers later
 * replaces ours. Returns 0 or a negative errno.
 */
int weft__overflow_install(weft__overflow_finder *finder);

/* What is known of a thread's own stack, and its stack for signal handlers; all-zero: nothing. */
typedef struct weft__overflow_thread {
    char *memory; /* for handlers, ours; NULL: the thread had one already, and it serves */
    size_t bytes;
    /*
     * Of the thread's own stack. The first thread of a process: high is an address near its top,
     * and low is NULL, because the kernel extends it up to RLIMIT_STACK. Any other: low and the
     * guard below it.
     */
    char *high;
    char *low;
    size_t guard_bytes;
} weft__overflow_thread;

/*
 * Give the calling thread a stack for signal handlers, unless it has one or none is wanted: with
 * its own overflown, the handler could not run. Returns 0 or -ENOMEM; fibers work without, but die
 * unreported.
 */
int weft__overflow_thread_open(weft__overflow_thread *thread);

/*
 * Is the address below the thread's own stack, because that is full? sp as above. *bytes: its size.
 * Safe in a signal handler.
 */
bool weft__overflow_is_of_thread(const weft__overflow_thread *thread, const void *address,
                                 const void *sp, size_t *bytes);

/* Take it away again, in the same thread. */
void weft__overflow_thread_close(weft__overflow_thread *thread);

#endif
