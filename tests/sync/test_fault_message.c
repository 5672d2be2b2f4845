/*
 * Channels, queues, mailboxes, monitors and signals when memory is short: each call does all or
 * nothing.
 */
#include "fault.h"

#include <pthread.h>
#include <signal.h>

static bool channelling(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = true;
    for (size_t cap = 0; cap < 40; cap += 13) {
        weft_chan *c = weft_chan_new(cap);
        REQUIRE(c != NULL || atomic_load(&fault.struck) > 0);
        is_done &= c != NULL;
        if (c == NULL)
            continue;
        /* Once it is there nothing is short any more. */
        for (size_t i = 0; i < cap; i++)
            REQUIRE(weft_chan_send(c, (weft_value)i) == 0);
        REQUIRE(weft_chan_try_send(c, 1) == -EAGAIN);
        for (size_t i = 0; i < cap; i++)
            REQUIRE(weft_chan_recv(c) == (weft_value)i);
        weft_chan_free(c);
    }
    return is_done;
}

START_TEST(a_channel_is_not_made_or_never_short_of_room)
{
    strike_each_call(channelling);
}
END_TEST

static weft_chan *shared;

static weft_value recv_shared(void *arg)
{
    (void)arg;
    return weft_chan_recv(shared);
}

static weft_value select_shared(void *arg)
{
    (void)arg;
    weft_clause c[] = {weft_clause_recv(shared), weft_clause_message()};
    int rc = weft_select(c, 2);
    return rc < 0 ? rc : c[rc].value;
}

/* To wait in it takes memory: who has none has received nothing, and does not wait. */
static bool receive_shared(weft_fn *fn)
{
    weft_fiber f = require_made(weft_spin(fn, NULL));
    if (f == 0)
        return false;
    weft_snooze();
    bool is_waiting = weft_chan_try_send(shared, 5) == 0;
    weft_value value = weft_await(f);
    REQUIRE(value == (is_waiting ? 5 : -ENOMEM));
    REQUIRE(!weft_chan_has_receivers(shared));
    return is_waiting;
}

static bool sharing(void)
{
    if (!become_a_cord())
        return false;
    shared = weft_chan_new_shared(0);
    REQUIRE(shared != NULL || atomic_load(&fault.struck) > 0);
    if (shared == NULL)
        return false;
    bool is_done = receive_shared(recv_shared);
    is_done &= receive_shared(select_shared);
    weft_chan_free(shared);
    return is_done;
}

START_TEST(who_cannot_wait_in_a_shared_channel_has_received_nothing)
{
    strike_each_call(sharing);
}
END_TEST

static weft_queue *queue;

static weft_value push_it(void *arg)
{
    return weft_queue_push(queue, (weft_value)arg);
}

/* Pushes that wait, and a bound that lets them in or stays. */
static bool raise_bound(void)
{
    weft_fiber f[20];
    size_t waiting = 0;
    queue = weft_queue_new(1);
    if (queue == NULL || !REQUIRE_TOLD(weft_queue_push(queue, 1))) {
        weft_queue_free(queue);
        return false;
    }
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[waiting] = require_made(weft_spin(push_it, as_arg((weft_value)i)));
        waiting += f[waiting] != 0;
    }
    weft_snooze();
    bool is_done = REQUIRE_TOLD(weft_queue_cap(queue, 0));
    REQUIRE(weft_queue_waiting_to_push(queue) == (is_done ? 0 : waiting));
    weft_queue_close(queue);
    for (size_t i = 0; i < waiting; i++)
        REQUIRE(weft_await(f[i]) == (is_done ? 0 : -EPIPE));
    weft_queue_free(queue);
    return is_done && waiting == COUNT_OF(f);
}

