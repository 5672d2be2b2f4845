/* Hooked poll, select and epoll_wait, and their signal masks. */
#include "posix/posix_io_support.h"

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>

FIXTURE(adopt_in_cord, NULL)

#define MANY 100

/* Descriptors for which a fiber waits, and the way to wait. */
typedef struct watching {
    int pipes[MANY][2];
    size_t count;
    int timeout_ms;
    struct pollfd fds[MANY];
    int epoll_fd;
    const sigset_t *mask;
    int winner; /* the number of the ready pipe; -1: none */
} watching;

static void open_watching(watching *w, size_t count)
{
    *w = (watching){.count = count, .timeout_ms = -1, .epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
    for (size_t i = 0; i < count; i++) {
        open_pipe(w->pipes[i]);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        ck_assert_int_eq(epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->pipes[i][0], &event), 0);
    }
}

static void fill_fds(watching *w)
{
    for (size_t i = 0; i < w->count; i++)
        w->fds[i] = (struct pollfd){.fd = w->pipes[i][0], .events = POLLIN};
    w->winner = -1;
}

static weft_value take_fds(watching *w, int n)
{
    for (size_t i = 0; i < w->count; i++)
        if (n > 0 && w->fds[i].revents & POLLIN)
            w->winner = (int)i;
    return result_of(n);
}

static weft_value by_poll(void *arg)
{
    watching *w = arg;
    fill_fds(w);
    return take_fds(w, poll(w->fds, w->count, w->timeout_ms));
}

static const struct timespec *timespec_of(int timeout_ms, struct timespec *out)
{
    *out = (struct timespec){timeout_ms / 1000, timeout_ms % 1000 * 1000000L};
    return timeout_ms < 0 ? NULL : out;
}

static weft_value by_ppoll(void *arg)
{
    watching *w = arg;
    struct timespec time;
    fill_fds(w);
    return take_fds(w, ppoll(w->fds, w->count, timespec_of(w->timeout_ms, &time), w->mask));
}

static int fill_set(watching *w, fd_set *set)
{
    int end = 0;
    FD_ZERO(set);
    for (size_t i = 0; i < w->count; i++) {
        FD_SET(w->pipes[i][0], set);
        end = w->pipes[i][0] + 1;
    }
    w->winner = -1;
    return end;
}

static weft_value take_set(watching *w, const fd_set *set, int n)
{
    for (size_t i = 0; i < w->count; i++)
        if (n > 0 && FD_ISSET(w->pipes[i][0], set))
            w->winner = (int)i;
    return result_of(n);
}

static weft_value by_select(void *arg)
{
    watching *w = arg;
    fd_set set, other;
    int end = fill_set(w, &set);
    FD_ZERO(&other);
    struct timeval time = {w->timeout_ms / 1000, w->timeout_ms % 1000 * 1000L};
    return take_set(w, &set, select(end, &set, &other, NULL, w->timeout_ms < 0 ? NULL : &time));
}

static weft_value by_pselect(void *arg)
{
    watching *w = arg;
    fd_set set;
    struct timespec time;
    int end = fill_set(w, &set);
    return take_set(w, &set,
                    pselect(end, &set, NULL, NULL, timespec_of(w->timeout_ms, &time), w->mask));
}

static weft_value take_events(watching *w, const struct epoll_event *event, int n)
{
    w->winner = n > 0 ? (int)event->data.u32 : -1;
    return result_of(n);
}

static weft_value by_epoll_wait(void *arg)
{
    watching *w = arg;
    struct epoll_event event[4];
    return take_events(w, event, epoll_wait(w->epoll_fd, event, 4, w->timeout_ms));
}

static weft_value by_epoll_pwait(void *arg)
{
    watching *w = arg;
    struct epoll_event event[4];
    return take_events(w, event, epoll_pwait(w->epoll_fd, event, 4, w->timeout_ms, w->mask));
}

