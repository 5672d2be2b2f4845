/* Mailboxes from the inside, and the messages that the runtime itself sends: ends of fibers. */
#ifndef WEFT_CORE_MAILBOX_H
#define WEFT_CORE_MAILBOX_H

#include "core/passage.h"

typedef struct weft__mailbox {
    weft__passage passage;
} weft__mailbox;

/* The fiber's mailbox, made if it has none; NULL: no memory. */
weft__mailbox *weft__mailbox_of(weft__fiber *f);

/* Into the mailbox of a living fiber, whatever its bound. 0 or -ENOMEM. */
int weft__mailbox_force(weft__cord *c, weft__fiber *f, weft_value value);

/*
 * A run of the fiber is over: what was not received is forgotten. If it runs again, those who wait
 * to tell it something are heard, else they are told that it is gone.
 */
void weft__mailbox_empty(weft__cord *c, weft__fiber *f);

/* The fiber is gone, and its mailbox with it. */
void weft__mailbox_free(weft__cord *c, weft__fiber *f);

/*
 * Tell those who monitor the fiber that it has ended (monitor.c). How many there were;
 * *is_parent_told is set if its parent was among them.
 */
uint32_t weft__monitors_tell(weft__cord *c, weft__fiber *f, bool *is_parent_told);

/* Of those who monitor the ended fiber, how many have not awaited it yet (monitor.c). */
uint32_t weft__monitors_owed(const weft__fiber *f);

/*
 * The ended fiber is awaited by this one. False: others are owed that, who monitor it, and this one
 * is not (or not any more), so it must stay (monitor.c).
 */
bool weft__monitors_pay(weft__fiber *f, const weft__fiber *by);

#endif
