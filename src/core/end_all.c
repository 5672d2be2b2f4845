/* The end of all fibers of a thread, when the thread or the process ends. */
#include "core/end.h"
#include "core/error.h"
#include "core/mailbox.h"
#include "core/report.h"
#include "core/scope.h"
#include "core/tree.h"

/* A fiber whose frames are never returned to, whatever it waited in. */
static const weft__wait_kind waits_nothing = {.name = "nothing: its thread ends",
                                              .is_for_below = true};

/*
 * The thread or the process ends while f runs, which may be any fiber. Its frames and those of its
 * ancestors are never returned to; their own clean-up comes first, from main down, and none of them
 * runs meanwhile.
 */
static void end_above(weft__cord *c, weft__fiber *f)
{
    /*
     * None of them waits any more: what they waited in must not wake them, nor undo what follows.
     */
    for (weft__fiber *a = f; a != NULL; a = a->parent) {
        if (a->waits_in != NULL && a->waits_in->leave != NULL)
            a->waits_in->leave(a);
        weft__line_leave(&a->life->waiter);
        a->waits_in = a != f ? &waits_nothing : NULL; /* woken after all: it is held, see below */
        a->wait_object = NULL;
        a->starter = NULL;
    }
    /* Note the way down; a parent whose child is on it has nobody else to wait for its children. */
    for (weft__fiber *a = f; a->parent != NULL; a = a->parent) {
        a->parent->life->joiner = a;
        a->parent->life->spared = NULL;
        weft__park(c, a->parent);
    }
    for (weft__fiber *a = c->main;; a = a->life->joiner) {
        weft__fiber_set_phase(a, WEFT__ENDING);
        weft__defers_run(a);
        weft__fiber_lapse_claims(a); /* before its children end, which may need the lock */
        if (a == f)
            return;
    }
}

/* End the children of f and of its ancestors, except these. False: some will never end. */
static bool end_children(weft__cord *c, weft__fiber *f)
{
    bool are_dead = true;
    const weft__fiber *except = NULL;
    for (weft__fiber *a = f; a != NULL; except = a, a = a->parent)
        are_dead &= weft__tree_end_children(c, a, except);
    return are_dead;
}

/* Is there something that came while a destructor waited: a fiber from another thread, say? */
static bool has_more(const weft__fiber *f)
{
    const weft__fiber *on_the_way = NULL;
    for (const weft__fiber *a = f; a != NULL; on_the_way = a, a = a->parent)
        if (weft__tree_has_children(a, on_the_way) || a->life->extras != NULL)
            return true;
    return false;
}

/* Those in line who are no fibers of this thread: letters that are to be answered. */
static void answer_others(weft__cord *c, weft__line *line, weft_value value)
{
    weft__waiter *next;
    for (weft__waiter *w = line->first; w != NULL; w = next) {
        next = weft__line_after(w);
        if (w->fiber == NULL)
            weft__serve(c, w, value);
    }
}

/*
 * Fibers that will never end: those whose frames are not returned to, and those that nothing could
 * wake. Whoever waits for them elsewhere is not to wait for ever.
 */
static void answer_for_the_rest(weft__cord *c)
{
    uint32_t chunks = __atomic_load_n(&c->chunks_count, __ATOMIC_ACQUIRE);
    for (uint32_t slot = 0; slot < chunks * WEFT__CHUNK_FIBERS; slot++) {
        weft__fiber *f = weft__cord_at(c, slot);
        if (f->id == 0 || f->life == NULL)
            continue;
        answer_others(c, &f->life->awaiters, -ESRCH);
        if (f->mailbox != NULL)
            answer_others(c, &f->mailbox->passage.senders, -ESRCH);
    }
}

int weft__cord_end_fibers(weft__cord *c)
{
    weft__fiber *f = c->current;
    c->closer = f;
    for (weft__fiber *a = f; a != NULL; a = a->parent)
        weft__scopes_drop(c, a); /* nobody returns to where they are closed */
    end_above(c, f);
    bool is_all;
    do {
        is_all = end_children(c, f);
        for (weft__fiber *a = f; a != NULL; a = a->parent) {
            weft__fiber_lapse_claims(a);
            weft__tree_bury(c, a);
            weft__extras_free(a);
            weft__claims_lapse(&a->life->claims); /* those that a destructor has made */
        }
    } while (is_all && has_more(f));
    for (weft__fiber *a = f; a != NULL; a = a->parent)
        weft__mailbox_free(c, a);
    answer_for_the_rest(c);
    /* A process has a status and no value: there every error is a failure. */
    return c->tenure != NULL ? weft__fiber_error_from_below(c->main) : weft__error_next(c->main);
}

weft_value weft__cord_end(weft__cord *c, weft_value returned, weft__error **words)
{
    weft__fiber *f = c->main;
    weft_value value = weft__fiber_final_value(f, returned);
    *words = weft_is_error(value) ? weft__error_of_end(f, (int)value) : NULL;
    int code = weft__cord_end_fibers(c);
    if (weft__error_is_unseen(f) && code == 0 && !weft_is_error(value) && !f->is_stopped)
        weft__report_unseen(f);
    if (code == 0 || weft_is_error(value) || f->is_stopped)
        return value;
    *words = weft__error_of_end(f, code);
    return code;
}
