/*
 * The head of a message, parsed incrementally. llhttp reads each byte once. The callbacks of llhttp
 * store offsets. When the head is complete, line.c and fields.c check all bytes between these
 * offsets. The checks include bytes that llhttp skips.
 *
 * Limits apply to each byte. The result does not depend on how reads divide the head.
 */
#include "http/h1/message.h"
#include "base/compiler.h"
#include "http/h1/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIELDS_CAPACITY_FIRST = 16,
    EMPTY_LINES_MAX = 2,
};

int weft__message_reject(weft__message *m, int status, const char *reason)
{
    m->reason = reason;
    m->status = m->parser.type == HTTP_REQUEST ? status : 0;
    m->failure = -EBADMSG;
    return m->failure;
}

static inline weft__message *message_of_parser(llhttp_t *parser)
{
    return CONTAINER_OF(parser, weft__message, parser);
}

static int on_target(llhttp_t *parser, const char *at, size_t bytes)
{
    weft__message *m = message_of_parser(parser);
    if (m->target.bytes == 0)
        m->target.at = (uint32_t)(at - m->base);
    m->target.bytes += (uint32_t)bytes;
    return 0;
}

static COLD int grow_fields(weft__message *m)
{
    size_t capacity =
        m->fields_capacity == 0 ? FIELDS_CAPACITY_FIRST : 2 * (size_t)m->fields_capacity;
    if (capacity > m->limits->fields_max)
        capacity = m->limits->fields_max;
    if (capacity <= m->fields_count) {
        /*
         * Reject the message only when the head is complete. Otherwise the result would depend on
         * how reads divide the head.
         */
        m->has_too_many_fields = true;
        return 0;
    }
    bool is_lent = m->fields != NULL && m->fields == m->lent;
    weft__field *fields = realloc(is_lent ? NULL : m->fields, capacity * sizeof *fields);
    if (fields == NULL) {
        m->failure = -ENOMEM;
        return -ENOMEM;
    }
    if (is_lent)
        memcpy(fields, m->lent, m->fields_count * sizeof *fields);
    m->fields = fields;
    m->fields_capacity = (uint32_t)capacity;
    return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t bytes)
{
    weft__message *m = message_of_parser(parser);
    uint32_t from = (uint32_t)(at - m->base);
    bool continues = from == m->name_end;
    m->name_end = from + (uint32_t)bytes;
    if (UNLIKELY(m->has_too_many_fields))
        return 0;
    if (UNLIKELY(continues)) {
        m->fields[m->fields_count - 1].name.bytes += (uint32_t)bytes;
        return 0;
    }
    if (UNLIKELY(m->fields_count == m->fields_capacity)) {
        int rc = grow_fields(m);
        if (rc < 0 || m->has_too_many_fields)
            return rc < 0 ? HPE_USER : 0;
    }
    m->fields[m->fields_count++] = (weft__field){{from, (uint32_t)bytes}, {0, 0}};
    return 0;
}

static int on_value(llhttp_t *parser, const char *at, size_t bytes)
{
    weft__message *m = message_of_parser(parser);
    uint32_t from = (uint32_t)(at - m->base);
    if (UNLIKELY(m->has_too_many_fields))
        return 0;
    if (UNLIKELY(m->fields_count == 0))
        return HPE_USER; /* a value without a name */
    weft__head_span *value = &m->fields[m->fields_count - 1].value;
    if (value->bytes == 0)
        value->at = from;
    else if (value->at + value->bytes != from)
        return HPE_USER; /* a folded line */
    value->bytes += (uint32_t)bytes;
    return 0;
}

