/* Durable logs: a stream with one subject per key. */
#include "hub/jetstream/keys.h"
#include "hub/jetstream/stream_config.h"

#include <weft.h>

#include <errno.h>
#include <stdio.h>

/* The stream of a log, and the subject of a key, or the pattern of all keys. */
typedef struct log_place {
    char stream[WEFT__JS_SUBJECT_BYTES], subject[WEFT__JS_SUBJECT_BYTES];
} log_place;

static void log_locate(log_place *out, const char *log, const char *key)
{
    snprintf(out->stream, sizeof out->stream, "WEFT_LOG_%s", log);
    snprintf(out->subject, sizeof out->subject, "weft.log.%s.%s", log, key);
}

static int log_check(const weft_hub *hub, const char *function, const char *log, const char *key)
{
    int rc = weft__js_check_token(hub, function, log);
    return rc < 0 ? rc : weft__js_check_name(hub, function, key);
}

static int log_options_check(const weft_hub_log_options *o)
{
    if (o->replicas > WEFT__JS_REPLICAS_MAX)
        return weft_fail(-EINVAL, "weft_hub_log: replicas is %u", o->replicas);
    if (o->entries_max > INT64_MAX)
        return weft_fail(-EINVAL, "weft_hub_log: entries_max is %zu", o->entries_max);
    if (!weft__js_is_duration(o->age_max_s))
        return weft_fail(-EINVAL, "weft_hub_log: age_max_s is %g", o->age_max_s);
    return 0;
}

int weft_hub_log(weft_hub *hub, const char *log, const weft_hub_log_options *options)
{
    int rc = weft__js_check_token(hub, "weft_hub_log", log);
    if (rc < 0)
        return rc;
    const weft_hub_log_options defaults = {0};
    const weft_hub_log_options *o = options == NULL ? &defaults : options;
    rc = log_options_check(o);
    if (rc < 0)
        return rc;
    log_place place;
    log_locate(&place, log, ">");
    weft__js_stream stream = {
        .name = place.stream,
        .subject = place.subject,
        .is_in_memory = o->is_in_memory,
        .replicas = o->replicas,
        .max_per_subject = (int64_t)o->entries_max,
        .max_age_ns = weft__js_ns(o->age_max_s),
    };
    weft__hub_hold(hub);
    rc = weft__js_stream_create(hub, &stream);
    weft__hub_release(hub);
    return rc;
}

int weft_hub_append(weft_hub *hub, const char *log, const char *key, const void *data, size_t bytes,
                    uint64_t *last)
{
    int rc = log_check(hub, "weft_hub_append", log, key);
    if (rc < 0)
        return rc;
    if (data == NULL && bytes > 0)
        return weft_fail(-EINVAL, "weft_hub_append: data is NULL");
    log_place place;
    log_locate(&place, log, key);
    weft__js_write write = {.stream = place.stream,
                            .subject = place.subject,
                            .data = {data, bytes},
                            .expected = last == NULL ? WEFT_HUB_ANY_REVISION : *last};
    uint64_t number;
    weft__hub_hold(hub);
    rc = weft__js_write_entry(hub, &write, &number);
    weft__hub_release(hub);
    if (rc == -ENOENT)
        return weft_fail(rc, "weft_hub_append: the log %s does not exist", log);
    if (rc == -ESTALE)
        return weft_fail(rc, "weft_hub_append: the last entry of key %.100s has another number",
                         key);
    if (rc == 0 && last != NULL)
        *last = number;
    return rc;
}

int weft_hub_next(weft_hub *hub, const char *log, const char *key, uint64_t after,
                  weft_hub_msg **out)
{
    int rc = log_check(hub, "weft_hub_next", log, key);
    if (rc < 0)
        return rc;
    if (out == NULL)
        return weft_fail(-EINVAL, "weft_hub_next: out is NULL");
    if (after >= INT64_MAX) /* no entry has such a number, and JSON has none */
        return -ENOENT;
    log_place place;
    log_locate(&place, log, key);
    weft__js_entry entry;
    weft__hub_hold(hub);
    rc = weft__js_read_next(hub, place.stream, place.subject, after + 1, &entry);
    if (rc == 0)
        rc = weft__js_entry_message(hub, &entry, key, out);
    weft__js_entry_free(&entry);
    weft__hub_release(hub);
    return rc;
}
