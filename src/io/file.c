/*
 * File calls. If the backend has an operation for a call, the call uses that operation. Otherwise a
 * worker runs the call, with arguments on the stack of the fiber. The fiber cannot abandon a call
 * that a worker runs.
 */
#include "core/op/op.h"

#include "base/libc.h"

#include <weft/file.h>
#include <weft/io.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The size of the buffer for directory entries, in bytes. */
#define ENTRIES_BYTES ((size_t)16 << 10)

static int file_open(int directory_fd, const char *path, int flags, mode_t mode)
{
    weft__op op = {
        .code = WEFT__OP_OPEN, .fd = directory_fd, .u.open = {path, flags | O_CLOEXEC, mode}};
    return (int)weft__op_run(&op);
}

/* Return whether open(2) with these flags takes a mode. */
static bool takes_mode(int flags)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

int weft_open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return file_open(AT_FDCWD, path, flags, mode);
}

int weft_openat(int folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = takes_mode(flags) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return file_open(folder, path, flags, mode);
}

/*
 * Transfer data at an offset. A negative offset is an error, because the backend would use the file
 * position instead.
 */
static ssize_t transfer_at(weft__opcode code, int fd, void *data, size_t bytes, off_t offset)
{
    weft__op op = {.code = code, .fd = fd, .u.buffer = {data, bytes, offset}};
    return offset < 0 ? -EINVAL : weft__op_run(&op);
}

ssize_t weft_pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    return transfer_at(WEFT__OP_READ, fd, buffer, bytes, offset);
}

ssize_t weft_pwrite(int fd, const void *buffer, size_t bytes, off_t offset)
{
    return transfer_at(WEFT__OP_WRITE, fd, (void *)buffer, bytes, offset);
}

static ssize_t transferv_at(weft__opcode code, int fd, const struct iovec *pieces, int count,
                            off_t offset)
{
    weft__op op = {.code = code, .fd = fd, .u.vector = {pieces, count, offset}};
    return offset < 0 ? -EINVAL : weft__op_run(&op);
}

ssize_t weft_preadv(int fd, const struct iovec *pieces, int count, off_t offset)
{
    return transferv_at(WEFT__OP_READV, fd, pieces, count, offset);
}

ssize_t weft_pwritev(int fd, const struct iovec *pieces, int count, off_t offset)
{
    return transferv_at(WEFT__OP_WRITEV, fd, pieces, count, offset);
}

static int sync_file(int fd, bool is_data_only)
{
    weft__op op = {.code = WEFT__OP_FSYNC, .fd = fd, .u.is_data_only = is_data_only};
    return (int)weft__op_run(&op);
}

int weft_fsync(int fd)
{
    return sync_file(fd, false);
}

int weft_fdatasync(int fd)
{
    return sync_file(fd, true);
}

/* A blocking call for a worker. Each kind of call uses some of the arguments. */
typedef struct call {
    intptr_t (*fn)(const struct call *c); /* negative: the error is in errno */
    int fd;
    const char *path, *other_path;
    void *out;
    size_t bytes;
    int flags;
    mode_t mode;
    uid_t owner;
    gid_t group;
    off_t offset, length;
    const struct timespec *times;
} call;

static intptr_t run_call(void *arg)
{
    const call *c = arg;
    intptr_t result = TEMP_FAILURE_RETRY(c->fn(c));
    return result < 0 ? -errno : result;
}

/*
 * Run a call in a worker. fd is the descriptor that the call uses, or -1. weft_close waits for the
 * calls that use its descriptor.
 */
static intptr_t run_in_worker(int fd, call c)
{
    c.fd = fd;
    weft__op op = {.code = WEFT__OP_CALL, .fd = fd, .u.call = {run_call, &c, NULL}};
    return weft__op_run(&op);
}

static intptr_t call_mkstemp(const call *c)
{
    return mkostemp(c->out, O_CLOEXEC);
}

static intptr_t call_stat(const call *c)
{
    return c->path != NULL ? fstatat(AT_FDCWD, c->path, c->out, c->flags) : fstat(c->fd, c->out);
}

static intptr_t call_truncate(const call *c)
{
    return c->path != NULL ? truncate(c->path, c->length) : ftruncate(c->fd, c->length);
}

static intptr_t call_fallocate(const call *c)
{
    return fallocate(c->fd, c->flags, c->offset, c->length);
}

static intptr_t call_rename(const call *c)
{
    return rename(c->path, c->other_path);
}

static intptr_t call_unlink(const call *c)
{
    return unlinkat(AT_FDCWD, c->path, c->flags);
}

static intptr_t call_mkdir(const call *c)
{
    return mkdir(c->path, c->mode);
}

static intptr_t call_link(const call *c)
{
    return link(c->path, c->other_path);
}

static intptr_t call_symlink(const call *c)
{
    return symlink(c->path, c->other_path);
}

static intptr_t call_readlink(const call *c)
{
    return readlink(c->path, c->out, c->bytes);
}

static intptr_t call_realpath(const call *c)
{
    return realpath(c->path, c->out) != NULL ? 0 : -1;
}

