/*
 * Append operations of NATS to a buffer. Each call appends a whole operation, or nothing.
 *
 * The caller has checked subjects and queues (text/subject.h): a space or CRLF in a subject would
 * change the meaning of the output.
 */
#ifndef WEFT_HUB_WIRE_OUTPUT_H
#define WEFT_HUB_WIRE_OUTPUT_H

#include "base/buffer.h"
#include "hub/text/slice.h"

#include <weft/base.h>

/* A message to publish, or to deliver. */
typedef struct weft__publication {
    weft__slice subject;
    weft__slice reply;   /* empty: none */
    weft__slice headers; /* a whole block (text/header.h); empty: none */
    weft__slice payload;
} weft__publication;

/* The following calls return 0, or -ENOMEM. */

/* Append PUB, or HPUB if the message has headers. */
int weft__output_pub(weft__buffer *out, const weft__publication *p);

/* Append MSG, or HMSG if the message has headers. */
int weft__output_msg(weft__buffer *out, const weft__publication *p, uint64_t sid);

/* Append SUB. queue is empty: none. */
int weft__output_sub(weft__buffer *out, weft__slice subject, weft__slice queue, uint64_t sid);

int weft__output_unsub(weft__buffer *out, uint64_t sid);

/* Append text as it is. The text has its own CRLF. */
int weft__output_text(weft__buffer *out, const char *text);

/* Append formatted text. */
int weft__output_printf(weft__buffer *out, const char *format, ...) WEFT_PRINTF(2, 3);

/* Append text as a JSON string, with quotes. Bytes that are not UTF-8 become characters. */
int weft__output_json_string(weft__buffer *out, const char *text);

#endif
