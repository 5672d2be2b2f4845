/*
 * What the tests of processes share: children that end when they are let go, and what must be left
 * over in the end, namely nothing.
 */
#ifndef TESTS_PROCESS_SUPPORT_H
#define TESTS_PROCESS_SUPPORT_H

#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#define ARGV(...)         \
    (char *[])            \
    {                     \
        __VA_ARGS__, NULL \
    }
#define SHELL(command) ARGV("/bin/sh", "-c", command)

static inline int count_descriptors(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

/* Descriptors of the backend are there, those that it makes later too. */
static inline int count_after_use(void)
{
    ck_assert_int_eq(weft_system("exit 0"), 0);
    return count_descriptors();
}

/* No child runs, and none is a zombie. */
static inline bool has_no_children(void)
{
    siginfo_t info;
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/* The end of a test: nothing is left. */
#define ck_assert_nothing_left(descriptors)                   \
    do {                                                      \
        ck_assert(has_no_children());                         \
        ck_assert_int_eq(count_descriptors(), (descriptors)); \
    } while (0)

static inline weft_process spawn(char *const argv[], weft_process_options o)
{
    weft_process p;
    int rc = weft_spawn_process(&p, argv, &o);
    ck_assert_msg(rc == 0, "%d: %s", rc, rc < 0 && weft_error() ? weft_error()->message : "");
    ck_assert_int_gt(p.pid, 0);
    return p;
}

/* A child that nobody keeps. */
static inline pid_t start(const char *command)
{
    weft_process p = spawn(SHELL((char *)(uintptr_t)command), (weft_process_options){0});
    return weft_process_detach(&p);
}

/* The same, running until go is closed: it gets a line then, or the end of its input. */
static inline pid_t start_held(const char *command, int *go)
{
    int fd[2];
    ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
    weft_process p = spawn(SHELL((char *)(uintptr_t)command),
                           (weft_process_options){.in = WEFT_STDIO_FD, .in_fd = fd[0]});
    close(fd[0]);
    *go = fd[1];
    return weft_process_detach(&p);
}

/* Wait for what a process writes first; a line of it. */
static inline void expect_line(int fd, const char *line)
{
    char got[64] = "";
    for (size_t n = 0; n < sizeof got - 1 && strchr(got, '\n') == NULL; n++)
        ck_assert_int_eq(weft_read(fd, got + n, 1), 1);
    ck_assert_str_eq(got, line);
}

/* All that it writes, to the end. */
static inline const char *read_text(int fd)
{
    static char text[4096];
    ssize_t n = weft_read_full(fd, text, sizeof text - 1);
    ck_assert_int_ge(n, 0);
    text[n] = '\0';
    return text;
}

static inline weft_value wait_for_process(void *arg)
{
    return weft_process_wait(arg);
}

/* A fiber in weft_process_wait. */
static inline weft_fiber spin_waiting(weft_process *p)
{
    weft_fiber f = weft_spin(wait_for_process, p);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

#endif