static intptr_t call_chmod(const call *c)
{
    return chmod(c->path, c->mode);
}

static intptr_t call_chown(const call *c)
{
    return chown(c->path, c->owner, c->group);
}

static intptr_t call_access(const call *c)
{
    return access(c->path, c->flags);
}

static intptr_t call_utimens(const call *c)
{
    return utimensat(AT_FDCWD, c->path, c->times, 0);
}

int weft_mkstemp(char *path)
{
    int fd = (int)run_in_worker(-1, (call){call_mkstemp, .out = path});
    if (fd >= 0)
        weft__fd_created(fd);
    return fd;
}

int weft_stat(const char *path, struct stat *out)
{
    return (int)run_in_worker(-1, (call){call_stat, .path = path, .out = out});
}

int weft_lstat(const char *path, struct stat *out)
{
    return (int)run_in_worker(
        -1, (call){call_stat, .path = path, .out = out, .flags = AT_SYMLINK_NOFOLLOW});
}

int weft_fstat(int fd, struct stat *out)
{
    return (int)run_in_worker(fd, (call){call_stat, .out = out});
}

int weft_truncate(const char *path, off_t bytes)
{
    return (int)run_in_worker(-1, (call){call_truncate, .path = path, .length = bytes});
}

int weft_ftruncate(int fd, off_t bytes)
{
    return (int)run_in_worker(fd, (call){call_truncate, .length = bytes});
}

int weft_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    return (int)run_in_worker(
        fd, (call){call_fallocate, .flags = mode, .offset = offset, .length = bytes});
}

int weft_rename(const char *from, const char *to)
{
    return (int)run_in_worker(-1, (call){call_rename, .path = from, .other_path = to});
}

int weft_unlink(const char *path)
{
    return (int)run_in_worker(-1, (call){call_unlink, .path = path});
}

int weft_mkdir(const char *path, mode_t mode)
{
    return (int)run_in_worker(-1, (call){call_mkdir, .path = path, .mode = mode});
}

int weft_rmdir(const char *path)
{
    return (int)run_in_worker(-1, (call){call_unlink, .path = path, .flags = AT_REMOVEDIR});
}

int weft_hardlink(const char *path, const char *name)
{
    return (int)run_in_worker(-1, (call){call_link, .path = path, .other_path = name});
}

int weft_symlink(const char *target, const char *path)
{
    return (int)run_in_worker(-1, (call){call_symlink, .path = target, .other_path = path});
}

ssize_t weft_readlink(const char *path, char *buffer, size_t bytes)
{
    return run_in_worker(-1, (call){call_readlink, .path = path, .out = buffer, .bytes = bytes});
}

int weft_realpath(const char *path, char *out)
{
    return (int)run_in_worker(-1, (call){call_realpath, .path = path, .out = out});
}

int weft_chmod(const char *path, mode_t mode)
{
    return (int)run_in_worker(-1, (call){call_chmod, .path = path, .mode = mode});
}

int weft_chown(const char *path, uid_t owner, gid_t group)
{
    return (int)run_in_worker(-1, (call){call_chown, .path = path, .owner = owner, .group = group});
}

int weft_access(const char *path, int mode)
{
    return (int)run_in_worker(-1, (call){call_access, .path = path, .flags = mode});
}

int weft_utimens(const char *path, const struct timespec times[2])
{
    return (int)run_in_worker(-1, (call){call_utimens, .path = path, .times = times});
}

/* A directory that is being read. */
typedef struct scan {
    int fd; /* -1: not open yet */
    size_t bytes;
    union {
        struct dirent64 first; /* for the alignment */
        char data[ENTRIES_BYTES];
    } entries;
} scan;

/*
 * Read the next directory entries. If the directory is not open, open the directory first. After
 * the last entry, bytes of the scan is 0.
 */
static intptr_t call_scan(const call *c)
{
    scan *s = c->out;
    if (s->fd < 0)
        s->fd = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->fd < 0)
        return -1;
    ssize_t n = getdents64(s->fd, (void *)s->entries.data, sizeof s->entries);
    s->bytes = n > 0 ? (size_t)n : 0;
    return n < 0 ? -1 : 0;
}

static int pass_entries(const scan *s, weft_on_entry *on_entry, void *ctx)
{
    int rc = 0;
    for (size_t offset = 0; offset < s->bytes && rc == 0;) {
        const struct dirent64 *e = (const void *)(s->entries.data + offset);
        offset += e->d_reclen;
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = on_entry(e->d_name, e->d_type, ctx);
    }
    return rc;
}

int weft_scan_dir(const char *path, weft_on_entry *on_entry, void *ctx)
{
    scan *s = malloc(sizeof *s);
    if (s == NULL)
        return -ENOMEM;
    s->fd = -1;
    int rc;
    do {
        s->bytes = 0;
        rc = (int)run_in_worker(-1, (call){call_scan, .path = path, .out = s});
        if (rc == 0)
            rc = pass_entries(s, on_entry, ctx);
    } while (rc == 0 && s->bytes > 0);
    if (s->fd >= 0)
        weft_close(s->fd);
    free(s);
    return rc;
}
