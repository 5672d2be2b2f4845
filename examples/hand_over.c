/*
 * Accept connections in one thread, and handle them in others. Main reads the first byte of each
 * connection, and hands the connection to the cord that this byte selects.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

#define CORDS 2

static weft_cord cords[CORDS];

/* Close a connection if its fiber ends before it runs. */
static void drop(void *arg)
{
    weft_close((int)(intptr_t)arg);
}

static const weft_spin_options owning = {.drop = drop};

/* Runs in one of the cords. The cord owns the connection and closes it. */
static weft_value greet(void *arg)
{
    int fd = (int)(intptr_t)arg;
    WEFT_DEFER(weft_close, fd);
    char name[32], text[64];
    ssize_t n = weft_read(fd, name, sizeof name - 1);
    if (n <= 0)
        return 0;
    name[n] = '\0';
    int bytes = snprintf(text, sizeof text, "cord %d greets %s",
                         weft_cord_self() == cords[0] ? 0 : 1, name);
    weft_write_all(fd, text, (size_t)bytes);
    return 0;
}

/* Runs in main. Without weft_fd_release, later input would also wake main. */
static weft_value choose_cord(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char which;
    if (weft_read(fd, &which, 1) == 1 && weft_fd_release(fd) == 0 &&
        weft_cord_spin_with(cords[which == '1'], greet, arg, &owning) != 0)
        return 0;
    weft_close(fd);
    return 0;
}

static int on_conn(int fd, void *ctx)
{
    (void)ctx;
    if (weft_go_with(choose_cord, (void *)(intptr_t)fd, &owning) < 0)
        weft_close(fd);
    return 0;
}

static weft_value serve(void *arg)
{
    return weft_accept_loop(*(int *)arg, on_conn, NULL);
}

static void ask(const char *address, const char *cord, const char *name)
{
    char answer[64];
    int fd = weft_dial("tcp", address);
    if (fd < 0)
        return;
    WEFT_DEFER(weft_close, fd);
    weft_write_all(fd, cord, 1);
    weft_write_all(fd, name, 3);
    ssize_t n = weft_read_full(fd, answer, sizeof answer);
    printf("%.*s\n", (int)n, answer);
}

int main(void)
{
    int listener = weft_listen("tcp", "127.0.0.1:0");
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    char address[32];
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return 1;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    for (int i = 0; i < CORDS; i++)
        cords[i] = weft_cord_start(NULL, NULL, NULL);
    weft_spin(serve, &listener);
    static const char *const names[] = {"Ada", "Bob", "Cid", "Dan"};
    for (int i = 0; i < 4; i++)
        ask(address, i % 2 ? "1" : "0", names[i]);
    for (int i = 0; i < CORDS; i++) {
        weft_cord_cancel(cords[i]);
        weft_cord_join(cords[i]);
    }
}
