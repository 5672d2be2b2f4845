/* Tests of stacks: the cache, the sizes, and the guards. test_stack_memory.c tests their memory. */
#include "core/stack/guard.h"
#include "core/stack/stack_cache.h"

TEST(the_stack_released_last_is_acquired_first)
{
    weft__stack s[3] = {acquire_stack(64 * KIB), acquire_stack(64 * KIB), acquire_stack(64 * KIB)};
    char *lows[] = {s[0].low, s[1].low, s[2].low};
    static const int order[] = {1, 0, 2};
    for (int i = 0; i < 3; i++)
        weft__stack_release(&cache, &s[order[i]]);
    ck_assert_ptr_null(s[0].low);
    for (int i = 0; i < 3; i++) {
        s[i] = acquire_stack(64 * KIB);
        ck_assert_ptr_eq(s[i].low, lows[order[2 - i]]);
    }
    release_stacks(s, 3);
}

TEST(the_contents_of_a_stack_survive_its_release)
{
    static char pattern[16 << 10];
    memset(pattern, 0x5a, sizeof pattern);
    weft__stack stack = acquire_stack(16 * KIB), copy = stack;
    memcpy(stack.low, pattern, stack.bytes);
    for (int i = 0; i < 100; i++) {
        weft__stack_release(&cache, &stack);
        ck_assert_int_eq(memcmp(copy.low, pattern, copy.bytes), 0);
        stack = acquire_stack(16 * KIB);
        ck_assert_ptr_eq(stack.low, copy.low);
    }
    weft__stack_release(&cache, &stack);
}

TEST(the_counters_return_to_their_initial_values)
{
    weft__stack stacks[300];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 300; i++)
            stacks[i] = acquire_stack((size_t)16 * KIB << i % 5);
        ck_assert_uint_eq(cache.mapped - cache.cached, 300);
        release_stacks(stacks, 300);
        ck_assert_uint_eq(cache.mapped, cache.cached);
    }
    /* 60 of each of five classes: the third round reuses the stacks of the first. */
    ck_assert_uint_le(cache.mapped, 5 * 64);
}

TEST(no_two_stacks_overlap)
{
    enum { COUNT = 500 };
    static weft__stack stacks[COUNT];
    for (int i = 0; i < COUNT; i++) {
        stacks[i] = acquire_stack(i % 2 ? 16 * KIB : 32 * KIB);
        memcpy(stacks[i].low, &i, sizeof i);
        memcpy(top_of(&stacks[i]) - sizeof i, &i, sizeof i);
    }
    for (int i = 0; i < COUNT; i++) {
        ck_assert_int_eq(memcmp(stacks[i].low, &i, sizeof i), 0);
        ck_assert_int_eq(memcmp(top_of(&stacks[i]) - sizeof i, &i, sizeof i), 0);
        weft__stack_release(&cache, &stacks[i]);
    }
}

TEST(a_size_is_rounded_up_to_its_class_or_refused)
{
    static const size_t sizes[][2] = {
        {16 << 10, 16 << 10}, {(16 << 10) + 1, 32 << 10}, {32 << 10, 32 << 10}, {100000, 128 << 10},
        {1 << 20, 1 << 20},   {(1 << 20) + 1, 2 << 20},   {5000000, 8 << 20},   {1 << 30, 1 << 30},
    };
    static const size_t bad[] = {0, 1, 4096, (16 << 10) - 1, (1 << 30) + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        weft__stack stack = {.low = (char *)1};
        ck_assert_int_eq(weft__stack_acquire(&cache, bad[i], &stack), -EINVAL);
        ck_assert_ptr_eq(stack.low, (char *)1);
        ck_assert_uint_eq(cache.mapped, 0);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        weft__stack stack = acquire_stack(sizes[i][0]);
        ck_assert_uint_eq(weft__stack_slot_bytes(&stack), sizes[i][1]);
        ck_assert_uint_le(stack.bytes, sizes[i][1]);
        ck_assert_uint_gt(stack.bytes, sizes[i][1] - KIB);
        stack.low[0] = 1;
        top_of(&stack)[-1] = 1;
        weft__stack_release(&cache, &stack);
    }
}

TEST(the_tops_of_adjacent_stacks_differ_and_are_aligned)
{
    weft__stack stacks[32];
    size_t colours = 0;
    for (int i = 0; i < 32; i++) {
        stacks[i] = acquire_stack(64 * KIB);
        uintptr_t top = (uintptr_t)top_of(&stacks[i]);
        ck_assert_uint_eq(top % 64, 0);
        ck_assert_uint_eq((uintptr_t)stacks[i].low % page, 0);
        uintptr_t colour = -top % page;
        ck_assert_uint_lt(colour, KIB);
        colours |= (size_t)1 << colour / 64;
    }
    ck_assert_uint_eq(colours, 0xffff);
    release_stacks(stacks, 32);
}

