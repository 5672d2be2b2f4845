/*
 * A table of stacks with values, for profiles. Equal stacks of fibers with equal names have one
 * entry. The table has a limit, beyond which values are added to an entry without frames.
 */
#ifndef WEFT_CORE_INSPECT_SOCKET_STACK_TABLE_H
#define WEFT_CORE_INSPECT_SOCKET_STACK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The names of an entry include cuts of longer names. */
#define WEFT__STACK_NAME_BYTES 48

/* What distinguishes entries. Unused bytes of the names are 0. */
typedef struct weft__stack_key {
    bool is_wait; /* a wait, in microseconds; false: CPU time, in samples */
    bool is_idle; /* CPU time of the idle loop, which runs on the stack of an unrelated fiber */
    char cord[WEFT__STACK_NAME_BYTES];
    char fiber[WEFT__STACK_NAME_BYTES];
    char reason[WEFT__STACK_NAME_BYTES]; /* of a wait; "": none */
    const void *fn;                      /* the function of an unnamed fiber; NULL: named */
} weft__stack_key;

typedef struct weft__stack_entry {
    struct weft__stack_entry *next; /* in the bucket; NULL: the last */
    uint64_t hash;
    uint64_t value;
    weft__stack_key key;
    unsigned frames_count;
    void *frames[]; /* the innermost first */
} weft__stack_entry;

#define WEFT__STACK_BUCKETS 4096
/* About 16 MiB with 64 frames per entry. */
#define WEFT__STACK_ENTRIES_MAX 20000

/* All-zero is empty. */
typedef struct weft__stack_table {
    weft__stack_entry *buckets[WEFT__STACK_BUCKETS];
    size_t count;
    uint64_t lost; /* samples for which memory was exhausted */
} weft__stack_table;

/* Copy a name into a key, and cut it. dst is all-zero. */
void weft__stack_name_set(char dst[WEFT__STACK_NAME_BYTES], const char *name);

/* Add a value to the entry of a key and a stack. */
void weft__stack_table_add(weft__stack_table *t, const weft__stack_key *key, void *const *frames,
                           unsigned frames_count, uint64_t value);

/* Free all entries. The table is then empty. */
void weft__stack_table_clear(weft__stack_table *t);

#endif
