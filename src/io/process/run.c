/*
 * Programs as something that is called: run to the end with input and output in memory, a command
 * of the shell, a stream from or to one.
 */
#include "core/alarm.h"
#include "core/op.h"
#include "core/tree.h"
#include "io/process.h"

#include <weft/error.h>
#include <weft/group.h>
#include <weft/io.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OUTPUT_BYTES_DEFAULT ((size_t)64 << 20)
/* What a stream that says little takes; doubled as it says more. */
#define CAPTURE_BYTES_FIRST ((size_t)4 << 10)

/* One output of the program, as far as it has come. */
typedef struct capture {
    int *fd;    /* the process's own; -1: it is not captured */
    char *data; /* NULL: nothing yet */
    size_t bytes, room;
    size_t bytes_max;
} capture;

typedef struct run {
    weft_process process;
    const char *input;
    size_t input_bytes;
    capture out, err;
} run;

/* Room for one byte more: what is too much is found out by reading it, and a NUL goes there. */
static int make_room(capture *c)
{
    if (c->bytes > c->bytes_max)
        return weft_fail(-EMSGSIZE, "a program has written more than %zu bytes", c->bytes_max);
    if (c->bytes < c->room)
        return 0;
    size_t room = c->room > 0 ? c->room * 2 : CAPTURE_BYTES_FIRST;
    room = room < c->bytes_max + 1 ? room : c->bytes_max + 1;
    char *data = realloc(c->data, room);
    if (data == NULL)
        return -ENOMEM;
    c->data = data;
    c->room = room;
    return 0;
}

/* A fiber: collect what comes until the end. */
static weft_value collect(void *arg)
{
    capture *c = arg;
    for (;;) {
        int rc = make_room(c);
        if (rc < 0)
            return rc;
        ssize_t n = weft_read(*c->fd, c->data + c->bytes, c->room - c->bytes);
        if (n <= 0)
            return n;
        c->bytes += (size_t)n;
    }
}

/*
 * The program has ended: what it wrote is in the pipe. Others may hold that open, and go on
 * writing, so the end is where it was now.
 */
static int drain(capture *c)
{
    int left = 0;
    if (*c->fd < 0 || ioctl(*c->fd, FIONREAD, &left) < 0)
        return 0;
    for (;;) {
        int rc = make_room(c);
        if (rc < 0 || left == 0)
            return rc;
        size_t room = c->room - c->bytes;
        ssize_t n = read(*c->fd, c->data + c->bytes, room < (size_t)left ? room : (size_t)left);
        if (n <= 0)
            return 0;
        c->bytes += (size_t)n;
        left -= (int)n;
    }
}

/* A fiber: that the program does not want all of it is its own matter. */
static weft_value feed(void *arg)
{
    run *r = arg;
    ssize_t n = weft_write_all(r->process.in, r->input, r->input_bytes);
    weft_close(r->process.in);
    r->process.in = -1;
    return n == -EPIPE || n >= 0 ? 0 : n;
}

/*
 * 0, or why there is no such fiber. It does for the caller what that cannot do while it waits: so
 * it runs, and weft_shutdown_all lets it be, wherever the caller itself may go on.
 */
static int spin_if(weft_group *g, int fd, weft_fn *fn, void *arg)
{
    if (fd < 0)
        return 0;
    weft__cord *c = weft__cord_self;
    bool was_open = weft__tree_open(c->current, true);
    weft_fiber f = weft_group_spin(g, fn, arg);
    weft__tree_open(c->current, was_open);
    if (f != 0) {
        weft__fiber_find(c, f)->is_daemon = true;
        return 0;
    }
    const weft_error_info *e = weft_error();
    return e != NULL && weft_is_error(e->code) ? e->code : -ENOMEM;
}

/* Feed and collect until the program has ended; its status, or what cut that short. */
static int attend(run *r)
{
    int result = 0, rc = 0;
    WEFT_GROUP(g, rc) {
        result = spin_if(&g, r->process.in, feed, r);
        if (result == 0)
            result = spin_if(&g, r->process.out, collect, &r->out);
        if (result == 0)
            result = spin_if(&g, r->process.err, collect, &r->err);
        if (result == 0)
            result = weft_process_wait(&r->process);
        weft_group_cancel(&g);
    }
    return rc < 0 ? rc : result;
}

/* A call that is refused is not begun. 0, or with what. */
static int check_alarm(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    return c->current->alarm ? (int)weft__refuse(c) : 0;
}

static weft_stdio kind_or(weft_stdio kind, weft_stdio standard)
{
    return kind != WEFT_STDIO_DEFAULT ? kind : standard;
}

