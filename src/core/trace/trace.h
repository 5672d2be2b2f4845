/*
 * Events of a cord: for the ring of a trace, for the hook of the program, and for USDT probes.
 *
 * While no events are wanted, c->trace is NULL and the fast paths are unchanged. Otherwise:
 *   - has_slow_switch is set, and each tick has one switch, so each switch calls sched_tick().
 *     sched_tick() calls weft__trace_leave, which counts the switches of the real tick.
 *   - is_wake_traced is set in all records, so weft__make_runnable takes its slow path. The waiter
 *     of a fiber in a wait queue has an on_wake, so weft__waitq_wake takes its slow path.
 *   - is_traced is set in all records, so weft_spin and the end of a fiber take their slow paths.
 */
#ifndef WEFT_CORE_TRACE_TRACE_H
#define WEFT_CORE_TRACE_TRACE_H

#include "core/op/op.h"
#include "core/trace/ring.h"

/* The tracing state of a cord. Only the thread of the cord uses it. */
typedef struct weft__trace {
    weft__trace_ring *ring; /* NULL: the cord is not part of a trace */
    weft_trace_hook *hook;  /* NULL: none */
    void *hook_arg;
    bool has_probes;    /* a tracer uses USDT probes */
    bool is_in_hook;    /* events are neither recorded nor passed on */
    bool is_cord_work;  /* the cord polls, fires timers or delivers messages, not current */
    bool has_left;      /* the wait of current was recorded, before the cord became idle */
    bool has_ended;     /* the end of current was recorded */
    bool is_time_valid; /* no time has passed since the last event */
    weft_value value;   /* of current, which ends */
    weft__trace_clock clock;
    uint64_t last;    /* time of the last event; later events have higher times */
    uint64_t message; /* the remote message that is being delivered; 0: none */
} weft__trace;

/*
 * Record that current leaves the processor. Returns false if the tick is not over: the caller must
 * then do nothing more.
 */
bool weft__trace_leave(weft__cord *c);

/* Record that `to` runs after `from`. */
void weft__trace_run(weft__cord *c, const weft__fiber *from, weft__fiber *to);

/* Record no wake-up of the fiber from a wait queue any more. */
void weft__trace_forget_waiter(weft__fiber *f);

/* Record that a tick is over, so that events belong to current again. */
void weft__trace_tick_end(weft__cord *c);

/* Record the creation, the wake-up, the cancellation or the end of a fiber. */
void weft__trace_spin(weft__cord *c, const weft__fiber *f);
void weft__trace_wake(weft__cord *c, const weft__fiber *f);
void weft__trace_cancel(weft__cord *c, const weft__fiber *f);
void weft__trace_exit(weft__cord *c, const weft__fiber *f);

/* Keep the value of current for weft__trace_exit. */
void weft__trace_exit_value(weft__cord *c, weft_value value);

/* Record an operation of the backend. name is the name of its wait kind. */
void weft__trace_submit(weft__cord *c, const char *name, const weft__op *op);
void weft__trace_complete(weft__cord *c, const weft__fiber *f, const char *name, const weft__op *op,
                          intptr_t result);

/* Record a remote message that the cord sends. Returns a number for msg->trace_id. */
uint64_t weft__trace_send(weft__cord *c, const weft__remote_msg *msg);

/* Record the delivery of a message. If msg is NULL, the delivery of all messages is over. */
void weft__trace_receive(weft__cord *c, const weft__remote_msg *msg);

/* Record that the cord is idle, or no longer idle. */
void weft__trace_idle(weft__cord *c);
void weft__trace_busy(weft__cord *c);

/* Return the time of the cord, in the unit of its ring. */
uint64_t weft__trace_time(weft__cord *c);

/* Record the waits of all fibers, when a trace begins. */
void weft__trace_waits(weft__cord *c);

/*
 * Attach the cord of the calling thread to the trace of the process, if there is one. A cord calls
 * this function when it starts.
 */
void weft__trace_cord_begin(weft__cord *c);

/* End all events of the cord of the calling thread. A cord calls this function when it ends. */
void weft__trace_cord_end(weft__cord *c);

/* Return the trace of a cord, and create it if necessary. Return NULL if memory is exhausted. */
weft__trace *weft__trace_of(weft__cord *c);

/* Free c->trace, which must not have a ring. */
void weft__trace_free(weft__cord *c);

/* Copy the names of the living fibers to a ring. Without memory, the names are missing. */
void weft__trace_save_names(const weft__cord *c, weft__trace_ring *ring);

/*
 * Turn events for USDT probes on or off, if a tracer has started or stopped. If no events are
 * wanted any more, free c->trace.
 */
void weft__trace_update(weft__cord *c);

/* Start the trace of the environment variable WEFT_TRACE, once per process. */
void weft__trace_process_begin(void);

/* Write the file of a running trace, because the process ends. Report an error on stderr. */
void weft__trace_process_end(void);

/* Drop the trace of the parent, in a child of weft_fork. */
void weft__trace_in_child(weft__cord *c);

#endif
