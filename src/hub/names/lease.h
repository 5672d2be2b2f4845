/*
 * Leases: an owned name, which a daemon of the hub acquires, renews and releases.
 *
 * The daemon also acquires the name, so that a caller that is cancelled meanwhile leaves no entry:
 * the daemon then releases the name at once.
 */
#ifndef WEFT_HUB_NAMES_LEASE_H
#define WEFT_HUB_NAMES_LEASE_H

#include "hub/client/expose.h"
#include "hub/names/names.h"

typedef struct weft__lease {
    weft__names *names;
    unsigned holds;           /* of the daemon and of callers; the memory is freed at 0 */
    weft_fiber owner;         /* the fiber that gets the messages */
    weft_fiber daemon;        /* 0: ended */
    weft__exposure *exposure; /* NULL: none yet, or ended */
    uint64_t token;           /* the revision of the first entry; 0: not acquired */
    uint64_t revision;        /* of the last entry */
    double sent_s;            /* the time at which the last entry was sent */
    bool is_writing;          /* the daemon waits for the reply to an entry */
    bool is_stopping;         /* the daemon must release the name */
    int result;               /* of the acquisition */
    weft_event is_settled;    /* result is valid */
    weft_event must_stop;     /* wakes the daemon: is_stopping */
    weft_event has_ended;     /* the name is released */
    weft__hub_watcher watcher;
    char name[WEFT__NAME_BYTES_MAX + 1];
} weft__lease;

/*
 * Acquire a name for a fiber, and keep it. The caller holds *out. Returns 0, an error of
 * weft__js_api, or:
 * -EEXIST if another fiber or process owns the name
 */
int weft__lease_acquire(weft__names *n, const char *name, weft_fiber owner, weft__lease **out);

/* Begin to release the name. Does not switch. */
void weft__lease_stop(weft__lease *l);

void weft__lease_hold(weft__lease *l);
void weft__lease_release(weft__lease *l);

#endif
