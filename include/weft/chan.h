/*
 * First-in, first-out channels of values between fibers.
 *
 * Any number of fibers can send and receive. A sender waits while the number of values in a channel
 * equals its capacity. A channel with capacity 0 is a rendezvous. A send to a rendezvous completes
 * when a fiber receives the value. weft wakes waiting fibers in FIFO order. A value passes directly
 * to a waiting receiver.
 *
 * A channel belongs to the fibers of one thread, unless weft_chan_new_shared created the channel.
 * Fibers of all threads can use a shared channel concurrently. After weft_chan_close, sends fail
 * with -EPIPE. Receivers get the remaining values, then -EPIPE.
 *
 * A call that does not need to wait does not switch. Such a call succeeds even in a fiber that is
 * being cancelled.
 *
 * The items of a channel are values. WEFT_CHAN_OF defines channels with items of another type.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/base.h>

WEFT_BEGIN

/* A channel. */
typedef struct weft_chan weft_chan;

/**
 * Create a channel with a capacity of cap values.
 *
 * If cap is 0, the channel is a rendezvous.
 *
 * Returns the channel. On failure, returns NULL and records for weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_chan *weft_chan_new(size_t cap) WEFT_MUST_CHECK;

/**
 * Like weft_chan_new, for fibers of all threads.
 *
 * All channel functions and weft_select accept a shared channel. A plain thread (see cord.h) may
 * call weft_chan_try_send, weft_chan_try_recv, weft_chan_close, weft_chan_free and the getters. The
 * plain thread becomes a cord only if the call fails with -EINVAL.
 *
 * Each call takes a lock. A transfer between two threads also wakes the waiting thread. The result
 * of weft_chan_count or another getter may be outdated when the call returns. In a child of
 * weft_fork, the channel is closed and empty.
 */
WEFT_API weft_chan *weft_chan_new_shared(size_t cap) WEFT_MUST_CHECK;

/**
 * Free a channel. Wake its waiters with -EPIPE.
 *
 * The call discards the remaining values. If values own memory, first close the channel and receive
 * the values. No thread may use a shared channel after this call. The calls of fibers that already
 * wait on the channel fail with -EPIPE. If chan is NULL, the call does nothing.
 */
WEFT_API void weft_chan_free(weft_chan *chan);

/**
 * Close a channel.
 *
 * Waiting and later senders fail with -EPIPE. Receivers get the remaining values, then -EPIPE.
 *
 * Returns 0, even if the channel is already closed.
 */
WEFT_API int weft_chan_close(weft_chan *chan);

/**
 * Send a value, and wait while the channel is full.
 *
 * If the call fails, the value was not sent. weft does not detect every use of an unshared channel
 * by several threads.
 *
 * Returns 0, or:
 * -EINVAL if the items of the channel are not values
 * -EINVAL if value is an error code
 * -ENOMEM if the channel is shared and memory for the wait is exhausted
 * -EPIPE if the channel is closed
 * -EXDEV if the channel is not shared and a fiber of another thread waits on the channel
 */
WEFT_SWITCHPOINT int weft_chan_send(weft_chan *chan, weft_value value);

/**
 * Receive a value, and wait while the channel is empty.
 *
 * weft does not detect every use of an unshared channel by several threads.
 *
 * Returns the value, or:
 * -EINVAL if the items of the channel are not values
 * -ENOMEM if the channel is shared and memory for the wait is exhausted
 * -EPIPE if the channel is closed and empty
 * -EXDEV if the channel is not shared and a fiber of another thread waits on the channel
 */
WEFT_SWITCHPOINT weft_value weft_chan_recv(weft_chan *chan);

/**
 * Like weft_chan_send, but without waiting.
 *
 * Returns 0, or:
 * -EAGAIN if weft_chan_send would wait
 * -EINVAL if the items of the channel are not values
 * -EINVAL if value is an error code
 * -EPIPE if the channel is closed
 */
WEFT_API int weft_chan_try_send(weft_chan *chan, weft_value value);

/**
 * Like weft_chan_recv, but without waiting.
 *
 * Returns the value, or:
 * -EAGAIN if weft_chan_recv would wait
 * -EINVAL if the items of the channel are not values
 * -EPIPE if the channel is closed and empty
 */
WEFT_API weft_value weft_chan_try_recv(weft_chan *chan) WEFT_MUST_CHECK;

/** Return the capacity of a channel. */
WEFT_API size_t weft_chan_cap(const weft_chan *chan);

