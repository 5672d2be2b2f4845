/*
 * Programs that hang or fail if fibers use the locks of libc, and that work with hooks. Each
 * program runs with hooks, and without hooks of locks in a child process.
 */
#include "posix/lock_support.h"

#include <signal.h>
#include <threads.h>

FIXTURE(adopt_program, NULL)

#define FIBERS 4

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static atomic_int errors, entered;

static void check(int rc)
{
    if (rc != 0)
        atomic_fetch_add(&errors, 1);
}

/* Return whether the fibers have run, without an error and one after another. */
static bool spin_and_judge(weft_fn *fn, int count)
{
    for (int i = 0; i < count; i++)
        weft_spin(fn, NULL);
    return weft_await_children() == 0 && errors == 0 && overlaps == 0;
}

static weft_value use_mutex(void *arg)
{
    check(pthread_mutex_lock(&mutex));
    section_enter();
    hooked_pause();
    section_leave();
    check(pthread_mutex_unlock(&mutex));
    return 0;
}

static bool fibers_share_a_normal_mutex(void)
{
    return spin_and_judge(use_mutex, FIBERS);
}

static bool fibers_share_a_recursive_mutex(void)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_RECURSIVE);
    return spin_and_judge(use_mutex, FIBERS);
}

static bool fibers_share_an_error_checking_mutex(void)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
    return spin_and_judge(use_mutex, FIBERS);
}

static weft_value use_rwlock(void *arg)
{
    check(pthread_rwlock_wrlock(&rwlock));
    section_enter();
    hooked_pause();
    section_leave();
    check(pthread_rwlock_unlock(&rwlock));
    check(pthread_rwlock_rdlock(&rwlock));
    hooked_pause();
    check(pthread_rwlock_unlock(&rwlock));
    return 0;
}

