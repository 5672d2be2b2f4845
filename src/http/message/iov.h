/* Spans of bytes for writev(2). */
#ifndef WEFT_HTTP_MESSAGE_IOV_H
#define WEFT_HTTP_MESSAGE_IOV_H

#include <stddef.h>
#include <sys/uio.h>

/* Return the number of bytes of all spans. */
static inline size_t weft__iov_bytes(const struct iovec *iov, int count)
{
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

/* Remove the first bytes of the spans. */
static inline void weft__iov_advance(struct iovec *iov, int count, size_t bytes)
{
    for (int i = 0; i < count && bytes > 0; i++) {
        size_t taken = bytes < iov[i].iov_len ? bytes : iov[i].iov_len;
        iov[i] = (struct iovec){(char *)iov[i].iov_base + taken, iov[i].iov_len - taken};
        bytes -= taken;
    }
}

#endif
