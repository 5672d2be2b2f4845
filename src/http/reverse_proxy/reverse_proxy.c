/*
 * Reverse proxies: how one is made, the connections that each thread has to its upstream server,
 * and the handler.
 */
#include "http/chars.h"
#include "http/field.h"
#include "http/reverse.h"

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
typedef struct weft__reverse_pool {
    weft__list node; /* in the proxy's pools */
    weft_http_proxy *proxy;
    weft_fetcher *fetcher;
} weft__reverse_pool;

/*
 * Options.
 */

static double or_default(double value, double standard)
{
    return value != 0 ? value : standard;
}

static void fill_in(weft_http_proxy_options *o)
{
    if (o->connections_max == 0)
        o->connections_max = CONNECTIONS_DEFAULT;
    o->keep_alive_s = or_default(o->keep_alive_s, KEEP_ALIVE_S_DEFAULT);
    o->connect_s = or_default(o->connect_s, CONNECT_S_DEFAULT);
    o->first_byte_s = or_default(o->first_byte_s, FIRST_BYTE_S_DEFAULT);
    o->idle_s = or_default(o->idle_s, IDLE_S_DEFAULT);
    o->upgraded_idle_s = or_default(o->upgraded_idle_s, UPGRADED_IDLE_S_DEFAULT);
}

static int check_time(const char *option, double seconds)
{
    if (seconds >= 0)
        return 0;
    return weft_fail(-EINVAL, "weft_http_proxy_new: %s is %g", option, seconds);
}

static int check_options(const weft_http_proxy_options *o)
{
    if (check_time("keep_alive_s", o->keep_alive_s) < 0 ||
        check_time("connect_s", o->connect_s) < 0 ||
        check_time("first_byte_s", o->first_byte_s) < 0 || check_time("idle_s", o->idle_s) < 0 ||
        check_time("upgraded_idle_s", o->upgraded_idle_s) < 0)
        return -EINVAL;
    if (o->via != NULL && (!weft__field_is_token(o->via, strlen(o->via)) || strlen(o->via) > 100))
        return weft_fail(-EINVAL, "weft_http_proxy_new: via is not a token: %s", o->via);
    if (o->upgrades != NULL && !weft__field_is_value(o->upgrades, strlen(o->upgrades)))
        return weft_fail(-EINVAL, "weft_http_proxy_new: upgrades is not a list: %s", o->upgrades);
    return 0;
}

static int check_upstream(const char *upstream)
{
    weft_url url;
    int rc = upstream != NULL ? weft_url_open(&url, upstream) : -EINVAL;
    if (rc == -EINVAL)
        return weft_fail(rc, "weft_http_proxy_new: upstream is not a URL: %s",
                         upstream != NULL ? upstream : "NULL");
    if (rc < 0)
        return rc;
    bool is_web = strcmp(url.scheme, "http") == 0 || strcmp(url.scheme, "https") == 0;
    bool is_bare = (url.path[0] == '\0' || strcmp(url.path, "/") == 0) && !url.has_query &&
                   strpbrk(upstream, "@#") == NULL; /* an empty user or fragment, too */
    if (!is_web || !is_bare || url.host[0] == '\0' || url.port <= 0)
        rc = weft_fail(-EINVAL, "weft_http_proxy_new: upstream is not http://host:port: %s",
                       upstream);
    weft_url_close(&url);
    return rc;
}

/*
 * Creating and freeing.
 */

/* The given name, or a random one: no other proxy in a chain has it, so it tells a loop. */
static char *make_via(const char *given)
{
    uint64_t chance = 0;
    weft__words w = {0};
    if (given == NULL && getrandom(&chance, sizeof chance, 0) < 0)
        chance = (uint64_t)(uintptr_t)&w;
    if (given != NULL)
        weft__words_print(&w, "%s", given);
    else
        weft__words_print(&w, "weft-%llx", (unsigned long long)chance);
    if (!w.has_failed)
        return w.data;
    free(w.data);
    return NULL;
}

static void release_proxy(weft_http_proxy *p)
{
    free(p->origin);
    free(p->via);
    free(p->upgrades);
    free(p);
}

