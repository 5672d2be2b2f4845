/*
 * The link of a shared room to other processes: the fiber that owns the room, or follows the owner
 * until the owner is gone. Each process tries to take over a room without an owner. The hub gives
 * the room to one of them, when the lease of the earlier owner has ended.
 */
#include "cluster.h"
#include "house.h"
#include "room_owner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SYNC_S 1.0  /* between two calls of a follower */
#define RETRY_S 0.2 /* between two attempts to take over */

static void drain_mailbox(void *arg)
{
    (void)arg;
    weft_value next;
    while (!weft_is_error(next = weft_try_receive()))
        if (next > LINK_PEOPLE_CHANGED)
            weft_hub_free((weft_hub_msg *)next);
}

/* Wait for a message. Returns the message, 0 if none comes before a time, or an error. */
static weft_value wait_for_message(double until_s)
{
    double rest_s = until_s - weft_now();
    weft_clause clauses[] = {weft_clause_message(), weft_clause_time(rest_s > 0 ? rest_s : 0)};
    int which = weft_select(clauses, 2);
    return which < 0 ? which : which == 0 ? clauses[0].value : 0;
}

/*
 * Own the room. Returns -ESTALE if this process does not own the room any more, or another error.
 * After another error, the name becomes free with this fiber.
 */
static int own_room(room *r)
{
    room_owner o = {.room = r};
    double sweep_s = weft_now() + SYNC_S;
    int rc = owner_begin(&o);
    while (rc == 0) {
        weft_value next = wait_for_message(sweep_s);
        if (weft_is_error(next)) {
            rc = (int)next;
        } else if (next == 0) {
            rc = owner_forget_silent(&o);
            sweep_s = weft_now() + SYNC_S;
        } else if (next == LINK_PEOPLE_CHANGED) {
            rc = owner_tell_state(&o);
        } else if (next != LINK_OWNER_GONE) {
            rc = owner_handle(&o, (weft_hub_msg *)next);
        }
    }
    owner_end(&o);
    r->owner[0] = '\0';
    if (rc == -ETIMEDOUT)
        rc = -ESTALE; /* begin again */
    if (rc == -ESTALE)
        weft_hub_withdraw(cluster_hub(), r->shared->owner_name); /* the hub may have done it */
    return rc;
}

/* Take over what the owner tells about the room. */
static int apply_state(room *r, const peer_message *state)
{
    snprintf(r->owner, sizeof r->owner, "%s", state->process);
    if (state->failures > r->failures)
        r->failures = (unsigned)state->failures;
    int rc = shared_room_tell_people(r, state->text);
    return rc == 0 && (uint64_t)state->seq > r->history.last ? shared_room_read_log(r) : rc;
}

/* A message of the owner gets lost if the connection breaks. The log then has what is missing. */
static int apply_entry(room *r, const peer_message *entry)
{
    message m = peer_message_said(entry);
    if (m.seq != r->history.last + 1)
        return m.seq > r->history.last ? shared_room_read_log(r) : 0;
    int rc = shared_room_store(r, &m, (uint64_t)entry->number);
    return rc == 0 ? shared_room_tell_news(r) : rc;
}

static int apply_typing(room *r, const peer_message *p)
{
    room_event e = {.kind = ROOM_TYPING, .is_on = p->is_on};
    snprintf(e.who.name, sizeof e.who.name, "%s", p->from);
    return room_send_here(r, &e, NULL);
}

static int apply_message(room *r, const peer_message *m)
{
    switch (m->kind) {
    case PEER_STATE:
        return apply_state(r, m);
    case PEER_ENTRY:
        return apply_entry(r, m);
    case PEER_TYPING:
        return apply_typing(r, m);
    case PEER_FAILED:
        house_room_failed(r, m->text, false);
        return 0;
    default: /* for the owner, which this process was */
        return 0;
    }
}

static int follower_handle(room *r, weft_hub_msg *msg)
{
    peer_message m;
    int rc = 0;
    if (peer_message_read(&m, msg->data, msg->bytes) == 0) {
        rc = apply_message(r, &m);
        free(m.text);
    }
    weft_hub_free(msg);
    return rc;
}

/* Tell the owner who is here, and learn what this process has missed. */
static int sync_with_owner(room *r)
{
    shared_room *s = r->shared;
    peer_message sync = {.kind = PEER_SYNC, .text = s->people}, state;
    snprintf(sync.address, sizeof sync.address, "%s", s->address);
    if (cluster_call(s->owner_name, &sync, &state) < 0)
        return 0; /* the monitor tells whether the owner is gone */
    int rc = state.kind == PEER_STATE ? apply_state(r, &state) : 0;
    free(state.text);
    return rc;
}

/* Follow the owner until it is gone. Returns 0, or an error. */
static int follow_owner(room *r)
{
    int rc = weft_hub_monitor(cluster_hub(), r->shared->owner_name, LINK_OWNER_GONE);
    bool is_gone = rc == -ESRCH;
    double sync_s = 0;
    if (is_gone)
        rc = 0;
    while (rc == 0 && !is_gone) {
        weft_value next = wait_for_message(sync_s);
        if (weft_is_error(next)) {
            rc = (int)next;
        } else if (next == 0 || next == LINK_PEOPLE_CHANGED) {
            rc = sync_with_owner(r);
            sync_s = weft_now() + SYNC_S;
        } else if (next == LINK_OWNER_GONE) {
            is_gone = true;
        } else {
            rc = follower_handle(r, (weft_hub_msg *)next);
        }
    }
    weft_hub_unmonitor(cluster_hub(), r->shared->owner_name);
    r->owner[0] = '\0';
    return rc == 0 ? shared_room_read_log(r) : rc;
}

weft_value link_run(void *arg)
{
    room *r = arg;
    uint64_t token; /* not used: the log has a fence of its own */
    WEFT_DEFER(drain_mailbox, NULL);
    r->link = weft_self();
    r->owner[0] = '\0';
    int rc = weft_hub_expose(cluster_hub(), r->shared->address, weft_self(), NULL);
    while (rc == 0) {
        rc = weft_hub_expose(cluster_hub(), r->shared->owner_name, weft_self(), &token);
        if (rc == 0)
            rc = own_room(r);
        else if (rc == -EEXIST)
            rc = follow_owner(r);
        if (rc == 0 || rc == -ESTALE)
            rc = weft_sleep(RETRY_S);
        if (rc == -ESTALE) /* of a lease that has ended, once for each lease */
            rc = 0;
    }
    return rc;
}
