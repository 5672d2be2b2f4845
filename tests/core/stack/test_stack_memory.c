/* The memory of stacks: how much is used, when it goes back to the system, how many fit. */
#include "stack_pool.h"

#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static bool has_guard_advice(void)
{
    char *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool has = madvise(memory, page, 102) == 0;
    munmap(memory, page);
    return has;
}

START_TEST(a_guard_survives_that_the_pages_are_given_back)
{
    weft__stack stack = take(64 * KIB);
    use(&stack, 50 * KIB);
    weft__stack_release(&pool, &stack);
    weft__stack_trim(&pool, 0);
    stack = take(64 * KIB);
    ck_assert_uint_eq(resident_pages(&stack), 0);
    ck_assert(is_deadly(stack.low - 1));
    weft__stack_release(&pool, &stack);
}
END_TEST

START_TEST(the_use_of_a_stack_is_known_to_the_page)
{
    static const size_t sizes[] = {16 << 10, 64 << 10, 1 << 20, 32 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        /* The second: its top, unlike the first's, is not at the end of its page. */
        weft__stack first = take(sizes[i]), stack = take(sizes[i]);
        ck_assert_uint_eq(weft__stack_used(&stack), 0);
        use(&stack, 100);
        ck_assert_uint_eq(weft__stack_used(&stack), page);
        use(&stack, 2 * page);
        ck_assert_uint_ge(weft__stack_used(&stack), 2 * page);
        ck_assert_uint_le(weft__stack_used(&stack), 3 * page);
        *stack.low = 1; /* sparse: nothing between */
        ck_assert_uint_eq(weft__stack_used(&stack), stack.bytes);
        weft__stack_release(&pool, &first);
        weft__stack_release(&pool, &stack);
    }
}
END_TEST

START_TEST(after_a_trim_a_stack_counts_as_unused)
{
    weft__stack stack = take(256 * KIB);
    use(&stack, 200 * KIB);
    ck_assert_uint_ge(weft__stack_used(&stack), 200 * KIB);
    char *low = stack.low;
    weft__stack_release(&pool, &stack);
    weft__stack_trim(&pool, 0);
    stack = take(256 * KIB);
    ck_assert_ptr_eq(stack.low, low);
    ck_assert_uint_eq(weft__stack_used(&stack), 0);
    weft__stack_release(&pool, &stack);
}
END_TEST

START_TEST(a_trim_keeps_the_warmest)
{
    weft__stack stacks[10], copies[10];
    for (int i = 0; i < 10; i++) {
        copies[i] = stacks[i] = take(64 * KIB);
        use(&stacks[i], 100);
    }
    for (int i = 0; i < 10; i++)
        weft__stack_release(&pool, &stacks[i]);
    weft__stack_trim(&pool, 3);
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(resident_pages(&copies[i]), i < 7 ? 0 : 1);
}
END_TEST

START_TEST(many_free_stacks_lose_their_pages_the_coldest_first)
{
    size_t count = WEFT__STACK_WARM_MIN * 2;
    weft__stack *stacks = calloc(count, sizeof *stacks), *copies = calloc(count, sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        copies[i] = stacks[i] = take(16 * KIB);
        use(&stacks[i], 100);
    }
    for (size_t i = 0; i < count; i++)
        weft__stack_release(&pool, &stacks[i]);
    ck_assert_uint_ne(pool.excess, 0);
    while (pool.excess != 0) /* the thread has nothing to do */
        weft__stack_relieve(&pool);
    size_t warm = 0, first_warm = count;
    for (size_t i = 0; i < count; i++) {
        bool is_warm = resident_pages(&copies[i]) != 0;
        if (is_warm && first_warm == count)
            first_warm = i;
        ck_assert(is_warm || i < first_warm);
        warm += is_warm;
    }
    ck_assert_uint_le(warm, WEFT__STACK_WARM_MIN + WEFT__STACK_BATCH);
    ck_assert_uint_ge(warm, WEFT__STACK_WARM_MIN - 2 * WEFT__STACK_BATCH);
    free(stacks);
    free(copies);
}
END_TEST

