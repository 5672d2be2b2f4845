/* FPU environments of single fibers (weft_own_fpu_env). */
#ifndef WEFT_CORE_FIBER_FPU_ENV_H
#define WEFT_CORE_FIBER_FPU_ENV_H

#include "core/fiber/fiber.h"

/*
 * Save the FPU environment of `from`, and load the FPU environment of `to`, if one of them has its
 * own FPU environment. All other fibers share c->fpu_env.
 */
void weft__fpu_env_swap(weft__cord *c, const weft__fiber *from, const weft__fiber *to);

/* Remove the fiber's own FPU environment, if any. */
void weft__fpu_env_drop(weft__cord *c, const weft__fiber *f);

#endif
