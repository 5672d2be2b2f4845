/*
 * What weft says on stderr, unasked. One write for each line, so that lines of several threads do
 * not mix.
 */
#include "core/report.h"

#include "base/libc.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int say(int fd, const char *prefix, const char *suffix, const char *format, va_list args)
{
    char text[512];
    size_t room = sizeof text - strlen(suffix);
    size_t used = (size_t)snprintf(text, room, "%s", prefix);
    int n = vsnprintf(text + used, room - used, format, args);
    used += n < (int)(room - used) ? (size_t)n : room - used - 1;
    used += (size_t)snprintf(text + used, sizeof text - used, "%s", suffix);
    return write(fd, text, used) < 0 ? -errno : 0;
}

int weft__say(int fd, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = say(fd, "", "", format, args);
    va_end(args);
    return rc;
}

void weft__report(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(STDERR_FILENO, "weft: ", "\n", format, args);
    va_end(args);
}

void weft__report_unawaited(const weft__fiber *parent, const weft__fiber *child, unsigned count)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&is_said))
        return;
    weft__report("%u children of fiber #%llu '%s' have ended and were not awaited: their values "
                 "take memory. Use weft_go for fibers that nobody awaits. One of them, '%s', ran",
                 count, (unsigned long long)parent->id, parent->name, child->name);
    backtrace_symbols_fd(&(void *){(void *)child->fn}, 1, STDERR_FILENO);
}

void weft__report_deadlock(void)
{
    weft__report("deadlock: every fiber waits, and nothing is left that could wake one");
    weft_dump(STDERR_FILENO);
}

static void say_fiber(const char *before, weft_fiber id)
{
    if (id == weft_main())
        weft__say(STDERR_FILENO, "%s main", before);
    else
        weft__say(STDERR_FILENO, "%s #%llu", before, (unsigned long long)id);
}

static void report_path(const weft__error *e)
{
    if (e->path_count == 0)
        return;
    weft__say(STDERR_FILENO, "  climbed to");
    for (unsigned i = 0; i < e->path_count; i++)
        say_fiber(i > 0 ? ", then" : "", e->path[i]);
    weft__say(STDERR_FILENO, "\n");
}

/* An error without words of its own has those of its code, which need not be said twice. */
static void report_one(const char *prefix, const weft_error_info *i)
{
    const char *text = weft__error_text(i->code);
    bool has_words = strcmp(i->message, text) != 0;
    weft__say(STDERR_FILENO, "  %s%s%s%d (%s), in fiber #%llu '%s'\n", prefix,
              has_words ? i->message : "", has_words ? ": " : "", i->code, text,
              (unsigned long long)i->fiber, i->fiber_name);
}

/* The error, its causes, the fibers it climbed to, where it was recorded. */
static void report_chain(const weft__error *e)
{
    report_one("", &e->info);
    for (const weft_error_info *i = e->info.cause; i != NULL; i = i->cause)
        report_one("caused by: ", i);
    report_path(e);
    if (e->frames_count > 0) {
        weft__say(STDERR_FILENO, "  recorded at (addr2line -fpe PROGRAM +0x... gives names)\n");
        backtrace_symbols_fd(e->frames, e->frames_count, STDERR_FILENO);
    }
}

void weft__report_last(const weft__error *e, int status)
{
    weft__report("main ended with status %d; the last error that reached it was", status);
    report_chain(e);
}

/* Write the backtrace of the running fiber. */
static void report_frames(void)
{
    void *frames[WEFT__ERROR_FRAMES_MAX];
    backtrace_symbols_fd(frames, backtrace(frames, WEFT__ERROR_FRAMES_MAX), STDERR_FILENO);
}

void weft__report_ignored(const weft__fiber *f)
{
    weft__report("fiber #%llu '%s' ignores its cancellation: its blocking calls fail with "
                 "-ECANCELED, but it does not end. It is in (for names: addr2line -fpe PROGRAM "
                 "+0x...)",
                 (unsigned long long)f->id, f->name);
    report_frames();
}

void weft__report_unseen(const weft__fiber *f)
{
    weft__report("fiber #%llu '%s' ended without having looked at an error of a child that one of "
                 "its calls returned (weft_error or weft_error_clear marks it as seen):",
                 (unsigned long long)f->id, f->name);
    report_chain(f->error);
}

void weft__report_undelivered(const weft__fiber *f, const weft__error *e)
{
    weft__report("fiber #%llu '%s' ended before this error, raised in it, was delivered: %s: %d "
                 "(%s)",
                 (unsigned long long)f->id, f->name, e->info.message, e->info.code,
                 weft__error_text(e->info.code));
}

void weft__report_unhandled(const weft__error *e, int code)
{
    if (e == NULL || e->info.code != code) {
        weft__report("an error reached the main fiber and was not handled: %d (%s)", code,
                     weft__error_text(code));
        return;
    }
    weft__report("an error reached the main fiber and was not handled:");
    report_chain(e);
}
