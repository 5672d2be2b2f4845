/*
 * Messages between the processes of a cluster, and entries of its logs. Each is one JSON object.
 * "t" is the kind.
 *
 * To the owner of a room:
 *   sync    a call, from each process, every second and when its people change
 *   say     a call: store a message; the reply is "stored"
 *   typing, fail
 * From the owner to each process that has called sync:
 *   state   the people of all processes; also the reply to sync
 *   entry   a new entry of the log
 *   typing, failed
 * In the log:
 *   entry   a message of the room with this key
 *   owner   another process owns the room from here on
 *   room    a room that a user has created
 */
#ifndef CHAT_PEER_MESSAGE_H
#define CHAT_PEER_MESSAGE_H

#include "history.h"

#define ADDRESS_BYTES 80 /* name of a hub: "chat.at.", a process, ".", a room */

typedef enum peer_kind {
    PEER_SYNC,
    PEER_SAY,
    PEER_STORED,
    PEER_TYPING,
    PEER_FAIL,
    PEER_STATE,
    PEER_ENTRY,
    PEER_FAILED,
    PEER_OWNER,
    PEER_ROOM,
} peer_kind;

/* A field that is 0, false or "" is not written, and is 0, false or "" for the reader. */
typedef struct peer_message {
    peer_kind kind;
    char address[ADDRESS_BYTES]; /* SYNC: where the process gets messages about the room */
    char process[NAME_BYTES];    /* STATE, OWNER: the name of the owner */
    char room[ROOM_BYTES];       /* ROOM */
    char from[NAME_BYTES];       /* the user of TYPING, FAIL, SAY and ENTRY */
    char client[CLIENT_BYTES];   /* ENTRY, SAY */
    int64_t id;                  /* ENTRY, SAY */
    int64_t seq;                 /* ENTRY; STATE: of the last message of the room */
    int64_t number;              /* ENTRY: in the log */
    int64_t at_ms;               /* ENTRY */
    int64_t failures;            /* STATE */
    bool is_on;                  /* TYPING */
    bool is_new;                 /* STORED: the message is not a repetition */
    /* Of SAY and ENTRY: the message. SYNC, STATE: names, one per line. FAILED: the reason. */
    char *text;
} peer_message;

/* Write a message. */
void peer_message_write(json_writer *w, const peer_message *m);

/*
 * Read a message. The caller frees m->text, which is not NULL. Returns 0, or:
 * -EBADMSG if the text is not such a message
 * -ENOMEM if memory is exhausted
 */
int peer_message_read(peer_message *m, const char *text, size_t bytes);

/* Return the message of a user as an entry of the log. The entry points to the text of m. */
peer_message peer_message_of(const message *m);

/* Return the message of a user in an entry, or in SAY. The message points to the text of p. */
message peer_message_said(const peer_message *p);

#endif
