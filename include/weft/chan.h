/*
 * Channels: values from fibers to fibers, first in first out, many on both sides.
 *
 * A channel with a capacity holds so many values before senders wait. One without, a rendezvous,
 * holds none: a send is over when someone receives. Those who wait are served in the order in which
 * they came, and a value goes straight to the one who waits for it.
 *
 * A channel belongs to the fibers of one thread, unless it is made to be shared: then fibers of all
 * threads may use it at once, and every word here holds for them all. Once it is closed, nothing
 * can be sent any more; what is in it can be received, and then there is an end: -EPIPE.
 *
 * A call that need not wait does not switch, and succeeds even in a fiber that is being cancelled.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <weft/base.h>

WEFT_BEGIN

typedef struct weft_chan weft_chan;

/** A new channel of values that holds cap of them; 0: a rendezvous. NULL: no memory. */
WEFT_API weft_chan *weft_chan_new(size_t cap) WEFT_MUST_CHECK;

/**
 * The same, shared: for fibers of any thread, all calls, weft_select too. try_send, try_recv,
 * close, free and the questions may also come from a plain thread, which does not become a cord by
 * it.
 *
 * It costs a lock where the other costs nothing, and a wake-up when the two sides are in different
 * threads. What weft_chan_count and the like say may be over when they return. In a child of
 * weft_fork it is closed and empty.
 */
WEFT_API weft_chan *weft_chan_new_shared(size_t cap) WEFT_MUST_CHECK;

/**
 * Free a channel. Those who wait on it fail with -EPIPE. What it holds is forgotten: if values own
 * something, close it and receive them first. Of a shared one nobody may make use any more, in any
 * thread, but for those who wait. NULL is fine.
 */
WEFT_API void weft_chan_free(weft_chan *chan);

/**
 * Close a channel: those who wait to send, or send later, fail with -EPIPE; receivers get what is
 * left, and then -EPIPE. Returns 0, also if it was closed before.
 */
WEFT_API int weft_chan_close(weft_chan *chan);

/**
 * Send a value. Waits while the channel is full. If this fails, nothing was sent. -EPIPE if the
 * channel is closed, -EINVAL for an error code, which could not be told from a failure to receive,
 * and for a channel whose items are no values (WEFT_CHAN_OF). -ENOMEM: a shared one, and no memory
 * to wait; -EXDEV: one that is not, and a fiber of another thread waits in it (which is not always
 * seen).
 */
WEFT_SWITCHPOINT int weft_chan_send(weft_chan *chan, weft_value value);

/**
 * Receive a value. Waits while there is none. -EPIPE if the channel is closed and empty, -EINVAL if
 * its items are no values, -ENOMEM and -EXDEV as for sending.
 */
WEFT_SWITCHPOINT weft_value weft_chan_recv(weft_chan *chan);

/** Send without waiting: -EAGAIN if it would have to. */
WEFT_API int weft_chan_try_send(weft_chan *chan, weft_value value);

/** Receive without waiting: -EAGAIN if it would have to. */
WEFT_API weft_value weft_chan_try_recv(weft_chan *chan) WEFT_MUST_CHECK;

/** How many values it can hold. */
WEFT_API size_t weft_chan_cap(const weft_chan *chan);

/** How many values it holds. */
WEFT_API size_t weft_chan_count(const weft_chan *chan);

/** Does it hold all that it can? A rendezvous is always both full and empty. */
WEFT_API bool weft_chan_is_full(const weft_chan *chan);

/** Does it hold nothing? */
WEFT_API bool weft_chan_is_empty(const weft_chan *chan);

/** Has it been closed? */
WEFT_API bool weft_chan_is_closed(const weft_chan *chan);

/** Does anyone wait to receive? */
WEFT_API bool weft_chan_has_receivers(const weft_chan *chan);

/** Does anyone wait to send? */
WEFT_API bool weft_chan_has_senders(const weft_chan *chan);

/** A channel of items of so many bytes each: what WEFT_CHAN_OF is made of. Private. */
WEFT_API weft_chan *weft__chan_new_of(size_t item_bytes, size_t cap);

/** The same, shared. Private. */
WEFT_API weft_chan *weft__chan_new_shared_of(size_t item_bytes, size_t cap);

/** Send such an item. Private. */
WEFT_SWITCHPOINT int weft__chan_send_item(weft_chan *chan, const void *item);

/** Receive one. Private. */
WEFT_SWITCHPOINT int weft__chan_recv_item(weft_chan *chan, void *out);

/** Send one without waiting. Private. */
WEFT_API int weft__chan_try_send_item(weft_chan *chan, const void *item);

/** Receive one without waiting. Private. */
WEFT_API int weft__chan_try_recv_item(weft_chan *chan, void *out);

WEFT_END

/*
 * WEFT_CHAN_OF(name, type): at file scope, a channel of whole structs (or of anything that can be
 * copied by its bytes). It makes the type name and
 *
 *     name *name_new(size_t cap);                  void name_free(name *c);
 *     int name_send(name *c, type item);           int name_try_send(name *c, type item);
 *     int name_recv(name *c, type *out);           int name_try_recv(name *c, type *out);
 *     int name_close(name *c);                     weft_chan *name_chan(name *c);
 *     name *name_new_shared(size_t cap);
 *
 * which are as those above; receiving returns 0, and name_chan gives the plain channel for counts
 * and for weft_select (weft_clause_recv_into, weft_clause_send_from).
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
