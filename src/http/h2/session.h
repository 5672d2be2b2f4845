/*
 * An HTTP/2 connection (RFC 9113) over a weft_stream, for servers and clients. A session frames,
 * checks the protocol and has fibers: reads and writes that wait, flow control that follows the
 * reader, and one writer of the connection. nghttp2 compresses heads (HPACK). docs/adr/0064 says
 * why the session does not use nghttp2 for frames.
 *
 *     session.c     open, close, GOAWAY; the loop of the reader
 *     input.c       divide the input into frames
 *     head_in.c     HEADERS and CONTINUATION frames of the peer
 *     message.c     the rules for the fields of a message
 *     data_in.c     DATA frames of the peer, windows for the input
 *     control_in.c  all other frames of the peer
 *     settings.c    SETTINGS of both ends
 *     frame_out.c   write frames to the output
 *     schedule.c    DATA frames to the output, by priority (RFC 9218) and windows
 *     output.c      write the output to the connection
 *     stream.c      streams: ids, heads, resets, the end
 *     body_in.c     read the body of a stream
 *     body_out.c    write the body of a stream
 *     linger.c      streams whose reply has ended before the request
 *     transport.c   a weft_stream over a stream of a session
 *     internal.h    frames, and functions that these files share
 *     state.h       private parts of the state
 *
 * The owner is the server or the client. The owner embeds sessions and streams in its own structs.
 *
 * Fibers. One fiber, the reader, calls weft__h2_session_step in a loop. For each stream, at most
 * one fiber reads, and at most one fiber writes. All fibers belong to one thread. The reader waits
 * at most WEFT__H2_BRIEF_S until the peer reads. Otherwise two peers could wait for each other.
 *
 * Input. The reader of a server lets the fiber of a request run when the head is complete, before
 * it reads the next head. A short request then ends before the next one begins, and the
 * next one uses the same memory, which is in the CPU cache (docs/adr/0064).
 *
 * Output. Calls that write move frames to the output buffer of the session at once, if the buffer
 * has space. The reader sends the output of all fibers together after it has handled the input. If
 * the reader waits, or the buffer is full, the first call that writes spins another fiber, the
 * writer, behind all runnable fibers. The writer ends when no output is left. The writer is a child
 * of the reader. If the peer does not take the output of the reader in that time, a writer
 * continues.
 *
 * Flow control. Input is buffered per stream, at most the window of the stream. The session opens
 * the window of a stream again when its fiber has read the bytes, and the window of the connection
 * at once. A slow reader therefore holds back its own stream only. If the input of all streams
 * exceeds buffered_bytes_max, the window of the connection stays closed until fibers have read. A
 * fiber that reads several streams one after another could then wait indefinitely. Owners that
 * cannot exclude this set buffered_bytes_max to SIZE_MAX.
 */
#ifndef WEFT_HTTP_H2_SESSION_H
#define WEFT_HTTP_H2_SESSION_H

#include "base/list.h"
#include "http/h2/state.h"

#include <weft/stream.h>
#include <weft/sync.h>

#include <nghttp2/nghttp2.h>

typedef struct weft__h2_session weft__h2_session;
typedef struct weft__h2_stream weft__h2_stream;

/*
 * The reader writes output itself, because a fiber costs more than a short write. If the peer does
 * not take the output in this time, a writer continues, so that the reader can read.
 */
#define WEFT__H2_BRIEF_S 0.01

/* The kind of a head that has arrived. */
typedef enum weft__h2_head {
    WEFT__H2_REQUEST,
    WEFT__H2_INTERIM,  /* a response with a status below 200; another head follows */
    WEFT__H2_RESPONSE, /* the final response */
    WEFT__H2_TRAILERS,
} weft__h2_head;

/*
 * What the session tells its owner. on_close can happen in any call that gets a session or a
 * stream, for every stream. All other events happen in weft__h2_session_step. The functions must
 * not switch. They may spin fibers and call functions of this file that do not switch. NULL: the
 * owner does not need the event. A server needs on_open.
 */
