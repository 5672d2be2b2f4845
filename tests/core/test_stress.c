/*
 * Many: fibers, switches, sleeps, children, spins, and more than a machine has. Each test is
 * bounded to a few seconds on a slow machine; what is counted is asserted, how long it took is not.
 */
#include "support.h"

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

/* Under a checker memory is its own affair, and everything takes many times as long. */
static bool is_checked(void)
{
    return IS_SANITIZED || RUNNING_ON_VALGRIND;
}

static int reduced(int n)
{
    return is_checked() ? n / 20 : n;
}

/* ck_assert for what is asserted a million times: it costs nothing while all is well. */
#define HOLDS(condition)                                  \
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

static weft_counters stats(void)
{
    weft_counters now;
    ck_assert_int_eq(weft_stats(&now), 0);
    return now;
}

static void assert_nothing_left(void)
{
    weft_counters now = stats();
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
    const int times = reduced(50000);
    for (size_t i = 0; i < COUNT_OF(f); i++)
        f[i] = weft_spin(snooze_often, as_arg(times));
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(f), NULL), 0);
    ck_assert_uint_eq(counted, COUNT_OF(f) * (size_t)times);
    assert_nothing_left();
}
END_TEST

static weft_value sleep_a_little(void *arg)
{
    double seconds = (double)(intptr_t)arg * 1e-6;
    double from = weft_now();
    int rc = weft_sleep(seconds);
    if (rc < 0)
        return rc;
    HOLDS(weft_now() - from >= seconds);
    counted++;
    return 0;
}

/* T16 */
START_TEST(no_sleeper_is_lost)
{
    unsigned random = 1;
    for (int round = 0; round < 10; round++) {
        counted = 0;
        for (int i = 0; i < 300; i++) {
            random = random * 1103515245 + 12345;
            HOLDS(weft_go(sleep_a_little, as_arg(random >> 16 & 127)) == 0);
        }
        ck_assert_int_eq(weft_await_children(), 0);
        ck_assert_uint_eq(counted, 300);
    }
    assert_nothing_left();
}
END_TEST

static weft_value wait_for_end(void *arg)
{
    (void)arg;
    weft_value rc = weft_suspend();
    counted += rc == -ECANCELED;
    return rc;
}

/* Spin so many and let each come to its wait. */
static void park_many(size_t n)
{
    for (size_t i = 0; i < n; i++)
        HOLDS(weft_go(wait_for_end, NULL) == 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(stats().fibers, n);
}

/* T54: the default vm.max_map_count is 65,530. */
START_TEST(a_hundred_thousand_fibers_wait_with_guards_and_little_memory)
{
    const size_t n = (size_t)reduced(100000);
    weft_self();
    size_t before = resident_bytes();
    park_many(n);
    size_t each = (resident_bytes() - before) / n;
    if (kernel_has_guards())
        ck_assert_uint_eq(stats().stacks_unguarded, 0);
    if (!is_checked() && sysconf(_SC_PAGESIZE) == 4096)
        ck_assert_uint_le(each, (4096 + 600) * 11 / 10);
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    ck_assert_uint_eq(counted, n);
    assert_nothing_left();
}
END_TEST

static weft_value parent_of_many(void *arg)
{
    for (intptr_t i = 0; i < (intptr_t)arg; i++)
        HOLDS(weft_go(wait_for_end, NULL) == 0);
    int rc = weft_snooze();
    return rc < 0 ? rc : 1;
}

/* Switches that it takes to end a parent of n. */
static uint64_t shutdown_switches(size_t n)
{
    counted = 0;
    weft_fiber parent = weft_spin(parent_of_many, as_arg((weft_value)n));
    stats();
    ck_assert_int_eq(weft_await(parent), 1);
    ck_assert_uint_eq(counted, n);
    return stats().switches;
}

/* P28, P16: each child runs twice, to come to its wait and to end; the parent a few times. */
START_TEST(ending_a_parent_costs_two_switches_a_child)
{
    size_t many = (size_t)reduced(10000); /* TSan knows 8,128 fibers at most */
    ck_assert_uint_le(shutdown_switches(100), 2 * 100 + 10);
    ck_assert_uint_le(shutdown_switches(many), 2 * many + 10);
    assert_nothing_left();
}
END_TEST

/* As weft_terminate: their ids are gone, their values are not kept for anyone. */
START_TEST(terminating_all_children_leaves_none_to_await)
{
    weft_fiber f[100];
    for (size_t i = 0; i < COUNT_OF(f); i++)
        ck_assert_uint_ne(f[i] = weft_spin(wait_for_end, NULL), 0);
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
    const int n = reduced(1000000);
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 1000), 0);
    size_t before = resident_bytes();
    for (int i = 0; i < n; i++)
        HOLDS(weft_scope_reset(&scope, 1000 + i % 7) == 0);
    ck_assert_uint_eq(stats().timers, 1);
    if (!is_checked())
        ck_assert_uint_le(resident_bytes(), before + (1 << 20));
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    assert_nothing_left();
}
END_TEST

