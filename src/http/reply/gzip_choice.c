/* The decision whether to compress a reply (gzip.h). */
#include "http/reply/gzip.h"
#include "http/text/accept.h"
#include "http/text/field.h"
#include "http/text/mime.h"

#include <string.h>

/*
 * A shorter body fits in one packet without compression. The overhead of gzip would exceed the
 * gain.
 */
#define LENGTH_MIN 256

/*
 * Return true if the server may compress the reply for clients that accept gzip. A client could not
 * combine compressed ranges (206).
 */
static bool candidate_is_eligible(const weft__gzip_candidate *c)
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

weft__gzip_choice weft__gzip_choose(const weft__gzip_candidate *c)
{
#ifdef WEFT_HAS_GZIP
    if (candidate_is_eligible(c))
        return weft__accept_gzip(c->accept) ? WEFT__GZIP_APPLIES : WEFT__GZIP_VARIES;
#else
    (void)candidate_is_eligible;
    (void)c;
#endif
    return WEFT__GZIP_NEVER;
}

const char *weft__gzip_etag_prefix(const char *etag)
{
    return strncmp(etag, "W/", 2) == 0 ? "" : "W/";
}
