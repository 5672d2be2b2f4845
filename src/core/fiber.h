/*
 * The record of a fiber, and how one is found, made and given back.
 *
 * Records live in chunks that are never freed while their cord lives, so an id can be checked by
 * looking at the record in its slot: a load for the chunk, a load for the id. A record that is
 * given back is clean: everything that is not set when a fiber is made is empty already.
 */
#ifndef WEFT_CORE_FIBER_H
#define WEFT_CORE_FIBER_H

#include "arch/context.h"
#include "arch/modes.h"
#include "base/list.h"
#include "core/claim.h"
#include "core/keeper.h"
#include "core/limits.h"
#include "core/line.h"
#include "core/runqueue.h"
#include "core/stack.h"
#include "core/timer.h"

#include <weft/error.h>
#include <weft/fiber.h>

typedef struct weft__fiber weft__fiber;
typedef struct weft__cord weft__cord;
typedef struct weft__error weft__error;
typedef struct weft__scope weft__scope;

/* Where the record is in its life. Running, runnable and waiting follow from where the fiber is. */
typedef enum weft__phase {
    WEFT__FREE,   /* on a list of records to use */
    WEFT__FRESH,  /* made, never ran */
    WEFT__ALIVE,  /* its function runs */
    WEFT__ENDING, /* its function is over, its clean-up runs */
    WEFT__ENDED,  /* nothing runs any more; the value waits for someone to await it */
} weft__phase;

/* A place to wait in. */
typedef struct weft__wait_kind {
    const char *name;  /* for people: "sleep" */
    bool is_open;      /* weft_schedule may end the wait */
    bool is_for_fiber; /* wait_object is the fiber that it waits for */
    bool is_owed;      /* nothing else ends the wait, be it for ever: others use what is here */
    bool is_accept;    /* for connections */
    bool is_for_below; /* its own part is over: its children have to end */
    /*
     * Take the fiber out of the place, so that nothing there can wake it any more. False: the place
     * still holds it and will wake it itself, soon. NULL: the wait cannot be cut short.
     */
    bool (*leave)(weft__fiber *f);
    /*
     * In a child by weft_fork, where the fiber does not exist: take it out of what is in memory,
     * without a word to the kernel or to anyone. What it says is of no interest. NULL: it is in one
     * line, with its waiter, or in none.
     */
    bool (*forget)(weft__fiber *f);
} weft__wait_kind;

/*
 * The C++ runtime's notes on exceptions in flight, as the ABI lays them out: for each fiber its
 * own.
 */
typedef struct weft__cxx_globals {
    void *caught;
    unsigned uncaught;
} weft__cxx_globals;

/* How long a fiber may compute without a switch. */
typedef struct weft__slice {
    double warn_s; /* then it is said, once a slice */
    double fail_s; /* then weft_check_slice says no; 0: no slice of its own */
} weft__slice;

/* What few fibers have; allocated when first needed. */
typedef struct weft__extras {
    weft__slice slice;
    weft__modes modes; /* while it does not run; only if they are its own */
    bool has_modes;
    struct weft__defer *defers;  /* the last one first */
    struct weft__region *region; /* blocks of fiber memory */
    void *locals[WEFT__KEYS_MAX];
} weft__extras;

/*
 * What a fiber has while it lives. It is at the top of its stack, above the first frame: that page
 * is in use anyway, so it costs no memory, which matters when there are a million of them. A main
 * fiber's is its cord's. Clean when its fiber has ended, as the record is.
 */
