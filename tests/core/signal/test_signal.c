/* Signals: waiting for them, fibers made for them, and what they leave alone. */
#include "support.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/time.h>

/*
 * TSan has one more thread of its own in a process that was made by fork, as these are: then
 * nothing is known to be stuck. It holds signals from outside back until the next call of the C
 * library, and io_uring's are not. And a child of a process with threads it does not let handle
 * signals.
 */
#ifdef __SANITIZE_THREAD__
#define IS_TSAN true
#else
#define IS_TSAN false
#endif

static sigset_t set_of(int sig, int other)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    if (other != 0)
        sigaddset(&set, other);
    return set;
}

static int wait_for(int sig)
{
    sigset_t set = set_of(sig, 0);
    return weft_wait_signal(&set);
}

static weft_value wait_for_arg(void *arg)
{
    return wait_for((int)(intptr_t)arg);
}

/* From now on it is caught, and kept for those who wait. */
static void begin_to_catch(int sig)
{
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(wait_for(sig), -ECANCELED);
    }
}

static int nothing_is_kept(int sig)
{
    int rc = 0;
    WEFT_MOVE_ON_AFTER(0) {
        rc = wait_for(sig);
    }
    return rc == -ECANCELED;
}

/* What came before this call is on its way to those who handle it: let them. */
static void let_signals_run(void)
{
    begin_to_catch(SIGWINCH);
    let_run();
}

