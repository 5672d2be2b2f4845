/*
 * Random programs: two thousand fibers do whatever there is to a handful of locks, signals,
 * channels, queues, mailboxes and a pool, inside scopes that are often over at once, while they
 * cancel, stop, interrupt, raise errors in and restart each other. Each result is compared with
 * what a model says (sync_model.h), and after each step, and whenever nobody can run, nobody may
 * wait for what could be had: no signal, token or message is lost or doubled, whichever of timeout,
 * cancel and wake comes first.
 *
 * WEFT_TEST_SEED=n begins with another seed than 1, WEFT_TEST_SEEDS=n runs so many instead of 20.
 */
#include "sync_locks.h"
#include "sync_pool.h"
#include "sync_select.h"
#include "sync_signals.h"

#include <sys/resource.h>

#define OPS 12 /* of an actor, without those inside others */

static void act(actor *me);

static void act_while_holding(actor *me)
{
    for (unsigned i = roll(3); i > 0; i--)
        if (me->depth < DEPTH_MAX && roll(2) == 0)
            act(me);
        else
            pause_for_a_while(me);
}

/* What the actors do to each other. */

static void interrupt(actor *to)
{
    bool was_waiting = weft_state_of(to->id) == WEFT_WAITING;
    int rc = weft_interrupt(to->id, MARK);
    if (rc < 0)
        return;
    REQUIRE(was_waiting);
    if (to->entered == 0 || to->is_making)
        return;
    REQUIRE(to->fate == OPEN);
    to->fate = CUT;
}

static void strike_scope(actor *to)
{
    if (!to->runs || to->depth == 0)
        return;
    int i = (int)roll((unsigned)to->depth);
    if (roll(2) == 0)
        weft_scope_reset(&to->scopes[i], roll(20) * 1e-6);
    else if (!to->is_shield[i])
        REQUIRE(weft_scope_cancel(&to->scopes[i]) == 0);
}

static void restart(actor *me, actor *to)
{
    int rc = weft_restart(to->id);
    told->steps++;
    if (rc == -ESRCH || rc == -EINVAL || rc == MARK)
        return;
    if (rc != 0)
        require_reason(me, rc);
}

static void do_chaos(actor *me)
{
    actor *to = any_actor();
    to->was_struck |= to->fate == KEPT;
    switch (roll(8)) {
    case 0:
        weft_stop(to->id, roll(2) == 0 ? -ECANCELED : STOPPED);
        break;
    case 1:
        restart(me, to);
        break;
    case 2:
    case 3:
        to->raised += weft_raise(to->id, RAISED, "by chance") == 0;
        break;
    case 4:
    case 5:
        strike_scope(to);
        break;
    default:
        interrupt(to);
    }
}

/* Someone who has just been served, if there is one, to be struck before it runs. */
static void do_strike_late(actor *me)
{
    for (int i = 0; i < 50; i++) {
        actor *to = any_actor();
        if (to->fate != KEPT || to->entered == 0 || to == me)
            continue;
        to->was_struck = true;
        REQUIRE(weft_interrupt(to->id, MARK) == -EBUSY);
        if (roll(2) == 0)
            REQUIRE(weft_cancel(to->id) == 0);
        else
            strike_scope(to);
        return;
    }
}

/* One step, in a scope of its own. */

static double any_timeout(void)
{
    switch (roll(5)) {
    case 0:
        return 0;
    case 1:
        return roll(10) * 1e-6;
    case 2:
        return roll(1000) * 1e-6;
    case 3:
        return roll(20) * 1e-3;
    default:
        return INFINITY;
    }
}

static void act(actor *me)
{
    static void (*const ops[])(actor *) = {
        do_mutex, do_mutex,  do_rwlock,  do_rwlock, do_sem,  do_sem,   do_cond,  do_cond,
        do_event, do_latch,  do_barrier, do_chan,   do_chan, do_queue, do_mail,  do_mail,
        do_pool,  do_select, do_select,  do_select, do_pipe, do_chaos, do_chaos, do_strike_late,
    };
    int i = me->depth;
    bool is_shield = me->is_shield[i] = roll(10) == 0;
    double timeout_s = is_shield ? roll(100) * 1e-6 : any_timeout();
    REQUIRE((is_shield ? weft_shield_open : weft_scope_open)(&me->scopes[i], timeout_s) == 0);
    me->depth++;
    ops[roll(COUNT_OF(ops))](me);
    me->depth--;
    int rc = weft_scope_close(&me->scopes[i]);
    REQUIRE(rc == 0 || (rc == -ETIMEDOUT && !is_shield));
}

