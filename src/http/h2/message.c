/*
 * The rules for the fields of a message (RFC 9113, 8.1 to 8.5, RFC 8441). A message that breaks a
 * rule is malformed. The owner makes the checks that depend on its role, for example of the host.
 */
#include "http/h2/internal.h"
#include "http/text/ctype.h"
#include "http/text/field.h"

/* Bits of seen: what the head that is arriving has. */
enum {
    SEEN_METHOD = 1 << 0,
    SEEN_SCHEME = 1 << 1,
    SEEN_PATH = 1 << 2,
    SEEN_AUTHORITY = 1 << 3,
    SEEN_PROTOCOL = 1 << 4,
    SEEN_STATUS = 1 << 5,
    SEEN_HOST = 1 << 6,
    SEEN_LENGTH = 1 << 7,
    SEEN_REGULAR = 1 << 8,   /* a field that is not a pseudo field */
    SEEN_CONNECT = 1 << 9,   /* the method is CONNECT */
    SEEN_OPTIONS = 1 << 10,  /* the method is OPTIONS */
    SEEN_HTTP = 1 << 11,     /* the scheme is http or https */
    SEEN_SLASH = 1 << 12,    /* the path begins with a slash */
    SEEN_ASTERISK = 1 << 13, /* the path is "*" */
    SEEN_REQUEST = SEEN_METHOD | SEEN_SCHEME | SEEN_PATH,
};

/* The name and value of a field. */
typedef struct text {
    const char *at;
    size_t bytes;
} text;

/* Compare with a string literal. */
#define IS(t, literal) \
    ((t).bytes == sizeof(literal) - 1 && memcmp((t).at, (literal), sizeof(literal) - 1) == 0)

/* Note a field that a head has at most once, and that is not empty. */
static bool see_once(weft__h2_stream *st, unsigned bit, text value)
{
    bool is_valid = (st->seen & bit) == 0 && value.bytes > 0;
    st->seen = (uint16_t)(st->seen | bit);
    return is_valid;
}

static void see_if(weft__h2_stream *st, unsigned bit, bool is_seen)
{
    st->seen = (uint16_t)(st->seen | (is_seen ? bit : 0));
}

static bool check_method(weft__h2_stream *st, text value)
{
    see_if(st, SEEN_CONNECT, IS(value, "CONNECT"));
    see_if(st, SEEN_OPTIONS, IS(value, "OPTIONS"));
    return see_once(st, SEEN_METHOD, value);
}

static bool check_path(weft__h2_stream *st, text value)
{
    see_if(st, SEEN_SLASH, value.bytes > 0 && value.at[0] == '/');
    see_if(st, SEEN_ASTERISK, IS(value, "*"));
    return see_once(st, SEEN_PATH, value);
}

/* Return whether the text is a scheme (RFC 3986, 3.1). */
static bool is_scheme(text value)
{
    for (size_t i = 0; i < value.bytes; i++)
        if (!weft__ctype_is(value.at[i], WEFT__CTYPE_ALPHA | WEFT__CTYPE_DIGIT) &&
            strchr("+-.", value.at[i]) == NULL)
            return false;
    return value.bytes > 0 && weft__ctype_is(value.at[0], WEFT__CTYPE_ALPHA);
}

static bool check_scheme(weft__h2_stream *st, text value)
{
    bool is_http = IS(value, "http") || IS(value, "https") ||
                   weft__field_is_word(value.at, value.bytes, "http") ||
                   weft__field_is_word(value.at, value.bytes, "https");
    see_if(st, SEEN_HTTP, is_http);
    return (is_http || is_scheme(value)) && see_once(st, SEEN_SCHEME, value);
}

static bool check_request_pseudo(weft__h2_stream *st, text name, text value)
{
    switch (name.bytes) {
    case 5:
        return IS(name, ":path") && check_path(st, value);
    case 7:
        return IS(name, ":method") ? check_method(st, value)
                                   : IS(name, ":scheme") && check_scheme(st, value);
    case 9:
        return IS(name, ":protocol") && st->session->options.allows_connect &&
               see_once(st, SEEN_PROTOCOL, value);
    case 10:
        return IS(name, ":authority") && see_once(st, SEEN_AUTHORITY, value);
    default:
        return false;
    }
}

/* Read the status: three digits, at least 100. 101 does not exist (RFC 9113, 8.6). */
static bool check_response_pseudo(weft__h2_stream *st, text name, text value)
{
    if (!IS(name, ":status") || !see_once(st, SEEN_STATUS, value) || value.bytes != 3)
        return false;
    int status = 0;
    for (int i = 0; i < 3; i++) {
        if (value.at[i] < '0' || value.at[i] > '9')
            return false;
        status = 10 * status + (value.at[i] - '0');
    }
    st->status = status;
    st->has_status = true;
    return status >= 100 && status != 101;
}

