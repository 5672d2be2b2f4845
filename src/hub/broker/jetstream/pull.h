/* Pulls: the requests of clients for messages of a consumer. */
#ifndef WEFT_HUB_BROKER_JETSTREAM_PULL_H
#define WEFT_HUB_BROKER_JETSTREAM_PULL_H

#include "hub/broker/jetstream/consumer.h"

typedef struct weft__pull {
    weft__list node; /* in pulls of the consumer */
    uint64_t left;   /* messages that the client still wants */
    uint64_t sent;
    bool is_no_wait;          /* ends when no message is available */
    int64_t expires_ns;       /* WEFT__BROKER_NEVER: does not expire */
    int64_t heartbeat_ns;     /* between heartbeats; 0: none */
    int64_t heartbeat_due_ns; /* WEFT__BROKER_NEVER: none */
    size_t reply_bytes;
    char reply[];
} weft__pull;

static inline weft__slice weft__pull_reply(const weft__pull *pull)
{
    return (weft__slice){pull->reply, pull->reply_bytes};
}

/*
 * Add a pull. The body is empty, a number, or JSON. A body that is not valid gets the status 400.
 */
void weft__pull_add(weft__consumer *c, weft__slice body, weft__slice reply);

/* End a pull without a status. The consumer is idle from now on, if it has no other pull. */
void weft__pull_end(weft__consumer *c, weft__pull *pull);

/* A message was sent to the first pull. The pull ends, or goes behind the others. */
void weft__pull_sent(weft__consumer *c, weft__pull *pull);

/* End the pulls that do not wait, and got messages, after the last available message. */
void weft__pulls_end_no_wait(weft__consumer *c);

/* End all pulls with a status. */
void weft__broker_pulls_end(weft__consumer *c, const char *status);

/* End the pulls that have expired, send heartbeats. Return the time of the next timer. */
int64_t weft__pulls_run_timers(weft__consumer *c, int64_t now_ns);

#endif
