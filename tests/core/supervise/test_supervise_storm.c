/*
 * Supervision under load: many children, a million restarts, random actions of children and other
 * fibers, and the end of threads and of the process.
 */
#include "core/supervise/supervise_support.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>

static int load_runs;

static weft_value run_and_suspend(void *arg)
{
    (void)arg;
    load_runs++;
    return weft_suspend();
}

typedef struct load {
    int n;
    weft_strategy strategy;
} load;

static weft_value supervise_load(void *arg)
{
    const load *of = arg;
    for (int i = 0; i < of->n; i++)
        weft_spin(run_and_suspend, NULL);
    return weft_supervise(NULL, 0,
                          &(weft_supervise_options){.strategy = of->strategy,
                                                    .restart = WEFT_ALWAYS,
                                                    .restarts_max = UINT_MAX});
}

/* P28, P39 */
START_TEST(ten_thousand_children_are_started_restarted_and_stopped)
{
    static weft_fiber children[MANY_FIBERS];
    for (weft_strategy s = WEFT_ONE_FOR_ONE; s <= WEFT_REST_FOR_ONE; s++) {
        int n = is_sanitized() && s != WEFT_ONE_FOR_ONE ? 500 : MANY_FIBERS;
        load_runs = 0;
        weft_fiber supervisor = weft_spin(supervise_load, &(load){n, s});
        let_run();
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
END_TEST

/* Return a pseudorandom number below n. */
static unsigned random_below_n(unsigned n)
{
    static unsigned state = 1;
    state = state * 1103515245 + 12345;
    return (state >> 16) % n;
}

/* Fibers that have run; most have ended. */
static weft_fiber known[32];

static weft_value run_random_child(void *arg)
{
    (void)arg;
    known[random_below_n(COUNT_OF(known))] = weft_self();
    weft_value rc = 0;
    if (random_below_n(4) == 0)
        weft_spin(sleep_forever, NULL);
    switch (random_below_n(4)) {
    case 0:
        rc = weft_sleep(random_below_n(4) * TICK_S / 64);
        break;
    case 1:
        rc = weft_suspend();
        break;
    case 2:
        weft_suspend();
        WEFT_SHIELD(1) {
            weft_sleep(random_below_n(4) * TICK_S / 64);
        }
        break;
    default:
        rc = weft_snooze();
    }
    return random_below_n(2) ? rc : -EIO;
}

static weft_value supervise_random_children(void *arg);

static void disturb(weft_fiber f, weft_fiber supervisor)
{
    switch (random_below_n(11)) {
    case 0:
        weft_cancel(f);
        break;
    case 1:
        weft_stop(f, 3);
        break;
    case 2:
        weft_go(restart_and_mark, id_arg(f));
        break;
    case 3:
        weft_restart(f);
        break;
    case 4:
        weft_attach(f, weft_main());
        break;
    case 5:
        weft_attach(f, supervisor);
        break;
    case 6:
        weft_raise(random_below_n(8) ? f : supervisor, -EPROTO, "disturbed");
        break;
    case 7:
        weft_interrupt(random_below_n(8) ? f : supervisor, -EINTR);
        break;
    case 8:
        weft_schedule(f, random_below_n(2) ? 0 : -EIO);
        break;
    case 9:
        weft_spin_with(random_below_n(8) ? run_random_child : supervise_random_children, NULL,
                       &(weft_spin_options){.parent = supervisor});
        break;
    default:
        weft_sleep(random_below_n(4) * TICK_S / 64);
    }
}

static void disturb_on_exit(weft_fiber child, weft_value value, void *arg)
{
    (void)value;
    (void)arg;
    if (random_below_n(2))
        disturb(random_below_n(2) ? child : known[random_below_n(COUNT_OF(known))], weft_self());
}

/* A supervisor of random children. */
static weft_value supervise_random_children(void *arg)
{
    weft_child children[4];
    for (size_t i = 0; i < COUNT_OF(children); i++)
        children[i] =
            (weft_child){.fn = run_random_child, .restart = (weft_restart_when)random_below_n(4)};
    weft_supervise_options options = {
        .strategy = (weft_strategy)random_below_n(3),
        .restart = (weft_restart_when)random_below_n(4),
        .restarts_max = random_below_n(2) ? 20 : UINT_MAX,
        .backoff_s = random_below_n(2) * TICK_S / 64,
        .backoff_max_s = TICK_S / 16,
        .on_exit = random_below_n(2) ? disturb_on_exit : NULL,
    };
    if (arg == NULL) /* a disturbance must not restart the outermost supervisor */
        known[random_below_n(COUNT_OF(known))] = weft_self();
    return weft_supervise(children, COUNT_OF(children), &options);
}

/* P39 */
START_TEST(after_random_actions_of_other_fibers_nothing_is_left)
{
    for (int round = 0; round < (is_sanitized() ? 200 : 1000); round++) {
        memset(known, 0, sizeof known);
        weft_fiber supervisor = weft_spin(supervise_random_children, "outermost");
        for (int i = 0; i < 100; i++)
            disturb(known[random_below_n(COUNT_OF(known))], supervisor);
        weft_cancel(supervisor);
        weft_await(supervisor);
        while (weft_terminate_children(1) != 0) /* fibers attached to main, and their errors */
            continue;
        let_run();
        while (weft_snooze() != 0)
            continue;
        assert_nothing_alive();
        trail[0] = '\0';
    }
}
END_TEST

/* The memory in use early and late in a long series of runs. */
typedef struct series {
    weft_value value; /* the value of each run */
    int runs, times;
    size_t pages[2], bytes[2];
} series;

/* Creating a fiber takes 90 us with ASan and 1 ms with TSan. */
static int series_length(void)
{
    return is_sanitized() ? MANY_FIBERS : 1000000;
}

static bool is_last_run(series *s)
{
    s->runs++;
    bool is_last = s->runs == s->times;
    if (s->runs == 1000 || is_last) {
        s->pages[is_last] = resident_pages();
        s->bytes[is_last] = mallinfo2().uordblks;
    }
    return is_last;
}

/* Sanitizers delay the reuse of freed memory, and detect leaks themselves. */
static void assert_constant(const series *s, bool is_free_of_allocations)
{
    ck_assert_int_eq(s->runs, s->times);
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

/* P39, P30 */
START_TEST(a_million_restarts_of_a_child_take_constant_memory)
{
    const weft_value values[] = {0, -EIO};
    for (int i = 0; i < 2; i++) {
        series s = {.value = values[i], .times = series_length()};
        ck_assert_int_eq(weft_await(weft_spin(supervise_series, &s)), -ECANCELED);
        assert_constant(&s, values[i] == 0); /* an error allocates its message */
        assert_nothing_left();
    }
}
END_TEST

static weft_value spin_next(void *arg)
{
    series *s = arg;
    if (!is_last_run(s))
        weft_spin_with(spin_next, s, &(weft_spin_options){.parent = weft_parent(weft_self())});
    return 0;
}

/* P39 */
START_TEST(an_endless_series_of_children_takes_constant_memory)
{
    series s = {.times = series_length()};
    weft_spin(spin_next, &s);
    ck_assert_int_eq(weft_supervise(NULL, 0, NULL), 0);
    assert_constant(&s, false);
    assert_nothing_left();
}
END_TEST

static weft_value exit_with_arg(void *arg)
{
    exit_here((int)(intptr_t)arg);
    return 0;
}

static weft_value supervise_exiting_child(void *arg)
{
    const weft_child children[] = {{.fn = sleep_forever}, {.fn = exit_with_arg, .arg = arg}};
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
    (void)child;
    (void)value;
    exit_here((int)(intptr_t)arg);
}

static weft_value supervise_and_exit(void *arg)
{
    const weft_child children[] = {{.fn = fail_later, .arg = as_arg(-EIO)}, {.fn = sleep_forever}};
    weft_supervise_options options = {.on_exit = exit_on_exit, .on_exit_arg = arg};
    WEFT_MOVE_ON_AFTER(1000) {
        return weft_supervise(children, 2, &options);
    }
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

/* P33, P39 */
START_TEST(the_process_may_end_while_a_fiber_supervises)
{
    assert_silent(run_apart(exit_in_a_child), 3);
    assert_silent(run_apart(exit_in_a_child_of_main), 4);
    assert_silent(run_apart(return_while_a_fiber_supervises), 5);
    assert_silent(run_apart(exit_in_on_exit), 6);
}
END_TEST

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
                                   {.fn = end_only_when_scheduled}};
    int rc = weft_supervise(children, 2, &(weft_supervise_options){0});
    bool is_good = rc == -EDEADLK && strcmp(trail, "h!1") == 0;
    weft_schedule(stubborn, 0);
    weft_snooze();
    return is_good && strcmp(trail, "h!1H") == 0 ? 0 : 1;
}

/* P39 */
START_TEST(a_main_fiber_with_children_that_can_never_end_gets_edeadlk)
{
    const outcome *o = run_apart(supervise_in_deadlock);
    ck_assert_int_eq(o->status, 0);
    ck_assert_uint_gt(strlen(o->text), 0);
    o = run_apart(supervise_stubborn_in_deadlock);
    ck_assert_int_eq(o->status, 0);
}
END_TEST

static int supervise_where_switching_is_forbidden(void)
{
    weft_spin(mark_and_return, "ran");
    weft_no_switch_begin();
    int rc = weft_supervise(NULL, 0, NULL);
    weft_no_switch_end();
    return rc == -EPERM && trail[0] == '\0' ? 0 : 1;
}

/* P39 */
START_TEST(weft_supervise_is_refused_where_switching_is_forbidden)
{
    const outcome *o = run_apart(supervise_where_switching_is_forbidden);
    ck_assert_int_eq(o->status, 0);
    assert_printed(o, "tried to switch while switching is forbidden");
}
END_TEST

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

/* P39 */
START_TEST(every_thread_has_its_own_supervisors_and_ends_them)
{
    int rc[2] = {0};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, supervise_in_thread, &rc[i]), 0);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(rc[i], -EIO);
    }
}
END_TEST

static const TTest *const *const tests[] = {
    &ten_thousand_children_are_started_restarted_and_stopped,
    &after_random_actions_of_other_fibers_nothing_is_left,
    &a_million_restarts_of_a_child_take_constant_memory,
    &an_endless_series_of_children_takes_constant_memory,
    &the_process_may_end_while_a_fiber_supervises,
    &a_main_fiber_with_children_that_can_never_end_gets_edeadlk,
    &weft_supervise_is_refused_where_switching_is_forbidden,
    &every_thread_has_its_own_supervisors_and_ends_them,
};

int main(void)
{
    return run_suite("supervise_storm", tests, COUNT_OF(tests));
}
