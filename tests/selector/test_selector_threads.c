/*
 * Tests of selectors with several threads and processes: wakes, signals, worker threads, the thread
 * of a selector, cords beside selectors, and fork.
 */
#include "selector/selector_support.h"

#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>

FIXTURE(open_selector, close_selector)

static int fd[2];

/* Wakes. */

TEST(a_wake_before_a_poll_ends_the_next_poll_and_no_other)
{
    weft_selector_op op = {0};
    for (int i = 0; i < 3; i++)
        weft_selector_wake(selector);
    errno = 0;
    ck_assert_int_eq(weft_selector_poll(selector, INFINITY), 0);
    double before = weft_selector_now();
    ck_assert_int_eq(weft_selector_poll(selector, 0.01), 0);
    ck_assert(weft_selector_now() - before >= 0.01);
    weft_selector_wake(selector);
    ck_assert(weft_selector_sleep(selector, &op, 0.001) == PENDING);
    ck_assert_int_eq(finish(&op, PENDING), 0);
}

TEST(a_wake_before_the_first_use_ends_the_first_poll)
{
    weft_selector *s = new_selector();
    weft_selector_wake(s);
    ck_assert_int_eq(weft_selector_poll(s, INFINITY), 0);
    weft_selector_close(s);
}

enum { WAKERS = 4, WAKES = 20000 };

static atomic_int posted[WAKERS];

static void *post_and_wake(void *arg)
{
    for (int i = 0; i < WAKES; i++) {
        atomic_fetch_add((atomic_int *)arg, 1);
        weft_selector_wake(selector);
    }
    return NULL;
}

/* A lost wake would leave the poll waiting forever. */
TEST(no_wake_of_other_threads_is_lost)
{
    pthread_t threads[WAKERS];
    weft_selector_op op = {0};
    new_pipe(fd);
    ck_assert(weft_selector_wait_fd(selector, &op, fd[0], POLLIN) == PENDING);
    for (int i = 0; i < WAKERS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, post_and_wake, &posted[i]), 0);
    for (int taken = 0; taken < WAKERS * WAKES;) {
        ck_assert_int_eq(weft_selector_poll(selector, INFINITY), 0);
        for (int i = 0; i < WAKERS; i++)
            taken += atomic_exchange(&posted[i], 0);
    }
    for (int i = 0; i < WAKERS; i++)
        pthread_join(threads[i], NULL);
    put(fd[1], "a");
    while (weft_selector_poll(selector, INFINITY) == 0)
        continue; /* a late wake */
    ck_assert_ptr_eq(weft_selector_next(selector), &op);
    close_pair(fd);
}

/* One thread waits until the other has been woken, so that each wake finds a waiting poll. */
static sem_t may_wake;

static void *wake_on_request(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        sem_wait(&may_wake);
        weft_selector_wake(selector);
    }
    return arg;
}

TEST(each_wake_ends_a_poll_that_waits)
{
    pthread_t thread;
    sem_init(&may_wake, 0, 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, wake_on_request, NULL), 0);
    for (int i = 0; i < 1000; i++) {
        sem_post(&may_wake);
        ck_assert_int_eq(weft_selector_poll(selector, INFINITY), 0);
    }
    pthread_join(thread, NULL);
}

/* Signals. */

static atomic_bool has_returned;
static bool wakes_in_handler;

static void on_signal(int number)
{
    if (wakes_in_handler)
        weft_selector_wake(selector);
}

static void *send_signals(void *arg)
{
    while (!atomic_load(&has_returned)) {
        pthread_kill(*(pthread_t *)arg, SIGUSR1);
        usleep(100);
    }
    return NULL;
}

TEST_LOOP(a_signal_ends_a_poll, 2)
{
    pthread_t self = pthread_self(), thread;
    wakes_in_handler = _i == 1;
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal, .sa_flags = SA_RESTART}, NULL);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_signals, &self), 0);
    ck_assert_int_eq(weft_selector_poll(selector, INFINITY), 0);
    atomic_store(&has_returned, true);
    pthread_join(thread, NULL);
}

/* The thread of a selector. */

static void *use_from_elsewhere(void *arg)
{
    weft_selector_op op = {0};
    ck_assert_int_eq(weft_selector_poll(arg, 0), -EXDEV);
    ck_assert_int_eq(weft_selector_sleep(arg, &op, 0), -EXDEV);
    ck_assert_int_eq(weft_selector_cancel(arg, &op), -EXDEV);
    ck_assert_int_eq(weft_selector_close_fd(arg, 0), -EXDEV);
    ck_assert_ptr_null(weft_selector_next(arg));
    ck_assert_ptr_null(weft_selector_backend(arg));
    return NULL;
}

static void run_thread(void *(*fn)(void *), void *arg)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, fn, arg), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
}

TEST(other_threads_cannot_use_a_selector)
{
    run_thread(use_from_elsewhere, selector);
}

