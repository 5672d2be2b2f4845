/*
 * Select with shared channels: woken by other threads or by its own, never by both; two selects
 * that meet; no lost, duplicated or remaining values and waiters.
 */
#include "support/suite.h"
#include "sync/shared_support.h"

#include <poll.h>
#include <sys/epoll.h>

static weft_chan *shared, *local; /* local belongs to the thread that selects */

static void open_channels(size_t cap)
{
    reach_stage(0);
    shared = weft_chan_new_shared(cap);
    local = NULL;
}

static void assert_idle_then_free(void)
{
    ck_assert(!weft_chan_has_receivers(shared) && !weft_chan_has_senders(shared));
    weft_chan_free(shared);
}

/* Encode the chosen clause and its value. */
static weft_value encode_choice(int chosen, const weft_clause *c)
{
    return chosen < 0 ? chosen : chosen * 1000 + c[chosen].value;
}

static weft_value recv_either(void *arg)
{
    weft_clause c[] = {weft_clause_recv(local), weft_clause_recv(shared)};
    return encode_choice(weft_select(c, 2), c);
}

/* Run fn, which selects on the new local channel, in a fiber of this thread. */
static weft_value select_with_local(void *fn)
{
    local = weft_chan_new(0);
    weft_fiber f = spin_and_run((weft_fn *)fn, as_arg(7));
    reach_stage(1);
    weft_value value = weft_await(f);
    ck_assert(!weft_chan_has_receivers(local) && !weft_chan_has_senders(local));
    weft_chan_free(local);
    return value;
}

TEST_LOOP(closing_or_freeing_a_channel_ends_selects_in_other_threads, 2)
{
    open_channels(0);
    weft_cord other = start_cord(select_with_local, (void *)recv_either);
    wait_for_stage(1);
    if (_i == 0)
        weft_chan_close(shared);
    else
        weft_chan_free(shared);
    ck_assert_int_eq(weft_cord_join(other), 1000 - EPIPE);
    if (_i == 0)
        assert_idle_then_free();
}

/* A select on everything, and the event with which its own thread ends it first. */
typedef enum local_event {
    BY_CHANNEL,
    BY_MESSAGE,
    BY_END,
    BY_INTERRUPT,
    BY_CANCEL,
    EVENTS
} local_event;

static weft_fiber ending, selecting;

static weft_value select_everything(void *arg)
{
    weft_clause c[] = {weft_clause_recv(shared), weft_clause_recv(local), weft_clause_message(),
                       weft_clause_ended(ending), weft_clause_send(shared, 99)};
    return encode_choice(weft_select(c, COUNT_OF(c)), c);
}

static void spin_everything(weft_fn *fn)
{
    local = weft_chan_new(0);
    ending = spin_and_run(suspend, NULL);
    selecting = spin_and_run(fn, NULL);
}

static weft_event event;
static weft_value chosen_value = -EBUSY;
static int next_result;

/* Select on everything, then on the event. */
static weft_value select_twice(void *arg)
{
    chosen_value = select_everything(arg);
    weft_clause c = weft_clause_event(&event);
    next_result = weft_select(&c, 1);
    return 0;
}

THREAD_DO(set_event, ck_assert_int_eq(weft_event_set(&event), 0), arg)

/* Cancel the second select while the message of a thread is in flight. No interrupt is left. */
static void cancel_second_select(void)
{
    while (chosen_value == -EBUSY)
        weft_sleep(0);
    let_run();
    join_thread(start_thread(set_event, NULL));
    ck_assert_int_eq(cancel_and_await(selecting), -ECANCELED);
    ck_assert_int_eq(next_result, -ECANCELED);
}

/* Other clauses become ready before this thread handles the message of the other thread. */
static weft_value complete_after_remote_wake(void *arg)
{
    spin_everything(select_twice);
    reach_stage(1);
    wait_for_stage(2);
    ck_assert_int_eq(weft_chan_try_send(local, 5), -EAGAIN);
    ck_assert_int_eq(weft_tell(selecting, 6), 0);
    ck_assert_int_eq(weft_mailbox_count(selecting), 1);
    if (arg != NULL)
        weft_interrupt(selecting, -EINTR);
    ck_assert_int_eq(weft_schedule(ending, 44), 0);
    cancel_second_select();
    ck_assert_int_eq(weft_await(ending), 44);
    weft_chan_free(local);
    return chosen_value;
}

TEST_LOOP(once_another_thread_has_woken_a_select_no_other_clause_can_win, 4)
{
    open_channels(0);
    weft_cord other = start_cord(complete_after_remote_wake, as_arg(_i / 2));
    wait_for_stage(1);
    if (_i % 2 == 0)
        ck_assert_int_eq(weft_chan_try_send(shared, 33), 0);
    else
        ck_assert_int_eq(weft_chan_try_recv(shared), 99);
    reach_stage(2);
    ck_assert_int_eq(weft_cord_join(other), _i % 2 == 0 ? 33 : 4000);
    assert_idle_then_free();
}

