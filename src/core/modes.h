/* Floating-point modes of a fiber's own (weft_own_modes), where there are any. */
#ifndef WEFT_CORE_MODES_H
#define WEFT_CORE_MODES_H

#include "core/fiber.h"

/* A switch from one fiber to the other: each finds the modes that it had, or the common ones. */
void weft__modes_swap(weft__cord *c, const weft__fiber *from, const weft__fiber *to);

/* The fiber has none of its own any more. */
void weft__modes_drop(weft__cord *c, const weft__fiber *f);

#endif
