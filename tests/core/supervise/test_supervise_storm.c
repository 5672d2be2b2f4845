/*
 * The properties of supervision: the order of stops and restarts against a reference, and random
 * actions of children and other fibers. Also many children, many restarts, and the end of threads
 * and of the process.
 */
#include "core/supervise/supervise_support.h"
#include "support/property_suite.h"

#include <limits.h>
#include <malloc.h>

/* The fiber to act on, and its supervisor. */
struct actor {
    weft_fiber target, supervisor;
};

/* A reference of the restarts. The log has i for each start of child i, and -i for each end. */

#define CHILDREN 5

static struct {
    weft_child children[CHILDREN + 1]; /* from 1 on */
    weft_supervise_options options;
    weft_fiber ids[CHILDREN + 1];
    bool is_running[CHILDREN + 1];
    int log[4 * CHILDREN], expected[4 * CHILDREN], logged, expecting;
} reference;

static weft_value log_and_suspend(void *arg)
{
    int i = (int)(intptr_t)arg;
    REQUIRE(reference.logged < (int)COUNT_OF(reference.log));
    reference.ids[i] = weft_self();
    reference.log[reference.logged++] = i;
    weft_value rc = weft_suspend();
    reference.log[reference.logged++] = -i;
    return rc;
}

FIBER(supervise_reference, weft_supervise(reference.children + 1, CHILDREN, &reference.options))

static void expect_end(int i)
{
    reference.expected[reference.expecting++] = -i;
    reference.is_running[i] = false;
}

/* Expect the consequences of the end of child i: stops in reverse order, then starts in order. */
static void expect_restarts(int i, bool has_failed)
{
    weft_strategy strategy = reference.options.strategy;
    weft_restart_when when = reference.children[i].restart;
    expect_end(i);
    if (when == WEFT_NEVER || (when == WEFT_ON_ERROR && !has_failed))
        return;
    int first = strategy == WEFT_ONE_FOR_ALL ? 1 : i;
    int last = strategy == WEFT_ONE_FOR_ONE ? i : CHILDREN;
    for (int k = last; k >= first; k--)
        if (reference.is_running[k])
            expect_end(k);
    for (int k = first; k <= last; k++) {
        if (reference.children[k].restart == WEFT_NEVER)
            continue;
        reference.expected[reference.expecting++] = k;
        reference.is_running[k] = true;
    }
}

static void require_expected(void)
{
    let_run();
    REQUIRE(reference.logged == reference.expecting);
    REQUIRE(memcmp(reference.log, reference.expected,
                   (size_t)reference.logged * sizeof *reference.log) == 0);
    reference.logged = reference.expecting = 0;
}

static int random_running_child(void)
{
    int n = 0, running[CHILDREN];
    for (int i = 1; i <= CHILDREN; i++)
        if (reference.is_running[i])
            running[n++] = i;
    return n > 0 ? running[random_below((unsigned)n)] : 0;
}

/* Start children with a random strategy and random rules. */
static weft_fiber start_reference(void)
{
    reference.options = (weft_supervise_options){.strategy = (weft_strategy)random_below(3),
                                                 .restarts_max = UINT_MAX};
    for (int i = 1; i <= CHILDREN; i++) {
        weft_restart_when restart = (weft_restart_when)(WEFT_ALWAYS + random_below(3));
        reference.children[i] =
            (weft_child){.fn = log_and_suspend, .arg = as_arg(i), .restart = restart};
        reference.expected[reference.expecting++] = i;
        reference.is_running[i] = true;
    }
    weft_fiber supervisor = weft_spin(supervise_reference, NULL);
    require_expected();
    return supervisor;
}

/* Let a child fail or return, or stop or cancel it. */
static void end_one_child(int i)
{
    unsigned kind = random_below(4);
    weft_fiber f = reference.ids[i];
    int rc = kind < 2 ? weft_schedule(f, kind == 0 ? -EIO : 1)
                      : weft_stop(f, kind == 2 ? -EIO : -ECANCELED);
    REQUIRE(rc == 0);
    expect_restarts(i, kind == 0);
    require_expected();
}

/* Cancel the supervisor, which has ended if no child is running. */
static void end_reference(weft_fiber supervisor)
{
    for (int i = CHILDREN; i > 0; i--)
        if (reference.is_running[i])
            expect_end(i);
    weft_value value = reference.expecting > 0 ? -ECANCELED : 0;
    REQUIRE(weft_cancel(supervisor) == (value == 0 ? -ESRCH : 0));
    require_expected();
    REQUIRE(weft_await(supervisor) == value);
}

