/*
 * Channels, queues, mailboxes, monitors and signals with failing allocations and system calls. Each
 * call has its full effect or none.
 */
#include "support/fault.h"
#include "support/suite.h"

#include <pthread.h>
#include <signal.h>

static bool use_channels(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = true;
    for (size_t cap = 0; cap < 40; cap += 13) {
        weft_chan *c = weft_chan_new(cap);
        is_done &= require_object(c);
        if (c == NULL)
            continue;
        /* An existing channel needs no further memory. */
        for (size_t i = 0; i < cap; i++)
            REQUIRE(weft_chan_send(c, (weft_value)i) == 0);
        REQUIRE(weft_chan_try_send(c, 1) == -EAGAIN);
        for (size_t i = 0; i < cap; i++)
            REQUIRE(weft_chan_recv(c) == (weft_value)i);
        weft_chan_free(c);
    }
    weft_error_clear();
    return is_done;
}

FAULT_TEST(creating_a_channel_fails_or_the_channel_never_runs_out_of_memory, use_channels, 1)

static weft_chan *shared;

FIBER(recv_shared, weft_chan_recv(shared))

static weft_value select_shared(void *arg)
{
    weft_clause c[] = {weft_clause_recv(shared), weft_clause_message()};
    int rc = weft_select(c, 2);
    return rc < 0 ? rc : c[rc].value;
}

/* A wait in a shared channel needs memory. Without memory, the call fails and receives nothing. */
static bool receive_shared(weft_fn *fn)
{
    weft_fiber f = require_created(weft_spin(fn, NULL));
    if (f == 0)
        return false;
    weft_snooze();
    bool is_waiting = weft_chan_try_send(shared, 5) == 0;
    weft_value value = weft_await(f);
    REQUIRE(value == (is_waiting ? 5 : -ENOMEM));
    REQUIRE(!weft_chan_has_receivers(shared));
    return is_waiting;
}

static bool use_shared_channel(void)
{
    if (!become_a_cord())
        return false;
    shared = weft_chan_new_shared(0);
    if (!require_object(shared))
        return false;
    bool is_done = receive_shared(recv_shared);
    is_done &= receive_shared(select_shared);
    weft_chan_free(shared);
    return is_done;
}

FAULT_TEST(a_receiver_that_cannot_wait_in_a_shared_channel_receives_nothing, use_shared_channel, 1)

static weft_queue *queue;

FIBER(push_arg, weft_queue_push(queue, (weft_value)arg))

/* Let pushes wait, then raise the bound. All pushes complete, or the bound does not change. */
static bool raise_bound(void)
{
    weft_fiber f[20];
    size_t waiting = 0;
    queue = weft_queue_new(1);
    if (queue == NULL || !REQUIRE_OR_FAULT(weft_queue_push(queue, 1))) {
        weft_queue_free(queue);
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[waiting] = require_created(weft_spin(push_arg, as_arg((weft_value)i)));
        waiting += f[waiting] != 0;
    }
    weft_snooze();
    bool is_done = REQUIRE_OR_FAULT(weft_queue_set_cap(queue, 0));
    weft_queue_close(queue);
    for (size_t i = 0; i < waiting; i++)
        REQUIRE(weft_await(f[i]) == (is_done ? 0 : -EPIPE));
    weft_queue_free(queue);
    return is_done && waiting == COUNT_OF(f);
}

static bool use_queues(void)
{
    if (!become_a_cord())
        return false;
    queue = weft_queue_new(0);
    if (!require_object(queue))
        return false;
    weft_value pushed[100];
    size_t n = 0;
    for (weft_value i = 0; i < 100; i++) {
        if (REQUIRE_OR_FAULT(weft_queue_push(queue, i)))
            pushed[n++] = i;
        REQUIRE(weft_queue_count(queue) == n);
    }
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_queue_shift(queue) == pushed[i]);
    weft_queue_free(queue);
    bool is_done = raise_bound();
    weft_error_clear();
    return is_done && n == 100;
}

FAULT_TEST(a_push_without_memory_changes_nothing, use_queues, 1)

static bool tell_self(void)
{
    if (!become_a_cord())
        return false;
    weft_fiber self = weft_self();
    weft_value values_told[50];
    size_t n = 0;
    for (weft_value i = 0; i < 50; i++) {
        if (REQUIRE_OR_FAULT(weft_tell(self, i)))
            values_told[n++] = i;
        REQUIRE(weft_mailbox_count(self) == (ssize_t)n);
    }
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_receive() == values_told[i]);
    bool is_done = n == 50;
    is_done &= REQUIRE_OR_FAULT(weft_mailbox_set_bound(3));
    is_done &= REQUIRE_OR_FAULT(weft_mailbox_set_bound(0));
    return is_done;
}

