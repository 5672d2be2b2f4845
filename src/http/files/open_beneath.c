/*
 * Open files below a directory (open_beneath.h). The kernel checks each step of the path, so a
 * concurrent rename or link cannot bypass the check. weft__open_beneath first rejects paths with
 * "..", because the fallbacks would follow "..".
 */
#include "http/files/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * RESOLVE_CACHED requires Linux 5.12. Older headers declare openat2 (Linux 5.6) without this flag.
 */
#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/*
 * The maximum number of openat2 calls. With RESOLVE_BENEATH, openat2 fails with EAGAIN during a
 * concurrent rename.
 */
#define OPENAT2_TRIES_MAX 16

static int call_openat2(int dir_fd, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)flags, .resolve = resolve};
    long fd = -1;
    for (int i = 0; i < OPENAT2_TRIES_MAX; i++) {
        fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof how);
        if (fd >= 0 || (errno != EINTR && (errno != EAGAIN || (resolve & RESOLVE_CACHED) != 0)))
            break;
    }
    return fd >= 0 ? (int)fd : -errno;
}

weft__open_beneath_kind weft__open_beneath_choose(int dir_fd)
{
    int fd = call_openat2(dir_fd, ".", O_PATH | O_CLOEXEC, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return WEFT__OPEN_BENEATH_NO_LINKS;
    close(fd);
    return WEFT__OPEN_BENEATH;
}

static bool path_has_dot_dot(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")) != NULL; at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0'))
            return true;
    return false;
}

static int call_openat(int dir_fd, const char *path, int flags)
{
    int fd;
    do
        fd = openat(dir_fd, path, flags);
    while (fd < 0 && errno == EINTR);
    return fd >= 0 ? fd : -errno;
}

/* Open a segment of a path. If closes_dir is set, close dir_fd. */
static int open_segment(int dir_fd, bool closes_dir, const char *name, int flags)
{
    int fd = call_openat(dir_fd, name, flags);
    if (closes_dir)
        close(dir_fd);
    return fd;
}

/* Open a path segment by segment. No segment may be a symbolic link. */
static int open_by_segments(int root, const char *path, int flags)
{
    char name[NAME_MAX + 1];
    int dir_fd = root;
    for (;;) {
        size_t bytes = strcspn(path, "/"), slashes = strspn(path + bytes, "/");
        const char *rest = path + bytes + slashes;
        bool is_last = *rest == '\0';
        if (bytes > NAME_MAX) {
            if (dir_fd != root)
                close(dir_fd);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, bytes);
        name[bytes] = '\0';
        int segment_flags = is_last && slashes == 0 ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
        segment_flags = is_last && slashes > 0 ? flags | O_DIRECTORY : segment_flags;
        int fd = open_segment(dir_fd, dir_fd != root, bytes > 0 ? name : ".",
                              segment_flags | O_NOFOLLOW);
        if (fd < 0 || is_last)
            return fd;
        dir_fd = fd;
        path = rest;
    }
}

/* Open a path and follow all symbolic links, except magic links of /proc to open files. */
static int open_all_links(int dir_fd, const char *path, int flags, uint64_t cached)
{
    int fd = call_openat2(dir_fd, path, flags, RESOLVE_NO_MAGICLINKS | cached);
    if (fd != -ENOSYS && fd != -EPERM)
        return fd;
    return cached != 0 ? -EAGAIN : call_openat(dir_fd, path, flags);
}

int weft__open_beneath(int dir_fd, const char *path, int flags, weft__open_beneath_kind kind,
                       bool is_cached_only)
{
    const uint64_t cached = is_cached_only ? RESOLVE_CACHED : 0;
    path = path[0] != '\0' ? path : ".";
    flags |= O_CLOEXEC;
    if (path[0] == '/' || path_has_dot_dot(path))
        return -EXDEV;
    if (kind == WEFT__OPEN_BENEATH)
        return call_openat2(dir_fd, path, flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | cached);
    if (kind == WEFT__OPEN_BENEATH_ALL_LINKS)
        return open_all_links(dir_fd, path, flags, cached);
    return is_cached_only ? -EAGAIN : open_by_segments(dir_fd, path, flags);
}
