/*
 * The bridge without Ruby, for ThreadSanitizer: a thread stands in for Ruby, and clients disconnect
 * at random. Prints "ok" if no exchange is left. Build the library with `tools/build tsan --
 * libweft-web.so.0.1.0`, and in the root of the checkout:
 *
 *     gcc -fsanitize=thread -g -D_GNU_SOURCE -Iinclude -Ibindings/ruby/ext/weft_server \
 *         bindings/ruby/test/server/bridge_stress.c \
 *         bindings/ruby/ext/weft_server/{bridge,exchange,fields,handler,hijack,reply,websocket}.c \
 *         -Lbuild/tsan -Wl,-rpath,$PWD/build/tsan -lweft-web -lweft -o build/tsan/bridge_stress
 */
#include "bridge.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 3, REQUESTS = 300 };

static bridge *b;
static struct sockaddr_in address;

static void put(exchange *x, const char *text, bool is_complete)
{
    pthread_mutex_lock(&x->lock);
    if (!x->is_over && chunks_append(&x->output, text, strlen(text)) == 0)
        x->output_bytes += strlen(text);
    x->output_is_complete = is_complete;
    pthread_mutex_unlock(&x->lock);
    bridge_kick(x);
}

static void put_head(exchange *x)
{
    reply_head *head = calloc(1, sizeof *head + 32);
    *head = (reply_head){.status = 200, .length = -1, .fields_count = 1, .fields = head->text};
    memcpy(head->text, "x-test\0yes", 11);
    pthread_mutex_lock(&x->lock);
    x->head = head;
    pthread_mutex_unlock(&x->lock);
}

static void hijack_exchange(exchange *x)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
        abort();
    pthread_mutex_lock(&x->lock);
    x->hijack_fd = pair[0];
    x->mode = MODE_HIJACKED;
    pthread_mutex_unlock(&x->lock);
    bridge_kick(x);
    (void)!send(pair[1], "HTTP/1.1 200 OK\r\n\r\nbye", 22, MSG_NOSIGNAL);
    close(pair[1]);
}

static void want_input(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->input_is_wanted = true;
    pthread_mutex_unlock(&x->lock);
    bridge_kick(x);
}

/* Reply to a new request. Return whether to keep it until its input has arrived. */
static bool handle_new(exchange *x)
{
    if (strcmp(x->path, "/read") == 0) {
        want_input(x);
        return true;
    }
    if (strcmp(x->path, "/hijack") == 0) {
        hijack_exchange(x);
    } else if (strcmp(x->path, "/abort") == 0) {
        pthread_mutex_lock(&x->lock);
        x->is_aborted = true;
        pthread_mutex_unlock(&x->lock);
        bridge_kick(x);
    } else {
        put_head(x);
        put(x, "part one", false);
        put(x, "part two", true);
    }
    return false;
}

/* Discard input. Reply at its end, and drop the reference that handle_new has kept. */
static void handle_changed(exchange *x)
{
    pthread_mutex_lock(&x->lock);
    bool is_kept = x->owner != NULL;
    chunks_free(&x->input);
    bool has_ended = x->input_is_complete || x->input_error < 0;
    pthread_mutex_unlock(&x->lock);
    if (!is_kept)
        return;
    if (!has_ended) {
        bridge_kick(x);
        return;
    }
    x->owner = NULL;
    put_head(x);
    put(x, "read", true);
    exchange_release(x);
}

static void *ruby_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&b->is_ended)) {
        uint64_t count;
        exchange *x;
        unsigned notices;
        poll(&(struct pollfd){.fd = b->event_fd, .events = POLLIN}, 1, -1);
        (void)!read(b->event_fd, &count, sizeof count);
        bridge_cork(b);
        while ((x = bridge_take(b, &notices)) != NULL) {
            if ((notices & NOTICE_NEW) && handle_new(x)) {
                x->owner = x;
                exchange_hold(x);
            }
            if (notices & NOTICE_CHANGED)
                handle_changed(x);
            exchange_release(x);
        }
        bridge_uncork(b);
    }
    return NULL;
}

static void abuse(unsigned *seed)
{
    static const char *const paths[] = {"/", "/read", "/hijack", "/abort"};
    char text[40000], reply[4096];
    int n = snprintf(text, 200, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 30000\r\n\r\n",
                     paths[rand_r(seed) % 4]);
    memset(text + n, 'x', 30000);
    n += 30000;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        abort();
    (void)!send(fd, text, rand_r(seed) % 3 == 0 ? (size_t)(rand_r(seed) % n) : (size_t)n,
                MSG_NOSIGNAL);
    if (rand_r(seed) % 2 == 0 && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 20) > 0)
        (void)!recv(fd, reply, sizeof reply, 0);
    if (rand_r(seed) % 2 == 0)
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(fd);
}

static void *client_main(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < REQUESTS; i++)
        abuse(&seed);
    return NULL;
}

int main(void)
{
    pthread_t ruby, clients[CLIENTS];
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (struct sockaddr *)&address, bytes) < 0 || listen(listener, 64) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &bytes) < 0 ||
        bridge_start(&b, &(bridge_options){.listener = listener}) < 0)
        abort();
    pthread_create(&ruby, NULL, ruby_main, NULL);
    for (uintptr_t i = 0; i < CLIENTS; i++)
        pthread_create(&clients[i], NULL, client_main, (void *)(i + 1));
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(clients[i], NULL);
    bridge_stop(b);
    pthread_join(ruby, NULL);
    bridge_join(b);
    int left = atomic_load(&b->refs) - 1;
    puts(left == 0 ? "ok" : "exchanges are left");
    bridge_release(b);
    close(listener);
    return left != 0;
}
