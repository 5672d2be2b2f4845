/*
 * Programs that run to their end with input and output in memory, shell commands, and streams from
 * or to shell commands.
 */
#include "base/result.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/tree.h"
#include "core/op/op.h"
#include "io/process/process.h"

#include <weft/error.h>
#include <weft/group.h>
#include <weft/io.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define OUTPUT_BYTES_DEFAULT ((size_t)64 << 20)
/*
 * The initial capacity of the buffer for a captured output, in bytes. The capacity is doubled on
 * demand.
 */
#define CAPTURE_BYTES_FIRST ((size_t)4 << 10)

/* A captured output of the program. */
typedef struct capture {
    int *fd;    /* points to a field of the process; *fd is -1 if the output is not captured */
    char *data; /* NULL: no output yet */
    size_t bytes, capacity;
    size_t bytes_max;
} capture;

typedef struct program_run {
    weft_process process;
    const char *input;
    size_t input_bytes;
    capture out, err;
} program_run;

/*
 * Provide space for at least one byte. The buffer has at most bytes_max + 1 bytes. The last byte
 * detects excess output, or holds a NUL.
 */
static int capture_reserve(capture *c)
{
    if (c->bytes > c->bytes_max)
        return weft_fail(-EMSGSIZE, "weft_run: an output exceeds %zu bytes", c->bytes_max);
    if (c->bytes < c->capacity)
        return 0;
    size_t capacity = c->capacity > 0 ? c->capacity * 2 : CAPTURE_BYTES_FIRST;
    capacity = capacity < c->bytes_max + 1 ? capacity : c->bytes_max + 1;
    char *data = realloc(c->data, capacity);
    if (data == NULL)
        return -ENOMEM;
    c->data = data;
    c->capacity = capacity;
    return 0;
}

/* Read the output until its end. This is the main function of a fiber. */
static weft_value capture_read(void *arg)
{
    capture *c = arg;
    for (;;) {
        int rc = capture_reserve(c);
        if (rc < 0)
            return rc;
        ssize_t n = weft_read(*c->fd, c->data + c->bytes, c->capacity - c->bytes);
        if (n <= 0)
            return n;
        c->bytes += (size_t)n;
    }
}

/*
 * Read the output that is in the pipe after the program has ended. Other processes may hold the
 * pipe open. Their later output is ignored.
 */
static int capture_drain(capture *c)
{
    int left = 0;
    if (*c->fd < 0 || ioctl(*c->fd, FIONREAD, &left) < 0)
        return 0;
    for (;;) {
        int rc = capture_reserve(c);
        if (rc < 0 || left == 0)
            return rc;
        size_t capacity = c->capacity - c->bytes;
        ssize_t n =
            read(*c->fd, c->data + c->bytes, capacity < (size_t)left ? capacity : (size_t)left);
        if (n <= 0)
            return 0;
        c->bytes += (size_t)n;
        left -= (int)n;
    }
}

/*
 * Write the input. A program that does not read all its input is not an error. This is the main
 * function of a fiber.
 */
static weft_value run_feed(void *arg)
{
    program_run *r = arg;
    ssize_t n = weft_write_all(r->process.in, r->input, r->input_bytes);
    weft_close(r->process.in);
    r->process.in = -1;
    return n == -EPIPE || n >= 0 ? 0 : n;
}

/*
 * Spin a helper fiber if fd is open. Returns 0 or an error.
 *
 * The helper may run even while the caller ends its children, because the caller waits for the
 * helper. The helper is a daemon, so that weft_shutdown_all does not cancel the helper.
 */
static int spin_helper(weft_group *g, int fd, weft_fn *fn, void *arg)
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

/* Run the helpers until the program has ended. Returns the status of the program, or an error. */
static int run_to_exit(program_run *r)
{
    int result = 0, rc = 0;
    WEFT_GROUP(g, rc) {
        result = spin_helper(&g, r->process.in, run_feed, r);
        if (result == 0)
            result = spin_helper(&g, r->process.out, capture_read, &r->out);
        if (result == 0)
            result = spin_helper(&g, r->process.err, capture_read, &r->err);
        if (result == 0)
            result = weft_process_wait(&r->process);
        weft_group_cancel(&g);
    }
    return rc < 0 ? rc : result;
}

/*
 * Return the error of a pending cancellation of the caller. Returns 0 if no cancellation is
 * pending.
 */
static int check_cancelled(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    return c->current->pending ? (int)weft__call_refuse(c) : 0;
}

