/* Tests of child processes: their initial state, waiting for them, and ending them. */
#include "support/process_support.h"
#include "support/suite.h"

FIXTURE(count_before, assert_none_left)

#define PROCESSES 50

/* Run a program. Return its output, which is valid until the next call. */
static const char *output_of(char *const argv[], weft_process_options o)
{
    static char text[4096];
    weft_output output;
    int status = weft_run(argv, NULL, 0, &o, &output);
    ck_assert_msg(status == 0, "status %d: %s", status, status > 0 ? output.err : "");
    snprintf(text, sizeof text, "%s", output.out);
    weft_output_free(&output);
    return text;
}

static const weft_process_options all_pipes = {
    .in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_PIPE};

/* Start a process that ends when its input ends. */
static weft_process spawn_cat(weft_process_options o)
{
    o.in = WEFT_STDIO_PIPE;
    return spawn(ARGV("cat"), o);
}

TEST(a_missing_program_is_an_error_with_a_message)
{
    weft_process p = {.pid = -7};
    ck_assert_int_eq(weft_spawn_process(&p, ARGV("no-such-program"), &all_pipes), -ENOENT);
    ck_assert_error(-ENOENT, "no such program: no-such-program");
    ck_assert_int_eq(weft_spawn_process(&p, ARGV("/no/such"), &all_pipes), -ENOENT);
    ck_assert_error(-ENOENT, "no such program: /no/such");
    ck_assert_int_eq(p.pid, -7);
}

TEST(a_file_that_is_not_a_program_is_an_error_with_a_message)
{
    char path[] = "/tmp/weft-program-XXXXXX";
    int fd = mkstemp(path);
    weft_process p;
    ck_assert_fails(weft_spawn_process(&p, ARGV(path), NULL), -EACCES);
    ck_assert_int_eq(write(fd, "#!/no/such\n", 11), 11);
    fchmod(fd, 0700);
    close(fd);
    ck_assert_int_eq(weft_spawn_process(&p, ARGV(path), NULL), -ENOENT);
    ck_assert_error(-ENOENT, format("no interpreter for %s", path));
    ck_assert_int_eq(weft_spawn_process(&p, ARGV("/"), NULL), -EACCES);
    unlink(path);
}

TEST(a_process_starts_in_the_given_folder)
{
    ck_assert_str_eq(output_of(ARGV("pwd"), (weft_process_options){.folder = "/usr/bin"}),
                     "/usr/bin\n");
    weft_process p;
    weft_process_options o = {.folder = "/no/such"};
    ck_assert_int_eq(weft_spawn_process(&p, ARGV("pwd"), &o), -ENOENT);
    ck_assert_error(-ENOENT, "cannot change to directory /no/such: No such file or directory");
    o.folder = "/dev/null";
    ck_assert_int_eq(weft_spawn_process(&p, ARGV("pwd"), &o), -ENOTDIR);
    ck_assert_error(-ENOTDIR, "cannot change to directory /dev/null: Not a directory");
}

TEST(a_process_can_inherit_replace_or_change_the_environment)
{
    setenv("WEFT_A", "a", 1);
    setenv("WEFT_B", "b", 1);
    char *const show[] = {"/bin/sh", "-c", "echo $WEFT_A,$WEFT_B,$WEFT_C", NULL};
    ck_assert_str_eq(output_of(show, (weft_process_options){0}), "a,b,\n");
    weft_process_options o = {.set = ARGV("WEFT_A=x=y", "WEFT_B", "WEFT_C=", "WEFT=1")};
    ck_assert_str_eq(output_of(show, o), "x=y,,\n");
    o.set = ARGV("WEFT_C=c");
    ck_assert_str_eq(output_of(show, o), "a,b,c\n");
    o.environment = ARGV("WEFT_B=2", "WEFT_C=3");
    ck_assert_str_eq(output_of(ARGV("/usr/bin/env"), o), "WEFT_B=2\nWEFT_C=c\n");
    o.set = NULL;
    ck_assert_str_eq(output_of(ARGV("/usr/bin/env"), o), "WEFT_B=2\nWEFT_C=3\n");
}

TEST(argv_0_may_differ_from_the_path_of_the_program)
{
    weft_process_options o = {.path = "sh"};
    ck_assert_str_eq(output_of(ARGV("another", "-c", "echo $0"), o), "another\n");
}

