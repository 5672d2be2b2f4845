/* Repair or replace a backend that fails at run time: parts that do not depend on the cord. */
#ifndef WEFT_CORE_OP_RECOVER_H
#define WEFT_CORE_OP_RECOVER_H

#include "backend/backend.h"
#include "core/cord/cord.h"

/*
 * Repair a backend after poll or check has failed with `error`. Returns 0, or the error because of
 * which the caller must replace the backend.
 */
int weft__backend_repair(weft__backend *b, int error);

/*
 * Move the jobs of a backend to its replacement b, after give_up. Report the error that is the
 * reason, once per process.
 */
void weft__backend_take_over(weft__backend *b, weft__backend *old, int error);

/* Make all cords check their backends, except one. `except` may be NULL. */
void weft__cords_request_check(weft__cord *except);

#endif
