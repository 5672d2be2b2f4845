/*
 * The shares of CPU time that each fiber used in the last seconds, and the share of idle time.
 * While weft_account is on, every switch updates a share.
 *
 * Time is divided into periods. The weight of a period is half the weight of the next period. A
 * share is halved lazily, when it is next used.
 */
#ifndef WEFT_CORE_DEBUG_TOP_H
#define WEFT_CORE_DEBUG_TOP_H

#include <weft/base.h>

#include <stdint.h>

struct weft__cord;
struct weft__fiber;

/* The weighted time of a fiber, of idle time, or of both together. */
typedef struct weft__share {
    weft_fiber id;   /* id of the fiber; 0: none */
    uint32_t period; /* the period of the last update */
    uint32_t ns;     /* time in that period, plus half of the time in the period before, etc. */
} weft__share;

/* The shares of a cord. All-zero: not measured. */
typedef struct weft__top {
    weft__share *shares;   /* by slot of the fiber; NULL: none yet */
    uint32_t shares_count; /* length of shares */
    weft__share idle;      /* time without a runnable fiber */
    weft__share all;       /* total time; at least the sum of the other shares */
    int64_t idle_ns;       /* total idle time, without weights */
    int64_t began_ns;      /* start of the first period */
} weft__top;

/* Reset all shares, and start the first period. */
void weft__top_begin(weft__top *t, int64_t now_ns);

/* Free all shares. */
void weft__top_clear(weft__top *t);

/* Add a time span to the share of f, or to the share of idle time if f is NULL. */
void weft__top_add(struct weft__cord *c, const struct weft__fiber *f, int64_t from_ns,
                   int64_t to_ns);

/*
 * Return the share of f, from 0 to 1. If f is NULL, return the share of idle time. Return 0 if
 * weft_account is off.
 */
double weft__top_share(const struct weft__cord *c, const struct weft__fiber *f);

#endif
