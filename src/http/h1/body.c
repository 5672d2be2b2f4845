/*
 * The body of a message, piece by piece and in place. One with a length is only counted; chunks go
 * through llhttp, and what is not body of them, the framing, is looked at once more: lines end with
 * CRLF only, none is folded, there are no control characters, and of all that is not needed,
 * extensions and trailers, there is a limit.
 */
#include "base/compiler.h"
#include "http/message_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /* CRLF, a size of 16 digits and CRLF; and CRLF again at the end. */
    GAP_BYTES_NEEDED = 22,
    TRAILERS_ROOM_FIRST = 256,
};

static inline weft__message *of_parser(llhttp_t *parser)
{
    return CONTAINER_OF(parser, weft__message, parser);
}

static int on_piece(llhttp_t *parser, const char *at, size_t bytes)
{
    weft__message *m = of_parser(parser);
    m->piece = at;
    m->piece_bytes = bytes;
    m->is_paused = true;
    return HPE_PAUSED;
}

static int on_message_end(llhttp_t *parser)
{
    of_parser(parser)->is_paused = true;
    of_parser(parser)->is_complete = true;
    return HPE_PAUSED;
}

static int on_chunk_end(llhttp_t *parser)
{
    if ((parser->flags & F_TRAILING) != 0)
        return 0; /* the last one, and the message ends with it */
    of_parser(parser)->is_paused = true;
    of_parser(parser)->part = WEFT__IN_SIZE;
    return HPE_PAUSED;
}

static int keep_trailer(weft__message *m, const char *text, size_t bytes)
{
    if (bytes == 0)
        return 0; /* an empty name: there may be no memory yet */
    size_t needed = m->trailers_bytes + bytes;
    if (needed > m->trailers_room) {
        size_t room = m->trailers_room == 0 ? TRAILERS_ROOM_FIRST : 2 * m->trailers_room;
        while (room < needed)
            room *= 2;
        char *trailers = realloc(m->trailers, room);
        if (trailers == NULL) {
            m->failure = -ENOMEM;
            return HPE_USER;
        }
        m->trailers = trailers;
        m->trailers_room = room;
    }
    memcpy(m->trailers + m->trailers_bytes, text, bytes);
    m->trailers_bytes += bytes;
    return 0;
}

static int on_trailer_text(llhttp_t *parser, const char *at, size_t bytes)
{
    return keep_trailer(of_parser(parser), at, bytes);
}

/* Fields that would have changed how the message was read, had they come in time. */
static bool is_forbidden(const char *name, size_t bytes)
{
    return (bytes == 4 && weft__chars_match(name, "host", 4)) ||
           (bytes == 14 && weft__chars_match(name, "content-length", 14)) ||
           (bytes == 17 && weft__chars_match(name, "transfer-encoding", 17));
}

static int on_trailer_name_end(llhttp_t *parser)
{
    weft__message *m = of_parser(parser);
    size_t bytes = m->trailers_bytes - m->trailer_at;
    if (bytes == 0 || m->trailers_count == m->limits->fields_max ||
        is_forbidden(m->trailers + m->trailer_at, bytes))
        return HPE_USER;
    m->trailers_count++;
    int rc = keep_trailer(m, "", 1);
    m->trailer_at = m->trailers_bytes;
    return rc;
}

static int on_trailer_value_end(llhttp_t *parser)
{
    weft__message *m = of_parser(parser);
    while (m->trailers_bytes > m->trailer_at && (m->trailers[m->trailers_bytes - 1] == ' ' ||
                                                 m->trailers[m->trailers_bytes - 1] == '\t'))
        m->trailers_bytes--;
    int rc = keep_trailer(m, "", 1);
    m->trailer_at = m->trailers_bytes;
    return rc;
}

static const llhttp_settings_t body_settings = {
    .on_body = on_piece,
    .on_chunk_complete = on_chunk_end,
    .on_message_complete = on_message_end,
    .on_header_field = on_trailer_text,
    .on_header_field_complete = on_trailer_name_end,
    .on_header_value = on_trailer_text,
    .on_header_value_complete = on_trailer_value_end,
};

/* Look at framing that llhttp has let pass. */
static bool is_framing(weft__message *m, const char *data, size_t bytes)
{
    char last = m->last;
    for (size_t i = 0; i < bytes; i++) {
        char c = data[i];
        if (last == '\r' ? c != '\n' : (c != '\r' && !weft__char_is(c, WEFT__CHAR_VALUE)))
            return false;
        if (last == '\n' && (c == ' ' || c == '\t'))
            return false;
        last = c;
        if (++m->gap > GAP_BYTES_NEEDED && ++m->extra_bytes > m->limits->head_bytes_max)
            return false;
    }
    m->last = last;
    return true;
}

/* Let llhttp go on with some bytes: what it used; < 0: it refuses them. */
static ssize_t run(weft__message *m, const char *data, size_t bytes)
{
    m->parser.settings = (void *)&body_settings;
    m->is_paused = false;
    m->piece_bytes = 0;
    llhttp_resume(&m->parser);
    llhttp_errno_t error = llhttp_execute(&m->parser, data, bytes);
    if (error != HPE_OK && !(error == HPE_PAUSED && m->is_paused))
        return m->failure != 0 ? m->failure : -EBADMSG;
    size_t used = error == HPE_OK ? bytes : (size_t)(m->parser.error_pos - data);
    if (!is_framing(m, data, used - m->piece_bytes))
        return -EBADMSG;
    if (m->piece_bytes > 0) {
        m->gap = 0;
        m->last = 0;
    }
    return (ssize_t)used;
}

/*
 * How much llhttp is to see of a chunk's size: not the extensions, which nobody needs, and of which
 * it refuses some that are right (two of them, or a quoted quotation mark).
 */
