/*
 * Fuzz URLs. The input has three lines: a base, a reference, and text to encode. Accepted URLs must
 * have the properties that weft/url.h documents.
 */
#include "require.h"

#include <weft/url.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static void require_same(const weft_url *a, const weft_url *b)
{
    REQUIRE(strcmp(a->scheme, b->scheme) == 0);
    REQUIRE(strcmp(a->user, b->user) == 0);
    REQUIRE(strcmp(a->host, b->host) == 0);
    REQUIRE(strcmp(a->path, b->path) == 0);
    REQUIRE(strcmp(a->query, b->query) == 0);
    REQUIRE(strcmp(a->fragment, b->fragment) == 0);
    REQUIRE(a->has_query == b->has_query);
    /* A written port of 0 is equal to no port. */
    REQUIRE(a->port == b->port || a->port == 0);
}

static void require_host(const char *host)
{
    bool is_address = strchr(host, ':') != NULL;
    for (const char *c = host; *c != '\0'; c++) {
        REQUIRE(*c > ' ' && *c < 0x7f);
        REQUIRE(strchr("/?#@[]\\%", *c) == NULL);
        REQUIRE(*c < 'A' || *c > 'Z');
        if (is_address)
            REQUIRE(strchr("0123456789abcdef:.", *c) != NULL);
    }
}

/* Require that a URL can be written, and that parsing the text gives the same URL. */
static void check(const weft_url *url)
{
    size_t bytes = weft_url_write(NULL, 0, url);
    char *text = malloc(bytes + 1);
    REQUIRE(weft_url_write(text, bytes + 1, url) == bytes);
    REQUIRE(strlen(text) == bytes);
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(text[i] > ' ' && text[i] < 0x7f && text[i] != '\\');
    require_host(url->host);
    REQUIRE(url->port >= 0 && url->port <= 65535);
    REQUIRE(url->host[0] == '\0' || url->path[0] == '/');
    weft_url again;
    REQUIRE(weft_url_open(&again, text) == 0);
    require_same(url, &again);
    weft_url_close(&again);
    free(text);
}

static void check_reference(const weft_url *base, const char *reference)
{
    weft_url url, absolute;
    int rc = weft_url_open_in(&url, base, reference);
    REQUIRE(rc == 0 || rc == -EINVAL);
    if (rc == 0) {
        check(&url);
        bool is_own = reference[0] != '\0' && reference[0] != '?' && reference[0] != '#';
        if (is_own && url.host[0] != '\0')
            REQUIRE(strstr(url.path, "/../") == NULL && strstr(url.path, "/./") == NULL);
        weft_url_close(&url);
    }
    if (weft_url_open(&absolute, reference) == 0) { /* absolute: valid with any base */
        REQUIRE(rc == 0);
        weft_url_close(&absolute);
    }
}

static void check_escapes(const char *text)
{
    size_t bytes = weft_url_encode(NULL, 0, text);
    char *encoded = malloc(bytes + 1), *decoded = strdup(text);
    REQUIRE(weft_url_encode(encoded, bytes + 1, text) == bytes);
    REQUIRE(weft_url_decode(encoded, true) == (ssize_t)strlen(text));
    REQUIRE(strcmp(encoded, text) == 0);
    ssize_t length = weft_url_decode(decoded, false);
    REQUIRE(length == -EINVAL ? strcmp(decoded, text) == 0 : decoded[length] == '\0');
    free(encoded);
    free(decoded);
}

static void check_params(const char *text)
{
    char *copy = strdup(text), *rest = copy, *name, *value;
    const char *end = copy + strlen(copy);
    int rc;
    while ((rc = weft_url_next_param(&rest, &name, &value)) != 0) {
        REQUIRE(rc == 1 || rc == -EINVAL);
        REQUIRE(name >= copy && name <= value && value <= end && rest <= end);
        REQUIRE(rest > name);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char *text = text_of(data, bytes), *rest = text;
    const char *base_text = strsep(&rest, "\n");
    const char *reference = rest != NULL ? strsep(&rest, "\n") : "";
    weft_url base;
    int rc = weft_url_open(&base, base_text);
    REQUIRE(rc == 0 || rc == -EINVAL);
    if (rc == 0) {
        check(&base);
        check_reference(&base, reference);
        weft_url_close(&base);
    }
    check_escapes(rest != NULL ? rest : base_text);
    check_params(rest != NULL ? rest : base_text);
    free(text);
    return 0;
}
