/*
 * Restart intensity: limit the number of restarts in a sliding time window. The term is from
 * Erlang.
 */
#ifndef WEFT_CORE_SUPERVISE_RESTART_INTENSITY_H
#define WEFT_CORE_SUPERVISE_RESTART_INTENSITY_H

#include <stddef.h>
#include <stdint.h>

/* To initialise, set max and window_ns. All other fields must be 0. */
typedef struct weft__restart_intensity {
    /* The maximum number of restarts per window. UINT_MAX: no limit, and nothing is recorded. */
    unsigned max;
    unsigned count;    /* restarts in the window */
    int64_t window_ns; /* WEFT__NEVER: unlimited, and times are not recorded */
    int64_t *times;    /* a ring buffer of restart times; NULL: not allocated yet */
    size_t capacity;   /* of times; a power of two, or 0 */
    size_t head;       /* the index of the oldest time, modulo capacity */
} weft__restart_intensity;

/*
 * Record a restart at now_ns. The restart leaves the window exactly window_ns later. On failure,
 * nothing is recorded.
 *
 * Returns 0, or:
 * -ELOOP if the window already has max restarts
 * -ENOMEM if memory is exhausted
 */
int weft__restart_intensity_note(weft__restart_intensity *i, int64_t now_ns);

/* Free the ring buffer, and forget all restarts. */
void weft__restart_intensity_free(weft__restart_intensity *i);

#endif
