/*
 * The count of system calls in weft_stats, compared with the system calls that strace(1) sees.
 *
 * strace attaches to the process of the test. Two calls of getppid(2) mark the begin and the end of
 * a workload. The test needs strace, and permission to trace.
 */
#include "base/busy_poll.h"
#include "support/cord_support.h"
#include "support/process_support.h"
#include "support/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char trace_path[] = "/tmp/weft-syscalls-XXXXXX";
static pid_t tracer; /* 0: strace does not run */

/* Start strace with plain system calls. Return false if strace cannot attach. */
static bool start_strace(void)
{
    char pid[16], line[256];
    int err[2], trace = mkstemp(trace_path);
    ck_assert_int_ge(trace, 0);
    close(trace);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    ck_assert_int_eq(pipe2(err, O_CLOEXEC), 0);
    tracer = fork();
    if (tracer == 0) {
        dup2(err[1], STDERR_FILENO);
        execlp("strace", "strace", "-p", pid, "-o", trace_path, (char *)NULL);
        _exit(127);
    }
    close(err[1]);
    FILE *messages = fdopen(err[0], "r");
    bool is_attached = fgets(line, sizeof line, messages) != NULL && strstr(line, "attached");
    fclose(messages);
    if (!is_attached)
        waitpid(tracer, NULL, 0);
    return is_attached;
}

static void stop_strace(void)
{
    kill(tracer, SIGINT);
    waitpid(tracer, NULL, 0);
}

/* libev registers a descriptor with system calls of its own. */
static bool is_libev(void)
{
    return strncmp(weft_backend_name(), "libev", 5) == 0;
}

/* Return the number of system calls between the two marks. Print them if is_shown. */
static uint64_t traced_calls(bool is_shown)
{
    char line[4096];
    uint64_t count = 0;
    int marks = 0;
    FILE *trace = fopen(trace_path, "r");
    ck_assert_ptr_nonnull(trace);
    while (fgets(line, sizeof line, trace) != NULL) {
        bool is_mark = strncmp(line, "getppid(", 8) == 0;
        bool is_call = strncmp(line, "--- ", 4) != 0 && strncmp(line, "strace:", 7) != 0;
        if (is_libev() && strncmp(line, "epoll_ctl(", 10) == 0)
            continue; /* a call of libev itself */
        marks += is_mark;
        count += marks == 1 && !is_mark && is_call;
        if (is_shown && marks == 1)
            fputs(line, stderr);
    }
    fclose(trace);
    ck_assert_int_eq(marks, 2);
    return count;
}

/* Check writes to a pipe at each assertion. Therefore workloads count failures. */
static int failures;

static void expect(bool is_right)
{
    failures += !is_right;
}

/* Assert that weft counts the system calls of a workload that does nothing else. */
static void assert_counted(void (*run)(void))
{
    if (IS_SLOW || is_sim() || !start_strace()) {
        unlink(trace_path);
        return;
    }
    run(); /* allocate memory, and create the descriptors of the backend */
    weft__busy_poll_adapt(&(weft__busy_poll){0}, 0, false); /* counts the processors once */
    uint64_t before = stats().syscalls;
    getppid();
    run();
    getppid();
    uint64_t counted = stats().syscalls - before;
    stop_strace();
    uint64_t traced = traced_calls(false);
    bool is_equal = counted == traced;
    if (!is_equal)
        traced_calls(true);
    unlink(trace_path);
    ck_assert_msg(is_equal, "counted %d, traced %d", (int)counted, (int)traced);
    ck_assert_int_eq(failures, 0);
}

#define ROUNDS 50

static weft_value echo_bytes(void *fd)
{
    char byte;
    while (weft_read(*(int *)fd, &byte, 1) == 1)
        weft_write(*(int *)fd, &byte, 1);
    return 0;
}

static int echo_fds[2];

/* Each byte waits in both directions. */
static void run_echo(void)
{
    char byte = 'x';
    for (int i = 0; i < ROUNDS; i++) {
        expect(weft_write(echo_fds[0], &byte, 1) == 1);
        expect(weft_read(echo_fds[0], &byte, 1) == 1);
    }
}

TEST(reads_writes_and_polls_are_counted)
{
    ck_assert_int_eq(weft_socketpair(echo_fds), 0);
    weft_fiber f = weft_spin(echo_bytes, &echo_fds[1]);
    assert_counted(run_echo);
    weft_close(echo_fds[0]);
    ck_assert_int_eq(weft_await(f), 0);
    weft_close(echo_fds[1]);
}

/* Pipes and sockets are created, registered and closed. */
static void run_descriptors(void)
{
    char bytes[4];
    for (int i = 0; i < 5; i++) {
        int fd[2];
        expect((i % 2 ? weft_pipe(fd) : weft_socketpair(fd)) == 0);
        expect(weft_write(fd[1], "abc", 3) == 3);
        expect(weft_read(fd[0], bytes, sizeof bytes) == 3);
        WEFT_MOVE_ON_AFTER(1e-4)
            expect(weft_read(fd[0], bytes, sizeof bytes) < 0);
        weft_close(fd[0]);
        weft_close(fd[1]);
    }
}

TEST(opening_registering_and_closing_descriptors_is_counted)
{
    assert_counted(run_descriptors);
}

static void run_sleeps(void)
{
    for (int i = 0; i < ROUNDS; i++)
        weft_sleep(1e-5);
}

TEST(waits_without_operations_are_counted)
{
    assert_counted(run_sleeps);
}

static weft_value reply_to_messages(void *main)
{
    while (weft_receive() > 0)
        weft_tell(arg_id(main), 1);
    return 0;
}

static weft_cord replier;

static void run_messages(void)
{
    for (int i = 0; i < ROUNDS; i++) {
        expect(weft_tell(replier, 1) == 0);
        expect(weft_receive() == 1);
    }
}

/* strace sees only this thread: the other cord writes to the eventfd of this one. */
TEST(wake_ups_of_other_cords_are_counted)
{
    replier = start_cord(reply_to_messages, id_arg(weft_self()));
    assert_counted(run_messages);
    ck_assert_int_eq(weft_tell(replier, 0), 0);
    ck_assert_int_eq(weft_cord_join(replier), 0);
}

static weft_value sync_file(void *fd)
{
    return weft_fsync(*(int *)fd);
}

TEST(the_sum_includes_the_calls_of_workers)
{
    if (is_sim() || strcmp(weft_backend_name(), "io_uring") == 0)
        return; /* the kernel makes the call */
    char path[] = "/tmp/weft-sync-XXXXXX";
    int fd = mkstemp(path);
    weft_counters before, after;
    ck_assert_int_eq(weft_stats_total(&before), 0);
    uint64_t own = stats().syscalls;
    ck_assert_int_eq(weft_await(weft_spin(sync_file, &fd)), 0);
    own = stats().syscalls - own;
    do /* the worker adds its calls after the result */
        ck_assert_int_eq(weft_stats_total(&after), 0);
    while (after.syscalls - before.syscalls <= own);
    weft_close(fd);
    unlink(path);
}