/* P43 */
START_TEST(a_hundred_scopes_cancelled_at_once_in_a_row)
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

/* A million fibers one after the other, ten thousand at a time, need the stacks of ten thousand. */
START_TEST(a_million_fibers_come_and_go_in_the_room_of_ten_thousand)
{
    const int batch = reduced(10000);
    static weft_fiber f[10000];
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < batch; i++)
            HOLDS((f[i] = weft_spin(count_and_end, as_arg(i))) != 0);
        for (int i = 0; i < batch; i++)
            HOLDS(weft_await(f[i]) == i);
    }
    ck_assert_uint_eq(counted, (size_t)batch * 100);
    ck_assert_uint_le(stats().stacks, 2 * (size_t)batch + 64);
    assert_nothing_left();
}
END_TEST

/* As many waiting fibers as there is room for; they all wait when it returns. */
static size_t spin_until_full(weft_fiber *f, size_t n)
{
    size_t made = 0;
    while (made < n && (f[made] = weft_spin(wait_for_end, NULL)) != 0)
        made++;
    return made;
}

static void assert_refused_for_memory(void)
{
    ck_assert_uint_eq(weft_spin(wait_for_end, NULL), 0);
    ck_assert_int_eq(weft_go(wait_for_end, NULL), -ENOMEM);
    ck_assert_uint_eq(weft_new(wait_for_end, NULL), 0);
    if (weft_error() != NULL) /* without memory there are no words either */
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

/* A million spins with a full machine never crash: they fail one by one. */
START_TEST(spins_on_a_full_machine_fail_one_by_one_and_work_again_later)
{
    if (is_checked())
        return; /* it needs more address space than there would be */
    enum { MOST = 200000 };
    static weft_fiber f[MOST];
    weft_self();
    limit_address_space((rlim_t)1 << 30);
    size_t n = spin_until_full(f, MOST);
    ck_assert_uint_lt(n, MOST);
    ck_assert_uint_ge(n, ((size_t)1 << 30) / (64 << 10) / 2); /* most of it was used */
    for (int i = 0; i < 1000; i++)
        assert_refused_for_memory();
    ck_assert_uint_eq(stats().fibers, n);
    ck_assert_int_eq(weft_snooze(), 0);
    for (size_t i = 0; i < 100; i++)
        ck_assert_int_eq(weft_terminate(f[i], INFINITY), 0);
    for (size_t i = 0; i < 100; i++)
        ck_assert_uint_ne(f[i] = weft_spin(wait_for_end, NULL), 0);
    assert_refused_for_memory();
    ck_assert_int_eq(weft_snooze(), 0);
    for (size_t i = 0; i < n; i++)
        HOLDS(weft_terminate(f[i], INFINITY) == 0);
    ck_assert_uint_eq(counted, n + 100);
    weft_error_clear();
    assert_nothing_left();
}
END_TEST

/* T48: what ended fibers used goes back to the system, most of it. */
START_TEST(stacks_of_ended_fibers_give_their_memory_back)
{
    const size_t n = 50000;
    if (is_checked())
        return;
    weft_self();
    size_t before = resident_bytes();
    park_many(n);
    size_t full = resident_bytes() - before;
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    /*
     * Records and a part of the stacks stay, for the next ones; the rest goes while nothing is
     * done.
     */
    while (resident_bytes() - before >= full / 2)
        weft_sleep(0.02);
    assert_nothing_left();
}
END_TEST

/* P66 in small: more fibers wait in pipes at once than one poll can tell of. */
static weft_value read_a_byte(void *arg)
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
        ck_assert_int_eq(weft_go(read_a_byte, as_arg(fd[i][0])), 0);
    }
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(stats().ops_pending, COUNT_OF(fd));
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
        &no_sleeper_is_lost,
        &a_hundred_thousand_fibers_wait_with_guards_and_little_memory,
        &ending_a_parent_costs_two_switches_a_child,
        &terminating_all_children_leaves_none_to_await,
        &a_million_resets_of_a_deadline_use_constant_memory,
        &a_hundred_scopes_cancelled_at_once_in_a_row,
        &a_million_fibers_come_and_go_in_the_room_of_ten_thousand,
        &spins_on_a_full_machine_fail_one_by_one_and_work_again_later,
        &stacks_of_ended_fibers_give_their_memory_back,
        &five_hundred_pipes_wake_their_readers,
    };
    return run_suite("stress", tests, COUNT_OF(tests));
}
