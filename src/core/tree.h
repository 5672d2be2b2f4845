/* Parents and children. */
#ifndef WEFT_CORE_TREE_H
#define WEFT_CORE_TREE_H

#include "core/alarm.h"

/* Put f, which is in no tree, under parent as its youngest child; nobody is told. */
static inline void weft__tree_hang(weft__fiber *f, weft__fiber *parent)
{
    f->parent = parent;
    weft__list_insert(&parent->life->children, &f->sibling);
}

/* The same, and the parent's nursery is told. */
static inline void weft__tree_link(weft__fiber *f, weft__fiber *parent)
{
    weft__tree_hang(f, parent);
    if (UNLIKELY(parent->life->nursery != NULL))
        parent->life->nursery->type->joined(parent->life->nursery, f);
}

/* Has f children, apart from `except` (NULL: none)? */
static inline bool weft__tree_has_children(const weft__fiber *f, const weft__fiber *except)
{
    const weft__list *head = &f->life->children, *first = head->next;
    bool is_spared = except != NULL && first == &except->sibling && first->next == head;
    return first != head && !is_spared;
}

/* Take a living f out of the tree. */
void weft__tree_unlink(weft__cord *c, weft__fiber *f);

/*
 * Cancel the children of f, all but `except` (NULL: all), in the order of their making, and wait in
 * the current fiber until they are dead. Cannot be cut short. False: they will never be.
 */
bool weft__tree_end_children(weft__cord *c, weft__fiber *f, const weft__fiber *except);

/*
 * The thread ends its fibers, and this one ignores its cancellation: report it, and stop waiting
 * for children. weft__tree_end_children returns false from now on if some are left.
 */
void weft__tree_give_up(weft__cord *c, const weft__fiber *f);

/*
 * Cancel a fiber, parked or not, to end by then (0: no time is given); nothing happens to one that
 * is ending already.
 */
void weft__tree_stop(weft__cord *c, weft__fiber *child, int64_t grace_ns, weft__end why);

/* Cancel those children of f that this keeper keeps, in the order of their making. */
void weft__tree_cancel_kept(weft__cord *c, weft__fiber *f, const weft__keeper *keeper);

/* Give back the children of f that have ended and were never awaited. */
void weft__tree_bury(weft__cord *c, weft__fiber *f);

/*
 * May f have children that run, also while its others are ended? For a call of weft's own that
 * needs some and ends them itself: before it makes them and, with what this returns, after it.
 */
static inline bool weft__tree_open(weft__fiber *f, bool is_open)
{
    bool was_open = !f->is_closing;
    f->is_closing = !is_open;
    return was_open;
}

/* Is a an ancestor of f, or f itself? */
bool weft__tree_is_above(const weft__fiber *a, const weft__fiber *f);

#endif