typedef struct weft__life {
    weft__waiter waiter; /* for the wait in one line; its fiber is whose life this is */

    /* What most fibers leave empty; looked at when one ends. */
    weft__scope *scope;   /* the innermost open one; NULL: none */
    weft__extras *extras; /* NULL: none */
    weft__claim *claims;  /* what it holds; NULL: nothing */
    weft__error *raised;  /* raised in it and not delivered yet, oldest first */
    weft__list ended;     /* children that are dead, not awaited yet */
    uint32_t no_switch;   /* depth of weft_no_switch_begin */
    int raised_code;      /* as raised, without words, when there was no memory for them; 0: none */

    weft__line awaiters;       /* of its end */
    weft__list children;       /* alive, in the order of their making */
    weft__fiber *joiner;       /* waits for the children to end; NULL: nobody */
    const weft__fiber *spared; /* the one child that joiner does not wait for; NULL: for all */
    weft_value first_value;
    weft__cxx_globals cxx; /* while it does not run; empty where there is no C++ runtime */
    int64_t cpu_ns;

    weft__timer timer;        /* for sleep */
    weft__timer deadline;     /* not after the earliest of its scopes; not armed: none has one */
    int64_t grace_ns;         /* told to end by then; 0: no time was given, or not told */
    weft__keeper *nursery;    /* the keeper of the children that it will have; NULL: none */
    weft__error *raised_last; /* the newest of raised; meaningless without any */
    int interrupt_code;       /* meaningless unless is_interrupted */
    uint32_t ended_count;     /* of ended */
    uint32_t short_count;     /* of ended children that are kept in short (ended.h) */
    uint32_t short_first;     /* the first of these; 0: none */
    void (*drop)(void *arg);  /* releases what its argument owns; meaningless unless has_drop */
} weft__life;

/*
 * Bytes of it on a stack, whose top it leaves aligned as it was. With ASan it is in the record:
 * that does not look for pointers on stacks, and would take what only a life points to for a leak.
 */
#ifdef WEFT__ASAN
#define WEFT__LIFE_BYTES ((size_t)0)
#else
#define WEFT__LIFE_BYTES ((sizeof(weft__life) + 63) & ~(size_t)63)
#endif

/* A line of the cache each: a switch, a wait, the family, the rest. */
struct weft__fiber {
    /* A switch touches these, and no more: on one line of the cache. */
    _Alignas(64) weft__context context;
    weft_value value; /* what it is resumed with */
    uint64_t switches;
    union {
        struct {
            weft__runnable queued; /* its place on the run queue */
            uint8_t alarm;         /* its next blocking call is refused; see alarm.h */
            uint8_t phase;         /* weft__phase */
            bool woken_open;       /* queued from a wait that was open to weft_schedule */
            bool is_parked;
        };
        uint64_t state; /* all of these, to be set at once */
    };
    weft__fiber *starter; /* in weft_start until this one first switches; NULL: nobody */
    weft__life *life;     /* NULL: it has no stack, because it has ended, or never began */
    const weft__wait_kind *waits_in; /* NULL: it does not wait */

    union {
        void *wait_object;    /* the kind's own */
        uint32_t awaits_left; /* once it has ended: as often it can be awaited */
    };
    union {
        int64_t wait_since_ns;
        int64_t spent_ns; /* once it has ended: of the processor's time */
    };
    weft_fiber id; /* 0: the record is free */
    weft_fn *fn;
    void *arg;
    weft__stack stack;
    weft_value result; /* what it was stopped with; its value once it has ended */

    weft__fiber *parent;   /* NULL: a main fiber; meaningless in a free record */
    weft__list sibling;    /* in parent's children, or in its ended */
    weft__keeper *keeper;  /* told of its end in its parent's place; NULL: nobody */
    void *kept_as;         /* the keeper's own */
    weft__claim *monitors; /* told of its end by a message; NULL: nobody */
    weft__line restarters; /* fibers in weft_restart of this one */
    weft__error *error;    /* the last one; NULL: none */

