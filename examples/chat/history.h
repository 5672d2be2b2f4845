/*
 * The history of a room: its last messages, numbered from 1. The history belongs to the house, not
 * to the room's fiber. It therefore survives a failure of the room. In a cluster, each process has
 * a copy of what the durable log of the room contains.
 */
#ifndef CHAT_HISTORY_H
#define CHAT_HISTORY_H

#include "chat.h"
#include "json.h"

typedef struct message {
    uint64_t seq;
    int64_t at_ms; /* since 1970 */
    int64_t id;    /* of the sender */
    char from[NAME_BYTES];
    char client[CLIENT_BYTES]; /* of the sender; never sent to other users */
    double received_s;         /* when this process received the message; 0: another process did */
    char *text;
} message;

/* The last message of a window. */
typedef struct client_mark {
    char client[CLIENT_BYTES];
    int64_t id;
    uint64_t used; /* larger: later */
} client_mark;

typedef struct history {
    message ring[HISTORY_MAX]; /* message n is at (n - 1) % HISTORY_MAX */
    uint64_t last;             /* number of the last message; 0: none */
    uint64_t skipped;          /* messages up to this number were never stored here; 0: none */
    client_mark marks[CLIENTS_MAX];
    uint64_t mark_uses;
} history;

/*
 * Return whether a message is a repetition. *out is then the first message, or NULL if it is too
 * old. The ids of a window increase, so a repetition has an id that is not larger than the last
 * one.
 */
bool history_has(history *h, const char *client, int64_t id, const message **out);

/*
 * Store a message that has a number larger than last. If numbers between are missing, forget all
 * earlier messages. Returns the stored message, or NULL if memory is exhausted.
 */
const message *history_put(history *h, const message *m);

/*
 * Give a message the next number and store it, unless it is a repetition. Returns 0, and stores the
 * message in *out, or:
 * -EEXIST if the message is a repetition; *out is the first message, or NULL if it is too old
 * -ENOMEM if memory is exhausted
 */
int history_add(history *h, const message *m, const message **out);

/* Return the number of the oldest message that the history still has. last + 1: none. */
uint64_t history_first(const history *h);

/* Return a message that the history has. */
const message *history_at(const history *h, uint64_t seq);

/* Write a message. The window that sent the message also gets the message's id. */
void history_write(json_writer *w, const message *m, const char *reader);

#endif
