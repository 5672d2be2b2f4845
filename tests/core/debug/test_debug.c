/* Tests of names, fiber information, walks, dumps, backtraces, and CPU time. */
#include "support/cases.h"
#include "support/suite.h"

#include <time.h>

/* With ucontext the frames of a waiting fiber cannot be found. */
#ifdef WEFT_UCONTEXT
#define HAS_BACKTRACES false
#else
#define HAS_BACKTRACES true
#endif

FIBER(sleep_briefly, weft_sleep(0.002))

TEST(the_info_of_a_waiting_fiber)
{ /* T20 */
    weft_spin_options options = {.name = "sleeper", .stack_bytes = 128 << 10, .is_daemon = true};
    weft_fiber other = weft_spin(sleep_briefly, NULL);
    weft_fiber f = weft_spin_with(sleep_forever, NULL, &options);
    weft_await(other);
    weft_info i = info_of(f);
    ck_assert_uint_eq(i.id, f);
    ck_assert_uint_eq(i.parent, weft_self());
    ck_assert_str_eq(i.name, "sleeper");
    ck_assert(i.fn == sleep_forever);
    ck_assert_int_eq(i.state, WEFT_WAITING);
    ck_assert_str_eq(i.waits_for, "sleep");
    ck_assert_double_ge(i.waiting_s, 0.001);
    ck_assert_uint_ge(i.stack_bytes, 120 << 10);
    ck_assert_uint_gt(i.stack_used, 0);
    ck_assert_uint_le(i.stack_used, i.stack_bytes);
    ck_assert(i.is_daemon && !i.is_parked);
    weft_park(f);
    ck_assert(info_of(f).is_parked);
    weft_unpark(f);
}

TEST(the_info_of_main_of_a_runnable_fiber_and_of_an_ended_fiber)
{ /* T20 */
    weft_info i = info_of(weft_main());
    ck_assert_uint_eq(i.parent, 0);
    ck_assert_ptr_null((void *)i.fn);
    ck_assert_int_eq(i.state, WEFT_RUNNING);
    ck_assert_str_eq(i.waits_for, "");
    ck_assert_uint_eq(i.stack_bytes, 0);
    weft_fiber f = weft_spin(return_arg, as_arg(7));
    i = info_of(f);
    ck_assert_int_eq(i.state, WEFT_RUNNABLE);
    ck_assert_double_eq(i.waiting_s, 0);
    weft_snooze();
    /* T24: the fiber has ended, and its value is not awaited yet. */
    i = info_of(f);
    ck_assert_int_eq(i.state, WEFT_DEAD);
    ck_assert_uint_eq(i.stack_bytes, 0);
    ck_assert_int_eq(weft_await(f), 7);
    ck_assert_int_eq(weft_info_of(f, &i), -ESRCH);
    ck_assert_int_eq(weft_info_of(0, &i), -ESRCH);
}

static void assert_waits_for(weft_fiber f, const char *reason)
{
    weft_info i = info_of(f);
    ck_assert_int_eq(i.state, WEFT_WAITING);
    ck_assert_str_eq(i.waits_for, reason);
}

TEST(every_kind_of_wait_has_a_reason)
{ /* T20 */
    int fd[2];
    weft_pipe(fd);
    weft_fiber sleeper = spin_sleeping();
    weft_fiber awaiter = weft_spin(await_fiber, id_arg(sleeper));
    weft_fiber reader = spin_waiting(read_byte, &fd[0]);
    assert_waits_for(sleeper, "sleep");
    assert_waits_for(awaiter, "the end of");
    assert_waits_for(reader, "read");
    assert_waits_for(spin_suspended(), "weft_schedule");
    assert_waits_for(weft_new(return_arg, NULL), "its start");
    close_fd_pair(fd);
    ck_assert_int_eq(weft_await(reader), -EBADF);
}

static weft_value spin_two_and_suspend(void *arg)
{
    spin_named(suspend, NULL, "a1");
    spin_named(suspend, NULL, "a2");
    return suspend(arg);
}

static int mark_name(const weft_info *info, void *context)
{
    mark(info->name);
    mark(" ");
    int *left = context;
    return --*left == 0 ? 42 : 0;
}

static void spin_tree(void)
{
    spin_named(spin_two_and_suspend, NULL, "a");
    spin_named(suspend, NULL, "b");
    weft_fiber ended = spin_named(return_arg, NULL, "zombie");
    let_run();
    ck_assert_int_eq(weft_state_of(ended), WEFT_DEAD);
}

TEST(a_walk_visits_live_fibers_parents_before_children_until_the_callback_returns_nonzero)
{ /* T20 */
    int left = 100;
    spin_tree();
    ck_assert_int_eq(weft_walk(mark_name, &left), 0);
    ck_take_trail("main a a1 a2 b ");
    left = 3;
    ck_assert_int_eq(weft_walk(mark_name, &left), 42);
    ck_assert_trail("main a a1 ");
    ck_assert_int_eq(weft_walk(NULL, NULL), -EINVAL);
}

TEST(a_dump_shows_the_tree_with_names_states_and_reasons_or_fails)
{ /* T20, T23 */
    FILE *file = tmpfile();
    spin_tree();
    spin_named(sleep_forever, NULL, "sleeper");
    weft_snooze();
    weft_park(spin_named(return_arg, NULL, "held"));
    ck_assert_int_eq(weft_dump(fileno(file)), 0);
    static char text[65536];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    char id[32];
    snprintf(id, sizeof id, "#%llu ", (unsigned long long)weft_main());
    ck_assert_has(text, "'main' running", "'a' waiting for weft_schedule", "'a1' waiting",
                  "'a2' waiting", "'b' waiting", "'sleeper' waiting for sleep", "parked", "stack ",
                  id);
    ck_assert_lacks(text, "zombie");
    ck_assert_int_eq(weft_dump(-1), -EBADF);
}

