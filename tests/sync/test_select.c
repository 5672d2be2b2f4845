/* Select: the first of several events of channels, queues, fibers, mailboxes and times. */
#include "support/suite.h"
#include "sync/select_steps.h"

#include <poll.h>

static weft_chan *chan, *full, *empty; /* of capacity 0; of capacity 1, with and without the 1 */
static weft_queue *queue;

static void open_objects(void)
{
    chan = weft_chan_new(0);
    full = weft_chan_new(1);
    empty = weft_chan_new(1);
    queue = weft_queue_new(0);
    ck_assert_int_eq(weft_chan_try_send(full, 1), 0);
}

static void free_objects(void)
{
    weft_chan_free(chan);
    weft_chan_free(full);
    weft_chan_free(empty);
    weft_queue_free(queue);
}

static void assert_chan_idle_then_free(void)
{
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan));
    free_objects();
}

FIXTURE(open_objects, assert_chan_idle_then_free)

STEP(put, weft_chan_try_send(chan, arg))
STEP(take_full, weft_chan_try_recv(full))
STEP(push, weft_queue_push(queue, arg))
STEP(tell, weft_tell(actors[A].fiber, arg))
STEP(timers, armed_timers())

TEST(a_ready_clause_is_chosen_without_a_switch)
{
    weft_queue_push(queue, 3);
    weft_fiber ended = weft_spin(return_arg, as_arg(4));
    weft_tell(weft_self(), 5);
    let_run();
    weft_spin(mark_and_return, "switched");
    uint64_t switches = stats().switches;
    const weft_clause never = weft_clause_never();
    play({M, pick, CHOSE(1, 1), CLAUSES(never, weft_clause_recv(full))},
         {M, pick, CHOSE(1, 0), CLAUSES(never, weft_clause_send(empty, 2))},
         {M, pick, CHOSE(1, 3), CLAUSES(never, weft_clause_shift(queue))},
         {M, pick, CHOSE(1, 4), CLAUSES(never, weft_clause_ended(ended))},
         {M, pick, CHOSE(1, 5), CLAUSES(never, weft_clause_message())},
         {M, pick, CHOSE(1, 0), CLAUSES(never, weft_clause_time(0))});
    ck_assert_uint_eq(stats().switches, switches);
    ck_assert_trail("");
    ck_assert_uint_eq(weft_chan_count(full), 0);
    ck_assert_int_eq(weft_chan_try_recv(empty), 2);
    ck_assert_uint_eq(weft_queue_count(queue), 0);
    ck_assert_int_eq(weft_await(ended), -ESRCH);
    ck_assert_int_eq(weft_try_receive(), -EAGAIN);
}

TEST(a_select_waits_for_the_earliest_time_if_no_other_clause_is_ready)
{
    weft_fiber alive = spin_suspended();
    double begin = weft_now();
    play({M, pick, CHOSE(6, 0),
          CLAUSES(weft_clause_time(INFINITY), weft_clause_recv(chan), weft_clause_ended(alive),
                  weft_clause_message(), weft_clause_shift(queue), weft_clause_time(5),
                  weft_clause_time(0.002), weft_clause_time(6))},
         {M, timers, 0});
    ck_assert_slept(begin, 0.002);
    for (int i = 0; i < 20; i++)
        play({M, pick, CHOSE(3, 0),
              CLAUSES(weft_clause_time(1000), weft_clause_time(1000), weft_clause_time(999),
                      weft_clause_time(1e-6))});
}

typedef struct point {
    int x, y, z;
} point;

WEFT_CHAN_OF(points, point);

/* Several clauses: A waits in a select with one clause of each kind. */

static weft_fiber target;
static selection mixture;

STEP(finish, weft_schedule(target, arg))

static void wait_for_mixture(void)
{
    target = spin_suspended();
    mixture = *(selection *)CLAUSES(weft_clause_recv(chan), weft_clause_send(empty, 20),
                                    weft_clause_shift(queue), weft_clause_never(),
                                    weft_clause_ended(target), weft_clause_message(),
                                    weft_clause_time(INFINITY), weft_clause_time(1000));
    ck_assert_int_eq(weft_chan_try_send(empty, 1), 0);
    play({A, pick, WAITS, (weft_value)&mixture});
}

