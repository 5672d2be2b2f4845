/*
 * Backtraces of the fibers of the calling thread. Equal backtraces are stored once.
 *
 * Unwinding takes some microseconds per frame. Most fibers of a server wait in the same call, with
 * the same frames. Therefore a table of frames remembers where each return address was on the
 * stack. For the next fiber with the same function and depth, the table compares these words
 * instead of unwinding the stack (docs/adr/0068).
 */
#ifndef WEFT_CORE_INSPECT_FRAMES_H
#define WEFT_CORE_INSPECT_FRAMES_H

#include "core/cord/cord.h"

/* The return addresses of one or more equal stacks, the innermost first. */
typedef struct weft__frames {
    struct weft__frames *next_of_all;  /* all frames of a table; NULL: the last */
    struct weft__frames *next_of_hash; /* private to frames.c */
    uint32_t count;
    void *addresses[];
} weft__frames;

#define WEFT__FRAMES_MAX 256
#define WEFT__FRAMES_BUCKETS 512

/* All-zero except frames_max is an empty table. */
typedef struct weft__frames_table {
    unsigned frames_max;                              /* frames per fiber */
    void *addresses[WEFT__FRAMES_MAX];                /* of the fiber that is being unwound */
    uintptr_t ends[WEFT__FRAMES_MAX];                 /* private to frames.c */
    weft__frames *all;                                /* the caller frees them; NULL: none */
    weft__frames *by_hash[WEFT__FRAMES_BUCKETS];      /* by the addresses */
    struct stack_probe *probes[WEFT__FRAMES_BUCKETS]; /* known stacks; private to frames.c */
} weft__frames_table;

/*
 * Unwind the stack of a fiber of the calling thread. The fiber runs or waits. Store at most n
 * addresses, and return their number. If the fiber waits, the frames of the unwinder are omitted. A
 * fiber that has not run yet or has ended has no frames. A stack with too little free space for the
 * unwinder has none either.
 */
int weft__frames_unwind(weft__cord *c, weft__fiber *f, void **out, int n);

/*
 * Find the frames of a fiber of the calling thread. *out is NULL if the fiber has no frames.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__frames_find(weft__frames_table *table, weft__cord *c, weft__fiber *f, weft__frames **out);

/* Free the private memory of a table, except the frames. */
void weft__frames_table_close(weft__frames_table *table);

/* Free frames that are linked by next_of_all. */
void weft__frames_free(weft__frames *all);

#endif
