#include "room_owner.h"

#include "cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENCE_S 5.0 /* a process calls every second */
#define CLAIMS_MAX 10 /* attempts; each earlier owner can make one fail */

/* Send a message to all followers. */
static int tell_followers(const room_owner *o, const peer_message *m)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < o->count; i++)
        rc = cluster_tell(o->followers[i].address, m);
    return rc;
}

/* Return the names of all members in all processes, one per line. The caller frees the text. */
static char *all_people(const room_owner *o)
{
    const char *own = o->room->shared->people;
    size_t bytes = own != NULL ? strlen(own) : 0;
    for (size_t i = 0; i < o->count; i++)
        bytes += strlen(o->followers[i].people);
    char *names = calloc(1, bytes + 1), *end = names;
    if (names != NULL && own != NULL)
        end = stpcpy(end, own);
    for (size_t i = 0; names != NULL && i < o->count; i++)
        end = stpcpy(end, o->followers[i].people);
    return names;
}

/* The caller frees the text of the state. */
static int make_state(const room_owner *o, peer_message *state)
{
    *state = (peer_message){.kind = PEER_STATE,
                            .seq = (int64_t)o->room->history.last,
                            .failures = o->room->failures,
                            .text = all_people(o)};
    memcpy(state->process, o->room->owner, sizeof state->process);
    return state->text != NULL ? 0 : -ENOMEM;
}

int owner_tell_state(room_owner *o)
{
    peer_message state;
    int rc = make_state(o, &state);
    if (rc == 0)
        rc = tell_followers(o, &state);
    if (rc == 0)
        rc = shared_room_tell_people(o->room, state.text);
    free(state.text);
    return rc;
}

/* Append the entry of the owner after all others. An earlier owner may append at the same time. */
static int claim_log(room *r)
{
    peer_message claim = {.kind = PEER_OWNER};
    memcpy(claim.process, r->owner, sizeof claim.process);
    int rc = -ESTALE;
    for (int i = 0; i < CLAIMS_MAX && rc == -ESTALE; i++) {
        rc = shared_room_read_log(r);
        if (rc < 0) /* also if the lease has ended meanwhile */
            return rc;
        rc = cluster_append(r->name, &claim, &r->shared->number);
    }
    return rc;
}

int owner_begin(room_owner *o)
{
    snprintf(o->room->owner, sizeof o->room->owner, "%s", cluster_process());
    int rc = claim_log(o->room);
    return rc == 0 ? owner_tell_state(o) : rc;
}

static void remove_follower(room_owner *o, follower *f)
{
    free(f->people);
    *f = o->followers[--o->count];
}

int owner_forget_silent(room_owner *o)
{
    size_t before = o->count;
    for (size_t i = o->count; i-- > 0;)
        if (weft_now() - o->followers[i].heard_s > SILENCE_S)
            remove_follower(o, &o->followers[i]);
    return o->count < before ? owner_tell_state(o) : 0;
}

void owner_end(room_owner *o)
{
    while (o->count > 0)
        remove_follower(o, &o->followers[0]);
}

/* Return the follower with an address, or a new one. NULL: there are too many. */
static follower *find_follower(room_owner *o, const char *address)
{
    for (size_t i = 0; i < o->count; i++)
        if (strcmp(o->followers[i].address, address) == 0)
            return &o->followers[i];
    if (o->count == FOLLOWERS_MAX)
        return NULL;
    follower *f = &o->followers[o->count];
    *f = (follower){.people = strdup("")};
    snprintf(f->address, sizeof f->address, "%s", address);
    o->count += f->people != NULL;
    return f->people != NULL ? f : NULL;
}

/* A process tells that it follows, and who is there. */
static int on_sync(room_owner *o, weft_hub_msg *msg, peer_message *m)
{
    follower *f = find_follower(o, m->address);
    if (f == NULL)
        return 0; /* no reply: the process tries again */
    f->heard_s = weft_now();
    int rc = 0;
    if (strcmp(f->people, m->text) != 0) {
        free(f->people);
        f->people = m->text;
        m->text = NULL;
        rc = owner_tell_state(o);
    }
    peer_message state = {0};
    if (rc == 0 && msg->is_call && (rc = make_state(o, &state)) == 0)
        rc = cluster_reply(msg, &state);
    free(state.text);
    return rc;
}

/* Append a message to the log, store it in the history, and tell all processes. */
static int store(room_owner *o, const peer_message *p)
{
    room *r = o->room;
    message m = peer_message_said(p);
    m.seq = r->history.last + 1;
    m.at_ms = room_clock_ms();
    peer_message entry = peer_message_of(&m);
    uint64_t number = r->shared->number;
    int rc = cluster_append(r->name, &entry, &number);
    if (rc == 0)
        rc = shared_room_store(r, &m, number);
    if (rc == 0)
        rc = shared_room_tell_news(r);
    entry.number = (int64_t)number;
    return rc == 0 ? tell_followers(o, &entry) : rc;
}

static int on_say(room_owner *o, weft_hub_msg *msg, const peer_message *p)
{
    const message *stored;
    int rc = 0;
    peer_message reply = {.kind = PEER_STORED};
    reply.is_new = !history_has(&o->room->history, p->client, p->id, &stored);
    if (reply.is_new)
        rc = store(o, p);
    return rc == 0 && msg->is_call ? cluster_reply(msg, &reply) : rc;
}

static int on_typing(room_owner *o, const peer_message *p)
{
    room_event e = {.kind = ROOM_TYPING, .is_on = p->is_on};
    memcpy(e.who.name, p->from, sizeof e.who.name);
    int rc = tell_followers(o, p);
    return rc == 0 ? room_send_here(o->room, &e, NULL) : rc;
}

static int on_fail(room_owner *o, const peer_message *p)
{
    char why[NAME_BYTES + 32];
    snprintf(why, sizeof why, "%s pressed the button", p->from);
    const peer_message failed = {.kind = PEER_FAILED, .text = why};
    int rc = tell_followers(o, &failed);
    return rc == 0 ? weft_fail(-EIO, "%s", why) : rc;
}

int owner_handle(room_owner *o, weft_hub_msg *msg)
{
    peer_message m;
    int rc = 0;
    if (peer_message_read(&m, msg->data, msg->bytes) < 0) {
        weft_hub_free(msg);
        return 0;
    }
    switch (m.kind) {
    case PEER_SYNC:
        rc = on_sync(o, msg, &m);
        break;
    case PEER_SAY:
        rc = on_say(o, msg, &m);
        break;
    case PEER_TYPING:
        rc = on_typing(o, &m);
        break;
    case PEER_FAIL:
        rc = on_fail(o, &m);
        break;
    default:
        break;
    }
    free(m.text);
    weft_hub_free(msg); /* a call without a reply fails, and is repeated */
    return rc;
}
