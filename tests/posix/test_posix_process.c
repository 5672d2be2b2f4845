/* Child processes of hooked programs: waits, system, popen, fork, vfork, posix_spawn. */
#include "posix/posix_support.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

FIXTURE(adopt_program, NULL)

extern char **environ;

/* A child that exits with 7 when `end` is closed. */
typedef struct child {
    pid_t pid;
    int end;
} child;

static child start_child(void)
{
    child c;
    c.pid = start_waiting_child(&c.end);
    return c;
}

/* Let a child end while the main fiber waits for it. */
static weft_value end_child(void *arg)
{
    mark("end ");
    close(((child *)arg)->end);
    return 0;
}

static int exit_status(int status)
{
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/*
 * Waits. Each test waits in the main fiber for a child that another fiber ends.
 */

static void wait_by_waitpid(const child *c)
{
    int status;
    ck_assert_int_eq(waitpid(c->pid, &status, 0), c->pid);
    ck_assert_int_eq(exit_status(status), 7);
}

static void wait_by_waitpid_any(const child *c)
{
    int status;
    ck_assert_int_eq(waitpid(-1, &status, 0), c->pid);
    ck_assert_int_eq(exit_status(status), 7);
}

static void wait_by_waitpid_group(const child *c)
{
    int status;
    ck_assert_int_eq(waitpid(0, &status, 0), c->pid);
    ck_assert_int_eq(exit_status(status), 7);
}

static void wait_by_wait(const child *c)
{
    int status;
    ck_assert_int_eq(wait(&status), c->pid);
    ck_assert_int_eq(exit_status(status), 7);
}

static void wait_by_wait3(const child *c)
{
    int status;
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    ck_assert_int_eq(wait3(&status, 0, &usage), c->pid);
    ck_assert_int_eq(exit_status(status), 7);
    ck_assert_int_gt(usage.ru_maxrss, 0);
}

static void wait_by_wait4(const child *c)
{
    int status;
    struct rusage usage;
    memset(&usage, 0, sizeof usage);
    ck_assert_int_eq(wait4(c->pid, &status, 0, &usage), c->pid);
    ck_assert_int_eq(exit_status(status), 7);
    ck_assert_int_gt(usage.ru_maxrss, 0);
}

static void wait_by_waitid(const child *c)
{
    siginfo_t info = {0};
    ck_assert_int_eq(waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(info.si_pid, c->pid);
    ck_assert_int_eq(info.si_status, 7);
    ck_assert_int_eq(waitid(P_ALL, 0, NULL, WEXITED), 0);
}

static const struct wait_row {
    const char *name;
    void (*wait)(const child *c);
} wait_rows[] = {
    {"waitpid of one", wait_by_waitpid},
    {"waitpid of any", wait_by_waitpid_any},
    {"waitpid of a group", wait_by_waitpid_group},
    {"wait", wait_by_wait},
    {"wait3", wait_by_wait3},
    {"wait4", wait_by_wait4},
    {"waitid", wait_by_waitid},
};

TEST_ROWS(a_wait_for_a_child_lets_other_fibers_run, wait_rows)
{
    child c = start_child();
    weft_spin(end_child, &c);
    wait_rows[_i].wait(&c);
    ck_assert_trail("end ");
    ck_assert_uint_ge(posix_stats().waits, 1);
    ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
    ck_assert_int_eq(errno, ECHILD);
}

TEST(a_wait_with_WNOHANG_does_not_wait)
{
    child c = start_child();
    ck_assert_int_eq(waitpid(c.pid, NULL, WNOHANG), 0);
    ck_assert_uint_eq(posix_stats().waits, 0);
    close(c.end);
    ck_assert_int_eq(waitpid(c.pid, NULL, 0), c.pid);
}

static weft_value stop_child(void *arg)
{
    child *c = arg;
    ck_assert_int_eq(kill(c->pid, SIGSTOP), 0);
    return 0;
}

TEST(a_wait_with_WUNTRACED_reports_a_stopped_child)
{
    child c = start_child();
    int status;
    weft_spin(stop_child, &c);
    ck_assert_int_eq(waitpid(c.pid, &status, WUNTRACED), c.pid);
    ck_assert(WIFSTOPPED(status));
    kill(c.pid, SIGCONT);
    close(c.end);
    ck_assert_int_eq(waitpid(c.pid, &status, 0), c.pid);
    ck_assert_int_eq(exit_status(status), 7);
}

static weft_value wait_for_any(void *arg)
{
    int status;
    pid_t pid = wait(&status);
    return pid < 0 ? -errno : exit_status(status);
}

TEST(a_cancelled_wait_for_any_child_leaves_the_status)
{
    child c = start_child();
    weft_fiber f = weft_spin(wait_for_any, NULL);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    close(c.end);
    ck_assert_int_eq(wait_for_any(NULL), 7);
}

TEST(fibers_that_wait_for_any_child_take_one_status_each)
{
    enum { COUNT = 20 };
    child children[COUNT];
    weft_fiber fibers[COUNT];
    for (int i = 0; i < COUNT; i++)
        children[i] = start_child();
    for (int i = 0; i < COUNT; i++)
        fibers[i] = weft_spin(wait_for_any, NULL);
    weft_snooze();
    for (int i = 0; i < COUNT; i++)
        close(children[i].end);
    for (int i = 0; i < COUNT; i++)
        ck_assert_int_eq(weft_await(fibers[i]), 7);
    ck_assert_int_eq(wait_for_any(NULL), -ECHILD);
}

static void ignore_signal(int signal)
{
    mark("handler ");
}

TEST(the_end_of_a_child_wins_over_its_own_SIGCHLD)
{
    struct sigaction action = {.sa_handler = ignore_signal};
    ck_assert_int_eq(sigaction(SIGCHLD, &action, NULL), 0);
    for (int i = 0; i < 20; i++) {
        clear_trail();
        child c = start_child();
        weft_spin(end_child, &c);
        int status;
        ck_assert_int_eq(waitpid(i % 2 == 0 ? c.pid : -1, &status, 0), c.pid);
        ck_assert_int_eq(weft_await_children(), 0);
    }
}

/*
 * system.
 */

/* Write to the fifo that a command reads. */
static weft_value release_command(void *arg)
{
    mark("release ");
    int fd = open(arg, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(write(fd, "5\n", 2), 2);
    return (weft_value)fd;
}

static char fifo_path[64], command[256];

static void make_fifo(const char *format)
{
    snprintf(fifo_path, sizeof fifo_path, "/tmp/weft-posix-%d", (int)getpid());
    ck_assert_int_eq(mkfifo(fifo_path, 0600), 0);
    snprintf(command, sizeof command, format, fifo_path);
}

static void remove_fifo(void)
{
    ck_assert_int_eq(unlink(fifo_path), 0);
}

TEST(system_lets_other_fibers_run_and_returns_the_status)
{
    make_fifo("read x < %s; exit $x");
    weft_fiber f = weft_spin(release_command, fifo_path);
    ck_assert_int_eq(exit_status(system(command)), 5);
    ck_assert_trail("release ");
    close((int)weft_await(f));
    remove_fifo();
    ck_assert_int_eq(exit_status(system("no-such-command 2>/dev/null")), 127);
    ck_assert_int_ne(system(NULL), 0);
}

static void mark_interrupt(int signal)
{
    mark("interrupt ");
}

TEST(a_command_of_system_starts_with_the_signals_of_the_program)
{
    weft_snooze();
    signal(SIGINT, mark_interrupt);
    sigset_t usr2, mask;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &usr2, NULL), 0);
    /*
     * Signal n is bit n - 1. SIGUSR2 (12) is blocked, SIGCHLD (17) is not, SIGINT (2) is not
     * ignored.
     */
    ck_assert_int_eq(system("while read name bits; do case $name in "
                            "SigBlk:) test $((0x$bits & 0x10800)) = 2048 || exit 1 ;; "
                            "SigIgn:) test $((0x$bits & 2)) = 0 || exit 2 ;; "
                            "esac; done < /proc/self/status"),
                     0);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    ck_assert_int_eq(sigismember(&mask, SIGCHLD), 0);
    raise(SIGINT);
    ck_assert_trail("interrupt ");
}

TEST(a_program_ignores_SIGINT_during_system)
{
    weft_snooze();
    signal(SIGINT, mark_interrupt);
    ck_assert_int_eq(system("kill -INT $PPID"), 0);
    ck_assert_trail("");
}

static weft_value run_command(void *arg)
{
    int status = system(arg);
    return status < 0 ? -errno : exit_status(status);
}

TEST(commands_of_two_fibers_run_at_the_same_time)
{
    make_fifo("cat < %s > /dev/null");
    char writer[256];
    snprintf(writer, sizeof writer, "echo > %s; exit 3", fifo_path);
    weft_fiber a = weft_spin(run_command, command), b = weft_spin(run_command, writer);
    ck_assert_int_eq(weft_await(a), 0);
    ck_assert_int_eq(weft_await(b), 3);
    remove_fifo();
    sigset_t mask;
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, NULL, &mask), 0);
    ck_assert_int_eq(sigismember(&mask, SIGCHLD), 0);
}

