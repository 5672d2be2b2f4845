/*
 * Claims: what a fiber holds and ought to let go of before it ends (a lock, say). If it does not,
 * the claim lapses with the fiber, and whoever made it says what becomes of the thing.
 */
#ifndef WEFT_CORE_CLAIM_H
#define WEFT_CORE_CLAIM_H

#include <stddef.h>

/* Embedded in the thing that is held. All-zero: not held. */
typedef struct weft__claim {
    struct weft__claim *next;
    struct weft__claim **at;                /* what points to it; NULL: not held */
    void (*lapse)(struct weft__claim *own); /* its fiber ends; the claim is out already */
} weft__claim;

static inline void weft__claim_make(weft__claim **claims, weft__claim *own,
                                    void (*lapse)(weft__claim *own))
{
    own->lapse = lapse;
    own->next = *claims;
    own->at = claims;
    if (own->next != NULL)
        own->next->at = &own->next;
    *claims = own;
}

static inline void weft__claim_drop(weft__claim *own)
{
    *own->at = own->next;
    if (own->next != NULL)
        own->next->at = own->at;
    own->at = NULL;
}

#endif
