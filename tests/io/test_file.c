/* Tests of file calls in a temporary folder. Each call behaves as its system call. */
#include "support/suite.h"

#include <fcntl.h>
#include <limits.h>

#define FILES 300

static char folder[] = "/tmp/weft-file-XXXXXX";

static const char *in_folder(const char *name)
{
    return format("%s/%s", folder, name);
}

static void make_test_folder(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static int remove_entry(const char *name, int type, void *ctx)
{
    (void)ctx;
    return type == DT_DIR ? weft_rmdir(in_folder(name)) : weft_unlink(in_folder(name));
}

static void remove_test_folder(void)
{
    ck_assert_int_eq(weft_scan_dir(folder, remove_entry, NULL), 0);
    ck_assert_int_eq(weft_rmdir(folder), 0);
}

FIXTURE(make_test_folder, remove_test_folder)

static int open_new(const char *name)
{
    int fd = weft_open(in_folder(name), O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void make_empty_file(const char *name)
{
    ck_assert_int_eq(weft_close(open_new(name)), 0);
}

/* P60 */
TEST(data_written_at_an_offset_is_read_there_and_0_is_the_end)
{
    int fd = open_new("a");
    char data[16];
    ck_assert_int_eq(weft_pwrite(fd, "hello", 5, 10), 5);
    ck_assert_int_eq(weft_pread(fd, data, sizeof data, 0), 15);
    ck_assert_mem_eq(data, "\0\0\0\0\0\0\0\0\0\0hello", 15);
    ck_assert_int_eq(weft_pread(fd, data, 3, 11), 3);
    ck_assert_mem_eq(data, "ell", 3);
    ck_assert_int_eq(weft_pread(fd, data, sizeof data, 12), 3);
    ck_assert_mem_eq(data, "llo", 3);
    ck_assert_int_eq(weft_pread(fd, data, sizeof data, 15), 0);
    ck_assert_int_eq(weft_pread(fd, data, sizeof data, 1 << 20), 0);
    ck_assert_int_eq(weft_read(fd, data, 12), 12); /* the file position is unchanged */
    ck_assert_int_eq(weft_read(fd, data, 12), 3);
    ck_assert_mem_eq(data, "llo", 3);
    ck_assert_int_eq(weft_read(fd, data, 12), 0);
    ck_assert_int_eq(weft_pread(fd, data, 1, -1), -EINVAL);
    ck_assert_int_eq(weft_pwrite(fd, data, 1, -1), -EINVAL);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_pread(fd, data, 1, 0), -EBADF);
    int pipe_fd[2]; /* has no offsets */
    ck_assert_int_eq(pipe(pipe_fd), 0);
    ck_assert_int_eq(weft_pread(pipe_fd[0], data, 1, 0), -ESPIPE);
    ck_assert_int_eq(weft_pwrite(pipe_fd[1], data, 1, 0), -ESPIPE);
    ck_assert_int_eq(weft_fsync(pipe_fd[0]), -EINVAL);
}

/* P60 */
TEST(appended_data_follows_the_existing_data)
{
    int fd = open_new("a");
    int end = weft_open(in_folder("a"), O_WRONLY | O_APPEND);
    char data[16];
    ck_assert_int_eq(weft_write(end, "one", 3), 3);
    ck_assert_int_eq(weft_pwrite(fd, "two", 3, 3), 3);
    ck_assert_int_eq(weft_write(end, "three", 5), 5);
    ck_assert_int_eq(weft_pread(fd, data, sizeof data, 0), 11);
    ck_assert_mem_eq(data, "onetwothree", 11);
}

TEST(several_buffers_are_transferred_in_order_at_an_offset)
{
    int fd = open_new("a");
    char one[3], two[8];
    struct iovec out[] = {{(void *)"abc", 3}, {(void *)"", 0}, {(void *)"defgh", 5}};
    struct iovec into[] = {{one, sizeof one}, {two, sizeof two}};
    ck_assert_int_eq(weft_pwritev(fd, out, 3, 2), 8);
    ck_assert_int_eq(weft_preadv(fd, into, 2, 3), 7);
    ck_assert_mem_eq(one, "bcd", 3);
    ck_assert_mem_eq(two, "efgh", 4);
    ck_assert_int_eq(weft_preadv(fd, into, 2, 10), 0);
    ck_assert_int_eq(weft_preadv(fd, into, 2, -1), -EINVAL);
    ck_assert_int_eq(weft_pwritev(fd, out, 3, -1), -EINVAL);
    ck_assert_int_eq(weft_preadv(fd, into, -1, 0), -EINVAL);
}

TEST(open_applies_flags_and_mode_and_sets_close_on_exec)
{
    umask(0);
    ck_assert_int_eq(weft_open(in_folder("a"), O_RDWR), -ENOENT);
    int fd = weft_open(in_folder("a"), O_RDWR | O_CREAT, 0640);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    struct stat status;
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0640);
    ck_assert_int_eq(weft_write(fd, "x", 1), 1);
    ck_assert_int_eq(weft_open(in_folder("a"), O_RDWR | O_CREAT | O_EXCL, 0600), -EEXIST);
    weft_close(fd);
    fd = weft_open(in_folder("a"), O_RDONLY);
    ck_assert_int_eq(weft_write(fd, "x", 1), -EBADF);
    weft_close(fd);
    weft_close(weft_open(in_folder("a"), O_WRONLY | O_TRUNC));
    ck_assert_int_eq(weft_stat(in_folder("a"), &status), 0);
    ck_assert_int_eq(status.st_size, 0);
}

static const char *null_path(void)
{
    return NULL;
}

TEST(openat_starts_at_a_folder_and_a_null_path_gives_EFAULT)
{
    ck_assert_int_eq(weft_open(null_path(), O_RDONLY), -EFAULT);
    ck_assert_int_eq(weft_openat(0, null_path(), O_RDONLY), -EFAULT);
    int at = weft_open(folder, O_RDONLY | O_DIRECTORY);
    int fd = weft_openat(at, "a", O_WRONLY | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    weft_close(fd);
    ck_assert_int_eq(weft_access(in_folder("a"), F_OK), 0);
    fd = weft_openat(at, in_folder("a"), O_RDONLY); /* the folder is ignored for an absolute path */
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_openat(fd, "b", O_RDONLY), -ENOTDIR);
    weft_close(fd);
    weft_close(at);
    ck_assert_int_eq(weft_openat(at, "a", O_RDONLY), -EBADF);
}

TEST(names_can_be_created_renamed_and_removed)
{
    char text[PATH_MAX];
    struct stat one, two;
    ck_assert_int_eq(weft_mkdir(in_folder("d"), 0700), 0);
    ck_assert_int_eq(weft_mkdir(in_folder("d"), 0700), -EEXIST);
    make_empty_file("d/a");
    ck_assert_int_eq(weft_rmdir(in_folder("d")), -ENOTEMPTY);
    ck_assert_int_eq(weft_rename(in_folder("d/a"), in_folder("b")), 0);
    ck_assert_int_eq(weft_rename(in_folder("d/a"), in_folder("b")), -ENOENT);
    ck_assert_int_eq(weft_hardlink(in_folder("b"), in_folder("c")), 0);
    ck_assert_int_eq(weft_hardlink(in_folder("b"), in_folder("c")), -EEXIST);
    ck_assert_int_eq(weft_stat(in_folder("c"), &one), 0);
    ck_assert_uint_eq(one.st_nlink, 2);
    ck_assert_int_eq(weft_symlink("d/../b", in_folder("s")), 0);
    ck_assert_int_eq(weft_readlink(in_folder("s"), text, sizeof text), 6);
    ck_assert_mem_eq(text, "d/../b", 6);
    ck_assert_int_eq(weft_readlink(in_folder("s"), text, 3), 3);
    ck_assert_int_eq(weft_readlink(in_folder("b"), text, 3), -EINVAL);
    ck_assert_int_eq(weft_lstat(in_folder("s"), &two), 0);
    ck_assert(S_ISLNK(two.st_mode));
    ck_assert_int_eq(weft_stat(in_folder("s"), &two), 0);
    ck_assert_uint_eq(two.st_ino, one.st_ino);
    ck_assert_int_eq(weft_realpath(in_folder("s"), text), 0);
    ck_assert_str_eq(text, in_folder("b"));
    ck_assert_int_eq(weft_realpath(in_folder("d/a"), text), -ENOENT);
    ck_assert_int_eq(weft_unlink(in_folder("c")), 0);
    ck_assert_int_eq(weft_unlink(in_folder("c")), -ENOENT);
    ck_assert_int_eq(weft_unlink(in_folder("d")), -EISDIR);
    ck_assert_int_eq(weft_rmdir(in_folder("d")), 0);
    ck_assert_int_eq(weft_stat(in_folder("d"), &one), -ENOENT);
}

TEST(size_mode_owner_and_times_of_a_file_can_be_set)
{
    struct stat status;
    int fd = open_new("a");
    ck_assert_int_eq(weft_ftruncate(fd, 100), 0);
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_int_eq(status.st_size, 100);
    ck_assert_int_eq(weft_truncate(in_folder("a"), 10), 0);
    ck_assert_int_eq(weft_truncate(in_folder("b"), 10), -ENOENT);
    ck_assert_int_eq(weft_ftruncate(fd, -1), -EINVAL);
    int rc = weft_fallocate(fd, 0, 0, 50);
    ck_assert(rc == 0 || rc == -EOPNOTSUPP);
    ck_assert_int_eq(weft_fallocate(fd, 0, 0, 0), -EINVAL);
    ck_assert_int_eq(weft_stat(in_folder("a"), &status), 0);
    ck_assert_int_eq(status.st_size, rc == 0 ? 50 : 10);
    ck_assert_int_eq(weft_fsync(fd), 0);
    ck_assert_int_eq(weft_fdatasync(fd), 0);
    ck_assert_int_eq(weft_chmod(in_folder("a"), 0444), 0);
    ck_assert_int_eq(weft_chown(in_folder("a"), getuid(), (gid_t)-1), 0);
    ck_assert_int_eq(weft_access(in_folder("a"), R_OK), 0);
    ck_assert_int_eq(weft_access(in_folder("a"), X_OK), -EACCES);
    ck_assert_int_eq(weft_access(in_folder("b"), F_OK), -ENOENT);
    struct timespec times[2] = {{1000, 1}, {2000, 2}};
    ck_assert_int_eq(weft_utimens(in_folder("a"), times), 0);
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0444);
    ck_assert_int_eq(status.st_mtim.tv_sec, 2000);
    ck_assert_int_eq(weft_utimens(in_folder("a"), NULL), 0);
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_int_gt(status.st_mtim.tv_sec, 2000);
    weft_close(fd);
    ck_assert_int_eq(weft_fstat(fd, &status), -EBADF);
    ck_assert_int_eq(weft_ftruncate(fd, 0), -EBADF);
    ck_assert_int_eq(weft_fsync(fd), -EBADF);
}

