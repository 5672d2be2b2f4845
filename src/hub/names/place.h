/*
 * Placement: weft_hub_run (run.c) and weft_hub_offer (offer.c) in two processes.
 *
 * A run sends its job to "weft.offer.<kind>". One of the hubs that offer the kind starts a child,
 * and replies with the subject of the child. The run sends a ping to this subject once in a while,
 * and the child replies: each side sees that the other one is there. When the child ends, it sends
 * its result to the run until the run confirms it. All messages of a run and its child are at most
 * once, and are repeated or time out.
 */
#ifndef WEFT_HUB_NAMES_PLACE_H
#define WEFT_HUB_NAMES_PLACE_H

/* The subject of offers of a kind, and the queue group of the hubs that offer it. */
#define WEFT__OFFER_SUBJECT "weft.offer.%s"
#define WEFT__OFFER_GROUP "weft"

/* Headers of a job: its token. */
#define WEFT__HEADER_TOKEN "Weft-Token"
/* Headers of replies to a job: the subject of the child, or that the hub is busy. */
#define WEFT__HEADER_CHILD "Weft-Child"
#define WEFT__HEADER_BUSY "Weft-Busy"
/* Headers of the end of a child: its value. The payload of an error is its message. */
#define WEFT__HEADER_VALUE "Weft-Value"

/* The payload of a message to a child that cancels it. A ping is empty. */
#define WEFT__CHILD_CANCEL "cancel"

/* The time between pings, and between attempts to send a result. */
#define WEFT__PLACE_PING_S 0.5

#endif
