/* Locks that fibers share with plain threads and with fibers of other threads. */
#include "posix/lock_support.h"

#include <signal.h>

FIXTURE(adopt_and_start, NULL)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static atomic_int passes;

/*
 * Mutexes.
 */

#define FIBERS 4
#define THREADS 3
#define PASSES_EACH 1430 /* more than 10,000 together */

static void pass_once(bool is_fiber)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    section_enter();
    atomic_fetch_add(&passes, 1);
    if (is_fiber)
        weft_snooze();
    section_leave();
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
}

static weft_value pass_in_fiber(void *arg)
{
    for (int i = 0; i < PASSES_EACH; i++)
        pass_once(true);
    return 0;
}

static void *pass_in_thread(void *arg)
{
    for (int i = 0; i < PASSES_EACH; i++)
        pass_once(false);
    return NULL;
}

static const int types_shared[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
                                   PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_ADAPTIVE_NP};

TEST_ROWS(fibers_and_threads_share_a_mutex_without_overlap, types_shared)
{
    pthread_t threads[THREADS];
    mutex = mutex_of_type(types_shared[_i]);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(pass_in_thread, NULL);
    for (int i = 0; i < FIBERS; i++)
        weft_spin(pass_in_fiber, NULL);
    await_all();
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    ck_assert_int_eq(passes, (FIBERS + THREADS) * PASSES_EACH);
    ck_assert_int_eq(overlaps, 0);
}

static atomic_bool has_stopped;

static weft_value pass_until_stopped(void *arg)
{
    while (!has_stopped)
        pass_once(true);
    return 0;
}

static void *pass_and_stop(void *arg)
{
    for (int i = 0; i < 10; i++)
        pass_once(false);
    has_stopped = true;
    return NULL;
}

TEST(fibers_that_pass_a_mutex_on_do_not_starve_a_thread)
{
    pthread_t thread = start_thread(pass_and_stop, NULL);
    weft_spin(pass_until_stopped, NULL);
    weft_spin(pass_until_stopped, NULL);
    await_all();
    join_thread(thread);
    ck_assert_int_eq(overlaps, 0);
}

static weft_value run_cord(void *arg)
{
    weft_spin(pass_in_fiber, NULL);
    weft_spin(pass_in_fiber, NULL);
    return weft_await_children();
}

TEST(the_fibers_of_two_threads_share_a_mutex)
{
    weft_cord cord = weft_cord_start(run_cord, NULL, NULL);
    ck_assert_uint_ne(cord, 0);
    ck_assert_int_eq(run_cord(NULL), 0);
    ck_assert_int_eq(weft_cord_join(cord), 0);
    ck_assert_int_eq(passes, 4 * PASSES_EACH);
    ck_assert_int_eq(overlaps, 0);
}

static atomic_bool is_ready;

/* Let fibers run until another thread has set is_ready. */
static void await_ready(void)
{
    while (!is_ready)
        weft_snooze();
}

static void *hold_until_a_fiber_waits(void *arg)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    is_ready = true;
    await_lock_waits(1);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

TEST(a_thread_that_unlocks_wakes_a_fiber)
{
    pthread_t thread = start_thread(hold_until_a_fiber_waits, NULL);
    await_ready();
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    join_thread(thread);
}

/* The thread unlocks the mutex inside of libc, out of sight. */
static void *hold_and_wait_for_a_signal(void *arg)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    is_ready = true;
    await_lock_waits(1);
    while (passes == 0)
        ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return NULL;
}

