/* Reading from files on disk, for the hooks of read and pread. */
#ifndef WEFT_POSIX_IO_READ_H
#define WEFT_POSIX_IO_READ_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/* The current position of the file. */
#define WEFT__READ_CURRENT (-1)

/*
 * Read from a file on disk. Returns as preadv(2): -1 and errno on failure. As the kernel does, read
 * fewer bytes than requested only at the end of the file, if the rest fails, or if the file does
 * not support RWF_NOWAIT. The hooks must be on. (pread.c)
 */
ssize_t weft__read_disk(int fd, const struct iovec *pieces, size_t count, int64_t offset);

/* The hook of readv. (read.c) */
__attribute__((visibility("default"))) ssize_t weft__hook_readv(int fd, const struct iovec *pieces,
                                                                int count);

#endif