TEST(a_command_continues_after_its_system_is_cancelled)
{
    make_fifo("read x < %1$s; echo done > %1$s");
    weft_fiber f = weft_spin(run_command, command);
    weft_snooze();
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    int fd = open(fifo_path, O_WRONLY);
    ck_assert_int_eq(write(fd, "go\n", 3), 3);
    close(fd);
    char text[8] = "";
    fd = open(fifo_path, O_RDONLY);
    ck_assert_int_eq(read(fd, text, sizeof text - 1), 5);
    ck_assert_str_eq(text, "done\n");
    close(fd);
    remove_fifo();
}

/*
 * popen.
 */

TEST(a_stream_of_popen_waits_with_weft)
{
    make_fifo("read x < %s; echo got $x; exit $x");
    weft_fiber f = weft_spin(release_command, fifo_path);
    FILE *stream = popen(command, "r");
    ck_assert_ptr_nonnull(stream);
    char text[16];
    ck_assert_ptr_eq(fgets(text, sizeof text, stream), text);
    ck_assert_str_eq(text, "got 5\n");
    ck_assert_trail("release ");
    ck_assert_ptr_null(fgets(text, sizeof text, stream));
    ck_assert_int_eq(exit_status(pclose(stream)), 5);
    close((int)weft_await(f));
    remove_fifo();
}

