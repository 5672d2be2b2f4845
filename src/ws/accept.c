/*
 * The handshake of a server (RFC 6455, 4.2). Over HTTP/2, an extended CONNECT replaces the key and
 * the Upgrade field (RFC 8441, 5).
 */
#include "http/reply/reply.h"
#include "http/url/host.h"
#include "ws/ws.h"

#include <weft/error.h>

#include <errno.h>
#include <string.h>
#include <strings.h>

#define FIELD(name) WEFT__WS_FIELD_PREFIX name
#define VERSION "13"

/* The result of the negotiation. */
typedef struct agreement {
    weft__span protocol; /* at is NULL: none */
    bool has_deflate;
    weft__ws_deflate_params deflate;
} agreement;

/* Reply with a status. Returns error. */
static int refuse(weft_http_request *r, int status, int error, const char *reason)
{
    (void)weft_http_reply_text(r, status, "%d %s\n", status, reason);
    return weft_fail(error, "weft_ws_accept: %s", reason);
}

/* Tell a client that it must upgrade, and to which version (RFC 9110, 15.5.22). */
static int refuse_without_upgrade(weft_http_request *r, const char *reason)
{
    (void)weft_http_set(r, FIELD("Version"), VERSION);
    if (weft_http_version(r) < 20) {
        (void)weft_http_set(r, "Upgrade", "websocket");
        (void)weft__reply_add_unchecked(r, &r->fields, "Connection", "Upgrade");
    }
    return refuse(r, 426, -EINVAL, reason);
}

/* Return the value of a header that must occur once. Returns NULL if it does not. */
static const char *single_header(const weft_http_request *r, const char *name)
{
    const char *found = NULL, *field, *value;
    for (size_t i = 0; weft_http_header_at(r, i, &field, &value) == 0; i++) {
        if (strcasecmp(field, name) != 0)
            continue;
        if (found != NULL)
            return NULL;
        found = value;
    }
    return found;
}

/* Check the request. After an error, the call has replied. */
static int check_request(weft_http_request *r)
{
    bool is_h1 = weft_http_version(r) < 20;
    if (is_h1 && strcmp(weft_http_method(r), "GET") != 0) {
        (void)weft_http_set(r, "Allow", "GET");
        return refuse(r, 405, -EINVAL, "A WebSocket request has the method GET.");
    }
    int rc = weft__upgrade_is_requested(r, "websocket");
    if (rc < 0)
        return rc;
    if (rc == 0)
        return refuse_without_upgrade(r, "This resource needs a WebSocket request.");
    const char *version = single_header(r, FIELD("Version"));
    if (version == NULL || strcmp(version, VERSION) != 0)
        return refuse_without_upgrade(r, "This server speaks version 13 of WebSocket.");
    const char *key = is_h1 ? single_header(r, FIELD("Key")) : NULL;
    if (is_h1 && (key == NULL || !weft__ws_key_is_valid(key)))
        return refuse(r, 400, -EINVAL, "The WebSocket key is invalid.");
    return 0;
}

/*
 * Origins.
 */

/* An origin (RFC 6454): a scheme, a host and a port. */
typedef struct origin {
    weft__span scheme;
    weft__host host;
} origin;

static bool origin_parse(origin *o, const char *text, size_t bytes)
{
    const char *end = memmem(text, bytes, "://", 3);
    if (end == NULL)
        return false;
    o->scheme = (weft__span){text, (size_t)(end - text)};
    if (weft__host_parse(&o->host, end + 3, bytes - o->scheme.bytes - 3) < 0)
        return false;
    if (o->host.port == WEFT__PORT_NONE)
        o->host.port = weft__field_is_word(text, o->scheme.bytes, "https") ? 443 : 80;
    return true;
}

static bool origins_are_equal(const origin *a, const origin *b)
{
    return a->scheme.bytes == b->scheme.bytes &&
           strncasecmp(a->scheme.at, b->scheme.at, a->scheme.bytes) == 0 &&
           a->host.port == b->host.port && strcmp(a->host.name, b->host.name) == 0;
}

/* Return whether a list contains an origin. "null", which is not a URL, is compared as text. */
static bool list_has_origin(const char *list, const char *text)
{
    origin wanted, listed;
    weft__span item;
    bool is_url = origin_parse(&wanted, text, strlen(text));
    while (weft__field_next(&list, &item)) {
        if (item.bytes == 1 && *item.at == '*')
            return true;
        if (is_url
                ? origin_parse(&listed, item.at, item.bytes) && origins_are_equal(&wanted, &listed)
                : weft__field_is_word(item.at, item.bytes, text))
            return true;
    }
    return false;
}

