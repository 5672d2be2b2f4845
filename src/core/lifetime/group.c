/*
 * Groups. A group is a scope with a reaper that counts the members. Members are children of the
 * fiber that opened the group. When a member fails, the reaper records the first error and cancels
 * the other members.
 */
#include "core/lifetime/group.h"

#include "core/fiber/error.h"
#include "core/fiber/monitor.h"
#include "core/lifetime/cancel.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/scope.h"
#include "core/lifetime/tree.h"

#include <weft/group.h>

#include <math.h>

/*
 * The private part of a weft_group. A group owns no memory, because the opener may end without
 * closing the group. The error remains in the record of the failed member, which exists until the
 * close.
 */
typedef struct weft__group {
    weft_scope scope; /* scope.fiber is the opener; open while the group is open */
    weft__reaper reaper;
    size_t count;      /* living members */
    int code;          /* the first error; 0: none */
    weft_fiber failed; /* the member with this error; 0: the error was raised in the opener */
    bool is_cancelled;
    bool is_closing; /* weft_group_close was called; do not cancel the scope any more */
} weft__group;

_Static_assert(sizeof(weft__group) <= sizeof(weft_group), "weft_group is too small");
_Static_assert(_Alignof(weft__group) <= _Alignof(weft_group),
               "the alignment of weft_group is too small");

static weft__group *group_private(weft_group *group)
{
    return (weft__group *)(void *)group;
}

static weft__scope *scope_of(weft__group *g)
{
    return (weft__scope *)(void *)&g->scope;
}

static weft__fiber *opener_of(weft__group *g)
{
    return scope_of(g)->fiber;
}

/* Return the group if it is open. Otherwise record -EINVAL for weft_error() and return NULL. */
static weft__group *group_find_open(const char *call, weft_group *group)
{
    if (group != NULL && weft__scope_is_open(scope_of(group_private(group))))
        return group_private(group);
    weft_fail(-EINVAL, "%s: group is not open", call);
    return NULL;
}

static bool leave_group_wait(weft__fiber *f)
{
    (void)f; /* nothing to undo, because wakers check waits_in */
    return true;
}

static const weft__wait_kind waits_members = {"the members of its group",
                                              .leave = leave_group_wait};
/* This wait cannot be interrupted, because the members are already cancelled. */
static const weft__wait_kind waits_end = {.name = "the end of its group", .is_for_children = true};

static bool is_closing_group(const weft__fiber *f, const weft__group *g)
{
    bool is_in_close = f->waits_in == &waits_members || f->waits_in == &waits_end;
    return is_in_close && f->wait_object == g;
}

static void group_count_down(weft__cord *c, weft__group *g)
{
    weft__fiber *f = opener_of(g);
    if (--g->count == 0 && is_closing_group(f, g))
        weft__wake(c, f, 0, WEFT__TAIL);
}

static void group_cancel_members(weft__cord *c, weft__group *g)
{
    g->is_cancelled = g->reaper.is_ending = true;
    /*
     * Cancel the scope first. The members then move to the front of the run queue, before the
     * opener.
     */
    if (!g->is_closing)
        weft_scope_cancel(&g->scope);
    weft__tree_cancel_reaped(c, opener_of(g), &g->reaper);
}

static bool member_ended(weft__reaper *r, weft__fiber *f, weft_value value)
{
    weft__cord *c = weft__cord_self;
    weft__group *g = CONTAINER_OF(r, weft__group, reaper);
    bool is_failure = weft__fiber_has_failed(f, value);
    bool is_first = is_failure && g->code == 0;
    if (is_first) {
        g->code = (int)value;
        g->failed = f->id;
        f->reaper = NULL;
    }
    if (is_failure && !g->is_cancelled)
        group_cancel_members(c, g);
    group_count_down(c, g);
    return is_first;
}

static void member_left(weft__reaper *r, weft__fiber *f)
{
    (void)f;
    group_count_down(weft__cord_self, CONTAINER_OF(r, weft__group, reaper));
}

