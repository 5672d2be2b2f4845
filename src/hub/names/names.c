/* The part of a hub for names: its lifetime, and the replies to pings. */
#include "hub/names/names.h"

#include <weft.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The daemons of names end at once. Report them if they do not. */
#define DAEMON_GRACE_S 5.0

void weft__names_hold(weft__names *n)
{
    weft__hub_hold(n->hub);
    n->holds++;
}

void weft__names_release(weft__names *n)
{
    weft_hub *hub = n->hub;
    if (--n->holds == 0) {
        weft__hub_unsubscribe(n->node);
        weft__hub_unwatch(&n->watcher);
        *weft__hub_part_at(hub, WEFT__HUB_NAMES) = NULL;
        free(n);
    }
    weft__hub_release(hub);
}

static void names_drop(void *arg)
{
    weft__names_release(arg);
}

/* Wait for the end of the hub or of the thread. */
static weft_value names_run(void *arg)
{
    while (weft_sleep(INFINITY) != -ECANCELED)
        continue;
    names_drop(arg);
    return 0;
}

static void names_on_close(weft__hub_watcher *watcher)
{
    const weft__names *n = CONTAINER_OF(watcher, weft__names, watcher);
    weft_terminate(n->daemon, DAEMON_GRACE_S);
}

static void node_on_ping(void *ctx, const weft__delivery *d)
{
    const weft__names *n = ctx;
    if (d->reply.bytes > 0)
        weft__hub_publish_now(n->hub, &(weft__publication){.subject = d->reply});
}

weft_fiber weft__names_spin(weft_fn *fn, void *arg, void (*drop)(void *), const char *name)
{
    const weft_spin_options options = {
        .name = name, .parent = weft_main(), .is_daemon = true, .drop = drop};
    return weft_spin_with(fn, arg, &options);
}

static weft__names *names_new(weft_hub *hub)
{
    weft__names *n = malloc(sizeof *n);
    if (n == NULL) {
        weft_fail(-ENOMEM, "no memory for the names of a hub");
        return NULL;
    }
    *n = (weft__names){.hub = hub, .seen_owned_s = -INFINITY};
    n->watcher.on_close = names_on_close;
    weft__list_init(&n->owners);
    weft__list_init(&n->watcher.node);
    weft__names_hold(n);
    char subject[WEFT__JS_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "weft.node.%s", weft__hub_id(hub));
    n->node = weft__hub_subscribe(hub, subject, NULL, node_on_ping, n);
    n->daemon = n->node == NULL ? 0 : weft__names_spin(names_run, n, names_drop, "hub names");
    if (n->daemon == 0) {
        weft__names_release(n);
        return NULL;
    }
    weft__hub_watch(hub, &n->watcher);
    return n;
}

weft__names *weft__names_get(weft_hub *hub)
{
    void **part = weft__hub_part_at(hub, WEFT__HUB_NAMES);
    if (*part == NULL)
        *part = names_new(hub);
    return *part;
}

int weft__names_prepare(weft__names *n)
{
    int rc = n->has_bucket ? 0 : weft__names_create_bucket(n->hub);
    n->has_bucket |= rc == 0;
    return rc;
}