/* Echo a few bytes in a selector that this thread or another thread has opened. */
static void *echo(void *arg)
{
    weft_selector *s = arg;
    weft_selector_op op = {0};
    char got[4];
    int pair[2];
    new_sockets(pair);
    for (int i = 0; i < 200; i++) {
        weft_value n = weft_selector_read(s, &op, pair[0], got, sizeof got, CURRENT);
        ck_assert(n == PENDING);
        put(pair[1], "ab");
        ck_assert_int_eq(finish_in(s, &op, n), 2);
        ck_assert_int_eq(finish_in(s, &op, weft_selector_sleep(s, &op, 0)), 0);
    }
    close_pair(pair);
    ck_assert_ptr_null(weft__cord_self);
    return NULL;
}

TEST(a_selector_that_one_thread_opens_works_in_another_and_is_closed_by_the_first)
{
    weft_selector *s = new_selector();
    run_thread(echo, s);
    weft_selector_close(s);
}

static void *leave_operations(void *arg)
{
    static weft_selector_op ops[3];
    static char got[8];
    ck_assert(weft_selector_wait_fd(arg, &ops[0], fd[0], POLLIN) == PENDING);
    ck_assert(weft_selector_read(arg, &ops[1], fd[0], got, 8, CURRENT) == PENDING);
    ck_assert_int_eq(weft_selector_poll(arg, 0), 0);
    ck_assert(weft_selector_sleep(arg, &ops[2], 100) == PENDING);
    return NULL;
}

TEST(a_thread_closes_a_selector_of_an_ended_thread_with_pending_operations)
{
    weft_selector *s = new_selector();
    new_sockets(fd);
    run_thread(leave_operations, s);
    weft_selector_close(s);
    close_pair(fd);
}

static void *open_and_echo(void *arg)
{
    weft_selector *s = new_selector();
    echo(s);
    weft_selector_close(s);
    return arg;
}

static weft_value echo_in_fiber(void *arg)
{
    int pair[2];
    char got[4];
    ck_assert_int_eq(weft_socketpair(pair), 0);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(weft_write(pair[1], "ab", 2), 2);
        ck_assert_int_eq(weft_read(pair[0], got, sizeof got), 2);
    }
    weft_close(pair[0]);
    weft_close(pair[1]);
    return 0;
}

static void *be_a_cord_with_a_selector(void *arg)
{
    weft_selector *s = new_selector();
    weft_selector_op op = {0};
    for (int i = 0; i < 5; i++) {
        weft_fiber f = weft_spin(echo_in_fiber, NULL);
        ck_assert_int_eq(finish_in(s, &op, weft_selector_sleep(s, &op, 0.001)), 0);
        ck_assert_int_eq(weft_await(f), 0);
    }
    weft_selector_close(s);
    return arg;
}

/* The numbers of closed descriptors pass between the threads. */
TEST(selectors_of_several_threads_and_cords_work_side_by_side)
{
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL,
                                        i < 4 ? open_and_echo : be_a_cord_with_a_selector, NULL),
                         0);
    echo(selector);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
}

/* Worker threads. */

static sem_t has_started, may_return, was_dropped;
static atomic_int drops;

static weft_value call_wait(void *arg)
{
    sem_post(&has_started);
    sem_wait(&may_return);
    return (weft_value)arg;
}

static void call_drop(void *arg)
{
    ck_assert_ptr_eq(arg, (void *)42);
    atomic_fetch_add(&drops, 1);
    sem_post(&was_dropped);
}

static void init_call(void)
{
    sem_init(&has_started, 0, 0);
    sem_init(&may_return, 0, 0);
    sem_init(&was_dropped, 0, 0);
}

TEST(an_offloaded_call_runs_in_another_thread_and_returns_its_value)
{
    weft_selector_op ops[100] = {{0}};
    init_call();
    for (int i = 0; i < 100; i++) {
        sem_post(&may_return);
        ck_assert(weft_selector_offload(selector, &ops[i], call_wait, (void *)(intptr_t)(i - 50),
                                        call_drop) == PENDING);
    }
    for (int i = 0; i < 100; i++)
        next_op(selector);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(ops[i].result, i - 50);
    ck_assert_int_eq(atomic_load(&drops), 0);
}

TEST(a_running_call_with_drop_can_be_left_and_is_dropped_once)
{
    weft_selector_op op = {0};
    init_call();
    ck_assert(weft_selector_offload(selector, &op, call_wait, (void *)42, call_drop) == PENDING);
    sem_wait(&has_started);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), 0);
    ck_assert_int_eq(op.result, -ECANCELED);
    ck_assert_int_eq(atomic_load(&drops), 0);
    sem_post(&may_return);
    sem_wait(&was_dropped);
    assert_none_completes();
    ck_assert_int_eq(atomic_load(&drops), 1);
}

TEST(a_running_call_without_drop_ends_with_its_result)
{
    weft_selector_op op = {0};
    init_call();
    ck_assert(weft_selector_offload(selector, &op, call_wait, (void *)7, NULL) == PENDING);
    sem_wait(&has_started);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), -EINPROGRESS);
    ck_assert_int_eq(weft_selector_cancel(selector, &op), -EINPROGRESS);
    sem_post(&may_return);
    ck_assert_int_eq(finish(&op, PENDING), 7);
}

