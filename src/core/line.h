/*
 * A line: those who wait in one place, first come first served. Every wait for another fiber is a
 * place in a line: for its end, for a lock, for a message.
 *
 * The one rule for all of them: whoever serves a waiter takes it out of its line and completes what
 * it waited for in the same step. So a waiter that is out of the line has what it wanted, whatever
 * strikes it afterwards (that strikes at its next call); and one that is cancelled, or whose time
 * is over, is taken out by that and has nothing. There is no in-between in which a signal, a token
 * or a message could be lost.
 */
#ifndef WEFT_CORE_LINE_H
#define WEFT_CORE_LINE_H

#include "base/compiler.h"

#include <weft/base.h>

#include <stdatomic.h>

/*
 * One who waits in several places, some of them other threads': whoever claims it first serves it,
 * and to the others it is not there any more.
 */
typedef struct weft__contest {
    atomic_bool is_claimed;
    void *turn; /* what those of other threads need to serve it; theirs */
} weft__contest;

static inline bool weft__contest_claim(weft__contest *contest)
{
    return !atomic_exchange(&contest->is_claimed, true);
}

/*
 * One who waits. A fiber has one for the waits in one place; who waits in several brings its own.
 */
typedef struct weft__waiter {
    struct weft__waiter *next, *before; /* in the line, a circle; meaningless outside */
    struct weft__line *line;            /* NULL: in none */
    struct weft__fiber *fiber;          /* whose; NULL: nobody's last error is to be set */
    /*
     * Called when it is served, out of the line already. NULL: the fiber waits for nothing else and
     * is woken with the value.
     */
    void (*served)(struct weft__waiter *w, weft_value value);
    weft_value value; /* what it brings, as the place wants it */
    void *data;       /* the same */
    int how;          /* the same */
    /* Before it is served it is to be claimed: value points to its contest; served is not NULL. */
    bool is_contested;
} weft__waiter;

/* All-zero is an empty line, which may be moved. */
typedef struct weft__line {
    weft__waiter *first; /* NULL: empty */
} weft__line;

static inline bool weft__line_is_empty(const weft__line *line)
{
    return line->first == NULL;
}

/* To the end of the line. */
static inline void weft__line_join(weft__line *line, weft__waiter *w)
{
    weft__waiter *first = line->first;
    w->line = line;
    if (LIKELY(first == NULL)) {
        line->first = w->next = w->before = w;
        return;
    }
    w->next = first;
    w->before = first->before;
    first->before->next = w;
    first->before = w;
}

/*
 * The same for one that lasts, as a fiber's does. If it was alone in its line the last time, it is
 * a circle already.
 */
static inline void weft__line_join_again(weft__line *line, weft__waiter *w)
{
    if (UNLIKELY(line->first != NULL || w->next != w)) {
        weft__line_join(line, w);
        return;
    }
    line->first = w;
    w->line = line;
}

/* Out of the line that it is in. */
static inline void weft__line_leave_it(weft__line *line, weft__waiter *w)
{
    w->line = NULL;
    if (LIKELY(w->next == w)) {
        line->first = NULL;
        return;
    }
    w->next->before = w->before;
    w->before->next = w->next;
    if (line->first == w)
        line->first = w->next;
}

/* The same, if it is in one. */
static inline void weft__line_leave(weft__waiter *w)
{
    if (w->line != NULL)
        weft__line_leave_it(w->line, w);
}

/* The first, taken out; NULL if the line is empty. */
static inline weft__waiter *weft__line_pop(weft__line *line)
{
    weft__waiter *w = line->first;
    if (w != NULL)
        weft__line_leave(w);
    return w;
}

/* Is the first contested? Then it is to be claimed before it is served. */
static inline bool weft__line_is_contested(const weft__line *line)
{
    const weft__waiter *w = line->first;
    return w != NULL && UNLIKELY(w->served != NULL) && w->is_contested;
}

/*
 * The first that can be served, and has to be, at once: it is claimed, and not contested any more.
 * NULL: there is none.
 */
weft__waiter *weft__line_claim(weft__line *line);

/* The same for any line. */
static inline weft__waiter *weft__line_next(weft__line *line)
{
    return UNLIKELY(weft__line_is_contested(line)) ? weft__line_claim(line) : line->first;
}

/* The one behind w; NULL if w is the last. */
static inline weft__waiter *weft__line_after(const weft__waiter *w)
{
    return w->next != w->line->first ? w->next : NULL;
}

#endif
