/*
 * The owner of a shared room: decides the order of the messages.
 *
 * An append to the log names the last entry that the owner has read. If another process has
 * appended since, the append fails with -ESTALE, and this process stops being the owner. A message
 * is therefore checked against all earlier messages before it is stored, whoever stored them.
 *
 * A new owner first appends an entry of its own. After that entry, an append of an earlier owner
 * that does not know yet that it has lost the room fails.
 */
#ifndef CHAT_ROOM_OWNER_H
#define CHAT_ROOM_OWNER_H

#include "shared_room.h"

#define FOLLOWERS_MAX 32 /* processes, without the owner */

/* A process that follows the owner. */
typedef struct follower {
    char address[ADDRESS_BYTES];
    char *people;   /* members in the process, one name per line */
    double heard_s; /* when the process has called */
} follower;

/* The state that a failure of the owner destroys. */
typedef struct room_owner {
    room *room;
    follower followers[FOLLOWERS_MAX];
    size_t count;
} room_owner;

/*
 * Begin to own the room: read the log, append the entry of the owner, and tell the people. The
 * process has the name of the room. Returns 0 or an error as below.
 */
int owner_begin(room_owner *o);

/*
 * Handle a message to the owner, and free it. Returns 0, or:
 * -EIO if a user has made the room fail
 * -ESTALE if this process is not the owner any more
 * -ETIMEDOUT if the owner does not know what is in the log
 * another error, after which the owner must not continue
 */
int owner_handle(room_owner *o, weft_hub_msg *msg);

/* Tell all processes the people of all processes. Returns 0 or an error as above. */
int owner_tell_state(room_owner *o);

/* Forget processes that have not called for a while. Returns 0 or an error as above. */
int owner_forget_silent(room_owner *o);

/* Free the state. */
void owner_end(room_owner *o);

#endif