static void assert_losers_unchanged(int winner)
{
    ck_assert(!weft_chan_has_receivers(chan) && !weft_chan_has_senders(empty));
    size_t queued = weft_queue_count(queue);
    ck_assert_int_eq(weft_queue_push(queue, 9), 0);
    ck_assert_uint_eq(weft_queue_count(queue), queued + 1); /* no fiber waits to shift */
    ck_assert_uint_eq(armed_timers(), 0);
    for (int i = 0; i < (int)mixture.n; i++)
        if (i != winner)
            ck_assert_int_eq(mixture.c[i].value, i == 1 ? 20 : 0);
    if (winner != 4)
        ck_assert_int_eq(weft_schedule(target, 44), 0);
    ck_assert_int_eq(weft_await(target), winner != 4 ? 44 : -ESRCH);
}

STEP(take_empty, weft_chan_try_recv(empty))

static const struct {
    int winner;
    step complete;
    weft_value value;
} winners[] = {{0, {M, put, 0, 10}, 10},
               {1, {M, take_empty, 1}, 0},
               {2, {M, push, 0, 30}, 30},
               {4, {M, finish, 0, 40}, 40},
               {5, {M, tell, 0, 50}, 50}};

TEST_ROWS(clauses_that_lose_have_no_effect, winners)
{
    wait_for_mixture();
    play(winners[_i].complete, {A, returns, CHOSE(winners[_i].winner, winners[_i].value)});
    assert_losers_unchanged(winners[_i].winner);
}

static inline weft_value stop(weft_value arg)
{
    ck_assert_int_eq(weft_schedule(actors[arg].fiber, 1), -EBUSY);
    weft_stop(actors[arg].fiber, 17);
    is_over = true; /* no further step */
    ck_assert_int_eq(weft_await(actors[arg].fiber), 17);
    return 0;
}

static const struct {
    step_call *call;
    weft_value result;
} disturbances[] = {
    {cancel, -ECANCELED}, {raise_error, RAISED}, {interrupt, -EINTR}, {stop, -ECANCELED}};

TEST_ROWS(an_interrupted_select_leaves_all_wait_queues, disturbances)
{
    wait_for_mixture();
    play({M, disturbances[_i].call, 0, A}, {A, returns, disturbances[_i].result});
    assert_losers_unchanged(-1);
}

TEST(the_timer_of_a_losing_clause_is_disarmed)
{
    play({A, pick, WAITS, CLAUSES(weft_clause_time(1000), weft_clause_recv(chan))}, {M, timers, 1},
         {M, put, 0, 1}, {M, timers, 0}, {A, returns, CHOSE(1, 1)});
}

FIBER_DO(fail_when_scheduled, weft_suspend(), fail_with(arg))

TEST_LOOP(the_error_of_a_fiber_becomes_the_value_with_its_message_and_does_not_reach_the_parent, 2)
{ /* P37 */
    weft_fiber f = spin_waiting(fail_when_scheduled, as_arg(-EIO));
    weft_schedule(f, 0);
    if (_i == 1) {
        WEFT_SHIELD(INFINITY) { /* the error of f must not fail let_run */
            let_run();
        }
    }
    play({M, pick, CHOSE(1, -EIO), CLAUSES(weft_clause_time(INFINITY), weft_clause_ended(f))});
    ck_assert_error(-EIO, "broken");
    ck_assert_int_eq(weft_snooze(), 0);
}

TEST(fibers_that_end_in_one_tick_are_reported_once_each)
{
    weft_fiber f = spin_suspended(), g = spin_suspended();
    weft_schedule(f, 1);
    weft_schedule(g, 2);
    weft_clause c[] = {weft_clause_ended(g), weft_clause_ended(f), weft_clause_ended(f)};
    int i = weft_select(c, 3);
    ck_assert_int_ge(i, 1); /* f ended first, in either clause */
    ck_assert_int_eq(c[i].value, 1);
    ck_assert_int_eq(c[0].value, 0);
    ck_assert_int_eq(c[3 - i].value, 0);
    ck_assert_int_eq(weft_await(g), 2);
    ck_assert_int_eq(weft_await(f), -ESRCH);
}

