/*
 * Helpers for the acceptance tests: processes that a test kills and stops, memory that these
 * processes share with the test, waits for other processes, and figures.
 *
 * With WEFT_TEST_FULL=1, tests use the sizes of the issue. With WEFT_TEST_FIGURES=1, they print
 * figures on stderr.
 */
#ifndef TESTS_HUB_ACCEPT_ACCEPT_SUPPORT_H
#define TESTS_HUB_ACCEPT_ACCEPT_SUPPORT_H

#include "hub/hub_support.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define POLL_S 0.005

/* The size of a test: full if the environment asks for it, otherwise small. */
static inline unsigned test_size(unsigned small, unsigned full)
{
    return getenv("WEFT_TEST_FULL") != NULL ? full : small;
}

/* Print a line with figures. */
static inline __attribute__((format(printf, 1, 2))) void print_figures(const char *text, ...)
{
    if (getenv("WEFT_TEST_FIGURES") == NULL)
        return;
    va_list args;
    va_start(args, text);
    vfprintf(stderr, text, args);
    va_end(args);
}

/*
 * Wait until a condition is true, which other processes or fibers make true. Fail after a time
 * that is far longer than the condition needs.
 */
#define ck_await(seconds, condition)                                                     \
    do {                                                                                 \
        double ck_end = weft_now() + (seconds);                                          \
        while (!(condition)) {                                                           \
            ck_assert_msg(weft_now() < ck_end, "not within %g s: %s", (double)(seconds), \
                          #condition);                                                   \
            ck_assert_int_eq(weft_sleep(POLL_S), 0);                                     \
        }                                                                                \
    } while (0)

/* Return zeroed memory that the processes of a test share. */
static inline void *share_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    return memory;
}

/*
 * Start a process that runs fn(arg). The kernel kills it when the test ends. The process uses MUST
 * and MUST_EQ instead of Check. Start processes before the test opens a hub, so that they do not
 * inherit its connection.
 */
static inline pid_t start_process(int (*fn)(void *), void *arg)
{
    pid_t parent = getpid();
    pid_t pid = weft_fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    _exit(getppid() == parent ? fn(arg) : 127);
}

/* Kill a process. Assert that it has not ended before. */
static inline void kill_process(pid_t pid)
{
    int status;
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(weft_waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status), "process %d had ended with status %d", (int)pid,
                  WEXITSTATUS(status));
}

/* Stop a process. Its connections remain open. */
static inline void stop_process(pid_t pid)
{
    int status;
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
}

static inline void continue_process(pid_t pid)
{
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
}

#endif
