/*
 * Files: the system call's arguments; the disk never blocks the cord. What is in memory is done at
 * once; the rest is the kernel's or a pool thread's work, and only the calling fiber waits. A call
 * that is cancelled while it is under way returns when it is over, with its result; one that had
 * not begun is not made.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <weft/base.h>

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

WEFT_BEGIN

/** Open a file; always close-on-exec. As open(2); the mode is only looked at with O_CREAT. */
WEFT_SWITCHPOINT int weft_open(const char *path, int flags, ...);

/** Read at an offset. As pread(2). */
WEFT_SWITCHPOINT ssize_t weft_pread(int fd, void *buffer, size_t bytes, off_t offset);

/** Write at an offset. As pwrite(2). */
WEFT_SWITCHPOINT ssize_t weft_pwrite(int fd, const void *buffer, size_t bytes, off_t offset);

WEFT_END

#endif