static weft_value by_epoll_pwait2(void *arg)
{
    watching *w = arg;
    struct epoll_event event[4];
    struct timespec time;
    const struct timespec *limit = timespec_of(w->timeout_ms, &time);
    return take_events(w, event, epoll_pwait2(w->epoll_fd, event, 4, limit, w->mask));
}

static weft_fn *const ways[] = {by_poll,       by_ppoll,       by_select,      by_pselect,
                                by_epoll_wait, by_epoll_pwait, by_epoll_pwait2};
#define WAYS ((int)COUNT_OF(ways))

static const size_t counts[] = {1, 2, 9, MANY};
#define COUNTS ((int)COUNT_OF(counts))

TEST_LOOP(every_way_to_wait_lets_other_fibers_run, WAYS *COUNTS)
{
    static watching w;
    size_t n = counts[_i / WAYS];
    open_watching(&w, n);
    for (int round = 0; round < 3; round++) {
        weft_fiber f = spin_waiting(ways[_i % WAYS], &w);
        put_text(w.pipes[n - 1][1], "x");
        ck_assert_int_eq(weft_await(f), 1);
        ck_assert_int_eq(w.winner, (int)n - 1);
        char byte;
        ck_assert_int_eq(read(w.pipes[n - 1][0], &byte, 1), 1);
    }
    ck_assert_uint_eq(posix_stats().waits, 3);
}

TEST_LOOP(a_call_that_is_ready_does_not_wait, WAYS)
{
    static watching w;
    open_watching(&w, 2);
    put_text(w.pipes[1][1], "x");
    ck_assert_int_eq(ways[_i](&w), 1);
    ck_assert_int_eq(w.winner, 1);
    ck_assert_uint_eq(posix_stats().waits, 0);
}

TEST_LOOP(a_call_with_a_time_returns_0_after_it, WAYS *COUNTS)
{
    static watching w;
    open_watching(&w, counts[_i / WAYS]);
    w.timeout_ms = 10;
    double begin = weft_now();
    ck_assert_int_eq(ways[_i % WAYS](&w), 0);
    ck_assert_slept(begin, 0.01);
    ck_assert_int_eq(w.winner, -1);
    w.timeout_ms = 0;
    ck_assert_int_eq(ways[_i % WAYS](&w), 0);
    ck_assert_uint_eq(posix_stats().waits, 1);
}

TEST_LOOP(a_deadline_gives_ECANCELED, WAYS *COUNTS)
{
    static watching w;
    open_watching(&w, counts[_i / WAYS]);
    weft_value n = 0;
    int rc;
    WEFT_CANCEL_AFTER(0.01, rc) {
        n = ways[_i % WAYS](&w);
    }
    ck_assert_int_eq(n, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST_LOOP(errno_is_unchanged_after_a_wait, WAYS)
{
    static watching w;
    open_watching(&w, 1);
    w.timeout_ms = 1;
    errno = 77;
    ck_assert_int_eq(ways[_i](&w), 0);
    ck_assert_int_eq(errno, 77);
}

/* Special cases of poll. */

TEST(a_poll_without_descriptors_sleeps)
{
    weft_spin(mark_and_return, "other ");
    ck_assert_int_eq(poll(NULL, 0, 10), 0);
    ck_assert_trail("other ");
    ck_assert_int_eq(weft_await_children(), 0);
}

TEST(a_poll_reports_invalid_descriptors_at_once)
{
    struct pollfd p[] = {{1000, POLLIN, 0}, {-1, POLLIN, 99}};
    ck_assert_int_eq(poll(p, 2, -1), 1);
    ck_assert_int_eq(p[0].revents, POLLNVAL);
    ck_assert_int_eq(p[1].revents, 0);
}

TEST(a_ppoll_with_an_invalid_time_fails)
{
    struct timespec bad = {.tv_nsec = 1000000000};
    ck_assert_errno(ppoll(NULL, 0, &bad, NULL), EINVAL);
}

/* Special cases of select. */

TEST(select_changes_its_time_and_only_the_sets_that_it_has)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    fd_set reads, writes, excepts;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_ZERO(&excepts);
    FD_SET(fd[0], &reads);
    FD_SET(fd[0], &writes);
    FD_SET(fd[0], &excepts);
    struct timeval time = {.tv_sec = 60};
    ck_assert_int_eq(select(fd[0] + 1, &reads, &writes, &excepts, &time), 1);
    ck_assert(!FD_ISSET(fd[0], &reads) && FD_ISSET(fd[0], &writes) && !FD_ISSET(fd[0], &excepts));
    FD_SET(fd[0], &reads);
    time = (struct timeval){.tv_usec = 1000};
    ck_assert_int_eq(select(fd[0] + 1, &reads, NULL, NULL, &time), 0);
    ck_assert(!FD_ISSET(fd[0], &reads));
    ck_assert_int_eq(time.tv_sec + time.tv_usec, 0);
    struct timeval negative = {.tv_sec = -1};
    ck_assert_errno(select(0, NULL, NULL, NULL, &negative), EINVAL);
}

TEST(select_leaves_its_sets_unchanged_when_it_is_cancelled)
{
    int fd[2];
    open_pipe(fd);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fd[0], &reads);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_errno(select(fd[0] + 1, &reads, NULL, NULL, NULL), ECANCELED);
    }
    ck_assert(FD_ISSET(fd[0], &reads));
}

