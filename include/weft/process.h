/*
 * Processes: starting programs, talking to them, waiting for them, ending them.
 *
 *     weft_output got;
 *     char *const argv[] = {"sort", "-u", NULL};
 *     int status = weft_run(argv, text, text_bytes, NULL, &got);
 *     if (status == 0)                // it exited with 0, as waitpid(2) says it
 *         use(got.out, got.out_bytes);
 *     if (status >= 0)
 *         weft_output_free(&got);
 *
 * A status is what waitpid(2) gives: never negative, for WIFEXITED, WEXITSTATUS, WTERMSIG. It is
 * never lost: a call that had taken it returns it, and a cancellation strikes at the next call. No
 * handler for SIGCHLD is installed, and none of the program's is disturbed. Where the program
 * ignores SIGCHLD (SIG_IGN, SA_NOCLDWAIT), the kernel keeps no status: a wait still lasts as long
 * as the child, and is -ECHILD then.
 *
 * Where the kernel tells of a child's end by a descriptor (Linux 5.4; it may be forbidden, or there
 * may be no descriptor left), the wait is over at once; elsewhere weft looks for it again and
 * again, and is at most 20 ms late.
 *
 * Starting a program stops the calling thread until the child has executed it: some 0.2 ms, more
 * where the program's file is on a slow file system; nothing of the caller's memory is copied. It
 * is done with posix_spawn(3): no code of the program runs in the child.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <weft/fork.h>
#include <weft/stream.h>

#include <sys/types.h>

WEFT_BEGIN

/**
 * Wait for a child to end, as waitpid(2): a process (pid > 0), any child (-1), one of the caller's
 * process group (0) or of the group -pid. Returns its pid, and its status in *status (may be NULL).
 * Options: WNOHANG, returns 0 instead of waiting; WUNTRACED and WCONTINUED, a child that has
 * stopped or goes on counts, too. Any thread may wait for any child of the process.
 *
 * Cancelled, it leaves the child alone, which can be waited for again. -ECHILD if there is no such
 * child, or somebody else has waited for it meanwhile; -EINVAL for other options. With a pid that
 * is not positive, and with WUNTRACED or WCONTINUED, nothing tells of the end but looking: it is at
 * most 20 ms late.
 */
WEFT_SWITCHPOINT pid_t weft_waitpid(pid_t pid, int *status, int options);

/* What becomes of a standard stream of a process. */
typedef enum weft_stdio {
    WEFT_STDIO_DEFAULT, /* as the call says; weft_spawn_process: WEFT_STDIO_INHERIT */
    WEFT_STDIO_INHERIT, /* it has ours */
    WEFT_STDIO_NULL,    /* /dev/null */
    WEFT_STDIO_PIPE,    /* a pipe to us */
    WEFT_STDIO_FD,      /* the descriptor that in_fd, out_fd or err_fd names; ours stays open */
    WEFT_STDIO_OUT,     /* stderr only: where its stdout goes */
} weft_stdio;

/* What becomes of a process when somebody who waits for it is cancelled. */
typedef enum weft_on_cancel {
    WEFT_ON_CANCEL_LEAVE, /* it runs on, and can be waited for again */
    WEFT_ON_CANCEL_END,   /* it is ended, as by weft_process_end, before the wait returns */
} weft_on_cancel;

/* How to start a process; all-zero is the default. NULL is not asked for. */
typedef struct weft_process_options {
    const char *path;          /* what to execute, when that is not argv[0] */
    char *const *environment;  /* all of it, "NAME=value", NULL at the end; NULL: as ours */
    char *const *set;          /* and of that, set these; "NAME" alone: take it away */
    const char *folder;        /* to begin in; NULL: ours */
    weft_stdio in, out, err;   /* its standard streams */
    int in_fd, out_fd, err_fd; /* for WEFT_STDIO_FD */
    bool has_group;            /* it leads a process group of its own, which is ended with it */
    bool keeps_fds;            /* it has all descriptors that are not close-on-exec; else 0 to 2 */
    weft_on_cancel on_cancel;
    double grace_s;          /* from SIGTERM to SIGKILL, when it is ended unasked; 0: 5 s */
    size_t output_bytes_max; /* weft_run: of each stream; 0: 64 MiB */
} weft_process_options;

/*
 * A process that was started here: the caller's memory, for one thread. All-zero, and once closed,
 * it is none, and calls on it are -EBADF. The descriptors may be used with any call; who has closed
 * one, or handed it to a stream, puts -1 there.
 */
typedef struct weft_process {
    pid_t pid;                 /* 0: none */
    int in;                    /* to write its standard input to; -1: no pipe */
    int out, err;              /* to read its output from; -1: no pipe */
    uint64_t weft__private[4]; /* not to be touched */
} weft_process;

