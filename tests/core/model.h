/*
 * The model of test_model.c: the known state of each fiber of a random program, reported by the
 * program itself, and the results that may follow from it. The model calls nothing that switches.
 *
 * A program uses every value and every error code once, so that each result identifies its origin.
 */
#ifndef TESTS_CORE_MODEL_H
#define TESTS_CORE_MODEL_H

#include "support/property_suite.h"

#define ACTORS_MAX 200
#define SCOPES_MAX 3
#define CODES_MAX 3000
#define CODE_FIRST 1000 /* codes are -1000 and below, which are not errors that weft returns */

/* Not in a blocking call; in a call that weft_schedule ends; in another blocking call. */
typedef enum wait_kind { NOT_WAITING, SCHEDULABLE, NOT_SCHEDULABLE } wait_kind;

/* A fiber. Index 0 is the main fiber. */
struct actor {
    weft_fiber id; /* 0: not created yet */
    int parent;
    int ended_under; /* its parent when it returned */
    bool is_started, is_returned, is_collected;
    bool is_unawaited; /* spun with weft_go */
    int awaiters;      /* number of actors that await it */
    bool is_starting;  /* in weft_start */
    bool is_parked;
    bool is_stopped, is_shutdown;
    weft_value stop_value, returned, first_value;
    int propagated; /* error of a child that became its value; 0: none known */
    int last_code;  /* the last error that it got; 0: none */
    wait_kind waits_in;
    bool has_value, is_interrupted; /* a value is pending for the call it waits in */
    weft_value value;
    int depth;
    struct {
        weft_scope scope;
        bool is_shield, is_cancelled_by_call;
        bool may_have_interrupted, has_interrupted; /* interrupted a call inside */
        double deadline_s;
    } scopes[SCOPES_MAX];
};

static actor actors[ACTORS_MAX];
static int actors_made;
static int codes_made;
/* The number of times that a code may still be returned in an actor. */
static uint8_t allowed[CODES_MAX][ACTORS_MAX];
static weft_value values_made;
static unsigned steps_left;

static weft_value new_value(void)
{
    return 100000 + values_made++;
}

/* The code of interrupts. No call fails with it otherwise. */
#define INTERRUPTED (-EBADE)

/* Return 0 if all codes are used. */
static int new_code(void)
{
    return codes_made < CODES_MAX ? -(CODE_FIRST + codes_made++) : 0;
}

static bool is_code(weft_value value)
{
    return value <= -CODE_FIRST && value > -(CODE_FIRST + codes_made);
}

static void allow_code(int code, int index)
{
    if (is_code(code) && index >= 0)
        allowed[-code - CODE_FIRST][index]++;
}

static int index_of(const actor *a)
{
    return (int)(a - actors);
}

static bool is_dead(const actor *a)
{
    return weft_state_of(a->id) == WEFT_DEAD;
}

static bool is_ancestor(int a, int of)
{
    while (of >= 0 && of != a)
        of = actors[of].parent;
    return of == a;
}

/*
 * True if this code may be returned in the actor now. The code was raised there, or it propagates
 * from a child that ended before it got the error.
 */
static bool take_code(int code, int index)
{
    uint8_t *left = &allowed[-code - CODE_FIRST][index];
    if (*left > 0) {
        --*left;
        return true;
    }
    for (int i = 1; i < actors_made; i++) {
        actor *child = &actors[i];
        if (!child->is_returned || child->ended_under != index || weft_is_error(child->returned) ||
            !take_code(code, i))
            continue;
        child->propagated = code;
        return true;
    }
    return false;
}

/* True if every blocking call of this actor must fail. A cancellation persists. */
static bool must_fail(const actor *a)
{
    for (int i = a->depth; i-- > 0;) {
        if (weft_scope_is_cancelled(&a->scopes[i].scope))
            return true;
        if (a->scopes[i].is_shield)
            return false;
    }
    return a->is_stopped || a->is_shutdown;
}

/*
 * Record that a cancelled scope interrupted a call. If several scopes are cancelled, any of them
 * may be the cause.
 */
static void note_interrupting_scope(actor *a, bool may_be_a_value)
{
    int cancelled = 0, last = 0;
    for (int i = a->depth; i-- > 0;) {
        if (weft_scope_is_cancelled(&a->scopes[i].scope)) {
            a->scopes[i].may_have_interrupted = true;
            cancelled++;
            last = i;
        }
        if (a->scopes[i].is_shield)
            break;
    }
    if (cancelled == 1 && !may_be_a_value && !a->is_stopped && !a->is_shutdown)
        a->scopes[last].has_interrupted = true;
}

/* Require that an error returned by a call has a cause. */
static void require_cause(actor *a, weft_value error)
{
    if (error == -ECANCELED) {
        REQUIRE(must_fail(a));
        note_interrupting_scope(a, false);
        return;
    }
    REQUIRE(is_code(error));
    REQUIRE(take_code((int)error, index_of(a)));
    a->last_code = (int)error;
}