TEST_LOOP(the_page_below_a_stack_is_guarded_and_its_lowest_byte_is_not,
          WEFT__GUARD_NONE - WEFT__GUARD_BATCH)
{
    weft__guard_method = WEFT__GUARD_BATCH + _i;
    static const size_t sizes[] = {16 << 10, 64 << 10, 4 << 20};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        weft__stack first = acquire_stack(sizes[i]), stack = acquire_stack(sizes[i]);
        ck_assert(is_fatal_to_write(stack.low - 1));
        ck_assert(is_fatal_to_write(stack.low - page));
        ck_assert(!is_fatal_to_write(stack.low));
        ck_assert(!is_fatal_to_write(top_of(&stack) - 1));
        ck_assert(weft__stack_guard_contains(&stack, stack.low - 1));
        ck_assert(weft__stack_guard_contains(&stack, stack.low - page));
        ck_assert(!weft__stack_guard_contains(&stack, stack.low));
        ck_assert(!weft__stack_guard_contains(&stack, stack.low - page - 1));
        weft__stack_release(&cache, &first);
        weft__stack_release(&cache, &stack);
    }
    ck_assert_uint_eq(cache.unguarded, 0);
}

TEST(stacks_without_guards_are_allocated_and_counted)
{
    weft__guard_method = WEFT__GUARD_NONE;
    weft__stack stack = acquire_stack(64 * KIB);
    ck_assert_uint_eq(cache.unguarded, cache.mapped);
    ck_assert(!weft__stack_guard_contains(&stack, stack.low - 1));
    touch_stack(&stack, stack.bytes);
    weft__stack_release(&cache, &stack);
    weft__stack big[3] = {acquire_stack(4 * MIB), acquire_stack(4 * MIB), acquire_stack(4 * MIB)};
    size_t before = cache.unguarded;
    release_stacks(big, 3);
    weft__stack_trim(&cache, 0);
    ck_assert_uint_eq(cache.unguarded, before - 3);
}

TEST(guards_by_mprotect_leave_some_mappings_free)
{
    enum { COUNT = 30000 };
    if (RUNNING_ON_VALGRIND)
        return;
    weft__guard_method = WEFT__GUARD_PROTECT;
    static weft__stack stacks[COUNT];
    for (int i = 0; i < COUNT; i++)
        stacks[i] = acquire_stack(16 * KIB);
    ck_assert_uint_gt(cache.unguarded, 0);
    ck_assert_uint_lt(cache.unguarded, cache.mapped);
    ck_assert_uint_lt(count_lines("/proc/self/maps"), 65530 / 2);
    ck_assert(is_fatal_to_write(stacks[0].low - 1));
    release_stacks(stacks, COUNT);
    /* Unmapped guards make room for other guards. */
    weft__stack_cache_close(&cache);
    for (int i = 0; i < 100; i++)
        stacks[i] = acquire_stack(16 * KIB);
    ck_assert_uint_eq(cache.unguarded, 0);
    release_stacks(stacks, 100);
}

static const struct {
    const char *text;
    size_t bytes;
    const char *message;
} environments[] = {
    {"131072", 131072, ""},
    {"96K", 96 << 10, ""},
    {"1m", 1 << 20, ""},
    {"1G", 1 << 30, ""},
    {"", WEFT__STACK_BYTES_DEFAULT, ""},
    {"1K", 16 << 10, "weft: WEFT_STACK=1K is too small: using 16K\n"},
    {"2G", 1 << 30, "weft: WEFT_STACK=2G is too large: using 1G\n"},
    {"99999999999999999999K", 1 << 30,
     "weft: WEFT_STACK=99999999999999999999K is too large: using 1G\n"},
    {"big", WEFT__STACK_BYTES_DEFAULT,
     "weft: WEFT_STACK=big is ignored: the value is not a size such as 128K or 1M\n"},
    {"-1", WEFT__STACK_BYTES_DEFAULT,
     "weft: WEFT_STACK=-1 is ignored: the value is not a size such as 128K or 1M\n"},
    {"64KB", WEFT__STACK_BYTES_DEFAULT,
     "weft: WEFT_STACK=64KB is ignored: the value is not a size such as 128K or 1M\n"},
};

TEST_ROWS(the_default_size_is_read_from_the_environment_if_valid, environments)
{
    setenv("WEFT_STACK", environments[_i].text, 1);
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    dup2(fileno(file), STDERR_FILENO);
    ck_assert_uint_eq(weft__stack_bytes_default(), environments[_i].bytes);
    ck_assert_uint_eq(weft__stack_bytes_default(), environments[_i].bytes);
    char message[128] = "";
    rewind(file);
    ck_assert_uint_lt(fread(message, 1, sizeof message, file), sizeof message);
    ck_assert_str_eq(message, environments[_i].message);
    fclose(file);
}
