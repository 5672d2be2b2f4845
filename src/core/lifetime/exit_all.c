/*
 * End all fibers of a thread when the thread or the process ends. exit.c implements the exit of one
 * fiber.
 */
#include "core/debug/diag.h"
#include "core/fiber/error.h"
#include "core/fiber/mailbox.h"
#include "core/lifetime/exit.h"
#include "core/lifetime/scope.h"
#include "core/lifetime/tree.h"

/* The wait of an ancestor of the ending fiber. The ancestor never runs again. */
static const weft__wait_kind waits_thread_end = {.name = "the end of its thread",
                                                 .is_for_children = true};

/*
 * Clean up f and its ancestors, because the thread or the process ends while f runs. The functions
 * of these fibers never return. Start with main and end with f. No ancestor of f runs during the
 * cleanup.
 */
static void exit_ancestors(weft__cord *c, weft__fiber *f)
{
    /*
     * End the waits of these fibers, so that no event wakes the fibers. A wake of an ancestor has
     * no effect, because the second loop parks all ancestors.
     */
    for (weft__fiber *a = f; a != NULL; a = a->parent) {
        if (a->waits_in != NULL && a->waits_in->leave != NULL)
            a->waits_in->leave(a);
        weft__waitq_leave(&a->live->waiter);
        a->waits_in = a != f ? &waits_thread_end : NULL;
        a->wait_object = NULL;
        a->starter = NULL;
    }
    /*
     * Store the path from main to f in the joiner fields. The fields are free, because no fiber
     * joins children of the ancestors.
     */
    for (weft__fiber *a = f; a->parent != NULL; a = a->parent) {
        a->parent->live->joiner = a;
        a->parent->live->spared = NULL;
        weft__park(c, a->parent);
    }
    for (weft__fiber *a = c->main;; a = a->live->joiner) {
        weft__fiber_set_phase(a, WEFT__ENDING);
        weft__defers_run(a);
        weft__fiber_run_exit_hooks(
            /* Run the hooks before the children end, because a child may wait for a lock of a. */
            a);
        if (a == f)
            return;
    }
}

/*
 * End the children of f and of its ancestors, except the fibers on the path from main to f. Returns
 * false if a child does not end.
 */
static bool exit_children(weft__cord *c, weft__fiber *f)
{
    bool have_ended = true;
    const weft__fiber *except = NULL;
    for (weft__fiber *a = f; a != NULL; except = a, a = a->parent)
        have_ended &= weft__tree_end_children(c, a, except);
    return have_ended;
}

/*
 * Return whether f or an ancestor has new children or extras. Destructors may create both. While a
 * destructor waits, other threads may create children too.
 */
static bool has_new_work(const weft__fiber *f)
{
    const weft__fiber *child_on_path = NULL;
    for (const weft__fiber *a = f; a != NULL; child_on_path = a, a = a->parent)
        if (weft__tree_has_children(a, child_on_path) || a->live->extras != NULL)
            return true;
    return false;
}

/* Wake only the waiters of other threads in a queue. */
static void reply_to_remote(weft__cord *c, weft__waitq *waitq, weft_value value)
{
    weft__waiter *next;
    for (weft__waiter *w = waitq->first; w != NULL; w = next) {
        next = weft__waitq_after(w);
        if (w->fiber == NULL)
            weft__waitq_wake(c, w, value);
    }
}

/*
 * Reply to other threads that wait for fibers of this cord. Some fibers never end: the current
 * fiber, its ancestors, and fibers that no event can wake.
 */
static void reply_for_stuck_fibers(weft__cord *c)
{
    uint32_t chunks = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    for (uint32_t slot = 0; slot < chunks * WEFT__CHUNK_FIBERS; slot++) {
        weft__fiber *f = weft__record_at(c, slot);
        if (f->id == 0 || f->live == NULL)
            continue;
        reply_to_remote(c, &f->live->awaiters, -ESRCH);
        if (f->mailbox != NULL)
            reply_to_remote(c, &f->mailbox->fifo.senders, -ESRCH);
    }
}

int weft__cord_end_fibers(weft__cord *c)
{
    weft__fiber *f = c->current;
    c->closer = f;
    for (weft__fiber *a = f; a != NULL; a = a->parent)
        weft__scopes_drop(c, a); /* the code that closes the scopes never runs */
    exit_ancestors(c, f);
    bool have_ended;
    do {
        have_ended = exit_children(c, f);
        for (weft__fiber *a = f; a != NULL; a = a->parent) {
            weft__fiber_run_exit_hooks(a);
            weft__tree_drop_ended(c, a);
            weft__extras_free(a);
            weft__exit_hooks_run(&a->live->exit_hooks); /* hooks that a destructor added */
        }
    } while (have_ended && has_new_work(f));
    for (weft__fiber *a = f; a != NULL; a = a->parent)
        weft__mailbox_free(c, a);
    reply_for_stuck_fibers(c);
    /*
     * A cord without a handle has no value. Every undelivered error is then a failure, even an
     * error of weft_raise.
     */
    return c->handle != NULL ? weft__fiber_take_child_error(c->main) : weft__error_next(c->main);
}

weft_value weft__cord_exit(weft__cord *c, weft_value returned, weft__error **error)
{
    weft__fiber *f = c->main;
    weft_value value = weft__fiber_final_value(f, returned);
    *error = weft_is_error(value) ? weft__error_of_exit(f, (int)value) : NULL;
    int code = weft__cord_end_fibers(c);
    if (weft__error_is_unseen(f) && code == 0 && !weft_is_error(value) && !f->is_stopped)
        weft__diag_unseen(f);
    if (code == 0 || weft_is_error(value) || f->is_stopped)
        return value;
    *error = weft__error_of_exit(f, code);
    return code;
}
