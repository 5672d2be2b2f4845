/*
 * Read-write locks: shared reading, exclusive writing, the order of waiters, and waiters that give
 * up.
 */
#include "support/suite.h"
#include "support/support.h"

static weft_rwlock lock;

/*
 * read_and_hold and write_and_hold mark arg when they have the lock, and hold it until scheduled.
 */
static weft_value read_and_hold(void *arg)
{
    int rc = weft_rwlock_read(&lock);
    if (rc < 0)
        return rc;
    mark(arg);
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    return value;
}

static weft_value write_and_hold(void *arg)
{
    int rc = weft_rwlock_write(&lock);
    if (rc < 0)
        return rc;
    mark(arg);
    weft_value value = weft_suspend();
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    return value;
}

/* Lock for writing and suspend. End with the lock. */
static weft_value end_with_write_lock(void *arg)
{
    (void)arg;
    int rc = weft_rwlock_write(&lock);
    return rc < 0 ? rc : weft_suspend();
}

/* Let f release the lock and end. */
static void release_and_await(weft_fiber f)
{
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
    let_run();
}

static void assert_rwlock_is_free(void)
{
    ck_assert_int_eq(weft_rwlock_try_write(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
}

TEST(a_free_lock_is_acquired_without_a_switch)
{
    weft_spin(mark_and_return, "switched");
    ck_assert_int_eq(weft_rwlock_read(&lock), 0);
    ck_assert_int_eq(weft_rwlock_read(&lock), 0); /* twice: no writer waits */
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EBUSY);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_rwlock_write(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_trail("");
}

TEST(readers_share_the_lock_and_a_writer_has_it_alone)
{
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber b = spin_waiting(read_and_hold, "b");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    ck_assert_trail("ab");
    release_and_await(a);
    ck_assert_trail("ab");
    release_and_await(b);
    ck_assert_trail("abW");
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EBUSY);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EBUSY);
    weft_spin(read_and_hold, "c");
    weft_spin(write_and_hold, "V");
    let_run();
    ck_assert_trail("abW");
    release_and_await(w);
    ck_assert_trail("abWc");
}

TEST(readers_queue_behind_a_writer_that_waits)
{
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_spin(read_and_hold, "b");
    let_run();
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EBUSY);
    ck_assert_trail("a");
    release_and_await(a);
    ck_assert_trail("aW");
    release_and_await(w);
    ck_assert_trail("aWb");
}

TEST(all_readers_at_the_head_enter_and_readers_behind_the_next_writer_wait)
{
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber b = spin_waiting(read_and_hold, "b");
    weft_fiber v = spin_waiting(write_and_hold, "V");
    weft_fiber c = spin_waiting(read_and_hold, "c");
    weft_fiber u = spin_waiting(write_and_hold, "U");
    release_and_await(w);
    ck_assert_trail("Wab");
    release_and_await(b);
    release_and_await(a);
    ck_assert_trail("WabV");
    release_and_await(v);
    ck_assert_trail("WabVc");
    release_and_await(c);
    ck_assert_trail("WabVcU");
    release_and_await(u);
    assert_rwlock_is_free();
}

TEST(an_unlocking_fiber_cannot_lock_again_ahead_of_the_waiters)
{
    weft_rwlock_write(&lock);
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_rwlock_unlock(&lock);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EBUSY); /* before it has run */
    let_run();
    ck_assert_trail("a");
    release_and_await(a);
    weft_rwlock_read(&lock);
    spin_waiting(write_and_hold, "W");
    weft_rwlock_unlock(&lock);
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EBUSY);
}

TEST(a_cancelled_writer_admits_the_readers_behind_it_at_once)
{
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_fiber b = spin_waiting(read_and_hold, "b");
    weft_fiber c = spin_waiting(read_and_hold, "c");
    spin_waiting(write_and_hold, "V");
    weft_fiber d = spin_waiting(read_and_hold, "d");
    ck_assert_int_eq(weft_cancel(w), 0);
    ck_assert_int_eq(weft_await(w), -ECANCELED);
    let_run();
    ck_assert_trail("abc");
    release_and_await(a);
    release_and_await(b);
    release_and_await(c);
    ck_assert_trail("abcV");
    ck_assert_int_eq(weft_state_of(d), WEFT_WAITING);
}

