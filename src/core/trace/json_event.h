/* Events of the file of a trace, in the JSON format of Chrome. */
#ifndef WEFT_CORE_TRACE_JSON_EVENT_H
#define WEFT_CORE_TRACE_JSON_EVENT_H

#include "core/trace/file.h"

/* A point on a track of the file. */
typedef struct weft__trace_point {
    int pid, tid;
    int64_t ns; /* since the start of the trace */
} weft__trace_point;

/*
 * Begin a slice or an instant. The caller adds fields, and closes the object with "}". A slice
 * begins at `at`.
 */
void weft__trace_print_slice(weft__trace_file *file, weft__trace_point at, int64_t end_ns,
                             const char *category, const char *name);
void weft__trace_print_instant(weft__trace_file *file, weft__trace_point at, const char *category,
                               const char *name);

/* Write an arrow. Both points must be in slices. */
void weft__trace_print_arrow(weft__trace_file *file, weft__trace_point from, weft__trace_point to,
                             const char *name);

/* Write the name of a "process" or a "thread", and its place in the view. If id is 0, omit it. */
void weft__trace_print_name(weft__trace_file *file, weft__trace_point at, const char *what,
                            const char *name, weft_fiber id);

#endif
