/*
 * A cord: a thread that runs fibers. Its run queue, its timers, its backend, its stacks and
 * records.
 *
 * A thread becomes a cord when it first calls weft, and stops being one when it ends. Everything
 * here belongs to that thread, except the inbox, which is how other threads reach it.
 */
#ifndef WEFT_CORE_CORD_H
#define WEFT_CORE_CORD_H

#include "backend/backend.h"
#include "core/fiber.h"
#include "core/overflow.h"

#include <errno.h>
#include <stdatomic.h>

/* Something that another thread has sent. */
typedef struct weft__letter {
    struct weft__letter *next;
    /*
     * Called by the thread that it was sent to, which owns it from then on. c is NULL if that
     * thread has ended without having read it.
     */
    void (*deliver)(weft__cord *c, struct weft__letter *l);
    weft_fiber fiber; /* whom it is about */
    weft_value value;
} weft__letter;

/* The slice in which weft_check_slice was last asked. */
typedef struct weft__slice_run {
    weft_fiber fiber;
    uint64_t switches; /* the fiber's, while it lasts */
    int64_t begin_ns;
    double more_s; /* by weft_extend_slice */
    bool has_warned;
} weft__slice_run;

struct weft__cord {
    /* A switch touches these. */
    weft__fiber *current;
    uint32_t turn_left;     /* switches until the clock is looked at */
    uint32_t turn_span;     /* what turn_left began with */
    weft__cxx_globals *cxx; /* the running fiber's; NULL: no C++ here */
    weft__runqueue runqueue;

    uint64_t switches;  /* without those of this turn */
    bool is_accounting; /* measure each fiber's time */

    weft__fiber *main;
    weft__fiber
        *closer; /* ends all fibers, because the process or the thread ends; NULL: not yet */
    weft__backend *backend;
    const char *backend_why;       /* a sentence on the choice */
    weft__backend_none no_backend; /* what backend points to when no other could be opened */
    int64_t now_ns;                /* the clock as last read */
    int64_t turned_ns;             /* when the last turn was */
    int64_t polled_ns;             /* when the backend was last asked, and as long as that took */
    int64_t switched_ns;           /* when the current fiber began to run; only while accounting */
    uint32_t turn_switches;        /* how long a turn is, as it suits the fibers */
    bool must_poll;                /* someone sleeps for 0 s: ask the backend at the next switch */
    bool is_shuffled;              /* the backend chooses who runs next */
    /* Of fibers that are no daemons: what main's suspend waits for. */
    size_t held_timers, held_ops;

    weft__wheel wheel;
    weft__stack_pool stacks;

    /* Records. */
    weft__fiber **chunks;
    uint32_t chunks_count;
    weft__list warm; /* free ones that keep a stack of the default size, the warmest first */
    weft__list bare; /* free ones without a stack */
    uint32_t warm_count;
    uint32_t fibers_count; /* alive, without main */
    uint32_t ended_count;  /* ended, not awaited */
    uint32_t serial;       /* of the last id */
    uint32_t index;        /* of this cord among all */

    _Atomic(weft__letter *) inbox; /* the newest first */
    atomic_int bounded_mailboxes;  /* of its fibers; others read it */

    weft__overflow_thread overflow;

    weft__slice slice; /* of fibers that have none of their own */
    weft__slice_run slice_run;

    void (*on_idle)(void *);
    void *on_idle_arg;
    uint64_t polls, polls_blocking, ops;
    uint32_t ops_in_a_row; /* done at once, without a switch */
    uint64_t random;       /* what select draws lots by; the same in every run */
};

/* The calling thread's cord; NULL before its first call. Initial-exec: one load. */
extern __thread weft__cord *weft__cord_self __attribute__((tls_model("initial-exec")));

/* Make the calling thread a cord. NULL: no memory. */
weft__cord *weft__cord_adopt(void);