static bool fibers_share_a_rwlock(void)
{
    return spin_and_judge(use_rwlock, FIBERS);
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void wait_once(void)
{
    hooked_pause();
    entered++;
}

static weft_value run_once(void *arg)
{
    check(pthread_once(&once, wait_once));
    check(entered != 1);
    return 0;
}

static bool fibers_run_a_function_once_that_waits(void)
{
    return spin_and_judge(run_once, FIBERS);
}

static weft_value wait_for_entered(void *arg)
{
    check(pthread_mutex_lock(&mutex));
    while (entered == 0)
        check(pthread_cond_wait(&cond, &mutex));
    check(pthread_mutex_unlock(&mutex));
    return 0;
}

static weft_value signal_entered(void *arg)
{
    check(pthread_mutex_lock(&mutex));
    entered = 1;
    check(pthread_cond_signal(&cond));
    check(pthread_mutex_unlock(&mutex));
    return 0;
}

static bool a_fiber_signals_a_condition(void)
{
    weft_spin(wait_for_entered, NULL);
    return spin_and_judge(signal_entered, 1);
}

static atomic_bool has_ticked;

static weft_value tick(void *arg)
{
    has_ticked = true;
    return 0;
}

static void await_tick(void)
{
    while (!has_ticked)
        sched_yield();
}

static void *signal_after_tick(void *arg)
{
    await_tick();
    signal_entered(NULL);
    return NULL;
}

static bool a_thread_signals_a_condition_while_fibers_run(void)
{
    pthread_t thread = start_thread(signal_after_tick, NULL);
    weft_spin(wait_for_entered, NULL);
    bool is_good = spin_and_judge(tick, 1);
    pthread_join(thread, NULL);
    return is_good;
}

static sem_t sem;

static void *post_after_tick(void *arg)
{
    await_tick();
    sem_post(&sem);
    return NULL;
}

static weft_value wait_for_sem(void *arg)
{
    check(sem_wait(&sem));
    return 0;
}

static bool a_thread_posts_a_semaphore_while_fibers_run(void)
{
    sem_init(&sem, 0, 0);
    pthread_t thread = start_thread(post_after_tick, NULL);
    weft_spin(wait_for_sem, NULL);
    bool is_good = spin_and_judge(tick, 1);
    pthread_join(thread, NULL);
    return is_good;
}

static void *use_mutex_in_thread(void *arg)
{
    for (int i = 0; i < 20; i++)
        use_mutex(NULL);
    return NULL;
}

static bool fibers_and_threads_share_a_mutex(void)
{
    pthread_t threads[3];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        threads[i] = start_thread(use_mutex_in_thread, NULL);
    bool is_good = spin_and_judge(use_mutex, FIBERS);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    return is_good && overlaps == 0;
}

/* Under TSan, an unlock does not pass the mutex on. */
#ifndef __SANITIZE_THREAD__
static weft_value mark_turns(void *arg)
{
    for (int i = 0; i < 5; i++) {
        check(pthread_mutex_lock(&mutex));
        mark(arg);
        hooked_pause();
        check(pthread_mutex_unlock(&mutex));
    }
    return 0;
}

static bool loops_that_hold_a_mutex_take_turns(void)
{
    weft_spin(mark_turns, (void *)"A");
    weft_spin(mark_turns, (void *)"B");
    return weft_await_children() == 0 && errors == 0 && strcmp(trail, "ABABABABAB") == 0;
}

#endif

static mtx_t c11_mutex;

static weft_value use_c11_mutex(void *arg)
{
    check(mtx_lock(&c11_mutex));
    section_enter();
    hooked_pause();
    section_leave();
    check(mtx_unlock(&c11_mutex));
    return 0;
}

static bool fibers_share_a_c11_mutex(void)
{
    mtx_init(&c11_mutex, mtx_plain);
    return spin_and_judge(use_c11_mutex, FIBERS);
}

static pthread_barrier_t barrier;

static weft_value meet(void *arg)
{
    int rc = pthread_barrier_wait(&barrier);
    check(rc == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : rc);
    return 0;
}

static bool fibers_meet_at_a_barrier(void)
{
    pthread_barrier_init(&barrier, NULL, FIBERS);
    return spin_and_judge(meet, FIBERS);
}

static void *return_after_tick(void *arg)
{
    await_tick();
    return arg;
}

static weft_value join_in_fiber(void *arg)
{
    void *value = NULL;
    check(pthread_join(start_thread(return_after_tick, &errors), &value));
    check(value != &errors);
    return 0;
}

static bool a_fiber_joins_a_thread_while_fibers_run(void)
{
    weft_spin(join_in_fiber, NULL);
    return spin_and_judge(tick, 1);
}

/* A program. */
typedef struct program {
    const char *name;
    bool (*run)(void); /* returns whether all is well */
} program;

/* clang-format off */
#define PROGRAM(name) {#name, name}
/* clang-format on */

static const program programs[] = {
    PROGRAM(fibers_share_a_normal_mutex),
    PROGRAM(fibers_share_a_recursive_mutex),
    PROGRAM(fibers_share_an_error_checking_mutex),
    PROGRAM(fibers_share_a_rwlock),
    PROGRAM(fibers_run_a_function_once_that_waits),
    PROGRAM(a_fiber_signals_a_condition),
    PROGRAM(a_thread_signals_a_condition_while_fibers_run),
    PROGRAM(a_thread_posts_a_semaphore_while_fibers_run),
    PROGRAM(fibers_and_threads_share_a_mutex),
#ifndef __SANITIZE_THREAD__
    PROGRAM(loops_that_hold_a_mutex_take_turns),
#endif
    PROGRAM(fibers_share_a_c11_mutex),
    PROGRAM(fibers_meet_at_a_barrier),
    PROGRAM(a_fiber_joins_a_thread_while_fibers_run),
};

TEST_ROWS(a_program_works_with_hooks, programs)
{
    ck_assert_msg(programs[_i].run(), "%s: %d errors, %d overlaps, %s", programs[_i].name,
                  atomic_load(&errors), atomic_load(&overlaps), trail);
}

#ifndef __SANITIZE_THREAD__ /* TSan reports the mistakes of these programs */

static void run_without_lock_hooks(const program *p)
{
    signal(SIGALRM, SIG_DFL); /* the handler of Check would end the test */
    alarm(2);
    bool is_adopted = weft_adopt("", &(weft_adopt_options){.has_no_locks = true}) > 0;
    _exit(is_adopted && p->run() ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* All children run at the same time, because each of them waits for its alarm. */
TEST(no_program_works_without_hooks_of_locks)
{
    if (is_preloaded()) /* the hooks cannot be removed */
        return;
    pid_t pids[COUNT_OF(programs)];
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            run_without_lock_hooks(&programs[i]);
    }
    for (size_t i = 0; i < COUNT_OF(programs); i++) {
        int status;
        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_msg(status != 0, "%s works without hooks", programs[i].name);
    }
}

#endif
