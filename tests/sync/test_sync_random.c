/*
 * The property of synchronisation: two thousand fibers make random calls on a few locks, signals,
 * channels, queues, mailboxes and a pool. They do this in scopes with short timeouts, while they
 * cancel, stop, interrupt and restart each other, and raise errors. The model in sync_model.h
 * predicts each result. After each step, and when no fiber is runnable, no fiber may wait without
 * need. No signal, token or message is lost or duplicated, whichever of timeout, cancel and wake is
 * first.
 */
#include "sync/sync_locks.h"
#include "sync/sync_pool.h"
#include "sync/sync_select.h"
#include "sync/sync_signals.h"

#define OPS 12 /* of an actor, without nested ones */

static void run_random_op(actor *me);

static void run_ops_while_holding(actor *me)
{
    for (unsigned i = random_below(3); i > 0; i--)
        if (me->depth < DEPTH_MAX && random_below(2) == 0)
            run_random_op(me);
        else
            pause_randomly(me);
}

static void interrupt_actor(actor *to)
{
    bool was_waiting = weft_state_of(to->id) == WEFT_WAITING;
    int rc = weft_interrupt(to->id, MARK);
    if (rc < 0)
        return;
    REQUIRE(was_waiting);
    if (to->entered == 0 || to->is_creating)
        return;
    REQUIRE(to->expectation == UNDECIDED);
    to->expectation = EXPECT_MARK;
}

static void cancel_or_reset_scope(actor *to)
{
    if (!to->is_running || to->depth == 0)
        return;
    int i = (int)random_below((unsigned)to->depth);
    if (random_below(2) == 0)
        weft_scope_reset(&to->scopes[i], random_below(20) * 1e-6);
    else if (!to->is_shield[i])
        REQUIRE(weft_scope_cancel(&to->scopes[i]) == 0);
}

static void restart_actor(actor *me, actor *to)
{
    int rc = weft_restart(to->id);
    run_report->steps++;
    if (rc == -ESRCH || rc == -EINVAL || rc == MARK)
        return;
    if (rc != 0)
        require_reason(me, rc);
}

static void do_disturb(actor *me)
{
    actor *to = random_actor();
    to->was_disturbed |= to->expectation == EXPECT_VALUE;
    switch (random_below(8)) {
    case 0:
        weft_stop(to->id, random_below(2) == 0 ? -ECANCELED : STOPPED);
        break;
    case 1:
        restart_actor(me, to);
        break;
    case 2:
    case 3:
        to->raised += weft_raise(to->id, RAISED, "by chance") == 0;
        break;
    case 4:
    case 5:
        cancel_or_reset_scope(to);
        break;
    default:
        interrupt_actor(to);
    }
}

/* Interrupt or cancel an actor that was woken and has not run yet, if there is one. */
static void do_disturb_late(actor *me)
{
    for (int i = 0; i < 50; i++) {
        actor *to = random_actor();
        if (to->expectation != EXPECT_VALUE || to->entered == 0 || to == me)
            continue;
        to->was_disturbed = true;
        REQUIRE(weft_interrupt(to->id, MARK) == -EBUSY);
        if (random_below(2) == 0)
            REQUIRE(weft_cancel(to->id) == 0);
        else
            cancel_or_reset_scope(to);
        return;
    }
}

/* One call, in its own scope. */

static double random_timeout(void)
{
    const double timeouts[] = {0, random_below(10) * 1e-6, random_below(1000) * 1e-6,
                               random_below(20) * 1e-3, INFINITY};
    return timeouts[random_below(COUNT_OF(timeouts))];
}

static const action ops[] = {
    ACTION(do_mutex, 2), ACTION(do_rwlock, 2),  ACTION(do_sem, 2),          ACTION(do_cond, 2),
    ACTION(do_event, 1), ACTION(do_latch, 1),   ACTION(do_barrier, 1),      ACTION(do_chan, 2),
    ACTION(do_queue, 1), ACTION(do_mail, 2),    ACTION(do_pool, 1),         ACTION(do_select, 3),
    ACTION(do_pipe, 1),  ACTION(do_disturb, 2), ACTION(do_disturb_late, 1),
};

static void run_random_op(actor *me)
{
    int i = me->depth;
    bool is_shield = me->is_shield[i] = random_below(10) == 0;
    double timeout_s = is_shield ? random_below(100) * 1e-6 : random_timeout();
    REQUIRE((is_shield ? weft_shield_open : weft_scope_open)(&me->scopes[i], timeout_s) == 0);
    me->depth++;
    do_random_action(me, (unsigned)(me - actors), ops, COUNT_OF(ops));
    me->depth--;
    int rc = weft_scope_close(&me->scopes[i]);
    REQUIRE(rc == 0 || (rc == -ETIMEDOUT && !is_shield));
}

