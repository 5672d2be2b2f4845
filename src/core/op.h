/* An operation of the backend as something that a fiber waits for. */
#ifndef WEFT_CORE_OP_H
#define WEFT_CORE_OP_H

#include "core/sched.h"

/*
 * Submit op and wait until it is done; returns its result, or why it was not to be. The caller has
 * filled in code, fd and arguments. When this returns, nobody holds op or its buffer any more.
 */
intptr_t weft__op_run(weft__op *op);

#endif
