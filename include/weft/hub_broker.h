/*
 * Brokers: a NATS server inside a process, for tests, for small programs and for development.
 *
 * weft_hub_open("mem:NAME") creates the broker NAME in the calling thread if the process has none.
 * The broker runs in daemon fibers of that thread. Hubs of other threads can use the broker.
 *
 * The broker ends when its last hub is closed and its last caller of weft_hub_broker_get has
 * released it, and at the latest with its thread. The data is then lost. A program whose hubs come
 * and go should first call weft_hub_broker_get, in a thread that lives long enough.
 *
 * A broker has the parts of NATS and JetStream that libweft-hub uses: subjects with wildcards,
 * queue groups, headers, work queues, keys and logs. The data is in memory. Other clients of NATS
 * can connect to a broker that runs weft_hub_broker_serve.
 *
 * On the backend sim, a broker and its hubs are deterministic: the same seed gives the same run. A
 * test opens one hub per simulated host, with a name in weft_hub_options, and injects faults by
 * that name.
 */
#ifndef WEFT_HUB_BROKER_H
#define WEFT_HUB_BROKER_H

#include <weft/base.h>

WEFT_BEGIN

/* A broker. */
typedef struct weft_hub_broker weft_hub_broker;

/**
 * Get a broker by its name, and create it if it does not exist.
 *
 * The URL of the broker is "mem:" and the name. name may be "". The caller releases the broker with
 * weft_hub_broker_release.
 *
 * Returns the broker. On failure, returns NULL and records for weft_error():
 * -EINVAL if name is NULL or longer than 64 bytes
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_hub_broker *weft_hub_broker_get(const char *name) WEFT_MUST_CHECK;

/**
 * Release a broker. If the broker has no other user, free its data.
 *
 * If broker is NULL, the call does nothing.
 */
WEFT_API void weft_hub_broker_release(weft_hub_broker *broker);

/**
 * Serve clients of a listening socket until the caller is cancelled.
 *
 * The caller still owns fd. The broker has no users and passwords: listen on a loopback address.
 *
 * Returns the error that ended the call, or:
 * -EINVAL if broker is NULL
 * -EXDEV if the broker belongs to another thread
 */
WEFT_SWITCHPOINT int weft_hub_broker_serve(weft_hub_broker *broker, int fd);

/**
 * Break the connections of the hubs with a name. The hubs connect again.
 *
 * If hub_name is NULL, break all connections. The messages in transit are lost.
 *
 * Returns the number of broken connections, or:
 * -EINVAL if broker is NULL
 * -EXDEV if the broker belongs to another thread
 */
WEFT_SWITCHPOINT int weft_hub_broker_cut(weft_hub_broker *broker, const char *hub_name);

/**
 * Isolate the hubs with a name, or end the isolation.
 *
 * The broker neither reads from nor writes to an isolated hub, and does not close its connection.
 * Partitions and processes stopped by SIGSTOP have the same effect. New connections wait too.
 *
 * Returns 0, or:
 * -EINVAL if broker or hub_name is NULL
 * -ENOMEM if memory is exhausted
 * -EXDEV if the broker belongs to another thread
 */
WEFT_API int weft_hub_broker_isolate(weft_hub_broker *broker, const char *hub_name,
                                     bool is_isolated);

/**
 * Stop the whole broker, or let it continue.
 *
 * Hubs remain connected, and get no replies. A stopped server and a cluster without a leader have
 * the same effect.
 *
 * Returns 0, or:
 * -EINVAL if broker is NULL
 * -EXDEV if the broker belongs to another thread
 */
WEFT_API int weft_hub_broker_pause(weft_hub_broker *broker, bool is_paused);

WEFT_END

#endif
