/*
 * Hubs: messages, durable work, names with one owner and a small key-value store for fibers of
 * several processes and machines (libweft-hub).
 *
 * A hub is a connection to a NATS server or cluster, or to a broker inside of this process ("mem:").
 * A hub gives four promises, and no others:
 *   - weft_hub_tell: at most once. The sender does not learn whether the message has arrived.
 *   - weft_hub_call: a reply, or an error. After an error, the call may have taken effect.
 *   - weft_hub_put and weft_hub_work: at least once. After put has returned 0 or 1, a majority of the
 *     servers has the item in memory, and a worker handles the item one or more times.
 *   - weft_hub_set and weft_hub_get: compare and set. Of two writers, one gets -ESTALE.
 * Nothing is exactly once. A worker makes an effect happen once by storing the id of the item and the
 * effect in one transaction of its own database (docs/hub.md).
 *
 *     weft_hub *hub = weft_hub_open("nats://127.0.0.1:4222", NULL);
 *     weft_hub_msg *reply;
 *     int rc = weft_hub_call(hub, "greeter", "Ada", 3, &reply);
 *
 * Names are subjects of NATS: one or more tokens with dots between them, for example "orders.paid". A
 * token consists of letters, digits, '-', '_' and '='. A name has at most 200 bytes. Names that start
 * with "weft." are reserved. Names of queues and logs are one token of at most 64 bytes.
 *
 * A hub belongs to the thread that opened it. Other threads open their own hubs. In another thread,
 * calls return -EXDEV.
 * The fibers of a hub are daemons, and children of the main fiber of the thread. While a hub is open,
 * weft_await_children in a main fiber waits for them, weft_supervise without a list too, and
 * weft_terminate_children ends them, which closes the hub. Use a group (group.h) for the own fibers.
 *
 * Every switchpoint obeys scopes. If a scope ends a put, set, append or call, the operation may have
 * taken effect. If the connection breaks, the hub connects again by itself, to any server that it
 * knows, and restores its exposed names. Calls that start in the meantime wait for the connection, as
 * long as their scope permits. Operations under way at that time: weft_hub_call returns -ECONNRESET;
 * weft_hub_set, weft_hub_get, weft_hub_put, weft_hub_append and weft_hub_work try again.
 *
 * A server that changes its leader replies to no put, set or renewal for up to 10 s. Deadlines
 * below 10 s therefore fail at such times.
 *
 * All calls that take a hub also return:
 * -EBADF if the hub is closed while the call waits
 * -EINVAL if a pointer that must not be NULL is NULL
 * -EINVAL if a name is not valid
 * -EMSGSIZE if the data is larger than the server permits (usually 1 MiB)
 * -ENOMEM if memory is exhausted
 * -EPERM if the server forbids the operation
 * -EXDEV if the hub belongs to another thread
 */
#ifndef WEFT_HUB_H
#define WEFT_HUB_H

#include <weft/base.h>
#include <weft/tls.h>

WEFT_BEGIN

/* A connection to a server, a cluster or a broker. */
typedef struct weft_hub weft_hub;

/*
 * A message. weft_hub_free frees it. The content is valid until then, or until the hub is closed.
 * data is followed by a NUL that bytes does not include.
 */
typedef struct weft_hub_msg {
    const char *to; /* the name that the message was sent to; of an item: the queue */
    const void *data;
    size_t bytes;
    unsigned deliveries; /* of an item: 1 for the first delivery; otherwise 0 */
    const char *id;      /* of an item: the id that put was called with, or ""; otherwise "" */
    /* Of an item or entry: its number. Of a reply to get: the revision. Of a child: its token. */
    uint64_t number;
    bool is_call; /* the sender waits for weft_hub_reply */
} weft_hub_msg;

