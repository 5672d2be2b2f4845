/*
 * A room: an actor with an inbox of events.
 *
 * The inbox and the history belong to the house and survive a failure of the fiber. The list of
 * members is a local variable of the fiber. After a failure nobody is a member: each user joins
 * again with the number of the last message that it has, as after a lost connection.
 *
 * A local room exists in one process: its fiber handles all events. A shared room (shared_room.h)
 * has a fiber in each process, which handles joins and leaves. Other events go to the process that
 * owns the room, and come back as news.
 */
#ifndef CHAT_ROOM_H
#define CHAT_ROOM_H

#include "history.h"

typedef struct room room;
typedef struct room_event room_event;
struct shared_room;

/* Pass an event to the fiber that handles it. Returns 0, or an error and leaves the event. */
typedef int room_route(room *r, room_event *e);

struct room {
    char name[ROOM_BYTES];
    const char *topic;
    room_route *route;          /* room_put, or shared_room_route */
    struct shared_room *shared; /* NULL: a local room */
    weft_chan *inbox;           /* of room_event */
    history history;
    weft_fiber fiber;  /* the same after each restart */
    weft_fiber link;   /* of a shared room: the fiber of room_link.h; the same after each restart */
    unsigned failures; /* counted by the house */
    weft_cond has_message;
    size_t people;          /* number of members with a name, in all processes */
    char owner[NAME_BYTES]; /* the process that owns a shared room; "": none at the moment */
};

typedef enum room_event_kind {
    /* Of users. */
    ROOM_JOIN,
    ROOM_LEAVE,
    ROOM_SAY,
    ROOM_TYPING,
    ROOM_FAIL,
    /* Of the fibers of a room. */
    ROOM_HERE,   /* the names of the members have changed */
    ROOM_NEWS,   /* another fiber has stored messages in the history */
    ROOM_STORED, /* the owner has stored a message of a user, now or earlier */
} room_event_kind;

/* The sender of an event. */
typedef struct member {
    weft_fiber writer;         /* receives the packets; 0: the member is in another process */
    char name[NAME_BYTES];     /* "": a silent reader */
    char client[CLIENT_BYTES]; /* "": a silent reader */
} member;

struct room_event {
    room_event_kind kind;
    member who;
    uint64_t since;    /* JOIN: the last message that the member has */
    int64_t id;        /* STORED, SAY */
    bool is_on;        /* TYPING */
    bool is_new;       /* STORED: the message is not a repetition */
    double received_s; /* SAY */
    char text[];       /* SAY: the message; HERE: the names, one per line */
};

/*
 * Send a copy of an event to a room. Wait while the inbox is full. text may be NULL.
 * Returns 0, an error of weft_chan_send, or -ENOMEM.
 */
int room_send(room *r, const room_event *e, const char *text);

/* Like room_send, to the fiber of the room in this process. */
int room_send_here(room *r, const room_event *e, const char *text);

/* Put an event into the inbox of a room. Wait while the inbox is full. The route of local rooms. */
room_route room_put;

/* The time of a new message: milliseconds since 1970. */
int64_t room_clock_ms(void);

/* The function of a room's fiber. arg is the room. */
weft_fn room_run;

#endif
