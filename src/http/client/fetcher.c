/* Clients: how one is made, and the one that each thread has of its own. */
#include "http/fetch.h"

#include <weft/error.h>
#include <weft/fiber.h>
#include <weft/version.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECTIONS_DEFAULT 8
#define IDLE_MAX_DEFAULT 64
#define IDLE_S_DEFAULT 60.0
#define REDIRECTS_DEFAULT 10
#define HEAD_BYTES_DEFAULT ((size_t)64 << 10)
#define BODY_BYTES_DEFAULT ((size_t)64 << 20)
/* More would be a mistake; offsets in a head are of 32 bits. */
#define HEAD_BYTES_MAX ((size_t)1 << 30)

static size_t or_default(size_t value, size_t standard)
{
    return value != 0 ? value : standard;
}

static void fill_in(weft_fetcher_options *o)
{
    o->connections_per_origin_max = or_default(o->connections_per_origin_max, CONNECTIONS_DEFAULT);
    o->idle_max = or_default(o->idle_max, IDLE_MAX_DEFAULT);
    o->idle_s = o->idle_s != 0 ? o->idle_s : IDLE_S_DEFAULT;
    o->redirects_max = o->redirects_max != 0 ? o->redirects_max : REDIRECTS_DEFAULT;
    o->head_bytes_max = or_default(o->head_bytes_max, HEAD_BYTES_DEFAULT);
    o->body_bytes_max = or_default(o->body_bytes_max, BODY_BYTES_DEFAULT);
    if (o->head_bytes_max > HEAD_BYTES_MAX)
        o->head_bytes_max = HEAD_BYTES_MAX;
}

static int check(const weft_fetcher_options *o)
{
    if (o->user_agent != NULL && !weft__is_value(o->user_agent))
        return weft_fail(-EINVAL, "a user agent that cannot be said");
    if (!(o->idle_s >= 0))
        return weft_fail(-EINVAL, "connections kept for %g s", o->idle_s);
    return 0;
}

static char *make_user_agent(const char *given)
{
    weft__words w = {0};
    if (given != NULL)
        weft__words_print(&w, "%s", given);
    else
        weft__words_print(&w, "weft/%s", weft_version());
    return w.data;
}

weft_fetcher *weft_fetcher_new(const weft_fetcher_options *options)
{
    weft_fetcher_options o = options != NULL ? *options : (weft_fetcher_options){0};
    if (check(&o) < 0)
        return NULL;
    weft_fetcher *fetcher = calloc(1, sizeof *fetcher);
    char *user_agent = fetcher != NULL ? make_user_agent(o.user_agent) : NULL;
    if (user_agent == NULL) {
        free(fetcher);
        weft_fail(-ENOMEM, "no memory for a web client");
        return NULL;
    }
    fill_in(&o);
    o.user_agent = NULL;
    fetcher->options = o;
    fetcher->user_agent = user_agent;
    fetcher->pid = getpid();
    /* One more than is taken: see parse_head. The number of fields is limited by their bytes. */
    fetcher->limits = (weft__message_limits){.line_bytes_max = o.head_bytes_max + 1,
                                             .head_bytes_max = o.head_bytes_max + 1,
                                             .fields_max = o.head_bytes_max};
    weft__list_init(&fetcher->origins);
    weft__list_init(&fetcher->idle);
    return fetcher;
}

static void release(weft_fetcher *fetcher)
{
    weft_tls_free(fetcher->own_tls);
    free(fetcher->user_agent);
    free(fetcher);
}

int weft_fetcher_free(weft_fetcher *fetcher)
{
    if (fetcher == NULL)
        return 0;
    if (fetcher->open_count > 0)
        return weft_fail(-EBUSY, "a web client with %zu fetches open", fetcher->open_count);
    fetcher->is_closing = true;
    weft__pool_clear(fetcher);
    release(fetcher);
    return 0;
}

/*
 * The thread's own.
 */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;

/*
 * The thread ends, and its cord has ended before: so this is without weft where it can be. Under
 * TLS it cannot: the thread becomes a cord once more for the words of farewell.
 */
void weft__fetcher_end(weft_fetcher *fetcher)
{
    WEFT__LIST_FOR(node, &fetcher->idle) {
        weft__fetch_conn *c = CONTAINER_OF(node, weft__fetch_conn, recent);
        if (!c->is_tls && weft_stream_detach(&c->stream) >= 0)
            close(c->fd);
    }
    if (fetcher->open_count == 0)
        weft_fetcher_free(fetcher);
}

static void free_own(void *arg)
{
    weft__fetcher_end(arg);
}

static void make_key(void)
{
    key_error = pthread_key_create(&key, free_own);
}

weft_fetcher *weft__fetcher_own(void)
{
    weft_self(); /* the thread is a cord before the key is made, so that it ends in this order */
    pthread_once(&once, make_key);
    if (key_error != 0)
        return NULL;
    weft_fetcher *fetcher = pthread_getspecific(key);
    if (fetcher != NULL)
        return fetcher;
    fetcher = weft_fetcher_new(NULL);
    if (fetcher != NULL && pthread_setspecific(key, fetcher) != 0) {
        release(fetcher);
        return NULL;
    }
    return fetcher;
}