TEST(a_call_that_has_not_started_is_not_made)
{
    weft_selector_op running = {0}, queued = {0};
    init_call();
    ck_assert_int_eq(weft_offload_set_limit(1), 0);
    ck_assert(weft_selector_offload(selector, &running, call_wait, NULL, NULL) == PENDING);
    sem_wait(&has_started);
    ck_assert(weft_selector_offload(selector, &queued, call_wait, (void *)42, call_drop) ==
              PENDING);
    ck_assert_int_eq(weft_selector_limit(selector, &queued, 0), 0);
    ck_assert_int_eq(finish(&queued, PENDING), -ETIMEDOUT);
    ck_assert_int_eq(atomic_load(&drops), 1);
    sem_post(&may_return);
    ck_assert_int_eq(finish(&running, PENDING), 0);
}

TEST(closing_a_selector_waits_for_a_call_without_drop)
{
    static weft_selector_op ops[2];
    weft_selector *s = new_selector();
    init_call();
    ck_assert(weft_selector_offload(s, &ops[0], call_wait, NULL, NULL) == PENDING);
    ck_assert(weft_selector_offload(s, &ops[1], call_wait, (void *)42, call_drop) == PENDING);
    sem_wait(&has_started);
    sem_wait(&has_started);
    sem_post(&may_return);
    sem_post(&may_return);
    weft_selector_close(s);
    sem_wait(&was_dropped);
}

static weft_value call_fibers(void *arg)
{
    return weft_await(weft_spin(echo_in_fiber, NULL));
}

static weft_value call_check(void *arg)
{
    return weft__cord_self == NULL;
}

TEST(a_call_may_use_fibers_and_leaves_no_cord)
{
    weft_selector_op op = {0};
    ck_assert_int_eq(weft_offload_set_limit(1), 0);
    ck_assert_int_eq(finish(&op, weft_selector_offload(selector, &op, call_fibers, NULL, NULL)), 0);
    ck_assert_int_eq(finish(&op, weft_selector_offload(selector, &op, call_check, NULL, NULL)), 1);
}

/* Fork. */

static int count_backend_descriptors(void)
{
    int count = 0;
    for (int number = 0; number < 1024; number++) {
        char path[32], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%d", number);
        if (readlink(path, target, sizeof target - 1) > 0)
            count += strstr(target, "anon_inode") != NULL;
    }
    return count;
}

/* Fork. The child calls fn, and exits successfully if fn returns true. */
static void run_child(bool (*fn)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        _exit(fn() ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static weft_selector_op inherited;
static char inherited_data[8];

static bool child_closes(void)
{
    weft_selector_op op = {0};
    weft_selector_wake(selector); /* no effect */
    bool is_refused = weft_selector_poll(selector, 0) == -ENOTRECOVERABLE &&
                      weft_selector_sleep(selector, &op, 0) == -ENOTRECOVERABLE &&
                      weft_selector_cancel(selector, &inherited) == -ENOTRECOVERABLE &&
                      weft_selector_next(selector) == NULL;
    weft_selector_close(selector);
    return is_refused && count_backend_descriptors() == 0;
}

static bool child_opens_its_own(void)
{
    weft_selector *s;
    weft_selector_op op = {0};
    int pair[2];
    char got[2];
    if (weft_selector_open(&s, NULL) != 0 || pipe(pair) != 0 ||
        weft_selector_read(s, &op, pair[0], got, 2, CURRENT) != PENDING ||
        write(pair[1], "a", 1) != 1)
        return false;
    while (weft_selector_next(s) == NULL)
        weft_selector_poll(s, INFINITY);
    bool is_same = strcmp(weft_selector_backend(s), getenv("WEFT_BACKEND")) == 0;
    weft_selector_close(s);
    weft_selector_close(selector);
    return op.result == 1 && is_same && count_backend_descriptors() == 0;
}

/* The operations of the parent continue. */
TEST_LOOP(a_child_closes_its_copy_of_a_selector_and_the_parent_is_not_affected, 2)
{
    weft_selector_op waiting = {0};
    new_sockets(fd);
    ck_assert(weft_selector_read(selector, &inherited, fd[0], inherited_data, 8, CURRENT) ==
              PENDING);
    ck_assert(weft_selector_wait_fd(selector, &waiting, fd[1], POLLIN) == PENDING);
    if (_i == 1)
        assert_none_completes();
    run_child(child_closes);
    run_child(child_opens_its_own);
    assert_none_completes();
    put(fd[1], "abc");
    ck_assert_int_eq(finish(&inherited, PENDING), 3);
    put(fd[0], "d");
    ck_assert_int_eq(finish(&waiting, PENDING), POLLIN);
    close_pair(fd);
}

static void *fork_elsewhere(void *arg)
{
    run_child(child_closes);
    return arg;
}

/* With libev, only the thread of the loop can close the descriptor of the loop. */
TEST(another_thread_may_fork)
{
    if (strncmp(getenv("WEFT_BACKEND"), "libev", 5) == 0)
        return;
    run_thread(fork_elsewhere, NULL);
    assert_none_completes();
}
