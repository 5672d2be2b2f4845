/*
 * A blocking read built by hand: try the call, and wait for readiness if there is no data. For the
 * timeout, a timer fiber raises an error in the waiting fiber. This works for any blocking call.
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
            return rc; /* a raised error, or a cancellation */
    }
}

static weft_value raise_timeout(void *arg)
{
    return weft_raise(*(weft_fiber *)arg, -ETIME, "read_within: timeout");
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
        printf("first read: %s\n", weft_error()->message);
    weft_spin(write_later, &fd[1]);
    n = read_within(60.0, fd[0], data, sizeof data);
    if (n > 0)
        printf("second read: %.*s\n", (int)n, data);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
