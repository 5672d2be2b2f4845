#include "hub/client/servers.h"

#include "core/sched/backoff.h"
#include "hub/text/random.h"

#include <weft/error.h>

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PORT_DEFAULT 4222
#define BROKER_NAME_BYTES_MAX 64

/* Delays between attempts to connect to one server, in seconds. Half of each delay is random. */
static const weft__backoff unreachable = {0.05, WEFT__BACKOFF_FACTOR, 4.0};
/* After the second rejection of the credentials in a row: a person must act first. */
static const weft__backoff rejected = {2.0, WEFT__BACKOFF_FACTOR, WEFT__BACKOFF_MAX_S};
#define REJECTIONS_MAX 2

/* A connection that was shorter counts as a failed attempt. */
#define CONNECTION_MIN_S 1.0

static weft__server *server_of(weft__list *node)
{
    return CONTAINER_OF(node, weft__server, node);
}

static void server_free(weft__server *server)
{
    if (server->password != NULL)
        explicit_bzero(server->password, strlen(server->password));
    weft_hub_broker_release(server->broker);
    free(server->host);
    free(server->user);
    free(server->password);
    free(server->tls_name);
    free(server);
}

static void servers_add(weft__servers *servers, weft__server *server)
{
    weft__list_insert(&servers->list, &server->node);
    servers->count++;
}

static void servers_remove(weft__servers *servers, weft__server *server)
{
    weft__list_unlink(&server->node);
    servers->count--;
    server_free(server);
}

const char *weft__server_text(const weft__server *server, char out[WEFT__SERVER_TEXT_BYTES])
{
    bool is_ipv6 = strchr(server->host, ':') != NULL;
    if (server->port == 0)
        snprintf(out, WEFT__SERVER_TEXT_BYTES, "mem:%s", server->host);
    else
        snprintf(out, WEFT__SERVER_TEXT_BYTES, is_ipv6 ? "[%s]:%u" : "%s:%u", server->host,
                 server->port);
    return out;
}

/* Parse a port up to the end of the text. Returns 0 if the text is not a port. */
static unsigned port_parse(weft__slice text)
{
    unsigned port = 0;
    if (text.bytes == 0 || text.bytes > 5)
        return 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (!isdigit((unsigned char)text.data[i]))
            return 0;
        port = 10 * port + (unsigned)(text.data[i] - '0');
    }
    return port <= 65535 ? port : 0;
}

