/*
 * Files: system calls that block only the calling fiber.
 *
 * A call on data in memory completes at once. In all other cases, the kernel or a worker thread
 * does the work, and only the calling fiber waits. A slow disk therefore does not block other
 * fibers. On the sim backend (io.h), all calls block the thread.
 *
 * A call that is cancelled before it starts has no effect. A cancelled call in progress completes
 * and returns its own result, with two exceptions. Cancellation ends the wait of weft_wait_change.
 * Cancellation also aborts an open that waits for the peer of a FIFO, unless flags contains O_CREAT
 * or O_TRUNC.
 *
 * The comment of a call names a manual page. The page describes the arguments, the results and the
 * errors. Calls return errors as negative errno values.
 */
#ifndef WEFT_FILE_H
#define WEFT_FILE_H

#include <weft/base.h>

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

WEFT_BEGIN

/**
 * Open a file. See open(2).
 *
 * The descriptor is close-on-exec. The call reads the mode argument only if flags contains O_CREAT
 * or O_TMPFILE. Close the descriptor with weft_close.
 */
WEFT_SWITCHPOINT int weft_open(const char *path, int flags, ...) WEFT_MUST_CHECK;

/**
 * Open a file relative to a directory. See openat(2).
 *
 * folder is a descriptor of the directory, or AT_FDCWD. The returned descriptor is close-on-exec.
 * The call reads the mode argument only if flags contains O_CREAT or O_TMPFILE. Close the returned
 * descriptor with weft_close.
 */
WEFT_SWITCHPOINT int weft_openat(int folder, const char *path, int flags, ...) WEFT_MUST_CHECK;

/**
 * Create and open a file with a unique name. See mkstemp(3).
 *
 * path must end in "XXXXXX". The call replaces these characters. The descriptor is close-on-exec.
 */
WEFT_SWITCHPOINT int weft_mkstemp(char *path) WEFT_MUST_CHECK;

/**
 * Read from a file at an offset.
 *
 * Returns the number of bytes read, 0 at the end of the file, or an error of pread(2).
 */
WEFT_SWITCHPOINT ssize_t weft_pread(int fd, void *buffer, size_t bytes,
                                    off_t offset) WEFT_MUST_CHECK;

/**
 * Write to a file at an offset.
 *
 * The call may write fewer bytes than requested. Returns the number of bytes written, or an error
 * of pwrite(2).
 */
WEFT_SWITCHPOINT ssize_t weft_pwrite(int fd, const void *buffer, size_t bytes, off_t offset);

/**
 * Read from a file at an offset into several buffers.
 *
 * Returns the number of bytes read, 0 at the end of the file, or an error of preadv(2).
 */
WEFT_SWITCHPOINT ssize_t weft_preadv(int fd, const struct iovec *pieces, int count,
                                     off_t offset) WEFT_MUST_CHECK;

/**
 * Write several buffers to a file at an offset.
 *
 * The call may write fewer bytes than requested. Returns the number of bytes written, or an error
 * of pwritev(2).
 */
WEFT_SWITCHPOINT ssize_t weft_pwritev(int fd, const struct iovec *pieces, int count, off_t offset);

/** Wait until the data and the metadata of a file are on the disk. See fsync(2). */
WEFT_SWITCHPOINT int weft_fsync(int fd);

/** Like weft_fsync, but without metadata that reads do not need. See fdatasync(2). */
WEFT_SWITCHPOINT int weft_fdatasync(int fd);

/** Get the status of a file. The call follows symbolic links. See stat(2). */
WEFT_SWITCHPOINT int weft_stat(const char *path, struct stat *out);

/** Like weft_stat, but without following a symbolic link. See lstat(2). */
WEFT_SWITCHPOINT int weft_lstat(const char *path, struct stat *out);

/** Get the status of an open file. See fstat(2). */
WEFT_SWITCHPOINT int weft_fstat(int fd, struct stat *out);

/** Set the size of a file. Added bytes are 0. See truncate(2). */
WEFT_SWITCHPOINT int weft_truncate(const char *path, off_t bytes);

