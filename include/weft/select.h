/*
 * Select: wait for the first of several events.
 *
 *     weft_clause c[] = {weft_clause_recv(jobs), weft_clause_ended(worker), weft_clause_time(5)};
 *     switch (weft_select(c, 3)) {
 *     case 0: run(c[0].value); break;
 *     case 1: ...
 *
 * A clause describes one event, for example a value in a channel. A clause is ready when its
 * operation would not wait. weft_select performs exactly one clause. No other clause takes or sends
 * a value. If several clauses are ready, weft_select chooses one of them at random. weft_select
 * does not poll.
 */
#ifndef WEFT_SELECT_H
#define WEFT_SELECT_H

#include <weft/chan.h>
#include <weft/queue.h>
#include <weft/signal.h>
#include <weft/sync.h>

WEFT_BEGIN

/* The kind of a clause. */
typedef enum weft_clause_kind {
    WEFT_CLAUSE_NEVER, /* all-zero; never ready */
    WEFT_CLAUSE_RECV,
    WEFT_CLAUSE_SEND,
    WEFT_CLAUSE_SHIFT,
    WEFT_CLAUSE_ENDED,
    WEFT_CLAUSE_FD,
    WEFT_CLAUSE_TIME,
    WEFT_CLAUSE_MESSAGE,
    WEFT_CLAUSE_SEM,
    WEFT_CLAUSE_EVENT,
    WEFT_CLAUSE_SIGNAL,
} weft_clause_kind;

/*
 * One event to wait for. Create a clause with the functions below. Create all clauses again for
 * each call. After weft_select, the performed clause has one of these values:
 *
 *   RECV: the received value, or 0 with an item; -EPIPE if the channel is closed and empty
 *   SEND: 0; -EPIPE if the channel is closed
 *   SHIFT: the value from the queue; -EPIPE if the queue is closed and empty
 *   ENDED: the value or the error of the fiber
 *   FD: the ready events (POLLIN, POLLOUT, POLLHUP, POLLERR), or an error
 *   TIME: 0
 *   MESSAGE: the message
 *   SEM: 0
 *   EVENT: 0
 *   SIGNAL: the number of the signal
 */
typedef struct weft_clause {
    weft_clause_kind kind;
    int events; /* FD */
    union {
        weft_chan *chan;         /* RECV, SEND */
        weft_queue *queue;       /* SHIFT */
        weft_fiber fiber;        /* ENDED */
        double seconds;          /* TIME */
        int fd;                  /* FD */
        weft_sem *sem;           /* SEM */
        weft_event *event;       /* EVENT */
        const sigset_t *signals; /* SIGNAL */
    } of;
    void *item;       /* RECV, SEND of a typed channel: destination or source; NULL: use value */
    weft_value value; /* before the call: the value of SEND; after the call: the result */
    uint64_t weft__private[8];
} weft_clause;

/** Return a clause of a kind. Private. */
static inline weft_clause weft__clause(weft_clause_kind kind)
{
    weft_clause c; /* weft_select initialises the private part */
    c.kind = kind;
    c.events = 0;
    c.of.chan = NULL;
    c.item = NULL;
    c.value = 0;
    return c;
}

/** Return a clause that receives a value from a channel. */
static inline weft_clause weft_clause_recv(weft_chan *chan)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_RECV);
    c.of.chan = chan;
    return c;
}

/**
 * Return a clause that receives an item of a typed channel into *out.
 *
 * The function name_chan of WEFT_CHAN_OF returns the channel.
 */
static inline weft_clause weft_clause_recv_into(weft_chan *chan, void *out)
{
    weft_clause c = weft_clause_recv(chan);
    c.item = out;
    return c;
}

/** Return a clause that sends a value to a channel. */
static inline weft_clause weft_clause_send(weft_chan *chan, weft_value value)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SEND);
    c.of.chan = chan;
    c.value = value;
    return c;
}

/** Return a clause that sends *item to a typed channel. */
static inline weft_clause weft_clause_send_from(weft_chan *chan, const void *item)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SEND);
    c.of.chan = chan;
    c.item = (void *)(uintptr_t)item; /* weft_select only reads the item */
    return c;
}

