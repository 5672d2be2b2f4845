/* Random numbers for delays, orders and ids. Not for secrets. */
#ifndef WEFT_HUB_TEXT_RANDOM_H
#define WEFT_HUB_TEXT_RANDOM_H

#include <stdint.h>

/* Return the next number of a generator (splitmix64). *state may start with any value. */
static inline uint64_t weft__random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* Return a number from 0 to less than 1. */
static inline double weft__random_share(uint64_t *state)
{
    return (double)(weft__random_next(state) >> 11) * 0x1p-53;
}

#endif
