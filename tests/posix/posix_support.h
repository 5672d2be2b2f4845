/*
 * Support for tests of libweft-posix. A test program calls libc's functions as a stock library
 * does. The program adopts itself, or runs with libweft-preload.
 */
#ifndef TESTS_POSIX_POSIX_SUPPORT_H
#define TESTS_POSIX_POSIX_SUPPORT_H

#include "support/suite.h"

#include <weft/posix.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Return whether the program runs with libweft-preload. */
static inline bool is_preloaded(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload != NULL && strstr(preload, "weft-preload") != NULL;
}

/* Hook the calls of this program. Use this function as set_up of a FIXTURE. */
static inline void adopt_program(void)
{
    if (!is_preloaded())
        ck_assert_int_gt(weft_adopt("", NULL), 0);
}

/* Start a process that exits with 7 when the pipe is closed. */
static inline pid_t start_waiting_child(int *close_to_end)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 7 : 1);
    }
    close(ends[0]);
    *close_to_end = ends[1];
    return pid;
}

static inline weft_posix_counters posix_stats(void)
{
    weft_posix_counters counters;
    weft_posix_stats(&counters);
    return counters;
}

#endif
