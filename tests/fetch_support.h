/*
 * What the tests of the web client share: a server of a few lines that does as a script says, right
 * or wrong, and notes what it was asked.
 */
#ifndef TESTS_FETCH_SUPPORT_H
#define TESTS_FETCH_SUPPORT_H

#include "net_support.h"

#include <strings.h>

struct web;

/* What the server does with one request. */
typedef struct turn {
    const char *says;  /* the answer, as it goes out; NULL: none */
    size_t says_bytes; /* 0: as a string */
    bool hangs_up;     /* behind it */
    bool is_early;     /* says it before it reads the body, which it never does */
    bool is_held;      /* says it when let go: see let_go */
    /* Or instead of says: talks itself. Returns false to hang up. */
    bool (*talks)(struct web *server, weft_stream *s);
} turn;

typedef struct web {
    int listener;
    int port;
    char base[64]; /* "http://127.0.0.1:1234" */
    const turn *turns;
    size_t turns_count; /* the last one is done for all that follow */
    size_t asked;       /* requests so far */
    size_t conns;       /* connections so far */
    size_t open;        /* of those, open now */
    weft_tls *tls;      /* NULL: plain */
    weft_sem gate;
    weft_sem arrived; /* a token for each request that is held */
    weft_fiber fiber;
    char seen[60000]; /* requests, as they came */
    size_t seen_bytes;
} web;

typedef struct caller {
    web *server;
    int fd;
} caller;

static inline void note(web *sv, const char *data, size_t bytes)
{
    if (bytes > sizeof sv->seen - 1 - sv->seen_bytes)
        bytes = sizeof sv->seen - 1 - sv->seen_bytes;
    memcpy(sv->seen + sv->seen_bytes, data, bytes);
    sv->seen_bytes += bytes;
    sv->seen[sv->seen_bytes] = '\0';
}

/* The head up to its empty line; the length of the body, -1 for chunks, -2 at the end. */
static inline long read_request_head(web *sv, weft_stream *s)
{
    char line[8192];
    long length = 0;
    for (bool is_first = true;; is_first = false) {
        ssize_t n = weft_stream_gets(s, line, sizeof line);
        if (n <= 0)
            return -2;
        if (is_first)
            sv->asked++;
        note(sv, line, (size_t)n);
        if (strcmp(line, "\r\n") == 0)
            return length;
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = atol(line + 15);
        if (strncasecmp(line, "Transfer-Encoding: chunked", 26) == 0)
            length = -1;
    }
}

static inline bool read_bytes(web *sv, weft_stream *s, size_t bytes)
{
    char data[4096];
    while (bytes > 0) {
        ssize_t n = weft_stream_read(s, data, bytes < sizeof data ? bytes : sizeof data);
        if (n <= 0)
            return false;
        note(sv, data, (size_t)n);
        bytes -= (size_t)n;
    }
    return true;
}

/* Chunks are noted without their framing. */
static inline bool read_chunks(web *sv, weft_stream *s)
{
    char *line;
    while (weft_stream_line(s, &line, NULL) > 0) {
        size_t bytes = strtoul(line, NULL, 16);
        if (bytes > 0 && !read_bytes(sv, s, bytes))
            return false;
        if (weft_stream_line(s, &line, NULL) <= 0 || *line != '\0')
            return false;
        if (bytes == 0)
            return true;
    }
    return false;
}

static inline bool read_body(web *sv, weft_stream *s, long length)
{
    return length >= 0 ? read_bytes(sv, s, (size_t)length) : read_chunks(sv, s);
}

static inline bool take_turn(web *sv, weft_stream *s)
{
    long length = read_request_head(sv, s);
    if (length == -2)
        return false;
    const turn *t = &sv->turns[sv->asked <= sv->turns_count ? sv->asked - 1 : sv->turns_count - 1];
    if (!t->is_early && t->talks == NULL && !read_body(sv, s, length))
        return false;
    if (t->is_held) {
        weft_sem_post(&sv->arrived);
        if (weft_sem_wait(&sv->gate) < 0)
            return false;
    }
    if (t->talks != NULL)
        return t->talks(sv, s);
    if (t->says != NULL) {
        weft_stream_write(s, t->says, t->says_bytes > 0 ? t->says_bytes : strlen(t->says));
        weft_stream_flush(s);
    }
    if (t->is_early && !t->hangs_up)
        weft_sleep(INFINITY);
    return !t->hangs_up;
}

