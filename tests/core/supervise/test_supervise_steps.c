/*
 * Supervision step by step. Each row lists actions on a supervisor of three children, and the
 * events that follow. test_supervise_storm.c compares ends and restarts with a reference.
 */
#include "core/supervise/supervise_support.h"
#include "support/suite.h"

#define LONG_S 1000

typedef struct steps_row {
    const char *sentence;
    weft_strategy strategy;
    /*
     * A letter and a child. F: fail. R: return. C: cancel. +: restart. *: restart in another fiber
     * and mark the result. -: detach. @: attach to its own supervisor. Without a child: !: cancel
     * the supervisor. s: sleep for 4 ticks. .: let all fibers run, then mark a space.
     */
    const char *steps;
    const char *trail;
    bool has_stubborn; /* The second child is h, which ends only when scheduled. */
    weft_restart_when restart_a, restart_b;
    unsigned restarts_max;
    double backoff_s;
    void (*on_exit)(weft_fiber child, weft_value value, void *arg);
} steps_row;

static void restart_b_for_a(weft_fiber child, weft_value value, void *arg)
{
    if (child == id_of('a'))
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
}

static void restart_b_for_c(weft_fiber child, weft_value value, void *arg)
{
    mark_exit(child, value, arg);
    if (child == id_of('c'))
        ck_assert_int_eq(weft_restart(id_of('b')), 0);
}

static void restart_c_for_b(weft_fiber child, weft_value value, void *arg)
{
    mark_exit(child, value, arg);
    if (child == id_of('b'))
        ck_assert_int_eq(weft_restart(id_of('c')), 0);
}

/* P39 */
static const steps_row rows[] = {
    {"on_exit is called only for children that end by themselves or by other fibers",
     WEFT_ONE_FOR_ALL, "Rb.Fc.Ca.!.", "B(b1) C(c-5)Aac A(a-125)Cac CA ", .restart_b = WEFT_NEVER,
     .on_exit = mark_exit},
    {"children that fail at the same time are one restart with one on_exit each", WEFT_ONE_FOR_ALL,
     "FcRb.", "CB(c-5)A(b1)abc ", .restarts_max = 1, .restart_b = WEFT_ON_ERROR,
     .on_exit = mark_exit},
    /* P27 */
    {"attaching a child to its own supervisor changes nothing", WEFT_ONE_FOR_ONE, "@bFb.!.",
     "Bb CBA "},
    {"a detached child is not supervised any more", WEFT_ONE_FOR_ALL, "-bFc.!.", "CAac CA "},
    {"a child detached while it is stopped is not awaited", WEFT_ONE_FOR_ONE, "!.-h.", "C! A ",
     true},
    {"detaching while siblings are stopped does not prevent their restart", WEFT_ONE_FOR_ALL,
     "Fc.-a-h.", "C! c ", true},
    {"waiting children start although their sibling is restarted and detached", WEFT_ONE_FOR_ALL,
     "Fb.+b-b.", "BCA bac ", .backoff_s = LONG_S},
    /* P30, P31: restarts by other fibers */
    {"a manual restart of a running child is not an end for its supervisor", WEFT_ONE_FOR_ALL,
     "+b+b+b.Fa.", "BbBbBb A(a-5)CBabc ", .restarts_max = 1, .on_exit = mark_exit},
    {"a manual restart of a delayed child starts that child", WEFT_ONE_FOR_ONE, "Fb.+b.", "B b ",
     .backoff_s = LONG_S},
    {"a manual restart of a delayed child starts all that wait for it", WEFT_ONE_FOR_ALL, "Fb.+b.",
     "BCA bac ", .backoff_s = LONG_S},
    {"a manual restart of a delayed child starts the later ones", WEFT_REST_FOR_ONE, "Fb.+b.",
     "BC bc ", .backoff_s = LONG_S},
    {"a stopped sibling can be restarted manually before the delay ends", WEFT_ONE_FOR_ALL,
     "Fb.+c.s.", "BCA c ab ", .backoff_s = 2 * TICK_S},
    {"a failed child may be restarted manually before its siblings are started", WEFT_ONE_FOR_ALL,
     "FbFc.", "BC(b-5)A(c-5)bac ", .backoff_s = LONG_S, .on_exit = restart_b_for_c},
    {"on_exit may restart another delayed child and its siblings start too", WEFT_REST_FOR_ONE,
     "Fb.Ra.", "BC Abc ", .backoff_s = LONG_S, .restart_a = WEFT_NEVER, .on_exit = restart_b_for_a},
    {"an end followed by a manual restart is not passed to on_exit", WEFT_ONE_FOR_ALL, "FaFbFc.",
     "ABC(a-5)(b-5)cab ", .on_exit = restart_c_for_b},
    {"a child restarted manually while its siblings are stopped is stopped in order",
     WEFT_ONE_FOR_ALL, "Fc.Fa.+a.Rh.", "C! A a HAahc ", true},
    {"a manual restart of a child stopped for a sibling waits for the start of all",
     WEFT_ONE_FOR_ALL, "Fa.*h*c.Rh.!.*h.Rh.", "AC!  Hah(ok)c(ok) C! (gone) HA ", true},
    {"a manual restart of a stopped child with restart never fails", WEFT_ONE_FOR_ALL, "Fa.*h.Rh.",
     "AC!  H(gone)ac ", true, .restart_b = WEFT_NEVER},
    {"a supervisor that is cancelled while a child waits for its restart ends at once",
     WEFT_ONE_FOR_ALL, "Fb.!.", "BCA  ", .backoff_s = LONG_S},
    {"a supervisor cancelled while it stops children for a sibling restarts none", WEFT_ONE_FOR_ALL,
     "Fc.!.Rh.", "C!  HA ", true},
    /* Delays */
    {"other children are supervised while one waits for its restart", WEFT_ONE_FOR_ONE, "Fa.Rb.Fc.",
     "A B C ", .backoff_s = LONG_S, .restart_b = WEFT_NEVER},
    {"children stopped for a sibling wait for it and start in order", WEFT_ONE_FOR_ALL, "Fb.s.",
     "BCA abc ", .backoff_s = 2 * TICK_S},
    {"later children wait for a delayed sibling and start in order", WEFT_REST_FOR_ONE, "Fb.s.",
     "BC bc ", .backoff_s = 2 * TICK_S},
    {"a failure earlier in the list takes over waiting children after it", WEFT_REST_FOR_ONE,
     "Fc.Fb.Fa.ss.", "C B A abc ", .backoff_s = 2 * TICK_S},
};

