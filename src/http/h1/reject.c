/*
 * Rejection of requests without a complete head. The log record contains the received part of the
 * request.
 */
#include "http/h1/conn.h"
#include "http/reply/reply.h"

#include <weft/time.h>

static const char *text_or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* Set method and target from a request line that may be malformed or incomplete. */
static void record_set_request_line(weft__h1_conn *h, weft_http_record *record)
{
    const char *line = h->input + h->message.line_at;
    size_t bytes = h->input_bytes > h->message.line_at ? h->input_bytes - h->message.line_at : 0;
    size_t method = 0;
    while (method < bytes && strchr(" \r\n", line[method]) == NULL)
        method++;
    size_t target = method < bytes && line[method] == ' ' ? method + 1 : bytes, end = target;
    while (end < bytes && strchr(" \r\n", line[end]) == NULL)
        end++;
    record->method = text_or_empty(weft__arena_copy(&h->arena, line, method));
    record->target = text_or_empty(weft__arena_copy(&h->arena, line + target, end - target));
    record->version = h->message.fields_at > 0 ? h->message.version : 0;
}

/* Send the reply. Returns the length of its body in bytes. */
static uint64_t reject_with_reply(weft__h1_conn *h, int status, const char *text)
{
    const weft_http_request r = {
        .codec = &weft__h1_codec,
        .codec_ctx = h,
        .conn = h->conn,
        .server = h->conn->server,
        .arena = &h->arena,
        .method = h->message.parser.method == HTTP_HEAD ? "HEAD" : "",
    };
    h->must_close = true;
    h->conn->has_unread = true;
    return weft__reply_reject(&r, status, text);
}

/* Log a request that got this many bytes as the body of its reply. */
static void log_rejection(weft__h1_conn *h, int status, const char *reason, uint64_t bytes)
{
    const weft_http_options *o = &h->conn->server->options;
    const weft__peer *p = &h->conn->peer;
    char peer[WEFT__IP_TEXT_BYTES] = "unix";
    if (o->log == NULL)
        return;
    if (!p->is_unix)
        weft__ip_write(&p->ip, peer);
    weft_http_record record = {
        .peer = peer,
        .host = "",
        .referer = "",
        .user_agent = "",
        .reason = reason,
        .status = status,
        .bytes = bytes,
        .seconds = weft_now() - h->begun_s,
    };
    record_set_request_line(h, &record);
    o->log(&record, o->log_ctx);
}

COLD void weft__h1_reject(weft__h1_conn *h, int status, const char *reason, const char *text)
{
    uint64_t bytes = reject_with_reply(h, status, text);
    weft__counts_end_rejected(h->conn->server->counts, status, bytes);
    log_rejection(h, status, reason, bytes);
}

COLD void weft__h1_drop(weft__h1_conn *h, const char *reason)
{
    h->must_close = true;
    h->conn->has_unread = true;
    weft__counts_end_rejected(h->conn->server->counts, 0, 0);
    log_rejection(h, 400, reason, 0);
}
