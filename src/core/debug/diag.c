/*
 * Diagnostics on stderr. Each line is written with one call, so that lines of several threads do
 * not mix.
 */
#include "core/debug/diag.h"

#include "base/libc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int print_line(int fd, const char *prefix, const char *suffix, const char *format,
                      va_list args)
{
    char text[512];
    size_t capacity = sizeof text - strlen(suffix);
    size_t used = (size_t)snprintf(text, capacity, "%s", prefix);
    int n = vsnprintf(text + used, capacity - used, format, args);
    used += n < (int)(capacity - used) ? (size_t)n : capacity - used - 1;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s", suffix);
    return write(fd, text, used) < 0 ? -errno : 0;
}

int weft__print(int fd, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = print_line(fd, "", "", format, args);
    va_end(args);
    return rc;
}

void weft__diag(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(STDERR_FILENO, "weft: ", "\n", format, args);
    va_end(args);
}

void weft__diag_unawaited(const weft__fiber *parent, const weft__fiber *child, unsigned count)
{
    static atomic_flag was_printed = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&was_printed))
        return;
    weft__diag("%u children of fiber #%llu '%s' have ended and were not awaited. Their values use "
               "memory. Use weft_go for fibers that are not awaited. The function of one child, "
               "'%s', is",
               count, (unsigned long long)parent->id, parent->name, child->name);
    backtrace_symbols_fd(&(void *){(void *)child->fn}, 1, STDERR_FILENO);
}

void weft__diag_deadlock(void)
{
    weft__diag("deadlock: every fiber waits, and no event can wake a fiber");
    weft_dump(STDERR_FILENO);
}

static void print_fiber(const char *before, weft_fiber id)
{
    if (id == weft_main())
        weft__print(STDERR_FILENO, "%s main", before);
    else
        weft__print(STDERR_FILENO, "%s #%llu", before, (unsigned long long)id);
}

static void print_path(const weft__error *e)
{
    if (e->path_count == 0)
        return;
    weft__print(STDERR_FILENO, "  raised in");
    for (unsigned i = 0; i < e->path_count; i++)
        print_fiber(i > 0 ? ", then" : "", e->path[i]);
    weft__print(STDERR_FILENO, "\n");
}

/* Print one error. Omit the message if the message is only the description of the code. */
static void print_error(const char *prefix, const weft_error_info *i)
{
    const char *text = weft__error_text(i->code);
    bool has_message = strcmp(i->message, text) != 0;
    weft__print(STDERR_FILENO, "  %s%s%s%d (%s), in fiber #%llu '%s'\n", prefix,
                has_message ? i->message : "", has_message ? ": " : "", i->code, text,
                (unsigned long long)i->fiber, i->fiber_name);
}

/* Print an error, its causes, the fibers in which it was raised, and its backtrace. */
static void print_error_chain(const weft__error *e)
{
    print_error("", &e->info);
    for (const weft_error_info *i = e->info.cause; i != NULL; i = i->cause)
        print_error("caused by: ", i);
    print_path(e);
    if (e->frames_count > 0) {
        weft__print(STDERR_FILENO, "  recorded at (addr2line -fpe PROGRAM +0x... gives names)\n");
        backtrace_symbols_fd(e->frames, e->frames_count, STDERR_FILENO);
    }
}

void weft__diag_last(const weft__error *e, int status)
{
    weft__diag("main ended with status %d; its last error:", status);
    print_error_chain(e);
}

static void print_backtrace(void)
{
    void *frames[WEFT__ERROR_FRAMES_MAX];
    backtrace_symbols_fd(frames, backtrace(frames, WEFT__ERROR_FRAMES_MAX), STDERR_FILENO);
}

void weft__diag_ignored(const weft__fiber *f)
{
    weft__diag("fiber #%llu '%s' ignores its cancellation: its blocking calls fail with "
               "-ECANCELED, but it does not end. Backtrace (addr2line -fpe PROGRAM +0x... gives "
               "names):",
               (unsigned long long)f->id, f->name);
    print_backtrace();
}

void weft__diag_unseen(const weft__fiber *f)
{
    weft__diag("fiber #%llu '%s' ended without checking the error of a child that a call returned "
               "(weft_error or weft_error_clear marks the error as checked):",
               (unsigned long long)f->id, f->name);
    print_error_chain(f->error);
}

void weft__diag_undelivered(const weft__fiber *f, const weft__error *e)
{
    weft__diag("fiber #%llu '%s' ended before an error from weft_raise was delivered: %s: %d (%s)",
               (unsigned long long)f->id, f->name, e->info.message, e->info.code,
               weft__error_text(e->info.code));
}

void weft__diag_unhandled(const weft__error *e, int code)
{
    if (e == NULL || e->info.code != code) {
        weft__diag("an error reached the main fiber and was not handled: %d (%s)", code,
                   weft__error_text(code));
        return;
    }
    weft__diag("an error reached the main fiber and was not handled:");
    print_error_chain(e);
}
