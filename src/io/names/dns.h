/*
 * Lookups in the hosts file and by name servers, on the backend of the thread. c-ares implements
 * the DNS protocol. A fiber runs c-ares while lookups are pending. See docs/adr/0018.
 */
#ifndef WEFT_IO_NAMES_DNS_H
#define WEFT_IO_NAMES_DNS_H

#include "core/sched/sched.h"
#include "io/names/resolve.h"

/* Refcounted, immutable settings: servers, files and timeouts. */
typedef struct weft__dns_settings {
    unsigned refs;
    const char *servers, *search; /* point into text; NULL: as in resolv.conf */
    const char *hosts_path, *resolv_path;
    double timeout_s; /* 0: as in resolv.conf */
    int tries;        /* per server; 0: as in resolv.conf */
    char text[];
} weft__dns_settings;

void weft__dns_settings_unref(weft__dns_settings *s);

/* A DNS client: settings, a c-ares channel, lookups, and the fiber that runs the channel. */
typedef struct weft__dns weft__dns;

/* Create a DNS client. The first lookup opens the channel. Returns NULL if memory is exhausted. */
weft__dns *weft__dns_new(weft__dns_settings *s);

/* Return whether resolv.conf has changed since it was read. */
bool weft__dns_is_stale(const weft__dns *d);

/* Free a DNS client after its pending lookups have ended. If d is NULL, the call does nothing. */
void weft__dns_retire(weft__dns *d);

/* A fiber that waits for a lookup. */
typedef struct weft__dns_waiter {
    weft__fiber *fiber;
    weft__lookup *lookup; /* NULL: abandoned; the DNS client frees the lookup */
    bool is_done;
} weft__dns_waiter;

/*
 * Pass a lookup with its ports to a DNS client. The caller must not have a pending cancellation. If
 * the call returns 0, the caller must call weft__dns_wait. If the call fails, the caller still owns
 * the lookup. Returns 0 or an error.
 */
int weft__dns_begin(weft__cord *c, weft__dns *d, weft__lookup *l, weft__dns_waiter *w);

/*
 * Wait for a lookup. On success, the caller owns w->lookup, and w->lookup has its result code. If
 * the wait was interrupted, w->lookup is NULL. Returns 0, or the error that interrupted the wait.
 */
weft_value weft__dns_wait(weft__cord *c, weft__dns_waiter *w);

#endif
