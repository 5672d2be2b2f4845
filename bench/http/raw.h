/*
 * What the raw servers have in common: they parse nothing. A request is whatever ends in an empty
 * line, and is answered with a constant, as long as what weft replies. That is the yardstick: what
 * a server costs of which only the system calls are left.
 *
 * usage: http_raw_X --port N [--close]
 * --close: every connection ends after its first reply; they cannot read who asks for that.
 */
#ifndef WEFT_BENCH_HTTP_RAW_H
#define WEFT_BENCH_HTTP_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* What a server takes at once, the same for both: bytes. A pipeline of 16 requests is less. */
#define RAW_BUFFER_BYTES 2048
/* Most connections: descriptors are below this number. */
#define RAW_FDS_MAX 20000
/* Most replies that go out at once; more than fit into a buffer as requests. */
#define RAW_REPLIES_MAX 64
#define RAW_BACKLOG 4096

typedef struct raw_options {
    int port;
    bool is_close;
} raw_options;

/* So many replies, one behind the other. */
typedef struct raw_replies {
    char *data;
    size_t each; /* bytes of one */
} raw_replies;

static inline void raw_require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "http_raw: %s\n", what);
    exit(1);
}

/* Ends the process if they cannot be understood. */
raw_options raw_options_read(int argc, char **argv);

/* A non-blocking socket that listens on 127.0.0.1; what it accepts has TCP_NODELAY. */
int raw_listen(int port);

/* RAW_REPLIES_MAX of them; there is one if the connection ends after it. */
raw_replies raw_replies_make(bool is_close);

/*
 * How many requests end in these bytes. Line_bytes is the connection's: how much there is of its
 * last line, 0 at first.
 */
size_t raw_count_requests(const char *data, size_t bytes, size_t *line_bytes);

#endif