/** Return a clause that takes a value from a queue. */
static inline weft_clause weft_clause_shift(weft_queue *queue)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SHIFT);
    c.of.queue = queue;
    return c;
}

/** Return a clause that awaits a fiber, as weft_await does. */
static inline weft_clause weft_clause_ended(weft_fiber fiber)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_ENDED);
    c.of.fiber = fiber;
    return c;
}

/** Return a clause that waits for a descriptor, as weft_wait_fd does. */
static inline weft_clause weft_clause_fd(int fd, int events)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_FD);
    c.of.fd = fd;
    c.events = events;
    return c;
}

/** Return a clause that is never ready, as a placeholder. */
static inline weft_clause weft_clause_never(void)
{
    return weft__clause(WEFT_CLAUSE_NEVER);
}

/**
 * Return a clause that is ready after a number of seconds.
 *
 * The time starts when weft_select is called. In a loop, pass the remaining time.
 */
static inline weft_clause weft_clause_time(double seconds)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_TIME);
    c.of.seconds = seconds;
    return c;
}

/** Return a clause that receives a message from the caller's mailbox. */
static inline weft_clause weft_clause_message(void)
{
    return weft__clause(WEFT_CLAUSE_MESSAGE);
}

/**
 * Return a clause that takes a token from a semaphore.
 *
 * The clause has the effect of weft_sem_wait, and waits in the same queue.
 */
static inline weft_clause weft_clause_sem(weft_sem *sem)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SEM);
    c.of.sem = sem;
    return c;
}

/**
 * Return a clause that waits for an event, and clears the event.
 *
 * The clause has the effect of weft_event_wait. Setting the event wakes all fibers that wait. If
 * weft_select performs another clause at that time and no other fiber waits, the event remains set.
 */
static inline weft_clause weft_clause_event(weft_event *event)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_EVENT);
    c.of.event = event;
    return c;
}

/**
 * Return a clause that waits for one of several signals.
 *
 * The clause has the effect of weft_wait_signal. The set must remain valid during weft_select. A
 * signal wakes all fibers that wait for the signal. If weft_select performs another clause at that
 * time and no other fiber waits, weft stores the occurrence for the next wait.
 */
static inline weft_clause weft_clause_signal(const sigset_t *set)
{
    weft_clause c = weft__clause(WEFT_CLAUSE_SIGNAL);
    c.of.signals = set;
    return c;
}

/**
 * Wait until a clause is ready, and perform the clause.
 *
 * If a clause is ready at once, the call does not wait. The call then succeeds even in a fiber that
 * is being cancelled. A closed channel, an ended fiber and a failed descriptor are ready. The value
 * of the clause is then the result or the error. If the call fails, it has performed no clause. If
 * weft_interrupt ends the wait, the call returns the code of weft_interrupt.
 *
 * Returns the index of the performed clause, or:
 * -EDEADLK if a clause awaits the caller or an ancestor of the caller
 * -EINVAL if a clause has a NULL channel, queue, semaphore, event or set
 * -EINVAL if a clause has an unknown kind
 * -EINVAL if a clause of a typed channel has no item
 * -EINVAL if a set of signals is empty, or contains a signal that cannot be caught
 * -EINVAL if all clauses are WEFT_CLAUSE_NEVER
 * -EINVAL if clauses is NULL
 * -EINVAL if events contains neither POLLIN nor POLLOUT
 * -EINVAL if n is 0 or more than INT_MAX
 * -EINVAL if seconds is negative or NaN
 * -EINVAL if the value to send is an error code
 * -ENOMEM if memory is exhausted, or no thread can be created to receive signals
 * -ESRCH if a clause awaits a fiber that is gone
 * -EXDEV if a clause awaits a fiber of another thread
 * -EXDEV if a fiber of another thread waits for an event of a clause
 */
WEFT_SWITCHPOINT int weft_select(weft_clause *clauses, size_t n);

/**
 * Like weft_select, but without waiting.
 *
 * Errors in addition to those of weft_select:
 * -EAGAIN if no clause is ready
 */
WEFT_API int weft_try_select(weft_clause *clauses, size_t n);

WEFT_END

#endif
