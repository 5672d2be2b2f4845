/*
 * A server with fixed replies, for the fault tests of the client and the reverse proxy. The server
 * runs in a separate process without weft, so that no fault affects it. Each connection has a
 * process.
 */
#ifndef TESTS_HTTP_FAULT_WEB_H
#define TESTS_HTTP_FAULT_WEB_H

#include "support/fault.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>

typedef struct canned_server {
    int listener;
    int port;
    pid_t pid;
} canned_server;

static canned_server canned;

static const char reply_hello[] =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n";
static const char reply_upgrade[] =
    "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: hello\r\n\r\nhello";
static const char reply_redirect[] =
    "HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 4\r\n\r\ngone";
/* "hello", compressed. */
static const char reply_gzip[] =
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 25\r\n\r\n"
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00"
    "\x00\x00";

static void send_canned_reply(int fd, const char *request)
{
    static const struct {
        const char *path, *reply;
        size_t bytes;
    } rows[] = {{"/go ", reply_redirect, sizeof reply_redirect - 1},
                {"/zipped ", reply_gzip, sizeof reply_gzip - 1},
                {"/up ", reply_upgrade, sizeof reply_upgrade - 1},
                {"", reply_hello, sizeof reply_hello - 1}};
    size_t i = 0;
    while (strstr(request, rows[i].path) == NULL)
        i++;
    if (write(fd, rows[i].reply, rows[i].bytes) < 0)
        _exit(1);
    if (rows[i].reply == reply_upgrade)
        shutdown(fd, SHUT_WR);
}

/*
 * A chunked request ends with "0\r\n\r\n", another POST with "end", and any other request with its
 * head.
 */
static bool is_request_complete(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    if (end == NULL)
        return false;
    if (strstr(request, "chunked") != NULL)
        return strstr(end + 4, "0\r\n\r\n") != NULL;
    return strstr(request, "POST") == NULL || strstr(end + 4, "end") != NULL;
}

static void canned_conn_run(int fd)
{
    char request[8192];
    size_t used = 0;
    ssize_t n;
    while ((n = read(fd, request + used, sizeof request - 1 - used)) > 0) {
        used += (size_t)n;
        request[used] = '\0';
        if (is_request_complete(request)) {
            send_canned_reply(fd, request);
            used = 0;
        }
    }
    _exit(0);
}

static void canned_server_run(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            canned_conn_run(fd);
        }
        close(fd);
    }
}

static void start_canned_server(canned_server *w)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    w->listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(w->listener, (struct sockaddr *)&address, bytes), 0);
    ck_assert_int_eq(listen(w->listener, 64), 0);
    ck_assert_int_eq(getsockname(w->listener, (struct sockaddr *)&address, &bytes), 0);
    w->port = ntohs(address.sin_port);
    w->pid = fork();
    ck_assert_int_ge(w->pid, 0);
    if (w->pid == 0)
        canned_server_run(w->listener);
}

static void stop_canned_server(canned_server *w)
{
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    close(w->listener);
}

#endif
