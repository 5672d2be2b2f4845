/* Threads that only work for us. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Make a thread that takes no signals, which are for the program's own threads: detached, unless
 * out wants it, to be joined. A stack of so many bytes, or of more where the program's thread-local
 * variables leave no room in it; 0: what pthread_create gives. 0 or -errno: -EAGAIN, -ENOMEM.
 */
int weft__thread_make(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg);

/* Make a thread to be joined, on a CPU counted from 1; 0: on any. 0 or -errno: -EINVAL, -EAGAIN. */
int weft__thread_make_on(pthread_t *out, int cpu, void *(*fn)(void *), void *arg);

#endif
