/* Semaphores, latches and barriers: who goes on, in which order, and that no count is lost. */
#include "support.h"

static weft_sem sem;
static weft_latch latch;
static weft_barrier barrier;

/* Each marks its argument when its wait has succeeded; its value is what the wait returned. */
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

static weft_fiber spin_waiting(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin(fn, arg);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

START_TEST(a_token_that_is_there_is_taken_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    weft_sem_open(&sem, 2);
    ck_assert_uint_eq(weft_sem_count(&sem), 2);
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_sem_wait(&sem), 0); /* also in one that is cancelled */
        ck_assert_int_eq(weft_sem_wait(&sem), -ECANCELED);
    }
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
    ck_assert_int_eq(weft_sem_try_wait(&sem), -EAGAIN);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_sem_try_wait(&sem), 0);
    ck_assert_trail("");
}
END_TEST

START_TEST(tokens_go_to_those_who_wait_in_the_order_in_which_they_came)
{
    weft_spin(take_token, "a");
    weft_spin(take_token, "b");
    weft_spin(take_token, "c");
    let_run();
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_sem_try_wait(&sem), -EAGAIN); /* it is a's before a has run */
    let_run();
    ck_assert_trail("a");
    weft_sem_post(&sem);
    weft_sem_post(&sem);
    weft_sem_post(&sem);
    ck_assert_uint_eq(weft_sem_count(&sem), 1);
    let_run();
    ck_assert_trail("abc");
}
END_TEST

START_TEST(tokens_do_not_overflow)
{
    weft_sem_open(&sem, SIZE_MAX);
    ck_assert_int_eq(weft_sem_post(&sem), -EOVERFLOW);
    ck_assert_uint_eq(weft_sem_count(&sem), SIZE_MAX);
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
}
END_TEST

START_TEST(a_wait_for_a_token_that_is_cut_short_takes_none)
{
    weft_fiber a = spin_waiting(take_token, "a");
    weft_fiber b = spin_waiting(take_token, "b");
    weft_fiber c = spin_waiting(take_token, "c");
    weft_fiber d = spin_waiting(take_token, "d");
    weft_cancel(a);
    weft_interrupt(b, -7);
    weft_raise(c, -EIO, "raised");
    ck_assert_int_eq(weft_await(c), -EIO);
    ck_assert_words(-EIO, "raised");
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
END_TEST

static weft_value take_and_give_back(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    ck_assert_int_eq(weft_snooze(), -ECANCELED);
    return weft_sem_post(&sem);
}

START_TEST(one_that_is_cancelled_after_it_was_given_a_token_has_it)
{
    weft_fiber a = spin_waiting(take_and_give_back, NULL);
    weft_fiber b = spin_waiting(take_token, "b");
    weft_sem_post(&sem);
    weft_cancel(a);
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    ck_assert_int_eq(weft_await(b), 0);
    ck_assert_uint_eq(weft_sem_count(&sem), 0);
}
END_TEST

static int inside, inside_max;

static weft_value enter(void *arg)
{
    (void)arg;
    ck_assert_int_eq(weft_sem_wait(&sem), 0);
    if (++inside > inside_max)
        inside_max = inside;
    weft_snooze();
    inside--;
    return weft_sem_post(&sem);
}

START_TEST(no_more_get_in_at_once_than_there_are_tokens)
{
    weft_sem_open(&sem, 3);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(enter, NULL), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(inside_max, 3);
    ck_assert_uint_eq(weft_sem_count(&sem), 3);
}
END_TEST

START_TEST(a_latch_at_zero_is_passed_without_a_switch)
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
END_TEST

START_TEST(all_who_wait_at_a_latch_go_on_in_order_when_it_is_at_zero)
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
    ck_assert_int_eq(weft_latch_add(&latch, 1), 0); /* too late for those who waited */
    let_run();
    ck_assert_trail("abc");
}
END_TEST

START_TEST(a_latch_does_not_go_below_zero_nor_beyond_its_limit)
{
    ck_assert_int_eq(weft_latch_done(&latch), -EINVAL);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_latch_add(&latch, SIZE_MAX), 0);
    ck_assert_int_eq(weft_latch_add(&latch, 1), -EOVERFLOW);
    ck_assert_uint_eq(weft_latch_count(&latch), SIZE_MAX);
    ck_assert_int_eq(weft_latch_add(&latch, 0), 0);
}
END_TEST

