/* The house: all rooms, all users, and the supervisor of the rooms. */
#ifndef CHAT_HOUSE_H
#define CHAT_HOUSE_H

#include "packet.h"
#include "room.h"

/* A user, in the frame of its reader. */
typedef struct user {
    weft_ws *ws;
    weft_fiber reader;
    member self;    /* with the id of the writer */
    room *room;     /* where the user is; NULL: nowhere yet */
    uint64_t seq;   /* the last message of the room that was sent to the user */
    int close_code; /* not 0: the reader must close the connection with this code */
} user;

/*
 * Create the first rooms, and start their supervisor. If the cluster is open, the rooms are shared.
 * Returns 0 or an error.
 */
int house_open(void);

/* End the rooms, and free them. No user may be connected. */
void house_close(void);

/*
 * The name of this run of the program, or of the cluster. Numbers of messages are only valid with
 * this name.
 */
const char *house_epoch(void);

/*
 * Return a room, or NULL. If may_create is set, create a room that does not exist, unless there are
 * ROOMS_MAX rooms.
 */
room *house_room(const char *name, bool may_create);

/* Like house_room, for a room that another process has created. */
room *house_found_room(const char *name);

bool house_is_full(void);

/*
 * Count a failure of a room, and tell all users. If members_are_lost is set, the members join
 * again.
 */
void house_room_failed(room *r, const char *why, bool members_are_lost);

/*
 * Add a user. A user with the same client replaces the earlier one, which is closed.
 * Returns 0, or the close code of a user that cannot enter.
 */
int house_enter(user *u);

void house_leave(user *u);
size_t house_users(void);

/*
 * Put a packet into the mailbox of a writer, without waiting. A user with a full mailbox is too
 * slow, and is disconnected. Returns 0, or an error of weft_try_tell.
 */
int house_tell(weft_fiber writer, packet *p);

/* Send a packet to all users, and release it. p may be NULL. */
void house_tell_all(packet *p);

/*
 * Write the member "rooms": for each room its name, topic, last message, people and failures, and
 * in a cluster its owner.
 */
void house_write_rooms(json_writer *w);

#endif
