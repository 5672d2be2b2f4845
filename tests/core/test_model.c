/*
 * The property of scheduling: about 200 fibers apply the whole API to themselves and to each other.
 * Each result must be one that the model (model.h) allows.
 *
 * Every fiber ends exactly once. No fiber is resumed without a cause. An await returns the value
 * that the fiber returned. A cancelled scope lets no call succeed. No byte in a pipe is lost.
 */
#include "core/model.h"

#define PIPES 4

static struct {
    int fd[2];
    size_t written, read;
} pipes[PIPES];

static weft_value actor_main(void *arg);

static actor *any_actor(void)
{
    return &actors[random_below((unsigned)actors_made)];
}

static bool is_main(const actor *a)
{
    return a == &actors[0];
}

static void step_spin(actor *me)
{
    if (actors_made == ACTORS_MAX)
        return;
    int i = actors_made++;
    actor *child = &actors[i];
    count_event(0);
    *child = (actor){.parent = index_of(me)};
    switch (random_below(3)) {
    case 0:
        child->id = weft_new(actor_main, child);
        break;
    case 1:
        child->is_unawaited = true;
        REQUIRE(weft_go(actor_main, child) == 0);
        /* weft_go returns no id. The youngest child has it. */
        weft_fiber f[ACTORS_MAX];
        int n = weft_children(me->id, f, ACTORS_MAX);
        REQUIRE(n > 0 && n < ACTORS_MAX);
        child->id = f[n - 1];
        break;
    default:
        child->id = weft_spin(actor_main, child);
    }
    REQUIRE(child->id != 0 && weft_parent(child->id) == me->id);
}

static void step_schedule(actor *me)
{
    actor *to = any_actor();
    int code = to->is_started && random_below(8) == 0 ? new_code() : 0;
    weft_value value = code != 0 ? code : new_value();
    bool was_dead = is_dead(to);
    int rc = weft_schedule(to->id, value);
    hash_result((uint64_t)rc);
    if (was_dead)
        REQUIRE(rc == -ESRCH);
    else if (to->waits_in == SCHEDULABLE || !to->is_started)
        REQUIRE(rc == 0 || (rc == -EBUSY && must_fail(to))); /* its call is being refused */
    else
        REQUIRE(rc == -EBUSY);
    if (rc == 0)
        record_value(to, value);
}

static void record_interrupt(actor *to)
{
    to->has_value = true;
    to->value = INTERRUPTED;
    to->is_interrupted = to->waits_in == NOT_SCHEDULABLE;
}

static void step_interrupt(actor *me)
{
    actor *to = any_actor();
    bool was_dead = is_dead(to);
    int rc = weft_interrupt(to->id, INTERRUPTED);
    hash_result((uint64_t)rc);
    REQUIRE(rc == 0 || rc == (was_dead ? -ESRCH : -EBUSY));
    if (rc < 0)
        return;
    REQUIRE(to->waits_in != NOT_WAITING && to != me);
    REQUIRE(!to->has_value);
    record_interrupt(to);
}

static void step_stop(actor *me)
{
    actor *to = any_actor();
    if (random_below(3) != 0)
        return; /* otherwise all fibers would end early */
    weft_value value = random_below(2) ? -ECANCELED : new_value();
    bool was_dead = is_dead(to);
    int rc = weft_stop(to->id, value);
    hash_result((uint64_t)rc);
    REQUIRE(rc == (is_main(to) ? -EINVAL : was_dead ? -ESRCH : 0));
    if (rc == 0 && !to->is_returned) {
        to->is_shutdown = false; /* the latest stop sets the value */
        to->is_stopped = true;
        to->stop_value = value;
    }
}

static void step_raise(actor *me)
{
    actor *to = any_actor();
    int code = new_code();
    if (code == 0)
        return;
    bool was_dead = is_dead(to);
    int rc = weft_raise(to->id, code, "by %d", index_of(me));
    REQUIRE(rc == (was_dead ? -ESRCH : 0));
    if (rc == 0)
        allow_code(code, index_of(to));
}

static void step_park(actor *me)
{
    actor *to = any_actor();
    if (is_main(to) || is_dead(to))
        return;
    if (random_below(4) != 0) {
        REQUIRE(weft_unpark(to->id) == 0);
        to->is_parked = false;
    } else if (to != me && !to->is_starting) {
        REQUIRE(weft_park(to->id) == 0);
        to->is_parked = true;
    }
}