TEST(a_fiber_finds_a_mutex_that_was_unlocked_out_of_sight)
{
    pthread_t thread = start_thread(hold_and_wait_for_a_signal, NULL);
    await_ready();
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    passes = 1;
    ck_assert_int_eq(pthread_cond_signal(&cond), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    join_thread(thread);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void use_rwlock(bool is_fiber)
{
    for (int i = 0; i < 500; i++) {
        ck_assert_int_eq(pthread_rwlock_wrlock(&rwlock), 0);
        section_enter();
        if (is_fiber)
            weft_snooze();
        section_leave();
        ck_assert_int_eq(pthread_rwlock_unlock(&rwlock), 0);
        ck_assert_int_eq(pthread_rwlock_rdlock(&rwlock), 0);
        ck_assert_int_eq(inside, 0);
        ck_assert_int_eq(pthread_rwlock_unlock(&rwlock), 0);
    }
}

static weft_value use_rwlock_in_fiber(void *arg)
{
    use_rwlock(true);
    return 0;
}

static void *use_rwlock_in_thread(void *arg)
{
    use_rwlock(false);
    return NULL;
}

TEST(fibers_and_threads_share_a_rwlock_without_overlap)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start_thread(use_rwlock_in_thread, NULL);
    for (int i = 0; i < FIBERS; i++)
        weft_spin(use_rwlock_in_fiber, NULL);
    await_all();
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
    ck_assert_int_eq(overlaps, 0);
}

/*
 * Conditions and semaphores: a queue with one place.
 */

#define ITEMS 3000

static int item; /* 0: none */
static pthread_cond_t is_full = PTHREAD_COND_INITIALIZER, is_empty = PTHREAD_COND_INITIALIZER;

static void item_put(int value)
{
    pthread_mutex_lock(&mutex);
    while (item != 0)
        ck_assert_int_eq(pthread_cond_wait(&is_empty, &mutex), 0);
    item = value;
    pthread_cond_signal(&is_full);
    pthread_mutex_unlock(&mutex);
}

static int item_take(void)
{
    pthread_mutex_lock(&mutex);
    while (item == 0)
        ck_assert_int_eq(pthread_cond_wait(&is_full, &mutex), 0);
    int value = item;
    item = 0;
    pthread_cond_signal(&is_empty);
    pthread_mutex_unlock(&mutex);
    return value;
}

static void *put_items(void *arg)
{
    for (int i = 1; i <= ITEMS; i++)
        item_put(i);
    return NULL;
}

TEST(a_fiber_takes_items_that_a_thread_puts)
{
    pthread_t thread = start_thread(put_items, NULL);
    for (int i = 1; i <= ITEMS; i++)
        ck_assert_int_eq(item_take(), i);
    join_thread(thread);
}

static void *take_items(void *arg)
{
    for (int i = 1; i <= ITEMS; i++)
        ck_assert_int_eq(item_take(), i);
    return NULL;
}

TEST(a_thread_takes_items_that_a_fiber_puts)
{
    pthread_t thread = start_thread(take_items, NULL);
    put_items(NULL);
    join_thread(thread);
}

static weft_value wait_for_passes(void *arg)
{
    pthread_mutex_lock(&mutex);
    while (passes == 0)
        ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), 0);
    pthread_mutex_unlock(&mutex);
    return 0;
}

static void *wait_for_passes_in_thread(void *arg)
{
    wait_for_passes(NULL);
    return NULL;
}

TEST(a_broadcast_wakes_fibers_and_threads)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(wait_for_passes_in_thread, NULL);
    for (int i = 0; i < FIBERS; i++)
        weft_spin(wait_for_passes, NULL);
    let_run();
    pthread_mutex_lock(&mutex);
    passes = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    await_all();
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
}

TEST(a_process_shared_condition_works_between_a_fiber_and_a_thread)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&cond, &attributes);
    pthread_t thread = start_thread(wait_for_passes_in_thread, NULL);
    pthread_mutex_lock(&mutex);
    passes = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mutex);
    join_thread(thread);
    struct timespec soon = time_in(CLOCK_REALTIME, 1);
    pthread_mutex_lock(&mutex);
    ck_assert_int_eq(pthread_cond_timedwait(&cond, &mutex, &soon), ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
}

static sem_t sem;

static weft_value take_from_sem(void *arg)
{
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(sem_wait(&sem), 0);
    return 0;
}

static void *post_to_sem(void *arg)
{
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(sem_post(&sem), 0);
    return NULL;
}

