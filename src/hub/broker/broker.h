/*
 * A broker: its life, its time and its random numbers.
 *
 * All fields belong to the thread that created the broker, except for those of the table. A timer
 * fiber of that thread runs as long as the broker: it ends what has expired, delivers again what
 * was not acknowledged, and frees the broker when it has no user.
 */
#ifndef WEFT_HUB_BROKER_BROKER_H
#define WEFT_HUB_BROKER_BROKER_H

#include "base/list.h"
#include "hub/broker/subjects.h"

#include <weft/cord.h>
#include <weft/hub_broker.h>
#include <weft/sync.h>

#define WEFT__BROKER_NAME_BYTES_MAX 64
#define WEFT__BROKER_PAYLOAD_BYTES_MAX (1024 * 1024) /* as in nats-server */
#define WEFT__BROKER_NEVER INT64_MAX                 /* a time that does not come */

struct weft_hub_broker {
    /* The lock of the table protects these. */
    weft__list in_table; /* in no list: the broker has ended, and a new one can have its name */
    size_t users;        /* connections, and callers of weft_hub_broker_get */
    bool is_running;     /* the timer fiber has not ended */

    /* Constant. */
    char name[WEFT__BROKER_NAME_BYTES_MAX + 1];
    char id[24]; /* of the server, in INFO */
    weft_cord cord;
    bool is_sim;
    int64_t clock_base_ns; /* added to the monotonic clock; on sim 0 */

    uint64_t random_state;
    weft_event wake;  /* wakes the timer fiber; any thread may set it */
    int64_t timer_ns; /* the timer fiber runs at this time at the latest */
    weft__list conns;
    uint64_t conns_opened;
    weft__subjects subjects;
    weft__list streams;

    weft__list isolated; /* names of hubs (faults.c) */
    bool is_paused;
    weft_cond
        gate; /* signalled when is_paused, an isolation or is_closed of a connection changes */
};

/* Hold a broker that the caller holds already. Any thread may call this function. */
void weft__broker_hold(weft_hub_broker *b);

/* Return 0, or -EXDEV with a message if the broker belongs to another thread. */
int weft__broker_check(const weft_hub_broker *b, const char *function);

/* The time of the broker: nanoseconds since 1970, or virtual nanoseconds on sim. */
int64_t weft__broker_now_ns(const weft_hub_broker *b);

/* Add a time span. A sum that does not fit never comes. */
static inline int64_t weft__broker_time_after(int64_t time_ns, int64_t span_ns)
{
    int64_t sum_ns;
    return __builtin_add_overflow(time_ns, span_ns, &sum_ns) ? WEFT__BROKER_NEVER : sum_ns;
}

/* A random number. On sim, the numbers depend on WEFT_SEED and the name of the broker only. */
uint64_t weft__broker_random(weft_hub_broker *b);

/* Run the timers at a time, or earlier. */
void weft__broker_wake_at(weft_hub_broker *b, int64_t time_ns);

#endif
