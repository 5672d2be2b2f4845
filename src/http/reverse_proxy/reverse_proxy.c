/* Create reverse proxies, create the connections of each thread, and handle requests. */
#include "http/reverse_proxy/reverse_proxy.h"
#include "http/message/ws_key.h"
#include "http/reply/reply.h"
#include "http/text/ctype.h"
#include "http/text/field.h"
#include "http/url/path.h"

#include <weft/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#define CONNECTIONS_DEFAULT 256
#define KEEP_ALIVE_S_DEFAULT 15.0
#define CONNECT_S_DEFAULT 10.0
#define FIRST_BYTE_S_DEFAULT 60.0
#define IDLE_S_DEFAULT 60.0
#define UPGRADED_IDLE_S_DEFAULT 300.0

/* The connections of one thread. */
typedef struct weft__thread_fetcher {
    weft__list node; /* in the proxy's thread_fetchers */
    weft_http_proxy *proxy;
    weft_fetcher *fetcher;
} weft__thread_fetcher;

/*
 * Options.
 */

static double seconds_or_default(double value, double standard)
{
    return value != 0 ? value : standard;
}

static void options_fill_in(weft_http_proxy_options *o)
{
    if (o->connections_max == 0)
        o->connections_max = CONNECTIONS_DEFAULT;
    o->keep_alive_s = seconds_or_default(o->keep_alive_s, KEEP_ALIVE_S_DEFAULT);
    o->connect_s = seconds_or_default(o->connect_s, CONNECT_S_DEFAULT);
    o->first_byte_s = seconds_or_default(o->first_byte_s, FIRST_BYTE_S_DEFAULT);
    o->idle_s = seconds_or_default(o->idle_s, IDLE_S_DEFAULT);
    o->upgraded_idle_s = seconds_or_default(o->upgraded_idle_s, UPGRADED_IDLE_S_DEFAULT);
}

static int check_time(const char *option, double seconds)
{
    if (seconds >= 0)
        return 0;
    return weft_fail(-EINVAL, "weft_http_proxy_new: %s is %g", option, seconds);
}

/* Return whether a prefix has the form of weft_http_path. */
static bool prefix_is_valid(const char *prefix)
{
    char *copy = strdup(prefix);
    bool is_valid = copy != NULL && strchr(prefix, '%') == NULL && weft__path_clean(copy) > 0 &&
                    strcmp(copy, prefix) == 0;
    free(copy);
    return is_valid;
}

static int options_check(const weft_http_proxy_options *o)
{
    if (check_time("keep_alive_s", o->keep_alive_s) < 0 ||
        check_time("connect_s", o->connect_s) < 0 ||
        check_time("first_byte_s", o->first_byte_s) < 0 || check_time("idle_s", o->idle_s) < 0 ||
        check_time("upgraded_idle_s", o->upgraded_idle_s) < 0)
        return -EINVAL;
    if (o->via != NULL && (!weft__field_is_token(o->via, strlen(o->via)) || strlen(o->via) > 100))
        return weft_fail(
            -EINVAL, "weft_http_proxy_new: via is not a token of at most 100 bytes: %s", o->via);
    if (o->prefix != NULL && !prefix_is_valid(o->prefix))
        return weft_fail(-EINVAL, "weft_http_proxy_new: prefix is not a normalised path: %s",
                         o->prefix);
    if (o->upgrades != NULL && !weft__field_is_value(o->upgrades, strlen(o->upgrades)))
        return weft_fail(-EINVAL, "weft_http_proxy_new: upgrades has a control character: %s",
                         o->upgrades);
    return 0;
}

static int check_upstream(const char *upstream, bool has_prefix)
{
    weft_url url;
    int rc = upstream != NULL ? weft_url_open(&url, upstream) : -EINVAL;
    if (rc == -EINVAL)
        return weft_fail(rc, "weft_http_proxy_new: upstream is not a URL: %s",
                         upstream != NULL ? upstream : "NULL");
    if (rc < 0)
        return rc;
    bool is_web = strcmp(url.scheme, "http") == 0 || strcmp(url.scheme, "https") == 0;
    bool has_path = url.path[0] != '\0' && strcmp(url.path, "/") != 0;
    bool is_origin_only = (has_prefix || !has_path) && !url.has_query &&
                          strpbrk(upstream, "@#") == NULL; /* even an empty user or fragment */
    if (!is_web || !is_origin_only || url.host[0] == '\0' || url.port <= 0)
        rc = weft_fail(-EINVAL, "weft_http_proxy_new: upstream is not http://host:port: %s",
                       upstream);
    weft_url_close(&url);
    return rc;
}

