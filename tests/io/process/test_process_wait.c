/* Tests of weft_waitpid: its results, and that no status is lost. */
#include "support/process_support.h"
#include "support/seccomp.h"
#include "support/suite.h"

#include <limits.h>
#include <sys/resource.h>

/* Some tests must run before the process is a cord, so the fixture does not count descriptors. */
static void assert_no_children(void)
{
    ck_assert(has_no_children());
}

FIXTURE(NULL, assert_no_children)

#define CHILDREN 60

static weft_value wait_for_pid(void *arg)
{
    int status = 0;
    pid_t pid = weft_waitpid((pid_t)(intptr_t)arg, &status, 0);
    return pid < 0 ? pid : status;
}

/* Return a fiber that waits in weft_waitpid. Its value is the status. */
static weft_fiber spin_waitpid(pid_t pid)
{
    return spin_waiting(wait_for_pid, as_arg(pid));
}

TEST(an_exit_status_is_the_same_as_from_waitpid)
{
    count_before();
    int status = -1;
    pid_t pid = start_shell("exit 3");
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 3 << 8);
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), -ECHILD);
    pid = start_shell("exit 3");
    ck_assert_int_eq(weft_waitpid(pid, NULL, 0), pid);
    assert_none_left();
}

TEST(the_status_of_a_killed_child_contains_the_signal)
{
    int status = -1, go;
    pid_t pid = start_shell_held("read x", &go);
    weft_fiber f = spin_waitpid(pid);
    kill(pid, SIGKILL);
    ck_assert_int_eq(weft_await(f), SIGKILL);
    pid = start_shell("kill -TERM $$");
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

TEST(a_pid_that_is_not_a_child_and_unsupported_options_are_refused)
{
    int status = 77;
    ck_assert_int_eq(weft_waitpid(1, &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(getpid(), &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(INT_MAX, &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(INT_MIN, &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(-1, &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(0, &status, WNOHANG), -ECHILD);
    ck_assert_int_eq(status, 77);
    ck_assert_fails(weft_waitpid(1, NULL, WNOWAIT), -EINVAL);
}

TEST(a_wait_with_WNOHANG_does_not_block)
{
    int status = 77, go;
    pid_t pid = start_shell_held("read x; exit 4", &go);
    ck_assert_int_eq(weft_waitpid(pid, &status, WNOHANG), 0);
    ck_assert_int_eq(status, 77);
    close(go);
    while (weft_waitpid(pid, &status, WNOHANG) == 0)
        weft_sleep(0.001);
    ck_assert_int_eq(status, 4 << 8);
}

/* T96 */
TEST(a_child_can_be_waited_for_again_after_an_interrupted_wait)
{
    count_before();
    int status = -1, go;
    pid_t pid = start_shell_held("read x; exit 6", &go);
    weft_fiber f = spin_waitpid(pid);
    ck_assert_int_eq(weft_schedule(f, 42), -EBUSY); /* has no effect */
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    f = spin_waitpid(pid);
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    ck_assert_int_eq(weft_await(f), -EINTR);
    WEFT_MOVE_ON_AFTER(0.001)
        ck_assert_int_eq(weft_waitpid(pid, &status, 0), -ECANCELED);
    ck_assert_int_eq(kill(pid, 0), 0);
    close(go);
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 6 << 8);
    assert_none_left();
}

TEST(an_available_status_is_returned_to_a_cancelled_fiber)
{
    int status = -1;
    pid_t pid = start_shell("exit 7");
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 7 << 8);
        ck_assert_int_eq(weft_sleep(0), -ECANCELED);
    }
}

TEST(no_status_is_lost_when_an_exit_races_with_a_raised_error)
{
    int status, go;
    for (int i = 0; i < 20; i++) {
        pid_t pid = start_shell_held("read x; exit 8", &go);
        weft_fiber f = spin_waitpid(pid);
        close(go);
        for (int k = 0; k < i % 10; k++)
            weft_sleep(0.0001);
        weft_raise(f, -EINTR, "enough");
        weft_value value = weft_await(f);
        if (value == -EINTR) {
            ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
            ck_assert_int_eq(status, 8 << 8);
        } else {
            ck_assert_int_eq(value, 8 << 8);
        }
    }
}

FIBER(wait_for_stop, weft_waitpid((pid_t)(intptr_t)arg, NULL, WUNTRACED))

TEST(an_interrupt_is_not_lost_when_the_timer_of_the_wait_is_due)
{
    int go;
    pid_t pid = start_shell_held("read x", &go);
    weft_fiber f = spin_waiting(wait_for_stop, as_arg(pid));
    usleep(50000); /* blocks the thread, so the timer of the wait is due but not processed */
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    ck_assert_int_eq(weft_await(f), -EINTR);
    close(go);
    ck_assert_int_eq(weft_waitpid(pid, NULL, 0), pid);
}

TEST(any_child_can_be_waited_for)
{
    int status = -1, go;
    pid_t held_pid = start_shell_held("read x; exit 1", &go), pid = start_shell("exit 2");
    ck_assert_int_eq(weft_waitpid(-1, &status, 0), pid);
    ck_assert_int_eq(status, 2 << 8);
    ck_assert_int_eq(weft_waitpid(0, &status, WNOHANG), 0);
    weft_fiber f = spin_waitpid(-1);
    close(go);
    ck_assert_int_eq(weft_await(f), 1 << 8);
    ck_assert_int_eq(weft_waitpid(held_pid, &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(-1, &status, 0), -ECHILD);
}

TEST(a_child_of_a_group_can_be_waited_for)
{
    int status = -1;
    weft_process p = spawn(SHELL("exit 2"), (weft_process_options){.has_group = true});
    pid_t group = weft_process_detach(&p), own_group_pid = start_shell("exit 1");
    ck_assert_int_eq(weft_waitpid(-group, &status, 0), group);
    ck_assert_int_eq(status, 2 << 8);
    ck_assert_int_eq(weft_waitpid(-group, &status, 0), -ECHILD);
    ck_assert_int_eq(weft_waitpid(0, &status, 0), own_group_pid);
    ck_assert_int_eq(status, 1 << 8);
}

TEST(stopped_and_continued_children_are_reported_on_request)
{
    int status = -1, go;
    pid_t pid = start_shell_held("kill -STOP $$; read x; exit 7", &go);
    ck_assert_int_eq(weft_waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    kill(pid, SIGCONT);
    ck_assert_int_eq(weft_waitpid(pid, &status, WUNTRACED | WCONTINUED), pid);
    ck_assert(WIFCONTINUED(status));
    close(go);
    ck_assert_int_eq(weft_waitpid(pid, &status, WUNTRACED), pid);
    ck_assert_int_eq(status, 7 << 8);
}

TEST(of_two_waiters_for_one_child_one_gets_the_status_and_one_gets_ECHILD)
{
    int go;
    pid_t pid = start_shell_held("read x; exit 3", &go);
    weft_fiber a = spin_waitpid(pid), b = spin_waitpid(pid);
    close(go);
    weft_value first = weft_await(a), second = weft_await(b);
    ck_assert((first == 3 << 8 && second == -ECHILD) || (first == -ECHILD && second == 3 << 8));
}

TEST(with_SIGCHLD_ignored_a_wait_lasts_until_the_exit_and_gives_ECHILD)
{
    count_before();
    int go;
    signal(SIGCHLD, SIG_IGN);
    pid_t pid = start_shell_held("read x; exit 3", &go);
    weft_fiber f = spin_waitpid(pid);
    close(go);
    ck_assert_int_eq(weft_await(f), -ECHILD);
    weft_process p = spawn(SHELL("exit 3"), (weft_process_options){0});
    ck_assert_int_eq(weft_process_wait(&p), -ECHILD);
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), -ESRCH);
    ck_assert_int_eq(weft_process_close(&p), -ECHILD);
    assert_none_left();
}

static volatile sig_atomic_t signals_seen;

static void count_signal(int number)
{
    (void)number;
    signals_seen++;
}

TEST(the_programs_handler_of_SIGCHLD_is_not_replaced)
{
    int status = -1;
    struct sigaction mine = {.sa_handler = count_signal}, now;
    sigaction(SIGCHLD, &mine, NULL);
    pid_t pid = start_shell("exit 3");
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 3 << 8);
    sigaction(SIGCHLD, NULL, &now);
    ck_assert_ptr_eq(now.sa_handler, count_signal);
    ck_assert_int_eq(signals_seen, 1);
}

TEST(hundreds_of_children_are_waited_for_at_once)
{
    count_before();
    int fd[2];
    static weft_fiber waits[CHILDREN];
    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
    for (int i = 0; i < CHILDREN; i++) {
        weft_process p = spawn(SHELL(format("read x; exit %d", i % 100)),
                               (weft_process_options){.in = WEFT_STDIO_FD, .in_fd = fd[0]});
        waits[i] = spin_waitpid(weft_process_detach(&p));
    }
    close(fd[0]);
    close(fd[1]);
    for (int i = 0; i < CHILDREN; i++)
        ck_assert_int_eq(weft_await(waits[i]), (i % 100) << 8);
    assert_none_left();
}

static void *wait_in_thread(void *arg)
{
    return (void *)wait_for_pid(arg);
}

TEST(any_thread_may_wait_for_any_child)
{
    pthread_t threads[4];
    int go[4];
    for (int i = 0; i < 4; i++) {
        char *command = format("read x; exit %d", i + 1);
        threads[i] = start_thread(wait_in_thread, as_arg(start_shell_held(command, &go[i])));
    }
    for (int i = 0; i < 4; i++) {
        close(go[i]);
        ck_assert_ptr_eq(join_thread(threads[i]), as_arg((i + 1) << 8));
    }
}

static void *run_in_thread(void *arg)
{
    char command[32];
    for (int i = 0; i < 3; i++) {
        snprintf(command, sizeof command, "exit %d", (int)(intptr_t)arg + i);
        if (weft_system(command) != ((int)(intptr_t)arg + i) << 8)
            return NULL;
    }
    return arg;
}

TEST(several_threads_run_programs_at_once)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = start_thread(run_in_thread, as_arg(i * 20 + 1));
    for (int i = 0; i < 4; i++)
        ck_assert_ptr_eq(join_thread(threads[i]), as_arg(i * 20 + 1));
}

/* Without pidfds: programs in a separate process, with status 0 on success. */

/* Wait for, cancel, signal and end a process. */
static int use_processes(void)
{
    weft_process p;
    weft_process_options o = {.in = WEFT_STDIO_PIPE, .on_cancel = WEFT_ON_CANCEL_END};
    MUST(weft_system("exit 3") == 3 << 8 && weft_spawn_process(&p, ARGV("cat"), &o) == 0);
    MUST(weft_process_kill(&p, SIGKILL) == 0 && weft_process_wait(&p) == SIGKILL);
    MUST(weft_process_kill(&p, SIGKILL) == -ESRCH && weft_process_close(&p) == SIGKILL);
    MUST(weft_spawn_process(&p, ARGV("cat"), &o) == 0);
    weft_fiber f = spin_waiting(wait_for_process, &p);
    MUST(weft_schedule(f, 1) == -EBUSY && cancel_and_await(f) == -ECANCELED);
    MUST(weft_process_wait(&p) == SIGTERM && weft_process_close(&p) == SIGTERM);
    MUST(has_no_children());
    return 0;
}

/* Interrupt and cancel waits for a child, wait for it again, then use processes. */
static int use_waitpid(void)
{
    int status, go;
    pid_t pid = start_shell_held("read x; exit 3", &go);
    weft_fiber f = spin_waiting(wait_for_pid, as_arg(pid));
    MUST(weft_interrupt(f, -EINTR) == 0 && weft_await(f) == -EINTR);
    MUST(cancel_and_await(spin_waiting(wait_for_pid, as_arg(pid))) == -ECANCELED);
    close(go);
    MUST(weft_waitpid(pid, &status, 0) == pid && status == 3 << 8);
    return use_processes();
}

static int pidfd_error;

static int use_without_pidfd(void)
{
    return refuse_system_call(SYS_pidfd_open, pidfd_error) ? use_waitpid() : 77;
}

TEST_LOOP(waiting_works_if_pidfds_are_missing_or_refused, 2)
{
    pidfd_error = _i == 0 ? ENOSYS : EPERM;
    const outcome *o = run_apart(use_without_pidfd);
    if (o->status == 77)
        printf("skipped: seccomp filters cannot be installed\n");
    else
        ck_assert_quiet(o, 0);
}

/* Run a program that cannot open a descriptor: all numbers below the limit are in use. */
static int run_without_descriptors(int (*program)(void))
{
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = limit;
    int free_fd = dup(STDERR_FILENO);
    close(free_fd);
    none.rlim_cur = (rlim_t)free_fd;
    setrlimit(RLIMIT_NOFILE, &none);
    int rc = program();
    setrlimit(RLIMIT_NOFILE, &limit); /* sanitizers need descriptors at exit */
    return rc;
}

static pid_t held_pid;

static int use_without_descriptors(void)
{
    int status;
    weft_process p;
    weft_process_options o = {.out = WEFT_STDIO_PIPE};
    MUST(open("/dev/null", O_RDONLY) < 0 && errno == EMFILE);
    MUST(weft_spawn_process(&p, ARGV("cat"), &o) == -EMFILE);
    MUST(cancel_and_await(spin_waiting(wait_for_pid, as_arg(held_pid))) == -ECANCELED);
    MUST(weft_system("exit 4") == 4 << 8);
    kill(held_pid, SIGKILL);
    MUST(weft_waitpid(held_pid, &status, 0) == held_pid && status == SIGKILL);
    MUST(has_no_children());
    return 0;
}

static int wait_without_descriptors(void)
{
    int go;
    held_pid = start_shell_held("read x; exit 3", &go);
    int rc = run_without_descriptors(use_without_descriptors);
    close(go);
    return rc;
}

static int use_without_backend(void)
{
    MUST(weft_system("exit 3") == 3 << 8);
    MUST(strcmp(weft_backend_name(), "none") == 0 && has_no_children());
    return 0;
}

static int wait_without_backend(void)
{
    unsetenv("WEFT_BACKEND"); /* weft reports a named backend that cannot be opened */
    return run_without_descriptors(use_without_backend);
}

TEST(waiting_works_without_a_free_descriptor)
{
    ck_assert_quiet(run_apart(wait_without_descriptors), 0);
}

TEST(waiting_works_without_a_descriptor_for_a_backend)
{
    ck_assert_quiet(run_apart(wait_without_backend), 0);
}