typedef struct weft__h2_events {
    /*
     * The peer opens a stream. Returns the record for the stream, which the session initialises.
     * Returns NULL to refuse the stream (REFUSED_STREAM, the peer may repeat the request).
     */
    weft__h2_stream *(*on_open)(weft__h2_session *s, int32_t id);
    /*
     * A field of the head that is arriving, pseudo fields included. name and value end with a NUL,
     * and are valid during the call. Names are in lower case. An error resets the stream with
     * INTERNAL_ERROR. The session drops the fields of a head that is_head_too_large.
     */
    int (*on_field)(weft__h2_session *s, weft__h2_stream *st, const char *name, size_t name_bytes,
                    const char *value, size_t value_bytes);
    /* A head is complete. is_remote_ended of st shows whether the stream has no (further) body. */
    void (*on_head)(weft__h2_session *s, weft__h2_stream *st, weft__h2_head kind);
    /* Bytes of a body have arrived and are buffered. */
    void (*on_data)(weft__h2_session *s, weft__h2_stream *st, size_t bytes);
    /*
     * The stream has ended in both directions, or was reset, or the session has failed. A head may
     * be incomplete. The waiting fibers of the stream are runnable. The session does not use st
     * after this call, but fibers may read and write st until weft__h2_stream_close. If no fiber
     * uses st, the function may close and free st. Not called after weft__h2_stream_close.
     */
    void (*on_close)(weft__h2_session *s, weft__h2_stream *st);
    /*
     * The peer has closed its side of the connection. Streams whose requests are incomplete have
     * ended. The peer may still read the replies to the others.
     */
    void (*on_input_end)(weft__h2_session *s);
    /* SETTINGS of the peer have arrived. */
    void (*on_settings)(weft__h2_session *s);
    /*
     * GOAWAY has arrived. For each own stream above last_id, on_close follows with the code
     * REFUSED_STREAM. The peer has not processed such a stream.
     */
    void (*on_goaway)(weft__h2_session *s, int32_t last_id, uint32_t code);
    /* The reply to weft__h2_session_ping has arrived. */
    void (*on_pong)(weft__h2_session *s);
    /*
     * Write output to the stream of the connection, and flush it. Unlike the events, this function
     * may switch. If is_brief of the session is set, the call fails with -ECANCELED or -ETIMEDOUT
     * if the peer takes no bytes in WEFT__H2_BRIEF_S. Returns the number of bytes taken, at least
     * 1, or an error. NULL: the session calls weft_stream_write.
     */
    ssize_t (*write)(weft__h2_session *s, const void *data, size_t bytes);
} weft__h2_events;

/* Options of a session. All-zero is the default. */
typedef struct weft__h2_options {
    bool is_client;
    bool allows_connect;  /* server: accept extended CONNECT (RFC 8441) */
    bool is_daemon;       /* the writer is a daemon */
    uint32_t streams_max; /* open streams of the peer; 0: 100 */
    /* The window of a new stream; 0: 64 KiB. */
    uint32_t stream_window_bytes;
    /* The window of a stream grows up to this size while its reader is fast; 0: 1 MiB. */
    uint32_t stream_window_bytes_max;
    uint32_t connection_window_bytes; /* 0: 1 MiB */
    size_t buffered_bytes_max;        /* unread input of all streams; 0: 8 MiB */
    /* Limits of a head: the sum of names, values and 32 bytes per field, and the fields. */
    uint32_t head_bytes_max; /* 0: 64 KiB */
    uint32_t fields_max;     /* 0: 256 */
    /* A stream buffers this many bytes of its unsent body before a write waits; 0: 16 KiB. */
    size_t unsent_bytes_max;
    /*
     * Server: a stream whose reply has ended before the request stays open for this time, without
     * its record; 0: it ends at once. If set, the owner calls weft__h2_session_linger_end.
     */
    double linger_s;
    /* Fail with -ETIMEDOUT if the peer does not accept a buffer of output in this time; 0: none. */
    double write_s;
} weft__h2_options;

/* Kinds of frames in weft__h2_counts. The first ones are those of nghttp2_frame_type. */
enum {
    WEFT__H2_FRAMES_OTHER = NGHTTP2_CONTINUATION + 1, /* extension frames; not unknown ones */
    WEFT__H2_FRAME_KINDS,
};