TEST(standard_streams_can_be_redirected)
{
    char *const argv[] = {"/bin/sh", "-c", "cat; echo out; echo err >&2", NULL};
    int to[2];
    weft_process p = spawn(argv, all_pipes);
    ck_assert_int_eq(weft_write_all(p.in, "in\n", 3), 3);
    weft_close(p.in);
    p.in = -1;
    ck_assert_str_eq(read_text(p.out), "in\nout\n");
    ck_assert_str_eq(read_text(p.err), "err\n");
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);

    p = spawn(argv, (weft_process_options){
                        .in = WEFT_STDIO_NULL, .out = WEFT_STDIO_PIPE, .err = WEFT_STDIO_OUT});
    ck_assert(p.in == -1 && p.err == -1);
    ck_assert_str_eq(read_text(p.out), "out\nerr\n");
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);

    ck_assert_int_eq(pipe2(to, O_CLOEXEC), 0);
    p = spawn(argv, (weft_process_options){.in = WEFT_STDIO_NULL,
                                           .out = WEFT_STDIO_NULL,
                                           .err = WEFT_STDIO_FD,
                                           .err_fd = to[1]});
    close(to[1]);
    ck_assert_str_eq(read_text(to[0]), "err\n");
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);
    weft_close(to[0]);
}

/* Each of the descriptors 0 to 2 becomes another standard stream. */
TEST(standard_streams_can_be_permuted)
{
    int in[2], out[2], err[2], saved[3];
    ck_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0 &&
              pipe2(err, O_CLOEXEC) == 0);
    for (int i = 0; i < 3; i++)
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
    dup2(in[0], 1);
    dup2(out[1], 2);
    dup2(err[1], 0);
    weft_process p;
    weft_process_options o = {.in = WEFT_STDIO_FD,
                              .in_fd = 1,
                              .out = WEFT_STDIO_FD,
                              .out_fd = 2,
                              .err = WEFT_STDIO_FD,
                              .err_fd = 0};
    int rc = weft_spawn_process(&p, SHELL("cat; echo err >&2"), &o);
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    ck_assert_int_eq(rc, 0);
    close(in[0]);
    close(out[1]);
    close(err[1]);
    ck_assert_int_eq(write(in[1], "in\n", 3), 3);
    close(in[1]);
    ck_assert_str_eq(read_text(out[0]), "in\n");
    ck_assert_str_eq(read_text(err[0]), "err\n");
    ck_assert_int_eq(weft_process_wait(&p), 0);
    weft_process_close(&p);
    close_fd_pair((int[]){out[0], err[0]});
}

/* New pipes then get the numbers 0 to 2. */
TEST(pipes_work_in_a_program_whose_standard_streams_are_closed)
{
    int saved[3];
    for (int i = 0; i < 3; i++) {
        saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 10);
        close(i);
    }
    weft_output output;
    int status = weft_run(SHELL("cat; echo err >&2"), "in", 2, NULL, &output);
    bool is_free = fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0 && fcntl(2, F_GETFD) < 0;
    for (int i = 0; i < 3; i++) {
        dup2(saved[i], i);
        close(saved[i]);
    }
    ck_assert_int_eq(status, 0);
    ck_assert(is_free);
    assert_none_left();
    ck_assert_str_eq(output.out, "in");
    ck_assert_str_eq(output.err, "err\n");
    weft_output_free(&output);
}

TEST(a_process_inherits_descriptors_only_on_request)
{
    int fd = open("/dev/null", O_RDONLY), hidden[2];
    ck_assert_int_eq(weft_pipe(hidden), 0);
    ck_assert_str_eq(output_of(ARGV("ls", "/proc/self/fd"), (weft_process_options){0}),
                     "0\n1\n2\n3\n");
    char *command = format("readlink /proc/self/fd/%d /proc/self/fd/%d", fd, hidden[0]);
    weft_output output;
    weft_process_options o = {.keeps_fds = true};
    ck_assert_int_ge(weft_run(SHELL(command), NULL, 0, &o, &output), 0);
    ck_assert_str_eq(output.out, "/dev/null\n");
    weft_output_free(&output);
    close_fd_pair(hidden);
    close(fd);
}