static inline weft_value run_conn(void *arg)
{
    caller c = *(caller *)arg;
    weft_stream s;
    int rc = c.server->tls != NULL ? weft_tls_accept(&s, c.fd, c.server->tls)
                                   : weft_stream_open(&s, c.fd);
    if (rc < 0)
        return 0; /* the client did not like us */
    c.server->open++;
    while (take_turn(c.server, &s))
        continue;
    weft_stream_close(&s);
    c.server->open--;
    return 0;
}

static inline weft_value run_server(void *arg)
{
    web *sv = arg;
    int fd;
    while ((fd = weft_accept(sv->listener, NULL, NULL)) >= 0) {
        sv->conns++;
        caller c = {sv, fd};
        ck_assert_uint_ne(weft_spin_with(run_conn, &c, &(weft_spin_options){.arg_bytes = sizeof c}),
                          0);
    }
    return 0;
}

static inline void start_at(web *sv, const char *address, const turn *turns, size_t count)
{
    *sv = (web){.turns = turns, .turns_count = count};
    sv->listener = weft_listen("tcp", address);
    ck_assert_int_ge(sv->listener, 0);
    struct sockaddr_in6 at;
    socklen_t bytes = sizeof at;
    ck_assert_int_eq(getsockname(sv->listener, (struct sockaddr *)&at, &bytes), 0);
    sv->port = ntohs(at.sin6_port); /* at the same place for IPv4 */
    snprintf(sv->base, sizeof sv->base, "http://%s:%d",
             at.sin6_family == AF_INET6 ? "[::1]" : "127.0.0.1", sv->port);
    sv->fiber = weft_spin(run_server, sv);
}

static inline void start_server(web *sv, const turn *turns, size_t count)
{
    start_at(sv, "127.0.0.1:0", turns, count);
}

static inline void stop_server(web *sv)
{
    weft_cancel(sv->fiber);
    weft_await(sv->fiber);
    weft_close(sv->listener);
}

/* Let so many of the requests that are held be answered. */
static inline void let_go(web *sv, size_t count)
{
    while (count-- > 0)
        weft_sem_post(&sv->gate);
}

/* A URL of the server's; several at a time are good. */
static inline const char *url_of(const web *sv, const char *path)
{
    static char urls[8][512];
    static unsigned next;
    char *url = urls[next++ % COUNT_OF(urls)];
    snprintf(url, sizeof urls[0], "%s%s", sv->base, path);
    return url;
}

/* These words are in what the server was asked. */
#define ck_assert_seen(sv, words) \
    ck_assert_msg(strstr((sv)->seen, (words)) != NULL, "'%s' is not in:\n%s", (words), (sv)->seen)
#define ck_assert_unseen(sv, words) \
    ck_assert_msg(strstr((sv)->seen, (words)) == NULL, "'%s' is in:\n%s", (words), (sv)->seen)

/* GET, the whole body, close: the status, or why not. */
static inline int get_text(weft_fetcher *fetcher, const char *url, char *text, size_t room)
{
    weft_fetch *f;
    int status = weft_fetch_get(fetcher, url, &f);
    if (status < 0)
        return status;
    char *all;
    ssize_t n = weft_fetch_read_all(f, &all);
    if (n >= 0)
        snprintf(text, room, "%s", all);
    weft_fetch_close(f);
    return n < 0 ? (int)n : status;
}

#define ck_assert_get(fetcher, url, expected)                                   \
    do {                                                                        \
        char ck_text[1024] = "";                                                \
        ck_assert_int_eq(get_text(fetcher, url, ck_text, sizeof ck_text), 200); \
        ck_assert_str_eq(ck_text, expected);                                    \
    } while (0)

/* No proxy but those that a test sets. */
static inline void forget_proxies(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unsetenv(names[i]);
}

#define OK(body, length) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n" body

#endif
