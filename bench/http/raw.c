/* Shared code of the raw servers, without their loops. */
#include "raw.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BODY "Hello, world\n"

raw_options raw_options_read(int argc, char **argv)
{
    raw_options options = {0};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--close") == 0)
            options.is_close = true;
        else if (strcmp(argv[i], "--port") == 0 && i + 1 < argc)
            options.port = atoi(argv[++i]);
        else
            raw_require(false, "usage: http_raw_X --port N [--close]");
    }
    raw_require(options.port > 0, "--port is missing, or not a positive number");
    return options;
}

int raw_listen(int port)
{
    static const int one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    raw_require(fd >= 0, "socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    raw_require(bind(fd, (const void *)&address, sizeof address) == 0, "bind");
    raw_require(listen(fd, RAW_BACKLOG) == 0, "listen");
    return fd;
}

raw_replies raw_replies_make(bool is_close)
{
    char date[64], reply[512];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now));
    int n = snprintf(reply, sizeof reply,
                     "HTTP/1.1 200 OK\r\nDate: %s\r\n%sContent-Type: text/plain\r\n"
                     "Content-Length: %zu\r\n\r\n%s",
                     date, is_close ? "Connection: close\r\n" : "", sizeof BODY - 1, BODY);
    raw_replies replies = {malloc(RAW_REPLIES_MAX * (size_t)n), (size_t)n};
    raw_require(replies.data != NULL, "malloc failed");
    for (size_t i = 0; i < RAW_REPLIES_MAX; i++)
        memcpy(replies.data + i * replies.each, reply, replies.each);
    return replies;
}

size_t raw_count_requests(const char *data, size_t bytes, size_t *line_bytes)
{
    const char *end = data + bytes, *feed;
    size_t count = 0, before = *line_bytes;
    while ((feed = memchr(data, '\n', (size_t)(end - data))) != NULL) {
        /* An empty line has one byte before its line feed: the carriage return. */
        count += (size_t)(feed - data) + before == 1;
        before = 0;
        data = feed + 1;
    }
    *line_bytes = before + (size_t)(end - data);
    return count;
}