TEST(a_process_starts_with_no_blocked_signals_and_with_default_SIGPIPE)
{
    sigset_t blocked_set;
    sigemptyset(&blocked_set);
    sigaddset(&blocked_set, SIGUSR1);
    sigaddset(&blocked_set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &blocked_set, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* children inherit this, as with nohup */
    weft_process_options o = {.on_cancel = WEFT_ON_CANCEL_LEAVE};
    const char *text = output_of(ARGV("grep", "^Sig[BI]", "/proc/self/status"), o);
    unsigned long blocked = 1, ignored = 0;
    ck_assert_int_eq(sscanf(text, "SigBlk: %lx SigIgn: %lx", &blocked, &ignored), 2);
    ck_assert_uint_eq(blocked, 0);
    ck_assert_uint_eq(ignored & (1ul << (SIGPIPE - 1)), 0);
    ck_assert_uint_ne(ignored & (1ul << (SIGHUP - 1)), 0);
}

TEST(invalid_options_are_refused)
{
    weft_process p;
    ck_assert_int_eq(weft_spawn_process(&p, NULL, NULL), -EINVAL);
    ck_assert_int_eq(weft_spawn_process(&p, (char *[]){NULL}, NULL), -EINVAL);
    weft_process_options bad[] = {
        {.grace_s = -1},
        {.grace_s = NAN},
        {.in = WEFT_STDIO_OUT},
        {.out = (weft_stdio)99},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        ck_assert_fails(weft_spawn_process(&p, ARGV("true"), &bad[i]), -EINVAL);
    }
    weft_process_options closed = {.err = WEFT_STDIO_FD, .err_fd = 999};
    ck_assert_int_eq(weft_spawn_process(&p, ARGV("true"), &closed), -EBADF);
    ck_assert_error(-EBADF, "weft_spawn_process: stderr: descriptor 999 is not open");
}

TEST(the_status_of_a_process_can_be_read_repeatedly)
{
    weft_process p = spawn(SHELL("exit 3"), (weft_process_options){0});
    ck_assert_int_eq(weft_process_wait(&p), 3 << 8);
    ck_assert_int_eq(weft_process_wait(&p), 3 << 8);
    ck_assert_int_eq(weft_process_end(&p, 1), 3 << 8);
    ck_assert_int_eq(weft_process_close(&p), 3 << 8);
}

TEST(all_waiters_of_a_process_get_its_status)
{
    weft_process p = spawn_cat((weft_process_options){0});
    weft_fiber a = spin_process_waiter(&p), b = spin_process_waiter(&p);
    ck_assert_int_eq(weft_schedule(a, 1), -EBUSY);
    ck_assert_int_eq(weft_process_kill(&p, SIGKILL), 0);
    ck_assert_int_eq(weft_await(a), SIGKILL);
    ck_assert_int_eq(weft_await(b), SIGKILL);
    ck_assert_int_eq(weft_process_close(&p), SIGKILL);
}

TEST(closing_a_process_wakes_its_waiter)
{
    weft_process p = spawn(ARGV("sleep", "1000"), (weft_process_options){0});
    weft_fiber f = spin_process_waiter(&p);
    ck_assert_int_eq(weft_process_close(&p), SIGTERM);
    weft_value value = weft_await(f); /* the status, or -EBADF if the close was first */
    ck_assert(value == SIGTERM || value == -EBADF);
}

/* P73 */
TEST_LOOP(an_interrupted_wait_leaves_or_ends_the_process_as_its_options_say, 2)
{
    const weft_process_options options = {.on_cancel = _i == 0 ? 0 : WEFT_ON_CANCEL_END};
    weft_process p = spawn_cat(options);
    weft_fiber f = spin_process_waiter(&p);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert_int_eq(has_no_children(), _i);
    weft_close(p.in);
    p.in = -1;
    ck_assert_int_eq(weft_process_wait(&p), _i == 0 ? 0 : SIGTERM);
    weft_process_close(&p);
    p = spawn_cat(options);
    f = spin_process_waiter(&p);
    weft_raise(f, -EIO, "broken");
    ck_assert_int_eq(weft_await(f), -EIO);
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(has_no_children(), _i);
    ck_assert_int_eq(weft_process_end(&p, 1000), SIGTERM); /* a closed pipe would end cat */
    weft_process_close(&p);
    p = spawn_cat(options);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc)
        ck_assert_int_eq(weft_process_wait(&p), -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(has_no_children(), _i);
    weft_process_close(&p);
}

/* The grace time of the end, the status, and the output after the first line. */
static const struct {
    const char *command;
    double grace_s;
    int status;
    const char *output;
} endings[] = {
    {"trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.01; done", 20, 5 << 8, "bye\n"},
    {"trap '' TERM; echo ready; read x", 0.05, SIGKILL, ""},
    {"trap '' TERM; echo ready; read x", 0, SIGKILL, ""},
    {"echo ready; kill -STOP $$", 20, SIGTERM, ""},
};

TEST_LOOP(ending_a_process_waits_for_its_cleanup_and_kills_it_after_the_grace_time, 4)
{
    weft_process p = spawn(SHELL((char *)(uintptr_t)endings[_i].command),
                           (weft_process_options){.in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE});
    siginfo_t info;
    expect_line(p.out, "ready\n");
    if (strstr(endings[_i].command, "STOP") != NULL) /* a stopped process continues */
        ck_assert_int_eq(waitid(P_PID, (id_t)p.pid, &info, WSTOPPED | WNOWAIT), 0);
    ck_assert_int_eq(weft_process_end(&p, -1), -EINVAL);
    WEFT_MOVE_ON_AFTER(0) { /* works in a cancelled fiber, too */
        ck_assert_int_eq(weft_process_end(&p, endings[_i].grace_s), endings[_i].status);
        ck_assert_int_eq(weft_sleep(0), -ECANCELED);
    }
    ck_assert_str_eq(read_text(p.out), endings[_i].output);
    ck_assert_int_eq(weft_process_close(&p), endings[_i].status);
}

TEST(a_cancelled_wait_kills_a_process_that_survives_the_grace_time)
{
    weft_process p = spawn(SHELL("trap '' TERM; echo ready; read x"),
                           (weft_process_options){.in = WEFT_STDIO_PIPE,
                                                  .out = WEFT_STDIO_PIPE,
                                                  .grace_s = 0.05,
                                                  .on_cancel = WEFT_ON_CANCEL_END});
    expect_line(p.out, "ready\n");
    weft_fiber f = spin_process_waiter(&p);
    ck_assert_int_eq(cancel_and_await(f), -ECANCELED);
    ck_assert(has_no_children());
    ck_assert_int_eq(weft_process_close(&p), SIGKILL);
}

TEST(a_process_group_is_ended_with_its_process)
{
    weft_process p = spawn(SHELL("sleep 1000 & echo ready; wait"),
                           (weft_process_options){.out = WEFT_STDIO_PIPE, .has_group = true});
    ck_assert_int_eq(getpgid(p.pid), p.pid);
    expect_line(p.out, "ready\n");
    ck_assert_int_eq(weft_process_end(&p, 20), SIGTERM);
    /* the background process has ended too, so the pipe is closed */
    ck_assert_str_eq(read_text(p.out), "");
    weft_process_close(&p);

    p = spawn_cat((weft_process_options){0});
    ck_assert_int_eq(getpgid(p.pid), getpgrp());
    weft_process_close(&p);
}

TEST(a_signal_never_reaches_another_process)
{
    weft_process p = spawn_cat((weft_process_options){0});
    ck_assert_int_eq(weft_process_kill(&p, 12345), -EINVAL);
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), 0);
    siginfo_t info;
    ck_assert_int_eq(waitid(P_PID, (id_t)p.pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), 0); /* the zombie still exists */
    ck_assert_int_eq(weft_process_wait(&p), SIGTERM);
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), -ESRCH);
    weft_process_close(&p);
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), -EBADF);
}

