/*
 * A cord: a thread that runs fibers. Its run queue, its timers, its backend, its stacks and
 * records.
 *
 * A thread becomes a cord when it first calls weft, and stops being one when it ends. Everything
 * here belongs to that thread, except what is marked as the others': how they reach it.
 */
#ifndef WEFT_CORE_CORD_H
#define WEFT_CORE_CORD_H

#include "backend/backend.h"
#include "base/busy_poll.h"
#include "base/quick.h"
#include "core/ended.h"
#include "core/fiber.h"
#include "core/overflow.h"
#include "core/top.h"
#include "core/watchdog.h"

#include <errno.h>
#include <pthread.h>
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

/* What the main fiber of a cord that nobody can help says to being let go. */
typedef enum weft__resort {
    WEFT__RESORT_OPEN, /* it waits for the end of all work, as weft_suspend does */
    WEFT__RESORT_TOLD, /* it is told of a deadlock */
    WEFT__RESORT_OWED, /* it cannot go on before it has what it waits for */
} weft__resort;
#define WEFT__RESORTS 3

/* Ids that are set aside for fibers that other threads make: their records are on no list. */
typedef struct weft__reserve {
    pthread_mutex_t lock; /* for the table of chunks, too: whoever finds none left adds one */
    unsigned count;
    unsigned room; /* of ids; 0 before the first, then that of a chunk at least */
    bool is_short; /* a sender found none left, and not for the first time */
    weft_fiber *ids;
    atomic_uint under_way; /* taken, and not arrived yet */
} weft__reserve;

/* What is left of a chunk of free records whose pages were given back. */
typedef struct weft__dormant {
    uint32_t serial, claim_run, scope_run; /* the highest of its records */
    uint32_t next;                         /* 1 + the index of another such chunk; 0: none */
} weft__dormant;

