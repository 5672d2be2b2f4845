/* Tests of descriptor generations: one counter for each number, shared by all threads. */
#include "support/suite.h"

#include "backend/fd_generation.h"

#include <limits.h>

/* Numbers at the boundaries of table chunks. */
static const int numbers[] = {0, 1, 1022, 1023, 1024, 1025, 2047, 2048, 4095, 4096, 100000};

TEST(each_number_has_its_own_counter)
{
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        ck_assert_int_eq(weft__fd_reserve(numbers[i]), 0);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        for (size_t n = 0; n <= i; n++)
            weft__fd_advance(numbers[i]);
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        ck_assert_uint_eq(weft__fd_generation(numbers[i]), i + 1);
    ck_assert_uint_eq(weft__fd_generation(2), 0);
    ck_assert_uint_eq(weft__fd_generation(1026), 0);
}

/* No cord can have cached state of these numbers. */
TEST(numbers_without_a_counter_stay_at_0_and_take_no_memory)
{
    static const int others[] = {INT_MAX, INT_MIN, -1, -100, 1 << 20};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        weft__fd_advance(others[i]);
        ck_assert_uint_eq(weft__fd_generation(others[i]), 0);
        ck_assert_ptr_null(weft__fd_counter(others[i]));
    }
    ck_assert_uint_eq(atomic_load(&weft__fd_advances), 0);
}

#define THREADS 4
#define ADVANCES 1000

static void *reserve_and_advance(void *arg)
{
    for (int i = 0; i < ADVANCES; i++) {
        int number = 1024 << (i % 4);
        if (weft__fd_reserve(number) != 0)
            return arg;
        weft__fd_advance(number);
    }
    return NULL;
}

TEST(threads_that_reserve_and_advance_at_once_lose_nothing)
{
    pthread_t threads[THREADS];
    char failure;
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, reserve_and_advance, &failure), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_uint_eq(weft__fd_generation(1024 << i), THREADS * ADVANCES / 4);
    ck_assert_uint_eq(atomic_load(&weft__fd_advances), THREADS * ADVANCES);
}
