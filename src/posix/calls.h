/*
 * The declarations of all hooked functions. Some names have no declaration in a header of libc,
 * because only compiled code uses them: the fortified names and the guards of C++.
 */
#ifndef WEFT_POSIX_CALLS_H
#define WEFT_POSIX_CALLS_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <threads.h>
#include <time.h>

/* The guards of static variables in C++. */
int __cxa_guard_acquire(uint64_t *guard);
void __cxa_guard_abort(uint64_t *guard);
void __cxa_guard_release(uint64_t *guard);

#endif
