/*
 * A web server: HTTP/1.1, and 1.0 for those who speak it, plain or over TLS.
 *
 * Each connection has a fiber. A handler is called in it once all headers of a request are in, and
 * is ordinary sequential code: it reads the body when it wants to, blocks where it has to, writes
 * the reply and returns.
 *
 *     static int hello(weft_http_request *r, void *ctx)
 *     {
 *         (void)ctx;
 *         return weft_http_reply_text(r, 200, "Hello, %s\n", weft_http_path(r) + 1);
 *     }
 *     int main(void)
 *     {
 *         weft_shutdown_on_signals(10.0);
 *         return weft_http_serve("127.0.0.1:8080", hello, NULL, NULL) != -ECANCELED;
 *     }
 *
 * What a handler leaves open is closed for it when it returns: a reply that was begun is ended, one
 * that was not is 204, a body that was not read is skipped if it is small, else the connection is
 * closed after the reply. A handler that returns an error before any of its reply has gone out gets
 * another one made: 404 for -ENOENT, 403 for -EACCES and -EPERM, 413 for -EMSGSIZE, 400 for
 * -EBADMSG and -EINVAL, 503 for -EAGAIN, -EBUSY, -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM and
 * -ECANCELED, 504 for -ETIMEDOUT (408 if it is the request's body that was late), 500 for anything
 * else; after that, the connection is cut, so that nobody takes half a reply for a whole one.
 *
 * Requests that break the protocol never reach a handler: they are answered with the status that
 * says why, and the connection is closed. What is ambiguous is refused, never guessed.
 *
 * Strings that come from a request live until its handler returns. They are NUL-terminated; there
 * is no NUL inside, the server refuses those. All calls on a request are for the fiber that the
 * handler runs in.
 */
#ifndef WEFT_HTTP_H
#define WEFT_HTTP_H

#include <weft/base.h>
#include <weft/stream.h>
#include <weft/tls.h>

WEFT_BEGIN

/* One request and its reply. */
typedef struct weft_http_request weft_http_request;

/* Answers a request. Returns 0, or an error: see above. */
typedef int weft_http_handler(weft_http_request *request, void *ctx);

/*
 * What a stranger may ask of the server. 0 is the default; SIZE_MAX, UINT64_MAX and INFINITY are no
 * limit.
 */
typedef struct weft_http_limits {
    size_t line_bytes_max;   /* of the request line: 8 KiB; beyond is 414 */
    size_t head_bytes_max;   /* of the request line and all headers: 32 KiB; 431 */
    size_t headers_max;      /* 100; 431 */
    uint64_t body_bytes_max; /* 1 MiB; 413. weft_http_limit_body changes it for one request */
    size_t requests_max;     /* on one connection: 100,000; the last reply says that it closes */
    size_t connections_max;  /* of one weft_http_serve: 16,384; 503 */
    size_t connections_per_peer_max; /* of one address, or one /64 of IPv6: 4,096; 429 */
    double first_byte_s;             /* from the connection to its first byte: 20; closed */
    double head_s; /* from the first byte of a request to its last header: 20; 408 */
    double idle_s; /* between two requests: 75; closed */
    /*
     * How slow a peer may be with a body, a request's or a reply's, in bytes a second: 240; 408, or
     * the connection is cut. It is an average: who has stalled for slow_s (20) beyond it is out;
     * slow_s is what to make INFINITY for no such limit.
     */
    double body_bytes_per_s_min;
    double slow_s;
    /*
     * Memory for all bodies of one weft_http_serve that are read as a whole (weft_http_read_all,
     * weft_http_form), and for the read buffers of large ones: 256 MiB. Beyond the limit such a
     * read fails with -ENOBUFS, which becomes 503. Bodies that are read piece by piece go on, in
     * smaller pieces.
     */
    uint64_t bodies_bytes_max;
    /*
     * TLS handshakes per second of one address, or one /64 of IPv6: 200, in bursts of as many.
     * Further ones wait; connections that would wait for more than head_s are closed.
     */
    double handshakes_per_peer_s_max;
    /*
     * Bytes of replies in the kernel that one address, or one /64 of IPv6, has not acknowledged,
     * over all its connections: 64 MiB. Beyond the limit a connection writes 16 KiB at a time, and
     * waits, within slow_s, until the peer has acknowledged them.
     */
    uint64_t unsent_bytes_per_peer_max;
} weft_http_limits;