static bool host_is_valid(weft__slice host, bool is_ipv6)
{
    const char *others = is_ipv6 ? ":.%" : "-._";
    if (host.bytes == 0 || host.bytes > WEFT__HOST_BYTES_MAX)
        return false;
    for (size_t i = 0; i < host.bytes; i++) {
        unsigned char c = (unsigned char)host.data[i];
        if (!isalnum(c) && (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return true;
}

/* Split "host", "host:port" or "[address]:port". Returns false if the text is not valid. */
static bool authority_split(weft__slice text, weft__slice *host, unsigned *port)
{
    bool is_ipv6 = text.bytes > 0 && text.data[0] == '[';
    const char *end = text.data + text.bytes;
    const char *host_end = memchr(text.data, is_ipv6 ? ']' : ':', text.bytes);
    if (is_ipv6 && host_end == NULL)
        return false;
    if (host_end == NULL)
        host_end = end;
    const char *begin = text.data + is_ipv6;
    const char *after = host_end + is_ipv6;
    *host = (weft__slice){begin, (size_t)(host_end - begin)};
    *port = PORT_DEFAULT;
    if (after < end)
        *port = *after == ':' ? port_parse((weft__slice){after + 1, (size_t)(end - after) - 1}) : 0;
    return *port != 0 && host_is_valid(*host, is_ipv6);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Copy a part of a URL and decode its percent-escapes. Returns NULL if they are not valid. */
static char *part_decode(weft__slice part)
{
    char *text = malloc(part.bytes + 1), *end = text;
    for (size_t i = 0; text != NULL && i < part.bytes; i++) {
        char c = part.data[i];
        if (c == '%') {
            int high = i + 2 < part.bytes ? hex_digit(part.data[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(part.data[i + 2]) : -1;
            if (low < 0 || (high | low) == 0) {
                free(text);
                return NULL;
            }
            c = (char)(high << 4 | low);
            i += 2;
        }
        *end++ = c;
    }
    if (text != NULL)
        *end = '\0';
    return text;
}

/* Take "USER:PASSWORD@" or "TOKEN@" off the front of a text. Returns false on failure. */
static bool user_take(weft__server *server, weft__slice *text)
{
    const char *at = memrchr(text->data, '@', text->bytes);
    if (at == NULL)
        return true;
    weft__slice user = {text->data, (size_t)(at - text->data)};
    const char *colon = memchr(user.data, ':', user.bytes);
    text->bytes -= user.bytes + 1;
    text->data = at + 1;
    if (colon != NULL) {
        server->password =
            part_decode((weft__slice){colon + 1, user.bytes - (size_t)(colon + 1 - user.data)});
        user.bytes = (size_t)(colon - user.data);
    }
    server->user = part_decode(user);
    return server->user != NULL && (colon == NULL || server->password != NULL);
}

static bool prefix_take(weft__slice *text, const char *prefix)
{
    size_t bytes = strlen(prefix);
    if (text->bytes < bytes || strncasecmp(text->data, prefix, bytes) != 0)
        return false;
    text->data += bytes;
    text->bytes -= bytes;
    return true;
}

static bool broker_parse(weft__server *server, weft__slice name)
{
    if (name.bytes > BROKER_NAME_BYTES_MAX)
        return false;
    server->host = strndup(name.data, name.bytes);
    return server->host != NULL;
}

/* Parse one URL. Returns false if the URL is not valid, or memory is exhausted. */
static bool server_parse(weft__server *server, weft__slice url)
{
    weft__slice host;
    if (prefix_take(&url, "mem:"))
        return broker_parse(server, url);
    server->has_tls = prefix_take(&url, "tls://");
    if (!server->has_tls && !prefix_take(&url, "nats://") && memmem(url.data, url.bytes, "://", 3))
        return false;
    if (url.bytes > 0 && url.data[url.bytes - 1] == '/')
        url.bytes--;
    if (!user_take(server, &url) || !authority_split(url, &host, &server->port))
        return false;
    server->host = strndup(host.data, host.bytes);
    server->tls_name = strndup(host.data, host.bytes);
    return server->host != NULL && server->tls_name != NULL;
}

static int servers_add_url(weft__servers *servers, weft__slice url)
{
    weft__server *server = calloc(1, sizeof *server);
    if (server == NULL)
        return weft_fail(-ENOMEM, "weft_hub_open: no memory");
    if (!server_parse(server, url)) {
        server_free(server);
        return weft_fail(-EINVAL, "weft_hub_open: the URL of server %u is not valid",
                         servers->count + 1);
    }
    servers_add(servers, server);
    return 0;
}

int weft__servers_init(weft__servers *servers, const char *where)
{
    for (int rc;;) {
        size_t bytes = strcspn(where, ",");
        if (servers->count == WEFT__SERVERS_MAX)
            return weft_fail(-EINVAL, "weft_hub_open: where has more than %d URLs",
                             WEFT__SERVERS_MAX);
        if ((rc = servers_add_url(servers, (weft__slice){where, bytes})) < 0)
            return rc;
        if (where[bytes] == '\0')
            return 0;
        where += bytes + 1;
    }
}

void weft__servers_free(weft__servers *servers)
{
    while (!weft__list_is_empty(&servers->list))
        servers_remove(servers, server_of(servers->list.next));
}

static weft__server *servers_find(weft__servers *servers, weft__slice host, unsigned port)
{
    WEFT__LIST_FOR(node, &servers->list) {
        weft__server *s = server_of(node);
        if (s->port == port && strlen(s->host) == host.bytes &&
            strncasecmp(s->host, host.data, host.bytes) == 0)
            return s;
    }
    return NULL;
}

static bool is_address(weft__slice host)
{
    for (size_t i = 0; i < host.bytes; i++)
        if (!isdigit((unsigned char)host.data[i]) && host.data[i] != '.')
            return memchr(host.data, ':', host.bytes) != NULL;
    return true;
}

static char *copy_or_null(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

/*
 * Create a server that another one announces. It gets the credentials of the announcing server. An
 * address is not in a certificate, so that the certificate must have the name of the announcing
 * one.
 */
static weft__server *server_announced(weft__slice host, unsigned port, const weft__server *from)
{
    weft__server *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    s->host = strndup(host.data, host.bytes);
    s->port = port;
    s->user = copy_or_null(from->user);
    s->password = copy_or_null(from->password);
    s->tls_name = is_address(host) ? copy_or_null(from->tls_name) : copy_or_null(s->host);
    s->has_tls = from->has_tls;
    s->is_announced = true;
    if (s->host != NULL && s->tls_name != NULL && (s->user != NULL) == (from->user != NULL) &&
        (s->password != NULL) == (from->password != NULL))
        return s;
    server_free(s);
    return NULL;
}

/* Clients of a server that ends must not all go to the same other one. */
static void servers_insert_random(weft__servers *servers, weft__server *server)
{
    unsigned skipped = (unsigned)(weft__random_next(&servers->random) % (servers->count + 1));
    weft__list *where = &servers->list;
    for (unsigned i = 0; i < skipped; i++)
        where = where->prev;
    weft__list_insert(where, &server->node);
    servers->count++;
}

static bool info_has_server(const weft__json_doc *info, const weft__json_node *urls,
                            const weft__server *server)
{
    for (const weft__json_node *n = weft__json_first(info, urls); n != NULL;
         n = weft__json_next(info, urls, n)) {
        weft__slice host;
        unsigned port;
        if (n->kind == WEFT__JSON_STRING && authority_split(n->text, &host, &port) &&
            port == server->port && strlen(server->host) == host.bytes &&
            strncasecmp(server->host, host.data, host.bytes) == 0)
            return true;
    }
    return false;
}

static void servers_drop_unannounced(weft__servers *servers, const weft__json_doc *info,
                                     const weft__json_node *urls, const weft__server *from)
{
    for (weft__list *node = servers->list.next, *next; node != &servers->list; node = next) {
        weft__server *s = server_of(node);
        next = node->next;
        if (s->is_announced && s != from && !info_has_server(info, urls, s))
            servers_remove(servers, s);
    }
}

void weft__servers_announce(weft__servers *servers, const weft__json_doc *info,
                            const weft__server *from)
{
    const weft__json_node *urls = weft__json_find(info, "connect_urls");
    if (urls == NULL || urls->kind != WEFT__JSON_ARRAY)
        return;
    servers_drop_unannounced(servers, info, urls, from);
    for (const weft__json_node *n = weft__json_first(info, urls); n != NULL;
         n = weft__json_next(info, urls, n)) {
        weft__slice host;
        unsigned port;
        if (n->kind != WEFT__JSON_STRING || servers->count == WEFT__SERVERS_MAX ||
            !authority_split(n->text, &host, &port) || servers_find(servers, host, port) != NULL)
            continue;
        weft__server *s = server_announced(host, port, from);
        if (s != NULL)
            servers_insert_random(servers, s);
    }
}

weft__server *weft__servers_next(weft__servers *servers, double now, double *wait_s)
{
    *wait_s = INFINITY;
    WEFT__LIST_FOR(node, &servers->list) {
        weft__server *s = server_of(node);
        if (s->retry_at <= now)
            return s;
        if (s->retry_at - now < *wait_s)
            *wait_s = s->retry_at - now;
    }
    return NULL;
}

weft__server *weft__servers_first(weft__servers *servers)
{
    return server_of(servers->list.next);
}

static void server_to_tail(weft__servers *servers, weft__server *server)
{
    weft__list_unlink(&server->node);
    weft__list_insert(&servers->list, &server->node);
}

void weft__server_failed(weft__servers *servers, weft__server *server, int code, double now)
{
    server->rejections = code == -EACCES ? server->rejections + 1 : 0;
    bool is_rejected = server->rejections >= REJECTIONS_MAX;
    server->delay_s =
        weft__backoff_next(is_rejected ? &rejected : &unreachable,
                           server->rejections == REJECTIONS_MAX ? 0 : server->delay_s);
    server->retry_at = now + server->delay_s * (0.5 + 0.5 * weft__random_share(&servers->random));
    server_to_tail(servers, server);
}

void weft__server_lost(weft__servers *servers, weft__server *server, double connected_s, double now)
{
    server->rejections = 0;
    if (connected_s < CONNECTION_MIN_S) {
        weft__server_failed(servers, server, -ECONNRESET, now);
        return;
    }
    server->delay_s = 0;
    server->retry_at = now;
    server_to_tail(servers, server);
}
