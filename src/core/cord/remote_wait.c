/* Waits that any thread can end, see remote_wait.h. */
#include "core/cord/remote_wait.h"

#include "core/cord/inbox.h"
#include "core/lifetime/cancel.h"

/* The wait of an aborted fiber whose wait another thread has already ended. */
static const weft__wait_kind waits_end = {.name = "the end of a wait by another thread",
                                          .is_release = true};

static weft__remote_wait *wait_of_msg(weft__remote_msg *msg)
{
    return CONTAINER_OF(msg, weft__remote_wait, msg);
}

/* If c is NULL, the thread of the fiber has ended, and its frame does not exist any more. */
static void deliver_end(weft__cord *c, weft__remote_msg *msg)
{
    weft__fiber *f = c != NULL ? weft__fiber_waiting(c, msg->fiber, wait_of_msg(msg)) : NULL;
    if (f != NULL)
        weft__wake(c, f, weft__cancel_resolve(f, msg->value), WEFT__TAIL);
}

void weft__remote_wait_init(weft__remote_wait *w, bool (*withdraw)(weft__remote_wait *w))
{
    w->msg = (weft__remote_msg){NULL, deliver_end, weft__cord_self->current->id, 0, 0};
    w->withdraw = withdraw;
}

bool weft__remote_wait_leave(weft__fiber *f)
{
    weft__remote_wait *w = f->wait_object;
    bool has_left = w->withdraw(w);
    if (!has_left)
        f->waits_in = &waits_end;
    return has_left;
}

weft_value weft__remote_wait_run(weft__remote_wait *w, const weft__wait_kind *kind)
{
    weft__cord *c = weft__cord_self;
    if (UNLIKELY(c->current->pending)) {
        if (w->withdraw(w))
            return weft__call_refuse(c);
        kind = &waits_end;
    }
    return weft__wait(c, kind, w);
}

void weft__remote_wait_end(weft__remote_wait *w, weft_value value)
{
    weft__cord *c = weft__cord_self;
    w->msg.value = value;
    if (c != NULL && weft__fiber_cord(w->msg.fiber) == c->index)
        deliver_end(c, &w->msg);
    else
        (void)weft__cord_post(&w->msg);
}

void weft__remote_wait_end_in_handler(weft__remote_wait *w, weft_value value)
{
    w->msg.value = value;
    (void)weft__cord_post_in_handler(&w->msg);
}

bool weft__fiber_can_wait(void)
{
    const weft__cord *c = weft__cord_self;
    if (c == NULL || weft__is_copy)
        return false;
    const weft__fiber *f = c->current;
    /* In the idle loop, the current fiber is a fiber that waits or is runnable. */
    bool is_running = f->waits_in == NULL && !weft__runnable_is_queued(&f->queued);
    return is_running && f->live->no_switch == 0 && !weft__backend_is_virtual(c->backend);
}
