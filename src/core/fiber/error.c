/* Errors: record an error, share it, and queue it for delivery to a fiber. */
#include "core/fiber/error.h"

#include "base/libc.h"
#include "core/lifetime/cancel.h"

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
    return (weft__error *)e->info.cause; /* the cause is the first field of a weft__error */
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
 * Limit the length of a chain of causes. Errors are shared, so an existing chain must not change.
 * If the chain of the cause is full, return NULL. The new error then has no cause.
 */
static weft__error *cause_bounded(weft__error *cause)
{
    return cause != NULL && cause->depth < WEFT__ERROR_CHAIN_MAX ? cause : NULL;
}

weft__error *weft__error_new(const weft__fiber *f, int code, weft__error *cause, const char *format,
                             va_list args)
{
    weft__error *e = malloc(sizeof *e);
    if (e == NULL)
        return NULL;
    cause = cause_bounded(cause);
    memcpy(e->fiber_name, f->name, sizeof e->fiber_name);
    vsnprintf(e->message, sizeof e->message, format, args);
    e->info = (weft_error_info){code, e->message, f->id, e->fiber_name, NULL};
    if (cause != NULL)
        e->info.cause = &weft__error_ref(cause)->info;
    e->refs = 1;
    e->depth = cause != NULL ? cause->depth + 1 : 1;
    e->next = NULL;
    e->is_raised = e->is_from_raise = e->is_unseen = false;
    e->path_count = 0;
    e->frames_count = 0;
    return e;
}

void weft__error_locate(weft__error *e)
{
    if (e != NULL)
        e->frames_count = (uint8_t)backtrace(e->frames, WEFT__ERROR_FRAMES_MAX);
}

/*
 * The last error of the calling thread that has no weft__error. Such an error is recorded if memory
 * is exhausted or the thread cannot have fibers. bare.fiber is the fiber that recorded the error,
 * or 0 if the thread had no fibers. bare.code is 0 if there is no such error, or if a later error
 * has replaced it.
 */
static __thread weft_error_info bare;

/* Return the owner of a bare error that the caller would record. */
static weft_fiber bare_owner(void)
{
    return weft__cord_self != NULL ? weft__cord_self->current->id : 0;
}

void weft__error_set_bare(int code, const char *message)
{
    const char *name = weft__cord_self != NULL ? weft__cord_self->current->name : "";
    bare = (weft_error_info){code, message, bare_owner(), name, NULL};
}

int weft__error_bare_code(void)
{
    return bare.fiber == bare_owner() ? bare.code : 0;
}