/*
 * What the log function gets for each request, after its reply. A request that the server itself
 * refuses has a reason, and as much of its method and target as has arrived: they may be malformed.
 */
typedef struct weft_http_record {
    const char *peer;   /* the client's address: what a trusted proxy says, else its own */
    const char *method; /* "" if it is not known, as for the next four */
    const char *target; /* as it came */
    const char *host;
    const char *referer;
    const char *user_agent;
    const char *reason; /* why the server refused it, in a few words; "" if a handler got it */
    int version;        /* 10 or 11; 0: not known */
    int status;         /* 0: cut before a reply */
    uint64_t bytes;     /* of the reply's body, as sent */
    double seconds;     /* from the request's first byte to the reply's last */
} weft_http_record;

/* How to serve; all-zero is the default. What is pointed to must stay while it serves. */
typedef struct weft_http_options {
    weft_http_limits limits;
    weft_tls *tls;           /* NULL: plain HTTP */
    const char *server_name; /* the Server header; NULL: none */
    /*
     * Proxies whose headers about the client are believed: "127.0.0.1, 10.0.0.0/8, ::1", or "unix"
     * for all peers at a unix socket. NULL: none.
     */
    const char *trusted_peers;
    /*
     * The headers that are believed, separated by commas: X-Forwarded-For, X-Forwarded-Host,
     * X-Forwarded-Proto, Forwarded (RFC 7239). NULL: X-Forwarded-For. Name only headers that the
     * proxy sets or removes: it passes the others on as clients send them. Forwarded, if named and
     * present, takes precedence.
     */
    const char *trusted_headers;
    int gzip_level;       /* 1 to 9: compress replies worth it, for those who accept; 0: do not */
    size_t stack_bytes;   /* of a connection's fiber; 0: the default */
    double drain_s;       /* what requests that run have to finish when it is to end; 0: 10 s */
    bool closes_listener; /* weft_http_serve_fd: close the socket when it stops to accept */
    void (*log)(const weft_http_record *record, void *ctx); /* NULL: no log; must not fail */
    void *log_ctx;
} weft_http_options;

/**
 * Listen at an address, "127.0.0.1:8080" or ":80" or a path for a unix socket, and serve until the
 * call is cancelled (or its scope ends), in order: nothing more is accepted, connections that wait
 * for a request are closed, requests that run finish, within drain_s; then they are cancelled.
 * Returns -ECANCELED then, else why it cannot listen or go on. -EINVAL for bad options, with words.
 */
WEFT_SWITCHPOINT int weft_http_serve(const char *address, weft_http_handler *handler, void *ctx,
                                     const weft_http_options *options);

/**
 * The same on a socket that listens already. The socket stays open unless closes_listener is set:
 * clients that connect during the drain then wait in the backlog instead of being refused.
 * -EINVAL if an option is not valid: the socket is unchanged, or closed if closes_listener is set
 */
WEFT_SWITCHPOINT int weft_http_serve_fd(int listener, weft_http_handler *handler, void *ctx,
                                        const weft_http_options *options);

/**
 * Serve one connection in the calling fiber until it is over. Close it in any case. For callers
 * that run their own accept loop. Limits on the number of connections are then the caller's job.
 * Returns 0, or why the connection was cut.
 * -EINVAL if an option is not valid
 */
WEFT_SWITCHPOINT int weft_http_serve_conn(int fd, weft_http_handler *handler, void *ctx,
                                          const weft_http_options *options);

/* The request */

/**
 * The method as it came: "GET". Any token of up to 32 characters reaches the handler, registered or
 * not. The handler refuses methods that it does not know, with 405 or 501; a router does so itself.
 */
WEFT_API const char *weft_http_method(const weft_http_request *request);

/** The target as it came: "/a%20b?c=d". */
WEFT_API const char *weft_http_target(const weft_http_request *request);

/**
 * The path: decoded once, without the query, with "." and ".." worked out; begins with a slash, but
 * for "*" (OPTIONS). A target whose path has a backslash, a control character or an encoded slash,
 * or that leads out above the root, is refused with 400 before any handler; a CONNECT with 501.
 */
WEFT_API const char *weft_http_path(const weft_http_request *request);

/** The query as it came, without the question mark; "" if there is none. */
WEFT_API const char *weft_http_query(const weft_http_request *request);

/** 11 for HTTP/1.1, 10 for HTTP/1.0. */
WEFT_API int weft_http_version(const weft_http_request *request);

