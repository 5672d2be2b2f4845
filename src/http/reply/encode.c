/*
 * The compression of a reply, and the headers that depend on the compression. Without zlib, the
 * functions pass the body through.
 */
#include "http/reply/reply.h"

#include <weft/error.h>

#include <stdio.h>

#ifdef WEFT_HAS_GZIP

static int gzip_sink(void *ctx, const void *data, size_t bytes)
{
    return weft__reply_write_encoded(ctx, data, bytes);
}

/*
 * Make the ETag weak, because the compressed bytes differ from the original bytes (RFC 9110,
 * 8.8.3).
 */
static int weaken_etag(weft_http_request *r)
{
    const char *etag = weft__reply_field_of(r, "ETag");
    const char *prefix = etag != NULL ? weft__gzip_etag_prefix(etag) : "";
    if (prefix[0] == '\0')
        return 0;
    size_t bytes = strlen(etag) + strlen(prefix) + 1;
    char *weak = weft__arena_alloc(r->arena, bytes);
    if (weak == NULL)
        return -ENOMEM;
    snprintf(weak, bytes, "%s%s", prefix, etag);
    return weft_http_set(r, "ETag", weak);
}

static int apply_gzip(weft_http_request *r)
{
    int rc = weft_http_set(r, "Content-Encoding", "gzip");
    if (rc == 0)
        rc = weaken_etag(r);
    if (rc < 0)
        return rc;
    if (!r->is_bodiless)
        r->gzip = weft__gzip_new(r->server->options.gzip_level);
    if (!r->is_bodiless && r->gzip == NULL)
        return -ENOMEM;
    r->encoding = "gzip";
    r->length = -1;
    return 0;
}

int weft__reply_encode(weft_http_request *r)
{
    /* A rejected request may have no head. */
    if (r->server->options.gzip_level == 0 || r->head.text == NULL || r->is_proxied)
        return 0;
    const char *type = weft__reply_field_of(r, "Content-Type");
    const weft__gzip_candidate reply = {
        .status = r->status,
        .length = r->length,
        .type = r->type != NULL ? r->type : type,
        .encoding = weft__reply_field_of(r, "Content-Encoding"),
        .cache_control = weft__reply_field_of(r, "Cache-Control"),
        .accept = weft_http_header(r, "Accept-Encoding"),
    };
    weft__gzip_choice choice = weft__gzip_choose(&reply);
    int rc = choice != WEFT__GZIP_NEVER ? weft__reply_add_vary(r) : 0;
    return rc == 0 && choice == WEFT__GZIP_APPLIES ? apply_gzip(r) : rc;
}

int weft__reply_encode_write(weft_http_request *r, const void *data, size_t bytes)
{
    if (r->gzip == NULL)
        return weft__reply_write_encoded(r, data, bytes);
    return weft__gzip_write(r->gzip, data, bytes, WEFT__GZIP_MORE, gzip_sink, r);
}

int weft__reply_encode_flush(weft_http_request *r)
{
    return r->gzip == NULL ? 0 : weft__gzip_write(r->gzip, NULL, 0, WEFT__GZIP_FLUSH, gzip_sink, r);
}

int weft__reply_encode_end(weft_http_request *r)
{
    return r->gzip == NULL ? 0 : weft__gzip_write(r->gzip, NULL, 0, WEFT__GZIP_END, gzip_sink, r);
}

void weft__reply_encode_drop(weft_http_request *r)
{
    weft__gzip_free(r->gzip);
    r->gzip = NULL;
}

#else

int weft__reply_encode(weft_http_request *r)
{
    (void)r;
    return 0;
}

int weft__reply_encode_write(weft_http_request *r, const void *data, size_t bytes)
{
    return weft__reply_write_encoded(r, data, bytes);
}

int weft__reply_encode_flush(weft_http_request *r)
{
    (void)r;
    return 0;
}

int weft__reply_encode_end(weft_http_request *r)
{
    (void)r;
    return 0;
}

void weft__reply_encode_drop(weft_http_request *r)
{
    (void)r;
}

#endif
