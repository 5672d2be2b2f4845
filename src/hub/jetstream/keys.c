/*
 * Keys: the bucket "weft" of NATS's key-value store. Other clients of NATS can read and write it.
 *
 * A deleted key has a marker as its last entry, with a revision of its own.
 */
#include "hub/jetstream/keys.h"

#include "hub/jetstream/stream_config.h"

#include <weft.h>

#include <errno.h>
#include <stdio.h>

#define KEYS_STREAM "KV_weft"

static void key_subject(char out[WEFT__JS_SUBJECT_BYTES], const char *key)
{
    snprintf(out, WEFT__JS_SUBJECT_BYTES, "$KV.weft.%s", key);
}

/* Create the bucket. An existing bucket may have any configuration: it belongs to all clients. */
static int keys_create_stream(weft_hub *hub)
{
    weft__js_stream stream = {
        .name = KEYS_STREAM, .subject = "$KV.weft.>", .is_key_value = true, .max_per_subject = 1};
    int rc = weft__js_stream_create(hub, &stream);
    return rc == -EEXIST ? 0 : rc;
}

int weft__key_set(weft_hub *hub, const char *key, weft__slice data, uint64_t *revision)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    key_subject(subject, key);
    weft__js_write write = {.stream = KEYS_STREAM,
                            .subject = subject,
                            .data = data,
                            .expected = *revision,
                            .create_stream = keys_create_stream};
    return weft__js_write_entry(hub, &write, revision);
}

int weft_hub_set(weft_hub *hub, const char *key, const void *data, size_t bytes, uint64_t *revision)
{
    int rc = weft__js_check_name(hub, "weft_hub_set", key);
    if (rc < 0)
        return rc;
    if (data == NULL && bytes > 0)
        return weft_fail(-EINVAL, "weft_hub_set: data is NULL");
    uint64_t any = WEFT_HUB_ANY_REVISION;
    weft__hub_hold(hub);
    rc = weft__key_set(hub, key, (weft__slice){data, bytes}, revision == NULL ? &any : revision);
    weft__hub_release(hub);
    if (rc == -ESTALE)
        return weft_fail(rc, "weft_hub_set: the key %.100s has another revision", key);
    return rc;
}

int weft__js_entry_message(weft_hub *hub, const weft__js_entry *e, const char *to,
                           weft_hub_msg **out)
{
    *out = weft__hub_msg_new(hub, weft__slice_of(to), (weft__slice){0}, (weft__slice){0}, e->data);
    if (*out == NULL)
        return -ENOMEM;
    (*out)->number = e->sequence;
    return 0;
}

static int key_get(weft_hub *hub, const char *key, weft_hub_msg **out, uint64_t *revision)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    key_subject(subject, key);
    weft__js_entry entry;
    int rc = weft__js_read_last(hub, KEYS_STREAM, subject, &entry);
    if (rc == 0 && entry.is_deleted)
        rc = -ENOENT;
    if (rc == 0 && out != NULL)
        rc = weft__js_entry_message(hub, &entry, key, out);
    if (rc == 0 && revision != NULL)
        *revision = entry.sequence;
    weft__js_entry_free(&entry);
    return rc;
}

int weft_hub_get(weft_hub *hub, const char *key, weft_hub_msg **out, uint64_t *revision)
{
    int rc = weft__js_check_name(hub, "weft_hub_get", key);
    if (rc < 0)
        return rc;
    weft__hub_hold(hub);
    rc = key_get(hub, key, out, revision);
    weft__hub_release(hub);
    if (rc == -ENOENT)
        return weft_fail(rc, "weft_hub_get: the key %.100s does not exist", key);
    return rc;
}

int weft_hub_delete(weft_hub *hub, const char *key, const uint64_t *revision)
{
    int rc = weft__js_check_name(hub, "weft_hub_delete", key);
    if (rc < 0)
        return rc;
    if (revision != NULL && *revision == 0)
        return weft_fail(-EINVAL, "weft_hub_delete: the revision is 0");
    char subject[WEFT__JS_SUBJECT_BYTES];
    key_subject(subject, key);
    uint64_t expected = revision == NULL ? WEFT_HUB_ANY_REVISION : *revision, marker;
    weft__js_write write = {
        .stream = KEYS_STREAM, .subject = subject, .expected = expected, .operation = "DEL"};
    weft__hub_hold(hub);
    rc = weft__js_write_entry(hub, &write, &marker);
    weft__hub_release(hub);
    if (rc == -ENOENT) /* there is no bucket, and therefore no key */
        rc = expected == WEFT_HUB_ANY_REVISION ? 0 : -ESTALE;
    if (rc == -ESTALE)
        return weft_fail(rc, "weft_hub_delete: the key %.100s has another revision", key);
    return rc;
}
