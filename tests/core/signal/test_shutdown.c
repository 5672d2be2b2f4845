/*
 * weft_shutdown_all and weft_shutdown_on_signals: which fibers are cancelled, in which order, and
 * which are awaited.
 */
#include "support/suite.h"

#include "core/cord/cord.h"

#include <signal.h>

#if defined(WEFT_UCONTEXT) || !defined(WEFT_HAS_BACKTRACE)
#define HAS_BACKTRACES false
#else
#define HAS_BACKTRACES true
#endif

/*
 * TSan delays signals from outside until the next call of the C library. TSan's own threads cannot
 * be told from those of the program.
 */
#ifdef __SANITIZE_THREAD__
#define IS_TSAN true
#else
#define IS_TSAN false
#endif

static weft_value end_when_cancelled(void *arg)
{
    weft_value rc = weft_sleep(INFINITY);
    mark(rc == -ECANCELED ? arg : "not cancelled ");
    return rc;
}

static weft_fiber spin_kind(weft_fn *fn, void *arg, const char *name, bool is_daemon)
{
    return weft_spin_with(fn, arg, &(weft_spin_options){.name = name, .is_daemon = is_daemon});
}

static weft_value wait_with_child(void *arg)
{
    weft_spin(end_when_cancelled, "grandchild ");
    return end_when_cancelled("child ");
}

static weft_value wait_with_daemon(void *arg)
{
    spin_kind(end_when_cancelled, "daemon ", "", true);
    return weft_sleep(INFINITY);
}

TEST(all_fibers_except_daemons_end_with_parents_before_children)
{ /* T104 */
    weft_fiber daemon = spin_kind(wait_with_child, NULL, "", true);
    weft_fiber f = weft_spin(wait_with_child, NULL);
    weft_spin(wait_with_daemon, NULL); /* the daemon ends with its parent */
    weft_spin(end_when_cancelled, "second");
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    /* The child of a daemon is not a daemon. */
    ck_assert_trail("grandchild child grandchild daemon second");
    ck_assert_int_eq(weft_state_of(daemon), WEFT_WAITING);
    ck_assert_int_eq(weft_await(f), -ECANCELED); /* its value is still available */
    ck_assert_int_eq(weft_shutdown_all(60), 0);
}

static weft_value shut_down_in_grandchild(void *arg)
{
    weft_spin(end_when_cancelled, "nephew ");
    weft_snooze();
    int rc = weft_shutdown_all(60);
    mark(rc == 0 ? "done " : "failed ");
    return (weft_value)arg;
}

static weft_value await_shutdown(void *arg)
{
    weft_value v = weft_await(weft_spin(shut_down_in_grandchild, arg));
    mark(v == 5 ? "parent" : "lost");
    return v;
}

TEST(the_ancestors_of_the_caller_continue)
{
    weft_spin(end_when_cancelled, "uncle ");
    weft_fiber f = weft_spin(await_shutdown, as_arg(5));
    ck_assert_int_eq(weft_await(f), 5);
    ck_assert_trail("uncle nephew done parent");
}

static double seen_grace;

static weft_value record_grace(void *arg)
{
    weft_sleep(INFINITY);
    seen_grace = weft_grace();
    WEFT_SHIELD(seen_grace) {
        weft_sleep(0.01);
        mark("cleaned");
    }
    return 0;
}

static weft_value supervise_one(void *arg)
{
    weft_child child = {.fn = end_when_cancelled, .arg = arg, .restart = WEFT_ALWAYS};
    return weft_supervise(&child, 1, NULL);
}

TEST(each_fiber_gets_its_grace_time_is_awaited_and_is_not_restarted)
{
    weft_spin(record_grace, NULL);
    weft_spin(supervise_one, "child ");
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert(seen_grace > 0 && seen_grace <= 60);
    ck_assert_trail("child cleaned");
    ck_assert_uint_eq(stats().fibers, 0);
}

static weft_value ignore_cancels(void *arg)
{
    while (arg == NULL)
        weft_snooze();
    return 0;
}

static weft_value clean_up_too_long(void *arg)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY)
        weft_sleep(1000);
    return 0;
}

