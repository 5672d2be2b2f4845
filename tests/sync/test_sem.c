/* Semaphores, latches and barriers: which waiters wake, their order, and exact counts. */
#include "support/suite.h"

static weft_sem sem;
static weft_latch latch;
static weft_barrier barrier;

/* Each waiter marks its argument if its wait succeeds, and returns the result of the wait. */
static weft_value take_token(void *arg)
{
    int rc = weft_sem_wait(&sem);
    if (rc >= 0)
        mark(arg);
    return rc;
}

static weft_value pass_latch(void *arg)
{
    int rc = weft_latch_wait(&latch);
    if (rc >= 0)
        mark(arg);
    return rc;
}

static weft_value pass_barrier(void *arg)
{
    int rc = weft_barrier_wait(&barrier);
    if (rc >= 0)
        mark(arg);
    return rc;
}

TEST(an_available_token_is_taken_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    weft_sem_open(&sem, 2);
    ck_assert_uint_eq(weft_sem_count(&sem), 2);
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_sem_wait(&sem), 0); /* also in a cancelled fiber */
        ck_assert_int_eq(weft_sem_wait(&sem), -ECANCELED);
    }
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
    ck_assert_int_eq(weft_sem_try_wait(&sem), -EAGAIN);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_sem_try_wait(&sem), 0);
    ck_assert_trail("");
}

TEST(waiters_get_tokens_in_fifo_order)
{
    weft_spin(take_token, "a");
    weft_spin(take_token, "b");
    weft_spin(take_token, "c");
    let_run();
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_sem_try_wait(&sem), -EAGAIN); /* handed to a, which has not run yet */
    let_run();
    ck_assert_trail("a");
    weft_sem_post(&sem);
    weft_sem_post(&sem);
    weft_sem_post(&sem);
    ck_assert_uint_eq(weft_sem_count(&sem), 1);
    let_run();
    ck_assert_trail("abc");
}

TEST(tokens_do_not_overflow)
{
    weft_sem_open(&sem, SIZE_MAX);
    ck_assert_int_eq(weft_sem_post(&sem), -EOVERFLOW);
    ck_assert_uint_eq(weft_sem_count(&sem), SIZE_MAX);
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
}

TEST(an_interrupted_wait_takes_no_token)
{
    weft_fiber a = spin_waiting(take_token, "a");
    weft_fiber b = spin_waiting(take_token, "b");
    weft_fiber c = spin_waiting(take_token, "c");
    weft_fiber d = spin_waiting(take_token, "d");
    weft_cancel(a);
    weft_interrupt(b, -7);
    weft_raise(c, -EIO, "raised");
    ck_assert_int_eq(weft_await(c), -EIO);
    ck_assert_error(-EIO, "raised");
    ck_assert_int_eq(weft_await(b), -7);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        ck_assert_int_eq(weft_sem_wait(&sem), -ECANCELED);
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_await(d), 0);
    ck_assert_trail("d");
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
}

static weft_value take_and_give_back(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    return weft_sem_post(&sem);
}

TEST(a_waiter_cancelled_after_it_was_given_a_token_has_it)
{
    weft_fiber a = spin_waiting(take_and_give_back, NULL);
    weft_fiber b = spin_waiting(take_token, "b");
    weft_sem_post(&sem);
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
}

static int inside, inside_max;

static weft_value enter_limited(void *arg)
{
    (void)arg;
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
    ck_assert_int_eq(weft_latch_wait(&latch), 0);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_latch_wait(&latch), 0);
    }
    ck_assert_int_eq(weft_latch_add(&latch, 2), 0);
    weft_latch_done(&latch);
    weft_latch_done(&latch);
    ck_assert_int_eq(weft_latch_wait(&latch), 0);
    ck_assert_trail("");
}

TEST(all_waiters_of_a_latch_wake_in_order_when_it_reaches_zero)
{
    ck_assert_int_eq(weft_latch_add(&latch, 2), 0);
    weft_spin(pass_latch, "a");
    weft_spin(pass_latch, "b");
    weft_spin(pass_latch, "c");
    let_run();
    ck_assert_int_eq(weft_latch_done(&latch), 0);
    ck_assert_uint_eq(weft_latch_count(&latch), 1);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(weft_latch_done(&latch), 0);
    ck_assert_int_eq(weft_latch_add(&latch, 1), 0); /* after the waiters were woken */
    let_run();
    ck_assert_trail("abc");
}

