/*
 * Fuzz the HTTP fields that have their own grammar: dates, ranges, conditions, cookies, hosts,
 * addresses, encodings, types. The first byte selects the parser. The rest is the text.
 */
#include "http/server/forwarded_field.h"
#include "http/text/accept.h"
#include "http/text/conditional.h"
#include "http/text/cookie.h"
#include "http/text/date.h"
#include "http/text/mime.h"
#include "http/text/range.h"
#include "http/url/host.h"
#include "http/url/ip.h"
#include "require.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

static void fuzz_date(const char *text)
{
    int64_t when = weft__date_parse(text);
    if (when == WEFT__DATE_NONE)
        return;
    char out[WEFT__DATE_LENGTH + 1];
    weft__date_write(out, when);
    REQUIRE(strlen(out) == WEFT__DATE_LENGTH);
    int64_t again = weft__date_parse(out);
    REQUIRE(again == when || strstr(text, ":60") != NULL);
}

static void fuzz_range(const char *text)
{
    static const uint64_t sizes[] = {0, 1, 10, 1000, INT64_MAX, UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        weft__ranges ranges;
        int status = weft__ranges_parse(&ranges, text, sizes[s]);
        REQUIRE(status == 200 || status == 206 || status == 416);
        REQUIRE((status == 206) == (ranges.count > 0));
        REQUIRE(ranges.count <= WEFT__RANGES_MAX);
        uint64_t sum = 0;
        for (size_t i = 0; i < ranges.count; i++) {
            REQUIRE(ranges.at[i].bytes > 0 && ranges.at[i].first < sizes[s]);
            REQUIRE(ranges.at[i].bytes <= sizes[s] - ranges.at[i].first);
            REQUIRE(!__builtin_add_overflow(sum, ranges.at[i].bytes, &sum));
        }
        REQUIRE(sum <= sizes[s]);
    }
}

static void fuzz_conditional(const char *text)
{
    static const char *const etags[] = {"\"a\"", "W/\"a\"", NULL};
    for (size_t i = 0; i < 3; i++) {
        weft__conditional c = {.method = "GET", .etag = etags[i], .mtime = 784111777};
        c.if_none_match = text;
        int none = weft__conditional_check(&c);
        REQUIRE(none == 0 || none == 304);
        c.if_none_match = NULL;
        c.if_match = text;
        int match = weft__conditional_check(&c);
        REQUIRE(match == 0 || match == 412);
        REQUIRE(match == 412 || none == 304); /* a strong match is also a weak match */
        c.if_match = NULL;
        c.if_modified_since = text;
        REQUIRE(weft__conditional_check(&c) == 0 || weft__conditional_check(&c) == 304);
        c.if_modified_since = NULL;
        c.if_unmodified_since = text;
        REQUIRE(weft__conditional_check(&c) == 0 || weft__conditional_check(&c) == 412);
        c.if_range = text;
        if (weft__conditional_allows_range(&c) && text[0] == '"')
            REQUIRE(match == 0);
    }
}

static void fuzz_find_cookie(const char *text)
{
    weft__span value;
    if (!weft__cookie_find(text, "a", &value))
        return;
    REQUIRE(value.at >= text && value.at + value.bytes <= text + strlen(text));
    REQUIRE(memchr(value.at, ';', value.bytes) == NULL);
}

/* The text has five lines: name, value, path, domain and same-site. */
static void fuzz_write_cookie(char *text)
{
    const char *parts[5];
    for (int i = 0; i < 5; i++)
        parts[i] = text != NULL ? strsep(&text, "\n") : NULL;
    if (parts[1] == NULL)
        return;
    const weft_http_cookie_options o = {
        .path = parts[2], .domain = parts[3], .same_site = parts[4], .is_secure = true};
    ssize_t bytes = weft__cookie_write(NULL, 0, parts[0], parts[1], &o);
    REQUIRE(bytes >= 0 || bytes == -EINVAL);
    if (bytes < 0)
        return;
    char *out = malloc((size_t)bytes + 1);
    REQUIRE(weft__cookie_write(out, (size_t)bytes + 1, parts[0], parts[1], &o) == bytes);
    REQUIRE(strlen(out) == (size_t)bytes && weft__field_is_value(out, (size_t)bytes));
    weft__span value;
    REQUIRE(weft__cookie_find(out, parts[0], &value));
    REQUIRE(value.bytes == strlen(parts[1]) && memcmp(value.at, parts[1], value.bytes) == 0);
    size_t semicolons = 0;
    for (const char *c = out; *c != '\0'; c++)
        semicolons += *c == ';';
    REQUIRE(semicolons ==
            (size_t)(1 + (o.path != NULL) + (o.domain != NULL) + (o.same_site != NULL)));
    free(out);
}

