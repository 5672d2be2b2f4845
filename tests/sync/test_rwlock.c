/* Locks to read and to write: who gets in together, who waits for whom, what giving up changes. */
#include "support.h"

static weft_rwlock lock;

/* Both mark their argument when they have the lock, and have it until they are scheduled. */
static weft_value read_it(void *arg)
{
    int rc = weft_rwlock_read(&lock);
    if (rc < 0)
        return rc;
    mark(arg);
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    return value;
}

static weft_value write_it(void *arg)
{
    int rc = weft_rwlock_write(&lock);
    if (rc < 0)
        return rc;
    mark(arg);
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    return value;
}

/* Ends with the lock, to write, when it is scheduled. */
static weft_value end_with_it(void *arg)
{
    (void)arg;
    int rc = weft_rwlock_write(&lock);
    return rc < 0 ? rc : weft_suspend();
}

/* Waits for the lock, or has it already. */
static weft_fiber spin_waiting(weft_fn *fn, void *arg)
{
    weft_fiber f = weft_spin(fn, arg);
    let_run();
    ck_assert_int_eq(weft_state_of(f), WEFT_WAITING);
    return f;
}

/* Has the lock no more. */
static void finish(weft_fiber f)
{
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
    let_run();
}

static void assert_is_free(void)
{
    ck_assert_int_eq(weft_rwlock_try_write(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
}

START_TEST(a_free_lock_is_taken_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_rwlock_read(&lock), 0);
    ck_assert_int_eq(weft_rwlock_read(&lock), 0); /* twice: nobody waits to write */
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EBUSY);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_rwlock_write(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_trail("");
}
END_TEST

START_TEST(readers_have_it_together_and_a_writer_alone)
{
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber b = spin_waiting(read_it, "b");
    weft_fiber w = spin_waiting(write_it, "W");
    ck_assert_trail("ab");
    finish(a);
    ck_assert_trail("ab");
    finish(b);
    ck_assert_trail("abW");
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EBUSY);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EBUSY);
    weft_spin(read_it, "c");
    weft_spin(write_it, "V");
    let_run();
    ck_assert_trail("abW");
    finish(w);
    ck_assert_trail("abWc");
}
END_TEST

START_TEST(readers_queue_behind_a_writer_that_waits)
{
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber w = spin_waiting(write_it, "W");
    weft_spin(read_it, "b");
    let_run();
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EBUSY);
    ck_assert_trail("a");
    finish(a);
    ck_assert_trail("aW");
    finish(w);
    ck_assert_trail("aWb");
}
END_TEST

START_TEST(all_readers_at_the_front_get_in_and_those_behind_the_next_writer_wait)
{
    weft_fiber w = spin_waiting(write_it, "W");
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber b = spin_waiting(read_it, "b");
    weft_fiber v = spin_waiting(write_it, "V");
    weft_fiber c = spin_waiting(read_it, "c");
    weft_fiber u = spin_waiting(write_it, "U");
    finish(w);
    ck_assert_trail("Wab");
    finish(b);
    finish(a);
    ck_assert_trail("WabV");
    finish(v);
    ck_assert_trail("WabVc");
    finish(c);
    ck_assert_trail("WabVcU");
    finish(u);
    assert_is_free();
}
END_TEST

START_TEST(whoever_unlocks_cannot_take_it_again_ahead_of_those_who_wait)
{
    weft_rwlock_write(&lock);
    weft_fiber a = spin_waiting(read_it, "a");
    weft_rwlock_unlock(&lock);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EBUSY); /* before it has run */
    let_run();
    ck_assert_trail("a");
    finish(a);
    weft_rwlock_read(&lock);
    spin_waiting(write_it, "W");
    weft_rwlock_unlock(&lock);
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EBUSY);
}
END_TEST

START_TEST(a_writer_that_gives_up_lets_the_readers_behind_it_in_at_once)
{
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber w = spin_waiting(write_it, "W");
    weft_fiber b = spin_waiting(read_it, "b");
    weft_fiber c = spin_waiting(read_it, "c");
    spin_waiting(write_it, "V");
    weft_fiber d = spin_waiting(read_it, "d");
    ck_assert_int_eq(weft_cancel(w), 0);
    ck_assert_int_eq(weft_await(w), -ECANCELED);
    let_run();
    ck_assert_trail("abc");
    finish(a);
    finish(b);
    finish(c);
    ck_assert_trail("abcV");
    ck_assert_int_eq(weft_state_of(d), WEFT_WAITING);
}
END_TEST

START_TEST(a_writer_whose_time_is_over_lets_the_readers_behind_it_in)
{
    spin_waiting(read_it, "a");
    weft_fiber b = 0;
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        b = weft_spin(read_it, "b"); /* runs when main waits */
        ck_assert_int_eq(weft_rwlock_write(&lock), -ECANCELED);
        ck_assert_trail("ab"); /* in the same step, so ahead of main */
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    finish(b);
}
END_TEST

START_TEST(one_writer_of_two_that_gives_up_lets_nobody_past_the_other)
{
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber w = spin_waiting(write_it, "W");
    spin_waiting(write_it, "V");
    spin_waiting(read_it, "b");
    weft_cancel(w);
    let_run();
    ck_assert_trail("a");
    finish(a);
    ck_assert_trail("aV");
}
END_TEST

