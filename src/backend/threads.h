/* The other threads of the process: are there any that could wake a fiber of this one? */
#ifndef WEFT_BACKEND_THREADS_H
#define WEFT_BACKEND_THREADS_H

#include <stdbool.h>

/*
 * Are there more threads than these that run fibers, threads aside that only work for us: the
 * pool's, io_uring's, a sanitizer's? True if that cannot be found out.
 */
bool weft__threads_are_others(unsigned cords);

#endif