/** Set the size of an open file. Added bytes are 0. See ftruncate(2). */
WEFT_SWITCHPOINT int weft_ftruncate(int fd, off_t bytes);

/** Allocate or free disk space of a file. See fallocate(2). */
WEFT_SWITCHPOINT int weft_fallocate(int fd, int mode, off_t offset, off_t bytes);

/** Rename a file. The call replaces an existing file with the new name. See rename(2). */
WEFT_SWITCHPOINT int weft_rename(const char *from, const char *to);

/** Remove a name of a file. See unlink(2). */
WEFT_SWITCHPOINT int weft_unlink(const char *path);

/** Create a directory. See mkdir(2). */
WEFT_SWITCHPOINT int weft_mkdir(const char *path, mode_t mode);

/** Remove an empty directory. See rmdir(2). */
WEFT_SWITCHPOINT int weft_rmdir(const char *path);

/** Add a name to a file. See link(2). */
WEFT_SWITCHPOINT int weft_hardlink(const char *path, const char *name);

/** Create a symbolic link. See symlink(2). */
WEFT_SWITCHPOINT int weft_symlink(const char *target, const char *path);

/**
 * Read the target of a symbolic link.
 *
 * The call appends no NUL. Returns the number of bytes stored, or an error of readlink(2).
 */
WEFT_SWITCHPOINT ssize_t weft_readlink(const char *path, char *buffer, size_t bytes);

/**
 * Get the absolute path of a file without symbolic links.
 *
 * The result contains no "." and no "..". out must have space for PATH_MAX bytes. Returns 0, or an
 * error of realpath(3).
 */
WEFT_SWITCHPOINT int weft_realpath(const char *path, char *out);

/** Set the permissions of a file. See chmod(2). */
WEFT_SWITCHPOINT int weft_chmod(const char *path, mode_t mode);

/** Set the owner and the group of a file. An id of -1 changes nothing. See chown(2). */
WEFT_SWITCHPOINT int weft_chown(const char *path, uid_t owner, gid_t group);

/**
 * Check whether the process may access a file.
 *
 * mode is F_OK, or a combination of R_OK, W_OK and X_OK. Returns 0 if access is allowed, or an
 * error of access(2).
 */
WEFT_SWITCHPOINT int weft_access(const char *path, int mode);

/**
 * Set the access and modification times of a file. See utimensat(2).
 *
 * If times is NULL, the call sets both times to the current time.
 */
WEFT_SWITCHPOINT int weft_utimens(const char *path, const struct timespec times[2]);

/**
 * The callback of weft_scan_dir for one entry of the directory.
 *
 * type is DT_REG, DT_DIR or another constant of <dirent.h>. type is DT_UNKNOWN if the file system
 * does not report types. The callback may block. A nonzero result ends the scan.
 */
typedef int weft_on_entry(const char *name, int type, void *ctx);

/**
 * Call on_entry for each entry of a directory.
 *
 * The call skips "." and "..". The order is unspecified. Returns 0, the nonzero result of on_entry,
 * or an error of opendir(3) or readdir(3).
 */
WEFT_SWITCHPOINT int weft_scan_dir(const char *path, weft_on_entry *on_entry, void *ctx);

/**
 * Wait until the file at a path changes.
 *
 * A file changes when it is created, modified, replaced or removed, or its attributes change. A
 * directory changes with its entries. The directory that contains the file must exist and be
 * readable.
 *
 * Pass the last known status of the file in *known. The call then misses no change since that
 * status. The status is a result of weft_stat or of this call. An all-zero status means that the
 * file does not exist. If the file differs from *known, the call returns at once. The call stores
 * the current status in *known. If known is NULL, the call waits for the next change.
 *
 * Returns 1 if the file exists, 0 if the file does not exist, an error of stat(2), or:
 * -EACCES if the directory is not readable
 * -EMFILE if the process has too many descriptors
 * -EMFILE if the user has too many inotify instances
 * -ENOENT if the directory does not exist
 * -ENOMEM if memory is exhausted
 * -ENOSPC if the user has too many inotify watches
 */
WEFT_SWITCHPOINT int weft_wait_change(const char *path, struct stat *known);

WEFT_END

#endif
