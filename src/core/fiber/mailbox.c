/* Mailboxes: telling, receiving, and messages between threads. */
#include "core/mailbox.h"

#include "core/abroad.h"
#include "core/alarm.h"

#include <weft/error.h>
#include <weft/mailbox.h>

#include <stdlib.h>

static const weft__wait_kind waits_message = {"a message", .leave = weft__leave_line};
static const weft__wait_kind waits_room = {"room in the mailbox of", .is_for_fiber = true,
                                           .leave = weft__leave_line};

weft__mailbox *weft__mailbox_of(weft__fiber *f)
{
    if (LIKELY(f->mailbox != NULL))
        return f->mailbox;
    weft__mailbox *m = malloc(sizeof *m);
    if (m != NULL)
        weft__passage_init(&m->passage, sizeof(weft_value), WEFT__UNLIMITED);
    return f->mailbox = m;
}

/* Count the bounded mailboxes of the thread: a mailbox with this limit is to have that one. */
static void note_bound(weft__cord *c, size_t limit, size_t new_limit)
{
    int more = (new_limit != WEFT__UNLIMITED) - (limit != WEFT__UNLIMITED);
    if (more != 0)
        atomic_fetch_add_explicit(&c->bounded_mailboxes, more, memory_order_relaxed);
}

void weft__mailbox_free(weft__cord *c, weft__fiber *f)
{
    weft__mailbox *m = f->mailbox;
    if (m == NULL)
        return;
    f->mailbox = NULL;
    note_bound(c, m->passage.limit, WEFT__UNLIMITED);
    weft__serve_all(c, &m->passage.senders, -ESRCH);
    weft__passage_free(&m->passage);
    free(m);
}

static int set_limit(weft__cord *c, weft__mailbox *m, size_t limit)
{
    size_t old_limit = m->passage.limit;
    int rc = weft__passage_set_limit(c, &m->passage, limit);
    if (rc == 0)
        note_bound(c, old_limit, limit);
    return rc;
}

void weft__mailbox_empty(weft__cord *c, weft__fiber *f)
{
    if (!f->is_restarting) {
        weft__mailbox_free(c, f);
    } else if (f->mailbox != NULL) {
        weft__passage_clear(c, &f->mailbox->passage);
        set_limit(c, f->mailbox, WEFT__UNLIMITED); /* without memory the bound stays */
    }
}

/*
 * Into the mailbox of a fiber of this thread, which may not have one yet, if that does not take
 * waiting.
 */
COLD static int put(weft__cord *c, weft__fiber *f, weft_value value)
{
    weft__mailbox *m = weft__mailbox_of(f);
    return LIKELY(m != NULL) ? weft__passage_put(c, &m->passage, &value, WEFT__TAIL) : -ENOMEM;
}

int weft__mailbox_force(weft__cord *c, weft__fiber *f, weft_value value)
{
    weft__mailbox *m = weft__mailbox_of(f);
    return m != NULL ? weft__passage_force(c, &m->passage, &value) : -ENOMEM;
}

/* To no fiber of this thread, or none that lives; or from a thread without fibers. */
COLD static int tell_other(const weft__cord *c, weft_fiber fiber, weft_value value)
{
    if (c != NULL && (fiber == 0 || weft__fiber_cord(fiber) == c->index))
        return -ESRCH;
    return weft__tell_abroad(fiber, value);
}

/* The mailbox is full. */
COLD static int tell_waiting(weft__cord *c, weft__fiber *f, weft_value value)
{
    if (f == c->current)
        return -EDEADLK;
    if (UNLIKELY(c->current->alarm))
        return (int)weft__refuse(c);
    weft__waiter *w = &c->current->life->waiter;
    w->value = value;
    w->data = &w->value;
    w->how = WEFT__TAIL;
    return weft__line_wait_int(c, &f->mailbox->passage.senders, &waits_room, f);
}

/* It selects from messages and what comes from other threads: whoever is first. */
COLD static int tell_contested(weft__fiber *f, weft_value value)
{
    weft__line_claim(&f->mailbox->passage.receivers);
    return weft_tell(f->id, value);
}

int weft_tell(weft_fiber fiber, weft_value value)
{
    if (UNLIKELY(weft_is_error(value)))
        return weft_fail(-EINVAL, "%d is an error code, not a message", (int)value);
    weft__cord *c = weft__cord_self; /* a thread that only sends need not become a cord */
    weft__fiber *f = c != NULL ? weft__fiber_find(c, fiber) : NULL;
    if (UNLIKELY(f == NULL || f->phase == WEFT__ENDED))
        return tell_other(c, fiber, value);
    if (UNLIKELY(f->mailbox == NULL))
        return put(c, f, value);
    weft__passage *p = &f->mailbox->passage;
    if (weft__line_is_empty(&p->receivers)) {
        if (UNLIKELY(p->count >= p->limit))
            return tell_waiting(c, f, value);
    } else if (UNLIKELY(weft__line_is_contested(&p->receivers))) {
        return tell_contested(f, value);
    }
    return weft__passage_put_value(c, p, value);
}

int weft_try_tell(weft_fiber fiber, weft_value value)
{
    if (weft_is_error(value))
        return weft_fail(-EINVAL, "%d is an error code, not a message", (int)value);
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find_living(fiber, &c, &f);
    return rc == 0 ? put(c, f, value) : rc;
}

weft_value weft_try_receive(void)
{
    weft__cord *c = weft__cord_here();
    if (c == NULL)
        return weft__no_cord();
    weft__mailbox *m = c->current->mailbox;
    return m != NULL ? weft__passage_take_value(c, &m->passage) : -EAGAIN;
}

/* Before anyone has told it anything. */
COLD static weft_value receive_first(weft__cord *c)
{
    if (c->current->alarm)
        return weft__refuse(c);
    weft__mailbox *m = weft__mailbox_of(c->current);
    return m != NULL ? weft__passage_wait_take(c, &m->passage, &waits_message) : -ENOMEM;
}

weft_value weft_receive(void)
{
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    weft__mailbox *m = c->current->mailbox;
    if (UNLIKELY(m == NULL))
        return receive_first(c);
    if (weft__passage_can_take(&m->passage))
        return weft__passage_take_value(c, &m->passage);
    if (UNLIKELY(c->current->alarm))
        return weft__refuse(c);
    return weft__passage_wait_take(c, &m->passage, &waits_message);
}

size_t weft_receive_all(weft_value *out, size_t n)
{
    weft__cord *c = weft__cord_here();
    weft__mailbox *m = c != NULL ? c->current->mailbox : NULL;
    return m != NULL ? weft__passage_take_all(c, &m->passage, out, n) : 0;
}

ssize_t weft_mailbox_count(weft_fiber fiber)
{
    weft__cord *c;
    weft__fiber *f;
    int rc = weft__find_living(fiber, &c, &f);
    if (rc < 0)
        return rc;
    return f->mailbox != NULL ? (ssize_t)f->mailbox->passage.count : 0;
}

int weft_mailbox_bound(size_t messages)
{
    weft__cord *c = weft__cord_here();
    weft__mailbox *m = c != NULL ? weft__mailbox_of(c->current) : NULL;
    if (m == NULL)
        return weft__no_cord();
    return set_limit(c, m, messages != 0 ? messages : WEFT__UNLIMITED);
}
