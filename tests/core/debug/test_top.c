/* Tests of CPU shares of fibers and of idle time, as numbers and as a table. T103. */
#include "support/suite.h"

#include <time.h>

static void burn(double seconds)
{
    for (clock_t end = clock() + (clock_t)(seconds * CLOCKS_PER_SEC); clock() < end;)
        continue;
}

/* Compute for arg milliseconds each time that the fiber is scheduled. */
static weft_value burn_when_scheduled(void *arg)
{
    weft_value rc;
    while ((rc = weft_suspend()) == 0)
        burn((double)(intptr_t)arg / 1e3);
    return rc;
}

static weft_fiber spin_computing(int ms, const char *name)
{
    weft_fiber f =
        weft_spin_with(burn_when_scheduled, as_arg(ms), &(weft_spin_options){.name = name});
    let_run();
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    return f;
}

static void keep_busy(weft_fiber f)
{
    while (info_of(f).cpu_share < 0.6) {
        ck_assert_int_eq(weft_schedule(f, 0), 0);
        let_run();
    }
}

static int add_share(const weft_info *info, void *sum)
{
    ck_assert(info->cpu_share >= 0);
    *(double *)sum += info->cpu_share;
    return 0;
}

/* Return the sum of all shares. The sum never exceeds 1, except for rounding. */
static double sum_of_shares(void)
{
    double sum = 0;
    ck_assert_int_eq(weft_walk(add_share, &sum), 0);
    ck_assert(sum <= 1 + 1e-9);
    return sum;
}

TEST(a_busy_fiber_has_a_share_and_all_shares_add_up_to_at_most_1)
{ /* T103 */
    weft_account(true);
    burn(0.01);
    ck_assert(info_of(weft_self()).cpu_s >= 0.005 && info_of(weft_self()).cpu_share > 0.99);
    weft_fiber busy = spin_computing(10, "busy"), lazy = spin_computing(1, "lazy");
    let_run();
    ck_assert(info_of(busy).cpu_s > 0 && info_of(lazy).cpu_s > 0);
    ck_assert(info_of(busy).cpu_share > 0 && info_of(lazy).cpu_share > 0);
    keep_busy(busy);
    ck_assert(info_of(lazy).cpu_share < info_of(busy).cpu_share);
    for (int i = 0; i < 300; i++)
        spin_computing(0, "one of many");
    for (int i = 0; i < 10; i++) {
        weft_snooze();
        sum_of_shares();
    }
}

TEST(unused_time_counts_as_idle)
{ /* T103: what Tarantool counts as sched */
    bool is_real = !is_sim();
    double used = 0;
    weft_counters c = {.idle_s = 0};
    weft_account(true);
    do {
        ck_assert_int_eq(weft_sleep(0.01), 0);
        ck_assert_int_eq(weft_stats(&c), 0);
        used = sum_of_shares();              /* a moment later, during which main ran */
    } while (is_real && c.idle_share < 0.1); /* on sim a second takes no time */
    ck_assert(c.idle_s > 0);
    ck_assert(used + c.idle_share > 0.99); /* no fiber has ended, so the shares cover all time */
}

TEST(a_share_decays_while_its_fiber_waits)
{
    weft_account(true);
    weft_fiber f = spin_computing(20, "once");
    let_run();
    double at_first = info_of(f).cpu_share, time = info_of(f).cpu_s, share = at_first;
    ck_assert(at_first > 0);
    while (share > at_first / 8) {
        burn(0.05);
        double now = info_of(f).cpu_share;
        ck_assert(now <= share);
        share = now;
        sum_of_shares();
    }
    ck_assert(info_of(f).cpu_s == time);
}

FIBER_DO(burn_and_end, burn(0.01), arg)

TEST(a_new_fiber_does_not_have_the_share_of_a_previous_fiber)
{
    weft_account(true);
    for (int i = 0; i < 3; i++)
        weft_await(weft_spin(burn_and_end, NULL));
    weft_fiber next = weft_spin(suspend, NULL);
    ck_assert(info_of(next).cpu_share == 0);
    ck_assert(sum_of_shares() < 1); /* shares of ended fibers are dropped */
}

TEST(shares_restart_with_each_measurement_and_times_accumulate)
{
    weft_account(true);
    weft_fiber f = spin_computing(10, "busy");
    let_run();
    weft_account(true); /* already on: no effect */
    ck_assert(info_of(f).cpu_share > 0);
    weft_account(false);
    ck_assert(info_of(f).cpu_share == 0);
    double time = info_of(f).cpu_s;
    ck_assert(time > 0);
    weft_account(true);
    ck_assert(info_of(f).cpu_share == 0);
    weft_schedule(f, 0);
    let_run();
    ck_assert(info_of(f).cpu_share > 0);
    ck_assert(info_of(f).cpu_s > time);
}

TEST(without_accounting_or_a_descriptor_there_is_no_table)
{ /* T103 */
    ck_assert_int_eq(weft_top(STDOUT_FILENO), -ENODATA);
    ck_assert_any_error(-ENODATA);
    weft_account(true);
    ck_assert_int_eq(weft_top(-1), -EBADF);
    weft_account(false);
    ck_assert_int_eq(weft_top(STDOUT_FILENO), -ENODATA);
    ck_assert(stats().idle_share == 0);
}

static size_t read_table(char lines[][128], size_t max)
{
    FILE *file = tmpfile();
    ck_assert_int_eq(weft_top(fileno(file)), 0);
    rewind(file);
    size_t n = 0;
    while (n < max && fgets(lines[n], 128, file) != NULL)
        n++;
    fclose(file);
    return n;
}

TEST(the_table_lists_live_fibers_and_idle_time_busiest_first)
{ /* T103 */
    char lines[16][128];
    weft_account(true);
    weft_fiber lazy = spin_computing(1, "lazy"), busy = spin_computing(10, "busy");
    weft_fiber ended = weft_spin_with(return_arg, NULL, &(weft_spin_options){.name = "zombie"});
    let_run();
    ck_assert_int_eq(weft_state_of(ended), WEFT_DEAD);
    keep_busy(busy);
    size_t n = read_table(lines, COUNT_OF(lines));
    ck_assert_uint_eq(n, 5); /* the heading, two fibers, main, idle */
    ck_assert_ptr_nonnull(strstr(lines[0], "switches"));
    char text[64];
    snprintf(text, sizeof text, "#%llu 'busy'\n", (unsigned long long)busy);
    double sum = 0, last = 100;
    bool has_idle = false, has_lazy = false, has_main = false, has_busy = false;
    for (size_t i = 1; i < n; i++) {
        double percent, time;
        ck_assert_int_eq(sscanf(lines[i], "%lf %lf", &percent, &time), 2);
        ck_assert(percent <= last && percent >= 0 && time >= 0);
        last = percent;
        sum += percent;
        has_idle |= strstr(lines[i], " idle\n") != NULL;
        has_lazy |= strstr(lines[i], "'lazy'\n") != NULL;
        has_main |= strstr(lines[i], "'main'\n") != NULL;
        has_busy |= strstr(lines[i], text) != NULL;
    }
    ck_assert(has_idle && has_lazy && has_main && has_busy);
    ck_assert(sum <= 100 + 1e-9);
    ck_assert_uint_eq(info_of(lazy).switches, 2);
}
