/*
 * weft_fork while fibers wait in every kind of wait queue. In the child, all wait queues are empty.
 */
#include "core/cord/fork_world.h"

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
    require(weft_queue_push(w.queue, 3) == 0);
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

static void run_alone(void)
{
    require_alone(w.forker);
    require_empty_wait_queues();
    require_runtime_works();
    _exit(*w.child_runs);
}

TEST(only_the_calling_fiber_exists_in_the_child)
{ /* P76 */
    assert_world_survives((world_fork){weft_fork, run_alone, 1});
}
