/*
 * The model behind test_sync_random.c: which actor is inside which call, and what the call must
 * return.
 *
 * Before a call, an actor enters the wait queues in which the call may wait. An actor that wakes
 * waiters (unlocks, sends, posts) finds the first waiter in the model and records the expected
 * result. From then on the call of the waiter must return this result. A timeout, cancel, interrupt
 * or stop before the waiter runs must not change it. A call without an expected result may only
 * fail, and only for a valid reason.
 */
#ifndef TESTS_SYNC_SYNC_MODEL_H
#define TESTS_SYNC_SYNC_MODEL_H

#include "support/property_suite.h"

#define ACTORS 2000
#define DEPTH_MAX 3
#define CLAUSES_MAX 4
#define ITEMS_MAX 24

#define MARK (-EBADE)    /* the value of interrupts; no call fails with it otherwise */
#define RAISED (-EPROTO) /* the code of raised errors; weft never returns it */
#define FAILED (-ENOSPC) /* the error of a failed resource creation */
#define LIVED 4000       /* the value of an actor that was not stopped */
#define STOPPED 4001     /* the value of a stopped actor, unless it was cancelled */

/* Events: calls that waited and returned the expected result; of these, calls that were disturbed
 * before the waiter ran; calls that waited and failed; full checks when no actor was runnable. */
enum { COMPLETED, COMPLETED_LATE, CALL_FAILED, IDLE_CHECK };

/* An actor in a wait queue. */
typedef struct entry {
    struct entry *next, *before;
    struct waitq_model *waitq;
    actor *actor;
    int mode;         /* READ or WRITE for locks, FRONT or BACK for FIFOs */
    weft_value value; /* the value to send */
} entry;

/* A wait queue of an object: the actors inside a call, in the order of their calls. */
typedef struct waitq_model {
    entry *first, *last;
    const char *waits_for; /* wait reason of actors in this queue; NULL: any */
} waitq_model;

/* The expected contents of a FIFO, with its two wait queues. */
typedef struct mirror {
    weft_value items[ITEMS_MAX];
    size_t count;
    size_t limit;
    bool is_closed;
    waitq_model senders, receivers;
} mirror;

/* The expected result of the current call of an actor. */
typedef enum expectation {
    UNDECIDED,    /* not decided */
    EXPECT_VALUE, /* the value in expected */
    EXPECT_MARK,  /* MARK: the call was interrupted */
} expectation;

struct actor {
    weft_fiber id;
    unsigned ops_left;
    bool is_running;
    bool is_creating;     /* creates a resource, and is in no wait queue */
    bool has_fd;          /* selects a descriptor too, and may wait until the kernel releases it */
    bool creation_failed; /* the last creation of a resource failed */
    bool ends_holding;    /* will end while it holds something */
    bool was_disturbed;   /* was disturbed after its result was decided */
    bool must_not_switch; /* the call must return without a switch */
    unsigned began_at;    /* value of steps when the call began */
    unsigned raised;      /* raised errors not yet returned by a call */
    expectation expectation;
    weft_value expected;
    const entry *woken_entry; /* the wait queue entry that was woken; NULL: none */
    entry entries[CLAUSES_MAX];
    unsigned entered;
    int depth; /* number of open scopes */
    weft_scope scopes[DEPTH_MAX];
    bool is_shield[DEPTH_MAX];
    weft_value held; /* a resource of the pool; 0: none */
    mirror mail;
};

static actor actors[ACTORS];
static entry *scratch[ACTORS]; /* not on the small stacks; valid until the next switchpoint */

/* True if an actor may return this value. */
static bool is_actor_value(weft_value value)
{
    return value == LIVED || value == STOPPED || value == -ECANCELED;
}

static actor *random_actor(void)
{
    return &actors[random_below(ACTORS)];
}

/* Return the wait reason of an actor, "" if it does not wait. */
static const char *wait_reason(const actor *a)
{
    weft_info info;
    return weft_info_of(a->id, &info) == 0 ? info.waits_for : "";
}

static char select_reason[64]; /* wait reason of weft_select */

/* Store the wait reason of fn, which must wait indefinitely. */
static void record_wait_reason(char name[64], weft_fn *fn, void *arg)
{
    actor probe = {.id = weft_spin(fn, arg)};
    let_run();
    snprintf(name, 64, "%s", wait_reason(&probe));
    REQUIRE(*name != '\0' && weft_terminate(probe.id, 1) == 0);
}

/*
 * True if the entry waits and its result is not decided. Woken and interrupted waiters are
 * runnable.
 */
static bool is_waiting(const entry *e)
{
    if (e->actor->expectation != UNDECIDED || e->actor->is_creating ||
        weft_state_of(e->actor->id) != WEFT_WAITING)
        return false;
    if (e->actor->has_fd && strcmp(wait_reason(e->actor), select_reason) != 0)
        return false;
    return e->waitq->waits_for == NULL || strcmp(e->waitq->waits_for, wait_reason(e->actor)) == 0;
}

