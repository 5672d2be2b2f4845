/* The handshake of a client (RFC 6455, 4.1). */
#include "ws/ws.h"

#include <weft/error.h>
#include <weft/url.h>

#include <errno.h>
#include <string.h>
#include <strings.h>

#define FIELD(name) WEFT__WS_FIELD_PREFIX name

/* The fields of the handshake: Version, Key, Protocol and Extensions. */
#define OWN_FIELDS_MAX 4

/* A handshake in progress. */
typedef struct handshake {
    const weft_ws_options *options;
    weft__strbuf url;
    weft__strbuf key;
    weft__strbuf offer;
    weft_fetch_field *fields;
    size_t fields_count;
    weft_fetch *fetch;
    weft_stream *stream;
} handshake;

/* Append a URL with the scheme of HTTP: ws is http, and wss is https. */
static int add_http_url(weft__strbuf *w, const char *url)
{
    static const char *const schemes[][2] = {
        {"ws:", "http:"}, {"wss:", "https:"}, {"http:", "http:"}, {"https:", "https:"}};
    for (size_t i = 0; url != NULL && i < sizeof schemes / sizeof *schemes; i++) {
        size_t bytes = strlen(schemes[i][0]);
        if (strncasecmp(url, schemes[i][0], bytes) != 0)
            continue;
        if (strchr(url, '#') != NULL)
            return weft_fail(-EINVAL, "weft_ws_connect: url has a fragment: %s", url);
        weft__strbuf_printf(w, "%s%s", schemes[i][1], url + bytes);
        return 0;
    }
    return weft_fail(-EINVAL, "weft_ws_connect: url is not a ws or wss URL: %s",
                     url != NULL ? url : "NULL");
}

static void add_field(handshake *h, const char *name, const char *value)
{
    h->fields[h->fields_count++] = (weft_fetch_field){name, value};
}

static int make_request(handshake *h, const char *url)
{
    const weft_ws_options *o = h->options;
    int rc = add_http_url(&h->url, url);
    if (rc == 0)
        rc = weft__ws_add_key(&h->key);
    if (rc < 0)
        return rc;
    weft__ws_extensions_add_offer(&h->offer, o);
    h->fields = calloc(o->fields_count + OWN_FIELDS_MAX, sizeof *h->fields);
    if (h->fields == NULL || h->url.has_failed || h->key.has_failed || h->offer.has_failed)
        return -ENOMEM;
    add_field(h, FIELD("Version"), "13");
    add_field(h, FIELD("Key"), h->key.data);
    if (o->protocols != NULL)
        add_field(h, FIELD("Protocol"), o->protocols);
    if (h->offer.data != NULL)
        add_field(h, FIELD("Extensions"), h->offer.data);
    for (size_t i = 0; i < o->fields_count; i++)
        add_field(h, o->fields[i].name, o->fields[i].value);
    return 0;
}

/* Join the values of all fields with this name, separated by commas. */
static int join_fields(const handshake *h, const char *wanted, weft__strbuf *w)
{
    const char *name, *value;
    weft__strbuf_printf(w, "%s", "");
    for (size_t i = 0; weft_fetch_header_at(h->fetch, i, &name, &value) == 0; i++)
        if (strcasecmp(name, wanted) == 0)
            weft__strbuf_printf(w, "%s%s", w->bytes > 0 ? "," : "", value);
    return w->has_failed ? -ENOMEM : 0;
}

/* Check Sec-WebSocket-Accept, which must occur once. HTTP/2 does not use it. */
static int check_accept(const handshake *h)
{
    weft__strbuf accept = {0}, wanted = {0};
    if (weft_fetch_status(h->fetch) != 101)
        return 0;
    int rc = join_fields(h, FIELD("Accept"), &accept);
    weft__ws_add_accept(&wanted, h->key.data);
    if (wanted.has_failed)
        rc = -ENOMEM;
    if (rc == 0 && strcmp(accept.data, wanted.data) != 0)
        rc = weft_fail(-EBADMSG, "%s: the server's Sec-WebSocket-Accept is wrong", h->url.data);
    free(accept.data);
    free(wanted.data);
    return rc;
}

/* Check that the server has chosen one of the offered subprotocols, or none. */
static int check_protocol(const handshake *h, weft__span *protocol)
{
    const char *offered = h->options->protocols;
    weft__strbuf chosen = {0};
    *protocol = (weft__span){0};
    int rc = join_fields(h, FIELD("Protocol"), &chosen);
    if (rc == 0 && offered != NULL && weft__field_is_token(chosen.data, chosen.bytes))
        *protocol = weft__ws_protocols_choose(offered, chosen.data);
    if (rc == 0 && protocol->at == NULL && weft_fetch_header(h->fetch, FIELD("Protocol")) != NULL)
        rc = weft_fail(-EBADMSG, "%s: the server chose the subprotocol %s", h->url.data,
                       chosen.data);
    free(chosen.data);
    return rc;
}

/* Check the extensions. Returns 1 with compression, 0 without, or an error. */
static int check_extensions(const handshake *h, weft__ws_deflate_params *params)
{
    weft__strbuf w = {0};
    int rc = join_fields(h, FIELD("Extensions"), &w);
    if (rc == 0)
        rc = weft__ws_extensions_check(w.data, h->options, params);
    if (rc == -EBADMSG)
        rc = weft_fail(rc, "%s: the server chose the extensions %s", h->url.data, w.data);
    free(w.data);
    return rc;
}

/* Check the response and create the connection. */
static int open_agreed(handshake *h, weft_ws **ws)
{
    weft__ws_deflate_params params;
    weft__span protocol;
    int rc = check_accept(h);
    if (rc == 0)
        rc = check_protocol(h, &protocol);
    if (rc == 0)
        rc = check_extensions(h, &params);
    if (rc < 0)
        return rc;
    *ws = weft__ws_new(h->options, rc > 0 ? &params : NULL, protocol, true);
    if (*ws == NULL)
        return -ENOMEM;
    (*ws)->live->stream = h->stream;
    (*ws)->live->fetch = h->fetch;
    h->fetch = NULL;
    return 0;
}

static int run_handshake(handshake *h, weft_fetcher *fetcher, weft_ws **ws)
{
    const weft_fetch_request request = {
        .url = h->url.data, .fields = h->fields, .fields_count = h->fields_count};
    int rc = weft_fetch_upgrade(fetcher, &request, "websocket", &h->fetch, &h->stream);
    if (rc < 0)
        return rc;
    if (h->stream == NULL)
        return weft_fail(-ECONNREFUSED, "%s: the server replied %d", h->url.data, rc);
    return open_agreed(h, ws);
}

int weft_ws_connect(weft_fetcher *fetcher, const char *url, const weft_ws_options *options,
                    weft_ws **ws)
{
    const weft_ws_options o = options != NULL ? *options : (weft_ws_options){0};
    handshake h = {.options = &o};
    *ws = NULL;
    int rc = weft__ws_options_check(&o);
    if (rc == 0)
        rc = make_request(&h, url);
    if (rc == 0)
        rc = run_handshake(&h, fetcher, ws);
    weft_fetch_close(h.fetch);
    free(h.fields);
    free(h.url.data);
    free(h.key.data);
    free(h.offer.data);
    return rc;
}
