/* What the tests of supervision share: children that leave a trail, and a supervisor for them. */
#ifndef TESTS_SUPERVISE_SUPPORT_H
#define TESTS_SUPERVISE_SUPPORT_H

#include "support.h"

/* Short, and whole in nanoseconds: on the virtual clock sums of it are exact. */
#define TICK_S (1.0 / 256)

/* The children a, b, c: the letter when one starts, the capital when it ends. */
static weft_fiber ids[3];
static int runs[3];

static inline weft_fiber id_of(char letter)
{
    return ids[letter - 'a'];
}

static inline weft_value live(void *arg)
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

/* How a child comes to its end. */
typedef enum manner { RETURNS, FAILS, IS_STOPPED, IS_CANCELLED } manner;

static inline void end_child(char letter, manner how)
{
    weft_fiber f = id_of(letter);
    if (how == RETURNS)
        ck_assert_int_eq(weft_schedule(f, 1), 0);
    else if (how == FAILS)
        ck_assert_int_eq(weft_schedule(f, -EIO), 0);
    else if (how == IS_STOPPED)
        ck_assert_int_eq(weft_stop(f, -EIO), 0); /* asked for: no error, whatever the value */
    else
        ck_assert_int_eq(weft_cancel(f), 0);
    let_run();
}

/* What a supervisor that is a fiber of its own is to do. */
typedef struct plan {
    weft_child children[3];
    size_t n;
    weft_supervise_options options;
} plan;

static inline weft_value follow(void *arg)
{
    const plan *p = arg;
    return weft_supervise(p->n > 0 ? p->children : NULL, p->n, &p->options);
}

/* A supervisor of a, b and c, where b is to be restarted like this and the others always. */
static inline weft_fiber spin_abc(plan *p, weft_strategy strategy, weft_restart_when restart_b)
{
    *p = (plan){
        .children = {{"a", live, "a", .restart = WEFT_ALWAYS},
                     {"b", live, "b", .restart = restart_b},
                     {"c", live, "c", .restart = WEFT_ALWAYS}},
        .n = 3,
        .options.strategy = strategy,
        .options.restarts_max = 100,
    };
    weft_fiber supervisor = weft_spin(follow, p);
    let_run();
    ck_assert_trail("abc");
    trail[0] = '\0';
    return supervisor;
}

/* It ends, and stops whoever runs. */
static inline void cancel_supervisor(weft_fiber supervisor)
{
    ck_assert_int_eq(weft_cancel(supervisor), 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    trail[0] = '\0';
}

/* What on_exit was told. */
static inline void note_exit(weft_fiber child, weft_value value, void *arg)
{
    char text[64];
    snprintf(text, sizeof text, "(%s%s%d)", (const char *)arg, weft_name_of(child), (int)value);
    mark(text);
}

/* The one that holds on. */
static weft_fiber holder;

/* Ends when it is scheduled, not when it is told to. */
static inline weft_value hold_on(void *arg)
{
    (void)arg;
    holder = weft_self();
    mark("h");
    weft_suspend();
    mark("!");
    WEFT_SHIELD(INFINITY) {
        weft_suspend();
    }
    mark("H");
    return 0;
}

/* Marks what came of it. */
static inline weft_value restart_it(void *arg)
{
    weft_value rc = weft_restart(arg_id(arg));
    mark(rc == 0 ? "(ok)" : "(gone)");
    return 0;
}

/* Fails after a tick. */
static inline weft_value fail_later(void *arg)
{
    weft_sleep(TICK_S);
    return weft_fail((int)(intptr_t)arg, "broken");
}

/* Marks when it is stopped. */
static inline weft_value be_stopped(void *arg)
{
    weft_value rc = weft_suspend();
    if (rc == -ECANCELED)
        mark(arg);
    return rc;
}

/* Nobody lives and no timer runs; values that nobody awaited may be left. */
static inline void assert_nothing_alive(void)
{
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_uint_eq(counters.fibers, 0);
    ck_assert_uint_eq(counters.timers, 0);
}

/* Nothing is left behind at all. */
static inline void assert_nothing_left(void)
{
    weft_counters counters;
    weft_stats(&counters);
    ck_assert_uint_eq(counters.fibers_unawaited, 0);
    assert_nothing_alive();
    ck_assert_int_eq(weft_snooze(), 0);
}

#endif
