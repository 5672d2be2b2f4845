/* Semaphores, latches and barriers: which waiters wake, their order, and exact counts. */
#include "support/suite.h"
#include "sync/steps.h"

static weft_sem sem;
static weft_latch latch;
static weft_barrier barrier;

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

FIBER(call_and_mark, marked_call(0) >= 0 ? mark_and_return(arg) : -EIO)

/* Spin fibers that call and then mark "a", "b" and "c". */
static void spin_marking(step_call *call)
{
    marked_call = call;
    spin_waiting(call_and_mark, "a");
    spin_waiting(call_and_mark, "b");
    spin_waiting(call_and_mark, "c");
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
