/*
 * Errors with a message. An error belongs to one cord and has a reference count. The message and
 * the cause never change. The position in a queue and the path may change.
 */
#ifndef WEFT_CORE_FIBER_ERROR_H
#define WEFT_CORE_FIBER_ERROR_H

#include "core/fiber/fiber.h"

#include <stdarg.h>

struct weft__error {
    weft_error_info info;     /* the first field; points into this struct and to the cause */
    uint32_t refs;            /* reference count */
    uint32_t depth;           /* length of the chain of causes, including this error */
    struct weft__error *next; /* in the queue of raised errors of a fiber */
    bool is_raised;           /* in a queue of raised errors */
    bool is_from_raise;       /* raised by weft_raise, not by a child */
    bool is_unseen;           /* an error of a child that weft_error() has not returned yet */
    uint8_t frames_count;
    uint8_t path_count;
    void *frames[WEFT__ERROR_FRAMES_MAX];   /* backtrace of the call of weft_fail or weft_raise */
    weft_fiber path[WEFT__ERROR_CHAIN_MAX]; /* the fibers in which the error was raised, in order */
    char fiber_name[WEFT__NAME_BYTES];
    char message[WEFT__ERROR_MESSAGE_BYTES];
};

/*
 * Create an error of fiber f. The error holds a reference to the cause. cause may be NULL. Return
 * NULL if memory is exhausted.
 */
weft__error *weft__error_new(const weft__fiber *f, int code, weft__error *cause, const char *format,
                             va_list args);

/* Like weft__error_new, but with a fixed message and without a cause. */
weft__error *weft__error_new_message(const weft__fiber *f, int code, const char *message);

/* Store the caller's backtrace in e, for reports. e may be NULL. */
void weft__error_locate(weft__error *e);

/* Acquire or release a reference. e may be NULL. */
weft__error *weft__error_ref(weft__error *e);
void weft__error_unref(weft__error *e);

/*
 * Set the last error of f. The caller's reference passes to f. If e is NULL, f has no last error.
 */
void weft__error_set(weft__fiber *f, weft__error *e);

/*
 * Set the last error of the current fiber, or of a thread that cannot have fibers. The call
 * allocates no memory. message must be a constant. The next weft__error_set of the fiber replaces
 * the error.
 */
void weft__error_set_bare(int code, const char *message);

/*
 * Return the code of the error that weft__error_set_bare has set for the caller. Return 0 if there
 * is no such error.
 */
int weft__error_bare_code(void);

/*
 * The record for errors of a thread that is not a cord, for example of a worker. Only the id and
 * the name of the record are set. If the variable is NULL, the thread becomes a cord when it
 * records an error.
 */
extern __thread weft__fiber *weft__error_plain_thread;

/*
 * Return the error with which f ends. If the last error of f has this code, the result is the last
 * error of f. Otherwise, the result is a new error. The caller owns a reference to the result.
 * Return NULL if memory is exhausted.
 */
weft__error *weft__error_of_exit(weft__fiber *f, int code);

/*
 * Queue an error for delivery to f. e must not be in a queue. On success, the caller's reference
 * passes to the queue. The call does not wake f. If e is NULL, the call queues the code without a
 * message.
 *
 * Returns 0, or:
 * -ENOMEM if e is NULL and a code without a message is already queued
 */
int weft__error_queue(weft__fiber *f, int code, weft__error *e);

/*
 * Remove the oldest error from the queue. The error becomes the last error of f. Return the code of
 * the error, or 0 if the queue is empty.
 */
int weft__error_next(weft__fiber *f);

/*
 * If e is in the queue, remove e, because e has been delivered in another way. If e is NULL, remove
 * the code without a message.
 */
void weft__error_unqueue(weft__fiber *f, const weft__error *e, int code);

/*
 * Remove the oldest error that weft_raise queued. The reference of the queue passes to the caller.
 * Return NULL if the queue has no such error.
 */
weft__error *weft__error_next_raised(weft__fiber *f);

/*
 * Return true if the last error of f is an error of a child, and f has not called weft_error()
 * since.
 */
static inline bool weft__error_is_unseen(const weft__fiber *f)
{
    return f->error != NULL && f->error->is_unseen;
}

/* Drop all queued errors. */
void weft__error_drop_queue(weft__fiber *f);

/*
 * If the last error of f is in a queue, replace the last error by a copy. The copy is in no queue.
 */
void weft__error_own(weft__fiber *f);

/*
 * Return a deep copy of an error and its causes, for another thread. Return NULL if e is NULL or
 * memory is exhausted.
 */
weft__error *weft__error_clone(const weft__error *e);

/* Return the description of a negative errno. The result is never NULL. */
const char *weft__error_text(int code);

#endif
