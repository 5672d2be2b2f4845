/*
 * The io_uring backend's own parts, for the files uring*.c.
 *
 *   uring_setup.c   the ring: which flags and operations this kernel has
 *   uring_prep.c    an operation as a submission queue entry
 *   uring_op.c      the life of an operation: submitted, cancelled, closed under, completed
 *   uring_plain.c   the same in short, for what most are
 *   uring_close.c   a descriptor is closed under its operations
 *   uring.c         the exchange with the kernel: poll
 *   uring_watch.c   readiness, for what io_uring cannot do as a whole
 *   uring_kept.c    what those have left, and who is served from it
 *   uring_many.c    operations with many results: multishot accept and receive
 *   uring_repair.c  a ring that fails at run time
 */
#ifndef WEFT_BACKEND_URING_H
#define WEFT_BACKEND_URING_H

#include "backend/ready.h"
#include "backend/wake_fd.h"

#include <liburing.h>

/* What the kernel lets us do. */
typedef struct weft__uring_abilities {
    uint64_t opcodes;     /* bit n: IORING_OP n */
    unsigned setup_flags; /* with which the ring was made */
    unsigned features;    /* IORING_FEAT_* */
    bool has_registered_ring;
    bool has_multishot_accept;
    bool has_multishot_recv; /* with a ring of provided buffers */
    bool has_poll_first;     /* a receive may wait before it looks */
} weft__uring_abilities;

/* May one ring post a completion to another, without one of its own? */
static inline bool weft__uring_can_message(const weft__uring_abilities *a)
{
    return a->opcodes >> IORING_OP_MSG_RING & 1 && a->features & IORING_FEAT_CQE_SKIP;
}

/* Operations (bits as in opcodes) to do without, so that tests reach the fallbacks. */
extern uint64_t weft__uring_forgone;

/*
 * Make a ring as good as the kernel has it, and tell what it can do. 0 or -errno; -EPERM, -ENOSYS
 * where io_uring is forbidden or absent, -EOPNOTSUPP where it lacks what cannot be done without.
 */
int weft__uring_setup(struct io_uring *ring, weft__uring_abilities *abilities);
void weft__uring_tear_down(struct io_uring *ring);

/* A completion, copied out of the ring: what it leads to may need the ring. */
typedef struct weft__completion {
    uint64_t key;
    int result;
    unsigned flags;
} weft__completion;

/* Operations on one descriptor that the kernel has or will get. */
typedef enum weft__uring_way {
    WEFT__WAY_IN,  /* those that read: only the first is started */
    WEFT__WAY_OUT, /* those that write: likewise */
    WEFT__WAY_ANY, /* those that need not wait for each other: all are started */
    WEFT__WAYS,
} weft__uring_way;

/* What many operations received or accepted and nobody took. */
typedef struct weft__kept {
    int first, final; /* buffers, in a list; -1: none */
    size_t used;      /* bytes of the first that have been read */
    struct weft__conns *conns;
    int error; /* to be told when the buffers have been read; 0: none */
} weft__kept;

/* A readiness that ready.c wants to be told of: an operation of our own. */
typedef struct weft__watch {
    weft__op op;
    weft__list all; /* in weft__uring's watches */
    struct weft__uring *uring;
    struct weft__flight *flight; /* NULL: nobody cares any more */
    bool is_armed;
} weft__watch;

/* What we know of a descriptor, behind weft__descriptor's watcher. Made when first needed, and kept
 * as long as the backend. */
typedef struct weft__flight {
    /* One cache line: every operation touches it. */
    weft__list lines[WEFT__WAYS];
    weft__kept *kept;  /* NULL: nothing */
    bool is_known;     /* what kind of file it is: the descriptor's is_not_socket, and */
    bool has_messages; /* it is a socket, but not a stream */
    bool is_stream;    /* it is a socket, and a stream; false while that is not known */
    bool is_terminal;
    bool is_drained; /* the last receive left nothing behind, as the kernel said */

    weft__descriptor *descriptor;
    weft__list all;          /* in weft__uring's flights */
    weft__watch *watches[2]; /* for POLLIN, for POLLOUT; NULL: none made */
    weft__kept kept_room;    /* what kept points to */
} weft__flight;

/* Memory that the kernel picks to receive into. */
typedef struct weft__uring_buffers {
    struct io_uring_buf_ring *ring; /* NULL: none made yet */
    char *memory;
    struct weft__buffer_note *notes; /* one for each */
} weft__uring_buffers;

