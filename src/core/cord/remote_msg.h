/*
 * A message from a thread to a cord.
 *
 * Most messages are members of a larger object, for example of a remote call, and are freed with
 * this object. weft__cord_send allocates the other messages. inbox.h declares the functions that
 * send messages.
 */
#ifndef WEFT_CORE_CORD_REMOTE_MSG_H
#define WEFT_CORE_CORD_REMOTE_MSG_H

#include <weft/base.h>

struct weft__cord;

typedef struct weft__remote_msg {
    struct weft__remote_msg *next; /* in an inbox or a list of spare messages; NULL: the last */
    /*
     * Handle the message in the receiving cord. The function takes ownership of the message. If c
     * is NULL, the cord has ended or was never started. The function must then only clean up.
     */
    void (*deliver)(struct weft__cord *c, struct weft__remote_msg *msg);
    weft_fiber fiber;  /* the receiver; its id contains the index of the cord */
    weft_value value;  /* the meaning of the value depends on deliver */
    uint64_t trace_id; /* weft__inbox_push sets this field; 0: the sender is not traced */
} weft__remote_msg;

#endif