void weft__error_set(weft__fiber *f, weft__error *e)
{
    if (bare.fiber == f->id || weft__cord_self == NULL)
        bare.code = 0;
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

weft__error *weft__error_new_message(const weft__fiber *f, int code, const char *message)
{
    return error_format(f, code, "%s", message);
}

weft__error *weft__error_of_exit(weft__fiber *f, int code)
{
    if (f->error != NULL && f->error->info.code == code)
        return weft__error_ref(f->error);
    return weft__error_new_message(f, code, weft__error_text(code));
}

/* Duplicate an error. The duplicate points to the cause, but holds no reference to the cause. */
static weft__error *error_duplicate(const weft__error *e)
{
    weft__error *duplicate = malloc(sizeof *duplicate);
    if (duplicate == NULL)
        return NULL;
    *duplicate = *e;
    duplicate->info.message = duplicate->message;
    duplicate->info.fiber_name = duplicate->fiber_name;
    duplicate->refs = 1;
    duplicate->next = NULL;
    duplicate->is_raised = duplicate->is_from_raise = duplicate->is_unseen = false;
    return duplicate;
}

/* Duplicate an error. The duplicate holds a reference to the cause. */
static weft__error *error_copy(const weft__error *e)
{
    weft__error *duplicate = error_duplicate(e);
    if (duplicate != NULL)
        weft__error_ref(cause_of(duplicate));
    return duplicate;
}

/* If memory is exhausted, the copied chain ends before the cause that could not be copied. */
weft__error *weft__error_clone(const weft__error *e)
{
    weft__error *first = e != NULL ? error_duplicate(e) : NULL;
    for (weft__error *duplicate = first; duplicate != NULL && duplicate->info.cause != NULL;) {
        weft__error *cause = error_duplicate(cause_of(duplicate));
        duplicate->info.cause = cause != NULL ? &cause->info : NULL;
        duplicate = cause;
    }
    return first;
}

void weft__error_own(weft__fiber *f)
{
    if (f->error != NULL && f->error->is_raised)
        weft__error_set(f, error_copy(f->error));
}

int weft__error_queue(weft__fiber *f, int code, weft__error *e)
{
    if (e == NULL) {
        if (f->live->raised_code != 0)
            return -ENOMEM;
        f->live->raised_code = code;
        return 0;
    }
    if (e->path_count < WEFT__ERROR_CHAIN_MAX)
        e->path[e->path_count++] = f->id;
    e->is_raised = true;
    if (f->live->raised == NULL)
        f->live->raised = e;
    else
        f->live->raised_last->next = e;
    f->live->raised_last = e;
    return 0;
}

/*
 * Remove e from the queue. `before` is the error before e, or NULL if e is the first error. The
 * reference of the queue passes to the caller.
 */
static void unlink_raised(weft__fiber *f, weft__error *before, weft__error *e)
{
    if (before == NULL)
        f->live->raised = e->next;
    else
        before->next = e->next;
    if (f->live->raised_last == e)
        f->live->raised_last = before;
    e->next = NULL;
    e->is_raised = false;
}

int weft__error_next(weft__fiber *f)
{
    weft__error *e = f->live->raised;
    if (e == NULL) {
        int code = f->live->raised_code;
        f->live->raised_code = 0;
        return code;
    }
    unlink_raised(f, NULL, e);
    int code = e->info.code;
    weft__error_set(f, e);
    return code;
}

weft__error *weft__error_next_raised(weft__fiber *f)
{
    weft__error *before = NULL;
    for (weft__error *e = f->live->raised; e != NULL; before = e, e = e->next) {
        if (!e->is_from_raise)
            continue;
        unlink_raised(f, before, e);
        return e;
    }
    return NULL;
}

void weft__error_unqueue(weft__fiber *f, const weft__error *e, int code)
{
    if (e == NULL && f->live->raised_code == code)
        f->live->raised_code = 0;
    weft__error *before = NULL;
    for (weft__error *entry = f->live->raised; entry != NULL; before = entry, entry = entry->next) {
        if (entry != e)
            continue;
        unlink_raised(f, before, entry);
        weft__error_unref(entry);
        return;
    }
}

void weft__error_drop_queue(weft__fiber *f)
{
    while (f->live->raised != NULL)
        weft__error_unqueue(f, f->live->raised, f->live->raised->info.code);
    f->live->raised_code = 0;
}

__thread weft__fiber *weft__error_plain_thread;

/*
 * Return the record with the last error of the calling thread. Return NULL if the thread has no
 * fibers.
 */
static weft__fiber *recorder_here(void)
{
    return weft__cord_self != NULL ? weft__cord_self->current : weft__error_plain_thread;
}

/*
 * Return the record for errors of the calling thread. Make the thread a cord if needed. Return NULL
 * if the thread cannot become a cord.
 */
static weft__fiber *recorder_make(void)
{
    weft__fiber *f = recorder_here();
    if (f != NULL)
        return f;
    weft__cord *c = weft__cord_here();
    return c != NULL ? c->current : NULL;
}

int weft_failv(int code, const char *format, va_list args)
{
    if (!weft_is_error(code))
        code = -EINVAL;
    weft__fiber *f = recorder_make();
    if (format == NULL)
        return code;
    weft__error *e = f != NULL ? weft__error_new(f, code, f->error, format, args) : NULL;
    weft__error_locate(e);
    if (e != NULL)
        weft__error_set(f, e);
    else
        weft__error_set_bare(code, weft__error_text(code));
    return code;
}

int weft_fail(int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    code = weft_failv(code, format, args);
    va_end(args);
    return code;
}

const weft_error_info *weft_error(void)
{
    const weft__fiber *f = recorder_here();
    if (f != NULL && f->error != NULL)
        f->error->is_unseen = false;
    if (weft__error_bare_code() != 0)
        return &bare;
    return f != NULL && f->error != NULL ? &f->error->info : NULL;
}

void weft_error_clear(void)
{
    if (weft__error_bare_code() != 0)
        bare.code = 0;
    weft__fiber *f = recorder_here();
    if (f != NULL)
        weft__error_set(f, NULL);
}
