/*
 * Scopes: a stretch of code with a deadline and a cancel flag.
 *
 * Cancellation is a level: once a scope is cancelled, every blocking call inside it fails at once
 * with -ECANCELED until the scope is left. A call that already has its result returns it. Scopes
 * nest, and a deadline ends its own scope and no other. A scope concerns the fiber that opened it,
 * not its children. Blocks may be left by their end, return, break, continue or goto; break and
 * continue leave the block, not a loop around it.
 *
 * A scope has timed out if its deadline cut a call inside it short: the call failed with -ECANCELED
 * because the deadline had passed, or weft_is_cancelled returned true because of it. If the
 * deadline passes and every call returns its own result, the scope has not timed out, and no result
 * is lost. If several scopes around a call are cancelled, the one that was cancelled first is the
 * cause. A scope that weft_scope_cancel has cancelled does not time out. Neither does a scope whose
 * deadline passes while a shield is open inside it, unless a call follows after the shield.
 *
 * Times are seconds from now. 0 is over at once: the first blocking call fails. INFINITY is no
 * deadline. Negative or NaN is -EINVAL; a block is then not entered.
 */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/base.h>

WEFT_BEGIN

/* The caller's memory; its content is private. Between open and close it must stay where it is. */
typedef struct weft_scope {
    uint64_t weft__private[6];
} weft_scope;

/** Open a scope for the calling fiber, inside those that it has open. Returns 0, or -EINVAL. */
WEFT_API int weft_scope_open(weft_scope *scope, double timeout_s);

/**
 * Leave the scope. Returns 0, even if the deadline has passed and cut no call short.
 *
 * -EINVAL if it is not the caller's innermost open scope; nothing has changed then
 * -ETIMEDOUT if the deadline cut a call inside the scope short
 */
WEFT_API int weft_scope_close(weft_scope *scope);

/**
 * Cancel an open scope, from any fiber of the same thread. Returns 0, also if it was cancelled
 * before.
 */
WEFT_API int weft_scope_cancel(weft_scope *scope);

/**
 * Move the deadline of an open scope to timeout_s from now, in constant time; from any fiber of the
 * same thread. -EINVAL for a time that is negative or NaN, -ECANCELED if the scope is cancelled
 * already.
 */
WEFT_API int weft_scope_reset(weft_scope *scope, double timeout_s);

/**
 * Is this scope itself cancelled, by weft_scope_cancel or by its deadline? If so, blocking calls
 * inside it fail. A cancelled scope has not always timed out, because a call may have returned its
 * result before: weft_scope_close tells. Unlike weft_is_cancelled this does not read the clock.
 */
WEFT_API bool weft_scope_is_cancelled(const weft_scope *scope);

/**
 * Open a shield: until it is closed, but for at most timeout_s, cancellation and errors from
 * outside wait.
 */
WEFT_API int weft_shield_open(weft_scope *scope, double timeout_s);

/**
 * Would a blocking call of the caller fail now? For code that computes; reads the clock. If the
 * deadline of a scope is the reason, that deadline has cut a call short.
 *
 * A cancel from another thread is seen without a switch. One exception: while hundreds of messages
 * from other threads are pending, the cancel of a weft_cord_call arrives only after other fibers
 * have run.
 */
WEFT_API bool weft_is_cancelled(void);

/* A block in the making: what the macros below put on the stack. Private. */
typedef struct weft__block {
    double timeout_s;
    int *result; /* gets what close returned; NULL: nobody asks */
    bool is_shield;
    bool is_entered;
    bool is_open;
    weft_scope scope;
} weft__block;

/**
 * Called before each turn of the block's loop: opens the scope and says yes the first time, no the
 * second. Private.
 */
WEFT_API bool weft__block_turn(weft__block *block);

/** The clean-up function of a block. Private. */
WEFT_API void weft__block_leave(weft__block *block);

WEFT_END

/*
 * WEFT_MOVE_ON_AFTER(s) { }: inside, blocking calls fail with -ECANCELED once s is over; leaving is
 * silent. A call that already has its result returns it.
 */
#define WEFT_MOVE_ON_AFTER(s) WEFT__BLOCK(s, false, NULL, WEFT__PASTE(weft__block_, __COUNTER__))

/*
 * WEFT_CANCEL_AFTER(s, rc) { }: the same, and the int rc is -ETIMEDOUT afterwards if the deadline
 * cut a call inside short, else 0. If the only call inside succeeded, rc is 0, however late it is:
 *
 *     WEFT_CANCEL_AFTER(1.0, rc) {
 *         n = weft_stream_gets(&in, line, sizeof line);
 *     }
 *     return rc < 0 ? rc : n;
 */
#define WEFT_CANCEL_AFTER(s, rc) \
    WEFT__BLOCK(s, false, &(rc), WEFT__PASTE(weft__block_, __COUNTER__))

/*
 * WEFT_SHIELD(s) { }: inside, cancellation and raised errors from outside wait, for at most s. For
 * clean-up that blocks.
 */
#define WEFT_SHIELD(s) WEFT__BLOCK(s, true, NULL, WEFT__PASTE(weft__block_, __COUNTER__))

/*
 * A loop that runs once: its variable holds the scope, and the clean-up attribute closes it on
 * every way out.
 */
#define WEFT__BLOCK(s, is_shield, result, name)                                        \
    for (__attribute__((cleanup(weft__block_leave)))                                   \
         weft__block name = {(double)(s), (result), (is_shield), false, false, {{0}}}; \
         weft__block_turn(&name);)

#endif
