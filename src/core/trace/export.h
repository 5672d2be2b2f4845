/* The file of a trace, in the JSON format of Chrome. */
#ifndef WEFT_CORE_TRACE_EXPORT_H
#define WEFT_CORE_TRACE_EXPORT_H

#include "core/trace/ring.h"

/* The clocks at one moment. */
typedef struct weft__trace_times {
    uint64_t ticks; /* of the processor */
    int64_t ns;     /* of the monotonic clock */
} weft__trace_times;

/* Facts about a whole trace. */
typedef struct weft__trace_totals {
    weft__trace_times begin, end;
    uint64_t cords_missed;  /* cords without a ring, because memory was exhausted */
    uint64_t cords_dropped; /* ended cords with rings that were freed */
} weft__trace_totals;

void weft__trace_times_read(weft__trace_times *out);

/*
 * Write the events of all rings to a file.
 *
 * Returns 0, an error of open(2) or write(2), or:
 * -ENOMEM if memory is exhausted
 */
int weft__trace_export(const char *path, weft__list *rings, const weft__trace_totals *totals);

#endif
