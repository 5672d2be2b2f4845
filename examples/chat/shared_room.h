/*
 * A shared room: what this process has of a room that all processes of the cluster share.
 *
 * Three fibers serve the room in each process. The actor (room.c) handles joins and leaves, and
 * tells the members. The courier (courier.c) delivers the commands of users to the owner. The link
 * (room_link.c) owns the room or follows the owner, and stores new messages in the history.
 */
#ifndef CHAT_SHARED_ROOM_H
#define CHAT_SHARED_ROOM_H

#include "cluster_hub.h"
#include "room.h"

typedef struct shared_room {
    char owner_name[ADDRESS_BYTES]; /* where the owner gets calls */
    char address[ADDRESS_BYTES];    /* where this process gets messages of the owner */
    weft_chan *outgoing;            /* of room_event, for the courier */
    const room_event *delivering;   /* the event that the courier has; NULL: none */
    uint64_t number;                /* the last entry of the log that the history has */
    char *people;                   /* members in this process, one name per line; NULL: none */
    char *everybody; /* members in all processes, as the actor knows them; NULL: none */
} shared_room;

/* Messages in the mailbox of a link, beside pointers to weft_hub_msg. */
#define LINK_OWNER_GONE ((weft_value)1)
#define LINK_PEOPLE_CHANGED ((weft_value)2)

/* The route of shared rooms. */
room_route shared_room_route;

/*
 * Store an entry of the log in the history, unless it is there. The caller then calls
 * shared_room_tell_news. Returns 0 or -ENOMEM.
 */
int shared_room_store(room *r, const message *m, uint64_t number);

/* Read the log up to its end. Several fibers may read at the same time. Returns 0 or an error. */
int shared_room_read_log(room *r);

/* Tell the members new messages. Returns 0 or an error of weft_chan_send. */
int shared_room_tell_news(room *r);

/* Tell the members who is in the room, in all processes. Returns 0 or an error. */
int shared_room_tell_people(room *r, const char *names);

/* Functions of fibers. arg is the room. */
weft_fn courier_run;
weft_fn link_run;

#endif
