/*
 * Keys of the WebSocket handshake over HTTP/1 (RFC 6455, 4). The reverse proxy needs them too, for
 * clients of HTTP/2.
 */
#ifndef WEFT_HTTP_MESSAGE_WS_KEY_H
#define WEFT_HTTP_MESSAGE_WS_KEY_H

#include "http/text/strbuf.h"

/* Append a random key of a client. Returns 0, or -EIO if no random bytes are available. */
int weft__ws_add_key(weft__strbuf *w);

/* Append the value of Sec-WebSocket-Accept for a valid key. */
void weft__ws_add_accept(weft__strbuf *w, const char *key);

#endif
