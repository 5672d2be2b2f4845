/* Tests of file operations that wait: opening a FIFO, and weft_wait_change. */
#include "support/suite.h"

#include "backend/workers/worker_queue.h"

#include <fcntl.h>
#include <sys/resource.h>

/* More than the number of workers for files. */
#define OPENERS (WEFT__FILES_WORKERS_MAX + 40)

static char folder[] = "/tmp/weft-wait-XXXXXX";
static char fifo[64], path[64], other[64];

static void make_paths(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    snprintf(path, sizeof path, "%s/path", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
}

static void remove_paths(void)
{
    unlink(fifo);
    unlink(path);
    unlink(other);
    ck_assert_int_eq(rmdir(folder), 0);
}

FIXTURE(make_paths, remove_paths)

static void write_to(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

FIBER(open_fifo, weft_open(fifo, (int)(intptr_t)arg))

/* Return a fiber that waits in an open for the other end. */
static weft_fiber spin_opener(int flags)
{
    return spin_waiting(open_fifo, as_arg(flags));
}

/*
 * Let all pending opens of the FIFO continue. Wait until only this number of descriptors is open.
 */
static void release_openers(int descriptors)
{
    int fd = open(fifo, O_RDWR | O_NONBLOCK);
    ck_assert_int_ge(fd, 0);
    while (count_descriptors() != descriptors + 1)
        ck_assert_int_eq(weft_sleep(0.001), 0);
    close(fd);
}

TEST(other_fibers_run_while_one_waits_in_an_open)
{
    weft_fiber f = spin_opener(O_RDONLY);
    for (int i = 0; i < 10; i++) {
        struct stat status;
        ck_assert_int_eq(weft_sleep(0.001), 0);
        ck_assert_int_eq(weft_stat(fifo, &status), 0);
    }
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    int in = weft_open(fifo, O_WRONLY);
    int out = (int)weft_await(f);
    ck_assert_int_ge(in, 0);
    ck_assert_int_ge(out, 0);
    char data[8];
    ck_assert_int_eq(weft_write(in, "hello", 5), 5);
    ck_assert_int_eq(weft_read(out, data, sizeof data), 5);
}

TEST(a_cancelled_running_open_leaves_no_descriptor)
{
    weft_sleep(0); /* let the backend open its own descriptors first */
    int before = count_descriptors();
    const int flags[] = {O_RDONLY, O_WRONLY};
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        weft_fiber f = spin_opener(flags[i]);
        ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
        release_openers(before);
    }
    weft_fiber f = spin_opener(O_RDONLY);
    ck_assert_int_eq(weft_interrupt(f, -77), 0);
    ck_assert_int_eq(weft_await(f), -77);
    release_openers(before);
}

/* More opens than workers, so that some are queued. */
TEST(running_and_queued_opens_can_be_cancelled_and_do_not_block_other_operations)
{
    static weft_fiber f[OPENERS];
    struct stat status;
    weft_sleep(0);
    int before = count_descriptors();
    for (int i = 0; i < OPENERS; i++)
        f[i] = spin_opener(O_RDONLY);
    for (int i = 0; i < OPENERS; i++)
        weft_cancel(f[i]);
    await_each_as(f, OPENERS, -ECANCELED);
    ck_assert_int_eq(weft_stat(fifo, &status), 0);
    release_openers(before);
}

static int return_during_an_open(void)
{
    weft_spin(open_fifo, as_arg(O_RDONLY));
    return weft_sleep(0.001) == 0 ? 7 : 1;
}

TEST(a_program_can_end_during_an_open)
{
    assert_silent(run_apart(return_during_an_open), 7);
}

static weft_value read_until_closed(void *arg)
{
    char data[64];
    weft_value n;
    while ((n = weft_pread(*(int *)arg, data, sizeof data, 0)) == 5 &&
           memcmp(data, "right", 5) == 0)
        weft_snooze();
    return -n; /* positive, because the parent receives an error that is not awaited */
}

/* P65 */
TEST(closing_a_file_ends_its_readers_with_EBADF)
{
    write_to(path, "right");
    write_to(other, "wrong");
    int fd = weft_open(path, O_RDONLY);
    weft_fiber f[50];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(read_until_closed, &fd);
    for (int i = 0; i < 20; i++)
        weft_snooze();
    ck_assert_int_eq(weft_close(fd), 0);
    await_each_as(f, COUNT_OF(f), EBADF);
}

FIBER(wait_for_change, weft_wait_change(path, arg))

/* Return a fiber that waits for inotify events. */
static weft_fiber spin_watcher(struct stat *known)
{
    weft_fiber f = weft_spin(wait_for_change, known);
    weft_info info;
    do
        ck_assert_int_eq(weft_sleep(0.001), 0);
    while (weft_info_of(f, &info) == 0 && strcmp(info.waits_for, "read") != 0);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* T92 */
TEST(a_wait_for_a_change_ends_when_the_file_is_changed_replaced_created_or_removed)
{
    weft_fiber f;
    for (int i = 0; i < 2; i++) { /* created, then changed */
        f = spin_watcher(NULL);
        write_to(path, "text");
        ck_assert_int_eq(weft_await(f), 1);
    }
    f = spin_watcher(NULL);
    ck_assert_int_eq(chmod(path, 0400), 0);
    ck_assert_int_eq(weft_await(f), 1);
    write_to(other, "other");
    f = spin_watcher(NULL);
    ck_assert_int_eq(rename(other, path), 0);
    ck_assert_int_eq(weft_await(f), 1);
    f = spin_watcher(NULL);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

/* T92 */
TEST(a_change_is_detected_through_a_symlink_and_in_a_folder)
{
    write_to(other, "x");
    ck_assert_int_eq(symlink("other", path), 0);
    weft_fiber f = spin_watcher(NULL);
    write_to(other, "changed");
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    f = spin_watcher(NULL);
    const char *inside = format("%s/inside", path);
    write_to(inside, "x");
    ck_assert_int_eq(weft_await(f), 1);
    unlink(inside);
    rmdir(path);
}

/* T92 */
TEST(a_change_between_two_waits_is_not_missed)
{
    struct stat known = {0}; /* the file does not exist */
    write_to(path, "1");
    ck_assert_int_eq(weft_wait_change(path, &known), 1);
    ck_assert_int_eq(known.st_size, 1);
    write_to(path, "22");
    ck_assert_int_eq(weft_wait_change(path, &known), 1);
    ck_assert_int_eq(known.st_size, 2);
    weft_fiber f = spin_watcher(&known); /* the state is known, so this call waits */
    write_to(path, "333");
    ck_assert_int_eq(weft_await(f), 1);
    unlink(path);
    ck_assert_int_eq(weft_wait_change(path, &known), 0);
    ck_assert_uint_eq(known.st_nlink, 0);
    f = spin_watcher(&known);
    write_to(path, "4444");
    ck_assert_int_eq(weft_await(f), 1);
}

/* T92 */
TEST(a_wait_for_a_change_can_time_out_and_other_files_do_not_end_it)
{
    weft_sleep(0);
    int before = count_descriptors(), rc;
    WEFT_CANCEL_AFTER(0.005, rc)
        ck_assert_int_eq(weft_wait_change(path, NULL), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    weft_fiber f = spin_watcher(NULL);
    for (int i = 0; i < 100; i++) {
        write_to(other, "noise");
        unlink(other);
        weft_snooze();
    }
    weft_sleep(0.001);
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_int_eq(weft_wait_change("/no-such-folder/file", NULL), -ENOENT);
    ck_assert_int_eq(count_descriptors(), before);
}