static int shut_down_stubborn(void)
{
    spin_kind(ignore_cancels, NULL, "stubborn", false);
    spin_kind(clean_up_too_long, NULL, "slow", false);
    spin_kind(end_when_cancelled, "", "polite", false);
    weft_snooze();
    _exit(weft_shutdown_all(0.02) == -ETIMEDOUT ? 7 : 1);
}

TEST(fibers_that_do_not_end_are_reported_with_their_wait_reason)
{ /* Issue 5, 3 */
    const outcome *o = run_apart(shut_down_stubborn);
    /* The stubborn fiber may be runnable, or in the pause after many refused calls. */
    assert_prints(
        o, 7,
        (const char *[]){"'stubborn' has not ended 0.02 s after it was cancelled",
                         "'slow' has not ended 0.02 s after it was cancelled; it waits for sleep\n",
                         HAS_BACKTRACES ? "clean_up_too_long" : NULL, NULL});
    ck_assert_ptr_null(strstr(o->text, "polite"));
}

FIBER_DO(spin_when_scheduled, weft_suspend(), weft_spin(mark_and_return, arg), 0)

static weft_value spin_while_cancelled(void *arg)
{
    weft_sleep(INFINITY);
    weft_spin(end_when_cancelled, arg);
    WEFT_SHIELD(1)
        weft_sleep(0.001);
    return 0;
}

TEST(fibers_created_during_and_after_a_shutdown_are_cancelled_too)
{ /* T104 */
    weft_fiber daemon = spin_kind(spin_when_scheduled, "daemon's", "", true);
    weft_spin(spin_while_cancelled, "during");
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("during");
    weft_fiber f = weft_spin(mark_and_return, "after");
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(weft_schedule(daemon, 0), 0);
    let_run();
    ck_assert_trail("during");
}

FIBER(spin_and_await, weft_await(weft_spin(mark_and_return, arg)))

/* While cancelled, let the daemon end. Then spin fibers, one of which reuses its record. */
static weft_value reuse_record_of(void *daemon)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(60) {
        weft_schedule(arg_id(daemon), 3);
        ck_assert_int_eq(weft_await(arg_id(daemon)), 3);
        ck_assert_int_eq(weft_await(weft_spin(spin_and_await, "ran")), 0);
    }
    return 0;
}

TEST(a_fiber_that_reuses_the_record_of_a_cancelled_one_is_not_cancelled)
{
    weft_fiber f = spin_kind(suspend, NULL, "", true);
    weft_spin(reuse_record_of, id_arg(f));
    let_run();
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("ran");
}

static weft_value become_daemon_and_hang(void *arg)
{
    weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.001);
        ck_assert_int_eq(weft_set_daemon(true), 0);
        weft_sleep(1000);
    }
    return 0;
}

TEST_PROGRAM(a_fiber_that_hangs_and_becomes_a_daemon_is_not_awaited, 0, "")
{ /* T104 */
    weft_spin(become_daemon_and_hang, NULL);
    weft_snooze();
    _exit(weft_shutdown_all(60) == 0 ? 0 : 1);
}

static weft_value toggle_daemon(void *arg)
{
    WEFT_MOVE_ON_AFTER(1000) {
        for (int i = 0; i < 5; i++) {
            weft_set_daemon(i % 2 == 0);
            weft_set_daemon(i % 2 == 0);
            weft_snooze();
        }
        weft_suspend(); /* a daemon with an armed timer */
    }
    return 0;
}

TEST(main_waits_for_the_right_fibers_after_many_changes_of_the_daemon_flag)
{ /* T104 */
    weft_spin(toggle_daemon, NULL);
    double begin = weft_now();
    ck_assert_int_eq(weft_suspend(), 0);
    ck_assert(weft_now() - begin < 1000);
    ck_assert_int_eq(weft_set_daemon(true), -EINVAL);
}

TEST(a_parked_fiber_and_a_fiber_that_never_ran_end_too)
{
    weft_fiber parked = spin_waiting(end_when_cancelled, "parked");
    ck_assert_int_eq(weft_park(parked), 0);
    weft_fiber made = weft_new(mark_and_return, "never");
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    ck_assert_trail("parked");
    ck_assert_int_eq(weft_state_of(made), WEFT_DEAD);
}

static weft_value shut_down_when_scheduled(void *arg)
{
    weft_suspend();
    weft_spin(end_when_cancelled, arg);
    return weft_shutdown_all(60);
}

