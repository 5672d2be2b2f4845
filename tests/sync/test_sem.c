/* Semaphores, latches and barriers: which waiters wake, their order, and exact counts. */
#include "support/suite.h"
#include "sync/steps.h"

static weft_sem sem;
static weft_latch latch;
static weft_barrier barrier;

STEP(open_sem, (weft_sem_open(&sem, (size_t)arg), 0))
STEP(take, weft_sem_wait(&sem))
STEP(try_take, weft_sem_try_wait(&sem))
STEP(post, weft_sem_post(&sem))
STEP(tokens, weft_sem_count(&sem))
STEP(add, weft_latch_add(&latch, (size_t)arg))
STEP(done, weft_latch_done(&latch))
STEP(pass_latch, weft_latch_wait(&latch))
STEP(latch_count, weft_latch_count(&latch))
STEP(open_barrier, weft_barrier_open(&barrier, (size_t)arg))
STEP(pass_barrier, weft_barrier_wait(&barrier))

static step_call *marked_call;

static weft_value call_and_mark(void *arg)
{
    return marked_call(0) >= 0 ? mark_and_return(arg) : -EIO;
}

/* Spin fibers that call and then mark "a", "b" and "c". */
static void spin_marking(step_call *call)
{
    marked_call = call;
    spin_waiting(call_and_mark, "a");
    spin_waiting(call_and_mark, "b");
    spin_waiting(call_and_mark, "c");
}

TEST(an_available_token_is_taken_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    play({M, open_sem, 0, 2}, {M, tokens, 2}, {M, take});
    WEFT_MOVE_ON_AFTER(0) {
        play({M, take}, {M, take, -ECANCELED}); /* also in a cancelled fiber */
    }
    play({M, tokens, 0}, {M, try_take, -EAGAIN}, {M, post}, {M, try_take});
    ck_assert_trail("");
}

TEST(waiters_get_tokens_in_fifo_order)
{
    spin_marking(take);
    play({M, post}, {M, try_take, -EAGAIN}, {M, run}); /* handed to a, which has not run yet */
    ck_assert_trail("a");
    play({M, post}, {M, post}, {M, post}, {M, tokens, 1}, {M, run});
    ck_assert_trail("abc");
}

TEST(tokens_do_not_overflow)
{
    weft_sem_open(&sem, SIZE_MAX);
    play({M, post, -EOVERFLOW}, {M, tokens, -1}, {M, take}, {M, post});
}

TEST(an_interrupted_wait_takes_no_token)
{
    play({A, take, WAITS}, {B, take, WAITS}, {C, take, WAITS}, {D, take, WAITS}, {M, cancel, 0, A},
         {M, interrupt, 0, B}, {M, raise_error, 0, C}, {C, returns, RAISED}, {B, returns, -EINTR},
         {A, returns, -ECANCELED});
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        play({M, take, -ECANCELED});
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    play({M, post}, {D, returns, 0}, {M, tokens, 0});
}

TEST(a_waiter_cancelled_after_it_was_given_a_token_has_it)
{
    play({A, take, WAITS}, {B, take, WAITS}, {M, post}, {M, cancel, 0, A}, {A, returns, 0},
         {B, returns, WAITS}, {A, post, 0}, {B, returns, 0}, {M, tokens, 0});
}

static int inside, inside_max;

static weft_value enter_limited(void *arg)
{
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    if (++inside > inside_max)
        inside_max = inside;
    weft_snooze();
    inside--;
    return weft_sem_post(&sem);
}

TEST(no_more_fibers_enter_at_once_than_there_are_tokens)
{
    weft_sem_open(&sem, 3);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(enter_limited, NULL), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(inside_max, 3);
    ck_assert_uint_eq(weft_sem_count(&sem), 3);
}

TEST(a_latch_at_zero_is_passed_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    play({M, pass_latch});
    WEFT_MOVE_ON_AFTER(0) {
        play({M, pass_latch});
    }
    play({M, add, 0, 2}, {M, done}, {M, done}, {M, pass_latch});
    ck_assert_trail("");
}