typedef struct weft__uring {
    weft__backend base;
    struct io_uring ring;
    weft__uring_abilities abilities;
    weft__ready ready;   /* descriptors by number, and what io_uring cannot do here */
    weft__list starts;   /* operations for which there was no room in the submission queue */
    weft__list cancels;  /* operations to be cancelled, likewise; many ones, too */
    weft__list leaving;  /* operations whose cancel is with the kernel, by their turn */
    bool must_ask_again; /* it did not find one of them: it was between two places */
    weft__list flights, watches; /* all there are */
    uint16_t activation;         /* counts operations: part of each key */
    uint32_t generation;         /* of the last watch */
    uint64_t handled;            /* completions so far */
    uint32_t fd_advances;        /* weft__fd_advances, when the entries were last looked through */
    bool has_no_nosignal;        /* writes without SIGPIPE are not to be had from this kernel */
    bool is_wake_armed;
    bool is_given_up; /* there is no ring any more: only to be closed */
    weft__wake_fd wake;
    uint64_t wake_count; /* read from wake */
    weft__uring_buffers buffers;
} weft__uring;

static inline weft__uring *weft__uring_of(weft__backend *base)
{
    return CONTAINER_OF(base, weft__uring, base);
}

/*
 * A key is what a completion brings back: a pointer, what kind it is in the low bits, and in the
 * high ones a count, so that a cancel that comes late never hits the operation that has the same
 * place on the stack by then. Addresses have 48 bits, where they are not asked to have more.
 */
typedef enum weft__key_kind {
    WEFT__KEY_OP,
    WEFT__KEY_CANCEL,
    WEFT__KEY_WAKE,
    WEFT__KEY_MANY,
    WEFT__KEY_MESSAGE, /* from another ring; or one of ours that got lost, and its tag */
} weft__key_kind;

#define WEFT__KEY_KIND_MASK 7
#define WEFT__KEY_TAG_SHIFT 3

static inline uint64_t weft__key_make(weft__uring *b, const void *object, weft__key_kind kind)
{
    return (uint64_t)++b->activation << 48 | (uint64_t)(uintptr_t)object | kind;
}

static inline void *weft__key_object(uint64_t key)
{
    return (void *)(uintptr_t)(key << 16 >> 16 & ~(uint64_t)WEFT__KEY_KIND_MASK);
}

/* In an operation's progress. */
enum {
    WEFT__STARTED = 1,   /* in the submission queue, or with the kernel */
    WEFT__CANCELLED = 2, /* given up: its end is -ECANCELED unless something has happened */
    WEFT__CLOSED = 4,    /* its descriptor was closed: -EBADF, likewise; it is in no line */
    WEFT__CHAINED = 16,  /* in a chain */
    WEFT__LINKED = 8,    /* in a chain, and not its last */
    WEFT__PLAIN = 32,    /* went the short way: see uring_plain.c */
};

static inline bool weft__uring_is_many(const weft__op *op)
{
    return (op->key & WEFT__KEY_KIND_MASK) == WEFT__KEY_MANY;
}

/* One less is pending; but who waits for one of our own operations is counted already. */
static inline void weft__uring_uncount(weft__uring *b, const weft__op *op)
{
    b->base.pending -= !op->is_own;
}

/* What is known of fd already; NULL: nothing. */
static inline weft__flight *weft__uring_flight(weft__uring *b, int fd)
{
    weft__descriptor *d = fd >= 0 ? weft__ready_find(&b->ready, fd) : NULL;
    return d != NULL ? d->watcher : NULL;
}

/* The first in a line, which is not empty. */
static inline weft__op *weft__uring_first(const weft__list *line)
{
    return CONTAINER_OF(line->next, weft__op, link);
}

/* Where an operation waits for its turn. */
weft__uring_way weft__uring_way_of(const weft__op *op);

/* An entry for the submission queue; NULL: it is full, and is emptied in the next poll. */
static inline struct io_uring_sqe *weft__uring_entry(weft__uring *b)
{
    return io_uring_get_sqe(&b->ring);
}

/* What is known of fd; NULL: no memory, or no such descriptor. */
weft__flight *weft__uring_note(weft__uring *b, int fd);

/* As forget_fd in the contract of a backend. */
void weft__uring_forget(weft__uring *b, int fd);

/*
 * The kernel looks a number up when it gets an entry. Before that, make each entry fail (-EBADF)
 * whose descriptor has been closed since it was entered, by this thread or another one: it must not
 * reach the next file with its number.
 */
void weft__uring_sever_stale(weft__uring *b);

static inline void weft__uring_check_entries(weft__uring *b)
{
    if (UNLIKELY(b->fd_advances != atomic_load_explicit(&weft__fd_advances, memory_order_relaxed)))
        weft__uring_sever_stale(b);
}

/* It was given to a connection that was accepted: a socket, so there is nothing to ask. */
void weft__uring_adopt(weft__uring *b, int fd, bool has_messages);