/* Also for a fiber that has returned and is still ending: its error goes to the new parent. */
static void move_actor(actor *child, int parent)
{
    child->parent = parent;
    if (!child->is_returned)
        return;
    child->ended_under = parent;
    allow_code((int)child->returned, parent);
}

static void step_attach(actor *me)
{
    actor *child = any_actor(), *parent = random_below(2) ? any_actor() : &actors[0];
    if (!parent->is_started)
        return; /* whether and when it will run or end is unknown */
    bool was_dead = is_dead(child) || is_dead(parent);
    int rc = weft_attach(child->id, parent->id);
    hash_result((uint64_t)rc);
    if (was_dead) {
        REQUIRE(rc == -ESRCH);
        return;
    }
    bool is_cycle = is_main(child) || is_ancestor(index_of(child), index_of(parent));
    REQUIRE(rc == (is_cycle || parent->is_returned ? -EINVAL : 0));
    if (rc == 0)
        move_actor(child, index_of(parent));
}

static void step_open(actor *me)
{
    if (me->depth == SCOPES_MAX)
        return;
    int i = me->depth++;
    bool is_shield = random_below(6) == 0;
    double timeout_s = is_shield || random_below(3) == 0 ? INFINITY : random_below(1000) * 1e-6;
    me->scopes[i].is_shield = is_shield;
    me->scopes[i].is_cancelled_by_call = me->scopes[i].may_have_interrupted =
        me->scopes[i].has_interrupted = false;
    me->scopes[i].deadline_s = weft_now() + timeout_s;
    int rc = (is_shield ? weft_shield_open : weft_scope_open)(&me->scopes[i].scope, timeout_s);
    REQUIRE(rc == 0);
}

static void step_close(actor *me)
{
    if (me->depth == 0)
        return;
    int i = --me->depth;
    if (i > 0)
        REQUIRE(weft_scope_close(&me->scopes[i - 1].scope) == -EINVAL);
    bool was_cancelled = weft_scope_is_cancelled(&me->scopes[i].scope);
    int rc = weft_scope_close(&me->scopes[i].scope);
    hash_result((uint64_t)rc);
    bool is_late = was_cancelled && !me->scopes[i].is_cancelled_by_call;
    REQUIRE(rc == 0 || (rc == -ETIMEDOUT && is_late && me->scopes[i].may_have_interrupted));
    REQUIRE(rc != 0 || !is_late || !me->scopes[i].has_interrupted);
    if (rc != 0)
        REQUIRE(weft_now() >= me->scopes[i].deadline_s - 1e-9);
}

static void step_cancel_scope(actor *me)
{
    actor *of = random_below(2) ? me : any_actor();
    if (of->depth == 0)
        return;
    int i = (int)random_below((unsigned)of->depth);
    if (of->scopes[i].is_shield)
        return;
    if (random_below(2)) {
        bool was_cancelled = weft_scope_is_cancelled(&of->scopes[i].scope);
        double timeout_s = random_below(500) * 1e-6 + 1e-6, from = weft_now();
        int rc = weft_scope_reset(&of->scopes[i].scope, timeout_s);
        REQUIRE(rc == (was_cancelled ? -ECANCELED : 0));
        if (rc == 0)
            of->scopes[i].deadline_s = from + timeout_s;
        return;
    }
    of->scopes[i].is_cancelled_by_call |= !weft_scope_is_cancelled(&of->scopes[i].scope);
    REQUIRE(weft_scope_cancel(&of->scopes[i].scope) == 0);
    REQUIRE(weft_scope_is_cancelled(&of->scopes[i].scope));
}

static void step_snooze(actor *me)
{
    bool had_to_fail = must_fail(me);
    int rc = weft_snooze();
    require_sane_return(me, rc, had_to_fail);
    REQUIRE(!is_own_result(me, rc) || rc == 0);
}

static void step_sleep(actor *me)
{
    double seconds = random_below(300) * 1e-6, from = weft_now();
    bool had_to_fail = begin_wait(me, NOT_SCHEDULABLE);
    int rc = weft_sleep(seconds);
    require_sane_return(me, rc, had_to_fail);
    if (is_own_result(me, rc))
        REQUIRE(rc == 0 && weft_now() >= from + seconds - 1e-9);
}

static void step_suspend(actor *me)
{
    bool had_to_fail = begin_wait(me, SCHEDULABLE);
    weft_value value = weft_suspend();
    require_sane_return(me, value, had_to_fail);
    require_resume(me, value);
}

static uint64_t switches_of(const actor *a)
{
    weft_info info;
    REQUIRE(weft_info_of(a->id, &info) == 0);
    return info.switches;
}

