/*
 * The output of a transfer. The calls of fetch_output_stop do not switch, because a signal must end
 * the command at once, whatever the other fibers do.
 */
#include "command/fetch.h"

#include "http/text/date.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_SUFFIX ".part"

/*
 * Use the bytes of an earlier run, if a file has any. Return true if the file exists and is
 * regular.
 */
static bool use_partial(fetch_output *o, const char *path)
{
    struct stat status;
    if (weft_stat(path, &status) < 0 || !S_ISREG(status.st_mode))
        return false;
    o->is_partial = status.st_size > 0;
    o->bytes = (uint64_t)status.st_size;
    o->partial_s = status.st_mtim.tv_sec;
    return true;
}

int fetch_output_open(fetch_output *o, const char *path, bool continues)
{
    struct stat status;
    char resolved[PATH_MAX];
    *o = (fetch_output){.fd = -1, .modified_s = WEFT__DATE_NONE};
    if (path == NULL || strcmp(path, "-") == 0)
        return 0;
    /* The name of a complete file replaces the target of a symbolic link, not the link. */
    bool exists = weft_stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return -EISDIR;
    o->path = strdup(exists && weft_realpath(path, resolved) == 0 ? resolved : path);
    if (o->path == NULL)
        return -ENOMEM;
    if (exists && !S_ISREG(status.st_mode)) /* a device or a FIFO */
        return 0;
    if (asprintf(&o->part, "%s" PART_SUFFIX, o->path) < 0) {
        o->part = NULL;
        return -ENOMEM;
    }
    if (!continues || use_partial(o, o->part) || !use_partial(o, o->path))
        return 0;
    free(o->part); /* append to the file itself */
    o->part = NULL;
    return 0;
}

/* Open the file for writing. A lock keeps other runs of the command from the same part. */
static int output_open_file(fetch_output *o)
{
    int flags = O_WRONLY | O_CLOEXEC | O_NOCTTY | (o->part != NULL ? O_CREAT : 0);
    o->fd = weft_open(o->part != NULL ? o->part : o->path, flags, 0666);
    if (o->fd < 0)
        return o->fd;
    struct stat status;
    /* Some file systems have no locks. */
    if (o->part != NULL && flock(o->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        weft_close(o->fd);
        o->fd = -1;
        return -EBUSY;
    }
    if (o->part != NULL && stat(o->path, &status) == 0)
        (void)fchmod(o->fd, status.st_mode & 07777); /* like the file that the part replaces */
    return 0;
}

int fetch_output_begin(fetch_output *o, uint64_t offset)
{
    o->bytes = offset;
    if (o->path == NULL)
        return 0;
    int rc = o->fd < 0 ? output_open_file(o) : 0;
    struct stat status;
    if (rc == 0 && fstat(o->fd, &status) == 0 && S_ISREG(status.st_mode)) {
        rc = weft_ftruncate(o->fd, (off_t)offset);
        if (rc == 0 && lseek(o->fd, (off_t)offset, SEEK_SET) < 0)
            rc = -errno;
    }
    return rc;
}

int fetch_output_write(fetch_output *o, const void *data, size_t bytes)
{
    ssize_t n = weft_write_all(o->path != NULL ? o->fd : STDOUT_FILENO, data, bytes);
    if (n < 0)
        return (int)n;
    o->bytes += bytes;
    return 0;
}

int fetch_output_finish(fetch_output *o)
{
    if (o->fd < 0)
        return 0;
    int fd = o->fd;
    o->fd = -1;
    int rc = weft_close(fd);
    if (rc == 0 && o->part != NULL)
        rc = weft_rename(o->part, o->path);
    return rc;
}

/* The time of the part tells --continue which version of the resource the part belongs to. */
static void output_set_time(const fetch_output *o)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = o->modified_s}};
    if (o->modified_s != WEFT__DATE_NONE)
        (void)futimens(o->fd, times);
}

const char *fetch_output_stop(fetch_output *o)
{
    struct stat status;
    if (o->fd < 0 || fstat(o->fd, &status) < 0 || !S_ISREG(status.st_mode))
        return NULL;
    o->bytes = (uint64_t)status.st_size; /* a write may be in progress, or may have failed */
    if (status.st_size == 0 && o->part != NULL) {
        (void)unlink(o->part);
        return NULL;
    }
    if (o->part != NULL)
        output_set_time(o);
    return o->part != NULL ? o->part : o->path;
}

void fetch_output_close(fetch_output *o)
{
    if (o->fd >= 0)
        weft_close(o->fd);
    free(o->path);
    free(o->part);
}
