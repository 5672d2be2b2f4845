/* Creation of the threads that weft starts. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * Create a thread that blocks all signals. The program's own threads then receive the signals.
 *
 * If out is NULL, the thread is detached. Otherwise the caller must join *out. stack_bytes is the
 * size of the stack. If stack_bytes is 0, or too small for the program's thread-local variables,
 * the stack has the default size of pthread_create.
 *
 * Returns 0, or:
 * -EAGAIN if the system cannot create another thread
 * -ENOMEM if memory is exhausted
 */
int weft__thread_create(pthread_t *out, size_t stack_bytes, void *(*fn)(void *), void *arg);

/*
 * Create a joinable thread on a CPU. CPUs are numbered from 1. If cpu is 0 or negative, the thread
 * may run on any CPU of the caller.
 *
 * Returns 0, or:
 * -EAGAIN if the system cannot create another thread
 * -EINVAL if the thread may not run on the CPU
 * -ENOMEM if memory is exhausted
 */
int weft__thread_make_on(pthread_t *out, int cpu, void *(*fn)(void *), void *arg);

/*
 * Start a detached thread with a small stack. The thread blocks all signals, and must run until the
 * process ends. The thread does not exist in a child of fork(2).
 *
 * Returns 0, or:
 * -EAGAIN if the system cannot create another thread
 * -ENOMEM if memory is exhausted
 */
int weft__internal_thread_start(void *(*fn)(void *));

/* Like weft__internal_thread_start, with a stack of stack_bytes. */
int weft__internal_thread_start_with(void *(*fn)(void *), size_t stack_bytes);

/* Return the number of threads that weft__internal_thread_start has started in this process. */
unsigned weft__internal_thread_count(void);

#endif
