/*
 * permessage-deflate (RFC 7692): compression of messages by zlib.
 *
 *     deflate.c    compress and decompress messages
 *     extension.c  negotiate the parameters in the handshake
 *
 * A direction with context takeover refers to earlier messages. It needs a window of up to 32 KiB,
 * and zlib's state. A direction without context takeover borrows zlib's state from a cache of the
 * thread for each message. In a build without zlib, connections do not negotiate compression.
 */
#ifndef WEFT_WS_DEFLATE_H
#define WEFT_WS_DEFLATE_H

#include "base/buffer.h"
#include "http/text/strbuf.h"

#include <weft/ws.h>

/* The parameters of a connection. */
typedef struct weft__ws_deflate_params {
    uint8_t send_bits;    /* the window of sent messages; 8: do not compress, zlib cannot */
    uint8_t recv_bits;    /* the window of received messages, 8 to 15 */
    bool resets_send;     /* compress each message alone */
    bool resets_recv;     /* the peer compresses each message alone */
    bool names_send_bits; /* the reply of a server has server_max_window_bits */
} weft__ws_deflate_params;

typedef struct weft__ws_deflate {
    struct z_stream_s *out; /* NULL: none yet, or released */
    struct z_stream_s *in;
    char *window; /* the window of received messages while in is released; NULL: empty */
    uint16_t window_bytes;
    weft__ws_deflate_params params;
    uint8_t level;
    uint8_t final_blocks;  /* final blocks in the message that arrives */
    bool has_open_message; /* a received message is incomplete, and in has its state */
} weft__ws_deflate;

/* Free the memory. */
void weft__ws_deflate_close(weft__ws_deflate *d);

/* Release memory that is not necessary while no message is sent or received. */
void weft__ws_deflate_release(weft__ws_deflate *d);

/*
 * Compress a part of a message, and append the result to out. The caller sends parts in the order
 * of the calls. After an error, the caller may send other parts. Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__ws_deflate_part(weft__ws_deflate *d, const void *data, size_t bytes, bool is_last,
                          weft__buffer *out);

/*
 * Decompress a part of a message, and append the result to message, which keeps room for a NUL.
 * Stop if message would have more than bytes_max bytes. Returns 0, or:
 * -EBADMSG if the data is malformed
 * -EMSGSIZE if the message is too long
 * -ENOMEM if memory is exhausted
 */
int weft__ws_inflate_part(weft__ws_deflate *d, const void *data, size_t bytes, bool is_last,
                          weft__buffer *message, size_t bytes_max);

/* extension.c */

/*
 * Choose parameters for the offers of a client, in the Sec-WebSocket-Extensions fields of its
 * request, joined by commas. Returns 1, 0 if there is no acceptable offer, or:
 * -EBADMSG if the fields are malformed
 */
int weft__ws_extensions_accept(const char *fields, const weft_ws_options *options,
                               weft__ws_deflate_params *params);

/* Append the extension of the server's reply. */
void weft__ws_extensions_add_reply(weft__strbuf *w, const weft__ws_deflate_params *params);

/* Append the offer of a client. */
void weft__ws_extensions_add_offer(weft__strbuf *w, const weft_ws_options *options);

/*
 * Check the extensions of the server's reply to the offer. Returns 1, 0 if there is no extension,
 * or:
 * -EBADMSG if the fields are malformed, or do not fit the offer
 */
int weft__ws_extensions_check(const char *fields, const weft_ws_options *options,
                              weft__ws_deflate_params *params);

#endif
