/* Identify hop-by-hop fields. See hop_by_hop.h. */
#include "http/reverse_proxy/hop_by_hop.h"
#include "http/text/field.h"

#include <strings.h>

static bool name_is_in(const char *name, const char *const names[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Return whether a field is hop-by-hop even if Connection does not name the field. */
static bool field_is_hop_by_hop(const char *name)
{
    static const char *const names[] = {
        "Connection",       "Content-Length",    "Keep-Alive", "Proxy-Authenticate",
        "Proxy-Connection", "Transfer-Encoding", "TE",         "Proxy-Authorization",
        "Upgrade"};
    return name_is_in(name, names, sizeof names / sizeof *names);
}

static bool connection_names_field(const weft__head *head, const char *name)
{
    const weft__field *f;
    uint32_t index = 0;
    while ((f = weft__head_field(head, "Connection", &index)) != NULL)
        if (weft__field_has_token(head->text + f->value.at, f->value.bytes, name))
            return true;
    return false;
}

bool weft__field_is_end_to_end(const weft__head *head, const char *name)
{
    return !field_is_hop_by_hop(name) && !connection_names_field(head, name);
}

bool weft__trailer_is_end_to_end(const weft__head *head, const char *name)
{
    /*
     * A recipient may merge trailers into the headers (RFC 9110, 6.5.1). A trailer could then
     * replace a header that servers trust.
     */
    static const char *const names[] = {
        "Host",    "Forwarded",   "Via", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host",
        "Trailer", "Max-Forwards"};
    return weft__field_is_end_to_end(head, name) &&
           !name_is_in(name, names, sizeof names / sizeof *names);
}
