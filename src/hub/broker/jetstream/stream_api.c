/* Requests to streams. See api.h. */
#include "hub/broker/jetstream/api.h"

#include "hub/broker/jetstream/direct_get.h"

weft__api_error weft__api_account_info(weft__api_call *call)
{
    size_t streams = 0, consumers = 0;
    uint64_t bytes = 0;
    WEFT__LIST_FOR(node, &call->broker->streams) {
        const weft__stream *stream = CONTAINER_OF(node, weft__stream, node);
        streams++;
        consumers += stream->consumer_count;
        bytes += stream->store.bytes;
    }
    weft__json_out_integer_member(call->out, "memory", (int64_t)bytes);
    weft__json_out_integer_member(call->out, "storage", 0);
    weft__json_out_integer_member(call->out, "streams", (int64_t)streams);
    weft__json_out_integer_member(call->out, "consumers", (int64_t)consumers);
    return WEFT__API_OK;
}

static void state_write(const weft__stream *stream, weft__json_out *out)
{
    const weft__store *store = &stream->store;
    const weft__stored_msg *first = weft__store_from(store, 0);
    /*
     * As in nats-server, the first sequence of an empty stream is the next one, or 0 at the begin.
     */
    uint64_t first_seq = first != NULL ? first->seq : store->last_seq > 0 ? store->last_seq + 1 : 0;
    weft__json_out_name(out, "state");
    weft__json_out_begin(out, '{');
    weft__json_out_integer_member(out, "messages", (int64_t)store->count);
    weft__json_out_integer_member(out, "bytes", (int64_t)store->bytes);
    weft__json_out_integer_member(out, "first_seq", (int64_t)first_seq);
    weft__json_out_time_member(out, "first_ts", first != NULL ? first->time_ns : 0);
    weft__json_out_integer_member(out, "last_seq", (int64_t)store->last_seq);
    weft__json_out_time_member(out, "last_ts", store->last_ns);
    weft__json_out_integer_member(out, "num_subjects", (int64_t)store->logs.count);
    weft__json_out_integer_member(out, "consumer_count", (int64_t)stream->consumer_count);
    weft__json_out_end(out, '}');
}

static void stream_info_write(const weft__stream *stream, weft__json_out *out)
{
    weft__json_out_name(out, "config");
    weft__stream_config_write(&stream->config, out);
    weft__json_out_time_member(out, "created", stream->created_ns);
    state_write(stream, out);
}

weft__api_error weft__api_stream_create(weft__api_call *call)
{
    weft__stream_config config;
    int rc = weft__stream_config_read(&config, &call->doc);
    if (rc < 0)
        return weft__api_error_of(rc);
    weft__api_error error = weft__slice_is(call->stream_name, config.name)
                                ? weft__stream_create(call->broker, &config, &call->stream)
                                : WEFT__API_STREAM_NAME_MISMATCH;
    if (error != WEFT__API_OK) {
        weft__stream_config_free(&config);
        return error;
    }
    stream_info_write(call->stream, call->out);
    weft__json_out_name(call->out, "did_create");
    weft__json_out_flag(call->out, true);
    return WEFT__API_OK;
}

weft__api_error weft__api_stream_update(weft__api_call *call)
{
    (void)call;
    return WEFT__API_STREAM_UPDATE;
}

weft__api_error weft__api_stream_info(weft__api_call *call)
{
    stream_info_write(call->stream, call->out);
    return WEFT__API_OK;
}

weft__api_error weft__api_stream_delete(weft__api_call *call)
{
    weft__stream_delete(call->stream);
    weft__api_write_success(call->out);
    return WEFT__API_OK;
}

weft__api_error weft__api_stream_purge(weft__api_call *call)
{
    if (call->stream->config.values[WEFT__STREAM_DENY_PURGE])
        return WEFT__API_PURGE_DENIED;
    char filter[WEFT__CONFIG_SUBJECT_BYTES_MAX + 1] = "";
    if (weft__json_copy_string(&call->doc, "filter", filter, sizeof filter) == -EMSGSIZE)
        return WEFT__API_BAD_REQUEST;
    int64_t seq = weft__json_integer(&call->doc, "seq", 0);
    int64_t keep = weft__json_integer(&call->doc, "keep", 0);
    if (seq < 0 || keep < 0 || (seq > 0 && keep > 0))
        return WEFT__API_BAD_REQUEST;
    uint64_t purged = weft__stream_purge(call->stream, weft__slice_of(filter),
                                         seq > 0 ? (uint64_t)seq : UINT64_MAX, (uint64_t)keep);
    weft__api_write_success(call->out);
    weft__json_out_integer_member(call->out, "purged", (int64_t)purged);
    return WEFT__API_OK;
}

/* An empty subject selects all streams. */
static bool stream_is_listed(const weft__stream *stream, weft__slice subject)
{
    return subject.bytes == 0 || weft__stream_has_subject(stream, subject);
}

weft__api_error weft__api_stream_names(weft__api_call *call)
{
    char text[WEFT__CONFIG_SUBJECT_BYTES_MAX + 1] = "";
    weft__json_copy_string(&call->doc, "subject", text, sizeof text);
    weft__slice subject = weft__slice_of(text);
    size_t total = 0;
    WEFT__LIST_FOR(node, &call->broker->streams) {
        total += stream_is_listed(CONTAINER_OF(node, weft__stream, node), subject);
    }
    weft__api_write_list(call->out, total, "streams");
    weft__json_out_begin(call->out, '[');
    WEFT__LIST_FOR(node, &call->broker->streams) {
        const weft__stream *stream = CONTAINER_OF(node, weft__stream, node);
        if (stream_is_listed(stream, subject))
            weft__json_out_text(call->out, stream->config.name);
    }
    weft__json_out_end(call->out, ']');
    return WEFT__API_OK;
}

weft__api_error weft__api_message_get(weft__api_call *call)
{
    weft__stored_msg *m;
    weft__api_error error = weft__stored_msg_select(call->stream, &call->doc, &m);
    if (error != WEFT__API_OK)
        return error;
    weft__json_out_name(call->out, "message");
    weft__json_out_begin(call->out, '{');
    weft__json_out_text_member(call->out, "subject", m->log->subject);
    weft__json_out_integer_member(call->out, "seq", (int64_t)m->seq);
    if (m->headers_bytes > 0) {
        weft__json_out_name(call->out, "hdrs");
        weft__json_out_base64(call->out, weft__stored_msg_headers(m));
    }
    if (m->payload_bytes > 0) {
        weft__json_out_name(call->out, "data");
        weft__json_out_base64(call->out, weft__stored_msg_payload(m));
    }
    weft__json_out_time_member(call->out, "time", m->time_ns);
    weft__json_out_end(call->out, '}');
    return WEFT__API_OK;
}

weft__api_error weft__api_message_delete(weft__api_call *call)
{
    int64_t seq = weft__json_integer(&call->doc, "seq", 0);
    if (call->stream->config.values[WEFT__STREAM_DENY_DELETE])
        return WEFT__API_DELETE_DENIED;
    weft__stored_msg *m = seq > 0 ? weft__store_find(&call->stream->store, (uint64_t)seq) : NULL;
    if (m == NULL)
        return WEFT__API_NO_SEQUENCE;
    weft__stream_remove(call->stream, m);
    weft__api_write_success(call->out);
    return WEFT__API_OK;
}