/* Options of a hub. All-zero is the default. weft copies all strings. */
typedef struct weft_hub_options {
    const char *name; /* of this process, shown by the server; NULL: the host name and the pid */
    /* Not NULL: the connection uses TLS. The weft_tls must remain valid until weft_hub_close. */
    weft_tls *tls;
    /*
     * "user:password", a token, the seed of an nkey ("SU..."), or the path of a .creds file (a path
     * contains a '/'). NULL: the user and password of the URL, or none.
     */
    const char *credentials;
    size_t out_bytes;     /* unsent output above which senders wait; 0: 1 MiB */
    size_t message_bytes; /* the largest message that a server may send; 0: 8 MiB */
    double lease_s;       /* a name is free after this time without renewal; 0: 15 s; at least 10 */
    double connect_s;     /* limit of an attempt to connect to one server; 0: 5 s */
    unsigned replicas;    /* of names, keys and queues; 0: 3 in a cluster, otherwise 1 */
} weft_hub_options;

/* Counters of a hub. They never decrease, except for in_flight. */
typedef struct weft_hub_counters {
    uint64_t sent;     /* messages */
    uint64_t received; /* messages, including replies */
    uint64_t dropped;  /* tells for a full mailbox, and messages for a fiber that has ended */
    uint64_t lost;     /* unsent messages of a broken connection */
    uint64_t reconnects;
    uint64_t redelivered; /* items that were delivered more than once */
    uint64_t dead_letters;
    uint64_t in_flight; /* calls that wait for a reply */
} weft_hub_counters;

/**
 * Open a hub.
 *
 * where is one or more URLs with commas between them. The hub also uses the other servers that a
 * server of a cluster announces.
 *   nats://[USER:PASSWORD@]HOST[:PORT]  a server; the port is 4222 by default
 *   tls://...                           the same, with TLS; options may set another weft_tls
 *   mem:[NAME]                          the broker NAME of this process (weft/hub_broker.h)
 *
 * Returns the hub. On failure, returns NULL and records for weft_error():
 * -EACCES if a server rejects the credentials
 * -EINVAL if where or an option is not valid
 * -ENOMEM if memory is exhausted
 * -ENOTCONN if no server can be reached
 * -ENOTSUP if weft was built without OpenSSL, and TLS or an nkey is needed
 * -EPROTO if a server does not speak the protocol of NATS
 */
WEFT_SWITCHPOINT weft_hub *weft_hub_open(const char *where,
                                         const weft_hub_options *options) WEFT_MUST_CHECK;

/**
 * Close a hub, and free its messages.
 *
 * The call first sends the buffered output and waits for the server to process it. The wait is at
 * most 2 s, or as long as the scope permits. Owned names become free. Fibers that wait in a call of
 * the hub get -EBADF. If hub is NULL, the call does nothing and returns 0.
 *
 * Returns 0, or:
 * -ENOTCONN if the output was not sent; the hub is closed
 */
WEFT_SWITCHPOINT int weft_hub_close(weft_hub *hub);

/**
 * Send a message to a name, at most once.
 *
 * One of the fibers that expose the name gets the message. The call only waits while the unsent
 * output is larger than out_bytes. Returns 0 when the message is in the output.
 */
WEFT_SWITCHPOINT int weft_hub_tell(weft_hub *hub, const char *to, const void *data, size_t bytes);

/**
 * Send a message to a name and wait for the reply.
 *
 * The caller frees *reply. If reply is NULL, the call discards the reply.
 *
 * Returns 0, an error that weft_hub_fail has sent, or:
 * -EAGAIN if too many calls wait for the mailbox of the fiber
 * -ECONNRESET if the connection breaks; the call may have taken effect
 * -EHOSTUNREACH if no fiber exposes the name; the error comes at once
 * -EOWNERDEAD if the fiber ends, or frees the message, without a reply
 */
WEFT_SWITCHPOINT int weft_hub_call(weft_hub *hub, const char *to, const void *data, size_t bytes,
                                   weft_hub_msg **reply);

