/*
 * Channels: a passage with a fixed capacity, of values or of items of any size. The ring has its
 * full size from the start, so that nothing that is sent fails for want of memory. Shared ones are
 * in shared.c; here is only where the ways part.
 */
#include "sync/chan.h"

#include "core/alarm.h"
#include "sync/shared.h"

#include <weft/error.h>

#include <stdlib.h>

static const weft__wait_kind waits_send = {"room in a channel", .leave = weft__leave_line};
static const weft__wait_kind waits_recv = {"something from a channel", .leave = weft__leave_line};

weft_chan *weft__chan_new_of(size_t item_bytes, size_t cap)
{
    weft_chan *chan = malloc(sizeof *chan);
    if (chan == NULL)
        return NULL;
    *chan = (weft_chan){.owner = NULL};
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

weft_chan *weft__chan_new_shared_of(size_t item_bytes, size_t cap)
{
    weft_chan *chan = weft__chan_new_of(item_bytes, 0);
    if (chan == NULL)
        return NULL;
    chan->passage.item_bytes = WEFT__ELSEWHERE;
    chan->shared = weft__shared_new(item_bytes, cap);
    if (chan->shared == NULL) {
        weft_chan_free(chan);
        return NULL;
    }
    return chan;
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
        weft__shared_drop(chan->shared);
    weft__passage_free(&chan->passage);
    free(chan);
}

/* Here and below: a thread that is no cord has nobody who waits, and none is needed to serve. */
int weft_chan_close(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (chan->shared != NULL)
        weft__shared_close(chan->shared);
    else
        weft__passage_close(c, &chan->passage);
    return 0;
}

static inline bool is_plain(const weft_chan *chan)
{
    return chan->passage.item_bytes == sizeof(weft_value);
}

/* One that is not plain: is it of values? 0: then it is shared; -EINVAL. */
static int check_typed(const weft_chan *chan)
{
    size_t bytes = chan->passage.item_bytes;
    if (chan->shared != NULL)
        bytes = chan->shared->passage.item_bytes;
    if (bytes == sizeof(weft_value))
        return 0;
    return weft_fail(-EINVAL, "a channel of items of %zu bytes, not of values", bytes);
}

COLD static int refuse_error(weft_value value)
{
    return weft_fail(-EINVAL, "%d is an error code, not a value to send", (int)value);
}

/* Those of values, for channels that are not plain. */

COLD static int try_send_other(weft_chan *chan, weft_value value)
{
    int rc = check_typed(chan);
    return rc == 0 ? weft__shared_put(chan->shared, &value) : rc;
}

COLD static int send_other(weft__cord *c, weft_chan *chan, weft_value value)
{
    int rc = check_typed(chan);
    return rc == 0 ? weft__shared_send(c, chan->shared, &value) : rc;
}

COLD static weft_value try_recv_other(weft_chan *chan)
{
    weft_value value;
    int rc = check_typed(chan);
    if (rc == 0)
        rc = weft__shared_take(chan->shared, &value);
    return rc == 0 ? value : rc;
}

COLD static weft_value recv_other(weft__cord *c, weft_chan *chan)
{
    int rc = check_typed(chan);
    return rc == 0 ? weft__shared_recv(c, chan->shared, NULL) : rc;
}

/*
 * Who is served next selects from this and from shared channels: it is claimed, or has been by
 * another thread, and then all is as if it were not there.
 */

COLD static int send_contested(weft_chan *chan, weft_value value)
{
    weft__line_claim(&chan->passage.receivers);
    return weft_chan_send(chan, value);
}

COLD static int try_send_contested(weft_chan *chan, weft_value value)
{
    weft__line_claim(&chan->passage.receivers);
    return weft_chan_try_send(chan, value);
}

/* Only if the channel holds nothing is it certain that the sender is served. */
static inline bool is_sender_contested(const weft_chan *chan)
{
    return weft__line_is_contested(&chan->passage.senders) && chan->passage.count == 0;
}

COLD static weft_value recv_contested(weft_chan *chan)
{
    weft__line_claim(&chan->passage.senders);
    return weft_chan_recv(chan);
}

COLD static weft_value try_recv_contested(weft_chan *chan)
{
    weft__line_claim(&chan->passage.senders);
    return weft_chan_try_recv(chan);
}

/*
 * The current fiber is about to wait in a plain channel, which so far was not its thread's. That is
 * as it should be if nobody else is there: channels may be handed over.
 */
COLD static int settle_owner(weft__cord *c, weft_chan *chan)
{
    const weft__passage *p = &chan->passage;
    bool is_empty = weft__line_is_empty(&p->receivers) && weft__line_is_empty(&p->senders);
    if (chan->owner != NULL && !is_empty)
        return weft_fail(-EXDEV, "a fiber of another thread waits in this channel, "
                                 "which was not made by weft_chan_new_shared");
    chan->owner = c;
    return 0;
}

COLD static int settle_and_send(weft__cord *c, weft_chan *chan, weft_value value)
{
    int rc = settle_owner(c, chan);
    return rc == 0 ? weft_chan_send(chan, value) : rc;
}

COLD static weft_value settle_and_recv(weft__cord *c, weft_chan *chan)
{
    int rc = settle_owner(c, chan);
    return rc == 0 ? weft_chan_recv(chan) : rc;
}

/* What is not done at once, or needs more questions. */
__attribute__((noinline)) static int send_slowly(weft_chan *chan, weft_value value);
__attribute__((noinline)) static weft_value recv_slowly(weft_chan *chan);

int weft_chan_try_send(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (UNLIKELY(weft_is_error(value)))
        return refuse_error(value);
    if (UNLIKELY(!is_plain(chan)))
        return try_send_other(chan, value);
    if (UNLIKELY(weft__line_is_contested(&chan->passage.receivers)))
        return try_send_contested(chan, value);
    return weft__passage_put_value(c, &chan->passage, value);
}

/*
 * May the fiber that runs wait in this channel, of values and not shared, without a question? As in
 * sched.c, one branch asks for all.
 */
static inline bool may_wait(const weft__cord *c, const weft_chan *chan)
{
    uintptr_t odd = (uintptr_t)chan->owner ^ (uintptr_t)c;
    odd |= (uintptr_t)c->current->alarm | chan->passage.is_closed;
    return LIKELY(odd == 0);
}

/* Is it another one than of values, or are we not in a cord? */
static inline bool is_odd(const weft__cord *c, const weft_chan *chan)
{
    uintptr_t odd = (chan->passage.item_bytes ^ sizeof(weft_value)) | (uintptr_t)(c == NULL);
    return UNLIKELY(odd != 0);
}

int weft_chan_send(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_self;
    weft__passage *p = &chan->passage;
    if (is_odd(c, chan) || UNLIKELY(weft_is_error(value)))
        return send_slowly(chan, value);
    if (weft__passage_put_simply(c, p, value))
        return 0;
    if (UNLIKELY(p->receivers.first != NULL || p->count < p->limit) || !may_wait(c, chan))
        return send_slowly(chan, value);
    return weft__passage_wait_put(c, p, value, WEFT__TAIL, &waits_send);
}

static int send_slowly(weft_chan *chan, weft_value value)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(weft_is_error(value)))
        return refuse_error(value);
    if (UNLIKELY(!is_plain(chan)))
        return send_other(c, chan, value);
    if (UNLIKELY(weft__line_is_contested(&chan->passage.receivers)))
        return send_contested(chan, value);
    if (weft__passage_can_put(&chan->passage))
        return weft__passage_put_value(c, &chan->passage, value);
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    if (UNLIKELY(chan->owner != c))
        return settle_and_send(c, chan, value);
    return weft__passage_wait_put(c, &chan->passage, value, WEFT__TAIL, &waits_send);
}

