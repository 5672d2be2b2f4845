/*
 * Decompress gzip responses in pieces, with a fixed amount of memory. A body may have several gzip
 * members (RFC 1952, 2.2).
 */
#include "http/client/fetch.h"

#include <errno.h>
#include <stdlib.h>

#ifdef WEFT_HAS_GZIP
#include <zlib.h>

#define PIECE_BYTES ((size_t)16 << 10)
#define GZIP_ONLY 16 /* added to the window bits: reject other formats */

struct weft__inflate {
    z_stream z;
    bool is_in_member; /* the current member is incomplete */
    char piece[PIECE_BYTES];
};

weft__inflate *weft__inflate_new(void)
{
    weft__inflate *z = malloc(sizeof *z);
    if (z == NULL)
        return NULL;
    z->z = (z_stream){0};
    z->is_in_member = false;
    if (inflateInit2(&z->z, MAX_WBITS + GZIP_ONLY) == Z_OK)
        return z;
    free(z);
    return NULL;
}

void weft__inflate_free(weft__inflate *z)
{
    if (z != NULL)
        inflateEnd(&z->z);
    free(z);
}

void weft__inflate_feed(weft__inflate *z, const char *data, size_t bytes)
{
    z->z.next_in = (z_const Bytef *)data;
    z->z.avail_in = (uInt)bytes;
}

ssize_t weft__inflate_take(weft__inflate *z, const char **piece)
{
    z->z.next_out = (Bytef *)z->piece;
    z->z.avail_out = PIECE_BYTES;
    int rc = Z_OK;
    while (rc == Z_OK && z->z.avail_out > 0 && (z->z.avail_in > 0 || z->is_in_member)) {
        z->is_in_member = true;
        rc = inflate(&z->z, Z_NO_FLUSH);
        if (rc == Z_STREAM_END) {
            z->is_in_member = false;
            rc = inflateReset(&z->z);
        }
    }
    if (rc != Z_OK && rc != Z_BUF_ERROR)
        return rc == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
    *piece = z->piece;
    return (ssize_t)(PIECE_BYTES - z->z.avail_out);
}

bool weft__inflate_is_whole(const weft__inflate *z)
{
    return !z->is_in_member;
}

#else

weft__inflate *weft__inflate_new(void)
{
    return NULL;
}

void weft__inflate_free(weft__inflate *z)
{
    (void)z;
}

void weft__inflate_feed(weft__inflate *z, const char *data, size_t bytes)
{
    (void)z, (void)data, (void)bytes;
}

ssize_t weft__inflate_take(weft__inflate *z, const char **piece)
{
    (void)z, (void)piece;
    return -EBADMSG;
}

bool weft__inflate_is_whole(const weft__inflate *z)
{
    (void)z;
    return true;
}

#endif