/**
 * Deliver the messages for a name to the mailbox of a fiber, as weft_hub_msg pointers.
 *
 * The fiber must belong to the thread of the hub. It frees each message. The exposure ends with the
 * fiber, with weft_hub_withdraw, or with the hub. A fiber can expose several names.
 *
 * If token is NULL, the name is shared: several fibers and processes may expose it, and each message
 * goes to one of them. If token is not NULL, the name has one owner, and the owner holds a lease. The
 * hub renews the lease. *token is larger than the token of each earlier owner. Pass the token to
 * stores that the owner writes to. A store rejects a token that is smaller than one it has seen. If
 * the owner loses the name, the hub raises -ESTALE in the fiber (weft_raise): the lease was not
 * renewed in time, or another process has the name. In a partition, the side with the majority of the
 * servers can own names. An owner on the other side gets -ESTALE after lease_s at the latest.
 *
 * If the mailbox is bounded and full, the hub drops tells and counts them. Calls wait in the hub, at
 * most 65,536 for each name; further calls fail with -EAGAIN in the caller.
 *
 * Returns 0, or:
 * -EEXIST if this hub exposes the name already
 * -EEXIST if token is not NULL and another fiber or process owns the name
 * -EEXIST if token is not NULL and the servers store names with another lease_s
 * -ESRCH if the fiber has ended
 */
WEFT_SWITCHPOINT int weft_hub_expose(weft_hub *hub, const char *name, weft_fiber fiber,
                                     uint64_t *token);

/**
 * End the exposure of a name by this hub. An owned name becomes free at once.
 *
 * Messages in the mailbox remain there.
 *
 * Returns 0, or:
 * -ENOENT if this hub does not expose the name
 */
WEFT_SWITCHPOINT int weft_hub_withdraw(weft_hub *hub, const char *name);

/**
 * Reply to a call. The message remains valid until weft_hub_free.
 *
 * Returns 0 when the reply is in the output, or:
 * -EALREADY if the call has a reply
 * -EINVAL if the message is not a call
 */
WEFT_SWITCHPOINT int weft_hub_reply(weft_hub_msg *msg, const void *data, size_t bytes);

/**
 * Reply to a call with an error. weft_hub_call returns code in the caller, and text is its message.
 *
 * text may be NULL. Returns 0, or the errors of weft_hub_reply, and:
 * -EINVAL if code is not an error (-4095..-1)
 */
WEFT_SWITCHPOINT int weft_hub_fail(weft_hub_msg *msg, int code, const char *text);

/**
 * Free a message. If msg is NULL, the call does nothing.
 *
 * If the message is a call without a reply, the caller gets -EOWNERDEAD.
 */
WEFT_API void weft_hub_free(weft_hub_msg *msg);

/**
 * Tell the calling fiber a value when the owner of a name is gone.
 *
 * The owner is gone if it has released the name, if its process has lost its connection to the
 * servers, or if its lease has ended. A process that has ended is noticed within 0.5 s; a process
 * that hangs within lease_s + 2 s. A process that has only lost its connection may still run, and
 * holds its token until the lease ends. The caller gets one message. A message while the hub itself
 * has no connection comes after the connection is restored. A bound of the mailbox does not delay
 * the hub: the hub tries again until the message fits.
 *
 * Returns 0, or:
 * -EINVAL if value is an error code
 * -ESRCH if the name has no owner
 */
WEFT_SWITCHPOINT int weft_hub_monitor(weft_hub *hub, const char *name, weft_value value);

/**
 * Stop monitoring a name in the calling fiber. A message that was sent is not removed.
 *
 * Returns 0, or:
 * -ENOENT if the caller does not monitor the name
 */
WEFT_API int weft_hub_unmonitor(weft_hub *hub, const char *name);

/* Options of a durable queue. All-zero is the default. */
typedef struct weft_hub_queue_options {
    unsigned replicas; /* 0: as the hub */
    double ack_s;      /* deliver again after this time without a sign of the worker; 0: 30 s */
    double dedupe_s;   /* the time in which an id is put only once; 0: 120 s */
    unsigned deliveries_max;  /* then the item becomes a dead letter; 0: unlimited */
    const char *dead_letters; /* the queue for dead letters; NULL: discard them */
    size_t items_max;         /* put waits while the queue has more items; 0: unlimited */
    unsigned in_flight_max;   /* items that all workers together handle at a time; 0: 1,000 */
    bool is_in_memory;        /* the servers do not write the items to disk */
} weft_hub_queue_options;

