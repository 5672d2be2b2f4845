/*
 * fork: how a child finds out that it is a copy, and how weft_fork makes the copy of the calling
 * fiber the main one of a process of its own. See fork.h.
 */
#include "core/fork.h"

#include "core/end.h"
#include "core/error.h"
#include "core/mailbox.h"
#include "core/port.h"
#include "core/report.h"
#include "core/scope.h"
#include "core/tenure.h"

#include <weft/fork.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

bool weft__is_copy;
uint32_t weft__fork_depth;

/* The calling thread is in weft_fork. */
static __thread bool is_forking;

/*
 * Copies.
 */

COLD void weft__say_copy(void)
{
    static atomic_flag is_said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&is_said))
        weft__report("this process is a copy made by fork(2); use weft_fork");
}

COLD int weft__why_no_cord(void)
{
    if (!weft__is_copy)
        return -ENOMEM;
    weft__say_copy();
    return -ENOTRECOVERABLE;
}

/*
 * Between the two processes nothing is shared but descriptors, and the way to them is through a
 * cord: its own, those in the ports, or a frame that knows one. Such a frame can only wait, and
 * finds an empty queue.
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
        c->has_more_to_swap = true; /* the end of a fiber is not a simple one any more */
    }
    weft__port_renew(NULL, NULL);
    weft__tenures_renew();
}

void weft__fork_stop(void)
{
    weft__say_copy();
    _exit(EXIT_FAILURE);
}

void weft__fork_return(weft_value value)
{
    if (weft__is_copy)
        exit(weft_is_error(value) ? EXIT_FAILURE : EXIT_SUCCESS);
    weft__fiber *f = weft__cord_self->main;
    if (weft__fiber_has_failed(f, value)) { /* what ends the process reports it, as any other */
        weft__error_set(f, weft__error_of_end(f, (int)value));
        weft__error_queue(f, (int)value, weft__error_ref(f->error));
    }
    exit(EXIT_SUCCESS);
}

/*
 * Children that go on. The records and stacks of the fibers that are gone stay as they were: what
 * is on their stacks may be in use by the one that is left (its argument, a lock, a channel), and a
 * record that no fiber gets again cannot be mistaken for another's.
 */

static void abandon_thread(weft__cord *other)
{
    weft__backend *b = __atomic_load_n(&other->backend, __ATOMIC_ACQUIRE);
    if (b != NULL && b != &other->no_backend.base)
        b->type->abandon(b, false);
}

/* Call fn for every record of the cord that is a fiber's, but for that of f. */
static void for_each_gone(weft__cord *c, const weft__fiber *f, void (*fn)(weft__fiber *g))
{
    for (uint32_t i = 0; i < c->chunks_count; i++)
        for (uint32_t j = 0; j < WEFT__CHUNK_FIBERS; j++) {
            weft__fiber *g = &c->chunks[i][j];
            if (g->id != 0 && g != f)
                fn(g);
        }
}

/* Out of all lines: nobody is to serve it. */
static void leave_places(weft__fiber *g)
{
    if (g->waits_in != NULL && g->waits_in->forget != NULL)
        g->waits_in->forget(g);
    if (g->life != NULL)
        weft__line_leave(&g->life->waiter);
}

/* Nobody finds it, and what it holds is known to be a dead one's. */
static void bury(weft__fiber *g)
{
    weft__claims_lapse(&g->monitors);
    weft__fiber_set_id(g, 0);
    weft__fiber_set_phase(g, WEFT__FREE);
    g->waits_in = NULL;
    g->claim_run++;
}

/* Groups and supervisors of f, which are in its frames, have no children any more. */
static void lose_children(weft__list *children)
{
    WEFT__LIST_FOR(node, children) {
        weft__fiber *g = weft__fiber_of_sibling(node);
        weft__keeper *k = g->keeper;
        g->keeper = NULL;
        if (k != NULL)
            k->type->left(k, g);
    }
    weft__list_init(children);
}

/* Alone in its tree, which it is the top of. */
static void uproot(weft__fiber *f)
{
    lose_children(&f->life->children);
    lose_children(&f->life->ended);
    f->life->ended_count = f->life->short_count = f->life->short_first = 0;
    f->has_short = false;
    f->parent = f->life->joiner = f->starter = NULL;
    f->is_forked = true;
    f->keeper = NULL;
    weft__list_init(&f->sibling);
    f->life->awaiters = f->restarters = (weft__line){NULL};
    weft__claims_lapse(&f->monitors);
    f->is_daemon = f->is_unawaited = f->is_restarting = false;
    if (f->mailbox != NULL)
        f->mailbox->passage.senders = (weft__line){NULL}; /* other threads' are among them */
}

/* Nobody else's doing is in it any more: letters, and ids that were given out. */
static void lock_out_others(weft__cord *c)
{
    atomic_store(&c->inbox, NULL);
    atomic_store(&c->remote_pending, 0);
    c->taken = NULL;
    atomic_store(&c->is_asleep, false);
    atomic_store(&c->is_helpless, false);
    atomic_store(&c->waits_for_threads, false);
    pthread_mutex_init(&c->reserve.lock, NULL);
    c->reserve.count = c->reserve.room = 0;
    c->reserve.ids = NULL; /* left as it is: another thread may have been moving it */
    atomic_store(&c->reserve.under_way, 0);
    c->tenure = NULL;
}

static void be_alone(weft__cord *c, weft__fiber *f)
{
    for_each_gone(c, f, leave_places);
    uproot(f);
    for_each_gone(c, f, bury);
    while (weft__runqueue_pop(&c->runqueue) != NULL)
        continue;
    c->main = f;
    c->closer = c->closer == f ? f : NULL;
    c->records_used = c->warm_count; /* those of the others are lost */
    c->ended_count = 0;
    weft__ended_close(c);
    c->held_timers = c->held_ops = 0;
    bool is_bounded = f->mailbox != NULL && f->mailbox->passage.limit != WEFT__UNLIMITED;
    atomic_store(&c->bounded_mailboxes, is_bounded);
}

static void renew(weft__cord *c)
{
    weft__fork_depth++;
    weft__port_renew(c, abandon_thread);
    weft__tenures_renew();
    lock_out_others(c);
    be_alone(c, c->current);
    weft__cord_reopen(c);
    weft__scopes_rearm(c, c->current);
    weft__lanes_unblock();
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
        renew(c);
    return pid >= 0 ? pid : -error;
}
