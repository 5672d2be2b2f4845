/* Tests with large numbers of fibers, switches and scopes, and with too little memory. */
#include "support/random.h"
#include "support/suite.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* Sanitizers and Valgrind use additional memory, and are many times slower. */
static bool is_checked(void)
{
    return is_sanitized() || RUNNING_ON_VALGRIND;
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

/* True if the kernel has MADV_GUARD_INSTALL. */
static bool kernel_has_guards(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool has = madvise(at, page, 102) == 0;
    munmap(at, page);
    return has;
}

static void assert_nothing_left(void)
{
    weft_counters now = stats();
    ck_assert_uint_eq(now.fibers + now.fibers_unawaited + now.runnable, 0);
    ck_assert_uint_eq(now.timers + now.ops_pending, 0);
    ck_assert_uint_eq(now.stacks, now.stacks_cached);
}

FIXTURE(NULL, assert_nothing_left)

static size_t counted;

FIBER_DO(suspend_and_count, weft_value rc = weft_suspend(), counted += rc == -ECANCELED, rc)

static weft_value snooze_often(void *arg)
{
    for (int i = 0; i < (int)(intptr_t)arg; i++) {
        REQUIRE(weft_snooze() == 0);
        counted++;
    }
    return 0;
}

TEST(a_hundred_fibers_snooze_thousands_of_times_and_all_finish)
{ /* T2 */
    const int times = reduced_count(10000);
    for (int i = 0; i < 100; i++)
        REQUIRE(weft_go(snooze_often, as_arg(times)) == 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_uint_eq(counted, 100 * (size_t)times);
}

static weft_value sleep_and_count(void *arg)
{
    double seconds = (double)(intptr_t)arg * 1e-6, from = weft_now();
    REQUIRE(weft_sleep(seconds) == 0);
    REQUIRE(weft_now() - from >= seconds);
    counted++;
    return 0;
}

TEST(no_sleeping_fiber_is_lost)
{ /* T15, T16 */
    for (int i = 0; i < 3000; i++)
        REQUIRE(weft_go(sleep_and_count, as_arg(random_below(128))) == 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_uint_eq(counted, 3000);
}

TEST(many_resets_of_a_deadline_use_constant_memory_and_one_timer)
{ /* P43 */
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 1000), 0);
    size_t before = resident_pages();
    for (int i = 0; i < reduced_count(200000); i++)
        REQUIRE(weft_scope_reset(&scope, 1000 + i % 7) == 0);
    ck_assert_uint_eq(armed_timers(), 1);
    if (!is_checked())
        ck_assert_uint_le(resident_pages(), before + 256);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_int_eq(weft_scope_close(&scope), 0);
}

/* Spin n fibers, and let each reach its wait. Return the pages that they use. */
static size_t spin_waiting_fibers(size_t n)
{
    weft_self();
    size_t before = resident_pages();
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_go(suspend_and_count, NULL) == 0);
    ck_assert_int_eq(weft_snooze(), 0);
    ck_assert_uint_eq(stats().fibers, n);
    return resident_pages() - before;
}

TEST(stacks_of_ended_fibers_free_their_memory)
{ /* T48 */
    if (is_checked())
        return;
    size_t pages = spin_waiting_fibers(50000), full = resident_pages();
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    while (resident_pages() > full - pages / 2)
        weft_sleep(0.02);
}

/* T54: the default vm.max_map_count is 65,530. */
TEST(a_hundred_thousand_fibers_wait_with_guards_and_little_memory)
{
    const size_t n = (size_t)reduced_count(100000);
    size_t each = spin_waiting_fibers(n) * 4096 / n;
    if (kernel_has_guards())
        ck_assert_uint_eq(stats().stacks_unguarded, 0);
    if (!is_checked() && sysconf(_SC_PAGESIZE) == 4096)
        ck_assert_uint_le(each, (4096 + 600) * 11 / 10);
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    ck_assert_uint_eq(counted, n);
}

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
    uint64_t before = stats().switches;
    ck_assert_int_eq(weft_await(parent), 1);
    ck_assert_uint_eq(counted, n);
    return stats().switches - before;
}

/* P28, P16: each child runs twice, to reach its wait and to end. The parent runs a few times. */
TEST(ending_a_parent_takes_two_switches_per_child)
{
    size_t many = (size_t)reduced_count(10000); /* TSan supports at most 8128 fibers */
    ck_assert_uint_le(shutdown_switches(100), 2 * 100 + 10);
    ck_assert_uint_le(shutdown_switches(many), 2 * many + 10);
}

TEST(many_fibers_in_batches_need_the_stacks_of_one_batch)
{
    const int batch = reduced_count(10000);
    static weft_fiber f[10000];
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < batch; i++)
            REQUIRE((f[i] = weft_spin(return_arg, as_arg(i))) != 0);
        for (int i = 0; i < batch; i++)
            REQUIRE(weft_await(f[i]) == i);
    }
    ck_assert_uint_le(stats().stacks, 2 * (size_t)batch + 64);
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
TEST(spins_without_memory_fail_and_work_again_later)
{
    if (is_checked())
        return; /* it needs more address space than is available */
    enum { MOST = 200000 };
    static weft_fiber f[MOST];
    weft_self();
    limit_address_space((rlim_t)1 << 30);
    size_t n = 0;
    while ((f[n] = weft_spin(suspend_and_count, NULL)) != 0)
        ck_assert_uint_lt(++n, MOST);
    ck_assert_uint_ge(n, ((size_t)1 << 30) / (64 << 10) / 2); /* most of the memory was used */
    for (int i = 0; i < 1000; i++)
        assert_refused_for_memory();
    ck_assert_uint_eq(stats().fibers, n);
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
}
