/*
 * The first line of a message. The checks accept exactly the grammar of RFC 9112 (3 and 4). llhttp
 * is more tolerant, for example of additional spaces. This file also chooses the status for a
 * malformed request line.
 */
#include "base/compiler.h"
#include "http/h1/internal.h"
#include "http/url/host.h"

#include <string.h>

static size_t bytes_of_kind(const char *text, size_t bytes, unsigned kind)
{
    size_t i = 0;
    while (i < bytes && weft__ctype_is(text[i], kind))
        i++;
    return i;
}

static bool is_digit(char c)
{
    return weft__ctype_is(c, WEFT__CTYPE_DIGIT);
}

/* Return true if text starts with an escape such as %2F. */
static bool has_escape(const char *text, size_t bytes)
{
    return bytes >= 3 && weft__ctype_is_escape(text);
}

/* Return the length of a host name at the start of text. */
static size_t host_name_bytes(const char *text, size_t bytes)
{
    size_t i = 0;
    for (;;) {
        while (i < bytes && weft__ctype_is(text[i], WEFT__CTYPE_HOST))
            i++;
        if (i == bytes || !has_escape(text + i, bytes - i))
            return i;
        i += 3;
    }
}

bool weft__authority_is_valid(const char *text, size_t bytes, bool needs_port)
{
    if (bytes == 0)
        return false;
    size_t host =
        text[0] == '[' ? weft__ipv6_literal_bytes(text, bytes) : host_name_bytes(text, bytes);
    if (host == 0)
        return false;
    if (host == bytes)
        return !needs_port;
    size_t port_bytes = bytes - host - 1;
    int port;
    return text[host] == ':' && (port_bytes > 0 || !needs_port) &&
           weft__port_parse(text + host + 1, port_bytes, &port);
}

bool weft__path_is_valid(const char *text, size_t bytes)
{
    size_t i = 0;
    for (;;) {
        while (i < bytes && weft__ctype_is(text[i], WEFT__CTYPE_PATH))
            i++;
        if (i == bytes)
            return true;
        if (!has_escape(text + i, bytes - i))
            break;
        i += 3;
    }
    /* Browsers do not escape % in a query. */
    return text[i] == '?' && bytes_of_kind(text + i, bytes - i, WEFT__CTYPE_QUERY) == bytes - i;
}

/*
 * Check a target such as http://host/path or https://host/path. User information is not allowed
 * (RFC 9110, 4.2.4).
 */
static bool is_absolute(const char *text, size_t bytes)
{
    size_t scheme = bytes > 5 && weft__ctype_match(text, "https", 5) ? 5 : 4;
    if (bytes < scheme + 3 || !weft__ctype_match(text, "https", scheme) ||
        memcmp(text + scheme, "://", 3) != 0)
        return false;
    text += scheme + 3;
    bytes -= scheme + 3;
    size_t host = 0;
    while (host < bytes && text[host] != '/' && text[host] != '?')
        host++;
    return weft__authority_is_valid(text, host, false) &&
           weft__path_is_valid(text + host, bytes - host);
}

static bool is_target(llhttp_method_t method, const char *text, size_t bytes)
{
    if (UNLIKELY(method == HTTP_CONNECT))
        return weft__authority_is_valid(text, bytes, true);
    if (LIKELY(text[0] == '/'))
        return weft__path_is_valid(text, bytes);
    if (text[0] == '*')
        return bytes == 1 && method == HTTP_OPTIONS;
    return is_absolute(text, bytes);
}

/* Check " HTTP/1.x" and the end of the line. */
static bool is_version(const char *text, size_t bytes)
{
    return bytes == 11 && memcmp(text, " HTTP/1.", 8) == 0 && is_digit(text[8]) &&
           text[9] == '\r' && text[10] == '\n';
}

static bool request_line_is_valid(weft__message *m, const char *data, size_t end)
{
    weft__head_span target = m->target;
    size_t target_end = (size_t)target.at + target.bytes;
    if (target.bytes == 0 || target.at < m->line_at + 2 || target_end > end)
        return false;
    if (data[target.at - 1] != ' ' || data[target.at - 2] == ' ' ||
        !is_version(data + target_end, end - target_end) || m->parser.method == HTTP_PRI ||
        !is_target(m->parser.method, data + target.at, target.bytes))
        return false;
    m->method = (weft__head_span){m->line_at, target.at - 1 - m->line_at};
    m->version = data[target_end + 8] == '0' ? 10 : 11;
    return true;
}

/*
 * Check a line such as "HTTP/1.1 200 OK". The reason may be empty, even without the space before
 * it.
 */
