/*
 * The report of stack overflows.
 *
 * If a fiber accesses the guard of its stack, the signal handler prints to stderr: the name and the
 * function of the fiber, and the function that needed more stack. Then the fault repeats with the
 * earlier disposition of the signal. Core dump and exit status are therefore the same as without
 * weft. The handler passes other faults on to the earlier handler.
 */
#ifndef WEFT_CORE_STACK_OVERFLOW_H
#define WEFT_CORE_STACK_OVERFLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The content of a report. The strings must remain valid until the process ends. */
typedef struct weft__overflow_details {
    uint64_t id;        /* id of the fiber */
    const char *name;   /* NULL or "": none */
    void *fn;           /* function of the fiber; NULL: unknown */
    size_t stack_bytes; /* weft__stack_slot_bytes, or the size of the thread's own stack */
    bool is_thread;     /* the thread's own stack, which a main fiber uses */
} weft__overflow_details;

/*
 * Return true and fill in *out if the address is in the guard of the calling thread's current
 * stack. sp is the stack pointer at the fault, or NULL if the stack pointer is unknown. The signal
 * handler calls this function in any thread, even in threads without fibers.
 */
typedef bool weft__overflow_finder(const void *address, const void *sp,
                                   weft__overflow_details *out);

/*
 * Install the handlers of SIGSEGV and SIGBUS, unless WEFT_CATCH_FAULTS or weft_catch_faults
 * disables them. Only the first call in the process has an effect. Handlers that the program
 * installs later replace these handlers. Any thread may call this function. Returns 0, or an error
 * that sigaction returned.
 */
int weft__overflow_install(weft__overflow_finder *finder);

/* A thread's own stack and its signal stack. All-zero: both are unknown. */
typedef struct weft__overflow_thread {
    char *memory;       /* the signal stack; NULL: none, or the thread already had one */
    size_t bytes;       /* size of memory */
    char *high;         /* top of the thread's own stack; first thread: near the top */
    char *low;          /* lowest byte; NULL: the first thread, or unknown */
    size_t guard_bytes; /* size of the guard below low */
} weft__overflow_thread;

/*
 * Install a signal stack for the calling thread, unless the thread has a signal stack or the
 * handlers are disabled. Without a signal stack, the handler cannot run after an overflow.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__overflow_thread_open(weft__overflow_thread *thread);

/*
 * Return true if an access to the address overflowed the thread's own stack. Store the size of the
 * stack in *bytes. sp is as in weft__overflow_finder. A signal handler may call this function.
 */
bool weft__overflow_hit_thread_stack(const weft__overflow_thread *thread, const void *address,
                                     const void *sp, size_t *bytes);

/* Free the signal stack of the calling thread. */
void weft__overflow_thread_close(weft__overflow_thread *thread);

#endif