static size_t size_bytes(weft__message *m, const char *data, size_t bytes)
{
    size_t digits = 0;
    while (digits < bytes && weft__char_is(data[digits], WEFT__CHAR_HEX))
        digits++;
    if (digits == bytes)
        return bytes;
    bool has_extension = data[digits] == ';'; /* without digits, llhttp refuses the line's end */
    m->part = has_extension ? WEFT__IN_EXTENSION : WEFT__IN_CHUNK;
    return has_extension ? digits : bytes;
}

static weft__extension_part behind_name(char c)
{
    if (c == ' ' || c == '\t')
        return WEFT__BEHIND_NAME;
    if (c == '=')
        return WEFT__BEFORE_VALUE;
    return c == ';' ? WEFT__BEFORE_NAME : WEFT__EXTENSION_IS_BAD;
}

static weft__extension_part behind_value(char c)
{
    if (c == ' ' || c == '\t')
        return WEFT__BEFORE_EXTENSION;
    return c == ';' ? WEFT__BEFORE_NAME : WEFT__EXTENSION_IS_BAD;
}

static weft__extension_part in_quotes(char c)
{
    return c == '"' ? WEFT__BEHIND_QUOTES : c == '\\' ? WEFT__IN_ESCAPE : WEFT__IN_QUOTES;
}

/* What a further character leads to; which of them are text at all, is_framing says. */
static weft__extension_part next_part(weft__extension_part part, char c)
{
    bool is_blank = weft__char_is_blank(c), is_token = weft__char_is(c, WEFT__CHAR_TOKEN);
    switch (part) {
    case WEFT__BEFORE_NAME:
        return is_token ? WEFT__IN_NAME : is_blank ? part : WEFT__EXTENSION_IS_BAD;
    case WEFT__IN_NAME:
        return is_token ? part : behind_name(c);
    case WEFT__BEHIND_NAME:
        return behind_name(c);
    case WEFT__BEFORE_VALUE:
        if (c == '"')
            return WEFT__IN_QUOTES;
        return is_token ? WEFT__IN_VALUE : is_blank ? part : WEFT__EXTENSION_IS_BAD;
    case WEFT__IN_VALUE:
        return is_token ? part : behind_value(c);
    case WEFT__IN_QUOTES:
        return in_quotes(c);
    case WEFT__IN_ESCAPE:
        return WEFT__IN_QUOTES;
    default:
        return behind_value(c);
    }
}

/*
 * A line may end behind a name or a value only. Most of all, what is quoted has to have an end: who
 * reads over the end of the line to find one would see another chunk.
 */
static bool may_end(weft__extension_part part)
{
    return part == WEFT__IN_NAME || part == WEFT__IN_VALUE || part == WEFT__BEHIND_QUOTES;
}

static ssize_t skip_extension(weft__message *m, const char *data, size_t bytes)
{
    size_t n = 0;
    while (n < bytes && data[n] != '\r' && m->extension != WEFT__EXTENSION_IS_BAD)
        m->extension = next_part(m->extension, data[n++]);
    if (n < bytes) {
        if (!may_end(m->extension))
            return -EBADMSG;
        m->extension = WEFT__BEFORE_EXTENSION;
        m->part = WEFT__IN_CHUNK;
    }
    bool is_bad = m->extension == WEFT__EXTENSION_IS_BAD;
    return !is_bad && is_framing(m, data, n) ? (ssize_t)n : -EBADMSG;
}

/* As weft__message_body. */
static int next_chunk_piece(weft__message *m, const char *data, size_t bytes, size_t *used)
{
    m->piece = data;
    m->piece_bytes = 0;
    while (*used < bytes && m->piece_bytes == 0 && !m->is_complete) {
        const char *at = data + *used;
        size_t rest = bytes - *used;
        ssize_t n;
        if (m->part == WEFT__IN_EXTENSION)
            n = skip_extension(m, at, rest);
        else
            n = run(m, at, m->part == WEFT__IN_SIZE ? size_bytes(m, at, rest) : rest);
        if (n < 0) {
            m->is_complete = false;
            return n == -ENOMEM ? -ENOMEM : weft__message_refuse(m, 400, "malformed chunks");
        }
        *used += (size_t)n;
    }
    return m->piece_bytes > 0;
}

int weft__message_body(weft__message *m, const char *data, size_t bytes, size_t *used,
                       const char **piece, size_t *piece_bytes)
{
    *used = 0;
    *piece = data;
    *piece_bytes = 0;
    if (m->failure != 0)
        return m->failure;
    if (m->is_complete || bytes == 0)
        return 0;
    if (m->is_chunked) {
        int rc = next_chunk_piece(m, data, bytes, used);
        *piece = m->piece;
        *piece_bytes = m->piece_bytes;
        return rc;
    }
    if (!m->ends_with_connection) {
        bytes = bytes < m->left ? bytes : (size_t)m->left;
        m->left -= bytes;
        m->is_complete = m->left == 0;
    }
    *piece_bytes = *used = bytes;
    return 1;
}

const char *weft__message_next_trailer(const weft__message *m, const char *name, const char **value)
{
    if (!m->is_complete || m->trailers == NULL)
        return NULL;
    const char *at = m->trailers, *end = at + m->trailers_bytes;
    if (name != NULL) {
        at = name + strlen(name) + 1;
        at += strlen(at) + 1;
    }
    if (at >= end)
        return NULL;
    *value = at + strlen(at) + 1;
    return at;
}

const char *weft__message_trailer(const weft__message *m, const char *name)
{
    const char *at = NULL, *value;
    while ((at = weft__message_next_trailer(m, at, &value)) != NULL)
        if (strcasecmp(at, name) == 0)
            return value;
    return NULL;
}