/* The strings: 0 or -ENOMEM. */
static int set_strings(weft_http_proxy *p, const char *upstream)
{
    p->origin = strdup(upstream);
    p->via = make_via(p->options.via);
    p->upgrades = p->options.upgrades != NULL ? strdup(p->options.upgrades) : NULL;
    if (p->origin == NULL || p->via == NULL || (p->options.upgrades != NULL && p->upgrades == NULL))
        return weft_fail(-ENOMEM, "weft_http_proxy_new: no memory");
    char *authority = strstr(p->origin, "://") + 3;
    authority[strcspn(authority, "/")] = '\0';
    p->authority = authority;
    p->options.via = p->via;
    p->options.upgrades = p->upgrades;
    return 0;
}

/* The thread ends, and its cord has ended before. */
static void end_pool(void *arg)
{
    weft__reverse_pool *pool = arg;
    pthread_mutex_lock(&pool->proxy->lock);
    weft__list_remove(&pool->node);
    pthread_mutex_unlock(&pool->proxy->lock);
    weft__fetcher_end(pool->fetcher);
    free(pool);
}

weft_http_proxy *weft_http_proxy_new(const char *upstream, const weft_http_proxy_options *options)
{
    weft_http_proxy_options o = options != NULL ? *options : (weft_http_proxy_options){0};
    if (check_options(&o) < 0 || check_upstream(upstream) < 0)
        return NULL;
    weft_http_proxy *p = calloc(1, sizeof *p);
    if (p == NULL) {
        weft_fail(-ENOMEM, "weft_http_proxy_new: no memory");
        return NULL;
    }
    fill_in(&o);
    p->options = o;
    weft__list_init(&p->pools);
    pthread_mutex_init(&p->lock, NULL);
    weft_self(); /* the thread is a cord before the key is made, so that it ends in this order */
    int error = set_strings(p, upstream) < 0 ? 0 : pthread_key_create(&p->pool, end_pool);
    if (error == 0 && p->authority != NULL)
        return p;
    if (error != 0)
        weft_fail(-error, "weft_http_proxy_new: too many proxies");
    release_proxy(p);
    return NULL;
}

int weft_http_proxy_free(weft_http_proxy *p)
{
    if (p == NULL)
        return 0;
    WEFT__LIST_FOR(node, &p->pools) {
        if (CONTAINER_OF(node, weft__reverse_pool, node)->fetcher->open_count > 0)
            return weft_fail(-EBUSY, "weft_http_proxy_free: requests are being passed on");
    }
    pthread_key_delete(p->pool);
    while (!weft__list_is_empty(&p->pools)) {
        weft__reverse_pool *pool = CONTAINER_OF(p->pools.next, weft__reverse_pool, node);
        weft__list_remove(&pool->node);
        (void)weft_fetcher_free(pool->fetcher);
        free(pool);
    }
    pthread_mutex_destroy(&p->lock);
    release_proxy(p);
    return 0;
}

/*
 * The connections of a thread.
 */

static weft_fetcher *make_fetcher(const weft_http_proxy *p)
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
                                .head_bytes_max = o->head_bytes_max});
}

