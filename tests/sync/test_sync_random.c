/*
 * Random programs. Two thousand fibers make random calls on a few locks, signals, channels, queues,
 * mailboxes and a pool. They do this in scopes with short timeouts, while they cancel, stop,
 * interrupt and restart each other, and raise errors. The model in sync_model.h predicts each
 * result. After each step, and when no fiber is runnable, no fiber may wait without need. No
 * signal, token or message is lost or duplicated, whichever of timeout, cancel and wake is first.
 *
 * WEFT_TEST_SEED=n sets the first seed (default 1), WEFT_TEST_SEEDS=n the number of runs (default
 * 20, or 5 with sanitizers).
 */
#include "sync/sync_locks.h"
#include "sync/sync_pool.h"
#include "sync/sync_select.h"
#include "sync/sync_signals.h"

#include <sys/resource.h>

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

/* Actions of actors on each other. */

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
    switch (random_below(5)) {
    case 0:
        return 0;
    case 1:
        return random_below(10) * 1e-6;
    case 2:
        return random_below(1000) * 1e-6;
    case 3:
        return random_below(20) * 1e-3;
    default:
        return INFINITY;
    }
}

static void run_random_op(actor *me)
{
    static void (*const ops[])(actor *) = {
        do_mutex,  do_mutex,  do_rwlock, do_rwlock,  do_sem,     do_sem,
        do_cond,   do_cond,   do_event,  do_latch,   do_barrier, do_chan,
        do_chan,   do_queue,  do_mail,   do_mail,    do_pool,    do_select,
        do_select, do_select, do_pipe,   do_disturb, do_disturb, do_disturb_late,
    };
    int i = me->depth;
    bool is_shield = me->is_shield[i] = random_below(10) == 0;
    double timeout_s = is_shield ? random_below(100) * 1e-6 : random_timeout();
    REQUIRE((is_shield ? weft_shield_open : weft_scope_open)(&me->scopes[i], timeout_s) == 0);
    me->depth++;
    ops[random_below(COUNT_OF(ops))](me);
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
    (void)arg;
    run_report->idle_checks++;
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

/* The program. */

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

static void require_nothing_left(void)
{
    weft_counters now;
    REQUIRE(weft_stats(&now) == 0);
    REQUIRE(now.fibers == 0 && now.fibers_unawaited == 0);
    REQUIRE(now.runnable == 0 && now.timers == 0 && now.ops_pending == 0);
    REQUIRE(now.stacks == now.stacks_cached);
}

static void run_program(uint64_t seed)
{
    alarm(is_sanitized() ? 300 : 60);
    random_state = seed;
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
    require_nothing_left();
    exit(EXIT_SUCCESS);
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static void run_apart_with(unsigned seed)
{
    run_report =
        mmap(NULL, sizeof *run_report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(run_report, MAP_FAILED);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        run_program(seed);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (getenv("WEFT_TEST_SEED") != NULL)
        printf("seed %u: %u steps, %u completed (%u though disturbed), %u failed, %u idle checks\n",
               seed, run_report->steps, run_report->completed, run_report->completed_late,
               run_report->failed, run_report->idle_checks);
    ck_assert_msg(status == 0, "status %#x: %s\nrepeat with: WEFT_TEST_SEED=%u WEFT_TEST_SEEDS=1",
                  status, run_report->text, seed);
    ck_assert_uint_ge(run_report->steps, ACTORS * OPS / 2);
    ck_assert_uint_ge(run_report->completed, ACTORS / 2);
    ck_assert_uint_ge(run_report->completed_late, 10);
    ck_assert_uint_ge(run_report->failed, ACTORS / 2);
    ck_assert_uint_ge(run_report->idle_checks, 10);
    munmap(run_report, sizeof *run_report);
}

/* P54-P57, P51, P52, T40-T42, T58-T75: in run queue order, on the backend of this run. */
START_TEST(no_signal_token_or_message_is_lost)
{
    unsetenv("WEFT_SEED");
    run_apart_with(from_environment("WEFT_TEST_SEED", 1) + (unsigned)_i);
}
END_TEST

/* In random order, with virtual time. */
START_TEST(no_signal_token_or_message_is_lost_in_any_order)
{
    unsigned seed = from_environment("WEFT_TEST_SEED", 1) + (unsigned)_i;
    char text[16];
    snprintf(text, sizeof text, "%u", seed);
    setenv("WEFT_SEED", text, 1);
    run_apart_with(seed);
}
END_TEST

int main(void)
{
    int seeds = (int)from_environment("WEFT_TEST_SEEDS", is_sanitized() ? 5 : 20);
    const char *backend = getenv("WEFT_BACKEND");
    Suite *suite = suite_create("sync_random");
    TCase *tcase = tcase_create("sync_random");
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, no_signal_token_or_message_is_lost, 0, seeds);
    if (backend != NULL && strcmp(backend, "sim") == 0)
        tcase_add_loop_test(tcase, no_signal_token_or_message_is_lost_in_any_order, 0, seeds);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures == 0 ? 0 : 1;
}
