/*
 * The record of a fiber: lookup, creation and release.
 *
 * Records are in chunks, which exist until their cord is closed. Therefore an id can be checked
 * with two loads: load the address of the chunk, then the id of the record. A free record is clean,
 * that is, all fields that the creation of a fiber does not set are empty.
 */
#ifndef WEFT_CORE_FIBER_FIBER_H
#define WEFT_CORE_FIBER_FIBER_H

#include "arch/context.h"
#include "arch/fpu_env.h"
#include "base/list.h"
#include "core/lifetime/exit_hook.h"
#include "core/lifetime/reaper.h"
#include "core/limits.h"
#include "core/sched/runqueue.h"
#include "core/sched/timer.h"
#include "core/sched/waitq.h"
#include "core/stack/stack.h"

#include <weft/error.h>
#include <weft/fiber.h>

typedef struct weft__fiber weft__fiber;
typedef struct weft__cord weft__cord;
typedef struct weft__error weft__error;
typedef struct weft__scope weft__scope;
struct weft_info;

/* The phase of a record. The state (running, runnable, waiting) follows from other fields. */
typedef enum weft__phase {
    WEFT__FREE,   /* in a list of free records */
    WEFT__FRESH,  /* created, has not run yet */
    WEFT__ALIVE,  /* its function runs */
    WEFT__ENDING, /* its function has returned, and its cleanup runs */
    WEFT__ENDED,  /* the record only holds the value, until a fiber awaits the value */
} weft__phase;

/* A kind of wait. */
typedef struct weft__wait_kind {
    const char *name;        /* for reports, for example "sleep" */
    bool is_open;            /* weft_schedule may end the wait */
    bool is_for_fiber;       /* wait_object is the awaited fiber */
    bool is_uninterruptible; /* not even a deadlock ends the wait; other threads use the frame */
    /*
     * weft_interrupt does not end the wait. A deadline or a deadlock does.
     */
    bool ignores_interrupts;
    bool is_accept;       /* the fiber waits for connections */
    bool is_left_at_exit; /* if only such waits are left, the process ends without the fibers */
    bool is_for_children; /* the fiber has returned, and waits until its children have ended */
    /*
     * The call is over, and waits until the kernel or another thread has released its memory.
     */
    bool is_release;
    /*
     * Abort the wait, so that no event wakes the fiber. Return false if the wait will end soon
     * without an abort, for example when the kernel has released the buffer. If `leave` is NULL,
     * the wait cannot be aborted.
     */
    bool (*leave)(weft__fiber *f);
    /*
     * In a child of weft_fork, remove a fiber that does not continue there from its wait queues.
     * The function must not call the kernel or wake fibers. Its result is ignored. If `forget` is
     * NULL, the fiber is in at most one wait queue, with its own waiter.
     */
    bool (*forget)(weft__fiber *f);
    /* Return the fiber that must end the wait. 0: not known. NULL: see is_for_fiber. */
    weft_fiber (*holder)(const weft__fiber *f);
    /*
     * Facts about wait_object, as data, because a debugger can call no function
     * (core/debug/layout.h): offsets in wait_object plus 1; 0: none.
     */
    uint16_t fd_at;               /* an int: the descriptor of the operation */
    uint16_t owner_at;            /* a weft__fiber *: the holder of the lock; NULL or -1: none */
    uint16_t owner_generation_at; /* a uint32_t: owner_generation of the holder (sync/owner.h) */
    /* Set waits_on or fd of out. NULL: only fd_at is known. */
    void (*describe)(const weft__fiber *f, struct weft_info *out);
} weft__wait_kind;

/* The value of fd_at and of the other offsets, for a field of a wait object. */
#define WEFT__WAIT_AT(type, field) ((uint16_t)(1 + offsetof(type, field)))

/*
 * The exception state of the C++ runtime, in the layout of the C++ ABI. Every fiber has its own
 * state.
 */
typedef struct weft__cxx_globals {
    void *caught;
    unsigned uncaught;
} weft__cxx_globals;

