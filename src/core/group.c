/*
 * Groups: a scope, and a keeper that counts the fibers spun in it, keeps the first error and ends
 * the others on it. The members are children of the one that opened the group; how children are
 * told to end is in tree.c.
 */
#include "core/group.h"

#include "core/alarm.h"
#include "core/end.h"
#include "core/error.h"
#include "core/mailbox.h"
#include "core/scope.h"
#include "core/tree.h"

#include <weft/group.h>

#include <math.h>

/*
 * Nothing here is owned: whoever opens a group may end without closing it, and take its memory
 * along. The words of the error stay with the member, whose record is kept until the close.
 */
typedef struct weft__group {
    weft_scope scope; /* says who opened it, and whether it is open */
    weft__keeper keeper;
    size_t count;      /* members that live */
    int code;          /* the first error; 0: none */
    weft_fiber failed; /* the member whose it is; 0: it struck the closer */
    bool is_cancelled;
    bool is_closing; /* the block is over: what strikes the closer now comes from outside */
} weft__group;

_Static_assert(sizeof(weft__group) <= sizeof(weft_group), "weft_group is too small");
_Static_assert(_Alignof(weft__group) <= _Alignof(weft_group), "weft_group is aligned too little");

static weft__group *private_of(weft_group *group)
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

/* The group, if it is open; NULL, with words, if not. */
static weft__group *find_open(weft_group *group)
{
    if (group != NULL && weft__scope_is_open(scope_of(private_of(group))))
        return private_of(group);
    weft_fail(-EINVAL, "the group is not open");
    return NULL;
}

static bool leave_members(weft__fiber *f)
{
    (void)f; /* nobody wakes it who does not see it waiting */
    return true;
}

static const weft__wait_kind waits_members = {"its group", .leave = leave_members};
/* Once they are cancelled there is nothing but to wait. */
static const weft__wait_kind waits_end = {.name = "its group to end", .is_for_below = true};

static bool waits_for(const weft__fiber *f, const weft__group *g)
{
    bool is_in_close = f->waits_in == &waits_members || f->waits_in == &waits_end;
    return is_in_close && f->wait_object == g;
}

static void count_down(weft__cord *c, weft__group *g)
{
    weft__fiber *f = opener_of(g);
    if (--g->count == 0 && waits_for(f, g))
        weft__wake(c, f, 0, WEFT__TAIL);
}

static void cancel(weft__cord *c, weft__group *g)
{
    g->is_cancelled = g->keeper.is_ending = true;
    /* Before the members, who are put in front: so they run first. */
    if (!g->is_closing)
        weft_scope_cancel(&g->scope);
    weft__tree_cancel_kept(c, opener_of(g), &g->keeper);
}

static bool member_ended(weft__keeper *k, weft__fiber *f, weft_value value)
{
    weft__cord *c = weft__cord_self;
    weft__group *g = CONTAINER_OF(k, weft__group, keeper);
    bool is_failure = weft__fiber_has_failed(f, value);
    bool is_first = is_failure && g->code == 0;
    if (is_first) {
        g->code = (int)value;
        g->failed = f->id;
        f->keeper = NULL;
    }
    if (is_failure && !g->is_cancelled)
        cancel(c, g);
    count_down(c, g);
    return is_first;
}

static void member_left(weft__keeper *k, weft__fiber *f)
{
    (void)f;
    count_down(weft__cord_self, CONTAINER_OF(k, weft__group, keeper));
}

static const weft__keeper_type group_type = {.ended = member_ended, .left = member_left};

/* The group goes, and its members stay. */
static void forget_members(weft__group *g)
{
    WEFT__LIST_FOR(node, &opener_of(g)->life->children) {
        weft__fiber *member = weft__fiber_of_sibling(node);
        if (member->keeper == &g->keeper)
            member->keeper = NULL;
    }
    g->count = 0;
}

/* An ended child whose record was kept for a group: nobody has asked for its error yet. */
static bool is_kept_for_group(const weft__fiber *f)
{
    return f->keeper == NULL && f->awaits_left == UINT32_MAX;
}

/* Its record need not be kept any longer, but for its monitors: how many have yet to await it. */
static uint32_t release(weft__fiber *member)
{
    uint32_t owed = weft__monitors_owed(member);
    member->awaits_left = owed > 0 ? owed : 1;
    return owed;
}

void weft__groups_drop(weft__fiber *f)
{
    /* Whoever keeps one of its children did so in a call that f has left. */
    WEFT__LIST_FOR(node, &f->life->children)
        weft__fiber_of_sibling(node)->keeper = NULL;
    WEFT__LIST_FOR(node, &f->life->ended) {
        weft__fiber *member = weft__fiber_of_sibling(node);
        if (!is_kept_for_group(member))
            continue;
        release(member);
        weft__error_own(member);
        weft__error_queue(f, (int)member->result, weft__error_ref(member->error));
    }
}

