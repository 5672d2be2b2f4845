/*
 * The count of system calls that the backends make. Each thread counts its own calls, so that
 * counting needs neither a lock nor a backend. The calls of worker threads are added to one count.
 *
 * The count includes the calls that wait for events, change registrations, wake a backend, close a
 * descriptor, or perform an operation. Calls that open or close a backend are not included, nor are
 * calls for memory, locks and threads, nor the calls with which libev changes its registrations.
 */
#ifndef WEFT_BACKEND_SYSCALL_COUNT_H
#define WEFT_BACKEND_SYSCALL_COUNT_H

#include <stdint.h>

/* The number of counted calls of this thread. */
extern __thread uint64_t weft__syscalls_made
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

/* Make a system call, and count it. */
#define WEFT__COUNTED(call) (weft__syscalls_made++, (call))

/* Add the calls of a worker thread to the count of all workers. The worker calls this function. */
void weft__syscalls_add_worker(void);

/* Return the number of calls that worker threads have made. */
uint64_t weft__syscalls_of_workers(void);

/* Forget the calls of the parent's workers, in a child of fork(2). */
void weft__syscalls_reset_workers(void);

#endif