TEST(select_without_sets_sleeps_and_with_closed_descriptors_fails)
{
    struct timeval time = {.tv_usec = 1000};
    ck_assert_int_eq(select(0, NULL, NULL, NULL, &time), 0);
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(60, &reads); /* the kernel ignores numbers above the size of its table */
    ck_assert_errno(select(61, &reads, NULL, NULL, NULL), EBADF);
}

TEST(select_takes_sets_that_are_larger_than_fd_set)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur < 4096)
        return;
    int fd[2];
    open_pipe(fd);
    int high = fcntl(fd[0], F_DUPFD_CLOEXEC, 3000);
    ck_assert_int_ge(high, 3000);
    fd_set sets[4]; /* 4096 bits */
    memset(sets, 0, sizeof sets);
    unsigned long *words = (unsigned long *)sets;
    size_t bits = 8 * sizeof *words, index = (size_t)high / bits;
    words[index] |= 1ul << ((size_t)high % bits);
    struct timeval time = {.tv_usec = 1000};
    ck_assert_int_eq(select(high + 1, sets, NULL, NULL, &time), 0);
    words[index] |= 1ul << ((size_t)high % bits);
    put_text(fd[1], "x");
    ck_assert_int_eq(select(high + 1, sets, NULL, NULL, NULL), 1);
    ck_assert_uint_eq(words[index], 1ul << ((size_t)high % bits));
}

TEST(select_does_not_use_memory_beyond_the_numbers_that_can_be_open)
{
    int fd[2];
    open_pipe(fd);
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *pages =
        mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(pages != MAP_FAILED);
    ck_assert_int_eq(mprotect(pages + page_bytes, page_bytes, PROT_NONE), 0);
    fd_set *reads = (fd_set *)(void *)(pages + page_bytes - sizeof *reads);
    struct timeval time = {.tv_usec = 1000};
    FD_SET(fd[0], reads);
    ck_assert_int_eq(select(1 << 20, reads, NULL, NULL, &time), 0); /* a value of getdtablesize */
    FD_SET(fd[0], reads);
    put_text(fd[1], "x");
    ck_assert_int_eq(select(1 << 20, reads, NULL, NULL, NULL), 1);
    ck_assert(FD_ISSET(fd[0], reads));
}