static int on_head_end(llhttp_t *parser)
{
    /* Otherwise llhttp would treat the next bytes as another protocol. The bytes may be a body. */
    parser->upgrade = 0;
    message_of_parser(parser)->is_paused = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t head_settings = {
    .on_url = on_target,
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_head_end,
};

void weft__message_open(weft__message *m, weft__message_kind kind,
                        const weft__message_limits *limits)
{
    memset(m, 0, sizeof *m);
    m->limits = limits;
    m->parser.type = kind == WEFT__REQUEST ? HTTP_REQUEST : HTTP_RESPONSE;
    weft__message_reset(m);
}

static void start_parser(weft__message *m)
{
    llhttp_init(&m->parser, m->parser.type, &head_settings);
    /* line.c checks the version. Any minor version above 0 counts as 1.1. */
    m->parser.lenient_flags = LENIENT_VERSION;
}

void weft__message_reset(weft__message *m)
{
    start_parser(m);
    m->target.bytes = 0;
    m->fields_count = 0;
    m->status = 0;
    m->reason = NULL;
    m->has_unknown_method = false;
    m->is_complete = false;
    m->seen = 0;
    m->line_at = 0;
    m->head_bytes = 0;
    m->failure = 0;
    m->fields_at = 0;
    m->name_end = 0;
    m->has_too_many_fields = false;
    m->is_paused = false;
    m->framing_bytes = 0;
    m->extra_bytes = 0;
    m->last = 0;
    m->part = WEFT__CHUNK_IN_SIZE;
    m->extension = WEFT__EXT_BEFORE_SEMICOLON;
    m->trailers_bytes = 0;
    m->trailers_count = 0;
    m->trailer_at = 0;
}

void weft__message_lend(weft__message *m, weft__field *fields, uint32_t capacity)
{
    weft__message_close(m);
    m->lent = fields;
    m->fields = fields;
    m->fields_capacity = fields == NULL ? 0 : capacity;
    if (m->fields_capacity > m->limits->fields_max)
        m->fields_capacity = (uint32_t)m->limits->fields_max;
}

void weft__message_close(weft__message *m)
{
    if (m->fields != m->lent)
        free(m->fields);
    m->fields = NULL;
    m->lent = NULL;
    m->fields_capacity = m->fields_count = 0;
    if (m->trailers != NULL)
        free(m->trailers);
    m->trailers = NULL;
    m->trailers_capacity = m->trailers_bytes = 0;
}

/*
 * Skip empty lines before the first line. A client may have sent them after its last body (RFC
 * 9112, 2.2). Returns 1 at the first line, 0 if more bytes are necessary, or an error.
 */
static COLD int skip_empty_lines(weft__message *m, const char *data, size_t bytes)
{
    while (m->line_at < bytes) {
        size_t rest = bytes - m->line_at;
        const char *at = data + m->line_at;
        if (*at != '\r' && *at != '\n')
            return 1;
        if (*at == '\n' || m->line_at == 2 * EMPTY_LINES_MAX || m->parser.type != HTTP_REQUEST)
            return weft__message_reject(m, 400, "empty lines before the request line");
        if (rest == 1)
            return 0;
        if (at[1] != '\n')
            return weft__message_reject(m, 400, "a line that does not end with CRLF");
        m->line_at += 2;
    }
    return 0;
}

/* Check an incomplete line. Reject a line that cannot become valid. Returns 0 or an error. */
static COLD int check_partial_line(weft__message *m, const char *line, size_t bytes)
{
    bool is_request = m->parser.type == HTTP_REQUEST;
    return is_request && weft__message_line_is_not_http1(line, bytes)
               ? weft__message_reject(m, 505, "an HTTP version other than 1")
               : 0;
}

/*
 * Check the first line of an incomplete head. Returns 1 if the line is complete and valid, 0 if the
 * line is incomplete, or an error.
 */
static COLD int check_line(weft__message *m, const char *data, size_t bytes)
{
    const char *end = memchr(data + m->line_at, '\n', bytes - m->line_at);
    if (end == NULL)
        return check_partial_line(m, data + m->line_at, bytes - m->line_at);
    if (!weft__message_line_is_valid(m, data, (size_t)(end + 1 - data)))
        return weft__message_reject_line(m, data + m->line_at,
                                         (size_t)(end + 1 - data - m->line_at));
    m->fields_at = (uint32_t)(end + 1 - data);
    return 1;
}

/* Return true if a partial line contains a control character. The line then cannot become valid. */
static bool line_has_control(const char *line, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (!weft__ctype_is(line[i], WEFT__CTYPE_VALUE) && line[i] != '\r')
            return true;
    }
    return false;
}

static ssize_t head_parse(weft__message *m, const char *data, size_t from, size_t bytes);

/*
 * Restart llhttp with GET in place of a method that llhttp does not support. The framing depends on
 * the method only for CONNECT. Every release of llhttp supports CONNECT.
 */
static COLD ssize_t head_parse_as_get(weft__message *m, const char *data, size_t method,
                                      size_t bytes)
{
    m->has_unknown_method = true;
    m->target.bytes = 0;
    start_parser(m);
    (void)llhttp_execute(&m->parser, "GET", 3);
    return head_parse(m, data, m->line_at + method, bytes);
}

/* Handle an error of llhttp in or after the first line. The first line must be complete. */
static COLD ssize_t line_failed(weft__message *m, const char *data, size_t line_bytes, size_t bytes)
{
    const char *line = data + m->line_at;
    if (m->parser.error_pos >= line + line_bytes &&
        weft__message_line_is_valid(m, data, m->line_at + line_bytes)) {
        m->fields_at = m->line_at + (uint32_t)line_bytes;
        return weft__message_reject(m, 400, "a malformed header");
    }
    size_t method = m->has_unknown_method ? 0 : weft__message_line_method(line, line_bytes);
    return method > 0 ? head_parse_as_get(m, data, method, bytes)
                      : weft__message_reject_line(m, line, line_bytes);
}

/*
 * Handle an error of llhttp. For an error in the first line, the whole line determines the status.
 */
