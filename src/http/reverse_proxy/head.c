/*
 * Format the head of the request to the upstream server. Add the fields of the response to the
 * reply.
 */
#include "http/message/ws_key.h"
#include "http/reply/reply.h"
#include "http/reverse_proxy/hop_by_hop.h"
#include "http/reverse_proxy/reverse_proxy.h"
#include "http/text/ctype.h"
#include "http/text/field.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/*
 * Append the received target, without the authority of an absolute-form (RFC 9112, 3.2.1). An
 * OPTIONS request without a path applies to the whole server. Its target is "*" (RFC 9112, 3.2.4).
 */
static void head_add_target(weft__strbuf *w, const weft__exchange *p)
{
    const weft_http_request *r = p->r;
    const char *target = weft_http_target(r);
    const char *authority = target[0] != '/' ? strstr(target, "://") : NULL;
    const char *path = authority != NULL ? authority + 3 + strcspn(authority + 3, "/?") : target;
    if (*path == '\0' && weft__request_is(r, "OPTIONS"))
        path = "*";
    if (*path != '*' && p->proxy->prefix != NULL)
        weft__reverse_proxy_map_target(w, p, path);
    else
        weft__strbuf_printf(w, "%s%s", *path == '/' || *path == '*' ? "" : "/", path);
}

static void head_add_host(weft__strbuf *w, const weft__exchange *p)
{
    size_t bytes = 0;
    const char *host =
        p->proxy->options.sends_upstream_host ? NULL : weft__request_target_host(p->r, &bytes);
    if (host == NULL || bytes == 0)
        weft__strbuf_printf(w, "Host: %s\r\n", p->proxy->authority);
    else
        weft__strbuf_printf(w, "Host: %.*s\r\n", (int)bytes, host);
}

/* Return whether two names match. Treat _ as -, because CGI servers map both characters to _. */
static bool name_is_alike(const char *name, const char *other)
{
    size_t bytes = strlen(other), i = 0;
    while (i < bytes &&
           (name[i] == '_' ? other[i] == '-' : weft__ctype_match(name + i, other + i, 1)))
        i++;
    return i == bytes && name[i] == '\0';
}

/* Return whether the proxy itself writes a field. */
static bool field_is_own(const weft__exchange *p, const char *name)
{
    static const char *const names[] = {
        "Host", "Expect", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (name_is_alike(name, names[i]))
            return true;
    if (p->ws_key != NULL && strcasecmp(name, "Sec-WebSocket-Key") == 0)
        return true;
    return strcasecmp(name, "Max-Forwards") == 0 && weft__reverse_proxy_hops(p->r) >= 0;
}

static void head_add_fields(weft__strbuf *w, const weft__exchange *p)
{
    const char *name, *value;
    const weft_http_request *r = p->r;
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++)
        if (!field_is_own(p, name) && weft__field_is_end_to_end(&r->head, name))
            weft__strbuf_printf(w, "%s: %s\r\n", name, value);
}

/*
 * Return the value of a trusted header. The proxy appends its own element to this value. Return ""
 * if the server does not trust the header.
 */
static const char *trusted_list(const weft__exchange *p, const char *name)
{
    weft_http_request *r = p->r;
    if (!weft__request_trusts(r, name) || !weft__field_is_end_to_end(&r->head, name))
        return "";
    const char *list = weft_http_header(r, name) != NULL ? weft__request_join(r, name) : NULL;
    return list != NULL ? list : "";
}

static void head_add_x_forwarded(weft__strbuf *w, const weft__exchange *p)
{
    char peer[WEFT__IP_TEXT_BYTES] = "";
    size_t host_bytes;
    const char *before = trusted_list(p, "X-Forwarded-For");
    const char *host = weft__request_authority(p->r, &host_bytes);
    if (!p->r->conn->peer.is_unix)
        weft__ip_write(&p->r->conn->peer.ip, peer);
    const char *comma = before[0] != '\0' && peer[0] != '\0' ? ", " : "";
    if (before[0] != '\0' || peer[0] != '\0')
        weft__strbuf_printf(w, "X-Forwarded-For: %s%s%s\r\n", before, comma, peer);
    weft__strbuf_printf(w, "X-Forwarded-Proto: %s\r\n", weft_http_scheme(p->r));
    if (host_bytes > 0)
        weft__strbuf_printf(w, "X-Forwarded-Host: %.*s\r\n", (int)host_bytes, host);
}