STEP(await_target, weft_await(target))

TEST(select_and_await_get_the_same_value)
{
    target = spin_suspended();
    play({A, await_target, WAITS},
         {B, pick, WAITS, CLAUSES(weft_clause_ended(target), weft_clause_time(INFINITY))},
         {C, await_target, WAITS}, {M, finish, 0, 6}, {A, returns, 6}, {B, returns, CHOSE(0, 6)},
         {C, returns, 6});
}

TEST(a_clause_of_a_closed_channel_is_ready_at_once)
{
    weft_queue_close(queue);
    weft_chan_close(full);
    point out = {0};
    play({M, pick, CHOSE(0, 1), CLAUSES(weft_clause_recv(full))}, /* remaining values first */
         {M, pick, CHOSE(0, -EPIPE), CLAUSES(weft_clause_recv(full))},
         {M, pick, CHOSE(0, -EPIPE), CLAUSES(weft_clause_send(full, 2))},
         {M, pick, CHOSE(0, -EPIPE), CLAUSES(weft_clause_shift(queue))},
         {M, pick, CHOSE(0, -EPIPE), CLAUSES(weft_clause_recv_into(full, &out))},
         {M, pick, CHOSE(0, -EPIPE), CLAUSES(weft_clause_send_from(full, &out))});
}

TEST_LOOP(closing_or_freeing_a_channel_ends_a_waiting_select, 2)
{
    weft_value item = 5;
    const weft_clause never = weft_clause_time(INFINITY);
    play({A, pick, WAITS, CLAUSES(never, weft_clause_recv(empty))},
         {B, pick, WAITS, CLAUSES(weft_clause_recv(empty), weft_clause_recv_into(empty, &item))},
         {C, pick, WAITS, CLAUSES(never, weft_clause_send(chan, 1), weft_clause_send(chan, 2))},
         {D, pick, WAITS, CLAUSES(weft_clause_send_from(chan, &item), weft_clause_send(chan, 2))},
         {E, pick, WAITS, CLAUSES(never, weft_clause_shift(queue), weft_clause_message())});
    if (_i == 0) {
        weft_chan_close(empty);
        weft_chan_close(chan);
        weft_queue_close(queue);
    } else {
        free_objects();
        open_objects();
    }
    play({A, returns, CHOSE(1, -EPIPE)}, {B, returns, CHOSE(0, -EPIPE)},
         {C, returns, CHOSE(1, -EPIPE)}, {D, returns, CHOSE(0, -EPIPE)},
         {E, returns, CHOSE(1, -EPIPE)});
    ck_assert_int_eq(item, 5);
}

TEST(try_select_never_waits)
{
    selection s = {{weft_clause_recv(chan), weft_clause_send(full, 8), weft_clause_never(),
                    weft_clause_shift(queue), weft_clause_ended(spin_suspended()),
                    weft_clause_message(), weft_clause_time(INFINITY), weft_clause_time(1e-9),
                    weft_clause_recv(full)},
                   8};
    uint64_t switches = stats().switches;
    play({M, try_pick, -EAGAIN, (weft_value)&s});
    s.n = 9;
    play({M, try_pick, CHOSE(8, 1), (weft_value)&s});
    s.n = 2;
    play({M, try_pick, CHOSE(1, 0), (weft_value)&s}, {M, take_full, 8});
    ck_assert_uint_eq(stats().switches, switches);
    ck_assert(!weft_chan_has_senders(full));
}

TEST(clauses_that_are_never_ready_are_ignored)
{
    play({M, pick, -EINVAL, CLAUSES({0}, {0}, {0})});
    ck_assert_any_error(-EINVAL);
    play({A, pick, WAITS, CLAUSES({0}, weft_clause_recv(chan), {0})}, {M, put, 0, 7},
         {A, returns, CHOSE(1, 7)});
}

