/*
 * A web server for the fault tests, in a process of its own so that no fault concerns it: plain
 * calls only; a process for each connection.
 */
#ifndef TESTS_FAULT_WEB_H
#define TESTS_FAULT_WEB_H

#include "fault.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/prctl.h>

typedef struct web {
    int listener;
    int port;
    pid_t pid;
} web;

static web fault_web;

static const char answer_hello[] =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-End: 1\r\n\r\n";
static const char answer_up[] =
    "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: hello\r\n\r\nhello";
static const char answer_go[] = "HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 4\r\n\r\ngone";
/* "hello" by gzip. */
static const char answer_zipped[] =
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 25\r\n\r\n"
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00"
    "\x00\x00";

static void answer(int fd, const char *request)
{
    const char *text = answer_hello;
    size_t bytes = sizeof answer_hello - 1;
    if (strstr(request, "/go ") != NULL) {
        text = answer_go;
        bytes = sizeof answer_go - 1;
    } else if (strstr(request, "/zipped ") != NULL) {
        text = answer_zipped;
        bytes = sizeof answer_zipped - 1;
    }
    bool is_up = strstr(request, "/up ") != NULL;
    if (is_up) {
        text = answer_up;
        bytes = sizeof answer_up - 1;
    }
    if (write(fd, text, bytes) < 0)
        _exit(1);
    if (is_up)
        shutdown(fd, SHUT_WR);
}

/* A request ends with its head, or with the body "0\r\n\r\n" or "end". */
static bool is_whole(const char *request)
{
    const char *end = strstr(request, "\r\n\r\n");
    if (end == NULL)
        return false;
    if (strstr(request, "chunked") != NULL)
        return strstr(end + 4, "0\r\n\r\n") != NULL;
    return strstr(request, "POST") == NULL || strstr(end + 4, "end") != NULL;
}

static void serve_conn(int fd)
{
    char request[8192];
    size_t used = 0;
    ssize_t n;
    while ((n = read(fd, request + used, sizeof request - 1 - used)) > 0) {
        used += (size_t)n;
        request[used] = '\0';
        if (is_whole(request)) {
            answer(fd, request);
            used = 0;
        }
    }
    _exit(0);
}

static void run_web(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept(listener, NULL, NULL);
        if (fd >= 0 && fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            serve_conn(fd);
        }
        close(fd);
    }
}

static void start_web(web *w)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    w->listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(w->listener, (struct sockaddr *)&at, bytes), 0);
    ck_assert_int_eq(listen(w->listener, 64), 0);
    ck_assert_int_eq(getsockname(w->listener, (struct sockaddr *)&at, &bytes), 0);
    w->port = ntohs(at.sin_port);
    w->pid = fork();
    ck_assert_int_ge(w->pid, 0);
    if (w->pid == 0)
        run_web(w->listener);
}

static void stop_web(web *w)
{
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    close(w->listener);
}

#endif
