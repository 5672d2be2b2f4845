/* The set of shared channels of a select. See select_shared.h. */
#include "sync/select_shared.h"

#include "sync/chan.h"

#include <stdlib.h>

weft__chan_shared *weft__clause_shared(const weft_clause *clause)
{
    bool is_chan = clause->kind == WEFT_CLAUSE_RECV || clause->kind == WEFT_CLAUSE_SEND;
    return is_chan ? clause->of.chan->shared : NULL;
}

/*
 * Insert a channel in address order, and take a reference. If the set already contains the channel,
 * do nothing.
 */
static void select_shared_add(weft__select_shared *set, weft__chan_shared *s)
{
    size_t index = set->count;
    while (index > 0 && (uintptr_t)set->shared[index - 1] > (uintptr_t)s)
        index--;
    if (index > 0 && set->shared[index - 1] == s)
        return;
    memmove(&set->shared[index + 1], &set->shared[index],
            (set->count - index) * sizeof set->shared[0]);
    set->shared[index] = s;
    set->count++;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

weft__select_shared *weft__select_shared_new(weft__cord *c, const weft_clause *clauses, size_t n,
                                             void (*deliver)(weft__cord *c, weft__remote_msg *msg))
{
    weft__select_shared *set = malloc(sizeof *set + n * sizeof set->shared[0]);
    if (set == NULL)
        return NULL;
    *set = (weft__select_shared){.wake.msg = {NULL, deliver, c->current->id, 0}};
    for (size_t i = 0; i < n; i++) {
        weft__chan_shared *s = weft__clause_shared(&clauses[i]);
        if (s != NULL)
            select_shared_add(set, s);
    }
    return set;
}

void weft__select_shared_free(weft__select_shared *set)
{
    for (size_t i = 0; i < set->count; i++)
        weft__chan_shared_unref(set->shared[i]);
    free(set);
}

bool weft__select_shared_has(const weft__select_shared *set, const weft__waitq *waitq)
{
    for (size_t i = 0; set != NULL && i < set->count; i++) {
        const weft__fifo *fifo = &set->shared[i]->fifo;
        if (waitq == &fifo->senders || waitq == &fifo->receivers)
            return true;
    }
    return false;
}

void weft__select_shared_lock(weft__select_shared *set)
{
    for (size_t i = 0; i < set->count; i++)
        pthread_mutex_lock(&set->shared[i]->lock);
}

void weft__select_shared_unlock(weft__select_shared *set)
{
    for (size_t i = set->count; i-- > 0;)
        pthread_mutex_unlock(&set->shared[i]->lock);
}
