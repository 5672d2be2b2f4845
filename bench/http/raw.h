/*
 * Shared code of the raw servers, which parse nothing. An empty line ends a request. The reply is a
 * constant of the same length as the reply of weft. The raw servers show the limit: the cost of the
 * system calls alone.
 *
 * usage: http_raw_X --port N [--close]
 * --close: close each connection after its first reply. The servers do not read request fields.
 */
#ifndef WEFT_BENCH_HTTP_RAW_H
#define WEFT_BENCH_HTTP_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* The largest read of a server, in bytes. A pipeline of 16 requests is shorter. */
#define RAW_BUFFER_BYTES 2048
/* All descriptors are below this number. */
#define RAW_FDS_MAX 20000
/* The largest number of replies per send. A buffer holds fewer requests. */
#define RAW_REPLIES_MAX 64
#define RAW_BACKLOG 4096

typedef struct raw_options {
    int port;
    bool is_close;
} raw_options;

/* RAW_REPLIES_MAX replies, without gaps. */
typedef struct raw_replies {
    char *data;
    size_t each; /* bytes of one reply */
} raw_replies;

static inline void raw_require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "http_raw: %s\n", what);
    exit(1);
}

/* Read the options. Exit with a message if they are invalid. */
raw_options raw_options_read(int argc, char **argv);

/* Return a non-blocking socket that listens on 127.0.0.1. Accepted sockets inherit TCP_NODELAY. */
int raw_listen(int port);

/* Create the replies. With is_close, they have the field Connection: close. */
raw_replies raw_replies_make(bool is_close);

/*
 * Return the number of requests that end in data. *line_bytes belongs to the connection: it is the
 * length of the unfinished line, initially 0.
 */
size_t raw_count_requests(const char *data, size_t bytes, size_t *line_bytes);

#endif
