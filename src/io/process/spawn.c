/*
 * Starting a program with posix_spawn(3). The child shares the memory of the parent until the child
 * executes the program, so no memory is copied. If the execution fails, the call returns the error.
 */
#include "base/libc.h"
#include "core/fiber/error.h"
#include "core/op/op.h"
#include "io/process/process.h"

#include <weft/error.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRACE_S_DEFAULT 5.0

#define STREAMS 3
/* The lowest descriptor after the standard streams. */
#define FD_FIRST 3

/* A standard stream during the start of a process. */
typedef struct std_stream {
    weft_stdio kind;
    int caller_fd; /* the caller's descriptor; -1: none */
    /*
     * The descriptor that becomes the stream. -1: none. The parent closes it after the start,
     * unless it is caller_fd.
     */
    int child_fd;
    int parent_fd; /* the parent's end of the pipe; -1: none */
} std_stream;

/* The setup of one process. spawn_run releases the setup. */
typedef struct spawn_setup {
    std_stream streams[STREAMS];
    const char *path;   /* the program; searched for in PATH unless it has a slash */
    char **environment; /* allocated by make_environment; NULL: not needed */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
} spawn_setup;

static const char *const stream_names[STREAMS] = {"stdin", "stdout", "stderr"};

static std_stream std_stream_of(weft_stdio kind, int fd)
{
    return (std_stream){kind, kind == WEFT_STDIO_FD ? fd : -1, -1, -1};
}

static int spawn_check(const spawn_setup *s, char *const argv[], const weft_process_options *o)
{
    if (argv == NULL || argv[0] == NULL)
        return weft_fail(-EINVAL, "weft_spawn_process: argv or argv[0] is NULL");
    if (!(o->grace_s >= 0))
        return weft_fail(-EINVAL, "weft_spawn_process: grace_s is %g", o->grace_s);
    for (int i = 0; i < STREAMS; i++) {
        const std_stream *stream = &s->streams[i];
        bool is_known = stream->kind < WEFT_STDIO_OUT || (stream->kind == WEFT_STDIO_OUT && i == 2);
        if (!is_known)
            return weft_fail(-EINVAL, "weft_spawn_process: the kind of %s is %d", stream_names[i],
                             (int)stream->kind);
        if (stream->kind == WEFT_STDIO_FD && fcntl(stream->caller_fd, F_GETFD) < 0)
            return weft_fail(-EBADF, "weft_spawn_process: %s: descriptor %d is not open",
                             stream_names[i], stream->caller_fd);
    }
    return 0;
}

static void close_if_open(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/*
 * Move a descriptor out of the range of the standard streams, unless it is target_fd. Otherwise the
 * child would overwrite the descriptor while it sets up the other streams. Returns 0 or a negative
 * errno.
 */
static int std_stream_move(std_stream *stream, int target_fd)
{
    if (stream->child_fd < 0 || stream->child_fd == target_fd || stream->child_fd >= FD_FIRST)
        return 0;
    int fd = fcntl(stream->child_fd, F_DUPFD_CLOEXEC, FD_FIRST);
    if (fd < 0)
        return -errno;
    if (stream->child_fd != stream->caller_fd)
        close_if_open(stream->child_fd);
    stream->child_fd = fd;
    return 0;
}

/*
 * Open a pipe. The parent's end is non-blocking, so that the backend cannot block in a call for it.
 */
static int std_stream_open_pipe(std_stream *stream, int target_fd)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -errno;
    bool is_input = target_fd == STDIN_FILENO;
    stream->child_fd = fd[is_input ? 0 : 1];
    stream->parent_fd = fd[is_input ? 1 : 0];
    (void)fcntl(stream->parent_fd, F_SETFL, O_NONBLOCK);
    return 0;
}

static int std_stream_open(std_stream *stream, int target_fd)
{
    int rc = 0;
    if (stream->kind == WEFT_STDIO_FD)
        stream->child_fd = stream->caller_fd;
    else if (stream->kind == WEFT_STDIO_PIPE)
        rc = std_stream_open_pipe(stream, target_fd);
    return rc < 0 ? rc : std_stream_move(stream, target_fd);
}

static int std_streams_open(spawn_setup *s)
{
    int rc = 0;
    for (int i = 0; i < STREAMS && rc == 0; i++)
        rc = std_stream_open(&s->streams[i], i);
    return rc;
}

/*
 * Close the descriptors that are not needed after the start. Use close(2), because weft has not
 * registered the descriptors yet.
 */
static void std_streams_close(spawn_setup *s, bool is_started)
{
    for (int i = 0; i < STREAMS; i++) {
        std_stream *stream = &s->streams[i];
        if (stream->child_fd != stream->caller_fd)
            close_if_open(stream->child_fd);
        if (!is_started)
            close_if_open(stream->parent_fd);
    }
}

/* Add the file action for a standard stream. Returns 0 or a positive errno. */
static int add_stream_action(spawn_setup *s, int target_fd)
{
    const std_stream *stream = &s->streams[target_fd];
    if (stream->kind == WEFT_STDIO_NULL)
        return posix_spawn_file_actions_addopen(&s->actions, target_fd, "/dev/null", O_RDWR, 0);
    if (stream->kind == WEFT_STDIO_OUT)
        return posix_spawn_file_actions_adddup2(&s->actions, STDOUT_FILENO, target_fd);
    if (stream->child_fd < 0)
        return 0;
    return posix_spawn_file_actions_adddup2(&s->actions, stream->child_fd, target_fd);
}

static int add_file_actions(spawn_setup *s, const weft_process_options *o)
{
    int rc = 0;
    if (o->folder != NULL)
        rc = posix_spawn_file_actions_addchdir_np(&s->actions, o->folder);
    for (int i = 0; i < STREAMS && rc == 0; i++)
        rc = add_stream_action(s, i);
    if (rc == 0 && !o->keeps_fds)
        rc = posix_spawn_file_actions_addclosefrom_np(&s->actions, FD_FIRST);
    return rc;
}