static void step_transfer(actor *me)
{
    actor *to = any_actor();
    if (is_main(to) || to == me)
        return;
    weft_value value = new_value();
    bool had_to_fail = must_fail(me), was_dead = is_dead(to);
    bool is_open = (to->waits_in == SCHEDULABLE || !to->is_started) && !to->is_parked;
    uint64_t switches = switches_of(me);
    actor before = *to;
    if (!had_to_fail)
        record_value(to, value);
    me->waits_in = SCHEDULABLE;
    weft_value result = weft_transfer(to->id, value);
    hash_result((uint64_t)result);
    bool is_refused = switches_of(me) == switches; /* then no value was passed */
    if (is_refused && !had_to_fail)
        *to = before;
    require_sane_return(me, result, had_to_fail);
    if (is_refused && was_dead && result == -ESRCH)
        REQUIRE(!had_to_fail);
    else if (is_refused && result == -EBUSY)
        REQUIRE(!is_open || must_fail(to));
    else
        require_resume(me, result);
}

static void step_start(actor *me)
{
    actor *to = any_actor();
    if (to->is_started || is_dead(to) || to->is_parked || to->is_stopped || to->is_shutdown)
        return;
    bool had_to_fail = must_fail(me);
    me->is_starting = true;
    weft_value rc = weft_start(to->id);
    me->is_starting = false;
    hash_result((uint64_t)rc);
    if (rc == -EBUSY)
        return; /* spun, or scheduled before */
    require_sane_return(me, rc, had_to_fail);
    if (is_own_result(me, rc))
        REQUIRE(rc == 0 && to->is_started);
}

static void step_await(actor *me)
{
    actor *of = any_actor();
    bool was_dead = is_dead(of), is_cycle = is_ancestor(index_of(of), index_of(me));
    bool had_to_fail = must_fail(me) && !was_dead;
    me->waits_in = NOT_SCHEDULABLE;
    of->awaiters++;
    weft_value value = weft_await(of->id);
    of->awaiters--;
    hash_result((uint64_t)value);
    if (!was_dead && is_cycle) {
        REQUIRE(value == -EDEADLK);
        me->waits_in = NOT_WAITING;
        return;
    }
    require_sane_return(me, value, had_to_fail);
    if (value == -ESRCH) {
        REQUIRE(was_dead);
        REQUIRE(may_be_invalid(of));
        return;
    }
    if (is_dead(of) && !me->is_interrupted && !had_to_fail && is_value_of(of, value)) {
        record_await(of, value);
        /* -ECANCELED is either the value of the fiber, or the reason why the wait ended. */
        if (value == -ECANCELED)
            note_interrupting_scope(me, true);
        if (is_code(value))
            me->last_code = (int)value;
        return;
    }
    REQUIRE(!is_own_result(me, value));
}

static void step_io(actor *me)
{
    char bytes[64] = {0};
    bool is_write = random_below(3) != 0;
    unsigned i = random_below(PIPES), n = random_below(sizeof bytes) + 1;
    bool had_to_fail = begin_wait(me, NOT_SCHEDULABLE);
    ssize_t rc =
        is_write ? weft_write(pipes[i].fd[1], bytes, n) : weft_read(pipes[i].fd[0], bytes, n);
    require_sane_return(me, rc, had_to_fail);
    if (!is_own_io_result(me, rc))
        return;
    REQUIRE(is_write ? rc == (ssize_t)n : rc >= 1 && rc <= (ssize_t)n);
    *(is_write ? &pipes[i].written : &pipes[i].read) += (size_t)rc;
}

/* Steps that may wait long are at the end. They are not for main, which drives the program. */
static const action steps[] = {
    ACTION(step_spin, 1),    ACTION(step_schedule, 3), ACTION(step_interrupt, 1),
    ACTION(step_stop, 1),    ACTION(step_raise, 1),    ACTION(step_park, 1),
    ACTION(step_attach, 1),  ACTION(step_open, 1),     ACTION(step_close, 2),
    ACTION(step_snooze, 1),  ACTION(step_sleep, 1),    ACTION(step_cancel_scope, 1),
    ACTION(step_suspend, 2), ACTION(step_start, 1),    ACTION(step_transfer, 1),
    ACTION(step_await, 1),   ACTION(step_io, 3),
};
#define STEPS_OF_MAIN (COUNT_OF(steps) - 5)