static const weft__reaper_type group_type = {.ended = member_ended, .left = member_left};

/* Remove all members from a group. The members continue to run. */
static void group_forget_members(weft__group *g)
{
    WEFT__LIST_FOR(node, &opener_of(g)->live->children) {
        weft__fiber *member = weft__fiber_of_sibling(node);
        if (member->reaper == &g->reaper)
            member->reaper = NULL;
    }
    g->count = 0;
}

/* Return whether a group keeps the record of an ended child, and no fiber has awaited the child. */
static bool is_held_for_group(const weft__fiber *f)
{
    return f->reaper == NULL && f->awaits_left == UINT32_MAX;
}

/*
 * Release the record that the group keeps for a failed member. Returns the number of monitors that
 * still need the record.
 */
static uint32_t member_release(weft__fiber *member)
{
    uint32_t unawaited = weft__monitors_unawaited(member);
    member->awaits_left = unawaited > 0 ? unawaited : 1;
    return unawaited;
}

void weft__groups_drop(weft__fiber *f)
{
    /* The reapers are in frames of f that no longer exist. */
    WEFT__LIST_FOR(node, &f->live->children)
        weft__fiber_of_sibling(node)->reaper = NULL;
    WEFT__LIST_FOR(node, &f->live->ended) {
        weft__fiber *member = weft__fiber_of_sibling(node);
        if (!is_held_for_group(member))
            continue;
        member_release(member);
        weft__error_own(member);
        weft__error_queue(f, (int)member->result, weft__error_ref(member->error));
    }
}

int weft_group_open(weft_group *group)
{
    if (group == NULL)
        return weft_fail(-EINVAL, "weft_group_open: group is NULL");
    weft__group *g = group_private(group);
    int rc = weft_scope_open(&g->scope, INFINITY);
    if (rc < 0)
        return rc;
    g->reaper = (weft__reaper){.type = &group_type};
    g->count = 0;
    g->code = 0;
    g->is_cancelled = g->is_closing = false;
    return 0;
}

static weft_fiber group_spin_at(weft_group *group, weft_fn *fn, void *arg,
                                const weft_spin_options *options, const void *spun_at)
{
    weft__group *g = group_find_open("weft_group_spin", group);
    if (g == NULL)
        return 0;
    weft_spin_options o = options != NULL ? *options : (weft_spin_options){0};
    o.parent = opener_of(g)->id;
    weft_fiber id = weft__spin_at(fn, arg, &o, spun_at);
    if (id == 0)
        return 0;
    weft__cord *c = weft__cord_self;
    weft__fiber *f = weft__fiber_find(c, id);
    if (f->reaper != NULL) /* the children_reaper of the opener */
        f->reaper->type->left(f->reaper, f);
    f->reaper = &g->reaper;
    g->count++;
    if (g->is_cancelled)
        weft__fiber_stop(c, f, -ECANCELED, WEFT__EXIT_WITH_PARENT);
    return id;
}

weft_fiber weft_group_spin_with(weft_group *group, weft_fn *fn, void *arg,
                                const weft_spin_options *options)
{
    return group_spin_at(group, fn, arg, options, __builtin_return_address(0));
}

weft_fiber weft_group_spin(weft_group *group, weft_fn *fn, void *arg)
{
    return group_spin_at(group, fn, arg, NULL, __builtin_return_address(0));
}

int weft_group_cancel(weft_group *group)
{
    weft__group *g = group_find_open("weft_group_cancel", group);
    if (g == NULL)
        return -EINVAL;
    if (weft__cord_is_forbidden(weft__cord_self))
        return weft__no_cord();
    group_cancel_members(weft__cord_self, g);
    return 0;
}

size_t weft_group_count(const weft_group *group)
{
    weft__group *g = group_private((weft_group *)group);
    return g != NULL && weft__scope_is_open(scope_of(g)) ? g->count : 0;
}

