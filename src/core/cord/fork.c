/*
 * Disable weft in a child of plain fork(2). In a child of weft_fork, make the calling fiber the
 * main fiber. See fork.h.
 */
#include "core/cord/fork.h"

#include "base/log.h"
#include "core/cord/deadlock.h"
#include "core/cord/handle.h"
#include "core/cord/registry.h"
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/fiber/mailbox.h"
#include "core/inspect/snapshot.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/scope.h"
#include "core/trace/trace.h"

#include <weft/fork.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

bool weft__is_copy;
uint32_t weft__fork_depth;

/* True while the calling thread is in weft_fork. */
static __thread bool is_forking;

/*
 * Children of plain fork(2).
 */

COLD void weft__diag_copy(void)
{
    static atomic_flag was_printed = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&was_printed))
        weft__log_stderr("all calls fail in a child of fork(2); use weft_fork");
}

COLD int weft__why_no_cord(void)
{
    if (!weft__is_copy) {
        int code = weft__cord_self == NULL ? weft__error_bare_code() : 0;
        return code != 0 ? code : -ENOMEM; /* -ENOMEM: memory for extras of a cord is exhausted */
    }
    weft__diag_copy();
    weft__error_set_bare(-ENOTRECOVERABLE, "the process is a child of fork(2); use weft_fork");
    return -ENOTRECOVERABLE;
}

/*
 * A child of plain fork(2) shares only descriptors with its parent. weft uses descriptors only
 * through a cord. So remove all pointers to cords from weft__cord_self and from the registry.
 * Frames on the stack may also have pointers to a cord. Code in these frames can only wait, and
 * then finds an empty run queue.
 */
void weft__fork_in_child(void)
{
    if (is_forking)
        return;
    weft__is_copy = true;
    weft__cord *c = weft__cord_self;
    weft__cord_self = NULL;
    if (c != NULL) {
        c->runqueue.head = c->runqueue.tail;
        c->runqueue.holes = 0;
        /* Fibers must exit on the slow path, which checks weft__is_copy. */
        c->has_slow_switch = true;
    }
    weft__registry_reset(NULL, NULL);
    weft__deadlock_reset(false);
    weft__cord_handles_reset();
    weft__mailbox_bounds_reset();
    weft__snapshot_after_fork();
}

void weft__fork_stop(void)
{
    weft__diag_copy();
    _exit(EXIT_FAILURE);
}

void weft__fork_exit(weft_value value)
{
    if (weft__is_copy)
        exit(weft_is_error(value) ? EXIT_FAILURE : EXIT_SUCCESS);
    weft__fiber *f = weft__cord_self->main;
    if (weft__fiber_has_failed(f, value)) { /* the exit handler reports the error */
        weft__error_set(f, weft__error_of_exit(f, (int)value));
        weft__error_queue(f, (int)value, weft__error_ref(f->error));
    }
    exit(EXIT_SUCCESS);
}

/*
 * Children of weft_fork. The records and stacks of the other fibers are not reused. The remaining
 * fiber may use memory on these stacks, for example its argument, a lock or a channel. A record
 * that is never reused cannot be mistaken for another fiber.
 */

/* Close the descriptors of the backend of a cord that another thread ran. */
static void abandon_cord(weft__cord *other)
{
    weft__backend *b = __atomic_load_n(&other->backend, __ATOMIC_ACQUIRE);
    if (b != NULL && b != &other->no_backend.base)
        b->type->abandon(b, false);
}

/* Call fn for every fiber of the cord except f. */
static void for_each_other_fiber(weft__cord *c, const weft__fiber *f,
                                 void (*fn)(weft__fiber *other))
{
    for (uint32_t i = 0; i < c->chunks_count; i++)
        for (uint32_t j = 0; j < WEFT__CHUNK_FIBERS; j++) {
            weft__fiber *other = &c->chunks[i][j];
            if (other->id != 0 && other != f)
                fn(other);
        }
}

