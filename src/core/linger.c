/* Lingering, see linger.h. */
#include "core/linger.h"

bool weft__linger_is_off;

static bool has_letter(void *cord)
{
    weft__cord *c = cord;
    return atomic_load_explicit(&c->inbox, memory_order_relaxed) != NULL;
}

bool weft__linger(weft__cord *c)
{
    return weft__busy_poll_run(&c->linger, has_letter, c);
}

void weft__linger_learn(weft__cord *c, int64_t slept_ns, bool was_for_letter)
{
    weft__busy_poll_learn(&c->linger, slept_ns, was_for_letter && !weft__linger_is_off);
}