/*
 * Append Forwarded. Write an IPv6 address in quotes and brackets (RFC 7239, 6). A client without an
 * IP address is "unknown".
 */
static void head_add_forwarded(weft__strbuf *w, const weft__exchange *p)
{
    char peer[WEFT__IP_TEXT_BYTES] = "unknown";
    size_t host_bytes;
    const char *before = trusted_list(p, "Forwarded");
    const char *host = weft__request_target_host(p->r, &host_bytes);
    if (!p->r->conn->peer.is_unix)
        weft__ip_write(&p->r->conn->peer.ip, peer);
    bool is_v6 = strchr(peer, ':') != NULL;
    weft__strbuf_printf(w, "Forwarded: %s%sfor=%s%s%s;proto=%s", before,
                        before[0] != '\0' ? ", " : "", is_v6 ? "\"[" : "", peer, is_v6 ? "]\"" : "",
                        p->r->conn->is_tls ? "https" : "http");
    if (host_bytes > 0)
        weft__strbuf_printf(w, ";host=\"%.*s\"", (int)host_bytes, host);
    weft__strbuf_printf(w, "\r\n");
}

/* Append Via, and the fields with the address, scheme and host of the client. */
static void head_add_client(weft__strbuf *w, const weft__exchange *p)
{
    const weft_http_proxy_options *o = &p->proxy->options;
    const char *before = trusted_list(p, "Forwarded");
    int version = weft_http_version(p->r);
    weft__strbuf_printf(w, "Via: %d.%d %s\r\n", version / 10, version % 10, p->proxy->via);
    if (!o->has_no_x_forwarded)
        head_add_x_forwarded(w, p);
    if (o->sends_forwarded)
        head_add_forwarded(w, p);
    else if (before[0] != '\0')
        weft__strbuf_printf(w, "Forwarded: %s\r\n", before);
}

/* Return whether the client accepts trailers (RFC 9110, 10.1.4). */
static bool accepts_trailers(const weft_http_request *r)
{
    const weft__field *f;
    uint32_t index = 0;
    while ((f = weft__head_field(&r->head, "TE", &index)) != NULL)
        if (weft__field_has_token(r->head.text + f->value.at, f->value.bytes, "trailers"))
            return weft_http_version(r) >= 11;
    return false;
}

/* Append the fields for the connection to the upstream server. */
static void head_add_connection(weft__strbuf *w, const weft__exchange *p)
{
    bool has_te = accepts_trailers(p->r);
    if (has_te)
        weft__strbuf_printf(w, "TE: trailers\r\n");
    if (p->is_upgrade)
        weft__strbuf_printf(w, "Upgrade: %s\r\n", weft__request_join(p->r, "Upgrade"));
    if (p->ws_key != NULL)
        weft__strbuf_printf(w, "Sec-WebSocket-Key: %s\r\n", p->ws_key);
    if (has_te || p->is_upgrade)
        weft__strbuf_printf(w, "Connection: %s%s%s\r\n", has_te ? "TE" : "",
                            has_te && p->is_upgrade ? ", " : "", p->is_upgrade ? "Upgrade" : "");
}

static void head_add_framing(weft__strbuf *w, const weft_http_request *r)
{
    if (r->body_length < 0)
        weft__strbuf_printf(w, "Transfer-Encoding: chunked\r\n");
    else if (weft_http_header(r, "Content-Length") != NULL)
        weft__strbuf_printf(w, "Content-Length: %lld\r\n", (long long)weft_http_length(r));
    if (r->expects_continue)
        weft__strbuf_printf(w, "Expect: 100-continue\r\n");
}

void weft__reverse_proxy_request_head(weft__strbuf *w, const weft__exchange *p)
{
    long hops = weft__reverse_proxy_hops(p->r);
    weft__strbuf_printf(w, "%s ", weft_http_method(p->r));
    head_add_target(w, p);
    weft__strbuf_printf(w, " HTTP/1.1\r\n");
    head_add_host(w, p);
    head_add_fields(w, p);
    if (hops > 0)
        weft__strbuf_printf(w, "Max-Forwards: %ld\r\n", hops - 1);
    head_add_client(w, p);
    head_add_connection(w, p);
    head_add_framing(w, p->r);
    weft__strbuf_printf(w, "\r\n");
}

void weft__reverse_proxy_trailers(weft__strbuf *w, const weft_http_request *r)
{
    const char *name = NULL, *value;
    while ((name = weft__trailers_next(&r->request_trailers, name, &value)) != NULL)
        if (weft__trailer_is_end_to_end(&r->head, name))
            weft__strbuf_printf(w, "%s: %s\r\n", name, value);
}

