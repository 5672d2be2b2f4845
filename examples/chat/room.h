/*
 * A room: an actor with an inbox of events.
 *
 * The inbox and the history belong to the house and survive a failure of the fiber. The list of
 * members is a local variable of the fiber. After a failure nobody is a member: each user joins
 * again with the number of the last message that it has, as after a lost connection.
 */
#ifndef CHAT_ROOM_H
#define CHAT_ROOM_H

#include "history.h"

typedef struct room {
    char name[ROOM_BYTES];
    const char *topic;
    weft_chan *inbox; /* of room_event */
    history history;
    weft_fiber fiber;  /* the same after each restart */
    unsigned failures; /* counted by the house */
    weft_cond has_message;
    size_t people; /* number of members with a name, counted by the fiber */
} room;

typedef enum room_event_kind {
    ROOM_JOIN,
    ROOM_LEAVE,
    ROOM_SAY,
    ROOM_TYPING,
    ROOM_FAIL,
} room_event_kind;

/* The sender of an event. */
typedef struct member {
    weft_fiber writer;         /* receives the packets */
    char name[NAME_BYTES];     /* "": a silent reader */
    char client[CLIENT_BYTES]; /* "": a silent reader */
} member;

typedef struct room_event {
    room_event_kind kind;
    member who;
    uint64_t since;    /* JOIN: the last message that the member has */
    int64_t id;        /* SAY */
    bool is_on;        /* TYPING */
    double received_s; /* SAY */
    char text[];       /* SAY */
} room_event;

/*
 * Send a copy of an event to a room. Wait while the inbox is full. text may be NULL.
 * Returns 0, an error of weft_chan_send, or -ENOMEM.
 */
int room_send(room *r, const room_event *e, const char *text);

/* The function of a room's fiber. arg is the room. */
weft_fn room_run;

#endif