TEST(a_temporary_file_gets_a_unique_name)
{
    char one[64], two[64];
    snprintf(one, sizeof one, "%s/tXXXXXX", folder);
    strcpy(two, one);
    int first = weft_mkstemp(one), second = weft_mkstemp(two);
    ck_assert_int_ge(first, 0);
    ck_assert_int_ge(second, 0);
    ck_assert_str_ne(one, two);
    ck_assert_int_eq(fcntl(first, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(weft_access(one, F_OK), 0);
    ck_assert_int_eq(weft_mkstemp(strcpy(two, "/tmp/no-place")), -EINVAL);
}

typedef struct scan_counts {
    int files, folders;
    long sum; /* of the numbers in the names */
} scan_counts;

static int count_entry(const char *name, int type, void *ctx)
{
    scan_counts *s = ctx;
    ck_assert_str_ne(name, ".");
    ck_assert_str_ne(name, "..");
    s->files += type == DT_REG;
    s->folders += type == DT_DIR;
    s->sum += atoi(name);
    return weft_snooze();
}

static int stop_at_third(const char *name, int type, void *ctx)
{
    (void)name, (void)type;
    return ++*(int *)ctx == 3 ? 77 : 0;
}

TEST(a_scan_reports_every_entry_once_until_the_callback_stops_it)
{
    for (int i = 1; i <= FILES; i++) {
        const char *name = format("%d-and-a-name-that-fills-the-buffer", i);
        ck_assert_int_eq(close(creat(in_folder(name), 0600)), 0);
    }
    ck_assert_int_eq(weft_mkdir(in_folder("folder"), 0700), 0);
    scan_counts s = {0};
    ck_assert_int_eq(weft_scan_dir(folder, count_entry, &s), 0);
    ck_assert_int_eq(s.files, FILES);
    ck_assert_int_eq(s.folders, 1);
    ck_assert_int_eq(s.sum, (long)FILES * (FILES + 1) / 2);
    int count = 0;
    ck_assert_int_eq(weft_scan_dir(folder, stop_at_third, &count), 77);
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(weft_scan_dir(in_folder("folder"), stop_at_third, &count), 0);
    ck_assert_int_eq(weft_scan_dir(in_folder("none"), count_entry, NULL), -ENOENT);
    ck_assert_int_eq(
        weft_scan_dir(in_folder("1-and-a-name-that-fills-the-buffer"), count_entry, NULL),
        -ENOTDIR);
}

TEST(in_a_cancelled_scope_only_close_has_an_effect)
{
    make_empty_file("a");
    int fd = weft_open(in_folder("a"), O_RDWR);
    char byte;
    WEFT_MOVE_ON_AFTER(0) {
        struct stat status;
        ck_assert_int_eq(weft_mkdir(in_folder("d"), 0700), -ECANCELED);
        ck_assert_int_eq(weft_open(in_folder("b"), O_CREAT | O_RDWR, 0600), -ECANCELED);
        ck_assert_int_eq(weft_pwrite(fd, "x", 1, 0), -ECANCELED);
        ck_assert_int_eq(weft_unlink(in_folder("a")), -ECANCELED);
        ck_assert_int_eq(weft_fsync(fd), -ECANCELED);
        ck_assert_int_eq(weft_stat(folder, &status), -ECANCELED);
        ck_assert_int_eq(weft_scan_dir(folder, count_entry, NULL), -ECANCELED);
        ck_assert_int_eq(weft_wait_change(folder, NULL), -ECANCELED);
        ck_assert_int_eq(weft_close(fd), 0);
    }
    ck_assert_int_eq(weft_access(in_folder("d"), F_OK), -ENOENT);
    ck_assert_int_eq(weft_access(in_folder("b"), F_OK), -ENOENT);
    fd = weft_open(in_folder("a"), O_RDWR);
    ck_assert_int_eq(weft_pread(fd, &byte, 1, 0), 0);
}

static weft_value use_file(void *arg)
{
    char name[16], path[64], data[16];
    int length = snprintf(name, sizeof name, "%d", (int)(intptr_t)arg);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = weft_open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0)
        return fd;
    struct stat status;
    bool is_good = weft_pwrite(fd, name, (size_t)length, 4096) == length &&
                   ((intptr_t)arg % 10 != 0 || weft_fdatasync(fd) == 0) &&
                   weft_stat(path, &status) == 0 && status.st_size == 4096 + length &&
                   weft_pread(fd, data, sizeof data, 4096) == length &&
                   memcmp(data, name, (size_t)length) == 0;
    int rc = weft_close(fd);
    return is_good && rc == 0 ? weft_unlink(path) : -EIO;
}

TEST(many_fibers_use_files_at_once)
{
    static weft_fiber f[FILES];
    for (intptr_t i = 0; i < FILES; i++)
        f[i] = weft_spin(use_file, as_arg(i));
    await_each_as(f, FILES, 0);
}
