/*
 * Test of actors with many messages: requesters, a router and 256 workers. They know only each
 * other's ids, and share nothing except messages. A requester allocates a request, and the worker
 * frees it. A worker allocates the response, and the requester frees it.
 */
#include "support/random.h"
#include "support/support.h"

#define WORKERS 256
#define REQUESTERS 64
#define DISTURBERS 32

/* Report only failures to Check, because there are millions of checks. */
#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition))                                                      \
            ck_abort_msg("seed %u: does not hold: %s", plan.seed, #condition); \
    } while (0)

/* The parameters of a run. */
static struct {
    unsigned requests; /* in total */
    unsigned window;   /* of one requester: requests without a response */
    size_t bound;      /* of the mailboxes of workers and requesters; 0: none */
    bool is_router_bounded;
    unsigned seed;
} plan;

typedef struct request {
    weft_fiber from;
    unsigned serial; /* counted by its requester */
    unsigned key;    /* selects the worker */
} request;

typedef struct response {
    weft_fiber by;
    unsigned serial, key;
} response;

typedef struct worker {
    weft_fiber id;
    bool is_running;  /* its function runs, so it will handle messages */
    request *current; /* NULL: none */
    unsigned runs;
} worker;

typedef struct requester {
    weft_fiber id;
    uint64_t state;
    unsigned sent, answered;
    unsigned *keys;            /* of each serial */
    bool *is_answered;         /* of each serial */
    unsigned next_of[WORKERS]; /* lowest serial that this worker may still answer */
} requester;

static worker workers[WORKERS];
static requester requesters[REQUESTERS];
static weft_fiber router;
static bool is_ordered; /* until a request is sent a second time */
static long structs;    /* allocated and not freed */
static unsigned retries;

static void *allocate_counted(size_t bytes)
{
    void *memory = malloc(bytes);
    REQUIRE(memory != NULL);
    structs++;
    return memory;
}

static void free_counted(void *memory)
{
    free(memory);
    structs--;
}

static weft_value as_message(void *memory)
{
    return (weft_value)memory;
}

/* Workers. */

static int send_response(const request *r)
{
    response *a = allocate_counted(sizeof *a);
    *a = (response){weft_self(), r->serial, r->key};
    int rc = weft_tell(r->from, as_message(a));
    if (rc < 0)
        free_counted(a);
    return rc;
}