TEST(a_cancelled_caller_cancels_the_others_and_does_not_wait)
{
    weft_fiber other = weft_spin(end_when_cancelled, "other");
    weft_fiber f = spin_waiting(shut_down_when_scheduled, "");
    cancel_and_await(f);
    ck_assert_int_eq(weft_await(other), -ECANCELED);
}

TEST(an_invalid_grace_time_is_refused_with_a_message)
{
    static const double bad[] = {-1, -INFINITY, NAN};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_int_eq(weft_shutdown_all(bad[i]), -EINVAL);
        ck_assert_any_error(-EINVAL);
        ck_assert_int_eq(weft_shutdown_on_signals(bad[i]), -EINVAL);
    }
}

#ifdef weft_shutdown
#error "weft_shutdown is a macro"
#endif

TEST(weft_shutdown_shuts_down_a_socket_and_weft_shutdown_all_ends_fibers)
{
    int fd[2];
    char byte;
    weft_spin(end_when_cancelled, "all");
    weft_snooze();
    ck_assert_int_eq(weft_socketpair(fd), 0);
    ck_assert_int_eq(weft_shutdown(fd[0], SHUT_WR), 0);
    ck_assert_int_eq(weft_read(fd[1], &byte, 1), 0);
    ck_assert_trail("");
    ck_assert_int_eq(weft_shutdown_all(0), 0); /* without a grace time, fibers run once */
    ck_assert_trail("all");
}

static weft_value accept_and_mark(void *arg)
{
    int rc = weft_accept((int)(intptr_t)arg, NULL, NULL);
    mark(rc == -ECANCELED ? "accept " : "accepted ");
    return rc;
}

static int close_conn(int fd, void *ctx)
{
    return weft_close(fd);
}

static weft_value accept_until_cancelled(void *arg)
{
    int rc = weft_accept_loop((int)(intptr_t)arg, close_conn, NULL);
    mark(rc == -ECANCELED ? "loop " : "accepted ");
    return rc;
}

FIBER_DO(shut_down_soon, weft_sleep(0.001), weft_shutdown_all(60))

TEST(accepting_fibers_are_cancelled_first_also_the_loop_of_an_ancestor)
{
    if (is_sim())
        return;
    int fd[3];
    for (int i = 0; i < 3; i++)
        ck_assert_int_ge(fd[i] = weft_listen("tcp", "127.0.0.1:0"), 0);
    weft_spin(end_when_cancelled, "worker");
    weft_spin(accept_and_mark, as_arg(fd[0]));
    weft_spin(accept_until_cancelled, as_arg(fd[1]));
    weft_fiber f = weft_spin(shut_down_soon, NULL);
    ck_assert_int_eq(weft_accept_loop(fd[2], close_conn, NULL), -ECANCELED);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_msg(strcmp(trail, "accept loop worker") == 0 ||
                      strcmp(trail, "loop accept worker") == 0,
                  "%s", trail);
    for (int i = 0; i < 3; i++)
        weft_close(fd[i]);
}

static weft_value wait_in_cord(void *arg)
{
    weft_tell(arg_id(arg), 1);
    weft_value rc = weft_sleep(INFINITY);
    WEFT_SHIELD(1)
        weft_sleep(0.01);
    return rc;
}

TEST(started_cords_are_cancelled_and_awaited)
{
    weft_cord cords[3];
    for (int i = 0; i < 3; i++) {
        cords[i] = weft_cord_start(wait_in_cord, id_arg(weft_self()), NULL);
        ck_assert_int_eq(weft_receive(), 1);
    }
    ck_assert_int_eq(weft_shutdown_all(60), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(weft_cord_cancel(cords[i]), -ESRCH);   /* it has ended, */
        ck_assert_int_eq(weft_cord_join(cords[i]), -ECANCELED); /* and can be joined */
    }
}

THREAD(install_in_thread, weft_shutdown_on_signals(1))

TEST(only_the_main_thread_can_install_shutdown_on_signals)
{
    ck_assert_int_eq((intptr_t)join_thread(start_thread(install_in_thread, NULL)), -EPERM);
}

typedef struct running_program {
    pid_t pid;
    int stderr_fd; /* its stderr */
} running_program;

static running_program start_program(int (*program)(void))
{
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        exit(program());
    }
    close(fd[1]);
    char byte;
    ck_assert_int_eq(read(fd[0], &byte, 1), 1);
    ck_assert_int_eq(byte, '!');
    return (running_program){pid, fd[0]};
}

