/*
 * Pseudo-random numbers for tests (splitmix64). Every test starts with the same state, so that a
 * failure can be repeated.
 */
#ifndef TESTS_SUPPORT_RANDOM_H
#define TESTS_SUPPORT_RANDOM_H

#include <stdint.h>

/* The state of random_below, one for each thread. A test may assign its own seed. */
static _Thread_local uint64_t random_state = 1;

/* Return 64 random bits, and advance *state. */
static inline uint64_t random_bits_from(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static inline uint64_t random_bits(void)
{
    return random_bits_from(&random_state);
}

/* Return a number from 0 to n - 1, and advance *state. */
static inline unsigned random_from(uint64_t *state, unsigned n)
{
    return (unsigned)(random_bits_from(state) % n);
}

/* Return a number from 0 to n - 1. */
static inline unsigned random_below(unsigned n)
{
    return random_from(&random_state, n);
}

#endif
