/*
 * Where something runs out: fibers that never wait, stacks that are full, deep trees, processes
 * that fork; and the sizes that a fiber may be made with.
 */
#include "core/limits.h"
#include "support.h"

#include <fcntl.h>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

/* Reads what is always there; only its deadline can end that. */
static weft_value read_for_ever(void *arg)
{
    int fd = open("/dev/zero", O_RDONLY);
    WEFT_DEFER(close, fd);
    int rc = 0;
    WEFT_CANCEL_AFTER(*(double *)arg, rc) {
        char bytes[16];
        while (weft_read(fd, bytes, sizeof bytes) == sizeof bytes)
            continue;
    }
    return -rc;
}

/* P12, T11 */
START_TEST(a_deadline_strikes_in_a_loop_of_reads_that_never_wait)
{
    double timeout = 0.005;
    ck_assert_int_eq(weft_await(weft_spin(read_for_ever, &timeout)), ETIMEDOUT);
}
END_TEST

static weft_value cancel_other(void *arg)
{
    return weft_cancel(*(weft_fiber *)arg);
}

/* T11 */
START_TEST(a_loop_of_reads_that_never_wait_lets_others_run)
{
    double timeout = INFINITY;
    weft_fiber f = weft_spin(read_for_ever, &timeout);
    weft_spin(cancel_other, &f);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
}
END_TEST

static weft_fiber made_while_idle;

static void spin_once(void *arg)
{
    (void)arg;
    if (made_while_idle == 0)
        made_while_idle = weft_spin(return_arg, as_arg(5));
}

/* P13: the one who polls is dead, and its record and stack are not to be used yet. */
START_TEST(a_fiber_made_while_a_dead_one_polls_is_a_fiber_of_its_own)
{
    weft_fiber f = weft_spin(return_arg, as_arg(3));
    weft_on_idle(spin_once, NULL);
    ck_assert_int_eq(weft_sleep(0.05), 0); /* not over before it is waited for */
    weft_on_idle(NULL, NULL);
    ck_assert_uint_ne(made_while_idle, f);
    ck_assert_uint_eq(weft_parent(made_while_idle), weft_main());
    ck_assert_int_eq(weft_await(made_while_idle), 5);
    ck_assert_int_eq(weft_await(f), 3);
}
END_TEST

/* Goes down until it is so many bytes below where it began, and waits there. */
static weft_value suspend_deep_down(const volatile char *begin, ptrdiff_t bytes)
{
    volatile char room[256];
    room[0] = 0;
    bool is_deep = begin - room >= bytes;
    weft_value rc = is_deep ? weft_suspend() : suspend_deep_down(begin, bytes);
    return rc + room[0];
}

static weft_value suspend_9_kib_down(void *arg)
{
    (void)arg;
    volatile char begin = 0;
    return suspend_deep_down(&begin, 9 << 10);
}

/* T21 */
START_TEST(a_fiber_whose_stack_is_nearly_full_is_shown_without_its_frames)
{
    if (is_sanitized()) /* frames are larger there */
        return;
    weft_fiber f =
        weft_spin_with(suspend_9_kib_down, NULL, &(weft_spin_options){.stack_bytes = 16 << 10});
    let_run();
    void *frames[8];
    ck_assert_int_eq(weft_backtrace(f, frames, 8), 0);
    int fd = open("/dev/null", O_WRONLY);
    ck_assert_int_eq(weft_dump(fd), 0);
    close(fd);
    ck_assert_int_eq(weft_schedule(f, 7), 0);
    ck_assert_int_eq(weft_await(f), 7);
}
END_TEST

static weft_value end_slowly(void *arg)
{
    weft_suspend();
    WEFT_SHIELD(INFINITY)
        weft_sleep(0.002);
    return (weft_value)arg;
}

static weft_value restart_arg(void *arg)
{
    return weft_restart(*(weft_fiber *)arg) < 0; /* told that it came to nothing */
}

