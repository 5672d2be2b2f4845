/*
 * The body of a message: pieces, chunks and trailers. The parser does not copy pieces. If the
 * length of a body is known, the parser only counts bytes. llhttp parses chunks.
 *
 * The framing of a chunked body is all text that is not body. llhttp accepts some invalid framing,
 * so this file checks the framing again. Lines must end with CRLF. Folded lines and control
 * characters are invalid. Extensions and trailers together have a limit.
 */
#include "base/compiler.h"
#include "http/h1/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    /*
     * The framing of a chunk without extensions: CRLF, 16 digits, CRLF, and CRLF of the last chunk.
     */
    FRAMING_BYTES_NEEDED = 22,
    TRAILERS_CAPACITY_FIRST = 256,
};

static inline weft__message *message_of_parser(llhttp_t *parser)
{
    return CONTAINER_OF(parser, weft__message, parser);
}

static int on_piece(llhttp_t *parser, const char *at, size_t bytes)
{
    weft__message *m = message_of_parser(parser);
    m->piece = at;
    m->piece_bytes = bytes;
    m->is_paused = true;
    return HPE_PAUSED;
}

static int on_message_end(llhttp_t *parser)
{
    message_of_parser(parser)->is_paused = true;
    message_of_parser(parser)->is_complete = true;
    return HPE_PAUSED;
}

static int on_chunk_end(llhttp_t *parser)
{
    if ((parser->flags & F_TRAILING) != 0)
        return 0; /* the last chunk: on_message_end follows */
    message_of_parser(parser)->is_paused = true;
    message_of_parser(parser)->part = WEFT__CHUNK_IN_SIZE;
    return HPE_PAUSED;
}

static int trailer_append(weft__message *m, const char *text, size_t bytes)
{
    if (bytes == 0)
        return 0; /* m->trailers may be NULL */
    size_t needed = m->trailers_bytes + bytes;
    if (needed > m->trailers_capacity) {
        size_t capacity =
            m->trailers_capacity == 0 ? TRAILERS_CAPACITY_FIRST : 2 * m->trailers_capacity;
        while (capacity < needed)
            capacity *= 2;
        char *trailers = realloc(m->trailers, capacity);
        if (trailers == NULL) {
            m->failure = -ENOMEM;
            return HPE_USER;
        }
        m->trailers = trailers;
        m->trailers_capacity = capacity;
    }
    memcpy(m->trailers + m->trailers_bytes, text, bytes);
    m->trailers_bytes += bytes;
    return 0;
}

static int on_trailer_text(llhttp_t *parser, const char *at, size_t bytes)
{
    return trailer_append(message_of_parser(parser), at, bytes);
}

/*
 * Return true for fields that determine the framing or the routing of a message (RFC 9110, 6.5.1).
 */
static bool trailer_is_forbidden(const char *name, size_t bytes)
{
    return (bytes == 4 && weft__ctype_match(name, "host", 4)) ||
           (bytes == 14 && weft__ctype_match(name, "content-length", 14)) ||
           (bytes == 17 && weft__ctype_match(name, "transfer-encoding", 17));
}

static int on_trailer_name_end(llhttp_t *parser)
{
    weft__message *m = message_of_parser(parser);
    size_t bytes = m->trailers_bytes - m->trailer_at;
    if (bytes == 0 || m->trailers_count == m->limits->fields_max ||
        trailer_is_forbidden(m->trailers + m->trailer_at, bytes))
        return HPE_USER;
    m->trailers_count++;
    int rc = trailer_append(m, "", 1);
    m->trailer_at = m->trailers_bytes;
    return rc;
}

