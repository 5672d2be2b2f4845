/*
 * Names by the files and the name servers, on the thread's own backend: c-ares speaks DNS, a fiber
 * drives it while there are lookups. See docs/adr/0018.
 */
#ifndef WEFT_IO_RESOLVE_DNS_H
#define WEFT_IO_RESOLVE_DNS_H

#include "core/sched.h"
#include "io/resolve.h"

/* Where to look and how patiently; counted, and not changed once made. */
typedef struct weft__dns_settings {
    unsigned refs;
    const char *servers, *search; /* in text; NULL: as the file says */
    const char *hosts_path, *resolv_path;
    double timeout_s; /* 0: as the file says */
    int tries;        /* the same */
    char text[];
} weft__dns_settings;

void weft__dns_settings_unref(weft__dns_settings *s);

/* One set of settings at work: a channel of c-ares, the lookups in it, the fiber that drives it. */
typedef struct weft__dns weft__dns;

/* Nothing is opened before the first lookup. NULL: no memory. */
weft__dns *weft__dns_new(weft__dns_settings *s);

/* Does it work by a resolv.conf that has changed since? */
bool weft__dns_is_old(const weft__dns *d);

/* Let it finish the lookups that it has, and free it. NULL is fine. */
void weft__dns_retire(weft__dns *d);

/* Who waits for a lookup. */
typedef struct weft__asker {
    weft__fiber *fiber;
    weft__lookup *lookup; /* NULL: given up, it is the DNS's */
    bool is_done;
} weft__asker;

/*
 * Hand over a lookup, whose ports are there. 0: weft__dns_wait is to be called. Else it cannot be
 * done this way just now, and is still the caller's. The caller's alarm is not set.
 */
int weft__dns_begin(weft__cord *c, weft__dns *d, weft__lookup *l, weft__asker *a);

/*
 * Wait until it is done: a->lookup is the caller's again, with its code. NULL: it was not to be,
 * and this returns why.
 */
weft_value weft__dns_wait(weft__cord *c, weft__asker *a);

#endif
