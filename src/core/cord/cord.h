/*
 * A cord: a thread that runs fibers, with its run queue, timers, backend, stacks and records.
 *
 * A thread becomes a cord when it first calls weft, and stops being a cord when it ends. Only that
 * thread uses the struct weft__cord, except for the fields that are marked for other threads. Other
 * threads must acquire the cord first (registry.h).
 */
#ifndef WEFT_CORE_CORD_CORD_H
#define WEFT_CORE_CORD_CORD_H

#include "backend/backend.h"
#include "base/busy_poll.h"
#include "base/fast_clock.h"
#include "core/cord/remote_msg.h"
#include "core/debug/stats.h"
#include "core/debug/top.h"
#include "core/debug/watchdog.h"
#include "core/fiber/fiber.h"
#include "core/fiber/id_reserve.h"
#include "core/lifetime/unawaited.h"
#include "core/sched/latency.h"
#include "core/stack/overflow.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/*
 * The state of a dormant chunk. All records of the chunk are free, and their memory was returned to
 * the kernel.
 */
typedef struct weft__dormant_chunk {
    uint32_t serial, owner_generation, scope_generation; /* the highest values of its records */
    uint32_t next; /* 1 + the index of the next dormant chunk; 0: none */
} weft__dormant_chunk;

/*
 * The state of returning unused memory to the kernel while the thread is idle (core/sched/trim.c).
 */
typedef struct weft__trim {
    int64_t due_ns;               /* when to check for unused memory; 0: nothing to return */
    bool was_busy;                /* records that are free now were in use in the last period */
    bool is_active;               /* memory that was unused in the last period is being returned */
    uint32_t chunk;               /* while is_active: the next chunk to check */
    uint32_t chunks_retained;     /* while is_active: free chunks that are not returned */
    weft__dormant_chunk *dormant; /* indexed by chunk; NULL: no chunk was ever dormant */
    uint32_t dormant_count;       /* elements of dormant */
    uint32_t first;               /* 1 + the index of the first dormant chunk; 0: none */
    uint32_t serial_max;          /* the highest serial of all chunks that were ever dormant */
} weft__trim;

/* The time slice in which weft_check_slice was last called. */
typedef struct weft__slice_run {
    weft_fiber fiber;
    uint64_t switches; /* of the fiber; a different number means a different slice */
    int64_t begin_ns;
    double more_s; /* seconds added by weft_extend_slice */
    bool has_warned;
} weft__slice_run;

struct weft__cord {
    /* Every switch uses these fields. */
    weft__fiber *current;
    uint32_t tick_left; /* switches until the next tick */
    uint32_t tick_span; /* the initial value of tick_left */
    weft__runqueue runqueue;
    /* A switch also swaps C++ exception state, FPU environments or thread states, or is traced. */
    bool has_slow_switch;
    bool has_thread_states; /* a switch also swaps registered thread states (thread_state.h) */
    bool has_stack_advice;  /* the end of a fiber measures its stack (stack_advice.h) */

    uint64_t switches; /* excluding switches of the current tick */
    union {
        struct {
            bool is_accounting; /* measure the time of each fiber */
            bool has_trace;     /* trace is not NULL */
            bool is_sample_due; /* the end of the idle loop begins a sample (latency.h) */
        };
        uint32_t slow_flags; /* all these fields; not 0: the idle loop takes its slow paths */
    };
    struct weft__trace *trace; /* events of this cord (core/trace/trace.h); NULL: none wanted */
    /* Like tick_left and tick_span, which are 1 while trace is not NULL. Otherwise not used. */
    uint32_t traced_left, traced_span;
    bool are_records_traced; /* is_traced of new records; protected by the lock of id_reserve */

    weft__cxx_globals *cxx; /* exception state of the running fiber; NULL: no C++ runtime */
    /* The FPU environment of other fibers, saved while a fiber with its own environment runs. */
    weft__fpu_env fpu_env;
    uint32_t fpu_env_owners; /* fibers with their own FPU environment */

