/*
 * A web client: HTTP/1.1, plain or over TLS. It keeps connections for the next request, follows
 * redirects, goes through the proxies that the environment names, takes gzip.
 *
 *     weft_fetch *f;
 *     char *text;
 *     int status = weft_fetch_get(NULL, "http://example.org/", &f);
 *     if (status == 200 && weft_fetch_read_all(f, &text) >= 0)
 *         fputs(text, stdout);
 *     weft_fetch_close(f);
 *
 * Time limits are scopes: WEFT_CANCEL_AFTER(5.0, rc) { ... } around it. A fetch is used by one
 * fiber at a time, a fetcher by all fibers of one thread.
 *
 * Redirects are followed as RFC 9110, 15.4, has them: 303 by a GET, 301 and 302 by a GET if it was
 * a POST, all others as they were, with their body if that is in memory. Another origin is not told
 * the caller's Authorization and Cookie, nor the user of the first URL. A redirect without a URL
 * that can be fetched, or from https to http, is the answer itself.
 *
 * Folded lines in the head of an answer are joined by spaces, and equal repeated Content-Length
 * values count once (RFC 9112, 5.2; RFC 9110, 8.6). Any other break of the protocol is -EBADMSG.
 *
 * A user in a URL, "http://user:password@host/", is told to the server (Basic). Proxies come from
 * http_proxy (in lower case only), https_proxy, all_proxy and no_proxy, as other programs read
 * them; they speak plain HTTP, and https goes through them by a tunnel.
 */
#ifndef WEFT_FETCH_H
#define WEFT_FETCH_H

#include <weft/base.h>
#include <weft/tls.h>

WEFT_BEGIN

/* A client: its connections and its ways. */
typedef struct weft_fetcher weft_fetcher;

/* One request and its answer. */
typedef struct weft_fetch weft_fetch;

/* How a client behaves; all-zero is the default. */
typedef struct weft_fetcher_options {
    weft_tls *tls; /* a client's side, not to be freed before it; NULL: the system's authorities */
    const char *user_agent;            /* NULL: "weft/VERSION" */
    size_t connections_per_origin_max; /* 0: 8; more requests wait */
    size_t idle_max;                   /* connections kept in all: 0: 64 */
    double idle_s;                     /* kept for so long: 0: 60; closed at the next use */
    int redirects_max;                 /* 0: 10; -1: none are followed */
    bool has_no_proxy;     /* do not look at http_proxy, https_proxy, all_proxy, no_proxy */
    bool has_no_gzip;      /* do not ask for it; who sets Accept-Encoding gets what is sent */
    size_t head_bytes_max; /* of an answer: 0: 64 KiB; -EMSGSIZE */
    size_t body_bytes_max; /* of weft_fetch_read_all, uncompressed: 0: 64 MiB; -EMSGSIZE */
} weft_fetcher_options;

/** A client. NULL if it cannot be made; weft_error() says why: -EINVAL, -ENOMEM. */
WEFT_API weft_fetcher *weft_fetcher_new(const weft_fetcher_options *options) WEFT_MUST_CHECK;

/** Close the connections that are kept, and free it. -EBUSY while a fetch is open. */
WEFT_SWITCHPOINT int weft_fetcher_free(weft_fetcher *fetcher);

/* A header of a request. */
typedef struct weft_fetch_field {
    const char *name;
    const char *value;
} weft_fetch_field;

/* What is asked. It is only read until the call returns. */
typedef struct weft_fetch_request {
    const char *method; /* NULL: GET; POST if there is a body */
    const char *url;
    const weft_fetch_field *fields; /* beside those that the client sets; may replace User-Agent,
                                       Accept, Accept-Encoding, Host; "Connection: close" may be */
    size_t fields_count;
    const char *type; /* of the body; NULL: none said */
    const void *body; /* NULL: none, or see weft_fetch_open */
    size_t body_bytes;
} weft_fetch_request;

