/* Sets of signals as masks: bit n is signal n + 1. */
#ifndef WEFT_CORE_SIGNAL_SIGNAL_MASK_H
#define WEFT_CORE_SIGNAL_SIGNAL_MASK_H

#include "core/signal/signal_thread.h"

#include <errno.h>
#include <stdint.h>

static inline uint64_t weft__signal_bit(int sig)
{
    return UINT64_C(1) << (sig - 1);
}

/* Return the mask of signals that cannot be caught or that report faults. */
static inline uint64_t weft__signals_unsupported(void)
{
    return weft__signal_bit(SIGKILL) | weft__signal_bit(SIGSTOP) | weft__signal_bit(SIGSEGV) |
           weft__signal_bit(SIGBUS) | weft__signal_bit(SIGILL) | weft__signal_bit(SIGFPE) |
           weft__signal_bit(SIGTRAP) | weft__signal_bit(SIGSYS);
}

/*
 * Store the signals of a set in *mask.
 *
 * Returns 0, or:
 * -EINVAL if set contains a signal that fibers cannot wait for; *mask has only such signals
 * -EINVAL if set is NULL or empty; *mask is then 0
 */
static inline int weft__signal_mask(const sigset_t *set, uint64_t *mask)
{
    *mask = 0;
    for (int sig = 1; set != NULL && sig < WEFT__SIGNALS_END; sig++)
        if (sigismember(set, sig) == 1)
            *mask |= weft__signal_bit(sig);
    uint64_t unsupported = *mask & weft__signals_unsupported();
    if (*mask != 0 && unsupported == 0)
        return 0;
    *mask = unsupported;
    return -EINVAL;
}

#endif
