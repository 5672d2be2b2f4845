/* Busy polling for remote messages. See inbox_poll.h. */
#include "core/cord/inbox_poll.h"

bool weft__inbox_poll_is_off;

static bool inbox_has_message(void *cord)
{
    weft__cord *c = cord;
    return atomic_load_explicit(&c->inbox, memory_order_relaxed) != NULL;
}

bool weft__inbox_poll(weft__cord *c)
{
    return weft__busy_poll_run(&c->inbox_poll, inbox_has_message, c);
}

void weft__inbox_poll_adapt(weft__cord *c, int64_t slept_ns, bool was_for_message)
{
    weft__busy_poll_adapt(&c->inbox_poll, slept_ns, was_for_message && !weft__inbox_poll_is_off);
}
