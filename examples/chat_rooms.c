/*
 * A chat server built from actors. A room is a fiber, and its subscribers are a local variable. No
 * other fiber can reach that variable, so it needs no lock. A user has two fibers: one reads
 * commands, and one writes messages. Main plays two users over TCP connections.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOMS 4
#define USERS 8 /* in a room */

typedef struct message {
    enum { SUBSCRIBE, UNSUBSCRIBE, SAY } what;
    weft_fiber who; /* the fiber that writes to the user's connection */
    char name[20], text[80];
} message;

/* Send a copy, which the receiver frees. Send nothing if the receiver is 0 or has ended. */
static void tell(weft_fiber to, const message *m)
{
    message *copy = malloc(sizeof *copy);
    if (copy == NULL)
        return;
    *copy = *m;
    if (weft_tell(to, (weft_value)copy) < 0)
        free(copy);
}

/* Return the next message, or NULL if this fiber is cancelled and its mailbox is empty. */
static message *next_message(void)
{
    weft_value next = weft_receive();
    if (weft_is_error(next))
        next = weft_try_receive(); /* a message may arrive during the cancellation */
    return weft_is_error(next) ? NULL : (message *)next;
}

static void replace(weft_fiber *users, weft_fiber old, weft_fiber new)
{
    for (int i = 0; i < USERS; i++) {
        if (users[i] == old) {
            users[i] = new;
            return;
        }
    }
}

static weft_value chat_room(void *arg)
{
    (void)arg;
    weft_fiber users[USERS] = {0};
    message *m;
    while ((m = next_message()) != NULL) {
        if (m->what == SUBSCRIBE)
            replace(users, 0, m->who);
        for (int i = 0; i < USERS; i++)
            tell(users[i], m);
        if (m->what == UNSUBSCRIBE)
            replace(users, m->who, 0);
        free(m);
    }
    return 0;
}

/* Return the room with a name. Create it if it does not exist. Return 0 if there are too many. */
static weft_fiber find_room(const char *name)
{
    static weft_fiber rooms[ROOMS];
    weft_spin_options options = {.name = name, .parent = weft_main()};
    for (int i = 0; i < ROOMS; i++) {
        if (rooms[i] == 0)
            return rooms[i] = weft_spin_with(chat_room, NULL, &options);
        if (strcmp(weft_name_of(rooms[i]), name) == 0)
            return rooms[i];
    }
    return 0;
}

/* Write the messages of this fiber's mailbox to the user's connection. */
static weft_value write_messages(void *arg)
{
    weft_stream *connection = arg;
    message *m;
    while ((m = next_message()) != NULL) {
        weft_stream_printf(connection, "%s: %s\n", m->name, m->text);
        weft_stream_flush(connection);
        free(m);
    }
    return 0;
}

static weft_value handle_user(void *arg)
{
    weft_stream connection;
    weft_stream_open(&connection, (int)(intptr_t)arg);
    weft_fiber room = 0;
    message m = {.who = weft_spin(write_messages, &connection)};
    char *line, word[20];
    if (weft_stream_line(&connection, &line, NULL) > 0) /* the first line is the name */
        snprintf(m.name, sizeof m.name, "%s", line);
    while (weft_stream_line(&connection, &line, NULL) > 0) {
        snprintf(m.text, sizeof m.text, "(%s)", line);
        if (sscanf(line, "connect %19s", word) == 1) {
            m.what = SUBSCRIBE;
            tell(room = find_room(word), &m);
        } else if (strcmp(line, "disconnect") == 0) {
            m.what = UNSUBSCRIBE;
            tell(room, &m);
            room = 0;
        } else if (sscanf(line, "send %79[^\n]", m.text) == 1) {
            m.what = SAY;
            tell(room, &m);
        }
    }
    m.what = UNSUBSCRIBE;
    tell(room, &m);
    weft_terminate(m.who, 1.0); /* it uses the connection */
    weft_stream_close(&connection);
    return 0;
}

/* Close a connection if its fiber ends before it runs. */
static void drop(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static int on_conn(int fd, void *ctx)
{
    (void)ctx;
    weft_spin_options options = {.drop = drop};
    if (weft_go_with(handle_user, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd);
    return 0;
}

static weft_value serve(void *arg)
{
    return weft_accept_loop(*(int *)arg, on_conn, NULL);
}

static void hear(weft_stream *user, const char *name)
{
    char *line;
    if (weft_stream_line(user, &line, NULL) > 0)
        printf("%s receives \"%s\"\n", name, line);
}

int main(void)
{
    int listener = weft_listen("tcp", "127.0.0.1:0"); /* any free port */
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return 1;
    weft_spin(serve, &listener);

    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    weft_stream ann, ben;
    if (weft_stream_open(&ann, weft_dial("tcp", address)) < 0 ||
        weft_stream_open(&ben, weft_dial("tcp", address)) < 0)
        return 1;
    weft_stream_puts(&ann, "ann\nconnect loom\n"); /* sent when ann reads */
    hear(&ann, "ann");
    weft_stream_puts(&ben, "ben\nconnect loom\nsend hello\n");
    for (int i = 0; i < 2; i++) {
        hear(&ben, "ben");
        hear(&ann, "ann");
    }
    weft_stream_puts(&ben, "disconnect\n");
    hear(&ben, "ben");
    hear(&ann, "ann");
    weft_stream_puts(&ann, "send hello again\n");
    hear(&ann, "ann");
    weft_stream_puts(&ben, "connect attic\n");
    hear(&ben, "ben"); /* not the message that was sent to the other room */
    weft_stream_close(&ann);
    weft_stream_close(&ben);
}
