/*
 * A world for the tests of fork: fibers wait in every kind of wait queue. Each wait ends in the
 * parent, and no fiber of the world runs in a child.
 */
#ifndef TESTS_CORE_CORD_FORK_WORLD_H
#define TESTS_CORE_CORD_FORK_WORLD_H

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

FIBER_DO(wait_for_read, char byte, count_child_run(weft_read(w.fd[0], &byte, 1) == 1 ? byte : -EIO))
FIBER(wait_for_sleep, count_child_run(weft_sleep(0.02)))

static weft_value lock_and_unlock(weft_mutex *mutex)
{
    int rc = weft_mutex_lock(mutex);
    return count_child_run(rc == 0 ? weft_mutex_unlock(mutex) : rc);
}

FIBER(wait_for_mutex, lock_and_unlock(&w.held))
FIBER(wait_for_owned_mutex, lock_and_unlock(&w.wanted))
FIBER(wait_for_cond, count_child_run(weft_cond_wait(&w.cond, NULL)))

static weft_value unlock_and_count(int rc)
{
    return count_child_run(rc == 0 ? weft_rwlock_unlock(&w.lock) : rc);
}

FIBER(wait_for_read_lock, unlock_and_count(weft_rwlock_read(&w.lock)))
FIBER(wait_for_write_lock, unlock_and_count(weft_rwlock_write(&w.lock)))
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

typedef struct world_fork {
    pid_t (*fork)(void);
    void (*run_child)(void); /* ends the process */
    int count;               /* of forks, one after the other */
} world_fork;

static weft_value fork_world(void *arg)
{
    const world_fork *f = arg;
    fill_world();
    let_run();
    spin_world_fiber(run_once); /* another one, which has not run */
    for (int i = 0; i < f->count; i++) {
        pid_t pid = f->fork();
        if (pid == 0)
            f->run_child();
        ck_assert_int_eq(wait_for_exit(pid), 0);
    }
    wake_world();
    return 4;
}

/* Fork while the fibers of the world wait. Assert that each wait ends in the parent. */
static void assert_world_survives(world_fork f)
{
    static const weft_value expected[] = {0, 0, 'x', 0, 0, 0, 0, 0, 0, 0, 0,
                                          0, 0, 5,   0, 6, 4, 4, 8, 0, 2, 0};
    ck_assert_int_eq(weft_await(weft_spin(fork_world, &f)), 4);
    for (size_t i = 0; i < COUNT_OF(expected); i++)
        ck_assert_msg(weft_await(w.fibers[i]) == expected[i], "fiber %zu", i);
    ck_assert_int_eq(weft_await_children(), 0);
    weft_chan_free(w.empty);
    weft_chan_free(w.full);
    weft_queue_free(w.queue);
    require_runtime_works();
}

#endif
