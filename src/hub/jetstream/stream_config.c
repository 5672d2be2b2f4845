/* Find or create streams, and compare configurations. */
#include "hub/jetstream/stream_config.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define DEDUPE_DEFAULT_NS (120 * INT64_C(1000000000))
#define DURATION_S_MIN 0.001
#define DURATION_S_MAX 3.2e9 /* in nanoseconds, 63 bits are enough */

/* A description of a stream has at most this many bytes with its NUL. */
#define DESCRIPTION_BYTES 256

int64_t weft__js_ns(double seconds)
{
    return (int64_t)(seconds * 1e9 + 0.5);
}

bool weft__js_is_duration(double seconds)
{
    return seconds == 0 || (seconds >= DURATION_S_MIN && seconds <= DURATION_S_MAX);
}

static bool field_is_equal(const weft__js_answer *a, const weft__js_field *f)
{
    if (f->text == NULL)
        return weft__json_integer(&a->doc, f->path, 0) == f->number;
    char text[DESCRIPTION_BYTES] = "";
    int rc = weft__json_copy_string(&a->doc, f->path, text, sizeof text);
    return rc != -EMSGSIZE && strcmp(text, f->text) == 0;
}

int weft__js_fields_compare(const weft__js_answer *a, const char *object,
                            const weft__js_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (field_is_equal(a, &fields[i]))
            continue;
        if (fields[i].text != NULL)
            return weft_fail(-EEXIST, "%s exists, and its %s is not \"%s\"", object, fields[i].path,
                             fields[i].text);
        return weft_fail(-EEXIST, "%s exists, and its %s is %" PRId64 ", not %" PRId64, object,
                         fields[i].path, weft__json_integer(&a->doc, fields[i].path, 0),
                         fields[i].number);
    }
    return 0;
}

static int64_t stream_dedupe_ns(const weft__js_stream *s)
{
    if (s->dedupe_ns != 0)
        return s->dedupe_ns;
    return s->max_age_ns != 0 && s->max_age_ns < DEDUPE_DEFAULT_NS ? s->max_age_ns
                                                                   : DEDUPE_DEFAULT_NS;
}

/* JetStream writes -1 for an unlimited number. */
static int64_t stream_limit(int64_t limit)
{
    return limit == 0 ? -1 : limit;
}

static void stream_json(char json[WEFT__JS_JSON_BYTES], const weft_hub *hub,
                        const weft__js_stream *s)
{
    const char *key_value =
        "\"allow_rollup_hdrs\":true,\"deny_delete\":true,\"allow_direct\":true,";
    snprintf(json, WEFT__JS_JSON_BYTES,
             "{\"name\":\"%s\",\"subjects\":[\"%s\"],\"description\":\"%s\",\"retention\":\"%s\","
             "\"storage\":\"%s\",\"discard\":\"%s\",%s\"num_replicas\":%u,\"max_consumers\":-1,"
             "\"max_msgs\":%" PRId64 ",\"max_bytes\":-1,\"max_msg_size\":-1,"
             "\"max_msgs_per_subject\":%" PRId64 ",\"max_age\":%" PRId64
             ",\"duplicate_window\":%" PRId64 "}",
             s->name, s->subject, s->description == NULL ? "" : s->description,
             s->is_work_queue ? "workqueue" : "limits", s->is_in_memory ? "memory" : "file",
             s->is_key_value || s->max_msgs != 0 ? "new" : "old", s->is_key_value ? key_value : "",
             s->replicas != 0 ? s->replicas : weft__hub_replicas(hub), stream_limit(s->max_msgs),
             stream_limit(s->max_per_subject), s->max_age_ns, stream_dedupe_ns(s));
}

static int stream_compare(const weft__js_answer *a, const weft__js_stream *s)
{
    const weft__js_field fields[] = {
        {"config.retention", 0, s->is_work_queue ? "workqueue" : "limits"},
        {"config.storage", 0, s->is_in_memory ? "memory" : "file"},
        {"config.description", 0, s->description == NULL ? "" : s->description},
        {"config.max_msgs", stream_limit(s->max_msgs), NULL},
        {"config.max_msgs_per_subject", stream_limit(s->max_per_subject), NULL},
        {"config.max_age", s->max_age_ns, NULL},
        {"config.duplicate_window", stream_dedupe_ns(s), NULL},
        {"config.num_replicas", s->replicas, NULL},
    };
    size_t n = sizeof fields / sizeof fields[0];
    return weft__js_fields_compare(a, s->name, fields, s->replicas != 0 ? n : n - 1);
}

static int stream_info(weft_hub *hub, const char *name, weft__js_answer *out)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "STREAM.INFO.%s", name);
    return weft__js_api(hub, subject, "", out);
}

int weft__js_stream_find(weft_hub *hub, const char *name)
{
    weft__js_answer answer;
    int rc = stream_info(hub, name, &answer);
    weft__js_answer_free(&answer);
    return rc;
}

int weft__js_stream_create(weft_hub *hub, const weft__js_stream *s)
{
    char subject[WEFT__JS_SUBJECT_BYTES], json[WEFT__JS_JSON_BYTES];
    weft__js_answer answer;
    int rc = stream_info(hub, s->name, &answer);
    if (rc == -ENOENT) {
        weft__js_answer_free(&answer);
        snprintf(subject, sizeof subject, "STREAM.CREATE.%s", s->name);
        stream_json(json, hub, s);
        rc = weft__js_api(hub, subject, json, &answer);
    }
    if (rc == -EEXIST) { /* another process has just created the stream */
        weft__js_answer_free(&answer);
        rc = stream_info(hub, s->name, &answer);
    }
    if (rc == 0)
        rc = stream_compare(&answer, s);
    weft__js_answer_free(&answer);
    return rc;
}