/* The limits of a time slice. */
typedef struct weft__slice {
    double warn_s; /* seconds until a warning, once per slice */
    double fail_s; /* seconds until weft_check_slice fails; 0: the slice of the thread applies */
} weft__slice;

/* State that few fibers have. Allocated on first use. */
typedef struct weft__extras {
    weft__slice slice;
    weft__fpu_env fpu_env;        /* saved while the fiber does not run; valid if has_fpu_env */
    bool has_fpu_env;             /* the fiber has its own FPU environment */
    struct weft__defer *defers;   /* functions registered with weft_defer, the latest first */
    struct weft__region *region;  /* blocks allocated with weft_alloc, the latest first */
    void *locals[WEFT__KEYS_MAX]; /* values by the slot of their key; NULL: none */
    weft_key local_keys[WEFT__KEYS_MAX]; /* the keys of locals, including freed keys */
} weft__extras;

/*
 * The state of a fiber that has a stack. The state is at the top of the stack, above the first
 * frame. The page is in use anyway, so the state needs no extra memory. The state of a main fiber
 * is in its cord. After the end of the fiber, the state is clean.
 */
typedef struct weft__fiber_live {
    weft__waiter waiter; /* for waits in one wait queue; waiter.fiber is this fiber */

    /* In most fibers, these fields are empty. The end of a fiber checks them. */
    weft__scope *scope;          /* the innermost open scope; NULL: none */
    weft__extras *extras;        /* NULL: none */
    weft__exit_hook *exit_hooks; /* hooks that run when the fiber ends; NULL: none */
    weft__error *raised;         /* raised errors that are not delivered yet, oldest first */
    weft__list ended;            /* ended children that no fiber has awaited */
    uint32_t no_switch;          /* nesting depth of weft_no_switch_begin */
    int raised_code;             /* code of a raised error without a message; 0: none */

    weft__waitq awaiters;      /* fibers that wait for the end of this fiber */
    weft__list children;       /* living children, in the order of their creation */
    weft__fiber *joiner;       /* the fiber that waits until the children have ended; NULL: none */
    const weft__fiber *spared; /* a child for which joiner does not wait; NULL: none */
    weft_value first_value;    /* the result of weft_first_value */
    weft__cxx_globals cxx;     /* saved while the fiber does not run; empty without a C++ runtime */
    int64_t cpu_ns;            /* CPU time, if weft_account is on */

    weft__timer timer;    /* for weft_sleep */
    weft__timer deadline; /* not later than the earliest deadline of a scope; not armed: none */
    int64_t grace_ns;     /* deadline for the end of a cancelled fiber; 0: none */
    weft__reaper *children_reaper; /* the reaper of future children; NULL: none */
    weft__error *raised_last;      /* the last error in raised; undefined if raised is empty */
    int interrupt_code;            /* argument of weft_interrupt; undefined unless is_interrupted */
    uint32_t ended_count;          /* length of ended */
    uint32_t unawaited_count;      /* ended children in the cord's table (unawaited.h) */
    uint32_t unawaited_first;      /* index of the first of these children; 0: none */
    void (*drop)(void *arg);       /* releases arg; undefined unless has_drop */
    const void *spun_at;           /* see weft_info; NULL: a main fiber */
} weft__fiber_live;

/*
 * The size of weft__fiber_live on a stack, rounded up to whole cache lines. With ASan, the state is
 * in the record instead. LeakSanitizer does not scan the stacks of fibers, and would report memory
 * to which only this state refers.
 */
#ifdef WEFT__ASAN
#define WEFT__FIBER_LIVE_BYTES ((size_t)0)
#else
#define WEFT__FIBER_LIVE_BYTES ((sizeof(weft__fiber_live) + 63) & ~(size_t)63)
#endif

/*
 * The record of a fiber. The four cache lines hold the fields for a switch, for a wait, for the
 * tree of fibers, and all other fields.
 */
