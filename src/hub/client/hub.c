/* Open and close hubs. */
#include "hub/client/hub.h"

#include "base/result.h"
#include "hub/text/random.h"

#include <weft/io.h>
#include <weft/log.h>
#include <weft/scope.h>
#include <weft/time.h>
#include <weft/tls.h>

#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define OUT_BYTES_DEFAULT (1024 * 1024)
#define MESSAGE_BYTES_DEFAULT (8 * 1024 * 1024)
#define MESSAGE_BYTES_MAX (512 * 1024 * 1024)
#define LEASE_DEFAULT_S 15.0
#define LEASE_MIN_S 10.0
#define LEASE_MAX_S 3.2e9 /* 100 years: in nanoseconds, 63 bits are enough */
#define CONNECT_DEFAULT_S 5.0
#define REPLICAS_MAX 5 /* of NATS */
#define REPLICAS_OF_CLUSTER 3
#define CLOSE_S 2.0 /* for the last output */
#define NAME_BYTES_MAX 128

static weft_hub_options options_with_defaults(const weft_hub_options *given)
{
    weft_hub_options o = given != NULL ? *given : (weft_hub_options){0};
    o.out_bytes = o.out_bytes > 0 ? o.out_bytes : OUT_BYTES_DEFAULT;
    o.message_bytes = o.message_bytes > 0 ? o.message_bytes : MESSAGE_BYTES_DEFAULT;
    o.lease_s = o.lease_s == 0 ? LEASE_DEFAULT_S : o.lease_s;
    o.connect_s = o.connect_s == 0 ? CONNECT_DEFAULT_S : o.connect_s;
    return o;
}

static int hub_options_check(const weft_hub_options *o)
{
    if (!(o->lease_s >= LEASE_MIN_S && o->lease_s <= LEASE_MAX_S))
        return weft_fail(-EINVAL, "weft_hub_open: lease_s is %g, not from %g to %g", o->lease_s,
                         LEASE_MIN_S, LEASE_MAX_S);
    if (!(o->connect_s > 0))
        return weft_fail(-EINVAL, "weft_hub_open: connect_s is %g", o->connect_s);
    if (o->message_bytes > MESSAGE_BYTES_MAX)
        return weft_fail(-EINVAL, "weft_hub_open: message_bytes is %zu, more than %d",
                         o->message_bytes, MESSAGE_BYTES_MAX);
    if (o->replicas > REPLICAS_MAX)
        return weft_fail(-EINVAL, "weft_hub_open: replicas is %u, more than %d", o->replicas,
                         REPLICAS_MAX);
    if (o->name != NULL && strlen(o->name) > NAME_BYTES_MAX)
        return weft_fail(-EINVAL, "weft_hub_open: name is longer than %d bytes", NAME_BYTES_MAX);
    return 0;
}

/*
 * Return the numbers that an id is made of. On sim they depend on the number of the hub only, so
 * that a test with the same seed has the same subjects.
 */
static uint64_t random_seed(void)
{
    static atomic_uint_fast64_t hubs;
    uint64_t seed = atomic_fetch_add(&hubs, 1) + 1;
    if (strcmp(weft_backend_name(), "sim") != 0 && getrandom(&seed, sizeof seed, 0) < 0)
        seed ^= (uint64_t)getpid() << 32;
    return seed;
}

static void id_make(weft_hub *hub, uint64_t *random)
{
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (int i = 0; i < WEFT__HUB_ID_BYTES; i++)
        hub->id[i] = digits[weft__random_next(random) % (sizeof digits - 1)];
    hub->inbox_bytes = (size_t)snprintf(hub->inbox, sizeof hub->inbox, "_INBOX.%s.", hub->id);
}

