/* Tours, see tour.h. */
#include "sync/tour.h"

#include "sync/chan.h"

#include <stdlib.h>

weft__shared *weft__clause_shared(const weft_clause *clause)
{
    bool is_chan = clause->kind == WEFT_CLAUSE_RECV || clause->kind == WEFT_CLAUSE_SEND;
    return is_chan ? clause->of.chan->shared : NULL;
}

/* In its place by address, unless it is there. */
static void add(weft__tour *t, weft__shared *s)
{
    size_t at = t->count;
    while (at > 0 && (uintptr_t)t->shared[at - 1] > (uintptr_t)s)
        at--;
    if (at > 0 && t->shared[at - 1] == s)
        return;
    memmove(&t->shared[at + 1], &t->shared[at], (t->count - at) * sizeof t->shared[0]);
    t->shared[at] = s;
    t->count++;
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

weft__tour *weft__tour_new(weft__cord *c, const weft_clause *clauses, size_t n,
                           void (*deliver)(weft__cord *c, weft__letter *l))
{
    weft__tour *t = malloc(sizeof *t + n * sizeof t->shared[0]);
    if (t == NULL)
        return NULL;
    *t = (weft__tour){.turn.letter = {NULL, deliver, c->current->id, 0}};
    for (size_t i = 0; i < n; i++) {
        weft__shared *s = weft__clause_shared(&clauses[i]);
        if (s != NULL)
            add(t, s);
    }
    return t;
}

void weft__tour_free(weft__tour *t)
{
    for (size_t i = 0; i < t->count; i++)
        weft__shared_drop(t->shared[i]);
    free(t);
}

bool weft__tour_has(const weft__tour *t, const weft__line *line)
{
    for (size_t i = 0; t != NULL && i < t->count; i++) {
        const weft__passage *p = &t->shared[i]->passage;
        if (line == &p->senders || line == &p->receivers)
            return true;
    }
    return false;
}

void weft__tour_lock(weft__tour *t)
{
    for (size_t i = 0; i < t->count; i++)
        pthread_mutex_lock(&t->shared[i]->lock);
}

void weft__tour_unlock(weft__tour *t)
{
    for (size_t i = t->count; i-- > 0;)
        pthread_mutex_unlock(&t->shared[i]->lock);
}