/*
 * Reset SIGPIPE and SIGCHLD to their default actions, because the parent may ignore them. If
 * SIGPIPE were ignored, the child would not end with its reader. If SIGCHLD were ignored, the child
 * could not wait for its own children.
 */
static void set_signal_attributes(spawn_setup *s, const weft_process_options *o)
{
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGCHLD);
    posix_spawnattr_setsigmask(&s->attributes, &none);
    posix_spawnattr_setsigdefault(&s->attributes, &defaults);
    posix_spawnattr_setpgroup(&s->attributes, 0);
    if (o->has_group)
        flags |= POSIX_SPAWN_SETPGROUP;
    posix_spawnattr_setflags(&s->attributes, flags);
}

static size_t count_strings(char *const *strings)
{
    size_t count = 0;
    while (strings != NULL && strings[count] != NULL)
        count++;
    return count;
}

static bool is_same_name(const char *a, const char *b)
{
    size_t bytes = strcspn(a, "=");
    return strcspn(b, "=") == bytes && memcmp(a, b, bytes) == 0;
}

static bool is_set_in(char *const *set, const char *variable)
{
    for (; *set != NULL; set++)
        if (is_same_name(*set, variable))
            return true;
    return false;
}

/*
 * Build the environment if o->set is not NULL. The strings are not copied.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
static int make_environment(spawn_setup *s, const weft_process_options *o)
{
    char *const *base = o->environment != NULL ? o->environment : environ;
    if (o->set == NULL)
        return 0;
    char **to = malloc((count_strings(base) + count_strings(o->set) + 1) * sizeof *to);
    if (to == NULL)
        return -ENOMEM;
    s->environment = to;
    for (; base != NULL && *base != NULL; base++)
        if (!is_set_in(o->set, *base))
            *to++ = *base;
    for (char *const *set = o->set; *set != NULL; set++)
        if (strchr(*set, '=') != NULL)
            *to++ = *set;
    *to = NULL;
    return 0;
}

/*
 * Record a message for an error that posix_spawn returned. The error code does not show whether the
 * program or the directory caused the error.
 */
static int spawn_explain(int code, const char *path, const weft_process_options *o)
{
    bool is_directory_error = o->folder != NULL && access(o->folder, X_OK) < 0 && -errno == code;
    if (is_directory_error || (o->folder != NULL && code == -ENOTDIR))
        return weft_fail(code, "cannot change to directory %s: %s", o->folder,
                         weft__error_text(code));
    if (code != -ENOENT)
        return weft_fail(code, "cannot run %s: %s", path, weft__error_text(code));
    if (path[0] == '/' && access(path, F_OK) == 0)
        return weft_fail(code, "no interpreter for %s", path);
    return weft_fail(code, "no such program: %s", path);
}

static int spawn_exec(spawn_setup *s, char *const argv[], const weft_process_options *o, pid_t *pid)
{
    char *const *environment = o->environment != NULL ? o->environment : environ;
    if (s->environment != NULL)
        environment = s->environment;
    int rc = add_file_actions(s, o);
    if (rc != 0)
        return -rc;
    set_signal_attributes(s, o);
    rc = posix_spawnp(pid, s->path, &s->actions, &s->attributes, argv, environment);
    return rc == 0 ? 0 : spawn_explain(-rc, s->path, o);
}

/* Start the process, then release the setup. Returns the pid or a negative errno. */
static pid_t spawn_run(spawn_setup *s, char *const argv[], const weft_process_options *o)
{
    pid_t pid = -1;
    int rc = make_environment(s, o);
    if (rc == 0)
        rc = std_streams_open(s);
    if (rc == 0)
        rc = -posix_spawn_file_actions_init(&s->actions);
    if (rc == 0) {
        rc = -posix_spawnattr_init(&s->attributes);
        if (rc == 0) {
            rc = spawn_exec(s, argv, o, &pid);
            posix_spawnattr_destroy(&s->attributes);
        }
        posix_spawn_file_actions_destroy(&s->actions);
    }
    std_streams_close(s, rc == 0);
    free(s->environment);
    return rc == 0 ? pid : rc;
}

static int pipe_end_register(int fd)
{
    if (fd >= 0)
        weft__fd_created(fd);
    return fd;
}

int weft_spawn_process(weft_process *p, char *const argv[], const weft_process_options *options)
{
    weft_process_options o = options != NULL ? *options : (weft_process_options){0};
    spawn_setup s = {.streams = {std_stream_of(o.in, o.in_fd), std_stream_of(o.out, o.out_fd),
                                 std_stream_of(o.err, o.err_fd)}};
    int rc = spawn_check(&s, argv, &o);
    if (rc < 0)
        return rc;
    if (weft__cord_here() == NULL) /* no fiber could wait for the process */
        return weft__no_cord();
    s.path = o.path != NULL ? o.path : argv[0];
    pid_t pid = spawn_run(&s, argv, &o);
    if (pid < 0)
        return pid;
    *p = (weft_process){.pid = pid,
                        .in = pipe_end_register(s.streams[0].parent_fd),
                        .out = pipe_end_register(s.streams[1].parent_fd),
                        .err = pipe_end_register(s.streams[2].parent_fd)};
    *weft__process_of(p) = (weft__process){.pidfd = weft__pidfd_open(pid),
                                           .grace_s = o.grace_s > 0 ? o.grace_s : GRACE_S_DEFAULT,
                                           .on_cancel = (uint8_t)o.on_cancel,
                                           .has_group = o.has_group};
    return 0;
}
