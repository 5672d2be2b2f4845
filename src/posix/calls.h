/*
 * The declarations of all hooked functions. Some names have no declaration in a header of libc,
 * because only compiled code uses them: the fortified names and the guards of C++.
 */
#ifndef WEFT_POSIX_CALLS_H
#define WEFT_POSIX_CALLS_H

#include <pthread.h>
#include <time.h>

#endif