/* What the peer has sent so far. The owner uses the counts to detect abuse. */
typedef struct weft__h2_counts {
    uint64_t frames[WEFT__H2_FRAME_KINDS]; /* by type */
    uint64_t empty_data;                   /* DATA without a byte of a body, without END_STREAM */
    uint64_t opened;                       /* streams that the peer has opened, also refused ones */
    uint64_t refused;       /* streams that on_open has refused, or above too much output */
    uint64_t early_refused; /* streams above the limit before the peer has seen it, bounded */
    uint64_t settings_acks; /* SETTINGS with ACK */
    uint64_t pongs;         /* PING with ACK */
    uint64_t bad_frames;    /* frames that violate the protocol, each an error of its stream */
} weft__h2_counts;

/* Streams that linger. See linger.c. */
typedef struct weft__h2_lingering weft__h2_lingering;

/* A connection. The owner may read the fields above "private". */
struct weft__h2_session {
    void *ctx; /* for the owner; set before weft__h2_session_open */
    weft_stream *stream;
    int failure; /* the error that ended the connection; 0: none */
    bool is_client;
    bool is_going_away; /* GOAWAY was sent or received, or the session has failed: no new streams */
    uint32_t goaway_code; /* of the GOAWAY that has arrived */
    weft__list streams;   /* weft__h2_stream.node, oldest first */
    size_t streams_count;
    size_t buffered_bytes; /* unread input of all streams */
    uint64_t sent_bytes;   /* bytes that the connection has taken */
    uint64_t received_bytes;
    weft__h2_counts counts;

    /* private */
    nghttp2_hd_inflater *inflater; /* NULL: the session is not open */
    nghttp2_hd_deflater *deflater;
    const weft__h2_events *events;
    weft__h2_options options; /* with the defaults filled in */
    weft_fiber reader;        /* the fiber of the last step; 0: none */
    weft__h2_stream *last;    /* the stream of the last event, to save lookups; NULL: none */
    weft__h2_stream *buckets[WEFT__H2_BUCKETS]; /* all streams, by id; linked by next_in_bucket */
    weft__h2_input_state in;
    weft__h2_head_in head;
    weft__h2_inflow inflow;
    weft__h2_peer_settings peer;
    int64_t send_window;                  /* bytes that the peer accepts on all streams */
    weft__list ready[WEFT__H2_URGENCIES]; /* weft__h2_stream.ready_node, see schedule.c */
    size_t ready_count;                   /* streams in ready */
    int32_t next_id;                      /* client: of the next stream */
    int32_t last_id;                      /* server: the last stream that the client has opened */
    int32_t processed_id;                 /* server: the last stream that on_open got */
    int32_t goaway_id;                    /* of the last GOAWAY of the peer; INT32_MAX: none */
    int32_t early_id;                     /* stream of a priority that came first; 0: none */
    weft__h2_priority early_priority;
    weft__h2_ids closed; /* server: streams that have ended */
    weft__h2_ids resets; /* server: streams for which RST_STREAM was sent */
    weft__buffer fill;   /* frames that no call writes yet */
    weft__buffer send;   /* frames that the writer is writing */
    size_t unconsumed;   /* bytes that buffered_bytes_max withholds from the connection window */
    weft__h2_lingering *lingering; /* NULL: none */
    weft_fiber writer;             /* 0: none, or not begun */
    weft_cond written;             /* the writer has written all output */
    size_t send_at;                /* bytes of send that are written */
    bool is_in_input;              /* the session is handling input: gather output later */
    bool is_waiting;               /* the reader waits for input */
    bool is_nudged;                /* weft__h2_session_nudge has ended the wait of the reader */
    bool is_writing;               /* a writer exists */
    bool is_feeding;               /* the reader handles input, then writes: spin no writer */
    bool is_brief;                 /* the reader writes */
    bool has_request;              /* the last input has completed the head of a request */
    bool must_write;               /* no writer could be created: the reader must write */
    bool is_output_closed;         /* a write has failed: discard all output */
    bool has_notice;               /* the shutdown notice was sent */
    bool has_input_ended;          /* the peer has closed its side of the connection */
    bool has_new_deadline;         /* weft__h2_session_linger_end_s has changed: end the step */
    bool is_goaway_sent;
    bool is_goaway_received;
    bool is_terminated;      /* GOAWAY for an error was sent: ignore all input */
    bool has_new_table;      /* the next head must begin with the size of the dynamic table */
    bool has_settings;       /* SETTINGS of the peer have arrived */
    bool are_settings_known; /* the peer has acknowledged the settings */
};

/* A part of the input of a stream. */
typedef struct weft__h2_chunk weft__h2_chunk;

