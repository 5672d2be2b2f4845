/*
 * The ring of a traced cord: the newest events, in records of one cache line.
 *
 * Only the thread of the cord writes to the ring. The thread that writes the file copies the ring,
 * usually after the cord has stopped. A cord that does not stop in time may write during the copy.
 * Therefore all words are relaxed atomics, and the copy discards records that may be torn.
 */
#ifndef WEFT_CORE_TRACE_RING_H
#define WEFT_CORE_TRACE_RING_H

#include "base/list.h"
#include "core/cord/remote_msg.h"
#include "core/limits.h"

#include <weft/trace.h>

#include <stdatomic.h>
#include <sys/types.h>

/* A kind of record, in addition to weft_trace_kind: text of the event before. */
#define WEFT__TRACE_TEXT 255

/* The words of a record. */
enum {
    WEFT__TRACE_TIME,  /* in the unit of weft__trace_clock */
    WEFT__TRACE_TYPE,  /* weft_trace_kind, bytes of text << 8, fd << 32 */
    WEFT__TRACE_FIBER, /* see weft_trace_event */
    WEFT__TRACE_OTHER,
    WEFT__TRACE_REASON, /* the address of a static string */
    WEFT__TRACE_OBJECT,
    WEFT__TRACE_VALUE,
    WEFT__TRACE_MESSAGE, /* the remote message that is sent, or that causes the event; 0: none */
    WEFT__TRACE_WORDS,
};

/* Marks and begins of spans have a short text in place of the words from WEFT__TRACE_OTHER on. */
#define WEFT__TRACE_SHORT_BYTES ((WEFT__TRACE_WORDS - WEFT__TRACE_OTHER) * sizeof(uint64_t))

static inline bool weft__trace_has_short_text(weft_trace_kind kind, size_t bytes)
{
    return (kind == WEFT_TRACE_MARK || kind == WEFT_TRACE_BEGIN) &&
           bytes <= WEFT__TRACE_SHORT_BYTES;
}

/* Text in a record of kind WEFT__TRACE_TEXT. All words except the type are text. */
#define WEFT__TRACE_TEXT_BYTES ((WEFT__TRACE_WORDS - 1) * sizeof(uint64_t))

typedef struct weft__trace_record {
    uint64_t words[WEFT__TRACE_WORDS];
} weft__trace_record;

/* The unit of the times in a ring. */
typedef enum weft__trace_clock {
    WEFT__TRACE_TICKS,   /* of the processor */
    WEFT__TRACE_NS,      /* of the monotonic clock, if the processor has no reliable counter */
    WEFT__TRACE_VIRTUAL, /* ns of the sim backend */
} weft__trace_clock;

/* The name of a fiber that had not ended when its cord stopped. */
typedef struct weft__trace_name {
    weft_fiber fiber;
    char name[WEFT__NAME_BYTES];
} weft__trace_name;

typedef struct weft__trace_ring {
    weft__trace_record *records;
    uint64_t mask;          /* records - 1; a power of two - 1 */
    _Atomic uint64_t count; /* records written so far; free-running */
    /* The following fields are constant after the cord has attached the ring. */
    weft__trace_clock clock;
    int thread_id;
    weft_fiber main;
    char name[WEFT__NAME_BYTES]; /* of the cord */
    /* The following fields are protected by the lock of trace.c. */
    weft__list link;   /* in the rings of the trace */
    bool is_attached;  /* a cord writes, or has written, to the ring */
    bool is_done;      /* the cord writes no more */
    bool is_stopping;  /* weft_trace_stop has taken the ring from the trace */
    bool is_closed;    /* weft_trace_stop has waited for the cord; no field changes any more */
    uint64_t end_time; /* when the cord stopped; 0: not done */
    size_t bytes;      /* memory of the ring of an ended cord; 0: the cord has not ended */
    weft__trace_name *names;
    size_t names_count;
    /* The trace, the cord, and each message in flight hold the ring. */
    atomic_int refs;
    weft__remote_msg start_msg, stop_msg;
} weft__trace_ring;

/* Create a ring for the given number of records. Return NULL if memory is exhausted. */
weft__trace_ring *weft__trace_ring_new(size_t records);
void weft__trace_ring_ref(weft__trace_ring *ring);
void weft__trace_ring_unref(weft__trace_ring *ring);

/* Return the number of records that were replaced. */
uint64_t weft__trace_ring_dropped(weft__trace_ring *ring);

/*
 * Copy the records, the oldest first. If is_done is false, a thread may write to the ring
 * meanwhile. *out is memory from malloc, also if the ring is empty. Returns the number of records,
 * or -ENOMEM.
 */
ssize_t weft__trace_ring_copy(weft__trace_ring *ring, bool is_done, weft__trace_record **out);

/*
 * Release the unused memory of a ring to which no thread writes any more. Returns the bytes that
 * the ring still uses.
 */
size_t weft__trace_ring_shrink(weft__trace_ring *ring);

static inline void weft__trace_ring_put(weft__trace_ring *ring, const weft__trace_record *record)
{
    uint64_t count = atomic_load_explicit(&ring->count, memory_order_relaxed);
    uint64_t *to = ring->records[count & ring->mask].words;
    for (int i = 0; i < WEFT__TRACE_WORDS; i++)
        __atomic_store_n(&to[i], record->words[i], __ATOMIC_RELAXED);
    atomic_store_explicit(&ring->count, count + 1, memory_order_release);
}

#endif