/*
 * Wait for the members. Returns 0, or the error that interrupted the wait. An error other than
 * -ECANCELED is delivered only once. Such an error becomes the first error of the group. If the
 * group already has an error, raise the new error again.
 */
static int group_wait_members(weft__cord *c, weft__group *g)
{
    weft__fiber *f = c->current;
    int cause = (int)(f->pending ? weft__cancel_take(f) : weft__wait(c, &waits_members, g));
    if (cause == 0 || cause == -ECANCELED)
        return cause;
    if (g->code != 0) {
        weft__error_deliver_again(f, cause);
    } else {
        g->code = cause;
        g->failed = 0;
    }
    return cause;
}

/*
 * Wait for the members. If the wait is interrupted, cancel the members and wait for their end.
 *
 * Returns 0, the error that interrupted the wait, or:
 * -EDEADLK if the members can never end
 */
static int group_join(weft__cord *c, weft__group *g)
{
    int cause = g->is_cancelled ? 0 : group_wait_members(c, g);
    if (g->count > 0 && !g->is_cancelled)
        group_cancel_members(c, g);
    if (g->count == 0 || weft__wait(c, &waits_end, g) != -EDEADLK)
        return cause;
    group_forget_members(g); /* the deadlock is already reported */
    return -EDEADLK;
}

/*
 * Make the first error of the group the last error of the caller. If failed is 0, the error is
 * already the last error of the caller.
 */
static void group_take_error(weft__cord *c, const weft__group *g)
{
    if (g->failed == 0)
        return;
    weft__fiber *member = weft__fiber_find(c, g->failed);
    if (member == NULL || member->phase != WEFT__ENDED) { /* the member was awaited or restarted */
        weft__error_set(c->current, weft__error_of_exit(c->current, g->code));
        return;
    }
    if (member_release(member) == 0)
        weft__fiber_collect(c, member);
    else
        weft__error_set(c->current, weft__error_ref(member->error));
}

int weft_group_close(weft_group *group)
{
    weft__group *g = group_find_open("weft_group_close", group);
    if (g == NULL)
        return -EINVAL;
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->live->scope != scope_of(g))
        return weft_fail(-EINVAL,
                         "weft_group_close: group is not the innermost open group or scope");
    if (f->live->no_switch > 0 && g->count > 0)
        return (int)weft__call_refuse(c);
    g->is_closing = true;
    int rc = g->count > 0 ? group_join(c, g) : 0;
    weft_scope_close(&g->scope);
    if (g->code == 0)
        return rc;
    group_take_error(c, g);
    return g->code;
}

/*
 * Raise the error of a WEFT_GROUP block in the current fiber. A cancellation that is still pending
 * is not raised again.
 */
static void raise_result(int rc)
{
    if (weft__cord_is_forbidden(weft__cord_self))
        return;
    weft__fiber *f = weft__cord_self->current;
    if (weft_is_error(rc) && !(rc == -ECANCELED && f->pending))
        weft__error_deliver_again(f, rc);
}

bool weft__group_next(weft__group_block *block)
{
    if (block->is_entered)
        return false;
    block->is_entered = true;
    int rc = weft_group_open(block->group);
    block->is_open = rc == 0;
    if (block->result != NULL)
        *block->result = rc;
    return block->is_open;
}

/*
 * Remove a group that could not be closed. The memory of the group becomes invalid after the block.
 */
static void group_abandon(weft__group *g)
{
    weft__fiber *f = opener_of(g);
    weft__scope **link = &f->live->scope;
    while (*link != scope_of(g))
        link = &(*link)->outer;
    *link = scope_of(g)->outer;
    weft__cancel_update(f);
    group_forget_members(g);
}

void weft__group_leave(weft__group_block *block)
{
    if (!block->is_open)
        return;
    weft__group *g = group_private(block->group);
    int rc = weft_group_close(block->group);
    if (weft__scope_is_open(scope_of(g)))
        group_abandon(g);
    if (block->result != NULL)
        *block->result = rc;
    else
        raise_result(rc);
}
