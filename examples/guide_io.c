/* Reads, streams and loops. docs/guide.md shows the functions of this file. */
#include <weft.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* weft_read: bytes without structure, for example a copy. */
static weft_value copy(void *arg)
{
    const int *fd = arg;
    char data[4096];
    ssize_t n;
    while ((n = weft_read(fd[0], data, sizeof data)) > 0)
        if (weft_write_all(fd[1], data, (size_t)n) < 0)
            return -EPIPE;
    return n;
}

/* A stream: lines and records. The stream owns the descriptor. */
static weft_value reply_to_lines(void *arg)
{
    weft_stream s;
    int rc = weft_stream_open(&s, (int)(intptr_t)arg);
    if (rc < 0)
        return rc;
    char *line;
    while ((rc = weft_stream_line(&s, &line, NULL)) > 0)
        weft_stream_printf(&s, "%zu bytes\n", strlen(line));
    int closed = weft_stream_close(&s);
    return rc < 0 ? rc : closed;
}

/* A record with its length: read_exact takes the whole record or nothing. */
static int read_record(weft_stream *s, char *data, uint32_t room)
{
    uint32_t bytes;
    ssize_t n = weft_stream_read_exact(s, &bytes, sizeof bytes);
    if (n <= 0)
        return (int)n;
    if (bytes > room)
        return -EMSGSIZE;
    return (int)weft_stream_read_exact(s, data, bytes);
}

/* weft_recv_loop: the bytes of a connection, without a buffer of the caller. */
static int count_bytes(const void *data, size_t bytes, void *ctx)
{
    (void)data;
    *(size_t *)ctx += bytes;
    return 0;
}

static int count_input(int fd, size_t *bytes)
{
    return weft_recv_loop(fd, count_bytes, bytes);
}

static int play_copy(void)
{
    int in[2], out[2], rc;
    char data[8] = "";
    if (weft_pipe(in) < 0 || weft_pipe(out) < 0)
        return -EMFILE;
    int ends[] = {in[0], out[1]};
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, copy, ends);
        weft_write_all(in[1], "pipes", 5);
        weft_close(in[1]);
    }
    ssize_t n = weft_read(out[0], data, sizeof data - 1);
    printf("copy: %s\n", n > 0 ? data : "nothing");
    weft_close(in[0]);
    weft_close(out[0]);
    weft_close(out[1]);
    return rc;
}

static int play_lines(void)
{
    int fd[2], rc;
    char *line;
    weft_stream s;
    if (weft_socketpair(fd) < 0)
        return -EMFILE;
    weft_stream_open(&s, fd[0]);
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, reply_to_lines, (void *)(intptr_t)fd[1]);
        weft_stream_puts(&s, "warp and weft\n"); /* sent when the next call waits for input */
        if (weft_stream_line(&s, &line, NULL) > 0)
            printf("lines: %s\n", line);
        weft_stream_close(&s);
    }
    return rc;
}

static int play_record(void)
{
    int fd[2], n;
    char data[16] = "";
    weft_stream s;
    if (weft_socketpair(fd) < 0)
        return -EMFILE;
    weft_write_all(fd[1], &(uint32_t){4}, sizeof(uint32_t));
    weft_write_all(fd[1], "loom", 4);
    weft_stream_open(&s, fd[0]);
    n = read_record(&s, data, sizeof data - 1);
    printf("record: %s\n", data);
    weft_write_all(fd[1], "three more words", 16);
    weft_close(fd[1]);
    size_t bytes = 0;
    int plain = weft_stream_detach(&s); /* without the stream */
    int rc = count_input(plain, &bytes);
    printf("loop: %zu bytes\n", bytes);
    weft_close(plain);
    return n < 0 ? n : rc;
}

int main(void)
{
    return play_copy() < 0 || play_lines() < 0 || play_record() < 0;
}
