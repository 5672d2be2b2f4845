/* The tree of fibers: parents and children. */
#ifndef WEFT_CORE_LIFETIME_TREE_H
#define WEFT_CORE_LIFETIME_TREE_H

#include "core/lifetime/cancel.h"

/*
 * Add f as the youngest child of parent. f must not be in the tree. Do not notify the
 * children_reaper of the parent.
 */
static inline void weft__tree_link_only(weft__fiber *f, weft__fiber *parent)
{
    f->parent = parent;
    weft__list_insert(&parent->live->children, &f->sibling);
}

/* Like weft__tree_link_only, but notify the children_reaper of the parent. */
static inline void weft__tree_link(weft__fiber *f, weft__fiber *parent)
{
    weft__tree_link_only(f, parent);
    if (UNLIKELY(parent->live->children_reaper != NULL))
        parent->live->children_reaper->type->joined(parent->live->children_reaper, f);
}

/* Return whether f has a child other than `except`. `except` may be NULL. */
static inline bool weft__tree_has_children(const weft__fiber *f, const weft__fiber *except)
{
    const weft__list *head = &f->live->children, *first = head->next;
    bool is_spared = except != NULL && first == &except->sibling && first->next == head;
    return first != head && !is_spared;
}

/* Remove a living fiber from the tree. */
void weft__tree_unlink(weft__cord *c, weft__fiber *f);

/*
 * Cancel the children of f other than `except`, in the order of their creation. `except` may be
 * NULL. The current fiber waits until the children have ended. The wait cannot be interrupted.
 * Returns false if a child does not end.
 */
bool weft__tree_end_children(weft__cord *c, weft__fiber *f, const weft__fiber *except);

/*
 * Report f, which ignores its cancellation while the process ends. Stop waiting for children. After
 * the call, weft__tree_end_children does not wait, and returns false if a child is left.
 */
void weft__tree_give_up(weft__cord *c, const weft__fiber *f);

/*
 * If the process ends, and all fibers that are left wait for locks of POSIX, stop waiting for them.
 * Their locks may never become free. Return true if the fiber that ends the process is runnable.
 */
bool weft__tree_leave_lock_waiters(weft__cord *c);

/*
 * Unpark and cancel a fiber. The grace time of the fiber ends at grace_ns (0: no grace time). If
 * the fiber is already ending, only prevent a restart.
 */
void weft__tree_stop_child(weft__cord *c, weft__fiber *child, int64_t grace_ns,
                           weft__exit_reason why);

/* Cancel the children of f that have this reaper, in the order of their creation. */
void weft__tree_cancel_reaped(weft__cord *c, weft__fiber *f, const weft__reaper *reaper);

/* Free the records of ended children of f that no fiber has awaited. */
void weft__tree_drop_ended(weft__cord *c, weft__fiber *f);

/*
 * Set whether new children of f may run while f ends its children. Returns the previous setting.
 * Some internal calls need such children, and end these children themselves. Such a call passes
 * true first, and restores the previous setting afterwards.
 */
static inline bool weft__tree_open(weft__fiber *f, bool is_open)
{
    bool was_open = !f->is_closing;
    f->is_closing = !is_open;
    return was_open;
}

/* Return whether a is f or an ancestor of f. */
bool weft__tree_is_ancestor(const weft__fiber *a, const weft__fiber *f);

/* Return the fiber after f in pre-order, and update *depth. Return NULL if f is the last fiber. */
static inline weft__fiber *weft__tree_next(const weft__fiber *f, int *depth)
{
    if (weft__tree_has_children(f, NULL)) {
        ++*depth;
        return weft__fiber_of_sibling(f->live->children.next);
    }
    for (; f->parent != NULL; f = f->parent, --*depth)
        if (f->sibling.next != &f->parent->live->children)
            return weft__fiber_of_sibling(f->sibling.next);
    return NULL;
}

#endif
