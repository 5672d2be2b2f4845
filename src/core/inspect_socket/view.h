/*
 * Rows of fibers for `weft top`: a snapshot that is filtered, grouped, sorted and cut to a page, so
 * that a client of a process with 100,000 fibers receives some kilobytes.
 *
 * A reply has these lines. Times are in seconds, and sizes in bytes.
 *
 *     process PID UPTIME NOW FIBERS ROWS FIRST PROGRAM
 *         ROWS is the number of rows without a limit, and FIRST the index of the first row sent.
 *     cord ID THREAD_ID REPLIED STALLED FIBERS RUNNABLE SWITCHES POLLS OPS TIMERS IDLE_SHARE
 *          THREAD_CPU BACKEND NAME
 *     fiber ID COUNT CORD DEPTH STATE CPU_SHARE CPU WAITING SWITCHES STACK_USED STACK_BYTES FD
 *           DEADLINE HOLDER FLAGS REASON NAME FUNCTION LOCAL PEER
 *
 * COUNT is the number of fibers in a group. In a group, the other values are those of the fiber
 * that has the largest value of the sort key, but CPU_SHARE, CPU and SWITCHES are sums. CORD is an
 * index in the cord lines. STATE is running, runnable, waiting or dead. HOLDER is the id of the
 * fiber that must end the wait, or 0. DEADLINE is -1 if there is none. FLAGS has "d" for a daemon
 * and "p" for a parked fiber.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_VIEW_H
#define WEFT_CORE_INSPECT_SOCKET_VIEW_H

#include "core/inspect_socket/reply.h"

#include <weft/snapshot.h>

typedef enum weft__inspect_view_sort {
    WEFT__INSPECT_SORT_CPU,
    WEFT__INSPECT_SORT_WAIT,
    WEFT__INSPECT_SORT_STACK,
    WEFT__INSPECT_SORT_SWITCHES,
    WEFT__INSPECT_SORT_ID,
} weft__inspect_view_sort;

typedef struct weft__inspect_view_options {
    weft__inspect_view_sort sort; /* largest first, except ids; ignored if is_tree is true */
    bool is_tree;                 /* parents before their children, without groups */
    bool has_groups;    /* one row for fibers that are equal except for times and counts */
    bool has_fibers;    /* false: only the process and its cords */
    size_t offset;      /* the first row */
    size_t limit;       /* rows to send */
    const char *filter; /* a part of the name, function, reason or id, in any case; "": all */
} weft__inspect_view_options;

/* The largest limit. */
#define WEFT__INSPECT_ROWS_MAX 2000

/* Take a snapshot, and append its lines. Returns 0, or an error of weft_snapshot_take. */
int weft__inspect_view_reply(const weft__inspect_view_options *options, weft__inspect_reply *r);

/* Append the line of a fiber, which is in a snapshot. */
void weft__inspect_view_fiber(const weft_snapshot_fiber *f, weft__inspect_reply *r);

/* Append the name of the program as a word. */
void weft__inspect_view_program(weft__inspect_reply *r);

#endif
