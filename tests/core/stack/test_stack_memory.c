/*
 * Tests of the memory of stacks: how much is used, when it is returned to the system, and how many
 * stacks fit.
 */
#include "core/stack/stack_cache.h"

#include <ucontext.h>

TEST(the_used_part_of_a_stack_is_measured_in_pages)
{
    static const size_t sizes[] = {16 << 10, 64 << 10, 1 << 20, 32 << 20};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        /* The top of the second stack is not at the end of its page. */
        weft__stack first = acquire_stack(sizes[i]), stack = acquire_stack(sizes[i]);
        ck_assert_uint_eq(weft__stack_used(&stack), 0);
        touch_stack(&stack, 100);
        ck_assert_uint_eq(weft__stack_used(&stack), page);
        touch_stack(&stack, 2 * page);
        ck_assert_uint_ge(weft__stack_used(&stack), 2 * page);
        ck_assert_uint_le(weft__stack_used(&stack), 3 * page);
        *stack.low = 1; /* sparse: no page between */
        ck_assert_uint_eq(weft__stack_used(&stack), stack.bytes);
        weft__stack_release(&cache, &first);
        weft__stack_release(&cache, &stack);
    }
}

TEST(after_a_trim_a_stack_counts_as_unused_and_is_guarded)
{
    weft__stack stack = acquire_stack(256 * KIB);
    touch_stack(&stack, 200 * KIB);
    ck_assert_uint_ge(weft__stack_used(&stack), 200 * KIB);
    char *low = stack.low;
    weft__stack_release(&cache, &stack);
    weft__stack_trim(&cache, 0);
    stack = acquire_stack(256 * KIB);
    ck_assert_ptr_eq(stack.low, low);
    ck_assert_uint_eq(weft__stack_used(&stack), 0);
    ck_assert_uint_eq(stack_resident_pages(&stack), 0);
    ck_assert(is_fatal_to_write(stack.low - 1));
    weft__stack_release(&cache, &stack);
}

TEST(a_trim_keeps_the_most_recently_used)
{
    weft__stack stacks[10], copies[10];
    acquire_touched(stacks, copies, 10, 64 * KIB, 100);
    release_stacks(stacks, 10);
    weft__stack_trim(&cache, 3);
    for (int i = 0; i < 10; i++)
        ck_assert_uint_eq(stack_resident_pages(&copies[i]), i < 7 ? 0 : 1);
}