weft_fetcher *weft__reverse_fetcher(weft_http_proxy *p)
{
    weft__reverse_pool *pool = pthread_getspecific(p->pool);
    if (pool != NULL)
        return pool->fetcher;
    pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        return NULL;
    pool->proxy = p;
    pool->fetcher = make_fetcher(p);
    if (pool->fetcher == NULL || pthread_setspecific(p->pool, pool) != 0) {
        (void)weft_fetcher_free(pool->fetcher);
        free(pool);
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    weft__list_insert(&p->pools, &pool->node);
    pthread_mutex_unlock(&p->lock);
    return pool->fetcher;
}

/*
 * The handler.
 */

/* May the client have the protocol, a name or name/version? What is neither is not passed on. */
static bool is_allowed(const weft_http_proxy *proxy, weft__piece protocol)
{
    const char *slash = memchr(protocol.at, '/', protocol.bytes);
    size_t bytes = slash != NULL ? (size_t)(slash - protocol.at) : protocol.bytes;
    if (!weft__field_is_token(protocol.at, bytes))
        return false;
    if (proxy->upgrades == NULL)
        return !weft__field_is_word(protocol.at, bytes, "h2c");
    weft__piece list = {proxy->upgrades, strlen(proxy->upgrades)}, allowed;
    while (weft__field_element(&list, &allowed))
        if ((allowed.bytes == bytes || allowed.bytes == protocol.bytes) &&
            weft__chars_match(allowed.at, protocol.at, allowed.bytes))
            return true;
    return false;
}

/* May the client have each protocol that it asks for? */
static bool is_upgrade(weft_http_request *r, const weft_http_proxy *proxy)
{
    const char *asked = r->conn->message.is_upgrade ? weft__request_join(r, "Upgrade") : NULL;
    weft__piece item;
    if (asked == NULL)
        return false;
    while (weft__field_next(&asked, &item))
        if (!is_allowed(proxy, item))
            return false;
    return true;
}

/* A request that is not passed on: the status to answer it with. 0: it is passed on. */
static int refusal_of(const weft__pass *p)
{
    long hops = weft__reverse_hops(p->r);
    if (weft__reverse_is_loop(p))
        return 508;
    if (hops == -EINVAL)
        return 400;
    if (hops == 0)
        return strcmp(weft_http_method(p->r), "OPTIONS") == 0 ? 204 : 405;
    return 0;
}

/* The server's limit, or the proxy's. Nothing is asked for a body that is announced too long. */
static int limit_body(weft_http_request *r, uint64_t bytes_max)
{
    int64_t length = weft_http_length(r);
    if (bytes_max != 0)
        (void)weft_http_limit_body(r, bytes_max);
    if (length > 0 && (uint64_t)length > r->body_bytes_max)
        return weft_fail(-EMSGSIZE, "weft_http_serve_proxy: a body of %lld bytes is too long",
                         (long long)length);
    return 0;
}

/* Make the fetch that holds the connection and the answer. */
static int open_fetch(weft__pass *p, weft_http_proxy *proxy)
{
    weft_fetcher *fetcher = weft__reverse_fetcher(proxy);
    if (fetcher == NULL)
        return weft__pass_fail(p, -ENOMEM, "no memory");
    int rc = weft__fetch_make(fetcher, &(weft_fetch_request){.url = proxy->origin}, &p->f);
    if (rc < 0)
        return weft__pass_fail(p, rc, "no memory");
    p->f->answer.is_to_head = strcmp(weft_http_method(p->r), "HEAD") == 0;
    return 0;
}

/* Pass the request on in a scope that the upload fiber can cancel. */
static int run_pass(weft__pass *p, weft_http_proxy *proxy)
{
    int rc = weft_scope_open(&p->scope, INFINITY);
    if (rc < 0)
        return rc;
    rc = open_fetch(p, proxy);
    if (rc == 0)
        rc = weft__pass_run(p);
    weft__upload_stop(p);
    (void)weft_scope_close(&p->scope);
    weft_fetch_close(p->f);
    /* A client that hangs up once it has all of its answer is no failure. */
    return rc < 0 && p->failure < 0 ? p->failure : rc;
}

static int status_for(int error)
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

/* Say what failed, to the fiber's error and to the program. */
static void report_failure(const weft__pass *p, int error)
{
    const weft_http_proxy_options *o = &p->proxy->options;
    const char *words = p->words != NULL ? p->words : "no exchange";
    (void)weft_fail(error, "%s %s, passed on to %s: %s", weft_http_method(p->r),
                    weft_http_target(p->r), p->proxy->origin, words);
    if (o->on_failure != NULL)
        o->on_failure(p->r, error, words, o->on_failure_ctx);
}

/* What the handler returns. Once some of the reply has gone out, an error cuts the connection. */
static int answer_failure(weft__pass *p, int error)
{
    weft_http_request *r = p->r;
    bool is_clients = error == r->body_error; /* the server knows what to answer */
    if (error == -ECANCELED && p->failure == 0)
        return error;
    report_failure(p, error);
    if (p->is_gone || r->state == WEFT__REPLY_HANDED_OVER)
        return weft__reply_cut(r, error);
    if (is_clients || r->state > WEFT__REPLY_BEGUN)
        return error;
    weft__reply_take_back(r);
    r->has_continued = p->is_invited || r->body_bytes > 0;
    return weft_http_reply_status(r, status_for(error));
}

int weft_http_serve_proxy(weft_http_request *r, void *ctx)
{
    weft_http_proxy *proxy = ctx;
    weft__pass p = {.r = r, .proxy = proxy};
    int status = refusal_of(&p);
    if (status != 0)
        return weft_http_reply_status(r, status);
    int rc = limit_body(r, proxy->options.body_bytes_max);
    if (rc < 0)
        return rc;
    p.is_upgrade = is_upgrade(r, proxy);
    r->has_continued = true; /* the upstream server says when to go on, not the server */
    (void)weft_latch_add(&p.unopened, 1);
    (void)weft_latch_add(&p.unsent, 1);
    rc = run_pass(&p, proxy);
    return rc < 0 ? answer_failure(&p, rc) : 0;
}