START_TEST(deeply_used_stacks_are_emptied_below_their_tops)
{
    size_t count = 4 * WEFT__STACK_DEEP_BYTES_MAX / (64 * KIB);
    weft__stack *stacks = calloc(count, sizeof *stacks), *copies = calloc(count, sizeof *copies);
    for (size_t i = 0; i < count; i++) {
        copies[i] = stacks[i] = take(64 * KIB);
        use(&stacks[i], 50 * KIB);
    }
    size_t before = 0, after = 0, least = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        before += resident_pages(&copies[i]);
    for (size_t i = 0; i < count; i++)
        weft__stack_release(&pool, &stacks[i]);
    for (size_t i = 0; i < count; i++) {
        size_t pages = resident_pages(&copies[i]);
        least = pages < least ? pages : least;
        after += pages;
    }
    /* What is left: the tops, and what the budget spares. */
    ck_assert_uint_le(after,
                      count * WEFT__STACK_TOP_BYTES / page + 2 * WEFT__STACK_DEEP_BYTES_MAX / page);
    ck_assert_uint_lt(after, before * 3 / 4);
    ck_assert_uint_eq(least, WEFT__STACK_TOP_BYTES / page);
    free(stacks);
    free(copies);
}
END_TEST

START_TEST(one_deep_stack_in_use_again_and_again_keeps_its_pages)
{
    for (int i = 0; i < 5000; i++) {
        weft__stack stack = take(64 * KIB);
        if (i == 0)
            use(&stack, 50 * KIB);
        else
            ck_assert_uint_ge(weft__stack_used(&stack), 50 * KIB);
        weft__stack_release(&pool, &stack);
    }
}
END_TEST

START_TEST(big_stacks_are_unmapped_but_for_a_few)
{
    weft__stack stacks[5];
    char *tops[5];
    for (int i = 0; i < 5; i++) {
        stacks[i] = take(4 * MIB);
        use(&stacks[i], 100);
        tops[i] = stacks[i].low;
    }
    for (int i = 0; i < 5; i++)
        weft__stack_release(&pool, &stacks[i]);
    ck_assert_uint_eq(pool.mapped, WEFT__STACK_ALONE_CACHED);
    ck_assert(is_mapped(tops[4]));
    ck_assert(!is_mapped(tops[0]));
    weft__stack again = take(4 * MIB);
    ck_assert_ptr_eq(again.low, tops[4]);
    weft__stack_release(&pool, &again);
    weft__stack_trim(&pool, 0);
    ck_assert_uint_eq(pool.mapped, 0);
    ck_assert(!is_mapped(tops[4]));
}
END_TEST

START_TEST(a_big_stack_used_deeply_gives_its_memory_back_at_once)
{
    weft__stack stack = take(64 * MIB);
    weft__stack copy = stack;
    use(&stack, 32 * MIB);
    weft__stack_release(&pool, &stack);
    ck_assert_uint_eq(resident_pages(&copy), WEFT__STACK_TOP_BYTES / page);
}
END_TEST

static ucontext_t outside;
static ucontext_t inside;
static weft__stack own;

/* Gives up the stack that it runs on, in all ways, and must come out of it unharmed. */
static void give_up_own_stack(void)
{
    volatile char frame[6000];
    memset((char *)frame, 0x33, sizeof frame);
    weft__stack big[4];
    for (int i = 0; i < 4; i++)
        big[i] = take(weft__stack_slot_bytes(&own));
    weft__stack_release(&pool, &own);
    for (int i = 0; i < 4; i++)
        weft__stack_release(&pool, &big[i]);
    weft__stack_trim(&pool, 0);
    for (size_t i = 0; i < sizeof frame; i++)
        ck_assert(frame[i] == 0x33);
    swapcontext(&inside, &outside);
}

