/* Hooked calls that close, replace, lock, synchronise and copy descriptors. */
#include "posix/posix_io_support.h"

#include "support/sockets.h"

#include <sys/file.h>
#include <sys/sendfile.h>

FIXTURE(adopt_in_cord, NULL)

static weft_value recv_one(void *arg)
{
    char byte;
    return result_of(recv(*(int *)arg, &byte, 1, 0));
}

/* A socket pair with a fiber that waits for input of fd[0]. */
static weft_fiber open_awaited_pair(int fd[2])
{
    open_pair(fd, SOCK_STREAM);
    return spin_waiting(recv_one, fd);
}

/* Ways to close or replace fd[0]. */

static int by_close(int fd)
{
    return close(fd);
}

static int by_dup2(int fd)
{
    int null = open("/dev/null", O_RDWR);
    return dup2(null, fd) - fd;
}

static int by_dup3(int fd)
{
    int null = open("/dev/null", O_RDWR);
    return dup3(null, fd, O_CLOEXEC) - fd;
}

static int by_close_range(int fd)
{
    return close_range((unsigned)fd, (unsigned)fd, 0);
}

static int by_fclose(int fd)
{
    FILE *stream = fdopen(fd, "r+");
    ck_assert_ptr_nonnull(stream);
    return fclose(stream);
}

static int (*const ends[])(int fd) = {by_close, by_dup2, by_dup3, by_close_range, by_fclose};

TEST_ROWS(every_way_to_close_a_descriptor_wakes_its_waiters_with_EBADF, ends)
{
    int fd[2];
    weft_fiber f = open_awaited_pair(fd);
    ck_assert_int_eq(ends[_i](fd[0]), 0);
    ck_assert_int_eq(weft_await(f), -EBADF);
    char byte;
    ck_assert_int_eq(recv(fd[1], &byte, 1, 0), 0); /* the peer sees the end */
}

TEST_ROWS(the_next_file_with_the_number_works, ends)
{
    int fd[2], next[2];
    weft_fiber f = open_awaited_pair(fd);
    ck_assert_int_eq(ends[_i](fd[0]), 0);
    open_pair(next, SOCK_STREAM);
    if (next[0] != fd[0])
        ck_assert_int_eq(dup2(next[0], fd[0]), fd[0]);
    weft_fiber g = spin_waiting(recv_one, fd);
    put_text(next[1], "x");
    ck_assert_int_eq(weft_await(g), 1);
    ck_assert_int_eq(weft_await(f), -EBADF);
}

/* Close in a thread without fibers, and open another kind of file with the same number. */
static void *replace_in_thread(void *arg)
{
    int fd = *(int *)arg, pipe_fd[2];
    close(fd);
    open_pipe(pipe_fd);
    ck_assert_int_eq(pipe_fd[0], fd);
    return (void *)(intptr_t)pipe_fd[1];
}

/*
 * Return the writing end of a pipe that has replaced fd. The join blocks the thread of the cord. A
 * join that waits with weft would read a directory in /proc, and could get the number in between.
 */
static int replace_by_pipe(int fd)
{
    weft_no_switch_begin();
    int writer = (int)(intptr_t)join_thread(start_thread(replace_in_thread, &fd));
    weft_no_switch_end();
    return writer;
}

TEST(a_number_that_a_plain_thread_replaces_works)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    for (int i = 0; i < 3; i++) {
        weft_fiber f = spin_waiting(read_byte, fd);
        put_text(fd[1], "x");
        ck_assert_int_eq(weft_await(f), 1);
        char byte;
        put_text(fd[1], "y");
        ck_assert_int_eq(read(fd[0], &byte, 1), 1);
    }
    int writer = replace_by_pipe(fd[0]);
    put_text(writer, "z");
    char byte;
    ck_assert_int_eq(read(fd[0], &byte, 1), 1);
    ck_assert_int_eq(byte, 'z');
}

TEST(closefrom_wakes_all_waiters)
{
    int fd[2], high;
    open_pair(fd, SOCK_STREAM);
    high = fcntl(fd[0], F_DUPFD_CLOEXEC, 900);
    ck_assert_int_ge(high, 900);
    weft_fiber f = spin_waiting(recv_one, &high);
    closefrom(900);
    ck_assert_int_eq(weft_await(f), -EBADF);
    put_text(fd[1], "x");
    ck_assert_int_eq(recv_one(fd), 1);
}

TEST(a_close_range_that_only_marks_wakes_nobody)
{
    int fd[2];
    weft_fiber f = open_awaited_pair(fd);
    ck_assert_int_eq(close_range((unsigned)fd[0], (unsigned)fd[1], CLOSE_RANGE_CLOEXEC), 0);
    put_text(fd[1], "x");
    ck_assert_int_eq(weft_await(f), 1);
}

