/* What is behind a weft_scope. */
#ifndef WEFT_CORE_SCOPE_H
#define WEFT_CORE_SCOPE_H

#include "core/cord.h"

#include <weft/scope.h>

struct weft__scope {
    weft__scope *outer; /* NULL: the outermost */
    weft__fiber *fiber; /* whose it is; NULL: closed */
    int64_t at_ns;      /* its deadline; WEFT__NEVER: none, or it is over */
    int64_t since_ns;   /* when it was cancelled; meaningless unless it is */
    uint64_t cut;      /* number of the first call that it cut short, see cuts of a cord; 0: none */
    uint32_t run;      /* scope_run of the fiber when it was opened; another: not open any more */
    bool is_cancelled; /* by its deadline or by hand */
    bool is_by_hand;   /* not by its deadline; meaningless unless it is cancelled */
    bool is_shield;    /* keeps out what comes from outside */
    bool is_over;      /* for a shield: not any more */
};

_Static_assert(sizeof(weft__scope) <= sizeof(weft_scope), "weft_scope is too small");
_Static_assert(_Alignof(weft__scope) <= _Alignof(weft_scope), "weft_scope is aligned too little");

/* Is it open? Not if it was closed, nor if its fiber has ended and left it. */
static inline bool weft__scope_is_open(const weft__scope *s)
{
    return s->fiber != NULL && s->run == s->fiber->scope_run;
}

/* Does it keep out what comes from outside, now? */
static inline bool weft__scope_keeps_out(const weft__scope *s)
{
    return s->is_shield && !s->is_over;
}

/*
 * The fiber ends with scopes open, and maybe groups: they are not, from now on. Their memory may be
 * gone and is not touched.
 */
void weft__scopes_drop(weft__cord *c, weft__fiber *f);

/*
 * Note that a scope of the fiber cuts a call short, which is going to fail with -ECANCELED for it.
 * Of several cancelled scopes the one that was cancelled first is the cause. Nothing is noted if
 * the cause is not a scope.
 */
void weft__scopes_note_cut(weft__cord *c, weft__fiber *f);

/*
 * For calls that go on after a blocking call inside them was cut short, and return a result of
 * their own: the caller's scope has not timed out then. Take the number before, and forget what
 * has been noted for the current fiber since.
 */
static inline uint64_t weft__cuts_so_far(void)
{
    return weft__cord_self != NULL ? weft__cord_self->cuts : 0;
}

void weft__cuts_forget_some(uint64_t since);

static inline void weft__cuts_forget(uint64_t since)
{
    if (UNLIKELY(weft__cuts_so_far() != since))
        weft__cuts_forget_some(since);
}

/* The clock goes on with an empty wheel: the deadlines of the fiber's scopes are armed anew. */
void weft__scopes_rearm(weft__cord *c, weft__fiber *f);

#endif