TEST(a_process_that_was_waited_for_elsewhere_gives_ECHILD)
{
    weft_process p = spawn(SHELL("exit 3"), (weft_process_options){.has_group = true});
    ck_assert_int_eq(weft_waitpid(p.pid, NULL, 0), p.pid);
    ck_assert_int_eq(weft_process_kill(&p, SIGTERM), -ESRCH);
    ck_assert_int_eq(weft_process_wait(&p), -ECHILD);
    ck_assert_int_eq(weft_process_end(&p, 1), -ECHILD);
    ck_assert_int_eq(weft_process_close(&p), -ECHILD);
}

TEST(closing_ends_a_running_process)
{
    {
        weft_process p = spawn(ARGV("sleep", "1000"), all_pipes);
        WEFT_DEFER(weft_process_close, &p);
    }
    assert_none_left();
    weft_process none = {0};
    ck_assert_int_eq(weft_process_close(&none), -EBADF);
    ck_assert_int_eq(weft_process_wait(&none), -EBADF);
    ck_assert_int_eq(weft_process_end(&none, 0), -EBADF);
    ck_assert_int_eq(weft_process_detach(&none), -EBADF);
    ck_assert_int_eq(fcntl(0, F_GETFD), 0);
}

TEST(a_detached_process_keeps_running_and_the_caller_waits_for_it)
{
    int status = -1;
    weft_process p = spawn(SHELL("read x; exit 3"), (weft_process_options){.in = WEFT_STDIO_PIPE});
    pid_t pid = weft_process_detach(&p);
    ck_assert_int_eq(p.pid, 0);
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 3 << 8);
}

static weft_value run_echo_shell(void *arg)
{
    char text[16];
    snprintf(text, sizeof text, "%d", (int)(intptr_t)arg);
    weft_process p;
    weft_process_options o = {.in = WEFT_STDIO_PIPE, .out = WEFT_STDIO_PIPE};
    int rc = weft_spawn_process(&p, SHELL("read x; echo $x; exit $x"), &o);
    if (rc < 0)
        return rc;
    WEFT_DEFER(weft_process_close, &p);
    ssize_t n = weft_write_all(p.in, text, strlen(text));
    weft_close(p.in);
    p.in = -1;
    char got[16] = "";
    if (n > 0)
        n = weft_read_full(p.out, got, sizeof got - 1);
    return n < 0 ? n : atoi(got) == (int)(intptr_t)arg ? weft_process_wait(&p) : -EPROTO;
}

TEST(hundreds_of_processes_run_at_once)
{
    static weft_fiber fibers[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        fibers[i] = weft_spin(run_echo_shell, as_arg(i % 100));
    for (int i = 0; i < PROCESSES; i++)
        ck_assert_int_eq(weft_await(fibers[i]), (i % 100) << 8);
}
