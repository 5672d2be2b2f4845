/*
 * WebSocket (RFC 6455), server and client, over HTTP/1.1 and HTTP/2 (RFC 8441).
 *
 *     static int echo(weft_http_request *r, void *ctx)
 *     {
 *         weft_ws *ws;
 *         weft_ws_message m;
 *         (void)ctx;
 *         int rc = weft_ws_accept(r, NULL, &ws);
 *         while (rc >= 0 && (rc = weft_ws_recv(ws, &m)) > 0)
 *             rc = weft_ws_send(ws, m.kind, m.data, m.bytes);
 *         weft_ws_free(ws);
 *         return rc;
 *     }
 *
 * One fiber at a time receives. Any number of fibers may send. All fibers must belong to one
 * thread. The frames of two messages never interleave.
 *
 * weft_ws_recv does more than return messages. The call answers pings, sends pings to a silent
 * peer, answers the peer's close, joins fragments, checks UTF-8 and decompresses. A fiber should
 * therefore always be in weft_ws_recv, or return to it soon. While no fiber receives, the library
 * does not notice that the peer has left, until a send fails.
 *
 * A call that is cancelled loses no message. The connection remains usable: a message of which a
 * part was sent is completed by the next call, and the cancelled send returns 0. A message is
 * therefore sent as a whole or not at all.
 *
 * If the peer violates the protocol or a limit, the library sends a close frame with the code that
 * the comments below name. The connection has then failed: all further calls return the error.
 *
 * When the HTTP server drains, a connection in weft_ws_recv is closed with WEFT_WS_GOING_AWAY.
 * weft_ws_recv then returns 0 or an error, and the handler ends.
 *
 * In a build of weft without wslay, calls that open a connection return -ENOTSUP.
 */
#ifndef WEFT_WS_H
#define WEFT_WS_H

#include <weft/base.h>
#include <weft/fetch.h>
#include <weft/http.h>

WEFT_BEGIN

/* A WebSocket connection. */
typedef struct weft_ws weft_ws;

/* The kind of a message. */
typedef enum weft_ws_kind { WEFT_WS_TEXT = 1, WEFT_WS_BINARY = 2 } weft_ws_kind;

/* A received message. */
typedef struct weft_ws_message {
    weft_ws_kind kind;
    const char *data; /* ends with a NUL that bytes does not count; valid until the next receive */
    size_t bytes;
} weft_ws_message;

/*
 * Close codes (RFC 6455, 7.4.1). No frame contains NO_CODE and ABNORMAL. Applications may use 3000
 * to 4999.
 */
typedef enum weft_ws_code {
    WEFT_WS_NORMAL = 1000,
    WEFT_WS_GOING_AWAY = 1001,
    WEFT_WS_PROTOCOL_ERROR = 1002,
    WEFT_WS_UNSUPPORTED = 1003,
    WEFT_WS_NO_CODE = 1005,  /* the peer's close frame has no code */
    WEFT_WS_ABNORMAL = 1006, /* the connection has ended without the peer's close frame */
    WEFT_WS_BAD_DATA = 1007,
    WEFT_WS_POLICY = 1008,
    WEFT_WS_TOO_BIG = 1009,
    WEFT_WS_INTERNAL = 1011,
} weft_ws_code;

/*
 * Options of a connection. All-zero is the default. weft copies the options. INFINITY means no time
 * limit. SIZE_MAX means no limit on a size.
 */
typedef struct weft_ws_options {
    /*
     * Subprotocols in the order of preference: "chat.v2, chat.v1". A server chooses the first one
     * that the client offers. If the client offers none of them, the connection has no subprotocol.
     * NULL: none.
     */
    const char *protocols;
    /*
     * Server: the origins whose pages may connect, "https://a.example, https://b.example". "*": any
     * origin. NULL: only the origin of the request itself, which is its scheme, host and port. A
     * request without Origin passes, because only browsers send Origin.
     */
    const char *origins;
    size_t frame_bytes_max;   /* of a received frame: 1 MiB; close with TOO_BIG */
    size_t message_bytes_max; /* of a received message, decompressed: 1 MiB; close with TOO_BIG */
    double ping_s;            /* send a ping after this time without input: 30 */
    double pong_s;            /* end the connection if no input follows a ping in this time: 20 */
    /*
     * Time of a close handshake: 5. The time starts when the close frame is sent. Afterwards the
     * connection is closed without the peer's close frame.
     */
    double close_s;
    /*
     * End the connection if the peer does not accept 64 KiB of output, or the rest of the output,
     * in this time: 20.
     */
    double send_s;
    bool has_no_deflate; /* do not negotiate compression (permessage-deflate, RFC 7692) */
    /*
     * Compress each message alone, in both directions. Messages become longer, but the connection
     * holds no memory for compression between messages. Otherwise a connection that has received a
     * compressed message needs at most 32 KiB, and at most 300 KiB while messages arrive.
     */
    bool has_no_context_takeover;
    int deflate_level;        /* 1 to 9, 0: 6 */
    int deflate_window_bits;  /* of sent messages, 9 to 15, 0: 15 */
    size_t deflate_bytes_min; /* send shorter messages uncompressed: 64 */
    /* Client: additional fields of the request. Server: of the reply. */
    const weft_fetch_field *fields;
    size_t fields_count;
} weft_ws_options;

