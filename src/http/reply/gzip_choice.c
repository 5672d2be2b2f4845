/* Which replies are worth compressing, and for whom. */
#include "http/accept.h"
#include "http/field.h"
#include "http/gzip.h"
#include "http/mime.h"

#include <string.h>

/* Below this a reply is in one packet either way, and what gzip adds eats up what it saves. */
#define LENGTH_MIN 256

/* Whoever asks, could it be compressed? A part of a whole (206) could not be put together again. */
static bool is_eligible(const weft__gzip_case *c)
{
    if (c->status < 200 || c->status == 204 || c->status == 205 || c->status == 206 ||
        c->status == 304)
        return false;
    if ((c->length >= 0 && c->length < LENGTH_MIN) || c->encoding != NULL || c->type == NULL)
        return false;
    if (c->cache_control != NULL &&
        weft__field_has_token(c->cache_control, strlen(c->cache_control), "no-transform"))
        return false;
    return weft__mime_is_compressible(c->type);
}

weft__gzip_choice weft__gzip_choose(const weft__gzip_case *c)
{
#ifdef WEFT_HAS_GZIP
    if (is_eligible(c))
        return weft__accept_gzip(c->accept) ? WEFT__GZIP_APPLIES : WEFT__GZIP_VARIES;
#else
    (void)is_eligible;
    (void)c;
#endif
    return WEFT__GZIP_NEVER;
}

const char *weft__gzip_etag_prefix(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0 ? "" : "W/";
}