static bool status_line_is_valid(weft__message *m, const char *data, size_t end)
{
    static const size_t bytes_min = sizeof "HTTP/1.1 200\r\n" - 1;
    if (end < bytes_min || memcmp(data, "HTTP/1.", 7) != 0 || !is_digit(data[7]) ||
        data[8] != ' ' || data[9] < '1' || data[9] > '9' || !is_digit(data[10]) ||
        !is_digit(data[11]))
        return false;
    if (data[end - 2] != '\r' || data[end - 1] != '\n' || (end > bytes_min && data[12] != ' '))
        return false;
    for (size_t i = 12; i < end - 2; i++) {
        if (!weft__ctype_is(data[i], WEFT__CTYPE_VALUE))
            return false;
    }
    m->version = data[7] == '0' ? 10 : 11;
    m->status = (data[9] - '0') * 100 + (data[10] - '0') * 10 + (data[11] - '0');
    return true;
}

bool weft__message_line_is_valid(weft__message *m, const char *data, size_t end)
{
    return m->parser.type == HTTP_REQUEST ? request_line_is_valid(m, data, end)
                                          : status_line_is_valid(m, data, end);
}

COLD bool weft__message_line_is_not_http1(const char *line, size_t bytes)
{
    size_t method = bytes_of_kind(line, bytes, WEFT__CTYPE_TOKEN);
    if (method == 0 || method == bytes || line[method] != ' ')
        return false;
    const char *target = line + method + 1;
    size_t rest = bytes - method - 1, target_bytes = bytes_of_kind(target, rest, WEFT__CTYPE_QUERY);
    const char *version = target + target_bytes;
    return target_bytes > 0 && rest - target_bytes >= sizeof " HTTP/2." - 1 &&
           memcmp(version, " HTTP/", 6) == 0 && is_digit(version[6]) && version[6] != '1' &&
           version[7] == '.';
}

/*
 * Return true for "METHOD TARGET HTTP/1.x". The call checks only the characters of method and
 * target.
 */
static bool has_line_form(const char *line, size_t bytes)
{
    static const size_t version = sizeof " HTTP/1.1\r\n" - 1;
    size_t method = bytes_of_kind(line, bytes, WEFT__CTYPE_TOKEN);
    if (method == 0 || method + 2 + version > bytes || line[method] != ' ')
        return false;
    const char *target = line + method + 1;
    size_t target_bytes = bytes - method - 1 - version;
    return bytes_of_kind(target, target_bytes, WEFT__CTYPE_QUERY) == target_bytes &&
           is_version(target + target_bytes, version);
}

/* Return true if the method is PRI, the first word of the HTTP/2 preface (RFC 9113, 11.6). */
static bool method_is_pri(const char *line, size_t method_bytes)
{
    return method_bytes == 3 && memcmp(line, "PRI", 3) == 0;
}

static size_t capitals_bytes(const char *text, size_t bytes)
{
    size_t i = 0;
    while (i < bytes && text[i] >= 'A' && text[i] <= 'Z')
        i++;
    return i;
}

COLD bool weft__message_line_is_other_preface(const char *line, size_t bytes)
{
    for (int words_left = 3; words_left > 0; words_left--) {
        size_t word = capitals_bytes(line, bytes);
        if (word == 0 || word == bytes || line[word] != (words_left > 1 ? ' ' : '\r'))
            return false;
        line += word + 1;
        bytes -= word + 1;
    }
    return bytes > 0 && line[0] == '\n';
}

COLD size_t weft__message_line_method(const char *line, size_t bytes)
{
    size_t method = bytes_of_kind(line, bytes, WEFT__CTYPE_TOKEN);
    bool is_usable = method <= WEFT__METHOD_BYTES_MAX && !method_is_pri(line, method);
    return is_usable && has_line_form(line, bytes) ? method : 0;
}

COLD int weft__message_reject_line(weft__message *m, const char *line, size_t bytes)
{
    if (weft__message_line_is_not_http1(line, bytes))
        return weft__message_reject(m, 505, "an HTTP version other than 1");
    if (!has_line_form(line, bytes))
        return weft__message_reject(m, 400, "a malformed request line");
    size_t method = bytes_of_kind(line, bytes, WEFT__CTYPE_TOKEN);
    if (method > WEFT__METHOD_BYTES_MAX)
        return weft__message_reject(m, 501, "a method that is too long");
    if (method_is_pri(line, method))
        return weft__message_reject(m, 501, "the HTTP/2 method PRI");
    return weft__message_reject(m, 400, "a malformed target");
}
