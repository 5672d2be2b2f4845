/* A wrapper for c-ares. Only cares.c and query.c call c-ares directly. */
#ifndef WEFT_IO_NAMES_CARES_H
#define WEFT_IO_NAMES_CARES_H

#include "io/names/dns.h"
#include "io/names/system_files.h"

#include <weft/select.h>

/* The maximum number of sockets that c-ares reports. Each server needs one or two sockets. */
#define WEFT__CARES_FDS_MAX 16

/* A c-ares channel. An all-zero channel is closed. An open channel must not move. */
typedef struct weft__cares {
    struct ares_channeldata *ares;
    weft__search search;
    int rcode; /* response code of the last datagram; 0: no error, or no datagram */
} weft__cares;

/*
 * A callback for the result of a query. code is a return value of getaddrinfo. If code is 0, ips
 * has the addresses, and canonical is the canonical name. The caller frees both after the callback.
 * The callback must not switch.
 */
typedef void weft__cares_on_result(void *arg, int code, weft__ip_addrs *ips, const char *canonical);

static inline bool weft__cares_is_open(const weft__cares *ch)
{
    return ch->ares != NULL;
}

/*
 * Open a channel. resolv is the text of resolv.conf, or NULL.
 *
 * Returns 0, or:
 * -ENOMEM if c-ares cannot be initialised
 * -ENOMEM if memory is exhausted
 */
int weft__cares_open(weft__cares *ch, const weft__dns_settings *s, const char *resolv);

/* Close a channel. No query may be pending. */
void weft__cares_close(weft__cares *ch);

/* Query the name servers. on_result may run before this call returns. */
void weft__cares_query(weft__cares *ch, const char *host, int family,
                       weft__cares_on_result *on_result, void *arg);

/* End all pending queries with an error. */
void weft__cares_cancel(weft__cares *ch);

/* Store clauses for the sockets of a channel in out. Returns the number of clauses. */
int weft__cares_clauses(weft__cares *ch, weft_clause *out);

/*
 * Return the time until the next timer of c-ares, in seconds. Returns INFINITY if no query is
 * pending.
 */
double weft__cares_timeout(weft__cares *ch);

/* Close the sockets that no pending query uses. */
void weft__cares_close_unused(weft__cares *ch);

/* Handle the events of a socket, and expired timers. If fd is -1, handle only timers. */
void weft__cares_handle(weft__cares *ch, int fd, int events);

#endif
