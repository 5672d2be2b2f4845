/* Hooked reads and writes on pipes, files, terminals and other descriptors. */
#include "posix/posix_io_support.h"

#include <dirent.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <termios.h>

FIXTURE(adopt_in_cord, NULL)

/* The argument of a fiber that reads, and its data. */
typedef struct reading {
    int fd;
    size_t bytes;
    char data[64];
} reading;

static weft_value read_some(void *arg)
{
    reading *r = arg;
    return result_of(read(r->fd, r->data, r->bytes));
}

static weft_value readv_some(void *arg)
{
    reading *r = arg;
    struct iovec pieces[] = {{r->data, 2}, {r->data + 10, r->bytes - 2}};
    return result_of(readv(r->fd, pieces, 2));
}

static weft_value preadv2_some(void *arg)
{
    reading *r = arg;
    struct iovec piece = {r->data, r->bytes};
    return result_of(preadv2(r->fd, &piece, 1, -1, 0));
}

TEST(a_read_from_an_empty_pipe_lets_other_fibers_run)
{
    int fd[2];
    open_pipe(fd);
    reading r = {.fd = fd[0], .bytes = 10};
    weft_fiber f = spin_waiting(read_some, &r);
    put_text(fd[1], "hello");
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_str_eq(r.data, "hello");
    ck_assert_uint_eq(posix_stats().waits, 1);
    assert_is_blocking(fd[0]);
}

