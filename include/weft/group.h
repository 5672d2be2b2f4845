/*
 * Groups of fibers that end with a block.
 *
 *     WEFT_GROUP(g, rc) {
 *         weft_group_spin(&g, fetch, &a);
 *         weft_group_spin(&g, fetch, &b);
 *     }                       // both fibers have ended; rc is 0 or the first error
 *
 * After the first failure of a fiber, weft cancels the other fibers of the group and the block.
 * Blocking calls in the block then fail with -ECANCELED. The fibers of a group are children of the
 * fiber that opened the group. weft does not raise their errors in that fiber. The group and
 * awaiting fibers get the errors.
 *
 * For a deadline, put the group inside WEFT_CANCEL_AFTER. After the deadline, weft_group_close
 * cancels the fibers.
 *
 * A fiber of a group is gone when it has ended. A later weft_await fails with -ESRCH. The first
 * fiber that fails is gone when the group is closed.
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <weft/fiber.h>
#include <weft/scope.h>

WEFT_BEGIN

/*
 * A group, in memory of the caller. Do not move a group between open and close. The fields are
 * private.
 */
typedef struct weft_group {
    uint64_t weft__private[24];
} weft_group;

/**
 * Open a group inside the open scopes of the caller.
 *
 * A group is also a scope.
 *
 * Returns 0, or:
 * -EINVAL if group is NULL
 * -EINVAL if group is the innermost open group or scope of the caller
 */
WEFT_API int weft_group_open(weft_group *group);

/**
 * Create a fiber in an open group.
 *
 * Any fiber of the thread may call this function. If the group is cancelled, the new fiber never
 * runs.
 *
 * Returns the id, or 0 on failure. Errors in addition to those of weft_spin:
 * -EINVAL if the group is not open
 */
WEFT_API weft_fiber weft_group_spin(weft_group *group, weft_fn *fn, void *arg);

/**
 * Like weft_group_spin, but with options.
 *
 * The options are those of weft_spin_with, except that the call ignores parent. If options is NULL,
 * the defaults apply.
 */
WEFT_API weft_fiber weft_group_spin_with(weft_group *group, weft_fn *fn, void *arg,
                                         const weft_spin_options *options);

/**
 * Cancel the fibers and the block of a group.
 *
 * Any fiber of the thread may call this function.
 *
 * Returns 0, or:
 * -EINVAL if the group is not open
 */
WEFT_API int weft_group_cancel(weft_group *group);

/** Return the number of living fibers of a group. Returns 0 if the group is not open. */
WEFT_API size_t weft_group_count(const weft_group *group);

/**
 * Wait until all fibers of a group have ended, and close the group.
 *
 * A cancellation, an interrupt or a raised error in the caller cancels the fibers of the group. The
 * call still waits for the end of the fibers. Then the call returns the error: -ECANCELED, the code
 * of the interrupt, or the code of the raised error. If a fiber failed earlier, the call returns
 * the error of the fiber instead. weft then raises the error of the caller again, unless this error
 * is -ECANCELED. If a fiber fails after the cancellation, its error takes precedence only
 * over -ECANCELED. If the call returns the error of a fiber, weft_error() returns the message.
 *
 * Returns 0, the first error of a fiber, an error of the caller as above, or:
 * -EDEADLK if no event can end the fibers
 * -EINVAL if the group is not the innermost open group or scope of the caller
 * -EPERM if switching is forbidden and fibers of the group are alive
 */
WEFT_SWITCHPOINT int weft_group_close(weft_group *group) WEFT_MUST_CHECK;

/* The state of a WEFT_GROUP block, on the stack. Private. */
typedef struct weft__group_block {
    weft_group *group;
    int *result; /* receives the result of weft_group_close; NULL: raise an error instead */
    bool is_entered;
    bool is_open;
} weft__group_block;

/** Open the group and return true at the first call. Later calls return false. Private. */
WEFT_API bool weft__group_next(weft__group_block *block);

/** Close the group. The cleanup function of a block. Private. */
WEFT_API void weft__group_leave(weft__group_block *block);

WEFT_END

/*
 * WEFT_GROUP(g) { } and WEFT_GROUP(g, rc) { }
 *
 * Run a block with a new group g. The macro declares g. The first error of a fiber cancels the
 * other fibers of the group. The macro closes the group when control
 * leaves the block, by its end, break, continue, return or goto. The int rc is then 0 or the first
 * error. Without rc, weft raises the error in the caller. The caller's next blocking call then
 * fails.
 */
#define WEFT_GROUP(...) \
    WEFT__GROUP_PICK(__VA_ARGS__, WEFT__GROUP_RC, WEFT__GROUP_RAISE, )(__VA_ARGS__)
#define WEFT__GROUP_PICK(g, rc, pick, ...) pick
#define WEFT__GROUP_RC(g, rc) WEFT__GROUP_BLOCK(g, &(rc), WEFT__PASTE(weft__group_, __COUNTER__))
#define WEFT__GROUP_RAISE(g) WEFT__GROUP_BLOCK(g, NULL, WEFT__PASTE(weft__group_, __COUNTER__))
#define WEFT__GROUP_BLOCK(g, result, name)                                                     \
    for (bool WEFT__PASTE(name, _once) = true; WEFT__PASTE(name, _once);)                      \
        for (weft_group g = {{0}}; WEFT__PASTE(name, _once); WEFT__PASTE(name, _once) = false) \
            for (__attribute__((cleanup(weft__group_leave)))                                   \
                 weft__group_block name = {&g, (result), false, false};                        \
                 weft__group_next(&name);)

#endif
