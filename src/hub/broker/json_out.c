/* Write JSON to a buffer. See json_out.h. */
#include "hub/broker/json_out.h"

#include "hub/text/base64.h"
#include "hub/wire/output.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static void note_result(weft__json_out *out, int rc)
{
    if (rc < 0)
        out->has_failed = true;
}

static void put_raw(weft__json_out *out, const char *text)
{
    if (!out->has_failed)
        note_result(out, weft__output_text(&out->buffer, text));
}

/* Write a comma, unless this is the first value of its array or object, or the value of a name. */
static void put_comma(weft__json_out *out)
{
    if (out->buffer.bytes > 0 && strchr("{[:", out->buffer.data[out->buffer.bytes - 1]) == NULL)
        put_raw(out, ",");
}

void weft__json_out_name(weft__json_out *out, const char *name)
{
    weft__json_out_text(out, name);
    put_raw(out, ":");
}

void weft__json_out_begin(weft__json_out *out, char bracket)
{
    put_comma(out);
    put_raw(out, (char[]){bracket, '\0'});
}

void weft__json_out_end(weft__json_out *out, char bracket)
{
    put_raw(out, (char[]){bracket, '\0'});
}

void weft__json_out_text(weft__json_out *out, const char *text)
{
    put_comma(out);
    if (!out->has_failed)
        note_result(out, weft__output_json_string(&out->buffer, text));
}

void weft__json_out_integer(weft__json_out *out, int64_t number)
{
    put_comma(out);
    if (!out->has_failed)
        note_result(out, weft__output_printf(&out->buffer, "%" PRId64, number));
}

void weft__json_out_flag(weft__json_out *out, bool flag)
{
    put_comma(out);
    put_raw(out, flag ? "true" : "false");
}

void weft__json_out_base64(weft__json_out *out, weft__slice data)
{
    put_comma(out);
    put_raw(out, "\"");
    if (out->has_failed)
        return;
    note_result(out, weft__buffer_reserve(&out->buffer, WEFT__BASE64_BYTES(data.bytes)));
    if (!out->has_failed)
        out->buffer.bytes +=
            weft__base64_encode(data.data, data.bytes, out->buffer.data + out->buffer.bytes);
    put_raw(out, "\"");
}

void weft__time_format(int64_t time_ns, char out[WEFT__TIME_BYTES])
{
    time_t seconds = time_ns / NS_PER_S;
    struct tm utc;
    size_t n = 0;
    if (time_ns != 0 && gmtime_r(&seconds, &utc) != NULL)
        n = strftime(out, WEFT__TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &utc);
    if (n > 0)
        snprintf(out + n, WEFT__TIME_BYTES - n, ".%09" PRId64 "Z", time_ns % NS_PER_S);
    else
        snprintf(out, WEFT__TIME_BYTES, "0001-01-01T00:00:00Z");
}

void weft__json_out_time(weft__json_out *out, int64_t time_ns)
{
    char text[WEFT__TIME_BYTES];
    weft__time_format(time_ns, text);
    weft__json_out_text(out, text);
}

void weft__json_out_text_member(weft__json_out *out, const char *name, const char *text)
{
    weft__json_out_name(out, name);
    weft__json_out_text(out, text);
}

void weft__json_out_integer_member(weft__json_out *out, const char *name, int64_t number)
{
    weft__json_out_name(out, name);
    weft__json_out_integer(out, number);
}

void weft__json_out_time_member(weft__json_out *out, const char *name, int64_t time_ns)
{
    weft__json_out_name(out, name);
    weft__json_out_time(out, time_ns);
}