static void do_step(actor *me)
{
    steps_left -= steps_left > 0;
    hash_result((uint64_t)index_of(me));
    do_random_action(me, (unsigned)index_of(me), steps,
                     is_main(me) ? STEPS_OF_MAIN : COUNT_OF(steps));
    require_sane(any_actor());
}

/* Choose a return value: a new value, a new error, or the last error that arrived. */
static weft_value choose_end(const actor *me)
{
    int code = random_below(4) != 0                    ? 0
               : random_below(2) && me->last_code != 0 ? me->last_code
                                                       : new_code();
    return code != 0 ? code : new_value();
}

static weft_value actor_main(void *arg)
{
    actor *me = arg;
    REQUIRE(!me->is_started && !me->is_stopped && !me->is_shutdown && !me->is_parked);
    REQUIRE(weft_self() == me->id);
    REQUIRE(weft_first_value() == me->first_value);
    me->is_started = true;
    me->has_value = false;
    bool is_ending = false;
    while (steps_left > 0 && random_below(60) != 0 && !is_ending) {
        do_step(me);
        is_ending = (me->is_stopped || me->is_shutdown) && random_below(4) == 0;
    }
    while (me->depth > 0)
        step_close(me);
    me->is_returned = true;
    me->ended_under = me->parent;
    me->returned = choose_end(me);
    allow_code((int)me->returned, me->parent);
    for (actor *child = &actors[1]; child < &actors[actors_made]; child++) {
        if (child->parent != index_of(me))
            continue;
        child->is_shutdown |= !child->is_returned && !child->is_stopped;
        child->is_parked = false;
    }
    return me->returned;
}

/* End the wait of a fiber, even in a shield. The fiber has no steps left. */
static void end_wait(actor *a)
{
    REQUIRE(weft_unpark(a->id) == 0);
    a->is_parked = false;
    if (!a->is_started && !a->is_stopped) {
        REQUIRE(weft_cancel(a->id) == 0);
        a->is_stopped = true;
        a->stop_value = -ECANCELED;
    }
    if (a->waits_in != NOT_WAITING && weft_interrupt(a->id, INTERRUPTED) == 0)
        record_interrupt(a);
}

/* End all live fibers, and take all their errors. */
static void end_all(actor *me)
{
    while (me->depth > 0)
        step_close(me);
    int rc;
    bool is_over = false;
    for (int round = 0; !is_over; round++) {
        REQUIRE(round < 1000);
        is_over = true;
        for (int i = 1; i < actors_made; i++) {
            if (is_dead(&actors[i]))
                continue;
            is_over = false;
            end_wait(&actors[i]);
        }
        while ((rc = weft_snooze()) != 0)
            require_cause(me, rc);
    }
}

/* Values that were not awaited are still available and correct. */
static void require_values(void)
{
    for (int i = 1; i < actors_made; i++) {
        actor *a = &actors[i];
        REQUIRE(is_dead(a));
        REQUIRE(a->is_returned == a->is_started);
        require_sane(a);
        weft_value value = weft_await(a->id);
        REQUIRE(value == -ESRCH || is_value_of(a, value));
    }
}

static void close_pipes(void)
{
    for (int i = 0; i < PIPES; i++) {
        char bytes[4096];
        ssize_t n;
        REQUIRE(weft_close(pipes[i].fd[1]) == 0);
        while ((n = weft_read(pipes[i].fd[0], bytes, sizeof bytes)) > 0)
            pipes[i].read += (size_t)n;
        REQUIRE(n == 0 && pipes[i].read == pipes[i].written);
        REQUIRE(weft_close(pipes[i].fd[0]) == 0);
    }
}

static void run_model(int variant)
{
    steps_left = is_sim() ? 10000 : 4000;
    actors_made = 1;
    actor *me = &actors[0];
    *me = (actor){.id = weft_self(), .parent = -1, .ended_under = -1, .is_started = true};
    for (int i = 0; i < PIPES; i++)
        REQUIRE(weft_pipe(pipes[i].fd) == 0);
    for (int i = 0; i < 50; i++)
        step_spin(me);
    while (steps_left > 0) {
        do_step(me);
        step_sleep(me);
    }
    end_all(me);
    require_values();
    close_pipes();
}

/* T3, T4, T10, T38, T40, P4, P7, P24, P34, P36, P61 */
static const property properties[] = {
    {.name = "every_result_of_a_random_program_conforms_to_the_model",
     .run = run_model,
     .seeds = 3,
     .sim_seeds = 12,
     .least = {100},
     .is_repeatable = true},
};

PROPERTIES(properties)