/* Store up to n waiting entries in out. Return their number. */
static size_t list_waiting(const waitq_model *p, entry **out, size_t n)
{
    size_t found = 0;
    for (entry *e = p->first; e != NULL && found < n; e = e->next)
        if (is_waiting(e))
            out[found++] = e;
    return found;
}

static entry *first_waiting(const waitq_model *p)
{
    entry *e;
    return list_waiting(p, &e, 1) == 1 ? e : NULL;
}

static size_t count_waiting(const waitq_model *p)
{
    size_t n = 0;
    for (const entry *e = p->first; e != NULL; e = e->next)
        n += is_waiting(e);
    return n;
}

/* True if the model knows which of the actors in the queue have been woken. */
static bool is_waitq_known(const waitq_model *p)
{
    for (const entry *e = p->first; e != NULL; e = e->next)
        if (e->actor->expectation == UNDECIDED && weft_state_of(e->actor->id) == WEFT_RUNNABLE)
            return false;
    return true;
}

/* Enter a wait queue, before a call that may wait there. */
static entry *enter_waitq(actor *me, waitq_model *p, int mode, weft_value value)
{
    REQUIRE(me->entered < CLAUSES_MAX);
    entry *e = &me->entries[me->entered++];
    *e = (entry){.before = p->last, .waitq = p, .actor = me, .mode = mode, .value = value};
    *(p->last != NULL ? &p->last->next : &p->first) = e;
    p->last = e;
    me->expectation = UNDECIDED;
    me->woken_entry = NULL;
    me->must_not_switch = me->was_disturbed = me->creation_failed = me->has_fd = false;
    me->began_at = run_report->steps;
    return e;
}

static void leave_waitq(entry *e)
{
    *(e->before != NULL ? &e->before->next : &e->waitq->first) = e->next;
    *(e->next != NULL ? &e->next->before : &e->waitq->last) = e->before;
}

/* Expect that the next call of the actor returns value without waiting. */
static void expect_at_once(actor *me, weft_value value)
{
    me->expectation = EXPECT_VALUE;
    me->expected = value;
    me->must_not_switch = true;
}

/* Expect that the call of a waiter returns value. The waiter wakes before another actor runs. */
static void expect_value(entry *e, weft_value value)
{
    REQUIRE(e->actor->expectation == UNDECIDED);
    e->actor->expectation = EXPECT_VALUE;
    e->actor->expected = value;
    e->actor->woken_entry = e;
}

/* Expect value from a waiter that has just been woken. */
static void expect_woken(entry *e, weft_value value)
{
    REQUIRE(!is_waiting(e));
    REQUIRE(e->actor->has_fd || weft_state_of(e->actor->id) == WEFT_RUNNABLE);
    expect_value(e, value);
}

/* True in a shield. An expired shield may have been renewed after it failed the call. */
static bool is_in_shield(const actor *me)
{
    for (int i = 0; i < me->depth; i++)
        if (me->is_shield[i])
            return true;
    return false;
}

/* Require a valid reason for a failed call. */
static void require_reason(actor *me, weft_value rc)
{
    if (rc == RAISED) {
        REQUIRE(me->raised > 0);
        me->raised--;
        return;
    }
    REQUIRE(rc == -ECANCELED);
    REQUIRE(weft_is_cancelled() || is_in_shield(me));
}

/*
 * Check the result of a call. Return true if it is the expected result, false if the call failed
 * for a valid reason. If is_order_unknown, the model cannot predict which waiter is woken, and any
 * result that is not an error is valid.
 */
static bool check_result(actor *me, weft_value rc, bool is_order_unknown)
{
    while (me->entered > 0)
        leave_waitq(&me->entries[--me->entered]);
    bool must_not_switch = me->must_not_switch;
    if (must_not_switch)
        REQUIRE(run_report->steps == me->began_at);
    run_report->steps++;
    expectation was = me->expectation;
    me->expectation = UNDECIDED;
    if (was == EXPECT_MARK)
        REQUIRE(rc == MARK);
    if (was == EXPECT_VALUE)
        REQUIRE(rc == me->expected);
    if (was == EXPECT_VALUE ||
        (is_order_unknown && was == UNDECIDED && !weft_is_error(rc) && rc != MARK)) {
        if (!must_not_switch)
            count_event(COMPLETED);
        if (!must_not_switch && me->was_disturbed)
            count_event(COMPLETED_LATE);
        return true;
    }
    count_event(CALL_FAILED);
    REQUIRE(was == EXPECT_MARK || rc != MARK);
    if (was == UNDECIDED && !me->creation_failed)
        require_reason(me, rc);
    return false;
}

/* Check the result of a call that is not modelled. */
static void check_other_call(actor *me, weft_value rc)
{
    run_report->steps++;
    if (rc != 0 && rc != MARK)
        require_reason(me, rc);
}

static void pause_randomly(actor *me)
{
    if (random_below(2) == 0)
        check_other_call(me, weft_snooze());
    else
        check_other_call(me, weft_sleep(random_below(60) * 1e-6));
}

/* Run random calls of an actor that holds something. Defined in test_sync_random.c. */
static void run_ops_while_holding(actor *me);

#endif
