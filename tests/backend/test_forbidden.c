/*
 * Tests of a process that may not use io_uring, as in most containers. weft falls back to epoll,
 * and weft_backend_why names the reason.
 */
#include "support/net_support.h"
#include "support/seccomp.h"
#include "support/suite.h"

/* The system calls of io_uring, for a filter. */
enum { SETUP = 1, ENTER = 2, REGISTER = 4, ALL = 7 };

/* Make these system calls fail with error. Return false if the filter cannot be installed. */
static bool forbid_io_uring(unsigned calls, int error)
{
    return (!(calls & SETUP) || refuse_system_call(SYS_io_uring_setup, error)) &&
           (!(calls & ENTER) || refuse_system_call(SYS_io_uring_enter, error)) &&
           (!(calls & REGISTER) || refuse_system_call(SYS_io_uring_register, error));
}

/*
 * The forbidden calls and their error, set before the program starts. weft_backend_why must contain
 * the error.
 */
static unsigned forbidden_calls;
static int forbidden_error;

/* Without io_uring in the build, weft_backend_why does not mention it. */
#ifdef WEFT_HAS_URING
#define HAS_URING true
#else
#define HAS_URING false
#endif

static int run_forbidden(void)
{
    if (!forbid_io_uring(forbidden_calls, forbidden_error))
        return 77;
    if (strcmp(weft_backend_name(), "epoll") != 0)
        return 2;
    const char *why = weft_backend_why();
    if (HAS_URING &&
        (strstr(why, "io_uring") == NULL || strstr(why, strerror(forbidden_error)) == NULL)) {
        fprintf(stderr, "%s\n", why);
        return 3;
    }
    return does_echo() ? 0 : 4;
}

/* Open a backend in a second thread, which must not print a second message. */
FIBER(compare_backend_name, strcmp(weft_backend_name(), "epoll"))

static int run_in_two_threads(void)
{
    int status = run_forbidden();
    if (status == 0 && weft_cord_join(weft_cord_start(compare_backend_name, NULL, NULL)) != 0)
        return 5;
    return status;
}

static const outcome *run_without(unsigned calls, int error)
{
    forbidden_calls = calls;
    forbidden_error = error;
    const outcome *o = run_apart(run_in_two_threads);
    if (o->status == 77)
        printf("skipped: seccomp filters cannot be installed\n");
    return o->status != 77 ? o : NULL;
}

static const struct {
    unsigned calls;
    int error;
} refusals[] = {{ALL, EPERM}, {ALL, ENOSYS}, {ENTER, EPERM}, {ENTER, ENOSYS}, {REGISTER, EPERM}};

TEST_LOOP(if_io_uring_is_refused_or_unknown_epoll_is_used_without_a_message, COUNT_OF(refusals))
{
    unsetenv("WEFT_BACKEND");
    const outcome *o = run_without(refusals[_i].calls, refusals[_i].error);
    if (o != NULL)
        ck_assert_quiet(o, 0);
}

#ifdef WEFT_HAS_URING
/* The message appears once, however many threads open a backend. */
TEST_LOOP(a_backend_that_is_named_and_cannot_be_opened_is_reported_once, 3)
{
    setenv("WEFT_BACKEND", "io_uring", 1);
    const outcome *o = run_without(refusals[_i].calls, refusals[_i].error);
    if (o != NULL)
        assert_exited(o, 0,
                      format("weft: the backend io_uring cannot be opened: %s; using epoll\n",
                             strerror(refusals[_i].error)));
}

/* Name io_uring in the options of two cords. The main thread uses epoll. */
static int name_in_options(void)
{
    const weft_cord_options options = {.backend = "io_uring"};
    if (!forbid_io_uring(ALL, EPERM))
        return 77;
    for (int i = 0; i < 2; i++)
        if (weft_cord_join(weft_cord_start(compare_backend_name, NULL, &options)) != 0)
            return 2;
    return 0;
}

/* The child inherits io_uring and cannot open it. Nobody has named it in the child. */
static int inherit_after_fork(void)
{
    if (strcmp(weft_backend_name(), "io_uring") != 0)
        return 0; /* io_uring does not work on this machine */
    if (!forbid_io_uring(SETUP, EPERM))
        return 77;
    pid_t pid = weft_fork();
    if (pid == 0)
        _exit(strcmp(weft_backend_name(), "epoll") == 0 ? 0 : 3);
    int status = 0;
    return pid > 0 && weft_waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 2;
}

TEST(a_backend_in_the_options_of_a_cord_that_cannot_be_opened_is_reported_once)
{
    setenv("WEFT_BACKEND", "epoll", 1);
    const outcome *o = run_apart(name_in_options);
    if (o->status != 77)
        assert_exited(
            o, 0,
            "weft: the backend io_uring cannot be opened: Operation not permitted; using epoll\n");
}

TEST(a_backend_that_a_forked_process_inherits_and_cannot_open_is_not_reported)
{
    unsetenv("WEFT_BACKEND");
    const outcome *o = run_apart(inherit_after_fork);
    if (o->status != 77)
        ck_assert_quiet(o, 0);
}
#endif