struct weft__fiber {
    /* The first cache line. A switch touches only these fields. */
    _Alignas(64) weft__context context;
    weft_value value;      /* the value that the next switch to the fiber passes */
    uint64_t switches;     /* number of switches away from the fiber */
    weft__runnable queued; /* position on the run queue */
    union {
        struct {
            uint8_t pending; /* not 0: the next blocking call fails (lifetime/cancel.h) */
            union {
                struct {
                    bool is_parked : 1;      /* weft_park was called; bit 0, for debuggers */
                    bool is_wake_traced : 1; /* while the cord has a weft__trace */
                };
                uint8_t wake_flags; /* both fields; not 0: a wake-up takes the slow path */
            };
        };
        uint16_t op_flags; /* all these fields; not 0: an operation takes the slow path */
    };
    uint8_t phase;                   /* weft__phase */
    bool is_wait_open;               /* weft_schedule may end the last wait, or queue f again */
    weft__fiber *starter;            /* the fiber that waits in weft_start; NULL: none */
    weft__fiber_live *live;          /* NULL: no stack */
    const weft__wait_kind *waits_in; /* NULL: not waiting */

    union {
        void *wait_object;    /* owned by the wait kind */
        uint32_t awaits_left; /* in phase ENDED: awaits until the record becomes free */
    };
    union {
        int64_t wait_since_ns; /* start of the wait */
        int64_t spent_ns;      /* in phase ENDED: CPU time */
    };
    weft_fiber id; /* 0: the record is free */
    weft_fn *fn;
    void *arg;
    weft__stack stack;
    weft_value result; /* the argument of weft_stop; in phase ENDED: the value of the fiber */

    weft__fiber *parent;       /* NULL: a main fiber; undefined in a free record */
    weft__list sibling;        /* in children or ended of parent, or in a list of free records */
    weft__reaper *reaper;      /* handles the end of the fiber instead of the parent; NULL: none */
    void *reaper_data;         /* owned by the reaper */
    weft__exit_hook *monitors; /* monitors of the fiber (monitor.c); NULL: none */
    weft__waitq restarters;    /* fibers that wait in weft_restart for this fiber */
    weft__error *error;        /* the last error; NULL: none */

    struct weft__mailbox *mailbox; /* NULL: not allocated yet */
    weft_fiber last_id;            /* the id of the current or the last fiber in this record */
    uint32_t owner_generation;     /* ended fibers of this record (sync/owner.h); never reset */
    uint32_t scope_generation;     /* ended fibers with open scopes (scope.h); never reset */
    union {
        struct {
            uint32_t arg_room;            /* bytes at the top of the stack for a copy of arg */
            uint16_t refusals;            /* consecutive refused blocking calls */
            bool is_stopped : 1;          /* weft_stop or weft_cancel was called */
            bool is_shutdown : 1;         /* stopped because its parent ended */
            bool is_restarting : 1;       /* will run again after its end */
            bool is_interrupted : 1;      /* its operation will return interrupt_code */
            bool was_interrupted : 1;     /* its last wait was aborted */
            bool is_closing : 1;          /* its children are being ended, including new children */
            bool is_daemon : 1;           /* weft_suspend in main does not wait for this fiber */
            bool is_unawaited : 1;        /* its value is discarded (weft_go, weft_after) */
            bool is_value_taken : 1;      /* in phase ENDED: only monitors may still await it */
            bool has_own_size : 1;        /* stack_bytes was given */
            bool is_forked : 1;           /* became a main fiber in a child of weft_fork */
            bool has_children_reaper : 1; /* live->children_reaper is not NULL */
            bool has_unawaited : 1;       /* had ended children in the cord's table */
            bool has_drop : 1;            /* live->drop is set, and fn has not been called */
            bool is_traced : 1;           /* like is_wake_traced, for spin and exit */
        };
        uint64_t flags; /* all these fields; 0: all are 0 or false */
    };
    char name[WEFT__NAME_BYTES];
#ifdef WEFT__ASAN
    weft__fiber_live own_live;
#endif
};

