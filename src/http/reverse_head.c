/*
 * The head of the request that the reverse proxy sends to the upstream server, and the fields of
 * the answer that it passes back.
 */
#include "http/chars.h"
#include "http/field.h"
#include "http/reverse.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const weft__message *message_of(const weft_http_request *r)
{
    return &r->conn->message;
}

/*
 * The target as it came, without the authority of an absolute one (RFC 9112, 3.2.1). OPTIONS of one
 * without a path concerns the whole server: "*" (3.2.4).
 */
static void add_target(weft__words *w, const weft_http_request *r)
{
    const char *target = weft_http_target(r);
    const char *authority = target[0] != '/' ? strstr(target, "://") : NULL;
    const char *path = authority != NULL ? authority + 3 + strcspn(authority + 3, "/?") : target;
    if (*path == '\0' && weft__request_is(r, HTTP_OPTIONS))
        path = "*";
    weft__words_print(w, "%s%s", *path == '/' || *path == '*' ? "" : "/", path);
}

static void add_host(weft__words *w, const weft__pass *p)
{
    size_t bytes = 0;
    const char *host =
        p->proxy->options.sends_upstream_host ? NULL : weft__request_asked_host(p->r, &bytes);
    if (host == NULL || bytes == 0)
        weft__words_print(w, "Host: %s\r\n", p->proxy->authority);
    else
        weft__words_print(w, "Host: %.*s\r\n", (int)bytes, host);
}

/* Is it the same name, also with _ for -? Servers that make variables of fields mix them up. */
static bool is_alike(const char *name, const char *own)
{
    size_t bytes = strlen(own), i = 0;
    while (i < bytes && (name[i] == '_' ? own[i] == '-' : weft__chars_match(name + i, own + i, 1)))
        i++;
    return i == bytes && name[i] == '\0';
}