static void make_step(const char *step, weft_fiber supervisor)
{
    bool is_letter = step[1] >= 'a' && step[1] <= 'c';
    weft_fiber f = step[1] == 'h' ? stubborn : is_letter ? id_of(step[1]) : 0;
    if (*step == 'F' || *step == 'R')
        ck_assert_int_eq(weft_schedule(f, *step == 'F' ? -EIO : 1), 0);
    else if (*step == 'C')
        ck_assert_int_eq(weft_cancel(f), 0);
    else if (*step == '+')
        ck_assert_int_eq(weft_restart(f), 0);
    else if (*step == '*')
        weft_go(restart_and_mark, id_arg(f));
    else if (*step == '-')
        ck_assert_int_eq(weft_detach(f), 0);
    else if (*step == '@')
        ck_assert_int_eq(weft_attach(f, supervisor), 0);
    else if (*step == '!')
        ck_assert_int_eq(weft_cancel(supervisor), 0);
    else if (*step == 's')
        weft_sleep(4 * TICK_S);
    else
        let_run();
    if (*step == '.')
        mark(" ");
}

static void end_detached(void)
{
    const weft_fiber left[] = {id_of('a'), id_of('b'), id_of('c'), stubborn};
    for (size_t i = 0; i < COUNT_OF(left); i++)
        if (left[i] != 0) {
            weft_cancel(left[i]);
            let_run();
            weft_schedule(left[i], 0); /* the stubborn child */
            weft_value value = weft_await(left[i]);
            ck_assert(value == -ECANCELED || value == -ESRCH);
        }
}

TEST_ROWS(the_events_of_each_row_follow_its_steps, rows)
{
    const steps_row *row = &rows[_i];
    supervisor_args p = {
        .children = {{"a", run_child, "a", .restart = row->restart_a},
                     {"b", row->has_stubborn ? end_only_when_scheduled : run_child, "b",
                      .restart = row->restart_b},
                     {"c", run_child, "c"}},
        .n = 3,
        .options = {.strategy = row->strategy,
                    .restarts_max = row->restarts_max,
                    .backoff_s = row->backoff_s,
                    .backoff_max_s = row->backoff_s,
                    .on_exit = row->on_exit,
                    .on_exit_arg = ""},
    };
    weft_fiber supervisor = spin_waiting(run_supervisor, &p);
    ck_take_trail(row->has_stubborn ? "ahc" : "abc");
    for (const char *step = row->steps; *step != '\0'; step += strchr("!s.", *step) ? 1 : 2)
        make_step(step, supervisor);
    ck_assert_msg(strcmp(trail, row->trail) == 0, "%s: \"%s\", expected \"%s\"", row->sentence,
                  trail, row->trail);
    weft_cancel(supervisor);
    let_run();
    if (row->has_stubborn)
        weft_schedule(stubborn, 0);
    ck_assert_int_eq(weft_await(supervisor), -ECANCELED);
    end_detached();
    assert_nothing_left();
    ck_assert_int_eq(weft_suspend(), 0);
}
