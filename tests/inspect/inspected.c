/*
 * A program to look at with the inspector, for the browser tests and for measurements.
 * usage: inspected FIBERS [PORT [idle]]
 *
 * Most fibers are idle guests. A few hold locks, wait for sockets and, without the word idle,
 * compute. The program prints the URL of its page, and ends on SIGTERM.
 */
#include <weft/web.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

#define TOKEN "correct-horse-battery"

static weft_mutex ledger;
static bool is_idle;

static weft_value wait_for_guests(void *arg)
{
    (void)arg;
    return weft_receive();
}

static weft_value sleep_for_days(void *arg)
{
    return weft_sleep(1e6 + (double)(intptr_t)arg);
}

static weft_value hold_ledger(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&ledger);
    if (rc == 0)
        rc = weft_sleep(1e6);
    return rc;
}

static weft_value wait_for_ledger(void *arg)
{
    (void)arg;
    return weft_mutex_lock(&ledger);
}

static weft_value read_socket(void *arg)
{
    char byte;
    return weft_read((int)(intptr_t)arg, &byte, 1);
}

/* Compute for a share of the time. */
static weft_value compute(void *arg)
{
    double share = *(double *)arg;
    for (int rc = 0; rc == 0;) {
        double until_s = weft_now() + 0.02 * share;
        while (weft_now() < until_s)
            rc = weft_snooze();
        if (rc == 0)
            rc = weft_sleep(0.02 * (1 - share));
    }
    return -ECANCELED;
}

static weft_value second_cord(void *arg)
{
    static double share = 0.12;
    (void)arg;
    for (int n = 0; n < 3; n++) {
        char name[32];
        snprintf(name, sizeof name, "job %d", n + 1);
        weft_spin_with(sleep_for_days, NULL, &(weft_spin_options){.name = name});
    }
    if (!is_idle)
        weft_spin_with(compute, &share, &(weft_spin_options){.name = "render"});
    return weft_sleep(1e6);
}

static weft_value lobby(void *arg)
{
    for (intptr_t n = 0; n < (intptr_t)arg; n++) {
        char name[32];
        snprintf(name, sizeof name, "guest %d", (int)n + 1);
        weft_spin_with(n % 5 == 4 ? sleep_for_days : wait_for_guests, (void *)n,
                       &(weft_spin_options){.name = name, .stack_bytes = 16384});
    }
    return weft_sleep(1e6);
}

static void spin_actors(void)
{
    static double share = 0.06;
    int fd[2];
    weft_spin_with(hold_ledger, NULL, &(weft_spin_options){.name = "bookkeeper"});
    weft_spin_with(wait_for_ledger, NULL, &(weft_spin_options){.name = "auditor"});
    if (!is_idle)
        weft_spin_with(compute, &share, &(weft_spin_options){.name = "indexer"});
    if (weft_socketpair(fd) == 0)
        weft_spin_with(read_socket, (void *)(intptr_t)fd[0],
                       &(weft_spin_options){.name = "uplink"});
}

static int listen_somewhere(int port)
{
    struct sockaddr_in at = {0};
    socklen_t bytes = sizeof at;
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    int fd = weft_listen("tcp", address);
    if (fd < 0)
        return fd;
    getsockname(fd, (struct sockaddr *)&at, &bytes);
    printf("http://127.0.0.1:%d/inspect/\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

int main(int argc, char **argv)
{
    intptr_t guests = argc > 1 ? atol(argv[1]) : 10;
    is_idle = argc > 3;
    weft_shutdown_on_signals(5.0);
    weft_spin_with(lobby, (void *)guests, &(weft_spin_options){.name = "lobby"});
    spin_actors();
    weft_cord cord =
        weft_cord_start(second_cord, NULL, &(weft_cord_options){.name = "render farm"});
    weft_inspector *inspector =
        weft_inspector_new(&(weft_inspector_options){.title = "guesthouse", .token = TOKEN});
    weft_http_router *routes = weft_http_router_new();
    weft_http_route(routes, NULL, "/inspect/{path...}", weft_http_serve_inspector, inspector);
    int listener = listen_somewhere(argc > 2 ? atoi(argv[2]) : 0);
    const weft_http_options options = {.drain_s = 0.2, .closes_listener = true, .gzip_level = 5};
    int rc = weft_http_serve_fd(listener, weft_http_serve_routes, routes, &options);
    weft_cord_cancel(cord);
    return rc != -ECANCELED;
}
