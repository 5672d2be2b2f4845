/*
 * Helpers for the tests of the HTTP client: a small server that follows a script and records the
 * requests. A script may violate the protocol.
 */
#ifndef TESTS_HTTP_FETCH_SUPPORT_H
#define TESTS_HTTP_FETCH_SUPPORT_H

#include "support/cases.h"
#include "support/net_support.h"

#include <weft/web.h>

#include <strings.h>

struct script_server;

/* What the server does with one request: it sends a fixed reply, or calls handle. */
typedef struct script_step {
    const char *reply;  /* sent unchanged; NULL: none */
    size_t reply_bytes; /* 0: reply is a string */
    bool closes;        /* close the connection after the reply */
    bool is_early;      /* reply after the head; never read the body */
    bool is_held;       /* wait for release_replies before the reply */
    /* NULL: use reply. Returns false to close the connection. */
    bool (*handle)(struct script_server *server, weft_stream *s);
} script_step;

typedef struct script_server {
    int listener;
    int port;
    char base[64]; /* "http://127.0.0.1:1234" */
    script_step steps[6];
    size_t steps_count; /* the last step applies to all further requests */
    size_t requests;    /* received so far */
    size_t conns;       /* accepted so far */
    size_t open_conns;
    weft_tls *tls;    /* NULL: plain */
    weft_sem gate;    /* a token for each reply that release_replies releases */
    weft_sem arrived; /* a token for each request that is held */
    weft_fiber fiber;
    char received[60000]; /* all requests, truncated if they are longer */
    size_t received_bytes;
} script_server;

typedef struct script_conn {
    script_server *server;
    int fd;
} script_conn;

static inline void record_received(script_server *sv, const char *data, size_t bytes)
{
    if (bytes > sizeof sv->received - 1 - sv->received_bytes)
        bytes = sizeof sv->received - 1 - sv->received_bytes;
    memcpy(sv->received + sv->received_bytes, data, bytes);
    sv->received_bytes += bytes;
    sv->received[sv->received_bytes] = '\0';
}

/* Read a head. Return the length of the body, -1 if chunked, -2 at the end of the connection. */
static inline long read_request_head(script_server *sv, weft_stream *s)
{
    char line[8192];
    long length = 0;
    for (bool is_first = true;; is_first = false) {
        ssize_t n = weft_stream_gets(s, line, sizeof line);
        if (n <= 0)
            return -2;
        if (is_first)
            sv->requests++;
        record_received(sv, line, (size_t)n);
        if (strcmp(line, "\r\n") == 0)
            return length;
        if (strncasecmp(line, "Content-Length:", 15) == 0)
            length = atol(line + 15);
        if (strncasecmp(line, "Transfer-Encoding: chunked", 26) == 0)
            length = -1;
    }
}

static inline bool read_bytes(script_server *sv, weft_stream *s, size_t bytes)
{
    char data[4096];
    while (bytes > 0) {
        ssize_t n = weft_stream_read(s, data, bytes < sizeof data ? bytes : sizeof data);
        if (n <= 0)
            return false;
        record_received(sv, data, (size_t)n);
        bytes -= (size_t)n;
    }
    return true;
}

/* Record the data of the chunks without the framing. */
static inline bool read_chunks(script_server *sv, weft_stream *s)
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

static inline bool read_body(script_server *sv, weft_stream *s, long length)
{
    return length >= 0 ? read_bytes(sv, s, (size_t)length) : read_chunks(sv, s);
}

static inline bool run_step(script_server *sv, weft_stream *s)
{
    long length = read_request_head(sv, s);
    if (length == -2)
        return false;
    const script_step *step =
        &sv->steps[sv->requests <= sv->steps_count ? sv->requests - 1 : sv->steps_count - 1];
    if (!step->is_early && step->handle == NULL && !read_body(sv, s, length))
        return false;
    if (step->is_held) {
        weft_sem_post(&sv->arrived);
        if (weft_sem_wait(&sv->gate) < 0)
            return false;
    }
    if (step->handle != NULL)
        return step->handle(sv, s);
    if (step->reply != NULL) {
        weft_stream_write(s, step->reply,
                          step->reply_bytes > 0 ? step->reply_bytes : strlen(step->reply));
        weft_stream_flush(s);
    }
    if (step->is_early && !step->closes)
        weft_sleep(INFINITY);
    return !step->closes;
}

static inline weft_value script_conn_run(void *arg)
{
    script_conn c = *(script_conn *)arg;
    weft_stream s;
    int rc = c.server->tls != NULL ? weft_tls_accept(&s, c.fd, c.server->tls)
                                   : weft_stream_open(&s, c.fd);
    if (rc < 0)
        return 0; /* the client refused the certificate */
    c.server->open_conns++;
    while (run_step(c.server, &s))
        continue;
    weft_stream_close(&s);
    c.server->open_conns--;
    return 0;
}

static inline weft_value script_server_run(void *arg)
{
    script_server *sv = arg;
    int fd;
    while ((fd = weft_accept(sv->listener, NULL, NULL)) >= 0) {
        sv->conns++;
        script_conn c = {sv, fd};
        ck_assert_uint_ne(
            weft_spin_with(script_conn_run, &c, &(weft_spin_options){.arg_bytes = sizeof c}), 0);
    }
    return 0;
}

