/*
 * The memory of nghttp2. Its own functions let the fault tests make allocations of nghttp2 fail.
 *
 * In nghttp2 1.52, if memory for the queue of DATA frames is exhausted, nghttp2_submit_data frees a
 * frame, and nghttp2_session_del frees the frame again. Therefore the first block that nghttp2
 * frees after a failed realloc stays allocated until nghttp2 frees it again, or until the end.
 */
#include "http/h2/internal.h"

static void *ng_malloc(size_t bytes, void *ctx)
{
    (void)ctx;
    return malloc(bytes);
}

static void ng_free(void *data, void *ctx)
{
    weft__h2_session *s = ctx;
    if (UNLIKELY(s->has_failed_realloc) && s->freed == NULL) {
        s->freed = data;
        return;
    }
    if (UNLIKELY(s->freed != NULL) && data == s->freed)
        return;
    free(data);
}

static void *ng_calloc(size_t count, size_t bytes, void *ctx)
{
    (void)ctx;
    return calloc(count, bytes);
}

static void *ng_realloc(void *data, size_t bytes, void *ctx)
{
    weft__h2_session *s = ctx;
    void *larger = realloc(data, bytes);
    s->has_failed_realloc |= larger == NULL;
    return larger;
}

nghttp2_mem weft__h2_memory(weft__h2_session *s)
{
    return (nghttp2_mem){s, ng_malloc, ng_free, ng_calloc, ng_realloc};
}

void weft__h2_memory_release(weft__h2_session *s)
{
    free(s->freed);
    s->freed = NULL;
}