START_TEST(a_stack_can_be_released_and_trimmed_by_who_runs_on_it)
{
    static const size_t sizes[] = {32 << 10, 64 << 10, 1 << 20, 4 << 20};
    own = take(sizes[_i] < 64 * KIB && IS_ASAN ? 64 * KIB : sizes[_i]);
    use(&own, own.bytes);
    getcontext(&inside);
    inside.uc_stack.ss_sp = own.low;
    inside.uc_stack.ss_size = own.bytes;
    makecontext(&inside, give_up_own_stack, 0);
    swapcontext(&outside, &inside);
    ck_assert_uint_eq(pool.cached, pool.mapped);
    weft__stack_trim(&pool, 0);
}
END_TEST

START_TEST(a_hundred_thousand_stacks_with_guards_fit_into_default_limits)
{
    enum { COUNT = 100000 };
    if (RUNNING_ON_VALGRIND)
        return;
    weft__stack *stacks = malloc(COUNT * sizeof *stacks);
    for (size_t i = 0; i < COUNT; i++) {
        stacks[i] = take(64 * KIB);
        use(&stacks[i], 2000);
    }
    if (has_guard_advice() && !IS_TSAN) { /* TSan maps for itself */
        ck_assert_uint_lt(lines_of("/proc/self/maps"), 200);
        ck_assert_uint_eq(pool.unguarded, 0);
    }
    for (size_t i = 0; i < COUNT; i += 997) {
        ck_assert_uint_eq(resident_pages(&stacks[i]), 1);
        ck_assert_uint_eq(weft__stack_used(&stacks[i]), page);
    }
    if (has_guard_advice())
        ck_assert(is_deadly(stacks[COUNT - 1].low - 1));
    for (size_t i = 0; i < COUNT; i++)
        weft__stack_release(&pool, &stacks[i]);
    free(stacks);
}
END_TEST

START_TEST(with_no_memory_left_acquiring_fails_and_works_again_later)
{
    if (IS_ASAN || IS_TSAN || RUNNING_ON_VALGRIND) /* these want terabytes of their own */
        return;
    weft__stack kept[2] = {take(8 * MIB), take(8 * MIB)}, stack;
    for (int i = 0; i < 2; i++)
        weft__stack_release(&pool, &kept[i]);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    setrlimit(RLIMIT_AS, &(struct rlimit){1, limit.rlim_max});
    size_t mapped = pool.mapped;
    ck_assert_int_eq(weft__stack_acquire(&pool, 64 * MIB, &stack), -ENOMEM);
    ck_assert_int_eq(weft__stack_acquire(&pool, 64 * KIB, &stack), -ENOMEM);
    /* The cache was given up for it. */
    ck_assert_uint_eq(pool.mapped, mapped - 2);
    setrlimit(RLIMIT_AS, &limit);
    stack = take(64 * KIB);
    weft__stack_release(&pool, &stack);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stack memory");
    TCase *tests = tcase_create("pool");
    tcase_add_checked_fixture(tests, pool_open, pool_close);
    tcase_set_timeout(tests, 30);
    tcase_add_test(tests, a_guard_survives_that_the_pages_are_given_back);
    tcase_add_test(tests, the_use_of_a_stack_is_known_to_the_page);
    tcase_add_test(tests, after_a_trim_a_stack_counts_as_unused);
    tcase_add_test(tests, a_trim_keeps_the_warmest);
    tcase_add_test(tests, many_free_stacks_lose_their_pages_the_coldest_first);
    tcase_add_test(tests, deeply_used_stacks_are_emptied_below_their_tops);
    tcase_add_test(tests, one_deep_stack_in_use_again_and_again_keeps_its_pages);
    tcase_add_test(tests, big_stacks_are_unmapped_but_for_a_few);
    tcase_add_test(tests, a_big_stack_used_deeply_gives_its_memory_back_at_once);
    tcase_add_loop_test(tests, a_stack_can_be_released_and_trimmed_by_who_runs_on_it, 0, 4);
    tcase_add_test(tests, a_hundred_thousand_stacks_with_guards_fit_into_default_limits);
    tcase_add_test(tests, with_no_memory_left_acquiring_fails_and_works_again_later);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}
