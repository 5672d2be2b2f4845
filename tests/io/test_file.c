/* Files: every call does what its system call does, on a folder made for the test. */
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

#define FILES 1000

static char folder[] = "/tmp/weft-file-XXXXXX";

/* The path of a name in the folder; good until the fourth call after. */
static const char *in(const char *name)
{
    static char paths[4][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

static void set_up(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static int remove_entry(const char *name, int type, void *ctx)
{
    (void)ctx;
    return type == DT_DIR ? weft_rmdir(in(name)) : weft_unlink(in(name));
}

static void tear_down(void)
{
    ck_assert_int_eq(weft_scan_dir(folder, remove_entry, NULL), 0);
    ck_assert_int_eq(weft_rmdir(folder), 0);
}

static int open_new(const char *name)
{
    int fd = weft_open(in(name), O_RDWR | O_CREAT | O_EXCL, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void make_file(const char *name)
{
    ck_assert_int_eq(weft_close(open_new(name)), 0);
}

/* P60 */
START_TEST(what_is_written_at_an_offset_is_read_there_and_0_is_the_end)
{
    set_up();
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
    ck_assert_int_eq(weft_read(fd, data, 12), 12); /* the position has stayed where it was */
    ck_assert_int_eq(weft_read(fd, data, 12), 3);
    ck_assert_mem_eq(data, "llo", 3);
    ck_assert_int_eq(weft_read(fd, data, 12), 0);
    ck_assert_int_eq(weft_pread(fd, data, 1, -1), -EINVAL);
    ck_assert_int_eq(weft_pwrite(fd, data, 1, -1), -EINVAL);
    ck_assert_int_eq(weft_close(fd), 0);
    ck_assert_int_eq(weft_pread(fd, data, 1, 0), -EBADF);
    tear_down();
}
END_TEST

/* P60 */
START_TEST(what_is_appended_comes_after_all_that_is_there)
{
    set_up();
    int fd = open_new("a");
    int end = weft_open(in("a"), O_WRONLY | O_APPEND);
    char data[16];
    ck_assert_int_eq(weft_write(end, "one", 3), 3);
    ck_assert_int_eq(weft_pwrite(fd, "two", 3, 3), 3);
    ck_assert_int_eq(weft_write(end, "three", 5), 5);
    ck_assert_int_eq(weft_pread(fd, data, sizeof data, 0), 11);
    ck_assert_mem_eq(data, "onetwothree", 11);
    weft_close(fd);
    weft_close(end);
    tear_down();
}
END_TEST

START_TEST(several_buffers_are_moved_in_a_row_at_an_offset)
{
    set_up();
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
    weft_close(fd);
    tear_down();
}
END_TEST

START_TEST(what_has_no_offsets_says_so)
{
    int fd[2];
    char byte;
    ck_assert_int_eq(pipe(fd), 0);
    ck_assert_int_eq(weft_pread(fd[0], &byte, 1, 0), -ESPIPE);
    ck_assert_int_eq(weft_pwrite(fd[1], &byte, 1, 0), -ESPIPE);
    weft_close(fd[0]);
    weft_close(fd[1]);
}
END_TEST

START_TEST(open_takes_flags_and_mode_and_closes_on_exec)
{
    set_up();
    umask(0);
    ck_assert_int_eq(weft_open(in("a"), O_RDWR), -ENOENT);
    int fd = weft_open(in("a"), O_RDWR | O_CREAT, 0640);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    struct stat status;
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0640);
    ck_assert_int_eq(weft_write(fd, "x", 1), 1);
    ck_assert_int_eq(weft_open(in("a"), O_RDWR | O_CREAT | O_EXCL, 0600), -EEXIST);
    weft_close(fd);
    fd = weft_open(in("a"), O_RDONLY);
    ck_assert_int_eq(weft_write(fd, "x", 1), -EBADF);
    weft_close(fd);
    weft_close(weft_open(in("a"), O_WRONLY | O_TRUNC));
    ck_assert_int_eq(weft_stat(in("a"), &status), 0);
    ck_assert_int_eq(status.st_size, 0);
    tear_down();
}
END_TEST

static const char *no_path(void)
{
    return NULL;
}

START_TEST(no_path_is_efault)
{
    ck_assert_int_eq(weft_open(no_path(), O_RDONLY), -EFAULT);
    ck_assert_int_eq(weft_openat(0, no_path(), O_RDONLY), -EFAULT);
}
END_TEST

START_TEST(openat_starts_from_a_folder)
{
    set_up();
    int at = weft_open(folder, O_RDONLY | O_DIRECTORY);
    int fd = weft_openat(at, "a", O_WRONLY | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    weft_close(fd);
    ck_assert_int_eq(weft_access(in("a"), F_OK), 0);
    fd = weft_openat(at, in("a"), O_RDONLY); /* an absolute path, of which it knows better */
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(weft_openat(fd, "b", O_RDONLY), -ENOTDIR);
    weft_close(fd);
    weft_close(at);
    ck_assert_int_eq(weft_openat(at, "a", O_RDONLY), -EBADF);
    tear_down();
}
END_TEST

START_TEST(names_are_made_moved_and_removed)
{
    set_up();
    char text[PATH_MAX];
    struct stat one, two;
    ck_assert_int_eq(weft_mkdir(in("d"), 0700), 0);
    ck_assert_int_eq(weft_mkdir(in("d"), 0700), -EEXIST);
    make_file("d/a");
    ck_assert_int_eq(weft_rmdir(in("d")), -ENOTEMPTY);
    ck_assert_int_eq(weft_rename(in("d/a"), in("b")), 0);
    ck_assert_int_eq(weft_rename(in("d/a"), in("b")), -ENOENT);
    ck_assert_int_eq(weft_hardlink(in("b"), in("c")), 0);
    ck_assert_int_eq(weft_hardlink(in("b"), in("c")), -EEXIST);
    ck_assert_int_eq(weft_stat(in("c"), &one), 0);
    ck_assert_uint_eq(one.st_nlink, 2);
    ck_assert_int_eq(weft_symlink("d/../b", in("s")), 0);
    ck_assert_int_eq(weft_readlink(in("s"), text, sizeof text), 6);
    ck_assert_mem_eq(text, "d/../b", 6);
    ck_assert_int_eq(weft_readlink(in("s"), text, 3), 3);
    ck_assert_int_eq(weft_readlink(in("b"), text, 3), -EINVAL);
    ck_assert_int_eq(weft_lstat(in("s"), &two), 0);
    ck_assert(S_ISLNK(two.st_mode));
    ck_assert_int_eq(weft_stat(in("s"), &two), 0);
    ck_assert_uint_eq(two.st_ino, one.st_ino);
    ck_assert_int_eq(weft_realpath(in("s"), text), 0);
    ck_assert_str_eq(text, in("b"));
    ck_assert_int_eq(weft_realpath(in("d/a"), text), -ENOENT);
    ck_assert_int_eq(weft_unlink(in("c")), 0);
    ck_assert_int_eq(weft_unlink(in("c")), -ENOENT);
    ck_assert_int_eq(weft_unlink(in("d")), -EISDIR);
    ck_assert_int_eq(weft_rmdir(in("d")), 0);
    ck_assert_int_eq(weft_stat(in("d"), &one), -ENOENT);
    tear_down();
}
END_TEST

START_TEST(a_file_gets_its_size_mode_owner_and_times)
{
    set_up();
    struct stat status;
    int fd = open_new("a");
    ck_assert_int_eq(weft_ftruncate(fd, 100), 0);
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_int_eq(status.st_size, 100);
    ck_assert_int_eq(weft_truncate(in("a"), 10), 0);
    ck_assert_int_eq(weft_truncate(in("b"), 10), -ENOENT);
    ck_assert_int_eq(weft_ftruncate(fd, -1), -EINVAL);
    int rc = weft_fallocate(fd, 0, 0, 50);
    ck_assert(rc == 0 || rc == -EOPNOTSUPP);
    ck_assert_int_eq(weft_fallocate(fd, 0, 0, 0), -EINVAL);
    ck_assert_int_eq(weft_stat(in("a"), &status), 0);
    ck_assert_int_eq(status.st_size, rc == 0 ? 50 : 10);
    ck_assert_int_eq(weft_fsync(fd), 0);
    ck_assert_int_eq(weft_fdatasync(fd), 0);
    ck_assert_int_eq(weft_chmod(in("a"), 0444), 0);
    ck_assert_int_eq(weft_chown(in("a"), getuid(), (gid_t)-1), 0);
    ck_assert_int_eq(weft_access(in("a"), R_OK), 0);
    ck_assert_int_eq(weft_access(in("a"), X_OK), -EACCES);
    ck_assert_int_eq(weft_access(in("b"), F_OK), -ENOENT);
    struct timespec times[2] = {{1000, 1}, {2000, 2}};
    ck_assert_int_eq(weft_utimens(in("a"), times), 0);
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0444);
    ck_assert_int_eq(status.st_mtim.tv_sec, 2000);
    ck_assert_int_eq(weft_utimens(in("a"), NULL), 0);
    ck_assert_int_eq(weft_fstat(fd, &status), 0);
    ck_assert_int_gt(status.st_mtim.tv_sec, 2000);
    weft_close(fd);
    ck_assert_int_eq(weft_fstat(fd, &status), -EBADF);
    ck_assert_int_eq(weft_ftruncate(fd, 0), -EBADF);
    ck_assert_int_eq(weft_fsync(fd), -EBADF);
    tear_down();
}
END_TEST

START_TEST(a_temporary_file_gets_a_name_of_its_own)
{
    set_up();
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
    weft_close(first);
    weft_close(second);
    tear_down();
}
END_TEST

typedef struct seen {
    int files, folders;
    long sum; /* of the files' numbers */
} seen;

static int see(const char *name, int type, void *ctx)
{
    seen *s = ctx;
    ck_assert_str_ne(name, ".");
    ck_assert_str_ne(name, "..");
    s->files += type == DT_REG;
    s->folders += type == DT_DIR;
    s->sum += atoi(name);
    return weft_snooze();
}

static int stop_at_the_third(const char *name, int type, void *ctx)
{
    (void)name, (void)type;
    return ++*(int *)ctx == 3 ? 77 : 0;
}

START_TEST(a_scan_tells_of_every_entry_once_until_it_is_told_to_stop)
{
    set_up();
    for (int i = 1; i <= FILES; i++) {
        char name[64];
        snprintf(name, sizeof name, "%d-and-a-name-that-fills-the-buffer", i);
        ck_assert_int_eq(close(creat(in(name), 0600)), 0);
    }
    ck_assert_int_eq(weft_mkdir(in("folder"), 0700), 0);
    seen s = {0};
    ck_assert_int_eq(weft_scan_dir(folder, see, &s), 0);
    ck_assert_int_eq(s.files, FILES);
    ck_assert_int_eq(s.folders, 1);
    ck_assert_int_eq(s.sum, (long)FILES * (FILES + 1) / 2);
    int count = 0;
    ck_assert_int_eq(weft_scan_dir(folder, stop_at_the_third, &count), 77);
    ck_assert_int_eq(count, 3);
    ck_assert_int_eq(weft_scan_dir(in("folder"), stop_at_the_third, &count), 0);
    ck_assert_int_eq(weft_scan_dir(in("none"), see, NULL), -ENOENT);
    ck_assert_int_eq(weft_scan_dir(in("1-and-a-name-that-fills-the-buffer"), see, NULL), -ENOTDIR);
    tear_down();
}
END_TEST

START_TEST(in_a_cancelled_scope_nothing_is_done_at_all)
{
    set_up();
    make_file("a");
    int fd = weft_open(in("a"), O_RDWR);
    char byte;
    WEFT_MOVE_ON_AFTER(0) {
        struct stat status;
        ck_assert_int_eq(weft_mkdir(in("d"), 0700), -ECANCELED);
        ck_assert_int_eq(weft_open(in("b"), O_CREAT | O_RDWR, 0600), -ECANCELED);
        ck_assert_int_eq(weft_pwrite(fd, "x", 1, 0), -ECANCELED);
        ck_assert_int_eq(weft_unlink(in("a")), -ECANCELED);
        ck_assert_int_eq(weft_fsync(fd), -ECANCELED);
        ck_assert_int_eq(weft_stat(folder, &status), -ECANCELED);
        ck_assert_int_eq(weft_scan_dir(folder, see, NULL), -ECANCELED);
        ck_assert_int_eq(weft_wait_change(folder, NULL), -ECANCELED);
        ck_assert_int_eq(weft_close(fd), 0);
    }
    ck_assert_int_eq(weft_access(in("d"), F_OK), -ENOENT);
    ck_assert_int_eq(weft_access(in("b"), F_OK), -ENOENT);
    fd = weft_open(in("a"), O_RDWR);
    ck_assert_int_eq(weft_pread(fd, &byte, 1, 0), 0);
    weft_close(fd);
    tear_down();
}
END_TEST

static weft_value work_on_a_file(void *arg)
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

START_TEST(many_fibers_work_on_files_at_once)
{
    set_up();
    static weft_fiber f[FILES];
    for (intptr_t i = 0; i < FILES; i++)
        f[i] = weft_spin(work_on_a_file, as_arg(i));
    for (int i = 0; i < FILES; i++)
        ck_assert_int_eq(weft_await(f[i]), 0);
    tear_down();
}
END_TEST

static const TTest *const *const tests[] = {
    &what_is_written_at_an_offset_is_read_there_and_0_is_the_end,
    &what_is_appended_comes_after_all_that_is_there,
    &several_buffers_are_moved_in_a_row_at_an_offset,
    &what_has_no_offsets_says_so,
    &open_takes_flags_and_mode_and_closes_on_exec,
    &no_path_is_efault,
    &openat_starts_from_a_folder,
    &names_are_made_moved_and_removed,
    &a_file_gets_its_size_mode_owner_and_times,
    &a_temporary_file_gets_a_name_of_its_own,
    &a_scan_tells_of_every_entry_once_until_it_is_told_to_stop,
    &in_a_cancelled_scope_nothing_is_done_at_all,
    &many_fibers_work_on_files_at_once,
};

int main(void)
{
    return run_suite("file", tests, COUNT_OF(tests));
}
