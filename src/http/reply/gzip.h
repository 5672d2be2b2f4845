/*
 * gzip for replies: the decision whether to compress a reply, and a streaming compressor. These
 * functions do not depend on requests. Only weft__gzip_write may switch.
 */
#ifndef WEFT_HTTP_REPLY_GZIP_H
#define WEFT_HTTP_REPLY_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The properties of a reply that determine whether the server compresses it. A string is NULL if
 * the header is absent.
 */
typedef struct weft__gzip_candidate {
    int status;
    int64_t length;            /* of the body; -1: unknown */
    const char *type;          /* Content-Type of the reply */
    const char *encoding;      /* Content-Encoding of the reply */
    const char *cache_control; /* Cache-Control of the reply; no-transform forbids compression */
    const char *accept;        /* Accept-Encoding of the request */
} weft__gzip_candidate;

typedef enum weft__gzip_choice {
    WEFT__GZIP_NEVER,  /* never compress this reply */
    WEFT__GZIP_VARIES, /* do not compress for this client; set Vary: Accept-Encoding */
    WEFT__GZIP_APPLIES /* compress; set Vary and Content-Encoding, no length, a weak ETag */
} weft__gzip_choice;

/*
 * Decide whether to compress a reply. The result does not depend on the method, because HEAD and
 * GET must have the same headers. Without zlib, the result is WEFT__GZIP_NEVER.
 */
weft__gzip_choice weft__gzip_choose(const weft__gzip_candidate *c);

/* Return the prefix that makes an ETag weak: "W/", or "" if the ETag is already weak. */
const char *weft__gzip_etag_prefix(const char *etag);

typedef struct weft__gzip weft__gzip;
#ifdef WEFT_HAS_GZIP

/*
 * A callback that consumes all bytes of compressed output. The callback may switch. Returns 0 or an
 * error.
 */
typedef int weft__gzip_sink(void *ctx, const void *data, size_t bytes);

typedef enum weft__gzip_mode {
    WEFT__GZIP_MORE,  /* more input follows; output may remain buffered */
    WEFT__GZIP_FLUSH, /* pass on all output; the client can then decode all input so far */
    WEFT__GZIP_END    /* end the stream */
} weft__gzip_mode;

/*
 * Create a compressor of level 1 to 9. A compressor takes about 140 KiB. Returns NULL if memory is
 * exhausted.
 */
weft__gzip *weft__gzip_new(int level);

/*
 * Compress bytes and pass the output to the sink. bytes may be 0. After an error, the caller may
 * only free the compressor. Returns 0, an error of the sink, an error of weft_snooze, or:
 * -EINVAL if an earlier write has failed
 * -EINVAL if the stream has ended
 * -EINVAL if zlib fails
 */
int weft__gzip_write(weft__gzip *gz, const void *data, size_t bytes, weft__gzip_mode mode,
                     weft__gzip_sink *sink, void *ctx);

/*
 * Free a compressor, or keep it for later replies of the thread. Only the thread that created the
 * compressor may call this function. If gz is NULL, the call does nothing.
 */
void weft__gzip_free(weft__gzip *gz);

#endif

#endif
