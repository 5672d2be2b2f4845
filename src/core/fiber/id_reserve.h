/*
 * The id reserve of a cord: ids with free records, for fibers that other threads create in the cord
 * (remote spawns).
 *
 * The records of reserved ids are in no other list of the cord. A sender, which is another thread,
 * takes an id under the lock of the reserve. The cord adds ids when the remote spawn arrives.
 */
#ifndef WEFT_CORE_FIBER_ID_RESERVE_H
#define WEFT_CORE_FIBER_ID_RESERVE_H

#include <weft/base.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct weft__cord;

typedef struct weft__id_reserve {
    /* Protects the fields up to ids, and the growth of the cord's table of chunks. */
    pthread_mutex_t lock;
    unsigned count;  /* ids in the reserve */
    unsigned room;   /* length of the array ids; 0: not allocated yet */
    bool was_empty;  /* a sender found no id since the last refill; false for the first use */
    weft_fiber *ids; /* a stack; NULL: not allocated yet */
    /* Ids that senders have taken, for remote spawns that have not arrived yet. */
    atomic_uint in_flight;
} weft__id_reserve;

/*
 * Take an id of a cord. The caller must have acquired the cord (registry.h). Any thread may call
 * this function.
 *
 * Returns 0, or:
 * -EAGAIN if the cord has used all its ids
 * -ENOMEM if memory is exhausted
 */
int weft__id_reserve_take(struct weft__cord *c, weft_fiber *out);

/*
 * Add the ids of free records to the reserve of the cord. Only the thread of the cord may call this
 * function.
 */
void weft__id_reserve_refill(struct weft__cord *c);

#endif