/* P35, P30 */
START_TEST(awaiting_all_stops_also_one_whose_restart_is_under_way)
{
    weft_fiber f[2] = {weft_spin(end_slowly, NULL), spin_suspended()};
    weft_fiber restarter = weft_spin(restart_arg, &f[0]);
    let_run();
    ck_assert_int_eq(weft_schedule(f[1], -EIO), 0);
    ck_assert_int_eq(weft_await_all(f, 2, NULL), -EIO);
    ck_assert_int_eq(weft_await(restarter), 1);
}
END_TEST

static void wait_shielded(void *arg)
{
    (void)arg;
    WEFT_SHIELD(INFINITY)
        (void)weft_suspend();
}

static weft_value fail_and_clean_up_slowly(void *arg)
{
    *(weft_fiber *)arg = weft_self();
    weft_suspend(); /* until the parent ends */
    weft_defer(wait_shielded, NULL);
    return weft_fail(-EIO, "cannot clean up");
}

static weft_value parent_of_failing(void *arg)
{
    weft_spin(fail_and_clean_up_slowly, arg);
    weft_snooze();
    return 1;
}

/* P18: once its function has returned, a stop is too late. */
START_TEST(a_stop_that_comes_too_late_swallows_no_error)
{
    weft_fiber child = 0;
    weft_fiber parent = weft_spin(parent_of_failing, &child);
    let_run();
    ck_assert_int_eq(weft_stop(child, 42), 0);
    ck_assert_int_eq(weft_schedule(child, 0), 0); /* its clean-up is done */
    ck_assert_int_eq(weft_await(parent), -EIO);
}
END_TEST

static int generations_left;

static weft_value exit_deep_down(void *arg)
{
    if (generations_left-- == 0)
        exit_here(7);
    return weft_await(weft_spin(exit_deep_down, arg));
}

static int exit_in_a_deep_tree(void)
{
    generations_left = is_sanitized() ? 1000 : 20000;
    return (int)weft_await(weft_spin(exit_deep_down, NULL));
}

/* P33 */
START_TEST(exit_far_down_in_a_deep_tree_needs_no_deep_stack)
{
    ck_assert_quiet(run_apart(exit_in_a_deep_tree), 7);
}
END_TEST

static void say_arg(void *what)
{
    dprintf(STDERR_FILENO, "%s", (char *)what);
}

static weft_value clean_up_aloud(void *arg)
{
    weft_defer(say_arg, arg);
    return weft_suspend();
}

