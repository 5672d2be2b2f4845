/*
 * Helpers for the tests of processes: children that end on request, and a check that neither
 * children nor descriptors remain.
 */
#ifndef TESTS_SUPPORT_PROCESS_SUPPORT_H
#define TESTS_SUPPORT_PROCESS_SUPPORT_H

#include "support/support.h"

#include <fcntl.h>

#define ARGV(...)         \
    (char *[])            \
    {                     \
        __VA_ARGS__, NULL \
    }
#define SHELL(command) ARGV("/bin/sh", "-c", command)

/* Count the open descriptors after one child, when the backend has opened all of its own. */
static inline int count_warm_descriptors(void)
{
    ck_assert_int_eq(weft_system("exit 0"), 0);
    return count_descriptors();
}

/* True if this process has no child, not even a zombie. */
static inline bool has_no_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* Assert that no child and no additional descriptor remains. */
#define ck_assert_nothing_left(descriptors)                   \
    do {                                                      \
        ck_assert(has_no_children());                         \
        ck_assert_int_eq(count_descriptors(), (descriptors)); \
    } while (0)

/* For a FIXTURE: assert that a test leaves no child and no additional descriptor. */
static int descriptors;

static inline void count_before(void)
{
    descriptors = count_warm_descriptors();
}

static inline void assert_none_left(void)
{
    ck_assert_nothing_left(descriptors);
}

static inline weft_process spawn(char *const argv[], weft_process_options o)
{
    weft_process p;
    int rc = weft_spawn_process(&p, argv, &o);
    ck_assert_msg(rc == 0, "%d: %s", rc, rc < 0 && weft_error() ? weft_error()->message : "");
    ck_assert_int_gt(p.pid, 0);
    return p;
}

/* Start a detached child. */
static inline pid_t start_shell(const char *command)
{
    weft_process p = spawn(SHELL((char *)(uintptr_t)command), (weft_process_options){0});
    return weft_process_detach(&p);
}

/*
 * Start a detached child with a pipe as its input. Writing to go or closing it lets the child
 * continue.
 */
static inline pid_t start_shell_held(const char *command, int *go)
{
    int fd[2];
    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
    weft_process p = spawn(SHELL((char *)(uintptr_t)command),
                           (weft_process_options){.in = WEFT_STDIO_FD, .in_fd = fd[0]});
    close(fd[0]);
    *go = fd[1];
    return weft_process_detach(&p);
}

/* Read one line of a process's output and compare it. */
static inline void expect_line(int fd, const char *line)
{
    char got[64] = "";
    for (size_t n = 0; n < sizeof got - 1 && strchr(got, '\n') == NULL; n++)
        ck_assert_int_eq(weft_read(fd, got + n, 1), 1);
    ck_assert_str_eq(got, line);
}

/* Read all output up to its end. */
static inline const char *read_text(int fd)
{
    static char text[4096];
    ssize_t n = weft_read_full(fd, text, sizeof text - 1);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

FIBER(wait_for_process, weft_process_wait(arg))

/* Return a fiber that waits in weft_process_wait. */
static inline weft_fiber spin_process_waiter(weft_process *p)
{
    return spin_waiting(wait_for_process, p);
}

#endif
