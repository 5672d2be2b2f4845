/* The words beside the code: recording them, sharing them, queueing them for a fiber. */
#include "core/error.h"

#include "base/libc.h"
#include "core/alarm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weft__error_text(int code)
{
    const char *text = strerrordesc_np(-code);
    return text != NULL ? text : "unknown error";
}

weft__error *weft__error_ref(weft__error *e)
{
    if (e != NULL)
        e->refs++;
    return e;
}

static weft__error *cause_of(const weft__error *e)
{
    return (weft__error *)e->info.cause; /* info is the first field */
}

void weft__error_unref(weft__error *e)
{
    while (e != NULL && --e->refs == 0) {
        weft__error *cause = cause_of(e);
        free(e);
        e = cause;
    }
}

/*
 * Errors are shared, so a chain that has grown too long is not cut: the new error starts without
 * its causes.
 */
static weft__error *bounded(weft__error *cause)
{
    return cause != NULL && cause->depth < WEFT__ERROR_CHAIN_MAX ? cause : NULL;
}

weft__error *weft__error_new(const weft__fiber *f, int code, weft__error *cause, const char *format,
                             va_list args)
{
    weft__error *e = malloc(sizeof *e);
    if (e == NULL)
        return NULL;
    cause = bounded(cause);
    memcpy(e->fiber_name, f->name, sizeof e->fiber_name);
    vsnprintf(e->message, sizeof e->message, format, args);
    e->info = (weft_error_info){code, e->message, f->id, e->fiber_name, NULL};
    if (cause != NULL)
        e->info.cause = &weft__error_ref(cause)->info;
    e->refs = 1;
    e->depth = cause != NULL ? cause->depth + 1 : 1;
    e->next = NULL;
    e->is_raised = e->is_by_hand = e->is_unseen = false;
    e->path_count = 0;
    e->frames_count = 0;
    return e;
}

void weft__error_locate(weft__error *e)
{
    if (e != NULL)
        e->frames_count = (uint8_t)backtrace(e->frames, WEFT__ERROR_FRAMES_MAX);
}

void weft__error_set(weft__fiber *f, weft__error *e)
{
    weft__error *old = f->error;
    f->error = e;
    weft__error_unref(old);
}

static weft__error *error_format(const weft__fiber *f, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft__error *e = weft__error_new(f, code, NULL, format, args);
    va_end(args);
    return e;
}

weft__error *weft__error_plain(const weft__fiber *f, int code, const char *words)
{
    return error_format(f, code, "%s", words);
}

weft__error *weft__error_of_end(weft__fiber *f, int code)
{
    if (f->error != NULL && f->error->info.code == code)
        return weft__error_ref(f->error);
    return weft__error_plain(f, code, weft__error_text(code));
}

/* The same words; the cause is still e's. */
static weft__error *twin_of(const weft__error *e)
{
    weft__error *twin = malloc(sizeof *twin);
    if (twin == NULL)
        return NULL;
    *twin = *e;
    twin->info.message = twin->message;
    twin->info.fiber_name = twin->fiber_name;
    twin->refs = 1;
    twin->next = NULL;
    twin->is_raised = twin->is_by_hand = twin->is_unseen = false;
    return twin;
}

static weft__error *copy(const weft__error *e)
{
    weft__error *twin = twin_of(e);
    if (twin != NULL)
        weft__error_ref(cause_of(twin));
    return twin;
}

/* A chain is short: WEFT__ERROR_CHAIN_MAX. Without memory for a cause it ends there. */
weft__error *weft__error_clone(const weft__error *e)
{
    weft__error *first = e != NULL ? twin_of(e) : NULL;
    for (weft__error *twin = first; twin != NULL && twin->info.cause != NULL;) {
        weft__error *cause = twin_of(cause_of(twin));
        twin->info.cause = cause != NULL ? &cause->info : NULL;
        twin = cause;
    }
    return first;
}

void weft__error_own(weft__fiber *f)
{
    if (f->error != NULL && f->error->is_raised)
        weft__error_set(f, copy(f->error));
}

int weft__error_queue(weft__fiber *f, int code, weft__error *e)
{
    if (e == NULL) {
        if (f->life->raised_code != 0)
            return -ENOMEM;
        f->life->raised_code = code;
        return 0;
    }
    if (e->path_count < WEFT__ERROR_CHAIN_MAX)
        e->path[e->path_count++] = f->id;
    e->is_raised = true;
    if (f->life->raised == NULL)
        f->life->raised = e;
    else
        f->life->raised_last->next = e;
    f->life->raised_last = e;
    return 0;
}

/*
 * Take e, which comes after `before` (NULL: first), out of the queue. The queue's reference is the
 * caller's now.
 */
static void unlink_raised(weft__fiber *f, weft__error *before, weft__error *e)
{
    if (before == NULL)
        f->life->raised = e->next;
    else
        before->next = e->next;
    if (f->life->raised_last == e)
        f->life->raised_last = before;
    e->next = NULL;
    e->is_raised = false;
}

int weft__error_next(weft__fiber *f)
{
    weft__error *e = f->life->raised;
    if (e == NULL) {
        int code = f->life->raised_code;
        f->life->raised_code = 0;
        return code;
    }
    unlink_raised(f, NULL, e);
    int code = e->info.code;
    weft__error_set(f, e);
    return code;
}

weft__error *weft__error_next_by_hand(weft__fiber *f)
{
    weft__error *before = NULL;
    for (weft__error *e = f->life->raised; e != NULL; before = e, e = e->next) {
        if (!e->is_by_hand)
            continue;
        unlink_raised(f, before, e);
        return e;
    }
    return NULL;
}

void weft__error_unqueue(weft__fiber *f, const weft__error *e, int code)
{
    if (e == NULL && f->life->raised_code == code)
        f->life->raised_code = 0;
    weft__error *before = NULL;
    for (weft__error *at = f->life->raised; at != NULL; before = at, at = at->next) {
        if (at != e)
            continue;
        unlink_raised(f, before, at);
        weft__error_unref(at);
        return;
    }
}

void weft__error_drop_queue(weft__fiber *f)
{
    while (f->life->raised != NULL)
        weft__error_unqueue(f, f->life->raised, f->life->raised->info.code);
    f->life->raised_code = 0;
}

__thread weft__fiber *weft__error_stand_in;

/* Whose errors are recorded here. NULL: no memory. */
static weft__fiber *recorder(void)
{
    if (weft__cord_self == NULL && weft__error_stand_in != NULL)
        return weft__error_stand_in;
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->current : NULL;
}

int weft_fail(int code, const char *format, ...)
{
    if (!weft_is_error(code))
        code = -EINVAL;
    weft__fiber *f = recorder();
    if (f == NULL || format == NULL)
        return code;
    va_list args;
    va_start(args, format);
    weft__error *e = weft__error_new(f, code, f->error, format, args);
    va_end(args);
    weft__error_locate(e);
    if (e != NULL)
        weft__error_set(f, e);
    return code;
}

const weft_error_info *weft_error(void)
{
    const weft__fiber *f = recorder();
    if (f == NULL || f->error == NULL)
        return NULL;
    f->error->is_unseen = false;
    return &f->error->info;
}

void weft_error_clear(void)
{
    weft__fiber *f = recorder();
    if (f != NULL)
        weft__error_set(f, NULL);
}
