/*
 * Texts of several lines. Each piece is written with one call, so that lines of several threads do
 * not mix. A collected text is cut if the text is too long or memory is exhausted.
 */
#include "core/debug/report.h"

#include "base/libc.h"
#include "base/log.h"
#include "core/cord/cord.h"
#include "core/inspect/print.h"
#include "core/inspect/symbol.h"

#include <stdio.h>
#include <stdlib.h>

static const char cut_text[] = "\n(the rest of the report is omitted)";

/* Make room for some bytes, and for cut_text with its final 0. */
static bool report_reserve(weft__report *r, size_t bytes)
{
    size_t needed = r->count + bytes + sizeof cut_text;
    if (needed > WEFT__REPORT_BYTES_MAX || needed <= r->capacity)
        return needed <= WEFT__REPORT_BYTES_MAX;
    char *text = realloc(r->text == r->first ? NULL : r->text, 2 * needed);
    if (text == NULL)
        return false;
    if (r->text == r->first)
        memcpy(text, r->first, r->count + 1);
    r->text = text;
    r->capacity = 2 * needed;
    return true;
}

static void report_collect(weft__report *r, const char *text)
{
    size_t bytes = strlen(text);
    r->is_cut = r->is_cut || !report_reserve(r, bytes);
    if (r->is_cut)
        return;
    memcpy(r->text + r->count, text, bytes + 1);
    r->count += bytes;
}

int weft__report_print(weft__report *r, const char *format, ...)
{
    char text[WEFT__LOG_TEXT_BYTES_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->text == NULL)
        return write(r->fd, text, strlen(text)) < 0 ? -errno : 0;
    report_collect(r, text);
    return 0;
}

void weft__report_beginv(weft__report *r, int level, const char *format, va_list args)
{
    *r = (weft__report){.fd = STDERR_FILENO, .level = level};
    if (!weft__log_is_hooked()) {
        weft__logv_stderr(format, args);
        return;
    }
    r->text = r->first;
    r->capacity = sizeof r->first;
    char text[WEFT__LOG_TEXT_BYTES_MAX];
    vsnprintf(text, sizeof text, format, args);
    report_collect(r, text);
    report_collect(r, "\n");
}

void weft__report_begin(weft__report *r, int level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft__report_beginv(r, level, format, args);
    va_end(args);
}

void weft__report_frames(weft__report *r, void *const *frames, int n)
{
    weft__print_frames(r, frames, (unsigned)n);
    weft__symbols_close();
}

/*
 * Forbid switches of the current fiber, and pass the text on. The fields are restored, because the
 * fiber may be waiting or ending. An ended fiber has no fields.
 */
static void report_pass(const weft__report *r)
{
    const weft__cord *c = weft__cord_self;
    weft__fiber *f = c != NULL ? c->current : NULL;
    if (f == NULL || f->phase == WEFT__ENDED || f->phase == WEFT__FREE) {
        weft__log_text(r->level, r->text);
        return;
    }
    bool was_pending = f->pending;
    f->live->no_switch++;
    f->pending = true;
    weft__log_text(r->level, r->text);
    f->live->no_switch--;
    f->pending = was_pending;
}

void weft__report_end(weft__report *r)
{
    if (r->text == NULL)
        return;
    if (r->text[r->count - 1] == '\n')
        r->text[--r->count] = '\0';
    if (r->is_cut)
        memcpy(r->text + r->count, cut_text, sizeof cut_text);
    report_pass(r);
    if (r->text != r->first)
        free(r->text);
}
