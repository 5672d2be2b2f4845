/*
 * weft_fork while fibers wait in every kind of wait queue. In the child, all wait queues are empty.
 */
#include "core/cord/fork_support.h"
#include "support/suite.h"

#include <stdatomic.h>

/* Objects with one waiting fiber each. Fibers that run in the child are counted. */
typedef struct waitq_world {
    int fd[2];
    weft_mutex held, wanted;
    weft_rwlock lock;
    weft_cond cond;
    weft_sem sem;
    weft_event event;
    weft_latch latch;
    weft_barrier barrier;
    weft_throttle throttle;
    weft_chan *empty, *full;
    weft_queue *queue;
    weft_fiber forker, fibers[24];
    size_t count;
    pid_t parent;
    atomic_int *child_runs; /* fibers that ran in the child */
} waitq_world;

static waitq_world w;

static weft_value count_child_run(weft_value rc)
{
    if (getpid() != w.parent)
        atomic_fetch_add(w.child_runs, 1);
    return rc;
}

static weft_value wait_for_read(void *arg)
{
    char byte;
    return count_child_run(weft_read(w.fd[0], &byte, 1) == 1 ? byte : -EIO);
}

FIBER(wait_for_sleep, count_child_run(weft_sleep(0.02)))

static weft_value wait_for_mutex(void *arg)
{
    int rc = weft_mutex_lock(&w.held);
    if (rc == 0)
        weft_mutex_unlock(&w.held);
    return count_child_run(rc);
}

static weft_value wait_for_owned_mutex(void *arg)
{
    int rc = weft_mutex_lock(&w.wanted);
    if (rc == 0)
        weft_mutex_unlock(&w.wanted);
    return count_child_run(rc);
}

FIBER(wait_for_cond, count_child_run(weft_cond_wait(&w.cond, NULL)))

static weft_value wait_for_read_lock(void *arg)
{
    int rc = weft_rwlock_read(&w.lock);
    if (rc == 0)
        weft_rwlock_unlock(&w.lock);
    return count_child_run(rc);
}

static weft_value wait_for_write_lock(void *arg)
{
    int rc = weft_rwlock_write(&w.lock);
    if (rc == 0)
        weft_rwlock_unlock(&w.lock);
    return count_child_run(rc);
}

FIBER(wait_for_sem, count_child_run(weft_sem_wait(&w.sem)))
FIBER(wait_for_world_event, count_child_run(weft_event_wait(&w.event)))
FIBER(wait_for_latch, count_child_run(weft_latch_wait(&w.latch)))
FIBER(wait_for_barrier, count_child_run(weft_barrier_wait(&w.barrier)))
FIBER(wait_for_throttle, count_child_run(weft_throttle_wait(&w.throttle)))
FIBER(wait_for_recv, count_child_run(weft_chan_recv(w.empty)))
FIBER(wait_for_send, count_child_run(weft_chan_send(w.full, 2)))
FIBER(wait_for_shift, count_child_run(weft_queue_shift(w.queue)))

static weft_value wait_for_select(void *arg)
{
    weft_clause clauses[] = {
        {.kind = WEFT_CLAUSE_RECV, .of.chan = w.empty},
        {.kind = WEFT_CLAUSE_SHIFT, .of.queue = w.queue},
        {.kind = WEFT_CLAUSE_ENDED, .of.fiber = w.forker},
        {.kind = WEFT_CLAUSE_TIME, .of.seconds = 1000},
    };
    return count_child_run(weft_select(clauses, COUNT_OF(clauses)));
}

FIBER(wait_for_fiber, count_child_run(weft_await(w.forker)))

static weft_value wait_for_fibers(void *arg)
{
    weft_fiber all[] = {w.forker, w.forker};
    return count_child_run(weft_await_all(all, COUNT_OF(all), NULL));
}

FIBER(wait_for_message, count_child_run(weft_receive()))

static weft_value hold_mutex(void *arg)
{
    weft_mutex_lock(&w.held);
    weft_value rc = weft_suspend();
    weft_mutex_unlock(&w.held);
    return count_child_run(rc);
}

static weft_value hold_lock(void *arg)
{
    weft_rwlock_write(&w.lock);
    weft_value rc = weft_suspend();
    weft_rwlock_unlock(&w.lock);
    return count_child_run(rc);
}

FIBER(run_once, count_child_run(0))

static void spin_world_fiber(weft_fn *fn)
{
    ck_assert_uint_lt(w.count, COUNT_OF(w.fibers));
    w.fibers[w.count++] = weft_spin_with(fn, NULL, &(weft_spin_options){.parent = weft_main()});
}

static weft_fn *const holders[] = {hold_mutex, hold_lock};
static weft_fn *const wait_fns[] = {
    wait_for_read,        wait_for_sleep,     wait_for_mutex,      wait_for_owned_mutex,
    wait_for_cond,        wait_for_read_lock, wait_for_write_lock, wait_for_sem,
    wait_for_world_event, wait_for_latch,     wait_for_barrier,    wait_for_recv,
    wait_for_send,        wait_for_shift,     wait_for_fiber,      wait_for_fiber,
    wait_for_message,     wait_for_throttle,  wait_for_select,     wait_for_fibers,
};

