/*
 * Locks and other events: cancellation, errno, signal handlers, code that must not switch, fork and
 * the end of a thread.
 */
#include "posix/lock_support.h"

#include <signal.h>
#include <syslog.h>

FIXTURE(adopt_and_start, NULL)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static weft_value lock_and_mark(void *arg)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    mark(arg);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

static weft_value lock_under_a_deadline(void *arg)
{
    weft_scope scope;
    ck_assert_int_eq(weft_scope_open(&scope, 0.001), 0);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert(weft_scope_is_cancelled(&scope));
    ck_assert_uint_eq(weft_posix_owner(&mutex), weft_self());
    struct timespec time = {.tv_sec = 1};
    ck_assert_int_eq(nanosleep(&time, NULL), -1);
    ck_assert_int_eq(errno, ECANCELED);
    ck_assert_int_eq(weft_scope_close(&scope), -ETIMEDOUT);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

TEST(a_deadline_does_not_end_a_wait_for_a_lock)
{
    mutex = mutex_of_type(PTHREAD_MUTEX_ERRORCHECK);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_fiber f = spin_waiting(lock_under_a_deadline, NULL);
    uint64_t before = stats().switches;
    weft_sleep(0.01);
    ck_assert_uint_lt(stats().switches - before, 100); /* the fiber does not poll */
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

static weft_value wait_while_cancelled(void *arg)
{
    pthread_mutex_lock(&mutex);
    ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), 0);
    mark("w");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return weft_sleep(1);
}

TEST(a_cancelled_fiber_first_gets_its_signal)
{
    weft_fiber f = spin_waiting(wait_while_cancelled, NULL);
    ck_assert_int_eq(weft_cancel(f), 0);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(pthread_cond_signal(&cond), 0);
    ck_assert_int_eq(weft_await(f), -ECANCELED);
    ck_assert_trail("w");
}

TEST(an_interrupted_fiber_continues_to_wait_for_a_mutex)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_fiber f = spin_waiting(lock_and_mark, (void *)"a");
    ck_assert_int_eq(weft_interrupt(f, -EINTR), 0);
    let_run();
    ck_assert_trail("");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_trail("a");
}

static weft_value check_errno(void *arg)
{
    errno = EXDEV;
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert_int_eq(pthread_cond_wait(&cond, &mutex), 0);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(errno, EXDEV);
    return 0;
}

TEST(errno_survives_a_wait_for_a_lock)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_fiber f = spin_waiting(check_errno, NULL);
    errno = EDOM;
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(errno, EDOM);
    let_run();
    ck_assert_int_eq(pthread_cond_signal(&cond), 0);
    ck_assert_int_eq(weft_await(f), 0);
}

static weft_value hold_until_scheduled(void *arg)
{
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    weft_suspend();
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    return 0;
}

static int reports;

static void count_reports(int level, const char *text, void *arg)
{
    reports += level == LOG_ERR;
}

/* The two types of which the fiber is not known and is known. */
static const int types_held[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE};

TEST_ROWS(code_that_must_not_switch_cannot_wait_for_a_fiber, types_held)
{
    mutex = mutex_of_type(types_held[_i]);
    weft_set_log(count_reports, NULL);
    weft_fiber f = spin_waiting(hold_until_scheduled, NULL);
    weft_no_switch_begin();
    ck_assert_int_eq(pthread_mutex_trylock(&mutex), EBUSY);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), EDEADLK);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), EDEADLK);
    weft_no_switch_end();
    ck_assert_int_eq(reports, 1);
    weft_schedule(f, 0);
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
}

static int handler_results[3];

static void lock_in_handler(int signal)
{
    handler_results[0] = pthread_mutex_trylock(&mutex);
    handler_results[1] = pthread_mutex_lock(&mutex);
    handler_results[2] = pthread_mutex_lock(&mutex);
}

/* Raise a signal. Read what its handler prints to stderr. */
static void raise_and_read(int signal, char *text, size_t room)
{
    int fd[2], saved = dup(STDERR_FILENO);
    ck_assert_int_eq(pipe(fd), 0);
    dup2(fd[1], STDERR_FILENO);
    raise(signal);
    dup2(saved, STDERR_FILENO);
    close(fd[1]);
    read_all(fd[0], text, room);
    close(fd[0]);
    close(saved);
}

TEST_ROWS(a_signal_handler_cannot_wait_for_a_fiber, types_held)
{
    mutex = mutex_of_type(types_held[_i]);
    struct sigaction action = {.sa_handler = lock_in_handler};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    weft_fiber f = spin_waiting(hold_until_scheduled, NULL);
    char text[1024];
    raise_and_read(SIGUSR1, text, sizeof text);
    ck_assert_int_eq(handler_results[0], EBUSY);
    ck_assert_int_eq(handler_results[1], EDEADLK);
    ck_assert_int_eq(handler_results[2], EDEADLK);
    ck_assert_uint_eq(count_in(text, "the call fails with EDEADLK\n"), 1);
    weft_schedule(f, 0);
    await_all();
}

static void unlock_in_handler(int signal)
{
    pthread_mutex_unlock(&mutex);
}

TEST(an_unlock_in_a_signal_handler_wakes_a_fiber)
{
    struct sigaction action = {.sa_handler = unlock_in_handler};
    ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
    pthread_mutex_lock(&mutex);
    spin_waiting(lock_and_mark, (void *)"a");
    raise(SIGUSR1);
    ck_assert_trail("");
    await_all();
    ck_assert_trail("a");
}

static weft_value lock_and_unlock_without_switch(void *arg)
{
    weft_no_switch_begin();
    ck_assert_int_eq(pthread_mutex_lock(&mutex), 0);
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    weft_no_switch_end();
    return 0;
}

TEST(code_that_must_not_switch_can_use_a_free_mutex)
{
    for (size_t i = 0; i < COUNT_OF(types_held); i++) {
        mutex = mutex_of_type(types_held[i]);
        ck_assert_int_eq(lock_and_unlock_without_switch(NULL), 0);
    }
}

/*
 * Locks at the end of a thread, and fork.
 */

static weft_value wait_for_signal(void *arg)
{
    pthread_mutex_lock(&mutex);
    int rc = pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
    return -rc;
}

/* In the child, a signal for a fiber of the parent would be lost. */
TEST(a_child_of_weft_fork_has_none_of_the_waiting_fibers)
{
    weft_fiber f = spin_waiting(wait_for_signal, NULL);
    pid_t pid = weft_fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        weft_fiber own = spin_waiting(wait_for_signal, NULL);
        pthread_cond_signal(&cond);
        _exit(weft_await(own) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    pthread_cond_signal(&cond);
    ck_assert_int_eq(weft_await(f), 0);
}

static weft_value exit_thread(void *arg)
{
    pthread_exit(NULL);
}

/* A fiber waits for the mutex when its child ends the thread. */
static weft_value lock_while_child_exits(void *arg)
{
    weft_spin(exit_thread, NULL);
    return pthread_mutex_lock(&mutex);
}

static void *end_while_fiber_waits(void *arg)
{
    weft_spin(lock_while_child_exits, NULL);
    weft_suspend();
    return arg;
}

TEST(a_thread_that_ends_leaves_no_waiter)
{
    if (is_sanitized()) /* pthread_exit in a fiber does not unwind the stack of the thread */
        return;
    pthread_mutex_lock(&mutex);
    ck_assert_ptr_null(join_thread(start_thread(end_while_fiber_waits, NULL)));
    spin_waiting(lock_and_mark, (void *)"a");
    ck_assert_int_eq(pthread_mutex_unlock(&mutex), 0);
    await_all();
    ck_assert_trail("a");
}
