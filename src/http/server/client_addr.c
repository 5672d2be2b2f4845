/*
 * The client's address, the scheme and the host of a request. A header of a trusted proxy takes
 * precedence over the connection and the request. weft_http_peer and weft_http_host store their
 * results in the request.
 */
#include "http/server/server.h"
#include "http/text/field.h"
#include "http/url/host.h"

#include <weft/error.h>

static void peer_sockaddr(const weft__peer *p, struct sockaddr_storage *address)
{
    *address = (struct sockaddr_storage){.ss_family = p->is_unix ? AF_UNIX : AF_INET6};
    if (!p->is_unix)
        memcpy(&((struct sockaddr_in6 *)address)->sin6_addr, p->ip.bytes, sizeof p->ip.bytes);
}

static const struct {
    const char *name;
    unsigned flag;
} trust_headers[] = {
    {"X-Forwarded-For", WEFT__TRUST_FOR},
    {"X-Forwarded-Host", WEFT__TRUST_HOST},
    {"X-Forwarded-Proto", WEFT__TRUST_PROTO},
    {"Forwarded", WEFT__TRUST_FORWARDED},
};

/* Return the WEFT__TRUST_* bit of a header, or 0 if the header has no bit. */
static unsigned trust_flag_of(weft__span name)
{
    for (size_t i = 0; i < sizeof trust_headers / sizeof *trust_headers; i++)
        if (weft__field_is_word(name.at, name.bytes, trust_headers[i].name))
            return trust_headers[i].flag;
    return 0;
}

int weft__trusted_headers_parse(const char *names)
{
    unsigned flags = 0;
    weft__span name;
    if (names == NULL)
        return WEFT__TRUST_FOR;
    while (weft__field_next(&names, &name)) {
        unsigned flag = trust_flag_of(name);
        if (flag == 0)
            return weft_fail(-EINVAL,
                             "weft_http_serve: trusted_headers contains %.*s, not X-Forwarded-For, "
                             "X-Forwarded-Host, X-Forwarded-Proto or Forwarded",
                             (int)name.bytes, name.at);
        flags |= flag;
    }
    return (int)flags;
}

bool weft__request_trusts(const weft_http_request *r, const char *name)
{
    unsigned flag = trust_flag_of((weft__span){name, strlen(name)});
    return (r->server->trusted_headers & flag) != 0 &&
           weft__peer_is_in(&r->conn->peer, &r->server->trusted);
}

/*
 * Return the value of the last header with this name. Returns NULL if the header is absent or not
 * trusted. The last header counts, because a proxy appends its header to the client's headers.
 */
static const char *trusted_header(const weft_http_request *r, const char *name)
{
    const weft__field *f, *last = NULL;
    uint32_t index = 0;
    if (!weft__request_trusts(r, name))
        return NULL;
    while ((f = weft__head_field(&r->head, name, &index)) != NULL)
        last = f;
    return last != NULL ? r->head.text + last->value.at : NULL;
}

char *weft__request_join(weft_http_request *r, const char *name)
{
    const weft__field *f;
    uint32_t index = 0;
    size_t bytes = 1;
    while ((f = weft__head_field(&r->head, name, &index)) != NULL)
        bytes += f->value.bytes + 1;
    char *all = weft__arena_alloc(r->arena, bytes), *end = all;
    if (all == NULL)
        return NULL;
    index = 0;
    while ((f = weft__head_field(&r->head, name, &index)) != NULL) {
        memcpy(end, r->head.text + f->value.at, f->value.bytes);
        end += f->value.bytes;
        *end++ = ',';
    }
    end[end > all ? -1 : 0] = '\0'; /* replaces the last comma */
    return all;
}

/*
 * Return the contents of Forwarded. Returns NULL if the header is absent or not trusted, or if
 * memory is exhausted.
 */
static const weft__forwarded *forwarded_field_of(weft_http_request *r)
{
    struct sockaddr_storage address;
    if (r->forwarded != NULL || trusted_header(r, "Forwarded") == NULL)
        return r->forwarded;
    weft__forwarded *reported = weft__arena_alloc(r->arena, sizeof *reported);
    char *value = reported != NULL ? weft__request_join(r, "Forwarded") : NULL;
    if (value == NULL)
        return NULL;
    peer_sockaddr(&r->conn->peer, &address);
    weft__forwarded_field_read(reported, value, &r->server->trusted, (struct sockaddr *)&address);
    r->forwarded = reported;
    return reported;
}

const char *weft_http_peer(weft_http_request *r)
{
    if (r->peer != NULL)
        return r->peer;
    const weft__forwarded *reported = forwarded_field_of(r);
    if (reported != NULL)
        return r->peer = reported->peer;
    struct sockaddr_storage address;
    char *text = weft__arena_alloc(r->arena, WEFT__IP_TEXT_BYTES);
    if (text == NULL)
        return "";
    peer_sockaddr(&r->conn->peer, &address);
    const char *value = trusted_header(r, "X-Forwarded-For");
    weft__x_forwarded_for_read(text,
                               value != NULL ? weft__request_join(r, "X-Forwarded-For") : NULL,
                               &r->server->trusted, (struct sockaddr *)&address);
    r->peer = text;
    return text;
}

/* Return the last item of a list. The nearest proxy has added the last item. */
static const char *list_last_item(const char *list)
{
    const char *comma = strrchr(list, ',');
    list = comma != NULL ? comma + 1 : list;
    return list + strspn(list, " \t");
}

/* Return the last item of a header. at is NULL if the header is absent or not trusted. */
static weft__span trusted_last_item(const weft_http_request *r, const char *name)
{
    const char *reported = trusted_header(r, name);
    reported = reported != NULL ? list_last_item(reported) : NULL;
    return (weft__span){reported, reported != NULL ? strlen(reported) : 0};
}

static bool span_is_word(weft__span text, const char *word)
{
    return text.at != NULL && weft__field_is_word(text.at, text.bytes, word);
}

const char *weft_http_scheme(weft_http_request *r)
{
    const weft__forwarded *f = forwarded_field_of(r);
    weft__span reported = f != NULL ? f->proto : trusted_last_item(r, "X-Forwarded-Proto");
    if (span_is_word(reported, "https"))
        return "https";
    if (span_is_word(reported, "http"))
        return "http";
    return r->conn->is_tls ? "https" : "http";
}

/* The authority of an absolute target takes precedence over Host (RFC 9112, 3.2.2). */
const char *weft__request_target_host(const weft_http_request *r, size_t *bytes)
{
    const char *authority = r->target[0] != '/' ? strstr(r->target, "://") : NULL;
    const char *text = authority != NULL ? authority + 3 : weft_http_header(r, "Host");
    *bytes = text != NULL ? strcspn(text, "/?") : 0;
    return text != NULL ? text : "";
}

const char *weft__request_authority(weft_http_request *r, size_t *bytes)
{
    const weft__forwarded *f = forwarded_field_of(r);
    weft__span reported = f != NULL ? f->host : trusted_last_item(r, "X-Forwarded-Host");
    if (reported.at == NULL)
        return weft__request_target_host(r, bytes);
    *bytes = reported.bytes;
    return reported.at;
}

const char *weft_http_host(weft_http_request *r)
{
    if (r->host != NULL)
        return r->host;
    weft__host host;
    size_t bytes;
    const char *text = weft__request_authority(r, &bytes);
    if (weft__host_parse(&host, text, bytes) < 0)
        host.name[0] = '\0';
    const char *copy = weft__arena_copy(r->arena, host.name, strlen(host.name));
    r->host = copy;
    return copy != NULL ? copy : "";
}
