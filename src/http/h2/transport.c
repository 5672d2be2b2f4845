/* A weft_stream over a stream of an HTTP/2 session, for extended CONNECT (RFC 8441). */
#include "http/h2/internal.h"

static ssize_t transport_read(void *ctx, void *data, size_t bytes)
{
    return weft__h2_stream_read(ctx, data, bytes);
}

static ssize_t transport_writev(void *ctx, const struct iovec *pieces, int count)
{
    ssize_t sum = 0;
    for (int i = 0; i < count; i++) {
        if (pieces[i].iov_len == 0)
            continue;
        ssize_t n = weft__h2_stream_write(ctx, pieces[i].iov_base, pieces[i].iov_len);
        if (n < 0)
            return sum > 0 ? sum : n;
        sum += n;
        if ((size_t)n < pieces[i].iov_len)
            break;
    }
    return sum;
}

static int transport_wait(void *ctx)
{
    return weft__h2_stream_wait(ctx);
}

/* End the body, and wake the fibers that read or write. */
static int transport_close(void *ctx)
{
    weft__h2_stream *st = ctx;
    int rc = weft__h2_stream_end(st);
    st->is_shut = true;
    weft_cond_broadcast(&st->readable);
    weft_cond_broadcast(&st->writable);
    return rc;
}

const weft_stream_type weft__h2_transport = {.read = transport_read,
                                             .writev = transport_writev,
                                             .close = transport_close,
                                             .wait = transport_wait};
