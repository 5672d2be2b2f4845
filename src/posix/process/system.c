/*
 * Hook of system. The shell starts as in libc: the process ignores SIGINT and SIGQUIT, and the
 * thread blocks SIGCHLD, until the command ends. A worker thread could not run the function of
 * libc, because the shell would inherit the signal mask of the worker, which blocks all signals.
 */
#include "posix/hook.h"
#include "posix/process/child_wait.h"
#include "posix/wait.h"

#include <spawn.h>
#include <stdint.h>

extern char **environ;

/* The process: the number of running commands, and the actions before the first command. */
static pthread_mutex_t commands_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned commands;
static struct sigaction old_int, old_quit;

/* The thread: the same, for the signal mask. */
static __thread unsigned thread_commands;
static __thread bool was_child_blocked;

static void ignore_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    REAL(pthread_mutex_lock)(&commands_lock);
    if (commands++ == 0) {
        REAL(sigaction)(SIGINT, &ignore, &old_int);
        REAL(sigaction)(SIGQUIT, &ignore, &old_quit);
    }
    REAL(pthread_mutex_unlock)(&commands_lock);
}

static void restore_signals(void)
{
    REAL(pthread_mutex_lock)(&commands_lock);
    if (--commands == 0) {
        REAL(sigaction)(SIGINT, &old_int, NULL);
        REAL(sigaction)(SIGQUIT, &old_quit, NULL);
    }
    REAL(pthread_mutex_unlock)(&commands_lock);
}

/* Change the signal mask for SIGCHLD. Store whether SIGCHLD was blocked. */
static void mask_child(int how, sigset_t *old)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    pthread_sigmask(how, &child, old);
}

/* Store the signal mask that the command inherits. */
static void block_child(sigset_t *inherited)
{
    mask_child(SIG_BLOCK, inherited);
    if (thread_commands++ == 0)
        was_child_blocked = sigismember(inherited, SIGCHLD) == 1;
    if (!was_child_blocked)
        sigdelset(inherited, SIGCHLD);
}

static void unblock_child(void)
{
    if (--thread_commands == 0 && !was_child_blocked)
        mask_child(SIG_UNBLOCK, NULL);
}

/* Start the shell. Returns 0 or an error number. */
static int start_shell(pid_t *pid, const char *command, const sigset_t *mask)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t) "--",
                    (char *)(uintptr_t)command, NULL};
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    if (old_int.sa_handler != SIG_IGN)
        sigaddset(&defaults, SIGINT);
    if (old_quit.sa_handler != SIG_IGN)
        sigaddset(&defaults, SIGQUIT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawn(pid, "/bin/sh", NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* Wait for the command. If the wait fails, for example by a cancellation, the command continues. */
static int await_command(pid_t pid)
{
    int status;
    return weft__child_wait_end(pid, &status) == pid ? status : -1;
}

HOOK_DEFINE(int, system, (const char *command))
{
    if (!weft__hook_is_on() || command == NULL)
        return REAL(system)(command);
    sigset_t mask;
    pid_t pid;
    ignore_signals();
    block_child(&mask);
    int error = start_shell(&pid, command, &mask);
    int status = 127 << 8; /* as if the shell could not execute the command */
    if (error == 0)
        status = await_command(pid);
    unblock_child();
    restore_signals();
    if (error != 0)
        errno = error;
    return status;
}