int weft_group_open(weft_group *group)
{
    if (group == NULL)
        return weft_fail(-EINVAL, "a group is not NULL");
    weft__group *g = private_of(group);
    int rc = weft_scope_open(&g->scope, INFINITY);
    if (rc < 0)
        return rc;
    g->keeper = (weft__keeper){.type = &group_type};
    g->count = 0;
    g->code = 0;
    g->is_cancelled = g->is_closing = false;
    return 0;
}

weft_fiber weft_group_spin_with(weft_group *group, weft_fn *fn, void *arg,
                                const weft_spin_options *options)
{
    weft__group *g = find_open(group);
    if (g == NULL)
        return 0;
    weft_spin_options o = options != NULL ? *options : (weft_spin_options){0};
    o.parent = opener_of(g)->id;
    weft_fiber id = weft_spin_with(fn, arg, &o);
    if (id == 0)
        return 0;
    weft__cord *c = weft__cord_self;
    weft__fiber *f = weft__fiber_find(c, id);
    if (f->keeper != NULL) /* of all children of the opener */
        f->keeper->type->left(f->keeper, f);
    f->keeper = &g->keeper;
    g->count++;
    if (g->is_cancelled)
        weft__fiber_end(c, f, -ECANCELED, WEFT__END_WITH_PARENT);
    return id;
}

weft_fiber weft_group_spin(weft_group *group, weft_fn *fn, void *arg)
{
    return weft_group_spin_with(group, fn, arg, NULL);
}

int weft_group_cancel(weft_group *group)
{
    weft__group *g = find_open(group);
    if (g == NULL)
        return -EINVAL;
    if (weft__is_refused(weft__cord_self))
        return weft__no_cord();
    cancel(weft__cord_self, g);
    return 0;
}

size_t weft_group_count(const weft_group *group)
{
    weft__group *g = private_of((weft_group *)group);
    return g != NULL && weft__scope_is_open(scope_of(g)) ? g->count : 0;
}

/*
 * Wait for the members, until something strikes the caller. 0, or what did. An error that strikes
 * once is not lost: it is the group's first one, or if a member has been quicker strikes again.
 */
static int wait_until_struck(weft__cord *c, weft__group *g)
{
    weft__fiber *f = c->current;
    int struck = (int)(f->alarm ? weft__alarm_take(f) : weft__wait(c, &waits_members, g));
    if (struck == 0 || struck == -ECANCELED)
        return struck;
    if (g->code != 0) {
        weft__raise_again(f, struck);
    } else {
        g->code = struck;
        g->failed = 0;
    }
    return struck;
}

/* Wait for the members. 0, or what struck the caller. */
static int join(weft__cord *c, weft__group *g)
{
    int struck = g->is_cancelled ? 0 : wait_until_struck(c, g);
    if (g->count > 0 && !g->is_cancelled)
        cancel(c, g);
    if (g->count == 0 || weft__wait(c, &waits_end, g) != -EDEADLK)
        return struck;
    forget_members(g); /* said already: they will never end */
    return -EDEADLK;
}

/* The words of the first error become the caller's; it had none since, if that has struck it. */
static void take_words(weft__cord *c, const weft__group *g)
{
    if (g->failed == 0)
        return;
    weft__fiber *member = weft__fiber_find(c, g->failed);
    if (member == NULL || member->phase != WEFT__ENDED) { /* it runs again */
        weft__error_set(c->current, weft__error_of_end(c->current, g->code));
        return;
    }
    if (release(member) == 0)
        weft__fiber_collect(c, member);
    else
        weft__error_set(c->current, weft__error_ref(member->error));
}

int weft_group_close(weft_group *group)
{
    weft__group *g = find_open(group);
    if (g == NULL)
        return -EINVAL;
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    weft__fiber *f = c->current;
    if (f->life->scope != scope_of(g))
        return weft_fail(-EINVAL, "this is not the innermost open group or scope");
    if (f->life->no_switch > 0 && g->count > 0)
        return (int)weft__refuse(c);
    g->is_closing = true;
    int rc = g->count > 0 ? join(c, g) : 0;
    weft_scope_close(&g->scope);
    if (g->code == 0)
        return rc;
    take_words(c, g);
    return g->code;
}

/* The error that a block ends with, unless it is a cancellation that goes on around it. */
static void raise_result(int rc)
{
    if (weft__is_refused(weft__cord_self))
        return;
    weft__fiber *f = weft__cord_self->current;
    if (weft_is_error(rc) && !(rc == -ECANCELED && f->alarm))
        weft__raise_again(f, rc);
}

bool weft__group_turn(weft__group_block *block)
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

/* A block is left whose group could not be closed; its memory is about to go. */
static void abandon(weft__group *g)
{
    weft__fiber *f = opener_of(g);
    weft__scope **at = &f->life->scope;
    while (*at != scope_of(g))
        at = &(*at)->outer;
    *at = scope_of(g)->outer;
    weft__alarm_update(f);
    forget_members(g);
}

void weft__group_leave(weft__group_block *block)
{
    if (!block->is_open)
        return;
    weft__group *g = private_of(block->group);
    int rc = weft_group_close(block->group);
    if (weft__scope_is_open(scope_of(g)))
        abandon(g);
    if (block->result != NULL)
        *block->result = rc;
    else
        raise_result(rc);
}
