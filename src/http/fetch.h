/*
 * The client inside: who is who, and what its files share. fetch.c is one request from the first
 * word to the last, fetch_ask.c what is checked and sent, fetch_answer.c what comes back,
 * fetch_pool.c which connections there are, fetch_dial.c how one is made, fetch_proxy.c what the
 * environment says, fetch_redirect.c where a request goes next, fetch_gzip.c compressed answers,
 * fetch_repair.c heads that are not quite right.
 */
#ifndef WEFT_HTTP_FETCH_H
#define WEFT_HTTP_FETCH_H

#include "base/list.h"
#include "http/message.h"

#include <weft/fetch.h>
#include <weft/stream.h>
#include <weft/sync.h>
#include <weft/url.h>

/* A connection's buffers: a read of a body is worth more than a line. */
#define WEFT__FETCH_READ_BYTES ((size_t)16 << 10)
#define WEFT__FETCH_WRITE_BYTES ((size_t)8 << 10)

/* Whom a connection is to: one scheme, host, port and proxy. */
typedef struct weft__origin {
    weft__list node; /* in the fetcher's origins */
    weft__list idle; /* connections, the one used last first */
    weft_sem slots;  /* requests that may be under way, beside those that are */
    size_t users;    /* fetches that have a slot or wait for one */
    char key[];
} weft__origin;

typedef struct weft__fetch_conn {
    weft__list node;   /* in its origin's idle */
    weft__list recent; /* in the fetcher's idle, the one used last at the end */
    weft__origin *origin;
    weft_stream stream;
    int fd; /* underneath; the stream's */
    bool is_tls;
    double idle_since;
} weft__fetch_conn;

struct weft_fetcher {
    weft_fetcher_options options; /* without zeros */
    weft_tls *own_tls;            /* made at the first https; NULL: none, or the caller's is used */
    char *user_agent;
    weft__message_limits limits;
    weft__list origins;
    weft__list idle;
    size_t idle_count;
    size_t open_count; /* fetches */
    pid_t pid;         /* the process whose connections these are */
    bool is_closing;
};

/* How a request is to reach its server. */
typedef struct weft__proxy {
    bool is_used;
    weft_url url; /* open if is_used */
} weft__proxy;

/* Text that grows. Once it has failed for want of memory, it is no more. */
typedef struct weft__words {
    char *data; /* NULL: none yet */
    size_t bytes;
    size_t room;
    bool has_failed;
} weft__words;

typedef enum weft__fetch_state {
    WEFT__FETCH_NEW,
    WEFT__FETCH_SENDING, /* the head is out, the body is being written */
    WEFT__FETCH_READING, /* the answer's head is there */
    WEFT__FETCH_OVER,    /* all of the answer has been read; there is no connection any more */
    WEFT__FETCH_CUT,     /* it has failed; there is no connection any more */
} weft__fetch_state;

typedef struct weft__inflate weft__inflate;

struct weft_fetch {
    weft_fetcher *fetcher;
    weft__fetch_state state;
    int failure; /* why it is cut */

    /* What is asked. */
    weft_fetch_request ask; /* the caller's during weft_fetch_send, else copied */
    void *ask_memory;       /* of the copy; NULL: none */
    char method[32];
    weft_url url;
    char *url_text;
    char *authorization; /* "Basic ...", of the URL's user; NULL: none */
    weft__proxy proxy;
    int redirects;
    bool is_streamed;   /* the body is written by weft_fetch_write */
    bool has_body;      /* it is sent at all: not once a redirect has made it a GET */
    bool is_abroad;     /* redirected to another origin than it was meant for */
    bool takes_gzip;    /* asked for by us, so undone by us */
    bool is_last;       /* "Connection: close" was said by the caller */
    int64_t out_length; /* of the body; -1: chunks */
    int64_t out_left;   /* of a known length */
    bool is_ended;      /* the end of a body in chunks is written */

    /* The connection, while there is one. */
    weft__origin *origin; /* whose slot is held; NULL: none */
    weft__fetch_conn *conn;
    bool is_reused;  /* it has served another request before */
    bool is_unsent;  /* nothing of the request can have arrived */
    bool has_input;  /* a byte of the answer has come */
    bool is_spoiled; /* it cannot serve another: the request was not sent to its end */

    /* The answer. */
    weft__message answer;
    char *head;        /* settled; NULL: none */
    bool is_answered;  /* the head is there */
    int64_t in_bytes;  /* of the body, as it came */
    size_t taken;      /* bytes of the stream's buffer that the last piece was in */
    const char *piece; /* what is left of it for weft_fetch_read */
    size_t piece_bytes;
    weft__inflate *inflate; /* NULL: the body is as it came */
    char *all;              /* of weft_fetch_read_all */
    size_t all_bytes;
    size_t all_room;
};

/* fetcher.c */

/* The calling thread's own; NULL: no memory. */
weft_fetcher *weft__fetcher_own(void);

/* Free the fetcher of a thread that ends and whose cord has ended before. */
void weft__fetcher_end(weft_fetcher *fetcher);

