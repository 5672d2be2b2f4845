/*
 * Two ways to read a line with a deadline: continue without a line, or return an error. Input that
 * arrived before the deadline is not lost. The next read returns it.
 */
#include <weft.h>

#include <errno.h>
#include <stdio.h>

static char line[80];

/* Return the line, or a default if no line arrives in time. */
static const char *gets_or(weft_stream *from, double seconds, const char *otherwise)
{
    ssize_t n = 0;
    WEFT_MOVE_ON_AFTER(seconds) {
        n = weft_stream_gets(from, line, sizeof line);
    }
    return n > 0 ? line : otherwise;
}

/* Return the length of the line, or -ETIMEDOUT if no line arrives in time. */
static ssize_t gets_within(weft_stream *from, double seconds)
{
    ssize_t n = 0;
    int rc;
    WEFT_CANCEL_AFTER(seconds, rc) {
        n = weft_stream_gets(from, line, sizeof line);
    }
    return rc < 0 ? weft_fail(rc, "gets_within: no line in time") : n;
}

int main(void)
{
    int fd[2];
    weft_stream keyboard;
    if (weft_pipe(fd) < 0 || weft_stream_open(&keyboard, fd[0]) < 0)
        return 1;
    printf("No input: %s", gets_or(&keyboard, 0.1, "no line\n"));
    if (gets_within(&keyboard, 0.1) == -ETIMEDOUT)
        printf("Still no input: %s\n", weft_error()->message);

    weft_write_all(fd[1], "half a ", 7);
    printf("Half a line: %s", gets_or(&keyboard, 0.1, "no line\n"));
    weft_write_all(fd[1], "line\nand another\n", 17);
    printf("The rest: %s", gets_or(&keyboard, 60, "no line\n"));
    if (gets_within(&keyboard, 60) > 0)
        printf("The next: %s", line);
    weft_close(fd[1]);
    return weft_stream_close(&keyboard) < 0;
}