    weft__fiber *main;
    weft__fiber_live main_live; /* of main; unused if weft_fork made another fiber main */
    /* The fiber that ends all fibers when the process or the thread ends. NULL: no fiber yet. */
    weft__fiber *closer;
    int64_t give_up_ns; /* when closer stops waiting for fibers that do not end; 0: never */
    bool has_given_up;  /* closer has stopped waiting */
    weft__backend *backend;
    const char *backend_why;       /* the reason for the choice of the backend, as a sentence */
    weft__backend_none no_backend; /* used as backend if no other backend can be opened */
    weft__backend *retired;        /* failed backends, linked by their retired fields; NULL: none */
    int64_t checked_ns;            /* when the backend's descriptors were last checked */
    int64_t now_ns;                /* the time when the clock was last read */
    weft__fast_clock fast_clock;   /* for deadlines, unless the backend has virtual time */
    int64_t last_tick_ns;          /* the time of the last tick */
    int64_t fired_ns;              /* when a timer last fired in an idle thread */
    int64_t coalesce_began_ns;     /* at most WEFT__COALESCE_NS before fired_ns */
    size_t coalesce_fired;         /* timers that have fired since coalesce_began_ns */
    int64_t polled_ns;             /* end of the last poll, plus its duration if it ran in a tick */
    int64_t switched_ns;           /* when current began to run; only while accounting */
    uint32_t tick_switches;        /* switches per tick, adapted to the run time of the fibers */
    bool must_poll;                /* poll at the next tick, because a fiber sleeps for 0 s */
    bool is_shuffled;              /* the backend chooses which fiber runs next */
    /* Events that non-daemon fibers wait for. weft_suspend in main waits for these events. */
    size_t held_timers, held_ops, held_signals;
    size_t signals_due; /* fibers that wait for a signal, plus handlers that create fibers */

    weft__wheel wheel;
    weft__stack_cache stacks;

    /*
     * Records. A full table is copied to a table of twice its size. The earlier tables remain
     * allocated, because other threads may read them.
     */
    weft__fiber **chunks; /* the largest table in tables */
    uint32_t chunks_count;
    weft__fiber **tables[WEFT__TABLES_MAX]; /* NULL: not allocated yet */
    weft__list uncached;                    /* free records without a stack */
    uint32_t warm_count;
    uint32_t records_used; /* records of living and ended fibers except main, plus warm records */
    uint32_t ended_count;  /* records of ended fibers that were not awaited */
    uint32_t records_peak; /* the maximum of records_used in this period (core/sched/trim.c) */
    uint32_t serial_base;  /* ids have higher serials, so ids of earlier cords are not reused */
    uint32_t index;        /* the index of the slot in the registry */
    weft__fiber *warm[WEFT__WARM_MAX]; /* free records that keep a stack of the default size */

    /* Fields for other threads, on separate cache lines, because other threads write them. */
    _Alignas(64) _Atomic(weft__remote_msg *) inbox; /* the newest message first; NULL: empty */
    /* Messages that were sent and not delivered yet. */
    atomic_uint remote_pending;
    /* The cord waits in its backend. A sender must wake the cord. */
    atomic_bool is_asleep;
    atomic_bool is_quiescent;         /* the cord waits, and only other threads can wake a fiber */
    atomic_int main_wait_policy;      /* valid while is_quiescent; see deadlock.c */
    atomic_bool waits_for_threads;    /* the cord waits for foreign threads (deadlock.h) */
    atomic_bool is_woken;             /* a thread has woken the cord since the last wait began */
    atomic_bool is_deadlock_victim;   /* in a deadlock, this cord must wake its main fiber */
    atomic_int bounded_mailboxes;     /* number of fibers with a bounded mailbox */
    weft__id_reserve id_reserve;      /* ids for fibers that other threads create here */
    struct weft__cord_handle *handle; /* NULL: weft_cord_start did not start the thread */
    bool shares_ports;                /* weft_listen shares its port with other cords */

