/*
 * Origins. An origin is a scheme, host, port and proxy. Each origin has a limited number of slots
 * for fetches over HTTP/1. Fetches wait for a free slot in FIFO order.
 */
#include "http/client/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static char *origin_key_of(const weft_fetch *f)
{
    weft__strbuf w = {0};
    weft__strbuf_printf(&w, "%s %s %d", f->url.scheme, f->url.host, f->url.port);
    if (f->proxy.is_used)
        weft__strbuf_printf(&w, " %s@%s %d", f->proxy.url.user, f->proxy.url.host,
                            f->proxy.url.port);
    return weft__strbuf_take(&w);
}

static weft__origin *find_origin(weft_fetcher *fetcher, const char *key)
{
    WEFT__LIST_FOR(node, &fetcher->origins) {
        weft__origin *origin = CONTAINER_OF(node, weft__origin, node);
        if (strcmp(origin->key, key) == 0)
            return origin;
    }
    weft__origin *origin = malloc(sizeof *origin + strlen(key) + 1);
    if (origin == NULL)
        return NULL;
    *origin = (weft__origin){0};
    strcpy(origin->key, key);
    weft__list_init(&origin->idle);
    weft_sem_open(&origin->slots, fetcher->options.connections_per_origin_max);
    weft__list_insert(&fetcher->origins, &origin->node);
    return origin;
}

void weft__origin_free_if_unused(weft__origin *origin)
{
    if (origin->users > 0 || !weft__list_is_empty(&origin->idle) || origin->shared != NULL)
        return;
    weft__list_remove(&origin->node);
    free(origin);
}

int weft__origin_enter(weft_fetch *f)
{
    char *key = origin_key_of(f);
    weft__origin *origin = key != NULL ? find_origin(f->fetcher, key) : NULL;
    free(key);
    if (origin == NULL)
        return -ENOMEM;
    origin->users++;
    f->origin = origin;
    return 0;
}

void weft__origin_release_slot(weft_fetch *f)
{
    if (f->has_slot)
        weft_sem_post(&f->origin->slots);
    f->has_slot = false;
}

void weft__origin_leave(weft_fetch *f)
{
    weft__origin *origin = f->origin;
    weft__origin_release_slot(f);
    f->origin = NULL;
    origin->users--;
    weft__origin_free_if_unused(origin);
}

bool weft__origin_may_share(const weft_fetch *f)
{
    const weft_fetcher_options *o = &f->fetcher->options;
#ifdef WEFT_HAS_HTTP2
    bool is_tls = strcmp(f->url.scheme, "https") == 0;
    return !o->has_no_http2 && !f->needs_http1 && f->upgrade == NULL && !f->origin->is_http1 &&
           (is_tls || (o->has_prior_knowledge && !f->proxy.is_used));
#else
    (void)o;
    return false;
#endif
}

void weft__origin_unshare(weft__fetch_conn *conn)
{
    weft__origin *origin = conn->origin;
    conn->origin = NULL;
    if (origin == NULL)
        return;
    origin->shared = NULL;
    weft_cond_broadcast(&origin->changed);
    weft__origin_free_if_unused(origin);
}
