/*
 * Parse the header of the PROXY protocol (proxy_protocol.h). The parser is strict: a header that
 * another implementation could understand differently is malformed.
 */
#include "http/proxy_protocol/proxy_protocol.h"

#include <arpa/inet.h>
#include <stdlib.h>

static const uint8_t signature[12] = "\r\n\r\n\0\r\nQUIT\n";

/*
 * Version 1: "PROXY TCP4 192.0.2.7 192.0.2.1 50000 443\r\n".
 */

/* Remove the next word from *text. A space follows each word except the last. */
static char *take_word(char **text)
{
    char *word = *text;
    if (word == NULL)
        return NULL;
    char *space = strchr(word, ' ');
    if (space != NULL)
        *space++ = '\0';
    *text = space;
    return word;
}

/* Return whether a text is a decimal number up to 65535 without leading zeros. */
static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] != '\0' || (text[0] == '0' && digits > 1))
        return false;
    return strtoul(text, NULL, 10) <= 65535;
}

/* Parse the addresses and ports after "PROXY TCP4" or "PROXY TCP6". */
static bool parse_v1_client(char *rest, bool is_v4, weft__ip *client)
{
    const char *words[4];
    uint8_t ignored[16];
    for (size_t i = 0; i < 4; i++) {
        words[i] = take_word(&rest);
        if (words[i] == NULL)
            return false;
    }
    int family = is_v4 ? AF_INET : AF_INET6;
    return rest == NULL && inet_pton(family, words[0], ignored) == 1 &&
           inet_pton(family, words[1], ignored) == 1 && is_port(words[2]) && is_port(words[3]) &&
           weft__ip_parse(client, words[0], strlen(words[0]));
}

/* Parse a complete line without CRLF. */
static bool parse_v1_line(char *line, weft__proxy_header *header)
{
    char *rest = line;
    const char *name = take_word(&rest), *protocol = take_word(&rest);
    if (strcmp(name, "PROXY") != 0 || protocol == NULL)
        return false;
    if (strcmp(protocol, "UNKNOWN") == 0) /* the rest of the line has no meaning */
        return true;
    bool is_v4 = strcmp(protocol, "TCP4") == 0;
    if (!is_v4 && strcmp(protocol, "TCP6") != 0)
        return false;
    header->has_client = parse_v1_client(rest, is_v4, &header->client);
    return header->has_client;
}

static ssize_t parse_v1(weft__proxy_header *header, const uint8_t *data, size_t bytes)
{
    static const char begin[] = "PROXY ";
    char line[WEFT__PROXY_V1_BYTES_MAX + 1];
    size_t known = bytes < sizeof begin - 1 ? bytes : sizeof begin - 1;
    if (memcmp(data, begin, known) != 0)
        return -EBADMSG;
    const uint8_t *end = memchr(data, '\n', bytes);
    size_t length = end != NULL ? (size_t)(end - data) + 1 : bytes;
    if (length > WEFT__PROXY_V1_BYTES_MAX || (end == NULL && length == WEFT__PROXY_V1_BYTES_MAX))
        return -EMSGSIZE;
    /* A CR ends the line. A NUL would hide the rest of the line from the parser. */
    const uint8_t *cr = memchr(data, '\r', length);
    if (memchr(data, '\0', length) != NULL ||
        (cr != NULL && cr + 1 < data + length && cr + 1 != end))
        return -EBADMSG;
    if (end == NULL)
        return 0;
    if (cr == NULL || cr + 1 != end)
        return -EBADMSG;
    memcpy(line, data, length - 2);
    line[length - 2] = '\0';
    return parse_v1_line(line, header) ? (ssize_t)length : -EBADMSG;
}

/*
 * Version 2: the signature, version and command, family and protocol, a length, addresses.
 */

enum { COMMAND_LOCAL = 0x20, COMMAND_PROXY = 0x21 }; /* with the version */

enum { PROTOCOL_NONE = 0x00, PROTOCOL_TCP4 = 0x11, PROTOCOL_TCP6 = 0x21, PROTOCOL_UNIX = 0x31 };

/* Return the length of the addresses of a protocol, or -EBADMSG for other protocols. */
static ssize_t v2_address_bytes(uint8_t protocol)
{
    switch (protocol) {
    case PROTOCOL_NONE:
        return 0;
    case PROTOCOL_TCP4:
        return 2 * 4 + 2 * 2;
    case PROTOCOL_TCP6:
        return 2 * 16 + 2 * 2;
    case PROTOCOL_UNIX:
        return WEFT__PROXY_V2_ADDRESS_BYTES_MAX;
    default:
        return -EBADMSG;
    }
}

static void set_v2_client(weft__proxy_header *header, uint8_t protocol, const uint8_t *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (protocol == PROTOCOL_TCP4)
        memcpy(&v4.sin_addr, address, sizeof v4.sin_addr);
    else if (protocol == PROTOCOL_TCP6)
        memcpy(&v6.sin6_addr, address, sizeof v6.sin6_addr);
    else
        return;
    header->has_client =
        weft__ip_of(&header->client, protocol == PROTOCOL_TCP4 ? (const struct sockaddr *)&v4
                                                               : (const struct sockaddr *)&v6);
}

static ssize_t parse_v2(weft__proxy_header *header, const uint8_t *data, size_t bytes)
{
    size_t known = bytes < sizeof signature ? bytes : sizeof signature;
    if (memcmp(data, signature, known) != 0)
        return -EBADMSG;
    bool has_command = bytes > 12;
    if (has_command && data[12] != COMMAND_LOCAL && data[12] != COMMAND_PROXY)
        return -EBADMSG;
    if (bytes < WEFT__PROXY_V2_BYTES)
        return 0;
    /* With LOCAL, the receiver ignores the protocol and the addresses. */
    uint8_t protocol = data[12] == COMMAND_PROXY ? data[13] : PROTOCOL_NONE;
    ssize_t address_bytes = v2_address_bytes(protocol);
    size_t length = (size_t)data[14] << 8 | data[15];
    if (address_bytes < 0 || length < (size_t)address_bytes)
        return -EBADMSG;
    if (length > WEFT__PROXY_V2_LENGTH_MAX)
        return -EMSGSIZE;
    if (bytes < WEFT__PROXY_V2_BYTES + (size_t)address_bytes)
        return 0;
    set_v2_client(header, protocol, data + WEFT__PROXY_V2_BYTES);
    return (ssize_t)(WEFT__PROXY_V2_BYTES + length);
}

ssize_t weft__proxy_header_parse(weft__proxy_header *header, const uint8_t *data, size_t bytes)
{
    *header = (weft__proxy_header){0};
    if (bytes == 0)
        return 0;
    ssize_t n =
        data[0] == signature[0] ? parse_v2(header, data, bytes) : parse_v1(header, data, bytes);
    header->has_client = header->has_client && n > 0;
    return n;
}
