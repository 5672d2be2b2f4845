/*
 * Tests that compare each fast path of the core with its slow path (docs/adr/0051). A scenario runs
 * once on the fast paths, and once for each condition that forces a slow path. Both runs must leave
 * the same trail.
 */
#include "support/suite.h"

/* A condition that forces slow paths of spin, await, exit or switch. */
typedef struct path {
    const char *name;
    void (*enter)(bool on); /* changes the thread; NULL: nothing */
    void (*burden)(void);   /* called by each new fiber; NULL: nothing */
    bool has_options;       /* fibers are created with options */
    bool has_bystander;     /* another fiber is runnable before each new fiber */
} path;

static const path *way; /* the path of the current run */

static void mark_count(const char *what, long long number)
{
    char text[64];
    snprintf(text, sizeof text, "%s%lld ", what, number);
    mark(text);
}

static void own_fpu_env(bool on)
{
    ck_assert_int_eq(weft_own_fpu_env(on), 0);
}

static int deferred; /* deferred functions that have not run yet */

CALLBACK(count_deferred, deferred--)

static void defer_count(void)
{
    deferred++;
    ck_assert_int_eq(weft_defer(count_deferred, NULL), 0);
}

static void leave_scope_open(void)
{
    static weft_scope scopes[8];
    static size_t opened;
    ck_assert_int_eq(weft_scope_open(&scopes[opened++ % COUNT_OF(scopes)], 1000), 0);
}

static void make_mailbox(void)
{
    ck_assert_int_eq(weft_tell(weft_self(), 1), 0);
}

static void set_last_error(void)
{
    weft_fail(-EIO, "a message that nobody reads");
    weft_error();
}

static const path fast = {.name = "fast"};
static const path slow_paths[] = {
    {.name = "weft_account", .enter = weft_account},
    {.name = "a private FPU environment", .enter = own_fpu_env},
    {.name = "a deferred function", .burden = defer_count},
    {.name = "an open scope", .burden = leave_scope_open},
    {.name = "a mailbox", .burden = make_mailbox},
    {.name = "a last error", .burden = set_last_error},
    {.name = "options", .has_options = true},
    {.name = "a bystander", .has_bystander = true},
};

static void take_burden(void)
{
    if (way->burden != NULL)
        way->burden();
}

static weft_value burdened_return(void *arg)
{
    mark_count("m", (long long)weft_mailbox_count(weft_self()));
    mark_count("e", weft_error() != NULL ? weft_error()->code : 0);
    take_burden();
    mark_count("run ", (long long)(intptr_t)arg);
    return (weft_value)arg;
}

static weft_value burdened_fail(void *arg)
{
    (void)burdened_return(arg);
    return weft_fail((int)(intptr_t)arg, "broken");
}

static weft_value burdened_snooze(void *arg)
{
    take_burden();
    for (int i = 0; i < 3; i++) {
        mark_count("", (long long)(intptr_t)arg * 10 + i);
        mark_count("snooze ", weft_snooze());
    }
    return (weft_value)arg;
}

static weft_fiber spin(weft_fn *fn, intptr_t arg)
{
    static const weft_spin_options options = {.stack_bytes = 64 << 10};
    if (way->has_bystander)
        ck_assert_int_eq(weft_go(return_arg, NULL), 0);
    weft_fiber f =
        way->has_options ? weft_spin_with(fn, (void *)arg, &options) : weft_spin(fn, (void *)arg);
    ck_assert_uint_ne(f, 0);
    return f;
}

static void mark_await(weft_fiber f)
{
    mark_count("= ", weft_await(f));
    mark_count("again ", weft_await(f));
    mark_count("state ", weft_state_of(f));
}

static void mark_counters(void)
{
    weft_counters counters = stats();
    mark_count("fibers ", (long long)counters.fibers);
    mark_count("unawaited ", (long long)counters.fibers_unawaited);
    mark_count("timers ", (long long)counters.timers);
    mark_count("deferred ", deferred);
}

static void await_children_in_turn(void)
{
    for (int i = 1; i <= 3; i++)
        mark_await(spin(burdened_return, i));
}

static void await_children_in_reverse(void)
{
    weft_fiber f[3];
    for (int i = 0; i < 3; i++)
        f[i] = spin(burdened_return, i + 1);
    for (int i = 2; i >= 0; i--)
        mark_await(f[i]);
}

static void mark_error(void)
{
    const weft_error_info *e = weft_error();
    mark(e != NULL ? e->message : "none");
    mark_count(" error ", e != NULL ? e->code : 0);
    mark_count("pending ", weft_snooze());
}

static void await_failures(void)
{
    mark_await(spin(burdened_fail, -EPROTO));
    mark_error();
    mark_count("= ", weft_await(spin(burdened_return, -ENODATA)));
    mark_error();
}

static void await_together(void)
{
    weft_fiber f = spin(burdened_snooze, 1);
    weft_fiber other = weft_spin(await_fiber, id_arg(f));
    mark_count("= ", weft_await(f));
    mark_await(other);
}

static void await_while_others_run(void)
{
    weft_fiber a = spin(burdened_snooze, 1), b = spin(burdened_snooze, 2);
    mark_await(spin(burdened_return, 3));
    mark_await(b);
    mark_await(a);
}

static void await_a_stopped_child(void)
{
    weft_fiber never_run = spin(burdened_return, 1), stopped = spin(burdened_snooze, 2);
    mark_count("stop ", weft_stop(never_run, 7));
    mark_await(never_run);
    mark_count("stop ", weft_stop(stopped, 8));
    mark_await(stopped);
}

