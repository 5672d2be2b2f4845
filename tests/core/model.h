/*
 * The model behind test_model.c: what is known of each fiber of a random program, told by the
 * program itself, and what may follow from it. It calls nothing that switches.
 *
 * Every value and every error code in a program is used once, so a result tells where it came from.
 */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

#include "support.h"

#include <sys/mman.h>

#define ACTORS_MAX 200
#define SCOPES_MAX 3
#define CODES_MAX 3000
#define CODE_FIRST 1000 /* codes are -1000 and below: no errno that weft itself returns */

/* What a run tells the test, in memory that both share. */
typedef struct report {
    uint64_t hash;
    unsigned steps;
    unsigned actors;
    char text[256]; /* what did not hold; empty: everything did */
} report;

/* In no blocking call; in one that weft_schedule ends; in another. */
typedef enum place { NOWHERE, OPEN, CLOSED } place;

/* One fiber. Index 0 is the main fiber. */
typedef struct actor {
    weft_fiber id; /* 0: not made yet */
    int parent;
    int ended_under; /* parent when it returned */
    bool is_started, is_returned, is_collected;
    bool is_unawaited; /* spun by weft_go */
    int awaiters;      /* actors inside weft_await of it */
    bool is_starting;  /* inside weft_start */
    bool is_parked;
    bool is_stopped, is_shutdown;
    weft_value stop_value, returned, first_value;
    int climbed;   /* error of a child that became its value; 0: none known */
    int last_code; /* the last error that came; 0: none */
    place waits;
    bool has_value, is_interrupted; /* a value is on its way to the call it waits in */
    weft_value value;
    int depth;
    struct {
        weft_scope scope;
        bool is_shield, is_by_hand;
        bool may_have_cut, has_cut; /* a call inside short */
        double deadline_s;
    } scopes[SCOPES_MAX];
} actor;

static actor actors[ACTORS_MAX];
static int actors_made;
static int codes_made;
static uint8_t allowed[CODES_MAX][ACTORS_MAX]; /* how often a code may be raised in an actor */
static weft_value values_made;
static unsigned steps_left;
static uint64_t random_state;
static report *told;

#define REQUIRE(condition)                                                                   \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            snprintf(told->text, sizeof told->text, "line %d, %u steps to go: %s", __LINE__, \
                     steps_left, #condition);                                                \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

static unsigned roll(unsigned sides)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % sides);
}

static void trace(uint64_t x)
{
    told->hash = (told->hash ^ x) * UINT64_C(0x100000001b3) + (told->hash >> 29);
}

static weft_value new_value(void)
{
    return 100000 + values_made++;
}

/* What interrupts bring; no call fails with it by itself. */
#define INTERRUPTED (-EBADE)

/* 0 when they are used up. */
static int new_code(void)
{
    return codes_made < CODES_MAX ? -(CODE_FIRST + codes_made++) : 0;
}

static bool is_code(weft_value value)
{
    return value <= -CODE_FIRST && value > -(CODE_FIRST + codes_made);
}

static void allow(int code, int whom)
{
    if (is_code(code) && whom >= 0)
        allowed[-code - CODE_FIRST][whom]++;
}

static int index_of(const actor *a)
{
    return (int)(a - actors);
}

static bool is_dead(const actor *a)
{
    return weft_state_of(a->id) == WEFT_DEAD;
}

static bool is_above(int a, int of)
{
    while (of >= 0 && of != a)
        of = actors[of].parent;
    return of == a;
}

/*
 * May this code be raised in the actor now? It was raised there, or climbs from a child that ended
 * before it could be told.
 */
static bool take_code(int code, int whom)
{
    uint8_t *left = &allowed[-code - CODE_FIRST][whom];
    if (*left > 0) {
        --*left;
        return true;
    }
    for (int i = 1; i < actors_made; i++) {
        actor *child = &actors[i];
        if (!child->is_returned || child->ended_under != whom || weft_is_error(child->returned) ||
            !take_code(code, i))
            continue;
        child->climbed = code;
        return true;
    }
    return false;
}

/* Must every blocking call of this actor fail? Cancellation is a level. */
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