/* Giving memory back when the thread is idle (rest.c). */
typedef struct weft__rest {
    int64_t due_ns;         /* when to look again what nobody uses; 0: nothing to give back */
    bool was_busy;          /* records were used in the period that is over, and are free now */
    bool is_under_way;      /* a period is over, and what nobody used in it is being given back */
    uint32_t chunk;         /* the next to look at, meanwhile */
    uint32_t chunks_spared; /* of those with free records only, so many stay */
    weft__dormant *dormant; /* by chunk; NULL: none ever was */
    uint32_t dormant_count; /* of dormant */
    uint32_t first;         /* 1 + the index of a dormant chunk; 0: none */
    uint32_t serial_max;    /* of all that were dormant */
} weft__rest;

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
    uint32_t turn_left; /* switches until the clock is looked at */
    uint32_t turn_span; /* what turn_left began with */
    weft__runqueue runqueue;
    bool has_more_to_swap; /* at each switch: C++'s notes, or modes of some fiber's own */

    uint64_t switches;      /* without those of this turn */
    uint64_t switches_told; /* of all, those that weft_stats has counted before */
    bool is_accounting;     /* measure each fiber's time */

    weft__cxx_globals *cxx; /* the running fiber's; NULL: no C++ here */
    weft__modes modes;      /* of all fibers that have none of their own, while one runs that has */
    uint32_t modes_owners;  /* fibers that have */

    weft__fiber *main;
    weft__life main_life; /* its life, unless it was forked */
    weft__fiber
        *closer;        /* ends all fibers, because the process or the thread ends; NULL: not yet */
    int64_t give_up_ns; /* when it stops waiting for fibers that ignore this; 0: never */
    bool has_given_up;  /* it has */
    weft__backend *backend;
    const char *backend_why;       /* a sentence on the choice */
    weft__backend_none no_backend; /* what backend points to when no other could be opened */
    weft__backend *retired;        /* backends that were given up, by their retired; NULL: none */
    int64_t checked_ns;            /* when the backend's descriptors were last looked at */
    int64_t now_ns;                /* the clock as last read */
    weft__quick quick;             /* a clock for deadlines, unless the backend has its own time */
    int64_t turned_ns;             /* when the last turn was */
    int64_t fired_ns;              /* when the thread was last idle and a timer fired */
    int64_t beat_began_ns;         /* a time not longer than a beat before that */
    size_t beat_fired;             /* timers that have fired since */
    int64_t polled_ns;             /* when the backend was last asked, and as long as that took */
    int64_t switched_ns;           /* when the current fiber began to run; only while accounting */
    uint32_t turn_switches;        /* how long a turn is, as it suits the fibers */
    bool must_poll;                /* someone sleeps for 0 s: ask the backend at the next switch */
    bool is_shuffled;              /* the backend chooses who runs next */
    /* Of fibers that are no daemons: what main's suspend waits for. */
    size_t held_timers, held_ops, held_signals;
    size_t signals_due; /* fibers that a signal would wake, or make */

    weft__wheel wheel;
    weft__stack_pool stacks;

    /* Records. The table grows by a new one twice its size; others may be reading the old ones. */
    weft__fiber **chunks; /* the last of tables */
    uint32_t chunks_count;
    weft__fiber **tables[WEFT__TABLES_MAX];
    weft__list bare; /* free ones without a stack */
    uint32_t warm_count;
    uint32_t records_used; /* by fibers that are alive or ended, without main, and warm ones */
    uint32_t ended_count;  /* ended, not awaited, with a record */
    uint32_t records_peak; /* the most of records_used in this period (rest.c) */
    uint32_t serial_base;  /* ids of the cord have higher serials: others before it had those */
    uint32_t index;        /* of this cord among all */
    weft__fiber *warm[WEFT__WARM_MAX]; /* free ones that keep a stack of the default size */

    /* The others', who visit it (port.h). On a cache line of its own: they write to it. */
    _Alignas(64) _Atomic(weft__letter *) inbox; /* the newest first */
    atomic_uint remote_pending;                 /* messages sent and not delivered yet */
    atomic_bool is_asleep;         /* it waits in its backend, and wants to be woken for a letter */
    atomic_bool is_helpless;       /* it waits, and only others can help; see port.h */
    atomic_int resort;             /* meanwhile: weft__resort of its main fiber */
    atomic_bool waits_for_threads; /* that have no fibers; see port.c */
    atomic_bool is_woken;          /* someone has woken it since it began to wait */
    atomic_bool is_let_go;         /* nobody will help any more: its main fiber is to go on */
    atomic_int bounded_mailboxes;  /* of its fibers */
    weft__reserve reserve;         /* ids for fibers that others make here */
    struct weft__tenure *tenure; /* how it was started, and how it ends; NULL: a thread by itself */
    bool shares_ports;           /* weft_listen lets others listen there, too */

    weft__watched watched; /* the watchdog's */
    weft__top top;         /* shares of time; only while accounting */

    weft__overflow_thread overflow;
    weft__rest rest;         /* memory to give back */
    weft__ended_table ended; /* ended, not awaited, without a record */

    weft__slice slice; /* of fibers that have none of their own */
    weft__slice_run slice_run;

    void (*on_idle)(void *);
    void *on_idle_arg;
    uint64_t polls, polls_blocking, ops;
    uint64_t cuts; /* calls that were the first of their scope to be cut short (scope.h) */
    /* What letters are written on (inbox.c). */
    struct weft__pad *pad; /* NULL: none */
    weft__letter *spare;   /* read, to be written on again */
    unsigned spare_count;
    weft__letter *taken;     /* out of the inbox, not delivered yet; the oldest first */
    uint32_t round_switches; /* until each fiber that was runnable has run (inbox.c) */
    uint32_t round_messages; /* that may be delivered before that */
    uint64_t letters, wakes; /* from other threads: received, and found it asleep */
    weft__busy_poll linger;  /* see linger.h */
    unsigned thread_looks;   /* waits for threads without fibers, since a fiber last ran */
    uint32_t ops_in_a_row;   /* done at once, without a switch */
    uint64_t random;         /* what select draws lots by; the same in every run */
};

/* The calling thread's cord; NULL before its first call. Initial-exec: one load. */
extern __thread weft__cord *weft__cord_self __attribute__((tls_model("initial-exec")));

/*
 * This process is a copy that fork(2) has made of one that uses weft: what is here is the parent's,
 * and no thread can become a cord (fork.h).
 */
extern bool weft__is_copy __attribute__((visibility("hidden"))); /* asked for often */

