/*
 * Log records of requests, and replies to rejected requests. The record of a rejected request
 * contains the received part of the request.
 */
#include "http/reply/reply.h"

#include <weft/time.h>

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* Log a request with a complete head. bytes is the length of the reply's body. */
static COLD void log_record(weft_http_request *r, int status, uint64_t bytes, const char *reason)
{
    const weft_http_options *o = &r->conn->server->options;
    const weft_http_record record = {
        .peer = weft_http_peer(r),
        .method = r->method,
        .target = r->target,
        .host = weft_http_host(r),
        .referer = or_empty(weft_http_header(r, "Referer")),
        .user_agent = or_empty(weft_http_header(r, "User-Agent")),
        .reason = reason,
        .version = weft_http_version(r),
        .status = status,
        .bytes = bytes,
        .seconds = weft_now() - r->conn->begun_s,
    };
    o->log(&record, o->log_ctx);
}

COLD void weft__conn_log_request(weft_http_request *r)
{
    log_record(r, r->status, r->sent, "");
}

COLD void weft__conn_reject_request(weft_http_request *r, int status, const char *reason)
{
    weft__conn *c = r->conn;
    c->has_unread = true;
    uint64_t bytes = weft__reply_reject(c, status, NULL);
    if (c->server->options.log != NULL)
        log_record(r, status, bytes, reason);
}

/* Set method and target from a request line that may be malformed or incomplete. */
static void record_set_request_line(weft__conn *c, weft_http_record *record)
{
    const char *line = c->input + c->message.line_at;
    size_t bytes = c->input_bytes > c->message.line_at ? c->input_bytes - c->message.line_at : 0;
    size_t method = 0;
    while (method < bytes && strchr(" \r\n", line[method]) == NULL)
        method++;
    size_t target = method < bytes && line[method] == ' ' ? method + 1 : bytes, end = target;
    while (end < bytes && strchr(" \r\n", line[end]) == NULL)
        end++;
    record->method = or_empty(weft__arena_copy(&c->arena, line, method));
    record->target = or_empty(weft__arena_copy(&c->arena, line + target, end - target));
    record->version = c->message.fields_at > 0 ? c->message.version : 0;
}

COLD void weft__conn_reject(weft__conn *c, int status, const char *reason, const char *text)
{
    const weft_http_options *o = &c->server->options;
    char peer[WEFT__IP_TEXT_BYTES] = "unix";
    if (!c->peer.is_unix)
        weft__ip_write(&c->peer.ip, peer);
    weft_http_record record = {
        .peer = peer,
        .host = "",
        .referer = "",
        .user_agent = "",
        .reason = reason,
        .status = status,
    };
    if (o->log != NULL)
        record_set_request_line(c, &record);
    c->has_unread = true;
    record.bytes = weft__reply_reject(c, status, text);
    record.seconds = weft_now() - c->begun_s;
    if (o->log != NULL)
        o->log(&record, o->log_ctx);
}
