/* Delays that grow by a factor, up to a maximum: between restarts of a child, between attempts. */
#ifndef WEFT_CORE_SCHED_BACKOFF_H
#define WEFT_CORE_SCHED_BACKOFF_H

/* The longest delay, unless the program sets another, in seconds. */
#define WEFT__BACKOFF_MAX_S 60.0
#define WEFT__BACKOFF_FACTOR 2.0

typedef struct weft__backoff {
    double first_s;
    double factor;
    double max_s;
} weft__backoff;

/* Return the delay after a delay of last_s seconds. If last_s is 0, return the first delay. */
static inline double weft__backoff_next(const weft__backoff *b, double last_s)
{
    double delay_s = last_s > 0 ? b->factor * last_s : b->first_s;
    return delay_s < b->max_s ? delay_s : b->max_s;
}

#endif
