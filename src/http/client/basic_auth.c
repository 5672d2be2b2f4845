/* Format credentials of the Basic scheme (RFC 7617) from the user of a URL. */
#include "http/client/fetch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        weft__strbuf_add_base64(&w, text, (size_t)bytes);
    }
    free(text);
    return weft__strbuf_take(&w);
}