static int fork_with_fibers(void)
{
    weft_spin(clean_up_aloud, "once ");
    weft_snooze();
    pid_t pid = fork();
    if (pid == 0)
        exit(3);
    int status = 0;
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

/* P76 */
START_TEST(a_child_process_that_exits_does_not_end_its_parents_fibers)
{
    assert_ended(run_apart(fork_with_fibers), 3, "once ");
}
END_TEST

static int terminate_without_grace(void)
{
    weft_fiber f = weft_spin(suspend, NULL);
    weft_snooze();
    return weft_terminate(f, 0);
}

START_TEST(a_fiber_that_ends_when_told_needs_no_grace)
{
    ck_assert_quiet(run_apart(terminate_without_grace), 0);
}
END_TEST

static int use_an_unknown_backend(void)
{
    setenv("WEFT_BACKEND", "uring9", 1);
    return strcmp(weft_backend_name(), "sim") != 0 && strstr(weft_backend_why(), "none") ? 0 : 1;
}

START_TEST(a_backend_that_does_not_exist_is_said_and_the_default_taken)
{
    const outcome *o = run_apart(use_an_unknown_backend);
    ck_assert_int_eq(o->status, 0);
    assert_said(o, "WEFT_BACKEND=uring9");
}
END_TEST

/* T47 */
START_TEST(a_stack_may_have_the_smallest_size_and_not_a_byte_less)
{
    weft_spin_options smallest = {.stack_bytes = 16 << 10}, less = {.stack_bytes = (16 << 10) - 1};
    weft_spin_options most = {.stack_bytes = 1 << 30},
                      more = {.stack_bytes = ((size_t)1 << 30) + 1};
    ck_assert_int_eq(weft_await(weft_spin_with(return_arg, as_arg(4), &smallest)), 4);
    ck_assert_int_eq(weft_await(weft_spin_with(return_arg, as_arg(5), &most)), 5);
    ck_assert_uint_eq(weft_spin_with(return_arg, NULL, &less), 0);
    ck_assert_any_words(-EINVAL);
    ck_assert_uint_eq(weft_spin_with(return_arg, NULL, &more), 0);
    ck_assert_any_words(-EINVAL);
}
END_TEST

static weft_value stack_of_self(void *arg)
{
    (void)arg;
    weft_info info;
    weft_info_of(weft_self(), &info);
    return info.is_daemon ? -EIO : (weft_value)info.stack_bytes;
}

/* T49: what one fiber was made with is not the next one's. */
START_TEST(a_recycled_fiber_has_the_stack_and_the_flags_that_it_was_made_with)
{
    weft_value usual = weft_await(weft_spin(stack_of_self, NULL));
    for (int i = 0; i < 3; i++) {
        weft_spin_options big = {.stack_bytes = 1 << 20, .name = "big"},
                          daemon = {.is_daemon = true};
        ck_assert_int_gt(weft_await(weft_spin_with(stack_of_self, NULL, &big)), usual);
        ck_assert_int_eq(weft_await(weft_spin_with(stack_of_self, NULL, &daemon)), -EIO);
        weft_fiber f = weft_spin(stack_of_self, NULL);
        ck_assert_str_eq(weft_name_of(f), "");
        ck_assert_int_eq(weft_await(f), usual);
    }
}
END_TEST

/* Pages of this process that are in memory. */
static size_t resident_pages(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t all, resident;
    ck_assert_int_eq(fscanf(file, "%zu %zu", &all, &resident), 2);
    fclose(file);
    return resident;
}

START_TEST(a_thread_with_nothing_to_do_gives_back_the_memory_of_a_burst)
{
    enum { EXCESS = 8192 };
    /* Sanitizers, which want bigger stacks, and Valgrind have memory of their own. */
    if (WEFT__STACK_BYTES_DEFAULT > 64 << 10 || RUNNING_ON_VALGRIND)
        return;
    for (size_t i = 0; i < WEFT__STACK_WARM_MIN + EXCESS; i++)
        ck_assert_uint_ne(weft_spin(suspend, NULL), 0);
    weft_snooze();
    ck_assert_int_eq(weft_terminate_children(INFINITY), 0);
    size_t before = resident_pages();
    ck_assert_int_eq(weft_sleep(0.2), 0);
    ck_assert_uint_lt(resident_pages() + EXCESS * 9 / 10, before);
}
END_TEST

static const TTest *const *const tests[] = {
    &a_deadline_strikes_in_a_loop_of_reads_that_never_wait,
    &a_loop_of_reads_that_never_wait_lets_others_run,
    &a_fiber_made_while_a_dead_one_polls_is_a_fiber_of_its_own,
    &a_fiber_whose_stack_is_nearly_full_is_shown_without_its_frames,
    &awaiting_all_stops_also_one_whose_restart_is_under_way,
    &a_stop_that_comes_too_late_swallows_no_error,
    &exit_far_down_in_a_deep_tree_needs_no_deep_stack,
    &a_child_process_that_exits_does_not_end_its_parents_fibers,
    &a_fiber_that_ends_when_told_needs_no_grace,
    &a_backend_that_does_not_exist_is_said_and_the_default_taken,
    &a_stack_may_have_the_smallest_size_and_not_a_byte_less,
    &a_thread_with_nothing_to_do_gives_back_the_memory_of_a_burst,
    &a_recycled_fiber_has_the_stack_and_the_flags_that_it_was_made_with,
};

int main(void)
{
    return run_suite("limits", tests, COUNT_OF(tests));
}
