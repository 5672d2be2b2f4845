/*
 * The life of an operation on a ring: it waits in a line of its descriptor for its turn, is entered
 * into the submission queue, may be cancelled or have its descriptor closed under it, and ends when
 * the kernel says so. uring.c says why it is like this.
 */
#include "backend/uring.h"

#include "backend/call.h"
#include "base/libc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel's own codes for a call to be made again after a signal: a kernel thread that is
 * cancelled in the middle lets them out. */
#define ERESTART_FIRST (-512)
#define ERESTART_LAST (-516)

static void start(weft__uring *b, weft__op *op);

/* Lines and descriptors. */

weft__uring_way weft__uring_way_of(const weft__op *op)
{
    switch (op->code) {
    case WEFT__OP_READ:
        return op->u.buffer.offset < 0 ? WEFT__WAY_IN : WEFT__WAY_ANY;
    case WEFT__OP_READV:
        return op->u.vector.offset < 0 ? WEFT__WAY_IN : WEFT__WAY_ANY;
    case WEFT__OP_RECV:
    case WEFT__OP_RECVMSG:
    case WEFT__OP_ACCEPT:
        return WEFT__WAY_IN;
    case WEFT__OP_WRITE:
        return op->u.buffer.offset < 0 ? WEFT__WAY_OUT : WEFT__WAY_ANY;
    case WEFT__OP_WRITEV:
        return op->u.vector.offset < 0 ? WEFT__WAY_OUT : WEFT__WAY_ANY;
    case WEFT__OP_SEND:
    case WEFT__OP_SENDMSG:
        return WEFT__WAY_OUT;
    default:
        return WEFT__WAY_ANY;
    }
}

weft__flight *weft__uring_make_flight(weft__uring *b, weft__descriptor *d)
{
    weft__flight *f;
    if (posix_memalign((void **)&f, CACHE_LINE_BYTES, sizeof *f) != 0)
        return NULL;
    *f = (weft__flight){.descriptor = d};
    for (int i = 0; i < WEFT__WAYS; i++)
        weft__list_init(&f->lines[i]);
    d->watcher = f;
    weft__list_insert(&b->flights, &f->all);
    return f;
}

/* Once for each descriptor, so that no operation has to fail to find out. */
static COLD void learn(weft__flight *f, int fd)
{
    int type;
    socklen_t bytes = sizeof type;
    bool is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
    struct stat status = {0};
    if (!is_socket)
        fstat(fd, &status);
    f->is_known = true;
    f->has_messages = is_socket && type != SOCK_STREAM;
    f->is_stream = is_socket && type == SOCK_STREAM;
    f->is_drained = false;
    f->is_terminal = S_ISCHR(status.st_mode) && isatty(fd);
    f->descriptor->is_not_socket = !is_socket;
    f->descriptor->is_on_disk = S_ISREG(status.st_mode) || S_ISBLK(status.st_mode);
}

static COLD weft__flight *note_new(weft__uring *b, int fd)
{
    weft__descriptor *d = weft__ready_find(&b->ready, fd);
    if (fcntl(fd, F_GETFD) < 0)
        return NULL; /* a stray number would make a huge table */
    if (d == NULL)
        d = weft__ready_note(&b->ready, fd);
    if (d == NULL)
        return NULL;
    weft__flight *f = d->watcher != NULL ? d->watcher : weft__uring_make_flight(b, d);
    if (f != NULL)
        learn(f, fd);
    return f;
}

weft__flight *weft__uring_note(weft__uring *b, int fd)
{
    weft__descriptor *d = weft__ready_current(&b->ready, fd);
    weft__flight *f = LIKELY(d != NULL) ? d->watcher : NULL;
    return LIKELY(f != NULL && f->is_known) ? f : note_new(b, fd);
}

/* Can it be done with what a loop has left? Then it is. */
static bool serve_kept(weft__uring *b, weft__flight *f, weft__op *op)
{
    if (weft__uring_is_many(op)) {
        weft__uring_many_turn(CONTAINER_OF(op, weft__many, op), f);
        return false;
    }
    intptr_t result = weft__uring_take_kept(b, f, op);
    if (result == WEFT__OP_PENDING)
        return false;
    weft__list_remove(&op->link);
    weft__uring_uncount(b, op);
    op->done(op, result);
    return true;
}

