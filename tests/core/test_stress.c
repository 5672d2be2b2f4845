/*
 * Tests with large numbers of fibers, switches, sleeps and children, and with too little memory.
 * Each test takes at most a few seconds on a slow machine. Counts are asserted, durations are not.
 */
#include "support/support.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

/* Sanitizers and Valgrind use additional memory, and are many times slower. */
static bool is_checked(void)
{
    return IS_SANITIZED || RUNNING_ON_VALGRIND;
}

static int reduced_count(int n)
{
    return is_checked() ? n / 20 : n;
}

/* Like ck_assert, without its cost for conditions that hold. */
#define REQUIRE(condition)                                \
    do {                                                  \
        if (!(condition))                                 \
            ck_abort_msg("%s does not hold", #condition); \
    } while (0)

#define GUARD_INSTALL 102 /* MADV_GUARD_INSTALL */

static bool kernel_has_guards(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    bool has = madvise(at, page, GUARD_INSTALL) == 0;
    munmap(at, page);
    return has;
}

static size_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    size_t total, resident;
    ck_assert_int_eq(fscanf(file, "%zu %zu", &total, &resident), 2);
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static weft_counters counters_now(void)
{
    weft_counters now;
    ck_assert_int_eq(weft_stats(&now), 0);
    return now;
}

static void assert_nothing_left(void)
{
    weft_counters now = counters_now();
    ck_assert_uint_eq(now.fibers, 0);
    ck_assert_uint_eq(now.fibers_unawaited, 0);
    ck_assert_uint_eq(now.runnable, 0);
    ck_assert_uint_eq(now.timers, 0);
    ck_assert_uint_eq(now.ops_pending, 0);
    ck_assert_uint_eq(now.stacks, now.stacks_cached);
}

static size_t counted;

static weft_value snooze_often(void *arg)
{
    for (int i = 0; i < (int)(intptr_t)arg; i++) {
        int rc = weft_snooze();
        if (rc < 0)
            return rc;
        counted++;
    }
    return 0;
}

/* T2 */
START_TEST(a_hundred_fibers_snooze_fifty_thousand_times_and_all_finish)
{
    weft_fiber f[100];
    const int times = reduced_count(50000);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(snooze_often, as_arg(times));
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_uint_eq(counted, COUNT_OF(f) * (size_t)times);
    assert_nothing_left();
}
END_TEST

static weft_value sleep_and_count(void *arg)
{
    double seconds = (double)(intptr_t)arg * 1e-6;
    double from = weft_now();
    int rc = weft_sleep(seconds);
    if (rc < 0)
        return rc;
    REQUIRE(weft_now() - from >= seconds);
    counted++;
    return 0;
}

/* T16 */
START_TEST(no_sleeping_fiber_is_lost)
{
    unsigned random = 1;
    for (int round = 0; round < 10; round++) {
        counted = 0;
        for (int i = 0; i < 300; i++) {
            random = random * 1103515245 + 12345;
            REQUIRE(weft_go(sleep_and_count, as_arg(random >> 16 & 127)) == 0);
        }
        ck_assert_int_eq(weft_await_children(), 0);
        ck_assert_uint_eq(counted, 300);
    }
    assert_nothing_left();
}
END_TEST

static weft_value suspend_and_count(void *arg)
{
    (void)arg;
    weft_value rc = weft_suspend();
    counted += rc == -ECANCELED;
    return rc;
}

/* Spin n fibers, and let each reach its wait. */
static void spin_waiting_fibers(size_t n)
{
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_go(suspend_and_count, NULL) == 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(counters_now().fibers, n);
}

/* T54: the default vm.max_map_count is 65,530. */
START_TEST(a_hundred_thousand_fibers_wait_with_guards_and_little_memory)
{
    const size_t n = (size_t)reduced_count(100000);
    weft_self();
    size_t before = resident_bytes();
    spin_waiting_fibers(n);
    size_t each = (resident_bytes() - before) / n;
    if (kernel_has_guards())
        ck_assert_uint_eq(counters_now().stacks_unguarded, 0);
    if (!is_checked() && sysconf(_SC_PAGESIZE) == 4096)
        ck_assert_uint_le(each, (4096 + 600) * 11 / 10);
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    ck_assert_uint_eq(counted, n);
    assert_nothing_left();
}
END_TEST

static weft_value spin_children(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        REQUIRE(weft_go(suspend_and_count, NULL) == 0);
    int rc = weft_snooze();
    return rc < 0 ? rc : 1;
}

/* Return the switches needed to end a parent of n children. */
static uint64_t shutdown_switches(size_t n)
{
    counted = 0;
    weft_fiber parent = weft_spin(spin_children, as_arg((weft_value)n));
    uint64_t before = counters_now().switches;
    ck_assert_int_eq(weft_await(parent), 1);
    ck_assert_uint_eq(counted, n);
    return counters_now().switches - before;
}

/* P28, P16: each child runs twice, to reach its wait and to end. The parent runs a few times. */
START_TEST(ending_a_parent_takes_two_switches_per_child)
{
    size_t many = (size_t)reduced_count(10000); /* TSan supports at most 8128 fibers */
    ck_assert_uint_le(shutdown_switches(100), 2 * 100 + 10);
    ck_assert_uint_le(shutdown_switches(many), 2 * many + 10);
    assert_nothing_left();
}
END_TEST

/* As with weft_terminate, the ids are invalid afterwards and no value is stored. */
START_TEST(terminating_all_children_leaves_none_to_await)
{
    weft_fiber f[100];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_uint_ne(f[i] = weft_spin(suspend_and_count, NULL), 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    ck_assert_uint_eq(counted, COUNT_OF(f));
    assert_nothing_left();
    ck_assert_int_eq(weft_await(f[50]), -ESRCH);
}
END_TEST

/* P43 */
START_TEST(a_million_resets_of_a_deadline_use_constant_memory)
{
    const int n = reduced_count(1000000);
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 1000), 0);
    size_t before = resident_bytes();
    for (int i = 0; i < n; i++)
        REQUIRE(weft_scope_reset(&scope, 1000 + i % 7) == 0);
    ck_assert_uint_eq(counters_now().timers, 1);
    if (!is_checked())
        ck_assert_uint_le(resident_bytes(), before + (1 << 20));
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    assert_nothing_left();
}
END_TEST

