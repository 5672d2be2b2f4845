#include "user.h"

#include "cluster.h"
#include "command.h"
#include "house.h"
#include "pulse.h"
#include "rate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_S 10.0 /* from the connection to the first command */

static const weft_ws_options ws_options = {
    .frame_bytes_max = COMMAND_BYTES_MAX,
    .message_bytes_max = COMMAND_BYTES_MAX,
    .has_no_context_takeover = true, /* a user that is silent holds no memory for compression */
    .send_s = 10.0,
    .close_s = 2.0,
};

static const char *close_reason(int code)
{
    switch (code) {
    case CLOSE_BAD_COMMAND:
        return "bad command";
    case CLOSE_TOO_SLOW:
        return "too slow";
    case CLOSE_REPLACED:
        return "connected again";
    case CLOSE_NAME_TAKEN:
        return "name taken";
    default:
        return "too many users";
    }
}

/* Send an event in the name of a user. Wait while the inbox of the room is full. */
static int send_event(const user *u, room *r, room_event e, const char *text)
{
    e.who = u->self;
    return room_send(r, &e, text);
}

/* The writer. */

static void drain_mailbox(void *arg)
{
    (void)arg;
    weft_value next;
    while (!weft_is_error(next = weft_try_receive()))
        packet_release((packet *)next);
}

/* Note what a packet changes for the user, before it is sent. */
static int note_packet(user *u, const packet *p)
{
    if (p->room == NULL || p->room != u->room)
        return 0;
    if (p->is_failure) /* the room has forgotten the user */
        return send_event(u, u->room, (room_event){.kind = ROOM_JOIN, .since = u->seq}, NULL);
    if (p->seq > u->seq) /* a repeated message is confirmed with its old number */
        u->seq = p->seq;
    return 0;
}

/* Send the packets in the mailbox of this fiber. */
static weft_value write_packets(void *arg)
{
    user *u = arg;
    WEFT_DEFER(drain_mailbox, NULL);
    int rc = weft_mailbox_set_bound(MAILBOX_MAX);
    while (rc == 0) {
        weft_value next = weft_receive();
        if (weft_is_error(next))
            return next;
        packet *p = (packet *)next;
        rc = note_packet(u, p);
        if (rc == 0)
            rc = weft_ws_send(u->ws, WEFT_WS_TEXT, p->text, p->bytes);
        if (rc == 0 && p->received_s > 0)
            pulse_delivered(weft_now() - p->received_s);
        packet_release(p);
    }
    return rc; /* the group cancels the reader */
}

/* The reader. */

static int reply(const user *u, const char *kind, const char *room_name, int64_t id,
                 const char *why)
{
    json_writer w = {0};
    json_open(&w, '{');
    json_name_string(&w, "t", kind);
    if (room_name != NULL)
        json_name_string(&w, "room", room_name);
    json_name_number(&w, "id", id);
    if (why != NULL)
        json_name_string(&w, "why", why);
    json_close(&w, '}');
    int rc = w.has_failed ? -ENOMEM : weft_ws_send(u->ws, WEFT_WS_TEXT, w.text, w.bytes);
    free(w.text);
    return rc;
}

static int on_join(user *u, const command *c)
{
    room *r = house_room(c->room, true);
    if (r == NULL)
        return reply(u, "refused", c->room, 0, "there are too many rooms");
    if (u->room != NULL && u->room != r) {
        int rc = send_event(u, u->room, (room_event){.kind = ROOM_LEAVE}, NULL);
        if (rc < 0)
            return rc;
    }
    u->room = r;
    u->seq = strcmp(c->epoch, house_epoch()) == 0 ? (uint64_t)c->since : 0;
    return send_event(u, r, (room_event){.kind = ROOM_JOIN, .since = u->seq}, NULL);
}