static weft_value complete_in_own_thread(void *arg)
{
    spin_everything(select_everything);
    switch ((local_event)(weft_value)arg) {
    case BY_CHANNEL:
        ck_assert_int_eq(weft_chan_send(local, 5), 0);
        break;
    case BY_MESSAGE:
        ck_assert_int_eq(weft_tell(selecting, 6), 0);
        break;
    case BY_END:
        weft_cancel(ending);
        let_run();
        break;
    case BY_INTERRUPT:
        ck_assert_int_eq(weft_interrupt(selecting, -EINTR), 0);
        break;
    default:
        weft_cancel(selecting);
    }
    reach_stage(1); /* the select has not run yet */
    wait_for_stage(2);
    weft_value value = weft_await(selecting);
    weft_chan_free(local);
    weft_cancel(ending);
    return value;
}

TEST_LOOP(once_its_own_thread_has_woken_a_select_other_threads_cannot, EVENTS)
{
    static const weft_value expected[] = {1005, 2006, 3000 - ECANCELED, -EINTR, -ECANCELED};
    open_channels(0);
    weft_cord other = start_cord(complete_in_own_thread, as_arg(_i));
    wait_for_stage(1);
    ck_assert_int_eq(weft_chan_try_send(shared, 33), -EAGAIN);
    ck_assert_int_eq(weft_chan_try_recv(shared), -EAGAIN);
    reach_stage(2);
    ck_assert_int_eq(weft_cord_join(other), expected[_i]);
    assert_idle_then_free();
}

/* Two selects, each with a channel of its own thread besides the rendezvous. */
#define MEETINGS 5000

static weft_value meet_often(void *arg)
{
    bool is_sender = arg != NULL;
    weft_chan *own = weft_chan_new(0);
    for (weft_value i = 0; i < MEETINGS; i++) {
        weft_clause c[] = {weft_clause_recv(own),
                           is_sender ? weft_clause_send(shared, i) : weft_clause_recv(shared)};
        if (weft_select(c, 2) != 1 || c[1].value != (is_sender ? 0 : i))
            return 1;
    }
    weft_chan_free(own);
    return 0;
}

TEST(two_selects_of_different_threads_meet_in_a_rendezvous)
{
    open_channels(0);
    weft_cord other = start_cord(meet_often, NULL);
    ck_assert_int_eq(meet_often(as_arg(1)), 0);
    ck_assert_int_eq(weft_cord_join(other), 0);
    assert_idle_then_free();
}

static weft_value select_with_time_and_pipe(void *arg)
{
    int fd[2];
    ck_assert_int_eq(weft_pipe(fd), 0);
    weft_clause c[] = {weft_clause_recv(shared), weft_clause_time(INFINITY),
                       weft_clause_fd(fd[0], POLLIN)};
    reach_stage(1);
    int chosen = weft_select(c, 3);
    weft_close(fd[0]);
    weft_close(fd[1]);
    return encode_choice(chosen, c);
}

TEST(a_select_with_a_time_and_a_descriptor_is_woken_by_another_thread)
{
    open_channels(0);
    weft_cord other = start_cord(select_with_time_and_pipe, NULL);
    wait_for_stage(1);
    ck_assert_int_eq(weft_chan_send(shared, 12), 0);
    ck_assert_int_eq(weft_cord_join(other), 12);
    assert_idle_then_free();
}

/* The most nested epoll instances. Another epoll instance does not accept the outermost. */
#define EPOLLS 5

static void open_nested_epolls(int fds[EPOLLS])
{
    for (int i = 0; i < EPOLLS; i++) {
        fds[i] = epoll_create1(EPOLL_CLOEXEC);
        ck_assert_int_ge(fds[i], 0);
        struct epoll_event watched = {.events = EPOLLIN};
        if (i > 0)
            ck_assert_int_eq(epoll_ctl(fds[i], EPOLL_CTL_ADD, fds[i - 1], &watched), 0);
    }
}

static weft_value select_on_nested_epolls(void *arg)
{
    weft_event quiet = {0};
    weft_clause c[] = {weft_clause_recv(shared), weft_clause_event(&quiet),
                       weft_clause_fd(*(int *)arg, POLLIN)};
    ck_assert_int_eq(weft_select(c, 3), 2);
    ck_assert_int_eq(c[2].value, -ELOOP);
    ck_assert_str_eq(info_of(weft_self()).waits_for, "");
    return weft_snooze();
}

