/*
 * Where threads find each other: every cord has a port, by its index, and whoever has an id knows
 * the index. Nothing here takes a lock on the way to another cord.
 *
 * To touch another thread's cord is to visit it: it cannot go away before the visitor has left.
 */
#ifndef WEFT_CORE_PORT_H
#define WEFT_CORE_PORT_H

#include "core/cord.h"

/* An index for the cord, and ids that nobody has had. 0, or -EAGAIN: all ports are taken. */
int weft__port_take(weft__cord *c);

/* The cord is to be found there from now on, by whoever has an id of an earlier one, too. */
void weft__port_open(weft__cord *c);

/*
 * It is not to be found any more; waits for visitors to leave. Its port is free for another cord
 * unless is_kept: then only after weft__port_free.
 */
void weft__port_close(weft__cord *c, bool is_kept);

/* The first half of that, for a thread that goes on: it ends the process. */
void weft__port_hide(weft__cord *c);

void weft__port_free(uint32_t index);

/*
 * The cord at this index, which stays there until weft__port_leave; NULL: there is none. What runs
 * in between must not wait.
 */
weft__cord *weft__port_visit(uint32_t index);
void weft__port_leave(uint32_t index);

/* Call fn for every cord, while none comes or goes. */
void weft__port_each(void (*fn)(weft__cord *c, void *context), void *context);

/* Make the cord at this index look at its inbox, if it sleeps; the way that always works. */
void weft__port_nudge(uint32_t index);

/* Who could still wake someone in a cord that cannot help itself. */
typedef enum weft__hope {
    WEFT__HOPE_NOBODY,
    WEFT__HOPE_THREADS, /* without fibers: nothing is known of them */
    WEFT__HOPE_CORDS,
    WEFT__HOPE_ITSELF,
} weft__hope;

/*
 * Could others wake someone in this cord? If is_helpless, it could not wake anyone in theirs
 * either, until weft__port_go_on, which is to be called before this is asked again. Where nobody
 * can help anyone, one cord is let go: one whose main fiber is content with an end, else this one,
 * else another, but none that is owed something. resort: what this one's main fiber says to that.
 */
weft__hope weft__port_hope(weft__cord *c, bool is_helpless, weft__resort resort);

/* It has been woken, or does not wait. */
void weft__port_go_on(weft__cord *c);

/*
 * In a child of fork(2), whose other threads are gone in the middle of whatever they were at: none
 * of their cords is to be found any more, only this one (NULL: none at all). gone (NULL: nothing)
 * is called for each of them.
 */
void weft__port_renew(weft__cord *c, void (*gone)(weft__cord *other));

#endif
