/*
 * Opening what is below a folder. The kernel sees to it, at each step of the path, so that nobody
 * can be faster with a rename or a link; strings are not looked at, but for "..", which the
 * fallbacks would follow.
 */
#include "http/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Linux 5.12; in later headers than the call itself. */
#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

/* A path is tried again if a rename somewhere has kept the kernel from being sure of it. */
#define TRIES 16

static int open_how(int folder, const char *path, int flags, uint64_t resolve)
{
    struct open_how how = {.flags = (uint64_t)flags, .resolve = resolve};
    long fd = -1;
    for (int i = 0; i < TRIES; i++) {
        fd = syscall(SYS_openat2, folder, path, &how, sizeof how);
        if (fd >= 0 || (errno != EINTR && (errno != EAGAIN || (resolve & RESOLVE_CACHED) != 0)))
            break;
    }
    return fd >= 0 ? (int)fd : -errno;
}

weft__beneath_kind weft__beneath_choose(int folder)
{
    int fd = open_how(folder, ".", O_PATH | O_CLOEXEC, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
    if (fd < 0)
        return WEFT__BENEATH_WALK;
    close(fd);
    return WEFT__BENEATH;
}

static bool has_dots(const char *path)
{
    for (const char *at = path; (at = strstr(at, "..")) != NULL; at += 2)
        if ((at == path || at[-1] == '/') && (at[2] == '/' || at[2] == '\0'))
            return true;
    return false;
}

static int open_plain(int folder, const char *path, int flags)
{
    int fd;
    do
        fd = openat(folder, path, flags);
    while (fd < 0 && errno == EINTR);
    return fd >= 0 ? fd : -errno;
}

/* Open the next segment, which takes the place of the folder before it. */
static int step(int folder, bool is_own, const char *name, int flags)
{
    int fd = open_plain(folder, name, flags);
    if (is_own)
        close(folder);
    return fd;
}

/* Segment by segment, so that none of them is a link. */
static int walk(int root, const char *path, int flags)
{
    char name[NAME_MAX + 1];
    int folder = root;
    for (;;) {
        size_t bytes = strcspn(path, "/"), slashes = strspn(path + bytes, "/");
        const char *rest = path + bytes + slashes;
        bool is_last = *rest == '\0';
        if (bytes > NAME_MAX) {
            if (folder != root)
                close(folder);
            return -ENAMETOOLONG;
        }
        memcpy(name, path, bytes);
        name[bytes] = '\0';
        int way = is_last && slashes == 0 ? flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
        way = is_last && slashes > 0 ? flags | O_DIRECTORY : way;
        int fd = step(folder, folder != root, bytes > 0 ? name : ".", way | O_NOFOLLOW);
        if (fd < 0 || is_last)
            return fd;
        folder = fd;
        path = rest;
    }
}

/* Wherever links lead, but for those of /proc that lead into open files. */
static int open_anywhere(int folder, const char *path, int flags, uint64_t cached)
{
    int fd = open_how(folder, path, flags, RESOLVE_NO_MAGICLINKS | cached);
    if (fd != -ENOSYS && fd != -EPERM)
        return fd;
    return cached != 0 ? -EAGAIN : open_plain(folder, path, flags);
}

int weft__beneath_open(int folder, const char *path, int flags, weft__beneath_kind kind,
                       bool is_quick)
{
    const uint64_t cached = is_quick ? RESOLVE_CACHED : 0;
    path = path[0] != '\0' ? path : ".";
    flags |= O_CLOEXEC;
    if (path[0] == '/' || has_dots(path))
        return -EXDEV;
    if (kind == WEFT__BENEATH)
        return open_how(folder, path, flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | cached);
    if (kind == WEFT__BENEATH_OPEN)
        return open_anywhere(folder, path, flags, cached);
    return is_quick ? -EAGAIN : walk(folder, path, flags);
}