TEST(failed_calls_wake_nobody)
{
    int fd[2];
    weft_fiber f = open_awaited_pair(fd);
    ck_assert_errno(dup2(1000, fd[0]), EBADF);
    ck_assert_errno(dup3(fd[0], fd[0], 0), EINVAL);
    ck_assert_int_eq(dup2(fd[0], fd[0]), fd[0]);
    ck_assert_errno(close(-1), EBADF);
    ck_assert_errno(close(1000), EBADF);
    put_text(fd[1], "x");
    ck_assert_int_eq(weft_await(f), 1);
}

TEST(a_close_in_a_section_without_switches_wakes_waiters_later)
{
    int fd[2];
    weft_fiber f = open_awaited_pair(fd);
    weft_no_switch_begin();
    ck_assert_int_eq(close(fd[0]), 0);
    weft_no_switch_end();
    ck_assert_int_eq(weft_await(f), -EBADF);
}

TEST(fclose_writes_the_buffer_of_the_stream)
{
    int fd[2];
    open_pipe(fd);
    FILE *stream = fdopen(fd[1], "w");
    ck_assert_int_gt(fputs("text", stream), 0);
    ck_assert_int_eq(fclose(stream), 0);
    char text[8] = "";
    ck_assert_int_eq(read(fd[0], text, sizeof text), 4);
    ck_assert_str_eq(text, "text");
}

/* Locks of files. */

typedef struct locking {
    int fd;
    int (*lock)(int fd);
} locking;

static int lock_by_flock(int fd)
{
    return flock(fd, LOCK_EX);
}

static int lock_by_fcntl(int fd)
{
    struct flock all = {.l_type = F_WRLCK};
    return fcntl(fd, F_SETLKW, &all);
}

static int lock_by_fcntl64(int fd)
{
    struct flock64 all = {.l_type = F_WRLCK};
    return fcntl64(fd, F_SETLKW64, &all);
}

static int lock_by_ofd(int fd)
{
    struct flock all = {.l_type = F_WRLCK};
    return fcntl(fd, F_OFD_SETLKW, &all);
}

static int lock_by_lockf(int fd)
{
    return lockf(fd, F_LOCK, 0);
}

static int lock_by_lockf64(int fd)
{
    return lockf64(fd, F_LOCK, 0);
}

static int (*const locks[])(int fd) = {lock_by_flock, lock_by_fcntl, lock_by_fcntl64,
                                       lock_by_ofd,   lock_by_lockf, lock_by_lockf64};

static weft_value take_lock(void *arg)
{
    const locking *l = arg;
    return result_of(l->lock(l->fd));
}

/* A process that holds a lock until it reads a byte. */
static pid_t start_holder(const char *path, int (*lock)(int fd), int commands, int answers)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child != 0)
        return child;
    char byte = 'x';
    int fd = open(path, O_RDWR);
    bool is_good = lock(fd) == 0 && write(answers, &byte, 1) == 1 && read(commands, &byte, 1) == 1;
    _exit(is_good ? 0 : 1);
}

