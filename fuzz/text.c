/*
 * The fields of HTTP that have a grammar of their own: dates, ranges, conditions, cookies, hosts,
 * addresses, encodings, types. The first byte chooses, the rest is the text.
 */
#include "http/accept.h"
#include "http/condition.h"
#include "http/cookie.h"
#include "http/date.h"
#include "http/host.h"
#include "http/ip.h"
#include "http/mime.h"
#include "http/range.h"
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

static void fuzz_condition(const char *text)
{
    static const char *const etags[] = {"\"a\"", "W/\"a\"", NULL};
    for (size_t i = 0; i < 3; i++) {
        weft__condition c = {.method = "GET", .etag = etags[i], .mtime = 784111777};
        c.if_none_match = text;
        int none = weft__condition_check(&c);
        REQUIRE(none == 0 || none == 304);
        c.if_none_match = NULL;
        c.if_match = text;
        int match = weft__condition_check(&c);
        REQUIRE(match == 0 || match == 412);
        REQUIRE(match == 412 || none == 304); /* what is strongly the same is so weakly */
        c.if_match = NULL;
        c.if_modified_since = text;
        REQUIRE(weft__condition_check(&c) == 0 || weft__condition_check(&c) == 304);
        c.if_modified_since = NULL;
        c.if_unmodified_since = text;
        REQUIRE(weft__condition_check(&c) == 0 || weft__condition_check(&c) == 412);
        c.if_range = text;
        if (weft__condition_allows_range(&c) && text[0] == '"')
            REQUIRE(match == 0);
    }
}

static void fuzz_find_cookie(const char *text)
{
    weft__piece value;
    if (!weft__cookie_find(text, "a", &value))
        return;
    REQUIRE(value.at >= text && value.at + value.bytes <= text + strlen(text));
    REQUIRE(memchr(value.at, ';', value.bytes) == NULL);
}

/* Name, value, path, domain and same-site, a line each. */
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
    weft__piece value;
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
    weft__forwarded_for(client, text, &list, address);
    weft__ip ip;
    REQUIRE(weft__ip_parse(&ip, client, strlen(client)));
    weft__cidr_close(&list);
}

/* Forwarded: also behind what a stranger may have sent, the proxy's own element is read. */
static void fuzz_forwarded(char *text)
{
    static const char own[] = ", for=\"[2001:db8::1]:80\";host=b.org;proto=https";
    struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    weft__cidr_list list;
    weft__forwarded said;
    REQUIRE(weft__cidr_parse(&list, "127.0.0.1, 10.0.0.0/8") == 0);
    size_t bytes = strlen(text);
    char *joined = malloc(bytes + sizeof own);
    memcpy(joined, text, bytes);
    memcpy(joined + bytes, own, sizeof own);
    weft__forwarded_read(&said, joined, &list, (struct sockaddr *)&peer);
    REQUIRE(strcmp(said.peer, "2001:db8::1") == 0);
    REQUIRE(said.host.bytes == 5 && memcmp(said.host.at, "b.org", 5) == 0);
    REQUIRE(said.proto.bytes == 5 && memcmp(said.proto.at, "https", 5) == 0);
    free(joined);
    weft__forwarded_read(&said, text, &list, (struct sockaddr *)&peer);
    weft__ip ip;
    REQUIRE(weft__ip_parse(&ip, said.peer, strlen(said.peer)));
    REQUIRE(said.host.at == NULL ||
            (said.host.at >= text && said.host.at + said.host.bytes <= text + bytes));
    weft__cidr_close(&list);
}

static void fuzz_words(const char *text)
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
        fuzz_condition(text);
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
        fuzz_words(text);
    }
    free(text);
    return 0;
}
