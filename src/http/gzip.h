/*
 * Replies in gzip: the compressor, piece by piece, and the decision whether a reply is worth it.
 * Pure but for the sink, which may suspend; knows nothing of requests.
 */
#ifndef WEFT_HTTP_GZIP_H
#define WEFT_HTTP_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a reply is, as far as compressing it is concerned. Strings may be NULL: not there. */
typedef struct weft__gzip_case {
    int status;
    int64_t length;            /* of the body; -1: not known */
    const char *type;          /* the reply's Content-Type */
    const char *encoding;      /* the reply's Content-Encoding */
    const char *cache_control; /* the reply's; no-transform is respected */
    const char *accept;        /* the request's Accept-Encoding */
} weft__gzip_case;

/* What to do with it. */
typedef enum weft__gzip_choice {
    WEFT__GZIP_NEVER,  /* as it is, for everybody */
    WEFT__GZIP_VARIES, /* as it is, for this client: Vary: Accept-Encoding */
    WEFT__GZIP_APPLIES /* compressed: Vary, Content-Encoding, no length, a weak ETag */
} weft__gzip_choice;

/*
 * Whether to compress. The same for GET and HEAD, so that both have the same headers. Without zlib
 * it is never.
 */
weft__gzip_choice weft__gzip_choose(const weft__gzip_case *c);

/* The words that make a strong ETag weak, to be put before it: "W/", or "" if it is weak. */
const char *weft__gzip_etag_prefix(const char *etag);

typedef struct weft__gzip weft__gzip;
#ifdef WEFT_HAS_GZIP

/* Takes all the bytes; may suspend. 0 or -errno. */
typedef int weft__gzip_sink(void *ctx, const void *data, size_t bytes);

typedef enum weft__gzip_mode {
    WEFT__GZIP_MORE,  /* keep what is not worth sending yet */
    WEFT__GZIP_FLUSH, /* what was written so far can be read by the other side */
    WEFT__GZIP_END    /* that was all */
} weft__gzip_mode;

/*
 * A compressor of a level from 1 to 9; NULL if there is no memory. It takes about 140 KiB; the
 * thread keeps a few for the next replies, up to its end.
 */
weft__gzip *weft__gzip_new(int level);

/*
 * Compress so many bytes, may be 0, and hand on what comes out. What the sink says if that fails:
 * the stream is broken then, and only to be freed. -EINVAL after its end.
 */
int weft__gzip_write(weft__gzip *gz, const void *data, size_t bytes, weft__gzip_mode mode,
                     weft__gzip_sink *sink, void *ctx);

/* Free it, or keep it for the next; on the thread that made it. NULL is allowed. */
void weft__gzip_free(weft__gzip *gz);

#endif

#endif
