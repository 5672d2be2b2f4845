/* Streams: creation, limits of age and number, deletion. See stream.h. */
#include "hub/broker/jetstream/stream.h"

#include "hub/broker/jetstream/consumer.h"
#include "hub/broker/jetstream/message_id.h"
#include "hub/text/subject.h"

#include <stdlib.h>

#define AGE_NS_MIN INT64_C(100000000)

weft__stream *weft__stream_find(const weft_hub_broker *b, weft__slice name)
{
    WEFT__LIST_FOR(node, &b->streams) {
        weft__stream *stream = CONTAINER_OF(node, weft__stream, node);
        if (weft__slice_is(name, stream->config.name))
            return stream;
    }
    return NULL;
}

/* Cut the first token off a subject. */
static weft__slice token_next(const char **subject)
{
    size_t bytes = strcspn(*subject, ".");
    weft__slice token = {*subject, bytes};
    *subject += bytes + ((*subject)[bytes] == '.');
    return token;
}

/* Return whether some subject matches both patterns. */
static bool patterns_overlap(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        weft__slice x = token_next(&a), y = token_next(&b);
        if (weft__slice_is(x, ">") || weft__slice_is(y, ">"))
            return true;
        if (!weft__slice_is(x, "*") && !weft__slice_is(y, "*") &&
            (x.bytes != y.bytes || memcmp(x.data, y.data, x.bytes) != 0))
            return false;
    }
    return *a == '\0' && *b == '\0';
}

static bool stream_overlaps(const weft__stream *stream, const char *subject)
{
    for (size_t i = 0; i < stream->config.subject_count; i++)
        if (patterns_overlap(stream->config.subjects[i], subject))
            return true;
    return false;
}

/* Subjects of the API and of the system are not stored. */
static bool subject_is_reserved(const char *subject)
{
    return patterns_overlap(subject, "$JS.>") || patterns_overlap(subject, "$SYS.>");
}

static weft__api_error subjects_check(const weft_hub_broker *b, const weft__stream_config *config)
{
    for (size_t i = 0; i < config->subject_count; i++) {
        const char *subject = config->subjects[i];
        if (!weft__subject_is_valid(weft__slice_of(subject), true) || subject_is_reserved(subject))
            return WEFT__API_STREAM_SUBJECT;
        WEFT__LIST_FOR(node, &b->streams) {
            if (stream_overlaps(CONTAINER_OF(node, weft__stream, node), subject))
                return WEFT__API_STREAM_OVERLAP;
        }
    }
    return WEFT__API_OK;
}

static weft__api_error config_check(const weft__stream_config *config)
{
    const int64_t *v = config->values;
    if (config->name[0] == '\0' || strpbrk(config->name, ".*> \t\r\n") != NULL)
        return WEFT__API_STREAM_NAME;
    if (v[WEFT__STREAM_NUM_REPLICAS] > 1)
        return WEFT__API_STREAM_REPLICAS;
    if (v[WEFT__STREAM_RETENTION] == WEFT__RETENTION_INTEREST)
        return WEFT__API_STREAM_UNSUPPORTED;
    if (v[WEFT__STREAM_MAX_AGE] != 0 && v[WEFT__STREAM_MAX_AGE] < AGE_NS_MIN)
        return WEFT__API_STREAM_AGE;
    if (v[WEFT__STREAM_MAX_AGE] != 0 && v[WEFT__STREAM_DUPLICATE_WINDOW] > v[WEFT__STREAM_MAX_AGE])
        return WEFT__API_STREAM_WINDOW;
    if (v[WEFT__STREAM_DISCARD_NEW_PER_SUBJECT] && v[WEFT__STREAM_DISCARD] != WEFT__DISCARD_NEW)
        return WEFT__API_STREAM_DISCARD;
    return WEFT__API_OK;
}

static weft__stream *stream_new(weft_hub_broker *b, weft__stream_config *config)
{
    weft__stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL)
        return NULL;
    stream->broker = b;
    stream->config = *config;
    stream->created_ns = weft__broker_now_ns(b);
    weft__list_init(&stream->ids_by_age);
    weft__list_init(&stream->consumers);
    weft__list_insert(&b->streams, &stream->node);
    return stream;
}

