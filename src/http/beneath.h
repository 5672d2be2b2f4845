/* Opening what is below a folder, and nothing else: whatever the path and the links in it say. */
#ifndef WEFT_HTTP_BENEATH_H
#define WEFT_HTTP_BENEATH_H

#include <stdbool.h>

/* How. */
typedef enum weft__beneath_kind {
    WEFT__BENEATH,      /* symbolic links are followed as long as they stay below the folder */
    WEFT__BENEATH_WALK, /* symbolic links are not followed: where the kernel lacks openat2(2) */
    WEFT__BENEATH_OPEN, /* symbolic links are followed wherever they lead; the path stays below */
} weft__beneath_kind;

/* WEFT__BENEATH if the kernel can do it and lets us, else WEFT__BENEATH_WALK. */
weft__beneath_kind weft__beneath_choose(int folder);

/*
 * As openat(2); the path is relative, "" is the folder itself. Blocks, unless is_quick: then
 * -EAGAIN if the disk would have to be asked, or the kernel cannot tell. What leads out is -EXDEV
 * or -ELOOP.
 */
int weft__beneath_open(int folder, const char *path, int flags, weft__beneath_kind kind,
                       bool is_quick);

#endif