TEST(many_free_stacks_lose_their_pages_least_recently_used_first)
{
    size_t count = WEFT__STACK_WARM_MIN * 2;
    weft__stack *stacks = calloc(count, sizeof *stacks), *copies = calloc(count, sizeof *copies);
    acquire_touched(stacks, copies, count, 16 * KIB, 100);
    release_stacks(stacks, count);
    ck_assert_uint_ne(cache.excess, 0);
    while (cache.excess != 0) /* as an idle thread does */
        weft__stack_trim_excess(&cache);
    size_t warm = 0, first_warm = count;
    for (size_t i = 0; i < count; i++) {
        bool is_warm = stack_resident_pages(&copies[i]) != 0;
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

TEST(deeply_used_stacks_lose_their_pages_below_the_top)
{
    size_t count = 4 * WEFT__STACK_DEEP_BYTES_MAX / (64 * KIB);
    weft__stack *stacks = calloc(count, sizeof *stacks), *copies = calloc(count, sizeof *copies);
    acquire_touched(stacks, copies, count, 64 * KIB, 50 * KIB);
    size_t before = 0, after = 0, least = SIZE_MAX;
    for (size_t i = 0; i < count; i++)
        before += stack_resident_pages(&copies[i]);
    release_stacks(stacks, count);
    for (size_t i = 0; i < count; i++) {
        size_t pages = stack_resident_pages(&copies[i]);
        least = pages < least ? pages : least;
        after += pages;
    }
    /* Remaining pages: the tops, and the budget of deep pages. */
    ck_assert_uint_le(after,
                      count * WEFT__STACK_TOP_BYTES / page + 2 * WEFT__STACK_DEEP_BYTES_MAX / page);
    ck_assert_uint_lt(after, before * 3 / 4);
    ck_assert_uint_eq(least, WEFT__STACK_TOP_BYTES / page);
    free(stacks);
    free(copies);
}

TEST(a_deep_stack_that_is_reused_keeps_its_pages)
{
    for (int i = 0; i < 5000; i++) {
        weft__stack stack = acquire_stack(64 * KIB);
        if (i == 0)
            touch_stack(&stack, 50 * KIB);
        else
            ck_assert_uint_ge(weft__stack_used(&stack), 50 * KIB);
        weft__stack_release(&cache, &stack);
    }
}

TEST(all_but_a_few_big_stacks_are_unmapped)
{
    weft__stack stacks[5];
    char *tops[5];
    for (int i = 0; i < 5; i++) {
        stacks[i] = acquire_stack(4 * MIB);
        touch_stack(&stacks[i], 100);
        tops[i] = stacks[i].low;
    }
    release_stacks(stacks, 5);
    ck_assert_uint_eq(cache.mapped, WEFT__STACK_LARGE_CACHED);
    ck_assert(is_mapped(tops[4]));
    ck_assert(!is_mapped(tops[0]));
    weft__stack again = acquire_stack(4 * MIB);
    ck_assert_ptr_eq(again.low, tops[4]);
    weft__stack_release(&cache, &again);
    weft__stack_trim(&cache, 0);
    ck_assert_uint_eq(cache.mapped, 0);
    ck_assert(!is_mapped(tops[4]));
}

TEST(a_deeply_used_big_stack_frees_its_memory_at_once)
{
    weft__stack stack = acquire_stack(64 * MIB);
    weft__stack copy = stack;
    touch_stack(&stack, 32 * MIB);
    weft__stack_release(&cache, &stack);
    ck_assert_uint_eq(stack_resident_pages(&copy), WEFT__STACK_TOP_BYTES / page);
}

static ucontext_t outside;
static ucontext_t inside;
static weft__stack own_stack;

/* Release and trim the stack that this function runs on. The running part must survive. */
static void release_own_stack(void)
{
    volatile char frame[6000];
    memset((char *)frame, 0x33, sizeof frame);
    weft__stack big[4];
    for (int i = 0; i < 4; i++)
        big[i] = acquire_stack(weft__stack_slot_bytes(&own_stack));
    weft__stack_release(&cache, &own_stack);
    release_stacks(big, 4);
    weft__stack_trim(&cache, 0);
    for (size_t i = 0; i < sizeof frame; i++)
        ck_assert(frame[i] == 0x33);
    swapcontext(&inside, &outside);
}

TEST_LOOP(a_stack_can_be_released_and_trimmed_by_its_own_fiber, 4)
{
    static const size_t sizes[] = {32 << 10, 64 << 10, 1 << 20, 4 << 20};
    own_stack = acquire_stack(sizes[_i] < 64 * KIB && IS_ASAN ? 64 * KIB : sizes[_i]);
    touch_stack(&own_stack, own_stack.bytes);
    getcontext(&inside);
    inside.uc_stack.ss_sp = own_stack.low;
    inside.uc_stack.ss_size = own_stack.bytes;
    makecontext(&inside, release_own_stack, 0);
    swapcontext(&outside, &inside);
    ck_assert_uint_eq(cache.cached, cache.mapped);
    weft__stack_trim(&cache, 0);
}

TEST(acquiring_fails_without_memory_and_works_again_later)
{
    if (IS_ASAN || IS_TSAN || RUNNING_ON_VALGRIND) /* sanitizers and Valgrind reserve terabytes */
        return;
    weft__stack cached[2] = {acquire_stack(8 * MIB), acquire_stack(8 * MIB)}, stack;
    release_stacks(cached, 2);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    setrlimit(RLIMIT_AS, &(struct rlimit){1, limit.rlim_max});
    size_t mapped = cache.mapped;
    ck_assert_int_eq(weft__stack_acquire(&cache, 64 * MIB, &stack), -ENOMEM);
    ck_assert_int_eq(weft__stack_acquire(&cache, 64 * KIB, &stack), -ENOMEM);
    /* The cached stacks were unmapped first. */
    ck_assert_uint_eq(cache.mapped, mapped - 2);
    setrlimit(RLIMIT_AS, &limit);
    stack = acquire_stack(64 * KIB);
    weft__stack_release(&cache, &stack);
}
