/* Properties of the calling convention. */
#ifndef WEFT_ARCH_CALLING_H
#define WEFT_ARCH_CALLING_H

/*
 * 1 if an int result is in the lower half of the register for intptr_t results. A function that
 * returns an intptr_t can then have an alias that returns an int.
 */
#if defined(__x86_64__) || defined(__aarch64__)
#define WEFT__INT_IS_LOWER_HALF 1
#else
#define WEFT__INT_IS_LOWER_HALF 0
#endif

#endif