/**
 * Create a durable queue, or find an existing queue.
 *
 * If dead_letters names a queue that does not exist, the call creates that queue too, with the same
 * replicas. If options is NULL, the defaults apply.
 *
 * Returns 0, or:
 * -EEXIST if the queue exists with other options
 * -EINVAL if an option is not valid
 * -ENOTSUP if the server has no JetStream
 */
WEFT_SWITCHPOINT int weft_hub_queue(weft_hub *hub, const char *queue,
                                    const weft_hub_queue_options *options);

/**
 * Put an item into a queue.
 *
 * The call tries again, with the same id, until a majority of the servers has the item. id
 * distinguishes items: a second put with an id is not stored within dedupe_s. If id is NULL, the hub
 * generates an id for this call.
 *
 * Returns 0, 1 if an item with this id was put before, or:
 * -EINVAL if id is longer than 128 bytes or has bytes other than printable ASCII
 * -ENOENT if the queue does not exist
 */
WEFT_SWITCHPOINT int weft_hub_put(weft_hub *hub, const char *queue, const char *id,
                                  const void *data, size_t bytes);

/*
 * Handle an item, in a fiber of its own. The function must not free the item. It returns a value if
 * the item is handled, or an error if the item must be delivered again.
 */
typedef weft_value weft_hub_fn(weft_hub_msg *item, void *arg);

/**
 * Handle the items of a queue until the caller is cancelled.
 *
 * The call runs at most at_once handlers at a time. While a handler runs, the hub prolongs the
 * delivery. If the handler returns a value, the hub acknowledges the item and waits for the server's
 * confirmation. If the handler returns an error, the item is delivered again, to any worker, after
 * a delay that grows with its deliveries from 0.1 s to ack_s. The errors of handlers are not errors
 * of this call. The call never gives up by itself: it waits while the servers have no leader.
 *
 * If the caller is cancelled, the call cancels the handlers, waits for them, and gives the items
 * back whose handlers return an error.
 *
 * Returns the error that ended the call, or:
 * -EINVAL if at_once is 0 or more than 65,536
 * -ENOENT if the queue does not exist, or is deleted
 */
WEFT_SWITCHPOINT int weft_hub_work(weft_hub *hub, const char *queue, weft_hub_fn *fn, void *arg,
                                   unsigned at_once);

/* Write a key whatever its revision is. */
#define WEFT_HUB_ANY_REVISION UINT64_MAX

/**
 * Write a key.
 *
 * revision is in-out. If *revision is 0, the key must not exist. If *revision is
 * WEFT_HUB_ANY_REVISION, the call writes the key in any case. Otherwise the revision of the key must
 * be *revision. On success, *revision is the new revision, larger than all earlier revisions of all
 * keys. revision may be NULL: any revision.
 *
 * The call tries again until a majority of the servers has the value. If the servers have stored
 * the value of an attempt whose reply was lost, the call notices that and returns 0.
 *
 * Returns 0, or:
 * -ESTALE if the key has another revision; *revision is unchanged
 */
WEFT_SWITCHPOINT int weft_hub_set(weft_hub *hub, const char *key, const void *data, size_t bytes,
                                  uint64_t *revision);

/**
 * Read a key.
 *
 * The caller frees *out. out and revision may be NULL. The value is not older than the last set that
 * has returned 0 in any process.
 *
 * Returns 0, or:
 * -ENOENT if the key does not exist
 */
WEFT_SWITCHPOINT int weft_hub_get(weft_hub *hub, const char *key, weft_hub_msg **out,
                                  uint64_t *revision);

/**
 * Delete a key, on the conditions of weft_hub_set.
 *
 * If revision is NULL or *revision is WEFT_HUB_ANY_REVISION, deleting a key that does not exist
 * succeeds.
 *
 * Returns 0, or:
 * -EINVAL if *revision is 0
 * -ESTALE if the key has another revision
 */
