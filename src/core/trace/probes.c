/*
 * USDT probes of the provider weft, one per kind of event. Without <sys/sdt.h>, there are none.
 *
 * The notes of the probes in the library refer to a semaphore by its symbol, weft_NAME_semaphore.
 * These symbols are aliases of one semaphore.
 */
#include "core/trace/probes.h"

#ifdef WEFT_HAS_SDT
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* In a section of data that the program can write, as tracers expect. */
volatile unsigned short weft__probes_semaphore __attribute__((section(".probes")));

#define SEMAPHORE(name)                                    \
    extern volatile unsigned short weft_##name##_semaphore \
        __attribute__((alias("weft__probes_semaphore"), visibility("hidden")));

#define RAISE(name)                                                                             \
    STAP_PROBE8(weft, name, e->fiber, e->other, e->reason, e->object, e->fd, e->value, e->text, \
                e->time_ns)

SEMAPHORE(spin)
SEMAPHORE(wait)
SEMAPHORE(run)
SEMAPHORE(wake)
SEMAPHORE(cancel)
SEMAPHORE(end)
SEMAPHORE(submit)
SEMAPHORE(complete)
SEMAPHORE(send)
SEMAPHORE(receive)
SEMAPHORE(idle)
SEMAPHORE(busy)
SEMAPHORE(mark)
SEMAPHORE(begin)
SEMAPHORE(stop)

void weft__probe_raise(const weft_trace_event *e)
{
    switch (e->kind) {
    case WEFT_TRACE_SPIN:
        RAISE(spin);
        break;
    case WEFT_TRACE_WAIT:
        RAISE(wait);
        break;
    case WEFT_TRACE_RUN:
        RAISE(run);
        break;
    case WEFT_TRACE_WAKE:
        RAISE(wake);
        break;
    case WEFT_TRACE_CANCEL:
        RAISE(cancel);
        break;
    case WEFT_TRACE_END:
        RAISE(end);
        break;
    case WEFT_TRACE_SUBMIT:
        RAISE(submit);
        break;
    case WEFT_TRACE_COMPLETE:
        RAISE(complete);
        break;
    case WEFT_TRACE_SEND:
        RAISE(send);
        break;
    case WEFT_TRACE_RECEIVE:
        RAISE(receive);
        break;
    case WEFT_TRACE_IDLE:
        RAISE(idle);
        break;
    case WEFT_TRACE_BUSY:
        RAISE(busy);
        break;
    case WEFT_TRACE_MARK:
        RAISE(mark);
        break;
    case WEFT_TRACE_BEGIN:
        RAISE(begin);
        break;
    case WEFT_TRACE_STOP:
        RAISE(stop);
        break;
    }
}
#else
void weft__probe_raise(const weft_trace_event *event)
{
    (void)event;
}
#endif