TEST(a_writer_that_times_out_admits_the_readers_behind_it)
{
    spin_waiting(read_and_hold, "a");
    weft_fiber b = 0;
    int rc;
    WEFT_CANCEL_AFTER(0.001, rc) {
        b = weft_spin(read_and_hold, "b"); /* runs when main waits */
        ck_assert_int_eq(weft_rwlock_write(&lock), -ECANCELED);
        ck_assert_trail("ab"); /* woken by the same step, and queued ahead of main */
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
    release_and_await(b);
}

TEST(a_cancelled_writer_admits_no_reader_behind_another_writer)
{
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    spin_waiting(write_and_hold, "V");
    spin_waiting(read_and_hold, "b");
    weft_cancel(w);
    let_run();
    ck_assert_trail("a");
    release_and_await(a);
    ck_assert_trail("aV");
}

TEST(a_waiter_cancelled_while_a_writer_has_the_lock_admits_no_waiter)
{
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_fiber v = spin_waiting(write_and_hold, "V");
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber b = spin_waiting(read_and_hold, "b");
    weft_cancel(v);
    weft_cancel(a);
    let_run();
    ck_assert_trail("W");
    release_and_await(w);
    ck_assert_trail("Wb");
    release_and_await(b);
    assert_rwlock_is_free();
}

TEST(a_writer_cannot_lock_again)
{
    weft_rwlock_write(&lock);
    ck_assert_int_eq(weft_rwlock_write(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_read(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EDEADLK);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    assert_rwlock_is_free();
}

static weft_value unlock_unowned(void *arg)
{
    (void)arg;
    return -weft_rwlock_unlock(&lock);
}

TEST(only_a_holder_can_unlock)
{
    ck_assert_int_eq(weft_rwlock_unlock(&lock), -EPERM);
    ck_assert_any_error(-EPERM);
    weft_rwlock_write(&lock);
    ck_assert_int_eq(weft_await(weft_spin(unlock_unowned, NULL)), EPERM);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), -EPERM);
}

TEST(a_cancelled_fiber_can_lock_a_free_lock)
{
    WEFT_MOVE_ON_AFTER(0) {
        ck_assert_int_eq(weft_rwlock_read(&lock), 0);
        ck_assert_int_eq(weft_rwlock_write(&lock), -ECANCELED);
        ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
        ck_assert_int_eq(weft_rwlock_write(&lock), 0);
        ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    }
}

TEST(waiters_cancelled_after_the_handover_have_the_lock)
{
    weft_rwlock_write(&lock);
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_rwlock_unlock(&lock);
    weft_cancel(a); /* it has the lock, and releases it when its next call fails */
    ck_assert_int_eq(weft_await(a), -ECANCELED);
    weft_cancel(w);
    ck_assert_int_eq(weft_await(w), -ECANCELED);
    ck_assert_trail("aW");
    assert_rwlock_is_free();
}

TEST(interrupted_and_failed_waiters_do_not_have_the_lock)
{
    weft_rwlock_write(&lock);
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_fiber b = spin_waiting(read_and_hold, "b");
    ck_assert_int_eq(weft_interrupt(a, -EINTR), 0);
    ck_assert_int_eq(weft_raise(w, -EIO, "raised"), 0);
    ck_assert_int_eq(weft_await(w), -EIO);
    ck_assert_error(-EIO, "raised");
    ck_assert_int_eq(weft_await(a), -EINTR);
    weft_rwlock_unlock(&lock);
    let_run();
    ck_assert_trail("b");
    release_and_await(b);
    assert_rwlock_is_free();
}

static void assert_rwlock_is_broken(void)
{
    ck_assert_int_eq(weft_rwlock_read(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_write(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_try_read(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_try_write(&lock), -EOWNERDEAD);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), -EPERM);
}

TEST(a_writer_that_ends_breaks_the_lock_for_all_waiters)
{
    weft_fiber f = spin_waiting(end_with_write_lock, NULL);
    weft_fiber a = spin_waiting(read_and_hold, "a");
    weft_fiber w = spin_waiting(write_and_hold, "W");
    weft_schedule(f, 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(w), -EOWNERDEAD);
    ck_assert_trail("");
    assert_rwlock_is_broken();
    lock = (weft_rwlock){{0}};
    assert_rwlock_is_free();
}

TEST(a_restarted_writer_breaks_the_lock_for_its_next_run_too)
{
    weft_fiber f = spin_waiting(end_with_write_lock, NULL);
    weft_fiber a = spin_waiting(read_and_hold, "a");
    ck_assert_int_eq(weft_restart(f), 0);
    ck_assert_int_eq(weft_await(f), -EOWNERDEAD);
    ck_assert_int_eq(weft_await(a), -EOWNERDEAD);
    assert_rwlock_is_broken();
}

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

TEST(hundreds_of_readers_and_writers_exclude_each_other)
{
    int done = 0;
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(i % 3 == 0 ? weft_go(write_often, &done) : weft_go(read_often, NULL), 0);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(done, 1000);
    assert_rwlock_is_free();
}
