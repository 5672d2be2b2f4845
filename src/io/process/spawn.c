/*
 * Starting a program, by posix_spawn(3): it shares our memory until it executes the program, so
 * nothing is copied, and it tells us why it could not.
 */
#include "base/libc.h"
#include "core/error.h"
#include "core/op.h"
#include "io/process.h"

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
/* The lowest descriptor that is no standard stream. */
#define FD_FIRST 3

/* One of the three standard streams, while the process is started. */
typedef struct stream {
    weft_stdio kind;
    int given;  /* the caller's descriptor; -1: none */
    int theirs; /* becomes the stream; -1: nothing does. Closed afterwards, unless it is given */
    int ours;   /* the other end of the pipe; -1: there is none */
} stream;

/* What is made up for one process, and released when it has been started or not. */
typedef struct start {
    stream streams[STREAMS];
    const char *path;   /* as it is looked for */
    char **environment; /* ours to free; NULL: none was made */
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
} start;

static const char *const stream_names[STREAMS] = {"stdin", "stdout", "stderr"};

static stream stream_of(weft_stdio kind, int fd)
{
    return (stream){kind, kind == WEFT_STDIO_FD ? fd : -1, -1, -1};
}

static int check(const start *s, char *const argv[], const weft_process_options *o)
{
    if (argv == NULL || argv[0] == NULL)
        return weft_fail(-EINVAL, "a program without a name");
    if (!(o->grace_s >= 0))
        return weft_fail(-EINVAL, "a grace time of %g s", o->grace_s);
    for (int i = 0; i < STREAMS; i++) {
        const stream *at = &s->streams[i];
        bool is_known = at->kind < WEFT_STDIO_OUT || (at->kind == WEFT_STDIO_OUT && i == 2);
        if (!is_known)
            return weft_fail(-EINVAL, "%s cannot be of kind %d", stream_names[i], (int)at->kind);
        if (at->kind == WEFT_STDIO_FD && fcntl(at->given, F_GETFD) < 0)
            return weft_fail(-EBADF, "%s: descriptor %d is not open", stream_names[i], at->given);
    }
    return 0;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

/*
 * A descriptor among the first three, and not in its own place, is in the way of the others: the
 * child would overwrite it. 0 or -errno.
 */
static int move_away(stream *at, int place)
{
    if (at->theirs < 0 || at->theirs == place || at->theirs >= FD_FIRST)
        return 0;
    int fd = fcntl(at->theirs, F_DUPFD_CLOEXEC, FD_FIRST);
    if (fd < 0)
        return -errno;
    if (at->theirs != at->given)
        close_fd(at->theirs);
    at->theirs = fd;
    return 0;
}

/* Our end does not block, so that the backend need not take care that it is not held up. */
static int open_pipe(stream *at, int place)
{
    int fd[2];
    if (pipe2(fd, O_CLOEXEC) < 0)
        return -errno;
    bool is_input = place == STDIN_FILENO;
    at->theirs = fd[is_input ? 0 : 1];
    at->ours = fd[is_input ? 1 : 0];
    (void)fcntl(at->ours, F_SETFL, O_NONBLOCK);
    return 0;
}

static int open_stream(stream *at, int place)
{
    int rc = 0;
    if (at->kind == WEFT_STDIO_FD)
        at->theirs = at->given;
    else if (at->kind == WEFT_STDIO_PIPE)
        rc = open_pipe(at, place);
    return rc < 0 ? rc : move_away(at, place);
}

static int open_streams(start *s)
{
    int rc = 0;
    for (int i = 0; i < STREAMS && rc == 0; i++)
        rc = open_stream(&s->streams[i], i);
    return rc;
}

/* Nothing was done with them yet that weft would have to be told of. */
static void close_streams(start *s, bool is_started)
{
    for (int i = 0; i < STREAMS; i++) {
        stream *at = &s->streams[i];
        if (at->theirs != at->given)
            close_fd(at->theirs);
        if (!is_started)
            close_fd(at->ours);
    }
}

/* An errno. */
static int plan_stream(start *s, int place)
{
    const stream *at = &s->streams[place];
    if (at->kind == WEFT_STDIO_NULL)
        return posix_spawn_file_actions_addopen(&s->actions, place, "/dev/null", O_RDWR, 0);
    if (at->kind == WEFT_STDIO_OUT)
        return posix_spawn_file_actions_adddup2(&s->actions, STDOUT_FILENO, place);
    if (at->theirs < 0)
        return 0;
    return posix_spawn_file_actions_adddup2(&s->actions, at->theirs, place);
}

static int plan_files(start *s, const weft_process_options *o)
{
    int rc = 0;
    if (o->folder != NULL)
        rc = posix_spawn_file_actions_addchdir_np(&s->actions, o->folder);
    for (int i = 0; i < STREAMS && rc == 0; i++)
        rc = plan_stream(s, i);
    if (rc == 0 && !o->keeps_fds)
        rc = posix_spawn_file_actions_addclosefrom_np(&s->actions, FD_FIRST);
    return rc;
}

/*
 * A program that ignores SIGPIPE or SIGCHLD wants that for itself: a child would not end when its
 * reader does, or not hear of its own children.
 */
static void plan_signals(start *s, const weft_process_options *o)
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

static size_t count_of(char *const *texts)
{
    size_t count = 0;
    while (texts != NULL && texts[count] != NULL)
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

/* 0 or -ENOMEM; the texts are not copied. */
static int plan_environment(start *s, const weft_process_options *o)
{
    char *const *base = o->environment != NULL ? o->environment : environ;
    if (o->set == NULL)
        return 0;
    char **to = malloc((count_of(base) + count_of(o->set) + 1) * sizeof *to);
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

/* Words for what posix_spawn said, which does not tell a program from a folder. */
static int explain(int code, const char *path, const weft_process_options *o)
{
    bool is_folder = o->folder != NULL && access(o->folder, X_OK) < 0 && -errno == code;
    if (is_folder || (o->folder != NULL && code == -ENOTDIR))
        return weft_fail(code, "cannot begin in %s: %s", o->folder, weft__error_text(code));
    if (code != -ENOENT)
        return weft_fail(code, "cannot run %s: %s", path, weft__error_text(code));
    if (path[0] == '/' && access(path, F_OK) == 0)
        return weft_fail(code, "no interpreter for %s", path);
    return weft_fail(code, "no such program: %s", path);
}

static int launch(start *s, char *const argv[], const weft_process_options *o, pid_t *pid)
{
    char *const *environment = o->environment != NULL ? o->environment : environ;
    if (s->environment != NULL)
        environment = s->environment;
    int rc = plan_files(s, o);
    if (rc != 0)
        return -rc;
    plan_signals(s, o);
    rc = posix_spawnp(pid, s->path, &s->actions, &s->attributes, argv, environment);
    return rc == 0 ? 0 : explain(-rc, s->path, o);
}

/* With all that has to be released afterwards. The process, or -errno. */
static pid_t run_start(start *s, char *const argv[], const weft_process_options *o)
{
    pid_t pid = -1;
    int rc = plan_environment(s, o);
    if (rc == 0)
        rc = open_streams(s);
    if (rc == 0)
        rc = -posix_spawn_file_actions_init(&s->actions);
    if (rc == 0) {
        rc = -posix_spawnattr_init(&s->attributes);
        if (rc == 0) {
            rc = launch(s, argv, o, &pid);
            posix_spawnattr_destroy(&s->attributes);
        }
        posix_spawn_file_actions_destroy(&s->actions);
    }
    close_streams(s, rc == 0);
    free(s->environment);
    return rc == 0 ? pid : rc;
}

static int keep_end(int fd)
{
    if (fd >= 0)
        weft__fd_made(fd);
    return fd;
}

int weft_spawn_process(weft_process *p, char *const argv[], const weft_process_options *options)
{
    weft_process_options o = options != NULL ? *options : (weft_process_options){0};
    start s = {.streams = {stream_of(o.in, o.in_fd), stream_of(o.out, o.out_fd),
                           stream_of(o.err, o.err_fd)}};
    int rc = check(&s, argv, &o);
    if (rc < 0)
        return rc;
    if (weft__cord_here() == NULL) /* it could not be waited for */
        return weft__no_cord();
    s.path = o.path != NULL ? o.path : argv[0];
    pid_t pid = run_start(&s, argv, &o);
    if (pid < 0)
        return pid;
    *p = (weft_process){.pid = pid,
                        .in = keep_end(s.streams[0].ours),
                        .out = keep_end(s.streams[1].ours),
                        .err = keep_end(s.streams[2].ours)};
    *weft__process_of(p) = (weft__process){.pidfd = weft__pidfd_open(pid),
                                           .grace_s = o.grace_s > 0 ? o.grace_s : GRACE_S_DEFAULT,
                                           .on_cancel = (uint8_t)o.on_cancel,
                                           .has_group = o.has_group};
    return 0;
}
