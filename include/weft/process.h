/*
 * Processes: start programs, exchange data with them, wait for them, end them.
 *
 *     weft_output got;
 *     char *const argv[] = {"sort", "-u", NULL};
 *     int status = weft_run(argv, text, text_bytes, NULL, &got);
 *     if (status == 0)                // the program has exited with status 0
 *         use(got.out, got.out_bytes);
 *     if (status >= 0)
 *         weft_output_free(&got);
 *
 * A status has the format of waitpid(2), for WIFEXITED, WEXITSTATUS and WTERMSIG. A status is never
 * negative, and never lost. A call that has taken a status returns the status. A cancellation then
 * takes effect at the next call. weft installs no handler for SIGCHLD, and does not affect a
 * handler of the program. If the program ignores SIGCHLD (SIG_IGN, SA_NOCLDWAIT), the kernel stores
 * no status. A wait then returns -ECHILD when the child has ended.
 *
 * If the kernel provides a pidfd (Linux 5.4), a wait returns as soon as the child ends. Otherwise
 * weft polls, and a wait returns at most 20 ms late. There is no pidfd if the system forbids
 * pidfds, or if the process has too many open descriptors.
 *
 * Starting a program blocks the calling thread until the child executes the program. The start
 * takes about 0.2 ms, or longer if the program is on a slow file system. weft uses posix_spawn(3),
 * which does not copy the memory of the caller. No code of the calling program runs in the child.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <weft/fork.h>
#include <weft/stream.h>

#include <sys/types.h>

WEFT_BEGIN

/**
 * Wait for a child to end. See waitpid(2).
 *
 * pid selects a process (pid > 0), any child (-1), the process group of the caller (0), or the
 * group -pid. Any thread may wait for any child of the process. The call stores the status in
 * *status, unless status is NULL.
 *
 * If options contains WNOHANG, the call returns 0 instead of waiting. If options contains WUNTRACED
 * or WCONTINUED, the call also returns when a child stops or continues. weft polls if options
 * contains one of these two flags, or if pid is not positive. The call then returns at most 20 ms
 * late.
 *
 * A cancelled call does not affect the child. Another call can wait for the child.
 *
 * Returns the pid of the child, or:
 * -ECHILD if no such child exists
 * -ECHILD if other code has taken the status of the child
 * -EINVAL if options contains another flag
 */
WEFT_SWITCHPOINT pid_t weft_waitpid(pid_t pid, int *status, int options);

/* The source or target of a standard stream of a process. */
typedef enum weft_stdio {
    WEFT_STDIO_DEFAULT, /* weft_spawn_process: WEFT_STDIO_INHERIT; weft_run: see weft_run */
    WEFT_STDIO_INHERIT, /* the caller's stream */
    WEFT_STDIO_NULL,    /* /dev/null */
    WEFT_STDIO_PIPE,    /* a pipe to the caller */
    WEFT_STDIO_FD,      /* in_fd, out_fd or err_fd; remains open in the caller */
    WEFT_STDIO_OUT,     /* stderr only: the target of stdout */
} weft_stdio;

/* The effect of a cancelled or interrupted weft_process_wait on the process. */
typedef enum weft_on_cancel {
    WEFT_ON_CANCEL_LEAVE, /* the process continues, and another call can wait for it */
    WEFT_ON_CANCEL_END,   /* the wait first ends the process, as weft_process_end does */
} weft_on_cancel;

/* How to start a process. All-zero is the default. */
typedef struct weft_process_options {
    const char *path;         /* file to execute; NULL: argv[0] */
    char *const *environment; /* "NAME=value", with NULL at the end; NULL: the caller's */
    char *const *set;   /* changes to environment: "NAME=value" sets, "NAME" removes; NULL: none */
    const char *folder; /* working directory; NULL: the caller's */
    weft_stdio in, out, err;   /* standard streams */
    int in_fd, out_fd, err_fd; /* for WEFT_STDIO_FD */
    bool has_group; /* the process leads a new process group, which receives all signals */
    bool keeps_fds; /* inherit all descriptors that are not close-on-exec; false: only 0 to 2 */
    weft_on_cancel on_cancel;
    double grace_s; /* from SIGTERM to SIGKILL in weft_process_close and cancelled waits; 0: 5 s */
    size_t output_bytes_max; /* weft_run: limit for each stream; 0: 64 MiB */
} weft_process_options;