/**
 * Accept the WebSocket connection that a request asks for, in its handler.
 *
 * If options is NULL, the defaults apply. The caller frees *ws before the handler returns.
 *
 * On failure, *ws is NULL, and the call has replied if a reply is possible. The handler then
 * returns the error.
 *
 * Returns 0, an error of the connection, or:
 * -EACCES if the origin of the request is not allowed; the reply is 403
 * -EALREADY if the reply has begun
 * -EINVAL if an option is invalid; the call has not replied
 * -EINVAL if request is not a valid WebSocket handshake; the reply is 400, 405 or 426
 * -ENOMEM if memory is exhausted
 * -ENOTSUP if weft was built without WebSocket; the reply is 501
 * -EPERM if fields has a field that the handshake or the server itself sets
 */
WEFT_SWITCHPOINT int weft_ws_accept(weft_http_request *request, const weft_ws_options *options,
                                    weft_ws **ws);

/**
 * Open a WebSocket connection to a server.
 *
 * The scheme of url is ws, wss, http or https. The client does not follow redirects. The client
 * uses the proxies that the environment names, as weft_fetch_send does. If fetcher is NULL, the
 * call uses the default client of the thread. fetcher must outlive the connection. If options is
 * NULL, the defaults apply. The caller frees *ws.
 *
 * Returns 0. On failure, *ws is NULL. Errors in addition to those of weft_fetch_upgrade:
 * -EBADMSG if the server's handshake is invalid
 * -ECONNREFUSED if the server replies with a status that does not open the connection
 * -EINVAL if an option is invalid
 * -EIO if the system has no random bytes
 * -EPERM if fields has a field that the handshake itself sets
 */
WEFT_SWITCHPOINT int weft_ws_connect(weft_fetcher *fetcher, const char *url,
                                     const weft_ws_options *options, weft_ws **ws);

/**
 * Receive a message.
 *
 * A cancelled call loses nothing. After any other error except -EBUSY, the connection has failed,
 * and further calls return that error. After 0, further calls return 0.
 *
 * Returns 1, 0 after the close handshake (see weft_ws_close_code), an error of the connection, or:
 * -EBADMSG if the peer violates the protocol; the close code is PROTOCOL_ERROR or BAD_DATA
 * -EBUSY if another fiber is receiving
 * -ECONNRESET if the connection ends without a close handshake
 * -EMSGSIZE if a frame or a message exceeds its limit; the close code is TOO_BIG
 * -EMSGSIZE if more than 65,536 frames of a message are empty; the close code is POLICY
 * -ENOMEM if memory is exhausted; the close code is INTERNAL
 * -ETIMEDOUT if the peer is silent for ping_s + pong_s seconds, or does not close in close_s
 * seconds
 */
WEFT_SWITCHPOINT int weft_ws_recv(weft_ws *ws, weft_ws_message *message) WEFT_MUST_CHECK;

/**
 * Send a message.
 *
 * Fibers that send at the same time wait for each other in FIFO order. data need not be valid after
 * the call. The library sends the message at once. If more input has already arrived, the library
 * sends the messages of the receiving fiber together, at the latest when that fiber waits.
 *
 * Returns 0, the error of a failed connection, or:
 * -EBUSY if the calling fiber has begun a message with weft_ws_send_part
 * -EINVAL if kind is WEFT_WS_TEXT and data is not UTF-8
 * -EINVAL if kind is invalid
 * -ENOMEM if memory is exhausted
 * -EPIPE if a close frame was sent or received
 * -ETIMEDOUT if the peer does not accept the output in send_s seconds
 */
WEFT_SWITCHPOINT int weft_ws_send(weft_ws *ws, weft_ws_kind kind, const void *data, size_t bytes);