/* Remove a fiber from all wait queues, so that no event wakes the fiber. */
static void fiber_leave_waits(weft__fiber *other)
{
    if (other->waits_in != NULL && other->waits_in->forget != NULL)
        other->waits_in->forget(other);
    if (other->live != NULL)
        weft__waitq_leave(&other->live->waiter);
}

/* Make the id of a fiber invalid, and mark its locks as owned by an ended fiber. */
static void fiber_erase(weft__fiber *other)
{
    weft__exit_hooks_run(&other->monitors);
    weft__fiber_set_id(other, 0);
    weft__fiber_set_phase(other, WEFT__FREE);
    other->waits_in = NULL;
    other->owner_generation++;
}

/* Remove children of the remaining fiber. Notify the groups and supervisors in its frames. */
static void children_drop(weft__list *children)
{
    WEFT__LIST_FOR(node, children) {
        weft__fiber *other = weft__fiber_of_sibling(node);
        weft__reaper *r = other->reaper;
        other->reaper = NULL;
        if (r != NULL)
            r->type->left(r, other);
    }
    weft__list_init(children);
}

/* Make the remaining fiber a main fiber without children. */
static void fiber_make_root(weft__fiber *f)
{
    children_drop(&f->live->children);
    children_drop(&f->live->ended);
    f->live->ended_count = f->live->unawaited_count = f->live->unawaited_first = 0;
    f->has_unawaited = false;
    f->parent = f->live->joiner = f->starter = NULL;
    f->is_forked = true;
    f->reaper = NULL;
    weft__list_init(&f->sibling);
    f->live->awaiters = f->restarters = (weft__waitq){NULL};
    weft__exit_hooks_run(&f->monitors);
    f->is_daemon = f->is_unawaited = f->is_restarting = false;
    if (f->mailbox != NULL) /* the senders may contain requests of other threads */
        weft__mailbox_renew(f);
}

/* Reset the fields that other threads write. */
static void cord_reset_shared(weft__cord *c)
{
    atomic_store(&c->inbox, NULL);
    atomic_store(&c->remote_pending, 0);
    c->inbox_taken = NULL;
    atomic_store(&c->is_asleep, false);
    atomic_store(&c->is_quiescent, false);
    atomic_store(&c->waits_for_threads, false);
    pthread_mutex_init(&c->id_reserve.lock, NULL);
    c->id_reserve.count = c->id_reserve.room = 0;
    c->id_reserve.ids = NULL; /* not freed: another thread may have been in realloc */
    atomic_store(&c->id_reserve.in_flight, 0);
    c->handle = NULL;
}

static void cord_remove_other_fibers(weft__cord *c, weft__fiber *f)
{
    for_each_other_fiber(c, f, fiber_leave_waits);
    fiber_make_root(f);
    for_each_other_fiber(c, f, fiber_erase);
    while (weft__runqueue_pop(&c->runqueue) != NULL)
        continue;
    c->main = f;
    c->closer = c->closer == f ? f : NULL;
    c->records_used = c->warm_count; /* the records of the other fibers are never reused */
    c->ended_count = 0;
    weft__unawaited_close(c);
    c->held_timers = c->held_ops = 0;
    bool is_bounded = f->mailbox != NULL && f->mailbox->fifo.limit != WEFT__UNLIMITED;
    atomic_store(&c->bounded_mailboxes, is_bounded);
}

static void cord_renew_in_child(weft__cord *c)
{
    weft__fork_depth++;
    weft__registry_reset(c, abandon_cord);
    weft__stats_reset_ended();
    weft__deadlock_reset(true);
    weft__cord_handles_reset();
    weft__mailbox_bounds_reset();
    weft__snapshot_after_fork();
    cord_reset_shared(c);
    cord_remove_other_fibers(c, c->current);
    weft__cord_reopen(c);
    weft__scopes_rearm(c, c->current);
    weft__trace_in_child(c);
    weft__workers_unblock_signals();
}

pid_t weft_fork(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    is_forking = true;
    pid_t pid = fork();
    int error = errno;
    is_forking = false;
    if (pid == 0)
        cord_renew_in_child(c);
    return pid >= 0 ? pid : -error;
}
