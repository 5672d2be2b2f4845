#include "shared_room.h"

#include "cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int cluster_share(room *r)
{
    shared_room *s = calloc(1, sizeof *s);
    if (s == NULL || (s->outgoing = weft_chan_new(INBOX_MAX)) == NULL) {
        free(s);
        return -ENOMEM;
    }
    cluster_owner_name(r->name, s->owner_name);
    cluster_address(r->name, s->address);
    r->shared = s;
    r->route = shared_room_route;
    return 0;
}

void cluster_unshare(room *r)
{
    shared_room *s = r->shared;
    weft_value e;
    if (s == NULL)
        return;
    while (!weft_is_error(e = weft_chan_try_recv(s->outgoing)))
        free((room_event *)e);
    weft_chan_free(s->outgoing);
    free(s->people);
    free(s->everybody);
    free(s);
    r->shared = NULL;
}

int cluster_start(room *r, weft_fiber parent)
{
    const weft_spin_options link = {.name = "link", .parent = parent};
    const weft_spin_options courier = {.name = "courier", .parent = parent};
    r->link = weft_spin_with(link_run, r, &link);
    if (r->link == 0)
        return weft_error()->code;
    if (weft_spin_with(courier_run, r, &courier) != 0)
        return 0;
    int rc = weft_error()->code;
    weft_terminate(r->link, 1.0);
    return rc;
}

/* The actor has new members. The link tells the owner. */
static int pass_people(room *r, room_event *e)
{
    char *names = strdup(e->text);
    if (names == NULL)
        return -ENOMEM;
    free(r->shared->people);
    r->shared->people = names;
    free(e);
    weft_try_tell(r->link, LINK_PEOPLE_CHANGED); /* a link that restarts reads the names, too */
    return 0;
}

int shared_room_route(room *r, room_event *e)
{
    weft_chan *outgoing = r->shared->outgoing;
    switch (e->kind) {
    case ROOM_TYPING:
        if (!weft_chan_is_empty(outgoing) || r->shared->delivering != NULL) {
            free(e); /* it would be out of date */
            return 0;
        }
        return weft_chan_send(outgoing, (weft_value)e);
    case ROOM_SAY:
    case ROOM_FAIL:
        return weft_chan_send(outgoing, (weft_value)e);
    case ROOM_HERE:
        return pass_people(r, e);
    default:
        return room_put(r, e);
    }
}

int shared_room_store(room *r, const message *m, uint64_t number)
{
    shared_room *s = r->shared;
    message copy = *m;
    const room_event *own = s->delivering;
    if (number <= s->number)
        return 0;
    if (own != NULL && own->id == m->id && strcmp(own->who.client, m->client) == 0)
        copy.received_s = own->received_s;
    if (m->seq > r->history.last && history_put(&r->history, &copy) == NULL)
        return -ENOMEM;
    s->number = number;
    return 0;
}

int shared_room_read_log(room *r)
{
    uint64_t last = r->history.last, number = r->shared->number;
    peer_message entry;
    int rc;
    while ((rc = cluster_read(r->name, &number, &entry)) > 0) {
        message m = peer_message_said(&entry);
        if (entry.kind == PEER_ENTRY && m.seq > 0)
            rc = shared_room_store(r, &m, number);
        free(entry.text);
        if (rc < 0)
            break;
    }
    if (rc == 0 && number > r->shared->number) /* there are entries of another kind */
        r->shared->number = number;
    int told = r->history.last > last ? shared_room_tell_news(r) : 0;
    return rc < 0 ? rc : told;
}

int shared_room_tell_news(room *r)
{
    weft_cond_broadcast(&r->has_message);
    return room_send_here(r, &(room_event){.kind = ROOM_NEWS}, NULL);
}

int shared_room_tell_people(room *r, const char *names)
{
    shared_room *s = r->shared;
    if (s->everybody != NULL && strcmp(s->everybody, names) == 0)
        return 0;
    char *copy = strdup(names);
    if (copy == NULL)
        return -ENOMEM;
    free(s->everybody);
    s->everybody = copy;
    return room_send_here(r, &(room_event){.kind = ROOM_HERE}, names);
}
