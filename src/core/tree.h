/* Parents and children: the order in which fibers end. */
#ifndef WEFT_CORE_TREE_H
#define WEFT_CORE_TREE_H

#include "core/sched.h"

/* Put f, which is in no tree, under parent as its youngest child; take a living f out of it. */
void weft__tree_link(weft__fiber *f, weft__fiber *parent);
void weft__tree_unlink(weft__cord *c, weft__fiber *f);

/*
 * Cancel the children of f, all but `except` (NULL: all), in the order of their making, and wait in
 * the current fiber until they are dead. Cannot be cut short.
 */
void weft__tree_end_children(weft__cord *c, weft__fiber *f, const weft__fiber *except);

/* Give back the children of f that have ended and were never awaited. */
void weft__tree_bury(weft__cord *c, weft__fiber *f);

/* Is a an ancestor of f, or f itself? */
bool weft__tree_is_above(const weft__fiber *a, const weft__fiber *f);

/* The first thing that a fiber runs: its function, then its end. */
void weft__fiber_entry(intptr_t value);

/* The last thing done for a fiber that has ended, after the next one was chosen: what it leaves. */
void weft__fiber_retire(weft__cord *c, weft__fiber *f);

/* An ended fiber has been awaited (value taken, words passed on): give its record back. */
void weft__fiber_collect(weft__cord *c, weft__fiber *f);

/*
 * What all fibers of the cord do when their thread or process ends. The first error that nobody
 * handled, or 0.
 */
int weft__cord_end_fibers(weft__cord *c);

#endif
