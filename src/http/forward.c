/*
 * Who asks, how, and for which host: what the connection and the request say, or a proxy that is
 * trusted. Worked out when it is first asked for.
 */
#include "http/host.h"
#include "http/server.h"

static void sockaddr_of(const weft__peer *p, struct sockaddr_storage *address)
{
    *address = (struct sockaddr_storage){.ss_family = p->is_unix ? AF_UNIX : AF_INET6};
    if (!p->is_unix)
        memcpy(&((struct sockaddr_in6 *)address)->sin6_addr, p->ip.bytes, sizeof p->ip.bytes);
}

static bool is_trusted(const weft__conn *c)
{
    struct sockaddr_storage address;
    if (c->server->trusted.count == 0 && !c->server->trusted.has_unix)
        return false;
    sockaddr_of(&c->peer, &address);
    return weft__cidr_has(&c->server->trusted, (struct sockaddr *)&address);
}

bool weft__request_is_trusted(const weft_http_request *r)
{
    return is_trusted(r->conn);
}

/*
 * A header that counts only if the peer is trusted: the last of several, for a proxy adds its own
 * behind those that a stranger may have sent.
 */
static const char *forwarded(const weft_http_request *r, const char *name)
{
    const weft__field *f, *last = NULL;
    uint32_t index = 0;
    if (!is_trusted(r->conn))
        return NULL;
    while ((f = weft__message_field(&r->conn->message, r->head, name, &index)) != NULL)
        last = f;
    return last != NULL ? r->head + last->value.at : NULL;
}

const char *weft__request_join(weft_http_request *r, const char *name)
{
    const weft__message *m = &r->conn->message;
    const weft__field *f;
    uint32_t index = 0;
    size_t bytes = 1;
    while ((f = weft__message_field(m, r->head, name, &index)) != NULL)
        bytes += f->value.bytes + 1;
    char *all = weft__arena_alloc(&r->conn->arena, bytes), *end = all;
    if (all == NULL)
        return NULL;
    index = 0;
    while ((f = weft__message_field(m, r->head, name, &index)) != NULL) {
        memcpy(end, r->head + f->value.at, f->value.bytes);
        end += f->value.bytes;
        *end++ = ',';
    }
    end[end > all ? -1 : 0] = '\0'; /* in place of the last comma */
    return all;
}

const char *weft_http_peer(weft_http_request *r)
{
    if (r->peer != NULL)
        return r->peer;
    struct sockaddr_storage address;
    char *text = weft__arena_alloc(&r->conn->arena, WEFT__IP_TEXT_BYTES);
    if (text == NULL)
        return "";
    sockaddr_of(&r->conn->peer, &address);
    const char *value =
        forwarded(r, "X-Forwarded-For") != NULL ? weft__request_join(r, "X-Forwarded-For") : NULL;
    weft__forwarded_for(text, value, &r->conn->server->trusted, (struct sockaddr *)&address);
    r->peer = text;
    return text;
}

/* The last of a list: what the proxy next to us has added. */
static const char *last_of(const char *list)
{
    const char *comma = strrchr(list, ',');
    list = comma != NULL ? comma + 1 : list;
    return list + strspn(list, " \t");
}

const char *weft_http_scheme(weft_http_request *r)
{
    const char *said = forwarded(r, "X-Forwarded-Proto");
    if (said != NULL && strcasecmp(last_of(said), "https") == 0)
        return "https";
    if (said != NULL && strcasecmp(last_of(said), "http") == 0)
        return "http";
    return r->conn->is_tls ? "https" : "http";
}

/* The authority of an absolute target counts before Host (RFC 9112, 3.2.2). */
const char *weft__request_asked_host(const weft_http_request *r, size_t *bytes)
{
    const char *authority = r->target[0] != '/' ? strstr(r->target, "://") : NULL;
    const char *text = authority != NULL ? authority + 3 : weft_http_header(r, "Host");
    *bytes = text != NULL ? strcspn(text, "/?") : 0;
    return text != NULL ? text : "";
}

const char *weft__request_authority(const weft_http_request *r, size_t *bytes)
{
    const char *text = forwarded(r, "X-Forwarded-Host");
    if (text == NULL)
        return weft__request_asked_host(r, bytes);
    text = last_of(text);
    *bytes = strcspn(text, "/?");
    return text;
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
    const char *copy = weft__arena_copy(&r->conn->arena, host.name, strlen(host.name));
    r->host = copy;
    return copy != NULL ? copy : "";
}