/* Return the number, or -1 if the text is not a number. */
static int64_t parse_length(text value)
{
    int64_t length = 0;
    for (size_t i = 0; i < value.bytes; i++) {
        int digit = value.at[i] - '0';
        if (digit < 0 || digit > 9 || length > (INT64_MAX - digit) / 10)
            return -1;
        length = 10 * length + digit;
    }
    return value.bytes > 0 ? length : -1;
}

/* Read Content-Length. Returns as weft__h2_message_field. */
static int take_length(weft__h2_stream *st, text value)
{
    int64_t length = parse_length(value);
    if (length < 0 || !see_once(st, SEEN_LENGTH, value))
        return -EBADMSG;
    if (st->session->is_client) {
        /* Some servers send a length of 0 with 204. RFC 9110, 8.6 forbids it. */
        if (st->status < 200 || (st->status == 204 && length > 0))
            return -EBADMSG;
        if (st->status == 204 || (st->is_connect && st->status < 300))
            return 0;
    }
    st->inflow.body_left = length;
    return 1;
}

/* Return true for fields that concern the connection (RFC 9113, 8.2.2). */
static bool is_connection_specific(text name, text value)
{
    switch (name.bytes) {
    case 2:
        return IS(name, "te") && !weft__field_is_word(value.at, value.bytes, "trailers");
    case 7:
        return IS(name, "upgrade");
    case 10:
        return IS(name, "connection") || IS(name, "keep-alive");
    case 16:
        return IS(name, "proxy-connection");
    case 17:
        return IS(name, "transfer-encoding");
    default:
        return false;
    }
}

/* Check the characters of a value (RFC 9113, 8.2.1). */
static bool value_is_valid(text value)
{
    if (value.bytes == 0)
        return true;
    return !weft__ctype_is_blank(value.at[0]) && !weft__ctype_is_blank(value.at[value.bytes - 1]) &&
           weft__field_is_value(value.at, value.bytes);
}

/* Check a field of a head that is neither a pseudo field nor a trailer. */
static int take_regular(weft__h2_stream *st, text name, text value)
{
    if (IS(name, "content-length"))
        return take_length(st, value);
    if (st->session->is_client)
        return 1;
    if (IS(name, "host") && !see_once(st, SEEN_HOST, value))
        return -EBADMSG;
    if (IS(name, "priority"))
        weft__h2_priority_field(st, value.at, value.bytes);
    return 1;
}

int weft__h2_message_field(weft__h2_stream *st, const nghttp2_nv *field, bool is_trailer)
{
    text name = {(const char *)field->name, field->namelen};
    text value = {(const char *)field->value, field->valuelen};
    if (name.bytes == 0 || !value_is_valid(value))
        return -EBADMSG;
    if (name.at[0] == ':') {
        bool is_late = is_trailer || (st->seen & SEEN_REGULAR) != 0;
        bool is_valid =
            !is_late && (st->session->is_client ? check_response_pseudo(st, name, value)
                                                : check_request_pseudo(st, name, value));
        return is_valid ? 1 : -EBADMSG;
    }
    see_if(st, SEEN_REGULAR, true);
    if (nghttp2_check_header_name(field->name, field->namelen) == 0 ||
        is_connection_specific(name, value))
        return -EBADMSG;
    return is_trailer ? 1 : take_regular(st, name, value);
}

/* Return true if a request has the fields that it must have. */
static bool request_is_complete(weft__h2_stream *st)
{
    unsigned seen = st->seen;
    if ((seen & SEEN_CONNECT) != 0 && (seen & SEEN_PROTOCOL) == 0) {
        st->inflow.body_left = -1; /* the bytes belong to a tunnel */
        return (seen & (SEEN_SCHEME | SEEN_PATH)) == 0 && (seen & SEEN_AUTHORITY) != 0;
    }
    if ((seen & SEEN_PROTOCOL) != 0 && ((seen & SEEN_CONNECT) == 0 || (seen & SEEN_AUTHORITY) == 0))
        return false;
    bool has_path = (seen & SEEN_HTTP) == 0 || (seen & SEEN_SLASH) != 0 ||
                    (seen & (SEEN_ASTERISK | SEEN_OPTIONS)) == (SEEN_ASTERISK | SEEN_OPTIONS);
    return (seen & SEEN_REQUEST) == SEEN_REQUEST && (seen & (SEEN_AUTHORITY | SEEN_HOST)) != 0 &&
           has_path;
}

/* Return true if a response has a status. An interim response does not end the stream. */
static bool response_is_complete(weft__h2_stream *st, bool is_end)
{
    if (!st->has_status || (st->status < 200 && is_end))
        return false;
    if (st->is_connect && st->status < 300)
        st->inflow.body_left = -1;
    else if (st->is_bodiless || st->status == 204 || st->status == 304)
        st->inflow.body_left = 0;
    return true;
}

bool weft__h2_message_end(weft__h2_stream *st, bool is_trailer, bool is_end)
{
    if (!is_trailer) {
        bool is_complete =
            st->session->is_client ? response_is_complete(st, is_end) : request_is_complete(st);
        if (!is_complete)
            return false;
    }
    return !is_end || st->inflow.body_left <= 0;
}