#ifndef WEFT__SANITIZED
_Static_assert(sizeof(void *) != 8 || sizeof(weft__fiber) == 256, "a record has four cache lines");
#endif

/*
 * Return true if the record has used its last serial. The serial is the upper half of an id. The
 * record is then never used again, so that an id never refers to another fiber.
 */
static inline bool weft__fiber_id_is_exhausted(const weft__fiber *f)
{
    return f->last_id >> 32 == UINT32_MAX;
}

/*
 * Get the id with the next serial of the record. Return false if the record has used its last
 * serial.
 */
static inline bool weft__id_next(const weft__fiber *f, weft_fiber *out)
{
    return !__builtin_add_overflow(f->last_id, (weft_fiber)1 << 32, out);
}

/* Like weft__id_next, but also set last_id. The record must not have used its last serial. */
static inline weft_fiber weft__id_new(weft__fiber *f)
{
    return f->last_id += (weft_fiber)1 << 32;
}

/*
 * Return the highest serial in the ids of the cord. The ids of the next cord with the same index
 * start above this serial.
 */
uint32_t weft__cord_serial_max(const weft__cord *c);

#define WEFT__CHUNK_BITS 6
#define WEFT__CHUNK_FIBERS (1u << WEFT__CHUNK_BITS)
#define WEFT__CHUNK_BYTES (WEFT__CHUNK_FIBERS * sizeof(weft__fiber))

/* Initialise the record with the given slot number. */
void weft__record_init(const weft__cord *c, weft__fiber *f, uint32_t slot);

/* Free all records of a cord, and their stacks. */
void weft__records_close(weft__cord *c);

/* Create a main fiber, which uses the stack of the thread. The cord must have a free record. */
weft__fiber *weft__fiber_new_main(weft__cord *c);

/*
 * Create the fiber of a reserved id, and put the fiber on the run queue. Only the thread of the
 * cord may call this function. The call sets *out to the record, even on failure. If o->parent is
 * 0, the parent is the main fiber.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 * -ESRCH if the parent does not exist or has ended
 */
int weft__fiber_new_reserved(weft__cord *c, weft_fiber id, weft_fn *fn, void *arg,
                             const weft_spin_options *o, const void *spun_at, weft__fiber **out);

/*
 * Check the arguments and options of a new fiber. On failure, record a message. Any thread may call
 * this function.
 *
 * Returns 0, or:
 * -EINVAL if an argument or an option is invalid
 */
int weft__spin_check(weft_fn *fn, const void *arg, const weft_spin_options *o);

/*
 * Add a chunk of clean records to the table, but to no list. The caller must hold the lock of the
 * id reserve.
 *
 * Returns 0, or:
 * -EAGAIN if all ids are in use
 * -ENOMEM if memory is exhausted
 */
int weft__cord_new_chunk(weft__cord *c, weft__fiber **out);

/*
 * Take a free record with a stack of stack_bytes. If stack_bytes is 0, the stack has the default
 * size.
 *
 * Returns 0, or:
 * -EAGAIN if all ids are in use
 * -EINVAL if stack_bytes is out of range
 * -ENOMEM if memory is exhausted
 */
int weft__record_take(weft__cord *c, size_t stack_bytes, weft__fiber **out);

/*
 * Insert a record without a stack before `after` in a list of free records. A record that has used
 * its last serial is not inserted.
 */
static inline void weft__record_put(weft__list *after, weft__fiber *f)
{
    if (LIKELY(!weft__fiber_id_is_exhausted(f)))
        weft__list_insert(after, &f->sibling);
    else
        weft__list_init(&f->sibling);
}

/*
 * Add a chunk of free records, and reserve space for them on the run queue.
 *
 * Returns 0, or:
 * -EAGAIN if all ids are in use
 * -ENOMEM if memory is exhausted
 */
int weft__cord_add_chunk(weft__cord *c);

