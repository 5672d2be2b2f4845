/*
 * The fields of a head that is complete: that nothing lies between them which llhttp has skipped,
 * and what those mean that tell where the message ends and what becomes of the connection (RFC
 * 9112, 5, 6 and 9; RFC 9110, 7 and 10.1.1). What two readers could understand in two ways is
 * refused.
 */
#include "base/compiler.h"
#include "http/field.h"
#include "http/message_parts.h"

#include <errno.h>
#include <string.h>

/* What was found on the way over the fields. */
enum {
    HAS_ENCODING = 1,
    IS_MALFORMED = 2, /* Transfer-Encoding */
    HAS_CLOSE = 4,    /* in Connection, as the next two */
    HAS_KEEP_ALIVE = 8,
    HAS_UPGRADE = 16,
    HAS_UPGRADE_FIELD = 32,
    HAS_CONTINUE = 64, /* in Expect */
    HAS_OTHER_EXPECT = 128,
};

typedef struct found {
    int flags;
    uint32_t lengths;
    uint32_t hosts;
    uint32_t codings; /* of Transfer-Encoding, over all its fields */
    uint32_t chunked; /* how many of them are that; it has to be the last */
    bool ends_with_chunked;
    weft__span length;
    weft__span host;
} found;

/* The status to refuse it with. */
static COLD int because(weft__message *m, int status, const char *reason)
{
    m->reason = reason;
    return status;
}

static void take_encoding(found *f, const char *value, size_t bytes)
{
    weft__piece list = {value, bytes}, element;
    f->flags |= HAS_ENCODING;
    while (weft__field_element(&list, &element)) {
        size_t name = 0;
        while (name < element.bytes && weft__char_is(element.at[name], WEFT__CHAR_TOKEN))
            name++;
        bool is_chunked = name == 7 && weft__chars_match(element.at, "chunked", 7);
        bool has_parameters = name < element.bytes;
        if (name == 0 ||
            (has_parameters &&
             (is_chunked || (element.at[name] != ';' && !weft__char_is_blank(element.at[name])))))
            f->flags |= IS_MALFORMED;
        f->codings++;
        f->chunked += is_chunked;
        f->ends_with_chunked = is_chunked;
    }
}

static void take_connection(found *f, const char *value, size_t bytes)
{
    weft__piece list = {value, bytes}, element;
    while (weft__field_element(&list, &element)) {
        if (element.bytes == 5 && weft__chars_match(element.at, "close", 5))
            f->flags |= HAS_CLOSE;
        else if (element.bytes == 10 && weft__chars_match(element.at, "keep-alive", 10))
            f->flags |= HAS_KEEP_ALIVE;
        else if (element.bytes == 7 && weft__chars_match(element.at, "upgrade", 7))
            f->flags |= HAS_UPGRADE;
    }
}

static void take_expect(found *f, const char *value, size_t bytes)
{
    bool is_continue = bytes == 12 && weft__chars_match(value, "100-continue", 12);
    f->flags |= is_continue ? HAS_CONTINUE : HAS_OTHER_EXPECT;
}

static void take_field(found *f, const weft__field *field, const char *data)
{
    const char *name = data + field->name.at;
    const char *value = data + field->value.at;
    size_t bytes = field->value.bytes;
    switch (field->name.bytes) {
    case 4:
        if (weft__chars_match(name, "host", 4)) {
            f->host = field->value;
            f->hosts++;
        }
        break;
    case 6:
        if (weft__chars_match(name, "expect", 6))
            take_expect(f, value, bytes);
        break;
    case 7:
        if (weft__chars_match(name, "upgrade", 7))
            f->flags |= HAS_UPGRADE_FIELD;
        break;
    case 10:
        if (weft__chars_match(name, "connection", 10))
            take_connection(f, value, bytes);
        break;
    case 14:
        if (weft__chars_match(name, "content-length", 14)) {
            f->length = field->value;
            f->lengths++;
        }
        break;
    case 17:
        if (weft__chars_match(name, "transfer-encoding", 17))
            take_encoding(f, value, bytes);
        break;
    default:
        break;
    }
}

/*
 * A field has to begin at an offset and to be nothing but its name, a colon, white space, its
 * value, white space and CRLF. Returns where the next begins; 0 if it is not so. The value is
 * trimmed.
 */
static size_t settle_field(weft__field *field, const char *data, size_t at)
{
    const char *p = data + at + field->name.bytes;
    if (UNLIKELY(field->name.at != at || field->name.bytes == 0 || *p++ != ':'))
        return 0;
    while (weft__char_is_blank(*p))
        p++;
    const char *value = p;
    if (field->value.bytes > 0) {
        if (UNLIKELY(p != data + field->value.at))
            return 0;
        p += field->value.bytes;
    }
    const char *end = p;
    while (end > value && weft__char_is_blank(end[-1]))
        end--;
    field->value = (weft__span){(uint32_t)(value - data), (uint32_t)(end - value)};
    return p[0] == '\r' && p[1] == '\n' ? (size_t)(p + 2 - data) : 0;
}