/*
 * A process that weft_spawn_process has started, in the caller's memory. Only one thread may use
 * the process. An all-zero or closed process is not open. Calls on a process that is not open
 * return -EBADF. All calls of io.h accept the descriptors. A caller that closes a descriptor, or
 * hands the descriptor to a stream, must set its field to -1.
 */
typedef struct weft_process {
    pid_t pid;                 /* 0: not open */
    int in;                    /* write end of the standard input; -1: no pipe */
    int out, err;              /* read ends of the outputs; -1: no pipe */
    uint64_t weft__private[4]; /* do not access */
} weft_process;

/**
 * Start a program.
 *
 * The program is options->path, or argv[0] if path is NULL. If the name contains no slash, the call
 * searches the directories in PATH. A relative path is relative to the working directory of the
 * process. argv must end with NULL. If options is NULL, the defaults apply.
 *
 * The process starts with no signal blocked. SIGPIPE and SIGCHLD have their default dispositions.
 * All other signals that the caller ignores remain ignored. The process inherits only its three
 * standard streams, unless keeps_fds is true. The caller's ends of pipes are close-on-exec.
 *
 * Close the process with weft_process_close. If the call fails, weft_error() returns the message.
 *
 * Returns 0, an error of chdir(2) or execve(2), or:
 * -E2BIG if the arguments and the environment are too large
 * -EACCES if the program or the working directory is not accessible
 * -EAGAIN if there are too many processes
 * -EBADF if in_fd, out_fd or err_fd is used and not open
 * -EINVAL if argv or argv[0] is NULL
 * -EINVAL if grace_s is negative or NaN
 * -EINVAL if the kind of a stream is invalid
 * -EMFILE if too many descriptors are open
 * -ENOENT if the interpreter of the program does not exist
 * -ENOENT if the program or the working directory does not exist
 * -ENOEXEC if the format of the program is unknown
 * -ENOMEM if memory is exhausted
 */
WEFT_SWITCHPOINT int weft_spawn_process(weft_process *process, char *const argv[],
                                        const weft_process_options *options) WEFT_MUST_CHECK;

/**
 * Wait until a process has ended. Return its status.
 *
 * Several fibers may wait. A call after the end of the process returns the status again. If the
 * wait is cancelled or interrupted and on_cancel is WEFT_ON_CANCEL_END, the call ends the process.
 * After a cancelled or interrupted wait, another call can get the status.
 *
 * Returns the status, or:
 * -EBADF if another fiber closes process during the call
 * -EBADF if process is not open
 * -ECHILD if other code has taken the status, for example weft_waitpid
 */
WEFT_SWITCHPOINT int weft_process_wait(weft_process *process);

/**
 * Send a signal to a process, or to its process group.
 *
 * If has_group is true, the call sends the signal to the group. The call never sends the signal to
 * a new process with the same pid.
 *
 * Returns 0, or:
 * -EBADF if process is not open
 * -EINVAL if signal is not a signal number
 * -EPERM if the caller may not signal the process
 * -ESRCH if the status of the process has already been taken
 */
WEFT_API int weft_process_kill(weft_process *process, int signal);

/**
 * End a process with SIGTERM, and after grace_s seconds with SIGKILL.
 *
 * If has_group is true, the call sends the signals to the group. Members of the group that outlive
 * the process continue to run. The call also sends SIGCONT, because the process may be stopped. The
 * call cannot be cancelled.
 *
 * Returns the status when the process has ended, or:
 * -EBADF if process is not open
 * -ECHILD if other code has taken the status
 * -EINVAL if grace_s is negative or NaN
 * -EPERM if the caller may not signal the process
 */
WEFT_SWITCHPOINT int weft_process_end(weft_process *process, double grace_s);

/**
 * Close the pipes of a process, end the process and release it.
 *
 * The call ends a running process as weft_process_end does, with grace_s from the options of the
 * process. If the process should end by itself, close its input and wait before this call. The call
 * cannot be cancelled, and is suitable for WEFT_DEFER. The call closes process even if the call
 * returns -ECHILD or -EPERM.
 *
 * Returns the status, or:
 * -EBADF if process is not open
 * -ECHILD if other code has taken the status
 * -EPERM if the caller may not signal the process
 */
