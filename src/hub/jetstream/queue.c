/*
 * Durable queues: a stream of the kind "workqueue" with one consumer, which all workers share.
 *
 * The servers have no place for deliveries_max and dead_letters: their own limit of deliveries
 * would leave an item in the stream forever. The description of the stream has both. Workers obey
 * them.
 */
#include "hub/jetstream/queue.h"

#include "hub/jetstream/entry.h"
#include "hub/jetstream/stream_config.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define ACK_DEFAULT_S 30.0
#define IN_FLIGHT_DEFAULT 1000
#define IN_FLIGHT_MAX 1000000

/* Pull requests of all workers that a server keeps. Each worker has up to three. */
#define PULLS_MAX 4096

#define ID_BYTES_MAX 128

#define DEDUPE_MIN_S 0.1 /* of NATS */

#define DESCRIPTION_FORMAT "weft queue, deliveries_max=%u, dead_letters=%.64s"
#define DESCRIPTION_SCAN "weft queue, deliveries_max=%u, dead_letters=%64s"

static int queue_options_check(const char *queue, const weft_hub_queue_options *o)
{
    if (o->replicas > WEFT__JS_REPLICAS_MAX)
        return weft_fail(-EINVAL, "weft_hub_queue: replicas is %u", o->replicas);
    if (!weft__js_is_duration(o->ack_s))
        return weft_fail(-EINVAL, "weft_hub_queue: ack_s is %g", o->ack_s);
    bool is_brief = o->dedupe_s != 0 && o->dedupe_s < DEDUPE_MIN_S;
    if (is_brief || !weft__js_is_duration(o->dedupe_s))
        return weft_fail(-EINVAL, "weft_hub_queue: dedupe_s is %g", o->dedupe_s);
    if (o->items_max > INT64_MAX)
        return weft_fail(-EINVAL, "weft_hub_queue: items_max is %zu", o->items_max);
    if (o->in_flight_max > IN_FLIGHT_MAX)
        return weft_fail(-EINVAL, "weft_hub_queue: in_flight_max is %u", o->in_flight_max);
    if (o->dead_letters == NULL)
        return 0;
    if (!weft__token_is_valid(o->dead_letters) || strcmp(o->dead_letters, queue) == 0)
        return weft_fail(-EINVAL, "weft_hub_queue: dead_letters is %.70s", o->dead_letters);
    return 0;
}

static int queue_stream_create(weft_hub *hub, const char *queue, const weft_hub_queue_options *o)
{
    char name[WEFT__JS_SUBJECT_BYTES], subject[WEFT__JS_SUBJECT_BYTES], description[160];
    snprintf(name, sizeof name, "WEFT_Q_%s", queue);
    snprintf(subject, sizeof subject, "weft.q.%s", queue);
    snprintf(description, sizeof description, DESCRIPTION_FORMAT, o->deliveries_max,
             o->dead_letters == NULL ? "" : o->dead_letters);
    weft__js_stream stream = {
        .name = name,
        .subject = subject,
        .description = description,
        .is_work_queue = true,
        .is_in_memory = o->is_in_memory,
        .replicas = o->replicas,
        .max_msgs = (int64_t)o->items_max,
        .dedupe_ns = weft__js_ns(o->dedupe_s),
    };
    return weft__js_stream_create(hub, &stream);
}

static int consumer_info(weft_hub *hub, const char *queue, weft__js_answer *out)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "CONSUMER.INFO.WEFT_Q_%s." WEFT__QUEUE_CONSUMER, queue);
    return weft__js_api(hub, subject, "", out);
}

/*
 * Create the consumer, or compare it. The consumer is looked up first, because a request to create
 * an existing consumer changes its configuration.
 */
static int consumer_create(weft_hub *hub, const char *queue, const weft_hub_queue_options *o)
{
    int64_t ack_ns = weft__js_ns(o->ack_s == 0 ? ACK_DEFAULT_S : o->ack_s);
    unsigned in_flight = o->in_flight_max == 0 ? IN_FLIGHT_DEFAULT : o->in_flight_max;
    weft__js_answer answer;
    int rc = consumer_info(hub, queue, &answer);
    if (rc == -ENOENT) {
        char subject[WEFT__JS_SUBJECT_BYTES], json[WEFT__JS_JSON_BYTES];
        weft__js_answer_free(&answer);
        snprintf(subject, sizeof subject, "CONSUMER.DURABLE.CREATE.WEFT_Q_%s." WEFT__QUEUE_CONSUMER,
                 queue);
        snprintf(json, sizeof json,
                 "{\"stream_name\":\"WEFT_Q_%s\",\"config\":{\"durable_name\":\"%s\","
                 "\"deliver_policy\":\"all\",\"ack_policy\":\"explicit\",\"ack_wait\":%" PRId64
                 ",\"max_deliver\":-1,\"max_ack_pending\":%u,\"max_waiting\":%d}}",
                 queue, WEFT__QUEUE_CONSUMER, ack_ns, in_flight, PULLS_MAX);
        rc = weft__js_api(hub, subject, json, &answer);
    }
    const weft__js_field fields[] = {
        {"config.ack_wait", ack_ns, NULL},
        {"config.max_ack_pending", in_flight, NULL},
    };
    if (rc == 0)
        rc = weft__js_fields_compare(&answer, queue, fields, sizeof fields / sizeof fields[0]);
    weft__js_answer_free(&answer);
    return rc;
}

