/* Format lines of an access log. Callers write the lines. */
#include "http/text/log.h"

#include "base/json_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

/* The position of the milliseconds in "2026-11-16T11:12:13.000Z". */
#define JSON_MS_AT 20

void weft__log_time(char out[WEFT__LOG_TIME_BYTES], weft__log_format format, time_t when)
{
    struct tm parts;
    bool is_json = format == WEFT__LOG_JSON;
    const char *pattern = is_json ? "%Y-%m-%dT%H:%M:%S.000Z" : "%d/%b/%Y:%H:%M:%S %z";
    if ((is_json ? gmtime_r(&when, &parts) : localtime_r(&when, &parts)) == NULL ||
        parts.tm_year > 9999 - 1900 || strftime(out, WEFT__LOG_TIME_BYTES, pattern, &parts) == 0)
        strcpy(out, is_json ? "1970-01-01T00:00:00.000Z" : "01/Jan/1970:00:00:00 +0000");
}

void weft__log_time_set_ms(char text[WEFT__LOG_TIME_BYTES], weft__log_format format, unsigned ms)
{
    if (format != WEFT__LOG_JSON)
        return;
    for (int i = 2; i >= 0; i--, ms /= 10)
        text[JSON_MS_AT + i] = (char)('0' + ms % 10);
}

static char *put_text(char *end, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(end, text, bytes);
    return end + bytes;
}

static char *put_byte(char *end, unsigned char byte)
{
    if (byte == '"' || byte == '\\') {
        *end++ = '\\';
        *end++ = (char)byte;
    } else if (byte < ' ' || byte >= 0x7f) {
        *end++ = '\\';
        *end++ = 'x';
        *end++ = hex_digits[byte >> 4];
        *end++ = hex_digits[byte & 15];
    } else {
        *end++ = (char)byte;
    }
    return end;
}

static char *put_escaped(char *end, const char *text, size_t bytes_max)
{
    size_t i = 0;
    for (; i < bytes_max && text[i] != '\0'; i++)
        end = put_byte(end, (unsigned char)text[i]);
    return text[i] == '\0' ? end : put_text(end, "...");
}

/* Append a text without quotes. Escape spaces, because they separate the fields of a line. */
static char *put_word(char *end, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return put_text(end, "-");
    size_t i = 0;
    for (; i < WEFT__LOG_FIELD_BYTES_MAX && text[i] != '\0'; i++)
        end = text[i] == ' ' ? put_text(end, "\\x20") : put_byte(end, (unsigned char)text[i]);
    return end;
}

static char *put_quoted(char *end, const char *text)
{
    *end++ = '"';
    end = text == NULL || text[0] == '\0' ? put_text(end, "-")
                                          : put_escaped(end, text, WEFT__LOG_FIELD_BYTES_MAX);
    *end++ = '"';
    return end;
}

/* Append the name of a protocol version, for example "HTTP/1.1". Append nothing for 0. */
static char *put_protocol(char *end, int version)
{
    return version > 0 ? end + sprintf(end, "HTTP/%d.%d", version / 10 % 10, version % 10) : end;
}

static char *put_request(char *end, const weft_http_record *r)
{
    if (r->method == NULL || r->method[0] == '\0')
        return put_text(end, "\"-\"");
    *end++ = '"';
    end = put_escaped(end, r->method, WEFT__LOG_FIELD_BYTES_MAX);
    if (r->target != NULL && r->target[0] != '\0') {
        *end++ = ' ';
        end = put_escaped(end, r->target, WEFT__LOG_TARGET_BYTES_MAX);
    }
    if (r->version > 0)
        end = put_protocol(put_text(end, " "), r->version);
    return put_text(end, "\"");
}

/* Append the fields that the Common and the Combined Log Format share. */
static char *put_common(char *end, const weft_http_record *record, const char *time_text)
{
    end = put_word(end, record->peer);
    end = put_text(end, " - - [");
    end = put_text(end, time_text);
    end = put_text(end, "] ");
    end = put_request(end, record);
    return end + sprintf(end, " %03d %llu", record->status, (unsigned long long)record->bytes);
}

static char *put_combined(char *end, const weft_http_record *record, const char *time_text)
{
    end = put_common(end, record, time_text);
    *end++ = ' ';
    end = put_quoted(end, record->referer);
    *end++ = ' ';
    end = put_quoted(end, record->user_agent);
    if (record->reason != NULL && record->reason[0] != '\0') {
        *end++ = ' ';
        end = put_quoted(end, record->reason);
    }
    return end;
}

/*
 * JSON.
 */

static char *put_json_text(char *end, const char *name, const char *text, size_t bytes_max)
{
    end += sprintf(end, "\"%s\":\"", name);
    end = weft__json_put_text(end, text, bytes_max);
    return put_text(end, "\",");
}

static char *put_json(char *end, const weft_http_record *r, const char *time_text)
{
    char protocol[16] = "";
    put_protocol(protocol, r->version);
    *end++ = '{';
    end = put_json_text(end, "time", time_text, WEFT__LOG_TIME_BYTES);
    end = put_json_text(end, "peer", r->peer, WEFT__LOG_FIELD_BYTES_MAX);
    end = put_json_text(end, "method", r->method, WEFT__LOG_FIELD_BYTES_MAX);
    end = put_json_text(end, "target", r->target, WEFT__LOG_TARGET_BYTES_MAX);
    end = put_json_text(end, "host", r->host, WEFT__LOG_FIELD_BYTES_MAX);
    end = put_json_text(end, "protocol", protocol, sizeof protocol);
    end += sprintf(end, "\"status\":%d,\"bytes\":%llu,\"seconds\":%.6f,", r->status,
                   (unsigned long long)r->bytes, r->seconds);
    end = put_json_text(end, "referer", r->referer, WEFT__LOG_FIELD_BYTES_MAX);
    end = put_json_text(end, "user_agent", r->user_agent, WEFT__LOG_FIELD_BYTES_MAX);
    end = put_json_text(end, "reason", r->reason, WEFT__LOG_FIELD_BYTES_MAX);
    end[-1] = '}'; /* replaces the last comma */
    return end;
}

size_t weft__log_line(char *out, weft__log_format format, const weft_http_record *record,
                      const char *time_text)
{
    char *end;
    if (format == WEFT__LOG_JSON)
        end = put_json(out, record, time_text);
    else if (format == WEFT__LOG_COMMON)
        end = put_common(out, record, time_text);
    else
        end = put_combined(out, record, time_text);
    *end++ = '\n';
    return (size_t)(end - out);
}