static int begin(run *r, char *const argv[], weft_process_options *o, bool is_captured)
{
    weft_stdio output = is_captured ? WEFT_STDIO_PIPE : WEFT_STDIO_INHERIT;
    if (r->input != NULL && o->in != WEFT_STDIO_DEFAULT && o->in != WEFT_STDIO_PIPE)
        return weft_fail(-EINVAL, "input for a program that has another one");
    o->in = kind_or(o->in, r->input != NULL ? WEFT_STDIO_PIPE : WEFT_STDIO_NULL);
    o->out = kind_or(o->out, output);
    o->err = kind_or(o->err, output);
    o->on_cancel = WEFT_ON_CANCEL_LEAVE; /* closing the process ends it */
    int rc = check_alarm();
    return rc < 0 ? rc : weft_spawn_process(&r->process, argv, o);
}

/* What it wrote last. 0 or -errno. */
static int drain_both(run *r)
{
    int rc = drain(&r->out);
    return rc == 0 ? drain(&r->err) : rc;
}

static void finish_one(const capture *c, char **data, size_t *bytes)
{
    *data = c->data;
    *bytes = c->bytes;
    if (c->data != NULL)
        c->data[c->bytes] = '\0';
}

static void finish(run *r, weft_output *output)
{
    if (output == NULL) {
        free(r->out.data);
        free(r->err.data);
        return;
    }
    finish_one(&r->out, &output->out, &output->out_bytes);
    finish_one(&r->err, &output->err, &output->err_bytes);
}

int weft_run(char *const argv[], const void *input, size_t input_bytes,
             const weft_process_options *options, weft_output *output)
{
    weft_process_options o = options != NULL ? *options : (weft_process_options){0};
    size_t max = o.output_bytes_max > 0 ? o.output_bytes_max : OUTPUT_BYTES_DEFAULT;
    max = max < PTRDIFF_MAX ? max : PTRDIFF_MAX - 1;
    run r = {.input = input, .input_bytes = input != NULL ? input_bytes : 0};
    r.out = (capture){.fd = &r.process.out, .bytes_max = max};
    r.err = (capture){.fd = &r.process.err, .bytes_max = max};
    if (output != NULL)
        *output = (weft_output){0};
    int rc = begin(&r, argv, &o, output != NULL);
    if (rc < 0)
        return rc;
    rc = attend(&r);
    bool is_over = rc >= 0 && weft__process_of(&r.process)->state == WEFT__PROCESS_OVER;
    int drained = is_over ? drain_both(&r) : 0;
    weft_process_close(&r.process);
    finish(&r, is_over && drained == 0 ? output : NULL);
    return drained < 0 ? drained : rc;
}

void weft_output_free(weft_output *output)
{
    free(output->out);
    free(output->err);
    *output = (weft_output){0};
}

/*
 * The shell.
 */

static int spawn_shell(weft_process *p, const char *command, weft_process_options o)
{
    if (command == NULL)
        return weft_fail(-EINVAL, "no command for the shell");
    char *const argv[] = {"sh", "-c", "--", (char *)(uintptr_t)command, NULL};
    o.path = "/bin/sh";
    o.on_cancel = WEFT_ON_CANCEL_END;
    int rc = check_alarm();
    return rc < 0 ? rc : weft_spawn_process(p, argv, &o);
}

int weft_system(const char *command)
{
    weft_process p;
    int rc = spawn_shell(&p, command, (weft_process_options){0});
    if (rc < 0)
        return rc;
    rc = weft_process_wait(&p);
    weft_process_close(&p);
    return rc;
}

static ssize_t popen_read(void *ctx, void *data, size_t bytes)
{
    const weft_process *p = ctx;
    return weft_read(p->out, data, bytes);
}

static ssize_t popen_writev(void *ctx, const struct iovec *pieces, int count)
{
    const weft_process *p = ctx;
    return weft_writev(p->in, pieces, count);
}

/* The command is to see the end of its input, or of its reader, before it is waited for. */
static int popen_close(void *ctx)
{
    weft_process *p = ctx;
    weft_close(p->in >= 0 ? p->in : p->out);
    p->in = p->out = -1;
    int rc = weft_process_wait(p);
    weft_process_close(p);
    free(p);
    return rc;
}

static const weft_stream_type command_stream = {
    .read = popen_read, .writev = popen_writev, .close = popen_close};

int weft_popen(weft_stream *stream, const char *command, const char *mode)
{
    bool is_read = mode != NULL && strcmp(mode, "r") == 0;
    if (!is_read && (mode == NULL || strcmp(mode, "w") != 0))
        return weft_fail(-EINVAL, "a command is opened to \"r\" or \"w\", not %s",
                         mode != NULL ? mode : "NULL");
    weft_process *p = malloc(sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    weft_process_options o = {.in = is_read ? WEFT_STDIO_INHERIT : WEFT_STDIO_PIPE,
                              .out = is_read ? WEFT_STDIO_PIPE : WEFT_STDIO_INHERIT};
    int rc = spawn_shell(p, command, o);
    if (rc < 0) {
        free(p);
        return rc;
    }
    return weft_stream_open_with(stream, &command_stream, p);
}