static int on_trailer_value_end(llhttp_t *parser)
{
    weft__message *m = message_of_parser(parser);
    while (m->trailers_bytes > m->trailer_at && (m->trailers[m->trailers_bytes - 1] == ' ' ||
                                                 m->trailers[m->trailers_bytes - 1] == '\t'))
        m->trailers_bytes--;
    int rc = trailer_append(m, "", 1);
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

/* Check and count framing that llhttp has accepted. */
static bool framing_is_valid(weft__message *m, const char *data, size_t bytes)
{
    char last = m->last;
    for (size_t i = 0; i < bytes; i++) {
        char c = data[i];
        if (last == '\r' ? c != '\n' : (c != '\r' && !weft__ctype_is(c, WEFT__CTYPE_VALUE)))
            return false;
        if (last == '\n' && (c == ' ' || c == '\t'))
            return false;
        last = c;
        if (++m->framing_bytes > FRAMING_BYTES_NEEDED &&
            ++m->extra_bytes > m->limits->head_bytes_max)
            return false;
    }
    m->last = last;
    return true;
}

/*
 * Continue the parser. Returns the number of used bytes, or:
 * -EBADMSG if the input is malformed
 * -ENOMEM if memory is exhausted
 */
static ssize_t run_parser(weft__message *m, const char *data, size_t bytes)
{
    m->parser.settings = (void *)&body_settings;
    m->is_paused = false;
    m->piece_bytes = 0;
    llhttp_resume(&m->parser);
    llhttp_errno_t error = llhttp_execute(&m->parser, data, bytes);
    if (error != HPE_OK && !(error == HPE_PAUSED && m->is_paused))
        return m->failure != 0 ? m->failure : -EBADMSG;
    size_t used = error == HPE_OK ? bytes : (size_t)(m->parser.error_pos - data);
    if (!framing_is_valid(m, data, used - m->piece_bytes))
        return -EBADMSG;
    if (m->piece_bytes > 0) {
        m->framing_bytes = 0;
        m->last = 0;
    }
    return (ssize_t)used;
}

/*
 * Return the number of bytes of a chunk's size line to pass to llhttp. The parser does not pass
 * extensions, because llhttp rejects some valid extensions. Examples are two extensions and an
 * escaped quotation mark.
 */
static size_t chunk_size_bytes(weft__message *m, const char *data, size_t bytes)
{
    size_t digits = 0;
    while (digits < bytes && weft__ctype_is(data[digits], WEFT__CTYPE_HEX))
        digits++;
    if (digits == bytes)
        return bytes;
    bool has_extension = data[digits] == ';'; /* llhttp rejects a line without digits */
    m->part = has_extension ? WEFT__CHUNK_IN_EXTENSION : WEFT__CHUNK_IN_DATA;
    return has_extension ? digits : bytes;
}

static weft__extension_part ext_after_name(char c)
{
    if (c == ' ' || c == '\t')
        return WEFT__EXT_AFTER_NAME;
    if (c == '=')
        return WEFT__EXT_BEFORE_VALUE;
    return c == ';' ? WEFT__EXT_BEFORE_NAME : WEFT__EXT_BAD;
}

static weft__extension_part ext_after_value(char c)
{
    if (c == ' ' || c == '\t')
        return WEFT__EXT_BEFORE_SEMICOLON;
    return c == ';' ? WEFT__EXT_BEFORE_NAME : WEFT__EXT_BAD;
}

static weft__extension_part ext_in_quotes(char c)
{
    return c == '"'    ? WEFT__EXT_AFTER_QUOTES
           : c == '\\' ? WEFT__EXT_IN_ESCAPE
                       : WEFT__EXT_IN_QUOTES;
}

/* Return the state after a character of an extension. framing_is_valid checks the characters. */
static weft__extension_part ext_next(weft__extension_part part, char c)
{
    bool is_blank = weft__ctype_is_blank(c), is_token = weft__ctype_is(c, WEFT__CTYPE_TOKEN);
    switch (part) {
    case WEFT__EXT_BEFORE_NAME:
        return is_token ? WEFT__EXT_IN_NAME : is_blank ? part : WEFT__EXT_BAD;
    case WEFT__EXT_IN_NAME:
        return is_token ? part : ext_after_name(c);
    case WEFT__EXT_AFTER_NAME:
        return ext_after_name(c);
    case WEFT__EXT_BEFORE_VALUE:
        if (c == '"')
            return WEFT__EXT_IN_QUOTES;
        return is_token ? WEFT__EXT_IN_VALUE : is_blank ? part : WEFT__EXT_BAD;
    case WEFT__EXT_IN_VALUE:
        return is_token ? part : ext_after_value(c);
    case WEFT__EXT_IN_QUOTES:
        return ext_in_quotes(c);
    case WEFT__EXT_IN_ESCAPE:
        return WEFT__EXT_IN_QUOTES;
    default:
        return ext_after_value(c);
    }
}

/*
 * Return true if the line may end in this state, after a name or a value. An unclosed quote is
 * dangerous. Another parser might search for the closing quote beyond the line and find different
 * chunks.
 */
static bool ext_may_end(weft__extension_part part)
{
    return part == WEFT__EXT_IN_NAME || part == WEFT__EXT_IN_VALUE ||
           part == WEFT__EXT_AFTER_QUOTES;
}

static ssize_t ext_skip(weft__message *m, const char *data, size_t bytes)
{
    size_t n = 0;
    while (n < bytes && data[n] != '\r' && m->extension != WEFT__EXT_BAD)
        m->extension = ext_next(m->extension, data[n++]);
    if (n < bytes) {
        if (!ext_may_end(m->extension))
            return -EBADMSG;
        m->extension = WEFT__EXT_BEFORE_SEMICOLON;
        m->part = WEFT__CHUNK_IN_DATA;
    }
    bool is_bad = m->extension == WEFT__EXT_BAD;
    return !is_bad && framing_is_valid(m, data, n) ? (ssize_t)n : -EBADMSG;
}

/* Like weft__message_body, for a chunked body. The piece is in m->piece. */
static int next_chunk_piece(weft__message *m, const char *data, size_t bytes, size_t *used)
{
    m->piece = data;
    m->piece_bytes = 0;
    while (*used < bytes && m->piece_bytes == 0 && !m->is_complete) {
        const char *at = data + *used;
        size_t rest = bytes - *used;
        ssize_t n;
        if (m->part == WEFT__CHUNK_IN_EXTENSION)
            n = ext_skip(m, at, rest);
        else
            n = run_parser(m, at,
                           m->part == WEFT__CHUNK_IN_SIZE ? chunk_size_bytes(m, at, rest) : rest);
        if (n < 0) {
            m->is_complete = false;
            return n == -ENOMEM ? -ENOMEM : weft__message_reject(m, 400, "malformed chunks");
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
