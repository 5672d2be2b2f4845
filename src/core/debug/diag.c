/* Diagnostics: messages and reports, to the log function of the program or to stderr. */
#include "core/debug/diag.h"

#include "base/libc.h"
#include "core/inspect/frames.h"
#include "core/inspect/print.h"
#include "core/inspect/symbol.h"

#include <weft/log.h>

#include <stdatomic.h>
#include <string.h>

static void log_line(int level, const char *format, va_list args)
{
    weft__report r;
    weft__report_beginv(&r, level, format, args);
    weft__report_end(&r);
}

void weft__diag(int level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(level, format, args);
    va_end(args);
}

void weft_log(int level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    log_line(level, format, args);
    va_end(args);
}

void weft__diag_unawaited(const weft__fiber *parent, const weft__fiber *child, unsigned count)
{
    static atomic_flag was_printed = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&was_printed))
        return;
    weft__report r;
    weft__report_begin(&r, LOG_WARNING,
                       "%u children of fiber #%llu '%s' have ended and were not awaited. Their "
                       "values use memory. Use weft_go for fibers that are not awaited. The "
                       "function of one child, '%s', is",
                       count, (unsigned long long)parent->id, parent->name, child->name);
    weft__report_print(&r, "    ");
    weft__print_address(&r, (const void *)child->fn, false);
    weft__report_print(&r, "\n");
    weft__symbols_close();
    weft__report_end(&r);
}

void weft__diag_deadlock(void)
{
    weft__report r;
    weft__report_begin(&r, LOG_ERR, "deadlock: every fiber waits, and no event can wake a fiber");
    weft__dump(&r, "", true);
    weft__report_end(&r);
}

static void print_fiber(weft__report *r, const char *before, weft_fiber id)
{
    if (id == weft_main())
        weft__report_print(r, "%s main", before);
    else
        weft__report_print(r, "%s #%llu", before, (unsigned long long)id);
}

static void print_path(weft__report *r, const weft__error *e)
{
    if (e->path_count == 0)
        return;
    weft__report_print(r, "  raised in");
    for (unsigned i = 0; i < e->path_count; i++)
        print_fiber(r, i > 0 ? ", then" : "", e->path[i]);
    weft__report_print(r, "\n");
}

/* Print one error. Omit the message if the message is only the description of the code. */
static void print_error(weft__report *r, const char *prefix, const weft_error_info *i)
{
    const char *text = weft__error_text(i->code);
    bool has_message = strcmp(i->message, text) != 0;
    weft__report_print(r, "  %s%s%s%d (%s), in fiber #%llu '%s'\n", prefix,
                       has_message ? i->message : "", has_message ? ": " : "", i->code, text,
                       (unsigned long long)i->fiber, i->fiber_name);
}

/* Print an error, its causes, the fibers in which it was raised, and its backtrace. */
static void print_error_chain(weft__report *r, const weft__error *e)
{
    print_error(r, "", &e->info);
    for (const weft_error_info *i = e->info.cause; i != NULL; i = i->cause)
        print_error(r, "caused by: ", i);
    print_path(r, e);
    if (e->frames_count > 0) {
        weft__report_print(r, "  recorded at\n");
        weft__report_frames(r, e->frames, e->frames_count);
    }
}

void weft__diag_last(const weft__error *e, int status)
{
    weft__report r;
    weft__report_begin(&r, LOG_ERR, "main ended with status %d; its last error:", status);
    print_error_chain(&r, e);
    weft__report_end(&r);
}

void weft__diag_not_ended(weft__cord *c, weft__fiber *f, double grace_s, bool has_frames)
{
    weft_info i;
    weft__report r;
    void *frames[WEFT__ERROR_FRAMES_MAX];
    weft__fiber_info(c, f, &i);
    weft__report_begin(&r, LOG_WARNING,
                       "fiber #%llu '%s' has not ended %g s after it was cancelled%s%s",
                       (unsigned long long)i.id, i.name, grace_s,
                       i.state == WEFT_WAITING ? "; it waits for " : "", i.waits_for);
    if (has_frames)
        weft__report_frames(&r, frames, weft__frames_unwind(c, f, frames, WEFT__ERROR_FRAMES_MAX));
    weft__report_end(&r);
}

void weft__diag_ignored(const weft__fiber *f)
{
    weft__report r;
    weft__report_begin(&r, LOG_WARNING,
                       "fiber #%llu '%s' ignores its cancellation: its blocking calls fail with "
                       "-ECANCELED, but it does not end. Backtrace:",
                       (unsigned long long)f->id, f->name);
    void *frames[WEFT__ERROR_FRAMES_MAX];
    weft__report_frames(&r, frames, backtrace(frames, WEFT__ERROR_FRAMES_MAX));
    weft__report_end(&r);
}

void weft__diag_unseen(const weft__fiber *f)
{
    weft__report r;
    weft__report_begin(&r, LOG_WARNING,
                       "fiber #%llu '%s' ended without checking the error of a child that a call "
                       "returned (weft_error or weft_error_clear marks the error as checked):",
                       (unsigned long long)f->id, f->name);
    print_error_chain(&r, f->error);
    weft__report_end(&r);
}

void weft__diag_undelivered(const weft__fiber *f, const weft__error *e)
{
    weft__diag(LOG_WARNING,
               "fiber #%llu '%s' ended before an error from weft_raise was delivered: %s: %d (%s)",
               (unsigned long long)f->id, f->name, e->info.message, e->info.code,
               weft__error_text(e->info.code));
}

void weft__diag_unhandled(const weft__error *e, int code)
{
    if (e == NULL || e->info.code != code) {
        weft__diag(LOG_ERR, "an error reached the main fiber and was not handled: %d (%s)", code,
                   weft__error_text(code));
        return;
    }
    weft__report r;
    weft__report_begin(&r, LOG_ERR, "an error reached the main fiber and was not handled:");
    print_error_chain(&r, e);
    weft__report_end(&r);
}
