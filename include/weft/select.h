/*
 * Select: wait for the first of several things to happen, and for that one only.
 *
 *     weft_clause c[] = {weft_clause_recv(jobs), weft_clause_ended(worker), weft_clause_time(5)};
 *     switch (weft_select(c, 3)) {
 *     case 0: run(c[0].value); break;
 *     case 1: ...
 *
 * Exactly one clause happens; to the others nothing has happened: no value was taken from them,
 * none was sent. If several can happen at once, each has the same chance. Nothing is polled.
 */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/chan.h>
#include <weft/queue.h>

WEFT_BEGIN

typedef enum weft_clause_kind {
    WEFT_CLAUSE_NEVER, /* all-zero: a clause that does not happen, to leave one out */
    WEFT_CLAUSE_RECV,
    WEFT_CLAUSE_SEND,
    WEFT_CLAUSE_SHIFT,
    WEFT_CLAUSE_ENDED,
    WEFT_CLAUSE_FD,
    WEFT_CLAUSE_TIME,
    WEFT_CLAUSE_MESSAGE,
} weft_clause_kind;

/*
 * Something that may happen. Made by the functions below; to be used again, it is made again. If it
 * is the one that happened, value says how:
 *
 *   RECV, SHIFT, MESSAGE: what was received, -EPIPE at the end; into an item: 0 or -EPIPE
 *   SEND (before: what to send): 0 or -EPIPE
 *   ENDED: the value of the fiber, or its error
 *   FD: the events that are there (POLLIN, POLLOUT, POLLHUP, POLLERR), or an error
 *   TIME: 0
 */
typedef struct weft_clause {
    weft_clause_kind kind;
    int events; /* FD */
    union {
        weft_chan *chan;   /* RECV, SEND */
        weft_queue *queue; /* SHIFT */
        weft_fiber fiber;  /* ENDED */
        double seconds;    /* TIME */
        int fd;            /* FD */
    } of;
    void *item; /* of a typed channel: where it goes, or where it is; NULL: it is value */
    weft_value value;
    uint64_t weft__private[8];
} weft_clause;

/** A clause of this kind. Private. */
static inline weft_clause weft__clause(weft_clause_kind kind)
{
    weft_clause c; /* what is private needs no value before it is waited for */
    c.kind = kind;
    c.events = 0;
    c.of.chan = NULL;
    c.item = NULL;
    c.value = 0;
    return c;
}

/** Receive a value from a channel. */
static inline weft_clause weft_clause_recv(weft_chan *chan)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_RECV);
    c.of.chan = chan;
    return c;
}

/** Receive an item from a typed channel (name_chan gives it), into *out. */
static inline weft_clause weft_clause_recv_into(weft_chan *chan, void *out)
{
    weft_clause c = weft_clause_recv(chan);
    c.item = out;
    return c;
}

/** Send a value to a channel. */
static inline weft_clause weft_clause_send(weft_chan *chan, weft_value value)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SEND);
    c.of.chan = chan;
    c.value = value;
    return c;
}

/** Send *item to a typed channel. */
static inline weft_clause weft_clause_send_from(weft_chan *chan, const void *item)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SEND);
    c.of.chan = chan;
    c.item = (void *)(uintptr_t)item; /* it is only read */
    return c;
}

/** Take a value from a queue. */
static inline weft_clause weft_clause_shift(weft_queue *queue)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SHIFT);
    c.of.queue = queue;
    return c;
}

/** A fiber ends: it is awaited. */
static inline weft_clause weft_clause_ended(weft_fiber fiber)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_ENDED);
    c.of.fiber = fiber;
    return c;
}

/** A descriptor is ready, as for weft_wait_fd. */
static inline weft_clause weft_clause_fd(int fd, int events)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_FD);
    c.of.fd = fd;
    c.events = events;
    return c;
}

/** A clause that does not happen, to leave one out. */
static inline weft_clause weft_clause_never(void)
{
    return weft__clause(WEFT_CLAUSE_NEVER);
}

/** So many seconds have passed since weft_select was called: in a loop, pass what is left. */
static inline weft_clause weft_clause_time(double seconds)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_TIME);
    c.of.seconds = seconds;
    return c;
}

/** The caller receives a message. */
static inline weft_clause weft_clause_message(void)
{
    return weft__clause(WEFT_CLAUSE_MESSAGE);
}

/**
 * Wait until one of the clauses can happen, and let it; returns its index. If one can at once,
 * there is no switch.
 *
 * A closed channel, a fiber that has ended, a descriptor in error: these happen, with value saying
 * so. -EINVAL for n = 0, for a clause that makes no sense (a NULL channel, a time that is negative,
 * an error code to be sent) and if all clauses are WEFT_CLAUSE_NEVER; -ESRCH, -EXDEV or -EDEADLK
 * for a fiber that cannot be awaited; -ENOMEM. When it fails, nothing has happened. Interrupted, it
 * returns that value as it is.
 */
WEFT_SWITCHPOINT int weft_select(weft_clause *clauses, size_t n);

/** The same without waiting: -EAGAIN if none can happen now. */
WEFT_API int weft_try_select(weft_clause *clauses, size_t n);

WEFT_END

#endif