/* A call was cut short: by one of the scopes, if any is cancelled; of several the first. */
static void note_cut(actor *a, bool may_be_a_value)
{
    int cancelled = 0, last = 0;
    for (int i = a->depth; i-- > 0;) {
        if (weft_scope_is_cancelled(&a->scopes[i].scope)) {
            a->scopes[i].may_have_cut = true;
            cancelled++;
            last = i;
        }
        if (a->scopes[i].is_shield)
            break;
    }
    if (cancelled == 1 && !may_be_a_value && !a->is_stopped && !a->is_shutdown)
        a->scopes[last].has_cut = true;
}

/* An error that a call returned has a cause. */
static void require_cause(actor *a, weft_value error)
{
    if (error == -ECANCELED) {
        REQUIRE(must_fail(a));
        note_cut(a, false);
        return;
    }
    REQUIRE(is_code(error));
    REQUIRE(take_code((int)error, index_of(a)));
    a->last_code = (int)error;
}

/* What holds after every blocking call; result is what it returned. */
static void require_sane_return(actor *a, weft_value result, bool had_to_fail)
{
    a->waits = NOWHERE;
    REQUIRE(!a->is_parked);
    REQUIRE(weft_self() == a->id);
    REQUIRE(!had_to_fail || weft_is_error(result));
}

/*
 * A call that weft_schedule cannot end returned what interrupted it, or an error with a cause; else
 * true: it is for the caller to judge.
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

/* The same for I/O, which the kernel may have finished before the interruption reached it. */
static bool is_own_io_result(actor *a, weft_value result)
{
    if (a->is_interrupted && result != a->value)
        a->is_interrupted = a->has_value = false;
    return is_own_result(a, result);
}

/* weft_suspend and weft_transfer: nobody is resumed without a cause. */
static void require_resume(actor *a, weft_value result)
{
    if (weft_is_error(result) && !(a->has_value && result == a->value)) {
        require_cause(a, result);
        note_cut(a, true); /* an error by hand may have displaced that */
    } else {
        REQUIRE(a->has_value && result == a->value);
    }
    a->has_value = a->is_interrupted = false;
}

/* A value is given to an actor that can be resumed by hand; plain ones do not displace errors. */
static void give(actor *to, weft_value value)
{
    if (weft_is_error(value))
        allow((int)value, index_of(to));
    else if (!to->has_value || to->value != INTERRUPTED)
        to->value = value;
    if (!to->is_started)
        to->first_value = value;
    else
        to->has_value = true;
    to->is_interrupted = false;
}

/* May this be the value of an actor that has ended? */
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
    if (value == a->returned || (a->climbed != 0 && value == a->climbed))
        return true;
    if (!is_code(value) || weft_is_error(a->returned) || !take_code((int)value, index_of(a)))
        return false;
    a->climbed = (int)value;
    return true;
}

/*
 * Someone was told the actor's value by an await: its parent will not be told any more, unless it
 * was on the way already.
 */
static void collect(actor *a, weft_value value)
{
    if (a->is_collected)
        return;
    a->is_collected = true;
    if (!is_code(value))
        return;
    bool is_on_its_way = actors[a->ended_under].waits != NOWHERE;
    uint8_t *left = &allowed[-(int)value - CODE_FIRST][a->ended_under];
    if (value != a->returned)
        *left += is_on_its_way; /* it climbed: nobody has allowed that yet */
    else
        *left -= *left > 0 && !is_on_its_way;
}

/* May the id of a dead actor be gone? Someone has its value, or soon will, or nobody was to. */
static bool is_gone(const actor *a)
{
    if (a->is_collected || a->is_unawaited || a->awaiters > 0)
        return true;
    return actors[a->is_returned ? a->ended_under : a->parent].is_returned;
}

/* What can be seen of any actor from outside at any time. */
static void require_sane(const actor *a)
{
    if (is_dead(a))
        REQUIRE(a->is_returned || (!a->is_started && (a->is_stopped || a->is_shutdown)));
    REQUIRE(!(a->is_started && !a->is_returned && is_dead(a)));
}

#endif
