/*
 * The table of bounded mailboxes: a hash table with a fixed number of buckets and one lock. Only
 * weft_try_tell to a thread with bounded mailboxes, and changes of bounds, take the lock.
 */
#include "core/fiber/mailbox_bound.h"

#include "arch/sanitizers.h"

#include <pthread.h>

#define BUCKETS 1024

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weft__mailbox_bound *buckets[BUCKETS];

/* Slots of records are the low bits of ids. Mix in the cord and the serial. */
static weft__mailbox_bound **bucket_of(weft_fiber fiber)
{
    return &buckets[(fiber ^ fiber >> 20 ^ fiber >> 40) % BUCKETS];
}

/* Return the link to the bound of a fiber, or to NULL. The caller must hold the lock. */
static weft__mailbox_bound **bound_find(weft_fiber fiber)
{
    weft__mailbox_bound **link = bucket_of(fiber);
    while (*link != NULL && (*link)->fiber != fiber)
        link = &(*link)->next;
    return link;
}

void weft__mailbox_bound_set(weft__mailbox_bound *b, weft_fiber fiber, const weft__fifo *fifo,
                             size_t limit)
{
    pthread_mutex_lock(&lock);
    weft__mailbox_bound **link = bound_find(fiber);
    if (limit == WEFT__UNLIMITED) {
        if (*link == b)
            *link = b->next;
        b->fiber = 0;
    } else if (*link != b) {
        b->next = NULL;
        b->fiber = fiber;
        b->fifo = fifo;
        *link = b;
    }
    b->limit = limit;
    pthread_mutex_unlock(&lock);
}

/*
 * Return the number of messages in a mailbox of another thread. That thread writes the number
 * without synchronisation. An old number is correct for an earlier time.
 */
WEFT__UNSANITIZED static size_t stored_count(const weft__fifo *fifo)
{
    return __atomic_load_n(&fifo->count, __ATOMIC_RELAXED);
}

weft__reservation weft__mailbox_bound_reserve(weft_fiber fiber)
{
    weft__reservation result = WEFT__UNBOUNDED;
    pthread_mutex_lock(&lock);
    weft__mailbox_bound *b = *bound_find(fiber);
    if (b != NULL) {
        size_t stored = stored_count(b->fifo);
        bool has_place = stored < b->limit && b->reserved < b->limit - stored;
        b->reserved += has_place;
        result = has_place ? WEFT__RESERVED : WEFT__NO_PLACE;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/*
 * Release a place. If the place was in the mailbox of an earlier run of the fiber, there may be no
 * reserved place. The caller must hold the lock.
 */
static void place_release(weft__mailbox_bound *b)
{
    b->reserved -= b->reserved > 0;
}

/* The lock makes both changes one step for senders. So no sender counts the message twice. */
int weft__mailbox_bound_put(weft__cord *c, weft__mailbox_bound *b, weft__fifo *fifo,
                            weft_value value)
{
    pthread_mutex_lock(&lock);
    int rc = weft__fifo_put(c, fifo, &value, WEFT__TAIL);
    if (rc != -EAGAIN)
        place_release(b);
    pthread_mutex_unlock(&lock);
    return rc;
}

void weft__mailbox_bound_release(weft__mailbox_bound *b)
{
    pthread_mutex_lock(&lock);
    place_release(b);
    pthread_mutex_unlock(&lock);
}

void weft__mailbox_bounds_reset(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (size_t i = 0; i < BUCKETS; i++)
        buckets[i] = NULL;
}
