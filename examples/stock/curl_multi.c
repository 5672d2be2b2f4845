/*
 * libcurl with a multi handle, without libweft-posix: one fiber waits for all sockets.
 * usage: curl_multi URL CA-FILE
 */
#include <weft.h>

#include <curl/curl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRANSFERS 20

/* A transfer has at most two sockets. Poll ignores unused entries, whose descriptor is negative. */
static struct pollfd sockets[2 * TRANSFERS];
static size_t bytes; /* of all replies */

static int note_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *entry)
{
    (void)easy;
    struct pollfd *at = entry != NULL ? entry : sockets;
    while (entry == NULL && at->fd >= 0)
        at++;
    int events = (what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0);
    *at = (struct pollfd){.fd = what == CURL_POLL_REMOVE ? -1 : fd, .events = (short)events};
    if (what == CURL_POLL_REMOVE)
        weft_fd_forget(fd); /* libcurl may close the socket */
    curl_multi_assign(arg, fd, what == CURL_POLL_REMOVE ? NULL : at);
    return 0;
}

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
    (void)data;
    (void)arg;
    bytes += size * n;
    return size * n;
}

/* Run all transfers. Return 0, or the error of a wait. */
static int run_transfers(CURLM *multi)
{
    int running = 1, n;
    do {
        long ms = 0;
        curl_multi_timeout(multi, &ms);
        n = weft_poll(sockets, 2 * TRANSFERS, ms < 0 ? 1.0 : (double)ms / 1000);
        if (n == 0)
            curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
        for (size_t i = 0; n > 0 && i < 2 * TRANSFERS; i++) {
            int events = (sockets[i].revents & ~POLLOUT ? CURL_CSELECT_IN : 0) |
                         (sockets[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0);
            if (sockets[i].fd >= 0 && events != 0)
                curl_multi_socket_action(multi, sockets[i].fd, events, &running);
        }
    } while (n >= 0 && running > 0);
    return n < 0 ? n : 0;
}

int main(int argc, char **argv)
{
    char url[256];
    snprintf(url, sizeof url, "%s/0.1", argc > 2 ? argv[1] : getenv("STOCK_HTTPS"));
    memset(sockets, -1, sizeof sockets);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, note_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, multi);
    for (int i = 0; i < TRANSFERS; i++) {
        CURL *easy = curl_easy_init();
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_CAINFO, argc > 2 ? argv[2] : getenv("STOCK_CA"));
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
        curl_multi_add_handle(multi, easy);
    }
    if (run_transfers(multi) == 0) /* a longer program also removes and frees the handles */
        printf("%zu bytes in %d transfers\n", bytes, TRANSFERS);
}
