/*
 * The client of NATS that all other parts of a hub use: publish, request, subscribe.
 *
 * The connection has a reader fiber and a writer fiber, both daemons. Publishers append to one
 * output buffer; the writer sends all of it at a time. The reader calls the function of each
 * subscription. When the connection breaks, the reader ends all requests with -ECONNRESET, discards
 * the output, connects again and sends all subscriptions.
 */
#ifndef WEFT_HUB_CLIENT_CLIENT_H
#define WEFT_HUB_CLIENT_CLIENT_H

#include "base/list.h"
#include "hub/wire/output.h"

#include <weft/hub.h>

/* A message that the reader has parsed. The slices are valid during the callback only. */
typedef struct weft__delivery {
    weft__slice subject, reply, headers, payload;
} weft__delivery;

/* Called by the reader fiber. Must not switch. May subscribe, unsubscribe and try to publish. */
typedef void weft__on_delivery(void *ctx, const weft__delivery *d);

typedef struct weft__subscription weft__subscription;

/* A reply that the caller owns: free it with weft__reply_free. */
typedef struct weft__reply {
    char *memory; /* headers and payload; payload is followed by a NUL */
    weft__slice headers, payload;
    int status; /* of the headers; 0: none */
} weft__reply;

void weft__reply_free(weft__reply *r);

/*
 * Return 0 if the caller may use the hub: it is not NULL, open, and of this thread. Each public
 * function calls this first. -EINVAL, -EBADF or -EXDEV otherwise.
 */
int weft__hub_check(const weft_hub *hub);

/*
 * Like weft__hub_check, for a call that starts. Also returns -EBADF while the hub is being closed:
 * its watchers are gone, so that nothing would end the fibers that the call starts.
 */
int weft__hub_check_start(const weft_hub *hub);

/*
 * Keep the memory of a hub, also after weft_hub_close. A function that uses the hub after a call
 * that can wait holds the hub first: another fiber may close the hub in the meantime. Calls on a
 * closed hub return -EBADF. The calls nest.
 */
void weft__hub_hold(weft_hub *hub);
void weft__hub_release(weft_hub *hub);

/* Wait until the hub is connected. Returns 0, -EBADF if the hub is closed, or a cancellation. */
int weft__hub_wait_connected(weft_hub *hub);

/* Increments with each connection that is established. */
uint64_t weft__hub_connection(const weft_hub *hub);
bool weft__hub_is_connected(const weft_hub *hub);

/*
 * Append a message to the output. Wait while the output is full. While the hub is not connected,
 * the message stays in the output. Errors: -EMSGSIZE, -ENOMEM, -EBADF, a cancellation.
 */
int weft__hub_publish(weft_hub *hub, const weft__publication *p);

/* Like weft__hub_publish, without waiting: the output may exceed out_bytes by such messages. */
int weft__hub_publish_now(weft_hub *hub, const weft__publication *p);

/*
 * Wait until the server has processed all earlier output. If the connection breaks, wait for the
 * next one and try again. Returns 0, -EBADF if the hub is closed, or a cancellation.
 */
int weft__hub_flush(weft_hub *hub);

/*
 * Publish a request and wait for one reply. p->reply is ignored. Wait for a connection first.
 * Returns 0, or:
 * -EHOSTUNREACH if there are no responders (status 503)
 * -ECONNRESET if the connection breaks
 * -ETIMEDOUT if no reply comes within timeout_s (0: no limit except for the scope)
 */
int weft__hub_request(weft_hub *hub, const weft__publication *p, double timeout_s,
                      weft__reply *out);

/*
 * Subscribe. The pattern and queue are copied. The subscription survives reconnects. The first
 * messages may come only after the next switch. Returns NULL and records an error on failure.
 */
weft__subscription *weft__hub_subscribe(weft_hub *hub, const char *pattern, const char *queue,
                                        weft__on_delivery *fn, void *ctx);

/* Return whether the server has refused a subscription. Call weft__hub_flush before. */
bool weft__hub_is_refused(const weft__subscription *s);

/*
 * Tell the server to end a subscription. fn is still called for messages in transit. After
 * weft__hub_flush, there are none, and the caller ends the subscription. Does not switch.
 */
void weft__hub_drain(weft__subscription *s);

/* End a subscription. fn is not called any more. NULL: nothing. */
void weft__hub_unsubscribe(weft__subscription *s);

/* A new unique subject below this hub's inbox, at most WEFT__INBOX_BYTES bytes with its NUL. */
#define WEFT__INBOX_BYTES 64
void weft__hub_inbox(weft_hub *hub, char out[WEFT__INBOX_BYTES]);

/* The id of this hub, unique among all hubs, 22 letters and digits. */
const char *weft__hub_id(const weft_hub *hub);

/*
 * Call fn when the hub has connected again (after its subscriptions were sent) and when it closes.
 */
typedef struct weft__hub_watcher {
    weft__list node;
    void (*on_connect)(struct weft__hub_watcher *w); /* must not switch; NULL: none */
    void (*on_close)(struct weft__hub_watcher *w);   /* may switch; NULL: none */
} weft__hub_watcher;
void weft__hub_watch(weft_hub *hub, weft__hub_watcher *w);
void weft__hub_unwatch(weft__hub_watcher *w);

/* Create a message of the hub: freed by weft_hub_free, or when the hub is closed. */
weft_hub_msg *weft__hub_msg_new(weft_hub *hub, weft__slice to, weft__slice reply, weft__slice id,
                                weft__slice payload);

/* The counters, options and the parts that other folders own. */
weft_hub_counters *weft__hub_counters(weft_hub *hub);
const weft_hub_options *weft__hub_options(const weft_hub *hub); /* with defaults filled in */

/* The server of the connection, in its own words, cut to the sizes. "": unknown. */
typedef struct weft__hub_server {
    char name[96];
    char version[32];
    char cluster[96]; /* "": not in a cluster */
} weft__hub_server;
const weft__hub_server *weft__hub_server_of(const weft_hub *hub);

/* 3 in a cluster, otherwise 1, unless the options say otherwise. */
unsigned weft__hub_replicas(const weft_hub *hub);

/* Slots in a hub for the state of other folders. NULL: none yet. */
typedef enum weft__hub_part { WEFT__HUB_KEYS, WEFT__HUB_NAMES, WEFT__HUB_PARTS } weft__hub_part;
void **weft__hub_part_at(weft_hub *hub, weft__hub_part part);

/*
 * A daemon fiber of the hub, for background work. Ends before weft_hub_close returns: the hub
 * cancels the fiber and waits for it. Returns 0 and records an error on failure.
 */
weft_fiber weft__hub_spin(weft_hub *hub, weft_fn *fn, void *arg, const char *name);

#endif