static weft_fiber spin_waiting(int sig)
{
    weft_fiber f = weft_spin(wait_for_arg, as_arg(sig));
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* The handler of the test's own, to be found again. */
static volatile sig_atomic_t own_calls;

static void count_own(int sig)
{
    (void)sig;
    own_calls++;
}

static void install_own(int sig)
{
    struct sigaction own = {.sa_handler = count_own, .sa_flags = SA_RESTART};
    sigemptyset(&own.sa_mask);
    ck_assert_int_eq(sigaction(sig, &own, NULL), 0);
}

static bool is_default(int sig)
{
    struct sigaction now;
    return sigaction(sig, NULL, &now) == 0 && now.sa_handler == SIG_DFL;
}

/* A signal from the kernel's clock: something from outside, on any backend. */
static void ring_soon(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

START_TEST(a_fiber_that_waits_for_a_signal_gets_its_number)
{
    weft_fiber f = spin_waiting(SIGUSR1);
    kill(getpid(), SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
}
END_TEST

START_TEST(of_a_set_the_one_that_came_is_returned)
{
    sigset_t set = set_of(SIGUSR1, SIGRTMIN);
    begin_to_catch(SIGRTMIN);
    raise(SIGRTMIN);
    ck_assert_int_eq(weft_wait_signal(&set), SIGRTMIN);
    raise(SIGRTMIN);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_wait_signal(&set), SIGUSR1);
    ck_assert_int_eq(weft_wait_signal(&set), SIGRTMIN);
}
END_TEST

START_TEST(a_signal_goes_to_all_who_wait_for_it_and_to_nobody_else)
{
    weft_fiber a = spin_waiting(SIGUSR1), b = spin_waiting(SIGUSR1), c = spin_waiting(SIGUSR2);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(a), SIGUSR1);
    ck_assert_int_eq(weft_await(b), SIGUSR1);
    ck_assert(nothing_is_kept(SIGUSR1));
    ck_assert_int_eq(weft_state_of(c), WEFT_WAITING);
    raise(SIGUSR2);
    ck_assert_int_eq(weft_await(c), SIGUSR2);
}
END_TEST

START_TEST(signals_between_two_waits_are_kept_and_returned_without_a_switch)
{
    weft_fiber f = spin_waiting(SIGUSR1);
    raise(SIGUSR1);
    raise(SIGUSR1);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
    weft_spin(mark_and_return, (void *)"switched");
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
    ck_assert_trail("");
    ck_assert(nothing_is_kept(SIGUSR1));
}
END_TEST

START_TEST(a_kept_signal_is_returned_also_where_blocking_is_refused)
{
    begin_to_catch(SIGUSR1);
    raise(SIGUSR1);
    weft_no_switch_begin();
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
    weft_no_switch_end();
}
END_TEST

START_TEST(a_wait_that_is_cancelled_takes_no_signal)
{
    weft_fiber f = spin_waiting(SIGUSR1);
    ck_assert_int_eq(weft_cancel(f), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
}
END_TEST

static weft_value wait_and_mark(void *arg)
{
    (void)arg;
    int rc = wait_for(SIGUSR1);
    mark(rc == SIGUSR1 ? "signal " : "none ");
    mark(weft_sleep(1) == -ECANCELED ? "cancelled" : "went on");
    return rc;
}

/* Told and cancelled in the same moment, whichever wins: the signal is there once. */
START_TEST(a_cancel_that_meets_a_signal_does_not_lose_it)
{
    for (int i = 0; i < 200; i++) {
        trail[0] = '\0';
        weft_fiber f = weft_spin(wait_and_mark, NULL);
        let_run();
        raise(SIGUSR1);
        for (volatile int turns = i % 20 * 2000; turns > 0; turns--)
            continue; /* the other thread comes more or less far */
        weft_cancel(f);
        weft_await(f);
        if (strcmp(trail, "none cancelled") == 0)
            ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
        else
            ck_assert_trail("signal cancelled");
        ck_assert(nothing_is_kept(SIGUSR1));
    }
}
END_TEST

START_TEST(what_cannot_be_waited_for_or_handled_is_refused_with_words)
{
    static const int cannot[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,
                                 SIGILL,  SIGFPE,  SIGTRAP, SIGSYS};
    sigset_t empty;
    sigemptyset(&empty);
    ck_assert_int_eq(weft_wait_signal(NULL), -EINVAL);
    ck_assert_int_eq(weft_wait_signal(&empty), -EINVAL);
    for (size_t i = 0; i < COUNT_OF(cannot); i++) {
        weft_error_clear();
        ck_assert_int_eq(wait_for(cannot[i]), -EINVAL);
        ck_assert_any_words(-EINVAL);
        ck_assert_int_eq(weft_on_signal(cannot[i], return_arg, NULL), -EINVAL);
    }
    ck_assert_int_eq(weft_on_signal(0, return_arg, NULL), -EINVAL);
    ck_assert_int_eq(weft_on_signal(-3, return_arg, NULL), -EINVAL);
    ck_assert_int_eq(weft_on_signal(65, return_arg, NULL), -EINVAL);
    sigset_t both = set_of(SIGUSR1, SIGKILL);
    ck_assert_int_eq(weft_wait_signal(&both), -EINVAL);
    ck_assert(is_default(SIGUSR1)); /* nothing was installed on the way */
}
END_TEST

START_TEST(nothing_is_installed_until_it_is_asked_for)
{
    signal(SIGHUP, SIG_DFL); /* ignored by what nohup starts, and a shell in the background */
    signal(SIGQUIT, SIG_DFL);
    weft_snooze();
    for (int sig = 1; sig < 32; sig++) {
        bool is_ours = sig == SIGSEGV || sig == SIGBUS; /* the overflow report */
        bool is_checks = sig == SIGALRM || sig == SIGTERM || sig == SIGINT;
        if (!is_ours && !is_checks && !is_sanitized() && sig != SIGKILL && sig != SIGSTOP)
            ck_assert_msg(is_default(sig), "signal %d", sig);
    }
}
END_TEST

static weft_value sleep_and_count(void *arg)
{
    if (weft_parent(weft_self()) != weft_main() || weft_sleep(0.001) < 0)
        return -EIO;
    ++*(int *)arg;
    return 0;
}

/* P74 */
START_TEST(five_signals_are_five_runs_each_in_a_fiber_that_may_sleep)
{
    int runs = 0;
    ck_assert_int_eq(weft_on_signal(SIGUSR1, sleep_and_count, &runs), 0);
    for (int i = 0; i < 5; i++)
        raise(SIGUSR1);
    let_signals_run();
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 5);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(runs, 5);
}
END_TEST

/* P74 */
START_TEST(an_error_in_what_a_signal_runs_reaches_main)
{
    ck_assert_int_eq(weft_on_signal(SIGUSR1, fail_with, as_arg(-EIO)), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_suspend(), -EIO);
    ck_assert_words(-EIO, "broken");
}
END_TEST

static weft_value wake_main(void *arg)
{
    return weft_schedule(weft_main(), (weft_value)arg);
}

/* Nothing else is left in either: main waits for the signal all the same. */
START_TEST(main_in_suspend_waits_for_signals_that_are_handled)
{
    if (IS_TSAN)
        return;
    ck_assert_int_eq(weft_on_signal(SIGALRM, wake_main, as_arg(7)), 0);
    ring_soon();
    ck_assert_int_eq(weft_suspend(), 7);
    ck_assert_int_eq(weft_on_signal(SIGALRM, NULL, NULL), 0);
    ck_assert_int_eq(weft_suspend(), 0);
}
END_TEST

START_TEST(a_fiber_that_waits_for_a_signal_is_no_deadlock)
{
    if (IS_TSAN)
        return;
    weft_fiber f = spin_waiting(SIGALRM);
    ring_soon();
    ck_assert_int_eq(weft_await(f), SIGALRM);
    ring_soon();
    ck_assert_int_eq(wait_for(SIGALRM), SIGALRM);
}
END_TEST

START_TEST(a_daemon_that_waits_for_a_signal_does_not_keep_suspend_waiting)
{
    if (IS_TSAN)
        return;
    weft_spin_with(wait_for_arg, as_arg(SIGUSR1), &(weft_spin_options){.is_daemon = true});
    ck_assert_int_eq(weft_suspend(), 0);
}
END_TEST

static int deadlock_after_a_signal(void)
{
    weft_fiber f = weft_spin(wait_for_arg, as_arg(SIGUSR1));
    weft_snooze();
    raise(SIGUSR1);
    if (weft_await(f) != SIGUSR1 || weft_on_signal(SIGUSR2, return_arg, NULL) < 0 ||
        weft_on_signal(SIGUSR2, NULL, NULL) < 0)
        return 1;
    return weft_sleep(INFINITY) == -EDEADLK ? 42 : 2;
}

START_TEST(when_nobody_waits_for_signals_any_more_a_deadlock_is_found_again)
{
    if (IS_TSAN)
        return;
    const outcome *o = run_apart(deadlock_after_a_signal);
    ck_assert_int_eq(o->status, 42);
    assert_said(o, "deadlock");
}
END_TEST

static weft_value mark_arg_fiber(void *arg)
{
    mark(arg);
    return 0;
}

START_TEST(a_second_function_replaces_the_first_and_runs_for_what_was_not_yet_told)
{
    ck_assert_int_eq(weft_on_signal(SIGUSR1, mark_arg_fiber, (void *)"old "), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, mark_arg_fiber, (void *)"new "), 0);
    raise(SIGUSR1);
    let_signals_run();
    ck_assert_trail("new new ");
}
END_TEST

