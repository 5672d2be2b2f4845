/*
 * Hints: which descriptors had no input when Ruby last wanted to fill a buffer.
 *
 * A server that has answered a request reads the next one at once, and usually finds nothing. With
 * the hint, it waits without this attempt. Every HINT_USES times it tries nevertheless, so a
 * descriptor whose input comes early loses its hint. A wrong hint costs one poll: the number of a
 * descriptor may belong to another file meanwhile.
 */
#ifndef WEFT_SCHEDULER_FILL_HINT_H
#define WEFT_SCHEDULER_FILL_HINT_H

#include "scheduler.h"

#define HINT_USES 15

/* Return whether the next fill finds no input, probably. */
static inline bool fill_hint_take(struct scheduler *scheduler, int fd)
{
    if ((size_t)fd >= scheduler->hints_size || scheduler->hints[fd] == 0)
        return false;
    scheduler->hints[fd]--;
    return true;
}

/* Note that a descriptor had no input. */
static inline void fill_hint_set(struct scheduler *scheduler, int fd)
{
    if ((size_t)fd >= scheduler->hints_size) {
        size_t size = ((size_t)fd + 1) * 2;
        REALLOC_N(scheduler->hints, unsigned char, size);
        MEMZERO(scheduler->hints + scheduler->hints_size, unsigned char,
                size - scheduler->hints_size);
        scheduler->hints_size = size;
    }
    scheduler->hints[fd] = HINT_USES;
}

#endif
