/*
 * An echo server in a few lines. One fiber accepts connections. A fiber for each client replies to
 * each line until the client sends "quit". Main is a client.
 */
#include <weft.h>

#include <netinet/in.h>
#include <stdio.h>
#include <strings.h>

static weft_value handle(void *arg)
{
    weft_stream client;
    weft_stream_open(&client, (int)(intptr_t)arg);
    char *line;
    while (weft_stream_line(&client, &line, NULL) > 0) {
        weft_stream_printf(&client, "you sent: %s\n", line);
        if (strncasecmp(line, "quit", 4) == 0)
            break;
    }
    weft_stream_close(&client); /* flushes the output first */
    return 0;
}

static weft_value serve(void *arg)
{
    int fd;
    while ((fd = weft_accept(*(int *)arg, NULL, NULL)) >= 0)
        if (weft_go(handle, (void *)(intptr_t)fd) < 0)
            weft_close(fd);
    return fd;
}

int main(void)
{
    int listener = weft_listen("tcp", "127.0.0.1:0"); /* any free port */
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&at, &bytes) < 0)
        return 1;
    weft_spin(serve, &listener);

    char address[32], answer[80];
    snprintf(address, sizeof address, "127.0.0.1:%d", ntohs(at.sin_port));
    weft_stream server;
    if (weft_stream_open(&server, weft_dial("tcp", address)) < 0)
        return 1;
    const char *lines[] = {"warp", "weft", "Quit, please"};
    for (int i = 0; i < 3; i++) {
        weft_stream_printf(&server, "%s\n", lines[i]);
        if (weft_stream_gets(&server, answer, sizeof answer) > 0)
            fputs(answer, stdout);
    }
    if (weft_stream_gets(&server, answer, sizeof answer) == 0)
        puts("the server has closed the connection");
    weft_stream_close(&server);
}
