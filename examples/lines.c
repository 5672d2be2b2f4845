/* A line protocol over a stream. The server replies to each line. The client sends line pairs. */
#include <weft.h>

#include <stdio.h>

static weft_value serve(void *arg)
{
    weft_stream s;
    weft_stream_open(&s, (int)(intptr_t)arg);
    char *line;
    size_t bytes;
    while (weft_stream_line(&s, &line, &bytes) > 0)
        weft_stream_printf(&s, "%zu bytes: %s\n", bytes, line);
    return weft_stream_close(&s); /* the client has closed its side */
}

int main(void)
{
    int fd[2];
    if (weft_socketpair(fd) < 0)
        return 1;
    weft_spin(serve, (void *)(intptr_t)fd[0]);

    weft_stream s;
    weft_stream_open(&s, fd[1]);
    const char *questions[] = {"warp and weft\nloom\n", "shuttle\r\n\n"};
    for (int i = 0; i < 2; i++) {
        weft_stream_puts(&s, questions[i]); /* sent when the client reads */
        char line[80];
        for (int n = 0; n < 2 && weft_stream_gets(&s, line, sizeof line) > 0; n++)
            fputs(line, stdout);
    }
    weft_stream_close(&s);
    return weft_await_children() < 0;
}