/* The function of an actor. It may be restarted. */

/* Return raised errors here. Otherwise the fiber would end with one of them. */
static void drain_raised(actor *me)
{
    int rc;
    do {
        rc = weft_snooze();
        check_other_call(me, rc);
    } while (rc != -ECANCELED && weft_is_cancelled());
}

static weft_value run_actor(void *arg)
{
    actor *me = arg;
    size_t bound = random_below(4);
    REQUIRE(weft_mailbox_set_bound(bound) == 0 && weft_local_set(actor_key, me) == 0);
    me->mail.limit = bound != 0 ? bound : SIZE_MAX;
    me->is_running = true;
    while (me->ops_left > 0 && !me->ends_holding) {
        me->ops_left--;
        run_random_op(me);
        if (random_below(2) != 0)
            continue;
        int rc = weft_snooze();
        check_other_call(me, rc);
        if (rc == -ECANCELED)
            break;
    }
    drain_raised(me);
    drain_mailbox(me);
    REQUIRE(me->depth == 0 && me->entered == 0 && (me->ends_holding || me->held == 0));
    abandon_locks(me);
    me->held = 0;
    me->ends_holding = me->is_running = false;
    return LIVED;
}

/* Check everything. No actor is runnable. */
static void check_all(void *arg)
{
    count_event(IDLE_CHECK);
    for (size_t i = 0; i < ACTORS; i++) {
        const actor *a = &actors[i];
        /* After a signal, the actor may wait for the mutex; after a select, for the kernel. */
        if (a->entered > 0 && a->expectation != UNDECIDED)
            REQUIRE(a->has_fd || a->entries[0].waitq->waits_for != NULL);
        check_mail(a);
    }
    check_locks();
    check_signals();
    for (size_t i = 0; i < COUNT_OF(mutexes); i++)
        check_idle_mutex(&mutexes[i]);
    for (size_t i = 0; i < COUNT_OF(chans); i++)
        check_chan(&chans[i]);
    for (size_t i = 0; i < COUNT_OF(queues); i++)
        check_queue(&queues[i]);
    check_pool();
}

static void open_all(void)
{
    open_locks();
    open_signals();
    open_pool();
    for (size_t i = 0; i < COUNT_OF(chans); i++)
        open_chan(&chans[i]);
    for (size_t i = 0; i < COUNT_OF(queues); i++) {
        size_t limit = queues[i].mirror.limit;
        queues[i].queue = weft_queue_new(limit != SIZE_MAX ? limit : 0);
        REQUIRE(queues[i].queue != NULL);
    }
    open_selects();
}

static void close_all(void)
{
    close_selects();
    close_locks();
    close_signals();
    close_pool();
    for (size_t i = 0; i < COUNT_OF(chans); i++) {
        replace_chan(&chans[i]);
        weft_chan_free(chans[i].chan);
    }
    for (size_t i = 0; i < COUNT_OF(queues); i++) {
        check_queue(&queues[i]);
        while (queues[i].mirror.count > 0)
            do_shift(&actors[0], &queues[i]);
        weft_queue_free(queues[i].queue);
    }
}

static bool is_any_actor_alive(void)
{
    for (size_t i = 0; i < ACTORS; i++)
        if (weft_state_of(actors[i].id) != WEFT_DEAD)
            return true;
    return false;
}

/* After a period without progress, interrupt some actors that wait indefinitely. */
static void interrupt_some(void)
{
    for (int i = 0; i < ACTORS / 10; i++)
        interrupt_actor(random_actor());
}

static void run_sync(int variant)
{
    open_all();
    for (size_t i = 0; i < ACTORS; i++) {
        actors[i].ops_left = OPS;
        REQUIRE((actors[i].id = weft_spin(run_actor, &actors[i])) != 0);
    }
    weft_on_idle(check_all, NULL);
    while (is_any_actor_alive()) {
        unsigned before = run_report->steps;
        REQUIRE(weft_sleep(1e-4) == 0);
        if (run_report->steps == before)
            interrupt_some();
    }
    weft_on_idle(NULL, NULL);
    for (size_t i = 0; i < ACTORS; i++) {
        weft_value value = weft_await(actors[i].id);
        REQUIRE(is_actor_value(value) || value == -ESRCH);
    }
    close_all();
    REQUIRE(run_report->steps >= ACTORS * OPS / 2);
}

/* P54-P57, P51, P52, T40-T42, T57-T75 */
static const property properties[] = {
    {"no_signal_token_or_message_is_lost", run_sync, .seeds = 6, .sim_seeds = 24,
     .least = {[COMPLETED] = ACTORS / 2,
               [COMPLETED_LATE] = 10,
               [CALL_FAILED] = ACTORS / 2,
               [IDLE_CHECK] = 10}},
};

PROPERTIES(properties)
