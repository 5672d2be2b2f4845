/*
 * Channels: a passage with a fixed capacity, of values or of items of any size. The ring has its
 * full size from the start, so that nothing that is sent fails for want of memory.
 */
#include "sync/chan.h"

#include "core/alarm.h"

#include <weft/error.h>

#include <stdlib.h>

static const weft__wait_kind waits_send = {"room in a channel", .leave = weft__leave_line};
static const weft__wait_kind waits_recv = {"something from a channel", .leave = weft__leave_line};

weft_chan *weft__chan_new_of(size_t item_bytes, size_t cap)
{
    weft_chan *chan = malloc(sizeof *chan);
    if (chan == NULL)
        return NULL;
    weft__passage_init(&chan->passage, item_bytes, cap);
    if (weft__passage_make_room(&chan->passage, cap) < 0) {
        free(chan);
        return NULL;
    }
    return chan;
}

weft_chan *weft_chan_new(size_t cap)
{
    return weft__chan_new_of(sizeof(weft_value), cap);
}

void weft_chan_free(weft_chan *chan)
{
    if (chan == NULL)
        return;
    weft_chan_close(chan);
    weft__passage_free(&chan->passage);
    free(chan);
}

/* Here and below: a thread that is no cord has nobody who waits, and none is needed to serve. */
int weft_chan_close(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    weft__passage_close(c, &chan->passage);
    return 0;
}

/* A typed channel was given where a channel of values is wanted. */
COLD static int refuse_typed(const weft_chan *chan)
{
    return weft_fail(-EINVAL, "a channel of items of %zu bytes, not of values",
                     chan->passage.item_bytes);
}

static inline bool is_typed(const weft_chan *chan)
{
    return chan->passage.item_bytes != sizeof(weft_value);
}

/* What may be wrong with what is sent. 0 or -EINVAL. */
static inline int check_value(const weft_chan *chan, weft_value value)
{
    if (UNLIKELY(weft_is_error(value)))
        return weft_fail(-EINVAL, "%d is an error code, not a value to send", (int)value);
    return LIKELY(!is_typed(chan)) ? 0 : refuse_typed(chan);
}

int weft_chan_try_send(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_self;
    int rc = weft__is_refused(c) ? weft__no_cord() : check_value(chan, value);
    return LIKELY(rc == 0) ? weft__passage_put_value(c, &chan->passage, value) : rc;
}

int weft_chan_send(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = check_value(chan, value);
    if (UNLIKELY(rc < 0))
        return rc;
    if (weft__passage_can_put(&chan->passage))
        return weft__passage_put_value(c, &chan->passage, value);
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return weft__passage_wait_put(c, &chan->passage, value, WEFT__TAIL, &waits_send);
}

weft_value weft_chan_try_recv(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (UNLIKELY(is_typed(chan)))
        return refuse_typed(chan);
    return weft__passage_take_value(c, &chan->passage);
}

weft_value weft_chan_recv(weft_chan *chan)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(is_typed(chan)))
        return refuse_typed(chan);
    if (weft__passage_can_take(&chan->passage))
        return weft__passage_take_value(c, &chan->passage);
    if (UNLIKELY(c->current->alarm))
        return weft__refuse(c);
    return weft__passage_wait_take(c, &chan->passage, &waits_recv);
}

int weft__chan_try_send_item(weft_chan *chan, const void *item)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    return weft__passage_put(c, &chan->passage, item, WEFT__TAIL);
}

int weft__chan_send_item(weft_chan *chan, const void *item)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = weft__passage_put(c, &chan->passage, item, WEFT__TAIL);
    if (rc != -EAGAIN)
        return rc;
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return weft__passage_wait_put_item(c, &chan->passage, item, WEFT__TAIL, &waits_send);
}

int weft__chan_try_recv_item(weft_chan *chan, void *out)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    return weft__passage_take(c, &chan->passage, out);
}

int weft__chan_recv_item(weft_chan *chan, void *out)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = weft__passage_take(c, &chan->passage, out);
    if (rc != -EAGAIN)
        return rc;
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return weft__passage_wait_take_item(c, &chan->passage, out, &waits_recv);
}

size_t weft_chan_cap(const weft_chan *chan)
{
    return chan->passage.limit;
}

size_t weft_chan_count(const weft_chan *chan)
{
    return chan->passage.count;
}

bool weft_chan_is_full(const weft_chan *chan)
{
    return chan->passage.count >= chan->passage.limit;
}

bool weft_chan_is_empty(const weft_chan *chan)
{
    return chan->passage.count == 0;
}

bool weft_chan_is_closed(const weft_chan *chan)
{
    return chan->passage.is_closed;
}

bool weft_chan_has_receivers(const weft_chan *chan)
{
    return !weft__line_is_empty(&chan->passage.receivers);
}

bool weft_chan_has_senders(const weft_chan *chan)
{
    return !weft__line_is_empty(&chan->passage.senders);
}
