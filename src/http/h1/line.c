/*
 * The first line of a message: it has to be exactly what RFC 9112 (3 and 4) says, down to each
 * space, whatever llhttp would let pass; and what to answer to a request line that is not.
 */
#include "base/compiler.h"
#include "http/message_parts.h"

#include <arpa/inet.h>
#include <string.h>

/* Longer than any that is registered; beyond is 501 (RFC 9112, 3). */
#define METHOD_BYTES_MAX 32

static size_t bytes_of_kind(const char *text, size_t bytes, unsigned kind)
{
    size_t i = 0;
    while (i < bytes && weft__char_is(text[i], kind))
        i++;
    return i;
}

static bool is_digit(char c)
{
    return weft__char_is(c, WEFT__CHAR_DIGIT);
}

/* Is there %XX, with so many bytes left? */
static bool is_encoded(const char *text, size_t bytes)
{
    return bytes >= 3 && weft__char_is_escape(text);
}

static bool is_port(const char *text, size_t bytes)
{
    unsigned port = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (!is_digit(text[i]))
            return false;
        port = port * 10 + (unsigned)(text[i] - '0');
        if (port > UINT16_MAX)
            return false;
    }
    return true;
}

/* How many bytes of text are an address of IPv6 in brackets; 0: none. */
static size_t bracketed_bytes(const char *text, size_t bytes)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr parsed;
    const char *end = memchr(text, ']', bytes);
    size_t inside = end == NULL ? 0 : (size_t)(end - text) - 1;
    if (inside == 0 || inside >= sizeof address)
        return 0;
    memcpy(address, text + 1, inside);
    address[inside] = '\0';
    return inet_pton(AF_INET6, address, &parsed) == 1 ? inside + 2 : 0;
}

static size_t name_bytes(const char *text, size_t bytes)
{
    size_t i = 0;
    for (;;) {
        while (i < bytes && weft__char_is(text[i], WEFT__CHAR_HOST))
            i++;
        if (i == bytes || !is_encoded(text + i, bytes - i))
            return i;
        i += 3;
    }
}

bool weft__is_authority(const char *text, size_t bytes, bool needs_port)
{
    if (bytes == 0)
        return false;
    size_t host = text[0] == '[' ? bracketed_bytes(text, bytes) : name_bytes(text, bytes);
    if (host == 0)
        return false;
    if (host == bytes)
        return !needs_port;
    size_t port = bytes - host - 1;
    return text[host] == ':' && (port > 0 || !needs_port) && is_port(text + host + 1, port);
}

static bool is_path_and_query(const char *text, size_t bytes)
{
    size_t i = 0;
    for (;;) {
        while (i < bytes && weft__char_is(text[i], WEFT__CHAR_PATH))
            i++;
        if (i == bytes)
            return true;
        if (!is_encoded(text + i, bytes - i))
            break;
        i += 3;
    }
    /* Browsers send a % in a query as it was typed. */
    return text[i] == '?' && bytes_of_kind(text + i, bytes - i, WEFT__CHAR_QUERY) == bytes - i;
}

/* http://host/path, https too; nobody logs in by a URI any more (RFC 9110, 4.2.4). */
static bool is_absolute(const char *text, size_t bytes)
{
    size_t scheme = bytes > 5 && weft__chars_match(text, "https", 5) ? 5 : 4;
    if (bytes < scheme + 3 || !weft__chars_match(text, "https", scheme) ||
        memcmp(text + scheme, "://", 3) != 0)
        return false;
    text += scheme + 3;
    bytes -= scheme + 3;
    size_t host = 0;
    while (host < bytes && text[host] != '/' && text[host] != '?')
        host++;
    return weft__is_authority(text, host, false) && is_path_and_query(text + host, bytes - host);
}

static bool is_target(llhttp_method_t method, const char *text, size_t bytes)
{
    if (UNLIKELY(method == HTTP_CONNECT))
        return weft__is_authority(text, bytes, true);
    if (LIKELY(text[0] == '/'))
        return is_path_and_query(text, bytes);
    if (text[0] == '*')
        return bytes == 1 && method == HTTP_OPTIONS;
    return is_absolute(text, bytes);
}

/* " HTTP/1.x" and the end of the line, no more. */
static bool is_version(const char *text, size_t bytes)
{
    return bytes == 11 && memcmp(text, " HTTP/1.", 8) == 0 && is_digit(text[8]) &&
           text[9] == '\r' && text[10] == '\n';
}