START_TEST(what_is_removed_does_not_run_any_more_and_the_old_handler_is_back)
{
    install_own(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, mark_arg_fiber, (void *)"ours"), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 0); /* not called meanwhile */
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
    let_signals_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
}
END_TEST

START_TEST(what_was_waited_for_once_is_given_back_too)
{
    begin_to_catch(SIGUSR1);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    ck_assert(is_default(SIGUSR1));
    ck_assert(nothing_is_kept(SIGUSR1));
    weft_fiber f = spin_waiting(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0); /* not while someone waits */
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
}
END_TEST

START_TEST(a_handler_that_was_installed_over_ours_is_left_alone)
{
    ck_assert_int_eq(weft_on_signal(SIGUSR1, return_arg, NULL), 0);
    install_own(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
}
END_TEST

START_TEST(a_signal_leaves_errno_as_it_was)
{
    begin_to_catch(SIGUSR1);
    errno = 77;
    raise(SIGUSR1);
    ck_assert_int_eq(errno, 77);
}
END_TEST

/* Threads. */

static void *start_and_join(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    void *result;
    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    return result;
}

/* A thread of its own cord, with a fiber that waits; tells its main when it does. */
static void *wait_in_thread(void *arg)
{
    weft_fiber f = spin_waiting(SIGUSR1);
    weft_tell(arg_id(arg), 1);
    return as_arg(weft_await(f));
}

START_TEST(a_signal_goes_to_those_who_wait_in_every_thread)
{
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_create(&threads[i], NULL, wait_in_thread, id_arg(weft_self()));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq(weft_receive(), 1);
    weft_fiber f = spin_waiting(SIGUSR1);
    kill(getpid(), SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        void *result;
        pthread_join(threads[i], &result);
        ck_assert_int_eq((intptr_t)result, SIGUSR1);
    }
    ck_assert(nothing_is_kept(SIGUSR1));
}
END_TEST

static void *raise_here(void *arg)
{
    raise((int)(intptr_t)arg);
    return NULL;
}

START_TEST(a_signal_that_another_thread_took_reaches_the_fibers_of_this_one)
{
    weft_fiber f = spin_waiting(SIGUSR1);
    start_and_join(raise_here, as_arg(SIGUSR1));
    ck_assert_int_eq(weft_await(f), SIGUSR1);
}
END_TEST

static void *register_and_end(void *arg)
{
    return as_arg(weft_on_signal(SIGUSR1, mark_arg_fiber, arg));
}

START_TEST(what_a_thread_has_registered_ends_with_it)
{
    install_own(SIGUSR1);
    ck_assert_ptr_null(start_and_join(register_and_end, (void *)"late"));
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
    let_signals_run();
    ck_assert_trail("");
}
END_TEST

static void *register_and_suspend(void *arg)
{
    weft_on_signal(SIGUSR1, mark_arg_fiber, (void *)"removed");
    weft_tell(arg_id(arg), (weft_value)weft_self());
    return as_arg(weft_suspend());
}

START_TEST(a_function_may_be_removed_by_another_thread)
{
    install_own(SIGUSR1);
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, register_and_suspend, id_arg(weft_self()));
    weft_fiber its_main = (weft_fiber)weft_receive();
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
    ck_assert_int_eq(weft_schedule(its_main, 5), 0);
    pthread_join(thread, &result);
    ck_assert_int_eq((intptr_t)result, 5);
    ck_assert_trail("");
}
END_TEST