/* Begin a blocking call. Return true if the call must fail. */
static bool begin_wait(actor *a, wait_kind kind)
{
    a->waits_in = kind;
    return must_fail(a);
}

/* Check the conditions that hold after every blocking call. result is its return value. */
static void require_sane_return(actor *a, weft_value result, bool had_to_fail)
{
    hash_result((uint64_t)result);
    a->waits_in = NOT_WAITING;
    REQUIRE(!a->is_parked);
    REQUIRE(weft_self() == a->id);
    REQUIRE(!had_to_fail || weft_is_error(result));
}

/*
 * For calls that weft_schedule cannot end. Check the value of an interrupt, or the cause of an
 * error. Return true for any other result, which the caller checks.
 */
static bool is_own_result(actor *a, weft_value result)
{
    if (a->is_interrupted) {
        REQUIRE(result == a->value);
        a->is_interrupted = a->has_value = false;
        return false;
    }
    if (!weft_is_error(result))
        return true;
    require_cause(a, result);
    return false;
}

/* As is_own_result, for I/O. The kernel may have completed it before the interrupt. */
static bool is_own_io_result(actor *a, weft_value result)
{
    if (a->is_interrupted && result != a->value)
        a->is_interrupted = a->has_value = false;
    return is_own_result(a, result);
}

/* For weft_suspend and weft_transfer: require a cause for the resume. */
static void require_resume(actor *a, weft_value result)
{
    if (weft_is_error(result) && !(a->has_value && result == a->value)) {
        require_cause(a, result);
        /* An error passed to weft_schedule may have replaced it. */
        note_interrupting_scope(a, true);
    } else {
        REQUIRE(a->has_value && result == a->value);
    }
    a->has_value = a->is_interrupted = false;
}

/*
 * Record a value for an actor that waits for weft_schedule. A non-error value does not replace an
 * error.
 */
static void record_value(actor *to, weft_value value)
{
    if (weft_is_error(value))
        allow_code((int)value, index_of(to));
    else if (!to->has_value || to->value != INTERRUPTED)
        to->value = value;
    if (!to->is_started)
        to->first_value = value;
    else
        to->has_value = true;
    to->is_interrupted = false;
}

/* True if value may be the value of an ended actor. */
static bool is_value_of(actor *a, weft_value value)
{
    if (a->is_stopped && !a->is_shutdown)
        return value == a->stop_value;
    if (a->is_shutdown) {
        if (a->is_returned && weft_is_error(a->returned))
            return value == a->returned || value == a->stop_value;
        return value == -ECANCELED || (a->is_stopped && value == a->stop_value);
    }
    if (!a->is_returned)
        return false;
    if (value == a->returned || (a->propagated != 0 && value == a->propagated))
        return true;
    if (!is_code(value) || weft_is_error(a->returned) || !take_code((int)value, index_of(a)))
        return false;
    a->propagated = (int)value;
    return true;
}

/*
 * Record that an await returned the value. The parent does not get the error any more, unless it
 * was already pending.
 */
static void record_await(actor *a, weft_value value)
{
    if (a->is_collected)
        return;
    a->is_collected = true;
    if (!is_code(value))
        return;
    bool is_on_its_way = actors[a->ended_under].waits_in != NOT_WAITING;
    uint8_t *left = &allowed[-(int)value - CODE_FIRST][a->ended_under];
    if (value != a->returned)
        *left += is_on_its_way; /* a propagated error: not counted in allowed yet */
    else
        *left -= *left > 0 && !is_on_its_way;
}

/*
 * True if the id of an ended actor may be invalid: its value was or will be returned, or it is
 * detached.
 */
static bool may_be_invalid(const actor *a)
{
    if (a->is_collected || a->is_unawaited || a->awaiters > 0)
        return true;
    return actors[a->is_returned ? a->ended_under : a->parent].is_returned;
}

/* Check the conditions that hold for any actor at any time. */
static void require_sane(const actor *a)
{
    if (is_dead(a))
        REQUIRE(a->is_returned || (!a->is_started && (a->is_stopped || a->is_shutdown)));
    for (int i = 1; i < actors_made && is_dead(a); i++) /* no child outlives its parent */
        REQUIRE(actors[i].parent != index_of(a) || is_dead(&actors[i]));
    /* On sim a cancellation ends every wait at once, also of I/O. */
    if (is_sim() && must_fail(a) && a->waits_in != NOT_WAITING && !a->is_parked)
        REQUIRE(weft_state_of(a->id) != WEFT_WAITING);
    /* With virtual time a deadline is not late by more than the coalescing of timers. */
    for (int i = 0; i < a->depth && is_sim(); i++)
        REQUIRE(weft_scope_is_cancelled(&a->scopes[i].scope) ||
                weft_now() < a->scopes[i].deadline_s + 1e-3);
}

#endif
