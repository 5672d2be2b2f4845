/*
 * Hooks of calls with paths. These calls wait for the disk, so worker threads make them. They are
 * hooked only on request (weft_adopt_options.has_files), because a worker thread takes more time
 * than a call whose data is in memory.
 *
 * A cancelled call that has not started has no effect. A call that has started is completed.
 */
#include "posix/hook.h"
#include "posix/wait.h"

#include <weft/offload.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* A call with paths. Each call uses some of the fields. */
typedef struct path_call {
    int (*real)(const struct path_call *c);
    int folder, other_folder;
    const char *path, *other_path;
    int flags;
    unsigned mode;
    void *out;
} path_call;

static weft_value path_call_run(void *arg)
{
    const path_call *c = arg;
    return c->real(c) < 0 ? -errno : 0;
}

static int path_call_offload(path_call *c)
{
    int error = errno;
    weft__hook_wait w;
    weft__hook_wait_begin(&w, WEFT__HOOK_RESTARTS, WEFT__HOOK_FOREVER);
    HOOK_COUNT(offloads);
    weft_value rc = weft_offload_with(path_call_run, c, &(weft_offload_options){.is_kept = true});
    rc = weft__hook_wait_end(&w, rc);
    errno = error;
    return (int)weft__hook_result(rc);
}

/* Define a hook that makes its real call in a worker thread. fields initialises a path_call. */
#define PATH_HOOK(name, parameters, call, ...)                         \
    static int real_##name(const path_call *c)                         \
    {                                                                  \
        return REAL(name) call;                                        \
    }                                                                  \
    HOOK_DEFINE(int, name, parameters)                                 \
    {                                                                  \
        path_call call_of_##name = {.real = real_##name, __VA_ARGS__}; \
        return weft__hook_is_on() ? path_call_offload(&call_of_##name) \
                                  : real_##name(&call_of_##name);      \
    }

/* clang-format off */
PATH_HOOK(stat, (const char *path, struct stat *out), (c->path, c->out), .path = path, .out = out)
PATH_HOOK(stat64, (const char *path, struct stat64 *out), (c->path, c->out),
          .path = path, .out = out)
PATH_HOOK(lstat, (const char *path, struct stat *out), (c->path, c->out), .path = path, .out = out)
PATH_HOOK(lstat64, (const char *path, struct stat64 *out), (c->path, c->out),
          .path = path, .out = out)
PATH_HOOK(fstatat, (int folder, const char *path, struct stat *out, int flags),
          (c->folder, c->path, c->out, c->flags),
          .folder = folder, .path = path, .out = out, .flags = flags)
PATH_HOOK(fstatat64, (int folder, const char *path, struct stat64 *out, int flags),
          (c->folder, c->path, c->out, c->flags),
          .folder = folder, .path = path, .out = out, .flags = flags)
PATH_HOOK(statx, (int folder, const char *path, int flags, unsigned mask, struct statx *out),
          (c->folder, c->path, c->flags, c->mode, c->out),
          .folder = folder, .path = path, .flags = flags, .mode = mask, .out = out)
PATH_HOOK(unlink, (const char *path), (c->path), .path = path)
PATH_HOOK(unlinkat, (int folder, const char *path, int flags), (c->folder, c->path, c->flags),
          .folder = folder, .path = path, .flags = flags)
PATH_HOOK(rmdir, (const char *path), (c->path), .path = path)
PATH_HOOK(mkdir, (const char *path, mode_t mode), (c->path, c->mode), .path = path, .mode = mode)
PATH_HOOK(mkdirat, (int folder, const char *path, mode_t mode), (c->folder, c->path, c->mode),
          .folder = folder, .path = path, .mode = mode)
PATH_HOOK(rename, (const char *path, const char *other), (c->path, c->other_path),
          .path = path, .other_path = other)
PATH_HOOK(renameat, (int folder, const char *path, int other_folder, const char *other),
          (c->folder, c->path, c->other_folder, c->other_path),
          .folder = folder, .path = path, .other_folder = other_folder, .other_path = other)
PATH_HOOK(renameat2,
          (int folder, const char *path, int other_folder, const char *other, unsigned flags),
          (c->folder, c->path, c->other_folder, c->other_path, c->mode),
          .folder = folder, .path = path, .other_folder = other_folder, .other_path = other,
          .mode = flags)
/* clang-format on */
