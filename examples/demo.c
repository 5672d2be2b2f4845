/*
 * What `make run` shows: an echo server, a counter and a client, each written as if it were alone,
 * all in one thread. Press return to stop: the fibers are ended, their connections closed.
 */
#include <weft.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* One connection: send back what comes, until the peer is done. */
static weft_value echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    WEFT_DEFER(weft_close, fd);
    char data[1024];
    for (;;) {
        ssize_t n = weft_read(fd, data, sizeof data);
        if (n <= 0)
            return 0; /* the peer is done, or gone, or we are being stopped */
        if (weft_write_all(fd, data, (size_t)n) < 0)
            return 0;
    }
}

static weft_value serve(void *arg)
{
    int listener = *(int *)arg;
    for (;;) {
        int fd = weft_accept(listener, NULL, NULL);
        if (fd == -ECANCELED)
            return fd;
        if (fd < 0)
            return weft_fail(fd, "cannot accept");
        int rc = weft_go(echo, (void *)(intptr_t)fd);
        if (rc < 0)
            weft_close(fd);
    }
}

static weft_value count(void *arg)
{
    (void)arg;
    for (int n = 1;; n++) {
        int rc = weft_sleep(1.0);
        if (rc < 0)
            return rc; /* stopped: unwind */
        printf("  count: %d\n", n);
        fflush(stdout);
    }
}

static int dial(const struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int rc = weft_connect(fd, (const struct sockaddr *)address, sizeof *address);
    if (rc < 0)
        weft_close(fd);
    return rc < 0 ? rc : fd;
}

static weft_value say_hello(void *arg)
{
    int fd = dial(arg);
    if (fd < 0)
        return weft_fail(fd, "cannot connect");
    WEFT_DEFER(weft_close, fd);
    static const char hello[] = "hello, fiber";
    char reply[sizeof hello] = "";
    weft_write_all(fd, hello, sizeof hello - 1);
    ssize_t n = weft_read_full(fd, reply, sizeof hello - 1);
    if (n < 0)
        return weft_fail((int)n, "no reply");
    printf("  a client of our own said \"%s\" and heard \"%s\"\n", hello, reply);
    return 0;
}

/* A socket that listens on loopback: on the port asked for, or on any if that is taken. */
static int listen_on(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)address, sizeof *address) < 0) {
        address->sin_port = 0;
        if (bind(fd, (struct sockaddr *)address, sizeof *address) < 0)
            return -errno;
    }
    socklen_t bytes = sizeof *address;
    if (listen(fd, SOMAXCONN) < 0 || getsockname(fd, (struct sockaddr *)address, &bytes) < 0)
        return -errno;
    return fd;
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(8080)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = listen_on(&address);
    if (listener < 0) {
        fprintf(stderr, "demo: cannot listen: %s\n", strerror(-listener));
        return 1;
    }

    weft_spin(serve, &listener);
    weft_spin(count, NULL);
    weft_fiber client = weft_spin(say_hello, &address);

    printf("An echo server, a counter and a client run in this one thread.\n"
           "Type in another terminal:  nc 127.0.0.1 %d\n"
           "Press return here to stop.\n",
           ntohs(address.sin_port));
    fflush(stdout);
    if (weft_await(client) < 0)
        return 1;

    char line[64];
    weft_read(0, line, sizeof line); /* this fiber waits, the others go on */
    return 0;                        /* the children are stopped and joined */
}
