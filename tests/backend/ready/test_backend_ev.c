/*
 * Tests of the libev backend. libev reports readiness repeatedly while it lasts, and ends the
 * process after an unexpected error. The backend must hide both.
 */
#include "backend/backend_harness.h"

#include <fcntl.h>
#include <sys/resource.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define HAS_OWN_MALLOC 1
#else
#define HAS_OWN_MALLOC RUNNING_ON_VALGRIND
#endif

FIXTURE(open_backend, close_backend)

#define WAIT_NS 3000000

static void assert_poll_lasts(int64_t timeout_ns)
{
    int64_t before = type->now_ns(backend);
    ck_assert_int_eq(type->poll(backend, timeout_ns), 0);
    ck_assert_int_ge(type->now_ns(backend), before + timeout_ns);
}

/*
 * Assert that poll waits although there is data to read. The epoll method of libev may report it
 * once.
 */
static void assert_poll_waits(void)
{
    ck_assert_int_eq(type->poll(backend, WAIT_NS), 0);
    assert_poll_lasts(WAIT_NS);
}

TEST(readiness_without_a_waiter_does_not_end_a_poll)
{
    int fd[2];
    char got;
    test_op read = {0}, wait = {0};
    ck_assert_int_eq(type->socketpair(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "abc", 3), 3);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 1);
    assert_poll_waits(); /* the read has completed, with data left */

    ck_assert_int_eq(read_now(fd[0], &got, 1), 1);
    ck_assert_int_eq(read_now(fd[0], &got, 1), 1);
    ck_assert(start_read(&read, fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->poll(backend, 0), 0);
    ck_assert(type->cancel(backend, &read.op));
    ck_assert_int_eq(write_now(fd[1], "d", 1), 1);
    assert_poll_waits(); /* the read was cancelled */

    static const char block[4096];
    size_t filled = fill_pending(&wait, fd[0], block, sizeof block);
    assert_poll_waits(); /* readable, and a write is pending */
    drain_bytes(fd[1], filled);
    ck_assert_int_gt(finish_op(&wait, WEFT__OP_PENDING), 0);
}

TEST(a_descriptor_closed_without_the_backend_before_a_poll_is_an_error)
{
    int fd[2];
    char got;
    test_op read[2] = {{.is_done = false}}, wait = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read[0], fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert(start_read(&read[1], fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert(start_wait(&wait, fd[0], POLLIN) == WEFT__OP_PENDING);
    close(fd[0]);
    ck_assert_int_eq(finish_op(&read[0], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish_op(&read[1], WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(finish_op(&wait, WEFT__OP_PENDING), -EBADF);
    ck_assert_int_eq(type->close_fd(backend, fd[0]), -EBADF);
}

TEST(a_descriptor_closed_without_the_backend_after_a_poll_does_no_harm)
{
    int fd[2], other[2];
    char got;
    test_op read = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert_int_eq(type->pipe(backend, other), 0);
    ck_assert(start_read(&read, fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->poll(backend, 0), 0);
    close(fd[0]);
    ck_assert_int_eq(type->poll(backend, 0), 0);
    test_op elsewhere = {0};
    ck_assert(start_read(&elsewhere, other[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(other[1], "x", 1), 1);
    ck_assert_int_eq(finish_op(&elsewhere, WEFT__OP_PENDING), 1);
    /* epoll does not report the close, the other methods do. */
    ck_assert_int_eq(type->close_fd(backend, fd[0]), -EBADF);
    ck_assert(read.is_done);
    ck_assert_int_eq(read.result, -EBADF);
}

TEST(a_descriptor_without_waiters_may_be_closed_without_the_backend)
{
    int fd[2];
    char got;
    test_op read = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    ck_assert(start_read(&read, fd[0], &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(type->poll(backend, 0), 0);
    ck_assert(type->cancel(backend, &read.op));
    close(fd[0]);
    assert_poll_waits();
}

TEST(a_timeout_starts_at_the_call_and_not_at_the_previous_poll)
{
    ck_assert_int_eq(type->poll(backend, 0), 0);
    int64_t before = type->now_ns(backend);
    while (type->now_ns(backend) < before + 2 * WAIT_NS)
        continue;
    assert_poll_lasts(WAIT_NS);
}

TEST(opening_a_backend_without_a_free_descriptor_fails)
{
    int first = dup(STDERR_FILENO);
    close(first);
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
    struct rlimit none = {.rlim_cur = (rlim_t)first, .rlim_max = old.rlim_max};
    weft__backend *another;
    for (int free_numbers = 0; free_numbers < 2; free_numbers++, none.rlim_cur++) {
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
        int rc = type->open(&another);
        if (rc == 0) /* poll and select need only the wake-up descriptor */
            type->close(another);
        else
            ck_assert_int_eq(rc, -EMFILE);
        ck_assert(free_numbers > 0 || rc == -EMFILE);
    }
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(statm);
    ck_assert_int_eq(fscanf(statm, "%lu", &pages), 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

TEST(a_read_without_memory_for_a_high_number_fails)
{
    enum { HIGH = 15000, LEFT = 64 << 10 }; /* one table alone takes 240 KB */
    struct rlimit numbers, space;
    getrlimit(RLIMIT_NOFILE, &numbers);
    numbers.rlim_cur = numbers.rlim_max;
    setrlimit(RLIMIT_NOFILE, &numbers);
    if (HAS_OWN_MALLOC || numbers.rlim_cur <= HIGH)
        return;
    int fd[2];
    char got;
    test_op read = {0};
    ck_assert_int_eq(type->pipe(backend, fd), 0);
    int high = fcntl(fd[0], F_DUPFD, HIGH);
    ck_assert_int_ge(high, HIGH);
    getrlimit(RLIMIT_AS, &space);
    struct rlimit tight = {.rlim_cur = address_space() + LEFT, .rlim_max = space.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &tight), 0);
    intptr_t rc = start_read(&read, high, &got, 1);
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &space), 0);
    ck_assert_int_eq(rc, -ENOMEM);
    ck_assert(start_read(&read, high, &got, 1) == WEFT__OP_PENDING);
    ck_assert_int_eq(write_now(fd[1], "x", 1), 1);
    ck_assert_int_eq(finish_op(&read, WEFT__OP_PENDING), 1);
}

TEST(a_directory_cannot_be_waited_on)
{
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    test_op wait = {0};
    ck_assert_int_eq(start_wait(&wait, fd, POLLIN), -EPERM);
}

TEST(opening_a_backend_leaves_signals_unchanged)
{
    enum { SIGNALS = 32 };
    struct sigaction before[SIGNALS], now;
    sigset_t mask_before, mask;
    for (int number = 1; number < SIGNALS; number++)
        sigaction(number, NULL, &before[number]);
    pthread_sigmask(SIG_BLOCK, NULL, &mask_before);
    weft__backend *another;
    ck_assert_int_eq(type->open(&another), 0);
    ck_assert_int_eq(type->poll(another, 1), 0);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < SIGNALS; number++) {
        sigaction(number, NULL, &now);
        ck_assert(now.sa_handler == before[number].sa_handler);
        ck_assert_int_eq(sigismember(&mask, number), sigismember(&mask_before, number));
    }
    type->close(another);
}