    struct weft__mailbox *mailbox; /* NULL: nobody has told it anything yet */
    weft_fiber last_id;            /* of the fiber that it is, or was last */
    uint32_t claim_run;            /* how often what this record held lapsed; never set back */
    uint32_t scope_run; /* how often scopes were left open in this record; never set back */
    union {
        struct {
            uint32_t arg_room;      /* bytes at the top of the stack that hold a copy of arg */
            uint16_t refusals;      /* blocking calls refused in a row */
            bool is_stopped : 1;    /* weft_stop or weft_cancel: for good */
            bool is_shutdown : 1;   /* stopped because its parent ended: its failure still counts */
            bool is_restarting : 1; /* it runs again once it has ended */
            bool is_interrupted : 1; /* its operation is on its way out, to return interrupt_code */
            bool was_struck : 1; /* its last operation returned why it was not to be, no result */
            bool is_closing : 1; /* its children are being ended: new ones too */
            bool is_daemon : 1;
            bool is_unawaited : 1; /* weft_go: nothing is kept */
            bool has_own_size : 1; /* its stack's was asked for */
            bool is_forked : 1;    /* the main fiber of a child by weft_fork, and was not born so */
            bool has_nursery : 1;  /* its life has */
            bool has_short : 1;    /* it had ended children that were kept in short (ended.h) */
            bool has_drop : 1;     /* its life has, and the function was never called */
        };
        uint64_t oddities; /* all of these; 0: an ordinary fiber */
    };
    char name[WEFT__NAME_BYTES];
#ifdef WEFT__ASAN
    weft__life own_life;
#endif
};

#ifndef WEFT__ANNOTATED
_Static_assert(sizeof(void *) != 8 || sizeof(weft__fiber) == 256, "a record is four lines");
#endif

/*
 * Has the slot used its last serial? Then no fiber gets the record any more: an id never names
 * another fiber.
 */
static inline bool weft__fiber_is_spent(const weft__fiber *f)
{
    return f->last_id >> 32 == UINT32_MAX;
}

/* The id with the next serial of the slot. False: the record is spent. */
static inline bool weft__id_next(const weft__fiber *f, weft_fiber *out)
{
    return !__builtin_add_overflow(f->last_id, (weft_fiber)1 << 32, out);
}

/* The same for a record that is not spent. */
static inline weft_fiber weft__id_new(weft__fiber *f)
{
    return f->last_id += (weft_fiber)1 << 32;
}

/* The highest serial in an id that the cord has given out, for the next cord in its place. */
uint32_t weft__cord_serial_max(const weft__cord *c);

#define WEFT__CHUNK_BITS 6
#define WEFT__CHUNK_FIBERS (1u << WEFT__CHUNK_BITS)
#define WEFT__CHUNK_BYTES (WEFT__CHUNK_FIBERS * sizeof(weft__fiber))

/* A clean record in a slot, whose memory is all zero. */
void weft__record_init(const weft__cord *c, weft__fiber *f, uint32_t slot);

/* Free all records of a cord, and their stacks. */
void weft__records_close(weft__cord *c);

/* The record of a main fiber; its stack will be that of a thread. The cord has a free record. */
weft__fiber *weft__fiber_new_main(weft__cord *c);

/*
 * For fibers that other threads make. Take, by any thread that visits the cord: an id of its
 * reserve. Arrive, by the cord itself: that is a fiber now, on the run queue. 0 or -errno; without
 * a parent -ESRCH. Check, by any: are these options and arguments of a fiber? 0, or -EINVAL with
 * words.
 */
int weft__reserve_take(weft__cord *c, weft_fiber *out);
int weft__fiber_arrive(weft__cord *c, weft_fiber id, weft_fn *fn, void *arg,
                       const weft_spin_options *o, weft__fiber **out);
int weft__spin_check(weft_fn *fn, const void *arg, const weft_spin_options *o);

/* For the cord itself: add free records for those that were taken. */
void weft__reserve_refill(weft__cord *c);

/*
 * A new chunk of clean records in the table, on no list. The lock of the reserve is held. 0,
 * -ENOMEM, -EAGAIN.
 */
int weft__cord_new_chunk(weft__cord *c, weft__fiber **out);

/* A free record with a stack of this size (0: the default). 0 or -errno. */
int weft__record_take(weft__cord *c, size_t stack_bytes, weft__fiber **out);

