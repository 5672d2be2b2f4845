/*
 * Helpers for the tests of supervision: children that record events in the trail, and a supervisor.
 */
#ifndef TESTS_CORE_SUPERVISE_SUPERVISE_SUPPORT_H
#define TESTS_CORE_SUPERVISE_SUPERVISE_SUPPORT_H

#include "support/support.h"

/* A short time, an integer number of nanoseconds. Sums are exact in virtual time. */
#define TICK_S (1.0 / 256)

/* The children a, b and c. Each marks its letter when it starts, and the capital when it ends. */
static weft_fiber ids[3];
static int runs[3];

static inline weft_fiber id_of(char letter)
{
    return ids[letter - 'a'];
}

static inline weft_value run_child(void *arg)
{
    const char *letter = arg;
    int i = *letter - 'a';
    ids[i] = weft_self();
    runs[i]++;
    mark(letter);
    weft_value value = weft_suspend();
    mark((char[]){(char)('A' + i), '\0'});
    return value;
}

typedef enum end_kind { RETURNS, FAILS, IS_STOPPED, IS_CANCELLED } end_kind;

static inline void end_child(char letter, end_kind kind)
{
    weft_fiber f = id_of(letter);
    if (kind == RETURNS)
        ck_assert_int_eq(weft_schedule(f, 1), 0);
    else if (kind == FAILS)
        ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    else if (kind == IS_STOPPED)
        ck_assert_int_eq(weft_stop(f, -EIO),
                         0); /* requested by a fiber: not an error, whatever the value */
    else
        ck_assert_int_eq(weft_cancel(f), 0);
    let_run();
}

typedef struct supervisor_args {
    weft_child children[3];
    size_t n;
    weft_supervise_options options;
} supervisor_args;

static inline weft_value run_supervisor(void *arg)
{
    const supervisor_args *p = arg;
    return weft_supervise(p->n > 0 ? p->children : NULL, p->n, &p->options);
}

/* Spin a supervisor of a, b and c. b is restarted as given, a and c always. */
static inline weft_fiber spin_abc(supervisor_args *p, weft_strategy strategy,
                                  weft_restart_when restart_b)
{
    *p = (supervisor_args){
        .children = {{"a", run_child, "a", .restart = WEFT_ALWAYS},
                     {"b", run_child, "b", .restart = restart_b},
                     {"c", run_child, "c", .restart = WEFT_ALWAYS}},
        .n = 3,
        .options.strategy = strategy,
        .options.restarts_max = 100,
    };
    weft_fiber supervisor = weft_spin(run_supervisor, p);
    let_run();
    ck_assert_trail("abc");
    trail[0] = '\0';
    return supervisor;
}

/* Cancel the supervisor, which stops its running children. */
static inline void cancel_supervisor(weft_fiber supervisor)
{
    ck_assert_int_eq(weft_cancel(supervisor), 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    trail[0] = '\0';
}

static inline void mark_exit(weft_fiber child, weft_value value, void *arg)
{
    char text[64];
    snprintf(text, sizeof text, "(%s%s%d)", (const char *)arg, weft_name_of(child), (int)value);
    mark(text);
}

/* The fiber that runs end_only_when_scheduled. */
static weft_fiber stubborn;

/* Do not end when stopped, only when scheduled. */
static inline weft_value end_only_when_scheduled(void *arg)
{
    (void)arg;
    stubborn = weft_self();
    mark("h");
    weft_suspend();
    mark("!");
    WEFT_SHIELD(INFINITY) {
        weft_suspend();
    }
    mark("H");
    return 0;
}

static inline weft_value restart_and_mark(void *arg)
{
    weft_value rc = weft_restart(arg_id(arg));
    mark(rc == 0 ? "(ok)" : "(gone)");
    return 0;
}

FIBER_DO(fail_later, weft_sleep(TICK_S), weft_fail((int)(intptr_t)arg, "broken"))

static inline weft_value mark_if_stopped(void *arg)
{
    weft_value rc = weft_suspend();
    if (rc == -ECANCELED)
        mark(arg);
    return rc;
}

/* Assert that no fiber lives and no timer is armed. Unawaited values may be left. */
static inline void assert_nothing_alive(void)
{
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_uint_eq(counters.fibers, 0);
    ck_assert_uint_eq(counters.timers, 0);
}

static inline void assert_nothing_left(void)
{
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_uint_eq(counters.fibers_unawaited, 0);
    assert_nothing_alive();
    ck_assert_int_eq(weft_snooze(), 0);
}

#endif
