/* The private part of a weft_scope. */
#ifndef WEFT_CORE_LIFETIME_SCOPE_H
#define WEFT_CORE_LIFETIME_SCOPE_H

#include "core/cord/cord.h"

#include <weft/scope.h>

struct weft__scope {
    weft__scope *outer;   /* NULL: the outermost scope */
    weft__fiber *fiber;   /* the fiber that opened the scope; NULL: closed */
    int64_t deadline_ns;  /* WEFT__NEVER: no deadline, or the deadline has passed */
    int64_t cancelled_ns; /* the time of the cancellation; undefined unless is_cancelled */
    /* scope_cancels of the cord when the scope first interrupted a call. 0: no call. */
    uint64_t first_cancel;
    /*
     * scope_generation of the fiber when the scope was opened. If the values differ, the scope is
     * not open.
     */
    uint32_t generation;
    bool is_cancelled; /* cancelled by the deadline or by weft_scope_cancel */
    bool is_explicit;  /* cancelled by weft_scope_cancel */
    bool is_shield;    /* delays cancellation and errors from outside */
    bool has_expired;  /* the deadline of a shield has passed */
};

_Static_assert(sizeof(weft__scope) <= sizeof(weft_scope), "weft_scope is too small");
_Static_assert(_Alignof(weft__scope) <= _Alignof(weft_scope),
               "the alignment of weft_scope is too small");

/* Return whether a scope is open. weft_scope_close and the end of the fiber close a scope. */
static inline bool weft__scope_is_open(const weft__scope *s)
{
    return s->fiber != NULL && s->generation == s->fiber->scope_generation;
}

/* Return whether a scope is an active shield. */
static inline bool weft__scope_shields(const weft__scope *s)
{
    return s->is_shield && !s->has_expired;
}

/*
 * Drop the scopes and groups that a fiber has not closed. Do not access their memory, which may be
 * invalid.
 */
void weft__scopes_drop(weft__cord *c, weft__fiber *f);

/*
 * Record that a cancelled scope of the fiber makes a call fail with -ECANCELED. If several scopes
 * are cancelled, record the scope that was cancelled first. If no scope causes the error, do
 * nothing.
 */
void weft__scopes_note_cancel(weft__cord *c, weft__fiber *f);

/*
 * Return the number of scopes that have interrupted a call. Some functions continue after an
 * interrupted call, and return their own result. The scope around such a function must then not
 * time out. The function reads this number first, and later passes it to
 * weft__scope_cancels_forget.
 */
static inline uint64_t weft__scope_cancels_so_far(void)
{
    return weft__cord_self != NULL ? weft__cord_self->scope_cancels : 0;
}

/* Forget the interruptions after weft__scope_cancels_so_far() has returned `since`. */
void weft__scope_cancels_forget(uint64_t since);

/*
 * Arm the deadline timer of a fiber again in a child of weft_fork. The timer wheel of the child is
 * empty.
 */
void weft__scopes_rearm(weft__cord *c, weft__fiber *f);

#endif