/* A stream. The owner may read the fields above "private". */
struct weft__h2_stream {
    weft__h2_session *session; /* NULL: closed by the owner */
    int32_t id;
    int status;             /* client: of the last head; 0: none */
    uint32_t code;          /* of RST_STREAM, or why the stream ended; NGHTTP2_NO_ERROR: regular */
    bool is_remote_ended;   /* END_STREAM has arrived; buffered input may remain */
    bool is_local_ended;    /* END_STREAM is in the output */
    bool is_closed;         /* the stream has ended */
    bool is_reset_by_peer;  /* RST_STREAM has arrived */
    bool is_head_too_large; /* the last head exceeded a limit; its last fields are dropped */

    /* private */
    weft__list node;       /* in streams of the session */
    int error;             /* result of further reads and writes; 0: none */
    bool is_shut;          /* the weft_stream over the stream is closed */
    bool is_write_stopped; /* weft__h2_stream_stop_write was called */
    bool is_reset;         /* the owner has reset the stream */
    bool has_status;       /* the head that is arriving has a status */
    bool has_body;         /* the head is sent, and a body follows */
    bool is_ready;         /* in a list of streams with output */
    bool has_final_head;   /* the head of a request, or a final response, has arrived */
    bool is_bodiless;      /* client: the response has no body, whatever its length */
    bool is_connect;       /* client: the request is a CONNECT */
    bool has_own_priority; /* the owner has set the priority: ignore the peer */
    weft__h2_priority priority;
    uint16_t seen; /* the fields of the head that is arriving, see message.c */
    weft__list ready_node;
    weft__h2_stream *next_in_bucket;
    int64_t send_window; /* bytes that the peer accepts; negative after a change of settings */
    weft__h2_inflow inflow;
    bool is_ending;  /* no bytes follow the ones in held and span */
    bool is_reading; /* a fiber waits for input */
    bool is_writing; /* a fiber is in a call that writes */
    weft_cond readable;
    weft_cond writable;
    weft__h2_chunk *in_first; /* unread input, and first the piece that the reader holds */
    weft__h2_chunk *in_last;
    size_t in_bytes;       /* unread input without the piece */
    size_t piece_bytes;    /* the piece that the reader holds */
    uint32_t window_bytes; /* the window that the session has announced */
    uint32_t window_used;  /* bytes read since the window grew */
    weft__buffer held;     /* unsent body; the bytes before held_at are sent */
    size_t held_at;
    const char *span; /* bytes of a write that waits, after held */
    size_t span_bytes;
    const nghttp2_nv *trailers; /* of weft__h2_stream_end_with; NULL: none */
    size_t trailers_count;
};

/*
 * Sessions.
 */

/*
 * Open a session over a stream, which stays the owner's. The owner sets write_bytes of the stream
 * to 1, because the session buffers output itself, and read_bytes to 16 KiB or more. The first step
 * sends the settings, and the preface of a client. options may be NULL. The call copies options,
 * and does not copy events.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__h2_session_open(weft__h2_session *s, weft_stream *stream, const weft__h2_events *events,
                          const weft__h2_options *options);

/*
 * Free a session. Streams that are still open end with -ECONNRESET and on_close. Cancel the writer
 * and discard output that weft__h2_session_finish has not awaited. The owner must close all streams
 * before it frees the session. Even a cancelled fiber may call the function.
 */
WEFT_SWITCHPOINT void weft__h2_session_close(weft__h2_session *s);

/*
 * Handle input: wait for input, pass all input that has arrived to the streams, and send the
 * output. A server lets other fibers run after each head. The calling fiber becomes the reader. A
 * step that is cancelled has lost nothing. The next step continues, also in another fiber.
 *
 * If the peer closes its side of the connection, a server continues until it has replied to all
 * complete requests.
 *
 * Returns 1, or:
 * 0 if the connection has ended: after GOAWAY or the end of the input, no stream is left
 * -EBADMSG if the peer has violated the protocol; GOAWAY is in the output
 * -ECANCELED if the caller is cancelled
 * -ENOMEM if memory is exhausted
 * another error of the stream, or of the writer
 *
 * After 0 and all errors except -ECANCELED, the session has failed: all streams have on_close.
 */
WEFT_SWITCHPOINT int weft__h2_session_step(weft__h2_session *s);

