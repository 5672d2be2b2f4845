/* Errors that a server reports by -ERR. */
#include "hub/client/hub.h"

#include <ctype.h>

static bool text_begins(weft__slice text, const char *prefix)
{
    size_t bytes = strlen(prefix);
    return text.bytes >= bytes && strncasecmp(text.data, prefix, bytes) == 0;
}

static bool text_has(weft__slice text, const char *part)
{
    size_t bytes = strlen(part);
    for (size_t i = 0; i + bytes <= text.bytes; i++)
        if (strncasecmp(text.data + i, part, bytes) == 0)
            return true;
    return false;
}

int weft__server_error_code(weft__slice text)
{
    if (text_has(text, "authorization") || text_has(text, "authentication"))
        return -EACCES;
    if (text_has(text, "protocol") || text_has(text, "parser"))
        return -EPROTO;
    return -ECONNREFUSED;
}

/* Return the subject between the first two quotes of a text. */
static weft__slice quoted_subject(weft__slice text)
{
    const char *end = text.data + text.bytes;
    const char *open = memchr(text.data, '"', text.bytes);
    const char *close = open != NULL ? memchr(open + 1, '"', (size_t)(end - open - 1)) : NULL;
    return close != NULL ? (weft__slice){open + 1, (size_t)(close - open - 1)} : (weft__slice){0};
}

static bool is_inbox(const weft_hub *hub, weft__slice subject)
{
    return subject.bytes == hub->inbox_bytes + 1 &&
           memcmp(subject.data, hub->inbox, hub->inbox_bytes) == 0;
}

/* Without the inbox, no request gets a reply. */
static void subscription_refused(weft_hub *hub, weft__slice subject)
{
    weft__subscriptions_refuse(hub, subject);
    if (is_inbox(hub, subject))
        weft__requests_fail(hub, -EPERM);
}

void weft__server_error_note(weft_hub *hub, weft__slice text)
{
    weft__hub_say(hub, LOG_WARNING, "the server says: %.*s", (int)text.bytes, text.data);
    if (text_begins(text, "permissions violation for publish"))
        weft__requests_fail_to(hub, quoted_subject(text), -EPERM);
    else if (text_begins(text, "permissions violation for subscription"))
        subscription_refused(hub, quoted_subject(text));
}