/* The default name: host and process. On sim neither may influence a run. */
static void name_make(char out[NAME_BYTES_MAX + 1])
{
    char host[NAME_BYTES_MAX - 16] = "";
    gethostname(host, sizeof host - 1);
    if (strcmp(weft_backend_name(), "sim") == 0)
        snprintf(out, NAME_BYTES_MAX + 1, "sim");
    else
        snprintf(out, NAME_BYTES_MAX + 1, "%s %d", host, (int)getpid());
}

static int copy_strings(weft_hub *hub)
{
    char name[NAME_BYTES_MAX + 1];
    name_make(name);
    const char *credentials = hub->options.credentials;
    hub->options.name = strdup(hub->options.name != NULL ? hub->options.name : name);
    hub->options.credentials = credentials != NULL ? strdup(credentials) : NULL;
    bool has_all =
        hub->options.name != NULL && (credentials == NULL || hub->options.credentials != NULL);
    return has_all ? 0 : -ENOMEM;
}

static void hub_init(weft_hub *hub, const weft_hub_options *options)
{
    uint64_t random = random_seed();
    hub->holds = 1;
    hub->options = options_with_defaults(options);
    hub->session.fd = -1;
    hub->out.is_writer_asleep = false;
    weft__list_init(&hub->node);
    weft__list_init(&hub->messages);
    weft__list_init(&hub->recipient_list);
    weft__list_init(&hub->watchers);
    weft__list_init(&hub->servers.list);
    hub->servers.random = random;
    id_make(hub, &random);
}

static weft_hub *hub_new(const char *where, const weft_hub_options *options)
{
    weft_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) {
        weft_fail(-ENOMEM, "weft_hub_open: no memory");
        return NULL;
    }
    hub_init(hub, options);
    int rc = copy_strings(hub);
    if (rc == 0 && (rc = hub_options_check(&hub->options)) == 0 &&
        (rc = weft__servers_init(&hub->servers, where)) == 0 &&
        (rc = weft__requests_init(hub)) == 0)
        rc = weft__thread_add_hub(hub);
    if (rc == 0)
        return hub;
    if (rc == -ENOMEM) /* other errors have words */
        weft_fail(rc, "weft_hub_open: no memory");
    weft__hub_free(hub);
    return NULL;
}

static void text_erase(const char *text)
{
    if (text != NULL)
        explicit_bzero((char *)text, strlen(text));
    free((char *)text);
}

/* Free the memory of a hub without fibers and connection. */
void weft__hub_free(weft_hub *hub)
{
    weft__list_remove(&hub->node);
    weft__exposures_end_all(hub);
    weft__messages_free(&hub->messages);
    weft__subscriptions_free(hub);
    weft__requests_free(hub);
    weft__hash_free(&hub->exposures);
    weft__hash_free(&hub->recipients);
    weft__buffer_free(&hub->out.next);
    weft__buffer_free(&hub->out.current);
    weft__servers_free(&hub->servers);
    weft_tls_free(hub->own_tls);
    free((char *)hub->options.name);
    text_erase(hub->options.credentials);
    free(hub);
}

void weft__hub_hold(weft_hub *hub)
{
    hub->holds++;
}

void weft__hub_release(weft_hub *hub)
{
    if (--hub->holds == 0)
        weft__hub_free(hub);
}

/* Return the error of weft_hub_open for the error of an attempt. */
static int open_error(int code)
{
    switch (code) {
    case -EACCES:
    case -ECANCELED:
    case -EINVAL: /* of the credentials */
    case -ENOMEM:
    case -ENOTSUP:
    case -EPROTO:
        return code;
    case -EMSGSIZE: /* of the parser */
        return -EPROTO;
    default:
        return -ENOTCONN;
    }
}