/* Make the calling thread a cord. NULL: no memory, or the process is a copy. */
weft__cord *weft__cord_adopt(void);

/* Say that the process is a copy, the first time. */
void weft__say_copy(void);

/* Why there is no cord: -ENOMEM, or -ENOTRECOVERABLE in a copy, which is said. */
int weft__why_no_cord(void);

/* The same. In line, so that the compiler sees that it is an error. */
static inline int weft__no_cord(void)
{
    int why = weft__why_no_cord();
    if (why >= 0)
        __builtin_unreachable();
    return why;
}

/* A call that a thread without a cord may make is refused all the same, in a copy. */
static inline bool weft__is_refused(const weft__cord *c)
{
    return UNLIKELY(c == NULL) && weft__is_copy;
}

static inline weft__cord *weft__cord_here(void)
{
    weft__cord *c = weft__cord_self;
    return LIKELY(c != NULL) ? c : weft__cord_adopt();
}

/* Free records: may one keep its stack, for the next fiber? Then let it. */
static inline bool weft__fiber_can_stay_warm(const weft__cord *c, const weft__fiber *f)
{
    return !f->has_own_size && c->warm_count < WEFT__WARM_MAX;
}

static inline void weft__fiber_keep_warm(weft__cord *c, weft__fiber *f)
{
    c->warm[c->warm_count++] = f;
}

/* Fibers that are alive, without main. Not counted one by one: most are made and end warm. */
static inline uint32_t weft__cord_fibers(const weft__cord *c)
{
    return c->records_used - c->warm_count - c->ended_count;
}

/* One more record is used. */
static inline void weft__records_count(weft__cord *c)
{
    if (++c->records_used > c->records_peak)
        c->records_peak = c->records_used;
}

/* The slot of an id in the table of its cord's records. */
static inline uint32_t weft__fiber_slot(weft_fiber id)
{
    return id & ((1u << WEFT__FIBERS_BITS) - 1);
}

/* Is there a record in that slot? Others add some, too: the count is the last that they write. */
static inline bool weft__cord_has_slot(const weft__cord *c, uint32_t slot)
{
    return slot >> WEFT__CHUNK_BITS < __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
}

/* The record in a slot that there is, from any thread. */
static inline weft__fiber *weft__cord_at(const weft__cord *c, uint32_t slot)
{
    weft__fiber **chunks = __atomic_load_n(&c->chunks, __ATOMIC_ACQUIRE);
    return &chunks[slot >> WEFT__CHUNK_BITS][slot & (WEFT__CHUNK_FIBERS - 1)];
}

/* The fiber with this id; NULL: it is gone, or another cord's. */
static inline weft__fiber *weft__fiber_find(const weft__cord *c, weft_fiber id)
{
    uint32_t slot = weft__fiber_slot(id);
    if (UNLIKELY(!weft__cord_has_slot(c, slot)))
        return NULL;
    weft__fiber *f = weft__cord_at(c, slot);
    return LIKELY(f->id == id && id != 0) ? f : NULL;
}

/*
 * For a letter to one who waits, and whose wait has this object as no other has: the fiber; NULL:
 * it does not wait for it any more, or, as c is NULL, has ended with its thread.
 */
