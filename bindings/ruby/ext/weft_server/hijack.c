/*
 * Hijacked connections. Ruby has one socket of a pair, and the cord has the other. Two fibers copy
 * the bytes, so that TLS works as well.
 *
 * In HTTP/1, the application writes the whole reply. In HTTP/2, requests share the connection. An
 * application can then only accept an extended CONNECT: the bridge reads the head of its reply, a
 * 101 of HTTP/1.1, and sends the reply of HTTP/2 instead.
 */
#include "bridge.h"

#include <weft/io.h>
#include <weft/net.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define COPY_BYTES ((size_t)16 << 10)
#define HEAD_BYTES_MAX ((size_t)16 << 10)

typedef struct hijack {
    weft_stream *stream;
    int fd;
} hijack;

static int send_all(int fd, const char *data, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = weft_send(fd, data, bytes, MSG_NOSIGNAL);
        if (n < 0)
            return (int)n;
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Copy the bytes of the client to Ruby. At the end, Ruby reads the end too. */
static weft_value copy_from_client(void *arg)
{
    const hijack *h = arg;
    const void *data;
    ssize_t n;
    while ((n = weft_stream_peek(h->stream, 1, &data)) > 0) {
        if (send_all(h->fd, data, (size_t)n) < 0)
            return 0; /* Ruby has closed its socket */
        (void)weft_stream_skip(h->stream, (size_t)n);
    }
    if (n != -ECANCELED)
        (void)weft_shutdown(h->fd, n == 0 ? SHUT_WR : SHUT_RDWR);
    return 0;
}

/* Copy the bytes of Ruby to the client, until Ruby closes its socket. */
static int copy_to_client(const hijack *h)
{
    char *data = malloc(COPY_BYTES);
    if (data == NULL)
        return -ENOMEM;
    ssize_t n;
    int rc = 0;
    while (rc == 0 && (n = weft_recv(h->fd, data, COPY_BYTES, 0)) != 0) {
        if (n > 0 && (size_t)n != COPY_BYTES)
            rc = weft_stream_write(h->stream, data, (size_t)n) == n ? weft_stream_flush(h->stream)
                                                                    : -EPIPE;
        else
            rc = n < 0 ? (int)n : weft_stream_write(h->stream, data, (size_t)n) == n ? 0 : -EPIPE;
    }
    free(data);
    return rc < 0 ? rc : weft_stream_flush(h->stream);
}

static int copy_both_ways(const hijack *h)
{
    weft_fiber reader = weft_spin(copy_from_client, (void *)(uintptr_t)h);
    if (reader == 0)
        return -ENOMEM;
    int rc = copy_to_client(h);
    (void)weft_terminate(reader, 1.0);
    (void)weft_await(reader);
    return rc;
}

/* The head of a 101 reply in HTTP/1.1 */

/* Read a head of HTTP/1.1 that Ruby writes. Return the length with its empty line, or an error. */
static ssize_t receive_head(int fd, char *text)
{
    size_t bytes = 0;
    for (;;) {
        ssize_t n = weft_recv(fd, text + bytes, HEAD_BYTES_MAX - bytes, MSG_PEEK);
        if (n <= 0)
            return n < 0 ? n : -EBADMSG;
        char *end = memmem(text, bytes + (size_t)n, "\r\n\r\n", 4);
        size_t taken = end != NULL ? (size_t)(end + 4 - text) - bytes : (size_t)n;
        n = weft_recv(fd, text + bytes, taken, 0);
        if (n < 0)
            return n;
        bytes += (size_t)n;
        if (end != NULL)
            return (ssize_t)bytes;
        if (bytes == HEAD_BYTES_MAX)
            return -EBADMSG;
    }
}

/* HTTP/2 has no such headers, or weft sends them itself. */
static bool is_handshake_field(const char *name)
{
    return strcasecmp(name, "connection") == 0 || strcasecmp(name, "upgrade") == 0 ||
           strcasecmp(name, "sec-websocket-accept") == 0;
}

/* Add the headers of a head to the reply. Change the text. Return the protocol, or NULL. */
static const char *add_head(weft_http_request *r, char *text)
{
    const char *protocol = NULL;
    char *rest = NULL, *line = strtok_r(text, "\r\n", &rest);
    if (line == NULL || strncmp(line, "HTTP/1.1 101", 12) != 0)
        return NULL;
    while ((line = strtok_r(NULL, "\r\n", &rest)) != NULL) {
        char *value = strchr(line, ':');
        if (value == NULL)
            return NULL;
        *value++ = '\0';
        value += strspn(value, " \t");
        if (strcasecmp(line, "upgrade") == 0)
            protocol = value;
        else if (!is_handshake_field(line) && weft_http_add(r, line, value) < 0)
            return NULL;
    }
    return protocol;
}

static int accept_upgrade(weft_http_request *r, int fd, weft_stream **stream)
{
    char *text = malloc(HEAD_BYTES_MAX + 1);
    ssize_t n = text != NULL ? receive_head(fd, text) : -ENOMEM;
    int rc = n < 0 ? (int)n : 0;
    if (rc == 0) {
        text[n] = '\0';
        const char *protocol = add_head(r, text);
        rc = protocol != NULL ? weft_http_upgrade(r, protocol, stream) : -EIO;
    }
    free(text);
    return rc;
}

int hijack_run(exchange *x, int fd)
{
    hijack h = {.fd = fd};
    x->has_begun = true;
    int rc = x->version == 20 ? accept_upgrade(x->request, fd, &h.stream)
                              : weft_http_hijack(x->request, &h.stream);
    if (rc == 0)
        rc = copy_both_ways(&h);
    weft_close(fd);
    return rc < 0 ? rc : 1;
}
