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
    uint64_t told;    /* the last message that the members have been told */
} members;

static int send_copy(room *r, const room_event *e, const char *text, room_route *route)
{
    size_t bytes = text != NULL ? strlen(text) + 1 : 1;
    room_event *copy = malloc(sizeof *copy + bytes);
    if (copy == NULL)
        return -ENOMEM;
    *copy = *e;
    memcpy(copy->text, text != NULL ? text : "", bytes);
    int rc = route(r, copy);
    if (rc < 0)
        free(copy);
    return rc;
}

int room_send(room *r, const room_event *e, const char *text)
{
    return send_copy(r, e, text, r->route);
}

int room_send_here(room *r, const room_event *e, const char *text)
{
    return send_copy(r, e, text, room_put);
}

int room_put(room *r, room_event *e)
{
    return weft_chan_send(r->inbox, (weft_value)e);
}

int64_t room_clock_ms(void)
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

/* Send a packet to a member. Remove the member if it has ended. */
static void tell_member(members *all, member *m, packet *p)
{
    if (p != NULL && house_tell(m->writer, p) == -ESRCH)
        remove_member(all, m);
}

/* Send a packet to all members except one name, and release it. */
static void tell_all(members *all, packet *p, const char *except)
{
    for (size_t i = all->count; i-- > 0;)
        if (except == NULL || strcmp(all->list[i].name, except) != 0)
            tell_member(all, &all->list[i], p);
    packet_release(p);
}

/* Collect the names of the members, one per line. A route decides who else must be told. */
static void send_names(room *r, members *all)
{
    char *names = malloc(MEMBERS_MAX * NAME_BYTES + 1);
    if (names == NULL)
        return; /* try again after the next event */
    char *end = names;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].name[0] != '\0')
            end = stpcpy(stpcpy(end, all->list[i].name), "\n");
    *end = '\0';
    all->has_changed = room_send(r, &(room_event){.kind = ROOM_HERE}, names) < 0;
    free(names);
}

/* Return whether a line occurs in the text before it. */
static bool is_repeated(const char *text, const char *line, size_t bytes)
{
    for (const char *other = text; other < line; other = strchr(other, '\n') + 1)
        if (strncmp(other, line, bytes) == 0)
            return true;
    return false;
}

/* Tell all members who is here. A window that connects again can be here twice for a moment. */
static void on_here(room *r, members *all, const room_event *e)
{
    json_writer w = {0};
    begin(&w, "here", r);
    json_name(&w, "people");
    json_open(&w, '[');
    r->people = 0;
    char name[NAME_BYTES];
    for (const char *line = e->text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        size_t bytes = (size_t)(end - line);
        if (bytes >= sizeof name || is_repeated(e->text, line, bytes + 1))
            continue;
        memcpy(name, line, bytes);
        name[bytes] = '\0';
        json_string(&w, name);
        r->people++;
    }
    json_close(&w, ']');
    json_close(&w, '}');
    tell_all(all, packet_new(&w), NULL);
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

static void on_leave(members *all, const room_event *e)
{
    member *m = find_member(all, e->who.writer);
    if (m != NULL)
        remove_member(all, m);
}

/* Return a packet with a message, for one window or, if reader is "", for all others. */
static packet *message_packet(const room *r, const message *m, const char *reader)
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
        p->received_s = m->received_s;
    }
    return p;
}

/* Send a message to all members. The window that has sent it recognises its id. */
static void tell_message(const room *r, members *all, const message *m)
{
    packet *own = message_packet(r, m, m->client), *other = message_packet(r, m, "");
    for (size_t i = all->count; i-- > 0;) {
        member *to = &all->list[i];
        tell_member(all, to, strcmp(to->client, m->client) == 0 ? own : other);
    }
    packet_release(own);
    packet_release(other);
}

/* Send the messages that the members have not been told yet. */
static void tell_news(room *r, members *all)
{
    if (all->told + 1 < history_first(&r->history)) { /* messages are missing: begin again */
        for (size_t i = 0; i < all->count; i++)
            tell_history(r, &all->list[i], all->told);
        all->told = r->history.last;
    }
    while (all->told < r->history.last)
        tell_message(r, all, history_at(&r->history, ++all->told));
}

static void on_join(room *r, members *all, const room_event *e)
{
    tell_news(r, all); /* the new member gets all messages at once, below */
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

/* Confirm a message that tell_news has not confirmed. stored is NULL if the message is too old. */
static void tell_sender(const room *r, const room_event *e, const message *stored)
{
    packet *p = NULL;
    if (stored != NULL) {
        p = message_packet(r, stored, e->who.client);
    } else {
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

/* A message is in the history. Its sender may be in another room meanwhile. */
static void on_stored(room *r, members *all, const room_event *e)
{
    const message *stored = NULL;
    tell_news(r, all);
    if (e->is_new && find_member(all, e->who.writer) != NULL)
        return;
    history_has(&r->history, e->who.client, e->id, &stored);
    tell_sender(r, e, stored);
}

/* Store a message, and send it to all members. */
static void on_say(room *r, members *all, room_event *e)
{
    message m = {
        .at_ms = room_clock_ms(), .id = e->id, .received_s = e->received_s, .text = e->text};
    memcpy(m.from, e->who.name, sizeof m.from);
    memcpy(m.client, e->who.client, sizeof m.client);
    const message *stored = NULL;
    int rc = history_add(&r->history, &m, &stored);
    if (rc == -ENOMEM) {
        tell_refusal(r, e, "the server has no memory");
        return;
    }
    e->is_new = rc == 0;
    on_stored(r, all, e);
    if (e->is_new)
        weft_cond_broadcast(&r->has_message);
}

static void on_typing(const room *r, members *all, const room_event *e)
{
    json_writer w = {0};
    begin(&w, "typing", r);
    json_name_string(&w, "from", e->who.name);
    json_name_bool(&w, "on", e->is_on);
    json_close(&w, '}');
    tell_all(all, packet_new(&w), e->who.name);
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
    case ROOM_HERE:
        on_here(r, all, e);
        break;
    case ROOM_NEWS:
        tell_news(r, all);
        break;
    case ROOM_STORED:
        on_stored(r, all, e);
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
    all->told = r->history.last;
    for (;;) {
        /* Joins and leaves often come together: tell the members once. */
        if (all->has_changed && weft_chan_is_empty(r->inbox))
            send_names(r, all);
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