/** Return the number of values in a channel. */
WEFT_API size_t weft_chan_count(const weft_chan *chan);

/** Return whether a channel is full. A rendezvous is always full and always empty. */
WEFT_API bool weft_chan_is_full(const weft_chan *chan);

/** Return whether a channel is empty. */
WEFT_API bool weft_chan_is_empty(const weft_chan *chan);

/** Return whether a channel is closed. */
WEFT_API bool weft_chan_is_closed(const weft_chan *chan);

/** Return whether a fiber waits to receive. */
WEFT_API bool weft_chan_has_receivers(const weft_chan *chan);

/** Return whether a fiber waits to send. */
WEFT_API bool weft_chan_has_senders(const weft_chan *chan);

/** Create a channel of items with item_bytes bytes each, for WEFT_CHAN_OF. Private. */
WEFT_API weft_chan *weft__chan_new_of(size_t item_bytes, size_t cap);

/** Like weft__chan_new_of, for fibers of all threads. Private. */
WEFT_API weft_chan *weft__chan_new_shared_of(size_t item_bytes, size_t cap);

/** Send an item, and wait while the channel is full. Private. */
WEFT_SWITCHPOINT int weft__chan_send_item(weft_chan *chan, const void *item);

/** Receive an item, and wait while the channel is empty. Private. */
WEFT_SWITCHPOINT int weft__chan_recv_item(weft_chan *chan, void *out);

/** Like weft__chan_send_item, but without waiting. Private. */
WEFT_API int weft__chan_try_send_item(weft_chan *chan, const void *item);

/** Like weft__chan_recv_item, but without waiting. Private. */
WEFT_API int weft__chan_try_recv_item(weft_chan *chan, void *out);

WEFT_END

/*
 * WEFT_CHAN_OF(name, type)
 *
 * Define a channel type for whole items, for example structs. The type of the items must allow
 * copies byte by byte. Use the macro at file scope. The macro defines the type name and these
 * functions:
 *
 *     name *name_new(size_t cap);                  void name_free(name *c);
 *     int name_send(name *c, type item);           int name_try_send(name *c, type item);
 *     int name_recv(name *c, type *out);           int name_try_recv(name *c, type *out);
 *     int name_close(name *c);                     weft_chan *name_chan(name *c);
 *     name *name_new_shared(size_t cap);
 *
 * The functions behave like the functions above, except name_recv, name_try_recv and name_chan.
 * name_recv and name_try_recv store the item in *out and return 0. name_chan returns the channel
 * for the getters and for weft_select (weft_clause_recv_into, weft_clause_send_from).
 */
#define WEFT_CHAN_OF(name, type)                                                  \
    typedef struct name name;                                                     \
    __attribute__((unused)) static inline weft_chan *name##_chan(name *c)         \
    {                                                                             \
        return (weft_chan *)(void *)c;                                            \
    }                                                                             \
    __attribute__((unused)) static inline name *name##_new(size_t cap)            \
    {                                                                             \
        return (name *)(void *)weft__chan_new_of(sizeof(type), cap);              \
    }                                                                             \
    __attribute__((unused)) static inline name *name##_new_shared(size_t cap)     \
    {                                                                             \
        return (name *)(void *)weft__chan_new_shared_of(sizeof(type), cap);       \
    }                                                                             \
    __attribute__((unused)) static inline void name##_free(name *c)               \
    {                                                                             \
        weft_chan_free(name##_chan(c));                                           \
    }                                                                             \
    __attribute__((unused)) static inline int name##_close(name *c)               \
    {                                                                             \
        return weft_chan_close(name##_chan(c));                                   \
    }                                                                             \
    __attribute__((unused)) static inline int name##_send(name *c, type item)     \
    {                                                                             \
        return weft__chan_send_item(name##_chan(c), &item);                       \
    }                                                                             \
    __attribute__((unused)) static inline int name##_recv(name *c, type *out)     \
    {                                                                             \
        return weft__chan_recv_item(name##_chan(c), out);                         \
    }                                                                             \
    __attribute__((unused)) static inline int name##_try_send(name *c, type item) \
    {                                                                             \
        return weft__chan_try_send_item(name##_chan(c), &item);                   \
    }                                                                             \
    __attribute__((unused)) static inline int name##_try_recv(name *c, type *out) \
    {                                                                             \
        return weft__chan_try_recv_item(name##_chan(c), out);                     \
    }                                                                             \
    struct name /* takes the semicolon */

#endif