START_TEST(one_that_gives_up_while_another_writes_lets_nobody_in)
{
    weft_fiber w = spin_waiting(write_it, "W");
    weft_fiber v = spin_waiting(write_it, "V");
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber b = spin_waiting(read_it, "b");
    weft_cancel(v);
    weft_cancel(a);
    let_run();
    ck_assert_trail("W");
    finish(w);
    ck_assert_trail("Wb");
    finish(b);
    assert_is_free();
}
END_TEST

START_TEST(a_writer_cannot_take_it_again)
{
    weft_rwlock_write(&lock);
    ck_assert_int_eq(weft_rwlock_write(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_read(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    assert_is_free();
}
END_TEST

static weft_value unlock(void *arg)
{
    (void)arg;
    return -weft_rwlock_unlock(&lock);
}

START_TEST(who_does_not_hold_it_cannot_let_go_of_it)
{
    ck_assert_int_eq(weft_rwlock_unlock(&lock), -EPERM);
    ck_assert_any_words(-EPERM);
    weft_rwlock_write(&lock);
    ck_assert_int_eq(weft_await(weft_spin(unlock, NULL)), EPERM);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), -EPERM);
}
END_TEST

START_TEST(a_cancelled_fiber_can_take_what_is_free)
{
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_rwlock_read(&lock), 0);
        ck_assert_int_eq(weft_rwlock_write(&lock), -ECANCELED);
        ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
        ck_assert_int_eq(weft_rwlock_write(&lock), 0);
        ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    }
}
END_TEST

START_TEST(those_who_are_cancelled_once_they_are_let_in_have_it)
{
    weft_rwlock_write(&lock);
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber w = spin_waiting(write_it, "W");
    weft_rwlock_unlock(&lock);
    weft_cancel(a); /* it reads, and lets go as its next call fails */
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    weft_cancel(w);
    ck_assert_int_eq(weft_await(w), -ECANCELED);
    ck_assert_trail("aW");
    assert_is_free();
}
END_TEST

START_TEST(those_who_are_interrupted_or_fail_have_nothing)
{
    weft_rwlock_write(&lock);
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber w = spin_waiting(write_it, "W");
    weft_fiber b = spin_waiting(read_it, "b");
    ck_assert_int_eq(weft_interrupt(a, -EINTR), 0);
    ck_assert_int_eq(weft_raise(w, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(w), -EIO);
    ck_assert_words(-EIO, "raised");
    ck_assert_int_eq(weft_await(a), -EINTR);
    weft_rwlock_unlock(&lock);
    let_run();
    ck_assert_trail("b");
    finish(b);
    assert_is_free();
}
END_TEST

static void assert_is_broken(void)
{
    ck_assert_int_eq(weft_rwlock_read(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_write(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), -EPERM);
}

START_TEST(a_writer_that_ends_breaks_the_lock_for_all)
{
    weft_fiber f = spin_waiting(end_with_it, NULL);
    weft_fiber a = spin_waiting(read_it, "a");
    weft_fiber w = spin_waiting(write_it, "W");
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(w), -EOWNERDEAD);
    ck_assert_trail("");
    assert_is_broken();
    lock = (weft_rwlock){{0}};
    assert_is_free();
}
END_TEST

START_TEST(a_writer_that_is_restarted_breaks_it_for_its_next_run_too)
{
    weft_fiber f = spin_waiting(end_with_it, NULL);
    weft_fiber a = spin_waiting(read_it, "a");
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(f), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    assert_is_broken();
}
END_TEST

static int readers, writers;

static weft_value read_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(weft_rwlock_read(&lock), 0);
        readers++;
        weft_snooze();
        ck_assert_int_eq(writers, 0);
        readers--;
        ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    }
    return 0;
}

static weft_value write_often(void *arg)
{
    int *done = arg;
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(weft_rwlock_write(&lock), 0);
        ck_assert_int_eq(writers++, 0);
        weft_snooze();
        ck_assert_int_eq(readers, 0);
        writers--;
        ++*done;
        ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    }
    return 0;
}

START_TEST(hundreds_of_readers_and_writers_keep_each_other_out)
{
    int done = 0;
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(i % 3 == 0 ? weft_go(write_often, &done) : weft_go(read_often, NULL), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(done, 1000);
    assert_is_free();
}
END_TEST

static const TTest *const *const tests[] = {
    &a_free_lock_is_taken_without_a_switch,
    &readers_have_it_together_and_a_writer_alone,
    &readers_queue_behind_a_writer_that_waits,
    &all_readers_at_the_front_get_in_and_those_behind_the_next_writer_wait,
    &whoever_unlocks_cannot_take_it_again_ahead_of_those_who_wait,
    &a_writer_that_gives_up_lets_the_readers_behind_it_in_at_once,
    &a_writer_whose_time_is_over_lets_the_readers_behind_it_in,
    &one_writer_of_two_that_gives_up_lets_nobody_past_the_other,
    &one_that_gives_up_while_another_writes_lets_nobody_in,
    &a_writer_cannot_take_it_again,
    &who_does_not_hold_it_cannot_let_go_of_it,
    &a_cancelled_fiber_can_take_what_is_free,
    &those_who_are_cancelled_once_they_are_let_in_have_it,
    &those_who_are_interrupted_or_fail_have_nothing,
    &a_writer_that_ends_breaks_the_lock_for_all,
    &a_writer_that_is_restarted_breaks_it_for_its_next_run_too,
    &hundreds_of_readers_and_writers_keep_each_other_out,
};

int main(void)
{
    return run_suite("rwlock", tests, COUNT_OF(tests));
}