/* The return addresses of the two functions below, one in each of their callers. */
static void *outer_returns_to, *inner_returns_to;

static __attribute__((noinline)) weft_value inner(weft_value (*wait)(void))
{
    inner_returns_to = __builtin_return_address(0);
    weft_value rc = wait();
    __asm__ volatile("" : "+r"(rc)); /* prevents a tail call */
    return rc;
}

static __attribute__((noinline)) weft_value outer(weft_value (*wait)(void))
{
    outer_returns_to = __builtin_return_address(0);
    weft_value rc = inner(wait);
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

static weft_value suspend_nested(void *arg)
{
    weft_value rc = outer(weft_suspend);
    __asm__ volatile("" : "+r"(rc));
    return rc;
}

/* Return the index of an address in a backtrace, or -1. */
static int find_frame(void *const *frames, int n, const void *address)
{
    for (int i = 0; i < n; i++)
        if (frames[i] == address)
            return i;
    return -1;
}

TEST(the_backtrace_of_a_waiting_fiber_has_its_nested_functions_innermost_first)
{ /* T21 */
    if (!HAS_BACKTRACES)
        return;
    void *frames[32];
    weft_fiber f = spin_waiting(suspend_nested, NULL);
    int n = weft_backtrace(f, frames, COUNT_OF(frames));
    ck_assert_int_ge(n, 3);
    int in = find_frame(frames, n, inner_returns_to), out = find_frame(frames, n, outer_returns_to);
    ck_assert_int_ge(in, 0);
    ck_assert_int_eq(out, in + 1);
    ck_assert_int_eq(weft_backtrace(f, frames, 2), 2);
    ck_assert_int_eq(weft_backtrace(f, frames, 0), 0);
    weft_schedule(f, 7);
    ck_assert_int_eq(weft_await(f), 7); /* the backtrace did not change the fiber */
    ck_assert_int_eq(weft_backtrace(f, frames, COUNT_OF(frames)), -ESRCH);
}

static void *own_frames[32];

static void assert_own_frames(int n)
{
    ck_assert_int_ge(n, 3);
    ck_assert_int_ge(find_frame(own_frames, n, inner_returns_to), 0);
    ck_assert_int_ge(find_frame(own_frames, n, outer_returns_to), 0);
}

static weft_value trace_self(void)
{
    return weft_backtrace(weft_self(), own_frames, COUNT_OF(own_frames));
}

static weft_value trace_nested(void *arg)
{
    weft_value n = outer(trace_self);
    __asm__ volatile("" : "+r"(n));
    return n;
}

TEST(a_fiber_can_have_its_own_backtrace)
{ /* T21 */
    assert_own_frames((int)weft_await(weft_spin(trace_nested, NULL)));
}

FIBER(trace_main, weft_backtrace(weft_main(), own_frames, COUNT_OF(own_frames)))

static weft_value await_tracer(void)
{
    return weft_await(weft_spin(trace_main, NULL));
}

TEST(the_backtrace_of_a_waiting_main_fiber_has_its_functions_too)
{ /* T21 */
    if (HAS_BACKTRACES)
        assert_own_frames((int)outer(await_tracer));
}

TEST(fibers_that_never_ran_or_have_ended_have_no_backtrace)
{ /* T21, T23, T24 */
    void *frames[8];
    weft_fiber fresh = weft_new(return_arg, NULL), spun = weft_spin(return_arg, NULL);
    ck_assert_int_eq(weft_backtrace(fresh, frames, 8), 0);
    ck_assert_int_eq(weft_backtrace(spun, frames, 8), 0);
    weft_snooze();
    ck_assert_int_eq(weft_state_of(spun), WEFT_DEAD);
    ck_assert_int_eq(weft_backtrace(spun, frames, 8), 0);
    ck_assert_int_eq(weft_backtrace(0, frames, 8), -ESRCH);
}

static weft_value burn_then_suspend(void *arg)
{
    weft_snooze();
    for (clock_t end = clock() + CLOCKS_PER_SEC / 100; clock() < end;)
        continue;
    return weft_suspend();
}

TEST(a_busy_fiber_has_cpu_time_while_accounting_is_on)
{ /* T103 */
    weft_fiber f = weft_spin(burn_then_suspend, NULL), idle = weft_spin(suspend, NULL);
    weft_account(true);
    let_run();
    weft_account(false);
    double busy_s = info_of(f).cpu_s;
    ck_assert_double_ge(busy_s, 0.005);
    ck_assert_double_lt(info_of(idle).cpu_s, busy_s);
    ck_assert_double_eq(info_of(spin_waiting(burn_then_suspend, NULL)).cpu_s, 0);
    weft_schedule(f, 0);
    let_run();
    ck_assert_int_eq(info_of(f).state, WEFT_DEAD);
    ck_assert_double_eq(info_of(f).cpu_s, busy_s);
}

CALLBACK(count_idle, ++*(int *)arg)

TEST(the_idle_function_is_called_before_each_wait_and_at_no_other_time)
{ /* P13 */
    int calls = 0;
    weft_on_idle(count_idle, &calls);
    for (int i = 0; i < 1000; i++)
        weft_snooze();
    ck_assert_int_eq(calls, 0);
    for (int i = 1; i <= 5; i++) {
        weft_sleep(0.05); /* long enough that the backend waits */
        ck_assert_int_eq(calls, i);
    }
    weft_on_idle(NULL, NULL);
    weft_sleep(0.001);
    ck_assert_int_eq(calls, 5);
}