/*
 * Like weft__h2_session_step, but without waiting, for bytes that the caller has read itself. The
 * caller must call weft__h2_session_step later, or spin a reader.
 */
int weft__h2_session_feed(weft__h2_session *s, const void *data, size_t bytes);

/*
 * Wait until all output is written. Call the function in a scope with a deadline. Output that flow
 * control holds back does not count. Returns 0, the failure of the session, or -ECANCELED.
 */
WEFT_SWITCHPOINT int weft__h2_session_finish(weft__h2_session *s);

/*
 * End the session with an error. Fibers that use its streams wake with this error. on_close of all
 * streams follows in this call. Later calls have no effect.
 */
void weft__h2_session_fail(weft__h2_session *s, int error);

/*
 * Announce the end of the connection, with a GOAWAY that still accepts all streams (RFC 9113, 6.8).
 * Call weft__h2_session_goaway after a round trip, for example after on_pong.
 */
void weft__h2_session_notice(weft__h2_session *s);

/*
 * Send GOAWAY with the last stream of the peer that the session has processed, and a code. Open
 * streams continue. Streams that the peer opens later are ignored. After the last stream,
 * weft__h2_session_step returns 0.
 */
void weft__h2_session_goaway(weft__h2_session *s, uint32_t code);

/* Send GOAWAY with a code, and end the session with an error: see weft__h2_session_fail. */
void weft__h2_session_terminate(weft__h2_session *s, uint32_t code, int error);

/* Send a PING. on_pong follows. */
void weft__h2_session_ping(weft__h2_session *s);

/*
 * In a child of weft_fork, or in a thread whose cord has ended: end the session with -ECONNRESET,
 * and discard its output. Do not wake or await its fibers, because they do not exist any more.
 */
void weft__h2_session_forget(weft__h2_session *s);

/*
 * Return the time at which the first stream that lingers must end, or INFINITY. A step ends when
 * the time becomes shorter.
 */
double weft__h2_session_linger_end_s(const weft__h2_session *s);

/* End the streams that linger and whose time is over at the time now. */
void weft__h2_session_linger_end(weft__h2_session *s, double now);

/* Free the output buffers, if they are empty. Call the function when the connection is idle. */
void weft__h2_session_trim(weft__h2_session *s);

/* Return whether output waits for the connection, or is being written. */
bool weft__h2_session_has_output(const weft__h2_session *s);

/* Return the number of the head of the peer that is incomplete, from 1 on. Returns 0 if none is. */
uint64_t weft__h2_session_head_number(const weft__h2_session *s);

/* Return how many more streams a client may open now. */
size_t weft__h2_session_streams_left(const weft__h2_session *s);

/* Return whether the settings of the peer allow extended CONNECT (RFC 8441). */
bool weft__h2_session_allows_connect(const weft__h2_session *s);

/*
 * Streams. Names of fields must be in lower case. Functions that
 * are not marked as switchpoints never switch.
 *
 * Calls also return:
 * -ECONNRESET if the peer has reset the stream, or the connection has ended
 * -EBADMSG if the peer has violated the protocol on the stream
 * -EMSGSIZE if a head is longer than 1 MiB
 * -EPIPE if the call writes after the end, or after weft__h2_stream_reset
 * another error that ended the session
 */

/*
 * Client: open a stream with a request. If is_end, the request has no body.
 *
 * Returns 0, or:
 * -EAGAIN if the peer allows no further stream now
 * -ENOMEM if memory is exhausted
 * -ESHUTDOWN if the session is going away, or has used all stream ids: open another connection
 */
int weft__h2_stream_open(weft__h2_session *s, weft__h2_stream *st, const nghttp2_nv *fields,
                         size_t count, bool is_end);

/* Server: send an interim response (1xx). Returns 0 or an error. */
int weft__h2_stream_interim(weft__h2_stream *st, const nghttp2_nv *fields, size_t count);

/* Server: send the head of the response. If is_end, no body follows. Returns 0 or an error. */
int weft__h2_stream_head(weft__h2_stream *st, const nghttp2_nv *fields, size_t count, bool is_end);

/*
 * Server: send a response with a whole body and its end. The call copies a short body. It waits for
 * the peer if the body is longer than the unsent limit. Returns 0 or an error. If the call is
 * cancelled, reset the stream.
 */
