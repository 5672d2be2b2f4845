/* Log records of requests, and rejection of requests with a complete head. */
#include "http/reply/reply.h"

#include <weft/time.h>

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

/* Log a request with a complete head. bytes is the length of the reply's body. */
static COLD void log_record(weft_http_request *r, int status, uint64_t bytes, const char *reason)
{
    const weft_http_options *o = &r->server->options;
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
        .seconds = weft_now() - r->begun_s,
    };
    o->log(&record, o->log_ctx);
}

COLD void weft__request_log(weft_http_request *r)
{
    log_record(r, r->status, r->sent, "");
}

COLD void weft__request_reject(weft_http_request *r, int status, const char *reason)
{
    uint64_t bytes = weft__reply_reject(r, status, NULL);
    weft__counts_end_rejected(r->server->counts, status, bytes);
    if (r->server->options.log != NULL)
        log_record(r, status, bytes, reason);
}
