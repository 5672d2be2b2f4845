#include "peer_message.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 32

static const char *const kinds[] = {
    [PEER_SYNC] = "sync",     [PEER_SAY] = "say",       [PEER_STORED] = "stored",
    [PEER_TYPING] = "typing", [PEER_FAIL] = "fail",     [PEER_STATE] = "state",
    [PEER_ENTRY] = "entry",   [PEER_FAILED] = "failed", [PEER_OWNER] = "owner",
    [PEER_ROOM] = "room",
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* The members of an object, except "t" and "text". */
typedef struct field {
    const char *name;
    json_kind kind; /* JSON_STRING, JSON_NUMBER, or JSON_TRUE for both booleans */
    size_t offset, bytes;
} field;

#define FIELD(name, kind, member)                                                        \
    {                                                                                    \
        name, kind, offsetof(peer_message, member), sizeof((peer_message *)NULL)->member \
    }

static const field fields[] = {
    FIELD("address", JSON_STRING, address), FIELD("process", JSON_STRING, process),
    FIELD("room", JSON_STRING, room),       FIELD("from", JSON_STRING, from),
    FIELD("client", JSON_STRING, client),   FIELD("id", JSON_NUMBER, id),
    FIELD("seq", JSON_NUMBER, seq),         FIELD("number", JSON_NUMBER, number),
    FIELD("at", JSON_NUMBER, at_ms),        FIELD("failures", JSON_NUMBER, failures),
    FIELD("on", JSON_TRUE, is_on),          FIELD("new", JSON_TRUE, is_new),
};
#define FIELDS (sizeof fields / sizeof fields[0])

static void write_field(json_writer *w, const field *f, const peer_message *m)
{
    const void *value = (const char *)m + f->offset;
    if (f->kind == JSON_STRING && *(const char *)value != '\0')
        json_name_string(w, f->name, value);
    else if (f->kind == JSON_NUMBER && *(const int64_t *)value != 0)
        json_name_number(w, f->name, *(const int64_t *)value);
    else if (f->kind == JSON_TRUE && *(const bool *)value)
        json_name_bool(w, f->name, true);
}

void peer_message_write(json_writer *w, const peer_message *m)
{
    json_open(w, '{');
    json_name_string(w, "t", kinds[m->kind]);
    for (size_t i = 0; i < FIELDS; i++)
        write_field(w, &fields[i], m);
    if (m->text != NULL)
        json_name_string(w, "text", m->text);
    json_close(w, '}');
}

static int read_field(const json_value *v, const field *f, peer_message *m)
{
    void *out = (char *)m + f->offset;
    if (v == NULL)
        return 0;
    if (f->kind == JSON_STRING)
        return json_decode(v, out, f->bytes) < 0 ? -EBADMSG : 0;
    if (f->kind == JSON_NUMBER)
        return json_integer(v, out) < 0 || *(int64_t *)out < 0 ? -EBADMSG : 0;
    *(bool *)out = v->kind == JSON_TRUE;
    return 0;
}

static int read_kind(const json_value *v, peer_kind *out)
{
    char name[16];
    if (json_decode(v, name, sizeof name) < 0)
        return -EBADMSG;
    for (size_t i = 0; i < KINDS; i++) {
        *out = (peer_kind)i;
        if (strcmp(kinds[i], name) == 0)
            return 0;
    }
    return -EBADMSG;
}

static int read_text(const json_value *v, char **out)
{
    size_t capacity = v != NULL ? v->bytes + 1 : 1; /* decoding does not lengthen a string */
    *out = calloc(1, capacity);
    if (*out == NULL)
        return -ENOMEM;
    if (v == NULL || json_decode(v, *out, capacity) >= 0)
        return 0;
    free(*out);
    return -EBADMSG;
}

int peer_message_read(peer_message *m, const char *text, size_t bytes)
{
    json_value values[VALUES_MAX];
    memset(m, 0, sizeof *m);
    if (json_read(values, VALUES_MAX, text, bytes) < 0 || values[0].kind != JSON_OBJECT)
        return -EBADMSG;
    int rc = read_kind(json_member(values, "t"), &m->kind);
    for (size_t i = 0; rc == 0 && i < FIELDS; i++)
        rc = read_field(json_member(values, fields[i].name), &fields[i], m);
    return rc == 0 ? read_text(json_member(values, "text"), &m->text) : rc;
}

peer_message peer_message_of(const message *m)
{
    peer_message p = {.kind = PEER_ENTRY,
                      .id = m->id,
                      .seq = (int64_t)m->seq,
                      .at_ms = m->at_ms,
                      .text = m->text};
    memcpy(p.from, m->from, sizeof p.from);
    memcpy(p.client, m->client, sizeof p.client);
    return p;
}

message peer_message_said(const peer_message *p)
{
    message m = {.seq = (uint64_t)p->seq, .at_ms = p->at_ms, .id = p->id, .text = p->text};
    memcpy(m.from, p->from, sizeof m.from);
    memcpy(m.client, p->client, sizeof m.client);
    return m;
}
