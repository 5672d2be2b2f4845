/* Text in the making for requests of the client: a buffer that grows, credentials, hosts. */
#include "http/fetch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_BYTES_FIRST ((size_t)512)

/* Room for so many bytes more, and a NUL. */
static bool make_room(weft__words *w, size_t bytes)
{
    size_t room = w->room > 0 ? w->room : WORDS_BYTES_FIRST;
    while (room - w->bytes <= bytes)
        room *= 2;
    if (room == w->room)
        return true;
    char *data = realloc(w->data, room);
    if (data == NULL) {
        w->has_failed = true;
        return false;
    }
    w->data = data;
    w->room = room;
    return true;
}

void weft__words_add(weft__words *w, const char *data, size_t bytes)
{
    if (w->has_failed || !make_room(w, bytes))
        return;
    memcpy(w->data + w->bytes, data, bytes);
    w->bytes += bytes;
    w->data[w->bytes] = '\0';
}

void weft__words_print(weft__words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int bytes = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (w->has_failed || bytes < 0 || !make_room(w, (size_t)bytes))
        return;
    va_start(args, format);
    vsnprintf(w->data + w->bytes, w->room - w->bytes, format, args);
    va_end(args);
    w->bytes += (size_t)bytes;
}

void weft__words_host(weft__words *w, const char *host)
{
    weft__words_print(w, strchr(host, ':') != NULL ? "[%s]" : "%s", host);
}

/* RFC 4648, 4. */
static void add_base64(weft__words *w, const unsigned char *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        size_t n = bytes - i < 3 ? bytes - i : 3;
        uint32_t bits = (uint32_t)data[i] << 16;
        bits |= n > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        bits |= n > 2 ? data[i + 2] : 0;
        char quad[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                        n > 1 ? digits[bits >> 6 & 63] : '=', n > 2 ? digits[bits & 63] : '='};
        weft__words_add(w, quad, sizeof quad);
    }
}

char *weft__words_basic(const char *user)
{
    weft__words w = {0};
    /* One without a password has an empty one; the colon between them is never an escape. */
    size_t room = strlen(user) + 2;
    char *text = malloc(room);
    if (text == NULL)
        return NULL;
    snprintf(text, room, strchr(user, ':') != NULL ? "%s" : "%s:", user);
    ssize_t bytes = weft_url_decode(text, false);
    if (bytes >= 0) {
        weft__words_print(&w, "Basic ");
        add_base64(&w, (const unsigned char *)text, (size_t)bytes);
    }
    free(text);
    if (!w.has_failed)
        return w.data;
    free(w.data);
    return NULL;
}