TEST_ROWS(a_lock_that_another_process_holds_lets_other_fibers_run, locks)
{
    char path[] = "/tmp/weft-lock-XXXXXX";
    int file = mkstemp(path), commands[2], answers[2];
    ck_assert_int_ge(file, 0);
    open_pipe(commands);
    open_pipe(answers);
    pid_t child = start_holder(path, locks[_i], commands[0], answers[1]);
    char byte;
    ck_assert_int_eq(read(answers[0], &byte, 1), 1);
    weft_fiber f = spin_waiting(take_lock, &(locking){file, locks[_i]});
    put_text(commands[1], "x");
    ck_assert_int_eq(weft_await(f), 0);
    int status;
    ck_assert_int_eq(weft_waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(unlink(path), 0);
}

TEST(a_lock_that_is_free_is_taken_at_once)
{
    for (size_t i = 0; i < COUNT_OF(locks); i++)
        ck_assert_int_eq(locks[i](open_temporary_file()), 0);
    ck_assert_uint_eq(posix_stats().waits, 0);
    ck_assert_errno(flock(1000, LOCK_EX), EBADF);
    ck_assert_errno(lockf(1000, F_LOCK, 0), EBADF);
}

TEST(attempts_to_lock_do_not_wait)
{
    int fd = open_temporary_file();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    ck_assert_errno(flock(fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    struct flock all = {.l_type = F_WRLCK};
    ck_assert_int_eq(fcntl(other, F_OFD_SETLK, &all), 0);
    all = (struct flock){.l_type = F_WRLCK};
    ck_assert_errno(fcntl(fd, F_OFD_SETLK, &all), EAGAIN);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

TEST(other_commands_of_fcntl_keep_their_arguments)
{
    int fd[2];
    open_pipe(fd);
    int copy = fcntl(fd[0], F_DUPFD, 50);
    ck_assert_int_ge(copy, 50);
    ck_assert_int_eq(fcntl(copy, F_GETFD), 0);
    ck_assert_int_eq(fcntl(copy, F_SETFD, FD_CLOEXEC), 0);
    ck_assert_int_eq(fcntl64(copy, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(fd[0], F_SETPIPE_SZ, 65536), 65536);
    struct f_owner_ex owner = {F_OWNER_PID, getpid()}, seen;
    ck_assert_int_eq(fcntl(fd[0], F_SETOWN_EX, &owner), 0);
    ck_assert_int_eq(fcntl(fd[0], F_GETOWN_EX, &seen), 0);
    ck_assert_int_eq(seen.pid, getpid());
}

TEST(fsync_waits_with_weft)
{
    int fd = open_temporary_file();
    ck_assert_int_eq(write(fd, "x", 1), 1);
    ck_assert_int_eq(fsync(fd), 0);
    ck_assert_int_eq(fdatasync(fd), 0);
    ck_assert_uint_eq(posix_stats().waits, 2);
    ck_assert_errno(fsync(1000), EBADF);
}

/* Copies. */

typedef struct copying {
    int out, in;
    size_t bytes;
    off_t *offset;
} copying;

static weft_value send_file(void *arg)
{
    const copying *c = arg;
    return result_of(sendfile(c->out, c->in, c->offset, c->bytes));
}

static int open_pattern_file(const char *data, size_t bytes)
{
    int file = open_temporary_file();
    ck_assert_int_eq(weft_write_all(file, data, bytes), (ssize_t)bytes);
    ck_assert_int_eq(lseek(file, 0, SEEK_SET), 0);
    return file;
}

TEST_LOOP(sendfile_sends_all_bytes, 2)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    char *data = new_pattern(10 * MIB);
    int file = open_pattern_file(data, 10 * MIB);
    off_t offset = 0;
    copying c = {fd[1], file, 10 * MIB, _i == 0 ? NULL : &offset};
    weft_fiber f = spin_waiting(send_file, &c);
    weft_fiber reader = weft_spin(drain, &(draining){fd[0], data, 10 * MIB});
    ck_assert_int_eq(weft_await(f), (ssize_t)(10 * MIB));
    ck_assert_int_eq(weft_await(reader), 0);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), _i == 0 ? (off_t)(10 * MIB) : 0);
    ck_assert_int_eq(offset, _i == 0 ? 0 : (off_t)(10 * MIB));
    ck_assert_int_eq(send_file(&c), 0); /* at the end of the file */
    free(data);
}

TEST(a_cancelled_sendfile_returns_the_bytes_sent)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    char *data = new_pattern(4 * MIB);
    int file = open_pattern_file(data, 4 * MIB);
    weft_value n = cancelled_result(send_file, &(copying){fd[1], file, 4 * MIB, NULL});
    ck_assert(n > 0 && (size_t)n < 4 * MIB);
    ck_assert_int_eq(lseek(file, 0, SEEK_CUR), n);
    free(data);
}

TEST(sendfile_and_splice_raise_SIGPIPE)
{
    int fd[2], pipe_fd[2];
    open_pair(fd, SOCK_STREAM);
    open_pipe(pipe_fd);
    int file = open_pattern_file("abc", 3);
    handle_signal(SIGPIPE, 0);
    ck_assert_int_eq(close(fd[0]), 0);
    ck_assert_errno(sendfile(fd[1], file, NULL, 3), EPIPE);
    ck_assert_int_eq(signals_seen, 1);
    put_text(pipe_fd[1], "abc");
    ck_assert_errno(splice(pipe_fd[0], NULL, fd[1], NULL, 3, 0), EPIPE);
    ck_assert_int_eq(signals_seen, 2);
}

static weft_value splice_some(void *arg)
{
    const copying *c = arg;
    return result_of(splice(c->in, NULL, c->out, NULL, c->bytes, 0));
}

TEST(splice_waits_for_input)
{
    int in[2], out[2];
    open_pipe(in);
    open_pair(out, SOCK_STREAM);
    weft_fiber f = spin_waiting(splice_some, &(copying){out[0], in[0], 10, NULL});
    put_text(in[1], "abc");
    ck_assert_int_eq(weft_await(f), 3);
    char text[8] = "";
    ck_assert_int_eq(recv(out[1], text, sizeof text, 0), 3);
    ck_assert_str_eq(text, "abc");
    ck_assert_errno(splice(in[0], NULL, out[0], NULL, 1, SPLICE_F_NONBLOCK), EAGAIN);
    ck_assert_int_eq(cancelled_result(splice_some, &(copying){out[0], in[0], 10, NULL}),
                     -ECANCELED);
}

TEST(non_blocking_copies_give_EAGAIN)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    set_nonblocking(fd[1]);
    char *data = new_pattern(4 * MIB);
    int file = open_pattern_file(data, 4 * MIB);
    ssize_t n = sendfile(fd[1], file, NULL, 4 * MIB);
    ck_assert(n > 0 && (size_t)n < 4 * MIB);
    ck_assert_errno(sendfile(fd[1], file, NULL, 1), EAGAIN);
    free(data);
}
