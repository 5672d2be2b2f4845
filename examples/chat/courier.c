/*
 * The courier of a shared room: delivers the commands of users to the owner, one after the other.
 *
 * A message is delivered until the owner has stored it, because a later message of the same window
 * would make it look like a repetition. An attempt whose reply is lost may have stored the message:
 * the owner, or its successor, recognises the next attempt by the window and the id.
 */
#include "shared_room.h"

#include <stdlib.h>
#include <string.h>

#define RETRY_S 0.2 /* between two attempts, while the room has no owner */

static peer_message message_to_owner(room_event *e)
{
    peer_message p = {.kind = e->kind == ROOM_SAY      ? PEER_SAY
                              : e->kind == ROOM_TYPING ? PEER_TYPING
                                                       : PEER_FAIL,
                      .id = e->id,
                      .is_on = e->is_on,
                      .text = e->text};
    memcpy(p.from, e->who.name, sizeof p.from);
    memcpy(p.client, e->who.client, sizeof p.client);
    return p;
}

/* The owner has stored a message. Make sure that the history has it, and confirm it to the user. */
static int confirm(room *r, const room_event *e, bool is_new)
{
    const message *stored;
    int rc = 0;
    if (!history_has(&r->history, e->who.client, e->id, &stored))
        rc = shared_room_read_log(r);
    room_event confirmation = {.kind = ROOM_STORED, .who = e->who, .id = e->id, .is_new = is_new};
    return rc == 0 ? room_send_here(r, &confirmation, NULL) : rc;
}

/* Returns 0, or an error after which the message may have been stored. */
static int attempt(room *r, room_event *e)
{
    peer_message said = message_to_owner(e), reply;
    int rc = cluster_call(r->shared->owner_name, &said, &reply);
    if (rc < 0)
        return rc;
    free(reply.text);
    return confirm(r, e, reply.is_new);
}

/* Returns 0, or an error if this fiber is cancelled. */
static int deliver(room *r, room_event *e)
{
    if (e->kind != ROOM_SAY) {
        peer_message command = message_to_owner(e);
        cluster_tell(r->shared->owner_name, &command); /* not worth repeating */
        return 0;
    }
    int rc = 0;
    while (rc == 0 && attempt(r, e) < 0)
        rc = weft_sleep(RETRY_S);
    return rc;
}

weft_value courier_run(void *arg)
{
    room *r = arg;
    for (;;) {
        weft_value next = weft_chan_recv(r->shared->outgoing);
        if (weft_is_error(next))
            return next; /* cancelled */
        room_event *e = (room_event *)next;
        r->shared->delivering = e;
        int rc = deliver(r, e);
        r->shared->delivering = NULL;
        free(e);
        if (rc < 0)
            return rc;
    }
}
