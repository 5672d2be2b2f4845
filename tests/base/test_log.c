/* Tests of weft_set_log: which messages the function gets, in which form and from which threads. */
#include "core/debug/report.h"
#include "support/cases.h"

#include "core/cord/fork_support.h"
#include "support/suite.h"

#include <stdatomic.h>
#include <syslog.h>

/* What a log function got last. The function writes the fields in the order of the calls. */
static struct {
    int calls;
    int level;
    void *arg;
    char text[2 << 20];
} logged;

static void collect(int level, const char *text, void *arg)
{
    logged.calls++;
    logged.level = level;
    logged.arg = arg;
    snprintf(logged.text, sizeof logged.text, "%s", text);
}

/* Cause a message: try to switch while switching is forbidden. */
static void cause_message(void)
{
    weft_no_switch_begin();
    weft_snooze();
    weft_no_switch_end();
}

#define MESSAGE "tried to switch while switching is forbidden"

static int messages_in_turn(void)
{
    int arg;
    weft_set_log(collect, &arg);
    cause_message();
    char expected[128];
    snprintf(expected, sizeof expected, "fiber #%llu 'main' " MESSAGE,
             (unsigned long long)weft_self());
    bool is_right = logged.calls == 1 && logged.level == LOG_ERR && logged.arg == &arg &&
                    strcmp(logged.text, expected) == 0;
    weft_set_log(NULL, NULL);
    cause_message();
    return is_right && logged.calls == 1 ? 0 : 3;
}

TEST(a_message_goes_to_the_function_without_prefix_and_newline_and_to_stderr_without_function)
{
    const outcome *o = run_apart(messages_in_turn);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, MESSAGE "\n"), 1);
    ck_assert_int_eq(strncmp(o->text, "weft: fiber #", 13), 0);
}

TEST(a_program_can_print_messages_as_weft_does)
{
    weft_set_log(collect, NULL);
    weft_log(LOG_NOTICE, "connected to %s", "here");
    ck_assert_int_eq(logged.calls, 1);
    ck_assert_int_eq(logged.level, LOG_NOTICE);
    ck_assert_str_eq(logged.text, "connected to here");
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    weft_log(LOG_NOTICE, "%s", text);
    ck_assert_uint_eq(strlen(logged.text), 504);
}

TEST(a_report_of_several_lines_is_one_text)
{
    weft_set_log(collect, NULL);
    weft_fiber f = weft_spin_with(receive_one, NULL, &(weft_spin_options){.name = "receiver"});
    ck_assert_int_eq(weft_await(f), -EDEADLK);
    ck_assert_int_eq(logged.calls, 1);
    ck_assert_int_eq(logged.level, LOG_ERR);
    ck_assert_int_eq(strncmp(logged.text, "deadlock: every", 15), 0);
    ck_assert_has(logged.text, "\nthread ", "': 1 fibers and main",
                  "'receiver' waiting for a message");
    ck_assert_ptr_null(strstr(logged.text, "weft: "));
    ck_assert_int_ne(logged.text[strlen(logged.text) - 1], '\n');
    weft_cancel(f);
}

TEST(a_long_report_is_cut_at_a_line_and_says_so)
{
    weft_set_log(collect, NULL);
    weft__report r;
    weft__report_begin(&r, LOG_WARNING, "first");
    for (int i = 0; i < 200000; i++)
        weft__report_print(&r, "line %d\n", 100000 + i);
    weft__report_end(&r);
    ck_assert_int_eq(logged.calls, 1);
    static const char end[] = "\n(the rest of the report is omitted)";
    size_t bytes = strlen(logged.text);
    ck_assert_uint_le(bytes, 1 << 20);
    ck_assert_uint_gt(bytes, (1 << 20) - 64);
    ck_assert_str_eq(logged.text + bytes - strlen(end), end);
    ck_assert_int_eq(strncmp(logged.text, "first\nline 100000\n", 18), 0);
    /* The last line is whole. */
    ck_assert_int_eq(strncmp(logged.text + bytes - strlen(end) - 12, "\nline ", 6), 0);
}

FIBER(fail_here, weft_fail(-ENOSPC, "fail_here: no space"))

static void print_bracketed(int level, const char *text, void *arg)
{
    dprintf(STDERR_FILENO, "<%d %s>", level, text);
}

static int main_with_an_unhandled_error(void)
{
    weft_set_log(print_bracketed, NULL);
    weft_go(fail_here, NULL);
    weft_go(fail_here, NULL);
    weft_snooze(); /* returns one of the errors */
    weft_error_clear();
    return 0;
}

TEST(an_error_that_main_does_not_handle_goes_to_the_function_while_the_process_exits)
{
    const outcome *o = run_apart(main_with_an_unhandled_error);
    assert_printed(o, "<3 an error reached the main fiber and was not handled:\n"
                      "  fail_here: no space: -28");
    ck_assert_int_eq(o->text[strlen(o->text) - 1], '>');
    ck_assert_uint_eq(count_in(o->text, "weft: "), 0);
}

static int main_with_a_bad_environment(void)
{
    setenv("WEFT_BACKEND", "none such", 1);
    setenv("WEFT_STACK", "much", 1);
    weft_set_log(print_bracketed, NULL);
    weft_await(weft_spin(return_arg, NULL));
    return 0;
}

TEST(warnings_about_the_environment_go_to_the_function)
{
    const outcome *o = run_apart(main_with_a_bad_environment);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "<4 WEFT_BACKEND=none such is not built in");
    assert_printed(o, "<4 WEFT_STACK=much is ignored: the value is not a size such as 128K or 1M>");
    ck_assert_uint_eq(count_in(o->text, "weft: "), 0);
}

