/* The quick clock: never behind the real one, hardly ahead of it, and never going back. */
#include "base/quick.h"

#include "base/clock.h"

#include <check.h>
#include <stdlib.h>

#define ROUNDS 200000

/* An assertion of Check's writes to a file each time. */
static void require(bool holds)
{
    if (!holds)
        ck_abort_msg("the clock is wrong");
}

/* One that has had the time to learn how fast the counter runs. */
static weft__quick practised(void)
{
    weft__quick q = {0};
    int64_t end_ns = weft__clock_ns() + WEFT__NS_PER_S;
    while (q.rate == 0 && weft__clock_ns() < end_ns)
        weft__quick_ns(&q);
    return q;
}

START_TEST(it_is_never_behind_the_clock)
{
    weft__quick q = practised();
    for (int i = 0; i < ROUNDS; i++) {
        int64_t before_ns = weft__clock_ns();
        require(weft__quick_ns(&q) >= before_ns);
    }
}
END_TEST

START_TEST(from_the_first_moment_on)
{
    weft__quick q = {0};
    for (int64_t end_ns = weft__clock_ns() + 30000000, now_ns = 0; now_ns < end_ns;) {
        now_ns = weft__clock_ns();
        require(weft__quick_ns(&q) >= now_ns);
    }
}
END_TEST

START_TEST(it_is_mostly_ahead_by_a_few_microseconds_at_most)
{
    weft__quick q = practised();
    int ahead = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t ns = weft__quick_ns(&q);
        ahead += ns - weft__clock_ns() > 10000; /* it was interrupted while it looked */
    }
    ck_assert_int_lt(ahead, ROUNDS / 10);
}
END_TEST

START_TEST(it_does_not_go_back)
{
    weft__quick q = practised();
    for (int64_t i = 0, last_ns = 0, ns; i < ROUNDS; i++, last_ns = ns) {
        ns = weft__quick_ns(&q);
        require(ns >= last_ns);
        if (i % 1000 == 0)
            weft__quick_look(&q); /* what it said may have been ahead */
    }
}
END_TEST

/* How often it is behind the clock, asked for so long. */
static int count_behind(weft__quick *q, int64_t for_ns)
{
    int behind = 0;
    for (int64_t end_ns = weft__clock_ns() + for_ns, now_ns = 0; now_ns < end_ns;) {
        now_ns = weft__clock_ns();
        behind += weft__quick_ns(q) < now_ns;
    }
    return behind;
}

START_TEST(a_sleep_of_the_machine_while_it_measures_does_not_mislead_it)
{
    weft__quick q = {0};
    weft__quick_ns(&q);
    q.first_ticks -= (uint64_t)1 << 40; /* the counter ran on for minutes, the clock did not */
    ck_assert_int_eq(count_behind(&q, 50000000), 0);
}
END_TEST

START_TEST(it_measures_again_when_the_counter_runs_slower_than_it_did)
{
    weft__quick q = practised();
    q.rate /= 2;
    q.span *= 2;
    count_behind(&q, 10000000);
    ck_assert_int_eq(count_behind(&q, 50000000), 0);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("quick");
    tcase_add_test(c, it_is_never_behind_the_clock);
    tcase_add_test(c, from_the_first_moment_on);
    tcase_add_test(c, it_is_mostly_ahead_by_a_few_microseconds_at_most);
    tcase_add_test(c, it_does_not_go_back);
    tcase_add_test(c, a_sleep_of_the_machine_while_it_measures_does_not_mislead_it);
    tcase_add_test(c, it_measures_again_when_the_counter_runs_slower_than_it_did);
    Suite *s = suite_create("quick");
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
