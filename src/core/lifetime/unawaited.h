/*
 * Ended children that no fiber has awaited. The last WEFT__UNAWAITED_RECORDS such children of a
 * parent keep their records. The records of older children are free. For each older child, a table
 * keeps the id, the value and the error in 36 bytes.
 */
#ifndef WEFT_CORE_LIFETIME_UNAWAITED_H
#define WEFT_CORE_LIFETIME_UNAWAITED_H

#include <weft/fiber.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct weft__fiber weft__fiber;
typedef struct weft__cord weft__cord;
typedef struct weft__error weft__error;

/* An entry of the table. next, prev and hash_next are slots of the table (0: none). */
typedef struct weft__unawaited {
    weft_fiber id;
    union {
        weft_value value;
        weft__error *error; /* a reference; the code of the error is the value */
    };
    uint32_t parent : 31; /* the slot of the record of the parent; the parent is alive */
    uint32_t has_error : 1;
    uint32_t next, prev; /* entries of the same parent; next also links free slots */
    uint32_t hash_next;  /* the next entry in the same bucket */
} weft__unawaited;

/* The table of a cord. All-zero: empty. */
typedef struct weft__unawaited_table {
    weft__unawaited *entries; /* slot 0 is not used */
    uint32_t *buckets;        /* one per slot */
    uint32_t capacity;        /* a power of two, or 0 */
    uint32_t count;           /* used slots */
    uint32_t unused;          /* the first slot that was never used */
    uint32_t first_free;      /* head of the list of free slots; 0: none */
} weft__unawaited_table;

/*
 * Replace the record of an old ended child of parent with an entry, if possible. If memory is
 * exhausted, keep the record. Call this function when `child` has ended and more than
 * WEFT__UNAWAITED_RECORDS ended children of parent have records. Report the parent when it has
 * WEFT__UNAWAITED_WARN unawaited children.
 */
void weft__unawaited_compact(weft__cord *c, weft__fiber *parent, const weft__fiber *child);

/* Return the entry of an id, or NULL if there is none. */
const weft__unawaited *weft__unawaited_find(const weft__cord *c, weft_fiber id);

/*
 * Remove the entry of an id that the current fiber awaits. *value receives the value of the ended
 * child. If the value is an error, set the last error of the current fiber. Returns false if there
 * is no entry.
 */
bool weft__unawaited_take(weft__cord *c, weft_fiber id, weft_value *value);

/* Remove all entries of a parent, because the parent ends. */
void weft__unawaited_drop(weft__cord *c, weft__fiber *parent);

/* Remove all entries and free the table. */
void weft__unawaited_close(weft__cord *c);

#endif