TEST(select_for_exceptions_does_not_return_for_a_closed_connection)
{
    int fd[2];
    open_pair(fd, SOCK_STREAM);
    ck_assert_int_eq(close(fd[1]), 0);
    fd_set excepts;
    FD_ZERO(&excepts);
    FD_SET(fd[0], &excepts);
    struct timeval time = {.tv_usec = 20000};
    ck_assert_int_eq(select(fd[0] + 1, NULL, NULL, &excepts, &time), 0);
}

/* Special cases of epoll_wait. */

TEST(two_fibers_wait_for_one_epoll_descriptor)
{
    static watching w, other;
    open_watching(&w, 2);
    other = w;
    struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = 0};
    ck_assert_int_eq(epoll_ctl(w.epoll_fd, EPOLL_CTL_MOD, w.pipes[0][0], &once), 0);
    once.data.u32 = 1;
    ck_assert_int_eq(epoll_ctl(w.epoll_fd, EPOLL_CTL_MOD, w.pipes[1][0], &once), 0);
    weft_fiber a = spin_waiting(by_epoll_wait, &w), b = spin_waiting(by_epoll_wait, &other);
    put_text(w.pipes[0][1], "x");
    let_run();
    put_text(w.pipes[1][1], "x");
    ck_assert_int_eq(weft_await(a), 1);
    ck_assert_int_eq(weft_await(b), 1);
    ck_assert_int_eq(w.winner + other.winner, 0 + 1);
}

TEST(a_descriptor_that_joins_an_epoll_during_the_wait_ends_it)
{
    static watching w;
    open_watching(&w, 1);
    weft_fiber f = spin_waiting(by_epoll_wait, &w);
    int fd[2];
    open_pipe(fd);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = 7};
    ck_assert_int_eq(epoll_ctl(w.epoll_fd, EPOLL_CTL_ADD, fd[0], &event), 0);
    put_text(fd[1], "x");
    ck_assert_int_eq(weft_await(f), 1);
    ck_assert_int_eq(w.winner, 7);
}

TEST(invalid_calls_of_epoll_wait_have_the_errors_of_libc)
{
    struct epoll_event event;
    ck_assert_errno(epoll_wait(1000, &event, 1, -1), EBADF);
    int fd[2];
    open_pipe(fd);
    ck_assert_errno(epoll_wait(fd[0], &event, 1, -1), EINVAL);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    ck_assert_errno(epoll_wait(epoll_fd, &event, 0, -1), EINVAL);
}

/* Signal masks. */

static weft_fn *const masked_ways[] = {by_ppoll, by_pselect, by_epoll_pwait, by_epoll_pwait2};

TEST_LOOP(a_signal_that_the_mask_unblocks_ends_the_wait, 2 * 4)
{
    static watching w;
    open_watching(&w, 1);
    handle_signal(SIGUSR1, SA_RESTART);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
    w.mask = &none;
    if (_i / 4 == 0) /* pending before the call */
        ck_assert_int_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
    weft_fiber f = weft_spin(masked_ways[_i % 4], &w);
    let_run();
    if (_i / 4 == 1) {
        ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
        ck_assert_int_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
        ck_assert_int_eq(signals_seen, 0); /* other fibers keep their mask */
    }
    ck_assert_int_eq(weft_await(f), -EINTR);
    ck_assert_int_eq(signals_seen, 1);
    sigset_t after;
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    ck_assert(sigismember(&after, SIGUSR1));
}

TEST_LOOP(a_wait_with_a_mask_returns_events, 4)
{
    static watching w;
    open_watching(&w, 1);
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
    w.mask = &none;
    weft_fiber f = spin_waiting(masked_ways[_i], &w);
    put_text(w.pipes[0][1], "x");
    ck_assert_int_eq(weft_await(f), 1);
    char byte;
    ck_assert_int_eq(read(w.pipes[0][0], &byte, 1), 1);
    w.timeout_ms = 30; /* longer than the interval of checks */
    ck_assert_int_eq(masked_ways[_i](&w), 0);
}
