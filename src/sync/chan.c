/*
 * Channels. A channel is a fifo with a fixed capacity, for values or for items of any size. The
 * ring has its full size from the start. Sending therefore allocates no memory, unless the channel
 * is shared. chan_shared.c implements shared channels.
 */
#include "sync/chan.h"

#include "core/lifetime/cancel.h"
#include "sync/chan_shared.h"

#include <weft/debug.h>
#include <weft/error.h>

#include <stdlib.h>

static void describe_chan(const weft__fiber *f, weft_info *out)
{
    out->waits_on = CONTAINER_OF((const weft__fifo *)f->wait_object, weft_chan, fifo);
}

static const weft__wait_kind waits_send = {"space in a channel", .leave = weft__waitq_abort_wait,
                                           .describe = describe_chan};
static const weft__wait_kind waits_recv = {
    "an item from a channel", .leave = weft__waitq_abort_wait, .describe = describe_chan};

/* Create a channel. Return NULL if memory is exhausted. Record no error. */
static weft_chan *chan_make(size_t item_bytes, size_t cap)
{
    weft_chan *chan = malloc(sizeof *chan);
    if (chan == NULL)
        return NULL;
    *chan = (weft_chan){.owner = NULL};
    weft__fifo_init(&chan->fifo, item_bytes, cap);
    if (weft__fifo_make_room(&chan->fifo, cap) < 0) {
        free(chan);
        return NULL;
    }
    return chan;
}

/* Return chan. If chan is NULL, record an error of the public function `call`. */
static weft_chan *chan_check_new(weft_chan *chan, const char *call, size_t item_bytes, size_t cap)
{
    if (chan == NULL)
        weft_fail(-ENOMEM, "%s: memory is exhausted, cap is %zu, an item has %zu bytes", call, cap,
                  item_bytes);
    return chan;
}

weft_chan *weft__chan_new_of(size_t item_bytes, size_t cap)
{
    return chan_check_new(chan_make(item_bytes, cap), "weft_chan_new", item_bytes, cap);
}

weft_chan *weft_chan_new(size_t cap)
{
    return weft__chan_new_of(sizeof(weft_value), cap);
}

static weft_chan *chan_make_shared(size_t item_bytes, size_t cap)
{
    weft_chan *chan = chan_make(item_bytes, 0);
    if (chan == NULL)
        return NULL;
    chan->fifo.item_bytes = WEFT__ITEM_BYTES_SHARED;
    chan->shared = weft__chan_shared_new(item_bytes, cap);
    if (chan->shared == NULL) {
        weft_chan_free(chan);
        return NULL;
    }
    return chan;
}

weft_chan *weft__chan_new_shared_of(size_t item_bytes, size_t cap)
{
    return chan_check_new(chan_make_shared(item_bytes, cap), "weft_chan_new_shared", item_bytes,
                          cap);
}

weft_chan *weft_chan_new_shared(size_t cap)
{
    return weft__chan_new_shared_of(sizeof(weft_value), cap);
}

void weft_chan_free(weft_chan *chan)
{
    if (chan == NULL)
        return;
    weft_chan_close(chan);
    if (chan->shared != NULL)
        weft__chan_shared_unref(chan->shared);
    weft__fifo_free(&chan->fifo);
    free(chan);
}

/*
 * A plain thread may call weft_chan_close and the try functions. c is then NULL. A channel that a
 * plain thread uses has no waiters, so c is not used.
 */
int weft_chan_close(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (chan->shared != NULL)
        weft__chan_shared_close(chan->shared);
    else
        weft__fifo_close(c, &chan->fifo);
    return 0;
}

static inline bool has_fast_path(const weft_chan *chan)
{
    return chan->fifo.item_bytes == sizeof(weft_value);
}

/*
 * Check a channel without a fast path.
 *
 * Returns 0, or:
 * -EINVAL if the items are not values
 */
static int check_value_chan(const weft_chan *chan)
{
    size_t bytes = chan->fifo.item_bytes;
    if (chan->shared != NULL)
        bytes = chan->shared->fifo.item_bytes;
    if (bytes == sizeof(weft_value))
        return 0;
    return weft_fail(-EINVAL, "weft_chan: the items have %zu bytes and are not values", bytes);
}

COLD static int refuse_error(weft_value value)
{
    return weft_fail(-EINVAL, "weft_chan: value is the error code %d", (int)value);
}

/* Calls for values on channels without a fast path. */

COLD static int try_send_shared(weft_chan *chan, weft_value value)
{
    int rc = check_value_chan(chan);
    return rc == 0 ? weft__chan_shared_put(chan->shared, &value) : rc;
}

COLD static int send_shared(weft__cord *c, weft_chan *chan, weft_value value)
{
    int rc = check_value_chan(chan);
    return rc == 0 ? weft__chan_shared_send(c, chan->shared, &value) : rc;
}

