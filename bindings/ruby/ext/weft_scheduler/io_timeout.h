/* IO#timeout of Ruby 3.2. Older versions have no such limit. */
#ifndef WEFT_SCHEDULER_IO_TIMEOUT_H
#define WEFT_SCHEDULER_IO_TIMEOUT_H

#include "scheduler.h"

#include <math.h>
#include <ruby/io.h>

static inline double io_timeout_seconds(VALUE io)
{
#ifdef HAVE_RB_IO_TIMEOUT
    return seconds_of(rb_io_timeout(io));
#else
    (void)io;
    return INFINITY;
#endif
}

static inline void io_timeout_raise(void)
{
#ifdef HAVE_RB_IO_TIMEOUT
    rb_raise(rb_eIOTimeoutError, "Weft::Scheduler: the time limit of the IO has passed");
#endif
}

#endif