WEFT_SWITCHPOINT int weft_hub_delete(weft_hub *hub, const char *key, const uint64_t *revision);

/* Options of a log. All-zero is the default. */
typedef struct weft_hub_log_options {
    unsigned replicas;  /* 0: as the hub */
    size_t entries_max; /* of each key; the oldest entries are removed; 0: unlimited */
    double age_max_s;   /* older entries are removed; 0: unlimited */
    bool is_in_memory;  /* the servers do not write the entries to disk */
} weft_hub_log_options;

/**
 * Create a durable log, or find an existing log.
 *
 * A log has any number of keys. Each key has its own entries, in the order of appending.
 *
 * Returns 0, or:
 * -EEXIST if the log exists with other options
 * -EINVAL if an option is not valid
 * -ENOTSUP if the server has no JetStream
 */
WEFT_SWITCHPOINT int weft_hub_log(weft_hub *hub, const char *log,
                                  const weft_hub_log_options *options);

/**
 * Append an entry to a key of a log.
 *
 * last is in-out: the number of the last entry of the key, 0 if the key has none, or
 * WEFT_HUB_ANY_REVISION. Only one of two writers with the same last succeeds. On success, *last is
 * the number of the entry, larger than the numbers of all earlier entries of the log. last may be
 * NULL: any. The call tries again like weft_hub_set.
 *
 * Returns 0, or:
 * -ENOENT if the log does not exist
 * -ESTALE if the last entry of the key has another number; *last is unchanged
 */
WEFT_SWITCHPOINT int weft_hub_append(weft_hub *hub, const char *log, const char *key,
                                     const void *data, size_t bytes, uint64_t *last);

/**
 * Read the next entry of a key after a number. 0 is before the first entry.
 *
 * The caller frees *out. (*out)->number is the number of the entry.
 *
 * Returns 0, or:
 * -ENOENT if the key has no later entry, or the log does not exist
 */
WEFT_SWITCHPOINT int weft_hub_next(weft_hub *hub, const char *log, const char *key, uint64_t after,
                                   weft_hub_msg **out);

/**
 * Offer to run children of a kind, for weft_hub_run in other processes.
 *
 * Each child runs fn(job, arg) in a fiber of its own. job->number is the fencing token of the run: it
 * is larger than the tokens of earlier runs of this kind. The call runs children until the caller is
 * cancelled, at most at_once at a time. While at_once children run, other processes get the requests.
 * A child is cancelled if the process that runs it for loses its connection for lease_s, cancels it,
 * or ends.
 *
 * Returns the error that ended the call, or:
 * -EINVAL if at_once is 0 or more than 65,536
 */
WEFT_SWITCHPOINT int weft_hub_offer(weft_hub *hub, const char *kind, weft_hub_fn *fn, void *arg,
                                    unsigned at_once);

/* A child that another process runs. */
typedef struct weft_hub_child {
    weft_hub *hub;
    const char *kind;
    const void *data;
    size_t bytes;
} weft_hub_child;

/**
 * Run a child in a process that offers its kind, and wait for its end.
 *
 * arg is a weft_hub_child. The type of the function is weft_fn, so that a weft_child of
 * weft_supervise can name the function: the supervisor then starts the child again, in any process
 * that offers the kind. NATS selects the process at random.
 *
 * Returns the value of the child if it is 0..2^31-1, or its error, or:
 * -EHOSTUNREACH if no process offers the kind, or all are busy
 * -EOWNERDEAD if the process of the child has ended, or has been silent for lease_s
 */
WEFT_SWITCHPOINT weft_value weft_hub_run(void *arg);

/** Like weft_hub_stats, for callers compiled with a counters struct of size bytes. */
WEFT_API int weft__hub_stats(const weft_hub *hub, weft_hub_counters *out, size_t size);

/** Store the counters of a hub in *out. Returns 0 or an error. */
static inline int weft_hub_stats(const weft_hub *hub, weft_hub_counters *out)
{
    return weft__hub_stats(hub, out, sizeof *out);
}

WEFT_END

#endif
