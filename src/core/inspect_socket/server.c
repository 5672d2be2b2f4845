/*
 * The thread of the inspection socket. See server.h.
 *
 * A client can hold only bounded memory: one request, and one reply. The server reads the next
 * request after the whole reply is in the socket. A client that does not read its reply is
 * disconnected.
 */
#include "core/inspect_socket/server.h"

#include "base/clock.h"
#include "base/libc.h"
#include "core/inspect_socket/listener.h"
#include "core/inspect_socket/profile.h"
#include "core/inspect_socket/request.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* How long a client may leave a reply unread, in ns. */
#define UNREAD_NS ((int64_t)10 * WEFT__NS_PER_S)
/* Time to send the results of profiles when the process exits, in ns. */
#define FLUSH_NS ((int64_t)1 * WEFT__NS_PER_S)
/* The longest wait, in ms. The thread then checks whether it is the last thread of the process. */
#define WAIT_MS 1000

typedef struct inspect_client {
    int fd; /* -1: not connected; valid only in clients with is_connected */
    bool is_connected;
    size_t request_bytes;
    char request[WEFT__REQUEST_BYTES_MAX];
    weft__inspect_reply reply; /* empty: no reply is pending */
    size_t reply_sent;
    int64_t reply_since_ns; /* when the client last took a part of the reply */
    weft__inspect_uses uses;
} inspect_client;

static inspect_client clients[WEFT__INSPECT_CLIENTS_MAX];

static void client_close(inspect_client *c)
{
    weft__request_release(&c->uses);
    weft__buffer_free(&c->reply.text);
    close(c->fd);
    *c = (inspect_client){.fd = -1};
}

/* Send a part of the reply. */
static void client_write(inspect_client *c)
{
    weft__buffer *text = &c->reply.text;
    if (c->reply.has_failed) {
        client_close(c);
        return;
    }
    while (c->reply_sent < text->bytes) {
        ssize_t sent = send(c->fd, text->data + c->reply_sent, text->bytes - c->reply_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN)
            return;
        if (sent < 0) {
            client_close(c);
            return;
        }
        c->reply_sent += (size_t)sent;
        c->reply_since_ns = weft__clock_ns();
    }
    weft__buffer_free(text);
    c->reply_sent = 0;
}

/* Handle the first complete request, if no reply is pending. Return false if there is none. */
static bool client_handle(inspect_client *c)
{
    char *end = memchr(c->request, '\n', c->request_bytes);
    if (end == NULL || c->reply.text.bytes > 0)
        return false;
    size_t line_bytes = (size_t)(end + 1 - c->request);
    *end = '\0';
    bool is_text = strlen(c->request) == line_bytes - 1;
    c->reply_since_ns = weft__clock_ns();
    weft__request_handle(is_text ? c->request : (char[]){""}, &c->uses, &c->reply);
    c->request_bytes -= line_bytes;
    memmove(c->request, end + 1, c->request_bytes);
    client_write(c);
    return c->is_connected;
}

static void client_read(inspect_client *c)
{
    size_t room = sizeof c->request - c->request_bytes;
    ssize_t got = recv(c->fd, c->request + c->request_bytes, room, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        client_close(c);
        return;
    }
    c->request_bytes += (size_t)got;
    while (client_handle(c))
        continue;
    if (c->is_connected && c->request_bytes == sizeof c->request && c->reply.text.bytes == 0)
        client_close(c); /* the line is too long */
}

static void server_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    for (size_t i = 0; weft__peer_is_allowed(fd) && i < WEFT__INSPECT_CLIENTS_MAX; i++)
        if (!clients[i].is_connected) {
            clients[i] = (inspect_client){.fd = fd, .is_connected = true};
            clients[i].reply_since_ns = weft__clock_ns();
            weft__request_greet(&clients[i].reply);
            client_write(&clients[i]);
            return;
        }
    close(fd);
}