static inline weft__cord *weft__cord_here(void)
{
    weft__cord *c = weft__cord_self;
    return LIKELY(c != NULL) ? c : weft__cord_adopt();
}

/* The fiber with this id; NULL: it is gone, or another cord's. */
static inline weft__fiber *weft__fiber_find(const weft__cord *c, weft_fiber id)
{
    uint32_t slot = id & ((1u << WEFT__FIBERS_BITS) - 1);
    if (UNLIKELY(slot >> WEFT__CHUNK_BITS >= c->chunks_count))
        return NULL;
    weft__fiber *f = &c->chunks[slot >> WEFT__CHUNK_BITS][slot & (WEFT__CHUNK_FIBERS - 1)];
    return LIKELY(f->id == id && id != 0) ? f : NULL;
}

/* The cord that an id belongs to. */
static inline uint32_t weft__fiber_cord(weft_fiber id)
{
    return (id >> WEFT__FIBERS_BITS) & ((1u << WEFT__CORDS_BITS) - 1);
}

/* Why weft__fiber_find found nothing. */
static inline int weft__fiber_missing(const weft__cord *c, weft_fiber id)
{
    return id != 0 && weft__fiber_cord(id) != c->index ? -EXDEV : -ESRCH;
}

/*
 * The calling thread's cord, and the fiber with this id. 0; -ENOMEM if the thread cannot become a
 * cord, -ESRCH, -EXDEV.
 */
static inline int weft__find(weft_fiber id, weft__cord **cord, weft__fiber **fiber)
{
    weft__cord *c = *cord = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return -ENOMEM;
    *fiber = weft__fiber_find(c, id);
    return LIKELY(*fiber != NULL) ? 0 : weft__fiber_missing(c, id);
}

/* The same for one that has not ended. */
static inline int weft__find_living(weft_fiber id, weft__cord **cord, weft__fiber **fiber)
{
    int rc = weft__find(id, cord, fiber);
    return LIKELY(rc == 0) && UNLIKELY((*fiber)->phase == WEFT__ENDED) ? -ESRCH : rc;
}

/* Open the backend, if there was none to be had so far. */
void weft__cord_open_backend(weft__cord *c);

/* The backend for an operation; tries again to open one if the thread has none. */
static inline weft__backend *weft__cord_backend(weft__cord *c)
{
    if (UNLIKELY(c->backend == &c->no_backend.base))
        weft__cord_open_backend(c);
    return c->backend;
}

/* Read the clock. */
static inline int64_t weft__cord_now(weft__cord *c)
{
    return c->now_ns = c->backend->type->now_ns(c->backend);
}

/* The same for a fiber that may be computing until it is time: a virtual clock has to move. */
static inline int64_t weft__cord_look(weft__cord *c)
{
    if (c->backend->type->tick != NULL)
        c->backend->type->tick(c->backend, 0);
    return weft__cord_now(c);
}

/* Has another thread sent something? */
static inline bool weft__cord_has_letters(weft__cord *c)
{
    return atomic_load_explicit(&c->inbox, memory_order_relaxed) != NULL;
}

/* Hand over what other threads have sent. */
void weft__cord_read_inbox(weft__cord *c);

/* The slice of a fiber: its own, else its thread's. */
weft__slice weft__slice_of(const weft__cord *c, const weft__fiber *f);

/* Could another thread of this process still wake a fiber of this cord? */
bool weft__cord_is_reachable(void);

/* Does a fiber of the cord with this index have a bounded mailbox? From any thread. */
bool weft__cord_is_bounded(uint32_t index);

/* Give a letter to the cord of l->fiber. 0, or -ESRCH: then it is still the caller's. */
int weft__cord_post(weft__letter *l);

/* A new letter, posted; when it is delivered it is to be freed. 0, -ESRCH, -ENOMEM. */
int weft__cord_send(weft_fiber fiber, weft_value value,
                    void (*deliver)(weft__cord *c, weft__letter *l));

#endif
