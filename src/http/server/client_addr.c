/*
 * Who asks, how, and for which host: what the connection and the request say, or a proxy that is
 * trusted. Worked out when it is first asked for.
 */
#include "http/field.h"
#include "http/host.h"
#include "http/server.h"

#include <weft/error.h>

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

static const struct {
    const char *name;
    unsigned flag;
} headers[] = {
    {"X-Forwarded-For", WEFT__TRUST_FOR},
    {"X-Forwarded-Host", WEFT__TRUST_HOST},
    {"X-Forwarded-Proto", WEFT__TRUST_PROTO},
    {"Forwarded", WEFT__TRUST_FORWARDED},
};

/* The flag of a header; 0: another header. */
static unsigned flag_of(weft__piece name)
{
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (weft__field_is_word(name.at, name.bytes, headers[i].name))
            return headers[i].flag;
    return 0;
}

int weft__trust_parse(const char *names)
{
    unsigned flags = 0;
    weft__piece name;
    if (names == NULL)
        return WEFT__TRUST_FOR;
    while (weft__field_next(&names, &name)) {
        unsigned flag = flag_of(name);
        if (flag == 0)
            return weft_fail(-EINVAL,
                             "trusted_headers: %.*s is not X-Forwarded-For, X-Forwarded-Host, "
                             "X-Forwarded-Proto or Forwarded",
                             (int)name.bytes, name.at);
        flags |= flag;
    }
    return (int)flags;
}

bool weft__request_trusts(const weft_http_request *r, const char *name)
{
    unsigned flag = flag_of((weft__piece){name, strlen(name)});
    return (r->conn->server->trusted_headers & flag) != 0 && is_trusted(r->conn);
}

/*
 * A header that counts only if it is trusted: the last of several, because a proxy adds its own
 * behind those of the client.
 */
static const char *forwarded(const weft_http_request *r, const char *name)
{
    const weft__field *f, *last = NULL;
    uint32_t index = 0;
    if (!weft__request_trusts(r, name))
        return NULL;
    while ((f = weft__message_field(&r->conn->message, r->head, name, &index)) != NULL)
        last = f;
    return last != NULL ? r->head + last->value.at : NULL;
}

char *weft__request_join(weft_http_request *r, const char *name)
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

/* What Forwarded says, if it is there and believed; NULL. Read once. */
static const weft__forwarded *said_by_forwarded(weft_http_request *r)
{
    struct sockaddr_storage address;
    if (r->forwarded != NULL || forwarded(r, "Forwarded") == NULL)
        return r->forwarded;
    weft__forwarded *said = weft__arena_alloc(&r->conn->arena, sizeof *said);
    char *value = said != NULL ? weft__request_join(r, "Forwarded") : NULL;
    if (value == NULL)
        return NULL;
    sockaddr_of(&r->conn->peer, &address);
    weft__forwarded_read(said, value, &r->conn->server->trusted, (struct sockaddr *)&address);
    r->forwarded = said;
    return said;
}

const char *weft_http_peer(weft_http_request *r)
{
    if (r->peer != NULL)
        return r->peer;
    const weft__forwarded *said = said_by_forwarded(r);
    if (said != NULL)
        return r->peer = said->peer;
    struct sockaddr_storage address;
    char *text = weft__arena_alloc(&r->conn->arena, WEFT__IP_TEXT_BYTES);
    if (text == NULL)
        return "";
    sockaddr_of(&r->conn->peer, &address);
    const char *value = forwarded(r, "X-Forwarded-For");
    weft__forwarded_for(text, value != NULL ? weft__request_join(r, "X-Forwarded-For") : NULL,
                        &r->conn->server->trusted, (struct sockaddr *)&address);
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

/* The last item of a header that is believed; at NULL: there is none. */
static weft__piece last_forwarded(const weft_http_request *r, const char *name)
{
    const char *said = forwarded(r, name);
    said = said != NULL ? last_of(said) : NULL;
    return (weft__piece){said, said != NULL ? strlen(said) : 0};
}

static bool is_word(weft__piece text, const char *word)
{
    return text.at != NULL && weft__field_is_word(text.at, text.bytes, word);
}

const char *weft_http_scheme(weft_http_request *r)
{
    const weft__forwarded *f = said_by_forwarded(r);
    weft__piece said = f != NULL ? f->proto : last_forwarded(r, "X-Forwarded-Proto");
    if (is_word(said, "https"))
        return "https";
    if (is_word(said, "http"))
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

const char *weft__request_authority(weft_http_request *r, size_t *bytes)
{
    const weft__forwarded *f = said_by_forwarded(r);
    weft__piece said = f != NULL ? f->host : last_forwarded(r, "X-Forwarded-Host");
    if (said.at == NULL)
        return weft__request_asked_host(r, bytes);
    *bytes = said.bytes;
    return said.at;
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
