/*
 * The internals of WebSocket connections.
 *
 *     ws.c         options, new connections, the state of a connection
 *     handshake.c  the key and the subprotocol of a handshake
 *     accept.c     the handshake of a server
 *     connect.c    the handshake of a client
 *     turn.c       fibers write in turns
 *     output.c     write frames
 *     send.c       send messages
 *     input.c      receive frames, join messages
 *     recv.c       wait for input: pings, deadlines, drain
 *     close.c      the close handshake, the end of a connection
 *     serve.c      connections without a fiber
 *     frame.c      headers and masks of frames
 *     deflate.c, extension.c, utf8.c
 *     none.c       a build without wslay
 *
 * A connection reads and writes a weft_stream. The stream belongs to a request of a server or to a
 * fetch of a client. All functions run in fibers of one thread. A connection uses libweft only
 * through its public API.
 */
#ifndef WEFT_WS_WS_H
#define WEFT_WS_WS_H

#include "base/buffer.h"
#include "http/message/ws_key.h"
#include "http/rest/rest.h"
#include "http/text/field.h"
#include "ws/deflate.h"
#include "ws/frame.h"
#include "ws/utf8.h"

#include <weft/scope.h>
#include <weft/stream.h>
#include <weft/sync.h>
#include <weft/ws.h>

/* The fields of the handshake have this prefix. */
#define WEFT__WS_FIELD_PREFIX "Sec-WebSocket-"

/* The maximum length of the reason in a close frame. */
#define WEFT__WS_REASON_BYTES_MAX (WEFT__WS_CONTROL_BYTES_MAX - 2)

/* The time for the close frame of a connection that a cancelled fiber ends, in seconds. */
#define WEFT__WS_FREE_S 0.1

/* Masks of a client, in batches, because getrandom(2) is a system call. */
typedef struct weft__ws_masks {
    uint8_t keys[16][WEFT__WS_KEY_BYTES];
    unsigned left; /* unused keys, from the start */
} weft__ws_masks;

/* A control frame that waits until it can be written. */
typedef struct weft__ws_control {
    bool is_set;
    uint8_t bytes;
    uint8_t data[WEFT__WS_CONTROL_BYTES_MAX];
} weft__ws_control;

/* The message and the frame that are being received. */
typedef struct weft__ws_input {
    weft__buffer message; /* decompressed; after the last frame, it has a NUL */
    /* The last message of weft_ws_recv, while weft_ws_close receives and discards others. */
    weft__buffer delivered;
    weft__ws_frame frame;
    uint64_t left;         /* missing bytes of the frame's payload */
    size_t useless_frames; /* frames of the message that have added nothing */
    weft__utf8 utf8;       /* the state of a text */
    uint8_t opcode;        /* of the message; 0: no message has begun */
    bool is_compressed;    /* the message is compressed */
    bool has_compressed;   /* a compressed byte of the message has arrived */
    bool has_frame;        /* frame is set, and its payload is incomplete */
    bool has_output;       /* the frame has added bytes to the message */
    uint8_t control_bytes;
    uint8_t control[WEFT__WS_CONTROL_BYTES_MAX]; /* the payload of a control frame */
    weft__ws_control pong;                       /* the answer to the last ping */
} weft__ws_input;

/* The options of a connection. Connections of a thread with the same options share them. */
typedef struct weft__ws_settings {
    size_t frame_bytes_max;
    size_t message_bytes_max;
    size_t deflate_bytes_min;
    double ping_s;
    double pong_s;
    double close_s;
    double send_s;
    size_t users; /* connections */
} weft__ws_settings;

