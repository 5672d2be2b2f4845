/*
 * Create and free fetchers. Each thread has a default fetcher. The exit of the thread frees the
 * default fetcher.
 */
#include "http/client/fetch.h"

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
/* The offsets in a head have 32 bits. weft_fetcher_new reduces larger limits to this limit. */
#define HEAD_BYTES_MAX ((size_t)1 << 30)

static size_t size_or_default(size_t value, size_t standard)
{
    return value != 0 ? value : standard;
}

static void options_fill_in(weft_fetcher_options *o)
{
    o->connections_per_origin_max =
        size_or_default(o->connections_per_origin_max, CONNECTIONS_DEFAULT);
    o->idle_max = size_or_default(o->idle_max, IDLE_MAX_DEFAULT);
    o->idle_s = o->idle_s != 0 ? o->idle_s : IDLE_S_DEFAULT;
    o->redirects_max = o->redirects_max != 0 ? o->redirects_max : REDIRECTS_DEFAULT;
    o->head_bytes_max = size_or_default(o->head_bytes_max, HEAD_BYTES_DEFAULT);
    o->body_bytes_max = size_or_default(o->body_bytes_max, BODY_BYTES_DEFAULT);
    if (o->head_bytes_max > HEAD_BYTES_MAX)
        o->head_bytes_max = HEAD_BYTES_MAX;
}

static int options_check(const weft_fetcher_options *o)
{
    if (o->user_agent != NULL && !weft__fetch_is_field_value(o->user_agent))
        return weft_fail(-EINVAL, "weft_fetcher_new: user_agent has a control character");
    if (!(o->idle_s >= 0))
        return weft_fail(-EINVAL, "weft_fetcher_new: idle_s is %g", o->idle_s);
    return 0;
}

static char *make_user_agent(const char *given)
{
    weft__strbuf w = {0};
    if (given != NULL)
        weft__strbuf_printf(&w, "%s", given);
    else
        weft__strbuf_printf(&w, "weft/%s", weft_version());
    return w.data;
}

weft_fetcher *weft_fetcher_new(const weft_fetcher_options *options)
{
    weft_fetcher_options o = options != NULL ? *options : (weft_fetcher_options){0};
    if (options_check(&o) < 0)
        return NULL;
    weft_fetcher *fetcher = calloc(1, sizeof *fetcher);
    char *user_agent = fetcher != NULL ? make_user_agent(o.user_agent) : NULL;
    char *unix_socket = user_agent != NULL && o.unix_socket != NULL ? strdup(o.unix_socket) : NULL;
    if (user_agent == NULL || (o.unix_socket != NULL && unix_socket == NULL)) {
        free(user_agent);
        free(fetcher);
        weft_fail(-ENOMEM, "weft_fetcher_new: memory is exhausted");
        return NULL;
    }
    options_fill_in(&o);
    o.user_agent = NULL;
    o.unix_socket = unix_socket;
    o.has_no_proxy |= unix_socket != NULL;
    fetcher->options = o;
    fetcher->user_agent = user_agent;
    fetcher->unix_socket = unix_socket;
    fetcher->pid = getpid();
    /*
     * The limits of the parser are 1 byte higher (see head_bytes_max in response.c). The length of
     * the head also limits the number of fields.
     */
    fetcher->limits = (weft__message_limits){.line_bytes_max = o.head_bytes_max + 1,
                                             .head_bytes_max = o.head_bytes_max + 1,
                                             .fields_max = o.head_bytes_max};
    weft__list_init(&fetcher->origins);
    weft__list_init(&fetcher->idle);
    weft__list_init(&fetcher->h2_conns);
    return fetcher;
}

static void fetcher_release(weft_fetcher *fetcher)
{
    weft_tls_free(fetcher->own_tls);
    free(fetcher->user_agent);
    free(fetcher->unix_socket);
    free(fetcher);
}

int weft_fetcher_free(weft_fetcher *fetcher)
{
    if (fetcher == NULL)
        return 0;
    if (fetcher->open_count > 0)
        return weft_fail(-EBUSY, "weft_fetcher_free: %zu fetches are open", fetcher->open_count);
    fetcher->is_closing = true;
    weft__conn_pool_close(fetcher);
    fetcher_release(fetcher);
    return 0;
}

/* The default fetcher of a thread. */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;

/*
 * The cord of the thread has already ended. The function therefore closes plain connections without
 * weft. A TLS connection must send close_notify. For TLS, the thread becomes a cord again.
 */
void weft__fetcher_on_thread_exit(weft_fetcher *fetcher)
{
    WEFT__LIST_FOR(node, &fetcher->idle) {
        weft__fetch_conn *c = CONTAINER_OF(node, weft__fetch_conn, recent);
        if (c->h2 != NULL)
            weft__h2_conn_forget(c);
        if (!c->is_tls && weft_stream_detach(&c->stream) >= 0)
            close(c->fd);
    }
    if (fetcher->open_count == 0)
        weft_fetcher_free(fetcher);
}

static void fetcher_key_destroy(void *arg)
{
    weft__fetcher_on_thread_exit(arg);
}

static void fetcher_key_create(void)
{
    key_error = pthread_key_create(&key, fetcher_key_destroy);
}

weft_fetcher *weft__fetcher_of_thread(void)
{
    /*
     * The thread must become a cord before the thread sets the key. The cord then ends before the
     * destructor of the key runs.
     */
    weft_self();
    pthread_once(&once, fetcher_key_create);
    if (key_error != 0)
        return NULL;
    weft_fetcher *fetcher = pthread_getspecific(key);
    if (fetcher != NULL)
        return fetcher;
    fetcher = weft_fetcher_new(NULL);
    if (fetcher != NULL && pthread_setspecific(key, fetcher) != 0) {
        fetcher_release(fetcher);
        return NULL;
    }
    return fetcher;
}
