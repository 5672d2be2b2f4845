/* The system call in which a thread waits, for reports on stalled threads. */
#ifndef WEFT_CORE_DEBUG_BLOCKING_CALL_H
#define WEFT_CORE_DEBUG_BLOCKING_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Write the name of the system call in which a thread of this process waits, for example "read". An
 * unknown call is written as its number. Return false if the thread runs, or if the kernel does not
 * tell.
 */
bool weft__blocking_call(pid_t thread_id, char *out, size_t bytes);

#endif
