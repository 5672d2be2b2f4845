/* Format lines of an access log in the Combined Log Format of Apache. Callers write the lines. */
#include "http/text/log.h"

#include <stdio.h>
#include <string.h>

void weft__log_time(char out[WEFT__LOG_TIME_BYTES], time_t when)
{
    struct tm parts;
    if (localtime_r(&when, &parts) == NULL ||
        strftime(out, WEFT__LOG_TIME_BYTES, "%d/%b/%Y:%H:%M:%S %z", &parts) == 0)
        strcpy(out, "01/Jan/1970:00:00:00 +0000"); /* the year does not fit into parts */
}

static char *put_text(char *end, const char *text)
{
    size_t bytes = strlen(text);
    memcpy(end, text, bytes);
    return end + bytes;
}

static char *put_byte(char *end, unsigned char byte)
{
    static const char digits[] = "0123456789abcdef";
    if (byte == '"' || byte == '\\') {
        *end++ = '\\';
        *end++ = (char)byte;
    } else if (byte < ' ' || byte >= 0x7f) {
        *end++ = '\\';
        *end++ = 'x';
        *end++ = digits[byte >> 4];
        *end++ = digits[byte & 15];
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
    const char *version = r->version == 10 ? " HTTP/1.0" : " HTTP/1.1";
    return put_text(put_text(end, r->version != 0 ? version : ""), "\"");
}

size_t weft__log_line(char *out, const weft_http_record *record, const char *time_text)
{
    char *end = put_word(out, record->peer);
    end = put_text(end, " - - [");
    end = put_text(end, time_text);
    end = put_text(end, "] ");
    end = put_request(end, record);
    end += sprintf(end, " %03d %llu ", record->status, (unsigned long long)record->bytes);
    end = put_quoted(end, record->referer);
    *end++ = ' ';
    end = put_quoted(end, record->user_agent);
    if (record->reason != NULL && record->reason[0] != '\0') {
        *end++ = ' ';
        end = put_quoted(end, record->reason);
    }
    *end++ = '\n';
    return (size_t)(end - out);
}
