/*
 * A TCP echo server on all cores, with one cord per core. Each cord has its own listener on a
 * shared port, and the kernel distributes the connections. Main is the client.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>

static struct sockaddr_in at = {.sin_family = AF_INET};
static char address[32];

static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    WEFT_DEFER(weft_close, fd);
    char data[1024];
    ssize_t n;
    while ((n = weft_read(fd, data, sizeof data)) > 0 && n == weft_write_all(fd, data, (size_t)n))
        ;
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
    if (weft_go_with(echo, (void *)(intptr_t)fd, &options) < 0)
        weft_close(fd);
    return 0;
}

/* Runs in each cord. An error in one cord stops all cords. */
static weft_value serve(void *arg)
{
    int listener = weft_listen("tcp", address);
    if (listener < 0)
        return weft_fail(listener, "serve: cannot listen on %s", address);
    WEFT_DEFER(weft_close, listener);
    weft_tell(*(weft_fiber *)arg, 1); /* clients can connect now */
    return weft_accept_loop(listener, on_conn, NULL);
}

static weft_value serve_on_all_cores(void *arg)
{
    return weft_serve_cords(0, serve, arg);
}

/* Reserve a free port. A real server has a fixed one. */
static int choose_port(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    socklen_t bytes = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) < 0 ||
        bind(fd, (struct sockaddr *)&at, bytes) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) < 0)
        return -1;
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    return 0;
}

int main(void)
{
    weft_fiber self = weft_self();
    if (choose_port() < 0)
        return 1;
    weft_spin(serve_on_all_cores, &self);
    if (weft_receive() < 0)
        return 1; /* weft reports the error on stderr */

    int echoes = 0;
    for (int i = 0; i < 100; i++) {
        weft_stream s;
        char line[32];
        int number = -1;
        if (weft_stream_open(&s, weft_dial("tcp", address)) < 0)
            return 1;
        weft_stream_printf(&s, "call %d\n", i);
        if (weft_stream_gets(&s, line, sizeof line) > 0)
            sscanf(line, "call %d", &number);
        echoes += number == i;
        weft_stream_close(&s);
    }
    printf("%d requests, %d replies\n", 100, echoes);
} /* the server ends with main, in all cords */
