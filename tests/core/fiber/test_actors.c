/*
 * Actors at full size: requesters, a router and 256 workers that know each other by their ids only
 * and share nothing but messages. A request is allocated by its requester and freed by the worker,
 * an answer the other way round.
 */
#include "support.h"

#define WORKERS 256
#define REQUESTERS 64
#define DISTURBERS 32

/* Only what fails is worth Check's attention: there are millions of these. */
#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            ck_abort_msg("does not hold, seed %u: %s", plan.seed, #condition); \
    } while (0)

/* What is played. */
static struct {
    unsigned requests; /* in all */
    unsigned window;   /* of a requester: sent and not answered */
    size_t bound;      /* of the mailboxes of workers and, with few at once, of all; 0: none */
    bool is_router_bounded;
    unsigned seed;
} plan;

typedef struct request {
    weft_fiber from;
    unsigned serial; /* of its requester */
    unsigned key;    /* says which worker */
} request;

typedef struct answer {
    weft_fiber by;
    unsigned serial, key;
} answer;

typedef struct worker {
    weft_fiber id;
    bool is_running;  /* its function runs: it will deal with what it is told */
    request *in_hand; /* NULL: it has nothing to do */
    unsigned runs;
} worker;

typedef struct requester {
    weft_fiber id;
    uint64_t random_state;
    unsigned sent, answered;
    unsigned *keys;            /* of each serial */
    bool *is_answered;         /* the same */
    unsigned next_of[WORKERS]; /* no serial below this comes from this worker any more */
} requester;

static worker workers[WORKERS];
static requester requesters[REQUESTERS];
static weft_fiber router;
static bool keeps_order; /* until requests are sent a second time */
static long structs;     /* allocated and not freed */
static unsigned retries;

static void *allocate(size_t bytes)
{
    void *memory = malloc(bytes);
    REQUIRE(memory != NULL);
    structs++;
    return memory;
}

static void release(void *memory)
{
    free(memory);
    structs--;
}

static unsigned roll(uint64_t *state, unsigned sides)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (unsigned)((z ^ z >> 31) % sides);
}

static weft_value as_message(void *memory)
{
    return (weft_value)memory;
}

/* Workers. */

static int reply(const request *r)
{
    answer *a = allocate(sizeof *a);
    *a = (answer){weft_self(), r->serial, r->key};
    int rc = weft_tell(r->from, as_message(a));
    if (rc < 0)
        release(a);
    return rc;
}

/* Whatever a worker has not done goes back to the router, which has no bound where this happens. */
static void hand_back(void *arg)
{
    worker *w = arg;
    w->is_running = false;
    request *r = w->in_hand;
    w->in_hand = NULL;
    for (;;) {
        if (r != NULL) {
            REQUIRE(weft_tell(router, as_message(r)) == 0);
            retries++;
        }
        weft_value next = weft_try_receive();
        if (next == -EAGAIN)
            return;
        r = (request *)next;
    }
}

static weft_value work(void *arg)
{
    worker *w = arg;
    uint64_t random_state = plan.seed + (uint64_t)(w - workers) + 1000 * w->runs++;
    w->is_running = true;
    weft_defer(hand_back, w);
    REQUIRE(weft_mailbox_bound(plan.bound) == 0);
    for (;;) {
        weft_value message = weft_receive();
        if (weft_is_error(message))
            return message;
        w->in_hand = (request *)message;
        REQUIRE(&workers[w->in_hand->key] == w);
        if (roll(&random_state, 4) == 0 && weft_snooze() < 0)
            return -ECANCELED;
        if (reply(w->in_hand) < 0)
            return -ECANCELED;
        release(w->in_hand);
        w->in_hand = NULL;
    }
}

/* The router: to the worker that the key names, later if that one has ended. */

static weft_value route(void *arg)
{
    (void)arg;
    REQUIRE(weft_mailbox_bound(plan.is_router_bounded ? plan.bound : 0) == 0);
    for (;;) {
        weft_value message = weft_receive();
        if (weft_is_error(message))
            return message;
        request *r = (request *)message;
        int rc = weft_tell(workers[r->key].id, message);
        if (rc == 0)
            continue;
        REQUIRE(rc == -ESRCH);
        REQUIRE(weft_tell(weft_self(), message) == 0);
        retries++;
        weft_snooze();
    }
}

/* Requesters. */

static void ask(requester *q)
{
    request *r = allocate(sizeof *r);
    *r = (request){weft_self(), q->sent, roll(&q->random_state, WORKERS)};
    q->keys[q->sent++] = r->key;
    REQUIRE(weft_tell(router, as_message(r)) == 0);
}

static void take_answer(requester *q)
{
    weft_value message = weft_receive();
    REQUIRE(!weft_is_error(message));
    answer *a = (answer *)message;
    REQUIRE(a->serial < q->sent);
    REQUIRE(a->key == q->keys[a->serial] && a->by == workers[a->key].id);
    REQUIRE(!q->is_answered[a->serial]);
    REQUIRE(!keeps_order || a->serial >= q->next_of[a->key]);
    q->is_answered[a->serial] = true;
    q->next_of[a->key] = a->serial + 1;
    q->answered++;
    release(a);
}

static weft_value request_and_check(void *arg)
{
    requester *q = arg;
    unsigned n = plan.requests / REQUESTERS;
    REQUIRE(weft_mailbox_bound(plan.bound) == 0);
    while (q->answered < n) {
        while (q->sent < n && q->sent - q->answered < plan.window)
            ask(q);
        take_answer(q);
    }
    return 1;
}