/* Return whether an origin is that of the request itself. */
static bool is_own_origin(weft_http_request *r, const char *text)
{
    origin theirs, own;
    size_t bytes;
    const char *authority = weft__request_authority(r, &bytes);
    if (!origin_parse(&theirs, text, strlen(text)) ||
        weft__host_parse(&own.host, authority, bytes) < 0)
        return false;
    const char *scheme = weft_http_scheme(r);
    own.scheme = (weft__span){scheme, strlen(scheme)};
    if (own.host.port == WEFT__PORT_NONE)
        own.host.port = strcmp(scheme, "https") == 0 ? 443 : 80;
    return origins_are_equal(&theirs, &own);
}

static int check_origin(weft_http_request *r, const weft_ws_options *o)
{
    if (weft_http_header(r, "Origin") == NULL)
        return 0;
    const char *text = single_header(r, "Origin");
    if (text != NULL &&
        (o->origins != NULL ? list_has_origin(o->origins, text) : is_own_origin(r, text)))
        return 0;
    return refuse(r, 403, -EACCES, "The origin is not allowed.");
}

/*
 * The reply.
 */

static int negotiate(weft_http_request *r, const weft_ws_options *o, agreement *a)
{
    *a = (agreement){0};
    const char *extensions = weft__request_join(r, FIELD("Extensions"));
    const char *protocols = weft__request_join(r, FIELD("Protocol"));
    if (extensions == NULL || protocols == NULL)
        return -ENOMEM;
    if (!weft__ws_protocols_are_valid(protocols))
        return refuse(r, 400, -EINVAL, "The subprotocols are malformed.");
    if (o->protocols != NULL)
        a->protocol = weft__ws_protocols_choose(o->protocols, protocols);
    int rc = weft__ws_extensions_accept(extensions, o, &a->deflate);
    if (rc < 0)
        return refuse(r, 400, -EINVAL, "The WebSocket extensions are malformed.");
    a->has_deflate = rc > 0;
    return 0;
}

/* Set a header to the text of w, and free w. */
static int set_text(weft_http_request *r, const char *name, weft__strbuf *w)
{
    int rc = w->has_failed ? -ENOMEM : weft_http_set(r, name, w->data);
    free(w->data);
    return rc;
}

static int set_headers(weft_http_request *r, const weft_ws_options *o, const agreement *a,
                       const char *protocol)
{
    int rc = 0;
    for (size_t i = 0; i < o->fields_count && rc == 0; i++)
        rc = weft_http_add(r, o->fields[i].name, o->fields[i].value);
    if (rc == 0 && weft_http_version(r) < 20) {
        weft__strbuf w = {0};
        weft__ws_add_accept(&w, weft_http_header(r, FIELD("Key")));
        rc = set_text(r, FIELD("Accept"), &w);
    }
    if (rc == 0 && a->has_deflate) {
        weft__strbuf w = {0};
        weft__ws_extensions_add_reply(&w, &a->deflate);
        rc = set_text(r, FIELD("Extensions"), &w);
    }
    if (rc == 0 && *protocol != '\0')
        rc = weft_http_set(r, FIELD("Protocol"), protocol);
    return rc;
}

/* Create the connection and switch to it. */
static int accept_agreed(weft_http_request *r, const weft_ws_options *o, const agreement *a,
                         weft_ws **ws)
{
    weft_ws *created = weft__ws_new(o, a->has_deflate ? &a->deflate : NULL, a->protocol, false);
    if (created == NULL)
        return -ENOMEM;
    int rc = set_headers(r, o, a, created->protocol);
    if (rc == 0)
        rc = weft_http_upgrade(r, "websocket", &created->live->stream);
    if (rc < 0) {
        weft__ws_delete(created);
        return rc;
    }
    created->live->request = r;
    weft__ws_set_buffer(created, false);
    *ws = created;
    return 0;
}

int weft_ws_accept(weft_http_request *r, const weft_ws_options *options, weft_ws **ws)
{
    const weft_ws_options o = options != NULL ? *options : (weft_ws_options){0};
    agreement a;
    *ws = NULL;
    if (r->state != WEFT__REPLY_NONE)
        return -EALREADY;
    int rc = weft__ws_options_check(&o);
    if (rc == 0)
        rc = check_request(r);
    if (rc == 0)
        rc = check_origin(r, &o);
    if (rc == 0)
        rc = negotiate(r, &o, &a);
    return rc < 0 ? rc : accept_agreed(r, &o, &a, ws);
}