COLD static weft_value try_recv_shared(weft_chan *chan)
{
    weft_value value;
    int rc = check_value_chan(chan);
    if (rc == 0)
        rc = weft__chan_shared_take(chan->shared, &value);
    return rc == 0 ? value : rc;
}

COLD static weft_value recv_shared(weft__cord *c, weft_chan *chan)
{
    int rc = check_value_chan(chan);
    return rc == 0 ? weft__chan_shared_recv(c, chan->shared, NULL) : rc;
}

/*
 * The following functions handle a first waiter of a select that also waits on shared channels.
 * They claim the select and then retry the call. If another thread has already claimed the select,
 * weft__waitq_claim removes the waiter.
 */

COLD static int send_to_select(weft_chan *chan, weft_value value)
{
    weft__waitq_claim(&chan->fifo.receivers);
    return weft_chan_send(chan, value);
}

COLD static int try_send_to_select(weft_chan *chan, weft_value value)
{
    weft__waitq_claim(&chan->fifo.receivers);
    return weft_chan_try_send(chan, value);
}

/*
 * Return whether a select must be claimed before the next receive. If the channel holds a value,
 * the receive takes that value first.
 */
static inline bool is_sender_selecting(const weft_chan *chan)
{
    return weft__waitq_first_has_token(&chan->fifo.senders) && chan->fifo.count == 0;
}

COLD static weft_value recv_from_select(weft_chan *chan)
{
    weft__waitq_claim(&chan->fifo.senders);
    return weft_chan_recv(chan);
}

COLD static weft_value try_recv_from_select(weft_chan *chan)
{
    weft__waitq_claim(&chan->fifo.senders);
    return weft_chan_try_recv(chan);
}

/*
 * Make the caller's cord the owner of a channel that is not shared. Call this function before the
 * caller waits. The owner may change while no fiber waits, because a program may pass a channel to
 * another thread.
 *
 * Returns 0, or:
 * -EXDEV if a fiber of another thread waits on the channel
 */
COLD static int chan_set_owner(weft__cord *c, weft_chan *chan)
{
    const weft__fifo *fifo = &chan->fifo;
    bool is_empty = weft__waitq_is_empty(&fifo->receivers) && weft__waitq_is_empty(&fifo->senders);
    if (chan->owner != NULL && !is_empty)
        return weft_fail(-EXDEV, "weft_chan: a fiber of another thread waits on this channel; "
                                 "create the channel with weft_chan_new_shared");
    chan->owner = c;
    return 0;
}

COLD static int set_owner_and_send(weft__cord *c, weft_chan *chan, weft_value value)
{
    int rc = chan_set_owner(c, chan);
    return rc == 0 ? weft_chan_send(chan, value) : rc;
}

COLD static weft_value set_owner_and_recv(weft__cord *c, weft_chan *chan)
{
    int rc = chan_set_owner(c, chan);
    return rc == 0 ? weft_chan_recv(chan) : rc;
}

/*
 * The slow paths. Without the waits in the fast paths: rendezvous +13 % instructions
 * (docs/adr/0051).
 */
__attribute__((noinline)) static int send_slow(weft_chan *chan, weft_value value);
__attribute__((noinline)) static weft_value recv_slow(weft_chan *chan);

int weft_chan_try_send(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (UNLIKELY(weft_is_error(value)))
        return refuse_error(value);
    if (UNLIKELY(!has_fast_path(chan)))
        return try_send_shared(chan, value);
    if (UNLIKELY(weft__waitq_first_has_token(&chan->fifo.receivers)))
        return try_send_to_select(chan, value);
    return weft__fifo_put_value(c, &chan->fifo, value);
}

/*
 * Return whether the current fiber may wait without further checks. The channel must hold values
 * and must not be shared.
 */
static inline bool can_wait_fast(const weft__cord *c, const weft_chan *chan)
{
    return LIKELY(chan->owner == c && !c->current->pending && !chan->fifo.is_closed);
}

/* Return whether the items are not values, or the thread has no cord. */
static inline bool needs_slow_path(const weft__cord *c, const weft_chan *chan)
{
    return UNLIKELY(c == NULL || !has_fast_path(chan));
}

int weft_chan_send(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_self;
    weft__fifo *fifo = &chan->fifo;
    if (needs_slow_path(c, chan) || UNLIKELY(weft_is_error(value)))
        return send_slow(chan, value);
    if (weft__fifo_put_fast(c, fifo, value))
        return 0;
    if (UNLIKELY(fifo->receivers.first != NULL || fifo->count < fifo->limit) ||
        !can_wait_fast(c, chan))
        return send_slow(chan, value);
    return weft__fifo_wait_put(c, fifo, value, WEFT__TAIL, &waits_send);
}