/*
 * Reserve space on the run queue for all records, and for the records of more_chunks further
 * chunks.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__cord_make_room(weft__cord *c, unsigned more_chunks);

/*
 * Set the id or the phase. Other threads may read both at the same time, to check whether a fiber
 * exists.
 */
static inline void weft__fiber_set_id(weft__fiber *f, weft_fiber id)
{
    __atomic_store_n(&f->id, id, __ATOMIC_RELAXED);
}

static inline void weft__fiber_set_phase(weft__fiber *f, weft__phase phase)
{
    __atomic_store_n(&f->phase, (uint8_t)phase, __ATOMIC_RELAXED);
}

/* Like weft_new, but with options. spun_at is the return address of the public call. */
weft_fiber weft__new_with(weft_fn *fn, void *arg, const weft_spin_options *options,
                          const void *spun_at);

/* Like weft_spin_with. spun_at is the return address of the public call. */
weft_fiber weft__spin_at(weft_fn *fn, void *arg, const weft_spin_options *options,
                         const void *spun_at);

/*
 * Acquire a stack for the fiber. Initialise the weft__fiber_live at the top of the stack.
 *
 * Returns 0, or:
 * -EINVAL if bytes is out of range
 * -ENOMEM if memory is exhausted
 */
int weft__fiber_take_stack(weft__cord *c, weft__fiber *f, size_t bytes);

/* Release the stack of the fiber, including its weft__fiber_live. */
void weft__fiber_release_stack(weft__cord *c, weft__fiber *f);

/* Initialise the weft__fiber_live of a fiber. */
void weft__fiber_live_init(weft__fiber_live *live, weft__fiber *f);

weft_state weft__fiber_state(const weft__cord *c, const weft__fiber *f);

/* Timer callback: wake the sleeping fiber. */
void weft__sleep_expired(weft__timer *timer);

/* Timer callback: cancel the expired scopes of the fiber. */
void weft__scope_expired(weft__timer *timer);

/* Create a new context on the fiber's stack. The context starts with weft__fiber_entry. */
void weft__fiber_reset_context(weft__fiber *f);

/*
 * Free a record, and release its stack. The record must not be in the tree of fibers or in a wait
 * queue. The caller may run on the stack of the record.
 */
void weft__fiber_free(weft__cord *c, weft__fiber *f);

/* Remove all hooks from a list, and call each hook's on_exit. */
void weft__exit_hooks_run(weft__exit_hook **exit_hooks);

/*
 * Return the extras of a fiber. The first call allocates the extras. Return NULL if memory is
 * exhausted.
 */
weft__extras *weft__extras_of(weft__fiber *f);

/*
 * Return the extras of the current fiber, like weft__extras_of. Return NULL if memory is exhausted
 * or the thread cannot become a cord.
 */
weft__extras *weft__extras_here(void);

/*
 * Return the value of a key in the main fiber, or NULL if no value is set. The main fiber ends
 * after all other fibers of the thread.
 */
void *weft__cord_local(const weft__cord *c, weft_key key);

/*
 * Set the value of a key in the main fiber.
 *
 * Returns 0, or:
 * -ENOMEM if memory is exhausted
 */
int weft__cord_local_set(weft__cord *c, weft_key key, void *value);

/* Destroy and free the extras of a fiber: locals, deferred functions, FPU environment, memory. */
void weft__extras_free(weft__fiber *f);

/* Run the functions registered with weft_defer, the latest first. (defer.c) */
void weft__defers_run(weft__fiber *f);

/* Call the destructors of the locals of a fiber. (local.c) */
void weft__locals_destroy(weft__extras *x);

/* Free the blocks allocated with weft_alloc. (memory.c) */
void weft__regions_free(weft__extras *x);

static inline weft__fiber *weft__fiber_of_queued(weft__runnable *r)
{
    return CONTAINER_OF(r, weft__fiber, queued);
}

static inline weft__fiber *weft__fiber_of_sibling(weft__list *node)
{
    return CONTAINER_OF(node, weft__fiber, sibling);
}

#endif