/* P43 */
START_TEST(a_hundred_scopes_can_be_cancelled_in_sequence)
{
    for (int i = 0; i < 100; i++) {
        weft_scope scope;
        ck_assert_int_eq(weft_scope_open(&scope, 1000), 0);
        ck_assert_int_eq(weft_scope_cancel(&scope), 0);
        ck_assert_int_eq(weft_sleep(1000), -ECANCELED);
        ck_assert_int_eq(weft_scope_close(&scope), 0);
        ck_assert_int_eq(weft_snooze(), 0);
    }
    assert_nothing_left();
}
END_TEST

static weft_value count_and_end(void *arg)
{
    counted++;
    return (weft_value)arg;
}

/* A million fibers in batches of 10000 need the stacks of 10000. */
START_TEST(a_million_fibers_in_batches_need_the_stacks_of_one_batch)
{
    const int batch = reduced_count(10000);
    static weft_fiber f[10000];
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < batch; i++)
            REQUIRE((f[i] = weft_spin(count_and_end, as_arg(i))) != 0);
        for (int i = 0; i < batch; i++)
            REQUIRE(weft_await(f[i]) == i);
    }
    ck_assert_uint_eq(counted, (size_t)batch * 100);
    ck_assert_uint_le(counters_now().stacks, 2 * (size_t)batch + 64);
    assert_nothing_left();
}
END_TEST

/* Spin waiting fibers until memory is exhausted. Return their number. */
static size_t spin_until_full(weft_fiber *f, size_t n)
{
    size_t made = 0;
    while (made < n && (f[made] = weft_spin(suspend_and_count, NULL)) != 0)
        made++;
    return made;
}

static void assert_refused_for_memory(void)
{
    ck_assert_uint_eq(weft_spin(suspend_and_count, NULL), 0);
    ck_assert_int_eq(weft_go(suspend_and_count, NULL), -ENOMEM);
    ck_assert_uint_eq(weft_new(suspend_and_count, NULL), 0);
    if (weft_error() != NULL) /* without memory there is no message either */
        ck_assert_int_eq(weft_error()->code, -ENOMEM);
}

