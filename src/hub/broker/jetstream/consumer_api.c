/* Requests to consumers. See api.h. */
#include "hub/broker/jetstream/api.h"

#include <stdio.h>

/* The position up to which all messages are acknowledged. */
typedef struct ack_floor {
    uint64_t consumer_seq, stream_seq;
    size_t redelivered; /* pending messages that were delivered more than once */
} ack_floor;

static void floor_lower(ack_floor *f, const weft__list *pending)
{
    WEFT__LIST_FOR(node, pending) {
        const weft__pending *p = CONTAINER_OF(node, weft__pending, node);
        f->consumer_seq =
            p->consumer_seq <= f->consumer_seq ? p->consumer_seq - 1 : f->consumer_seq;
        f->stream_seq = p->seq <= f->stream_seq ? p->seq - 1 : f->stream_seq;
        f->redelivered += p->deliveries > 1;
    }
}

static void position_write(weft__json_out *out, const char *name, uint64_t consumer_seq,
                           uint64_t stream_seq)
{
    weft__json_out_name(out, name);
    weft__json_out_begin(out, '{');
    weft__json_out_integer_member(out, "consumer_seq", (int64_t)consumer_seq);
    weft__json_out_integer_member(out, "stream_seq", (int64_t)stream_seq);
    weft__json_out_end(out, '}');
}

static void consumer_info_write(const weft__consumer *c, weft__json_out *out)
{
    ack_floor f = {c->consumer_seq, c->delivered_seq, 0};
    floor_lower(&f, &c->waiting);
    floor_lower(&f, &c->due);
    weft__json_out_text_member(out, "stream_name", c->stream->config.name);
    weft__json_out_text_member(out, "name", c->name);
    weft__json_out_time_member(out, "created", c->created_ns);
    weft__json_out_name(out, "config");
    weft__consumer_config_write(&c->config, out);
    position_write(out, "delivered", c->consumer_seq, c->delivered_seq);
    position_write(out, "ack_floor", f.consumer_seq, f.stream_seq);
    weft__json_out_integer_member(out, "num_ack_pending", (int64_t)c->pending.count);
    weft__json_out_integer_member(out, "num_redelivered", (int64_t)f.redelivered);
    weft__json_out_integer_member(out, "num_waiting", (int64_t)c->pull_count);
    weft__json_out_integer_member(out, "num_pending", (int64_t)c->new_count);
}

static bool has_deliver_subject(const weft__json_doc *doc)
{
    const weft__json_node *node = weft__json_find(doc, "config.deliver_subject");
    return node != NULL && node->text.bytes > 0;
}

weft__api_error weft__api_consumer_create(weft__api_call *call)
{
    weft__consumer_config config;
    int rc = weft__consumer_config_read(&config, &call->doc);
    if (rc < 0)
        return weft__api_error_of(rc);
    const char *name = config.durable_name[0] != '\0' ? config.durable_name : config.name;
    if (call->consumer_name.bytes > 0 && !weft__slice_is(call->consumer_name, name))
        return WEFT__API_CONSUMER_NAME_MISMATCH;
    if (strpbrk(name, ".*> \t\r\n") != NULL || has_deliver_subject(&call->doc))
        return WEFT__API_CONSUMER_UNSUPPORTED;
    weft__consumer *c;
    weft__api_error error = weft__consumer_create(call->stream, &config, name, &c);
    if (error == WEFT__API_OK)
        consumer_info_write(c, call->out);
    return error;
}

weft__api_error weft__api_consumer_info(weft__api_call *call)
{
    const weft__consumer *c = weft__consumer_find(call->stream, call->consumer_name);
    if (c == NULL)
        return WEFT__API_CONSUMER_NOT_FOUND;
    consumer_info_write(c, call->out);
    return WEFT__API_OK;
}

weft__api_error weft__api_consumer_delete(weft__api_call *call)
{
    weft__consumer *c = weft__consumer_find(call->stream, call->consumer_name);
    if (c == NULL)
        return WEFT__API_CONSUMER_NOT_FOUND;
    weft__consumer_delete(c);
    weft__api_write_success(call->out);
    return WEFT__API_OK;
}

weft__api_error weft__api_consumer_names(weft__api_call *call)
{
    weft__api_write_list(call->out, call->stream->consumer_count, "consumers");
    weft__json_out_begin(call->out, '[');
    WEFT__LIST_FOR(node, &call->stream->consumers) {
        weft__json_out_text(call->out, CONTAINER_OF(node, weft__consumer, node)->name);
    }
    weft__json_out_end(call->out, ']');
    return WEFT__API_OK;
}