/* fetch.c */

/* Make a fetch without an exchange. The request is only read until this returns. */
int weft__fetch_make(weft_fetcher *fetcher, const weft_fetch_request *ask, weft_fetch **made);

/* May a request with this method be sent twice (RFC 9110, 9.2.2)? */
bool weft__method_is_idempotent(const char *method);

/* It has failed: the connection is closed. Returns why. */
int weft__fetch_cut(weft_fetch *f, int why);

/* fetch_ask.c */

/* 0, or -EINVAL, -EPERM if the request cannot be sent as it is. */
int weft__ask_check(const weft_fetch_request *ask);
bool weft__is_value(const char *text);
const char *weft__ask_field(const weft_fetch_request *ask, const char *name);

/* Keep what is asked beyond the call. */
int weft__ask_copy(weft_fetch *f);

/* Send the head, and the body if it is in memory. */
int weft__ask_send(weft_fetch *f);

/* Some of the body, in chunks or not. -EPIPE if there is an answer already. */
ssize_t weft__ask_write(weft_fetch *f, const char *data, size_t bytes);

/* The end of the body; it is on its way. */
int weft__ask_end(weft_fetch *f);

/* fetch_words.c */

void weft__words_add(weft__words *w, const char *data, size_t bytes);
void weft__words_print(weft__words *w, const char *format, ...) WEFT_PRINTF(2, 3);
/* "Basic " and base64 of user:password, as a URL has it; NULL: no memory, or a bad escape. */
char *weft__words_basic(const char *user);
/* "host", or "[host]" if it is an IPv6 address. */
void weft__words_host(weft__words *w, const char *host);

/* fetch_answer.c */

/* Take one head, an interim one or one that changes the protocol too, and its bytes: its status. */
int weft__answer_take(weft_stream *stream, weft__message *m, char **head, bool *has_input);

/* Wait for the answer's head and read it; interim ones are skipped. Its status, or an error. */
int weft__answer_head(weft_fetch *f);

/* Read one head: 0 if it is an interim one, -EPIPE if it is the answer; or an error. */
int weft__answer_interim(weft_fetch *f);

/* Forget what has come, for the next exchange. */
void weft__answer_reset(weft_fetch *f);

/* The head of one answer to something asked on a connection; skipped, and its bytes kept. */
int weft__answer_read(weft_stream *stream, weft__message *m, char **head, bool *has_input);

/*
 * The next piece of the body as it came; 0 at its end. It is in place until the next call. The
 * connection stays the fetch's, also at the end or after an error.
 */
ssize_t weft__answer_next(weft_fetch *f, const char **piece);

/* The same, and the connection is given back at the end, or closed after an error. */
ssize_t weft__answer_raw(weft_fetch *f, const char **piece);

/* The same, uncompressed. */
ssize_t weft__answer_piece(weft_fetch *f, const char **piece);

/* Read and drop what is left, if that is little and there. True: nothing is left. */
bool weft__answer_drain(weft_fetch *f);

/* fetch_repair.c */

/* Is there something to repair in the part of a refused head that has arrived? */
bool weft__head_is_repairable(const char *head, size_t bytes);

/* Repair a whole head in place: its new length, or -EBADMSG. */
ssize_t weft__head_repair(char *head, size_t bytes);

/* fetch_pool.c */

/* A connection for f, one that was kept unless is_fresh. f may hold a slot already. */
int weft__pool_take(weft_fetch *f, bool is_fresh);

/* Give the slot back, and the connection: kept if it can be, else closed. */
void weft__pool_give(weft_fetch *f, bool is_kept);

/* Close all that are kept. */
void weft__pool_clear(weft_fetcher *o);

/* Close the connection, but keep the slot. */
void weft__pool_drop(weft_fetch *f);

/* fetch_dial.c */

/* A connection to f's server, by its proxy if there is one. */
int weft__fetch_dial(weft_fetch *f, weft__fetch_conn *c);

/* fetch_proxy.c */

/* The proxy for a URL by the environment. To be closed with weft__proxy_close. */
int weft__proxy_open(weft__proxy *p, const weft_url *url);
void weft__proxy_close(weft__proxy *p);

/* fetch_redirect.c */

/* f goes to a URL, whose strings are f's from now on; on failure they are the caller's. */
int weft__fetch_aim(weft_fetch *f, weft_url *url);

/* Is the answer one that sends f elsewhere? f is aimed at that then: 1. Else 0, or an error. */
int weft__redirect_follow(weft_fetch *f);

/* fetch_gzip.c; without zlib none can be made. */

weft__inflate *weft__inflate_new(void);
void weft__inflate_free(weft__inflate *z);
/* Give it what came; it is used up before the next. */
void weft__inflate_feed(weft__inflate *z, const char *data, size_t bytes);
/* The next uncompressed piece; 0: it wants more. -EBADMSG. */
ssize_t weft__inflate_take(weft__inflate *z, const char **piece);
/* May the input end here? */
bool weft__inflate_is_whole(const weft__inflate *z);

#endif
