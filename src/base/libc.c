/* Replacements for functions that the C library lacks. See libc.h. */
#include "base/libc.h"

#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>

#ifndef WEFT_HAS_BACKTRACE
#define ADDRESS_BYTES (2 + 2 * sizeof(void *) + 1) /* "0x", the digits, and one more byte */

/* Write "0x" and the digits in front of `end`. Return the first byte. */
static char *address_format(const void *address, char *end)
{
    uintptr_t value = (uintptr_t)address;
    do {
        *--end = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    *--end = 'x';
    *--end = '0';
    return end;
}

void backtrace_symbols_fd(void *const *addresses, int n, int fd)
{
    for (int i = 0; i < n; i++) {
        char text[ADDRESS_BYTES], *newline = text + sizeof text - 1;
        *newline = '\n';
        const char *first = address_format(addresses[i], newline);
        if (write(fd, first, (size_t)(newline + 1 - first)) < 0)
            return;
    }
}

char **backtrace_symbols(void *const *addresses, int n)
{
    char **names = malloc((size_t)n * (sizeof *names + ADDRESS_BYTES));
    if (names == NULL)
        return NULL;
    char *text = (char *)(names + n);
    for (int i = 0; i < n; i++) {
        text += ADDRESS_BYTES;
        text[-1] = '\0';
        names[i] = address_format(addresses[i], text - 1);
    }
    return names;
}
#endif

#if !defined WEFT_HAS_SEM_CLOCKWAIT || !defined WEFT_HAS_PTHREAD_COND_CLOCKWAIT

static const int64_t ns_per_s = 1000000000;

static int64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * ns_per_s + now.tv_nsec;
}

static int64_t remaining_ns(clockid_t clock, const struct timespec *until)
{
    return until->tv_sec * ns_per_s + until->tv_nsec - now_ns(clock);
}

/*
 * Convert a time of `clock` to the corresponding time of CLOCK_REALTIME. The result is wrong after
 * CLOCK_REALTIME is set.
 */
static struct timespec to_realtime(clockid_t clock, const struct timespec *until)
{
    int64_t ns = now_ns(CLOCK_REALTIME) + remaining_ns(clock, until);
    return (struct timespec){.tv_sec = (time_t)(ns / ns_per_s), .tv_nsec = (long)(ns % ns_per_s)};
}

#endif

#ifndef WEFT_HAS_SEM_CLOCKWAIT
int sem_clockwait(sem_t *sem, clockid_t clock, const struct timespec *until)
{
    for (;;) {
        const struct timespec realtime = to_realtime(clock, until);
        int rc = sem_timedwait(sem, &realtime);
        if (rc == 0 || errno != ETIMEDOUT || remaining_ns(clock, until) <= 0)
            return rc;
    }
}
#endif

#ifndef WEFT_HAS_PTHREAD_COND_CLOCKWAIT
int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *lock, clockid_t clock,
                           const struct timespec *until)
{
    for (;;) {
        const struct timespec realtime = to_realtime(clock, until);
        int rc = pthread_cond_timedwait(cond, lock, &realtime);
        if (rc != ETIMEDOUT || remaining_ns(clock, until) <= 0)
            return rc;
    }
}
#endif

#ifndef WEFT_HAS_POSIX_SPAWN_FILE_ACTIONS_ADDCLOSEFROM_NP
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from)
{
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL)
        return errno;
    int rc = 0;
    for (const struct dirent *entry; rc == 0 && (entry = readdir(directory)) != NULL;) {
        int fd = atoi(entry->d_name); /* 0 for "." and ".." */
        if (fd >= from && fd > 0)
            rc = posix_spawn_file_actions_addclose(actions, fd);
    }
    closedir(directory);
    return rc;
}
#endif

#ifndef WEFT_HAS_SIGABBREV_NP
const char *sigabbrev_np(int signal)
{
    static const char *const names[] = {
        [SIGHUP] = "HUP",       [SIGINT] = "INT",   [SIGQUIT] = "QUIT",   [SIGILL] = "ILL",
        [SIGTRAP] = "TRAP",     [SIGABRT] = "ABRT", [SIGBUS] = "BUS",     [SIGFPE] = "FPE",
        [SIGKILL] = "KILL",     [SIGUSR1] = "USR1", [SIGSEGV] = "SEGV",   [SIGUSR2] = "USR2",
        [SIGPIPE] = "PIPE",     [SIGALRM] = "ALRM", [SIGTERM] = "TERM",   [SIGSTKFLT] = "STKFLT",
        [SIGCHLD] = "CHLD",     [SIGCONT] = "CONT", [SIGSTOP] = "STOP",   [SIGTSTP] = "TSTP",
        [SIGTTIN] = "TTIN",     [SIGTTOU] = "TTOU", [SIGURG] = "URG",     [SIGXCPU] = "XCPU",
        [SIGXFSZ] = "XFSZ",     [SIGPROF] = "PROF", [SIGPWR] = "PWR",     [SIGSYS] = "SYS",
        [SIGVTALRM] = "VTALRM", [SIGPOLL] = "POLL", [SIGWINCH] = "WINCH",
    };
    size_t count = sizeof names / sizeof *names;
    return signal > 0 && (size_t)signal < count ? names[signal] : NULL;
}
#endif
