/* Options of the HTTP server: limits, log records, error pages. http.h includes this header. */
#ifndef WEFT_HTTP_OPTIONS_H
#define WEFT_HTTP_OPTIONS_H

#include <weft/base.h>
#include <weft/tls.h>

WEFT_BEGIN

/* A request and its reply. */
typedef struct weft_http_request weft_http_request;

/* A function that replies to a request. Returns 0, or an error as in the list in http.h. */
typedef int weft_http_handler(weft_http_request *request, void *ctx);

/*
 * Limits for clients. Each comment states the default, then the reply or the action beyond the
 * limit. 0 means the default. SIZE_MAX, UINT64_MAX and INFINITY mean no limit, except in
 * body_bytes_per_s_min. A peer is an IPv4 address or an IPv6 /64.
 */
typedef struct weft_http_limits {
    size_t line_bytes_max;   /* request line: 8 KiB; 414 */
    size_t head_bytes_max;   /* request line and headers: 32 KiB; 431 */
    size_t headers_max;      /* number of headers: 100; 431 */
    uint64_t body_bytes_max; /* body: 1 MiB; 413; see also weft_http_limit_body */
    size_t requests_max;     /* requests of a connection: 100,000; close after the last reply */
    size_t connections_max; /* connections of one weft_http_serve: 16,384; 503, or close with TLS */
    size_t connections_per_peer_max; /* connections of a peer: 4,096; 429, or close with TLS */
    double first_byte_s;             /* from the connection to its first byte: 20; close */
    double head_s; /* from the first byte of a request to its last header: 20; 408 */
    double idle_s; /* between two requests: 75; close */
    /*
     * Minimum average rate of the body of a request or reply, in bytes per second: 240. A peer may
     * fall behind this rate by at most slow_s seconds: 20. Then the server replies 408 or resets
     * the connection.
     */
    double body_bytes_per_s_min;
    double slow_s;
    /*
     * Memory of one weft_http_serve for the bodies that weft_http_read_all and weft_http_form read:
     * 256 MiB. The limit includes the read buffers for long bodies. Beyond the limit,
     * weft_http_read_all and weft_http_form fail with -ENOBUFS (503). weft_http_read continues with
     * a smaller buffer. In HTTP/2, the limit also includes input that no handler has read. Beyond
     * the limit, the server resets the stream, and reads of its body fail with -EPIPE.
     */
    uint64_t bodies_bytes_max;
    /*
     * TLS handshakes of a peer per second: 200, possibly in one burst. Further handshakes wait. The
     * server closes the connection if the wait and the handshake together exceed head_s.
     */
    double handshakes_per_peer_s_max;
    /*
     * Unacknowledged bytes of replies in the kernel, for all connections of a peer: 64 MiB. Beyond
     * the limit, a connection writes at most 16 KiB at a time. The next write waits, within slow_s,
     * until the peer has acknowledged these bytes.
     */
    uint64_t unsent_bytes_per_peer_max;
    /*
     * The following limits apply to connections of HTTP/2. Beyond a rate, the server ends the
     * connection with ENHANCE_YOUR_CALM. A client may use the frames of 10 seconds at once.
     */
    size_t streams_max; /* requests of a connection at the same time: 100; REFUSED_STREAM */
    /* Streams per second that the client resets, or that are malformed: 100. */
    double resets_per_s_max;
    /*
     * Frames per second without a request or a byte of a body, for example PING, SETTINGS,
     * WINDOW_UPDATE and CONTINUATION: 100. Each request allows 10 more. Each 64 bytes that the
     * server sends allow one more.
     */
    double control_frames_per_s_max;
} weft_http_limits;

/*
 * A log record. The server creates a record for each request, after the reply. If the server has
 * rejected the request, reason is not empty. method and target may then be malformed or incomplete.
 */
typedef struct weft_http_record {
    const char *peer;   /* the client's address, see weft_http_peer */
    const char *method; /* "" in this field or the next four: unknown */
    const char *target; /* as received */
    const char *host;
    const char *referer;
    const char *user_agent;
    const char *reason; /* why the server rejected the request; "": the server called the handler */
    int version;        /* 10, 11 or 20; 0: unknown */
    int status;         /* 0: the connection ended before a reply */
    uint64_t bytes;     /* length of the reply's body as sent */
    double seconds;     /* from the first byte of the request to the end of the reply */
} weft_http_record;

/*
 * A function that replies to an error with this status, instead of the server. Returns 0, or an
 * error. If the function returns an error or begins no reply, the server sends its own text, as far
 * as no part of the reply was sent.
 */
typedef int weft_http_error_handler(weft_http_request *request, int status, void *ctx);

/* Options of a server. All-zero is the default. Pointers must be valid until the call returns. */
typedef struct weft_http_options {
    weft_http_limits limits;
    weft_tls *tls;           /* NULL: plain HTTP */
    const char *server_name; /* Server header; NULL: none */
    /*
     * Trusted proxies: "127.0.0.1, 10.0.0.0/8, ::1", or "unix" for all peers of a Unix socket. The
     * server uses the headers in which these proxies describe the client. NULL: none.
     */
    const char *trusted_peers;
    /*
     * Headers that the server uses, separated by commas: X-Forwarded-For, X-Forwarded-Host,
     * X-Forwarded-Proto, Forwarded (RFC 7239). NULL: X-Forwarded-For. Name only headers that the
     * proxy sets or removes, because a proxy forwards all other headers unchanged. A Forwarded
     * header takes precedence if the list names it.
     */
    const char *trusted_headers;
    /*
     * Load balancers that begin each connection with a header of the PROXY protocol, version 1 or
     * 2. The list has the form of trusted_peers. The header names the client of the connection. The
     * server closes a connection from these peers if the header is missing, malformed, longer than
     * 4 KiB, or not complete after first_byte_s. Other peers are clients and send no header. With
     * TLS, the header precedes the handshake. NULL: none.
     */
    const char *proxy_protocol_peers;
    int gzip_level;     /* 1 to 9: compress suitable replies for clients that accept gzip; 0: off */
    size_t stack_bytes; /* of the fiber of a connection or request; 0: the default */
    double drain_s;     /* time for requests in progress after a cancellation; 0: 10 */
    /*
     * Time before the drain in which connections may still send a request, if another process
     * accepts on the same socket meanwhile: 0. The server ends each connection of HTTP/1 after its
     * next reply. A connection that was accepted shortly before therefore loses no request.
     */
    double settle_s;
    bool has_no_http2; /* refuse HTTP/2; alpn of tls must then not contain "h2" */
    /*
     * Leave the path as received: weft_http_path neither decodes nor resolves it. The server then
     * accepts every path that the protocol allows, also with an encoded slash. For handlers that
     * pass the path to another program, for example an application server.
     */
    bool has_raw_path;
    bool closes_listener; /* weft_http_serve_fd closes the socket when it stops accepting */
    void (*log)(const weft_http_record *record, void *ctx); /* NULL: no log */
    void *log_ctx;
    /*
     * Replies to errors that handlers return, and to weft_http_reply_status with a status of 400 or
     * more. The server itself replies to requests that it rejects. NULL: the server sends a text.
     * See weft_http_reply_error_page in http_files.h for pages in files.
     */
    weft_http_error_handler *error_page;
    void *error_page_ctx;
} weft_http_options;

WEFT_END

#endif