static void fuzz_host(const char *text)
{
    weft__host host, again;
    int rc = weft__host_parse(&host, text, strlen(text));
    REQUIRE(rc == 0 || rc == -EINVAL);
    if (rc < 0)
        return;
    REQUIRE(host.port >= WEFT__PORT_NONE && host.port <= 65535);
    size_t bytes = strlen(host.name);
    REQUIRE(bytes < sizeof host.name && strpbrk(host.name, " /?#@[]\\%") == NULL);
    if (strchr(host.name, ':') != NULL) {
        weft__ip ip;
        REQUIRE(weft__ip_parse(&ip, host.name, bytes));
    } else {
        REQUIRE(weft__host_parse(&again, host.name, bytes) == 0);
        REQUIRE(strcmp(again.name, host.name) == 0 && again.port == WEFT__PORT_NONE);
    }
}

static void fuzz_trust(const char *text)
{
    weft__cidr_list list;
    const struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000001)};
    const struct sockaddr *address = (const struct sockaddr *)&peer;
    int rc = weft__cidr_parse(&list, text);
    REQUIRE(rc == 0 || rc == -EINVAL);
    if (rc == 0) {
        (void)weft__cidr_has(&list, address);
        weft__cidr_close(&list);
    }
    REQUIRE(weft__cidr_parse(&list, "10.0.0.0/8, ::1") == 0);
    char client[WEFT__IP_TEXT_BYTES];
    weft__x_forwarded_for_read(client, text, &list, address);
    weft__ip ip;
    REQUIRE(weft__ip_parse(&ip, client, strlen(client)));
    weft__cidr_close(&list);
}

/* Elements of a client do not affect the last element, which the proxy appends. */
static void fuzz_forwarded(char *text)
{
    static const char own[] = ", for=\"[2001:db8::1]:80\";host=b.org;proto=https";
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    weft__cidr_list list;
    weft__forwarded result;
    REQUIRE(weft__cidr_parse(&list, "127.0.0.1, 10.0.0.0/8") == 0);
    size_t bytes = strlen(text);
    char *joined = malloc(bytes + sizeof own);
    memcpy(joined, text, bytes);
    memcpy(joined + bytes, own, sizeof own);
    weft__forwarded_field_read(&result, joined, &list, (struct sockaddr *)&peer);
    REQUIRE(strcmp(result.peer, "2001:db8::1") == 0);
    REQUIRE(result.host.bytes == 5 && memcmp(result.host.at, "b.org", 5) == 0);
    REQUIRE(result.proto.bytes == 5 && memcmp(result.proto.at, "https", 5) == 0);
    free(joined);
    weft__forwarded_field_read(&result, text, &list, (struct sockaddr *)&peer);
    weft__ip ip;
    REQUIRE(weft__ip_parse(&ip, result.peer, strlen(result.peer)));
    REQUIRE(result.host.at == NULL ||
            (result.host.at >= text && result.host.at + result.host.bytes <= text + bytes));
    weft__cidr_close(&list);
}

static void fuzz_tokens(const char *text)
{
    (void)weft__accept_gzip(text);
    (void)weft__mime_is_compressible(text);
    REQUIRE(strchr(weft__mime_of(text), '/') != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    char *text = text_of(data + 1, bytes - 1);
    switch (data[0]) {
    case 'd':
        fuzz_date(text);
        break;
    case 'r':
        fuzz_range(text);
        break;
    case 'c':
        fuzz_conditional(text);
        break;
    case 'f':
        fuzz_find_cookie(text);
        break;
    case 'w':
        fuzz_write_cookie(text);
        break;
    case 'h':
        fuzz_host(text);
        break;
    case 't':
        fuzz_trust(text);
        break;
    case 'F':
        fuzz_forwarded(text);
        break;
    default:
        fuzz_tokens(text);
    }
    free(text);
    return 0;
}
