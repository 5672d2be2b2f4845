/* Plain fork(2) in a program that uses weft: the child is refused, the parent never notices. */
#include "fork_support.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#define REFUSED (-ENOTRECOVERABLE)
#define THE_LINE "weft: this process is a copy made by fork(2); use weft_fork\n"

/* What there was before, and the fibers wait in. */
static int pipe_fd[2];
static weft_mutex mutex;
static weft_rwlock lock;
static weft_cond cond;
static weft_sem sem;
static weft_event event;
static weft_latch latch;
static weft_chan *chan;
static weft_queue *queue;
static weft_cord cord;

static weft_value read_one(void *arg)
{
    char byte = 0;
    (void)arg;
    return weft_read(pipe_fd[0], &byte, 1) == 1 ? byte : -EIO;
}

static weft_value in_mutex(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&mutex);
    if (rc == 0)
        weft_mutex_unlock(&mutex);
    return rc;
}

static weft_value in_lock(void *arg)
{
    (void)arg;
    return weft_rwlock_write(&lock);
}

static weft_value in_cond(void *arg)
{
    (void)arg;
    return weft_cond_wait(&cond, NULL);
}

static weft_value in_sem(void *arg)
{
    (void)arg;
    return weft_sem_wait(&sem);
}

static weft_value in_event(void *arg)
{
    (void)arg;
    return weft_event_wait(&event);
}

static weft_value in_latch(void *arg)
{
    (void)arg;
    return weft_latch_wait(&latch);
}

static weft_value in_recv(void *arg)
{
    (void)arg;
    return weft_chan_recv(chan);
}

static weft_value in_shift(void *arg)
{
    (void)arg;
    return weft_queue_shift(queue);
}

static weft_fn *const places[] = {read_one, in_mutex, in_lock, in_cond, in_sem,
                                  in_event, in_latch, in_recv, in_shift};
static weft_fiber fibers[COUNT_OF(places)];

static void occupy(void)
{
    ck_assert_int_eq(weft_pipe(pipe_fd), 0);
    weft_sem_open(&sem, 0);
    weft_latch_add(&latch, 1);
    chan = weft_chan_new(0);
    queue = weft_queue_new(0);
    weft_mutex_lock(&mutex);
    weft_rwlock_read(&lock);
    for (size_t i = 0; i < COUNT_OF(places); i++)
        fibers[i] = weft_spin(places[i], NULL);
    let_run();
}

/* Every fiber gets what it waits for. */
static void release(void)
{
    ck_assert_int_eq(weft_write(pipe_fd[1], "x", 1), 1);
    ck_assert_int_eq(weft_mutex_unlock(&mutex), 0);
    ck_assert_int_eq(weft_rwlock_unlock(&lock), 0);
    ck_assert_int_eq(weft_cond_signal(&cond), 1);
    ck_assert_int_eq(weft_sem_post(&sem), 0);
    ck_assert_int_eq(weft_event_set(&event), 0);
    ck_assert_int_eq(weft_latch_done(&latch), 0);
    ck_assert_int_eq(weft_chan_try_send(chan, 0), 0);
    ck_assert_int_eq(weft_queue_push(queue, 0), 0);
    for (size_t i = 0; i < COUNT_OF(places); i++)
        ck_assert_int_eq(weft_await(fibers[i]), i == 0 ? 'x' : 0);
    weft_chan_free(chan);
    weft_queue_free(queue);
}

static void require_refused_waits(void)
{
    char byte;
    require(weft_sleep(0) == REFUSED && weft_suspend() == REFUSED && weft_snooze() == REFUSED);
    require(weft_read(pipe_fd[0], &byte, 1) == REFUSED);
    require(weft_await(fibers[0]) == REFUSED && weft_cancel(fibers[0]) == REFUSED);
    require(weft_await_children() == REFUSED && weft_receive() == REFUSED);
    require(weft_mutex_lock(&mutex) == REFUSED && weft_mutex_unlock(&mutex) == REFUSED);
    require(weft_rwlock_unlock(&lock) == REFUSED && weft_rwlock_read(&lock) == REFUSED);
    require(weft_cond_signal(&cond) == REFUSED && weft_cond_broadcast(&cond) == REFUSED);
    require(weft_cond_wait(&cond, NULL) == REFUSED && weft_sem_wait(&sem) == REFUSED);
    require(weft_sem_post(&sem) == REFUSED && weft_event_set(&event) == REFUSED);
    require(weft_event_wait(&event) == REFUSED && weft_latch_done(&latch) == REFUSED);
    require(weft_chan_try_send(chan, 1) == REFUSED && weft_chan_send(chan, 1) == REFUSED);
    require(weft_chan_try_recv(chan) == REFUSED && weft_chan_recv(chan) == REFUSED);
    require(weft_chan_close(chan) == REFUSED && weft_queue_close(queue) == REFUSED);
    require(weft_queue_try_push(queue, 1) == REFUSED && weft_queue_push(queue, 1) == REFUSED);
    require(weft_queue_try_shift(queue) == REFUSED && weft_queue_shift(queue) == REFUSED);
}

