/*
 * Scenarios as lists of steps. In a step main or one of the fibers A to F makes a call. Main calls
 * at once. A fiber calls while main lets all fibers run, so that its call may wait.
 *
 *     play({M, lock}, {A, lock, WAITS}, {M, unlock}, {A, returns, 0});
 */
#ifndef TESTS_SYNC_STEPS_H
#define TESTS_SYNC_STEPS_H

#include "support/support.h"

/* Most steps expect 0 and have no argument. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum { M, A, B, C, D, E, F, ACTORS };
#define NOBODY (-1)
#define WAITS INTPTR_MAX /* the expected result of a call that has not returned */
#define ANY (INTPTR_MAX - 1)
#define RAISED (-EPROTO) /* the error that raise delivers */

typedef weft_value step_call(weft_value arg);

/* Define a call for steps. The expression may use arg. */
#define STEP(name, expression)                                            \
    static inline weft_value name(weft_value arg __attribute__((unused))) \
    {                                                                     \
        return (weft_value)(expression);                                  \
    }

typedef struct step {
    int who;
    step_call *call;
    weft_value expected, arg;
} step;

static struct actor {
    weft_fiber fiber;
    step_call *call; /* the last call; a restarted fiber repeats it */
    weft_value arg, result;
} actors[ACTORS];

/* Steps of a fiber: assert the result of its earlier call; end, with everything that it holds. */
STEP(returns, arg)
STEP(ends, arg)

/* Steps of main. The argument is a fiber. */
STEP(cancel, weft_cancel(actors[arg].fiber))
STEP(interrupt, weft_interrupt(actors[arg].fiber, -EINTR))
STEP(raise_error, weft_raise(actors[arg].fiber, RAISED, "raised"))
STEP(park, weft_park(actors[arg].fiber))
STEP(unpark, weft_unpark(actors[arg].fiber))

static inline weft_value run(weft_value arg)
{
    let_run();
    return arg;
}

static inline int actor_of(weft_fiber fiber)
{
    if (fiber == 0)
        return NOBODY;
    for (int i = M; i < ACTORS; i++)
        if (fiber == (i == M ? weft_self() : actors[i].fiber))
            return i;
    return ACTORS;
}

static bool is_over, is_restarting;

static inline weft_value restart(weft_value who)
{
    is_restarting = true;
    int rc = weft_restart(actors[who].fiber);
    is_restarting = false;
    return rc;
}

/*
 * Wait for the next step. Return false if the fiber must end. The shield lets a cancelled fiber
 * make further calls.
 */
static inline bool await_step(void)
{
    if (weft_suspend() < 0 && !is_over && !is_restarting)
        WEFT_SHIELD(INFINITY) {
            weft_suspend();
        }
    return !is_over && !is_restarting;
}

/* Make all calls, until the test is over. */
static inline weft_value act(void *arg)
{
    struct actor *a = arg;
    do {
        a->result = WAITS;
        a->result = a->call(a->arg);
        if (a->result == RAISED)
            ck_assert_error(RAISED, "raised");
    } while (await_step() && a->call != ends);
    return 0;
}

/* Runs before weft ends the fibers, because weft has registered its exit handler earlier. */
static inline void end_actors(void)
{
    is_over = true;
    for (int i = A; i < ACTORS; i++)
        if (actors[i].fiber != 0)
            weft_schedule(actors[i].fiber, 0);
}

/* Hand the call of a step to its fiber, which has not run yet. An ended fiber is replaced. */
static inline void order_call(const step *s)
{
    struct actor *a = &actors[s->who];
    bool is_alive = a->fiber != 0 && a->call != ends;
    a->call = s->call;
    a->arg = s->arg;
    a->result = WAITS;
    if (is_alive) {
        ck_assert_int_eq(weft_schedule(a->fiber, 0), 0);
        return;
    }
    a->fiber = weft_spin(act, a);
    atexit(end_actors);
}

static inline void play_steps(const step *s, size_t n, int line)
{
    for (size_t i = 0; i < n; i++, s++) {
        weft_value result;
        if (s->who == M) {
            result = s->call(s->arg);
        } else {
            if (s->call != returns)
                order_call(s);
            let_run();
            result = s->call == ends ? 0 : actors[s->who].result;
        }
        ck_assert_msg(result == s->expected || s->expected == ANY,
                      "line %d, step %zu: %ld instead of %ld", line, i, (long)result,
                      (long)s->expected);
    }
}

#define play(...)                                                                               \
    play_steps((const step[]){__VA_ARGS__}, sizeof((const step[]){__VA_ARGS__}) / sizeof(step), \
               __LINE__)

#endif
