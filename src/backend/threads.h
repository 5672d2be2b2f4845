/*
 * The other threads of the process: are there any that could wake a fiber of this one? And threads
 * that only work for us.
 */
#ifndef WEFT_BACKEND_THREADS_H
#define WEFT_BACKEND_THREADS_H

#include <stdbool.h>

/* The watchdog's thread is there, or is about to end; from that thread, or after a fork. */
void weft__threads_set_watchdog(bool is_there);

/*
 * Are there more threads than these that run fibers, threads aside that only work for us: the
 * pool's, the watchdog's, io_uring's, a sanitizer's; and those that have ended? True if that cannot
 * be found out.
 */
bool weft__threads_are_others(unsigned cords);

/*
 * Start a thread that takes no signals, ends with the process, and is none of those others. A child
 * by fork does not have it. 0 or -errno: -EAGAIN, -ENOMEM.
 */
int weft__thread_start(void *(*fn)(void *));

#endif