static bool request_line_is_good(weft__message *m, const char *data, size_t end)
{
    weft__span target = m->target;
    size_t target_end = (size_t)target.at + target.bytes;
    if (target.bytes == 0 || target.at < m->line_at + 2 || target_end > end)
        return false;
    if (data[target.at - 1] != ' ' || data[target.at - 2] == ' ' ||
        !is_version(data + target_end, end - target_end) || m->parser.method == HTTP_PRI ||
        !is_target(m->parser.method, data + target.at, target.bytes))
        return false;
    m->method = (weft__span){m->line_at, target.at - 1 - m->line_at};
    m->version = data[target_end + 8] == '0' ? 10 : 11;
    return true;
}

/* "HTTP/1.1 200 OK": with an empty reason, or even without the space before it. */
static bool status_line_is_good(weft__message *m, const char *data, size_t end)
{
    static const size_t least = sizeof "HTTP/1.1 200\r\n" - 1;
    if (end < least || memcmp(data, "HTTP/1.", 7) != 0 || !is_digit(data[7]) || data[8] != ' ' ||
        data[9] < '1' || data[9] > '9' || !is_digit(data[10]) || !is_digit(data[11]))
        return false;
    if (data[end - 2] != '\r' || data[end - 1] != '\n' || (end > least && data[12] != ' '))
        return false;
    for (size_t i = 12; i < end - 2; i++) {
        if (!weft__char_is(data[i], WEFT__CHAR_VALUE))
            return false;
    }
    m->version = data[7] == '0' ? 10 : 11;
    m->status = (data[9] - '0') * 100 + (data[10] - '0') * 10 + (data[11] - '0');
    return true;
}

bool weft__message_line_is_good(weft__message *m, const char *data, size_t end)
{
    return m->parser.type == HTTP_REQUEST ? request_line_is_good(m, data, end)
                                          : status_line_is_good(m, data, end);
}

COLD bool weft__message_line_is_foreign(const char *line, size_t bytes)
{
    size_t method = bytes_of_kind(line, bytes, WEFT__CHAR_TOKEN);
    if (method == 0 || method == bytes || line[method] != ' ')
        return false;
    const char *target = line + method + 1;
    size_t rest = bytes - method - 1, target_bytes = bytes_of_kind(target, rest, WEFT__CHAR_QUERY);
    const char *version = target + target_bytes;
    return target_bytes > 0 && rest - target_bytes >= sizeof " HTTP/2." - 1 &&
           memcmp(version, " HTTP/", 6) == 0 && is_digit(version[6]) && version[6] != '1' &&
           version[7] == '.';
}

/* Is it a request line of HTTP/1 by its characters, whatever method and target mean? */
static bool has_line_form(const char *line, size_t bytes)
{
    static const size_t version = sizeof " HTTP/1.1\r\n" - 1;
    size_t method = bytes_of_kind(line, bytes, WEFT__CHAR_TOKEN);
    if (method == 0 || method + 2 + version > bytes || line[method] != ' ')
        return false;
    const char *target = line + method + 1;
    size_t target_bytes = bytes - method - 1 - version;
    return bytes_of_kind(target, target_bytes, WEFT__CHAR_QUERY) == target_bytes &&
           is_version(target + target_bytes, version);
}

/* The preface of HTTP/2 begins with it, and it is no method of HTTP/1 (RFC 9113, 11.6). */
static bool is_pri(const char *line, size_t method_bytes)
{
    return method_bytes == 3 && memcmp(line, "PRI", 3) == 0;
}

COLD size_t weft__message_line_method(const char *line, size_t bytes)
{
    size_t method = bytes_of_kind(line, bytes, WEFT__CHAR_TOKEN);
    bool is_usable = method <= METHOD_BYTES_MAX && !is_pri(line, method);
    return is_usable && has_line_form(line, bytes) ? method : 0;
}

COLD int weft__message_refuse_line(weft__message *m, const char *line, size_t bytes)
{
    if (weft__message_line_is_foreign(line, bytes))
        return weft__message_refuse(m, 505, "a version of HTTP other than 1");
    if (!has_line_form(line, bytes))
        return weft__message_refuse(m, 400, "a malformed request line");
    size_t method = bytes_of_kind(line, bytes, WEFT__CHAR_TOKEN);
    if (method > METHOD_BYTES_MAX)
        return weft__message_refuse(m, 501, "a method that is too long");
    if (is_pri(line, method))
        return weft__message_refuse(m, 501, "a method of HTTP/2");
    return weft__message_refuse(m, 400, "a malformed target");
}
