/* A check of functions that fill a result of a given size (docs/adr/0046). */
#ifndef TESTS_SUPPORT_RESULT_SUPPORT_H
#define TESTS_SUPPORT_RESULT_SUPPORT_H

#include <check.h>
#include <string.h>

#define RESULT_ROOM 1024
#define RESULT_CANARY 0xa5

/* Assert that all bytes from begin to end have this value. */
static inline void assert_result_bytes(const unsigned char *room, size_t begin, size_t end,
                                       int value)
{
    for (size_t i = begin; i < end; i++)
        ck_assert_msg(room[i] == value, "byte %zu is %d, not %d", i, room[i], value);
}

/*
 * Assert that fill writes no byte beyond the size that it gets, and zeroes the bytes that the
 * library does not know. full is the size of the result in the library.
 */
static inline void assert_result_is_sized(size_t full, int (*fill)(void *out, size_t size))
{
    const size_t sizes[] = {0, 1, sizeof(long), full - 1, full, full + 1, full + 64};
    unsigned char room[RESULT_ROOM], first[sizeof(long)];
    memset(first, RESULT_CANARY, sizeof first);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(room, RESULT_CANARY, sizeof room);
        ck_assert_int_eq(fill(room, sizes[i]), 0);
        assert_result_bytes(room, sizes[i], sizeof room, RESULT_CANARY);
        if (sizes[i] > full)
            assert_result_bytes(room, full, sizes[i], 0);
        if (sizes[i] >= sizeof first)
            ck_assert_mem_ne(room, first, sizeof first);
    }
}

#endif
