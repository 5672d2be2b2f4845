/* Format credentials of the Basic scheme (RFC 7617) from the user of a URL. */
#include "http/client/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Append the base64 code of data (RFC 4648, 4). */
static void strbuf_add_base64(weft__strbuf *w, const unsigned char *data, size_t bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        size_t n = bytes - i < 3 ? bytes - i : 3;
        uint32_t bits = (uint32_t)data[i] << 16;
        bits |= n > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        bits |= n > 2 ? data[i + 2] : 0;
        char quad[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                        n > 1 ? digits[bits >> 6 & 63] : '=', n > 2 ? digits[bits & 63] : '='};
        weft__strbuf_add(w, quad, sizeof quad);
    }
}

char *weft__basic_auth_new(const char *user)
{
    weft__strbuf w = {0};
    /* Without a colon, the password is empty. An escaped colon belongs to the user. */
    size_t room = strlen(user) + 2;
    char *text = malloc(room);
    if (text == NULL)
        return NULL;
    snprintf(text, room, strchr(user, ':') != NULL ? "%s" : "%s:", user);
    ssize_t bytes = weft_url_decode(text, false);
    if (bytes >= 0) {
        weft__strbuf_printf(&w, "Basic ");
        strbuf_add_base64(&w, (const unsigned char *)text, (size_t)bytes);
    }
    free(text);
    if (!w.has_failed)
        return w.data;
    free(w.data);
    return NULL;
}
