/* Queues: a passage of values that grows, open at both ends, and what can be done to its middle. */
#include "sync/queue.h"

#include "core/alarm.h"

#include <weft/error.h>

#include <stdlib.h>

static const weft__wait_kind waits_push = {"room in a queue", .leave = weft__leave_line};
static const weft__wait_kind waits_shift = {"something from a queue", .leave = weft__leave_line};

static size_t limit_of(size_t cap)
{
    return cap != 0 ? cap : WEFT__UNLIMITED;
}

weft_queue *weft_queue_new(size_t cap)
{
    weft_queue *queue = malloc(sizeof *queue);
    if (queue != NULL)
        weft__passage_init(&queue->passage, sizeof(weft_value), limit_of(cap));
    return queue;
}

void weft_queue_free(weft_queue *queue)
{
    if (queue == NULL)
        return;
    weft_queue_close(queue);
    weft__passage_free(&queue->passage);
    free(queue);
}

/* Here and below: a thread that is no cord has nobody who waits, and none is needed to serve. */
int weft_queue_close(weft_queue *queue)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    weft__passage_close(c, &queue->passage);
    return 0;
}

static inline int try_put(weft_queue *queue, weft_value value, weft__where end)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    if (UNLIKELY(weft_is_error(value)))
        return weft_fail(-EINVAL, "%d is an error code, not a value for a queue", (int)value);
    return weft__passage_put(c, &queue->passage, &value, end);
}

static inline int put(weft_queue *queue, weft_value value, weft__where end)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    int rc = try_put(queue, value, end);
    if (rc != -EAGAIN)
        return rc;
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    return weft__passage_wait_put(c, &queue->passage, value, end, &waits_push);
}

int weft_queue_push(weft_queue *queue, weft_value value)
{
    return put(queue, value, WEFT__TAIL);
}

int weft_queue_unshift(weft_queue *queue, weft_value value)
{
    return put(queue, value, WEFT__FRONT);
}

int weft_queue_try_push(weft_queue *queue, weft_value value)
{
    return try_put(queue, value, WEFT__TAIL);
}

int weft_queue_try_unshift(weft_queue *queue, weft_value value)
{
    return try_put(queue, value, WEFT__FRONT);
}

weft_value weft_queue_try_shift(weft_queue *queue)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    return weft__passage_take_value(c, &queue->passage);
}

weft_value weft_queue_shift(weft_queue *queue)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (weft__passage_can_take(&queue->passage))
        return weft__passage_take_value(c, &queue->passage);
    if (UNLIKELY(c->current->alarm))
        return weft__refuse(c);
    return weft__passage_wait_take(c, &queue->passage, &waits_shift);
}

size_t weft_queue_shift_all(weft_queue *queue, weft_value *out, size_t n)
{
    weft__cord *c = weft__cord_self;
    return weft__is_refused(c) ? 0 : weft__passage_take_all(c, &queue->passage, out, n);
}

int weft_queue_cap(weft_queue *queue, size_t cap)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return weft__no_cord();
    return weft__passage_set_limit(c, &queue->passage, limit_of(cap));
}

size_t weft_queue_flush(weft_queue *queue)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return 0;
    size_t count = queue->passage.count;
    weft__passage_clear(c, &queue->passage);
    return count;
}

size_t weft_queue_delete(weft_queue *queue, weft_value value)
{
    weft__cord *c = weft__cord_self;
    if (weft__is_refused(c))
        return 0;
    weft__passage *p = &queue->passage;
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        weft_value one;
        weft__passage_copy(p, &one, weft__passage_at(p, i));
        if (one != value)
            weft__passage_copy(p, weft__passage_at(p, kept++), &one);
    }
    size_t deleted = p->count - kept;
    p->count = kept;
    weft__passage_admit(c, p);
    return deleted;
}

size_t weft_queue_count(const weft_queue *queue)
{
    return queue->passage.count;
}

bool weft_queue_is_closed(const weft_queue *queue)
{
    return queue->passage.is_closed;
}

static size_t length(const weft__line *line)
{
    size_t n = 0;
    for (const weft__waiter *w = line->first; w != NULL; w = weft__line_after(w))
        n++;
    return n;
}

size_t weft_queue_waiting_to_shift(const weft_queue *queue)
{
    return length(&queue->passage.receivers);
}

size_t weft_queue_waiting_to_push(const weft_queue *queue)
{
    return length(&queue->passage.senders);
}