typedef struct storm {
    pthread_t to;
    weft_fiber done;
} storm;

static void *send_many(void *arg)
{
    const storm *s = arg;
    for (int i = 0; i < 100; i++) {
        pthread_kill(s->to, SIGUSR1);
        sched_yield();
    }
    weft_tell(s->done, 100);
    return NULL;
}

static weft_value read_some(void *arg)
{
    char text[4] = "";
    ssize_t n = weft_read(*(int *)arg, text, sizeof text);
    return n == 4 && memcmp(text, "whole", 4) == 0 ? n : -EIO;
}

START_TEST(signals_do_not_break_a_read_that_waits)
{
    int fd[2], runs = 0;
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, sleep_and_count, &runs), 0);
    weft_fiber reader = weft_spin(read_some, &fd[0]);
    storm s = {pthread_self(), weft_self()};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, send_many, &s), 0);
    ck_assert_int_eq(weft_receive(), 100);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    ck_assert_int_eq(weft_write(fd[1], "whole", 4), 4);
    ck_assert_int_eq(weft_await(reader), 4);
    let_signals_run();
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_ge(runs, 1);
    ck_assert_int_le(runs, 100);
}
END_TEST

/* Processes. */

START_TEST(a_child_made_by_fork_has_the_dispositions_from_before)
{
    if (IS_TSAN)
        return;
    install_own(SIGUSR2);
    begin_to_catch(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR2, return_arg, NULL), 0);
    pid_t pid = fork();
    if (pid == 0) {
        raise(SIGUSR2);
        if (own_calls == 1)
            raise(SIGUSR1);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    ck_assert(nothing_is_kept(SIGUSR1));
    ck_assert_int_eq(own_calls, 0);
}
END_TEST

static weft_value count_run(void *arg)
{
    ++*(int *)arg;
    return 0;
}

/* What a child of weft_fork can do anew; by returning it also ends what it has registered. */
static int handle_anew_in_a_child(void)
{
    int runs = 0;
    weft_on_signal(SIGUSR1, count_run, &runs);
    raise(SIGUSR1);
    while (runs < 1) /* a thread that begins may hold a lock of ASan's, which is copied as it is */
        weft_sleep(0.001);
    pid_t pid = weft_fork();
    is_exiting_in_a_fiber = pid == 0; /* what was the parent's is nobody's there */
    if (weft_on_signal(SIGUSR1, count_run, &runs) < 0 || weft_on_signal(SIGUSR2, count_run, &runs))
        return 1;
    raise(SIGUSR1);
    raise(SIGUSR2);
    while (runs < 3)
        weft_sleep(0.001);
    int status = 2 << 8;
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        return 3;
    return pid == 0 ? 2 : status == 2 << 8 ? 0 : 4;
}

START_TEST(a_child_of_weft_fork_handles_signals_anew)
{
    if (IS_TSAN)
        return;
    assert_silent(run_apart(handle_anew_in_a_child), 0);
}
END_TEST