/*
 * Creating and freeing.
 */

/*
 * Return a copy of the given name, or a random name. The name must be unique in a chain of proxies,
 * because the name identifies loops. Return NULL if memory is exhausted.
 */
static char *via_new(const char *given)
{
    uint64_t random = 0;
    weft__strbuf w = {0};
    if (given == NULL && getrandom(&random, sizeof random, 0) < 0)
        random = (uint64_t)(uintptr_t)&w;
    if (given != NULL)
        weft__strbuf_printf(&w, "%s", given);
    else
        weft__strbuf_printf(&w, "weft-%llx", (unsigned long long)random);
    return weft__strbuf_take(&w);
}

static void proxy_release(weft_http_proxy *p)
{
    free(p->origin);
    free(p->prefix);
    free(p->base);
    free(p->unix_socket);
    free(p->via);
    free(p->upgrades);
    free(p);
}

/* Copy a path without the slashes at its end. Return NULL if memory is exhausted. */
static char *copy_path(const char *path)
{
    size_t bytes = strlen(path);
    while (bytes > 0 && path[bytes - 1] == '/')
        bytes--;
    return strndup(path, bytes);
}

/* Copy a string of the options. Set *is_failed if memory is exhausted. */
static char *copy_option(const char *text, bool *is_failed)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    *is_failed |= text != NULL && copy == NULL;
    return copy;
}

/* Copy the strings of the options and of upstream. Return 0 or -ENOMEM. */
static int proxy_set_strings(weft_http_proxy *p, const char *upstream)
{
    weft_http_proxy_options *o = &p->options;
    const char *path = strchr(strstr(upstream, "://") + 3, '/');
    bool is_failed = false;
    p->origin = copy_option(upstream, &is_failed);
    p->via = via_new(o->via);
    p->upgrades = copy_option(o->upgrades, &is_failed);
    p->unix_socket = copy_option(o->unix_socket, &is_failed);
    if (o->prefix != NULL && path != NULL) {
        p->prefix = copy_path(o->prefix);
        p->base = copy_path(path);
        is_failed |= p->prefix == NULL || p->base == NULL;
    }
    if (is_failed || p->via == NULL)
        return weft_fail(-ENOMEM, "weft_http_proxy_new: memory is exhausted");
    char *authority = strstr(p->origin, "://") + 3;
    authority[strcspn(authority, "/")] = '\0';
    p->authority = authority;
    o->via = p->via;
    o->upgrades = p->upgrades;
    o->unix_socket = p->unix_socket;
    o->prefix = p->prefix;
    return 0;
}

/* Free the connections of an exiting thread. The cord of the thread has already ended. */
static void thread_fetcher_exit(void *arg)
{
    weft__thread_fetcher *thread_fetcher = arg;
    pthread_mutex_lock(&thread_fetcher->proxy->lock);
    weft__list_remove(&thread_fetcher->node);
    pthread_mutex_unlock(&thread_fetcher->proxy->lock);
    weft__fetcher_on_thread_exit(thread_fetcher->fetcher);
    free(thread_fetcher);
}

weft_http_proxy *weft_http_proxy_new(const char *upstream, const weft_http_proxy_options *options)
{
    weft_http_proxy_options o = options != NULL ? *options : (weft_http_proxy_options){0};
    if (options_check(&o) < 0 || check_upstream(upstream, o.prefix != NULL) < 0)
        return NULL;
    weft_http_proxy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        weft_fail(-ENOMEM, "weft_http_proxy_new: memory is exhausted");
        return NULL;
    }
    options_fill_in(&o);
    p->options = o;
    weft__list_init(&p->thread_fetchers);
    pthread_mutex_init(&p->lock, NULL);
    /*
     * The thread must become a cord before the thread sets the key. The cord then ends before the
     * destructor of the key runs.
     */
    weft_self();
    int error = proxy_set_strings(p, upstream) < 0
                    ? 0
                    : pthread_key_create(&p->thread_fetcher, thread_fetcher_exit);
    if (error == 0 && p->authority != NULL)
        return p;
    if (error != 0)
        weft_fail(-error, "weft_http_proxy_new: too many proxies");
    proxy_release(p);
    return NULL;
}