static int handle_command(user *u, const command *c)
{
    room *r = house_room(c->room, false);
    switch (c->kind) {
    case COMMAND_HELLO:
        return -EINVAL; /* only once */
    case COMMAND_JOIN:
        return on_join(u, c);
    case COMMAND_PING:
        return reply(u, "pong", NULL, c->id, NULL);
    default:
        break;
    }
    if (r == NULL)
        return reply(u, "refused", c->room, c->id, "there is no such room");
    if (c->kind == COMMAND_SAY)
        return send_event(
            u, r, (room_event){.kind = ROOM_SAY, .id = c->id, .received_s = weft_now()}, c->text);
    if (c->kind == COMMAND_TYPING)
        return send_event(u, r, (room_event){.kind = ROOM_TYPING, .is_on = c->is_on}, NULL);
    return send_event(u, r, (room_event){.kind = ROOM_FAIL}, NULL);
}

/* Read a command. Returns 1, 0 after the end of the connection, or an error. */
static int read_command(user *u, command *c)
{
    weft_ws_message m;
    int rc = weft_ws_recv(u->ws, &m);
    if (rc <= 0)
        return rc;
    if (m.kind != WEFT_WS_TEXT || command_read(c, m.data, m.bytes) < 0) {
        u->close_code = CLOSE_BAD_COMMAND;
        return -EINVAL;
    }
    return 1;
}

/* Handle commands until the connection ends. A user that sends too fast waits here. */
static int read_commands(user *u, command *c)
{
    rate limit = {.per_s = COMMANDS_PER_S,
                  .burst = COMMANDS_BURST,
                  .tokens = COMMANDS_BURST,
                  .at_s = weft_now()};
    int rc = 0;
    while (rc >= 0 && u->close_code == 0 && (rc = read_command(u, c)) > 0) {
        double wait_s = rate_take(&limit, weft_now());
        rc = wait_s > 0 ? weft_sleep(wait_s) : 0;
        if (rc == 0)
            rc = handle_command(u, c);
        if (rc == -EINVAL && u->close_code == 0)
            u->close_code = CLOSE_BAD_COMMAND;
    }
    return rc;
}

static int send_welcome(const user *u)
{
    json_writer w = {0};
    json_open(&w, '{');
    json_name_string(&w, "t", "welcome");
    json_name_string(&w, "epoch", house_epoch());
    json_name_number(&w, "textMax", TEXT_BYTES_MAX);
    json_name_string(&w, "backend", weft_backend_name());
    if (cluster_is_open())
        json_name_string(&w, "process", cluster_process());
    house_write_rooms(&w);
    json_close(&w, '}');
    int rc = w.has_failed ? -ENOMEM : weft_ws_send(u->ws, WEFT_WS_TEXT, w.text, w.bytes);
    free(w.text);
    return rc;
}

/* The first command tells who connects. */
static int read_hello(user *u, command *c)
{
    int rc = -ETIMEDOUT;
    WEFT_MOVE_ON_AFTER(HELLO_S) {
        rc = read_command(u, c);
    }
    if (rc <= 0)
        return rc;
    if (c->kind != COMMAND_HELLO) {
        u->close_code = CLOSE_BAD_COMMAND;
        return 0;
    }
    memcpy(u->self.name, c->name, sizeof c->name);
    memcpy(u->self.client, c->client, sizeof c->client);
    u->close_code = house_enter(u);
    return u->close_code == 0;
}

/* A user from the welcome to the end. */
static void run_user(user *u, command *c)
{
    int rc;
    WEFT_GROUP(fibers, rc) {
        u->self.writer = weft_group_spin(&fibers, write_packets, u);
        read_commands(u, c);
        house_leave(u);
        if (u->room != NULL)
            send_event(u, u->room, (room_event){.kind = ROOM_LEAVE}, NULL);
        if (u->close_code != 0)
            weft_ws_close(u->ws, u->close_code, close_reason(u->close_code));
        weft_group_cancel(&fibers);
    }
}

int user_serve(weft_http_request *request, void *ctx)
{
    (void)ctx;
    user u = {.reader = weft_self()};
    int rc = weft_ws_accept(request, &ws_options, &u.ws);
    if (rc < 0)
        return rc;
    command *c = weft_http_alloc(request, sizeof *c);
    if (c != NULL && read_hello(&u, c) > 0) {
        if (send_welcome(&u) == 0)
            run_user(&u, c);
        house_leave(&u);
    } else if (u.close_code != 0) {
        weft_ws_close(u.ws, u.close_code, close_reason(u.close_code));
    }
    weft_ws_free(u.ws);
    return 0;
}
