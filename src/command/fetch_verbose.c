/*
 * The exchange of `weft fetch --verbose`, like that of curl: connections with "*", heads of
 * requests with ">", heads of responses with "<".
 */
#include "command/fetch.h"

#include "http/text/status.h"

#include <string.h>

void fetch_write_head(FILE *out, const weft_fetch *fetch, const char *prefix)
{
    const char *name, *value;
    int version = weft_fetch_version(fetch), status = weft_fetch_status(fetch);
    if (version >= 20)
        fprintf(out, "%sHTTP/%d %d\r\n", prefix, version / 10, status);
    else
        fprintf(out, "%sHTTP/%d.%d %d %s\r\n", prefix, version / 10, version % 10, status,
                weft__status_text(status));
    for (size_t i = 0; weft_fetch_header_at(fetch, i, &name, &value) == 0; i++)
        fprintf(out, "%s%s: %s\r\n", prefix, name, value);
    fprintf(out, "%s\r\n", prefix);
}

/* Print each line of a head with a prefix. */
static void print_lines(const char *text)
{
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\r\n");
        fprintf(stderr, "> %.*s\n", (int)bytes, text);
        text += bytes;
        text += strspn(text, "\r");
        text += *text == '\n';
    }
}

static void print_tls(weft_fetch *fetch)
{
    weft_tls_info info;
    weft_stream *stream = weft_fetch_tls(fetch);
    if (stream == NULL || weft_tls_describe(stream, &info) < 0)
        return;
    fprintf(stderr, "* TLS 1.%d, %s, ALPN %s%s\n", info.version - 10, info.cipher,
            info.alpn[0] != '\0' ? info.alpn : "none", info.is_resumed ? ", resumed" : "");
    if (info.peer_subject[0] != '\0')
        fprintf(stderr, "* certificate of the server: %s\n", info.peer_subject);
    else
        fprintf(stderr, "* the certificate of the server is not verified\n");
}

void fetch_print_step(weft_fetch *fetch, weft_fetch_event event, const char *text, void *ctx)
{
    (void)ctx;
    switch (event) {
    case WEFT_FETCH_CONNECTED:
        fprintf(stderr, "* connected to %s\n", text);
        print_tls(fetch);
        break;
    case WEFT_FETCH_REUSED:
        fprintf(stderr, "* the connection to %s is used again\n", text);
        break;
    case WEFT_FETCH_REQUEST:
        print_lines(text);
        break;
    case WEFT_FETCH_RESPONSE:
        fetch_write_head(stderr, fetch, "< ");
        break;
    }
}
