/*
 * Tests of backends on kernel descriptors that the backend did not create. A blocking descriptor of
 * any kind must not block the thread. The program may close and reuse a number without the backend.
 */
#include "backend/backend_harness.h"

#include <fcntl.h>
#include <sys/time.h>

FIXTURE(open_backend, close_backend)

/* Open a pair at the numbers that were just closed. */
static void reopen_pair(int kind, int fd[2])
{
    int numbers[2] = {fd[0], fd[1]};
    int rc = kind ? type->socketpair(backend, fd) : type->pipe(backend, fd);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(fd[0], numbers[0]);
    ck_assert_int_eq(fd[1], numbers[1]);
}

/*
 * Guaranteed only for new numbers from the backend. The backend may mistake other new files for the
 * old file.
 */
TEST(a_number_that_was_closed_without_the_backend_works_for_its_new_file)
{
    int fd[2];
    char got[8];
    ck_assert_int_eq(pipe(fd), 0);
    for (int round = 0; round < 6; round++) {
        test_op read = {0}, write = {0};
        static const char block[4096];
        ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
        ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
        ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
        size_t filled = fill_pending(&write, fd[1], block, sizeof block);
        drain_bytes(fd[0], filled);
        ck_assert_int_gt(finish_op(&write, WEFT__OP_PENDING), 0);
        close(fd[0]);
        ck_assert_int_eq(write_now(fd[1], block, 1), -EPIPE);
        close(fd[1]);
        reopen_pair(round & 1, fd);
    }
}

/* A readiness wait does not use cached state of the number. */
TEST(an_event_of_a_file_that_lost_its_number_is_dropped)
{
    int old[2], new[2];
    char got[8] = "";
    test_op read = {0}, wait = {0};
    ck_assert_int_eq(pipe(old), 0);
    ck_assert(start_read(&read, old[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(cancel_op(&read), -ECANCELED);
    int duplicate = dup(old[0]); /* keeps the file open, with its registration */
    ck_assert_int_eq(pipe(new), 0);
    ck_assert_int_eq(dup2(new[0], old[0]), old[0]);
    ck_assert(start_wait(&wait, old[0], POLLIN) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(old[1], "stale", 5), 5);
    type->poll(backend, 0);
    ck_assert(!wait.is_done);
    ck_assert_int_eq(write(new[1], "new", 3), 3);
    ck_assert_int_eq(finish_op(&wait, WEFT__OP_PENDING), POLLIN);
    ck_assert_int_eq(read_now(old[0], got, 8), 3);
    ck_assert_str_eq(got, "new");
    /*
     * Move the first file back. Its epoll registration for this number still exists, but the
     * backend has dropped its state.
     */
    ck_assert_int_eq(type->close_fd(backend, old[0]), 0);
    ck_assert_int_eq(dup2(duplicate, old[0]), old[0]);
    ck_assert_int_eq(read_now(old[0], got, 8), 5);
    ck_assert(start_read(&read, old[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write(old[1], "back", 4), 4);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 4);
}

TEST(a_closed_descriptor_with_a_duplicate_causes_no_wakeups)
{
    int fd[2];
    char got[8];
    test_op read = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_ge(dup(fd[0]), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    int64_t before = type->now_ns(backend);
    ck_assert_int_eq(type->poll(backend, 20000000), 0);
    ck_assert_int_ge(type->now_ns(backend), before + 20000000);
}

/* Read until the other operation has completed. */
static void drain_until(int fd, const test_op *other)
{
    char sink[5000];
    test_op read = {.is_done = true};
    while (!other->is_done) {
        if (read.is_done && start_read(&read, fd, sink, sizeof sink) != WEFT__OP_PENDING)
            read.is_done = true;
        type->poll(backend, read.is_done ? 0 : -1);
    }
    if (!read.is_done)
        cancel_op(&read);
}

TEST(a_blocking_terminal_does_not_block_the_thread)
{
    int terminal[2];
    char got[8] = "";
    test_op read = {0}, write = {0};
    static char block[100000]; /* more than a terminal holds */
    memset(block, 'a', sizeof block);
    terminal[0] = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal[0] < 0 || grantpt(terminal[0]) != 0) {
        fprintf(stderr, "skipped: devpts is not available\n");
        return;
    }
    ck_assert_int_eq(unlockpt(terminal[0]), 0);
    terminal[1] = open(ptsname(terminal[0]), O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal[1], 0);

    ck_assert(start_read(&read, terminal[1], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(terminal[0], "hi\n", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
    drain_bytes(terminal[0], 4); /* the echo */
    size_t filled = fill_pending(&write, terminal[1], block, sizeof block);
    ck_assert_uint_lt(filled, sizeof block);
    drain_until(terminal[0], &write); /* on io_uring, the write completes after all bytes */
    ck_assert_int_gt(write.result, 0);
    ck_assert_int_eq(fcntl(terminal[1], F_GETFL) & O_NONBLOCK, 0);
}

TEST(a_named_pipe_behaves_like_any_other_pipe)
{
    char path[] = "/tmp/weft-test-XXXXXX/fifo", got[8];
    char *slash = strrchr(path, '/');
    *slash = '\0';
    ck_assert_ptr_nonnull(mkdtemp(path));
    *slash = '/';
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    int fd[2];
    fd[0] = open(path, O_RDONLY | O_NONBLOCK);
    fd[1] = open(path, O_WRONLY);
    ck_assert_int_eq(fcntl(fd[0], F_SETFL, 0), 0);
    unlink(path);
    *slash = '\0';
    rmdir(path);

    test_op read = {0}, write = {0};
    static const char block[10000];
    ck_assert(start_read(&read, fd[0], got, 8) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 3);
    drain_bytes(fd[0], fill_pending(&write, fd[1], block, sizeof block));
    ck_assert_int_gt(finish_op(&write, WEFT__OP_PENDING), 0);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), 0);
    ck_assert_int_eq(write_now(fd[1], "x", 1), -EPIPE);
    sigset_t pending;
    sigpending(&pending);
    ck_assert(!sigismember(&pending, SIGPIPE));
}

static void ignore_signal(int number)
{
    (void)number;
}

TEST(a_signal_ends_a_poll_early_and_without_error)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    sigaction(SIGALRM, &action, NULL);
    /* Repeat the signal, so that one arrives while poll waits. */
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    ck_assert_int_eq(type->poll(backend, -1), 0);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
}
