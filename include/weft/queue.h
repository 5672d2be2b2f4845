/*
 * Queues: stored values between fibers, accessible at both ends.
 *
 * Push adds a value at the back. Shift takes a value from the front. Unshift adds a value at the
 * front. Fibers can also delete values from the middle. A queue without a capacity is unbounded.
 *
 * Any number of fibers may push and shift. Waiting fibers continue in FIFO order. A queue belongs
 * to the fibers of one thread. A closed queue accepts no values. Fibers can still take the
 * remaining values. After the last value, shifts return -EPIPE.
 *
 * A call that does not need to wait does not switch. Such a call never returns -ECANCELED, even in
 * a fiber that is being cancelled.
 */
#ifndef WEFT_QUEUE_H
#define WEFT_QUEUE_H

#include <weft/base.h>

WEFT_BEGIN

typedef struct weft_queue weft_queue;

/**
 * Create a queue that holds at most cap values.
 *
 * If cap is 0, the queue is unbounded.
 *
 * Returns the queue. On failure, returns NULL and records for weft_error():
 * -ENOMEM if memory is exhausted
 */
WEFT_API weft_queue *weft_queue_new(size_t cap) WEFT_MUST_CHECK;

/**
 * Free a queue. Wake its waiters with -EPIPE.
 *
 * The call discards the values in the queue. If queue is NULL, the call does nothing.
 */
WEFT_API void weft_queue_free(weft_queue *queue);

/**
 * Close a queue. Wake its waiters with -EPIPE.
 *
 * Later pushes fail with -EPIPE. Shifts return the remaining values, and then -EPIPE. Returns 0,
 * even if the queue is already closed.
 */
WEFT_API int weft_queue_close(weft_queue *queue);

/**
 * Add a value at the back of a queue.
 *
 * The call waits while the queue is full. If the call fails, the queue has not changed.
 *
 * Returns 0, or:
 * -EINVAL if value is an error code
 * -ENOMEM if memory is exhausted
 * -EPIPE if the queue is closed
 */
WEFT_SWITCHPOINT int weft_queue_push(weft_queue *queue, weft_value value);

/**
 * Like weft_queue_push, but at the front.
 *
 * The next shift returns the value.
 */
WEFT_SWITCHPOINT int weft_queue_unshift(weft_queue *queue, weft_value value);

/**
 * Take the value at the front of a queue.
 *
 * The call waits while the queue is empty.
 *
 * Returns the value, or:
 * -EPIPE if the queue is closed and empty
 */
WEFT_SWITCHPOINT weft_value weft_queue_shift(weft_queue *queue);

/**
 * Like weft_queue_push, but without waiting.
 *
 * Errors in addition to those of weft_queue_push:
 * -EAGAIN if the queue is full
 */
WEFT_API int weft_queue_try_push(weft_queue *queue, weft_value value);

/**
 * Like weft_queue_unshift, but without waiting.
 *
 * Errors in addition to those of weft_queue_unshift:
 * -EAGAIN if the queue is full
 */
WEFT_API int weft_queue_try_unshift(weft_queue *queue, weft_value value);

/**
 * Like weft_queue_shift, but without waiting.
 *
 * Errors in addition to those of weft_queue_shift:
 * -EAGAIN if the queue is empty
 */
WEFT_API weft_value weft_queue_try_shift(weft_queue *queue) WEFT_MUST_CHECK;

/**
 * Move at most n values from the front of a queue to out.
 *
 * The call does not wait for values. The call wakes the fibers that can now push. Returns the
 * number of values moved.
 */
WEFT_API size_t weft_queue_shift_all(weft_queue *queue, weft_value *out, size_t n);

/**
 * Set the capacity of a queue.
 *
 * If cap is 0, the queue is unbounded. The queue keeps its values, even if there are more than cap.
 * The call wakes the fibers that can now push. If the call fails, nothing has changed.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
WEFT_API int weft_queue_set_cap(weft_queue *queue, size_t cap);

/** Return the capacity of a queue. Returns 0 if the queue is unbounded. */
WEFT_API size_t weft_queue_cap(const weft_queue *queue);

/**
 * Discard all values in a queue.
 *
 * The call wakes the fibers that can now push. The queue then contains the values of these fibers.
 * Returns the number of values discarded.
 */
WEFT_API size_t weft_queue_flush(weft_queue *queue);

/**
 * Delete all values of a queue that are equal to value.
 *
 * The call wakes the fibers that can now push. Returns the number of values deleted.
 */
WEFT_API size_t weft_queue_delete(weft_queue *queue, weft_value value);

/** Return the number of values in a queue. */
WEFT_API size_t weft_queue_count(const weft_queue *queue);

/** Return true if a queue is closed. */
WEFT_API bool weft_queue_is_closed(const weft_queue *queue);

WEFT_END

#endif
