/*
 * Exposures: the messages for a name go to the mailbox of a fiber.
 *
 * src/hub/names has the public functions. It adds leases for owned names.
 */
#ifndef WEFT_HUB_CLIENT_EXPOSE_H
#define WEFT_HUB_CLIENT_EXPOSE_H

#include <weft/hub.h>

/* The queue group of shared names. */
#define WEFT__EXPOSE_GROUP "weft"

/* The exposure of a name by a hub. */
typedef struct weft__exposure weft__exposure;

/*
 * Called when the fiber has ended, after the exposure was withdrawn. The exposure is then freed.
 * Must not switch. weft__expose_end and weft_hub_close do not call it.
 */
typedef void weft__on_exposed_end(void *ctx);

typedef struct weft__expose_options {
    const char *queue;            /* the queue group; NULL: none */
    weft__on_exposed_end *on_end; /* NULL: none */
    void *ctx;
} weft__expose_options;

/*
 * Begin to deliver the messages for a name to a fiber. When the call returns 0, the server has the
 * subscription. The call does not check the name. A switchpoint. Returns 0, or:
 * -EEXIST if the hub exposes the name
 * -ENOMEM if memory is exhausted
 * -EPERM if the server forbids the subscription
 * -ESRCH if the fiber has ended
 * -EXDEV if the fiber belongs to another thread
 */
int weft__expose_begin(weft_hub *hub, const char *name, weft_fiber fiber,
                       const weft__expose_options *options, weft__exposure **out);

/*
 * End an exposure and free it. Does not switch. Calls that wait for the mailbox get -EHOSTUNREACH.
 */
void weft__expose_end(weft__exposure *e);

/* Return the exposure of a name, or NULL. */
weft__exposure *weft__expose_find(weft_hub *hub, const char *name);

/* Return the ctx of an exposure. */
void *weft__expose_ctx(const weft__exposure *e);

#endif
