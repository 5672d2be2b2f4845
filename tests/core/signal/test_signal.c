/*
 * Signals: waiting for them, handler fibers, threads, child processes, and the state that signals
 * must not change.
 */
#include "support/suite.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

/*
 * TSan has another thread in a forked process, so deadlocks are not detected. TSan delays signals
 * from outside until the next call of the C library, except calls of io_uring. TSan does not let
 * the child of a process with threads handle signals.
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

FIBER(wait_for_arg, wait_for((int)(intptr_t)arg))

/* Catch the signal from now on. It stays pending for later waits. */
static void catch_signal(int sig)
{
    WEFT_MOVE_ON_AFTER(0)
        ck_assert_int_eq(wait_for(sig), -ECANCELED);
}

static bool is_not_pending(int sig)
{
    int rc = 0;
    WEFT_MOVE_ON_AFTER(0)
        rc = wait_for(sig);
    return rc == -ECANCELED;
}

static void let_signals_run(void)
{
    catch_signal(SIGWINCH);
    let_run();
}

static weft_fiber spin_signal_waiter(int sig)
{
    return spin_waiting(wait_for_arg, as_arg(sig));
}

/* The handler that was installed before weft's handler. */
static volatile sig_atomic_t own_calls;

static void count_own(int sig)
{
    own_calls++;
}

static void install_own_handler(int sig)
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

/* Let the kernel send SIGALRM soon. It arrives from outside on any backend. */
static void send_alarm_soon(void)
{
    struct itimerval soon = {.it_value = {.tv_usec = 20000}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

THREAD_DO(raise_arg, raise((int)(intptr_t)arg), 0)

TEST(a_fiber_that_waits_for_a_signal_gets_its_number)
{
    weft_fiber f = spin_signal_waiter(SIGUSR1);
    kill(getpid(), SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
    f = spin_signal_waiter(SIGUSR1);
    errno = 77;
    raise(SIGUSR1);
    ck_assert_int_eq(errno, 77);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
    f = spin_signal_waiter(SIGUSR1);
    join_thread(start_thread(raise_arg, as_arg(SIGUSR1))); /* delivered to another thread */
    ck_assert_int_eq(weft_await(f), SIGUSR1);
}

TEST(a_wait_for_a_set_returns_the_signal_that_arrived)
{
    sigset_t set = set_of(SIGUSR1, SIGRTMIN);
    catch_signal(SIGRTMIN);
    raise(SIGRTMIN);
    ck_assert_int_eq(weft_wait_signal(&set), SIGRTMIN);
    raise(SIGRTMIN);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_wait_signal(&set), SIGUSR1);
    ck_assert_int_eq(weft_wait_signal(&set), SIGRTMIN);
}

TEST(a_signal_wakes_all_fibers_that_wait_for_it_and_no_other)
{
    weft_fiber a = spin_signal_waiter(SIGUSR1), b = spin_signal_waiter(SIGUSR1),
               c = spin_signal_waiter(SIGUSR2);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(a), SIGUSR1);
    ck_assert_int_eq(weft_await(b), SIGUSR1);
    ck_assert(is_not_pending(SIGUSR1));
    ck_assert_int_eq(weft_state_of(c), WEFT_WAITING);
    raise(SIGUSR2);
    ck_assert_int_eq(weft_await(c), SIGUSR2);
}

TEST(signals_between_two_waits_stay_pending_and_are_returned_without_a_switch)
{
    weft_fiber f = spin_signal_waiter(SIGUSR1);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
    weft_no_switch_begin();
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
    weft_no_switch_end();
    ck_assert_trail("");
    ck_assert(is_not_pending(SIGUSR1));
}

TEST(a_cancelled_wait_consumes_no_signal)
{
    weft_fiber f = spin_signal_waiter(SIGUSR1);
    ck_assert_int_eq(weft_cancel(f), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
}

static weft_value wait_and_mark(void *arg)
{
    int rc = wait_for(SIGUSR1);
    mark(rc == SIGUSR1 ? "signal " : "none ");
    mark(weft_sleep(1) == -ECANCELED ? "cancelled" : "continued");
    return rc;
}

/*
 * The fiber is woken and cancelled at the same time. In either order, the signal is delivered once.
 */
TEST(a_cancel_at_the_same_time_does_not_lose_the_signal)
{
    for (int i = 0; i < 100; i++) {
        clear_trail();
        weft_fiber f = spin_waiting(wait_and_mark, NULL);
        raise(SIGUSR1);
        for (volatile int spins = i % 20 * 2000; spins > 0; spins--)
            continue; /* vary the progress of the signal thread */
        cancel_and_await(f);
        if (strcmp(trail, "none cancelled") == 0)
            ck_assert_int_eq(wait_for(SIGUSR1), SIGUSR1);
        else
            ck_assert_trail("signal cancelled");
        ck_assert(is_not_pending(SIGUSR1));
    }
}

TEST(signals_that_cannot_be_handled_are_refused_with_a_message)
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
        ck_assert_any_error(-EINVAL);
        ck_assert_int_eq(weft_on_signal(cannot[i], return_arg, NULL), -EINVAL);
    }
    ck_assert_int_eq(weft_on_signal(0, return_arg, NULL), -EINVAL);
    ck_assert_int_eq(weft_on_signal(-3, return_arg, NULL), -EINVAL);
    ck_assert_int_eq(weft_on_signal(65, return_arg, NULL), -EINVAL);
    sigset_t both = set_of(SIGUSR1, SIGKILL);
    ck_assert_int_eq(weft_wait_signal(&both), -EINVAL);
    ck_assert(is_default(SIGUSR1)); /* no handler was installed for the valid signal either */
}

