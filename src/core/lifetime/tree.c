/*
 * The tree of fibers. Move a fiber to another parent, and end and join children. exit.c implements
 * the exit of a single fiber.
 */
#include "core/lifetime/tree.h"

#include "core/debug/diag.h"
#include "core/lifetime/cancel.h"

/* Wake the joiner of a parent if no child is left to wait for. */
static void wake_joiner(weft__cord *c, weft__fiber *parent)
{
    weft__fiber *joiner = parent->live->joiner;
    if (LIKELY(joiner == NULL) || weft__tree_has_children(parent, parent->live->spared))
        return;
    parent->live->joiner = NULL;
    weft__wake(c, joiner, 0, WEFT__TAIL);
}

void weft__tree_unlink(weft__cord *c, weft__fiber *f)
{
    weft__list_remove(&f->sibling);
    wake_joiner(c, f->parent);
}

bool weft__tree_is_ancestor(const weft__fiber *a, const weft__fiber *f)
{
    if (weft__list_is_empty(&a->live->children))
        return a == f;
    while (f != NULL && f != a)
        f = f->parent;
    return f != NULL;
}

/* This wait cannot be interrupted, because the children are already cancelled. */
static const weft__wait_kind waits_end = {.name = "the end of its children",
                                          .is_for_children = true};

static bool leave_children(weft__fiber *f)
{
    ((weft__fiber *)f->wait_object)->live->joiner = NULL;
    return true;
}

static const weft__wait_kind waits_children = {"its children", .leave = leave_children};

static weft_value children_join(weft__cord *c, weft__fiber *f, const weft__fiber *except,
                                const weft__wait_kind *kind)
{
    if (!weft__tree_has_children(f, except))
        return 0;
    f->live->joiner = c->current;
    f->live->spared = except;
    return weft__wait(c, kind, f);
}

void weft__tree_stop_child(weft__cord *c, weft__fiber *child, int64_t grace_ns,
                           weft__exit_reason why)
{
    weft__unpark(c, child);
    if (child->phase == WEFT__ENDING) {
        child->is_restarting = false;
        return;
    }
    if (child->is_stopped && !child->is_restarting)
        return;
    child->live->grace_ns = grace_ns;
    weft__fiber_stop(c, child, -ECANCELED, why);
}

/*
 * Stop the children of f, the youngest first. Each stop moves a child to the front of the run
 * queue. So the children run in the order of their creation.
 */
static void stop_children(weft__cord *c, weft__fiber *f, const weft__fiber *except,
                          int64_t grace_ns, weft__exit_reason why)
{
    for (weft__list *node = f->live->children.prev; node != &f->live->children; node = node->prev) {
        weft__fiber *child = weft__fiber_of_sibling(node);
        if (child != except)
            weft__tree_stop_child(c, child, grace_ns, why);
    }
}

void weft__tree_cancel_reaped(weft__cord *c, weft__fiber *f, const weft__reaper *reaper)
{
    for (weft__list *node = f->live->children.prev; node != &f->live->children; node = node->prev) {
        weft__fiber *child = weft__fiber_of_sibling(node);
        if (child->reaper == reaper)
            weft__tree_stop_child(c, child, f->live->grace_ns, WEFT__EXIT_WITH_PARENT);
    }
}

bool weft__tree_end_children(weft__cord *c, weft__fiber *f, const weft__fiber *except)
{
    f->is_closing = true; /* new children are stopped before they run */
    stop_children(c, f, except, f->live->grace_ns, WEFT__EXIT_WITH_PARENT);
    if (c->has_given_up)
        return !weft__tree_has_children(f, except);
    bool have_ended = children_join(c, f, except, &waits_end) == 0;
    if (!have_ended)
        f->live->joiner = NULL; /* the reason is already reported */
    return have_ended;
}

void weft__tree_give_up(weft__cord *c, const weft__fiber *f)
{
    if (c->has_given_up)
        return;
    c->has_given_up = true;
    weft__diag(
        LOG_WARNING,
        "fiber #%llu '%s' has not ended %d s after main; the process ends without this fiber",
        (unsigned long long)f->id, f->name, WEFT__EXIT_GRACE_S);
    if (c->closer->waits_in == &waits_end)
        weft__wake(c, c->closer, -ETIMEDOUT, WEFT__FRONT);
}

