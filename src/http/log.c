/*
 * Lines of an access log: the Combined Log Format, which Apache has made and all others read. Pure:
 * where they go is somebody else's matter.
 */
#include "http/log.h"

#include <stdio.h>
#include <string.h>

void weft__log_time(char out[WEFT__LOG_TIME_BYTES], time_t when)
{
    struct tm parts;
    if (localtime_r(&when, &parts) == NULL ||
        strftime(out, WEFT__LOG_TIME_BYTES, "%d/%b/%Y:%H:%M:%S %z", &parts) == 0)
        strcpy(out, "01/Jan/1970:00:00:00 +0000"); /* a year beyond what a struct tm can hold */
}

static char *put(char *at, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(at, text, bytes);
    return at + bytes;
}

static char *put_byte(char *at, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        *at++ = '\\';
        *at++ = (char)byte;
    } else if (byte < ' ' || byte >= 0x7f) {
        *at++ = '\\';
        *at++ = 'x';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    } else {
        *at++ = (char)byte;
    }
    return at;
}

static char *put_escaped(char *at, const char *text, size_t bytes_max)
{
    size_t i = 0;
    for (; i < bytes_max && text[i] != '\0'; i++)
        at = put_byte(at, (unsigned char)text[i]);
    return text[i] == '\0' ? at : put(at, "...");
}

/* A text that has no quotes around it must not have spaces in it either. */
static char *put_word(char *at, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return put(at, "-");
    size_t i = 0;
    for (; i < WEFT__LOG_FIELD_BYTES_MAX && text[i] != '\0'; i++)
        at = text[i] == ' ' ? put(at, "\\x20") : put_byte(at, (unsigned char)text[i]);
    return at;
}

static char *put_quoted(char *at, const char *text)
{
    *at++ = '"';
    at = text == NULL || text[0] == '\0' ? put(at, "-")
                                         : put_escaped(at, text, WEFT__LOG_FIELD_BYTES_MAX);
    *at++ = '"';
    return at;
}

static char *put_request(char *at, const weft_http_record *r)
{
    if (r->method == NULL || r->method[0] == '\0')
        return put(at, "\"-\"");
    *at++ = '"';
    at = put_escaped(at, r->method, WEFT__LOG_FIELD_BYTES_MAX);
    if (r->target != NULL && r->target[0] != '\0') {
        *at++ = ' ';
        at = put_escaped(at, r->target, WEFT__LOG_TARGET_BYTES_MAX);
    }
    const char *version = r->version == 10 ? " HTTP/1.0" : " HTTP/1.1";
    return put(put(at, r->version != 0 ? version : ""), "\"");
}

size_t weft__log_line(char *out, const weft_http_record *record, const char *time_text)
{
    char *at = put_word(out, record->peer);
    at = put(at, " - - [");
    at = put(at, time_text);
    at = put(at, "] ");
    at = put_request(at, record);
    at += sprintf(at, " %03d %llu ", record->status, (unsigned long long)record->bytes);
    at = put_quoted(at, record->referer);
    *at++ = ' ';
    at = put_quoted(at, record->user_agent);
    if (record->reason != NULL && record->reason[0] != '\0') {
        *at++ = ' ';
        at = put_quoted(at, record->reason);
    }
    *at++ = '\n';
    return (size_t)(at - out);
}