static void limit_address_space(rlim_t bytes_more)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages;
    ck_assert_int_eq(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    struct rlimit limit = {.rlim_max = RLIM_INFINITY};
    limit.rlim_cur = pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes_more;
    ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
}

/* Spins without memory fail. They never crash. */
START_TEST(spins_without_memory_fail_and_work_again_later)
{
    if (is_checked())
        return; /* it needs more address space than is available */
    enum { MOST = 200000 };
    static weft_fiber f[MOST];
    weft_self();
    limit_address_space((rlim_t)1 << 30);
    size_t n = spin_until_full(f, MOST);
    ck_assert_uint_lt(n, MOST);
    ck_assert_uint_ge(n, ((size_t)1 << 30) / (64 << 10) / 2); /* most of the memory was used */
    for (int i = 0; i < 1000; i++)
        assert_refused_for_memory();
    ck_assert_uint_eq(counters_now().fibers, n);
    ck_assert_int_eq(weft_snooze(), 0);
    for (size_t i = 0; i < 100; i++)
        ck_assert_int_eq(weft_terminate(f[i], INFINITY), 0);
    for (size_t i = 0; i < 100; i++)
        ck_assert_uint_ne(f[i] = weft_spin(suspend_and_count, NULL), 0);
    assert_refused_for_memory();
    ck_assert_int_eq(weft_snooze(), 0);
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_terminate(f[i], INFINITY) == 0);
    ck_assert_uint_eq(counted, n + 100);
    weft_error_clear();
    assert_nothing_left();
}
END_TEST

/* T48: most memory of ended fibers is returned to the system. */
START_TEST(stacks_of_ended_fibers_free_their_memory)
{
    const size_t n = 50000;
    if (is_checked())
        return;
    weft_self();
    size_t before = resident_bytes();
    spin_waiting_fibers(n);
    size_t full = resident_bytes() - before;
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    /* Records and some stacks stay cached. The rest is freed while the thread is idle. */
    while (resident_bytes() - before >= full / 2)
        weft_sleep(0.02);
    assert_nothing_left();
}
END_TEST

/* P66 at a small scale: more fibers wait for pipes than one poll can report. */
static weft_value read_and_count(void *arg)
{
    char byte;
    ssize_t n = weft_read((int)(intptr_t)arg, &byte, 1);
    counted += n == 1;
    return n < 0 ? n : 0;
}

START_TEST(five_hundred_pipes_wake_their_readers)
{
    static int fd[500][2];
    struct rlimit limit = {4096, 4096};
    setrlimit(RLIMIT_NOFILE, &limit);
    for (size_t i = 0; i < COUNT_OF(fd); i++) {
        ck_assert_int_eq(weft_pipe(fd[i]), 0);
        ck_assert_int_eq(weft_go(read_and_count, as_arg(fd[i][0])), 0);
    }
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(counters_now().ops_pending, COUNT_OF(fd));
    for (size_t i = 0; i < COUNT_OF(fd); i++)
        ck_assert_int_eq(weft_write(fd[i][1], "x", 1), 1);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_uint_eq(counted, COUNT_OF(fd));
    for (size_t i = 0; i < COUNT_OF(fd); i++)
        ck_assert_int_eq(weft_close(fd[i][0]) | weft_close(fd[i][1]), 0);
    assert_nothing_left();
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_hundred_fibers_snooze_fifty_thousand_times_and_all_finish,
        &no_sleeping_fiber_is_lost,
        &a_hundred_thousand_fibers_wait_with_guards_and_little_memory,
        &ending_a_parent_takes_two_switches_per_child,
        &terminating_all_children_leaves_none_to_await,
        &a_million_resets_of_a_deadline_use_constant_memory,
        &a_hundred_scopes_can_be_cancelled_in_sequence,
        &a_million_fibers_in_batches_need_the_stacks_of_one_batch,
        &spins_without_memory_fail_and_work_again_later,
        &stacks_of_ended_fibers_free_their_memory,
        &five_hundred_pipes_wake_their_readers,
    };
    return run_suite("stress", tests, COUNT_OF(tests));
}