weft__flight *weft__uring_make_flight(weft__uring *b, weft__descriptor *d);

/* Put an operation into its line, and start it if it is its turn; f is NULL for one on no
 * descriptor. */
void weft__uring_launch(weft__uring *b, weft__flight *f, weft__op *op, weft__key_kind kind);

/* As in the contract of a backend. */
intptr_t weft__uring_submit(weft__backend *base, weft__op *op);
int weft__uring_submit_linked(weft__backend *base, weft__op *const *ops, size_t count);
bool weft__uring_cancel(weft__backend *base, weft__op *op);
int weft__uring_close_fd(weft__backend *base, int fd);
int weft__uring_release_fd(weft__backend *base, int fd);

/* The kernel is done with an operation. */
void weft__uring_completed(weft__uring *b, weft__op *op, int result, unsigned flags);

/* uring_plain.c: the two in short. False: they have to be called; nothing has happened. */
bool weft__uring_submit_plain(weft__uring *b, weft__op *op);
bool weft__uring_complete_plain(weft__uring *b, weft__op *op, int result, unsigned flags);

/* Cancel once more what has been cancelled and has not come back. */
void weft__uring_ask_again(weft__uring *b);

/* Move what waits for room in the submission queue into it. */
void weft__uring_enter_waiting(weft__uring *b);

/* uring.c: give the kernel everything that is to go there, and handle what is complete. */
void weft__uring_flush(weft__uring *b);

/* uring_repair.c: as in the contract of a backend. */
int weft__uring_check(weft__backend *base);
int weft__uring_repair(weft__backend *base);
void weft__uring_give_up(weft__backend *base, int error);
/* The ring's number is not its own any more: do not use or close it. */
void weft__uring_lose_number(weft__uring *b);
/* Have the kernel end the read by which the ring is woken. */
void weft__uring_recall_wake(weft__uring *b);

/* uring_watch.c: for weft__ready. */
int weft__uring_watch(weft__backend *base, int fd, weft__descriptor *d);
void weft__uring_unwatch(weft__backend *base, int fd, weft__descriptor *d);
void weft__uring_watches_free(weft__uring *b);

/* Ask the kernel to let go of an operation that it has. */
void weft__uring_ask_back(weft__uring *b, weft__op *op);

/* uring_many.c: as in the contract of a backend; and what uring.c needs of it. */
int weft__uring_many_open(weft__backend *base, weft__many *m);
intptr_t weft__uring_many_next(weft__backend *base, weft__many *m, const void **data);
bool weft__uring_many_close(weft__backend *base, weft__many *m);
void weft__uring_prep_many(struct io_uring_sqe *sqe, const weft__op *op);
void weft__uring_many_completed(weft__uring *b, weft__many *m, const weft__completion *c);
/* Its turn has come on a descriptor for which something was kept: that is where it begins. */
void weft__uring_many_turn(weft__many *m, weft__flight *f);
/* The descriptor is closed under it, before the kernel had it. */
void weft__uring_many_shut(weft__many *m);
/* The ring is gone: it ends with this error. */
void weft__uring_many_fail(weft__many *m, int error);
/* uring.c, for it: into the line of its descriptor; out of it; back from the kernel, true if that
 * did not have it yet. */
void weft__uring_launch_many(weft__uring *b, weft__many *m);
void weft__uring_land_many(weft__uring *b, weft__many *m);
bool weft__uring_recall_many(weft__uring *b, weft__many *m);
/* A fiber that reads from the descriptor of its own loop, inside it, must not wait for that. */
void weft__uring_make_way(weft__uring *b, weft__flight *f, const weft__op *op);
/* Does someone wait in this line behind the first? */
bool weft__uring_has_next(weft__uring *b, int fd, weft__uring_way which);
/* The turn of those who wait in a line has come. */
void weft__uring_start_next(weft__uring *b, int fd, weft__uring_way which);
/* The result of an operation from what was kept; WEFT__OP_PENDING: that does not concern it. */
intptr_t weft__uring_take_kept(weft__uring *b, weft__flight *f, weft__op *op);
/* The descriptor is closed: what was kept for it goes. */
void weft__uring_drop_kept(weft__uring *b, weft__flight *f);
void weft__uring_buffers_free(weft__uring *b);

static inline bool weft__uring_has(const weft__uring *b, int opcode)
{
    return b->abilities.opcodes >> opcode & 1;
}

/* Can the kernel do this operation all by itself, on a descriptor of which this is known? */
bool weft__uring_is_native(const weft__uring *b, const weft__op *op, const weft__flight *f);

/* Fill in the entry; is_native has said yes. f may be NULL. */
void weft__uring_prep(const weft__uring *b, struct io_uring_sqe *sqe, const weft__op *op,
                      const weft__flight *f);

#endif