TEST(no_handler_is_installed_before_it_is_needed)
{
    signal(SIGHUP, SIG_DFL); /* nohup and background shells start programs with these ignored */
    signal(SIGQUIT, SIG_DFL);
    weft_snooze();
    for (int sig = 1; sig < 32; sig++) {
        bool is_ours = sig == SIGSEGV || sig == SIGBUS; /* the overflow report */
        bool is_used_by_check = sig == SIGALRM || sig == SIGTERM || sig == SIGINT;
        if (!is_ours && !is_used_by_check && !is_sanitized() && sig != SIGKILL && sig != SIGSTOP)
            ck_assert_msg(is_default(sig), "signal %d", sig);
    }
}

static weft_value sleep_and_count(void *arg)
{
    if (weft_parent(weft_self()) != weft_main() || weft_sleep(0.001) < 0)
        return -EIO;
    ++*(int *)arg;
    return 0;
}

static weft_event may_count;

static weft_value wait_and_count(void *arg)
{
    if (weft_parent(weft_self()) != weft_main() || weft_event_wait(&may_count) < 0)
        return -EIO;
    ++*(int *)arg;
    return 0;
}

TEST(five_signals_are_five_runs_each_in_a_fiber_that_may_wait)
{ /* P74 */
    int runs = 0;
    ck_assert_int_eq(weft_on_signal(SIGUSR1, wait_and_count, &runs), 0);
    for (int i = 0; i < 5; i++)
        raise(SIGUSR1);
    let_signals_run();
    ck_assert_int_eq(weft_children(weft_self(), NULL, 0), 5);
    ck_assert_int_eq(weft_event_set(&may_count), 0); /* wakes all that wait */
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(runs, 5);
}

TEST(an_error_in_a_handler_fiber_reaches_main)
{ /* P74 */
    ck_assert_int_eq(weft_on_signal(SIGUSR1, fail_with, as_arg(-EIO)), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_suspend(), -EIO);
    ck_assert_error(-EIO, "broken");
}

FIBER(wake_main, weft_schedule(weft_main(), (weft_value)arg))

TEST(a_suspended_main_fiber_waits_for_handled_signals_and_a_wait_is_not_a_deadlock)
{
    if (IS_TSAN)
        return;
    ck_assert_int_eq(weft_on_signal(SIGALRM, wake_main, as_arg(7)), 0);
    send_alarm_soon();
    ck_assert_int_eq(weft_suspend(), 7);
    ck_assert_int_eq(weft_on_signal(SIGALRM, NULL, NULL), 0);
    ck_assert_int_eq(weft_suspend(), 0);
    weft_fiber f = spin_signal_waiter(SIGALRM);
    send_alarm_soon();
    ck_assert_int_eq(weft_await(f), SIGALRM);
    weft_spin_with(wait_for_arg, as_arg(SIGUSR1), &(weft_spin_options){.is_daemon = true});
    ck_assert_int_eq(weft_suspend(), 0); /* a daemon does not keep main waiting */
}

static int sleep_in_deadlock_after_signal(void)
{
    weft_fiber f = spin_waiting(wait_for_arg, as_arg(SIGUSR1));
    raise(SIGUSR1);
    if (weft_await(f) != SIGUSR1 || weft_on_signal(SIGUSR2, return_arg, NULL) < 0 ||
        weft_on_signal(SIGUSR2, NULL, NULL) < 0)
        return 1;
    return weft_sleep(INFINITY) == -EDEADLK ? 42 : 2;
}