/**
 * Start a program: argv[0], or options->path, which is looked for in PATH if it has no slash; argv
 * ends with NULL. The path, unless it is absolute, counts from the folder that it begins in.
 *
 * The process begins with no signal blocked; SIGPIPE and SIGCHLD are at their default, what else
 * the program ignores is ignored there, too. It has none of the caller's descriptors but its three
 * standard streams, unless keeps_fds says so. Pipes are close-on-exec here.
 *
 * Returns 0; then it is to be closed with weft_process_close. What prevents the program from being
 * executed is what this returns, and weft_error() has the words: -ENOENT (no such program, or
 * folder), -EACCES, -ENOEXEC, -E2BIG; -EBADF for a descriptor that is not open, -EINVAL for options
 * that make no sense, -EMFILE, -EAGAIN (too many processes), -ENOMEM.
 */
WEFT_SWITCHPOINT int weft_spawn_process(weft_process *process, char *const argv[],
                                        const weft_process_options *options) WEFT_MUST_CHECK;

/**
 * Wait until the process has ended; returns its status, again and again if asked. Several fibers
 * may wait. Cancelled, it does what on_cancel says: leave the process alone, or end it; its status
 * can be had by waiting again. (Interrupted with a value it leaves it alone.) -ECHILD if somebody
 * else has taken its status, with weft_waitpid say, -EBADF if another fiber closes it meanwhile.
 */
WEFT_SWITCHPOINT int weft_process_wait(weft_process *process);

/**
 * Send a signal to the process, or to its group if it has one of its own. Never to another process
 * that has its pid by now: -ESRCH if its status has been taken. -EPERM if it has changed its user.
 */
WEFT_API int weft_process_kill(weft_process *process, int signal);

/**
 * End the process: SIGTERM, and after grace_s seconds SIGKILL; returns its status once it has
 * ended. To its whole group if it has one; members that survive SIGTERM longer than the process
 * itself does are left. (SIGCONT goes along, for one that is stopped.) Not cancellable.
 * -EINVAL for a grace time that is negative or NaN, -EPERM if it may not be killed, -ECHILD.
 */
WEFT_SWITCHPOINT int weft_process_end(weft_process *process, double grace_s);

/**
 * Close the pipes, end the process if it still runs (as weft_process_end, with the grace time of
 * its options), and forget it; returns its status. Not cancellable: for WEFT_DEFER. Who wants the
 * process to end by itself closes its input and waits first.
 */
WEFT_SWITCHPOINT int weft_process_close(weft_process *process);

/**
 * Close the pipes and forget the process, but let it run; returns its pid: it is the caller's to
 * wait for, with weft_waitpid. -ECHILD if its status has been taken already.
 */
WEFT_SWITCHPOINT pid_t weft_process_detach(weft_process *process);

/* What a program has written. Each has a NUL behind it, and is NULL if it was not captured. */
typedef struct weft_output {
    char *out;
    size_t out_bytes;
    char *err;
    size_t err_bytes;
} weft_output;

/**
 * Run a program to its end: its input is fed, its output and its errors are collected at the same
 * time; returns its status. Errors of the call, beside those of weft_spawn_process: -EMSGSIZE if it
 * writes more than options->output_bytes_max to a stream, -ENOMEM. Then, and when the call is
 * cancelled or cut short in another way, the program is ended as by weft_process_close, and output
 * holds nothing; else it is to be freed with weft_output_free.
 *
 * By default its standard input is input, nothing if that is NULL, and both outputs are captured;
 * for options that say otherwise output has NULL (WEFT_STDIO_PIPE is the default here). With an
 * output that is NULL, it inherits ours. A program that does not read its input is no error. What
 * it leaves running (a daemon, a command in the background) is not waited for, and what that writes
 * later is not captured.
 */
WEFT_SWITCHPOINT int weft_run(char *const argv[], const void *input, size_t input_bytes,
                              const weft_process_options *options, weft_output *output);

/** Free what weft_run has captured; an output that is all zero is fine. */
WEFT_API void weft_output_free(weft_output *output);

/**
 * Run a command by /bin/sh -c, with our standard streams; returns its status (of a shell that finds
 * no such command: 127 << 8). Cancelled, or cut short in another way, the shell is ended: SIGTERM,
 * and after 5 s SIGKILL; it is not in a group of its own, so that a terminal's signals reach it,
 * and what it had started itself may survive it. Unlike system(3), SIGINT and SIGQUIT are
 * not ignored meanwhile: others run. -EINVAL for NULL.
 */
WEFT_SWITCHPOINT int weft_system(const char *command);

/**
 * Start a command by /bin/sh -c, and open a stream to read its output (mode "r") or to write its
 * input ("w"); the other streams are ours. As popen(3), with weft_stream_close for pclose(3): it
 * closes the pipe, waits for the command and returns its status, or what the last flush said
 * (-EPIPE: the command had taken enough). Cancelled there, the command is ended as by
 * weft_system. -EINVAL for another mode.
 */
WEFT_SWITCHPOINT int weft_popen(weft_stream *stream, const char *command,
                                const char *mode) WEFT_MUST_CHECK;

WEFT_END

#endif