static void run_reference(int variant)
{
    for (int round = 0; round < 100; round++) {
        weft_fiber supervisor = start_reference();
        int i;
        for (int step = 0; step < 20 && (i = random_running_child()) != 0; step++)
            end_one_child(i);
        end_reference(supervisor);
    }
}

static weft_fiber known[32]; /* fibers that have run; most have ended */

static weft_fiber *random_known(void)
{
    return &known[random_below(COUNT_OF(known))];
}

static int sleep_briefly(void)
{
    return weft_sleep(random_below(4) * TICK_S / 64);
}

static weft_value run_random_child(void *arg)
{
    *random_known() = weft_self();
    weft_value rc = 0;
    unsigned kind = random_below(4);
    if (random_below(4) == 0)
        weft_spin(sleep_forever, NULL);
    if (kind == 0)
        rc = sleep_briefly();
    else if (kind == 1)
        rc = weft_snooze();
    else
        rc = weft_suspend();
    if (kind == 3)
        WEFT_SHIELD(1)
            rc = sleep_briefly();
    return random_below(2) ? rc : -EIO;
}

static weft_value supervise_random_children(void *arg);

/* The parent of detached fibers. Its end discards the values that no fiber awaits. */
static weft_fiber home;

static void do_cancel(actor *me)
{
    weft_cancel(me->target);
}

static void do_stop(actor *me)
{
    weft_stop(me->target, 3);
}

static void do_restart(actor *me)
{
    if (random_below(2))
        weft_go(restart_and_mark, id_arg(me->target));
    else
        weft_restart(me->target);
}

static void do_attach(actor *me)
{
    weft_attach(me->target, random_below(2) ? me->supervisor : home);
}

static void do_raise(actor *me)
{
    weft_raise(random_below(8) ? me->target : me->supervisor, -EPROTO, "disturbed");
}

static void do_interrupt(actor *me)
{
    weft_interrupt(random_below(8) ? me->target : me->supervisor, -EINTR);
}

static void do_schedule(actor *me)
{
    weft_schedule(me->target, random_below(2) ? 0 : -EIO);
}

static void do_spin(actor *me)
{
    weft_spin_with(random_below(8) ? run_random_child : supervise_random_children, NULL,
                   &(weft_spin_options){.parent = me->supervisor});
}

static void do_sleep(actor *me)
{
    sleep_briefly();
}

static const action disturbances[] = {
    ACTION(do_cancel, 1),   ACTION(do_stop, 1),  ACTION(do_restart, 2),
    ACTION(do_attach, 2),   ACTION(do_raise, 1), ACTION(do_interrupt, 1),
    ACTION(do_schedule, 1), ACTION(do_spin, 1),  ACTION(do_sleep, 1),
};

static void disturb(weft_fiber target, weft_fiber supervisor)
{
    actor me = {target, supervisor};
    do_random_action(&me, (unsigned)target, disturbances, COUNT_OF(disturbances));
}

static void disturb_on_exit(weft_fiber child, weft_value value, void *arg)
{
    if (random_below(2))
        disturb(random_below(2) ? child : *random_known(), weft_self());
}

static weft_value supervise_random_children(void *arg)
{
    weft_child children[4];
    for (size_t i = 0; i < COUNT_OF(children); i++)
        children[i] =
            (weft_child){.fn = run_random_child, .restart = (weft_restart_when)random_below(4)};
    weft_supervise_options options = {
        .strategy = (weft_strategy)random_below(3),
        .restart = (weft_restart_when)random_below(4),
        .restarts_max = random_below(2) ? 20 : UINT_MAX,
        .backoff_s = random_below(2) * TICK_S / 64,
        .backoff_max_s = TICK_S / 16,
        .on_exit = random_below(2) ? disturb_on_exit : NULL,
    };
    if (arg == NULL) /* a disturbance must not restart the outermost supervisor */
        *random_known() = weft_self();
    return weft_supervise(children, COUNT_OF(children), &options);
}

static weft_value disturb_supervisors(void *arg)
{
    for (int round = 0; round < 60; round++) {
        memset(known, 0, sizeof known);
        weft_fiber supervisor = weft_spin(supervise_random_children, "outermost");
        for (int i = 0; i < 100; i++)
            disturb(*random_known(), supervisor);
        weft_cancel(supervisor);
        weft_await(supervisor);
        while (weft_terminate_children(1) != 0) /* detached fibers, and their errors */
            continue;
        let_run();
        while (weft_snooze() != 0)
            continue;
        REQUIRE(weft_children(home, NULL, 0) == 0 && armed_timers() == 0);
        trail[0] = '\0';
    }
    return 1;
}

