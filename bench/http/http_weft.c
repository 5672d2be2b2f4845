/*
 * A hello world server over weft, as users write it. All limits have their defaults, except the
 * limits per peer. The client of a benchmark has one address for all connections.
 *
 * usage: http_weft --port N [--tls CERT KEY]
 * WEFT_BACKEND selects the backend. Sessions are not resumed, because handshakes are measured.
 */
#include <weft/web.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_PEER_MAX 16384

static int hello(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply(r, 200, "text/plain", "Hello, world\n", 13);
}

static void usage(void)
{
    fprintf(stderr, "usage: http_weft --port N [--tls CERT KEY]\n");
    exit(2);
}

int main(int argc, char **argv)
{
    weft_tls_options tls = {.version_min = 13, .has_no_tickets = true, .alpn = weft_http_alpn()};
    weft_http_options options = {.limits = {.connections_per_peer_max = PER_PEER_MAX,
                                            .handshakes_per_peer_s_max = INFINITY}};
    char address[64] = "";
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--port") == 0 && i + 1 < argc) {
            snprintf(address, sizeof address, "127.0.0.1:%s", argv[++i]);
        } else if (strcmp(argv[i], "--tls") == 0 && i + 2 < argc) {
            tls.identity.cert_file = argv[++i];
            tls.identity.key_file = argv[++i];
        } else {
            usage();
        }
    }
    if (address[0] == '\0')
        usage();
    if (tls.identity.cert_file != NULL && (options.tls = weft_tls_server_new(&tls)) == NULL) {
        fprintf(stderr, "http_weft: %s\n", weft_error()->message);
        return 1;
    }
    weft_shutdown_on_signals(1.0);
    int rc = weft_http_serve(address, hello, NULL, &options);
    weft_tls_free(options.tls);
    if (rc == -ECANCELED)
        return 0;
    fprintf(stderr, "http_weft: %s\n", strerror(-rc));
    return 1;
}