static void require_refused(void)
{
    weft_scope scope;
    weft_group group;
    int fd[2];
    require_refused_waits();
    require(weft_spin(suspend, NULL) == 0 && weft_go(suspend, NULL) == REFUSED);
    require(weft_new(suspend, NULL) == 0 && weft_self() == 0 && weft_main() == 0);
    require(weft_tell(fibers[0], 1) == REFUSED && weft_schedule(fibers[0], 1) == REFUSED);
    require(weft_stop(fibers[0], 1) == REFUSED && weft_interrupt(fibers[0], -1) == REFUSED);
    require(weft_scope_open(&scope, 1) == REFUSED && weft_group_open(&group) == REFUSED);
    require(weft_pipe(fd) == REFUSED && weft_socketpair(fd) == REFUSED);
    require(weft_cord_start(suspend, NULL, NULL) == 0 && weft_cord_spin(cord, suspend, NULL) == 0);
    require(weft_cord_join(cord) == REFUSED && weft_cord_cancel(cord) == REFUSED);
    require(weft_cord_call(cord, return_arg, NULL) == REFUSED);
    require(weft_fork() == REFUSED && weft_error() == NULL && weft_name_of(fibers[0]) == NULL);
    require(weft_mailbox_bound(1) == REFUSED && weft_defer(mark_arg, "") == REFUSED);
    require(weft_alloc(1) == NULL && weft_offload(return_arg, NULL) == REFUSED);
    require(weft_offload_go(return_arg, NULL) == REFUSED);
}

static int main_with_copy(void)
{
    occupy();
    pid_t pid = fork();
    if (pid == 0) {
        require_refused();
        is_exiting_in_a_fiber = true;
        exit(0);
    }
    int status = end_of(pid);
    release();
    require_sane();
    return status;
}

START_TEST(every_call_is_refused_in_the_child_which_says_so_once)
{
    assert_ended(run_apart(main_with_copy), 0, THE_LINE);
}
END_TEST

static weft_value serve_briefly(void *arg)
{
    (void)arg;
    return weft_suspend();
}

static int main_with_cord(void)
{
    cord = weft_cord_start(serve_briefly, NULL, NULL);
    int status = main_with_copy();
    weft_cord_cancel(cord);
    weft_cord_join(cord);
    return status;
}

START_TEST(other_threads_are_out_of_reach_in_the_child)
{
    assert_ended(run_apart(main_with_cord), 0, THE_LINE);
}
END_TEST

/* Where a fork may come from. */

static weft_value return_in_copy(void *arg)
{
    weft_defer(mark_arg, "defer ");
    pid_t pid = fork();
    is_exiting_in_a_fiber = pid == 0;
    return pid == 0 ? (weft_value)arg : end_of(pid);
}

