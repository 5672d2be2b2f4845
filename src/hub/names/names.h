/*
 * Names with one owner: what a hub knows about them, and their entries on the servers.
 *
 * The key-value bucket "weft_names" has an entry for each owned name. The servers remove an entry
 * that is not renewed for lease_s. The entry says which hub owns the name. Each hub that owns names
 * replies to requests to "weft.node.<hub id>", so that other hubs see whether its process has a
 * connection.
 */
#ifndef WEFT_HUB_NAMES_NAMES_H
#define WEFT_HUB_NAMES_NAMES_H

#include "hub/jetstream/entry.h"
#include "hub/text/subject.h"

#define WEFT__NODE_ID_BYTES 32 /* of a hub id, with its NUL */

/*
 * The part of a hub for names. Created by the first use, and freed when the last user releases it.
 */
typedef struct weft__names {
    weft_hub *hub;
    unsigned holds;           /* of the hub's part, of leases and of owners */
    weft_fiber daemon;        /* releases the part when the hub or the thread ends */
    weft__subscription *node; /* replies to pings */
    weft__list owners;        /* weft__owner of monitor.c */
    bool has_bucket;          /* the bucket exists, and has the lease_s of this hub */
    double seen_owned_s;      /* when this hub last saw that another one owns a name it wants */
    weft__hub_watcher watcher;
} weft__names;

/* Return the part of a hub. Returns NULL and records an error on failure. */
weft__names *weft__names_get(weft_hub *hub);

/* The calls also hold and release the memory of the hub. */
void weft__names_hold(weft__names *n);
void weft__names_release(weft__names *n);

/*
 * Spin a daemon for names. If the fiber ends before fn is called, call drop(arg). A watcher must
 * terminate the fiber when the hub is closed. Returns 0 and records an error on failure.
 */
weft_fiber weft__names_spin(weft_fn *fn, void *arg, void (*drop)(void *), const char *name);

/*
 * Create the bucket, or find it. Returns 0, an error of weft__js_api, or:
 * -EEXIST if the bucket has another lease_s than the hub
 */
int weft__names_create_bucket(weft_hub *hub);

/* Like weft__names_create_bucket, at the first call. */
int weft__names_prepare(weft__names *n);

/* The owner of a name, as its entry says. */
typedef struct weft__ownership {
    char node[WEFT__NODE_ID_BYTES]; /* the id of the hub */
    uint64_t token;
} weft__ownership;

/* Read the owner of a name. Returns 0, an error of weft__js_api, or -ENOENT if there is none. */
int weft__ownership_read(weft_hub *hub, const char *name, weft__ownership *out);

/*
 * Write the entry of a name for this hub. token is 0 for a new owner, whose token will be the
 * revision. *revision is in-out, as in weft_hub_set. Returns as weft__js_write_entry does.
 */
int weft__ownership_write(weft_hub *hub, const char *name, uint64_t token, uint64_t *revision);

/* Write a marker in place of the entry with a revision: the name has no owner. */
int weft__ownership_delete(weft_hub *hub, const char *name, uint64_t revision);

/* Like weft__ownership_delete, without waiting for the reply. Does not switch. */
int weft__ownership_delete_now(weft_hub *hub, const char *name, uint64_t revision);

#endif