START_TEST(a_wait_at_a_latch_can_be_cut_short)
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
END_TEST

static weft_value work(void *arg)
{
    (void)arg;
    weft_snooze();
    return weft_latch_done(&latch);
}

START_TEST(a_latch_waits_for_a_thousand_fibers)
{
    weft_latch_add(&latch, 1000);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(weft_go(work, NULL), 0);
    ck_assert_int_eq(weft_latch_wait(&latch), 0);
    ck_assert_uint_eq(weft_latch_count(&latch), 0);
}
END_TEST

START_TEST(a_barrier_must_be_open_and_for_someone)
{
    ck_assert_int_eq(weft_barrier_wait(&barrier), -EINVAL);
    ck_assert_any_words(-EINVAL);
    ck_assert_int_eq(weft_barrier_open(&barrier, 0), -EINVAL);
    ck_assert_int_eq(weft_barrier_open(&barrier, 1), 0);
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_barrier_wait(&barrier), 1);
    ck_assert_int_eq(weft_barrier_wait(&barrier), 1);
    ck_assert_trail("");
}
END_TEST

START_TEST(the_last_at_a_barrier_lets_all_go_on_and_it_begins_anew)
{
    ck_assert_int_eq(weft_barrier_open(&barrier, 3), 0);
    for (int i = 0; i < 3; i++) {
        weft_fiber a = spin_waiting(pass_barrier, "a");
        weft_fiber b = spin_waiting(pass_barrier, "b");
        trail[0] = '\0';
        WEFT_MOVE_ON_AFTER(0) {
            ck_assert_int_eq(weft_barrier_wait(&barrier), 1); /* it need not wait */
        }
        weft_fiber c = spin_waiting(pass_barrier, "c"); /* one for the next time */
        ck_assert_trail("ab");
        ck_assert_int_eq(weft_await(a), 0);
        ck_assert_int_eq(weft_await(b), 0);
        weft_cancel(c);
        ck_assert_int_eq(weft_await(c), -ECANCELED);
    }
}
END_TEST

START_TEST(a_wait_at_a_barrier_that_is_cut_short_does_not_count)
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
END_TEST

static int phases[50];

static weft_value go_through_phases(void *arg)
{
    int *own = arg, last = 0;
    for (int i = 0; i < 20; i++) {
        ++*own;
        int rc = weft_barrier_wait(&barrier);
        ck_assert_int_ge(rc, 0);
        last += rc;
        for (size_t j = 0; j < COUNT_OF(phases); j++) /* nobody is behind, nor two ahead */
            ck_assert(phases[j] == i + 1 || phases[j] == i + 2);
    }
    return last;
}

START_TEST(many_fibers_go_through_their_phases_together)
{
    weft_fiber f[COUNT_OF(phases)];
    weft_barrier_open(&barrier, COUNT_OF(phases));
    for (size_t i = 0; i < COUNT_OF(phases); i++)
        f[i] = weft_spin(go_through_phases, &phases[i]);
    weft_value lasts[COUNT_OF(phases)], sum = 0;
    ck_assert_int_eq(weft_await_all(f, COUNT_OF(phases), lasts), 0);
    for (size_t i = 0; i < COUNT_OF(phases); i++)
        sum += lasts[i];
    ck_assert_int_eq(sum, 20); /* each time there is one last */
}
END_TEST

static const TTest *const *const tests[] = {
    &a_token_that_is_there_is_taken_without_a_switch,
    &tokens_go_to_those_who_wait_in_the_order_in_which_they_came,
    &tokens_do_not_overflow,
    &a_wait_for_a_token_that_is_cut_short_takes_none,
    &one_that_is_cancelled_after_it_was_given_a_token_has_it,
    &no_more_get_in_at_once_than_there_are_tokens,
    &a_latch_at_zero_is_passed_without_a_switch,
    &all_who_wait_at_a_latch_go_on_in_order_when_it_is_at_zero,
    &a_latch_does_not_go_below_zero_nor_beyond_its_limit,
    &a_wait_at_a_latch_can_be_cut_short,
    &a_latch_waits_for_a_thousand_fibers,
    &a_barrier_must_be_open_and_for_someone,
    &the_last_at_a_barrier_lets_all_go_on_and_it_begins_anew,
    &a_wait_at_a_barrier_that_is_cut_short_does_not_count,
    &many_fibers_go_through_their_phases_together,
};

int main(void)
{
    return run_suite("sem", tests, COUNT_OF(tests));
}
