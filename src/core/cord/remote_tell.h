/* weft_tell to fibers of other threads. */
#ifndef WEFT_CORE_CORD_REMOTE_TELL_H
#define WEFT_CORE_CORD_REMOTE_TELL_H

#include <weft/base.h>

/* Like weft_tell, for an id that no fiber of the calling thread has. */
int weft__remote_tell(weft_fiber fiber, weft_value value);

/* Like weft_try_tell, for an id that no fiber of the calling thread has. */
int weft__remote_try_tell(weft_fiber fiber, weft_value value);

#endif
