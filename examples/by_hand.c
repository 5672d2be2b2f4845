/*
 * How a read that blocks one fiber is made, by hand: try the call, and if there is nothing yet wait
 * until there is. And a timeout: after a while an error is raised in the fiber that waits, whatever
 * it waits in.
 */
#include <weft.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static ssize_t read_from(int fd, char *data, size_t bytes)
{
    for (;;) {
        ssize_t n = read(fd, data, bytes);
        if (n >= 0 || errno != EAGAIN)
            return n < 0 ? -errno : n;
        int rc = weft_wait_fd(fd, POLLIN);
        if (rc < 0)
            return rc; /* raised, or cancelled: the wait is over in any case */
    }
}

static weft_value raise_timeout(void *arg)
{
    return weft_raise(*(weft_fiber *)arg, -ETIME, "it took too long");
}

static ssize_t read_within(double seconds, int fd, char *data, size_t bytes)
{
    weft_fiber self = weft_self();
    weft_fiber timer = weft_after(seconds, raise_timeout, &self);
    ssize_t n = read_from(fd, data, bytes);
    weft_terminate(timer, 1.0);
    return n;
}

static weft_value write_later(void *arg)
{
    int rc = weft_sleep(0.1);
    return rc < 0 ? rc : weft_write(*(int *)arg, "at last", 7);
}

int main(void)
{
    int fd[2];
    char data[80];
    if (pipe2(fd, O_CLOEXEC | O_NONBLOCK) < 0)
        return 1;
    ssize_t n = read_within(0.1, fd[0], data, sizeof data);
    if (n == -ETIME)
        printf("nothing: %s\n", weft_error()->message);
    weft_spin(write_later, &fd[1]);
    n = read_within(60.0, fd[0], data, sizeof data);
    if (n > 0)
        printf("something: %.*s\n", (int)n, data);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
