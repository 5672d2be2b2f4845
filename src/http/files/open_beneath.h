/*
 * Open files below a directory. Neither a path nor a symbolic link can lead to other files, except
 * with WEFT__OPEN_BENEATH_ALL_LINKS.
 */
#ifndef WEFT_HTTP_FILES_OPEN_BENEATH_H
#define WEFT_HTTP_FILES_OPEN_BENEATH_H

#include <stdbool.h>

/* The treatment of symbolic links. */
typedef enum weft__open_beneath_kind {
    WEFT__OPEN_BENEATH, /* follow links that remain below the directory; needs openat2(2) */
    WEFT__OPEN_BENEATH_NO_LINKS,  /* follow no links; for kernels without openat2(2) */
    WEFT__OPEN_BENEATH_ALL_LINKS, /* follow all links, even to files outside of the directory */
} weft__open_beneath_kind;

/* Return WEFT__OPEN_BENEATH if openat2(2) works, else WEFT__OPEN_BENEATH_NO_LINKS. */
weft__open_beneath_kind weft__open_beneath_choose(int dir_fd);

/*
 * Like openat(2), but with a relative path below the directory. If path is "", the call opens the
 * directory itself. The call blocks, unless is_cached_only is set. Returns a descriptor, an error
 * of openat(2), or:
 * -EAGAIN if is_cached_only is set and the kernel lacks support
 * -EAGAIN if is_cached_only is set and the kernel needs the disk
 * -ELOOP if kind forbids following a link
 * -EXDEV if the path or a link leads out of the directory
 */
int weft__open_beneath(int dir_fd, const char *path, int flags, weft__open_beneath_kind kind,
                       bool is_cached_only);

#endif