TEST(popen_writes_the_input_of_a_command)
{
    weft_snooze();
    FILE *stream = popen("read x; exit $x", "we");
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq(fcntl(fileno(stream), F_GETFD), FD_CLOEXEC);
    ck_assert_int_gt(fprintf(stream, "9\n"), 0);
    ck_assert_int_eq(exit_status(pclose(stream)), 9);
}

TEST(a_command_does_not_inherit_the_streams_of_earlier_commands)
{
    weft_snooze();
    FILE *reader = popen("cat", "w"), *other = popen("cat", "w");
    /* If the second command had the pipe of the first, the first would not see its end. */
    ck_assert_int_eq(pclose(reader), 0);
    ck_assert_int_eq(pclose(other), 0);
}

/* Return the number of failures. Check's assertions hold a lock that a child of fork cannot get. */
static weft_value popen_in_a_loop(void *must_stop)
{
    weft_value failures = 0;
    while (!atomic_load((atomic_bool *)must_stop))
        failures += pclose(popen("true", "r")) != 0;
    return failures;
}

/* Another thread may be in popen while this thread forks. Its lock never opens in the child. */
TEST(pclose_ends_in_a_child_of_fork_while_another_thread_calls_popen)
{
    static atomic_bool must_stop;
    FILE *stream = popen("cat", "w");
    weft_cord other = weft_cord_start(popen_in_a_loop, &must_stop, NULL);
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(10);
            _exit(pclose(stream) == -1 && errno == ECHILD ? 0 : 1);
        }
        ck_assert_int_gt(pid, 0);
        int status;
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(status, 0);
    }
    atomic_store(&must_stop, true);
    ck_assert_int_eq(weft_cord_join(other), 0);
    ck_assert_int_eq(pclose(stream), 0);
}

TEST(popen_refuses_an_invalid_mode)
{
    weft_snooze();
    const char *modes[] = {"", "rw", "x", "r+"};
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        errno = 0;
        ck_assert_ptr_null(popen("true", modes[i]));
        ck_assert_int_eq(errno, EINVAL);
    }
}

TEST(pclose_closes_a_stream_that_was_opened_without_weft)
{
    weft_snooze();
    ck_assert_int_eq(weft_posix_pass(true), 1);
    FILE *stream = popen("exit 4", "r");
    ck_assert_int_eq(weft_posix_pass(false), 0);
    ck_assert_int_eq(exit_status(pclose(stream)), 4);
}

/*
 * New processes.
 */

TEST(hooks_are_off_in_a_child_of_fork)
{
    weft_snooze();
    uint64_t before = posix_stats().waits;
    pid_t pid = fork();
    if (pid == 0) {
        struct timespec time = {.tv_nsec = 1000};
        bool is_plain = nanosleep(&time, NULL) == 0 && posix_stats().waits == before;
        _exit(is_plain && system("exit 6") == 6 << 8 ? 5 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(exit_status(status), 5);
}

TEST(hooks_are_on_in_a_child_of_weft_fork)
{
    if (is_sanitized())
        return; /* with TSan, a child of fork cannot create threads */
    child c = start_child();
    weft_fiber f = weft_spin(wait_for_any, NULL);
    weft_snooze(); /* a thread waits for the children */
    pid_t pid = weft_fork();
    if (pid == 0) {
        child own = start_child();
        weft_spin(end_child, &own);
        _exit(wait_for_any(NULL) == 7 ? 5 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(exit_status(status), 5);
    close(c.end);
    ck_assert_int_eq(weft_await(f), 7);
}

TEST(a_child_of_vfork_does_not_change_the_descriptors_of_its_parent)
{
    int ends[2];
    char byte = 'x';
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    weft_snooze();
    pid_t pid = vfork();
    if (pid == 0) {
        close(ends[0]);
        close(ends[1]);
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(exit_status(status), 0);
    ck_assert_int_eq(weft_write(ends[1], &byte, 1), 1);
    ck_assert_int_eq(weft_read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
}

TEST(posix_spawn_starts_a_program)
{
    weft_snooze();
    char *argv[] = {"sh", "-c", "exit 8", NULL};
    pid_t pid;
    ck_assert_int_eq(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(exit_status(status), 8);
}

TEST(descriptors_of_weft_have_high_numbers)
{
    if (runs_on("libev"))
        return; /* libev chooses the number of its descriptor */
    weft_snooze();
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *e; (e = readdir(directory)) != NULL;) {
        char target[64] = "";
        bool is_weft = readlinkat(dirfd(directory), e->d_name, target, sizeof target - 1) > 0 &&
                       (strstr(target, "io_uring") != NULL || strstr(target, "eventfd") != NULL);
        ck_assert_msg(!is_weft || atoi(e->d_name) >= 512, "%s is %s", e->d_name, target);
    }
    closedir(directory);
}
