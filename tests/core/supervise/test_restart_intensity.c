/* The intensity of restarts by itself: a window that slides, against one that is looked through. */
#include "core/intensity.h"

#include "core/timer.h"

#include "support.h"

#include <limits.h>

START_TEST(without_a_limit_nothing_is_kept)
{
    weft__intensity i = {.max = UINT_MAX, .window_ns = 10};
    for (int64_t now = 0; now < 1000; now++)
        ck_assert_int_eq(weft__intensity_note(&i, now), 0);
    ck_assert_ptr_null(i.times);
    weft__intensity_free(&i);
}
END_TEST

START_TEST(an_infinite_window_is_a_count)
{
    weft__intensity i = {.max = 1000, .window_ns = WEFT__NEVER};
    for (int64_t now = 0; now < 1000; now++)
        ck_assert_int_eq(weft__intensity_note(&i, now), 0);
    ck_assert_int_eq(weft__intensity_note(&i, INT64_MAX), -ELOOP);
    ck_assert_ptr_null(i.times);
    weft__intensity_free(&i);
}
END_TEST

START_TEST(the_ring_grows_only_as_far_as_the_window_is_full)
{
    weft__intensity i = {.max = 1000000, .window_ns = 10};
    for (int64_t now = 0; now < 10000; now++)
        ck_assert_int_eq(weft__intensity_note(&i, now), 0);
    ck_assert_uint_eq(i.count, 10);
    ck_assert_uint_le(i.room, 16);
    weft__intensity_free(&i);
    ck_assert_ptr_null(i.times);
}
END_TEST

/* How many of n times, which were let through, are in the window that ends now. */
static unsigned count_in_window(const int64_t *times, size_t n, int64_t now, int64_t window)
{
    unsigned count = 0;
    for (size_t i = 0; i < n; i++)
        count += now - times[i] < window;
    return count;
}

START_TEST(it_lets_through_what_a_look_at_all_times_would)
{
    static int64_t times[5000];
    unsigned state = 1;
    for (unsigned max = 1; max <= 100; max += 33) {
        weft__intensity i = {.max = max, .window_ns = 100};
        size_t n = 0;
        int64_t now = 0;
        for (int step = 0; step < 5000; step++) {
            state = state * 1103515245 + 12345;
            now += (state >> 16) % (step / 500 % 2 == 0 ? 20 : 2); /* calm and storm by turns */
            bool is_free = count_in_window(times, n, now, 100) < max;
            int rc = weft__intensity_note(&i, now);
            if (rc != (is_free ? 0 : -ELOOP))
                ck_abort_msg("max %u, step %d: %d", max, step, rc);
            if (is_free)
                times[n++] = now;
        }
        weft__intensity_free(&i);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &without_a_limit_nothing_is_kept,
    &an_infinite_window_is_a_count,
    &the_ring_grows_only_as_far_as_the_window_is_full,
    &it_lets_through_what_a_look_at_all_times_would,
};

int main(void)
{
    return run_suite("intensity", tests, COUNT_OF(tests));
}