/* The first that waits for its turn on a descriptor has it now; NULL: nobody does. */
static weft__op *find_next(weft__uring *b, int fd, weft__uring_way which)
{
    if (UNLIKELY(weft__ready_is_stale_fd(&b->ready, fd)))
        weft__uring_forget(b, fd); /* they end with -EBADF */
    weft__flight *f = which != WEFT__WAY_ANY ? weft__uring_flight(b, fd) : NULL;
    if (f == NULL || f->descriptor->is_closing || weft__list_is_empty(&f->lines[which]))
        return NULL;
    weft__op *next = weft__uring_first(&f->lines[which]);
    return next->progress & WEFT__STARTED || !weft__list_is_empty(&next->turn) ? NULL : next;
}

bool weft__uring_has_next(weft__uring *b, int fd, weft__uring_way which)
{
    const weft__flight *f = weft__uring_flight(b, fd);
    return f != NULL && f->lines[which].next != f->lines[which].prev;
}

void weft__uring_start_next(weft__uring *b, int fd, weft__uring_way which)
{
    weft__op *next;
    while ((next = find_next(b, fd, which)) != NULL) {
        weft__flight *f = weft__uring_flight(b, fd);
        if (f->kept == NULL || !serve_kept(b, f, next)) {
            start(b, next);
            return;
        }
    }
}

/* An operation that does not go on leaves its line. */
static void leave_line(weft__uring *b, weft__op *op)
{
    weft__list_remove(&op->link);
    weft__uring_start_next(b, op->fd, weft__uring_way_of(op));
}

/* Starting and cancelling. */

static void enter_start(weft__uring *b, struct io_uring_sqe *sqe, weft__op *op)
{
    op->progress |= WEFT__STARTED;
    if (weft__uring_is_many(op)) {
        weft__uring_prep_many(sqe, op);
        return;
    }
    weft__uring_prep(b, sqe, op, weft__uring_flight(b, op->fd));
    if (op->progress & WEFT__LINKED) {
        sqe->flags |= IOSQE_IO_LINK;
        /* Else what follows would be begun when a part has gone out. */
        if (sqe->opcode == IORING_OP_SEND)
            sqe->msg_flags |= MSG_WAITALL;
    }
}

static void start(weft__uring *b, weft__op *op)
{
    struct io_uring_sqe *sqe = weft__list_is_empty(&b->starts) ? weft__uring_entry(b) : NULL;
    if (sqe != NULL)
        enter_start(b, sqe, op);
    else
        weft__list_insert(&b->starts, &op->turn);
}

static void enter_cancel(weft__uring *b, struct io_uring_sqe *sqe, weft__op *op)
{
    io_uring_prep_cancel64(sqe, op->key, 0);
    sqe->user_data = WEFT__KEY_CANCEL;
    weft__list_insert(&b->leaving, &op->turn);
}

/* Ask the kernel to let go of an operation that was started. */
void weft__uring_ask_back(weft__uring *b, weft__op *op)
{
    if (!weft__list_is_empty(&op->turn))
        return; /* that has been done, or waits for room */
    struct io_uring_sqe *sqe = weft__list_is_empty(&b->cancels) ? weft__uring_entry(b) : NULL;
    if (sqe != NULL)
        enter_cancel(b, sqe, op);
    else
        weft__list_insert(&b->cancels, &op->turn);
}

/*
 * While an operation moves from one place in the kernel to another (its descriptor became ready,
 * but it has to wait again, or goes to a worker thread), a cancel does not find it: -ENOENT. It is
 * asked back until it comes.
 */
void weft__uring_ask_again(weft__uring *b)
{
    b->must_ask_again = false;
    weft__list_splice(&b->cancels, &b->leaving);
}

void weft__uring_enter_waiting(weft__uring *b)
{
    struct io_uring_sqe *sqe;
    /* Cancels first: they make room. */
    while (!weft__list_is_empty(&b->cancels) && (sqe = weft__uring_entry(b)) != NULL) {
        weft__op *op = CONTAINER_OF(b->cancels.next, weft__op, turn);
        weft__list_remove(&op->turn);
        enter_cancel(b, sqe, op);
    }
    while (!weft__list_is_empty(&b->starts) && (sqe = weft__uring_entry(b)) != NULL) {
        weft__op *op = CONTAINER_OF(b->starts.next, weft__op, turn);
        weft__list_remove(&op->turn);
        enter_start(b, sqe, op);
    }
}

