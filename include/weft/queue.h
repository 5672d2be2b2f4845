/*
 * Queues: rows of values between fibers, without a bound unless they are given one, open at both
 * ends. Where a channel hands over, a queue stores: values can be put back at the front, looked for
 * and taken out of the middle.
 *
 * Many fibers may push and shift; those who wait are served in the order in which they came. A
 * queue belongs to the fibers of one thread. Once it is closed nothing can be put in; what is in it
 * can be taken out, and then there is an end: -EPIPE.
 *
 * A call that need not wait does not switch, and succeeds even in a fiber that is being cancelled.
 */
#ifndef WEFT_QUEUE_H
#define WEFT_QUEUE_H

#include <weft/base.h>

WEFT_BEGIN

typedef struct weft_queue weft_queue;

/**
 * A new queue that holds at most cap values, 0: as many as there is memory for. NULL: no memory.
 */
WEFT_API weft_queue *weft_queue_new(size_t cap) WEFT_MUST_CHECK;

/**
 * Free a queue. Those who wait on it fail with -EPIPE; what it holds is forgotten. NULL is fine.
 */
WEFT_API void weft_queue_free(weft_queue *queue);

/**
 * Close it: those who wait to put something in, or try it later, fail with -EPIPE; the others get
 * what is left, and then -EPIPE. Returns 0, also if it was closed before.
 */
WEFT_API int weft_queue_close(weft_queue *queue);

/**
 * Put a value in at the back. Waits while the queue is full. If this fails, nothing was put in.
 * -EPIPE if it is closed, -EINVAL for an error code, -ENOMEM.
 */
WEFT_SWITCHPOINT int weft_queue_push(weft_queue *queue, weft_value value);

/** The same at the front: it comes out next. */
WEFT_SWITCHPOINT int weft_queue_unshift(weft_queue *queue, weft_value value);

/** Take the value at the front. Waits while there is none. -EPIPE if it is closed and empty. */
WEFT_SWITCHPOINT weft_value weft_queue_shift(weft_queue *queue);

/** Push without waiting: -EAGAIN if it would have to. */
WEFT_API int weft_queue_try_push(weft_queue *queue, weft_value value);

/** Unshift without waiting: -EAGAIN if it would have to. */
WEFT_API int weft_queue_try_unshift(weft_queue *queue, weft_value value);

/** Shift without waiting: -EAGAIN if it would have to. */
WEFT_API weft_value weft_queue_try_shift(weft_queue *queue) WEFT_MUST_CHECK;

/** Take out all that is there, at most n values; returns how many. Those who wait to push go on. */
WEFT_API size_t weft_queue_shift_all(weft_queue *queue, weft_value *out, size_t n);

/**
 * Change how many values it holds, 0: no bound. What is in it stays, and those who wait to push are
 * let in as far as there is room. -ENOMEM: nothing has changed.
 */
WEFT_API int weft_queue_cap(weft_queue *queue, size_t cap);

/** Forget all that is in it; returns how many that were. Those who wait to push are let in. */
WEFT_API size_t weft_queue_flush(weft_queue *queue);

/**
 * Take every value out that is equal to this one; returns how many there were. Those who wait to
 * push are let in as far as there is room.
 */
WEFT_API size_t weft_queue_delete(weft_queue *queue, weft_value value);

/** How many values are in it. */
WEFT_API size_t weft_queue_count(const weft_queue *queue);

/** Has it been closed? */
WEFT_API bool weft_queue_is_closed(const weft_queue *queue);

/** Fibers that wait to take something. */
WEFT_API size_t weft_queue_waiting_to_shift(const weft_queue *queue);

/** Fibers that wait to put something in. */
WEFT_API size_t weft_queue_waiting_to_push(const weft_queue *queue);

WEFT_END

#endif