/* On epoll, the descriptor passes the check of the select, and then cannot be added. */
TEST(a_select_whose_descriptor_fails_after_the_check_leaves_no_wait)
{
    int fds[EPOLLS];
    if (strcmp(weft_backend_name(), "epoll") != 0)
        return;
    open_channels(0);
    open_nested_epolls(fds);
    weft_fiber f = weft_spin(select_on_nested_epolls, &fds[EPOLLS - 1]);
    ck_assert_int_eq(weft_await(f), 0);
    for (int i = 0; i < EPOLLS; i++)
        close(fds[i]);
    assert_idle_then_free();
}

static int end_while_selecting(void)
{
    open_channels(0);
    weft_chan *last = weft_chan_new_shared(0);
    start_end_of_process(shared, last);
    weft_clause c[] = {weft_clause_recv(shared), weft_clause_recv(last)};
    weft_select(c, 2);
    return 1;
}

TEST(a_process_may_end_while_its_main_fiber_selects_and_leaves_no_waiter)
{
    assert_ends_woken_or_not(end_while_selecting);
}

/* Traffic: fibers of all threads select at random on all channels, in both directions. */

#define CORDS 4
#define FIBERS 3
#define CHANNELS 3
#define ROUNDS 600

static weft_chan *chans[CHANNELS];
static atomic_llong in_transit, sum_in_transit, sent; /* sent minus received; all sent */

static void count_value(int direction, weft_value value)
{
    atomic_fetch_add(&in_transit, direction);
    atomic_fetch_add(&sum_in_transit, direction * value);
}

/* Fill c with random clauses, one on a channel of this thread and one with a short timeout. */
static size_t draw_clauses(uint32_t *random, weft_chan *own, weft_clause *c, weft_value value)
{
    size_t n = 0;
    for (int i = 0; i < CHANNELS; i++) {
        if (next_random(random) % 2 == 0)
            c[n++] = weft_clause_recv(chans[i]);
        if (next_random(random) % 2 == 0)
            c[n++] = weft_clause_send(chans[i], value);
    }
    c[n++] = next_random(random) % 2 == 0 ? weft_clause_recv(own) : weft_clause_send(own, value);
    c[n++] = weft_clause_time(next_random(random) % 200 * 1e-6);
    return n;
}

typedef struct selector {
    uint32_t random;
    weft_chan *own;
} selector;

static weft_value select_at_random(void *arg)
{
    selector *s = arg;
    for (int i = 0; i < ROUNDS; i++) {
        weft_clause c[2 * CHANNELS + 2];
        weft_value value = 1 + next_random(&s->random) % 1000;
        size_t n = draw_clauses(&s->random, s->own, c, value);
        int chosen = weft_select(c, n);
        ck_assert_int_ge(chosen, 0);
        if (c[chosen].kind == WEFT_CLAUSE_RECV)
            count_value(-1, c[chosen].value);
        if (c[chosen].kind == WEFT_CLAUSE_SEND && c[chosen].value == 0) {
            count_value(1, value);
            atomic_fetch_add(&sent, 1);
        }
    }
    return 0;
}

static weft_value select_in_fibers(void *arg)
{
    weft_chan *own = weft_chan_new(0);
    selector s[FIBERS];
    weft_fiber f[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        s[i] =
            (selector){.random = (uint32_t)((weft_value)arg * FIBERS + i + 1) * 7919, .own = own};
        f[i] = weft_spin(select_at_random, &s[i]);
    }
    weft_value rc = weft_await_all(f, FIBERS, NULL);
    weft_chan_free(own);
    return rc;
}

static const size_t capacities[] = {0, 1, 5};

TEST_ROWS(selects_in_four_threads_lose_and_duplicate_no_value, capacities)
{
    weft_cord cords[CORDS];
    for (int i = 0; i < CHANNELS; i++)
        chans[i] = weft_chan_new_shared(capacities[_i]);
    for (int i = 0; i < CORDS; i++)
        cords[i] = start_cord(select_in_fibers, as_arg(i));
    for (int i = 0; i < CORDS; i++)
        ck_assert_int_eq(weft_cord_join(cords[i]), 0);
    for (int i = 0; i < CHANNELS; i++) {
        weft_value value;
        while ((value = weft_chan_try_recv(chans[i])) >= 0)
            count_value(-1, value);
        ck_assert_int_eq(value, -EAGAIN);
        ck_assert(!weft_chan_has_receivers(chans[i]) && !weft_chan_has_senders(chans[i]));
        weft_chan_free(chans[i]);
    }
    ck_assert_int_eq(atomic_load(&in_transit), 0);
    ck_assert_int_eq(atomic_load(&sum_in_transit), 0);
    ck_assert_int_gt(atomic_load(&sent), 0);
}
