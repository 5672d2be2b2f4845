/*
 * Queues. A queue is a fifo of values that grows on demand. Values can be added at both ends and
 * deleted at any position.
 */
#include "sync/queue.h"

#include "core/lifetime/cancel.h"

#include <weft/debug.h>
#include <weft/error.h>

#include <stdlib.h>

static void describe_queue(const weft__fiber *f, weft_info *out)
{
    out->waits_on = CONTAINER_OF((const weft__fifo *)f->wait_object, weft_queue, fifo);
}

static const weft__wait_kind waits_push = {"space in a queue", .leave = weft__waitq_abort_wait,
                                           .describe = describe_queue};
static const weft__wait_kind waits_shift = {"a value from a queue", .leave = weft__waitq_abort_wait,
                                            .describe = describe_queue};

static size_t limit_of(size_t cap)
{
    return cap != 0 ? cap : WEFT__UNLIMITED;
}

weft_queue *weft_queue_new(size_t cap)
{
    weft_queue *queue = malloc(sizeof *queue);
    if (queue != NULL)
        weft__fifo_init(&queue->fifo, sizeof(weft_value), limit_of(cap));
    else
        weft_fail(-ENOMEM, "weft_queue_new: memory is exhausted");
    return queue;
}

void weft_queue_free(weft_queue *queue)
{
    if (queue == NULL)
        return;
    weft_queue_close(queue);
    weft__fifo_free(&queue->fifo);
    free(queue);
}

/*
 * A plain thread may call weft_queue_close and all functions that do not wait. c is then NULL. A
 * queue that a plain thread uses has no waiters, so c is not used.
 */
int weft_queue_close(weft_queue *queue)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    weft__fifo_close(c, &queue->fifo);
    return 0;
}

static inline int queue_try_put(weft_queue *queue, weft_value value, weft__queue_end end)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    if (UNLIKELY(weft_is_error(value)))
        return weft_fail(-EINVAL, "weft_queue: value is the error code %d", (int)value);
    return weft__fifo_put(c, &queue->fifo, &value, end);
}

static inline int queue_put(weft_queue *queue, weft_value value, weft__queue_end end)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = queue_try_put(queue, value, end);
    if (rc != -EAGAIN)
        return rc;
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    return weft__fifo_wait_put(c, &queue->fifo, value, end, &waits_push);
}

int weft_queue_push(weft_queue *queue, weft_value value)
{
    return queue_put(queue, value, WEFT__TAIL);
}

int weft_queue_unshift(weft_queue *queue, weft_value value)
{
    return queue_put(queue, value, WEFT__FRONT);
}

int weft_queue_try_push(weft_queue *queue, weft_value value)
{
    return queue_try_put(queue, value, WEFT__TAIL);
}

int weft_queue_try_unshift(weft_queue *queue, weft_value value)
{
    return queue_try_put(queue, value, WEFT__FRONT);
}

weft_value weft_queue_try_shift(weft_queue *queue)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    return weft__fifo_take_value(c, &queue->fifo);
}

weft_value weft_queue_shift(weft_queue *queue)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (weft__fifo_can_take(&queue->fifo))
        return weft__fifo_take_value(c, &queue->fifo);
    if (UNLIKELY(c->current->pending))
        return weft__call_refuse(c);
    return weft__fifo_wait_take(c, &queue->fifo, &waits_shift);
}

size_t weft_queue_shift_all(weft_queue *queue, weft_value *out, size_t n)
{
    weft__cord *c = weft__cord_self;
    return weft__cord_is_forbidden(c) ? 0 : weft__fifo_take_all(c, &queue->fifo, out, n);
}

int weft_queue_set_cap(weft_queue *queue, size_t cap)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return weft__no_cord();
    return weft__fifo_set_limit(c, &queue->fifo, limit_of(cap));
}

size_t weft_queue_cap(const weft_queue *queue)
{
    return queue->fifo.limit != WEFT__UNLIMITED ? queue->fifo.limit : 0;
}

size_t weft_queue_flush(weft_queue *queue)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return 0;
    size_t count = queue->fifo.count;
    weft__fifo_clear(c, &queue->fifo);
    return count;
}

size_t weft_queue_delete(weft_queue *queue, weft_value value)
{
    weft__cord *c = weft__cord_self;
    if (weft__cord_is_forbidden(c))
        return 0;
    weft__fifo *fifo = &queue->fifo;
    size_t remaining = 0;
    for (size_t i = 0; i < fifo->count; i++) {
        weft_value item;
        weft__fifo_copy(fifo, &item, weft__fifo_at(fifo, i));
        if (item != value)
            weft__fifo_copy(fifo, weft__fifo_at(fifo, remaining++), &item);
    }
    size_t deleted = fifo->count - remaining;
    fifo->count = remaining;
    weft__fifo_admit(c, fifo);
    return deleted;
}

size_t weft_queue_count(const weft_queue *queue)
{
    return queue->fifo.count;
}

bool weft_queue_is_closed(const weft_queue *queue)
{
    return queue->fifo.is_closed;
}