    weft__watchdog_state watchdog; /* shared with the watchdog thread */
    weft__top top;                 /* shares of CPU time; only while accounting */
    weft__cord_stats stats;        /* counters for other threads */
    weft__latency latency;         /* wake-up latency of fibers, for weft_stats */

    weft__overflow_thread overflow;
    weft__trim trim;
    weft__unawaited_table unawaited; /* ended children that were not awaited, without a record */

    weft__slice slice; /* the time slice of fibers without their own slice */
    weft__slice_run slice_run;

    void (*on_idle)(void *); /* NULL: none */
    void *on_idle_arg;
    uint64_t polls, polls_blocking, ops; /* for weft_stats */
    uint64_t spun;                       /* fibers created, for weft_stats */
    size_t watches;                      /* open watches (io/fd_watch.c), for weft_stats */
    uint64_t scope_cancels;              /* scopes that have interrupted a call (scope.h) */
    /* Remote messages (inbox.c). */
    struct weft__msg_slab *msg_slab; /* memory for the next messages to send; NULL: none */
    weft__remote_msg *spare_msgs;    /* delivered messages for reuse; NULL: none */
    unsigned spare_msgs_count;
    weft__remote_msg *inbox_taken; /* messages taken out of inbox, the oldest first; NULL: none */
    uint32_t round_switches;       /* switches until each fiber of this round has run */
    uint32_t round_messages;       /* messages that may still be delivered in this round */
    uint64_t messages, wakes;      /* messages delivered; sleeps that a message ended */
    weft__busy_poll inbox_poll;    /* see inbox_poll.h */
    unsigned foreign_checks;       /* waits for foreign threads since a fiber last ran */
    uint32_t ops_in_a_row;         /* consecutive operations that completed without a switch */
    struct weft__fd_watcher *fd_watcher; /* watched descriptors (io/fd_watcher.h); NULL: none yet */
    /* The state of weft__cord_random. The state starts at 0, so that runs are repeatable. */
    uint64_t random;
};

/*
 * The cord of the calling thread. NULL: the thread has not called weft yet. With the initial-exec
 * model, an access is a single load.
 */
extern FOR_POSIX __thread weft__cord *weft__cord_self __attribute__((tls_model("initial-exec")));

/*
 * True in a child of plain fork(2) if the parent had called weft. The memory is a copy of the
 * parent's memory, and no thread can become a cord (fork.h). Hidden visibility makes a read faster.
 */
extern bool weft__is_copy __attribute__((visibility("hidden")));

/* Update has_slow_switch after one of its conditions has changed. */
static inline void weft__cord_update_slow_switch(weft__cord *c)
{
    c->has_slow_switch = c->cxx != NULL || c->fpu_env_owners > 0 || c->has_thread_states ||
                         c->has_stack_advice || c->trace != NULL;
}

/*
 * Make the calling thread a cord. On failure, record an error (see weft__no_cord) and return NULL.
 */
weft__cord *weft__cord_adopt(void);

/* Report once that the process is a child of plain fork(2). */
void weft__diag_copy(void);

/*
 * Return the error after weft__cord_here has returned NULL. Report a child of plain fork(2).
 *
 * Returns:
 * -EAGAIN if 1,024 other threads have fibers
 * -ENOMEM if memory is exhausted
 * -ENOTRECOVERABLE in a child of plain fork(2)
 */
int weft__why_no_cord(void);

/* Like weft__why_no_cord. Inline, so that the compiler can rely on a negative result. */
static inline int weft__no_cord(void)
{
    int why = weft__why_no_cord();
    if (why >= 0)
        __builtin_unreachable();
    return why;
}

/* Return true in a child of plain fork(2). Even calls that need no cord must fail there. */
static inline bool weft__cord_is_forbidden(const weft__cord *c)
{
    return UNLIKELY(c == NULL) && weft__is_copy;
}