TEST(without_waits_for_signals_a_deadlock_is_detected_again)
{
    if (IS_TSAN)
        return;
    const outcome *o = run_apart(sleep_in_deadlock_after_signal);
    ck_assert_int_eq(o->status, 42);
    assert_printed(o, "deadlock");
}

TEST(a_second_handler_replaces_the_first_and_runs_for_undelivered_signals)
{
    ck_assert_int_eq(weft_on_signal(SIGUSR1, mark_and_return, "old "), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, mark_and_return, "new "), 0);
    raise(SIGUSR1);
    let_signals_run();
    ck_assert_trail("new new ");
}

TEST(removing_a_handler_restores_the_previous_one_unless_a_later_one_is_installed)
{
    install_own_handler(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, mark_and_return, "ours"), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 0); /* not called while weft's handler is installed */
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
    let_signals_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    signal(SIGUSR1, SIG_DFL);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, return_arg, NULL), 0);
    install_own_handler(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 2);
}

TEST(removing_a_handler_restores_the_disposition_after_a_wait_too)
{
    catch_signal(SIGUSR1);
    raise(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    ck_assert(is_default(SIGUSR1));
    ck_assert(is_not_pending(SIGUSR1));
    weft_fiber f = spin_signal_waiter(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0); /* no effect while a fiber waits */
    raise(SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
}

/* Wait in a fiber of this thread. Tell the fiber in arg when it waits. */
static void *wait_in_thread(void *arg)
{
    weft_fiber f = spin_signal_waiter(SIGUSR1);
    weft_tell(arg_id(arg), 1);
    return as_arg(weft_await(f));
}

TEST(a_signal_wakes_waiters_in_every_thread)
{
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(wait_in_thread, id_arg(weft_self()));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq(weft_receive(), 1);
    weft_fiber f = spin_signal_waiter(SIGUSR1);
    kill(getpid(), SIGUSR1);
    ck_assert_int_eq(weft_await(f), SIGUSR1);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        ck_assert_int_eq((intptr_t)join_thread(threads[i]), SIGUSR1);
    ck_assert(is_not_pending(SIGUSR1));
}

THREAD(register_and_end, weft_on_signal(SIGUSR1, mark_and_return, arg))

TEST(a_handler_ends_with_the_thread_that_registered_it)
{
    install_own_handler(SIGUSR1);
    ck_assert_ptr_null(join_thread(start_thread(register_and_end, (void *)"late")));
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
    let_signals_run();
    ck_assert_trail("");
}

static void *register_and_suspend(void *arg)
{
    weft_on_signal(SIGUSR1, mark_and_return, "removed");
    weft_tell(arg_id(arg), (weft_value)weft_self());
    return as_arg(weft_suspend());
}

TEST(a_handler_may_be_removed_by_another_thread)
{
    install_own_handler(SIGUSR1);
    pthread_t thread = start_thread(register_and_suspend, id_arg(weft_self()));
    weft_fiber main_of_thread = (weft_fiber)weft_receive();
    ck_assert_int_eq(weft_on_signal(SIGUSR1, NULL, NULL), 0);
    raise(SIGUSR1);
    ck_assert_int_eq(own_calls, 1);
    ck_assert_int_eq(weft_schedule(main_of_thread, 5), 0);
    ck_assert_int_eq((intptr_t)join_thread(thread), 5);
    ck_assert_trail("");
}

typedef struct signal_storm {
    pthread_t to;
    weft_fiber done;
} signal_storm;

static void *send_signals(void *arg)
{
    const signal_storm *s = arg;
    for (int i = 0; i < 100; i++) {
        pthread_kill(s->to, SIGUSR1);
        sched_yield();
    }
    weft_tell(s->done, 100);
    return NULL;
}

static weft_value read_four_bytes(void *arg)
{
    char text[4] = "";
    ssize_t n = weft_read(*(int *)arg, text, sizeof text);
    return n == 4 && memcmp(text, "whole", 4) == 0 ? n : -EIO;
}

TEST(signals_do_not_interrupt_a_waiting_read)
{
    int fd[2], runs = 0;
    ck_assert_int_eq(weft_pipe(fd), 0);
    ck_assert_int_eq(weft_on_signal(SIGUSR1, sleep_and_count, &runs), 0);
    weft_fiber reader = weft_spin(read_four_bytes, &fd[0]);
    signal_storm s = {pthread_self(), weft_self()};
    pthread_t thread = start_thread(send_signals, &s);
    ck_assert_int_eq(weft_receive(), 100);
    join_thread(thread);
    ck_assert_int_eq(weft_state_of(reader), WEFT_WAITING);
    ck_assert_int_eq(weft_write(fd[1], "whole", 4), 4);
    ck_assert_int_eq(weft_await(reader), 4);
    let_signals_run();
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert(runs >= 1 && runs <= 100);
}

TEST(a_child_of_fork_has_the_original_dispositions_also_without_atfork_handlers)
{
    install_own_handler(SIGUSR2);
    catch_signal(SIGUSR1);
    ck_assert_int_eq(weft_on_signal(SIGUSR2, return_arg, NULL), 0);
    for (int i = IS_TSAN ? 1 : 0; i < 2; i++) {
        pid_t pid = i == 0 ? fork() : _Fork();
        if (pid == 0) {
            raise(SIGUSR2);
            if (own_calls == 1)
                raise(SIGUSR1);
            _exit(1);
        }
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
        ck_assert(is_not_pending(SIGUSR1));
        ck_assert_int_eq(own_calls, 0);
    }
}

/* A child of weft_fork can register handlers again. Its return also removes them. */
static int handle_signals_in_child(void)
{
    int runs = 0;
    weft_on_signal(SIGUSR1, increment_int, &runs);
    raise(SIGUSR1);
    while (runs < 1) /* a starting thread may hold a lock of ASan, which the fork would copy */
        weft_sleep(0.001);
    pid_t pid = weft_fork();
    is_exiting_in_a_fiber = pid == 0; /* LeakSanitizer would report memory of the parent */
    if (weft_on_signal(SIGUSR1, increment_int, &runs) < 0 ||
        weft_on_signal(SIGUSR2, increment_int, &runs))
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

TEST(a_child_of_weft_fork_can_handle_signals_again)
{
    if (IS_TSAN)
        return;
    assert_silent(run_apart(handle_signals_in_child), 0);
}

TEST_PROGRAM(a_program_may_end_while_fibers_wait_for_signals, 0, "")
{
    weft_spin(wait_for_arg, as_arg(SIGUSR1));
    weft_on_signal(SIGUSR2, return_arg, NULL);
    weft_snooze();
    raise(SIGUSR2);
    return 0;
}

static const char *dump_signal;

/*
 * Raise the signal, and wait for the dump of a fiber. Meanwhile, stderr is a file. Then copy its
 * text to the real stderr.
 */
static void dump_until(const char *fiber, void (*wait)(void))
{
    static char text[1 << 16];
    int real = dup(STDERR_FILENO), file = memfd_create("dump", MFD_CLOEXEC);
    dup2(file, STDERR_FILENO);
    raise(SIGUSR1);
    while (strstr(text, fiber) == NULL) {
        wait();
        ck_assert_int_ge(pread(file, text, sizeof text - 1, 0), 0);
    }
    dup2(real, STDERR_FILENO);
    ck_assert_int_eq(write(real, text, strlen(text)), (ssize_t)strlen(text));
}

static void switch_fibers(void)
{
    weft_sleep(0.001);
}

static void block_thread(void)
{
    sched_yield();
}

static int dump_by_signal(void)
{
    setenv("WEFT_DUMP_SIGNAL", dump_signal, 1);
    weft_spin_with(sleep_forever, NULL, &(weft_spin_options){.name = "worker"});
    let_run();
    dump_until("'worker' waiting for sleep", switch_fibers);
    return IS_TSAN || weft_suspend() == 0 ? 3 : 4; /* the dump signal does not keep main waiting */
}

TEST(the_signal_in_weft_dump_signal_writes_all_fibers_to_stderr)
{
    static const char *const names[] = {"USR1", "SIGUSR1", "10"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        dump_signal = names[i];
        const outcome *o = run_apart(dump_by_signal);
        ck_assert_int_eq(o->status, 3);
        assert_printed(o, "1 fibers and main");
        assert_printed(o, "'worker' waiting for sleep");
    }
}

TEST_PROGRAM_PRINTS(the_dump_signal_works_while_a_fiber_blocks_its_thread, 0,
                    "The thread has not switched for ", "'main' running")
{
    setenv("WEFT_DUMP_SIGNAL", "USR1", 1);
    weft_self();
    dump_until("'main' running", block_thread);
    return 0;
}

static int call_weft_once(void)
{
    setenv("WEFT_DUMP_SIGNAL", dump_signal, 1);
    return weft_snooze() == 0 && is_default(SIGUSR1) ? 0 : 1;
}

TEST(an_invalid_weft_dump_signal_is_reported_and_ignored)
{
    static const char *const names[] = {"NONE", "0", "10x", "65", "KILL"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        dump_signal = names[i];
        const outcome *o = run_apart(call_weft_once);
        ck_assert_int_eq(o->status, 0);
        assert_printed(o, "ignored");
    }
    dump_signal = "";
    assert_silent(run_apart(call_weft_once), 0);
}