/* Those who end workers, and set them going again: while they work, or after their end. */
static weft_value disturb(void *arg)
{
    uint64_t random_state = plan.seed + (uintptr_t)arg * 1000;
    for (;;) {
        worker *w = &workers[roll(&random_state, WORKERS)];
        /* One that has not begun would take with it what it was told. */
        bool is_ended = w->is_running && roll(&random_state, 2) == 0;
        if (is_ended)
            REQUIRE(weft_cancel(w->id) == 0);
        for (unsigned i = roll(&random_state, 4); i > 0; i--)
            if (weft_snooze() < 0)
                return 0;
        if (!is_ended && !w->is_running)
            continue;
        int rc = weft_restart(w->id);
        if (rc == -ECANCELED)
            return 0;
        REQUIRE(rc == 0 || rc == -ESRCH); /* ended by another, who will restart it */
    }
}

/* The play. */

static void begin(void)
{
    unsigned n = plan.requests / REQUESTERS;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (worker){0};
        REQUIRE((workers[i].id = weft_spin(work, &workers[i])) != 0);
    }
    REQUIRE((router = weft_spin(route, NULL)) != 0);
    for (unsigned i = 0; i < REQUESTERS; i++) {
        requester *q = &requesters[i];
        *q = (requester){.random_state = plan.seed * UINT64_C(1000) + i};
        REQUIRE((q->keys = calloc(n, sizeof *q->keys)) != NULL);
        REQUIRE((q->is_answered = calloc(n, sizeof *q->is_answered)) != NULL);
        REQUIRE((q->id = weft_spin(request_and_check, q)) != 0);
    }
}

static void require_empty(void)
{
    REQUIRE(weft_mailbox_count(router) == 0);
    for (unsigned i = 0; i < WORKERS; i++)
        REQUIRE(weft_mailbox_count(workers[i].id) == 0);
    REQUIRE(weft_try_receive() == -EAGAIN);
    REQUIRE(structs == 0);
}

static void require_answers(void)
{
    for (unsigned i = 0; i < REQUESTERS; i++) {
        requester *q = &requesters[i];
        REQUIRE(weft_await(q->id) == 1);
        for (unsigned k = 0; k < plan.requests / REQUESTERS; k++)
            REQUIRE(q->is_answered[k]);
        free(q->keys);
        free(q->is_answered);
    }
}

static void begin_chaos(weft_fiber *chaos)
{
    for (uintptr_t i = 0; i < DISTURBERS; i++)
        REQUIRE((chaos[i] = weft_spin(disturb, (void *)i)) != 0);
}

/* Workers that are left dead are set going again, and all come to their mailboxes. */
static void end_chaos(const weft_fiber *chaos)
{
    for (unsigned i = 0; i < DISTURBERS; i++)
        REQUIRE(weft_terminate(chaos[i], 10) == 0);
    for (unsigned i = 0; i < WORKERS; i++)
        if (weft_state_of(workers[i].id) == WEFT_DEAD)
            REQUIRE(weft_restart(workers[i].id) == 0);
    let_run();
}

static void play(bool is_disturbed)
{
    weft_fiber chaos[DISTURBERS];
    begin();
    if (is_disturbed)
        begin_chaos(chaos);
    require_answers();
    if (is_disturbed)
        end_chaos(chaos);
    require_empty();
    REQUIRE(weft_terminate_children(10) == 0);
    weft_counters c;
    weft_stats(&c);
    ck_assert_uint_eq(c.fibers + c.fibers_unawaited, 0);
    ck_assert_uint_eq(c.ops_pending + c.timers + c.runnable, 0);
    ck_assert_uint_eq(c.stacks, c.stacks_cached);
}

static unsigned full_size(void)
{
    return is_sanitized() ? 8192 : 65536;
}

/* P59 */
START_TEST(every_request_is_answered_once_in_order_and_by_the_right_worker)
{
    plan.requests = plan.window = full_size();
    plan.seed = 59;
    keeps_order = true;
    play(false);
}
END_TEST

/* P59, P51: nobody has more answers to come than its mailbox holds, so nobody waits for ever. */
START_TEST(with_bounded_mailboxes_every_request_is_answered_once_and_in_order)
{
    plan.requests = full_size();
    plan.window = (unsigned)(plan.bound = 4);
    plan.is_router_bounded = true;
    plan.seed = 51;
    keeps_order = true;
    play(false);
}
END_TEST

static unsigned runs(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        n += workers[i].runs;
    return n;
}

/* Requests that are sent again overtake others, so there is no order to be kept. */
static void play_with_chaos(unsigned first_seed)
{
    for (plan.seed = first_seed; plan.seed < first_seed + 5; plan.seed++) {
        retries = 0;
        play(true);
        ck_assert_uint_gt(retries, plan.requests / 100);
        ck_assert_uint_gt(runs(), 2 * WORKERS);
    }
}

/* P59, P30, P31 */
START_TEST(while_workers_are_ended_and_restarted_every_request_is_answered_once)
{
    plan.requests = full_size();
    plan.window = (unsigned)(plan.bound = 4);
    play_with_chaos(30);
}
END_TEST

/* P59, P30, P31: thousands of requests are under way at any time. */
START_TEST(while_workers_with_long_mailboxes_are_restarted_every_request_is_answered_once)
{
    plan.requests = plan.window = full_size();
    play_with_chaos(40);
}
END_TEST

static const TTest *const *const tests[] = {
    &every_request_is_answered_once_in_order_and_by_the_right_worker,
    &with_bounded_mailboxes_every_request_is_answered_once_and_in_order,
    &while_workers_are_ended_and_restarted_every_request_is_answered_once,
    &while_workers_with_long_mailboxes_are_restarted_every_request_is_answered_once,
};

int main(void)
{
    return run_suite("actors", tests, COUNT_OF(tests));
}