static void run_disturbed(int variant)
{
    home = weft_spin(disturb_supervisors, NULL);
    REQUIRE(weft_await(home) == 1);
}

/* P39 */
static const property properties[] = {
    {"children_stop_and_restart_in_the_order_of_the_reference", run_reference, .seeds = 1,
     .keeps_order = true},
    {"after_random_actions_of_other_fibers_nothing_is_left", run_disturbed, .seeds = 2,
     .sim_seeds = 10},
};

PROPERTIES(properties)

static int load_runs;

FIBER_DO(run_and_suspend, load_runs++, weft_suspend())

static weft_value supervise_load(void *arg)
{
    const weft_supervise_options *options = arg;
    for (unsigned i = 0; i < MANY_FIBERS / 4; i++)
        weft_spin(run_and_suspend, NULL);
    return weft_supervise(NULL, 0, options);
}

TEST(thousands_of_children_are_started_restarted_and_stopped)
{ /* P28, P39 */
    static weft_fiber children[MANY_FIBERS / 4];
    const int n = COUNT_OF(children);
    for (weft_strategy s = WEFT_ONE_FOR_ONE; s <= WEFT_REST_FOR_ONE; s++) {
        weft_supervise_options options = {
            .strategy = s, .restart = WEFT_ALWAYS, .restarts_max = UINT_MAX};
        load_runs = 0;
        weft_fiber supervisor = spin_waiting(supervise_load, &options);
        ck_assert_int_eq(load_runs, n);
        ck_assert_int_eq(weft_children(supervisor, children, (size_t)n), n);
        for (int i = 0; i < n; i++)
            weft_schedule(children[i], -EIO);
        let_run();
        ck_assert_int_eq(load_runs, 2 * n);
        ck_assert_int_eq(weft_children(supervisor, NULL, 0), n);
        weft_schedule(children[0], -EIO);
        let_run();
        ck_assert_int_eq(load_runs, 2 * n + (s != WEFT_ONE_FOR_ONE ? n : 1));
        weft_cancel(supervisor);
        ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
        assert_nothing_left();
    }
}

/* The memory in use early and late in a long series of runs. */
typedef struct series {
    weft_value value; /* the value of each run */
    int runs;
    size_t pages[2], bytes[2];
} series;

#define SERIES (is_sanitized() ? 5000 : 30000)

static bool is_last_run(series *s)
{
    s->runs++;
    bool is_last = s->runs == SERIES;
    if (s->runs == 1000 || is_last) {
        s->pages[is_last] = resident_pages();
        s->bytes[is_last] = mallinfo2().uordblks;
    }
    return is_last;
}

/* Sanitizers delay the reuse of freed memory, and detect leaks themselves. */
static void assert_constant(const series *s, bool is_free_of_allocations)
{
    ck_assert_int_eq(s->runs, SERIES);
    if (is_sanitized() && !is_free_of_allocations)
        return;
    ck_assert_uint_le(s->pages[1], s->pages[0] + 600);
    ck_assert_uint_le(s->bytes[1], s->bytes[0] + 4096);
}

static weft_value run_in_series(void *arg)
{
    series *s = arg;
    if (is_last_run(s))
        weft_cancel(weft_parent(weft_self()));
    return s->value;
}

static weft_value supervise_series(void *arg)
{
    weft_child child = {.fn = run_in_series, .arg = arg};
    return weft_supervise(&child, 1, &(weft_supervise_options){.restarts_max = UINT_MAX});
}

TEST(many_restarts_of_a_child_take_constant_memory)
{ /* P39, P30 */
    for (int i = 0; i < 2; i++) {
        series s = {.value = i == 0 ? 0 : -EIO};
        ck_assert_int_eq(weft_await(weft_spin(supervise_series, &s)), -ECANCELED);
        assert_constant(&s, i == 0); /* an error allocates its message */
        assert_nothing_left();
    }
}

static weft_value spin_next(void *arg)
{
    if (!is_last_run(arg))
        weft_spin_with(spin_next, arg, &(weft_spin_options){.parent = weft_parent(weft_self())});
    return 0;
}

TEST(an_endless_series_of_children_takes_constant_memory)
{ /* P39 */
    series s = {0};
    weft_spin(spin_next, &s);
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), 0);
    assert_constant(&s, false);
    assert_nothing_left();
}