THREAD_DO(store_id_of_thread, *(weft_fiber *)arg = weft_self(), 0)

static weft_value select_parent(void *arg)
{
    weft_clause c[] = {weft_clause_time(0), weft_clause_ended(arg_id(arg))};
    return weft_select(c, 2) == -EDEADLK;
}

TEST(an_invalid_clause_is_refused_without_any_effect)
{
    points *ps = points_new(1);
    weft_clause invalid = weft_clause_time(0);
    invalid.kind = (weft_clause_kind)99;
    weft_fiber awaited = weft_spin(return_arg, NULL), foreign = 0;
    weft_await(awaited);
    join_thread(start_thread(store_id_of_thread, &foreign));
    const struct {
        weft_clause clause;
        int error;
    } cases[] = {
        {weft_clause_recv(NULL), -EINVAL},
        {weft_clause_send(NULL, 1), -EINVAL},
        {weft_clause_send(full, -EIO), -EINVAL},
        {weft_clause_shift(NULL), -EINVAL},
        {weft_clause_recv(points_chan(ps)), -EINVAL},
        {weft_clause_send(points_chan(ps), 1), -EINVAL},
        {weft_clause_time(-1e-9), -EINVAL},
        {weft_clause_time((double)NAN), -EINVAL},
        {weft_clause_fd(0, 0), -EINVAL},
        {invalid, -EINVAL},
        {weft_clause_ended(0), -ESRCH},
        {weft_clause_ended(awaited), -ESRCH},
        {weft_clause_ended(weft_self()), -EDEADLK},
        {weft_clause_ended(foreign), -EXDEV},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        weft_clause c[] = {weft_clause_recv(full), weft_clause_time(0), cases[i].clause};
        ck_assert_int_eq(weft_select(c, 3), cases[i].error);
        ck_assert_int_eq(weft_try_select(c, 3), cases[i].error);
        ck_assert_uint_eq(weft_chan_count(full), 1);
        ck_assert_int_eq(c[0].value, 0);
    }
    ck_assert_int_eq(weft_select(NULL, 0), -EINVAL);
    ck_assert_int_eq(weft_select(NULL, 3), -EINVAL);
    ck_assert_int_eq(weft_try_select(&invalid, 0), -EINVAL);
    ck_assert_int_eq(weft_await(weft_spin(select_parent, id_arg(weft_self()))), 1);
    points_free(ps);
}

TEST(the_error_message_names_the_invalid_clause)
{
    play({M, pick, -EINVAL, CLAUSES(weft_clause_time(1), weft_clause_time(-1))});
    ck_assert_error(-EINVAL, "weft_select: clause 1: seconds is negative or NaN");
}

TEST_PROGRAM_PRINTS(a_select_that_no_event_can_end_is_reported, 0, "a select")
{ /* P80 */
    weft_clause c[] = {weft_clause_recv(chan), weft_clause_send(chan, 1), weft_clause_message(),
                       weft_clause_time(INFINITY)};
    int rc = weft_select(c, 4);
    bool has_left = !weft_chan_has_receivers(chan) && !weft_chan_has_senders(chan);
    free_objects();
    return rc == -EDEADLK && has_left ? 0 : 1;
}

/* Give the kernel time to complete an operation after the selecting fiber has ended. */
static weft_value sleep_then_shield(void *arg)
{
    weft_value rc = weft_sleep(INFINITY);
    WEFT_SHIELD(INFINITY) {
        weft_sleep(0.002);
    }
    return rc;
}

TEST_PROGRAM(the_process_may_end_while_main_selects, 3, "")
{
    int fd[2];
    weft_pipe(fd);
    weft_spin(sleep_then_shield, NULL);
    weft_spin(snooze_and_exit, as_arg(3));
    pick(CLAUSES(weft_clause_fd(fd[0], POLLIN), weft_clause_message(), weft_clause_time(1000)));
    return 1;
}