static bool queueing(void)
{
    if (!become_a_cord())
        return false;
    queue = weft_queue_new(0);
    REQUIRE(queue != NULL || atomic_load(&fault.struck) > 0);
    if (queue == NULL)
        return false;
    weft_value pushed[100];
    size_t n = 0;
    for (weft_value i = 0; i < 100; i++) {
        if (REQUIRE_TOLD(weft_queue_push(queue, i)))
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

START_TEST(a_push_that_is_short_of_memory_changes_nothing)
{
    strike_each_call(queueing);
}
END_TEST

static bool telling(void)
{
    if (!become_a_cord())
        return false;
    weft_fiber self = weft_self();
    weft_value told_ones[50];
    size_t n = 0;
    for (weft_value i = 0; i < 50; i++) {
        if (REQUIRE_TOLD(weft_tell(self, i)))
            told_ones[n++] = i;
        REQUIRE(weft_mailbox_count(self) == (ssize_t)n);
    }
    for (size_t i = 0; i < n; i++)
        REQUIRE(weft_receive() == told_ones[i]);
    bool is_done = n == 50;
    is_done &= REQUIRE_TOLD(weft_mailbox_bound(3));
    is_done &= REQUIRE_TOLD(weft_mailbox_bound(0));
    return is_done;
}

START_TEST(a_message_is_told_or_refused)
{
    strike_each_call(telling);
}
END_TEST

/* Who could be monitored is heard of, however short memory is by then. */
static bool monitoring(void)
{
    if (!become_a_cord())
        return false;
    weft_fiber f[30];
    bool is_monitored[COUNT_OF(f)];
    bool is_done = true;
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[i] = require_made(weft_spin(return_arg, as_arg((weft_value)i)));
        is_monitored[i] = f[i] != 0 && REQUIRE_TOLD(weft_monitor(f[i]));
        is_done &= is_monitored[i];
    }
    size_t others = 0;
    while (others < 2 * COUNT_OF(f) && REQUIRE_TOLD(weft_tell(weft_self(), 1)))
        others++; /* these must not take the places of the others */
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

START_TEST(who_could_be_monitored_is_heard_of)
{
    strike_each_call(monitoring);
}
END_TEST

static weft_fiber receiver;

static void *tell_ten(void *arg)
{
    weft_value n = 0;
    (void)arg;
    for (weft_value i = 0; i < 10; i++)
        n += weft_tell(receiver, i) == 0;
    return as_arg(n);
}

/* Only what was on its way already can be lost: where no answer is waited for. */
static bool telling_abroad(void)
{
    if (!become_a_cord())
        return false;
    receiver = weft_self();
    bool is_done = true;
    for (size_t bound = 0; bound < 4; bound += 3) {
        is_done &= REQUIRE_TOLD(weft_mailbox_bound(bound));
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
            weft_sleep(0); /* which looks for messages of other threads, too */
            usleep(100);   /* leave the CPU to the thread */
        }
        weft_sleep(0); /* what it sent last */
        for (; (v = weft_try_receive()) >= 0; last = v, received++)
            REQUIRE(v > last);
        REQUIRE(received == (weft_value)result || (bound == 0 && received < (weft_value)result));
        is_done &= received == 10;
    }
    weft_mailbox_bound(0);
    REQUIRE(is_done || atomic_load(&fault.struck) > 0);
    return is_done;
}

START_TEST(what_another_thread_could_tell_arrives)
{
    strike_each_call(telling_abroad);
}
END_TEST

static weft_value count_run(void *arg)
{
    ++*(int *)arg;
    return 0;
}

/* 0 if there is none. Also: what came before this call is on its way to those who handle it. */
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

/* A run for which there is no fiber is said to be lost, and nothing else happens. */
static bool run_for_signals(void)
{
    int runs = 0;
    if (!REQUIRE_TOLD(weft_on_signal(SIGUSR1, count_run, &runs)))
        return false;
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    REQUIRE_TOLD(take_signal(SIGUSR2));
    let_run();
    REQUIRE(weft_on_signal(SIGUSR1, NULL, NULL) == 0);
    return runs == 3;
}

static bool signalling(void)
{
    if (!become_a_cord())
        return false;
    bool is_done = run_for_signals();
    REQUIRE(is_done || atomic_load(&fault.struck) > 0);
    if (!REQUIRE_TOLD(take_signal(SIGUSR2)))
        return false;
    raise(SIGUSR2); /* caught from here on, so it is kept, and to take it needs no memory */
    REQUIRE(take_signal(SIGUSR2) == SIGUSR2);
    return is_done;
}

START_TEST(a_signal_is_caught_or_not_at_all)
{
    strike_each_call(signalling);
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &a_channel_is_not_made_or_never_short_of_room,
        &who_cannot_wait_in_a_shared_channel_has_received_nothing,
        &a_push_that_is_short_of_memory_changes_nothing,
        &a_message_is_told_or_refused,
        &who_could_be_monitored_is_heard_of,
        &what_another_thread_could_tell_arrives,
        &a_signal_is_caught_or_not_at_all,
    };
    return run_suite("fault_message", tests, COUNT_OF(tests));
}
