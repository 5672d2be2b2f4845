/*
 * A chat server of actors. A room is a fiber whose subscribers are a local variable: nobody else
 * can touch them, so nothing is locked. A user is two fibers: one reads commands, the other one
 * writes what it is told. Main plays two users, over real connections.
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
    weft_fiber who; /* writes to the user's connection */
    char name[20], text[80];
} message;

/* Send a copy, which the receiver frees; to nobody (0, or one that has ended) it is not sent. */
static void tell(weft_fiber to, const message *m)
{
    message *copy = malloc(sizeof *copy);
    if (copy == NULL)
        return;
    *copy = *m;
    if (weft_tell(to, (weft_value)copy) < 0)
        free(copy);
}

/* The next one; NULL if there will be none: this fiber is cancelled, and has had them all. */
static message *next_message(void)
{
    weft_value next = weft_receive();
    if (weft_is_error(next))
        next = weft_try_receive(); /* told in the moment in which this fiber was cancelled */
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

/* The room of that name, which is made when first asked for; 0: there are too many. */
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

/* Writes what it is told to its user's connection. */
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
    if (weft_stream_line(&connection, &line, NULL) > 0) /* the first one says who it is */
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
    weft_terminate(m.who, 1.0); /* before its connection is closed */
    weft_stream_close(&connection);
    return 0;
}

/* The server may end before the connection's fiber has run. */
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
        printf("%s hears \"%s\"\n", name, line);
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
    weft_stream_puts(&ann, "ann\nconnect loom\n"); /* goes out when she listens */
    hear(&ann, "ann");
    weft_stream_puts(&ben, "ben\nconnect loom\nsend hello\n");
    for (int i = 0; i < 2; i++) {
        hear(&ben, "ben");
        hear(&ann, "ann");
    }
    weft_stream_puts(&ben, "disconnect\n");
    hear(&ben, "ben");
    hear(&ann, "ann");
    weft_stream_puts(&ann, "send is nobody here?\n");
    hear(&ann, "ann");
    weft_stream_puts(&ben, "connect attic\n");
    hear(&ben, "ben"); /* and nothing of what was said meanwhile */
    weft_stream_close(&ann);
    weft_stream_close(&ben);
}
