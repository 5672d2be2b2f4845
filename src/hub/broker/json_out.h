/*
 * Write JSON to a buffer. Commas are added where they belong.
 *
 * The calls do not return errors. After a failure, further calls do nothing, and has_failed says
 * so.
 */
#ifndef WEFT_HUB_BROKER_JSON_OUT_H
#define WEFT_HUB_BROKER_JSON_OUT_H

#include "base/buffer.h"
#include "hub/text/slice.h"

#include <stdint.h>

/* All-zero is empty. Free with weft__buffer_free(&out->buffer). */
typedef struct weft__json_out {
    weft__buffer buffer;
    bool has_failed; /* memory was exhausted */
} weft__json_out;

/* Write nanoseconds since 1970 as RFC 3339 does. 0 is the zero time of Go. */
#define WEFT__TIME_BYTES 64
void weft__time_format(int64_t time_ns, char out[WEFT__TIME_BYTES]);

/* Write the name of a member. Its value follows. */
void weft__json_out_name(weft__json_out *out, const char *name);

/* Begin and end an object ('{', '}') or an array ('[', ']'). */
void weft__json_out_begin(weft__json_out *out, char bracket);
void weft__json_out_end(weft__json_out *out, char bracket);

/* Write a value. */
void weft__json_out_text(weft__json_out *out, const char *text);
void weft__json_out_integer(weft__json_out *out, int64_t number);
void weft__json_out_flag(weft__json_out *out, bool flag);
void weft__json_out_base64(weft__json_out *out, weft__slice data);
/* A time, as weft__time_format writes it. */
void weft__json_out_time(weft__json_out *out, int64_t time_ns);

/* Write a member. */
void weft__json_out_text_member(weft__json_out *out, const char *name, const char *text);
void weft__json_out_integer_member(weft__json_out *out, const char *name, int64_t number);
void weft__json_out_time_member(weft__json_out *out, const char *name, int64_t time_ns);

#endif
