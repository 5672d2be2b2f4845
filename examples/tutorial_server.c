/*
 * Tutorial, step 11: a supervised server that shuts down in order. With an address, for example
 * 127.0.0.1:7000, it serves until SIGTERM or Ctrl-C. Without an address, a fiber plays the clients.
 */
#include <weft.h>

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define IDLE_S 60.0   /* a connection without a request */
#define REQUEST_S 5.0 /* a request in progress at a shutdown */

/* Handle one line. An error ends the server, and the supervisor restarts the server. */
static int handle_request(weft_stream *s, const char *line)
{
    if (strcmp(line, "bug") == 0)
        return weft_fail(-EINVAL, "handle_request: a bug");
    if (strcmp(line, "slow") == 0) {
        weft_stream_puts(s, "please wait\n");
        int rc = weft_stream_flush(s);
        if (rc == 0)
            rc = weft_sleep(0.1);
        if (rc < 0)
            return 0; /* the peer has gone, or the shutdown takes too long */
    }
    weft_stream_printf(s, "done: %s\n", line);
    weft_stream_flush(s);
    return 0;
}

static weft_value handle_conn(void *arg)
{
    weft_stream s;
    weft_stream_open(&s, (int)(intptr_t)arg);
    char *line;
    int rc = 0, n = 0;
    while (rc == 0) {
        WEFT_MOVE_ON_AFTER(IDLE_S) {
            n = weft_stream_line(&s, &line, NULL);
        }
        if (n <= 0)
            break;
        WEFT_SHIELD(REQUEST_S) {
            rc = handle_request(&s, line);
        }
    }
    weft_stream_close(&s);
    return rc;
}

/* Close a connection if its fiber ends before it runs. */
static void drop_conn(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static int on_conn(int fd, void *ctx)
{
    (void)ctx;
    weft_spin_options options = {.name = "connection", .drop = drop_conn};
    if (weft_go_with(handle_conn, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd);
    return 0;
}

static weft_value serve(void *arg)
{
    return weft_accept_loop(*(int *)arg, on_conn, NULL);
}

/* Called in the supervisor before it restarts a child. */
static void report_exit(weft_fiber child, weft_value value, void *arg)
{
    (void)arg;
    if (weft_is_error(value) && value != -ECANCELED)
        printf("%s failed: %s\n", weft_name_of(child), weft_error()->message);
}

/* Send a line, and print the reply. */
static void talk(weft_stream *s, const char *line)
{
    char *reply;
    weft_stream_printf(s, "%s\n", line);
    if (weft_stream_line(s, &reply, NULL) > 0)
        printf("%s -> %s\n", line, reply);
    else
        weft_sleep(0.1); /* the server has closed the connection: pause before the next one */
}

static weft_value play_clients(void *arg)
{
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    char address[32], *reply;
    if (getsockname(*(int *)arg, (struct sockaddr *)&at, &bytes) < 0)
        return weft_fail(-errno, "play_clients: getsockname");
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    static const char *const lines[] = {"hello", "bug", "slow"};
    for (int i = 0; i < 3; i++) {
        weft_stream s;
        int rc = weft_stream_open(&s, weft_dial("tcp", address));
        if (rc < 0)
            return rc;
        talk(&s, lines[i]);
        if (i == 2) {
            kill(getpid(), SIGTERM);
            WEFT_SHIELD(5.0) {
                if (weft_stream_line(&s, &reply, NULL) > 0)
                    printf("after SIGTERM -> %s\n", reply);
            }
        }
        weft_stream_close(&s);
    }
    return 0;
}

int main(int argc, char **argv)
{
    weft_shutdown_on_signals(10.0);
    int listener = weft_listen("tcp", argc > 1 ? argv[1] : "127.0.0.1:0"); /* 0: any free port */
    if (listener < 0) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    weft_child children[] = {
        {.name = "server", .fn = serve, .arg = &listener},
        {.name = "clients", .fn = play_clients, .arg = &listener, .restart = WEFT_NEVER},
    };
    weft_supervise_options options = {.on_exit = report_exit};
    int rc = weft_supervise(children, argc > 1 ? 1 : 2, &options);
    puts(rc == -ECANCELED ? "shut down in order" : "the supervisor has given up");
    return rc != -ECANCELED;
}
