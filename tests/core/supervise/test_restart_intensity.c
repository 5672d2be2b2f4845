/* Restart intensity: the sliding window, compared with a search through all times. */
#include "core/supervise/restart_intensity.h"

#include "core/sched/timer.h"

#include "support/suite.h"

#include <limits.h>

TEST(without_a_limit_no_times_are_stored)
{
    weft__restart_intensity i = {.max = UINT_MAX, .window_ns = 10};
    for (int64_t now = 0; now < 1000; now++)
        ck_assert_int_eq(weft__restart_intensity_note(&i, now), 0);
    ck_assert_ptr_null(i.times);
    weft__restart_intensity_free(&i);
}

TEST(an_infinite_window_is_a_count)
{
    weft__restart_intensity i = {.max = 1000, .window_ns = WEFT__NEVER};
    for (int64_t now = 0; now < 1000; now++)
        ck_assert_int_eq(weft__restart_intensity_note(&i, now), 0);
    ck_assert_int_eq(weft__restart_intensity_note(&i, INT64_MAX), -ELOOP);
    ck_assert_ptr_null(i.times);
    weft__restart_intensity_free(&i);
}

TEST(the_ring_buffer_grows_only_with_the_restarts_in_the_window)
{
    weft__restart_intensity i = {.max = 1000000, .window_ns = 10};
    for (int64_t now = 0; now < 10000; now++)
        ck_assert_int_eq(weft__restart_intensity_note(&i, now), 0);
    ck_assert_uint_eq(i.count, 10);
    ck_assert_uint_le(i.capacity, 16);
    weft__restart_intensity_free(&i);
    ck_assert_ptr_null(i.times);
}

/* Count the times in the window that ends now. */
static unsigned count_in_window(const int64_t *times, size_t n, int64_t now, int64_t window)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += now - times[i] < window;
    return count;
}

TEST(the_window_allows_the_same_restarts_as_a_search_through_all_times)
{
    static int64_t times[5000];
    unsigned state = 1;
    for (unsigned max = 1; max <= 100; max += 33) {
        weft__restart_intensity i = {.max = max, .window_ns = 100};
        size_t n = 0;
        int64_t now = 0;
        for (int step = 0; step < 5000; step++) {
            state = state * 1103515245 + 12345;
            now += (state >> 16) % (step / 500 % 2 == 0 ? 20 : 2); /* slow and fast phases */
            bool is_free = count_in_window(times, n, now, 100) < max;
            int rc = weft__restart_intensity_note(&i, now);
            if (rc != (is_free ? 0 : -ELOOP))
                ck_abort_msg("max %u, step %d: %d", max, step, rc);
            if (is_free)
                times[n++] = now;
        }
        weft__restart_intensity_free(&i);
    }
}
