/* Initialisations that run once, in C and C++, and the locks of <threads.h>. */
#include "posix/lock_support.h"

#include <threads.h>

FIXTURE(adopt_program, NULL)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static atomic_int runs;

static void run_and_wait(void)
{
    section_enter();
    hooked_pause();
    section_leave();
    runs++;
}

static weft_value run_once_in_fiber(void *arg)
{
    ck_assert_int_eq(pthread_once(&once, run_and_wait), 0);
    ck_assert_int_eq(runs, 1);
    return 0;
}

static void *run_once_in_thread(void *arg)
{
    run_once_in_fiber(NULL);
    return NULL;
}

TEST(fibers_and_threads_run_a_function_once)
{
    pthread_t thread = start_thread(run_once_in_thread, NULL);
    for (int i = 0; i < 4; i++)
        weft_spin(run_once_in_fiber, NULL);
    await_all();
    join_thread(thread);
    ck_assert_int_eq(runs, 1);
    ck_assert_int_eq(overlaps, 0);
}

/* TSan replaces pthread_once, without support for fork. */
#ifndef __SANITIZE_THREAD__
static void never_return(void)
{
    weft_suspend();
}

static weft_value run_forever(void *arg)
{
    return pthread_once(&once, never_return);
}

TEST(a_child_of_weft_fork_repeats_a_function_that_ran_in_the_parent)
{
    weft_fiber f = spin_waiting(run_forever, NULL);
    pid_t pid = weft_fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(run_once_in_fiber(NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
}
#endif

static once_flag flag = ONCE_FLAG_INIT;

static weft_value call_once_in_fiber(void *arg)
{
    call_once(&flag, run_and_wait);
    ck_assert_int_eq(runs, 1);
    return 0;
}

TEST(fibers_call_a_function_once)
{
    for (int i = 0; i < 4; i++)
        weft_spin(call_once_in_fiber, NULL);
    await_all();
    ck_assert_int_eq(overlaps, 0);
}

/*
 * Static variables of functions in C++. A compiler generates the same calls.
 */

#ifdef HAS_CXX_RUNTIME

int __cxa_guard_acquire(uint64_t *guard);
void __cxa_guard_abort(uint64_t *guard);
void __cxa_guard_release(uint64_t *guard);

static uint64_t guard;

static weft_value construct(void *arg)
{
    if (__cxa_guard_acquire(&guard) != 0) {
        run_and_wait();
        __cxa_guard_release(&guard);
    }
    ck_assert_int_eq(runs, 1);
    return 0;
}

static void *construct_in_thread(void *arg)
{
    construct(NULL);
    return NULL;
}

TEST(fibers_and_threads_construct_a_static_variable_once)
{
    pthread_t thread = start_thread(construct_in_thread, NULL);
    for (int i = 0; i < 4; i++)
        weft_spin(construct, NULL);
    await_all();
    join_thread(thread);
    ck_assert_int_eq(runs, 1);
    ck_assert_int_eq(overlaps, 0);
}

static weft_value construct_in_vain(void *arg)
{
    ck_assert_int_eq(__cxa_guard_acquire(&guard), 1);
    hooked_pause();
    mark("a");
    __cxa_guard_abort(&guard);
    return 0;
}

TEST(another_fiber_constructs_a_static_variable_after_an_exception)
{
    weft_spin(construct_in_vain, NULL);
    weft_spin(construct, NULL);
    weft_spin(construct, NULL);
    await_all();
    ck_assert_trail("a");
    ck_assert_int_eq(runs, 1);
}

#endif

/*
 * C11.
 */

static mtx_t mutex;
static cnd_t cond;

static weft_value use_held_mutex(void *arg)
{
    struct timespec soon = time_in(CLOCK_REALTIME, 2);
    ck_assert_int_eq(mtx_trylock(&mutex), thrd_busy);
    ck_assert_int_eq(mtx_timedlock(&mutex, &soon), thrd_timedout);
    mark("t");
    ck_assert_int_eq(mtx_lock(&mutex), thrd_success);
    mark("l");
    ck_assert_int_eq(mtx_unlock(&mutex), thrd_success);
    return 0;
}

TEST(a_c11_mutex_belongs_to_a_fiber)
{
    ck_assert_uint_ne(weft_self(), 0);
    ck_assert_int_eq(mtx_init(&mutex, mtx_timed | mtx_recursive), thrd_success);
    ck_assert_int_eq(mtx_lock(&mutex), thrd_success);
    ck_assert_int_eq(mtx_trylock(&mutex), thrd_success);
    ck_assert_int_eq(mtx_unlock(&mutex), thrd_success);
    weft_spin(use_held_mutex, NULL);
    while (trail[0] == '\0')
        ck_assert_int_eq(weft_sleep(0.001), 0);
    ck_assert_trail("t");
    ck_assert_int_eq(mtx_unlock(&mutex), thrd_success);
    await_all();
    ck_assert_trail("tl");
    ck_assert_int_eq(mtx_unlock(&mutex), thrd_error);
}

static weft_value wait_c11(void *arg)
{
    mtx_lock(&mutex);
    ck_assert_int_eq(cnd_wait(&cond, &mutex), thrd_success);
    mark(arg);
    mtx_unlock(&mutex);
    return 0;
}

TEST(a_c11_condition_wakes_fibers)
{
    mtx_init(&mutex, mtx_plain);
    cnd_init(&cond);
    weft_spin(wait_c11, (void *)"a");
    weft_spin(wait_c11, (void *)"b");
    weft_spin(wait_c11, (void *)"c");
    let_run();
    ck_assert_int_eq(cnd_signal(&cond), thrd_success);
    let_run();
    ck_assert_trail("a");
    ck_assert_int_eq(cnd_broadcast(&cond), thrd_success);
    await_all();
    ck_assert_trail("abc");
    struct timespec soon = time_in(CLOCK_REALTIME, 2);
    mtx_lock(&mutex);
    ck_assert_int_eq(cnd_timedwait(&cond, &mutex, &soon), thrd_timedout);
    mtx_unlock(&mutex);
}

/* TSan does not know thrd_create. */
#ifndef __SANITIZE_THREAD__
static int return_seven(void *arg)
{
    while (runs == 0)
        sched_yield();
    return 7;
}

static weft_value sleep_c11(void *arg)
{
    struct timespec time = {.tv_nsec = 1000000};
    ck_assert_int_eq(thrd_sleep(&time, NULL), 0);
    runs = 1;
    return 0;
}

TEST(a_c11_join_and_a_sleep_let_other_fibers_run)
{
    thrd_t thread;
    int result = 0;
    ck_assert_int_eq(thrd_create(&thread, return_seven, NULL), thrd_success);
    weft_spin(sleep_c11, NULL);
    ck_assert_int_eq(thrd_join(thread, &result), thrd_success);
    ck_assert_int_eq(result, 7);
    await_all();
}

#endif

static weft_value sleep_under_a_deadline(void *arg)
{
    struct timespec time = {.tv_sec = 60};
    int rc = 0;
    WEFT_MOVE_ON_AFTER(0.001)
        rc = thrd_sleep(&time, NULL);
    ck_assert_int_lt(rc, -1);
    return 0;
}

TEST(a_cancelled_c11_sleep_fails)
{
    ck_assert_int_eq(sleep_under_a_deadline(NULL), 0);
}