TEST(the_count_of_a_latch_stays_between_zero_and_its_limit)
{
    ck_assert_int_eq(weft_latch_done(&latch), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_latch_add(&latch, SIZE_MAX), 0);
    ck_assert_int_eq(weft_latch_add(&latch, 1), -EOVERFLOW);
    ck_assert_uint_eq(weft_latch_count(&latch), SIZE_MAX);
    ck_assert_int_eq(weft_latch_add(&latch, 0), 0);
}

TEST(a_wait_at_a_latch_can_be_interrupted)
{
    weft_latch_add(&latch, 1);
    weft_fiber a = spin_waiting(pass_latch, "a");
    weft_fiber b = spin_waiting(pass_latch, "b");
    weft_fiber c = spin_waiting(pass_latch, "c");
    weft_cancel(a);
    weft_interrupt(b, -EINTR);
    ck_assert_int_eq(weft_await(b), -EINTR);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(weft_latch_wait(&latch), -ECANCELED);
    }
    ck_assert_uint_eq(weft_latch_count(&latch), 1);
    weft_latch_done(&latch);
    ck_assert_int_eq(weft_await(c), 0);
    ck_assert_trail("c");
}

static weft_value count_down(void *arg)
{
    (void)arg;
    weft_snooze();
    return weft_latch_done(&latch);
}

TEST(a_latch_waits_for_a_thousand_fibers)
{
    weft_latch_add(&latch, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(count_down, NULL), 0);
    ck_assert_int_eq(weft_latch_wait(&latch), 0);
    ck_assert_uint_eq(weft_latch_count(&latch), 0);
}

TEST(a_barrier_must_be_open_with_a_count_above_zero)
{
    ck_assert_int_eq(weft_barrier_wait(&barrier), -EINVAL);
    ck_assert_any_error(-EINVAL);
    ck_assert_int_eq(weft_barrier_open(&barrier, 0), -EINVAL);
    ck_assert_int_eq(weft_barrier_open(&barrier, 1), 0);
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_barrier_wait(&barrier), 1);
    ck_assert_int_eq(weft_barrier_wait(&barrier), 1);
    ck_assert_trail("");
}

TEST(the_last_fiber_at_a_barrier_wakes_all_and_resets_it)
{
    ck_assert_int_eq(weft_barrier_open(&barrier, 3), 0);
    for (int i = 0; i < 3; i++) {
        weft_fiber a = spin_waiting(pass_barrier, "a");
        weft_fiber b = spin_waiting(pass_barrier, "b");
        trail[0] = '\0';
        WEFT_MOVE_ON_AFTER(0) {
            ck_assert_int_eq(weft_barrier_wait(&barrier), 1); /* the last fiber does not wait */
        }
        weft_fiber c = spin_waiting(pass_barrier, "c"); /* for the next round */
        ck_assert_trail("ab");
        ck_assert_int_eq(weft_await(a), 0);
        ck_assert_int_eq(weft_await(b), 0);
        weft_cancel(c);
        ck_assert_int_eq(weft_await(c), -ECANCELED);
    }
}

TEST(an_interrupted_wait_at_a_barrier_does_not_count)
{
    weft_barrier_open(&barrier, 3);
    weft_fiber a = spin_waiting(pass_barrier, "a");
    weft_fiber b = spin_waiting(pass_barrier, "b");
    weft_cancel(a);
    WEFT_MOVE_ON_AFTER(0.001) {
        ck_assert_int_eq(weft_barrier_wait(&barrier), -ECANCELED);
    }
    weft_fiber c = spin_waiting(pass_barrier, "c"); /* the second, not the fourth */
    ck_assert_int_eq(weft_interrupt(c, -EINTR), 0);
    ck_assert_int_eq(weft_await(c), -EINTR);
    c = spin_waiting(pass_barrier, "c");
    ck_assert_int_eq(weft_barrier_wait(&barrier), 1);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_int_eq(weft_await(c), 0);
    ck_assert_trail("bc");
}

static int phases[50];

static weft_value run_phases(void *arg)
{
    int *own = arg, last = 0;
    for (int i = 0; i < 20; i++) {
        ++*own;
        int rc = weft_barrier_wait(&barrier);
        ck_assert_int_ge(rc, 0);
        last += rc;
        for (size_t j = 0; j < COUNT_OF(phases);
             j++) /* no fiber lags behind or is two phases ahead */
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
