/*
 * Hooks of popen and pclose. The stream of a command waits with weft, so it is a stream of
 * weft_fdopen. The streams of libc's popen are streams of other threads, or of calls without weft.
 */
#include "core/op/op.h"
#include "posix/hook.h"
#include "posix/process/child_wait.h"
#include "posix/wait.h"

#include <weft/io.h>
#include <weft/posix.h>

#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

extern char **environ;

/* An open stream of popen. */
typedef struct command_stream {
    struct command_stream *next;
    FILE *file;
    int fd;
    pid_t pid;
} command_stream;

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static command_stream *streams;

/* A child of fork may have a locked copy of the lock, but always has a complete list. */
static void streams_after_fork(void)
{
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    streams_lock = unlocked;
}

__attribute__((constructor)) static void streams_prepare(void)
{
    (void)pthread_atfork(NULL, NULL, streams_after_fork);
}

static void stream_add(command_stream *s)
{
    REAL(pthread_mutex_lock)(&streams_lock);
    s->next = streams;
    streams = s;
    REAL(pthread_mutex_unlock)(&streams_lock);
}

/* Remove the stream from the list. Return NULL if another function has opened the stream. */
static command_stream *stream_take(const FILE *file)
{
    REAL(pthread_mutex_lock)(&streams_lock);
    command_stream **at = &streams;
    while (*at != NULL && (*at)->file != file)
        at = &(*at)->next;
    command_stream *s = *at;
    if (s != NULL)
        *at = s->next;
    REAL(pthread_mutex_unlock)(&streams_lock);
    return s;
}

/* The mode of popen. */
typedef struct popen_mode {
    bool is_read, is_write, is_cloexec;
} popen_mode;

static bool mode_parse(popen_mode *mode, const char *text)
{
    *mode = (popen_mode){false, false, false};
    for (; *text != '\0'; text++) {
        mode->is_read |= *text == 'r';
        mode->is_write |= *text == 'w';
        mode->is_cloexec |= *text == 'e';
        if (strchr("rwe", *text) == NULL)
            return false;
    }
    return mode->is_read != mode->is_write;
}

/*
 * Start the shell with its end of the pipe. POSIX requires that the command does not inherit the
 * streams of earlier calls. Returns 0 or an error number.
 */
static int start_command(pid_t *pid, const char *command, int end, int number)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", (char *)(uintptr_t) "--",
                    (char *)(uintptr_t)command, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    int error = posix_spawn_file_actions_adddup2(&actions, end, number);
    REAL(pthread_mutex_lock)(&streams_lock);
    for (const command_stream *s = streams; s != NULL && error == 0; s = s->next)
        if (s->fd != number)
            error = posix_spawn_file_actions_addclose(&actions, s->fd);
    if (error == 0)
        error = posix_spawn(pid, "/bin/sh", &actions, NULL, argv, environ);
    REAL(pthread_mutex_unlock)(&streams_lock);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Start the command and open the stream. Sets errno on failure. */
static bool stream_open(command_stream *s, const char *command, const popen_mode *mode)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    weft__fd_created(ends[0]);
    weft__fd_created(ends[1]);
    int child_end = mode->is_read ? ends[1] : ends[0], number = mode->is_read ? 1 : 0;
    s->fd = mode->is_read ? ends[0] : ends[1];
    s->file = weft_fdopen(s->fd, mode->is_read ? "r" : "w");
    int error = s->file != NULL ? start_command(&s->pid, command, child_end, number) : errno;
    weft_close(child_end);
    if (error != 0 && s->file != NULL)
        REAL(fclose)(s->file);
    else if (error != 0)
        weft_close(s->fd);
    else if (!mode->is_cloexec)
        ioctl(s->fd, FIONCLEX);
    if (error != 0)
        errno = error;
    return error == 0;
}

HOOK_DEFINE(FILE *, popen, (const char *command, const char *type))
{
    if (!weft__hook_is_on())
        return REAL(popen)(command, type);
    popen_mode mode;
    if (!mode_parse(&mode, type)) {
        errno = EINVAL;
        return NULL;
    }
    command_stream *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    if (!stream_open(s, command, &mode)) {
        free(s);
        return NULL;
    }
    stream_add(s);
    return s->file;
}

/* Wait in a thread that may not wait with weft. */
static pid_t await_in_place(pid_t pid, int *status)
{
    pid_t found;
    while ((found = REAL(waitpid)(pid, status, 0)) < 0 && errno == EINTR)
        continue;
    return found;
}

HOOK_DEFINE(int, pclose, (FILE * file))
{
    command_stream *s = stream_take(file);
    if (s == NULL)
        return REAL(pclose)(file);
    pid_t pid = s->pid;
    int status;
    REAL(fclose)(s->file);
    free(s);
    if (!weft__hook_is_on())
        return await_in_place(pid, &status) == pid ? status : -1;
    return weft__child_wait_end(pid, &status) == pid ? status : -1;
}
