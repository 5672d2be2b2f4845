/* Monitors: messages about the end of fibers. */
#ifndef WEFT_CORE_FIBER_MONITOR_H
#define WEFT_CORE_FIBER_MONITOR_H

#include "core/fiber/fiber.h"

/*
 * Send the id of an ended fiber to all fibers that monitor this fiber. Set *is_error_handled to
 * true if one of them is the parent. Return the number of messages.
 */
uint32_t weft__monitors_notify(weft__cord *c, weft__fiber *f, bool *is_error_handled);

/*
 * Return the number of monitoring fibers that have been notified and have not awaited the ended
 * fiber yet.
 */
uint32_t weft__monitors_unawaited(const weft__fiber *f);

/*
 * Record that the fiber `watcher` awaits the ended fiber f. Return false if the watcher has no
 * await left, but other monitoring fibers have. The caller must then keep the record of f for them.
 */
bool weft__monitors_await(weft__fiber *f, const weft__fiber *watcher);

#endif
