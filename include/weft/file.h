/*
 * Files: the system call's arguments; the disk never blocks the cord. What is in memory is done at
 * once; the rest is the kernel's or a pool thread's work, and only the calling fiber waits.
 *
 * A call that is cancelled while it is under way returns when it is over, with its result; one that
 * had not begun is not made. (An open that has to wait, for the other end of a FIFO, is given up,
 * unless it may make or empty a file.) On the sim backend all of it blocks the thread.
 *
 * "As mkdir(2)" means its arguments and its errors, as negative numbers.
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
 * Open a file; always close-on-exec. As open(2); the mode is only looked at if a file may be made
 * (O_CREAT, O_TMPFILE). Closed with weft_close.
 */
WEFT_SWITCHPOINT int weft_open(const char *path, int flags, ...) WEFT_MUST_CHECK;

/** Open a file below a folder; always close-on-exec. As openat(2). */
WEFT_SWITCHPOINT int weft_openat(int folder, const char *path, int flags, ...) WEFT_MUST_CHECK;

/**
 * Make and open a file with a name that nobody has: path ends in "XXXXXX", which is replaced. As
 * mkstemp(3), close-on-exec.
 */
WEFT_SWITCHPOINT int weft_mkstemp(char *path) WEFT_MUST_CHECK;

/** Read at an offset; 0 at the end of the file. As pread(2). */
WEFT_SWITCHPOINT ssize_t weft_pread(int fd, void *buffer, size_t bytes,
                                    off_t offset) WEFT_MUST_CHECK;

/** Write at an offset; may write fewer. As pwrite(2). */
WEFT_SWITCHPOINT ssize_t weft_pwrite(int fd, const void *buffer, size_t bytes, off_t offset);

/** Read at an offset into several buffers in a row. As preadv(2). */
WEFT_SWITCHPOINT ssize_t weft_preadv(int fd, const struct iovec *pieces, int count,
                                     off_t offset) WEFT_MUST_CHECK;

/** Write several buffers in a row at an offset; may write fewer bytes. As pwritev(2). */
WEFT_SWITCHPOINT ssize_t weft_pwritev(int fd, const struct iovec *pieces, int count, off_t offset);

/** Wait until all that was written is on the disk. As fsync(2). */
WEFT_SWITCHPOINT int weft_fsync(int fd);

/** The same, without what reading the data does not need. As fdatasync(2). */
WEFT_SWITCHPOINT int weft_fdatasync(int fd);

/** What a file is; a symbolic link is followed. As stat(2). */
WEFT_SWITCHPOINT int weft_stat(const char *path, struct stat *out);

/** The same; a symbolic link is not followed. As lstat(2). */
WEFT_SWITCHPOINT int weft_lstat(const char *path, struct stat *out);

/** What an open file is. As fstat(2). */
WEFT_SWITCHPOINT int weft_fstat(int fd, struct stat *out);

/** Set a file's size; what is new is zero. As truncate(2). */
WEFT_SWITCHPOINT int weft_truncate(const char *path, off_t bytes);

/** Set an open file's size. As ftruncate(2). */
WEFT_SWITCHPOINT int weft_ftruncate(int fd, off_t bytes);

/** Get room on the disk, or give it back, as mode says. As fallocate(2). */
WEFT_SWITCHPOINT int weft_fallocate(int fd, int mode, off_t offset, off_t bytes);

/** Give a file another name; one that has that name already is replaced. As rename(2). */
WEFT_SWITCHPOINT int weft_rename(const char *from, const char *to);

/** Remove a file's name. As unlink(2). */
WEFT_SWITCHPOINT int weft_unlink(const char *path);

/** Make a folder. As mkdir(2). */
WEFT_SWITCHPOINT int weft_mkdir(const char *path, mode_t mode);

/** Remove an empty folder. As rmdir(2). */
WEFT_SWITCHPOINT int weft_rmdir(const char *path);

/** Give a file one more name. As link(2). */
WEFT_SWITCHPOINT int weft_hardlink(const char *path, const char *name);

/** Make a symbolic link. As symlink(2). */
WEFT_SWITCHPOINT int weft_symlink(const char *target, const char *path);

/** What a symbolic link says, without a zero at its end; returns how many bytes. As readlink(2). */
WEFT_SWITCHPOINT ssize_t weft_readlink(const char *path, char *buffer, size_t bytes);

/** The path without symbolic links and dots; out has room for PATH_MAX. As realpath(3). */
WEFT_SWITCHPOINT int weft_realpath(const char *path, char *out);

/** Set what may be done with a file. As chmod(2). */
WEFT_SWITCHPOINT int weft_chmod(const char *path, mode_t mode);

/** Set a file's owner and group; -1 leaves one as it is. As chown(2). */
WEFT_SWITCHPOINT int weft_chown(const char *path, uid_t owner, gid_t group);

/** May the process do this (R_OK, W_OK, X_OK, F_OK)? 0 if so. As access(2). */
WEFT_SWITCHPOINT int weft_access(const char *path, int mode);

/** Set the times of the last access and change; NULL: now. As utimensat(2). */
WEFT_SWITCHPOINT int weft_utimens(const char *path, const struct timespec times[2]);

/**
 * What weft_scan_dir calls for each entry. type is DT_REG, DT_DIR, ... of <dirent.h>, DT_UNKNOWN
 * where the file system does not tell. It may block. Other than 0 ends the scan.
 */
typedef int weft_on_entry(const char *name, int type, void *ctx);

/**
 * Call on_entry for every entry of a folder but "." and "..", in no order. Returns 0, or what
 * on_entry returned, or an error as opendir(3).
 */
WEFT_SWITCHPOINT int weft_scan_dir(const char *path, weft_on_entry *on_entry, void *ctx);

/**
 * Wait until the file at this path is changed, replaced, made or removed; a folder changes with
 * its entries. The folder that it is in has to be there and readable. Returns 1 if the file is
 * there now, 0 if it is not.
 *
 * With known nothing is missed between two calls: it holds what the caller knows of the file, from
 * weft_stat or this call, all-zero for a file that is not there. If the file is not like that any
 * more, the call returns at once; it leaves what is there now. NULL: waits for what happens from
 * now on.
 *
 * -ENOENT: there is no such folder. -ENOSPC, -EMFILE: the user has too many watches.
 */
WEFT_SWITCHPOINT int weft_wait_change(const char *path, struct stat *known);

WEFT_END

#endif