static inline weft__fiber *weft__fiber_waiting(const weft__cord *c, weft_fiber id,
                                               const void *object)
{
    weft__fiber *f = c != NULL ? weft__fiber_find(c, id) : NULL;
    return f != NULL && f->waits_in != NULL && f->wait_object == object ? f : NULL;
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
 * The calling thread's cord, and the fiber with this id. 0; weft__no_cord if the thread cannot
 * become a cord, -ESRCH, -EXDEV.
 */
static inline int weft__find(weft_fiber id, weft__cord **cord, weft__fiber **fiber)
{
    weft__cord *c = *cord = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    *fiber = weft__fiber_find(c, id);
    return LIKELY(*fiber != NULL) ? 0 : weft__fiber_missing(c, id);
}

/* The same for one that has not ended. */
static inline int weft__find_living(weft_fiber id, weft__cord **cord, weft__fiber **fiber)
{
    int rc = weft__find(id, cord, fiber);
    return LIKELY(rc == 0) && UNLIKELY((*fiber)->phase == WEFT__ENDED) ? -ESRCH : rc;
}

/* Open the backend, if there was none to be had so far; name as in WEFT_BACKEND, NULL: any. */
void weft__cord_open_backend(weft__cord *c, const char *name);

/*
 * The backend has failed with this error: repair it, or open another one. Operations that cannot go
 * on end with -EBADF after a repair, with -EIO on another backend. (recover.c)
 */
void weft__cord_recover(weft__cord *c, int error);

/*
 * The thread is about to wait for so long (as in poll): check now and then that the backend still
 * has its descriptors. Returns how long it may wait until the next check. (recover.c)
 */
int64_t weft__cord_check_backend(weft__cord *c, int64_t timeout_ns);

/*
 * Check now: another cord is about to open descriptors, which must not get numbers that this cord
 * takes for its own.
 */
void weft__cord_check_now(weft__cord *c);

/* The backend for an operation; tries again to open one if the thread has none. */
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

/* The same for a fiber that may be computing until it is time: a virtual clock has to move. */
static inline int64_t weft__cord_look(weft__cord *c)
{
    if (c->backend->type->tick != NULL)
        c->backend->type->tick(c->backend, 0);
    return weft__cord_now(c);
}

/* From any thread: has the cord taken all messages? */
static inline bool weft__inbox_is_empty(weft__cord *c)
{
    return atomic_load(&c->inbox) == NULL;
}

/* From any thread: are so many messages pending that none should be added? */
static inline bool weft__inbox_is_full(weft__cord *c)
{
    return UNLIKELY(atomic_load_explicit(&c->remote_pending, memory_order_relaxed) >=
                    WEFT__REMOTE_PENDING_MAX);
}

/*
 * For the cord's own thread: is a message there that was not delivered yet? Inlined in cold callers
 * too: a poll asks three times.
 */
__attribute__((always_inline)) static inline bool weft__cord_has_letters(weft__cord *c)
{
    return c->taken != NULL || !weft__inbox_is_empty(c);
}

/* Deliver a batch of messages, as far as this round allows. The rest keeps its order. */
void weft__cord_read_inbox(weft__cord *c);

/* Begin a round: it ends when each fiber that is runnable now has run. */
void weft__cord_begin_round(weft__cord *c);

/* No fiber of the cord is left: deliver all messages to nobody. */
void weft__cord_turn_away(weft__cord *c);

/* The slice of a fiber: its own, else its thread's. */
weft__slice weft__slice_of(const weft__cord *c, const weft__fiber *f);

/*
 * A new cord that no thread has become yet, with a main fiber whose id is known. 0; -EAGAIN: there
 * are too many; weft__no_cord.
 */
int weft__cord_new(weft__cord **out);

/* The calling thread becomes this cord. */
void weft__cord_settle(weft__cord *c, const char *backend_name);

/* The same that a thread does when it ends: so do its fibers, and the cord is gone. */
void weft__cord_close(weft__cord *c);

/*
 * In a child by weft_fork: the cord gets another backend of the kind that it had, which is left to
 * the parent, and its time begins anew, with no timer.
 */
void weft__cord_reopen(weft__cord *c);

/* Free a cord that no thread has become. */
void weft__cord_free(weft__cord *c);

/* Give a letter to the cord of l->fiber. 0, or -ESRCH: then it is still the caller's. */
int weft__cord_post(weft__letter *l);

/* The same to a cord that the caller visits. */
void weft__cord_put(weft__cord *c, weft__letter *l);

/*
 * Post a new letter; the receiver frees it. 0 or:
 * -ESRCH if the fiber has ended;
 * -EAGAIN if the cord's inbox is full, or if only_unbounded and a fiber of that cord has a bounded
 * mailbox;
 * -ENOMEM.
 */
int weft__cord_send(weft_fiber fiber, weft_value value,
                    void (*deliver)(weft__cord *c, weft__letter *l), bool only_unbounded);

/* A letter that weft__cord_send has made is read. c is NULL if the cord is no more. */
void weft__letter_free(weft__cord *c, weft__letter *l);

/* The cord sends no more. */
void weft__pad_close(weft__cord *c);

/* Make a poll of a visited cord that waits, or the next one, return. */
void weft__cord_wake(weft__cord *c);

#endif