weft_value weft_chan_try_recv(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (UNLIKELY(!is_plain(chan)))
        return try_recv_other(chan);
    if (UNLIKELY(is_sender_contested(chan)))
        return try_recv_contested(chan);
    return weft__passage_take_value(c, &chan->passage);
}

weft_value weft_chan_recv(weft_chan *chan)
{
    weft__cord *c = weft__cord_self;
    weft__passage *p = &chan->passage;
    if (is_odd(c, chan))
        return recv_slowly(chan);
    weft_value value;
    if (weft__passage_take_simply(c, p, &value))
        return value;
    if (UNLIKELY(p->senders.first != NULL) || !may_wait(c, chan))
        return recv_slowly(chan);
    return weft__passage_wait_take(c, p, &waits_recv);
}

static weft_value recv_slowly(weft_chan *chan)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(!is_plain(chan)))
        return recv_other(c, chan);
    if (UNLIKELY(is_sender_contested(chan)))
        return recv_contested(chan);
    if (weft__passage_can_take(&chan->passage))
        return weft__passage_take_value(c, &chan->passage);
    if (UNLIKELY(c->current->alarm))
        return weft__refuse(c);
    if (UNLIKELY(chan->owner != c))
        return settle_and_recv(c, chan);
    return weft__passage_wait_take(c, &chan->passage, &waits_recv);
}

