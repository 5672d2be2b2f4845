/* HTTPS with a self-signed certificate. The client trusts only this certificate. */
#include <weft/web.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>

static char origin[64];
static char *cert, *key;

static int hello(weft_http_request *r, void *ctx)
{
    (void)ctx;
    return weft_http_reply_text(r, 200, "Hello over %s\n", weft_http_scheme(r));
}

/* A real server uses files: .identity = {.cert_file = "cert.pem", .key_file = "key.pem"} */
static weft_value serve(void *arg)
{
    weft_tls *tls = weft_tls_server_new(&(weft_tls_options){
        .alpn = weft_http_alpn(), .identity = {.cert_pem = cert, .key_pem = key}});
    if (tls == NULL)
        return weft_error()->code;
    int rc = weft_http_serve_fd(*(int *)arg, hello, NULL, &(weft_http_options){.tls = tls});
    weft_tls_free(tls);
    return rc;
}

/* Listen on a free port. A real server calls weft_http_serve(":8080", ...) instead. */
static int listen_anywhere(void)
{
    struct sockaddr_in at;
    socklen_t bytes = sizeof at;
    int fd = weft_listen("tcp", "127.0.0.1:0");
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&at, &bytes) == 0)
        snprintf(origin, sizeof origin, "https://127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

static void get(weft_fetcher *fetcher, const char *who)
{
    char *body = "";
    weft_fetch *fetch = NULL;
    int status = weft_fetch_get(fetcher, origin, &fetch);
    if (status > 0)
        weft_fetch_read_all(fetch, &body);
    printf("%s: %s", who, status > 0 ? body : "refuses the certificate\n");
    weft_fetch_close(fetch);
}

int main(void)
{
    int listener = listen_anywhere();
    if (listener < 0 || weft_tls_self_signed("127.0.0.1", 1, &cert, &key) < 0)
        return 1;
    weft_fiber server = weft_spin(serve, &listener);

    weft_tls *trusting = weft_tls_client_new(&(weft_tls_options){.ca_pem = cert});
    weft_fetcher *fetcher = weft_fetcher_new(&(weft_fetcher_options){.tls = trusting});
    get(fetcher, "a client that trusts the certificate");
    get(NULL, "any other client");

    weft_fetcher_free(fetcher);
    weft_tls_free(trusting);
    weft_terminate(server, 1.0);
    free(cert);
    free(key);
}
