/* Mailboxes: weft_tell, weft_receive and bounds. Messages to other threads are in remote_tell.c. */
#include "core/fiber/mailbox.h"

#include "core/cord/remote_tell.h"
#include "core/lifetime/cancel.h"

#include <weft/error.h>
#include <weft/mailbox.h>

#include <stdlib.h>

static const weft__wait_kind waits_message = {"a message", .leave = weft__waitq_abort_wait};
static const weft__wait_kind waits_room = {"space in the mailbox of", .is_for_fiber = true,
                                           .leave = weft__waitq_abort_wait};

weft__mailbox *weft__mailbox_of(weft__fiber *f)
{
    if (LIKELY(f->mailbox != NULL))
        return f->mailbox;
    weft__mailbox *m = malloc(sizeof *m);
    if (m != NULL) {
        m->bound = (weft__mailbox_bound){.fiber = 0};
        m->delayed = 0;
        weft__fifo_init(&m->fifo, sizeof(weft_value), WEFT__UNLIMITED);
    }
    return f->mailbox = m;
}

/*
 * Tell other threads that a limit has changed. A sender that finds the new bound in the table must
 * also find the new count.
 */
static void mailbox_note_bound(weft__cord *c, weft_fiber id, weft__mailbox *m, size_t limit,
                               size_t new_limit)
{
    int more = (new_limit != WEFT__UNLIMITED) - (limit != WEFT__UNLIMITED);
    if (more > 0)
        atomic_fetch_add_explicit(&c->bounded_mailboxes, more, memory_order_relaxed);
    if (new_limit != limit)
        weft__mailbox_bound_set(&m->bound, id, &m->fifo, new_limit);
    if (more < 0)
        atomic_fetch_add_explicit(&c->bounded_mailboxes, more, memory_order_relaxed);
}

void weft__mailbox_free(weft__cord *c, weft__fiber *f)
{
    weft__mailbox *m = f->mailbox;
    if (m == NULL)
        return;
    f->mailbox = NULL;
    mailbox_note_bound(c, f->id, m, m->fifo.limit, WEFT__UNLIMITED);
    weft__waitq_wake_all(c, &m->fifo.senders, -ESRCH);
    weft__fifo_free(&m->fifo);
    free(m);
}

static int mailbox_set_limit(weft__cord *c, const weft__fiber *f, size_t limit)
{
    weft__mailbox *m = f->mailbox;
    size_t old_limit = m->fifo.limit;
    int rc = weft__fifo_set_limit(c, &m->fifo, limit);
    if (rc == 0)
        mailbox_note_bound(c, f->id, m, old_limit, limit);
    return rc;
}

void weft__mailbox_empty(weft__cord *c, weft__fiber *f)
{
    if (!f->is_restarting) {
        weft__mailbox_free(c, f);
    } else if (f->mailbox != NULL) {
        weft__fifo_clear(c, &f->mailbox->fifo);
        mailbox_set_limit(c, f, WEFT__UNLIMITED); /* on failure, the bound remains */
    }
}

void weft__mailbox_renew(weft__fiber *f)
{
    weft__mailbox *m = f->mailbox;
    m->fifo.senders = (weft__waitq){NULL};
    m->delayed = 0;
    m->bound = (weft__mailbox_bound){.fiber = 0};
    if (m->fifo.limit != WEFT__UNLIMITED)
        weft__mailbox_bound_set(&m->bound, f->id, &m->fifo, m->fifo.limit);
}

/* Put a value into the mailbox of a fiber of the calling thread, without waiting. */
COLD static int mailbox_put(weft__cord *c, weft__fiber *f, weft_value value)
{
    weft__mailbox *m = weft__mailbox_of(f);
    return LIKELY(m != NULL) ? weft__fifo_put(c, &m->fifo, &value, WEFT__TAIL) : -ENOMEM;
}

int weft__mailbox_force(weft__cord *c, weft__fiber *f, weft_value value)
{
    weft__mailbox *m = weft__mailbox_of(f);
    return m != NULL ? weft__fifo_force(c, &m->fifo, &value) : -ENOMEM;
}

/*
 * Send a value to a fiber that has ended or belongs to another thread, or from a thread without a
 * cord. `send` is weft__remote_tell or weft__remote_try_tell.
 */