/* The life of an actor; it may live again. */

/* Errors that have not come yet are taken here, or they would be the fiber's own. */
static void take_raised(actor *me)
{
    int rc;
    do {
        rc = weft_snooze();
        note(me, rc);
    } while (rc != -ECANCELED && weft_is_cancelled());
}

static weft_value live(void *arg)
{
    actor *me = arg;
    size_t bound = roll(4);
    REQUIRE(weft_mailbox_bound(bound) == 0 && weft_local_set(actor_key, me) == 0);
    me->mail.limit = bound != 0 ? bound : SIZE_MAX;
    me->runs = true;
    while (me->ops_left > 0 && !me->is_mortal) {
        me->ops_left--;
        act(me);
        if (roll(2) != 0)
            continue;
        int rc = weft_snooze();
        note(me, rc);
        if (rc == -ECANCELED)
            break;
    }
    take_raised(me);
    empty_mail(me);
    REQUIRE(me->depth == 0 && me->entered == 0 && (me->is_mortal || me->held == 0));
    die_holding(me);
    me->held = 0;
    me->is_mortal = me->runs = false;
    return LIVED;
}

/* Nobody can run: whoever waits, waits for good. */
static void check_all(void *arg)
{
    (void)arg;
    told->idle++;
    for (size_t i = 0; i < ACTORS; i++) {
        const actor *a = &actors[i];
        /* Behind a signal there may be a wait for the mutex, behind a select one for the kernel. */
        if (a->entered > 0 && a->fate != OPEN)
            REQUIRE(a->has_fd || a->entries[0].place->waits_for != NULL);
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
        renew_chan(&chans[i]);
        weft_chan_free(chans[i].chan);
    }
    for (size_t i = 0; i < COUNT_OF(queues); i++) {
        check_queue(&queues[i]);
        while (queues[i].mirror.count > 0)
            do_shift(&actors[0], &queues[i]);
        weft_queue_free(queues[i].queue);
    }
}

static bool is_anyone_alive(void)
{
    for (size_t i = 0; i < ACTORS; i++)
        if (weft_state_of(actors[i].id) != WEFT_DEAD)
            return true;
    return false;
}

/* Nothing has happened for a while: some wait for good, and have to be sent on their way. */
static void shoo(void)
{
    for (int i = 0; i < ACTORS / 10; i++)
        interrupt(any_actor());
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
        REQUIRE((actors[i].id = weft_spin(live, &actors[i])) != 0);
    }
    weft_on_idle(check_all, NULL);
    while (is_anyone_alive()) {
        unsigned before = told->steps;
        REQUIRE(weft_sleep(1e-4) == 0);
        if (told->steps == before)
            shoo();
    }
    weft_on_idle(NULL, NULL);
    for (size_t i = 0; i < ACTORS; i++) {
        weft_value value = weft_await(actors[i].id);
        REQUIRE(is_value_of_life(value) || value == -ESRCH);
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
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(told, MAP_FAILED);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        run_program(seed);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (getenv("WEFT_TEST_SEED") != NULL)
        printf("seed %u: %u steps, %u kept (%u though struck), %u cut short, %u times idle\n", seed,
               told->steps, told->kept, told->late, told->cut, told->idle);
    ck_assert_msg(status == 0, "status %#x: %s\nonce more: WEFT_TEST_SEED=%u WEFT_TEST_SEEDS=1",
                  status, told->text, seed);
    ck_assert_uint_ge(told->steps, ACTORS * OPS / 2);
    ck_assert_uint_ge(told->kept, ACTORS / 2);
    ck_assert_uint_ge(told->late, 10);
    ck_assert_uint_ge(told->cut, ACTORS / 2);
    ck_assert_uint_ge(told->idle, 10);
    munmap(told, sizeof *told);
}

/*
 * P54-P57, P51, P52, T40-T42, T58-T75: in the order of the run queue, on the backend of this run.
 */
START_TEST(no_signal_token_or_message_is_lost)
{
    unsetenv("WEFT_SEED");
    run_apart_with(from_environment("WEFT_TEST_SEED", 1) + (unsigned)_i);
}
END_TEST

/* The same in any order, with time that stands still. */
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
