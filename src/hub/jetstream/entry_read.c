/* Read an entry of a stream. */
#include "hub/jetstream/entry.h"
#include "hub/text/base64.h"
#include "hub/text/header.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

void weft__js_entry_free(weft__js_entry *e)
{
    free(e->memory);
    *e = (weft__js_entry){0};
}

static weft__slice answer_text(const weft__js_answer *a, const char *path)
{
    const weft__json_node *node = weft__json_find(&a->doc, path);
    return node == NULL || node->kind != WEFT__JSON_STRING ? (weft__slice){0} : node->text;
}

/* Decode a base64 text to the end of the used memory of an entry. Returns 0 or an error. */
static int entry_decode(weft__js_entry *e, size_t *used, weft__slice text, weft__slice *out)
{
    ssize_t n = weft__base64_decode(text, e->memory + *used, text.bytes);
    if (n < 0)
        return (int)n;
    *out = (weft__slice){e->memory + *used, (size_t)n};
    *used += (size_t)n;
    e->memory[(*used)++] = '\0';
    return 0;
}

static bool entry_is_marker(const weft__js_entry *e)
{
    weft__slice operation = weft__header_find(e->headers, "KV-Operation");
    return operation.bytes > 0 &&
           (weft__slice_is(operation, "DEL") || weft__slice_is(operation, "PURGE"));
}

static int entry_from_answer(weft__js_entry *e, const weft__js_answer *a)
{
    int64_t sequence = weft__json_integer(&a->doc, "message.seq", 0);
    weft__slice headers = answer_text(a, "message.hdrs"), data = answer_text(a, "message.data");
    e->memory = malloc(headers.bytes + data.bytes + 2); /* base64 is longer than its content */
    if (e->memory == NULL)
        return -ENOMEM;
    size_t used = 0;
    if (sequence <= 0 || entry_decode(e, &used, headers, &e->headers) < 0 ||
        entry_decode(e, &used, data, &e->data) < 0) {
        weft__js_entry_free(e);
        return weft_fail(-EPROTO, "an entry of JetStream is not well-formed");
    }
    e->sequence = (uint64_t)sequence;
    e->is_deleted = entry_is_marker(e);
    return 0;
}

static int entry_read(weft_hub *hub, const char *stream, const char *query, weft__js_entry *out)
{
    *out = (weft__js_entry){0};
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "STREAM.MSG.GET.%s", stream);
    weft__js_answer answer;
    int rc = weft__js_api(hub, subject, query, &answer);
    if (rc == 0)
        rc = entry_from_answer(out, &answer);
    weft__js_answer_free(&answer);
    return rc;
}

int weft__js_read_last(weft_hub *hub, const char *stream, const char *subject, weft__js_entry *out)
{
    char query[WEFT__JS_JSON_BYTES];
    snprintf(query, sizeof query, "{\"last_by_subj\":\"%s\"}", subject);
    return entry_read(hub, stream, query, out);
}

int weft__js_read_next(weft_hub *hub, const char *stream, const char *subject, uint64_t sequence,
                       weft__js_entry *out)
{
    char query[WEFT__JS_JSON_BYTES];
    snprintf(query, sizeof query, "{\"seq\":%" PRIu64 ",\"next_by_subj\":\"%s\"}", sequence,
             subject);
    return entry_read(hub, stream, query, out);
}
