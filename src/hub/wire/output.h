/* Append operations of NATS to a buffer. Each call appends a whole operation, or nothing. */
#ifndef WEFT_HUB_WIRE_OUTPUT_H
#define WEFT_HUB_WIRE_OUTPUT_H

#include "base/buffer.h"
#include "hub/text/slice.h"

#include <weft/base.h>

/* A message to publish, or to deliver. Headers are a whole block (text/header.h), or empty. */
typedef struct weft__publication {
    weft__slice subject;
    weft__slice reply; /* empty: none */
    weft__slice headers;
    weft__slice payload;
} weft__publication;

/* The calls return 0, or -ENOMEM. */
int weft__output_pub(weft__buffer *out, const weft__publication *p);
int weft__output_msg(weft__buffer *out, const weft__publication *p, uint64_t sid);
int weft__output_sub(weft__buffer *out, weft__slice subject, weft__slice queue, uint64_t sid);
int weft__output_unsub(weft__buffer *out, uint64_t sid);
int weft__output_text(weft__buffer *out, const char *text); /* as it is, with its CRLF */
int weft__output_printf(weft__buffer *out, const char *format, ...) WEFT_PRINTF(2, 3);

/* Append text as a JSON string, with quotes. */
int weft__output_json_string(weft__buffer *out, const char *text);

#endif
