/*
 * Read-write locks: shared reading, exclusive writing, the order of waiters, and waiters that give
 * up.
 */
#include "support/suite.h"
#include "sync/steps.h"

static weft_rwlock lock;

STEP(read_lock, weft_rwlock_read(&lock))
STEP(write_lock, weft_rwlock_write(&lock))
STEP(try_read, weft_rwlock_try_read(&lock))
STEP(try_write, weft_rwlock_try_write(&lock))
STEP(unlock, weft_rwlock_unlock(&lock))

static void assert_rwlock_is_free(void)
{
    play({M, try_write}, {M, unlock});
}

TEST(all_readers_at_the_head_enter_and_readers_behind_the_next_writer_wait)
{
    play({A, write_lock}, {B, read_lock, WAITS}, {C, read_lock, WAITS}, {D, write_lock, WAITS},
         {E, read_lock, WAITS}, {F, write_lock, WAITS}, {A, unlock}, {B, returns, 0},
         {C, returns, 0}, {D, returns, WAITS}, {E, returns, WAITS}, {C, unlock}, {B, unlock},
         {D, returns, 0}, {E, returns, WAITS}, {D, unlock}, {E, returns, 0}, {F, returns, WAITS},
         {E, unlock}, {F, returns, 0}, {F, unlock});
    assert_rwlock_is_free();
}

TEST(a_cancelled_writer_admits_the_readers_behind_it_at_once)
{
    play({A, read_lock}, {B, write_lock, WAITS}, {C, read_lock, WAITS}, {D, read_lock, WAITS},
         {E, write_lock, WAITS}, {F, read_lock, WAITS}, {M, cancel, 0, B}, {B, returns, -ECANCELED},
         {C, returns, 0}, {D, returns, 0}, {E, returns, WAITS}, {A, unlock}, {C, unlock},
         {D, unlock}, {E, returns, 0}, {F, returns, WAITS});
}

TEST(a_writer_that_times_out_admits_the_readers_behind_it)
{
    static const step read_later = {A, read_lock};
    int rc;
    play({B, read_lock});
    WEFT_CANCEL_AFTER(0.001, rc) {
        order_call(&read_later); /* runs when main waits */
        play({M, write_lock, -ECANCELED});
        ck_assert_int_eq(actors[A].result, 0); /* woken by the same step, and queued before main */
    }
    ck_assert_int_eq(rc, -ETIMEDOUT);
}

TEST(a_cancelled_writer_admits_no_reader_behind_another_writer)
{
    play({A, read_lock}, {B, write_lock, WAITS}, {C, write_lock, WAITS}, {D, read_lock, WAITS},
         {M, cancel, 0, B}, {C, returns, WAITS}, {D, returns, WAITS}, {A, unlock}, {C, returns, 0},
         {D, returns, WAITS});
}

TEST(only_a_holder_can_unlock)
{
    play({M, unlock, -EPERM});
    ck_assert_any_error(-EPERM);
    play({M, write_lock}, {A, unlock, -EPERM}, {M, unlock}, {M, unlock, -EPERM});
}

static void assert_rwlock_is_broken(void)
{
    play({M, read_lock, -EOWNERDEAD}, {M, write_lock, -EOWNERDEAD}, {M, try_read, -EOWNERDEAD},
         {M, try_write, -EOWNERDEAD}, {M, unlock, -EPERM});
}

TEST(a_writer_that_ends_breaks_the_lock_for_all_waiters)
{
    play({A, write_lock}, {B, read_lock, WAITS}, {C, write_lock, WAITS}, {A, ends},
         {B, returns, -EOWNERDEAD}, {C, returns, -EOWNERDEAD});
    assert_rwlock_is_broken();
    lock = (weft_rwlock){{0}};
    assert_rwlock_is_free();
}

TEST(a_restarted_writer_breaks_the_lock_for_its_next_run_too)
{
    play({A, write_lock}, {B, read_lock, WAITS}, {M, restart, 0, A}, {A, returns, -EOWNERDEAD},
         {B, returns, -EOWNERDEAD});
    assert_rwlock_is_broken();
}