static int result_in_hook;

static void switch_in_hook(int level, const char *text, void *arg)
{
    logged.calls++;
    result_in_hook = weft_snooze();
}

static int main_with_a_function_that_switches(void)
{
    weft_set_log(switch_in_hook, NULL);
    cause_message();
    bool is_right = logged.calls == 1 && result_in_hook == -EPERM;
    return is_right && weft_snooze() == 0 ? 0 : 3;
}

TEST(a_function_cannot_switch_and_its_own_messages_go_to_stderr)
{
    const outcome *o = run_apart(main_with_a_function_that_switches);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_eq(count_in(o->text, MESSAGE), 1);
}

static weft_value slice_warning(void *arg)
{
    weft_set_slice(1e-9, 0);
    while (logged.calls == 0)
        weft_check_slice();
    return weft_snooze();
}

TEST(a_fiber_can_switch_after_its_message)
{
    weft_set_log(switch_in_hook, NULL);
    ck_assert_int_eq(weft_await(weft_spin(slice_warning, NULL)), 0);
    ck_assert_int_eq(result_in_hook, -EPERM);
}

static void replace_in_hook(int level, const char *text, void *arg)
{
    ++*(int *)arg;
    weft_set_log(collect, NULL);
}

TEST(a_function_can_replace_itself)
{
    int calls = 0;
    weft_set_log(replace_in_hook, &calls);
    cause_message();
    cause_message();
    ck_assert_int_eq(calls, 1);
    ck_assert_int_eq(logged.calls, 1);
}

static void *messages_of_a_thread(void *arg)
{
    atomic_bool *must_end = arg;
    while (!atomic_load(must_end))
        cause_message();
    return NULL;
}

/* The argument of a log function, for as long as the function is set. */
typedef struct owner {
    atomic_bool is_valid;
    atomic_int calls, calls_late;
} owner;

static void check_owner(int level, const char *text, void *arg)
{
    owner *o = arg;
    o->calls_late += !o->is_valid;
    o->calls++;
    sched_yield();
    o->calls_late += !o->is_valid;
}

static void ignore_message(int level, const char *text, void *arg)
{
}

TEST(a_replaced_function_has_returned_in_all_threads)
{
    enum { THREADS = 3, ROUNDS = 50 };
    static owner owners[ROUNDS];
    atomic_bool must_end = false;
    pthread_t threads[THREADS];
    weft_set_log(ignore_message, NULL);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(messages_of_a_thread, &must_end);
    for (int i = 0; i < ROUNDS; i++) {
        owners[i].is_valid = true;
        weft_set_log(check_owner, &owners[i]);
        while (owners[i].calls == 0)
            sched_yield();
        weft_set_log(ignore_message, NULL);
        owners[i].is_valid = false;
    }
    must_end = true;
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    for (int i = 0; i < ROUNDS; i++)
        ck_assert_int_eq(owners[i].calls_late, 0);
}

TEST_PROGRAM(the_message_of_a_plain_fork_goes_to_stderr, 0,
             "weft: all calls fail in a child of fork(2); use weft_fork\n")
{
    weft_set_log(print_bracketed, NULL);
    weft_snooze();
    pid_t pid = fork();
    if (pid == 0)
        _exit(weft_snooze() == -ENOTRECOVERABLE ? 0 : 3);
    return wait_for_exit(pid);
}

static weft_cord reported_cord;

static void *cancel_cord(void *arg)
{
    (void)arg;
    return as_arg(weft_cord_cancel(reported_cord));
}

/* Wait for another thread that needs the lock of all started threads. */
static void wait_for_cancel(int level, const char *text, void *arg)
{
    join_thread(start_thread(cancel_cord, NULL));
    collect(level, text, arg);
}

static atomic_bool has_begun, may_end;

static weft_value run_until_allowed(void *arg)
{
    atomic_store(&has_begun, true);
    while (!atomic_load(&may_end))
        sched_yield();
    return (weft_value)arg;
}

TEST(no_lock_is_held_while_the_function_gets_the_report_of_a_running_thread)
{
    weft_set_log(wait_for_cancel, NULL);
    reported_cord = weft_cord_start(run_until_allowed, NULL, NULL);
    while (!atomic_load(&has_begun))
        sched_yield();
    weft_shutdown_all(0);
    ck_assert_int_eq(logged.calls, 1);
    ck_assert_ptr_nonnull(strstr(logged.text, "was cancelled and has not ended"));
    atomic_store(&may_end, true);
    weft_set_log(NULL, NULL);
}

static void wait_and_print(int level, const char *text, void *arg)
{
    wait_for_cancel(level, text, arg);
    dprintf(STDERR_FILENO, "[%s]\n", text);
}

static weft_value fail_at_once(void *arg)
{
    (void)arg;
    return -EIO;
}

static int end_with_a_failed_thread(void)
{
    weft_set_log(wait_and_print, NULL);
    reported_cord = weft_cord_start(fail_at_once, NULL, NULL);
    weft_counters counters;
    while (weft_stats_of(reported_cord, &counters) == 0)
        sched_yield();
    return 0;
}

TEST(no_lock_is_held_while_the_function_gets_the_error_of_an_unjoined_thread)
{
    const outcome *o = run_apart(end_with_a_failed_thread);
    ck_assert_uint_eq(count_in(o->text, "[an error reached the main fiber"), 1);
}
