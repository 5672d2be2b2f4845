/* libcurl over HTTPS: easy handles, and a multi handle with weft_poll. */
#include "stock.h"

#include <weft.h>

#include <curl/curl.h>
#include <poll.h>

static size_t drop_body(char *data, size_t size, size_t n, void *arg)
{
    (void)data;
    (void)arg;
    return size * n;
}

static void set_delay(CURL *curl, const char *delay)
{
    char url[256];
    snprintf(url, sizeof url, "%s/%s", setting("STOCK_HTTPS"), delay);
    curl_easy_setopt(curl, CURLOPT_URL, url);
}

/* Open a handle. The first request connects, so make it before the measurement. */
static void *open_easy(void)
{
    CURL *curl = curl_easy_init();
    require(curl != NULL, "curl_easy_init");
    curl_easy_setopt(curl, CURLOPT_CAINFO, setting("STOCK_CA"));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, drop_body);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    set_delay(curl, "0");
    require(curl_easy_perform(curl) == CURLE_OK, "curl_easy_perform");
    return curl;
}

static void easy_request(void *curl)
{
    require(curl_easy_perform(curl) == CURLE_OK, "curl_easy_perform");
}

static void easy_wait(void *curl)
{
    set_delay(curl, "1");
    require(curl_easy_perform(curl) == CURLE_OK, "curl_easy_perform");
    require(curl_easy_perform(curl) == CURLE_OK, "curl_easy_perform");
}

static void easy_close(void *curl)
{
    curl_easy_cleanup(curl);
}

const client curl_client = {"libcurl.so", open_easy, easy_request, easy_wait, easy_close};

/*
 * The multi handle. Each transfer starts again when it ends.
 */

static struct pollfd sockets[2 * CLIENTS];

static int note_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *entry)
{
    (void)easy;
    struct pollfd *at = entry;
    for (size_t i = 0; at == NULL && i < 2 * CLIENTS; i++)
        if (sockets[i].fd < 0)
            at = &sockets[i];
    int events = (what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0);
    *at = (struct pollfd){.fd = what == CURL_POLL_REMOVE ? -1 : fd, .events = (short)events};
    if (what == CURL_POLL_REMOVE)
        weft_fd_forget(fd);
    curl_multi_assign(arg, fd, what == CURL_POLL_REMOVE ? NULL : at);
    return 0;
}

/* Start the transfers again that have ended. */
static void restart_ended(CURLM *multi)
{
    int left;
    CURLMsg *message;
    while ((message = curl_multi_info_read(multi, &left)) != NULL) {
        require(message->data.result == CURLE_OK, "transfer");
        CURL *easy = message->easy_handle;
        requests_done++;
        curl_multi_remove_handle(multi, easy);
        curl_multi_add_handle(multi, easy);
    }
}

static void serve_sockets(CURLM *multi)
{
    int running;
    long ms = 0;
    curl_multi_timeout(multi, &ms);
    int n = weft_poll(sockets, 2 * CLIENTS, ms < 0 ? 1.0 : (double)ms / 1000);
    require(n >= 0, "weft_poll");
    if (n == 0)
        curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    for (size_t i = 0; n > 0 && i < 2 * CLIENTS; i++) {
        int events = (sockets[i].revents & ~POLLOUT ? CURL_CSELECT_IN : 0) |
                     (sockets[i].revents & POLLOUT ? CURL_CSELECT_OUT : 0);
        if (sockets[i].fd >= 0 && events != 0)
            curl_multi_socket_action(multi, sockets[i].fd, events, &running);
    }
    restart_ended(multi);
}

void run_curl_multi(double seconds)
{
    for (size_t i = 0; i < 2 * CLIENTS; i++)
        sockets[i].fd = -1;
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, note_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        CURL *easy = open_easy();
        curl_multi_add_handle(multi, easy);
    }
    while (requests_done < 2 * CLIENTS) /* all connections are open */
        serve_sockets(multi);
    long before = requests_done;
    double wall = wall_s(), cpu = cpu_s();
    while (wall_s() - wall < seconds)
        serve_sockets(multi);
    printf("%ld %.6f %.6f\n", requests_done - before, wall_s() - wall, cpu_s() - cpu);
}
