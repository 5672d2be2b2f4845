/* Busy polling for remote messages before a cord sleeps. See base/busy_poll.h. */
#ifndef WEFT_CORE_CORD_INBOX_POLL_H
#define WEFT_CORE_CORD_INBOX_POLL_H

#include "core/cord/cord.h"

/*
 * If true, busy polling is disabled. Benchmarks that measure sleep and wake set this variable
 * before the first cord exists.
 */
extern bool weft__inbox_poll_is_off;

/* Return true if a busy poll is likely to find a message. */
static inline bool weft__inbox_poll_is_worthwhile(const weft__cord *c)
{
    return UNLIKELY(weft__busy_poll_pays(&c->inbox_poll));
}

/* Busy poll for a message. Return true if there is a message. */
bool weft__inbox_poll(weft__cord *c);

/* Update the state after a sleep. was_for_message is true if a message ended the sleep. */
void weft__inbox_poll_adapt(weft__cord *c, int64_t slept_ns, bool was_for_message);

#endif