/* Wait for the end of a program. Return its status and its output after the "!". */
static const outcome *wait_for_outcome(running_program r)
{
    static outcome out;
    read_all(r.stderr_fd, out.text, sizeof out.text);
    close(r.stderr_fd);
    int status;
    ck_assert_int_eq(waitpid(r.pid, &status, 0), r.pid);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return &out;
}

static const outcome *signal_program(int (*program)(void), int sig)
{
    running_program r = start_program(program);
    kill(r.pid, sig);
    return wait_for_outcome(r);
}

/*
 * The body is a program that prints "!" when it is ready. The test then sends sig, and asserts the
 * status and the exact text on stderr, or parts of that text.
 */
/* clang-format off */
#define TEST_WITH_SIGNAL(name, sig, check)                      \
    static int name##_program(void);                            \
    TEST(name)                                                  \
    {                                                           \
        if (!IS_TSAN) {                                         \
            const outcome *o = signal_program(name##_program, sig); \
            check;                                              \
        }                                                       \
    }                                                           \
    static int name##_program(void)
#define TEST_SIGNALLED(name, sig, status, text) \
    TEST_WITH_SIGNAL(name, sig, assert_exited(o, status, text))
#define TEST_SIGNALLED_PRINTS(name, sig, status, ...) \
    TEST_WITH_SIGNAL(name, sig, assert_prints(o, status, (const char *[]){__VA_ARGS__, NULL}))
/* clang-format on */

/* Wait for a signal that is never sent. The wait does not end by itself on any backend. */
static int wait_forever(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return weft_wait_signal(&set);
}

FIBER_DO(print_when_cancelled, weft_value rc = weft_sleep(INFINITY), print_stderr(arg), rc)

static weft_value print_with_grandchild(void *arg)
{
    weft_defer(print_stderr_arg, "child's ");
    weft_spin(print_when_cancelled, "grandchild");
    return print_when_cancelled(arg);
}

static int wait_with_tree(void)
{
    weft_shutdown_on_signals(60);
    weft_defer(print_stderr_arg, "main's ");
    weft_spin(print_with_grandchild, "child ");
    let_run();
    print_stderr("!");
    int rc = wait_forever();
    print_stderr(rc == -ECANCELED && weft_grace() > 0 ? "main " : "not cancelled ");
    return 0;
}

static weft_value snooze_until_cancelled(void *arg)
{
    while (weft_snooze() == 0)
        continue;
    return 0;
}

static int snooze_in_two_fibers(void)
{
    weft_shutdown_on_signals(60);
    weft_spin(snooze_until_cancelled, NULL);
    weft_spin(snooze_until_cancelled, NULL);
    print_stderr("!");
    return weft_await_children() == -ECANCELED ? 0 : 1;
}

TEST(sigterm_and_sigint_end_main_then_the_child_then_the_grandchild_and_the_status_is_0)
{ /* P75 */
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < COUNT_OF(signals) && !IS_TSAN; i++) {
        assert_exited(signal_program(wait_with_tree, signals[i]), 0,
                      "main main's child child's grandchild");
        assert_exited(signal_program(snooze_in_two_fibers, signals[i]), 0, "");
    }
}

TEST_SIGNALLED(a_signal_ends_a_read_and_the_status_is_what_main_returns, SIGTERM, 4, "")
{ /* P75 */
    int fd[2];
    char byte;
    weft_shutdown_on_signals(60);
    if (weft_pipe(fd) < 0)
        return 9;
    print_stderr("!");
    if (is_sim())
        return 4; /* no other process could write to a pipe in memory */
    return weft_read(fd[0], &byte, 1) == -ECANCELED ? 4 : 5;
}

TEST_SIGNALLED(each_call_of_a_main_fiber_that_ignores_the_signal_is_refused, SIGTERM, 0, "")
{
    weft_shutdown_on_signals(60);
    print_stderr("!");
    int refused = 0;
    wait_forever();
    for (int i = 0; i < 300; i++)
        refused += weft_sleep(10) == -ECANCELED && wait_forever() == -ECANCELED;
    return refused == 300 ? 0 : 1;
}

