/* The API of JetStream: the choice of the function, the body and the reply. See api.h. */
#include "hub/broker/jetstream/api.h"

#include "hub/broker/jetstream/direct_get.h"
#include "hub/broker/jetstream/pull.h"

#include <stdio.h>

#define LIST_LIMIT 1024 /* that nats-server reports */

typedef enum body_rule {
    BODY_OPTIONAL, /* JSON or nothing */
    BODY_REQUIRED, /* JSON */
    BODY_REQUEST   /* JSON, or "bad request" */
} body_rule;

typedef struct api_kind {
    const char *prefix; /* of the subject; with a dot at the end: a name follows */
    const char *type;   /* of the reply */
    weft__api_fn *fn;
    body_rule body;
    bool needs_stream; /* the stream must exist */
} api_kind;

static const api_kind kinds[] = {
    {"INFO", "account_info", weft__api_account_info, BODY_OPTIONAL, false},
    {"STREAM.CREATE.", "stream_create", weft__api_stream_create, BODY_REQUIRED, false},
    {"STREAM.UPDATE.", "stream_update", weft__api_stream_update, BODY_REQUIRED, true},
    {"STREAM.INFO.", "stream_info", weft__api_stream_info, BODY_OPTIONAL, true},
    {"STREAM.DELETE.", "stream_delete", weft__api_stream_delete, BODY_OPTIONAL, true},
    {"STREAM.PURGE.", "stream_purge", weft__api_stream_purge, BODY_OPTIONAL, true},
    {"STREAM.NAMES", "stream_names", weft__api_stream_names, BODY_OPTIONAL, false},
    {"STREAM.MSG.GET.", "stream_msg_get", weft__api_message_get, BODY_REQUEST, true},
    {"STREAM.MSG.DELETE.", "stream_msg_delete", weft__api_message_delete, BODY_REQUEST, true},
    {"CONSUMER.CREATE.", "consumer_create", weft__api_consumer_create, BODY_REQUIRED, true},
    {"CONSUMER.DURABLE.CREATE.", "consumer_create", weft__api_consumer_create, BODY_REQUIRED, true},
    {"CONSUMER.INFO.", "consumer_info", weft__api_consumer_info, BODY_OPTIONAL, true},
    {"CONSUMER.DELETE.", "consumer_delete", weft__api_consumer_delete, BODY_OPTIONAL, true},
    {"CONSUMER.NAMES.", "consumer_names", weft__api_consumer_names, BODY_OPTIONAL, true},
};

static bool take_prefix(weft__slice *subject, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (subject->bytes < bytes || memcmp(subject->data, prefix, bytes) != 0)
        return false;
    subject->data += bytes;
    subject->bytes -= bytes;
    return true;
}

/* Cut off the text before the next dot. */
static weft__slice take_token(weft__slice *subject)
{
    const char *dot = subject->bytes == 0 ? NULL : memchr(subject->data, '.', subject->bytes);
    size_t bytes = dot == NULL ? subject->bytes : (size_t)(dot - subject->data);
    weft__slice token = {subject->data, bytes};
    bytes += dot != NULL;
    subject->data += bytes;
    subject->bytes -= bytes;
    return token;
}

/* Find the kind of a request. *rest is what follows its prefix. Returns NULL if there is none. */
static const api_kind *kind_find(weft__slice subject, weft__slice *rest)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const api_kind *kind = &kinds[i];
        *rest = subject;
        bool has_name = kind->prefix[strlen(kind->prefix) - 1] == '.';
        if (take_prefix(rest, kind->prefix) && (rest->bytes > 0) == has_name)
            return kind;
    }
    return NULL;
}

void weft__api_write_success(weft__json_out *out)
{
    weft__json_out_name(out, "success");
    weft__json_out_flag(out, true);
}

void weft__api_write_list(weft__json_out *out, size_t total, const char *name)
{
    weft__json_out_integer_member(out, "total", (int64_t)total);
    weft__json_out_integer_member(out, "offset", 0);
    weft__json_out_integer_member(out, "limit", LIST_LIMIT);
    weft__json_out_name(out, name);
}

static weft__api_error body_read(const api_kind *kind, weft__slice body, weft__json_doc *doc)
{
    if (body.bytes == 0)
        return kind->body == BODY_OPTIONAL   ? WEFT__API_OK
               : kind->body == BODY_REQUIRED ? WEFT__API_BAD_JSON
                                             : WEFT__API_BAD_REQUEST;
    int rc = weft__json_parse(doc, body.data, body.bytes);
    return rc < 0 ? weft__api_error_of(rc) : WEFT__API_OK;
}

static weft__api_error call_perform(const api_kind *kind, weft__api_call *call, weft__slice body)
{
    weft__api_error error = body_read(kind, body, &call->doc);
    if (error != WEFT__API_OK)
        return error;
    if (call->stream_name.bytes > 0)
        call->stream = weft__stream_find(call->broker, call->stream_name);
    if (kind->needs_stream && call->stream == NULL)
        return WEFT__API_STREAM_NOT_FOUND;
    return kind->fn(call);
}

static void type_write(const api_kind *kind, weft__json_out *out)
{
    char type[64];
    snprintf(type, sizeof type, "io.nats.jetstream.api.v1.%s_response", kind->type);
    weft__json_out_begin(out, '{');
    weft__json_out_text_member(out, "type", type);
}

void weft__api_reply(weft_hub_broker *b, weft__slice reply, const weft__json_out *out)
{
    static const char no_memory[] = "{\"error\":{\"code\":503,\"err_code\":10023,"
                                    "\"description\":\"insufficient resources\"}}";
    weft__publication p = {.subject = reply, .payload = {out->buffer.data, out->buffer.bytes}};
    if (out->has_failed)
        p.payload = weft__slice_of(no_memory);
    if (reply.bytes > 0)
        weft__subjects_route(b, reply, &p, NULL);
}

static void call_handle(weft_hub_broker *b, const api_kind *kind, weft__slice rest,
                        const weft__publication *p)
{
    weft__json_out out = {0};
    weft__api_call call = {.broker = b, .out = &out};
    call.stream_name = take_token(&rest);
    call.consumer_name = take_token(&rest);
    type_write(kind, &out);
    weft__api_error error = call_perform(kind, &call, p->payload);
    if (error != WEFT__API_OK)
        weft__api_error_write(error, NULL, &out);
    weft__json_out_end(&out, '}');
    weft__api_reply(b, p->reply, &out);
    weft__json_free(&call.doc);
    weft__buffer_free(&out.buffer);
}

/* A pull for a consumer that does not exist gets no reply, as in nats-server. */
static void pull_handle(weft_hub_broker *b, weft__slice names, const weft__publication *p)
{
    weft__slice stream_name = take_token(&names);
    const weft__stream *stream = weft__stream_find(b, stream_name);
    weft__consumer *c = stream == NULL ? NULL : weft__consumer_find(stream, take_token(&names));
    if (c != NULL)
        weft__pull_add(c, p->payload, p->reply);
}

/* A request of an unknown kind gets no reply, as in nats-server. */
void weft__api_handle(weft_hub_broker *b, weft__slice subject, const weft__publication *p)
{
    weft__slice rest = subject;
    if (take_prefix(&rest, "CONSUMER.MSG.NEXT.")) {
        pull_handle(b, rest, p);
        return;
    }
    if (take_prefix(&rest, "DIRECT.GET.")) {
        weft__slice stream_name = take_token(&rest);
        weft__direct_get(b, stream_name, rest, p);
        return;
    }
    const api_kind *kind = kind_find(subject, &rest);
    if (kind != NULL)
        call_handle(b, kind, rest, p);
}
