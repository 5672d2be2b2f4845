/*
 * Leases of names: acquire, renew, lose, release.
 *
 * The servers remove an entry lease_s after they have stored it. The daemon counts from the time at
 * which it sent the entry, which is earlier, and gives the name up a margin before the servers
 * remove the entry. Until then no other process can acquire the name, provided that the clocks of
 * the servers of a cluster differ by less than the margin.
 */
#include "hub/names/lease.h"

#include <weft.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Renewals per lease. A cluster that loses a leader stores nothing for up to 10 s. With the default
 * of 15 s, a lease survives a loss of 11 s.
 */
#define RENEWALS_PER_LEASE 5

/* The time between renewals that fail with an unexpected error. */
#define RENEWAL_RETRY_S 1.0

/* The margin is this part of a lease. */
#define MARGINS_PER_LEASE 15

/* A hub that is closed waits so long for a daemon to end, before it is reported. */
#define DAEMON_GRACE_S 5.0

/*
 * Each server of a cluster removes an entry by its own clock. Servers that still have the entry
 * refuse a new one, and must then copy the state of the leader. Wait for this time if an entry may
 * just have been removed.
 */
#define EXPIRY_SPREAD_S 0.25

static double lease_s(const weft__lease *l)
{
    return weft__hub_options(l->names->hub)->lease_s;
}

/* The time at which the name is lost unless it is renewed. */
static double lease_end_s(const weft__lease *l)
{
    return l->sent_s + lease_s(l) - lease_s(l) / MARGINS_PER_LEASE;
}

void weft__lease_hold(weft__lease *l)
{
    l->holds++;
}

void weft__lease_release(weft__lease *l)
{
    if (--l->holds > 0)
        return;
    weft__names_release(l->names);
    free(l);
}

void weft__lease_stop(weft__lease *l)
{
    l->is_stopping = true;
    weft_event_set(&l->must_stop);
}

/* Write the first entry. Returns 0, -EEXIST or another error. */
static int lease_begin(weft__lease *l)
{
    weft__names *n = l->names;
    if (weft_now() < n->seen_owned_s + lease_s(l)) {
        weft__ownership ownership;
        int rc = weft__ownership_read(n->hub, l->name, &ownership);
        if (rc == 0)
            n->seen_owned_s = weft_now();
        if (rc == 0 || rc != -ENOENT)
            return rc == 0 ? -EEXIST : rc;
        rc = weft_sleep(EXPIRY_SPREAD_S);
        if (rc < 0)
            return rc;
    }
    double now_s = weft_now();
    int rc = weft__ownership_write(n->hub, l->name, 0, &l->revision);
    if (rc == -ESTALE)
        n->seen_owned_s = weft_now();
    if (rc < 0)
        return rc == -ESTALE ? -EEXIST : rc;
    l->sent_s = now_s;
    l->token = l->revision;
    return 0;
}

/* Write the next entry. Returns 0, -ESTALE if the name is lost, -EBADF or a cancellation. */
static int lease_renew(weft__lease *l)
{
    int rc = 0, timeout = 0;
    double now_s = weft_now();
    uint64_t revision = l->revision;
    l->is_writing = true;
    WEFT_CANCEL_AFTER(lease_end_s(l) - now_s, timeout) {
        rc = weft__ownership_write(l->names->hub, l->name, l->token, &revision);
    }
    l->is_writing = false;
    if (rc < 0)
        return timeout < 0 || rc == -ENOENT ? -ESTALE : rc;
    l->revision = revision;
    l->sent_s = now_s;
    return 0;
}

