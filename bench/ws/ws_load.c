/*
 * The client of WebSocket echo servers. A constant number of messages is in flight on each
 * connection.
 *
 * usage: ws_load PORT CONNECTIONS IN_FLIGHT KIND BYTES SECONDS PID
 * KIND is text or binary. BYTES is the length of a message. Print the messages per second, and the
 * CPU time of the server PID per message, in nanoseconds. The measurement starts after a tenth of
 * the time, when each connection has received a reply. The figures exclude the handshakes.
 *
 * The frames are masked once, before the start. The client compares each byte of the replies: a
 * reply must be one frame. The client receives all available replies before it sends the next
 * messages. The client polls without sleeping, for the reason in load.c.
 */
#include "client.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>

#define EVENTS_MAX 512
#define HEADER_BYTES_MAX 8 /* of a frame below 64 KiB: 2 bytes, a length of 16 bits, a mask */
#define BYTES_MAX 65535
#define SHORT_BYTES_MAX 125 /* a longer message has a length of 16 bits */
#define HEAD_BYTES_MAX 4096
#define FIN 0x80
#define MASKED 0x80
#define LENGTH_16 126

typedef struct connection {
    size_t received; /* bytes of the first reply that is not complete */
    size_t back;     /* complete replies since the last send */
    bool has_replied;
    int fd;
} connection;

typedef struct client {
    client_progress progress; /* the first member, see exchange */
    int epoll_fd;
    size_t in_flight;
    connection *connections;
    char *frames; /* in_flight copies of a masked frame */
    char *reply;  /* the frame of the server */
    size_t frame_bytes, reply_bytes;
    char *buffer; /* for all replies that are in flight on a connection */
} client;

/* Write the header of a frame without a mask. Return its length. */
static size_t write_header(char *to, bool is_text, size_t bytes, int masked)
{
    to[0] = (char)(FIN | (is_text ? 1 : 2));
    to[1] = (char)(masked | (int)(bytes <= SHORT_BYTES_MAX ? bytes : LENGTH_16));
    if (bytes <= SHORT_BYTES_MAX)
        return 2;
    to[2] = (char)(bytes >> 8);
    to[3] = (char)bytes;
    return 4;
}

static void make_frames(client *c, bool is_text, size_t bytes)
{
    static const char mask[4] = {0x37, (char)0xfa, 0x21, 0x3d};
    size_t bytes_max = HEADER_BYTES_MAX + bytes;
    c->frames = malloc(c->in_flight * bytes_max);
    c->reply = malloc(bytes_max);
    c->buffer = malloc(c->in_flight * bytes_max);
    bench_require(c->frames != NULL && c->reply != NULL && c->buffer != NULL);
    size_t header = write_header(c->reply, is_text, bytes, 0);
    write_header(c->frames, is_text, bytes, MASKED);
    memcpy(c->frames + header, mask, sizeof mask);
    c->reply_bytes = header + bytes;
    c->frame_bytes = header + sizeof mask + bytes;
    for (size_t i = 0; i < bytes; i++) {
        c->reply[header + i] = (char)('a' + i % 26);
        c->frames[header + sizeof mask + i] = (char)(c->reply[header + i] ^ mask[i % sizeof mask]);
    }
    for (size_t i = 1; i < c->in_flight; i++)
        memcpy(c->frames + i * c->frame_bytes, c->frames, c->frame_bytes);
}

/* Perform the handshake of RFC 6455, 1.3. No extension is offered. */
static void open_websocket(int fd)
{
    static const char request[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                                  "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                                  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    char head[HEAD_BYTES_MAX + 1];
    size_t bytes = 0;
    bench_require(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == sizeof request - 1);
    do {
        ssize_t n = recv(fd, head + bytes, HEAD_BYTES_MAX - bytes, 0);
        bench_require(n > 0);
        bytes += (size_t)n;
        head[bytes] = '\0';
    } while (strstr(head, "\r\n\r\n") == NULL);
    bench_require(strncmp(head, "HTTP/1.1 101 ", 13) == 0);
    bench_require(strstr(head, " s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n") != NULL);
    bench_require(strcmp(strstr(head, "\r\n\r\n"), "\r\n\r\n") == 0);
}

static void open_all(client *c, size_t port)
{
    bench_raise_descriptors();
    c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    c->connections = calloc(c->progress.count, sizeof *c->connections);
    bench_require(c->epoll_fd >= 0 && c->connections != NULL);
    for (size_t i = 0; i < c->progress.count; i++) {
        connection *one = &c->connections[i];
        one->fd = client_connect(port);
        open_websocket(one->fd);
        struct epoll_event event = {EPOLLIN | EPOLLET, {.ptr = one}};
        bench_require(epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, one->fd, &event) == 0);
    }
}

static void send_messages(client *c, connection *to, size_t messages)
{
    size_t bytes = messages * c->frame_bytes;
    ssize_t n = send(to->fd, c->frames, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    bench_require(n == (ssize_t)bytes);
}

/* Compare received bytes with the expected replies. Count the complete replies. */
static void compare(client *c, connection *from, const char *data, size_t bytes)
{
    while (bytes > 0) {
        size_t rest = c->reply_bytes - from->received, part = bytes < rest ? bytes : rest;
        bool is_echo = memcmp(data, c->reply + from->received, part) == 0;
        bench_require(is_echo);
        data += part;
        bytes -= part;
        from->received += part;
        if (from->received == c->reply_bytes) {
            from->received = 0;
            from->back++;
        }
    }
}

/*
 * Return true if a whole message is back. The buffer has room for all messages in flight, so that
 * one call reads all available bytes.
 */
static bool receive(client *c, connection *from)
{
    ssize_t n = recv(from->fd, c->buffer, c->in_flight * c->reply_bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return false;
    bool is_connected = n > 0;
    bench_require(is_connected);
    compare(c, from, c->buffer, (size_t)n);
    return from->back > 0;
}

/* Receive all available replies, then send the next messages. */
static void exchange(client_progress *progress)
{
    client *c = (client *)progress; /* the first member */
    struct epoll_event events[EVENTS_MAX];
    connection *back[EVENTS_MAX];
    int count = epoll_wait(c->epoll_fd, events, EVENTS_MAX, 0), back_count = 0;
    for (int i = 0; i < count; i++)
        if (receive(c, events[i].data.ptr))
            back[back_count++] = events[i].data.ptr;
    for (int i = 0; i < back_count; i++) {
        c->progress.replied += !back[i]->has_replied;
        back[i]->has_replied = true;
        c->progress.trips += back[i]->back;
        send_messages(c, back[i], back[i]->back);
        back[i]->back = 0;
    }
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "usage: %s PORT CONNECTIONS IN_FLIGHT KIND BYTES SECONDS PID\n", argv[0]);
        return 2;
    }
    client c = {.progress.count = strtoul(argv[2], NULL, 10),
                .in_flight = strtoul(argv[3], NULL, 10)};
    size_t bytes = strtoul(argv[5], NULL, 10);
    double seconds = strtod(argv[6], NULL);
    bench_require(c.progress.count > 0 && c.in_flight > 0 && bytes <= BYTES_MAX);
    make_frames(&c, strcmp(argv[4], "text") == 0, bytes);
    open_all(&c, strtoul(argv[1], NULL, 10));
    for (size_t i = 0; i < c.progress.count; i++)
        send_messages(&c, &c.connections[i], c.in_flight);
    client_measure(&c.progress, exchange, seconds, atoi(argv[7]));
    return 0;
}
