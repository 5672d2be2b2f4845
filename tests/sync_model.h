/*
 * The model behind test_sync_random.c: who is inside which call, and what that call must return.
 *
 * Every actor says before a call where it may have to wait. Whoever then does something that serves
 * a waiter (unlocks, sends, posts) looks who is first in line there, and promises it the result:
 * from that moment on nothing else may come of its call, whichever of timeout, cancel, interrupt
 * and stop strikes it before it runs. A call to which nothing was promised may only fail, and for a
 * reason.
 */
#ifndef TESTS_SYNC_MODEL_H
#define TESTS_SYNC_MODEL_H

#include "support.h"

#include <sys/mman.h>

#define ACTORS 2000
#define DEPTH_MAX 3
#define CLAUSES_MAX 4
#define ITEMS_MAX 24

#define MARK (-EBADE)    /* what interrupts bring; no call fails with it by itself */
#define RAISED (-EPROTO) /* what is raised; weft itself never returns it */
#define FAILED (-ENOSPC) /* what making a resource fails with */
#define LIVED 4000       /* the value of an actor that was not stopped */
#define STOPPED 4001     /* of one that was, unless it was cancelled */

/* What a run tells the test, in memory that both share. */
typedef struct report {
    unsigned steps; /* calls that have returned */
    unsigned kept;  /* of these, those that had to wait and got what they were promised */
    unsigned cut;   /* of these, those that had to wait and were cut short */
    unsigned late;  /* of those kept, those that something had struck in between */
    unsigned idle;  /* times that nobody could run and everything was checked */
    char text[400]; /* what did not hold; empty: everything did */
} report;

typedef struct actor actor;

/* One who may have to wait in a place. */
typedef struct entry {
    struct entry *next, *before;
    struct place *place;
    actor *who;
    int how;          /* as the place wants it */
    weft_value value; /* what it brings */
} entry;

/* A line of an object: those inside a call there, in the order in which they came. */
typedef struct place {
    entry *first, *last;
    const char *waits_for; /* who waits for something else is not in this line; NULL: never so */
} place;

/* A row of values between two lines, as it must be. */
typedef struct mirror {
    weft_value items[ITEMS_MAX];
    size_t count;
    size_t limit;
    bool is_closed;
    place senders, receivers;
} mirror;

/* What will come of the call in which an actor is. */
typedef enum fate {
    OPEN, /* nothing is promised */
    KEPT, /* what is expected */
    CUT,  /* MARK: it was interrupted */
} fate;

struct actor {
    weft_fiber id;
    unsigned ops_left;
    bool runs;         /* its function does */
    bool is_making;    /* a resource: it waits, if at all, in no line */
    bool has_fd;       /* selects a descriptor too: it may wait for the kernel to let go of it */
    bool has_failed;   /* to make one, just now */
    bool is_mortal;    /* will end with what it holds */
    bool was_struck;   /* something struck it after the promise */
    bool is_at_once;   /* the promise is that the call does not switch */
    unsigned began_at; /* steps when its call began */
    unsigned raised;   /* errors that may still come */
    fate fate;
    weft_value expected;
    const entry *served; /* the place in which it was; NULL: none */
    entry entries[CLAUSES_MAX];
    unsigned entered;
    int depth; /* open scopes */
    weft_scope scopes[DEPTH_MAX];
    bool is_shield[DEPTH_MAX];
    weft_value held; /* a resource of the pool; 0: none */
    mirror mail;
};

static actor actors[ACTORS];
static uint64_t random_state;
static report *told;
static entry *scratch[ACTORS]; /* stacks are small; between two calls that may switch */

#define REQUIRE(condition)                                                                    \
    do {                                                                                      \
        if (!(condition)) {                                                                   \
            snprintf(told->text, sizeof told->text, "%s:%d, step %u: %s", __FILE__, __LINE__, \
                     told->steps, #condition);                                                \
            _exit(1);                                                                         \
        }                                                                                     \
    } while (0)

static unsigned roll(unsigned sides)
{
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % sides);
}

/* May an actor have ended with this? */
static bool is_value_of_life(weft_value value)
{
    return value == LIVED || value == STOPPED || value == -ECANCELED;
}

static actor *any_actor(void)
{
    return &actors[roll(ACTORS)];
}

/* What an actor waits for, in words; "" if it does not. */
static const char *reason(const actor *a)
{
    weft_info info;
    return weft_info_of(a->id, &info) == 0 ? info.waits_for : "";
}

static char select_reason[64]; /* what a wait in select is called */

/* What a wait is called that this function is in for good. */
static void learn_reason(char name[64], weft_fn *fn, void *arg)
{
    actor probe = {.id = weft_spin(fn, arg)};
    let_run();
    snprintf(name, 64, "%s", reason(&probe));
    REQUIRE(*name != '\0' && weft_terminate(probe.id, 1) == 0);
}

