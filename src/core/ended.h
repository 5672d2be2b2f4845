/*
 * Ended children that nobody has awaited. The last WEFT__ENDED_WHOLE of a parent keep their
 * records; of older ones only the id, the value and the error are kept here, 36 bytes each, and
 * their records are free.
 */
#ifndef WEFT_CORE_ENDED_H
#define WEFT_CORE_ENDED_H

#include <weft/fiber.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct weft__fiber weft__fiber;
typedef struct weft__cord weft__cord;
typedef struct weft__error weft__error;

/* An entry. Numbers are places in the table; 0: none. */
typedef struct weft__ended {
    weft_fiber id;
    union {
        weft_value value;
        weft__error *words; /* a reference; their code is the value */
    };
    uint32_t parent : 31; /* the slot of its parent, which is alive */
    uint32_t has_words : 1;
    uint32_t next, prev; /* of the same parent; next is also the next free place */
    uint32_t chain;      /* with the same hash */
} weft__ended;

/* A cord's table of entries; all-zero: empty. */
typedef struct weft__ended_table {
    weft__ended *at;     /* the place 0 is not used */
    uint32_t *buckets;   /* as many as places */
    uint32_t places;     /* a power of two, or 0 */
    uint32_t count;      /* of those in use */
    uint32_t unused;     /* places from here on were never used */
    uint32_t first_free; /* of those that were; 0: none */
} weft__ended_table;

/*
 * This child of the parent has ended, and too many ended children keep their records: replace the
 * oldest record by an entry, if it can be replaced and there is memory.
 */
void weft__ended_shorten(weft__cord *c, weft__fiber *parent, const weft__fiber *child);

/* The entry of an id; NULL: none. */
const weft__ended *weft__ended_find(const weft__cord *c, weft_fiber id);

/*
 * Remove the entry of an id. The current fiber, which awaits it, gets its value and the words of
 * its error. False: there is no entry.
 */
bool weft__ended_take(weft__cord *c, weft_fiber id, weft_value *value);

/* The parent ends: remove the entries of its children. */
void weft__ended_bury(weft__cord *c, weft__fiber *parent);

/* Remove all entries, and free the table. */
void weft__ended_close(weft__cord *c);

#endif
