/* The copy of a ring, for the file of a trace. */
#ifndef WEFT_CORE_TRACE_SOURCE_H
#define WEFT_CORE_TRACE_SOURCE_H

#include "core/trace/export.h"

/* The copy of a ring. */
typedef struct weft__trace_source {
    weft__trace_ring *ring;
    weft__trace_record *records;
    size_t count;
    uint64_t dropped;
    int pid;         /* of the cord in the file */
    int tid;         /* of the track of the cord */
    int64_t idle_ns; /* when the cord became idle; -1: not idle */
    int64_t end_ns;  /* end of the slices that have not ended */
} weft__trace_source;

/*
 * Copy a ring. Convert its times to ns since the start of the trace, at least 2 ns apart. The
 * caller must have set pid and tid.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__trace_source_open(weft__trace_source *s, weft__trace_ring *ring,
                            const weft__trace_totals *totals);
void weft__trace_source_close(weft__trace_source *s);

/* Copy the text of an event. */
void weft__trace_text(const weft__trace_source *s, size_t index, char *out, size_t bytes_max);

/* Return fields of a record. */
static inline weft_trace_kind weft__trace_kind_of(const weft__trace_record *r)
{
    return (weft_trace_kind)(r->words[WEFT__TRACE_TYPE] & 0xff);
}

static inline bool weft__trace_is_text(const weft__trace_record *r)
{
    return (r->words[WEFT__TRACE_TYPE] & 0xff) == WEFT__TRACE_TEXT;
}

static inline int weft__trace_fd_of(const weft__trace_record *r)
{
    return (int)(uint32_t)(r->words[WEFT__TRACE_TYPE] >> 32);
}

static inline int64_t weft__trace_ns_of(const weft__trace_record *r)
{
    return (int64_t)r->words[WEFT__TRACE_TIME];
}

static inline const char *weft__trace_reason_of(const weft__trace_record *r)
{
    return (const char *)(uintptr_t)r->words[WEFT__TRACE_REASON];
}

#endif