/**
 * Ask, and wait for the head of the answer. Returns its status, 200 say; *fetch is to be closed
 * then. A negative error if there is no answer, and *fetch is NULL: what weft_dial and
 * weft_tls_connect say, -EINVAL for a bad URL, method or field, -EPERM for a field that is the
 * client's own (Content-Length, Transfer-Encoding, Connection, Upgrade, TE, Trailer), -EBADMSG for
 * an answer that breaks the protocol, -ECONNRESET if there is none, -ELOOP for too many redirects,
 * -EMSGSIZE for a head over the limit, -EACCES if a proxy wants to know who asks, -ECONNREFUSED if
 * it makes no tunnel, -ENOTSUP if it is of another kind. A request on a kept connection that turns
 * out to be closed is sent again on a new one, if it may be repeated (RFC 9110, 9.2.2), or nothing
 * of it was sent. Fetcher NULL is one of the thread's own, with default options.
 */
WEFT_SWITCHPOINT int weft_fetch_send(weft_fetcher *fetcher, const weft_fetch_request *request,
                                     weft_fetch **fetch);

/** The same for a plain GET. */
WEFT_SWITCHPOINT int weft_fetch_get(weft_fetcher *fetcher, const char *url, weft_fetch **fetch);

/** The same for a POST. */
WEFT_SWITCHPOINT int weft_fetch_post(weft_fetcher *fetcher, const char *url, const char *type,
                                     const void *body, size_t bytes, weft_fetch **fetch);

/**
 * Ask with a body that is written piece by piece: of so many bytes, or -1 for chunks. Sends the
 * head; write the body, then weft_fetch_wait. (Without a body weft_fetch_send is better: it can
 * repeat the request where that helps.) Redirects that need the body again are not followed.
 * With the field "Expect: 100-continue" it waits up to a second for the server to say so. Returns
 * 0, or as weft_fetch_send.
 */
WEFT_SWITCHPOINT int weft_fetch_open(weft_fetcher *fetcher, const weft_fetch_request *request,
                                     int64_t body_length, weft_fetch **fetch);

/**
 * Write some of the body. Returns bytes. -EPIPE if the server has answered, or hung up, already:
 * weft_fetch_wait tells. -EMSGSIZE if it is more than was announced: nothing of it was written. Cut
 * short in any other way, cancelled say, the fetch is over, and says so from then on.
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_write(weft_fetch *fetch, const void *data, size_t bytes);

/**
 * End the body and wait for the head of the answer: its status, or as weft_fetch_send, but that the
 * fetch is still to be closed. -ENODATA if less was written than was announced. Cancelled, it can
 * be called again.
 */
WEFT_SWITCHPOINT int weft_fetch_wait(weft_fetch *fetch);

/** The status of the answer: 200; 0 before there is one. */
WEFT_API int weft_fetch_status(const weft_fetch *fetch);

/** A header of the answer, the first of that name; NULL. Kept until the fetch is closed. */
WEFT_API const char *weft_fetch_header(const weft_fetch *fetch, const char *name);

/** The headers one by one: 0 if there is an index-th, else -ENOENT. */
WEFT_API int weft_fetch_header_at(const weft_fetch *fetch, size_t index, const char **name,
                                  const char **value);

/** A field behind the body, once that has been read; NULL. */
WEFT_API const char *weft_fetch_trailer(const weft_fetch *fetch, const char *name);

/** The URL that has answered, after redirects, without a user. */
WEFT_API const char *weft_fetch_url(const weft_fetch *fetch);

/**
 * The length of the body as announced, for a HEAD what it would be; -1 if it was not, or is
 * compressed.
 */
WEFT_API int64_t weft_fetch_length(const weft_fetch *fetch);

/**
 * Read some of the body, uncompressed; 0 at its end. -EBADMSG if it is malformed, -ECONNRESET if
 * the connection ends before it; those last. Cancelled, nothing is lost, and the next read goes on.
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_read(weft_fetch *fetch, void *data,
                                         size_t bytes) WEFT_MUST_CHECK;

/** The same in place: what has come; it is there until the next call that reads. */
WEFT_SWITCHPOINT ssize_t weft_fetch_read_piece(weft_fetch *fetch,
                                               const void **data) WEFT_MUST_CHECK;

/**
 * The whole rest, with a NUL behind it; kept until the fetch is closed. Returns its length.
 * -EMSGSIZE if it is over the limit.
 */
WEFT_SWITCHPOINT ssize_t weft_fetch_read_all(weft_fetch *fetch, char **data);

/**
 * Done with it: the connection is kept for the next request if all of the answer was read (or
 * little is left, at most 64 KiB that come at once), else closed. NULL is nothing.
 */
WEFT_SWITCHPOINT void weft_fetch_close(weft_fetch *fetch);

WEFT_END

#endif
