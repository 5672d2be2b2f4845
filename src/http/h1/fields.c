/*
 * The fields of a complete head. The functions check that the head contains no text between the
 * fields. They evaluate the fields that control framing and the connection (RFC 9112, 5, 6 and 9;
 * RFC 9110, 7 and 10.1.1). They reject heads that two parsers could interpret differently.
 */
#include "base/compiler.h"
#include "http/h1/internal.h"
#include "http/text/field.h"

#include <errno.h>
#include <string.h>

/* Flags of a head_scan. */
enum {
    HAS_ENCODING = 1,       /* Transfer-Encoding */
    IS_MALFORMED = 2,       /* Transfer-Encoding is malformed */
    HAS_CLOSE = 4,          /* in Connection */
    HAS_KEEP_ALIVE = 8,     /* in Connection */
    HAS_UPGRADE = 16,       /* in Connection */
    HAS_UPGRADE_FIELD = 32, /* Upgrade */
    HAS_CONTINUE = 64,      /* 100-continue in Expect */
    HAS_OTHER_EXPECT = 128, /* another value in Expect */
};

/* The fields of a head that control framing and the connection. */
typedef struct head_scan {
    int flags;
    uint32_t lengths;       /* number of Content-Length fields */
    uint32_t hosts;         /* number of Host fields */
    uint32_t codings;       /* number of codings in all Transfer-Encoding fields */
    uint32_t chunked;       /* number of "chunked" codings */
    bool ends_with_chunked; /* the last coding is "chunked" */
    weft__head_span length; /* the last Content-Length */
    weft__head_span host;   /* the last Host */
} head_scan;

/* Set the reason and return the status. */
static COLD int reject_head(weft__message *m, int status, const char *reason)
{
    m->reason = reason;
    return status;
}

static void scan_transfer_encoding(head_scan *f, const char *value, size_t bytes)
{
    weft__span list = {value, bytes}, element;
    f->flags |= HAS_ENCODING;
    while (weft__field_element(&list, &element)) {
        size_t name = 0;
        while (name < element.bytes && weft__ctype_is(element.at[name], WEFT__CTYPE_TOKEN))
            name++;
        bool is_chunked = name == 7 && weft__ctype_match(element.at, "chunked", 7);
        bool has_parameters = name < element.bytes;
        if (name == 0 ||
            (has_parameters &&
             (is_chunked || (element.at[name] != ';' && !weft__ctype_is_blank(element.at[name])))))
            f->flags |= IS_MALFORMED;
        f->codings++;
        f->chunked += is_chunked;
        f->ends_with_chunked = is_chunked;
    }
}

static void scan_connection(head_scan *f, const char *value, size_t bytes)
{
    weft__span list = {value, bytes}, element;
    while (weft__field_element(&list, &element)) {
        if (element.bytes == 5 && weft__ctype_match(element.at, "close", 5))
            f->flags |= HAS_CLOSE;
        else if (element.bytes == 10 && weft__ctype_match(element.at, "keep-alive", 10))
            f->flags |= HAS_KEEP_ALIVE;
        else if (element.bytes == 7 && weft__ctype_match(element.at, "upgrade", 7))
            f->flags |= HAS_UPGRADE;
    }
}

static void scan_expect(head_scan *f, const char *value, size_t bytes)
{
    bool is_continue = bytes == 12 && weft__ctype_match(value, "100-continue", 12);
    f->flags |= is_continue ? HAS_CONTINUE : HAS_OTHER_EXPECT;
}

static void scan_field(head_scan *f, const weft__field *field, const char *data)
{
    const char *name = data + field->name.at;
    const char *value = data + field->value.at;
    size_t bytes = field->value.bytes;
    switch (field->name.bytes) {
    case 4:
        if (weft__ctype_match(name, "host", 4)) {
            f->host = field->value;
            f->hosts++;
        }
        break;
    case 6:
        if (weft__ctype_match(name, "expect", 6))
            scan_expect(f, value, bytes);
        break;
    case 7:
        if (weft__ctype_match(name, "upgrade", 7))
            f->flags |= HAS_UPGRADE_FIELD;
        break;
    case 10:
        if (weft__ctype_match(name, "connection", 10))
            scan_connection(f, value, bytes);
        break;
    case 14:
        if (weft__ctype_match(name, "content-length", 14)) {
            f->length = field->value;
            f->lengths++;
        }
        break;
    case 17:
        if (weft__ctype_match(name, "transfer-encoding", 17))
            scan_transfer_encoding(f, value, bytes);
        break;
    default:
        break;
    }
}

/*
 * Check that a field starts at offset at. The field must consist of name, colon, blanks, value,
 * blanks and CRLF. Trim the value. Returns the offset of the next field, or 0 if the field is
 * malformed.
 */
static size_t field_validate(weft__field *field, const char *data, size_t at)
{
    const char *p = data + at + field->name.bytes;
    if (UNLIKELY(field->name.at != at || field->name.bytes == 0 || *p++ != ':'))
        return 0;
    while (weft__ctype_is_blank(*p))
        p++;
    const char *value = p;
    if (field->value.bytes > 0) {
        if (UNLIKELY(p != data + field->value.at))
            return 0;
        p += field->value.bytes;
    }
    const char *end = p;
    while (end > value && weft__ctype_is_blank(end[-1]))
        end--;
    field->value = (weft__head_span){(uint32_t)(value - data), (uint32_t)(end - value)};
    return p[0] == '\r' && p[1] == '\n' ? (size_t)(p + 2 - data) : 0;
}

