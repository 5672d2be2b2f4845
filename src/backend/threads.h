/* The other threads of the process: are there any that could wake a fiber of this one? */
#ifndef WEFT_BACKEND_THREADS_H
#define WEFT_BACKEND_THREADS_H

#include <stdbool.h>

/*
 * Is there any thread but this one, threads aside that only work for us: the pool's, io_uring's,
 * a sanitizer's? True if that cannot be found out.
 */
bool weft__threads_are_others(void);

#endif
