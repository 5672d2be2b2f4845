/* weft_fork while fibers wait in every place there is: they are gone from all of them. */
#include "fork_support.h"

#include <stdatomic.h>

/* A fiber waits in each place there is; who runs in the child is counted. */
typedef struct world {
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
    atomic_int *strays; /* who ran where it should not */
} world;

static world w;

static weft_value note(weft_value rc)
{
    if (getpid() != w.parent)
        atomic_fetch_add(w.strays, 1);
    return rc;
}

static weft_value in_read(void *arg)
{
    char byte;
    (void)arg;
    return note(weft_read(w.fd[0], &byte, 1) == 1 ? byte : -EIO);
}

static weft_value in_sleep(void *arg)
{
    (void)arg;
    return note(weft_sleep(0.02));
}

static weft_value in_mutex(void *arg)
{
    (void)arg;
    int rc = weft_mutex_lock(&w.held);
    if (rc == 0)
        weft_mutex_unlock(&w.held);
    return note(rc);
}

static weft_value in_owned_mutex(void *arg)
{
    int rc = weft_mutex_lock(&w.wanted);
    (void)arg;
    if (rc == 0)
        weft_mutex_unlock(&w.wanted);
    return note(rc);
}

static weft_value in_cond(void *arg)
{
    (void)arg;
    return note(weft_cond_wait(&w.cond, NULL));
}

static weft_value in_read_lock(void *arg)
{
    (void)arg;
    int rc = weft_rwlock_read(&w.lock);
    if (rc == 0)
        weft_rwlock_unlock(&w.lock);
    return note(rc);
}

static weft_value in_write_lock(void *arg)
{
    (void)arg;
    int rc = weft_rwlock_write(&w.lock);
    if (rc == 0)
        weft_rwlock_unlock(&w.lock);
    return note(rc);
}

static weft_value in_sem(void *arg)
{
    (void)arg;
    return note(weft_sem_wait(&w.sem));
}

static weft_value in_event(void *arg)
{
    (void)arg;
    return note(weft_event_wait(&w.event));
}

static weft_value in_latch(void *arg)
{
    (void)arg;
    return note(weft_latch_wait(&w.latch));
}

static weft_value in_barrier(void *arg)
{
    (void)arg;
    return note(weft_barrier_wait(&w.barrier));
}

static weft_value in_throttle(void *arg)
{
    (void)arg;
    return note(weft_throttle_wait(&w.throttle));
}

static weft_value in_recv(void *arg)
{
    (void)arg;
    return note(weft_chan_recv(w.empty));
}

static weft_value in_send(void *arg)
{
    (void)arg;
    return note(weft_chan_send(w.full, 2));
}

static weft_value in_shift(void *arg)
{
    (void)arg;
    return note(weft_queue_shift(w.queue));
}

static weft_value in_select(void *arg)
{
    (void)arg;
    weft_clause clauses[] = {
        {.kind = WEFT_CLAUSE_RECV, .of.chan = w.empty},
        {.kind = WEFT_CLAUSE_SHIFT, .of.queue = w.queue},
        {.kind = WEFT_CLAUSE_ENDED, .of.fiber = w.forker},
        {.kind = WEFT_CLAUSE_TIME, .of.seconds = 1000},
    };
    return note(weft_select(clauses, COUNT_OF(clauses)));
}

static weft_value in_await(void *arg)
{
    (void)arg;
    return note(weft_await(w.forker));
}

static weft_value in_await_all(void *arg)
{
    weft_fiber all[] = {w.forker, w.forker};
    (void)arg;
    return note(weft_await_all(all, COUNT_OF(all), NULL));
}

static weft_value in_receive(void *arg)
{
    (void)arg;
    return note(weft_receive());
}

static weft_value hold_mutex(void *arg)
{
    weft_mutex_lock(&w.held);
    (void)arg;
    weft_value rc = weft_suspend();
    weft_mutex_unlock(&w.held);
    return note(rc);
}

static weft_value hold_lock(void *arg)
{
    weft_rwlock_write(&w.lock);
    (void)arg;
    weft_value rc = weft_suspend();
    weft_rwlock_unlock(&w.lock);
    return note(rc);
}

static weft_value is_ready(void *arg)
{
    (void)arg;
    return note(0);
}

static void wait_in(weft_fn *fn)
{
    ck_assert_uint_lt(w.count, COUNT_OF(w.fibers));
    w.fibers[w.count++] = weft_spin_with(fn, NULL, &(weft_spin_options){.parent = weft_main()});
}

static weft_fn *const first_places[] = {hold_mutex, hold_lock};
static weft_fn *const places[] = {
    in_read,  in_sleep, in_mutex,   in_owned_mutex, in_cond,   in_read_lock, in_write_lock,
    in_sem,   in_event, in_latch,   in_barrier,     in_recv,   in_send,      in_shift,
    in_await, in_await, in_receive, in_throttle,    in_select, in_await_all,
};

static void fill_world(void)
{
    w.parent = getpid();
    w.strays = shared_memory(sizeof *w.strays);
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
    for (size_t i = 0; i < COUNT_OF(first_places); i++)
        wait_in(first_places[i]);
    weft_snooze();
    for (size_t i = 0; i < COUNT_OF(places); i++)
        wait_in(places[i]);
    weft_snooze();
    wait_in(is_ready); /* on the run queue */
}

static weft_value send_seven(void *arg)
{
    (void)arg;
    return weft_chan_send(w.empty, 7);
}

static weft_value meet(void *arg)
{
    (void)arg;
    return weft_barrier_wait(&w.barrier) == 1 ? 0 : -EIO;
}

/* Everything that lay in memory serves the child's own fibers, and no other. */
static void require_empty_places(void)
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
    require(weft_spin(meet, NULL) != 0 && weft_barrier_wait(&w.barrier) == 0);
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

/* Let everyone in the parent have what it waits for. */
static void feed_world(void)
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
    ck_assert_int_eq(weft_chan_send(w.empty, 5), 0); /* to the one that came first, not to select */
    ck_assert_int_eq(weft_chan_recv(w.full), 1);
    ck_assert_int_eq(weft_chan_recv(w.full), 2);
    ck_assert_int_eq(weft_queue_push(w.queue, 6), 0);
    ck_assert_int_eq(weft_tell(w.fibers[COUNT_OF(first_places) + 16], 8), 0);
}

static weft_value fork_in_the_middle(void *arg)
{
    (void)arg;
    fill_world();
    let_run();
    wait_in(is_ready); /* once more, still to run */
    pid_t pid = weft_fork();
    if (pid == 0) {
        require_alone(w.forker);
        require_empty_places();
        require_sane();
        _exit(*w.strays);
    }
    ck_assert_int_eq(end_of(pid), 0);
    feed_world();
    return 4;
}

/* P76 */
START_TEST(of_all_fibers_only_the_calling_one_is_in_the_child)
{
    weft_fiber f = weft_spin(fork_in_the_middle, NULL);
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
END_TEST

int main(void)
{
    static const TTest *const *const tests[] = {
        &of_all_fibers_only_the_calling_one_is_in_the_child,
    };
    return run_suite("fork_places", tests, COUNT_OF(tests));
}
