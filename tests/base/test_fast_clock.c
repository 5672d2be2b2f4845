/*
 * Tests of the fast clock: never behind the real clock, rarely ahead of it, and never going back.
 */
#include "base/fast_clock.h"

#include "base/clock.h"

#include "support/suite.h"

#define ROUNDS 200000

/* An assertion of Check writes to a file each time, which is too slow here. */
static void require_clock(bool holds)
{
    if (!holds)
        ck_abort_msg("the clock is wrong");
}

/* Return a clock that has measured the rate of the counter. */
static weft__fast_clock calibrated_clock(void)
{
    weft__fast_clock q = {0};
    int64_t end_ns = weft__clock_ns() + WEFT__NS_PER_S;
    while (q.rate == 0 && weft__clock_ns() < end_ns)
        weft__fast_clock_ns(&q);
    return q;
}

TEST(the_fast_clock_is_never_behind_the_clock)
{
    weft__fast_clock q = calibrated_clock();
    for (int i = 0; i < ROUNDS; i++) {
        int64_t before_ns = weft__clock_ns();
        require_clock(weft__fast_clock_ns(&q) >= before_ns);
    }
}

TEST(it_is_never_behind_from_the_first_call_on)
{
    weft__fast_clock q = {0};
    for (int64_t end_ns = weft__clock_ns() + 30000000, now_ns = 0; now_ns < end_ns;) {
        now_ns = weft__clock_ns();
        require_clock(weft__fast_clock_ns(&q) >= now_ns);
    }
}

TEST(it_is_rarely_ahead_by_more_than_10_microseconds)
{
    weft__fast_clock q = calibrated_clock();
    int ahead = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t ns = weft__fast_clock_ns(&q);
        ahead += ns - weft__clock_ns() > 10000; /* interrupted between the two readings */
    }
    ck_assert_int_lt(ahead, ROUNDS / 10);
}

TEST(the_fast_clock_never_goes_back)
{
    weft__fast_clock q = calibrated_clock();
    for (int64_t i = 0, last_ns = 0, ns; i < ROUNDS; i++, last_ns = ns) {
        ns = weft__fast_clock_ns(&q);
        require_clock(ns >= last_ns);
        if (i % 1000 == 0)
            weft__fast_clock_sync(&q); /* its last value may have been ahead */
    }
}

/* Count how often the clock is behind the real clock within for_ns. */
static int count_behind(weft__fast_clock *q, int64_t for_ns)
{
    int behind = 0;
    for (int64_t end_ns = weft__clock_ns() + for_ns, now_ns = 0; now_ns < end_ns;) {
        now_ns = weft__clock_ns();
        behind += weft__fast_clock_ns(q) < now_ns;
    }
    return behind;
}

TEST(a_suspend_of_the_machine_during_the_measurement_does_no_harm)
{
    weft__fast_clock q = {0};
    weft__fast_clock_ns(&q);
    /* As if the counter had run for minutes while the clock stood still. */
    q.first_ticks -= (uint64_t)1 << 40;
    ck_assert_int_eq(count_behind(&q, 50000000), 0);
}

TEST(it_measures_again_when_the_counter_becomes_slower)
{
    weft__fast_clock q = calibrated_clock();
    q.rate /= 2;
    q.valid_ticks *= 2;
    count_behind(&q, 10000000);
    ck_assert_int_eq(count_behind(&q, 50000000), 0);
}
