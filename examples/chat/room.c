#include "room.h"

#include "house.h"
#include "packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The state that a failure destroys. */
typedef struct members {
    member list[MEMBERS_MAX];
    size_t count;
    bool has_changed; /* the members have not been told yet */
} members;

int room_send(room *r, const room_event *e, const char *text)
{
    size_t bytes = text != NULL ? strlen(text) + 1 : 1;
    room_event *copy = malloc(sizeof *copy + bytes);
    if (copy == NULL)
        return -ENOMEM;
    *copy = *e;
    memcpy(copy->text, text != NULL ? text : "", bytes);
    int rc = weft_chan_send(r->inbox, (weft_value)copy);
    if (rc < 0)
        free(copy);
    return rc;
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static member *find_member(members *all, weft_fiber writer)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].writer == writer)
            return &all->list[i];
    return NULL;
}

/* Begin a text about a room: {"t":KIND,"room":NAME. */
static void begin(json_writer *w, const char *kind, const room *r)
{
    json_open(w, '{');
    json_name_string(w, "t", kind);
    json_name_string(w, "room", r->name);
}

static void remove_member(members *all, member *m)
{
    *m = all->list[--all->count];
    all->has_changed = true;
}

/* Send a packet to all members except one, and release it. Remove members that have ended. */
static void tell_all(members *all, packet *p, weft_fiber except)
{
    for (size_t i = all->count; p != NULL && i-- > 0;) {
        weft_fiber writer = all->list[i].writer;
        if (writer != except && house_tell(writer, p) == -ESRCH)
            remove_member(all, &all->list[i]);
    }
    packet_release(p);
}

/* Tell all members who is here. A window that connects again can be here twice for a moment. */
static void tell_people(room *r, members *all)
{
    json_writer w = {0};
    begin(&w, "here", r);
    json_name(&w, "people");
    json_open(&w, '[');
    r->people = 0;
    for (size_t i = 0; i < all->count; i++) {
        bool is_listed = all->list[i].name[0] == '\0';
        for (size_t j = 0; j < i && !is_listed; j++)
            is_listed = strcmp(all->list[j].name, all->list[i].name) == 0;
        if (is_listed)
            continue;
        json_string(&w, all->list[i].name);
        r->people++;
    }
    json_close(&w, ']');
    json_close(&w, '}');
    all->has_changed = false;
    tell_all(all, packet_new(&w), 0);
}

/* Tell a new member the messages that it does not have. */
static void tell_history(const room *r, const member *m, uint64_t since)
{
    const history *h = &r->history;
    uint64_t first = history_first(h);
    bool is_complete = since + 1 >= first && since <= h->last;
    json_writer w = {0};
    begin(&w, "joined", r);
    json_name_number(&w, "failures", r->failures);
    json_name(&w, "complete"); /* false: forget what you have, messages between are gone */
    json_bool(&w, is_complete);
    json_name(&w, "messages");
    json_open(&w, '[');
    for (uint64_t seq = is_complete ? since + 1 : first; seq <= h->last; seq++)
        history_write(&w, history_at(h, seq), m->client);
    json_close(&w, ']');
    json_close(&w, '}');
    packet *p = packet_new(&w);
    if (p == NULL)
        return;
    p->room = r;
    p->seq = h->last;
    house_tell(m->writer, p);
    packet_release(p);
}

static void tell_refusal(const room *r, const room_event *e, const char *why)
{
    json_writer w = {0};
    begin(&w, "refused", r);
    json_name_number(&w, "id", e->id);
    json_name_string(&w, "why", why);
    json_close(&w, '}');
    packet *p = packet_new(&w);
    if (p != NULL)
        house_tell(e->who.writer, p);
    packet_release(p);
}

static void on_join(room *r, members *all, const room_event *e)
{
    member *place = find_member(all, e->who.writer);
    if (place == NULL && all->count == MEMBERS_MAX) {
        tell_refusal(r, e, "the room is full");
        return;
    }
    if (place == NULL)
        place = &all->list[all->count++];
    *place = e->who;
    all->has_changed = true;
    tell_history(r, place, e->since);
}

static void on_leave(members *all, const room_event *e)
{
    member *m = find_member(all, e->who.writer);
    if (m != NULL)
        remove_member(all, m);
}

/* Return a packet with a message, for one window or, if reader is "", for all others. */
static packet *message_packet(const room *r, const message *m, const char *reader,
                              double received_s)
{
    json_writer w = {0};
    begin(&w, "said", r);
    json_name(&w, "message");
    history_write(&w, m, reader);
    json_close(&w, '}');
    packet *p = packet_new(&w);
    if (p != NULL) {
        p->room = r;
        p->seq = m->seq;
        p->received_s = received_s;
    }
    return p;
}

/* Confirm a message to its sender. The sender may be in another room meanwhile. */
static void tell_sender(const room *r, const room_event *e, const message *m)
{
    packet *p = NULL;
    if (m != NULL) {
        p = message_packet(r, m, e->who.client, e->received_s);
    } else { /* a repetition of an old message */
        json_writer w = {0};
        begin(&w, "known", r);
        json_name_number(&w, "id", e->id);
        json_close(&w, '}');
        p = packet_new(&w);
    }
    if (p != NULL)
        house_tell(e->who.writer, p);
    packet_release(p);
}

/* Store a message, and send it to all members. */
static void on_say(room *r, members *all, room_event *e)
{
    message m = {.at_ms = now_ms(), .id = e->id, .text = e->text};
    memcpy(m.from, e->who.name, sizeof m.from);
    memcpy(m.client, e->who.client, sizeof m.client);
    const message *stored = NULL;
    int rc = history_add(&r->history, &m, &stored);
    if (rc == -ENOMEM) {
        tell_refusal(r, e, "the server has no memory");
        return;
    }
    tell_sender(r, e, stored);
    if (rc == 0) {
        tell_all(all, message_packet(r, stored, "", e->received_s), e->who.writer);
        weft_cond_broadcast(&r->has_message);
    }
}

static void on_typing(const room *r, members *all, const room_event *e)
{
    json_writer w = {0};
    begin(&w, "typing", r);
    json_name_string(&w, "from", e->who.name);
    json_name_bool(&w, "on", e->is_on);
    json_close(&w, '}');
    tell_all(all, packet_new(&w), e->who.writer);
}

static int handle_event(room *r, members *all, room_event *e)
{
    switch (e->kind) {
    case ROOM_JOIN:
        on_join(r, all, e);
        break;
    case ROOM_LEAVE:
        on_leave(all, e);
        break;
    case ROOM_SAY:
        on_say(r, all, e);
        break;
    case ROOM_TYPING:
        on_typing(r, all, e);
        break;
    case ROOM_FAIL:
        return weft_fail(-EIO, "%s pressed the button", e->who.name);
    }
    return 0;
}

weft_value room_run(void *arg)
{
    room *r = arg;
    members *all = calloc(1, sizeof *all);
    if (all == NULL)
        return weft_fail(-ENOMEM, "no memory for the members of %s", r->name);
    WEFT_DEFER(free, all);
    r->fiber = weft_self();
    for (;;) {
        /* Joins and leaves often come together: tell the members once. */
        if (all->has_changed && weft_chan_is_empty(r->inbox))
            tell_people(r, all);
        weft_value next = weft_chan_recv(r->inbox);
        if (weft_is_error(next))
            return next; /* cancelled */
        room_event *e = (room_event *)next;
        int rc = handle_event(r, all, e);
        free(e);
        if (rc < 0)
            return rc;
    }
}