/** Like weft_ws_send, but with text from a printf(3) format. */
WEFT_SWITCHPOINT int weft_ws_printf(weft_ws *ws, const char *format, ...) WEFT_PRINTF(2, 3);

/**
 * Send a part of a message as one frame.
 *
 * The part with is_last ends the message. All parts of a message have the same kind and come from
 * one fiber. The sends of other fibers wait until the message ends. Pongs and a close frame can go
 * between the parts.
 *
 * After -EINVAL and -ENOMEM, the part was not sent, and the message continues. Returns 0, or the
 * errors of weft_ws_send, and:
 * -EINVAL if kind differs from the kind of the first part
 */
WEFT_SWITCHPOINT int weft_ws_send_part(weft_ws *ws, weft_ws_kind kind, const void *data,
                                       size_t bytes, bool is_last);

/**
 * Close a connection: send a close frame, and wait at most close_s seconds for the peer's.
 *
 * code is 1000 to 1003, 1007 to 1014 or 3000 to 4999, or 0 for a frame without code. reason is
 * UTF-8 of at most 123 bytes. NULL: no reason. If a fiber is in weft_ws_recv, that fiber receives
 * the peer's close frame, and still returns the messages before it. Otherwise this call discards
 * these messages. Later sends fail with -EPIPE.
 *
 * If a close frame was already sent, the call only waits. A cancelled call can be repeated.
 *
 * Returns 0 after the close handshake, the error of a failed connection, or:
 * -EINVAL if code or reason is invalid
 * -ETIMEDOUT if the peer's close frame does not arrive in time
 */
WEFT_SWITCHPOINT int weft_ws_close(weft_ws *ws, int code, const char *reason);

/**
 * Free a connection. If ws is NULL, the call does nothing.
 *
 * The call closes a connection that is still open with WEFT_WS_GOING_AWAY. After a close frame, a
 * client waits at most close_s seconds until the server has ended the connection. If the caller is
 * cancelled, the call does not wait for the peer. The calls of other fibers with ws fail with the
 * error EBADF. This call returns after those calls. No fiber may use ws afterwards.
 */
WEFT_SWITCHPOINT void weft_ws_free(weft_ws *ws);

/**
 * Return the code of the peer's close frame.
 *
 * Returns WEFT_WS_NO_CODE if the frame has no code, WEFT_WS_ABNORMAL if the connection has ended
 * without the frame, or 0 while the connection is open.
 */
WEFT_API int weft_ws_close_code(const weft_ws *ws);

/** Return the reason in the peer's close frame. Returns "" if there is none. */
WEFT_API const char *weft_ws_close_reason(const weft_ws *ws);

/** Return the subprotocol that both sides have agreed on. Returns "" if there is none. */
WEFT_API const char *weft_ws_protocol(const weft_ws *ws);

/*
 * Functions for connections that need no fiber while they are silent. on_open and on_close may be
 * NULL. An idle connection of weft_ws_serve needs less than 1 KB, a fiber in weft_ws_recv about 5.
 */
typedef struct weft_ws_events {
    /* The connection is open. An error closes the connection with INTERNAL. */
    int (*on_open)(weft_ws *ws, void *ctx);
    /* A message has arrived. message is valid until the return. An error closes with INTERNAL. */
    int (*on_message)(weft_ws *ws, const weft_ws_message *message, void *ctx);
    /*
     * The connection has ended. The library calls on_close once, if on_open has succeeded, and
     * frees ws afterwards. No other fiber may use ws after on_close has returned. Blocking calls in
     * on_close may fail.
     */
    void (*on_close)(weft_ws *ws, void *ctx);
} weft_ws_events;

/**
 * Accept a WebSocket connection, and call a function for each event.
 *
 * The call accepts the connection like weft_ws_accept.
 *
 * The handler returns the result of this call, and does not use request afterwards. The call may
 * return before the connection ends. events and ctx must then remain valid until on_close returns.
 *
 * The functions run one after the other, in a fiber that may differ from call to call. The library
 * receives. The functions and other fibers may send, and call weft_ws_close, until on_close
 * returns. weft_ws_close in one of these functions does not wait for the peer.
 *
 * Returns 0, the errors of weft_ws_accept, or:
 * -EINVAL if events or on_message is NULL; the call has not replied
 */
WEFT_SWITCHPOINT int weft_ws_serve(weft_http_request *request, const weft_ws_options *options,
                                   const weft_ws_events *events, void *ctx);

WEFT_END

#endif