/* The state of a connection that fibers use. A connection at rest has none. */
typedef struct weft__ws_live {
    weft_stream *stream;
    weft_http_request *request; /* NULL: client, or weft_ws_serve */
    weft_fetch *fetch;          /* NULL: server */
    weft__ws_masks *masks;      /* NULL: server */
    weft__ws_input *input;      /* NULL: no message is arriving, and no fiber receives */
    char *close_reason;         /* of the peer's close frame; NULL: none */

    /* Output. A fiber that has its turn owns out. */
    weft__buffer out;       /* a frame that is compressed or masked, or the rest of a frame */
    size_t out_at;          /* bytes of out that are sent */
    weft_fiber writer;      /* the fiber that has its turn, or WEFT__WS_PASSED_*; 0: none */
    weft_fiber author;      /* the fiber that has begun a message with parts; 0: none */
    weft_cond turn;         /* fibers that wait to send a message */
    weft_cond urgent;       /* fibers that wait to send a control frame or the next part */
    weft_scope *send_scope; /* around a blocking write; NULL: none */
    int send_failure;       /* the error that ended the output; 0: none */
    weft__utf8 send_utf8;   /* the state of a text with parts */
    uint8_t send_opcode;    /* of the message with parts; 0: none */
    bool is_send_compressed;
    bool wants_ping;    /* a ping waits until it can be written */
    bool has_unflushed; /* the stream may have output that no fiber is flushing */
    bool has_flusher;   /* a fiber that flushes is on the run queue */

    /* Input. */
    bool has_large_buffer;      /* the input buffer of the stream has its default size */
    bool is_discarding;         /* receiver is in weft_ws_close and discards messages */
    weft_fiber receiver;        /* the fiber that receives; 0: none */
    weft_fiber receiver_before; /* the fiber that has received last; 0: none */
    weft_scope *recv_scope;     /* around the wait of receiver; NULL: none */
    weft_fiber server;          /* the fiber of weft_ws_serve; 0: none */

    /* The end. */
    weft_cond changed;       /* fibers that wait for a change of users, or for the end */
    double close_deadline_s; /* on the clock of weft_now; valid if is_close_sent is set */
} weft__ws_live;

/* A connection. At rest, only this part and deflate remain. */
struct weft_ws {
    weft__upgraded upgraded;      /* of weft_ws_serve, if is_served is set */
    const weft_ws_events *events; /* NULL: no weft_ws_serve */
    void *ctx;
    weft__ws_settings *settings;
    weft__ws_live *live;       /* NULL: at rest */
    weft__ws_deflate *deflate; /* NULL: no compression */
    uint32_t users;            /* fibers in a call with this connection */
    int failure;               /* the result of all further calls; 0: none */
    uint16_t close_code;       /* of the peer's close frame */
    uint16_t failure_code;     /* the close code of a failure; 0: do not send a close frame */
    bool is_stalled; /* the peer does not accept output, or does not answer: reset the connection */
    bool is_close_sent;
    bool is_close_received;
    bool is_served;  /* the connection can rest */
    bool is_open;    /* on_open has succeeded, and on_close was not called */
    bool has_begun;  /* on_open was called */
    bool is_pinged;  /* a connection at rest has sent a ping, and no input has followed */
    char protocol[]; /* "" if none */
};

static inline bool weft__ws_is_client(const weft_ws *ws)
{
    return ws->live->masks != NULL;
}

/* The turn belongs to a fiber that was woken and has not run yet. */
#define WEFT__WS_PASSED_TURN ((weft_fiber)-1)
#define WEFT__WS_PASSED_URGENT ((weft_fiber)-2)

/* ws.c */

/*
 * Check options. After an error, weft_error() returns the message. Returns 0, or:
 * -EINVAL if an option is invalid
 */
int weft__ws_options_check(const weft_ws_options *options);

/*
 * Create a connection without a stream. params is NULL without compression. protocol.at is NULL
 * without a subprotocol. Returns NULL if memory is exhausted.
 */
weft_ws *weft__ws_new(const weft_ws_options *options, const weft__ws_deflate_params *params,
                      weft__span protocol, bool is_client);

/* Free the memory of a connection that no fiber uses. */
void weft__ws_delete(weft_ws *ws);

/*
 * Enter and leave a call, so that the connection exists until the end of the call. Returns 0, or:
 * -EBADF if the connection is closed
 * -ENOMEM if memory for the stream of a connection at rest is exhausted
 */
int weft__ws_enter(weft_ws *ws);
void weft__ws_leave(weft_ws *ws);

/* Create the state of a connection, unless it exists. Returns 0 or -ENOMEM. */
int weft__ws_live_open(weft_ws *ws);

/* Free the state of a connection. */
void weft__ws_live_close(weft_ws *ws);

/*
 * Use a small or a large input buffer, in a server. Most messages are short, and many connections
 * wait at the same time.
 */
void weft__ws_set_buffer(weft_ws *ws, bool is_large);

/* Release memory that is not necessary while the connection is silent. */
void weft__ws_release_memory(weft_ws *ws);

/* Make all further calls return error. Wake the fibers in calls. */
void weft__ws_end(weft_ws *ws, int error);

/* Wake the fiber that waits for input, so that it notices a change. */
void weft__ws_wake_receiver(weft_ws *ws);

/* handshake.c */

/* Return whether a key is the base64 code of 16 bytes. */
bool weft__ws_key_is_valid(const char *key);

/* Return whether a list of subprotocols contains only tokens. */
bool weft__ws_protocols_are_valid(const char *list);

/* Return whether no subprotocol occurs twice in a list. */
bool weft__ws_protocols_differ(const char *list);