/* Connect to the first server that can be reached. Each server is tried once. */
static int open_connect(weft_hub *hub)
{
    int rc = -ENOTCONN;
    for (unsigned left = hub->servers.count; left > 0; left--) {
        char text[WEFT__SERVER_TEXT_BYTES];
        weft__server *server = weft__servers_first(&hub->servers);
        int error = weft__session_open(hub, server);
        if (error == 0)
            return 0;
        weft_fail(error, "weft_hub_open: cannot connect to %s", weft__server_text(server, text));
        weft__server_failed(&hub->servers, server, error, weft_now());
        if (open_error(error) != -ENOTCONN)
            rc = open_error(error);
        if (weft_is_cancelled())
            return -ECANCELED;
    }
    return rc == -ENOTCONN ? weft_fail(rc, "weft_hub_open: no server can be reached") : rc;
}

weft_hub *weft_hub_open(const char *where, const weft_hub_options *options)
{
    if (where == NULL) {
        weft_fail(-EINVAL, "weft_hub_open: where is NULL");
        return NULL;
    }
    weft_hub *hub = hub_new(where, options);
    if (hub == NULL)
        return NULL;
    int rc = open_connect(hub);
    if (rc == 0)
        rc = weft__root_start(hub);
    if (rc == 0)
        return hub;
    char text[WEFT__SERVER_TEXT_BYTES]; /* where may contain a password */
    weft__server_text(weft__servers_first(&hub->servers), text);
    weft__session_close(hub);
    weft__hub_release(hub);
    weft_fail(rc, "weft_hub_open: cannot connect to %s", text);
    return NULL;
}

int weft__hub_check(const weft_hub *hub)
{
    if (UNLIKELY(hub == NULL))
        return weft_fail(-EINVAL, "hub is NULL");
    if (UNLIKELY(!weft__thread_is_own(hub)))
        return weft_fail(-EXDEV, "the hub belongs to another thread");
    if (UNLIKELY(weft__thread_is_forked(hub)))
        return weft_fail(-EOWNERDEAD, "the hub belongs to the parent process");
    return UNLIKELY(hub->is_closed) ? -EBADF : 0;
}

int weft__hub_check_start(const weft_hub *hub)
{
    int rc = weft__hub_check(hub);
    return UNLIKELY(rc == 0 && hub->is_closing) ? -EBADF : rc;
}

void weft__hub_wake_all(weft_hub *hub)
{
    weft__requests_fail(hub, -EBADF);
    weft_cond_broadcast(&hub->out.has_room);
    weft_cond_broadcast(&hub->has_connected);
    weft_cond_broadcast(&hub->has_pong);
}

/* Send a PING and wait for its PONG. Returns 1 if the connection breaks first. */
static int flush_once(weft_hub *hub)
{
    uint64_t connection = hub->connections, ping = hub->pings + 1;
    int rc = weft__writer_append(hub, "PING\r\n");
    if (rc < 0)
        return rc;
    hub->pings = ping;
    while (rc == 0 && hub->pongs < ping) {
        rc = weft_cond_wait(&hub->has_pong, NULL);
        if (rc == 0 && hub->is_closed)
            return -EBADF;
        if (rc == 0 && (!hub->is_connected || hub->connections != connection))
            return 1;
    }
    return rc;
}

static void close_watchers(weft_hub *hub)
{
    weft__list *node;
    while ((node = weft__list_pop(&hub->watchers)) != NULL) {
        weft__hub_watcher *w = CONTAINER_OF(node, weft__hub_watcher, node);
        if (w->on_close != NULL)
            w->on_close(w);
    }
}

/* Refuse the unanswered calls, so that their callers do not wait for a fiber that cannot reply. */
static void close_messages(weft_hub *hub)
{
    WEFT__LIST_FOR(node, &hub->messages)
        weft__message_refuse(weft__message_of(node), -EOWNERDEAD, "the hub was closed");
}

/* Withdraw the names, and send the remaining output. Returns 0 or an error. */
static int close_gracefully(weft_hub *hub)
{
    int rc = 0;
    WEFT_MOVE_ON_AFTER(CLOSE_S) {
        close_watchers(hub);
        weft__exposures_end_all(hub);
        close_messages(hub);
        rc = hub->is_connected ? flush_once(hub) : -ENOTCONN;
    }
    return rc;
}

