/* Fields that concern one connection: they end at a proxy (RFC 9110, 7.6.1). */
#include "http/field.h"
#include "http/reverse.h"

#include <strings.h>

static bool is_one_of(const char *name, const char *const names[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Is it a field of one connection, whether or not Connection names it? */
static bool is_hop(const char *name)
{
    static const char *const names[] = {
        "Connection",       "Content-Length",    "Keep-Alive", "Proxy-Authenticate",
        "Proxy-Connection", "Transfer-Encoding", "TE",         "Proxy-Authorization",
        "Upgrade"};
    return is_one_of(name, names, sizeof names / sizeof *names);
}

static bool is_in_connection(const weft__message *m, const char *head, const char *name)
{
    const weft__field *f;
    uint32_t index = 0;
    while ((f = weft__message_field(m, head, "Connection", &index)) != NULL)
        if (weft__field_has_token(head + f->value.at, f->value.bytes, name))
            return true;
    return false;
}

bool weft__hop_is_passed(const weft__message *m, const char *head, const char *name)
{
    return !is_hop(name) && !is_in_connection(m, head, name);
}

bool weft__hop_is_passed_trailer(const weft__message *m, const char *head, const char *name)
{
    /* A recipient may merge trailers into the head: there these are believed. */
    static const char *const names[] = {
        "Host",    "Forwarded",   "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
        "Trailer", "Max-Forwards"};
    return weft__hop_is_passed(m, head, name) &&
           !is_one_of(name, names, sizeof names / sizeof *names);
}