static int queue_create(weft_hub *hub, const char *queue, const weft_hub_queue_options *o)
{
    int rc = queue_stream_create(hub, queue, o);
    return rc < 0 ? rc : consumer_create(hub, queue, o);
}

/* Create the queue for dead letters, unless a queue has the name. */
static int dead_letters_create(weft_hub *hub, const weft_hub_queue_options *o)
{
    weft_hub_queue_options defaults = {.replicas = o->replicas, .is_in_memory = o->is_in_memory};
    weft__queue_info info;
    int rc = weft__queue_read(hub, o->dead_letters, &info);
    return rc == -ENOENT ? queue_create(hub, o->dead_letters, &defaults) : rc;
}

int weft_hub_queue(weft_hub *hub, const char *queue, const weft_hub_queue_options *options)
{
    int rc = weft__js_check_token(hub, "weft_hub_queue", queue);
    if (rc < 0)
        return rc;
    const weft_hub_queue_options defaults = {0};
    const weft_hub_queue_options *o = options == NULL ? &defaults : options;
    rc = queue_options_check(queue, o);
    if (rc < 0)
        return rc;
    weft__hub_hold(hub);
    if (o->dead_letters != NULL)
        rc = dead_letters_create(hub, o);
    if (rc == 0)
        rc = queue_create(hub, queue, o);
    weft__hub_release(hub);
    return rc;
}

static int queue_read_stream(weft_hub *hub, const char *queue, weft__queue_info *out)
{
    char subject[WEFT__JS_SUBJECT_BYTES], description[160] = "";
    snprintf(subject, sizeof subject, "STREAM.INFO.WEFT_Q_%s", queue);
    weft__js_answer answer;
    int rc = weft__js_api(hub, subject, "", &answer);
    if (rc == 0) {
        weft__json_copy_string(&answer.doc, "config.description", description, sizeof description);
        sscanf(description, DESCRIPTION_SCAN, &out->deliveries_max, out->dead_letters);
    }
    weft__js_answer_free(&answer);
    return rc;
}

int weft__queue_read(weft_hub *hub, const char *queue, weft__queue_info *out)
{
    *out = (weft__queue_info){0};
    int rc = queue_read_stream(hub, queue, out);
    if (rc < 0)
        return rc;
    weft__js_answer answer;
    rc = consumer_info(hub, queue, &answer);
    if (rc == 0)
        out->ack_s = (double)weft__json_integer(&answer.doc, "config.ack_wait", 0) / 1e9;
    weft__js_answer_free(&answer);
    if (rc == 0 && out->ack_s <= 0)
        rc = weft_fail(-EPROTO, "the consumer of queue %s has no ack_wait", queue);
    return rc;
}

/* Of ids, the servers ignore spaces at the ends. An id with spaces would not be unique. */
static bool id_is_valid(const char *id)
{
    size_t bytes = 0;
    for (; id[bytes] != '\0'; bytes++) {
        if (bytes == ID_BYTES_MAX || id[bytes] <= ' ' || id[bytes] > '~')
            return false;
    }
    return bytes > 0;
}

int weft__queue_put(weft_hub *hub, const char *queue, const char *id, weft__slice data)
{
    char stream[WEFT__JS_SUBJECT_BYTES], subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(stream, sizeof stream, "WEFT_Q_%s", queue);
    snprintf(subject, sizeof subject, "weft.q.%s", queue);
    weft__js_write write = {.stream = stream,
                            .subject = subject,
                            .data = data,
                            .expected = WEFT_HUB_ANY_REVISION,
                            .id = id};
    uint64_t number;
    return weft__js_write_entry(hub, &write, &number);
}

int weft_hub_put(weft_hub *hub, const char *queue, const char *id, const void *data, size_t bytes)
{
    int rc = weft__js_check_token(hub, "weft_hub_put", queue);
    if (rc < 0)
        return rc;
    if (data == NULL && bytes > 0)
        return weft_fail(-EINVAL, "weft_hub_put: data is NULL");
    if (id != NULL && !id_is_valid(id))
        return weft_fail(-EINVAL, "weft_hub_put: the id %.140s is not valid", id);
    weft__hub_hold(hub);
    rc = weft__queue_put(hub, queue, id, (weft__slice){data, bytes});
    weft__hub_release(hub);
    if (rc == -ENOENT)
        return weft_fail(rc, "weft_hub_put: the queue %s does not exist", queue);
    return rc;
}
