/* The entries of owned names on the servers. The content is the id of the hub, and the token. */
#include "hub/jetstream/keys.h"
#include "hub/jetstream/stream_config.h"
#include "hub/names/names.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define NAMES_STREAM "KV_weft_names"

/* Of a lease, the time limit of an attempt to write: attempts must fit into the lease. */
#define ATTEMPTS_PER_LEASE 10

static void name_subject(char out[WEFT__JS_SUBJECT_BYTES], const char *name)
{
    snprintf(out, WEFT__JS_SUBJECT_BYTES, "$KV.weft_names.%s", name);
}

int weft__names_create_bucket(weft_hub *hub)
{
    weft__js_stream stream = {.name = NAMES_STREAM,
                              .subject = "$KV.weft_names.>",
                              .is_key_value = true,
                              .max_per_subject = 1,
                              .max_age_ns = weft__js_ns(weft__hub_options(hub)->lease_s)};
    return weft__js_stream_create(hub, &stream);
}

int weft__ownership_read(weft_hub *hub, const char *name, weft__ownership *out)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    name_subject(subject, name);
    weft__js_entry entry;
    int rc = weft__js_read_last(hub, NAMES_STREAM, subject, &entry);
    if (rc == 0 && entry.is_deleted)
        rc = -ENOENT;
    /* The data is followed by a NUL. */
    if (rc == 0 && sscanf(entry.data.data, "%31s %" SCNu64, out->node, &out->token) != 2)
        rc = weft_fail(-EPROTO, "the entry of name %.100s is not well-formed", name);
    if (rc == 0 && out->token == 0)
        out->token = entry.sequence;
    weft__js_entry_free(&entry);
    return rc;
}

int weft__ownership_write(weft_hub *hub, const char *name, uint64_t token, uint64_t *revision)
{
    char subject[WEFT__JS_SUBJECT_BYTES], data[WEFT__NODE_ID_BYTES + 24];
    name_subject(subject, name);
    snprintf(data, sizeof data, "%s %" PRIu64, weft__hub_id(hub), token);
    weft__js_write write = {.stream = NAMES_STREAM,
                            .subject = subject,
                            .data = weft__slice_of(data),
                            .expected = *revision,
                            .create_stream = token == 0 ? weft__names_create_bucket : NULL,
                            .attempt_s = weft__hub_options(hub)->lease_s / ATTEMPTS_PER_LEASE};
    return weft__js_write_entry(hub, &write, revision);
}

int weft__ownership_delete(weft_hub *hub, const char *name, uint64_t revision)
{
    char subject[WEFT__JS_SUBJECT_BYTES];
    name_subject(subject, name);
    weft__js_write write = {
        .stream = NAMES_STREAM, .subject = subject, .expected = revision, .operation = "DEL"};
    uint64_t marker;
    return weft__js_write_entry(hub, &write, &marker);
}

int weft__ownership_delete_now(weft_hub *hub, const char *name, uint64_t revision)
{
    char subject[WEFT__JS_SUBJECT_BYTES], headers[128];
    name_subject(subject, name);
    snprintf(headers, sizeof headers,
             "NATS/1.0\r\nKV-Operation: DEL\r\n"
             "Nats-Expected-Last-Subject-Sequence: %" PRIu64 "\r\n\r\n",
             revision);
    weft__publication p = {.subject = weft__slice_of(subject), .headers = weft__slice_of(headers)};
    return weft__hub_publish_now(hub, &p);
}
