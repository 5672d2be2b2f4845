/* Keys of the WebSocket handshake. See ws_key.h. */
#include "http/message/ws_key.h"
#include "http/message/sha1.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* A constant of RFC 6455, 1.3. */
#define ACCEPT_GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

/* The length of a key, and of its base64 code. */
#define KEY_BYTES 16
#define KEY_TEXT_BYTES 24

int weft__ws_add_key(weft__strbuf *w)
{
    uint8_t key[KEY_BYTES];
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
        return -EIO;
    weft__strbuf_add_base64(w, key, sizeof key);
    return 0;
}

void weft__ws_add_accept(weft__strbuf *w, const char *key)
{
    char text[KEY_TEXT_BYTES + sizeof ACCEPT_GUID];
    uint8_t hash[WEFT__SHA1_BYTES];
    memcpy(text, key, KEY_TEXT_BYTES);
    memcpy(text + KEY_TEXT_BYTES, ACCEPT_GUID, sizeof ACCEPT_GUID);
    weft__sha1(text, sizeof text - 1, hash);
    weft__strbuf_add_base64(w, hash, sizeof hash);
}