TEST(every_post_of_a_thread_lets_one_fiber_pass)
{
    sem_init(&sem, 0, 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start_thread(post_to_sem, NULL);
    for (int i = 0; i < FIBERS; i++)
        weft_spin(take_from_sem, NULL);
    await_all();
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
    ck_assert_int_eq(sem_trywait(&sem), -1);
}

static void post_in_handler(int signal)
{
    sem_post(&sem);
}

static void *interrupt_when_waiting(void *arg)
{
    await_lock_waits(1);
    pthread_kill(*(pthread_t *)arg, SIGUSR1);
    return NULL;
}

TEST(a_post_in_a_signal_handler_wakes_a_fiber)
{
    pthread_t self = pthread_self();
    struct sigaction action = {.sa_handler = post_in_handler};
    sem_init(&sem, 0, 0);
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_t thread = start_thread(interrupt_when_waiting, &self);
    ck_assert_int_eq(sem_wait(&sem), 0);
    join_thread(thread);
}

/*
 * Barriers.
 */

static pthread_barrier_t barrier;
static atomic_int serials, arrivals;

static void meet_many_times(void)
{
    for (int round = 1; round <= 200; round++) {
        arrivals++;
        int rc = pthread_barrier_wait(&barrier);
        ck_assert(rc == 0 || rc == PTHREAD_BARRIER_SERIAL_THREAD);
        serials += rc != 0;
        ck_assert_int_ge(arrivals, round * (FIBERS + THREADS));
    }
}

static weft_value meet_in_fiber(void *arg)
{
    meet_many_times();
    return 0;
}

static void *meet_in_thread(void *arg)
{
    meet_many_times();
    return NULL;
}

TEST(fibers_and_threads_meet_at_a_barrier)
{
    pthread_t threads[THREADS];
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, FIBERS + THREADS), 0);
    for (int i = 0; i < THREADS; i++)
        threads[i] = start_thread(meet_in_thread, NULL);
    for (int i = 0; i < FIBERS; i++)
        weft_spin(meet_in_fiber, NULL);
    await_all();
    for (int i = 0; i < THREADS; i++)
        join_thread(threads[i]);
    ck_assert_int_eq(serials, 200);
    ck_assert_int_eq(pthread_barrier_destroy(&barrier), 0);
}

TEST(a_barrier_for_one_never_waits)
{
    ck_assert_int_eq(pthread_barrier_init(&barrier, NULL, 1), 0);
    ck_assert_int_eq(pthread_barrier_wait(&barrier), PTHREAD_BARRIER_SERIAL_THREAD);
    ck_assert_uint_eq(posix_stats().lock_waits, 0);
}

/*
 * Joins.
 */

static void *return_when_ready(void *arg)
{
    while (!is_ready)
        sched_yield();
    return arg;
}

static weft_value set_ready(void *arg)
{
    is_ready = true;
    return 0;
}

TEST(a_fiber_joins_a_thread_while_other_fibers_run)
{
    void *value = NULL;
    pthread_t thread = start_thread(return_when_ready, &value);
    weft_spin(set_ready, NULL);
    ck_assert_int_eq(pthread_tryjoin_np(thread, &value), EBUSY);
    ck_assert_int_eq(pthread_join(thread, &value), 0);
    ck_assert_ptr_eq(value, &value);
    ck_assert_uint_eq(posix_stats().offloads, 1);
    ck_assert_int_eq(pthread_join(pthread_self(), NULL), EDEADLK);
    await_all();
}

TEST(a_timed_join_fails_at_its_time)
{
    pthread_t thread = start_thread(return_when_ready, NULL);
    struct timespec soon = time_in(CLOCK_REALTIME, 2);
    ck_assert_int_eq(pthread_timedjoin_np(thread, NULL, &soon), ETIMEDOUT);
    soon = time_in(CLOCK_MONOTONIC, 2);
    ck_assert_int_eq(pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &soon), ETIMEDOUT);
    is_ready = true;
    struct timespec later = time_in(CLOCK_REALTIME, LONG_MS);
    ck_assert_int_eq(pthread_timedjoin_np(thread, NULL, &later), 0);
}

static weft_value join_under_a_deadline(void *arg)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 0), 0);
    ck_assert_int_eq(pthread_join(*(pthread_t *)arg, NULL), 0);
    ck_assert(weft_scope_is_cancelled(&scope));
    ck_assert_int_eq(weft_scope_close(&scope), 0);
    return 0;
}

TEST(a_deadline_does_not_end_a_join)
{
    pthread_t thread = start_thread(return_when_ready, NULL);
    weft_fiber f = spin_waiting(join_under_a_deadline, &thread);
    is_ready = true;
    ck_assert_int_eq(weft_await(f), 0);
}
