/* Intensity: may something happen once more, if it is to happen so often in so long at most? */
#ifndef WEFT_CORE_INTENSITY_H
#define WEFT_CORE_INTENSITY_H

#include <stddef.h>
#include <stdint.h>

/* All-zero, with max and window_ns set, is ready to use. */
typedef struct weft__intensity {
    unsigned max;      /* UINT_MAX: no limit, nothing is noted */
    unsigned count;    /* how often it has happened in the window */
    int64_t window_ns; /* WEFT__NEVER: ever; then no times are noted */
    int64_t *times;    /* a ring of when, the oldest first; grows as needed. NULL: none yet */
    size_t room;       /* in the ring: a power of two, or 0 */
    size_t head;       /* the oldest, modulo room */
} weft__intensity;

/*
 * It is to happen now. 0 and noted; -ELOOP if that is once too often, -ENOMEM. The window is
 * exact: something is out of it once window_ns have passed.
 */
int weft__intensity_note(weft__intensity *i, int64_t now_ns);

void weft__intensity_free(weft__intensity *i);

#endif