FAULT_TEST(a_message_is_delivered_or_refused, tell_self, 1)

/* The end of a monitored fiber is reported even if memory runs out afterwards. */
static bool monitor_fibers(void)
{
    if (!become_a_cord())
        return false;
    weft_fiber f[30];
    bool is_monitored[COUNT_OF(f)];
    bool is_done = true;
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[i] = require_created(weft_spin(return_arg, as_arg((weft_value)i)));
        is_monitored[i] = f[i] != 0 && REQUIRE_OR_FAULT(weft_monitor(f[i]));
        is_done &= is_monitored[i];
    }
    size_t others = 0;
    while (others < 2 * COUNT_OF(f) && REQUIRE_OR_FAULT(weft_tell(weft_self(), 1)))
        others++; /* these must not use the memory reserved for the ends */
    weft_snooze();
    for (size_t i = 0; i < others; i++)
        REQUIRE(weft_try_receive() == 1);
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        if (is_monitored[i])
            REQUIRE(weft_try_receive() == (weft_value)f[i]);
        if (f[i] != 0)
            REQUIRE(weft_await(f[i]) == (weft_value)i);
    }
    REQUIRE(weft_try_receive() == -EAGAIN);
    weft_error_clear();
    return is_done && others == 2 * COUNT_OF(f);
}

FAULT_TEST(the_end_of_a_monitored_fiber_is_reported, monitor_fibers, 1)

static weft_fiber receiver;

static void *tell_ten(void *arg)
{
    weft_value n = 0;
    for (weft_value i = 0; i < 10; i++)
        n += weft_tell(receiver, i) == 0;
    return as_arg(n);
}

/* Only messages to an unbounded mailbox can be lost: their senders do not wait for a reply. */
static bool tell_from_thread(void)
{
    if (!become_a_cord())
        return false;
    receiver = weft_self();
    bool is_done = true;
    for (size_t bound = 0; bound < 4; bound += 3) {
        is_done &= REQUIRE_OR_FAULT(weft_mailbox_set_bound(bound));
        pthread_t thread;
        if (pthread_create(&thread, NULL, tell_ten, NULL) != 0) {
            is_done = false;
            continue;
        }
        void *result;
        weft_value received = 0, last = -1, v;
        while (pthread_tryjoin_np(thread, &result) != 0) {
            for (; (v = weft_try_receive()) >= 0; last = v, received++)
                REQUIRE(v > last);
            weft_sleep(0); /* handles messages of other threads too */
            usleep(100);   /* leave the CPU to the thread */
        }
        weft_sleep(0); /* handles its last messages */
        for (; (v = weft_try_receive()) >= 0; last = v, received++)
            REQUIRE(v > last);
        REQUIRE(received == (weft_value)result || (bound == 0 && received < (weft_value)result));
        is_done &= received == 10;
    }
    weft_mailbox_set_bound(0);
    REQUIRE(is_done || atomic_load(&fault.injected) > 0);
    return is_done;
}

FAULT_TEST(messages_told_by_another_thread_arrive, tell_from_thread, 1)

/* Return sig if it is pending, 0 if not. Also forward earlier signals to their handlers. */
static int take_signal(int sig)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    int rc = 0;
    WEFT_MOVE_ON_AFTER(0) {
        rc = weft_wait_signal(&set);
    }
    return rc != -ECANCELED ? rc : 0;
}

/*
 * If the fiber of a handler cannot be created, the run is reported as lost, without other effects.
 */
static bool run_for_signals(void)
{
    int runs = 0;
    if (!REQUIRE_OR_FAULT(weft_on_signal(SIGUSR1, increment_int, &runs)))
        return false;
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    REQUIRE_OR_FAULT(take_signal(SIGUSR2));
    let_run();
    REQUIRE(weft_on_signal(SIGUSR1, NULL, NULL) == 0);
    return runs == 3;
}

static bool catch_signals(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = run_for_signals();
    REQUIRE(is_done || atomic_load(&fault.injected) > 0);
    if (!REQUIRE_OR_FAULT(take_signal(SIGUSR2)))
        return false;
    raise(SIGUSR2); /* caught from here on: kept until taken, and taking it needs no memory */
    REQUIRE(take_signal(SIGUSR2) == SIGUSR2);
    return is_done;
}

FAULT_TEST(a_signal_is_caught_or_not_at_all, catch_signals, 1)