static int send_slow(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(weft_is_error(value)))
        return refuse_error(value);
    if (UNLIKELY(!has_fast_path(chan)))
        return send_shared(c, chan, value);
    if (UNLIKELY(weft__waitq_first_has_token(&chan->fifo.receivers)))
        return send_to_select(chan, value);
    if (weft__fifo_can_put(&chan->fifo))
        return weft__fifo_put_value(c, &chan->fifo, value);
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    if (UNLIKELY(chan->owner != c))
        return set_owner_and_send(c, chan, value);
    return weft__fifo_wait_put(c, &chan->fifo, value, WEFT__TAIL, &waits_send);
}

weft_value weft_chan_try_recv(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (UNLIKELY(!has_fast_path(chan)))
        return try_recv_shared(chan);
    if (UNLIKELY(is_sender_selecting(chan)))
        return try_recv_from_select(chan);
    return weft__fifo_take_value(c, &chan->fifo);
}

weft_value weft_chan_recv(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    weft__fifo *fifo = &chan->fifo;
    if (needs_slow_path(c, chan))
        return recv_slow(chan);
    weft_value value;
    if (weft__fifo_take_fast(c, fifo, &value))
        return value;
    if (UNLIKELY(fifo->senders.first != NULL) || !can_wait_fast(c, chan))
        return recv_slow(chan);
    return weft__fifo_wait_take(c, fifo, &waits_recv);
}

static weft_value recv_slow(weft_chan *chan)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(!has_fast_path(chan)))
        return recv_shared(c, chan);
    if (UNLIKELY(is_sender_selecting(chan)))
        return recv_from_select(chan);
    if (weft__fifo_can_take(&chan->fifo))
        return weft__fifo_take_value(c, &chan->fifo);
    if (UNLIKELY(c->current->pending))
        return weft__call_refuse(c);
    if (UNLIKELY(chan->owner != c))
        return set_owner_and_recv(c, chan);
    return weft__fifo_wait_take(c, &chan->fifo, &waits_recv);
}

/*
 * Calls for items of any size. The unused fifo of a shared channel is never ready. These functions
 * therefore check chan->shared only if they would otherwise wait.
 */

int weft__chan_try_send_item(weft_chan *chan, const void *item)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    int rc = weft__fifo_put(c, &chan->fifo, item, WEFT__TAIL);
    if (rc != -EAGAIN || chan->shared == NULL)
        return rc;
    return weft__chan_shared_put(chan->shared, item);
}

int weft__chan_send_item(weft_chan *chan, const void *item)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = weft__fifo_put(c, &chan->fifo, item, WEFT__TAIL);
    if (rc != -EAGAIN)
        return rc;
    if (chan->shared != NULL)
        return weft__chan_shared_send(c, chan->shared, item);
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    if (UNLIKELY(chan->owner != c) && (rc = chan_set_owner(c, chan)) < 0)
        return rc;
    return weft__fifo_wait_put_item(c, &chan->fifo, item, WEFT__TAIL, &waits_send);
}

int weft__chan_try_recv_item(weft_chan *chan, void *out)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    int rc = weft__fifo_take(c, &chan->fifo, out);
    if (rc != -EAGAIN || chan->shared == NULL)
        return rc;
    return weft__chan_shared_take(chan->shared, out);
}

int weft__chan_recv_item(weft_chan *chan, void *out)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = weft__fifo_take(c, &chan->fifo, out);
    if (rc != -EAGAIN)
        return rc;
    if (chan->shared != NULL)
        return (int)weft__chan_shared_recv(c, chan->shared, out);
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    if (UNLIKELY(chan->owner != c) && (rc = chan_set_owner(c, chan)) < 0)
        return rc;
    return weft__fifo_wait_take_item(c, &chan->fifo, out, &waits_recv);
}

size_t weft_chan_cap(const weft_chan *chan)
{
    return chan->shared != NULL ? weft__chan_shared_cap(chan->shared) : chan->fifo.limit;
}

size_t weft_chan_count(const weft_chan *chan)
{
    return chan->shared != NULL ? weft__chan_shared_count(chan->shared) : chan->fifo.count;
}

bool weft_chan_is_full(const weft_chan *chan)
{
    return weft_chan_count(chan) >= weft_chan_cap(chan);
}

bool weft_chan_is_empty(const weft_chan *chan)
{
    return weft_chan_count(chan) == 0;
}

bool weft_chan_is_closed(const weft_chan *chan)
{
    return chan->shared != NULL ? weft__chan_shared_is_closed(chan->shared) : chan->fifo.is_closed;
}

bool weft_chan_has_receivers(const weft_chan *chan)
{
    if (chan->shared != NULL)
        return weft__chan_shared_has_receivers(chan->shared);
    return !weft__waitq_is_empty(&chan->fifo.receivers);
}

bool weft_chan_has_senders(const weft_chan *chan)
{
    if (chan->shared != NULL)
        return weft__chan_shared_has_senders(chan->shared);
    return !weft__waitq_is_empty(&chan->fifo.senders);
}
