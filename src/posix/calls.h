/*
 * The declarations of all hooked functions. Some names have no declaration in a header of libc,
 * because only compiled code uses them: the fortified names and the guards of C++.
 */
#ifndef WEFT_POSIX_CALLS_H
#define WEFT_POSIX_CALLS_H

#include <netdb.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <threads.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__sighandler_t bsd_signal(int signal, __sighandler_t handler);
_Noreturn void __longjmp_chk(jmp_buf buffer, int value);

/* The guards of static variables in C++. */
int __cxa_guard_acquire(uint64_t *guard);
void __cxa_guard_abort(uint64_t *guard);
void __cxa_guard_release(uint64_t *guard);

#endif