int weft_http_proxy_free(weft_http_proxy *p)
{
    if (p == NULL)
        return 0;
    WEFT__LIST_FOR(node, &p->thread_fetchers) {
        if (CONTAINER_OF(node, weft__thread_fetcher, node)->fetcher->open_count > 0)
            return weft_fail(-EBUSY, "weft_http_proxy_free: requests are in progress");
    }
    pthread_key_delete(p->thread_fetcher);
    while (!weft__list_is_empty(&p->thread_fetchers)) {
        weft__thread_fetcher *thread_fetcher =
            CONTAINER_OF(p->thread_fetchers.next, weft__thread_fetcher, node);
        weft__list_remove(&thread_fetcher->node);
        (void)weft_fetcher_free(thread_fetcher->fetcher);
        free(thread_fetcher);
    }
    pthread_mutex_destroy(&p->lock);
    proxy_release(p);
    return 0;
}

/*
 * The connections of a thread.
 */

static weft_fetcher *proxy_make_fetcher(const weft_http_proxy *p)
{
    const weft_http_proxy_options *o = &p->options;
    return weft_fetcher_new(
        &(weft_fetcher_options){.tls = o->tls,
                                .connections_per_origin_max = o->connections_max,
                                .idle_max = o->idle_max,
                                .idle_s = o->keep_alive_s,
                                .redirects_max = -1,
                                .has_no_proxy = true,
                                .has_no_gzip = true,
                                .unix_socket = o->unix_socket,
                                .has_no_http2 = true,
                                .head_bytes_max = o->head_bytes_max});
}