/*
 * Find the first subprotocol of the list wanted that the list offered contains. at is NULL if there
 * is none.
 */
weft__span weft__ws_protocols_choose(const char *wanted, const char *offered);

/* turn.c */

/*
 * Wait for the turn to write. An urgent fiber passes fibers that wait to send a message. Returns 0,
 * the error that ended the wait, the failure of the connection, or:
 * -EPIPE if a close frame was sent or received, and the caller is not urgent
 */
int weft__ws_turn_take(weft_ws *ws, bool is_urgent);

/* Pass the turn to the next fiber. */
void weft__ws_turn_release(weft_ws *ws);

/* Return whether a control frame waits until it can be written. */
static inline bool weft__ws_has_pending(const weft_ws *ws)
{
    return ws->live->wants_ping || (ws->live->input != NULL && ws->live->input->pong.is_set);
}

/* output.c. The caller has the turn, unless a comment states otherwise. */

/*
 * Write a frame. If the call is cancelled after a part, the next call writes the rest, and this
 * call returns 0. Returns 0, or an error. If the call fails with -ECANCELED, it has written
 * nothing.
 */
int weft__ws_write_frame(weft_ws *ws, uint8_t opcode, uint8_t rsv, bool is_final, const void *data,
                         size_t bytes);

/*
 * Write the frame whose payload is in out, from its byte WEFT__WS_HEADER_BYTES_MAX on. The call
 * takes the frame, even if it is cancelled. Returns 0, or an error.
 */
int weft__ws_write_out(weft_ws *ws, uint8_t opcode, uint8_t rsv, bool is_final);

/* Write the rest of an earlier frame. If the call fails, the rest remains. */
int weft__ws_write_rest(weft_ws *ws);

/* Write the rest of an earlier frame, and control frames that wait. Send all output. */
int weft__ws_flush(weft_ws *ws);

/*
 * Write control frames that wait, without blocking. If a fiber has the turn, that fiber writes
 * them. The caller need not have the turn.
 */
void weft__ws_write_pending(weft_ws *ws);

/* Flush in this fiber, unless another fiber is writing, which then flushes. */
int weft__ws_flush_unless_busy(weft_ws *ws);

/* input.c */

/*
 * Receive frames until a message is complete. Returns 1, 0 if a close frame has arrived, or an
 * error. If the peer is to blame, ws->failure_code is set.
 */
int weft__ws_receive(weft_ws *ws, weft_ws_message *message);

/* Free the memory of the input, unless a message or frame is incomplete. */
void weft__ws_input_release(weft_ws *ws);

/* recv.c */

/*
 * A result of a wait or of weft__ws_recv_entered: the connection can rest (serve.c). Like all
 * results below -4095, it is not an errno, so that a transport cannot return it.
 */
#define WEFT__WS_CAN_REST (-10000)

/* Input that the receiver needs. */
typedef struct weft__ws_want {
    size_t bytes; /* the bytes that the stream must hold; or the room at data */
    char *data;   /* read to this memory; NULL: do not take the input */
} weft__ws_want;

/*
 * Wait for input. Send what waits to be sent, pings, and a close frame if the server drains.
 * Returns the number of bytes, 0 at the end of the input, WEFT__WS_CAN_REST, or an error.
 */
ssize_t weft__ws_await(weft_ws *ws, const weft__ws_want *want);

/*
 * Like weft_ws_recv, but the caller has entered and is ws->live->receiver. Returns also
 * WEFT__WS_CAN_REST.
 */
int weft__ws_recv_entered(weft_ws *ws, weft_ws_message *message);

/* serve.c */

/* Enter and leave a call with a connection of weft_ws_serve. See weft__ws_enter. */
int weft__ws_served_enter(weft_ws *ws);
void weft__ws_served_leave(weft_ws *ws);

/* Wake the fiber of a connection, or create it, because the connection must end. */
void weft__ws_served_wake(weft_ws *ws);

/* Return whether the server drains. A fiber of the connection must run. */
bool weft__ws_served_is_draining(const weft_ws *ws);

/* Let the drain and weft__ws_served_wake cancel a scope. NULL: none. */
void weft__ws_served_set_scope(weft_ws *ws, weft_scope *scope);

/* close.c */

/*
 * Send a close frame, unless one was sent. If code is 0, the frame has no code. Returns 0 or an
 * error.
 */
int weft__ws_send_close(weft_ws *ws, int code, const char *reason, size_t reason_bytes);

/* Return whether a close frame may contain this code (RFC 6455, 7.4). */
bool weft__ws_code_is_valid(int code);

/* End a connection with an error. If failure_code is set, first send a close frame. */
int weft__ws_fail(weft_ws *ws, int error);

#endif
