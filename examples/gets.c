/*
 * A line is read with a deadline, in both forms: one that just goes on without a line, and one that
 * makes an error of it. What was typed by then is not lost: it is there for the next read.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static char line[80];

/* The line, or what is to be used in its place. */
static const char *gets_or(weft_stream *from, double seconds, const char *otherwise)
{
    ssize_t n = 0;
    WEFT_MOVE_ON_AFTER(seconds) {
        n = weft_stream_gets(from, line, sizeof line);
    }
    return n > 0 ? line : otherwise;
}

/* The line's length, or an error: -ETIMEDOUT if none came in time. */
static ssize_t gets_within(weft_stream *from, double seconds)
{
    ssize_t n = 0;
    int rc;
    WEFT_CANCEL_AFTER(seconds, rc) {
        n = weft_stream_gets(from, line, sizeof line);
    }
    return rc < 0 ? weft_fail(rc, "gets was cancelled") : n;
}

int main(void)
{
    int fd[2];
    weft_stream keyboard;
    if (weft_pipe(fd) < 0 || weft_stream_open(&keyboard, fd[0]) < 0)
        return 1;
    printf("Nobody types: %s", gets_or(&keyboard, 0.1, "no line\n"));
    if (gets_within(&keyboard, 0.1) == -ETIMEDOUT)
        printf("Still nobody: %s\n", weft_error()->message);

    weft_write_all(fd[1], "half a ", 7);
    printf("Half a line: %s", gets_or(&keyboard, 0.1, "no line\n"));
    weft_write_all(fd[1], "line\nand another\n", 17);
    printf("The rest: %s", gets_or(&keyboard, 60, "no line\n"));
    if (gets_within(&keyboard, 60) > 0)
        printf("The next: %s", line);
    weft_close(fd[1]);
    return weft_stream_close(&keyboard) < 0;
}