/* Submitting. */

void weft__uring_launch(weft__uring *b, weft__flight *f, weft__op *op, weft__key_kind kind)
{
    weft__uring_way which = weft__uring_way_of(op);
    weft__list *line = f != NULL ? &f->lines[which] : NULL;
    bool is_next = line == NULL || which == WEFT__WAY_ANY || weft__list_is_empty(line);
    if (line != NULL)
        weft__list_insert(line, &op->link);
    op->place = f;
    b->base.pending += !op->is_own;
    op->key = weft__key_make(b, op, kind);
    if (is_next)
        start(b, op);
}

void weft__uring_make_way(weft__uring *b, weft__flight *f, const weft__op *op)
{
    const weft__list *line = &f->lines[WEFT__WAY_IN];
    if (LIKELY(weft__list_is_empty(line)) || !weft__uring_is_many(weft__uring_first(line)))
        return;
    weft__many *m = CONTAINER_OF(weft__uring_first(line), weft__many, op);
    if (m->op.owner != op->owner || m->is_cancelled)
        return;
    m->is_cancelled = true;
    weft__uring_ask_back(b, &m->op);
}

intptr_t weft__uring_submit(weft__backend *base, weft__op *op)
{
    weft__uring *b = weft__uring_of(base);
    if (LIKELY(weft__uring_submit_plain(b, op)))
        return WEFT__OP_PENDING;
    op->progress = 0;
    op->key = 0;
    op->moved = 0;
    op->job = NULL;
    weft__list_init(&op->link);
    weft__list_init(&op->turn);
    weft__flight *f = NULL;
    if (op->fd >= 0) {
        f = weft__uring_note(b, op->fd);
        if (f == NULL)
            return fcntl(op->fd, F_GETFD) < 0 ? -EBADF : -ENOMEM;
        if (f->descriptor->is_closing)
            return -EBADF;
        if (UNLIKELY(f->kept != NULL)) {
            intptr_t result = weft__uring_take_kept(b, f, op);
            if (result != WEFT__OP_PENDING)
                return result;
        }
    }
    if (!weft__uring_is_native(b, op, f))
        return weft__ready_submit(&b->ready, op);
    if (f != NULL && weft__uring_way_of(op) == WEFT__WAY_IN)
        weft__uring_make_way(b, f, op);
    if (op->code == WEFT__OP_WAIT) { /* readiness that is there already is told at once */
        weft__facts ignored = {0};
        intptr_t result = weft__call_try(op, &ignored);
        if (result != WEFT__OP_PENDING)
            return result;
    }
    weft__uring_launch(b, f, op, WEFT__KEY_OP);
    return WEFT__OP_PENDING;
}

/* Can it go to the kernel now, behind nobody? */
static bool is_free_to_go(weft__uring *b, const weft__op *op)
{
    weft__flight *f = weft__uring_note(b, op->fd);
    return f != NULL && !f->descriptor->is_closing && f->kept == NULL &&
           weft__list_is_empty(&f->lines[weft__uring_way_of(op)]) &&
           weft__uring_is_native(b, op, f);
}

int weft__uring_submit_linked(weft__backend *base, weft__op *const *ops, size_t count)
{
    weft__uring *b = weft__uring_of(base);
    for (size_t i = 0; i < count; i++)
        if (!is_free_to_go(b, ops[i]))
            return -EOPNOTSUPP;
    /* A chain ends where a submission does: it has to fit in whole. */
    if (!weft__list_is_empty(&b->starts) || io_uring_sq_space_left(&b->ring) < count)
        return -EAGAIN;
    for (size_t i = 0; i < count; i++) {
        weft__op *op = ops[i];
        op->progress = WEFT__CHAINED | (i + 1 < count ? WEFT__LINKED : 0);
        op->before = i > 0 ? ops[i - 1] : NULL;
        op->after = i + 1 < count ? ops[i + 1] : NULL;
        op->moved = 0;
        op->job = NULL;
        weft__list_init(&op->turn);
        weft__flight *f = weft__uring_note(b, op->fd);
        weft__list_init(&op->link);
        weft__list_insert(&f->lines[WEFT__WAY_ANY], &op->link);
        op->place = f;
        op->key = weft__key_make(b, op, WEFT__KEY_OP);
        b->base.pending++;
        start(b, op);
    }
    return 0;
}