static weft_value compute_forever(void *arg)
{
    print_stderr("!");
    for (volatile bool is_running = true; is_running;)
        continue;
    return 0;
}

static int wait_beside_computing(void)
{
    weft_shutdown_on_signals(60);
    spin_kind(compute_forever, NULL, "busy", false);
    wait_forever();
    return 0;
}

/* Wait until the program has handled the first signal, and no signal is pending. */
static void wait_until_not_pending(pid_t pid)
{
    char path[64], text[4096];
    unsigned long long pending = 1;
    while (pending != 0) {
        snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
        FILE *f = fopen(path, "r");
        ck_assert_ptr_nonnull(f);
        size_t n = fread(text, 1, sizeof text - 1, f);
        fclose(f);
        text[n] = '\0';
        const char *line = strstr(text, "ShdPnd:");
        ck_assert_ptr_nonnull(line);
        pending = strtoull(line + sizeof "ShdPnd:", NULL, 16);
    }
}

/* Repeat the signal: the same signal counts again only after a while. */
static void signal_until_ended(pid_t pid, int sig)
{
    siginfo_t end = {.si_pid = 0};
    while (end.si_pid == 0) {
        kill(pid, sig);
        usleep(1000);
        ck_assert_int_eq(waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

TEST(a_second_signal_ends_the_process_at_once_even_while_a_fiber_computes)
{ /* P75 */
    static const int pairs[][2] = {{SIGTERM, SIGINT}, {SIGINT, SIGINT}, {SIGTERM, SIGTERM}};
    for (size_t i = 0; i < COUNT_OF(pairs) && !IS_TSAN; i++) {
        running_program r = start_program(wait_beside_computing);
        kill(r.pid, pairs[i][0]);
        wait_until_not_pending(r.pid);
        signal_until_ended(r.pid, pairs[i][1]);
        assert_exited(wait_for_outcome(r), -pairs[i][1], "");
    }
}

/* The program signals itself, so that no time passes between the two signals. */
TEST_PROGRAM(a_signal_sent_twice_at_once_counts_once, 0, "cancelled ")
{
    weft_shutdown_on_signals(60);
    raise(SIGTERM);
    raise(SIGTERM);
    wait_forever();
    print_stderr("cancelled ");
    WEFT_SHIELD(60)
        weft_sleep(0.05);
    return 0;
}

static int compute_too_long(void)
{
    weft_shutdown_on_signals(0.05);
    spin_kind(compute_forever, NULL, "busy", false);
    spin_kind(sleep_forever, NULL, "daemon", true);
    wait_forever();
    return 0;
}

TEST(after_the_grace_time_remaining_fibers_are_reported_even_while_one_computes)
{ /* Issue 5, 3 */
    if (IS_TSAN)
        return;
    const outcome *o = signal_program(compute_too_long, SIGTERM);
    ck_assert_int_eq(o->status, 1);
    assert_printed(o, "'main' has not ended 50 ms after the signal; it waits for a signal\n");
    assert_printed(o, "'busy' has not ended 50 ms after the signal; it is running\n");
    ck_assert_ptr_null(strstr(o->text, "daemon"));
}

static void sleep_in_defer(void *arg)
{
    WEFT_SHIELD(INFINITY)
        weft_sleep(INFINITY);
}

FIBER_DO(end_with_slow_defer, weft_defer(sleep_in_defer, arg), 0)

/* Simulate a signal while the scheduler changes a record: live and the lists are invalid. */
TEST_SIGNALLED_PRINTS(the_report_after_the_grace_time_reads_only_fiber_records, SIGTERM, 1,
                      "'main' has not ended 50 ms after the signal; it is running\n",
                      "'torn' has not ended 50 ms after the signal; it waits for sleep\n")
{
    weft_shutdown_on_signals(0.05);
    weft_fiber f = spin_kind(end_with_slow_defer, NULL, "torn", false);
    weft_snooze();
    weft__fiber *record = weft__fiber_find(weft__cord_self, f);
    if (record == NULL || record->phase != WEFT__ENDING)
        return 3;
    record->live = (weft__fiber_live *)64; /* an unmapped address */
    weft__list_unlink(&record->sibling);
    record->parent = (weft__fiber *)64;
    compute_forever(NULL);
    return 0;
}

static weft_value spin_tree(void *arg)
{
    intptr_t depth = (intptr_t)arg;
    if (depth == 0)
        return 0;
    weft_fiber child = weft_spin(spin_tree, as_arg(depth - 1));
    weft_spin(spin_tree, as_arg(depth - 1)); /* is cancelled or has ended */
    weft_await(child);
    return 0;
}

/* Create and end fibers all the time. Never check for cancellation. */
static int spin_trees_forever(void)
{
    weft_shutdown_on_signals(INFINITY);
    weft_shutdown_on_signals(0); /* expires at once */
    print_stderr("!");
    for (volatile intptr_t depth = 6; depth > 0;)
        WEFT_SHIELD(INFINITY)
            weft_await(weft_spin(spin_tree, as_arg(depth)));
    return 0;
}

TEST(the_process_ends_with_a_report_whatever_code_the_signal_interrupts)
{
    for (int i = 0; i < (is_sanitized() ? 10 : 25) && !IS_TSAN; i++) {
        const outcome *o = signal_program(spin_trees_forever, i % 2 ? SIGINT : SIGTERM);
        ck_assert_msg(o->status == 1, "status %d: %.300s", o->status, o->text);
        assert_printed(o, "'main' has not ended 0 ms after the signal");
    }
}

/* In virtual time, 5 s pass first. */
TEST_SIGNALLED_PRINTS(the_grace_time_continues_while_the_process_ends, SIGINT, 1,
                      "'stubborn' has not ended ")
{
    weft_shutdown_on_signals(0.05);
    spin_kind(ignore_cancels, NULL, "stubborn", false);
    weft_snooze();
    print_stderr("!");
    wait_forever();
    return 0;
}

/* All exit handlers have run when a destructor runs, also the exit handler of weft. */
static volatile bool must_hang_at_exit;

__attribute__((destructor)) static void hang_at_exit(void)
{
    while (must_hang_at_exit)
        pause();
}

TEST_SIGNALLED(a_process_without_fibers_that_does_not_end_is_reported, SIGTERM, 1,
               "weft: the process has not ended 50 ms after the signal\n")
{
    weft_shutdown_on_signals(0.05);
    print_stderr("!");
    wait_forever();
    must_hang_at_exit = true;
    return 0;
}

FIBER_DO(print_and_wake_main, print_stderr(arg), weft_schedule(weft_main(), 0))

TEST_SIGNALLED(a_handler_of_the_program_replaces_the_shutdown_on_its_signal, SIGTERM, 0, "own")
{
    weft_shutdown_on_signals(60);
    weft_on_signal(SIGTERM, print_and_wake_main, "own");
    print_stderr("!");
    return (int)weft_suspend();
}

TEST_SIGNALLED_PRINTS(the_grace_time_of_one_signal_applies_if_the_program_handles_the_other, SIGINT,
                      1, "'main' has not ended 50 ms after the signal")
{
    weft_shutdown_on_signals(0.05);
    weft_on_signal(SIGTERM, print_and_wake_main, "taken over");
    print_stderr("!");
    while (wait_forever() < 0)
        continue;
    return 0;
}

TEST_PROGRAM(the_shutdown_signals_do_not_keep_main_waiting, 3, "")
{
    weft_shutdown_on_signals(60);
    return IS_TSAN || weft_suspend() == 0 ? 3 : 1;
}

TEST_SIGNALLED(a_signal_ends_main_after_a_shutdown_of_all_other_fibers, SIGTERM, 0, "")
{
    weft_shutdown_on_signals(60);
    if (weft_shutdown_all(60) != 0)
        return 1;
    print_stderr("!");
    return wait_forever() == -ECANCELED ? 0 : 1;
}

static weft_value accept_and_print(void *arg)
{
    int rc = weft_accept((int)(intptr_t)arg, NULL, NULL);
    print_stderr(rc == -ECANCELED ? "accept " : "accepted ");
    return rc;
}

TEST_SIGNALLED(a_signal_cancels_accepting_fibers_first, SIGTERM, 0, "accept main worker")
{
    weft_shutdown_on_signals(60);
    if (!is_sim())
        weft_spin(accept_and_print, as_arg(weft_listen("tcp", "127.0.0.1:0")));
    weft_spin(print_when_cancelled, "worker");
    let_run();
    print_stderr("!");
    wait_forever();
    print_stderr(is_sim() ? "accept main " : "main ");
    return 0;
}