weft_fetcher *weft__reverse_proxy_fetcher(weft_http_proxy *p)
{
    weft__thread_fetcher *thread_fetcher = pthread_getspecific(p->thread_fetcher);
    if (thread_fetcher != NULL)
        return thread_fetcher->fetcher;
    thread_fetcher = calloc(1, sizeof *thread_fetcher);
    if (thread_fetcher == NULL)
        return NULL;
    thread_fetcher->proxy = p;
    thread_fetcher->fetcher = proxy_make_fetcher(p);
    if (thread_fetcher->fetcher == NULL ||
        pthread_setspecific(p->thread_fetcher, thread_fetcher) != 0) {
        (void)weft_fetcher_free(thread_fetcher->fetcher);
        free(thread_fetcher);
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    weft__list_insert(&p->thread_fetchers, &thread_fetcher->node);
    pthread_mutex_unlock(&p->lock);
    return thread_fetcher->fetcher;
}

/*
 * The handler.
 */

/*
 * Return whether the client may upgrade to a protocol, "name" or "name/version". Return false for
 * malformed text.
 */
static bool upgrade_is_allowed(const weft_http_proxy *proxy, weft__span protocol)
{
    const char *slash = memchr(protocol.at, '/', protocol.bytes);
    size_t bytes = slash != NULL ? (size_t)(slash - protocol.at) : protocol.bytes;
    if (!weft__field_is_token(protocol.at, bytes))
        return false;
    if (proxy->upgrades == NULL)
        return !weft__field_is_word(protocol.at, bytes, "h2c");
    weft__span list = {proxy->upgrades, strlen(proxy->upgrades)}, allowed;
    while (weft__field_element(&list, &allowed))
        if ((allowed.bytes == bytes || allowed.bytes == protocol.bytes) &&
            weft__ctype_match(allowed.at, protocol.at, allowed.bytes))
            return true;
    return false;
}

/* Return whether the client requests an upgrade, and may upgrade to all requested protocols. */
static bool is_upgrade(weft_http_request *r, const weft_http_proxy *proxy)
{
    const char *requested = r->is_upgrade ? weft__request_join(r, "Upgrade") : NULL;
    weft__span item;
    if (requested == NULL)
        return false;
    while (weft__field_next(&requested, &item))
        if (!upgrade_is_allowed(proxy, item))
            return false;
    return true;
}

/*
 * Create the key of a WebSocket. A client of HTTP/2 sends none (RFC 8441, 5), but the upstream
 * server needs one. Return 0 or an error.
 */
static int set_ws_key(weft__exchange *p)
{
    weft__strbuf key = {0};
    if (!p->is_upgrade || weft_http_version(p->r) < 20 ||
        weft__upgrade_is_requested(p->r, "websocket") <= 0)
        return 0;
    int rc = weft__ws_add_key(&key);
    if (rc == 0 && !key.has_failed)
        p->ws_key = weft__arena_copy(p->r->arena, key.data, key.bytes);
    free(key.data);
    return rc < 0 ? rc : p->ws_key != NULL ? 0 : -ENOMEM;
}

/*
 * Return the status with which the proxy itself replies. Return 0 if the proxy forwards the
 * request.
 */
static int status_without_forwarding(const weft__exchange *p)
{
    long hops = weft__reverse_proxy_hops(p->r);
    if (weft__reverse_proxy_is_loop(p))
        return 508;
    if (hops == -EINVAL)
        return 400;
    if (hops == 0)
        return strcmp(weft_http_method(p->r), "OPTIONS") == 0 ? 204 : 405;
    return 0;
}

/*
 * Apply the limit of the proxy, if any. Otherwise, the limit of the server applies. Return
 * -EMSGSIZE if Content-Length exceeds the limit, before the proxy connects.
 */
static int limit_body(weft_http_request *r, uint64_t bytes_max)
{
    int64_t length = weft_http_length(r);
    if (bytes_max != 0)
        (void)weft_http_limit_body(r, bytes_max);
    if (length > 0 && (uint64_t)length > r->body_bytes_max)
        return weft_fail(-EMSGSIZE, "weft_http_serve_proxy: the body of %lld bytes is too long",
                         (long long)length);
    return 0;
}

/* Create the fetch for the connection and the response. */
static int open_fetch(weft__exchange *p, weft_http_proxy *proxy)
{
    weft_fetcher *fetcher = weft__reverse_proxy_fetcher(proxy);
    if (fetcher == NULL)
        return weft__exchange_fail(p, -ENOMEM, "memory is exhausted");
    int rc = weft__fetch_make(fetcher, &(weft_fetch_request){.url = proxy->origin}, &p->f);
    if (rc < 0)
        return weft__exchange_fail(p, rc, "memory is exhausted");
    p->f->response.is_to_head = strcmp(weft_http_method(p->r), "HEAD") == 0;
    return 0;
}

/* Forward the request in a scope that the upload fiber can cancel. */
static int run_exchange(weft__exchange *p, weft_http_proxy *proxy)
{
    int rc = weft_scope_open(&p->scope, INFINITY);
    if (rc < 0)
        return rc;
    rc = open_fetch(p, proxy);
    if (rc == 0)
        rc = weft__exchange_run(p);
    weft__upload_stop(p);
    (void)weft_scope_close(&p->scope);
    weft_fetch_close(p->f);
    /*
     * The exchange succeeds even if the client closes the connection after the complete response.
     */
    return rc < 0 && p->failure < 0 ? p->failure : rc;
}

static int status_of_failure(int error)
{
    switch (error) {
    case -ETIMEDOUT:
        return 504;
    case -ENOMEM:
    case -EMFILE:
    case -ENFILE:
        return 503;
    default:
        return 502;
    }
}

/* Record the failure for weft_error(), and call on_failure. */
static void report_failure(const weft__exchange *p, int error)
{
    const weft_http_proxy_options *o = &p->proxy->options;
    const char *reason = p->reason != NULL ? p->reason : "unknown failure";
    (void)weft_fail(error, "%s %s, forwarded to %s: %s", weft_http_method(p->r),
                    weft_http_target(p->r), p->proxy->origin, reason);
    if (o->on_failure != NULL)
        o->on_failure(p->r, error, reason, o->on_failure_ctx);
}

/*
 * Reply with a status, or abort the connection. Return the result of the handler. If the reply has
 * started, the server closes the connection for an error.
 */
static int reply_to_failure(weft__exchange *p, int error)
{
    weft_http_request *r = p->r;
    bool is_body_error = error == r->body_error; /* the server sends the status */
    if (error == -ECANCELED && p->failure == 0)
        return error;
    report_failure(p, error);
    if (p->has_client_closed || r->state == WEFT__REPLY_UPGRADED)
        return weft__reply_abort(r, error);
    if (is_body_error || r->state > WEFT__REPLY_BEGUN)
        return error;
    weft__reply_reset(r);
    r->has_continued = p->has_sent_continue || r->body_bytes > 0;
    return weft_http_reply_status(r, status_of_failure(error));
}

int weft_http_serve_proxy(weft_http_request *r, void *ctx)
{
    weft_http_proxy *proxy = ctx;
    weft__exchange p = {.r = r, .proxy = proxy};
    int status = status_without_forwarding(&p);
    if (status != 0)
        return weft_http_reply_status(r, status);
    int rc = limit_body(r, proxy->options.body_bytes_max);
    if (rc < 0)
        return rc;
    p.is_upgrade = is_upgrade(r, proxy);
    rc = set_ws_key(&p);
    if (rc < 0)
        return rc;
    r->has_continued = true; /* the proxy forwards 100 Continue of the upstream server */
    (void)weft_latch_add(&p.head_latch, 1);
    (void)weft_latch_add(&p.sent_latch, 1);
    rc = run_exchange(&p, proxy);
    return rc < 0 ? reply_to_failure(&p, rc) : 0;
}