/*
 * In a child of weft_fork, the connection belongs to the parent. TLS must not send close_notify, so
 * that the stream is not closed. The memory remains.
 */
static int close_forked(weft_hub *hub)
{
    if (hub->session.fd >= 0)
        weft_close(hub->session.fd);
    hub->session.fd = -1;
    hub->is_closed = true;
    return 0;
}

int weft_hub_close(weft_hub *hub)
{
    if (hub == NULL)
        return 0;
    if (!weft__thread_is_own(hub))
        return weft_fail(-EXDEV, "weft_hub_close: the hub belongs to another thread");
    if (weft__thread_is_forked(hub))
        return close_forked(hub);
    if (hub->is_closing)
        return -EBADF;
    hub->is_closing = true;
    int rc = hub->is_closed ? -ENOTCONN : close_gracefully(hub);
    weft__root_end(hub, CLOSE_S);
    weft__list_remove(&hub->node);
    weft__hub_release(hub);
    return rc == 0 ? 0 : weft_fail(-ENOTCONN, "weft_hub_close: the output was not sent");
}

int weft__hub_wait_connected(weft_hub *hub)
{
    if (LIKELY(hub->is_connected))
        return 0;
    int rc = 0;
    weft__hub_hold(hub);
    while (rc == 0 && !hub->is_closed && !hub->is_connected)
        rc = weft_cond_wait(&hub->has_connected, NULL);
    if (rc == 0 && hub->is_closed)
        rc = -EBADF;
    weft__hub_release(hub);
    return rc;
}

int weft__hub_flush(weft_hub *hub)
{
    int rc = 1;
    weft__hub_hold(hub);
    while (rc == 1 && (rc = weft__hub_wait_connected(hub)) == 0)
        rc = flush_once(hub);
    weft__hub_release(hub);
    return rc;
}

uint64_t weft__hub_connection(const weft_hub *hub)
{
    return hub->connections;
}

bool weft__hub_is_connected(const weft_hub *hub)
{
    return hub->is_connected;
}

/*
 * Two more tokens than "_INBOX.ID.*", so that the inbox of requests does not get the messages too.
 */
void weft__hub_inbox(weft_hub *hub, char out[WEFT__INBOX_BYTES])
{
    snprintf(out, WEFT__INBOX_BYTES, "%ss.%llu", hub->inbox, (unsigned long long)++hub->inboxes);
}

const char *weft__hub_id(const weft_hub *hub)
{
    return hub->id;
}

void weft__hub_watch(weft_hub *hub, weft__hub_watcher *w)
{
    weft__list_insert(&hub->watchers, &w->node);
}

void weft__hub_unwatch(weft__hub_watcher *w)
{
    weft__list_remove(&w->node);
}

weft_hub_counters *weft__hub_counters(weft_hub *hub)
{
    return &hub->counters;
}

const weft_hub_options *weft__hub_options(const weft_hub *hub)
{
    return &hub->options;
}

unsigned weft__hub_replicas(const weft_hub *hub)
{
    if (hub->options.replicas > 0)
        return hub->options.replicas;
    return hub->info.server.cluster[0] != '\0' ? REPLICAS_OF_CLUSTER : 1;
}

void **weft__hub_part_at(weft_hub *hub, weft__hub_part part)
{
    return &hub->parts[part];
}

int weft__hub_stats(const weft_hub *hub, weft_hub_counters *out, size_t size)
{
    int rc = weft__hub_check(hub);
    if (rc < 0 && rc != -EBADF)
        return rc;
    if (out == NULL)
        return weft_fail(-EINVAL, "weft_hub_stats: out is NULL");
    weft_hub_counters counters = hub->counters;
    counters.in_flight = hub->requests.pending.count;
    weft__result_copy(out, size, &counters, sizeof counters);
    return 0;
}

void weft__hub_say(const weft_hub *hub, int level, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weft_log(level, "hub '%s': %s", hub->options.name, text);
}
