/*
 * Tutorial, step 9: a chat server. The first line of a user is the user's name. With an address,
 * for example 127.0.0.1:7000, it serves until Ctrl-C. Without an address, main plays two users.
 */
#include <weft.h>

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define USERS_MAX 64
#define LINES_MAX 100 /* unsent lines of a user */

typedef struct user {
    char name[20];
    weft_stream connection;
} user;

/* The writers of all users. 0 is a free place. */
static weft_fiber writers[USERS_MAX];

/* Send a line to all users except one. Each writer frees its copy of the line. */
static void broadcast(weft_fiber sender, const char *name, const char *text)
{
    for (int i = 0; i < USERS_MAX; i++) {
        if (writers[i] == 0 || writers[i] == sender)
            continue;
        char *line = malloc(128);
        if (line == NULL)
            continue;
        snprintf(line, 128, "%s: %s\n", name, text);
        if (weft_try_tell(writers[i], (weft_value)line) < 0)
            free(line); /* the user is too slow: drop the line */
    }
}

static int find_place(weft_fiber fiber)
{
    for (int i = 0; i < USERS_MAX; i++)
        if (writers[i] == fiber)
            return i;
    return -EBUSY;
}

/* Write the messages of this fiber's mailbox to the user. */
static weft_value write_lines(void *arg)
{
    user *u = arg;
    int place = find_place(0), rc = place;
    if (place < 0 || weft_mailbox_set_bound(LINES_MAX) < 0)
        return -EBUSY;
    writers[place] = weft_self();
    weft_stream_printf(&u->connection, "welcome, %s\n", u->name);
    weft_value line = 0;
    while ((rc = weft_stream_flush(&u->connection)) == 0 && !weft_is_error(line = weft_receive())) {
        weft_stream_puts(&u->connection, (char *)line);
        free((char *)line);
    }
    writers[place] = 0; /* no further messages from here on */
    while (!weft_is_error(line = weft_try_receive()))
        free((char *)line);
    return rc;
}

/* Read the lines of a user, and send them to all other users. */
static weft_value handle_user(void *arg)
{
    user u = {{0}, {{0}}};
    char *line;
    int rc;
    weft_stream_open(&u.connection, (int)(intptr_t)arg);
    if (weft_stream_line(&u.connection, &line, NULL) > 0) {
        snprintf(u.name, sizeof u.name, "%s", line);
        WEFT_GROUP(g, rc) {
            weft_fiber writer = weft_group_spin(&g, write_lines, &u);
            broadcast(writer, u.name, "(joins)");
            while (weft_stream_line(&u.connection, &line, NULL) > 0)
                broadcast(writer, u.name, line);
            broadcast(writer, u.name, "(leaves)");
            weft_group_cancel(&g);
        } /* the writer has ended: u is no longer in use */
    }
    weft_stream_close(&u.connection);
    return 0;
}

/* Close a connection if its fiber ends before it runs. */
static void drop_conn(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static int on_conn(int fd, void *ctx)
{
    (void)ctx;
    weft_spin_options options = {.name = "user", .drop = drop_conn};
    if (weft_go_with(handle_user, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd);
    return 0;
}

static weft_value serve(void *arg)
{
    return weft_accept_loop((int)(intptr_t)arg, on_conn, NULL);
}

/* Connect to the port of the listener. */
static int dial_listener(int listener)
{
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    char address[32];
    if (getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return -1;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    return weft_dial("tcp", address);
}

/* Print the next line that a user receives. */
static void print_line(const char *name, weft_stream *s)
{
    char *line;
    if (weft_stream_line(s, &line, NULL) > 0)
        printf("%s reads \"%s\"\n", name, line);
}

static int play_users(int listener)
{
    weft_stream ann, ben;
    if (weft_stream_open(&ann, dial_listener(listener)) < 0)
        return 1;
    weft_stream_puts(&ann, "ann\n"); /* sent when ann reads */
    print_line("ann", &ann);
    if (weft_stream_open(&ben, dial_listener(listener)) < 0)
        return 1;
    weft_stream_puts(&ben, "ben\n");
    print_line("ben", &ben);
    print_line("ann", &ann);
    weft_stream_puts(&ann, "hello, ben\n");
    weft_stream_flush(&ann);
    print_line("ben", &ben);
    weft_stream_close(&ben);
    print_line("ann", &ann);
    return weft_stream_close(&ann) < 0;
}

int main(int argc, char **argv)
{
    int listener = weft_listen("tcp", argc > 1 ? argv[1] : "127.0.0.1:0"); /* 0: any free port */
    if (listener < 0) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    weft_fiber server = weft_spin(serve, (void *)(intptr_t)listener);
    return argc > 1 ? weft_await(server) < 0 : play_users(listener);
}
