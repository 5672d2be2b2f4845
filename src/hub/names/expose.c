/* Expose and withdraw names. A shared name is an exposure only. An owned name has a lease too. */
#include "hub/names/lease.h"

#include <weft.h>

#include <errno.h>

static int expose_shared(weft_hub *hub, const char *name, weft_fiber fiber)
{
    weft__exposure *exposure;
    const weft__expose_options options = {.queue = WEFT__EXPOSE_GROUP};
    return weft__expose_begin(hub, name, fiber, &options, &exposure);
}

/* The fiber of an owned name has ended. */
static void owned_on_end(void *ctx)
{
    weft__lease *l = ctx;
    l->exposure = NULL;
    weft__lease_stop(l);
}

/* Deliver the messages of an acquired name. If the lease ends meanwhile, end the exposure. */
static int owned_begin(weft__lease *l)
{
    const weft__expose_options options = {.on_end = owned_on_end, .ctx = l};
    weft__exposure *exposure = NULL;
    int rc = weft__hub_check(l->names->hub); /* the hub may have been closed */
    if (rc == 0)
        rc = weft__expose_begin(l->names->hub, l->name, l->owner, &options, &exposure);
    if (rc < 0)
        return rc;
    if (l->daemon == 0) {
        weft__expose_end(exposure);
        return l->is_stopping ? -EBADF : -EEXIST; /* the hub is being closed, or the name is lost */
    }
    l->exposure = exposure;
    return 0;
}

static int expose_owned(weft__names *n, const char *name, weft_fiber fiber, uint64_t *token)
{
    int rc = weft__names_prepare(n);
    if (rc < 0)
        return rc;
    weft__lease *lease;
    rc = weft__lease_acquire(n, name, fiber, &lease);
    if (rc < 0)
        return rc;
    rc = owned_begin(lease);
    if (rc < 0)
        weft__lease_stop(lease);
    else
        *token = lease->token;
    weft__lease_release(lease);
    return rc;
}

static int expose_with_lease(weft_hub *hub, const char *name, weft_fiber fiber, uint64_t *token)
{
    weft__names *n = weft__names_get(hub);
    if (n == NULL)
        return weft_error()->code;
    weft__names_hold(n);
    int rc = expose_owned(n, name, fiber, token);
    weft__names_release(n);
    return rc;
}

int weft_hub_expose(weft_hub *hub, const char *name, weft_fiber fiber, uint64_t *token)
{
    int rc = weft__js_check_name(hub, "weft_hub_expose", name);
    if (rc < 0)
        return rc;
    if (weft__expose_find(hub, name) != NULL)
        return weft_fail(-EEXIST, "weft_hub_expose: this hub exposes %.100s already", name);
    if (weft_state_of(fiber) == WEFT_DEAD)
        return weft_fail(-ESRCH, "weft_hub_expose: the fiber has ended");
    weft__hub_hold(hub);
    rc = token == NULL ? expose_shared(hub, name, fiber)
                       : expose_with_lease(hub, name, fiber, token);
    if (rc == -ESRCH && weft_state_of(fiber) != WEFT_DEAD)
        rc = -EBADF; /* the hub was closed, and has ended the exposure */
    weft__hub_release(hub);
    if (rc == -EEXIST)
        return weft_fail(rc, "weft_hub_expose: cannot own the name %.100s", name);
    return rc;
}

/* Release an owned name, and wait until the servers have noticed. */
static int withdraw_owned(weft__lease *l)
{
    l->exposure = NULL;
    weft__lease_hold(l);
    weft__lease_stop(l);
    int rc = l->daemon == 0 ? 0 : weft_event_wait(&l->has_ended);
    weft__lease_release(l);
    return rc;
}

int weft_hub_withdraw(weft_hub *hub, const char *name)
{
    int rc = weft__js_check_name(hub, "weft_hub_withdraw", name);
    if (rc < 0)
        return rc;
    weft__exposure *exposure = weft__expose_find(hub, name);
    if (exposure == NULL)
        return weft_fail(-ENOENT, "weft_hub_withdraw: this hub does not expose %.100s", name);
    weft__lease *lease = weft__expose_ctx(exposure);
    weft__expose_end(exposure);
    return lease == NULL ? 0 : withdraw_owned(lease);
}
