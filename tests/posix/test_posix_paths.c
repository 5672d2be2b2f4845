/* Hooked calls with paths, which weft_adopt hooks on request. */
#include "posix/posix_io_support.h"

#include <ftw.h>
#include <sys/stat.h>

static char folder[] = "/tmp/weft-paths-XXXXXX";

static void adopt_files(void)
{
    ck_assert_int_gt(weft_adopt("", &(weft_adopt_options){.has_files = true}), 0);
    ck_assert_uint_ne(weft_self(), 0);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at)
{
    return remove(path);
}

static void remove_folder(void)
{
    (void)!nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

FIXTURE(adopt_files, NULL)

TEST(calls_with_paths_run_in_worker_threads_and_have_the_results_of_libc)
{
    weft_spin(mark_and_return, "other ");
    int fd = open("file", O_CREAT | O_RDWR, 0640);
    ck_assert_int_ge(fd, 0);
    ck_assert_trail("other ");
    ck_assert_int_eq(fcntl(fd, F_GETFD), 0); /* as requested, without FD_CLOEXEC */
    struct stat status;
    struct stat64 status64;
    ck_assert_int_eq(stat("file", &status), 0);
    ck_assert_uint_eq(status.st_mode & 0777, 0640);
    ck_assert_int_eq(lstat("file", &status), 0);
    ck_assert_int_eq(stat64("file", &status64), 0);
    ck_assert_int_eq(lstat64("file", &status64), 0);
    ck_assert_int_eq(fstatat(AT_FDCWD, "file", &status, 0), 0);
    ck_assert_int_eq(fstatat64(AT_FDCWD, "file", &status64, AT_SYMLINK_NOFOLLOW), 0);
    struct statx extended;
    ck_assert_int_eq(statx(AT_FDCWD, "file", 0, STATX_SIZE, &extended), 0);
    ck_assert_int_eq(rename("file", "moved"), 0);
    ck_assert_int_eq(renameat(AT_FDCWD, "moved", AT_FDCWD, "again"), 0);
    ck_assert_int_eq(mkdir("sub", 0700), 0);
    ck_assert_int_eq(mkdirat(AT_FDCWD, "sub/sub", 0700), 0);
    ck_assert_errno(rmdir("sub"), ENOTEMPTY);
    ck_assert_int_eq(unlinkat(AT_FDCWD, "sub/sub", AT_REMOVEDIR), 0);
    ck_assert_int_eq(renameat2(AT_FDCWD, "again", AT_FDCWD, "sub/file", RENAME_NOREPLACE), 0);
    ck_assert_int_eq(unlink("sub/file"), 0);
    ck_assert_int_eq(rmdir("sub"), 0);
    ck_assert_uint_eq(posix_stats().offloads, 17);
    ck_assert_int_eq(weft_await_children(), 0);
    remove_folder();
}

TEST(opens_have_the_flags_and_errors_of_libc)
{
    ck_assert_errno(open("missing", O_RDONLY), ENOENT);
    ck_assert_errno(openat(AT_FDCWD, "missing", O_RDONLY), ENOENT);
    int fd = creat("file", 0600);
    ck_assert_int_eq(write(fd, "text", 4), 4);
    ck_assert_int_eq(close(fd), 0);
    fd = open64("file", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(close(fd), 0);
    fd = openat64(AT_FDCWD, "file", O_WRONLY | O_NONBLOCK | O_APPEND);
    ck_assert_int_eq(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_NONBLOCK | O_APPEND);
    ck_assert_int_eq(creat64("file", 0600), fd + 1); /* truncates */
    struct stat status;
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(status.st_size, 0);
    remove_folder();
}

static weft_value open_fifo(void *arg)
{
    return result_of(open("fifo", (int)(intptr_t)arg));
}

TEST(an_open_of_a_fifo_waits_for_its_peer_and_can_be_cancelled)
{
    ck_assert_int_eq(mkfifo("fifo", 0600), 0);
    ck_assert_int_eq(cancelled_result(open_fifo, (void *)O_RDONLY), -ECANCELED);
    weft_fiber reader = spin_waiting(open_fifo, (void *)O_RDONLY);
    int out = open("fifo", O_WRONLY);
    ck_assert_int_ge(out, 0);
    int in = (int)weft_await(reader);
    put_text(out, "x");
    char byte;
    ck_assert_int_eq(read(in, &byte, 1), 1);
    remove_folder();
}

TEST(a_cancelled_fiber_changes_no_files)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, INFINITY), 0);
    ck_assert_int_eq(weft_scope_cancel(&scope), 0);
    ck_assert_errno(mkdir("sub", 0700), ECANCELED);
    ck_assert_errno(open("file", O_CREAT | O_RDWR, 0600), ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    struct stat status;
    ck_assert_errno(stat("sub", &status), ENOENT);
    ck_assert_errno(stat("file", &status), ENOENT);
    remove_folder();
}