WEFT_SWITCHPOINT int weft__h2_stream_reply(weft__h2_stream *st, const nghttp2_nv *fields,
                                           size_t count, const void *body, size_t bytes);

/*
 * Write bytes of the body. Wait while more than unsent_bytes_max bytes are unsent. The call copies
 * the bytes once. A call that is cancelled after a part returns the number of bytes taken.
 *
 * Returns the number of bytes taken, or:
 * -EBUSY if another fiber writes
 */
WEFT_SWITCHPOINT ssize_t weft__h2_stream_write(weft__h2_stream *st, const void *data, size_t bytes);

/*
 * Like weft__h2_stream_write, and end the body if the call takes all bytes. The last frame then
 * also has END_STREAM.
 */
WEFT_SWITCHPOINT ssize_t weft__h2_stream_write_last(weft__h2_stream *st, const void *data,
                                                    size_t bytes);

/* Copy the rest of the body, however long, and end the body. Returns 0 or an error. */
int weft__h2_stream_write_later(weft__h2_stream *st, const void *data, size_t bytes);

/*
 * Let calls that write not wait any more. They return -EPIPE, or the number of bytes that they have
 * taken.
 */
void weft__h2_stream_stop_write(weft__h2_stream *st);

/* End the body. Never waits. Returns 0, or -EBUSY if another fiber writes. */
int weft__h2_stream_end(weft__h2_stream *st);

/* End the body with trailers. Wait until the body is sent. Returns 0 or an error. */
WEFT_SWITCHPOINT int weft__h2_stream_end_with(weft__h2_stream *st, const nghttp2_nv *fields,
                                              size_t count);

/*
 * Wait until the body, and its end if it has ended, is in the output of the connection. Flow
 * control can delay this. Returns 0 or an error.
 */
WEFT_SWITCHPOINT int weft__h2_stream_finish(weft__h2_stream *st);

/*
 * Return the next piece of the body without copying. *data is valid until the next call that reads,
 * or weft__h2_stream_close. Bytes that arrived before a reset are returned first.
 *
 * Returns the length of the piece, 0 at the end, or:
 * -EBUSY if another fiber reads
 */
WEFT_SWITCHPOINT ssize_t weft__h2_stream_piece(weft__h2_stream *st, const void **data);

/* Like weft__h2_stream_piece, but copy at most bytes bytes. The next call returns the rest. */
WEFT_SWITCHPOINT ssize_t weft__h2_stream_read(weft__h2_stream *st, void *data, size_t bytes);

/* Wait until weft__h2_stream_piece does not wait. Returns 0 or -ECANCELED. */
WEFT_SWITCHPOINT int weft__h2_stream_wait(weft__h2_stream *st);

/* Return the number of bytes that weft__h2_stream_piece can return without waiting. */
static inline size_t weft__h2_stream_available(const weft__h2_stream *st)
{
    return st->in_bytes;
}

/* Return the number of bytes of the body that no frame has taken yet. */
static inline size_t weft__h2_stream_unsent(const weft__h2_stream *st)
{
    return st->held.bytes - st->held_at + st->span_bytes;
}

/* Return the error of the next call that writes to the stream, or 0. */
static inline int weft__h2_stream_error(const weft__h2_stream *st)
{
    return st->error;
}

/* Set the priority of the output of a stream (RFC 9218), in place of priorities of the peer. */
void weft__h2_stream_set_priority(weft__h2_stream *st, int urgency, bool is_incremental);

/* Reset a stream. Unread input and unsent output are discarded. Later calls have no effect. */
void weft__h2_stream_reset(weft__h2_stream *st, uint32_t code);

/*
 * Release a stream: free its buffers and forget the record. If the stream has not ended, reset it
 * with code. If only the body of the peer is missing (server), let the stream linger, or reset it
 * with NO_ERROR (RFC 9113, 8.1). No
 * fiber may use the stream. The owner may then free the record. Later calls have no effect.
 */
void weft__h2_stream_close(weft__h2_stream *st, uint32_t code);

/*
 * A weft_stream over a stream, for extended CONNECT (RFC 8441): weft_stream_open_with(stream,
 * &weft__h2_transport, st). Closing the weft_stream ends the body of this side. The owner then
 * calls weft__h2_stream_finish and weft__h2_stream_close.
 */
extern const weft_stream_type weft__h2_transport;

#endif
