/* Messages to fibers of other threads. */
#ifndef WEFT_CORE_ABROAD_H
#define WEFT_CORE_ABROAD_H

#include <weft/base.h>

/* weft_tell for a fiber that is not of the calling thread, or is none at all. */
int weft__tell_abroad(weft_fiber fiber, weft_value value);

#endif