/* Is it in line, with nothing promised? One that has been served or cut short is runnable. */
static bool is_waiting(const entry *e)
{
    if (e->who->fate != OPEN || e->who->is_making || weft_state_of(e->who->id) != WEFT_WAITING)
        return false;
    if (e->who->has_fd && strcmp(reason(e->who), select_reason) != 0)
        return false;
    return e->place->waits_for == NULL || strcmp(e->place->waits_for, reason(e->who)) == 0;
}

/* The first so many of those in line. */
static size_t waiting_in(const place *p, entry **out, size_t n)
{
    size_t found = 0;
    for (entry *e = p->first; e != NULL && found < n; e = e->next)
        if (is_waiting(e))
            out[found++] = e;
    return found;
}

static entry *first_in(const place *p)
{
    entry *e;
    return waiting_in(p, &e, 1) == 1 ? e : NULL;
}

static size_t count_in_line(const place *p)
{
    size_t n = 0;
    for (const entry *e = p->first; e != NULL; e = e->next)
        n += is_waiting(e);
    return n;
}

/* Is it known of everyone inside a call there whether it was served? */
static bool is_clear(const place *p)
{
    for (const entry *e = p->first; e != NULL; e = e->next)
        if (e->who->fate == OPEN && weft_state_of(e->who->id) == WEFT_RUNNABLE)
            return false;
    return true;
}

/* The caller is about to make a call in which it may have to wait there. */
static entry *enter(actor *me, place *p, int how, weft_value value)
{
    REQUIRE(me->entered < CLAUSES_MAX);
    entry *e = &me->entries[me->entered++];
    *e = (entry){.before = p->last, .place = p, .who = me, .how = how, .value = value};
    *(p->last != NULL ? &p->last->next : &p->first) = e;
    p->last = e;
    me->fate = OPEN;
    me->served = NULL;
    me->is_at_once = me->was_struck = me->has_failed = me->has_fd = false;
    me->began_at = told->steps;
    return e;
}

static void leave(entry *e)
{
    *(e->before != NULL ? &e->before->next : &e->place->first) = e->next;
    *(e->next != NULL ? &e->next->before : &e->place->last) = e->before;
}

/* The call that the caller is about to make need not wait, and will return this. */
static void keep(actor *me, weft_value value)
{
    me->fate = KEPT;
    me->expected = value;
    me->is_at_once = true;
}

/* One who waits has been served, or will be before anyone else runs. */
static void pledge(entry *e, weft_value value)
{
    REQUIRE(e->who->fate == OPEN);
    e->who->fate = KEPT;
    e->who->expected = value;
    e->who->served = e;
}

/* One who waited has been served: it is out of the line. */
static void promise(entry *e, weft_value value)
{
    REQUIRE(!is_waiting(e));
    REQUIRE(e->who->has_fd || weft_state_of(e->who->id) == WEFT_RUNNABLE);
    pledge(e, value);
}

/* Is it in a shield? One that was over when it was struck may have been renewed since. */
static bool is_in_shield(const actor *me)
{
    for (int i = 0; i < me->depth; i++)
        if (me->is_shield[i])
            return true;
    return false;
}

/* A call may fail so. */
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
 * The call has returned this: it is what was promised, or a reason for which it was cut short. True
 * in the first case; also if it is loose, where nobody can tell who is served when, and no error.
 */
static bool judge(actor *me, weft_value rc, bool is_loose)
{
    while (me->entered > 0)
        leave(&me->entries[--me->entered]);
    bool is_at_once = me->is_at_once;
    if (is_at_once)
        REQUIRE(told->steps == me->began_at);
    told->steps++;
    fate was = me->fate;
    me->fate = OPEN;
    if (was == CUT)
        REQUIRE(rc == MARK);
    if (was == KEPT)
        REQUIRE(rc == me->expected);
    if (was == KEPT || (is_loose && was == OPEN && !weft_is_error(rc) && rc != MARK)) {
        told->kept += !is_at_once;
        told->late += !is_at_once && me->was_struck;
        return true;
    }
    told->cut++;
    REQUIRE(was == CUT || rc != MARK);
    if (was == OPEN && !me->has_failed)
        require_reason(me, rc);
    return false;
}

/* A call that is not modelled has returned. */
static void note(actor *me, weft_value rc)
{
    told->steps++;
    if (rc != 0 && rc != MARK)
        require_reason(me, rc);
}

static void pause_for_a_while(actor *me)
{
    if (roll(2) == 0)
        note(me, weft_snooze());
    else
        note(me, weft_sleep(roll(60) * 1e-6));
}

/* What an actor does while it holds something; see test_sync_random.c. */
static void act_while_holding(actor *me);

#endif
