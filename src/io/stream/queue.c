/*
 * The fibers in calls on a stream: at most one fiber reads and one fiber writes. Other fibers wait
 * to write, in FIFO order. A fiber that leaves passes the stream directly to the first waiting
 * fiber, so that no other fiber can write first.
 */
#include "io/stream/stream.h"

#include "core/lifetime/cancel.h"
#include "core/op/op.h"

#include <weft/error.h>
#include <weft/scope.h>

#include <math.h>

static const weft__wait_kind waits_to_write = {"its turn to write to a stream",
                                               .leave = weft__waitq_abort_wait,
                                               .describe = weft__describe_object};
static const weft__wait_kind waits_for_users = {"the users of a stream", .ignores_interrupts = true,
                                                .leave = weft__waitq_abort_wait,
                                                .describe = weft__describe_object};

/*
 * Return whether a fiber exists only in the parent of this process. weft_fork frees the records of
 * such fibers, and does not reuse them. A fiber in a call on a stream has a record in any other
 * case.
 */
static bool is_in_parent(const weft__fiber *f)
{
    return f->phase == WEFT__FREE;
}

static bool reader_is_in_parent(const weft__stream *s)
{
    const weft__cord *c = weft__cord_self;
    return !weft__record_exists(c, s->reader) || is_in_parent(weft__record_at(c, s->reader));
}

bool weft__stream_has_users(const weft__stream *s)
{
    return (s->is_reading && !reader_is_in_parent(s)) ||
           (s->writer != NULL && !is_in_parent(s->writer));
}

bool weft__stream_is_used_by(const weft__stream *s, const weft__fiber *f)
{
    return s->writer == f || (s->is_reading && s->reader == weft__fiber_slot(f->id));
}

COLD static int refuse_second_reader(const weft__stream *s)
{
    if (reader_is_in_parent(s))
        return weft_fail(-EOWNERDEAD, "weft_stream: a fiber of the parent process is reading");
    return weft_fail(-EBUSY, "weft_stream: another fiber is reading from this stream");
}

int weft__stream_enter_read(weft__stream *s)
{
    if (!weft__stream_is_open(s))
        return -EBADF;
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(s->is_reading))
        return refuse_second_reader(s);
    s->is_reading = true;
    s->reader = weft__fiber_slot(c->current->id);
    return 0;
}

/* Wake the closing fiber, if no fiber reads or writes. */
COLD static void wake_closer(weft__stream *s)
{
    if (!weft__stream_has_users(s) && !weft__waitq_is_empty(&s->waiters))
        weft__waitq_wake(weft__cord_self, s->waiters.first, 0);
}

ssize_t weft__stream_leave_read(weft__stream *s, ssize_t result)
{
    s->is_reading = false;
    if (UNLIKELY(s->is_closing))
        wake_closer(s);
    return result;
}

/* Wait until another fiber passes the stream to the current fiber. */
COLD static int wait_to_write(weft__cord *c, weft__stream *s)
{
    if (s->writer == c->current)
        return weft_fail(-EDEADLK, "weft_stream: the calling fiber is already writing");
    if (is_in_parent(s->writer))
        return weft_fail(-EOWNERDEAD, "weft_stream: a fiber of the parent process is writing");
    if (c->current->pending)
        return (int)weft__call_refuse(c);
    int rc = weft__waitq_wait_int(c, &s->waiters, &waits_to_write, s);
    if (rc == -EIO)
        return weft_fail(rc, "weft_stream: another fiber has written only a part of its bytes");
    /* Another fiber may have closed the stream after passing it on. */
    return rc == 0 && s->is_closing ? (int)weft__stream_leave_write(s, -EBADF) : rc;
}

int weft__stream_enter_write(weft__stream *s)
{
    if (UNLIKELY(!weft__stream_is_open(s)))
        return -EBADF;
    weft__cord *c = weft__cord_here();
    if (UNLIKELY(c == NULL))
        return weft__no_cord();
    if (UNLIKELY(s->writer != NULL))
        return wait_to_write(c, s);
    s->writer = c->current;
    return 0;
}

COLD static void pass_on(weft__stream *s)
{
    s->writer = NULL;
    if (s->is_closing) {
        wake_closer(s);
        return;
    }
    s->writer = s->waiters.first->fiber;
    weft__waitq_wake(weft__cord_self, s->waiters.first, 0);
}

ssize_t weft__stream_leave_write(weft__stream *s, ssize_t result)
{
    if (UNLIKELY(!weft__waitq_is_empty(&s->waiters)))
        pass_on(s);
    else
        s->writer = NULL;
    return result;
}

void weft__stream_fail_waiters(weft__stream *s, int error)
{
    bool is_own = error == -ECANCELED || weft__was_interrupted();
    if (!s->is_closing)
        weft__waitq_wake_all(weft__cord_self, &s->waiters, is_own ? -EIO : error);
}

void weft__stream_evict_waiters(weft__stream *s)
{
    weft__waitq_wake_all(weft__cord_self, &s->waiters, -EBADF);
}

void weft__stream_wait_for_users(weft__stream *s)
{
    if (!weft__stream_has_users(s))
        return;
    weft__cord *c = weft__cord_self;
    WEFT_SHIELD(INFINITY) {
        while (weft__stream_has_users(s)) {
            if (c->current->pending)
                (void)weft__call_refuse(c);
            else
                (void)weft__waitq_wait(c, &s->waiters, &waits_for_users, s);
        }
    }
}
