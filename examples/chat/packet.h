/*
 * A packet: a text for the browsers of users. A mailbox contains pointers to packets. A packet for
 * all members of a room exists once, and is freed when its last holder has released it.
 */
#ifndef CHAT_PACKET_H
#define CHAT_PACKET_H

#include "json.h"

#include <weft.h>

struct room;

typedef struct packet {
    unsigned holders;
    const struct room *room; /* NULL: not about a room */
    uint64_t seq;            /* the last message in the packet; 0: none */
    bool is_failure;         /* the room has failed, and forgotten its members */
    double received_s;       /* when the cause of the packet arrived; 0: not measured */
    size_t bytes;
    char *text;
} packet;

/* Make a packet with one holder, the caller, from a text. Returns NULL without memory. */
packet *packet_new(json_writer *text);

/* Put a packet into the mailbox of a fiber, without waiting. Returns 0 or an error. */
int packet_tell(weft_fiber to, packet *p);

/* p may be NULL. */
void packet_release(packet *p);

#endif