/*
 * Return the cord of the calling thread. If the thread is not a cord, make it a cord. Return NULL
 * on failure (see weft__no_cord).
 */
static inline weft__cord *weft__cord_here(void)
{
    weft__cord *c = weft__cord_self;
    return LIKELY(c != NULL) ? c : weft__cord_adopt();
}

/*
 * Return a random number. The upper 32 bits are more random than the lower 32 bits. This is the
 * linear congruential generator of Knuth's MMIX. Any initial state is valid.
 */
static inline uint64_t weft__cord_random(weft__cord *c)
{
    return c->random = c->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* Return true if a free record may keep its stack for the next fiber. */
static inline bool weft__fiber_can_stay_warm(const weft__cord *c, const weft__fiber *f)
{
    return !f->has_own_size && c->warm_count < WEFT__WARM_MAX;
}

/* Add a free record with its stack to the warm records. */
static inline void weft__fiber_keep_warm(weft__cord *c, weft__fiber *f)
{
    c->warm[c->warm_count++] = f;
}

/*
 * Return the number of living fibers except main. There is no counter, because a counter would slow
 * down the fast paths of spin and exit.
 */
static inline uint32_t weft__cord_fibers(const weft__cord *c)
{
    return c->records_used - c->warm_count - c->ended_count;
}

/* Count one more used record. */
static inline void weft__records_add_used(weft__cord *c)
{
    if (++c->records_used > c->records_peak)
        c->records_peak = c->records_used;
}

/* Return the slot of the record of an id, in the table of its cord. */
static inline uint32_t weft__fiber_slot(weft_fiber id)
{
    return id & ((1u << WEFT__FIBERS_BITS) - 1);
}

/*
 * Return true if the slot has a record. Any thread may call this function. Other threads may add
 * records, and write chunks_count last.
 */
static inline bool weft__record_exists(const weft__cord *c, uint32_t slot)
{
    return slot >> WEFT__CHUNK_BITS < __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
}

/* Return the record in a slot that has one. Any thread may call this function. */
static inline weft__fiber *weft__record_at(const weft__cord *c, uint32_t slot)
{
    weft__fiber **chunks = __atomic_load_n(&c->chunks, __ATOMIC_ACQUIRE);
    return &chunks[slot >> WEFT__CHUNK_BITS][slot & (WEFT__CHUNK_FIBERS - 1)];
}

/* Return the fiber with this id. Returns NULL if the fiber is gone or belongs to another cord. */
static inline weft__fiber *weft__fiber_find(const weft__cord *c, weft_fiber id)
{
    uint32_t slot = weft__fiber_slot(id);
    if (UNLIKELY(!weft__record_exists(c, slot)))
        return NULL;
    weft__fiber *f = weft__record_at(c, slot);
    return LIKELY(f->id == id && id != 0) ? f : NULL;
}

/*
 * Return the fiber with this id if the fiber waits with this wait object, else NULL. Functions that
 * deliver a message to a waiting fiber use this function. object must belong to one wait only. c is
 * NULL if the cord has ended.
 */
static inline weft__fiber *weft__fiber_waiting(const weft__cord *c, weft_fiber id,
                                               const void *object)
{
    weft__fiber *f = c != NULL ? weft__fiber_find(c, id) : NULL;
    return f != NULL && f->waits_in != NULL && f->wait_object == object ? f : NULL;
}

/* Return the index of the cord that an id belongs to. */
static inline uint32_t weft__fiber_cord(weft_fiber id)
{
    return (id >> WEFT__FIBERS_BITS) & ((1u << WEFT__CORDS_BITS) - 1);
}

/*
 * Return the error after weft__fiber_find has returned NULL:
 * -ESRCH if the fiber is gone
 * -EXDEV if the id belongs to another cord
 */
static inline int weft__fiber_find_error(const weft__cord *c, weft_fiber id)
{
    return id != 0 && weft__fiber_cord(id) != c->index ? -EXDEV : -ESRCH;
}

/*
 * Find a fiber of the calling thread. *cord receives the cord of the thread.
 *
 * Returns 0, or:
 * -ENOMEM if the thread cannot become a cord
 * -ENOTRECOVERABLE in a child of plain fork(2)
 * -ESRCH if the fiber is gone
 * -EXDEV if the id belongs to another cord
 */
static inline int weft__fiber_lookup(weft_fiber id, weft__cord **cord, weft__fiber **fiber)
{
    weft__cord *c = *cord = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    *fiber = weft__fiber_find(c, id);
    return LIKELY(*fiber != NULL) ? 0 : weft__fiber_find_error(c, id);
}

/*
 * Like weft__fiber_lookup, but only for a fiber that has not ended. Errors in addition to those of
 * weft__fiber_lookup:
 * -ESRCH if the fiber has ended
 */
static inline int weft__fiber_lookup_living(weft_fiber id, weft__cord **cord, weft__fiber **fiber)
{
    int rc = weft__fiber_lookup(id, cord, fiber);
    return LIKELY(rc == 0) && UNLIKELY((*fiber)->phase == WEFT__ENDED) ? -ESRCH : rc;
}

/*
 * Open a backend for the cord. name is NULL, empty, or the backend of the parent process. If name
 * is NULL, use the backend of weft_cord_options, else WEFT_BACKEND, else the default. If name is
 * empty, use the best backend that can be opened. If no backend can be opened, use no_backend.
 */
void weft__cord_open_backend(weft__cord *c, const char *name);

/*
 * Repair or replace the backend after a poll has failed with error. Operations that cannot continue
 * end with -EBADF after a repair, and with -EIO after a replacement. (core/op/recover.c)
 */
void weft__cord_recover(weft__cord *c, int error);

/*
 * Check that the descriptors of the backend are still open, and publish the counters, at most once
 * per WEFT__CHECK_NS. Call this function before each wait. Returns timeout_ns, or the time until
 * the next check if that time is shorter. If the check fails, repair the backend and return 0.
 * (core/op/recover.c)
 */
int64_t weft__cord_check_backend(weft__cord *c, int64_t timeout_ns);

/*
 * Check the descriptors of the backend now. Call this function before another cord opens
 * descriptors. If the program has closed descriptors of the backend, the kernel may reuse their
 * numbers. (core/op/recover.c)
 */
void weft__cord_check_now(weft__cord *c);

/* Return the backend for an operation. If no backend is open, try again to open a backend. */
static inline weft__backend *weft__cord_backend(weft__cord *c)
{
    if (UNLIKELY(c->backend == &c->no_backend.base))
        weft__cord_open_backend(c, NULL);
    return c->backend;
}

/* Read the clock. */
static inline int64_t weft__cord_now(weft__cord *c)
{
    return c->now_ns = c->backend->type->now_ns(c->backend);
}

/*
 * Read the clock for a fiber that computes until a deadline. A virtual clock advances by one tick.
 */
static inline int64_t weft__cord_advance_now(weft__cord *c)
{
    if (c->backend->type->tick != NULL)
        c->backend->type->tick(c->backend, 0);
    return weft__cord_now(c);
}

/*
 * Return the time slice of a fiber. If the fiber has no slice, return the slice of its thread.
 * (core/sched/slice.c)
 */
weft__slice weft__slice_of(const weft__cord *c, const weft__fiber *f);

/*
 * End the fibers of the calling thread's cord, and free the cord. Call this function when the
 * thread ends.
 */
void weft__cord_close(weft__cord *c);

/*
 * Open a new backend in a child of weft_fork, of the same type as the inherited backend. The
 * inherited backend still belongs to the parent process. Drop all timers, and initialise the clock
 * state again.
 */
void weft__cord_reopen(weft__cord *c);

#endif