/* Return the next fiber record in use after slot, or NULL. */
static weft__fiber *next_living(const weft__cord *c, uint32_t *slot)
{
    for (; *slot < c->chunks_count * WEFT__CHUNK_FIBERS; ++*slot) {
        weft__fiber *f = weft__record_at(c, *slot);
        if (f->id != 0 && f->live != NULL)
            return f;
    }
    return NULL;
}

static bool only_lock_waiters_are_left(const weft__cord *c)
{
    const weft__fiber *f;
    for (uint32_t slot = 0; (f = next_living(c, &slot)) != NULL; slot++) {
        const weft__wait_kind *kind = f->waits_in;
        if (kind == NULL || (!kind->is_left_at_exit && !kind->is_for_children))
            return false;
    }
    return true;
}

/* The exit hooks remove the fibers from the queues of their locks. */
bool weft__tree_leave_lock_waiters(weft__cord *c)
{
    if (c->closer->waits_in != &waits_end || !only_lock_waiters_are_left(c))
        return false;
    weft__fiber *f;
    for (uint32_t slot = 0; (f = next_living(c, &slot)) != NULL; slot++)
        if (f->waits_in->is_left_at_exit)
            weft__exit_hooks_run(&f->live->exit_hooks);
    weft__wake(c, c->closer, -ETIMEDOUT, WEFT__FRONT);
    return true;
}

void weft__tree_drop_ended(weft__cord *c, weft__fiber *f)
{
    weft__list *node;
    while ((node = weft__list_pop(&f->live->ended)) != NULL) {
        c->ended_count--;
        f->live->ended_count--;
        weft__fiber_free(c, weft__fiber_of_sibling(node));
    }
    if (UNLIKELY(f->has_unawaited))
        weft__unawaited_drop(c, f);
}

int weft_attach(weft_fiber fiber, weft_fiber parent)
{
    weft__cord *c;
    weft__fiber *f, *new_parent;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc == 0)
        rc = weft__fiber_lookup_living(parent, &c, &new_parent);
    if (rc < 0)
        return rc;
    if (f->parent == NULL || weft__tree_is_ancestor(f, new_parent))
        return weft_fail(
            -EINVAL, "weft_attach: fiber is a main fiber, is parent, or is an ancestor of parent");
    if (new_parent->phase == WEFT__ENDING)
        return weft_fail(-EINVAL, "weft_attach: parent is ending");
    if (f->reaper != NULL && f->reaper != new_parent->live->children_reaper) {
        f->reaper->type->left(f->reaper, f);
        f->reaper = NULL;
    }
    weft__tree_unlink(c, f);
    weft__tree_link(f, new_parent);
    return 0;
}

int weft_detach(weft_fiber fiber)
{
    return weft_attach(fiber, weft_main());
}

weft_fiber weft_parent(weft_fiber fiber)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return 0;
    weft__fiber *f = weft__fiber_find(c, fiber);
    if (f != NULL)
        return f->parent != NULL ? f->parent->id : 0;
    const weft__unawaited *e = weft__unawaited_find(c, fiber);
    if (e != NULL)
        return weft__record_at(c, e->parent)->id;
    weft_fail(weft__fiber_find_error(c, fiber),
              "weft_parent: fiber #%llu is gone or belongs to another thread",
              (unsigned long long)fiber);
    return 0;
}

int weft_children(weft_fiber fiber, weft_fiber *out, size_t n)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup(fiber, &c, &f);
    if (rc < 0)
        return rc;
    if (f->live == NULL)
        return 0;
    size_t i = 0;
    WEFT__LIST_FOR(node, &f->live->children) {
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
    if (c->current->pending)
        return (int)weft__call_refuse(c);
    return (int)children_join(c, c->current, NULL, &waits_children);
}

int weft_terminate_children(double grace_s)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    if (!(grace_s >= 0))
        return weft_fail(-EINVAL, "weft_terminate_children: grace_s is %g", grace_s);
    weft__fiber *f = c->current;
    /* Discard the values of children that end before the loop below awaits them. */
    WEFT__LIST_FOR(node, &f->live->children)
        weft__fiber_of_sibling(node)->is_unawaited = true;
    int64_t grace_ns = grace_s > 0 ? weft__deadline(c, grace_s) : 0;
    stop_children(c, f, NULL, grace_ns, WEFT__EXIT_REQUESTED);
    int rc = 0;
    while (rc == 0 && !weft__list_is_empty(&f->live->children))
        rc = weft_terminate(weft__fiber_of_sibling(f->live->children.next)->id, grace_s);
    return rc;
}
