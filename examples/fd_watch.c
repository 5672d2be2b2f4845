/*
 * Many sessions that are silent most of the time. A silent session has a watch of 72 bytes instead
 * of a fiber with a stack. Input, or the end of a time limit, creates a fiber for the session.
 */
#include <weft.h>

#include <stdio.h>

#define SESSIONS 100
#define SILENT_S 0.2

typedef struct session {
    weft_fd_watch watch;
    int fd;
    int peer; /* the other end of the connection */
} session;

static session sessions[SESSIONS];
static int closed;

/* Echo the input, and end the fiber. Close a session that was silent for too long. */
static weft_value on_event(void *arg)
{
    session *s = arg;
    char text[64];
    ssize_t n = weft_fd_watch_result(&s->watch);
    if (n == 0)
        n = weft_read(s->fd, text, sizeof text);
    if (n <= 0) {
        closed++;
        return weft_close(s->fd);
    }
    weft_write_all(s->fd, text, (size_t)n);
    return weft_fd_watch_open(&s->watch, s->fd, SILENT_S, NULL, on_event, s, NULL);
}

static size_t count_fibers(void)
{
    weft_counters counters;
    return weft_stats(&counters) == 0 ? counters.fibers : 0;
}

int main(void)
{
    for (int i = 0; i < SESSIONS; i++) {
        session *s = &sessions[i];
        int fd[2];
        if (weft_socketpair(fd) < 0)
            return 1;
        s->fd = fd[0];
        s->peer = fd[1];
        if (weft_fd_watch_open(&s->watch, s->fd, SILENT_S, NULL, on_event, s, NULL) < 0)
            return 1;
    }
    printf("%d sessions, %zu fibers\n", SESSIONS, count_fibers());

    for (int i = 0; i < 3; i++) {
        char text[64];
        int bytes = snprintf(text, sizeof text, "hello %d", i);
        weft_write_all(sessions[i].peer, text, (size_t)bytes);
        ssize_t n = weft_read(sessions[i].peer, text, sizeof text);
        printf("session %d replies: %.*s\n", i, (int)n, text);
    }
    weft_await_children(); /* the fibers of these sessions are children of main */
    printf("after the replies: %zu fibers\n", count_fibers());

    weft_suspend(); /* until no watch is open */
    printf("%d sessions were closed after a silent time\n", closed);
    return 0;
}
