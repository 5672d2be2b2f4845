/*
 * Tests of a program under Valgrind. The program is this one, with an argument. The program runs on
 * a backend that Valgrind supports, reports no error, and ends.
 */
#include "support/support.h"

#define NO_VALGRIND 127

FIBER(add_one, (weft_value)arg + 1)

/* Use sockets, timers, other threads and a file. Do not use Check. */
static int run_child(void)
{
    struct stat status;
    bool is_good = does_echo() && weft_sleep(0.001) == 0 &&
                   weft_offload(add_one, (void *)41) == 42 && weft_stat("/", &status) == 0 &&
                   weft_cord_join(weft_cord_start(add_one, (void *)1, NULL)) == 2;
    printf("%s: %s\n", weft_backend_name(), weft_backend_why());
    return is_good ? 0 : 1;
}

static const char *own_path;

/*
 * Run this program under Valgrind. Return its status and all output. Valgrind warns about unknown
 * system calls, which are not errors.
 */
static const outcome *run_on_valgrind(void)
{
    static outcome out;
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        dup2(fd[1], STDOUT_FILENO);
        dup2(fd[1], STDERR_FILENO);
        close(fd[0]);
        close(fd[1]);
        execlp("valgrind", "valgrind", "-q", "--error-exitcode=99", own_path, "child", NULL);
        _exit(NO_VALGRIND);
    }
    close(fd[1]);
    read_all(fd[0], out.text, sizeof out.text);
    close(fd[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    out.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    return &out;
}

/* The value of WEFT_BACKEND, and the text that the program prints then if both are built in. */
static const char *const choices[][2] = {
#ifdef WEFT_HAS_URING
    {NULL, "epoll: io_uring is not used under Valgrind unless WEFT_BACKEND names it\n"},
#else
    {NULL, ""},
#endif
#ifdef WEFT_HAS_EV
    {"libev", "libev: WEFT_BACKEND names it\n"},
#else
    {"libev", ""},
#endif
};

START_TEST(a_program_under_valgrind_runs_without_an_error_on_epoll_or_a_named_backend)
{
    for (size_t i = 0; i < COUNT_OF(choices) && !is_sanitized(); i++) {
        unsetenv("WEFT_BACKEND");
        if (choices[i][0] != NULL)
            setenv("WEFT_BACKEND", choices[i][0], 1);
        const outcome *o = run_on_valgrind();
        if (o->status == NO_VALGRIND) {
            printf("skipped: valgrind is not installed\n");
            return;
        }
        ck_assert_msg(o->status == 0, "status %d: %.300s", o->status, o->text);
        assert_printed(o, choices[i][1]);
    }
}

static const TTest *const *const tests[] = {
    &a_program_under_valgrind_runs_without_an_error_on_epoll_or_a_named_backend,
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "child") == 0)
        return run_child();
    own_path = argv[0];
    return run_suite("valgrind", tests, COUNT_OF(tests));
}