static weft_value mark_shared(void *arg)
{
    weft_suspend();
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

START_TEST(a_fiber_that_returns_in_the_child_ends_it_and_no_other_runs)
{
    atomic_int *ran = shared_memory(sizeof *ran);
    weft_fiber f[4];
    for (size_t i = 0; i < COUNT_OF(f); i++) {
        f[i] = weft_spin(mark_shared, ran);
        weft_snooze();
        weft_schedule(f[i], 0); /* it is on the run queue when the fork comes */
    }
    weft_fiber ok = weft_spin(return_in_copy, as_arg(7));
    weft_fiber bad = weft_spin(return_in_copy, as_arg(-EIO));
    ck_assert_int_eq(weft_await(ok), 0);
    ck_assert_int_eq(weft_await(bad), 1);
    ck_assert_int_eq(weft_await_children(), 0);
    ck_assert_int_eq(*ran, COUNT_OF(f));
    ck_assert_trail("defer defer ");
}
END_TEST

static pid_t home;

static weft_value say_if_strayed(void *arg)
{
    if (getpid() != home)
        dprintf(STDERR_FILENO, "%s\n", (char *)arg);
    return 0;
}

static weft_value fork_each_time(void *arg)
{
    pid_t *pid = arg;
    if (*pid != -1)
        return 0;
    home = getpid();
    weft_go(say_if_strayed, "a fiber of the parent runs in the child");
    *pid = fork();
    is_exiting_in_a_fiber = *pid == 0;
    return 0;
}

static weft_value loop_with_fork(void *arg)
{
    return weft_throttled_loop(fork_each_time, arg, 10, 2);
}

/* Inside of a call of weft that goes on when the program's function has returned. */
static int main_in_callback(void)
{
    pid_t pid = -1;
    weft_spin(sleep_forever, NULL);
    weft_value value = weft_await(weft_spin(loop_with_fork, &pid));
    return pid > 0 && value == 0 ? end_of(pid) : 97;
}

START_TEST(a_call_that_would_go_on_in_the_child_ends_it)
{
    assert_ended(run_apart(main_in_callback), 1, THE_LINE);
}
END_TEST

static int main_in_group(void)
{
    pid_t pid = -1;
    int rc = 0;
    WEFT_GROUP(g, rc) {
        weft_group_spin(&g, suspend, NULL);
        weft_snooze();
        pid = fork();
        if (pid > 0)
            weft_group_cancel(&g);
    }
    return pid == 0 ? (rc == REFUSED ? 0 : 96) : end_of(pid);
}

START_TEST(blocks_are_left_in_the_child)
{
    assert_ended(run_apart(main_in_group), 0, THE_LINE);
}
END_TEST

static void *fork_in_thread(void *arg)
{
    (void)arg;
    pid_t pid = fork();
    if (pid == 0) {
        require(weft_sleep(0) == REFUSED);
        is_exiting_in_a_fiber = true;
        if (HAS_TSAN) /* which is not there any more when the last thread has ended */
            _exit(0);
        pthread_exit(NULL);
    }
    return as_arg(end_of(pid));
}

START_TEST(a_thread_without_fibers_is_refused_in_the_child_too)
{
    pthread_t thread;
    void *status;
    weft_fiber f = weft_spin(suspend_and_mark, "ran");
    weft_snooze();
    freopen("/dev/null", "w", stderr);
    ck_assert_int_eq(pthread_create(&thread, NULL, fork_in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, &status), 0);
    ck_assert_ptr_null(status);
    ck_assert_int_eq(weft_schedule(f, 0), 0);
    ck_assert_int_eq(weft_await(f), 0);
    ck_assert_trail("ran");
}
END_TEST

/* And the other way round. */

START_TEST(a_fork_before_the_first_call_concerns_nobody)
{
    pid_t pid = fork();
    require_sane();
    if (pid == 0) {
        pid_t second = weft_fork();
        require_sane();
        int status = 0;
        require(second == 0 || (waitpid(second, &status, 0) == second && status == 0));
        _exit(0);
    }
    ck_assert_int_eq(end_of(pid), 0);
}
END_TEST

static int main_with_copy_of_copy(void)
{
    weft_sleep(0);
    pid_t pid = fork();
    if (pid == 0) {
        pid_t second = fork();
        if (second == 0) {
            require(weft_sleep(0) == REFUSED);
            _exit(3);
        }
        int status;
        require(waitpid(second, &status, 0) == second);
        _exit(WEXITSTATUS(status));
    }
    return end_of(pid);
}

START_TEST(a_copy_of_a_copy_is_one)
{
    assert_ended(run_apart(main_with_copy_of_copy), 3, THE_LINE);
}
END_TEST

static int main_with_exec(void)
{
    weft_sleep(0);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    return end_of(pid);
}

START_TEST(the_child_may_exec)
{
    assert_silent(run_apart(main_with_exec), 0);
}
END_TEST

START_TEST(a_hundred_forks_with_operations_pending)
{
    occupy();
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0)
            _exit(i);
        ck_assert_int_eq(end_of(pid), i);
        require(weft_sleep(0) == 0);
    }
    release();
    require_sane();
}
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &every_call_is_refused_in_the_child_which_says_so_once,
        &other_threads_are_out_of_reach_in_the_child,
        &a_fiber_that_returns_in_the_child_ends_it_and_no_other_runs,
        &a_call_that_would_go_on_in_the_child_ends_it,
        &blocks_are_left_in_the_child,
        &a_thread_without_fibers_is_refused_in_the_child_too,
        &a_fork_before_the_first_call_concerns_nobody,
        &a_copy_of_a_copy_is_one,
        &the_child_may_exec,
        &a_hundred_forks_with_operations_pending,
    };
    return run_suite("fork_plain", tests, COUNT_OF(tests));
}
