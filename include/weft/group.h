/*
 * Groups: fibers that end with a block.
 *
 *     WEFT_GROUP(g, rc) {
 *         weft_group_spin(&g, fetch, &a);
 *         weft_group_spin(&g, fetch, &b);
 *     }                       // both have ended here; rc is 0 or the first error
 *
 * The first fiber of a group that fails cancels the others and the block itself: blocking calls
 * inside fail with -ECANCELED until it is left. The fibers of a group are children of the one that
 * opened it; their errors go to the group, and to those who await them. For a deadline, a group is
 * put inside WEFT_CANCEL_AFTER: closing it, the caller is cancelled, and so are they. Once one has
 * ended, nothing of it is kept, but for the first that fails until the group is closed: an await
 * that comes later is -ESRCH.
 */
#ifndef WEFT_GROUP_H
#define WEFT_GROUP_H

#include <weft/fiber.h>
#include <weft/scope.h>

WEFT_BEGIN

/* The caller's memory; its content is private. Between open and close it must stay where it is. */
typedef struct weft_group {
    uint64_t weft__private[24];
} weft_group;

/** Open a group, inside the scopes that the caller has open; it is a scope too. Returns 0. */
WEFT_API int weft_group_open(weft_group *group);

/**
 * Spin a fiber in the group; from any fiber of the thread, while the group is open. In a group that
 * is cancelled the fiber never runs. Returns 0 if it cannot be made, as weft_spin does, or if the
 * group is not open (weft_error() says which).
 */
WEFT_API weft_fiber weft_group_spin(weft_group *group, weft_fn *fn, void *arg);

/** The same with options, of which parent does not count. */
WEFT_API weft_fiber weft_group_spin_with(weft_group *group, weft_fn *fn, void *arg,
                                         const weft_spin_options *options);

/**
 * Cancel the fibers of the group and the block; from any fiber of the thread. Returns 0, -EINVAL.
 */
WEFT_API int weft_group_cancel(weft_group *group);

/** How many of its fibers live. */
WEFT_API size_t weft_group_count(const weft_group *group);

/**
 * Wait until all fibers of the group have ended, and leave it. Returns 0, or the first error of one
 * of them, with its words. If the caller is cancelled, or an error is raised in it, the fibers are
 * cancelled too and still waited for, and that is what is returned unless one had failed before (a
 * failure of a fiber counts more than a mere cancellation, even if it comes later). Interrupted, it
 * does the same and returns that value. -EINVAL if this is not the innermost group or scope that
 * the caller has open.
 */
WEFT_SWITCHPOINT int weft_group_close(weft_group *group) WEFT_MUST_CHECK;

/* What WEFT_GROUP puts on the stack beside the group. Private. */
typedef struct weft__group_block {
    weft_group *group;
    int *result; /* gets what close returned; NULL: an error is raised in the caller */
    bool is_entered;
    bool is_open;
} weft__group_block;

/** Called before each turn of the block's loop. Private. */
WEFT_API bool weft__group_turn(weft__group_block *block);

/** The clean-up function of a block. Private. */
WEFT_API void weft__group_leave(weft__group_block *block);

WEFT_END

/*
 * WEFT_GROUP(g) { } or WEFT_GROUP(g, rc) { }: a block with a group of this name, which the block
 * declares; closed on every way out (end, break, return, goto). With the int rc, that is 0 or the
 * first error afterwards; without, the error is raised in the caller: its next blocking call fails
 * with it.
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
                 weft__group_turn(&name);)

#endif