weft__api_error weft__stream_create(weft_hub_broker *b, weft__stream_config *config,
                                    weft__stream **out)
{
    weft__api_error error = config_check(config);
    if (error != WEFT__API_OK)
        return error;
    *out = weft__stream_find(b, weft__slice_of(config->name));
    if (*out != NULL) {
        if (!weft__stream_config_is_equal(&(*out)->config, config))
            return WEFT__API_STREAM_EXISTS;
        weft__stream_config_free(config);
        return WEFT__API_OK;
    }
    error = subjects_check(b, config);
    if (error != WEFT__API_OK)
        return error;
    *out = stream_new(b, config);
    return *out != NULL ? WEFT__API_OK : WEFT__API_NO_MEMORY;
}

void weft__stream_delete(weft__stream *stream)
{
    while (!weft__list_is_empty(&stream->consumers))
        weft__consumer_delete(CONTAINER_OF(stream->consumers.next, weft__consumer, node));
    weft__list_unlink(&stream->node);
    weft__message_ids_free(stream);
    weft__store_free(&stream->store);
    weft__stream_config_free(&stream->config);
    free(stream);
}

bool weft__stream_has_subject(const weft__stream *stream, weft__slice subject)
{
    for (size_t i = 0; i < stream->config.subject_count; i++)
        if (weft__subject_matches(weft__slice_of(stream->config.subjects[i]), subject))
            return true;
    return false;
}

void weft__stream_remove(weft__stream *stream, weft__stored_msg *m)
{
    WEFT__LIST_FOR(node, &stream->consumers) {
        weft__consumer_removed(CONTAINER_OF(node, weft__consumer, node), m);
    }
    weft__store_remove(&stream->store, m);
}

/* Return the next message for a purge, from a sequence on. NULL: none. */
static weft__stored_msg *purge_next(const weft__stream *stream, weft__slice pattern, uint64_t seq,
                                    uint64_t before_seq)
{
    weft__stored_msg *m = weft__store_from(&stream->store, seq);
    while (m != NULL && pattern.bytes > 0 &&
           !weft__subject_matches(pattern, weft__stored_msg_subject(m)))
        m = weft__store_from(&stream->store, m->seq + 1);
    return m != NULL && m->seq < before_seq ? m : NULL;
}

uint64_t weft__stream_purge(weft__stream *stream, weft__slice pattern, uint64_t before_seq,
                            uint64_t keep)
{
    uint64_t matching = 0, purged = 0;
    for (weft__stored_msg *m = purge_next(stream, pattern, 0, before_seq); m != NULL;
         m = purge_next(stream, pattern, m->seq + 1, before_seq))
        matching++;
    for (uint64_t seq = 0; matching > keep; matching--, purged++) {
        weft__stored_msg *m = purge_next(stream, pattern, seq, before_seq);
        seq = m->seq + 1;
        weft__stream_remove(stream, m);
    }
    return purged;
}

/* Remove the messages that are too old. Return the time at which the next message is. */
static int64_t messages_expire(weft__stream *stream, int64_t now_ns)
{
    int64_t age_ns = stream->config.values[WEFT__STREAM_MAX_AGE];
    if (age_ns <= 0)
        return WEFT__BROKER_NEVER;
    for (weft__stored_msg *m; (m = weft__store_from(&stream->store, 0)) != NULL;) {
        int64_t end_ns = weft__broker_time_after(m->time_ns, age_ns);
        if (end_ns > now_ns)
            return end_ns;
        weft__stream_remove(stream, m);
    }
    return WEFT__BROKER_NEVER;
}

int64_t weft__stream_run_timers(weft__stream *stream, int64_t now_ns)
{
    int64_t next_ns = messages_expire(stream, now_ns);
    for (weft__list *node = stream->consumers.next; node != &stream->consumers;) {
        weft__consumer *c = CONTAINER_OF(node, weft__consumer, node);
        node = node->next; /* the timers may delete the consumer */
        int64_t time_ns = weft__consumer_run_timers(c, now_ns);
        next_ns = time_ns < next_ns ? time_ns : next_ns;
    }
    return next_ns;
}