static weft_value cancel_self_and_await(void *arg)
{
    weft_fiber f = spin(burdened_return, 1);
    weft_cancel(weft_self());
    mark_count("await ", weft_await(f));
    return 0;
}

static void await_when_cancelled(void)
{
    mark_await(spin(cancel_self_and_await, 0));
}

static void await_a_moved_child(void)
{
    weft_fiber parent = spin(suspend, 0), child = spin(burdened_return, 1);
    mark_count("attach ", weft_attach(child, parent));
    mark_await(child);
    weft_schedule(parent, 2);
    mark_await(parent);
}

static void let_children_end_unawaited(void)
{
    weft_fiber f = spin(burdened_return, 1);
    ck_assert_int_eq(weft_go(burdened_snooze, (void *)2), 0);
    let_run();
    mark_counters();
    mark_await(f);
}

static void (*const scenarios[])(void) = {
    await_children_in_turn, await_children_in_reverse, await_failures,
    await_together,         await_while_others_run,    await_a_stopped_child,
    await_when_cancelled,   await_a_moved_child,       let_children_end_unawaited,
};

static void run_scenario(void (*scenario)(void), const path *on)
{
    deferred = 0;
    way = on;
    clear_trail();
    if (on->enter != NULL)
        on->enter(true);
    scenario();
    mark_counters();
    if (on->enter != NULL)
        on->enter(false);
}

/* The first round creates the records. Later rounds find warm records. */
TEST(slow_paths_of_spin_await_exit_and_switch_have_the_effects_of_the_fast_paths)
{
    char expected[sizeof trail];
    for (size_t i = 0; i < COUNT_OF(scenarios); i++) {
        run_scenario(scenarios[i], &fast);
        run_scenario(scenarios[i], &fast);
        ck_assert_uint_lt(strlen(trail), sizeof trail - 1);
        strcpy(expected, trail);
        for (size_t j = 0; j < COUNT_OF(slow_paths); j++) {
            run_scenario(scenarios[i], &slow_paths[j]);
            ck_assert_msg(strcmp(trail, expected) == 0, "scenario %zu with %s: '%s', not '%s'", i,
                          slow_paths[j].name, trail, expected);
        }
    }
}

FIBER_DO(check_argument, mark(arg), ck_assert_int_eq(weft_snooze(), 0), (weft_value)strlen(arg))

/* A copy of an argument lies where a warm stack keeps its first frame. */
TEST(a_warm_stack_starts_any_fiber_after_any_other)
{
    static char copied[] = "a copied argument";
    const weft_spin_options options = {.arg_bytes = sizeof copied};
    for (int i = 0; i < 8; i++) {
        clear_trail();
        weft_fiber f = i % 3 == 0 ? weft_spin_with(check_argument, copied, &options)
                                  : weft_spin(check_argument, (void *)(uintptr_t) "plain");
        ck_assert_int_eq(weft_await(f), i % 3 == 0 ? 17 : 5);
        ck_assert_trail(i % 3 == 0 ? "a copied argument" : "plain");
    }
}

FIBER(snooze_once, weft_snooze())

/* Describe a fiber that has called weft_snooze and did not run since. */
static weft_value mark_snoozing(void *arg)
{
    weft_fiber f = *(weft_fiber *)arg;
    weft_info info = info_of(f);
    mark_count("state ", info.state);
    mark_count("switches ", (long long)info.switches);
    mark_count("schedule ", weft_schedule(f, 5));
    mark_count("transfer ", weft_transfer(f, 5));
    mark_count("value ", weft_await(f));
    return 0;
}

/* A started fiber has a starter, so its first snooze takes the slow path. */
TEST(a_snooze_on_the_slow_path_has_the_effect_of_the_fast_path)
{
    weft_fiber snoozing = weft_spin(snooze_once, NULL);
    ck_assert_int_eq(weft_await(weft_spin(mark_snoozing, &snoozing)), 0);
    char expected[sizeof trail];
    strcpy(expected, trail);
    clear_trail();
    weft_fiber started = weft_new(snooze_once, NULL);
    ck_assert_int_eq(weft_start(started), 0);
    mark_snoozing(&started);
    ck_assert_trail(expected);
}

static weft_value receive_three(void *waits_first)
{
    for (int i = 0; i < 3; i++) {
        if (waits_first == NULL)
            ck_assert_int_eq(weft_snooze(), 0);
        mark_count("got ", weft_receive());
        mark_count("left ", (long long)weft_mailbox_count(weft_self()));
    }
    return weft_try_receive();
}

static void tell_all(int (*tell)(weft_fiber, weft_value), bool waits_first)
{
    clear_trail();
    weft_fiber f = weft_spin(receive_three, as_arg(waits_first));
    if (waits_first)
        let_run();
    for (int i = 1; i <= 4; i++)
        mark_count("tell ", tell(f, i));
    mark_count("error ", tell(f, -EIO));
    mark_count("= ", weft_await(f));
    mark_count("gone ", tell(f, 1));
}

/* weft_tell stores a value. weft_try_tell stores an item of any size. */
TEST(messages_by_tell_and_by_try_tell_have_the_same_effects)
{
    char expected[sizeof trail];
    for (int waits_first = 0; waits_first <= 1; waits_first++) {
        tell_all(weft_tell, waits_first);
        strcpy(expected, trail);
        tell_all(weft_try_tell, waits_first);
        ck_assert_trail(expected);
    }
}