static weft_stdio kind_or_default(weft_stdio kind, weft_stdio fallback)
{
    return kind != WEFT_STDIO_DEFAULT ? kind : fallback;
}

static int run_start(program_run *r, char *const argv[], weft_process_options *o, bool is_captured)
{
    weft_stdio output = is_captured ? WEFT_STDIO_PIPE : WEFT_STDIO_INHERIT;
    if (r->input != NULL && o->in != WEFT_STDIO_DEFAULT && o->in != WEFT_STDIO_PIPE)
        return weft_fail(-EINVAL, "weft_run: input is set, but options->in is not a pipe");
    o->in = kind_or_default(o->in, r->input != NULL ? WEFT_STDIO_PIPE : WEFT_STDIO_NULL);
    o->out = kind_or_default(o->out, output);
    o->err = kind_or_default(o->err, output);
    o->on_cancel = WEFT_ON_CANCEL_LEAVE; /* weft_process_close ends the process */
    int rc = check_cancelled();
    return rc < 0 ? rc : weft_spawn_process(&r->process, argv, o);
}

/* Read the remaining output after the program has ended. Returns 0 or an error. */
static int run_drain(program_run *r)
{
    int rc = capture_drain(&r->out);
    return rc == 0 ? capture_drain(&r->err) : rc;
}

static void capture_finish(const capture *c, char **data, size_t *bytes)
{
    *data = c->data;
    *bytes = c->bytes;
    if (c->data != NULL)
        c->data[c->bytes] = '\0';
}

static void run_finish(program_run *r, weft_output *output, size_t output_size)
{
    if (output == NULL) {
        free(r->out.data);
        free(r->err.data);
        return;
    }
    weft_output full = {0}; /* memory for a new field only if output_size includes the field */
    capture_finish(&r->out, &full.out, &full.out_bytes);
    capture_finish(&r->err, &full.err, &full.err_bytes);
    weft__result_copy(output, output_size, &full, sizeof full);
}

int weft__run(char *const argv[], const void *input, size_t input_bytes,
              const weft_process_options *options, weft_output *output, size_t output_size)
{
    weft_process_options o = options != NULL ? *options : (weft_process_options){0};
    size_t max = o.output_bytes_max > 0 ? o.output_bytes_max : OUTPUT_BYTES_DEFAULT;
    max = max < PTRDIFF_MAX ? max : PTRDIFF_MAX - 1;
    program_run r = {.input = input, .input_bytes = input != NULL ? input_bytes : 0};
    r.out = (capture){.fd = &r.process.out, .bytes_max = max};
    r.err = (capture){.fd = &r.process.err, .bytes_max = max};
    if (output != NULL)
        memset(output, 0, output_size);
    int rc = run_start(&r, argv, &o, output != NULL);
    if (rc < 0)
        return rc;
    rc = run_to_exit(&r);
    bool is_over = rc >= 0 && weft__process_of(&r.process)->state == WEFT__PROCESS_EXITED;
    int drain_rc = is_over ? run_drain(&r) : 0;
    weft_process_close(&r.process);
    run_finish(&r, is_over && drain_rc == 0 ? output : NULL, output_size);
    return drain_rc < 0 ? drain_rc : rc;
}

void weft__output_free(weft_output *output, size_t size)
{
    weft_output full;
    weft__result_copy(&full, sizeof full, output, size);
    free(full.out);
    free(full.err);
    memset(output, 0, size);
}

/* Shell commands. */

static int spawn_shell(weft_process *p, const char *command, weft_process_options o)
{
    if (command == NULL)
        return weft_fail(-EINVAL, "weft_system or weft_popen: command is NULL");
    char *const argv[] = {"sh", "-c", "--", (char *)(uintptr_t)command, NULL};
    o.path = "/bin/sh";
    o.on_cancel = WEFT_ON_CANCEL_END;
    int rc = check_cancelled();
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

/*
 * Close the pipe before waiting. The command then reads the end of its input, or fails to write its
 * output.
 */
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

static const weft_stream_type popen_stream_type = {
    .read = popen_read, .writev = popen_writev, .close = popen_close};

int weft_popen(weft_stream *stream, const char *command, const char *mode)
{
    bool is_read = mode != NULL && strcmp(mode, "r") == 0;
    if (!is_read && (mode == NULL || strcmp(mode, "w") != 0))
        return weft_fail(-EINVAL, "weft_popen: mode is %s, not \"r\" or \"w\"",
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
    return weft_stream_open_with(stream, &popen_stream_type, p);
}
