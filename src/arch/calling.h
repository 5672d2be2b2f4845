/* Properties of the calling convention. */
#ifndef WEFT_ARCH_CALLING_H
#define WEFT_ARCH_CALLING_H

/*
 * 1 if an int result is in the lower half of the register for intptr_t results. A function that
 * returns an intptr_t can then have an alias that returns an int. A tail call of the alias is a
 * jump. Without the aliases: snooze takes 2.8 times the time, and rendezvous 1.9 times
 * (docs/adr/0051).
 */
#if defined(__x86_64__) || defined(__aarch64__)
#define WEFT__INT_IS_LOWER_HALF 1
#else
#define WEFT__INT_IS_LOWER_HALF 0
#endif

#endif
