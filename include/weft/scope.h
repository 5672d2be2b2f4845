/*
 * Scopes with a deadline and a cancel flag, and shields.
 *
 * A deadline or weft_scope_cancel cancels a scope. A scope remains cancelled until it is closed.
 * Every blocking call inside a cancelled scope fails with -ECANCELED. A call that already has its
 * result returns the result. Scopes nest. A deadline cancels only its own scope. A scope applies to
 * the fiber that opened the scope, not to the children of the fiber. Control can leave a block by
 * its end, return, break, continue or goto. break and continue leave the block, not a loop around
 * the block.
 *
 * A scope has timed out if its deadline interrupted a call inside the scope. The interrupted call
 * fails with -ECANCELED. A scope has also timed out if weft_is_cancelled returned true because of
 * the deadline. If the deadline passes and every call returns its own result, the scope has not
 * timed out. Therefore no result is lost. If several scopes around a call are cancelled, only the
 * scope that was cancelled first can time out. A scope that weft_scope_cancel has cancelled does
 * not time out.
 *
 * A shield delays cancellation and errors from outside. If the deadline of an outer scope passes
 * inside a shield, calls inside the shield continue. The outer scope times out only if a call after
 * the shield fails.
 *
 * Times are in seconds, counted from the call. If the time of a scope is 0, the first blocking call
 * fails. If the time of a shield is 0, the shield has no effect. If a time is INFINITY, there is no
 * deadline. If a time is negative or NaN, functions fail with -EINVAL, and macros do not run the
 * block.
 */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/base.h>

WEFT_BEGIN

/*
 * A scope, in memory of the caller. Do not move a scope between open and close. The fields are
 * private.
 */
typedef struct weft_scope {
    uint64_t weft__private[6];
} weft_scope;

/**
 * Open a scope inside the open scopes of the calling fiber.
 *
 * Returns 0, or:
 * -EINVAL if scope is NULL
 * -EINVAL if scope is the innermost open scope of the caller
 * -EINVAL if timeout_s is negative or NaN
 */
WEFT_API int weft_scope_open(weft_scope *scope, double timeout_s);

/**
 * Close a scope or a shield.
 *
 * Returns 0, or:
 * -EINVAL if the scope is not the innermost open scope of the caller
 * -ETIMEDOUT if the scope has timed out
 */
WEFT_API int weft_scope_close(weft_scope *scope);

/**
 * Cancel an open scope.
 *
 * Any fiber of the thread may call this function.
 *
 * Returns 0, even if the scope is already cancelled, or:
 * -EINVAL if the scope is not open
 */
WEFT_API int weft_scope_cancel(weft_scope *scope);

/**
 * Move the deadline of an open scope to timeout_s seconds from now.
 *
 * Any fiber of the thread may call this function.
 *
 * Returns 0, or:
 * -ECANCELED if the scope is already cancelled
 * -EINVAL if the scope is not open
 * -EINVAL if timeout_s is negative or NaN
 */
WEFT_API int weft_scope_reset(weft_scope *scope, double timeout_s);

/**
 * Return whether weft_scope_cancel or the deadline has cancelled a scope.
 *
 * A cancelled scope may not have timed out, because every call may have returned its own result.
 * weft_scope_close returns whether the scope has timed out. Unlike weft_is_cancelled, the call does
 * not read the clock.
 */
WEFT_API bool weft_scope_is_cancelled(const weft_scope *scope);

/**
 * Open a shield against cancellation and errors from outside.
 *
 * The shield delays cancellation and errors until weft_scope_close closes the shield, but for at
 * most timeout_s seconds. Returns 0, or one of the errors of weft_scope_open.
 */
WEFT_API int weft_shield_open(weft_scope *scope, double timeout_s);

/**
 * Return whether a blocking call of the caller would fail now.
 *
 * Call this function during long computations. The call reads the clock. If the deadline of a scope
 * is the reason, that scope has timed out.
 *
 * The call detects a cancellation by another thread without a switch, with one exception. If
 * hundreds of messages from other threads are pending, the cancellation of a weft_cord_call may
 * arrive only after other fibers have run.
 */
WEFT_API bool weft_is_cancelled(void);

/* The state of a block of the macros below, on the stack. Private. */
typedef struct weft__block {
    double timeout_s;
    int *result; /* receives the result of weft_scope_close; NULL: none */
    bool is_shield;
    bool is_entered;
    bool is_open;
    weft_scope scope;
} weft__block;

/** Open the scope and return true at the first call. Later calls return false. Private. */
WEFT_API bool weft__block_next(weft__block *block);

/** Close the scope. The cleanup function of a block. Private. */
WEFT_API void weft__block_leave(weft__block *block);

WEFT_END

/*
 * WEFT_MOVE_ON_AFTER(s) { }
 *
 * Run a block in a scope with a deadline of s seconds. After the deadline, blocking calls in the
 * block fail with -ECANCELED. A call that already has its result returns the result. The macro does
 * not report a timeout.
 */
#define WEFT_MOVE_ON_AFTER(s) WEFT__BLOCK(s, false, NULL, WEFT__PASTE(weft__block_, __COUNTER__))

/*
 * WEFT_CANCEL_AFTER(s, rc) { }
 *
 * Like WEFT_MOVE_ON_AFTER(s), but report a timeout. After the block, the int rc is -ETIMEDOUT if
 * the scope has timed out, else 0. If s is negative or NaN, rc is -EINVAL. If the only call in the
 * block succeeds, rc is 0, even after the deadline:
 *
 *     WEFT_CANCEL_AFTER(1.0, rc) {
 *         n = weft_stream_gets(&in, line, sizeof line);
 *     }
 *     return rc < 0 ? rc : n;
 */
#define WEFT_CANCEL_AFTER(s, rc) \
    WEFT__BLOCK(s, false, &(rc), WEFT__PASTE(weft__block_, __COUNTER__))

/*
 * WEFT_SHIELD(s) { }
 *
 * Run a block in a shield, for cleanup that blocks. The shield delays cancellation and raised
 * errors from outside until the end of the block, but for at most s seconds.
 */
#define WEFT_SHIELD(s) WEFT__BLOCK(s, true, NULL, WEFT__PASTE(weft__block_, __COUNTER__))

/*
 * A loop with one iteration. The loop variable holds the scope. The cleanup attribute closes the
 * scope when control leaves the block in any way.
 */
#define WEFT__BLOCK(s, is_shield, result, name)                                        \
    for (__attribute__((cleanup(weft__block_leave)))                                   \
         weft__block name = {(double)(s), (result), (is_shield), false, false, {{0}}}; \
         weft__block_next(&name);)

#endif