/**
 * The host asked for, in lower case, without a port: from a trusted header of a trusted proxy, else
 * from the request itself. "" if a request of HTTP/1.0 names none.
 */
WEFT_API const char *weft_http_host(weft_http_request *request);

/** "http" or "https", as the client sees it: what a trusted proxy says, else what is so here. */
WEFT_API const char *weft_http_scheme(weft_http_request *request);

/** The client's address without port: what a trusted proxy says, else the peer's; "unix". */
WEFT_API const char *weft_http_peer(weft_http_request *request);

/** The value of a header, whatever the case of its name; the first if there are several; NULL. */
WEFT_API const char *weft_http_header(const weft_http_request *request, const char *name);

/** The headers one by one, as they came: 0 if there is an index-th, else -ENOENT. */
WEFT_API int weft_http_header_at(const weft_http_request *request, size_t index, const char **name,
                                 const char **value);

/** A parameter of the query, decoded; the first of several; NULL if there is none. */
WEFT_API const char *weft_http_query_param(weft_http_request *request, const char *name);

/** What a route's {name} stands for, decoded; NULL if there is none. See http_route.h. */
WEFT_API const char *weft_http_param(const weft_http_request *request, const char *name);

/** A cookie's value; NULL if it was not sent. */
WEFT_API const char *weft_http_cookie(weft_http_request *request, const char *name);

/** Memory that is freed when the handler has returned; NULL if there is none. */
WEFT_API void *weft_http_alloc(weft_http_request *request, size_t bytes);

/** Is the server about to end? For a handler that goes on for long: its time is drain_s. */
WEFT_API bool weft_http_is_draining(const weft_http_request *request);

/**
 * The TLS connection, for the functions of tls.h that tell about one; NULL on a plain one.
 */
WEFT_API weft_stream *weft_http_tls(weft_http_request *request);

/* Its body */

/** The length that was announced; 0 without a body, -1 if it comes in chunks. */
WEFT_API int64_t weft_http_length(const weft_http_request *request);

/** Change the limit on this request's body. -EALREADY once some of it has been read. */
WEFT_API int weft_http_limit_body(weft_http_request *request, uint64_t bytes_max);

/**
 * Read some of the body, at most so many bytes; 0 at its end. The first read tells a client that
 * waits for it (Expect: 100-continue) to go on. -EMSGSIZE if it is over the limit, -ETIMEDOUT if it
 * comes too slowly, -EBADMSG if its chunks are malformed, -ECONNRESET if the connection ends
 * before it.
 */
WEFT_SWITCHPOINT ssize_t weft_http_read(weft_http_request *request, void *data,
                                        size_t bytes) WEFT_MUST_CHECK;

/** The same in place: the piece that has come; it is there until the next call that reads. */
WEFT_SWITCHPOINT ssize_t weft_http_read_piece(weft_http_request *request,
                                              const void **data) WEFT_MUST_CHECK;

/**
 * Read the whole rest of the body into memory of the request, with a NUL behind it. Returns its
 * length. A body of known length takes that much memory, one in chunks up to twice its length.
 * Errors as in weft_http_read; if one of these occurs, the rest of the body is lost:
 * -ENOBUFS if all bodies together are beyond bodies_bytes_max
 * -ENOMEM if there is no memory
 */
WEFT_SWITCHPOINT ssize_t weft_http_read_all(weft_http_request *request,
                                            char **data) WEFT_MUST_CHECK;

/**
 * A field of a form (application/x-www-form-urlencoded), decoded; the body is read at the first
 * call. NULL if there is none; *error, may be NULL, tells if that is because it could not be read:
 * as in weft_http_read; -EINVAL if the body is no such form.
 */
WEFT_SWITCHPOINT const char *weft_http_form(weft_http_request *request, const char *name,
                                            int *error);

/** A field that came behind the body's last chunk; NULL before that is read, or without it. */
WEFT_API const char *weft_http_trailer(const weft_http_request *request, const char *name);

/* The reply. What was begun cannot be begun again: -EALREADY. */

/**
 * Set a header of the reply, before it is begun; one set before is replaced. Date, Content-Length,
 * Transfer-Encoding, Trailer and Connection are the server's own: -EPERM, but that "Connection:
 * close" may be said. -EINVAL if name or value have characters that do not belong there: nobody can
 * put a line break, and with it a reply of his own, into one.
 */
WEFT_API int weft_http_set(weft_http_request *request, const char *name, const char *value);

