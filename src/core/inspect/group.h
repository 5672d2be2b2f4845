/* Groups of equal fibers in a snapshot, and fibers by their id. For the printer. */
#ifndef WEFT_CORE_INSPECT_GROUP_H
#define WEFT_CORE_INSPECT_GROUP_H

#include "core/debug/report.h"

#include <weft/snapshot.h>

#define WEFT__GROUP_END ((uint32_t)-1)

typedef struct weft__groups {
    const weft_snapshot *snapshot;
    uint32_t *next;     /* see weft__groups_next; NULL: memory is exhausted */
    bool *is_further;   /* of each fiber: the group has an earlier fiber */
    uint32_t *by_id;    /* a hash table: 1 + the index of a fiber; 0: free; NULL: no memory */
    size_t by_id_slots; /* a power of two */
} weft__groups;

/* Find the groups. If memory is exhausted, each fiber is a group. */
void weft__groups_open(weft__groups *g, const weft_snapshot *s);
void weft__groups_close(weft__groups *g);

/* Return whether the fiber with this index is the first of its group. */
bool weft__groups_is_first(const weft__groups *g, size_t index);

/* Return the index of the next fiber of the group. Return WEFT__GROUP_END after the last fiber. */
static inline size_t weft__groups_next(const weft__groups *g, size_t index)
{
    return g->next != NULL ? g->next[index] : WEFT__GROUP_END;
}

/* Return the fiber with this id, or NULL if the snapshot does not have it. */
const weft_snapshot_fiber *weft__groups_fiber(const weft__groups *g, weft_fiber id);

/* Print the reason of a wait, with its descriptor, object and holder. (print.c) */
void weft__print_wait(weft__report *r, const weft__groups *g, const weft_snapshot_fiber *f);

#endif