bool weft__uring_cancel(weft__backend *base, weft__op *op)
{
    weft__uring *b = weft__uring_of(base);
    if (op->key == 0)
        return weft__ready_cancel(&b->ready, op);
    if (op->progress & WEFT__STARTED) {
        if (!(op->progress & (WEFT__CANCELLED | WEFT__CLOSED)))
            weft__uring_ask_back(b, op);
        op->progress |= WEFT__CANCELLED;
        return false;
    }
    if (op->moved > 0) { /* a part of its result is there: it goes on, and tells */
        op->progress |= WEFT__CANCELLED;
        return false;
    }
    weft__list_remove(&op->turn);
    leave_line(b, op);
    weft__uring_uncount(b, op);
    return true;
}

/* For uring_many.c. */

void weft__uring_launch_many(weft__uring *b, weft__many *m)
{
    m->op.progress = 0;
    weft__uring_launch(b, weft__uring_flight(b, m->op.fd), &m->op, WEFT__KEY_MANY);
}

void weft__uring_land_many(weft__uring *b, weft__many *m)
{
    weft__list_remove(&m->op.turn);
    leave_line(b, &m->op);
    b->base.pending--;
}

bool weft__uring_recall_many(weft__uring *b, weft__many *m)
{
    if (m->is_cancelled && m->op.progress & WEFT__STARTED)
        return false; /* on its way already */
    m->is_cancelled = true;
    return weft__uring_cancel(&b->base, &m->op);
}

/* Completing. */

/* A connection is what its listener is, if that is still what it was. */
static COLD void adopt(weft__uring *b, const weft__op *op, int fd)
{
    const weft__flight *listener = weft__uring_flight(b, op->fd);
    if (listener != NULL && listener->is_known && !(op->progress & WEFT__CLOSED))
        weft__uring_adopt(b, fd, listener->has_messages);
}

/* The kernel has let go of it. */
static void finish(weft__uring *b, weft__op *op, intptr_t result)
{
    int fd = op->fd;
    weft__uring_way which = weft__uring_way_of(op);
    bool is_alone = op->link.next == op->link.prev; /* in its line, or in none */
    if (op->progress & WEFT__CHAINED && op->after != NULL)
        op->after->before = NULL;
    weft__list_remove(&op->turn); /* a cancel that found no room comes too late */
    weft__list_remove(&op->link);
    weft__uring_uncount(b, op);
    weft__ready_note_made(&b->ready, op, result);
    if (UNLIKELY(op->code == WEFT__OP_ACCEPT) && result >= 0)
        adopt(b, op, (int)result);
    op->done(op, result); /* first: it may close the descriptor under those that wait */
    if (!is_alone)
        weft__uring_start_next(b, fd, which);
}

/* Do it over readiness instead. */
static void hand_over(weft__uring *b, weft__op *op)
{
    if (weft__ready_is_stale_fd(&b->ready, op->fd)) {
        finish(b, op, -EBADF);
        return;
    }
    leave_line(b, op);
    b->base.pending--;
    op->key = 0;
    intptr_t result = weft__ready_submit(&b->ready, op);
    if (result != WEFT__OP_PENDING)
        op->done(op, result);
}

static bool is_on_disk(weft__uring *b, const weft__op *op)
{
    return weft__ready_find(&b->ready, op->fd)->is_on_disk;
}

typedef enum sequel { OVER, AGAIN, BY_READINESS } sequel;

