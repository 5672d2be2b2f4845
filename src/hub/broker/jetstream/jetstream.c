/* JetStream: the entry points of connections and timers. See jetstream.h. */
#include "hub/broker/jetstream/jetstream.h"

#include "hub/broker/jetstream/api.h"
#include "hub/broker/jetstream/consumer.h"

#define ACK_PREFIX "$JS.ACK."
#define API_PREFIX "$JS.API."

/* The tokens of the subject of an acknowledgement, after the prefix. */
enum { ACK_STREAM, ACK_CONSUMER, ACK_DELIVERIES, ACK_SEQ, ACK_TOKENS = 7 };

static bool has_prefix(weft__slice subject, const char *prefix)
{
    return subject.bytes > strlen(prefix) && memcmp(subject.data, prefix, strlen(prefix)) == 0;
}

static weft__slice without_prefix(weft__slice subject, const char *prefix)
{
    return (weft__slice){subject.data + strlen(prefix), subject.bytes - strlen(prefix)};
}

/* Split a subject into an exact number of tokens. */
static bool subject_split(weft__slice subject, weft__slice *tokens, size_t count)
{
    const char *p = subject.data, *end = p + subject.bytes;
    for (size_t i = 0; i < count; i++) {
        const char *dot = p > end ? NULL : memchr(p, '.', (size_t)(end - p));
        if ((dot == NULL) != (i == count - 1))
            return false;
        tokens[i] = (weft__slice){p, (size_t)((dot == NULL ? end : dot) - p)};
        p = dot + 1;
    }
    return true;
}

static bool number_read(weft__slice text, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned digit = (unsigned char)text.data[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, digit, number))
            return false;
    }
    return text.bytes > 0;
}

/* Returns the number of receivers: 1, or 0 if the consumer does not exist. */
static size_t ack_handle(weft_hub_broker *b, const weft__publication *p)
{
    weft__slice tokens[ACK_TOKENS];
    uint64_t seq;
    if (!subject_split(without_prefix(p->subject, ACK_PREFIX), tokens, ACK_TOKENS) ||
        !number_read(tokens[ACK_SEQ], &seq))
        return 0;
    const weft__stream *stream = weft__stream_find(b, tokens[ACK_STREAM]);
    weft__consumer *c = stream == NULL ? NULL : weft__consumer_find(stream, tokens[ACK_CONSUMER]);
    if (c == NULL)
        return 0;
    weft__consumer_ack(c, seq, p);
    return 1;
}

size_t weft__jetstream_publish(weft_hub_broker *b, const weft__publication *p)
{
    if (has_prefix(p->subject, ACK_PREFIX))
        return ack_handle(b, p);
    if (has_prefix(p->subject, API_PREFIX)) {
        weft__api_handle(b, without_prefix(p->subject, API_PREFIX), p);
        return 1;
    }
    size_t receivers = 0;
    WEFT__LIST_FOR(node, &b->streams) {
        weft__stream *stream = CONTAINER_OF(node, weft__stream, node);
        if (!weft__stream_has_subject(stream, p->subject))
            continue;
        weft__stream_publish(stream, p);
        receivers++;
    }
    return receivers;
}

int64_t weft__jetstream_run_timers(weft_hub_broker *b, int64_t now_ns)
{
    int64_t next_ns = WEFT__BROKER_NEVER;
    WEFT__LIST_FOR(node, &b->streams) {
        int64_t time_ns = weft__stream_run_timers(CONTAINER_OF(node, weft__stream, node), now_ns);
        next_ns = time_ns < next_ns ? time_ns : next_ns;
    }
    return next_ns;
}

void weft__jetstream_free(weft_hub_broker *b)
{
    while (!weft__list_is_empty(&b->streams))
        weft__stream_delete(CONTAINER_OF(b->streams.next, weft__stream, node));
}