/** Add one beside those of the same name. */
WEFT_API int weft_http_add(weft_http_request *request, const char *name, const char *value);

/* What a cookie is set with; all-zero is a cookie of the session for this path and host. */
typedef struct weft_http_cookie_options {
    const char *path;   /* NULL: none said */
    const char *domain; /* NULL: this host only */
    double max_age_s;   /* 0: until the browser ends; negative: delete it */
    bool is_secure;
    bool is_http_only;
    const char *same_site; /* "Lax", "Strict", "None"; NULL: none said */
} weft_http_cookie_options;

/** Set a cookie. -EINVAL for characters that cannot be in one. */
WEFT_API int weft_http_set_cookie(weft_http_request *request, const char *name, const char *value,
                                  const weft_http_cookie_options *options);

/**
 * The whole reply at once; type is its Content-Type, in place of one that was set; NULL: that one,
 * or none. -EBADMSG if the body comes in chunks and what has come of them is malformed: nothing was
 * said then, and it becomes a 400.
 */
WEFT_SWITCHPOINT int weft_http_reply(weft_http_request *request, int status, const char *type,
                                     const void *body, size_t bytes);

/** The same with text as printf(3) makes it: text/plain in UTF-8. */
WEFT_SWITCHPOINT int weft_http_reply_text(weft_http_request *request, int status,
                                          const char *format, ...) WEFT_PRINTF(3, 4);

/** A short page that says what the status means: for errors. */
WEFT_SWITCHPOINT int weft_http_reply_status(weft_http_request *request, int status);

/** Send the client elsewhere: 301, 302, 303, 307 or 308. */
WEFT_SWITCHPOINT int weft_http_redirect(weft_http_request *request, int status,
                                        const char *location);

/**
 * Begin a reply whose body is written piece by piece, of so many bytes, or -1 if that is not known:
 * it goes out in chunks then, or in HTTP/1.0 until the connection is closed.
 */
WEFT_SWITCHPOINT int weft_http_begin(weft_http_request *request, int status, int64_t length);

/**
 * Write some of the body; a reply that was not begun is begun with 200 and no known length. It may
 * be kept until there is more: weft_http_flush. For a HEAD request it goes nowhere. Returns bytes.
 * -EMSGSIZE if it is more than was announced.
 */
WEFT_SWITCHPOINT ssize_t weft_http_write(weft_http_request *request, const void *data,
                                         size_t bytes);

/** The same with text as printf(3) makes it. */
WEFT_SWITCHPOINT ssize_t weft_http_printf(weft_http_request *request, const char *format, ...)
    WEFT_PRINTF(2, 3);

/** See that what was written goes out now. -EINVAL if the reply was not begun. */
WEFT_SWITCHPOINT int weft_http_flush(weft_http_request *request);

/**
 * Write so many bytes of a file, from an offset, without bringing them into the program where that
 * can be (sendfile; not under TLS). Returns bytes; -ENODATA if the file is shorter.
 */
WEFT_SWITCHPOINT int64_t weft_http_send_file(weft_http_request *request, int fd, off_t offset,
                                             uint64_t bytes);

/**
 * A field to be sent behind the body, if that goes out in chunks; before its end, after that
 * -EALREADY. One set before is replaced. -EINVAL and -EPERM as in weft_http_set.
 */
WEFT_API int weft_http_set_trailer(weft_http_request *request, const char *name, const char *value);

/**
 * End the reply: nothing can be written any more. -ENODATA if less was than was announced: the
 * connection is cut then. -EINVAL if it was not begun.
 */
WEFT_SWITCHPOINT int weft_http_end(weft_http_request *request);

/** Begin a stream of server-sent events. */
WEFT_SWITCHPOINT int weft_http_events(weft_http_request *request);

/**
 * Send an event at once; event and id may be NULL; data of several lines arrives as it is. An error
 * is how one learns that nobody listens any more. -EINVAL for a line break in event or id,
 * -ESHUTDOWN if the server is about to end.
 */
WEFT_SWITCHPOINT int weft_http_event(weft_http_request *request, const char *event, const char *id,
                                     const char *data);

/**
 * Change to another protocol: replies 101 with this Upgrade header, and hands over the stream, with
 * what has come already, until the handler returns.
 * -EINVAL if the client did not ask for it in any of its Upgrade headers
 * -ENOMEM.
 */
WEFT_SWITCHPOINT int weft_http_upgrade(weft_http_request *request, const char *protocol,
                                       weft_stream **stream);

WEFT_END

#endif