/* Return all unfinished requests to the router, which has no bound in tests where workers end. */
static void return_requests(void *arg)
{
    worker *w = arg;
    w->is_running = false;
    request *r = w->current;
    w->current = NULL;
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

static weft_value run_worker(void *arg)
{
    worker *w = arg;
    uint64_t state = plan.seed + (uint64_t)(w - workers) + 1000 * w->runs++;
    w->is_running = true;
    weft_defer(return_requests, w);
    REQUIRE(weft_mailbox_set_bound(plan.bound) == 0);
    for (;;) {
        weft_value message = weft_receive();
        if (weft_is_error(message))
            return message;
        w->current = (request *)message;
        REQUIRE(&workers[w->current->key] == w);
        if (random_from(&state, 4) == 0 && weft_snooze() < 0)
            return -ECANCELED;
        if (send_response(w->current) < 0)
            return -ECANCELED;
        free_counted(w->current);
        w->current = NULL;
    }
}

/*
 * The router: forward to the worker that the key selects, or retry later if that worker has ended.
 */

static weft_value run_router(void *arg)
{
    (void)arg;
    REQUIRE(weft_mailbox_set_bound(plan.is_router_bounded ? plan.bound : 0) == 0);
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

static void send_request(requester *q)
{
    request *r = allocate_counted(sizeof *r);
    *r = (request){weft_self(), q->sent, random_from(&q->state, WORKERS)};
    q->keys[q->sent++] = r->key;
    REQUIRE(weft_tell(router, as_message(r)) == 0);
}

static void take_response(requester *q)
{
    weft_value message = weft_receive();
    REQUIRE(!weft_is_error(message));
    response *a = (response *)message;
    REQUIRE(a->serial < q->sent);
    REQUIRE(a->key == q->keys[a->serial] && a->by == workers[a->key].id);
    REQUIRE(!q->is_answered[a->serial]);
    REQUIRE(!is_ordered || a->serial >= q->next_of[a->key]);
    q->is_answered[a->serial] = true;
    q->next_of[a->key] = a->serial + 1;
    q->answered++;
    free_counted(a);
}

static weft_value request_and_check(void *arg)
{
    requester *q = arg;
    unsigned n = plan.requests / REQUESTERS;
    REQUIRE(weft_mailbox_set_bound(plan.bound) == 0);
    while (q->answered < n) {
        while (q->sent < n && q->sent - q->answered < plan.window)
            send_request(q);
        take_response(q);
    }
    return 1;
}

/* Disturbers end workers and restart them, while they work or after their end. */
static weft_value disturb(void *arg)
{
    uint64_t state = plan.seed + (uintptr_t)arg * 1000;
    for (;;) {
        worker *w = &workers[random_from(&state, WORKERS)];
        /* A worker that has not started would lose the messages in its mailbox. */
        bool is_ended = w->is_running && random_from(&state, 2) == 0;
        if (is_ended)
            REQUIRE(weft_cancel(w->id) == 0);
        for (unsigned i = random_from(&state, 4); i > 0; i--)
            if (weft_snooze() < 0)
                return 0;
        if (!is_ended && !w->is_running)
            continue;
        int rc = weft_restart(w->id);
        if (rc == -ECANCELED)
            return 0;
        REQUIRE(rc == 0 || rc == -ESRCH); /* ended by another disturber, which will restart it */
    }
}

/* A run. */

static void start_actors(void)
{
    unsigned n = plan.requests / REQUESTERS;
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (worker){0};
        REQUIRE((workers[i].id = weft_spin(run_worker, &workers[i])) != 0);
    }
    REQUIRE((router = weft_spin(run_router, NULL)) != 0);
    for (unsigned i = 0; i < REQUESTERS; i++) {
        requester *q = &requesters[i];
        *q = (requester){.state = plan.seed * UINT64_C(1000) + i};
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

static void require_responses(void)
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

static void start_disturbers(weft_fiber *disturbers)
{
    for (uintptr_t i = 0; i < DISTURBERS; i++)
        REQUIRE((disturbers[i] = weft_spin(disturb, (void *)i)) != 0);
}

/* Restart workers that have ended, and let all workers reach their mailboxes. */
static void stop_disturbers(const weft_fiber *disturbers)
{
    for (unsigned i = 0; i < DISTURBERS; i++)
        REQUIRE(weft_terminate(disturbers[i], 10) == 0);
    for (unsigned i = 0; i < WORKERS; i++)
        if (weft_state_of(workers[i].id) == WEFT_DEAD)
            REQUIRE(weft_restart(workers[i].id) == 0);
    let_run();
}

static void run_actors(bool is_disturbed)
{
    weft_fiber disturbers[DISTURBERS];
    start_actors();
    if (is_disturbed)
        start_disturbers(disturbers);
    require_responses();
    if (is_disturbed)
        stop_disturbers(disturbers);
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
    is_ordered = true;
    run_actors(false);
}
END_TEST

/* P59, P51: the window is at most the bound, so no worker waits forever for a requester. */
START_TEST(with_bounded_mailboxes_every_request_is_answered_once_and_in_order)
{
    plan.requests = full_size();
    plan.window = (unsigned)(plan.bound = 4);
    plan.is_router_bounded = true;
    plan.seed = 51;
    is_ordered = true;
    run_actors(false);
}
END_TEST

static unsigned runs(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < WORKERS; i++)
        n += workers[i].runs;
    return n;
}

/* Requests that are sent again overtake others, so their order is undefined. */
static void run_with_disturbers(unsigned first_seed)
{
    for (plan.seed = first_seed; plan.seed < first_seed + 5; plan.seed++) {
        retries = 0;
        run_actors(true);
        ck_assert_uint_gt(retries, plan.requests / 100);
        ck_assert_uint_gt(runs(), 2 * WORKERS);
    }
}

/* P59, P30, P31 */
START_TEST(while_workers_are_ended_and_restarted_every_request_is_answered_once)
{
    plan.requests = full_size();
    plan.window = (unsigned)(plan.bound = 4);
    run_with_disturbers(30);
}
END_TEST

/* P59, P30, P31: thousands of requests are in flight at any time. */
START_TEST(while_workers_with_long_mailboxes_are_restarted_every_request_is_answered_once)
{
    plan.requests = plan.window = full_size();
    run_with_disturbers(40);
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