/* What follows from a result that is not the caller's to know. */
static sequel judge(weft__uring *b, const weft__op *op, int result)
{
    bool is_buffer = op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE;
    bool is_write = op->code == WEFT__OP_WRITE || op->code == WEFT__OP_WRITEV;
    switch (result) {
    case -ECANCELED: /* no worker thread could be made for it; or it is of a chain that was cut */
        return op->progress & WEFT__CHAINED ? OVER : BY_READINESS;
    case -EINTR:
        return AGAIN; /* a kernel thread was signalled on its way */
    case -ENOTSOCK:   /* the number was another file's when we learned what it is */
        if (!is_buffer)
            return OVER;
        learn(weft__uring_flight(b, op->fd), op->fd);
        return weft__uring_is_native(b, op, weft__uring_flight(b, op->fd)) ? AGAIN : BY_READINESS;
    case -EOPNOTSUPP: /* before Linux 6.18: it does not know RWF_NOSIGNAL */
        if (!is_write || is_on_disk(b, op))
            return OVER;
        b->has_no_nosignal = true;
        return BY_READINESS;
    case -EAGAIN: /* O_NONBLOCK, and a kernel that takes it at its word */
        return op->code != WEFT__OP_FSYNC ? BY_READINESS : OVER;
    case -EALREADY:
    case -EINPROGRESS: /* an earlier connect was given up, and goes on */
        return op->code == WEFT__OP_CONNECT ? BY_READINESS : OVER;
    default:
        return OVER;
    }
}

/* How an operation ends that was given up: what happened before is told all the same. */
static intptr_t end_of_given_up(const weft__op *op, int result)
{
    bool is_nothing = result == -ECANCELED || result == -EINTR || result == -EAGAIN ||
                      result == -ENOTSOCK || result == -EALREADY || result == -EINPROGRESS;
    if (!is_nothing)
        return result;
    return op->progress & WEFT__CLOSED ? -EBADF : -ECANCELED;
}

/*
 * Of a file that is only partly in memory the kernel may return that part. As with read(2), a short
 * read means the end of a file, and nothing else.
 */
static bool is_cut_short(weft__uring *b, const weft__op *op, int result)
{
    if (op->code != WEFT__OP_READ || op->progress & (WEFT__CANCELLED | WEFT__CLOSED | WEFT__LINKED))
        return false;
    weft__flight *f = weft__uring_flight(b, op->fd);
    size_t wanted = op->u.buffer.bytes;
    if (wanted > WEFT__RW_BYTES_MAX)
        wanted = WEFT__RW_BYTES_MAX;
    if (!f->descriptor->is_on_disk || op->moved + (size_t)result >= wanted)
        return false;
    learn(f, op->fd); /* it was on disk, but a plain close(2) tells us nothing */
    return f->descriptor->is_on_disk;
}

/* Let the kernel begin it once more, if the number is still that of its file. */
static void restart(weft__uring *b, weft__op *op)
{
    if (weft__ready_is_stale_fd(&b->ready, op->fd)) {
        finish(b, op, op->moved > 0 ? (intptr_t)op->moved : -EBADF);
        return;
    }
    op->progress &= ~(WEFT__STARTED | WEFT__LINKED);
    start(b, op);
}

/* For the next receive on this stream: is there more? */
static void note_drained(weft__uring *b, const weft__op *op, unsigned flags)
{
    if (op->code != WEFT__OP_READ && op->code != WEFT__OP_RECV)
        return;
    weft__flight *f = weft__uring_flight(b, op->fd);
    if (f != NULL && !f->descriptor->is_not_socket)
        f->is_drained = !(flags & IORING_CQE_F_SOCK_NONEMPTY) && !f->has_messages;
}

void weft__uring_completed(weft__uring *b, weft__op *op, int result, unsigned flags)
{
    if (LIKELY(weft__uring_complete_plain(b, op, result, flags)))
        return;
    op->progress &= ~WEFT__PLAIN;
    if (result > 0)
        note_drained(b, op, flags);
    if (result <= ERESTART_FIRST && result >= ERESTART_LAST)
        result = -EINTR;
    if (result > 0 && is_cut_short(b, op, result)) {
        op->moved += (size_t)result;
        restart(b, op);
        return;
    }
    if (op->moved > 0) { /* how the rest ended is for the next call to find out */
        finish(b, op, (intptr_t)op->moved + (result > 0 ? result : 0));
        return;
    }
    if (op->progress & (WEFT__CANCELLED | WEFT__CLOSED)) {
        finish(b, op, end_of_given_up(op, result));
        return;
    }
    switch (LIKELY(result >= 0) ? OVER : judge(b, op, result)) {
    case OVER:
        finish(b, op, result);
        break;
    case AGAIN:
        restart(b, op);
        break;
    case BY_READINESS:
        hand_over(b, op);
        break;
    }
}