/* Check and scan all fields. The head must end with an empty line. Returns 0 or a status. */
static int scan_fields(weft__message *m, head_scan *f, const char *data, size_t end)
{
    size_t at = m->fields_at;
    for (uint32_t i = 0; i < m->fields_count; i++) {
        at = field_validate(&m->fields[i], data, at);
        if (UNLIKELY(at == 0))
            return reject_head(m, 400, "a malformed header");
        scan_field(f, &m->fields[i], data);
    }
    return at == end - 2 && data[at] == '\r' ? 0 : reject_head(m, 400, "a malformed header");
}

/*
 * Check Host (RFC 9112, 3.2). Host may be empty only with the target "*", because this target has
 * no authority.
 */
static int check_host(weft__message *m, const head_scan *f, const char *data)
{
    if (f->hosts == 0)
        return m->version == 10 ? 0 : reject_head(m, 400, "a missing Host header");
    if (f->hosts > 1)
        return reject_head(m, 400, "several Host headers");
    bool is_valid = f->host.bytes == 0
                        ? data[m->target.at] == '*'
                        : weft__authority_is_valid(data + f->host.at, f->host.bytes, false);
    return is_valid ? 0 : reject_head(m, 400, "a malformed Host");
}

/* Parse a number that consists only of digits. Returns -1 if the text is not a length. */
static int64_t parse_content_length(const char *text, size_t bytes)
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

static int set_chunked_framing(weft__message *m, const head_scan *f)
{
    if (f->lengths > 0 || m->version == 10 || (f->flags & IS_MALFORMED) != 0 || f->chunked != 1 ||
        !f->ends_with_chunked)
        return reject_head(m, 400, "an invalid Transfer-Encoding");
    if (f->codings > 1)
        return reject_head(m, 501, "a Transfer-Encoding other than chunked");
    m->is_chunked = true;
    m->length = -1;
    /* llhttp must have determined the same framing. */
    return (m->parser.flags & F_CHUNKED) != 0 ? 0 : reject_head(m, 400, "a malformed header");
}

/* Determine the framing of the body (RFC 9112, 6.3). Returns 0 or a status. */
static int set_framing(weft__message *m, const head_scan *f, const char *data)
{
    m->is_chunked = false;
    m->ends_with_connection = false;
    m->length = 0;
    if ((f->flags & HAS_ENCODING) != 0)
        return set_chunked_framing(m, f);
    if (f->lengths > 1)
        return reject_head(m, 400, "several Content-Length headers");
    if (f->lengths == 1) {
        m->length = parse_content_length(data + f->length.at, f->length.bytes);
        return m->length < 0 ? reject_head(m, 400, "a malformed Content-Length") : 0;
    }
    if (m->parser.type == HTTP_RESPONSE) {
        m->ends_with_connection = true;
        m->length = -1;
    }
    return 0;
}

/* Return true for a response that never has a body, regardless of its fields (RFC 9112, 6.3). */
static bool response_has_no_body(const weft__message *m)
{
    return m->is_to_head || m->status / 100 == 1 || m->status == 204 || m->status == 304 ||
           (m->is_to_connect && m->status / 100 == 2);
}

static bool has_both_upgrades(const head_scan *f)
{
    return (~f->flags & (HAS_UPGRADE | HAS_UPGRADE_FIELD)) == 0;
}

static void set_response_flags(weft__message *m, const head_scan *f)
{
    m->is_upgrade =
        (m->status == 101 && has_both_upgrades(f)) || (m->is_to_connect && m->status / 100 == 2);
    if (response_has_no_body(m)) {
        m->is_chunked = false;
        m->ends_with_connection = false;
        m->length = 0;
    }
}

static int set_request_flags(weft__message *m, const head_scan *f, const char *data)
{
    int status = check_host(m, f, data);
    if (status != 0)
        return status;
    if ((f->flags & HAS_OTHER_EXPECT) != 0 && m->version == 11)
        return reject_head(m, 417, "an unknown Expect");
    m->is_upgrade = (has_both_upgrades(f) && m->version == 11) || m->parser.method == HTTP_CONNECT;
    return 0;
}

int weft__message_read_fields(weft__message *m, const char *data, size_t end)
{
    head_scan f = {.flags = 0};
    int status = scan_fields(m, &f, data, end);
    if (status == 0)
        status = set_framing(m, &f, data);
    if (status == 0 && m->parser.type == HTTP_REQUEST)
        status = set_request_flags(m, &f, data);
    if (UNLIKELY(status != 0))
        return weft__message_reject(m, status, m->reason);
    if (m->parser.type == HTTP_RESPONSE)
        set_response_flags(m, &f);
    m->left = m->length > 0 ? (uint64_t)m->length : 0;
    m->is_complete = m->length == 0;
    m->expects_continue = (f.flags & HAS_CONTINUE) != 0 && m->version == 11 && !m->is_complete;
    m->is_keep_alive = (f.flags & HAS_CLOSE) == 0 && !m->ends_with_connection &&
                       (m->version == 11 || (f.flags & HAS_KEEP_ALIVE) != 0);
    return 0;
}