static COLD ssize_t head_failed(weft__message *m, const char *data, size_t bytes)
{
    if (m->failure == -ENOMEM)
        return m->failure;
    if (m->parser.type != HTTP_REQUEST || m->fields_at > 0)
        return weft__message_reject(m, 400, "a malformed header");
    const char *line = data + m->line_at;
    const char *end = memchr(line, '\n', bytes - m->line_at);
    if (end != NULL)
        return line_failed(m, data, (size_t)(end + 1 - line), bytes);
    return line_has_control(line, bytes - m->line_at)
               ? weft__message_reject(m, 400, "a control character in the request line")
               : check_partial_line(m, line, bytes - m->line_at);
}

static ssize_t head_finish(weft__message *m, const char *data, size_t end)
{
    if (m->fields_at == 0) {
        size_t line_end = m->fields_count > 0 ? m->fields[0].name.at : end - 2;
        if (UNLIKELY(!weft__message_line_is_valid(m, data, line_end))) {
            int rc = check_line(m, data, end);
            return rc < 0 ? rc : weft__message_reject(m, 400, "a malformed request line");
        }
        m->fields_at = (uint32_t)line_end;
    }
    if (UNLIKELY(m->has_too_many_fields))
        return weft__message_reject(m, 431, "too many headers");
    int rc = weft__message_read_fields(m, data, end);
    if (UNLIKELY(rc < 0))
        return rc;
    m->head_bytes = (uint32_t)end;
    return (ssize_t)end;
}

/*
 * Continue llhttp at an offset. Returns the length of the head, 0 if the head is incomplete, or an
 * error.
 */
static ssize_t head_parse(weft__message *m, const char *data, size_t from, size_t bytes)
{
    llhttp_errno_t error = llhttp_execute(&m->parser, data + from, bytes - from);
    m->seen = (uint32_t)bytes;
    if (LIKELY(error == HPE_PAUSED && m->is_paused))
        return head_finish(m, data, (size_t)(m->parser.error_pos - data));
    if (error != HPE_OK)
        return head_failed(m, data, bytes);
    if (m->fields_at > 0)
        return 0;
    int rc = check_line(m, data, bytes);
    return rc < 0 ? rc : 0;
}

/* Like head_parse, but from the first byte that llhttp has not read. */
static ssize_t head_feed(weft__message *m, const char *data, size_t bytes)
{
    m->base = data;
    if (LIKELY(m->parser.error == HPE_OK))
        return head_parse(m, data, m->seen < m->line_at ? m->line_at : m->seen, bytes);
    /* llhttp has stopped in an incomplete first line. The data may have moved meanwhile. */
    m->parser.error_pos = data + m->line_at;
    return head_failed(m, data, bytes);
}

/*
 * Reject a first line that exceeds its limit. The status is 414 for a long target, 400 for a long
 * method.
 */
static COLD int reject_long_line(weft__message *m, const char *data, size_t bytes)
{
    bool has_target = memchr(data + m->line_at, ' ', bytes - m->line_at) != NULL;
    return weft__message_reject(m, has_target ? 414 : 400, "a request line that is too long");
}

/* Add two sizes. Returns SIZE_MAX on overflow. */
static size_t add_saturated(size_t a, size_t b)
{
    return a > SIZE_MAX - b ? SIZE_MAX : a + b;
}

ssize_t weft__message_head(weft__message *m, const char *data, size_t bytes)
{
    if (UNLIKELY(m->failure != 0))
        return m->failure;
    if (m->head_bytes > 0 || bytes == 0)
        return m->head_bytes;
    if (m->seen == 0 && UNLIKELY(data[m->line_at] == '\r' || data[m->line_at] == '\n')) {
        int rc = skip_empty_lines(m, data, bytes);
        if (rc <= 0)
            return rc;
    }
    for (;;) {
        size_t limit =
            m->limits->head_bytes_max < UINT32_MAX ? m->limits->head_bytes_max : UINT32_MAX;
        size_t line_limit = add_saturated(add_saturated(m->limits->line_bytes_max, 2), m->line_at);
        bool is_in_line = m->fields_at == 0 && line_limit < limit;
        if (is_in_line)
            limit = line_limit;
        ssize_t rc = head_feed(m, data, bytes < limit ? bytes : limit);
        if (rc != 0 || bytes < limit)
            return rc;
        if (m->fields_at == 0)
            return reject_long_line(m, data, limit);
        if (!is_in_line)
            return weft__message_reject(m, 431, "headers that are too long");
    }
}

void weft__message_nul_terminate(weft__message *m, char *head)
{
    if (m->parser.type == HTTP_REQUEST) {
        head[m->method.at + m->method.bytes] = '\0';
        head[m->target.at + m->target.bytes] = '\0';
    }
    for (uint32_t i = 0; i < m->fields_count; i++) {
        const weft__field *f = &m->fields[i];
        head[f->name.at + f->name.bytes] = '\0';
        head[f->value.at + f->value.bytes] = '\0';
    }
}

int weft__message_end(weft__message *m)
{
    if (m->failure != 0)
        return m->failure;
    if (m->head_bytes > 0 && m->ends_with_connection)
        m->is_complete = true;
    return m->is_complete ? 0 : -ECONNRESET;
}