static void fill_world(void)
{
    w.parent = getpid();
    w.child_runs = shared_memory(sizeof *w.child_runs);
    w.forker = weft_self();
    ck_assert_int_eq(weft_pipe(w.fd), 0);
    weft_sem_open(&w.sem, 0);
    weft_latch_add(&w.latch, 1);
    weft_barrier_open(&w.barrier, 2);
    weft_throttle_open(&w.throttle, 100);
    weft_throttle_wait(&w.throttle);
    w.empty = weft_chan_new(0);
    w.full = weft_chan_new(1);
    ck_assert_int_eq(weft_chan_send(w.full, 1), 0);
    w.queue = weft_queue_new(0);
    ck_assert_int_eq(weft_mutex_lock(&w.wanted), 0);
    for (size_t i = 0; i < COUNT_OF(holders); i++)
        spin_world_fiber(holders[i]);
    weft_snooze();
    for (size_t i = 0; i < COUNT_OF(wait_fns); i++)
        spin_world_fiber(wait_fns[i]);
    weft_snooze();
    spin_world_fiber(run_once); /* on the run queue */
}

FIBER(send_seven, weft_chan_send(w.empty, 7))
FIBER(wait_at_barrier, weft_barrier_wait(&w.barrier) == 1 ? 0 : -EIO)

/* Require that all objects work for fibers of the child, and have no other waiters. */
static void require_empty_wait_queues(void)
{
    require(weft_mutex_lock(&w.held) == -EOWNERDEAD);
    require(weft_mutex_try_lock(&w.held) == -EOWNERDEAD);
    require(weft_rwlock_read(&w.lock) == -EOWNERDEAD);
    require(weft_rwlock_write(&w.lock) == -EOWNERDEAD);
    require(weft_mutex_owner(&w.wanted) == weft_self());
    require(weft_mutex_unlock(&w.wanted) == 0 && weft_mutex_owner(&w.wanted) == 0);
    require(weft_cond_signal(&w.cond) == 0);
    require(weft_sem_post(&w.sem) == 0 && weft_sem_count(&w.sem) == 1);
    require(weft_event_set(&w.event) == 0 && weft_event_is_set(&w.event));
    require(weft_event_wait(&w.event) == 0);
    require(weft_latch_done(&w.latch) == 0 && weft_latch_wait(&w.latch) == 0);
    require(weft_spin(wait_at_barrier, NULL) != 0 && weft_barrier_wait(&w.barrier) == 0);
    require(!weft_chan_has_receivers(w.empty) && weft_chan_try_send(w.empty, 1) == -EAGAIN);
    weft_fiber sender = weft_spin(send_seven, NULL);
    require(weft_chan_recv(w.empty) == 7 && weft_await(sender) == 0);
    require(!weft_chan_has_senders(w.full) && weft_chan_recv(w.full) == 1);
    require(weft_chan_try_recv(w.full) == -EAGAIN);
    require(weft_queue_waiting_to_shift(w.queue) == 0 && weft_queue_push(w.queue, 3) == 0);
    require(weft_queue_count(w.queue) == 1);
    require(weft_throttle_wait(&w.throttle) == 0);
}

static void require_alone(weft_fiber self)
{
    weft_counters counters;
    require(weft_self() == self && weft_main() == self);
    require(weft_parent(self) == 0);
    require(weft_stats(&counters) == 0);
    require(counters.fibers == 0 && counters.runnable == 0 && counters.timers == 0);
    require(counters.ops_pending == 0 && counters.fibers_unawaited == 0);
    for (size_t i = 0; i < w.count; i++) {
        require(weft_await(w.fibers[i]) == -ESRCH);
        require(weft_cancel(w.fibers[i]) == -ESRCH && weft_tell(w.fibers[i], 1) == -ESRCH);
        require(weft_schedule(w.fibers[i], 0) == -ESRCH);
        require(weft_state_of(w.fibers[i]) == WEFT_DEAD);
    }
}

/* Wake every fiber in the parent. */
static void wake_world(void)
{
    ck_assert_int_eq(weft_write(w.fd[1], "x", 1), 1);
    ck_assert_int_eq(weft_schedule(w.fibers[0], 0), 0);
    ck_assert_int_eq(weft_schedule(w.fibers[1], 0), 0);
    ck_assert_int_eq(weft_mutex_unlock(&w.wanted), 0);
    ck_assert_int_eq(weft_cond_signal(&w.cond), 1);
    ck_assert_int_eq(weft_sem_post(&w.sem), 0);
    ck_assert_int_eq(weft_event_set(&w.event), 0);
    ck_assert_int_eq(weft_latch_done(&w.latch), 0);
    ck_assert_int_eq(weft_barrier_wait(&w.barrier), 1);
    ck_assert_int_eq(weft_chan_send(w.empty, 5), 0); /* to the first receiver, not to the select */
    ck_assert_int_eq(weft_chan_recv(w.full), 1);
    ck_assert_int_eq(weft_chan_recv(w.full), 2);
    ck_assert_int_eq(weft_queue_push(w.queue, 6), 0);
    ck_assert_int_eq(weft_tell(w.fibers[COUNT_OF(holders) + 16], 8), 0);
}

static weft_value fork_with_waiters(void *arg)
{
    fill_world();
    let_run();
    spin_world_fiber(run_once); /* another one, which has not run */
    pid_t pid = weft_fork();
    if (pid == 0) {
        require_alone(w.forker);
        require_empty_wait_queues();
        require_runtime_works();
        _exit(*w.child_runs);
    }
    ck_assert_int_eq(wait_for_exit(pid), 0);
    wake_world();
    return 4;
}

TEST(only_the_calling_fiber_exists_in_the_child)
{ /* P76 */
    weft_fiber f = weft_spin(fork_with_waiters, NULL);
    ck_assert_int_eq(weft_await(f), 4);
    const weft_value expected[] = {0, 0, 'x', 0, 0, 0, 0, 0, 0, 0, 0,
                                   0, 0, 5,   0, 6, 4, 4, 8, 0, 2, 0};
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        ck_assert_msg(weft_await(w.fibers[i]) == expected[i], "fiber %zu", i);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_chan_free(w.empty);
    weft_chan_free(w.full);
    weft_queue_free(w.queue);
}
