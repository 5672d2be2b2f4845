/*
 * An HTTPS server that replies late. The path of a request is the delay in seconds: GET /0.5
 *
 * usage: stock_https CERTIFICATE KEY
 *
 * Prints the port on stdout.
 */
#include <weft/web.h>

#include <arpa/inet.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int reply_late(weft_http_request *r, void *ctx)
{
    (void)ctx;
    double delay_s = strtod(weft_http_path(r) + 1, NULL);
    int rc = delay_s > 0 ? weft_sleep(delay_s) : 0;
    return rc < 0 ? rc : weft_http_reply_text(r, 200, "after %g s\n", delay_s);
}

/* Listen on a free port. Print the port. */
static int listen_and_print(void)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd < 0 || getsockname(fd, (struct sockaddr *)&at, &bytes) < 0)
        return -1;
    dprintf(STDOUT_FILENO, "%d\n", ntohs(at.sin_port));
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    weft_tls *tls = weft_tls_server_new(
        &(weft_tls_options){.identity = {.cert_file = argv[1], .key_file = argv[2]}});
    int listener = tls != NULL ? listen_and_print() : -1;
    if (listener < 0)
        return 1;
    weft_http_options options = {.tls = tls, .limits.handshakes_per_peer_s_max = INFINITY};
    return weft_http_serve_fd(listener, reply_late, NULL, &options) < 0;
}