static inline void start_server_at(script_server *sv, const char *address, const script_step *steps,
                                   size_t count)
{
    ck_assert_uint_le(count, COUNT_OF(sv->steps));
    *sv = (script_server){.steps_count = count};
    memcpy(sv->steps, steps, count * sizeof *steps);
    sv->listener = weft_listen("tcp", address);
    ck_assert_int_ge(sv->listener, 0);
    struct sockaddr_in6 bound;
    socklen_t bytes = sizeof bound;
    ck_assert_int_eq(getsockname(sv->listener, (struct sockaddr *)&bound, &bytes), 0);
    sv->port = ntohs(bound.sin6_port); /* at the same offset in sockaddr_in */
    snprintf(sv->base, sizeof sv->base, "http://%s:%d",
             bound.sin6_family == AF_INET6 ? "[::1]" : "127.0.0.1", sv->port);
    sv->fiber = weft_spin(script_server_run, sv);
}

static inline void start_server(script_server *sv, const script_step *steps, size_t count)
{
    start_server_at(sv, "127.0.0.1:0", steps, count);
}

static inline void stop_server(script_server *sv)
{
    if (sv->fiber == 0)
        return;
    weft_cancel(sv->fiber);
    weft_await(sv->fiber);
    weft_close(sv->listener);
    sv->fiber = 0;
}

/* Let the server send the replies to count held requests. */
static inline void release_replies(script_server *sv, size_t count)
{
    while (count-- > 0)
        weft_sem_post(&sv->gate);
}

static inline const char *url_of(const script_server *sv, const char *path)
{
    return format("%s%s", sv->base, path);
}

/* Assert that the requests that sv has recorded contain each text. */
#define ck_assert_server_received(sv, ...) ck_assert_has((sv)->received, __VA_ARGS__)
#define ck_assert_server_not_received(sv, ...) ck_assert_lacks((sv)->received, __VA_ARGS__)

/* GET a URL and read the body into text. Return the status, or an error. */
static inline int fetch_text(weft_fetcher *fetcher, const char *url, char *text, size_t room)
{
    weft_fetch *f;
    char *all;
    int status = weft_fetch_get(fetcher, url, &f);
    if (status < 0)
        return status;
    ssize_t n = weft_fetch_read_all(f, &all);
    if (n >= 0)
        snprintf(text, room, "%s", all);
    weft_fetch_close(f);
    return n < 0 ? (int)n : status;
}

#define ck_assert_fetch(fetcher, url, expected)                                   \
    do {                                                                          \
        char ck_text[1024] = "";                                                  \
        ck_assert_int_eq(fetch_text(fetcher, url, ck_text, sizeof ck_text), 200); \
        ck_assert_str_eq(ck_text, expected);                                      \
    } while (0)

/* The server, the fetcher and the fetch in tests with one of each, and a second server. */
static script_server site, other;
static weft_fetcher *fetcher;
static weft_fetch *fetch;

/* The steps of a script, and their number. */
#define STEPS(...)                      \
    (const script_step[]){__VA_ARGS__}, \
        sizeof((const script_step[]){__VA_ARGS__}) / sizeof(script_step)

static inline void close_fetch(void)
{
    weft_fetch_close(fetch);
    fetch = NULL;
}

/* Replace the fetcher by one with these options. */
static inline void use_fetcher(weft_fetcher_options options)
{
    close_fetch();
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    fetcher = weft_fetcher_new(&options);
    ck_assert_ptr_nonnull(fetcher);
}

/* Close the fetch, the fetcher and the servers that are open. */
static inline void close_site(void)
{
    close_fetch();
    ck_assert_int_eq(weft_fetcher_free(fetcher), 0);
    fetcher = NULL;
    stop_server(&site);
    stop_server(&other);
}

/* Replace the site by a server with this script. */
static inline void open_site(const script_step *steps, size_t count)
{
    close_site();
    start_server(&site, steps, count);
    use_fetcher((weft_fetcher_options){0});
}

#define OK(body, length) "HTTP/1.1 200 OK\r\nContent-Length: " length "\r\n\r\n" body

static const script_step hello[] = {{.reply = OK("hello", "5")}};

static inline void open_hello(void)
{
    open_site(hello, 1);
}

/* GET a path of the site. Return the status, or an error. */
static inline int get(const char *path)
{
    close_fetch();
    return weft_fetch_get(fetcher, url_of(&site, path), &fetch);
}

static inline void assert_status(const char *path, int status)
{
    ck_assert_int_eq(get(path), status);
    close_fetch();
}

/* Assert the whole body of fetch. */
static inline void assert_body(const char *expected)
{
    char *text = NULL;
    ck_assert_int_eq(weft_fetch_read_all(fetch, &text), (ssize_t)strlen(expected));
    ck_assert_str_eq(text, expected);
}

static inline void assert_page(const char *path, const char *expected)
{
    ck_assert_fetch(fetcher, url_of(&site, path), expected);
}

/* Send a request to a URL. Close the fetch and return the status, or the error. */
static inline int send_request(weft_fetch_request r)
{
    close_fetch();
    int status = weft_fetch_send(fetcher, &r, &fetch);
    close_fetch();
    return status;
}

/* Unset all variables that select a proxy, before main. */
__attribute__((constructor)) static void unset_proxies(void)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                                        "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        unsetenv(names[i]);
}

#endif