/*
 * The reply.
 */

int weft__reverse_proxy_interim(const weft__exchange *p, int status)
{
    const weft__head head = weft__message_fields(&p->f->response, p->f->head);
    weft__reply_field *fields = NULL;
    const char *name, *value;
    for (size_t i = 0; weft_fetch_header_at(p->f, i, &name, &value) == 0; i++)
        if (weft__field_is_end_to_end(&head, name) &&
            weft__reply_add_unchecked(p->r, &fields, name, value) < 0)
            return -ENOMEM;
    int rc = p->r->codec->send_interim(p->r, status, fields);
    return rc < 0 ? rc : p->r->codec->flush(p->r);
}

bool weft__reverse_proxy_accepts_key(const weft__exchange *p)
{
    const char *accept = weft_fetch_header(p->f, "Sec-WebSocket-Accept");
    weft__strbuf expected = {0};
    if (p->ws_key == NULL)
        return true;
    weft__ws_add_accept(&expected, p->ws_key);
    bool is_right = accept != NULL && !expected.has_failed && strcmp(accept, expected.data) == 0;
    free(expected.data);
    return is_right;
}

/* Return whether the client needs a field of the response. */
static bool response_field_is_for_client(const weft__exchange *p, const weft__head *head,
                                         const char *name)
{
    if (p->ws_key != NULL && strcasecmp(name, "Sec-WebSocket-Accept") == 0)
        return false;
    return weft__field_is_end_to_end(head, name);
}

int weft__reverse_proxy_reply_fields(const weft__exchange *p)
{
    const weft_fetch *f = p->f;
    const weft__head head = weft__message_fields(&f->response, f->head);
    const char *name, *value;
    char via[128];
    for (size_t i = 0; weft_fetch_header_at(f, i, &name, &value) == 0; i++) {
        if (p->proxy->prefix != NULL && strcasecmp(name, "Location") == 0)
            value = weft__reverse_proxy_map_location(p, value);
        if (response_field_is_for_client(p, &head, name) &&
            weft__reply_add_unchecked(p->r, &p->r->fields, name, value) < 0)
            return -ENOMEM;
    }
    snprintf(via, sizeof via, "%s %s", f->response.version == 10 ? "1.0" : "1.1", p->proxy->via);
    return weft__reply_add_unchecked(p->r, &p->r->fields, "Via", via);
}

int weft__reverse_proxy_reply_trailers(const weft__exchange *p)
{
    const weft__head head = weft__message_fields(&p->f->response, p->f->head);
    const weft__trailers trailers = weft__message_trailers(&p->f->response);
    const char *name = NULL, *value;
    while ((name = weft__trailers_next(&trailers, name, &value)) != NULL)
        if (weft__trailer_is_end_to_end(&head, name) &&
            weft__reply_add_unchecked(p->r, &p->r->trailers, name, value) < 0)
            return -ENOMEM;
    return 0;
}

/*
 * Loops and Max-Forwards.
 */

/* Return whether an element of Via, for example "1.1 name (comment)", has this name. */
static bool via_is_by(weft__span element, const char *name)
{
    size_t begin = 0, end;
    while (begin < element.bytes && !strchr(" \t", element.at[begin]))
        begin++;
    while (begin < element.bytes && strchr(" \t", element.at[begin]))
        begin++;
    for (end = begin; end < element.bytes && !strchr(" \t", element.at[end]); end++)
        continue;
    return weft__field_is_word(element.at + begin, end - begin, name);
}

bool weft__reverse_proxy_is_loop(const weft__exchange *p)
{
    const weft__field *f;
    const weft__head *head = &p->r->head;
    uint32_t index = 0;
    while ((f = weft__head_field(head, "Via", &index)) != NULL) {
        weft__span list = {head->text + f->value.at, f->value.bytes}, element;
        while (weft__field_element(&list, &element))
            if (via_is_by(element, p->proxy->via))
                return true;
    }
    return false;
}

long weft__reverse_proxy_hops(const weft_http_request *r)
{
    const char *text = weft_http_header(r, "Max-Forwards");
    const char *method = weft_http_method(r);
    if (text == NULL || (strcmp(method, "OPTIONS") != 0 && strcmp(method, "TRACE") != 0))
        return -1;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] != '\0')
        return -EINVAL;
    return strtol(text, NULL, 10);
}