TEST(all_waiters_of_a_latch_wake_in_order_when_it_reaches_zero)
{
    play({M, add, 0, 2});
    spin_marking(pass_latch);
    play({M, done}, {M, latch_count, 1}, {M, run});
    ck_assert_trail("");
    play({M, done}, {M, add, 0, 1}, {M, run}); /* after the waiters were woken */
    ck_assert_trail("abc");
}

TEST(the_count_of_a_latch_stays_between_zero_and_its_limit)
{
    play({M, done, -EINVAL});
    ck_assert_any_error(-EINVAL);
    play({M, add, 0, -1}, {M, add, -EOVERFLOW, 1}, {M, latch_count, -1}, {M, add, 0, 0});
}

TEST(a_wait_at_a_latch_can_be_interrupted)
{
    play({M, add, 0, 1}, {A, pass_latch, WAITS}, {B, pass_latch, WAITS}, {C, pass_latch, WAITS},
         {M, cancel, 0, A}, {M, interrupt, 0, B}, {B, returns, -EINTR}, {A, returns, -ECANCELED});
    WEFT_MOVE_ON_AFTER(0.001) {
        play({M, pass_latch, -ECANCELED});
    }
    play({M, latch_count, 1}, {M, done}, {C, returns, 0});
}

static weft_value count_down(void *arg)
{
    weft_snooze();
    return weft_latch_done(&latch);
}

TEST(a_latch_waits_for_a_thousand_fibers)
{
    weft_latch_add(&latch, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(count_down, NULL), 0);
    play({M, pass_latch}, {M, latch_count, 0});
}

TEST(a_barrier_must_be_open_with_a_count_above_zero)
{
    play({M, pass_barrier, -EINVAL});
    ck_assert_any_error(-EINVAL);
    weft_spin(mark_and_return, "switched");
    play({M, open_barrier, -EINVAL, 0}, {M, open_barrier, 0, 1}, {M, pass_barrier, 1},
         {M, pass_barrier, 1});
    ck_assert_trail("");
}

TEST(the_last_fiber_at_a_barrier_wakes_all_and_resets_it)
{
    play({M, open_barrier, 0, 4});
    for (int i = 0; i < 3; i++) {
        spin_marking(pass_barrier);
        WEFT_MOVE_ON_AFTER(0) {
            play({M, pass_barrier, 1}); /* the last fiber does not wait */
        }
        play({A, pass_barrier, WAITS}); /* for the next round */
        ck_take_trail("abc");
        play({M, interrupt, 0, A}, {A, returns, -EINTR});
    }
}

TEST(an_interrupted_wait_at_a_barrier_does_not_count)
{
    play({M, open_barrier, 0, 3}, {A, pass_barrier, WAITS}, {B, pass_barrier, WAITS},
         {M, cancel, 0, A});
    WEFT_MOVE_ON_AFTER(0.001) {
        play({M, pass_barrier, -ECANCELED});
    }
    play({C, pass_barrier, WAITS}, /* the second, not the fourth */
         {M, interrupt, 0, C}, {C, returns, -EINTR}, {C, pass_barrier, WAITS}, {M, pass_barrier, 1},
         {A, returns, -ECANCELED}, {B, returns, 0}, {C, returns, 0});
}

static int phases[50];

static weft_value run_phases(void *arg)
{
    int last = 0;
    for (int i = 0; i < 20; i++) {
        increment_int(arg);
        int rc = weft_barrier_wait(&barrier);
        ck_assert_int_ge(rc, 0);
        last += rc;
        for (size_t j = 0; j < COUNT_OF(phases); j++) /* no fiber lags or is two phases ahead */
            ck_assert(phases[j] == i + 1 || phases[j] == i + 2);
    }
    return last;
}

TEST(many_fibers_run_their_phases_in_step)
{
    weft_fiber f[COUNT_OF(phases)];
    weft_barrier_open(&barrier, COUNT_OF(phases));
    for (size_t i = 0; i < COUNT_OF(phases); i++)
        f[i] = weft_spin(run_phases, &phases[i]);
    weft_value lasts[COUNT_OF(phases)], sum = 0;
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(phases), lasts), 0);
    for (size_t i = 0; i < COUNT_OF(phases); i++)
        sum += lasts[i];
    ck_assert_int_eq(sum, 20); /* one last fiber in each phase */
}