/* Items: a shared channel's own passage is never ready, so it is asked for where one would wait. */

int weft__chan_try_send_item(weft_chan *chan, const void *item)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    int rc = weft__passage_put(c, &chan->passage, item, WEFT__TAIL);
    if (rc != -EAGAIN || chan->shared == NULL)
        return rc;
    return weft__shared_put(chan->shared, item);
}

int weft__chan_send_item(weft_chan *chan, const void *item)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = weft__passage_put(c, &chan->passage, item, WEFT__TAIL);
    if (rc != -EAGAIN)
        return rc;
    if (chan->shared != NULL)
        return weft__shared_send(c, chan->shared, item);
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    if (UNLIKELY(chan->owner != c) && (rc = settle_owner(c, chan)) < 0)
        return rc;
    return weft__passage_wait_put_item(c, &chan->passage, item, WEFT__TAIL, &waits_send);
}

int weft__chan_try_recv_item(weft_chan *chan, void *out)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    int rc = weft__passage_take(c, &chan->passage, out);
    if (rc != -EAGAIN || chan->shared == NULL)
        return rc;
    return weft__shared_take(chan->shared, out);
}

int weft__chan_recv_item(weft_chan *chan, void *out)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = weft__passage_take(c, &chan->passage, out);
    if (rc != -EAGAIN)
        return rc;
    if (chan->shared != NULL)
        return (int)weft__shared_recv(c, chan->shared, out);
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    if (UNLIKELY(chan->owner != c) && (rc = settle_owner(c, chan)) < 0)
        return rc;
    return weft__passage_wait_take_item(c, &chan->passage, out, &waits_recv);
}

size_t weft_chan_cap(const weft_chan *chan)
{
    return chan->shared != NULL ? weft__shared_cap(chan->shared) : chan->passage.limit;
}

size_t weft_chan_count(const weft_chan *chan)
{
    return chan->shared != NULL ? weft__shared_count(chan->shared) : chan->passage.count;
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
    return chan->shared != NULL ? weft__shared_is_closed(chan->shared) : chan->passage.is_closed;
}

bool weft_chan_has_receivers(const weft_chan *chan)
{
    if (chan->shared != NULL)
        return weft__shared_has_receivers(chan->shared);
    return !weft__line_is_empty(&chan->passage.receivers);
}

bool weft_chan_has_senders(const weft_chan *chan)
{
    if (chan->shared != NULL)
        return weft__shared_has_senders(chan->shared);
    return !weft__line_is_empty(&chan->passage.senders);
}
