/*
 * The tree of fibers: who is whose child, moving between parents, ending and joining children. How
 * a single fiber ends is in end.c.
 */
#include "core/tree.h"

#include "core/alarm.h"
#include "core/report.h"

/* A child less: is that what the parent's joiner waits for? */
static void tell_joiner(weft__cord *c, weft__fiber *parent)
{
    weft__fiber *joiner = parent->life->joiner;
    if (LIKELY(joiner == NULL) || weft__tree_has_children(parent, parent->life->spared))
        return;
    parent->life->joiner = NULL;
    weft__wake(c, joiner, 0, WEFT__TAIL);
}

void weft__tree_unlink(weft__cord *c, weft__fiber *f)
{
    weft__list_remove(&f->sibling);
    tell_joiner(c, f->parent);
}

bool weft__tree_is_above(const weft__fiber *a, const weft__fiber *f)
{
    if (weft__list_is_empty(&a->life->children))
        return a == f;
    while (f != NULL && f != a)
        f = f->parent;
    return f != NULL;
}

/* The joiner of a fiber that is being ended cannot be called away. */
static const weft__wait_kind waits_end = {.name = "its children to end", .is_for_below = true};

static bool leave_join(weft__fiber *f)
{
    ((weft__fiber *)f->wait_object)->life->joiner = NULL;
    return true;
}

static const weft__wait_kind waits_children = {"its children", .leave = leave_join};

static weft_value join(weft__cord *c, weft__fiber *f, const weft__fiber *except,
                       const weft__wait_kind *kind)
{
    if (!weft__tree_has_children(f, except))
        return 0;
    f->life->joiner = c->current;
    f->life->spared = except;
    return weft__wait(c, kind, f);
}

void weft__tree_stop(weft__cord *c, weft__fiber *child, int64_t grace_ns, weft__end why)
{
    weft__unpark(c, child);
    if (child->phase == WEFT__ENDING) {
        child->is_restarting = false;
        return;
    }
    if (child->is_stopped && !child->is_restarting)
        return;
    child->life->grace_ns = grace_ns;
    weft__fiber_end(c, child, -ECANCELED, why);
}

/*
 * From the youngest to the oldest, each to the front of the run queue: so they run in the order of
 * their making.
 */
static void stop_children(weft__cord *c, weft__fiber *f, const weft__fiber *except,
                          int64_t grace_ns, weft__end why)
{
    for (weft__list *node = f->life->children.prev; node != &f->life->children; node = node->prev) {
        weft__fiber *child = weft__fiber_of_sibling(node);
        if (child != except)
            weft__tree_stop(c, child, grace_ns, why);
    }
}

void weft__tree_cancel_kept(weft__cord *c, weft__fiber *f, const weft__keeper *keeper)
{
    for (weft__list *node = f->life->children.prev; node != &f->life->children; node = node->prev) {
        weft__fiber *child = weft__fiber_of_sibling(node);
        if (child->keeper == keeper)
            weft__tree_stop(c, child, f->life->grace_ns, WEFT__END_WITH_PARENT);
    }
}

bool weft__tree_end_children(weft__cord *c, weft__fiber *f, const weft__fiber *except)
{
    f->is_closing = true; /* children that are made from now on are stopped before they run */
    stop_children(c, f, except, f->life->grace_ns, WEFT__END_WITH_PARENT);
    if (c->has_given_up)
        return !weft__tree_has_children(f, except);
    bool are_dead = join(c, f, except, &waits_end) == 0;
    if (!are_dead)
        f->life->joiner = NULL; /* that has been said already */
    return are_dead;
}

void weft__tree_give_up(weft__cord *c, const weft__fiber *f)
{
    if (c->has_given_up)
        return;
    c->has_given_up = true;
    weft__report("fiber #%llu '%s' has not ended %d s after main: the process ends without it",
                 (unsigned long long)f->id, f->name, WEFT__EXIT_GRACE_S);
    if (c->closer->waits_in == &waits_end)
        weft__wake(c, c->closer, -ETIMEDOUT, WEFT__FRONT);
}

void weft__tree_bury(weft__cord *c, weft__fiber *f)
{
    weft__list *node;
    while ((node = weft__list_pop(&f->life->ended)) != NULL) {
        c->ended_count--;
        f->life->ended_count--;
        weft__fiber_free(c, weft__fiber_of_sibling(node));
    }
    if (UNLIKELY(f->has_short))
        weft__ended_bury(c, f);
}

int weft_attach(weft_fiber fiber, weft_fiber parent)
{
    weft__cord *c;
    weft__fiber *f, *to;
    int rc = weft__find_living(fiber, &c, &f);
    if (rc == 0)
        rc = weft__find_living(parent, &c, &to);
    if (rc < 0)
        return rc;
    if (f->parent == NULL || weft__tree_is_above(f, to))
        return weft_fail(-EINVAL, "a fiber cannot be moved under itself or its own children");
    if (to->phase == WEFT__ENDING)
        return weft_fail(-EINVAL, "the new parent is ending");
    if (f->keeper != NULL && f->keeper != to->life->nursery) {
        f->keeper->type->left(f->keeper, f);
        f->keeper = NULL;
    }
    weft__tree_unlink(c, f);
    weft__tree_link(f, to);
    return 0;
}

int weft_detach(weft_fiber fiber)
{
    return weft_attach(fiber, weft_main());
}

weft_fiber weft_parent(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    const weft__ended *e = c != NULL && f == NULL ? weft__ended_find(c, fiber) : NULL;
    if (e != NULL)
        return weft__cord_at(c, e->parent)->id;
    return f != NULL && f->parent != NULL ? f->parent->id : 0;
}

int weft_children(weft_fiber fiber, weft_fiber *out, size_t n)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find(fiber, &c, &f);
    if (rc < 0)
        return rc;
    if (f->life == NULL)
        return 0;
    size_t i = 0;
    WEFT__LIST_FOR(node, &f->life->children) {
        if (i < n)
            out[i] = weft__fiber_of_sibling(node)->id;
        i++;
    }
    return (int)i;
}

int weft_await_children(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (c->current->alarm)
        return (int)weft__refuse(c);
    return (int)join(c, c->current, NULL, &waits_children);
}

int weft_terminate_children(double grace_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "a grace time of %g s", grace_s);
    weft__fiber *f = c->current;
    WEFT__LIST_FOR(node, &f->life->children)
        weft__fiber_of_sibling(node)->is_unawaited =
            true; /* they end while we wait for the first */
    int64_t grace_ns = grace_s > 0 ? weft__deadline(c, grace_s) : 0;
    stop_children(c, f, NULL, grace_ns, WEFT__END_AS_TOLD);
    int rc = 0;
    while (rc == 0 && !weft__list_is_empty(&f->life->children))
        rc = weft_terminate(weft__fiber_of_sibling(f->life->children.next)->id, grace_s);
    return rc;
}