/* Put a free record without a stack behind another in the list of those, unless it is spent. */
static inline void weft__record_put(weft__list *after, weft__fiber *f)
{
    if (LIKELY(!weft__fiber_is_spent(f)))
        weft__list_insert(after, &f->sibling);
    else
        weft__list_init(&f->sibling);
}

/*
 * One more chunk of records, and room for them on the run queue. 0, -ENOMEM, or -EAGAIN when ids
 * are used up.
 */
int weft__cord_add_chunk(weft__cord *c);

/* Room on the run queue for all records there are, and for so many chunks more. 0 or -ENOMEM. */
int weft__cord_make_room(weft__cord *c, unsigned more_chunks);

/* Other threads read these two, to see whether a fiber is there. */
static inline void weft__fiber_set_id(weft__fiber *f, weft_fiber id)
{
    __atomic_store_n(&f->id, id, __ATOMIC_RELAXED);
}

static inline void weft__fiber_set_phase(weft__fiber *f, weft__phase phase)
{
    __atomic_store_n(&f->phase, (uint8_t)phase, __ATOMIC_RELAXED);
}

/* It is new, and on the run queue, in that place; nothing else applies to it. */
static inline void weft__fiber_set_fresh(weft__fiber *f, uint32_t at)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t state = at | (uint64_t)WEFT__FRESH << 40 | (uint64_t)1 << 48;
    _Static_assert(offsetof(weft__fiber, phase) - offsetof(weft__fiber, state) == 5 &&
                       offsetof(weft__fiber, woken_open) - offsetof(weft__fiber, state) == 6,
                   "as above");
    __atomic_store_n(&f->state, state, __ATOMIC_RELAXED);
#else
    f->queued.place = at;
    f->woken_open = true;
    weft__fiber_set_phase(f, WEFT__FRESH);
#endif
}

/* weft_new with options. */
weft_fiber weft__new_with(weft_fn *fn, void *arg, const weft_spin_options *options);

/* A stack of that size for the fiber, with its life on it. 0 or -errno. */
int weft__fiber_take_stack(weft__cord *c, weft__fiber *f, size_t bytes);

/* It has none any more. */
void weft__fiber_release_stack(weft__cord *c, weft__fiber *f);

/* A clean life for a fiber. */
void weft__life_init(weft__life *life, weft__fiber *f);

weft_state weft__fiber_state(const weft__cord *c, const weft__fiber *f);

/* The sleep of the fiber whose timer this is, is over. */
void weft__sleep_over(weft__timer *timer);

/* The time of a scope of the fiber whose deadline this is, is over. */
void weft__scope_over(weft__timer *timer);

/* A fresh context on the fiber's stack: it starts at the beginning when next switched to. */
void weft__fiber_rewind(weft__fiber *f);

/*
 * Give back a record that is out of the tree and waits nowhere. Its stack may be the running one.
 */
void weft__fiber_free(weft__cord *c, weft__fiber *f);

/* What the fiber holds, or what is held of it, lapses. */
void weft__claims_lapse(weft__claim **claims);

/* The current fiber's; NULL: no memory. */
weft__extras *weft__extras_here(void);

/*
 * Values by key of a thread as a whole: those of its main fiber, gone when the thread or the
 * process ends, after all other fibers. 0 or -ENOMEM.
 */
void *weft__cord_local(const weft__cord *c, weft_key key);
int weft__cord_local_set(weft__cord *c, weft_key key, void *value);

/* Free what only some fibers have. */
void weft__extras_free(weft__fiber *f);

/* Run what weft_defer left, the last one first. */
void weft__defers_run(weft__fiber *f);

static inline weft__fiber *weft__fiber_of_queued(weft__runnable *r)
{
    return CONTAINER_OF(r, weft__fiber, queued);
}

static inline weft__fiber *weft__fiber_of_sibling(weft__list *node)
{
    return CONTAINER_OF(node, weft__fiber, sibling);
}

#endif
