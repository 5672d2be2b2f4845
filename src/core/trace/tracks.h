/* The tracks of a trace that is being written: the state of each fiber, found by its id. */
#ifndef WEFT_CORE_TRACE_TRACKS_H
#define WEFT_CORE_TRACE_TRACKS_H

#include "core/limits.h"
#include "core/trace/json_event.h"

#include <weft/base.h>

#include <stddef.h>
#include <stdint.h>

/* A span of the program. */
typedef struct weft__span {
    int64_t ns;    /* its begin */
    size_t record; /* the index of the event, which has the text */
} weft__span;

typedef enum weft__track_state {
    WEFT__TRACK_UNKNOWN, /* before the first event, or ended */
    WEFT__TRACK_RUNS,
    WEFT__TRACK_WAITS, /* runnable, if reason is NULL */
} weft__track_state;

typedef struct weft__track {
    weft_fiber fiber;
    int pid, tid; /* 0: not set yet */
    weft__track_state state;
    int64_t since_ns;   /* begin of the slice that has not ended */
    const char *reason; /* of a wait; NULL: none */
    uint64_t object;
    int fd;
    weft_fiber awaited;      /* 0: none */
    weft__trace_point cause; /* begin of the arrow to the next run; pid is 0: no arrow */
    const char *cause_name;
    weft__span *spans; /* that have not ended, the outermost first */
    size_t spans_count, spans_room;
    char name[WEFT__NAME_BYTES];
} weft__track;

/* All-zero is empty. */
typedef struct weft__tracks {
    weft__track *list;
    size_t count;
    uint32_t *table; /* 1 + index in list, by the hash of the id; 0: empty */
    size_t room;     /* entries of table, a power of two; list has half as many */
} weft__tracks;

/*
 * Return the track of a fiber. The first call creates the track. The pointer is valid until the
 * next call. Return NULL if memory is exhausted.
 */
weft__track *weft__tracks_get(weft__tracks *t, weft_fiber fiber);

/* Set the name of a fiber that has a track. */
void weft__tracks_set_name(weft__tracks *t, weft_fiber fiber, const char *name);

void weft__tracks_free(weft__tracks *t);

/*
 * Begin a span.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__track_push_span(weft__track *t, int64_t ns, size_t record);

#endif