TEST(a_read_that_is_ready_does_not_wait)
{
    int fd[2];
    open_pipe(fd);
    put_text(fd[1], "hello");
    reading r = {.fd = fd[0], .bytes = 3};
    ck_assert_int_eq(read_some(&r), 3);
    ck_assert_int_eq(readv_some(&r), 2);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

static weft_fn *const reads[] = {read_some, readv_some, preadv2_some};

static const int read_types[] = {0, SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

TEST_LOOP(every_read_waits_on_every_kind_of_descriptor, 12)
{
    int fd[2], type = read_types[_i / 3];
    if (type == 0)
        open_pipe(fd);
    else
        open_pair(fd, type);
    for (int round = 0; round < 20; round++) { /* also reads that expect to wait */
        reading r = {.fd = fd[0], .bytes = 4};
        weft_fiber f = spin_waiting(reads[_i % 3], &r);
        put_text(fd[1], "abcd");
        ck_assert_int_eq(weft_await(f), 4);
        ck_assert_mem_eq(r.data, "ab", 2);
    }
    ck_assert_uint_eq(posix_stats().waits, 20);
}

TEST(reads_that_become_ready_again_do_not_wait)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    reading r = {.fd = fd[0], .bytes = 1};
    for (int i = 0; i < 3; i++) {
        weft_fiber f = spin_waiting(read_some, &r);
        put_text(fd[1], "x");
        ck_assert_int_eq(weft_await(f), 1);
    }
    for (int i = 0; i < 30; i++)
        put_text(fd[1], "y");
    for (int i = 0; i < 30; i++)
        ck_assert_int_eq(read_some(&r), 1);
    ck_assert_uint_lt(posix_stats().waits, 3 + 20);
}

TEST(a_read_returns_the_end_of_input)
{
    int fd[2];
    open_pipe(fd);
    reading r = {.fd = fd[0], .bytes = 10};
    weft_fiber f = spin_waiting(read_some, &r);
    ck_assert_int_eq(close(fd[1]), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

TEST(a_non_blocking_pipe_gives_EAGAIN)
{
    int fd[2];
    open_pipe(fd);
    set_nonblocking(fd[0]);
    set_nonblocking(fd[1]);
    reading r = {.fd = fd[0], .bytes = 10};
    ck_assert_int_eq(read_some(&r), -EAGAIN);
    ck_assert_int_eq(readv_some(&r), -EAGAIN);
    static char zeros[1 << 20];
    ssize_t n = write(fd[1], zeros, sizeof zeros);
    ck_assert(n > 0 && (size_t)n < sizeof zeros);
    ck_assert_errno(write(fd[1], zeros, 1), EAGAIN);
    struct iovec piece = {zeros, 1};
    ck_assert_errno(writev(fd[1], &piece, 1), EAGAIN);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

TEST(O_NONBLOCK_counts_even_if_it_is_set_after_reads_have_waited)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    reading r = {.fd = fd[0], .bytes = 10};
    for (int i = 0; i < 5; i++) {
        weft_fiber f = spin_waiting(read_some, &r);
        put_text(fd[1], "x");
        ck_assert_int_eq(weft_await(f), 1);
    }
    set_nonblocking(fd[0]);
    ck_assert_int_eq(read_some(&r), -EAGAIN);
    ck_assert_int_eq(read_some(&r), -EAGAIN);
}

/* The argument of a fiber that writes. */
typedef struct writing {
    int fd;
    const char *data;
    size_t bytes;
} writing;

static weft_value write_data(void *arg)
{
    const writing *w = arg;
    return result_of(write(w->fd, w->data, w->bytes));
}

#define PIECES 40

static weft_value writev_data(void *arg)
{
    const writing *w = arg;
    struct iovec pieces[PIECES];
    size_t bytes = w->bytes / PIECES;
    for (size_t i = 0; i < PIECES; i++)
        pieces[i] = (struct iovec){(char *)(uintptr_t)w->data + i * bytes, bytes};
    return result_of(writev(w->fd, pieces, PIECES));
}

static weft_fn *const writes[] = {write_data, writev_data};

TEST_LOOP(a_blocking_write_returns_after_all_bytes_are_written, 4)
{
    int fd[2];
    if (_i / 2 == 0)
        open_pipe(fd);
    else
        open_pair(fd, SOCK_STREAM);
    char *data = new_pattern(10 * MIB);
    weft_fiber f = spin_waiting(writes[_i % 2], &(writing){fd[1], data, 10 * MIB});
    weft_fiber reader = weft_spin(drain, &(draining){fd[0], data, 10 * MIB});
    ck_assert_int_eq(weft_await(f), (ssize_t)(10 * MIB));
    ck_assert_int_eq(weft_await(reader), 0);
    free(data);
}

TEST(a_write_that_is_cancelled_half_way_returns_the_bytes_written)
{
    int fd[2], rc;
    open_pipe(fd);
    char *data = new_pattern(MIB);
    ssize_t n = 0, next = 0;
    int error = 0;
    WEFT_CANCEL_AFTER(0.01, rc) {
        n = write(fd[1], data, MIB);
        next = write(fd[1], data, 1);
        error = errno;
    }
    ck_assert(n > 0 && (size_t)n < MIB);
    ck_assert_int_eq(next, -1);
    ck_assert_int_eq(error, ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    free(data);
}

TEST(a_deadline_gives_ECANCELED_and_the_scope_times_out)
{
    int fd[2], rc, error = 0;
    open_pipe(fd);
    ssize_t n = 0;
    char byte;
    WEFT_CANCEL_AFTER(0.01, rc) {
        n = read(fd[0], &byte, 1);
        error = errno;
    }
    ck_assert_int_eq(n, -1);
    ck_assert_int_eq(error, ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST_LOOP(a_cancelled_read_gives_ECANCELED, 12)
{
    int fd[2], type = read_types[_i / 3];
    if (type == 0)
        open_pipe(fd);
    else
        open_pair(fd, type);
    reading r = {.fd = fd[0], .bytes = 4};
    ck_assert_int_eq(cancelled_result(reads[_i % 3], &r), -ECANCELED);
    put_text(fd[1], "abcd"); /* the cancelled read takes nothing */
    ck_assert_int_eq(read_some(&r), 4);
}

TEST(errno_is_unchanged_by_calls_that_succeed)
{
    int fd[2];
    open_pipe(fd);
    weft_fiber f = weft_spin(write_data, &(writing){fd[1], "x", 1});
    char byte;
    errno = 77;
    ck_assert_int_eq(read(fd[0], &byte, 1), 1); /* waits */
    ck_assert_int_eq(errno, 77);
    ck_assert_int_eq(weft_await(f), 1);
    char *data = new_pattern(MIB);
    weft_fiber reader = weft_spin(drain, &(draining){fd[0], data, MIB});
    errno = 78;
    ck_assert_int_eq(write(fd[1], data, MIB), (ssize_t)MIB);
    ck_assert_int_eq(errno, 78);
    ck_assert_int_eq(weft_await(reader), 0);
    free(data);
}

/* SIGPIPE. */

TEST_LOOP(a_write_without_a_reader_raises_SIGPIPE, 4)
{
    int fd[2];
    if (_i / 2 == 0)
        open_pipe(fd);
    else
        open_pair(fd, SOCK_STREAM);
    handle_signal(SIGPIPE, 0);
    close(fd[0]);
    ck_assert_int_eq(
        writes[_i % 2](&(writing){fd[1], "some text that is long enough for all pieces", 40}),
        -EPIPE);
    ck_assert_int_eq(signals_seen, 1);
}

TEST(a_writer_that_waits_gets_SIGPIPE_when_the_reader_closes)
{
    int fd[2];
    open_pipe(fd);
    handle_signal(SIGPIPE, SA_RESTART);
    char *data = new_pattern(MIB);
    weft_fiber f = spin_waiting(write_data, &(writing){fd[1], data, MIB});
    ck_assert_int_eq(close(fd[0]), 0);
    weft_value n = weft_await(f);
    ck_assert(n > 0 && (size_t)n < MIB); /* the bytes before the close */
    ck_assert_int_eq(signals_seen, 1);
    ck_assert_int_eq(write_data(&(writing){fd[1], data, 1}), -EPIPE);
    free(data);
}

/* Files on disk. */

TEST(reads_of_a_file_return_all_bytes_up_to_its_end)
{
    int fd = open_temporary_file();
    char *data = new_pattern(MIB), *copy = malloc(2 * MIB);
    ck_assert_int_eq(write(fd, data, MIB), (ssize_t)MIB);
    ck_assert_int_eq(fsync(fd), 0);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
        /* The second round reads from the disk, if the file system supports this. */
        if (round == 1)
            ck_assert_int_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        ck_assert_int_eq(read(fd, copy, 2 * MIB), (ssize_t)MIB);
        ck_assert(memcmp(copy, data, MIB) == 0);
        ck_assert_int_eq(read(fd, copy, 1), 0);
        if (round == 1)
            ck_assert_int_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
        ck_assert_int_eq(pread(fd, copy, MIB, 1000), (ssize_t)MIB - 1000);
        ck_assert(memcmp(copy, data + 1000, MIB - 1000) == 0);
        struct iovec pieces[] = {{copy, 10}, {copy + 10, 4086}, {copy + 4096, MIB}};
        ck_assert_int_eq(preadv(fd, pieces, 3, 7), (ssize_t)MIB - 7);
        ck_assert(memcmp(copy, data + 7, MIB - 7) == 0);
        ck_assert_int_eq(preadv2(fd, pieces, 2, 9, 0), 4096);
        ck_assert(memcmp(copy, data + 9, 4096) == 0);
        ck_assert_int_eq(pread64(fd, copy, 10, (off64_t)MIB), 0);
    }
    free(data);
    free(copy);
}

TEST(a_file_of_the_kernel_is_readable)
{
    int fd = open("/proc/self/status", O_RDONLY);
    char text[128];
    ck_assert_int_gt(read(fd, text, sizeof text), 0);
    ck_assert(strncmp(text, "Name:", 5) == 0);
    ck_assert_int_eq(pread(fd, text, 4, 0), 4);
}

TEST(a_read_of_a_file_of_the_kernel_returns_as_many_bytes_as_in_libc)
{
    int real_fd = open("/proc/self/maps", O_RDONLY), fd = open("/proc/self/maps", O_RDONLY);
    static char text[1 << 16];
    weft_posix_pass(true);
    ssize_t real_bytes = read(real_fd, text, sizeof text);
    weft_posix_pass(false);
    ck_assert_int_gt(real_bytes, 0);
    ck_assert_int_eq(read(fd, text, sizeof text), real_bytes);
}

TEST(a_socket_with_the_number_of_a_directory_that_libc_has_closed_is_not_read_as_a_file)
{
    int fd[2], folder = open("/tmp", O_RDONLY | O_DIRECTORY);
    char text[16];
    DIR *directory = fdopendir(folder);
    ck_assert_errno(read(folder, text, sizeof text), EISDIR);
    ck_assert_int_eq(closedir(directory), 0); /* no hook sees this close */
    open_pair(fd, SOCK_STREAM);
    ck_assert_int_eq(fd[0], folder);
    put_text(fd[1], "abc");
    ck_assert_int_eq(read(fd[0], text, sizeof text), 3);
    reading r = {.fd = fd[0], .bytes = sizeof r.data};
    weft_fiber f = spin_waiting(read_some, &r);
    put_text(fd[1], "de");
    ck_assert_int_eq(weft_await(f), 2);
}

TEST(invalid_reads_and_writes_have_the_errors_of_libc)
{
    int fd[2];
    char byte = 0;
    open_pipe(fd);
    ck_assert_errno(pread(fd[0], &byte, 1, 0), ESPIPE);
    ck_assert_errno(pread(fd[0], &byte, 1, -1), EINVAL);
    ck_assert_errno(read(-1, &byte, 1), EBADF);
    ck_assert_errno(read(1000, &byte, 1), EBADF);
    ck_assert_errno(write(1000, &byte, 1), EBADF);
    ck_assert_errno(read(fd[1], &byte, 1), EBADF);
    ck_assert_errno(write(fd[0], &byte, 1), EBADF);
    volatile int negative = -1;
    struct iovec piece = {&byte, 1};
    ck_assert_errno(readv(fd[0], &piece, negative), EINVAL);
    ck_assert_errno(writev(fd[1], &piece, negative), EINVAL);
    int folder = open("/", O_RDONLY | O_DIRECTORY);
    ck_assert_errno(read(folder, &byte, 1), EISDIR);
    ck_assert_int_eq(read(fd[0], &byte, 0), 0);
    ck_assert_int_eq(write(fd[1], &byte, 0), 0);
    int pair[2];
    open_pair(pair, SOCK_STREAM);
    ck_assert_int_eq(read(pair[0], &byte, 0), 0);
    ck_assert_int_eq(writev(pair[0], &(struct iovec){&byte, 0}, 1), 0);
}

/* Terminals, timers, events. */

TEST(a_read_of_a_terminal_waits_for_a_line)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(slave, 0);
    reading r = {.fd = slave, .bytes = 20};
    weft_fiber f = spin_waiting(read_some, &r);
    put_text(master, "line\n");
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_str_eq(r.data, "line\n");
    ck_assert_int_eq(write(slave, "out", 3), 3);
    ck_assert_int_eq(cancelled_result(read_some, &r), -ECANCELED);
    set_nonblocking(slave);
    ck_assert_int_eq(read_some(&r), -EAGAIN);
}

TEST(reads_of_an_event_and_a_timer_wait)
{
    int event = eventfd(0, EFD_CLOEXEC);
    reading r = {.fd = event, .bytes = 8};
    weft_fiber f = spin_waiting(read_some, &r);
    uint64_t three = 3, seen;
    ck_assert_int_eq(write(event, &three, 8), 8);
    ck_assert_int_eq(weft_await(f), 8);
    memcpy(&seen, r.data, 8);
    ck_assert_uint_eq(seen, 3);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    r.fd = timer;
    f = spin_waiting(read_some, &r);
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    ck_assert_int_eq(timerfd_settime(timer, 0, &soon, NULL), 0);
    ck_assert_int_eq(weft_await(f), 8);
}

/* Where hooks are off. */

static void *write_from_thread(void *arg)
{
    const struct timespec soon = {.tv_nsec = 1000000};
    nanosleep(&soon, NULL); /* the reader usually blocks by now; the result does not depend on it */
    return (void *)(intptr_t)write(*(int *)arg, "x", 1);
}

static void *read_in_thread(void *arg)
{
    char byte;
    return (void *)(intptr_t)read(*(int *)arg, &byte, 1);
}

TEST(a_thread_without_fibers_blocks_in_libc)
{
    int fd[2];
    open_pipe(fd);
    pthread_t reader = start_thread(read_in_thread, &fd[0]);
    put_text(fd[1], "x");
    ck_assert_ptr_eq(join_thread(reader), (void *)1);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

TEST(a_section_without_switches_blocks_in_libc)
{
    int fd[2];
    open_pipe(fd);
    weft_spin(mark_and_return, "other ");
    pthread_t writer = start_thread(write_from_thread, &fd[1]);
    weft_no_switch_begin();
    char byte;
    ck_assert_int_eq(read(fd[0], &byte, 1), 1);
    ck_assert_trail("");
    weft_no_switch_end();
    ck_assert_uint_eq(posix_stats().waits, 0);
    join_thread(writer);
    ck_assert_int_eq(weft_await_children(), 0);
}
