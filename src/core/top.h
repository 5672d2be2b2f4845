/*
 * Who uses the time: each fiber's share of the last seconds, and what was left over. Only while
 * weft_account is on; then every switch comes here.
 *
 * Time is cut into periods. What was used in this one counts in full, in the one before half, and
 * so on. Nobody goes around and halves: a share is brought up to date when it is next touched.
 */
#ifndef WEFT_CORE_TOP_H
#define WEFT_CORE_TOP_H

#include <weft/base.h>

#include <stdint.h>

struct weft__cord;
struct weft__fiber;

typedef struct weft__share {
    weft_fiber id;   /* whose; 0: nobody's so far, or not a fiber's */
    uint32_t period; /* to which ns was last added */
    uint32_t ns;     /* used then, and half of what was used before, ... */
} weft__share;

/* All-zero: nothing measured. */
typedef struct weft__top {
    weft__share *of; /* by the fiber's slot; NULL: none yet */
    uint32_t of_count;
    weft__share idle;
    weft__share all; /* whatever it was used for: at least the sum of the others */
    int64_t idle_ns; /* in all */
    int64_t began_ns;
} weft__top;

/* Begin anew. */
void weft__top_begin(weft__top *t, int64_t now_ns);

/* Forget and free everything. */
void weft__top_clear(weft__top *t);

/* The fiber ran from then to then; NULL: nobody did. */
void weft__top_add(struct weft__cord *c, const struct weft__fiber *f, int64_t from_ns,
                   int64_t to_ns);

/* The fiber's share of the recent time, 0 to 1; NULL: nobody's. 0 if nothing is measured. */
double weft__top_share(const struct weft__cord *c, const struct weft__fiber *f);

#endif