/* 0, or what to answer. The last two bytes of the head are its empty line. */
static int walk(weft__message *m, found *f, const char *data, size_t end)
{
    size_t at = m->fields_at;
    for (uint32_t i = 0; i < m->fields_count; i++) {
        at = settle_field(&m->fields[i], data, at);
        if (UNLIKELY(at == 0))
            return because(m, 400, "a malformed header");
        take_field(f, &m->fields[i], data);
    }
    return at == end - 2 && data[at] == '\r' ? 0 : because(m, 400, "a malformed header");
}

/* RFC 9112, 3.2. Only a target without an authority may have no host at all. */
static int check_host(weft__message *m, const found *f, const char *data)
{
    if (f->hosts == 0)
        return m->version == 10 ? 0 : because(m, 400, "no Host");
    if (f->hosts > 1)
        return because(m, 400, "several Hosts");
    bool is_good = f->host.bytes == 0 ? data[m->target.at] == '*'
                                      : weft__is_authority(data + f->host.at, f->host.bytes, false);
    return is_good ? 0 : because(m, 400, "a malformed Host");
}

/* Digits and nothing else; -1: not a length. */
static int64_t parse_length(const char *text, size_t bytes)
{
    int64_t length = 0;
    for (size_t i = 0; i < bytes; i++) {
        int digit = text[i] - '0';
        if (digit < 0 || digit > 9 || length > (INT64_MAX - digit) / 10)
            return -1;
        length = length * 10 + digit;
    }
    return bytes > 0 ? length : -1;
}

static int take_encoded(weft__message *m, const found *f)
{
    if (f->lengths > 0 || m->version == 10 || (f->flags & IS_MALFORMED) != 0 || f->chunked != 1 ||
        !f->ends_with_chunked)
        return because(m, 400, "a Transfer-Encoding that leaves the length open");
    if (f->codings > 1)
        return because(m, 501, "a Transfer-Encoding other than chunked");
    m->is_chunked = true;
    m->length = -1;
    /* Two readers of one head: if they differ, there is something that neither is to guess. */
    return (m->parser.flags & F_CHUNKED) != 0 ? 0 : because(m, 400, "a malformed header");
}

/* How the body is framed; RFC 9112, 6.3. 0, or what to answer. */
static int take_framing(weft__message *m, const found *f, const char *data)
{
    m->is_chunked = false;
    m->ends_with_connection = false;
    m->length = 0;
    if ((f->flags & HAS_ENCODING) != 0)
        return take_encoded(m, f);
    if (f->lengths > 1)
        return because(m, 400, "several Content-Lengths");
    if (f->lengths == 1) {
        m->length = parse_length(data + f->length.at, f->length.bytes);
        return m->length < 0 ? because(m, 400, "a malformed Content-Length") : 0;
    }
    if (m->parser.type == HTTP_RESPONSE) {
        m->ends_with_connection = true;
        m->length = -1;
    }
    return 0;
}

/* Answers that have no body, whatever their fields say. */
static bool has_no_body(const weft__message *m)
{
    return m->is_to_head || m->status / 100 == 1 || m->status == 204 || m->status == 304 ||
           (m->is_to_connect && m->status / 100 == 2);
}

static bool has_both_upgrades(const found *f)
{
    return (~f->flags & (HAS_UPGRADE | HAS_UPGRADE_FIELD)) == 0;
}

static void take_answer(weft__message *m, const found *f)
{
    m->is_upgrade =
        (m->status == 101 && has_both_upgrades(f)) || (m->is_to_connect && m->status / 100 == 2);
    if (has_no_body(m)) {
        m->is_chunked = false;
        m->ends_with_connection = false;
        m->length = 0;
    }
}

static int take_request(weft__message *m, const found *f, const char *data)
{
    int status = check_host(m, f, data);
    if (status != 0)
        return status;
    if ((f->flags & HAS_OTHER_EXPECT) != 0 && m->version == 11)
        return because(m, 417, "an unknown Expect");
    m->is_upgrade = (has_both_upgrades(f) && m->version == 11) || m->parser.method == HTTP_CONNECT;
    return 0;
}

int weft__message_take_fields(weft__message *m, const char *data, size_t end)
{
    found f = {.flags = 0};
    int status = walk(m, &f, data, end);
    if (status == 0)
        status = take_framing(m, &f, data);
    if (status == 0 && m->parser.type == HTTP_REQUEST)
        status = take_request(m, &f, data);
    if (UNLIKELY(status != 0))
        return weft__message_refuse(m, status, m->reason);
    if (m->parser.type == HTTP_RESPONSE)
        take_answer(m, &f);
    m->left = m->length > 0 ? (uint64_t)m->length : 0;
    m->is_complete = m->length == 0;
    m->expects_continue = (f.flags & HAS_CONTINUE) != 0 && m->version == 11 && !m->is_complete;
    m->is_kept = (f.flags & HAS_CLOSE) == 0 && !m->ends_with_connection &&
                 (m->version == 11 || (f.flags & HAS_KEEP_ALIVE) != 0);
    return 0;
}

const weft__field *weft__message_field(const weft__message *m, const char *head, const char *name,
                                       uint32_t *index)
{
    size_t bytes = strlen(name);
    for (uint32_t i = *index; i < m->fields_count; i++) {
        const weft__field *f = &m->fields[i];
        if (f->name.bytes == bytes && weft__chars_match(head + f->name.at, name, bytes)) {
            *index = i + 1;
            return f;
        }
    }
    *index = m->fields_count;
    return NULL;
}