/* The end of the process and of threads. */

static weft_value supervise_exiting_child(void *arg)
{
    const weft_child children[] = {{.fn = sleep_forever}, {.fn = exit_with, .arg = arg}};
    return weft_supervise(children, 2, &(weft_supervise_options){.backoff_s = 1});
}

static int exit_in_a_child(void)
{
    return weft_await(weft_spin(supervise_exiting_child, as_arg(3))) == 0;
}

static int exit_in_a_child_of_main(void)
{
    return (int)supervise_exiting_child(as_arg(4));
}

static void exit_on_exit(weft_fiber child, weft_value value, void *arg)
{
    exit_here((int)(intptr_t)arg);
}

static weft_value supervise_and_exit(void *arg)
{
    const weft_child children[] = {{.fn = fail_later, .arg = as_arg(-EIO)}, {.fn = sleep_forever}};
    weft_supervise_options options = {.on_exit = exit_on_exit, .on_exit_arg = arg};
    WEFT_MOVE_ON_AFTER(1000)
        return weft_supervise(children, 2, &options);
    return 0;
}

static int exit_in_on_exit(void)
{
    return weft_await(weft_spin(supervise_and_exit, as_arg(6))) == 0;
}

static int return_while_a_fiber_supervises(void)
{
    static supervisor_args p = {
        .children = {{.fn = sleep_forever}, {.fn = fail_later}}, .n = 2, .options.backoff_s = 1000};
    p.children[1].arg = as_arg(-EIO);
    weft_spin(run_supervisor, &p);
    weft_sleep(4 * TICK_S);
    return 5;
}

TEST(the_process_may_end_while_a_fiber_supervises)
{ /* P33, P39 */
    assert_silent(run_apart(exit_in_a_child), 3);
    assert_silent(run_apart(exit_in_a_child_of_main), 4);
    assert_silent(run_apart(return_while_a_fiber_supervises), 5);
    assert_silent(run_apart(exit_in_on_exit), 6);
}

static int supervise_in_deadlock(void)
{
    const weft_child children[] = {{.fn = mark_if_stopped, .arg = "1"},
                                   {.fn = mark_if_stopped, .arg = "2"}};
    int rc = weft_supervise(children, 2, NULL);
    return rc == -EDEADLK && strcmp(trail, "21") == 0 ? 0 : 1;
}

static int supervise_stubborn_in_deadlock(void)
{
    const weft_child children[] = {{.fn = mark_if_stopped, .arg = "1"},
                                   {.fn = end_only_when_scheduled, .grace_s = TICK_S}};
    int rc = weft_supervise(children, 2, &(weft_supervise_options){0});
    bool is_good = rc == -EDEADLK && strcmp(trail, "h!1") == 0;
    weft_schedule(stubborn, 0);
    weft_snooze();
    return is_good && strcmp(trail, "h!1H") == 0 ? 0 : 1;
}

TEST(a_main_fiber_with_children_that_can_never_end_gets_edeadlk)
{ /* P39 */
    const outcome *o = run_apart(supervise_in_deadlock);
    ck_assert(o->status == 0 && o->text[0] != '\0');
    ck_assert_int_eq(run_apart(supervise_stubborn_in_deadlock)->status, 0);
}

TEST_PROGRAM_PRINTS(weft_supervise_is_refused_where_switching_is_forbidden, 0,
                    "tried to switch while switching is forbidden")
{ /* P39 */
    weft_spin(mark_and_return, "ran");
    weft_no_switch_begin();
    int rc = weft_supervise(NULL, 0, NULL);
    weft_no_switch_end();
    return rc == -EPERM && trail[0] == '\0' ? 0 : 1;
}

static weft_value supervise_sleepers(void *arg)
{
    const weft_child children[] = {{.fn = sleep_forever}, {.fn = sleep_forever}};
    return weft_supervise(children, 2, arg);
}

static void *supervise_in_thread(void *arg)
{
    weft_spin(fail_later, as_arg(-EIO));
    *(int *)arg = weft_supervise(NULL, 0, NULL);
    weft_spin(supervise_sleepers, NULL);
    weft_sleep(0);
    return NULL;
}

TEST(every_thread_has_its_own_supervisors_and_ends_them)
{ /* P39 */
    int rc[2] = {0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        threads[i] = start_thread(supervise_in_thread, &rc[i]);
    for (int i = 0; i < 2; i++) {
        join_thread(threads[i]);
        ck_assert_int_eq(rc[i], -EIO);
    }
}