/* Handle the events of a client. */
static void client_run(inspect_client *c, short events)
{
    bool is_pending = c->reply.text.bytes > 0;
    if (is_pending && events != 0)
        client_write(c);
    else if (is_pending && weft__clock_ns() - c->reply_since_ns > UNREAD_NS)
        client_close(c);
    else if (!is_pending && events != 0)
        client_read(c);
    /* Requests that arrived before the reply was sent. */
    while (is_pending && c->is_connected && client_handle(c))
        continue;
}

/* Return the time to wait, in ms. Take the samples of a profile that are due. */
static int server_timeout_ms(void)
{
    int64_t now_ns = weft__clock_ns(), next_ns = weft__profile_run(now_ns);
    if (next_ns == INT64_MAX)
        return WAIT_MS;
    now_ns = weft__clock_ns();
    int64_t left_ms = next_ns > now_ns ? (next_ns - now_ns) / 1000000 + 1 : 0;
    return left_ms < WAIT_MS ? (int)left_ms : WAIT_MS;
}

void weft__server_run_once(int listener, int wake_fd)
{
    struct pollfd fds[WEFT__INSPECT_CLIENTS_MAX + 2] = {
        {.fd = wake_fd, .events = POLLIN},
        {.fd = listener, .events = POLLIN},
    };
    struct pollfd *of_client = fds + 2;
    for (size_t i = 0; i < WEFT__INSPECT_CLIENTS_MAX; i++) {
        of_client[i].fd = clients[i].is_connected ? clients[i].fd : -1;
        of_client[i].events = clients[i].reply.text.bytes > 0 ? POLLOUT : POLLIN;
    }
    if (poll(fds, WEFT__INSPECT_CLIENTS_MAX + 2, server_timeout_ms()) < 0)
        return;
    if (fds[0].revents != 0)
        return; /* the listener has changed */
    for (size_t i = 0; i < WEFT__INSPECT_CLIENTS_MAX; i++)
        if (clients[i].is_connected)
            client_run(&clients[i], of_client[i].revents);
    if (fds[1].revents != 0)
        server_accept(listener);
}

/* Send the rest of a reply, until a time. */
static void client_flush(inspect_client *c, int64_t until_ns)
{
    client_write(c);
    while (c->is_connected && c->reply.text.bytes > 0) {
        int64_t left_ms = (until_ns - weft__clock_ns()) / 1000000;
        struct pollfd fd = {.fd = c->fd, .events = POLLOUT};
        if (left_ms <= 0 || poll(&fd, 1, (int)left_ms) == 0)
            return;
        client_write(c);
    }
}

void weft__server_flush(void)
{
    int64_t until_ns = weft__clock_ns() + FLUSH_NS;
    for (size_t i = 0; i < WEFT__INSPECT_CLIENTS_MAX; i++)
        if (clients[i].is_connected && clients[i].uses.has_profile) {
            weft__request_flush(&clients[i].uses, &clients[i].reply);
            client_flush(&clients[i], until_ns);
        }
}

void weft__server_drop_clients(void)
{
    for (size_t i = 0; i < WEFT__INSPECT_CLIENTS_MAX; i++)
        if (clients[i].is_connected)
            client_close(&clients[i]);
}

void weft__server_after_fork(void)
{
    /*
     * The thread may have been changing a reply during the fork, so its memory is not freed. Keep
     * the pointers, so that leak checkers find the memory. Volatile, so that the compiler stores
     * them.
     */
    static char *volatile inherited[WEFT__INSPECT_CLIENTS_MAX] __attribute__((unused));
    for (size_t i = 0; i < WEFT__INSPECT_CLIENTS_MAX; i++) {
        if (clients[i].is_connected)
            close(clients[i].fd);
        if (clients[i].reply.text.data != NULL)
            inherited[i] = clients[i].reply.text.data;
        clients[i] = (inspect_client){.fd = -1};
    }
}