/* Renew until the lease must end. Returns 0, -ESTALE if the name is lost, or another error. */
static int lease_keep(weft__lease *l)
{
    double retry_s = 0;
    while (!l->is_stopping) {
        double next_s = l->sent_s + lease_s(l) / RENEWALS_PER_LEASE;
        next_s = next_s < retry_s ? retry_s : next_s;
        int rc = weft__js_event_wait(&l->must_stop, next_s - weft_now());
        double now_s = weft_now();
        if (rc == 0 && !l->is_stopping && now_s >= lease_end_s(l))
            rc = -ESTALE; /* the process was stopped, or a fiber ran for so long */
        else if (rc == 0 && !l->is_stopping && now_s >= next_s)
            rc = lease_renew(l);
        if (rc == -ESTALE || rc == -EBADF || weft_is_cancelled())
            return rc;
        retry_s = rc < 0 ? now_s + RENEWAL_RETRY_S : 0;
    }
    return 0;
}

/* The name is lost: tell the owner, unless it gives the name up anyway. */
static void lease_lose(weft__lease *l)
{
    if (l->exposure == NULL)
        return;
    weft__expose_end(l->exposure);
    l->exposure = NULL;
    weft_raise(l->owner, -ESTALE, "the lease of the name %s has ended", l->name);
}

/* Release the name. After lease_s, the entry is gone in any case. */
static void lease_end(weft__lease *l)
{
    WEFT_MOVE_ON_AFTER(lease_s(l)) {
        weft__ownership_delete(l->names->hub, l->name, l->revision);
    }
}

static void lease_drop(void *arg)
{
    weft__lease *l = arg;
    l->daemon = 0;
    if (l->token == 0 && l->result == 0)
        l->result = -EBADF;
    weft__hub_unwatch(&l->watcher);
    weft_event_set(&l->is_settled);
    weft_event_set(&l->has_ended);
    weft__lease_release(l);
}

static weft_value lease_run(void *arg)
{
    weft__lease *l = arg;
    l->is_writing = true;
    l->result = lease_begin(l);
    l->is_writing = false;
    if (l->result == 0) {
        weft_event_set(&l->is_settled);
        int rc = lease_keep(l);
        if (rc == -ESTALE)
            lease_lose(l);
        else if (rc == 0)
            lease_end(l);
    }
    lease_drop(l);
    return 0;
}

/*
 * The hub is being closed. The daemon knows the last revision, unless it waits for a reply: then
 * the daemon itself releases the name, as long as the hub permits.
 */
static void lease_on_close(weft__hub_watcher *watcher)
{
    weft__lease *l = CONTAINER_OF(watcher, weft__lease, watcher);
    weft__lease_hold(l);
    l->exposure = NULL; /* the hub ends all exposures */
    weft__lease_stop(l);
    if (!l->is_writing && l->token != 0)
        weft__ownership_delete_now(l->names->hub, l->name, l->revision);
    else
        weft_event_wait(&l->has_ended);
    if (l->daemon != 0)
        weft_terminate(l->daemon, DAEMON_GRACE_S);
    weft__lease_release(l);
}

static weft__lease *lease_new(weft__names *n, const char *name, weft_fiber owner)
{
    weft__lease *l = malloc(sizeof *l);
    if (l == NULL) {
        weft_fail(-ENOMEM, "no memory for a lease");
        return NULL;
    }
    *l = (weft__lease){.names = n, .holds = 1, .owner = owner};
    l->watcher.on_close = lease_on_close;
    snprintf(l->name, sizeof l->name, "%s", name);
    weft__names_hold(n);
    l->daemon = weft__names_spin(lease_run, l, lease_drop, "hub lease");
    if (l->daemon == 0) {
        weft__lease_release(l);
        return NULL;
    }
    weft__lease_hold(l);
    weft__hub_watch(n->hub, &l->watcher);
    return l;
}

int weft__lease_acquire(weft__names *n, const char *name, weft_fiber owner, weft__lease **out)
{
    weft__lease *l = lease_new(n, name, owner);
    if (l == NULL)
        return weft_error()->code;
    int rc = weft_event_wait(&l->is_settled);
    if (rc == 0)
        rc = l->result;
    if (rc < 0) {
        weft__lease_stop(l);
        weft__lease_release(l);
        return rc;
    }
    *out = l;
    return 0;
}
