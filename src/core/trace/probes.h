/*
 * USDT probes. All probes share one semaphore, which tracers increment. A cord reads the semaphore
 * in a tick or after a poll, at most every WEFT__STATS_NS.
 */
#ifndef WEFT_CORE_TRACE_PROBES_H
#define WEFT_CORE_TRACE_PROBES_H

#include <weft/trace.h>

#ifdef WEFT_HAS_SDT
extern volatile unsigned short weft__probes_semaphore __attribute__((visibility("hidden")));

static inline bool weft__probes_are_wanted(void)
{
    return weft__probes_semaphore != 0;
}
#else
static inline bool weft__probes_are_wanted(void)
{
    return false;
}
#endif

/* Raise the probe of an event. */
void weft__probe_raise(const weft_trace_event *event);

#endif