/* Is it a field that the proxy writes itself? */
static bool is_own(const weft__pass *p, const char *name)
{
    static const char *const names[] = {
        "Host", "Expect", "Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_alike(name, names[i]))
            return true;
    return strcasecmp(name, "Max-Forwards") == 0 && weft__reverse_hops(p->r) >= 0;
}

static void add_fields(weft__words *w, const weft__pass *p)
{
    const char *name, *value;
    const weft_http_request *r = p->r;
    for (size_t i = 0; weft_http_header_at(r, i, &name, &value) == 0; i++)
        if (!is_own(p, name) && weft__hop_is_passed(message_of(r), r->head, name))
            weft__words_print(w, "%s: %s\r\n", name, value);
}

/* The list in a header that is believed, to be continued; "" for any other. */
static const char *list_before(const weft__pass *p, const char *name)
{
    weft_http_request *r = p->r;
    if (!weft__request_trusts(r, name) || !weft__hop_is_passed(message_of(r), r->head, name))
        return "";
    const char *list = weft_http_header(r, name) != NULL ? weft__request_join(r, name) : NULL;
    return list != NULL ? list : "";
}

static void add_x_forwarded(weft__words *w, const weft__pass *p)
{
    char peer[WEFT__IP_TEXT_BYTES] = "";
    size_t host_bytes;
    const char *before = list_before(p, "X-Forwarded-For");
    const char *host = weft__request_authority(p->r, &host_bytes);
    if (!p->r->conn->peer.is_unix)
        weft__ip_write(&p->r->conn->peer.ip, peer);
    const char *comma = before[0] != '\0' && peer[0] != '\0' ? ", " : "";
    if (before[0] != '\0' || peer[0] != '\0')
        weft__words_print(w, "X-Forwarded-For: %s%s%s\r\n", before, comma, peer);
    weft__words_print(w, "X-Forwarded-Proto: %s\r\n", weft_http_scheme(p->r));
    if (host_bytes > 0)
        weft__words_print(w, "X-Forwarded-Host: %.*s\r\n", (int)host_bytes, host);
}

/* RFC 7239, 4 and 6: an address of IPv6 is quoted, in brackets; no address is "unknown". */
static void add_forwarded(weft__words *w, const weft__pass *p)
{
    char peer[WEFT__IP_TEXT_BYTES] = "unknown";
    size_t host_bytes;
    const char *before = list_before(p, "Forwarded");
    const char *host = weft__request_asked_host(p->r, &host_bytes);
    if (!p->r->conn->peer.is_unix)
        weft__ip_write(&p->r->conn->peer.ip, peer);
    bool is_v6 = strchr(peer, ':') != NULL;
    weft__words_print(w, "Forwarded: %s%sfor=%s%s%s;proto=%s", before,
                      before[0] != '\0' ? ", " : "", is_v6 ? "\"[" : "", peer, is_v6 ? "]\"" : "",
                      p->r->conn->is_tls ? "https" : "http");
    if (host_bytes > 0)
        weft__words_print(w, ";host=\"%.*s\"", (int)host_bytes, host);
    weft__words_print(w, "\r\n");
}

/* The client's address, scheme and host, and the proxies on the way. */
static void add_way(weft__words *w, const weft__pass *p)
{
    const weft_http_proxy_options *o = &p->proxy->options;
    const char *before = list_before(p, "Forwarded");
    weft__words_print(w, "Via: %s %s\r\n", weft_http_version(p->r) == 10 ? "1.0" : "1.1",
                      p->proxy->via);
    if (!o->has_no_x_forwarded)
        add_x_forwarded(w, p);
    if (o->sends_forwarded)
        add_forwarded(w, p);
    else if (before[0] != '\0')
        weft__words_print(w, "Forwarded: %s\r\n", before);
}

/* Does the client say that it understands trailers (RFC 9110, 10.1.4)? */
static bool takes_trailers(const weft_http_request *r)
{
    const weft__field *f;
    uint32_t index = 0;
    while ((f = weft__message_field(message_of(r), r->head, "TE", &index)) != NULL)
        if (weft__field_has_token(r->head + f->value.at, f->value.bytes, "trailers"))
            return weft_http_version(r) == 11;
    return false;
}

/* The fields of the new connection. */
static void add_connection(weft__words *w, const weft__pass *p)
{
    bool has_te = takes_trailers(p->r);
    if (has_te)
        weft__words_print(w, "TE: trailers\r\n");
    if (p->is_upgrade)
        weft__words_print(w, "Upgrade: %s\r\n", weft__request_join(p->r, "Upgrade"));
    if (has_te || p->is_upgrade)
        weft__words_print(w, "Connection: %s%s%s\r\n", has_te ? "TE" : "",
                          has_te && p->is_upgrade ? ", " : "", p->is_upgrade ? "Upgrade" : "");
}

static void add_framing(weft__words *w, const weft_http_request *r)
{
    if (message_of(r)->is_chunked)
        weft__words_print(w, "Transfer-Encoding: chunked\r\n");
    else if (weft_http_header(r, "Content-Length") != NULL)
        weft__words_print(w, "Content-Length: %lld\r\n", (long long)weft_http_length(r));
    if (message_of(r)->expects_continue)
        weft__words_print(w, "Expect: 100-continue\r\n");
}

void weft__reverse_request(weft__words *w, const weft__pass *p)
{
    long hops = weft__reverse_hops(p->r);
    weft__words_print(w, "%s ", weft_http_method(p->r));
    add_target(w, p->r);
    weft__words_print(w, " HTTP/1.1\r\n");
    add_host(w, p);
    add_fields(w, p);
    if (hops > 0)
        weft__words_print(w, "Max-Forwards: %ld\r\n", hops - 1);
    add_way(w, p);
    add_connection(w, p);
    add_framing(w, p->r);
    weft__words_print(w, "\r\n");
}

void weft__reverse_trailers(weft__words *w, const weft_http_request *r)
{
    const weft__message *m = message_of(r);
    const char *name = NULL, *value;
    while ((name = weft__message_next_trailer(m, name, &value)) != NULL)
        if (weft__hop_is_passed_trailer(m, r->head, name))
            weft__words_print(w, "%s: %s\r\n", name, value);
}

/*
 * Back.
 */

void weft__reverse_interim(weft__words *w, const weft_fetch *f)
{
    const char *name, *value;
    for (size_t i = 0; weft_fetch_header_at(f, i, &name, &value) == 0; i++)
        if (weft__hop_is_passed(&f->answer, f->head, name))
            weft__words_print(w, "%s: %s\r\n", name, value);
}

int weft__reverse_fields(const weft__pass *p)
{
    const weft_fetch *f = p->f;
    const char *name, *value;
    char via[128];
    for (size_t i = 0; weft_fetch_header_at(f, i, &name, &value) == 0; i++)
        if (weft__hop_is_passed(&f->answer, f->head, name) &&
            weft__reply_relay_field(p->r, name, value) < 0)
            return -ENOMEM;
    snprintf(via, sizeof via, "%s %s", f->answer.version == 10 ? "1.0" : "1.1", p->proxy->via);
    return weft__reply_relay_field(p->r, "Via", via);
}

int weft__reverse_reply_trailers(const weft__pass *p)
{
    const weft__message *m = &p->f->answer;
    const char *name = NULL, *value;
    while ((name = weft__message_next_trailer(m, name, &value)) != NULL)
        if (weft__hop_is_passed_trailer(m, p->f->head, name) &&
            weft__reply_relay_trailer(p->r, name, value) < 0)
            return -ENOMEM;
    return 0;
}

/*
 * Where a request stops.
 */

/* Is the second word of an element, "1.1 name (comment)", this? */
static bool is_by(weft__piece element, const char *name)
{
    size_t at = 0, end;
    while (at < element.bytes && !strchr(" \t", element.at[at]))
        at++;
    while (at < element.bytes && strchr(" \t", element.at[at]))
        at++;
    for (end = at; end < element.bytes && !strchr(" \t", element.at[end]); end++)
        continue;
    return weft__field_is_word(element.at + at, end - at, name);
}

bool weft__reverse_is_loop(const weft__pass *p)
{
    const weft__field *f;
    const char *head = p->r->head;
    uint32_t index = 0;
    while ((f = weft__message_field(message_of(p->r), head, "Via", &index)) != NULL) {
        weft__piece list = {head + f->value.at, f->value.bytes}, element;
        while (weft__field_element(&list, &element))
            if (is_by(element, p->proxy->via))
                return true;
    }
    return false;
}

long weft__reverse_hops(const weft_http_request *r)
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