COLD static int tell_remote(const weft__cord *c, weft_fiber fiber, weft_value value,
                            int (*send)(weft_fiber fiber, weft_value value))
{
    if (c != NULL && (fiber == 0 || weft__fiber_cord(fiber) == c->index))
        return -ESRCH;
    return send(fiber, value);
}

/* Wait until the mailbox of f has space. The mailbox must be full. */
COLD static int tell_waiting(weft__cord *c, weft__fiber *f, weft_value value)
{
    if (f == c->current)
        return -EDEADLK;
    if (UNLIKELY(c->current->pending))
        return (int)weft__call_refuse(c);
    weft__waiter *w = &c->current->live->waiter;
    w->value = value;
    w->data = &w->value;
    w->how = WEFT__TAIL;
    return weft__waitq_wait_int(c, &f->mailbox->fifo.senders, &waits_room, f);
}

/*
 * Claim the token of the first receiver, which waits in a select. Then send the value again,
 * because another thread may have claimed the token first.
 */
COLD static int tell_selecting(weft__fiber *f, weft_value value)
{
    weft__waitq_claim(&f->mailbox->fifo.receivers);
    return weft_tell(f->id, value);
}

int weft_tell(weft_fiber fiber, weft_value value)
{
    if (UNLIKELY(weft_is_error(value)))
        return weft_fail(-EINVAL, "weft_tell: value %d is an error code", (int)value);
    weft__cord *c = weft__cord_self; /* a thread that only sends does not become a cord */
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    if (UNLIKELY(f == NULL || f->phase == WEFT__ENDED))
        return tell_remote(c, fiber, value, weft__remote_tell);
    if (UNLIKELY(f->mailbox == NULL))
        return mailbox_put(c, f, value);
    weft__fifo *p = &f->mailbox->fifo;
    if (weft__waitq_is_empty(&p->receivers)) {
        if (UNLIKELY(p->count >= p->limit))
            return tell_waiting(c, f, value);
    } else if (UNLIKELY(weft__waitq_first_has_token(&p->receivers))) {
        return tell_selecting(f, value);
    }
    return weft__fifo_put_value(c, p, value);
}

int weft_try_tell(weft_fiber fiber, weft_value value)
{
    if (weft_is_error(value))
        return weft_fail(-EINVAL, "weft_try_tell: value %d is an error code", (int)value);
    weft__cord *c = weft__cord_self;
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    if (f == NULL || f->phase == WEFT__ENDED)
        return tell_remote(c, fiber, value, weft__remote_try_tell);
    return mailbox_put(c, f, value);
}

weft_value weft_try_receive(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__mailbox *m = c->current->mailbox;
    return m != NULL ? weft__fifo_take_value(c, &m->fifo) : -EAGAIN;
}

/* The slow path of weft_receive: the fiber has no mailbox yet. */
COLD static weft_value receive_first(weft__cord *c)
{
    if (c->current->pending)
        return weft__call_refuse(c);
    weft__mailbox *m = weft__mailbox_of(c->current);
    return m != NULL ? weft__fifo_wait_take(c, &m->fifo, &waits_message) : -ENOMEM;
}

weft_value weft_receive(void)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft__mailbox *m = c->current->mailbox;
    if (UNLIKELY(m == NULL))
        return receive_first(c);
    if (weft__fifo_can_take(&m->fifo))
        return weft__fifo_take_value(c, &m->fifo);
    if (UNLIKELY(c->current->pending))
        return weft__call_refuse(c);
    return weft__fifo_wait_take(c, &m->fifo, &waits_message);
}

size_t weft_receive_all(weft_value *out, size_t n)
{
    weft__cord *c = weft__cord_here();
    weft__mailbox *m = c != NULL ? c->current->mailbox : NULL;
    return m != NULL ? weft__fifo_take_all(c, &m->fifo, out, n) : 0;
}

ssize_t weft_mailbox_count(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__fiber_lookup_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    return f->mailbox != NULL ? (ssize_t)f->mailbox->fifo.count : 0;
}

int weft_mailbox_set_bound(size_t messages)
{
    weft__cord *c = weft__cord_here();
    weft__mailbox *m = c != NULL ? weft__mailbox_of(c->current) : NULL;
    if (m == NULL)
        return weft__no_cord();
    return mailbox_set_limit(c, c->current, messages != 0 ? messages : WEFT__UNLIMITED);
}
