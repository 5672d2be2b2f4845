/*
 * The end of the process while fibers wait for locks and threads. A lock that never becomes free,
 * or a thread that never ends, does not delay the end.
 */
#include "posix/lock_support.h"

FIXTURE(adopt_program, NULL)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static weft_value wait_for_mutex(void *arg)
{
    return pthread_mutex_lock(&mutex);
}

static weft_value wait_for_post(void *arg)
{
    static sem_t sem;
    sem_init(&sem, 0, 0);
    return sem_wait(&sem);
}

static weft_value wait_for_others(void *arg)
{
    static pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    return pthread_barrier_wait(&barrier);
}

/* The next lock would fail if the mutex were passed to a fiber that never continues. */
static void use_mutex(void)
{
    if (pthread_mutex_unlock(&mutex) != 0 || pthread_mutex_lock(&mutex) != 0)
        _exit(EXIT_FAILURE);
}

TEST_PROGRAM(a_process_ends_while_fibers_wait_for_locks, 3, "")
{
    atexit(use_mutex); /* runs after the handler of weft */
    ck_assert_uint_ne(weft_self(), 0);
    pthread_mutex_lock(&mutex);
    spin_waiting(wait_for_mutex, NULL);
    spin_waiting(wait_for_post, NULL);
    spin_waiting(wait_for_others, NULL);
    return 3;
}

static weft_value lock_and_wait(void *arg)
{
    pthread_mutex_lock(&mutex);
    weft_suspend();
    pthread_mutex_unlock(&mutex);
    return 0;
}

static weft_value lock_and_report(void *arg)
{
    pthread_mutex_lock(&mutex);
    fputs("locked", stderr);
    pthread_mutex_unlock(&mutex);
    return 0;
}

TEST_PROGRAM(the_end_of_a_process_waits_for_locks_that_become_free, 0, "locked")
{
    ck_assert_uint_ne(weft_self(), 0);
    spin_waiting(lock_and_wait, NULL);
    spin_waiting(lock_and_report, NULL);
    return 0;
}

static void *never_end(void *arg)
{
    for (;;)
        pause();
    return arg;
}

static weft_value join_forever(void *arg)
{
    return pthread_join(start_thread(never_end, NULL), NULL);
}

TEST_PROGRAM(a_process_ends_while_a_fiber_joins_a_thread, 0, "")
{
    ck_assert_uint_ne(weft_self(), 0);
    spin_waiting(join_forever, NULL);
    return 0;
}