WEFT_SWITCHPOINT int weft_process_close(weft_process *process);

/**
 * Close the pipes of a process, and release the running process.
 *
 * The process continues to run. The caller then waits for the process with weft_waitpid. The call
 * closes the pipes even if the call returns -ECHILD.
 *
 * Returns the pid, or:
 * -EBADF if process is not open
 * -ECHILD if the status of the process has already been taken
 */
WEFT_SWITCHPOINT pid_t weft_process_detach(weft_process *process);

/*
 * The output of a program. Each buffer ends with a NUL. NULL: not captured. The struct may gain
 * fields at the end. See version.h.
 */
typedef struct weft_output {
    char *out;
    size_t out_bytes;
    char *err;
    size_t err_bytes;
} weft_output;

/** Like weft_run, for an output of output_size bytes. Private. */
WEFT_SWITCHPOINT int weft__run(char *const argv[], const void *input, size_t input_bytes,
                               const weft_process_options *options, weft_output *output,
                               size_t output_size);

/** Like weft_output_free, for an output of size bytes. Private. */
WEFT_API void weft__output_free(weft_output *output, size_t size);

/**
 * Run a program to its end. Collect its output.
 *
 * By default, the program reads input as its standard input. If input is NULL, the program reads
 * /dev/null. The call writes the input and reads both outputs at the same time. The call does not
 * fail if the program does not read its input.
 *
 * By default, the call captures both outputs, as with WEFT_STDIO_PIPE. If an option selects another
 * target for a stream, the buffer of the stream in output is NULL. If output is NULL, the program
 * inherits the outputs of the caller. The call does not wait for processes that the program leaves
 * running, and does not capture their later output.
 *
 * If the call fails or is cancelled, the call ends the program as weft_process_close does. output
 * is then empty. Otherwise, free output with weft_output_free. The call ignores on_cancel.
 *
 * Returns the status. Errors in addition to those of weft_spawn_process and weft_process_wait:
 * -EINVAL if input is not NULL, and options->in is not a pipe
 * -EMSGSIZE if the program writes more than output_bytes_max to a stream
 */
static inline int weft_run(char *const argv[], const void *input, size_t input_bytes,
                           const weft_process_options *options, weft_output *output)
{
    return weft__run(argv, input, input_bytes, options, output, sizeof *output);
}

/** Free the output of weft_run. If output is all-zero, the call does nothing. */
static inline void weft_output_free(weft_output *output)
{
    weft__output_free(output, sizeof *output);
}

/**
 * Run a command with /bin/sh -c and the caller's standard streams.
 *
 * If the wait for the shell is cancelled, the call ends the shell with SIGTERM, and after 5 s with
 * SIGKILL. The shell runs in the process group of the caller. Signals of a terminal therefore reach
 * the shell. Processes that the shell has started may outlive the shell. Unlike system(3), the call
 * does not ignore SIGINT and SIGQUIT, because other fibers run.
 *
 * Returns the status. The status is 127 << 8 if the shell does not find the command. Errors in
 * addition to those of weft_spawn_process and weft_process_wait:
 * -EINVAL if command is NULL
 */
WEFT_SWITCHPOINT int weft_system(const char *command);

/**
 * Start a command with /bin/sh -c and open a stream to it. See popen(3).
 *
 * If mode is "r", the stream reads the output of the command. If mode is "w", the stream writes the
 * input of the command. All other standard streams are the streams of the caller.
 *
 * weft_stream_close closes the pipe, waits for the command and returns its status, as pclose(3)
 * does. If the last flush fails, weft_stream_close returns the error of the flush. The error
 * is -EPIPE if the command has stopped reading. If weft_stream_close is cancelled, it ends the
 * command as weft_system does.
 *
 * Returns 0. Errors in addition to those of weft_spawn_process:
 * -EINVAL if command is NULL
 * -EINVAL if mode is not "r" or "w"
 */
WEFT_SWITCHPOINT int weft_popen(weft_stream *stream, const char *command,
                                const char *mode) WEFT_MUST_CHECK;

WEFT_END

#endif