START_TEST(a_child_made_without_the_handlers_of_fork_has_them_too)
{
    begin_to_catch(SIGUSR1);
    pid_t pid = _Fork();
    if (pid == 0) {
        raise(SIGUSR1);
        _exit(1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    ck_assert(nothing_is_kept(SIGUSR1));
}
END_TEST

static int exit_while_a_fiber_waits(void)
{
    weft_spin(wait_for_arg, as_arg(SIGUSR1));
    weft_on_signal(SIGUSR2, return_arg, NULL);
    weft_snooze();
    raise(SIGUSR2);
    return 0;
}

START_TEST(a_program_may_end_while_fibers_wait_for_signals)
{
    assert_silent(run_apart(exit_while_a_fiber_waits), 0);
}
END_TEST

/* The fibers on stderr. */

static const char *dump_signal;

static int dump_by_signal(void)
{
    setenv("WEFT_DUMP_SIGNAL", dump_signal, 1);
    weft_spin_with(sleep_forever, NULL, &(weft_spin_options){.name = "worker"});
    let_run();
    raise(SIGUSR1);
    let_signals_run();
    return IS_TSAN || weft_suspend() == 0 ? 3 : 4; /* that signal is nothing to wait for */
}

START_TEST(the_signal_that_the_environment_names_writes_the_fibers_to_stderr)
{
    static const char *const names[] = {"USR1", "SIGUSR1", "10"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        dump_signal = names[i];
        const outcome *o = run_apart(dump_by_signal);
        ck_assert_int_eq(o->status, 3);
        assert_said(o, "1 fibers and main");
        assert_said(o, "'worker' waiting for sleep");
    }
}
END_TEST

static int call_weft_once(void)
{
    setenv("WEFT_DUMP_SIGNAL", dump_signal, 1);
    return weft_snooze() == 0 && is_default(SIGUSR1) ? 0 : 1;
}

START_TEST(a_name_in_the_environment_that_is_no_signal_is_said_and_ignored)
{
    static const char *const names[] = {"NONE", "0", "10x", "65", "KILL"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        dump_signal = names[i];
        const outcome *o = run_apart(call_weft_once);
        ck_assert_int_eq(o->status, 0);
        assert_said(o, "ignored");
    }
    dump_signal = "";
    assert_silent(run_apart(call_weft_once), 0);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_fiber_that_waits_for_a_signal_gets_its_number,
        &of_a_set_the_one_that_came_is_returned,
        &a_signal_goes_to_all_who_wait_for_it_and_to_nobody_else,
        &signals_between_two_waits_are_kept_and_returned_without_a_switch,
        &a_kept_signal_is_returned_also_where_blocking_is_refused,
        &a_wait_that_is_cancelled_takes_no_signal,
        &a_cancel_that_meets_a_signal_does_not_lose_it,
        &what_cannot_be_waited_for_or_handled_is_refused_with_words,
        &nothing_is_installed_until_it_is_asked_for,
        &five_signals_are_five_runs_each_in_a_fiber_that_may_sleep,
        &an_error_in_what_a_signal_runs_reaches_main,
        &main_in_suspend_waits_for_signals_that_are_handled,
        &a_fiber_that_waits_for_a_signal_is_no_deadlock,
        &a_daemon_that_waits_for_a_signal_does_not_keep_suspend_waiting,
        &when_nobody_waits_for_signals_any_more_a_deadlock_is_found_again,
        &a_second_function_replaces_the_first_and_runs_for_what_was_not_yet_told,
        &what_is_removed_does_not_run_any_more_and_the_old_handler_is_back,
        &what_was_waited_for_once_is_given_back_too,
        &a_handler_that_was_installed_over_ours_is_left_alone,
        &a_signal_leaves_errno_as_it_was,
        &a_signal_goes_to_those_who_wait_in_every_thread,
        &a_signal_that_another_thread_took_reaches_the_fibers_of_this_one,
        &what_a_thread_has_registered_ends_with_it,
        &a_function_may_be_removed_by_another_thread,
        &signals_do_not_break_a_read_that_waits,
        &a_child_made_by_fork_has_the_dispositions_from_before,
        &a_child_of_weft_fork_handles_signals_anew,
        &a_child_made_without_the_handlers_of_fork_has_them_too,
        &a_program_may_end_while_fibers_wait_for_signals,
        &the_signal_that_the_environment_names_writes_the_fibers_to_stderr,
        &a_name_in_the_environment_that_is_no_signal_is_said_and_ignored,
    };
    return run_suite("signal", tests, COUNT_OF(tests));
}
