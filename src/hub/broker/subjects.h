/*
 * Subscriptions, and the routing of messages to them.
 *
 * Subscriptions to subjects without wildcards are in a hash table, those with wildcards in a list.
 * Of the members of a queue group, each message goes to one, chosen at random. As in nats-server,
 * the members of a group may have different patterns.
 */
#ifndef WEFT_HUB_BROKER_SUBJECTS_H
#define WEFT_HUB_BROKER_SUBJECTS_H

#include "hub/text/hash.h"
#include "hub/wire/output.h"

struct weft__broker_conn;
struct weft_hub_broker;

typedef struct weft__sub {
    weft__hash_node by_subject; /* in literals of the subjects; without wildcards only */
    weft__list in_patterns;     /* with wildcards only */
    weft__hash_node by_sid;     /* in subs of the connection */
    weft__list in_conn;
    struct weft__broker_conn *conn;
    uint64_t sid;
    uint64_t delivered;
    uint64_t messages_max;      /* ends the subscription; 0: unlimited */
    weft__slice subject, queue; /* in text */
    bool is_pattern;
    char text[];
} weft__sub;

/* A subscription that gets the current message. */
typedef struct weft__match {
    weft__sub *sub;
    uint64_t members; /* of the queue group of sub, so far */
} weft__match;

/* All subscriptions of a broker. Initialise with weft__subjects_init. */
typedef struct weft__subjects {
    weft__hash literals;
    weft__list patterns;
    weft__match *matches; /* memory that each routing uses again */
    size_t match_count, match_capacity;
} weft__subjects;

void weft__subjects_init(weft__subjects *s);
void weft__subjects_free(weft__subjects *s);

/*
 * Subscribe a connection. A sid that the connection has already is ignored, as in nats-server.
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__subjects_add(struct weft__broker_conn *conn, weft__slice subject, weft__slice queue,
                       uint64_t sid);

/* End a subscription after a number of messages since its begin. 0: at once. */
void weft__subjects_end(struct weft__broker_conn *conn, uint64_t sid, uint64_t messages_max);

/* End all subscriptions of a connection. */
void weft__subjects_end_all(struct weft__broker_conn *conn);

/*
 * Deliver a message to the subscriptions of a subject. The subject of the message itself may be
 * another one. not_to gets no message; NULL: none. Returns the number of deliveries.
 */
size_t weft__subjects_route(struct weft_hub_broker *b, weft__slice to, const weft__publication *p,
                            const struct weft__broker_conn *not_to);

/* Like weft__subjects_route, to the subscriptions of one connection only. */
size_t weft__subjects_route_within(struct weft__broker_conn *conn, weft__slice to,
                                   const weft__publication *p);

#endif
