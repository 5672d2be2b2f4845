/* The thread of the server, and the two stacks between it and Ruby. */
#include "bridge.h"

#include <weft/error.h>
#include <weft/tls.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* The longest delay of a wake-up by bridge_cork, in nanoseconds, if further work follows. */
#define CORK_NS 200000

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* From the cord to Ruby */

static void wake_ruby(bridge *b)
{
    (void)!write(b->event_fd, &(uint64_t){1}, sizeof(uint64_t));
}

void bridge_announce(exchange *x, unsigned notice)
{
    bridge *b = x->bridge;
    if (atomic_fetch_or(&x->notices, notice) != 0)
        return; /* Ruby has not taken the earlier notice */
    exchange_hold(x);
    exchange *first = atomic_load(&b->for_ruby);
    do
        x->next_for_ruby = first;
    while (!atomic_compare_exchange_weak(&b->for_ruby, &first, x));
    if (first == NULL)
        wake_ruby(b);
}

/* Take a stack, and return its exchanges in the order of their arrival. */
static exchange *take_for_ruby(bridge *b)
{
    exchange *x = atomic_exchange(&b->for_ruby, NULL), *list = NULL;
    while (x != NULL) {
        exchange *next = x->next_for_ruby;
        x->next_for_ruby = list;
        list = x;
        x = next;
    }
    return list;
}

exchange *bridge_take(bridge *b, unsigned *notices)
{
    if (b->taken == NULL)
        b->taken = take_for_ruby(b);
    exchange *x = b->taken;
    if (x != NULL) {
        b->taken = x->next_for_ruby;
        *notices = atomic_exchange(&x->notices, 0);
    }
    return x;
}

/* From Ruby to the cord */

static void wake_cord(bridge *b)
{
    b->has_unsent = false;
    (void)weft_event_set(&b->for_cord_event);
}

void bridge_kick(exchange *x)
{
    bridge *b = x->bridge;
    if (b->is_joined || atomic_exchange(&x->is_kicked, true))
        return;
    exchange_hold(x);
    exchange *first = atomic_load(&b->for_cord);
    do
        x->next_for_cord = first;
    while (!atomic_compare_exchange_weak(&b->for_cord, &first, x));
    b->has_unsent = true;
    if (!b->is_corked || now_ns() - b->corked_at_ns > CORK_NS)
        wake_cord(b);
}

void bridge_cork(bridge *b)
{
    b->is_corked = true;
    b->corked_at_ns = now_ns();
}

void bridge_uncork(bridge *b)
{
    b->is_corked = false;
    if (b->has_unsent)
        wake_cord(b);
}

/* Wake the handler. A handler in a read leaves the read, because there is output. */
static void handler_wake(exchange *x)
{
    atomic_store(&x->is_kicked, false);
    if (x->read_scope != NULL)
        (void)weft_scope_cancel(x->read_scope);
    (void)weft_event_set(&x->kicked);
    (void)weft_event_set(&x->sender_kicked);
}

static exchange *take_for_cord(bridge *b)
{
    exchange *x = atomic_exchange(&b->for_cord, NULL), *list = NULL;
    while (x != NULL) {
        exchange *next = x->next_for_cord;
        x->next_for_cord = list;
        list = x;
        x = next;
    }
    return list;
}

static void inbox_deliver(bridge *b)
{
    for (exchange *x = take_for_cord(b); x != NULL;) {
        exchange *next = x->next_for_cord;
        handler_wake(x);
        exchange_release(x);
        x = next;
    }
}

static weft_value inbox_main(void *arg)
{
    bridge *b = arg;
    while (weft_event_wait(&b->for_cord_event) == 0)
        inbox_deliver(b);
    return 0;
}

/* The thread */

static weft_value serve_main(void *arg)
{
    bridge *b = arg;
    b->result = weft_http_serve_fd(b->options.listener, handle_request, b, &b->options.http);
    if (b->result < 0 && b->result != -ECANCELED) /* the message is in the fiber */
        b->failure = strdup(weft_error()->message);
    (void)weft_event_set(&b->stop_event);
    return 0;
}

static int open_tls(bridge *b)
{
    if (b->options.cert_file == NULL)
        return 0;
    b->options.http.tls = weft_tls_server_new(&(weft_tls_options){
        .alpn = b->options.http.has_no_http2 ? "http/1.1" : weft_http_alpn(),
        .identity = {.cert_file = b->options.cert_file, .key_file = b->options.key_file}});
    return b->options.http.tls != NULL ? 0 : weft_error()->code;
}

static void serve_until_stop(bridge *b)
{
    weft_fiber inbox = weft_spin(inbox_main, b), serve = weft_spin(serve_main, b);
    sem_post(&b->started);
    (void)weft_event_wait(&b->stop_event);
    (void)weft_cancel(serve);
    (void)weft_await(serve);
    (void)weft_cancel(inbox);
    (void)weft_await(inbox);
}

static void *thread_main(void *arg)
{
    bridge *b = arg;
    b->result = open_tls(b);
    if (b->result < 0) {
        b->failure = strdup(weft_error()->message);
        sem_post(&b->started);
        return NULL;
    }
    serve_until_stop(b);
    inbox_deliver(b);
    weft_tls_free(b->options.http.tls);
    atomic_store(&b->is_ended, true);
    wake_ruby(b);
    return NULL;
}

/* Start the thread with all signals blocked: Ruby handles signals in its own threads. */
static int thread_start(bridge *b)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(&b->thread, NULL, thread_main, b);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return -rc;
    while (sem_wait(&b->started) < 0 && errno == EINTR)
        ;
    return 0;
}

int bridge_start(bridge **out, const bridge_options *options)
{
    bridge *b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->options = *options;
    b->process = getpid();
    atomic_init(&b->refs, 1);
    sem_init(&b->started, 0, 0);
    /* A server that stops can then take the rest of the backlog without waiting. */
    fcntl(options->listener, F_SETFL, fcntl(options->listener, F_GETFL) | O_NONBLOCK);
    b->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *out = b;
    if (b->event_fd < 0)
        return -errno;
    int rc = thread_start(b);
    if (rc < 0)
        return rc;
    if (b->failure == NULL)
        return 0;
    pthread_join(b->thread, NULL);
    return b->result;
}

void bridge_stop(bridge *b)
{
    (void)weft_event_set(&b->stop_event);
}

int bridge_join(bridge *b)
{
    pthread_join(b->thread, NULL);
    return b->result;
}

void bridge_drop_kicks(bridge *b)
{
    b->is_joined = true;
    inbox_deliver(b);
}

void bridge_release(bridge *b)
{
    if (atomic_fetch_sub(&b->refs, 1) > 1)
        return;
    if (b->event_fd >= 0)
        close(b->event_fd);
    sem_destroy(&b->started);
    free(b->options.cert_file);
    free(b->options.key_file);
    free((char *)(uintptr_t)b->options.http.server_name);
    free((char *)(uintptr_t)b->options.http.trusted_peers);
    free((char *)(uintptr_t)b->options.http.trusted_headers);
    free((char *)(uintptr_t)b->options.http.proxy_protocol_peers);
    free(b->failure);
    free(b);
}
