/*
 * Acceptance test 1: one program runs unchanged on the broker "mem:", on the simulator, and on a
 * NATS server. On the simulator, a seed gives the same trace each time.
 */
#include "hub/hub_support.h"

#define ITEMS 500
#define WORKERS 2
#define SEEDS 3

/* A hash of all events with their times (FNV-1a). */
static uint64_t trace_hash = 0xcbf29ce484222325;

static __attribute__((format(printf, 1, 2))) void trace(const char *text, ...)
{
    char line[128];
    va_list args;
    va_start(args, text);
    vsnprintf(line, sizeof line, text, args);
    va_end(args);
    for (const char *c = line; *c != '\0'; c++)
        trace_hash = (trace_hash ^ (unsigned char)*c) * 0x100000001b3;
}

/* Open a hub with a name, as a process of its own would. */
static weft_hub *open_host(const char *name)
{
    return open_hub_at(hub_where(), &(weft_hub_options){.name = name});
}

/* A service of a hub, which replies with the name of its host. */
typedef struct service {
    weft_hub *hub;
    const char *host;
    int calls;
    weft_fiber fiber;
} service;

static weft_value reply_with_host(void *arg)
{
    service *s = arg;
    weft_value message;
    while (!weft_is_error(message = weft_receive())) {
        weft_hub_msg *call = (weft_hub_msg *)message;
        s->calls++;
        trace("call %s %s\n", s->host, (const char *)call->data);
        ck_assert_done(weft_hub_reply(call, s->host, strlen(s->host)));
        weft_hub_free(call);
    }
    return 0;
}

static service *open_service(service *s, const char *host, const char *name)
{
    *s = (service){.hub = open_host(host), .host = host};
    s->fiber = weft_spin(reply_with_host, s);
    ck_assert_done(weft_hub_expose(s->hub, name, s->fiber, NULL));
    /* The server handles this call after the subscription. */
    ck_assert_int_eq(weft_hub_call(s->hub, "nobody", "", 0, NULL), -EHOSTUNREACH);
    return s;
}

static void close_service(service *s)
{
    cancel_and_await(s->fiber);
    close_hub(s->hub);
}

TEST(calls_are_shared_by_the_hubs_that_expose_a_name)
{
    service a, b;
    open_service(&a, "a", "greeter");
    open_service(&b, "b", "greeter");
    weft_hub *hub = open_host("caller");
    for (int i = 0; i < 100; i++) {
        weft_hub_msg *reply;
        ck_assert_done(weft_hub_call(hub, "greeter", "hello", 5, &reply));
        ck_assert_uint_eq(reply->bytes, 1);
        weft_hub_free(reply);
    }
    ck_assert_int_eq(a.calls + b.calls, 100);
    ck_assert_int_gt(a.calls, 0);
    ck_assert_int_gt(b.calls, 0);
    close_service(&a);
    ck_assert_done(weft_hub_call(hub, "greeter", "hello", 5, NULL)); /* by b */
    close_service(&b);
    close_hub(hub);
}

/* Workers of a queue, and what they have handled. */
static struct {
    unsigned char runs[ITEMS];
    unsigned distinct, redelivered;
    weft_event is_holding; /* the first worker holds items */
    weft_event is_done;    /* all items are handled */
} work;

typedef struct worker {
    weft_hub *hub;
    const char *host;
    bool is_dying; /* keeps its items until its hub is closed */
    weft_fiber fiber;
} worker;

static weft_value handle_work_item(weft_hub_msg *item, void *arg)
{
    worker *w = arg;
    int number = atoi(item->data);
    trace("item %s %d %u %.9f\n", w->host, number, item->deliveries, weft_now());
    if (w->is_dying) {
        weft_event_set(&work.is_holding);
        return weft_sleep(INFINITY);
    }
    work.redelivered += item->deliveries > 1;
    if (work.runs[number]++ == 0 && ++work.distinct == ITEMS)
        weft_event_set(&work.is_done);
    return 0;
}

static weft_value run_worker(void *arg)
{
    worker *w = arg;
    int rc = weft_hub_work(w->hub, "jobs", handle_work_item, w, 8);
    ck_assert_msg(rc == (w->is_dying ? -EBADF : -ECANCELED), "work is %d", rc);
    return 0;
}

static void start_worker(worker *w, const char *host, bool is_dying)
{
    *w = (worker){.hub = open_host(host), .host = host, .is_dying = is_dying};
    w->fiber = weft_spin(run_worker, w);
}

static void put_work_items(weft_hub *hub)
{
    for (int i = 0; i < ITEMS; i++) {
        const char *number = format("%d", i);
        ck_assert_int_eq(weft_hub_put(hub, "jobs", number, number, strlen(number)), 0);
    }
    ck_assert_int_eq(weft_hub_put(hub, "jobs", "0", "0", 1), 1);
}

/* One worker dies with items. The other handles all items. */
static void play_work(void)
{
    worker dying, living;
    weft_hub *hub = open_host("putter");
    ck_assert_done(weft_hub_queue(hub, "jobs", &(weft_hub_queue_options){.ack_s = 1}));
    start_worker(&dying, "dying", true);
    put_work_items(hub);
    ck_assert_int_eq(weft_event_wait(&work.is_holding), 0);
    start_worker(&living, "living", false);
    close_hub(dying.hub);
    ck_assert_int_eq(weft_await(dying.fiber), 0);
    ck_assert_int_eq(weft_event_wait(&work.is_done), 0);
    cancel_and_await(living.fiber);
    close_hub(living.hub);
    close_hub(hub);
}

TEST(the_items_of_a_worker_that_dies_go_to_another_worker)
{
    play_work();
    ck_assert_uint_eq(work.distinct, ITEMS);
    ck_assert_uint_gt(work.redelivered, 0);
}

/* The handler of the queue of dead letters. */
static weft_value note_dead_letter(weft_hub_msg *item, void *arg)
{
    ck_assert_str_eq(item->data, "bad");
    weft_event_set(arg);
    return 0;
}

static weft_value fail_item(weft_hub_msg *item, void *arg)
{
    ++*(int *)arg;
    return -EIO;
}

typedef struct handling {
    weft_hub *hub;
    const char *queue;
    weft_hub_fn *fn;
    void *arg;
} handling;

static weft_value handle_queue(void *arg)
{
    handling *h = arg;
    return weft_hub_work(h->hub, h->queue, h->fn, h->arg, 1);
}

TEST(an_item_that_fails_too_often_becomes_a_dead_letter)
{
    weft_hub *hub = open_host("letters");
    weft_hub_queue_options options = {.ack_s = 1, .deliveries_max = 2, .dead_letters = "dead"};
    weft_event is_dead = {0};
    int failures = 0;
    ck_assert_done(weft_hub_queue(hub, "letters", &options));
    ck_assert_done(weft_hub_put(hub, "letters", NULL, "bad", 3));
    weft_fiber failing = weft_spin(handle_queue, &(handling){hub, "letters", fail_item, &failures});
    weft_fiber noting =
        weft_spin(handle_queue, &(handling){hub, "dead", note_dead_letter, &is_dead});
    ck_assert_int_eq(weft_event_wait(&is_dead), 0);
    ck_assert_int_eq(failures, 2);
    ck_assert_int_eq(cancel_and_await(failing), -ECANCELED);
    ck_assert_int_eq(cancel_and_await(noting), -ECANCELED);
    close_hub(hub);
}

/* Two writers of one key. */
static void play_keys(void)
{
    weft_hub *a = open_host("a"), *b = open_host("b");
    uint64_t mine = 0, theirs = 0;
    weft_hub_msg *value;
    ck_assert_int_eq(weft_hub_get(a, "counter", NULL, NULL), -ENOENT);
    ck_assert_done(weft_hub_set(a, "counter", "1", 1, &mine));
    ck_assert_int_eq(weft_hub_set(b, "counter", "1", 1, &theirs), -ESTALE);
    ck_assert_uint_eq(theirs, 0);
    ck_assert_done(weft_hub_get(b, "counter", &value, &theirs));
    ck_assert_str_eq(value->data, "1");
    ck_assert_uint_eq(theirs, mine);
    weft_hub_free(value);
    ck_assert_done(weft_hub_set(b, "counter", "2", 1, &theirs));
    ck_assert_int_eq(weft_hub_set(a, "counter", "2", 1, &mine), -ESTALE);
    ck_assert_done(weft_hub_delete(b, "counter", &theirs));
    ck_assert_int_eq(weft_hub_get(a, "counter", NULL, NULL), -ENOENT);
    trace("key %.9f\n", weft_now());
    close_hub(a);
    close_hub(b);
}

TEST(of_two_writers_of_a_key_one_fails)
{
    play_keys();
}

TEST(the_entries_of_a_key_of_a_log_are_read_in_order)
{
    weft_hub *hub = open_host("log");
    uint64_t last = 0, stale = 0, after = 0;
    ck_assert_done(weft_hub_log(hub, "history", &(weft_hub_log_options){.entries_max = 3}));
    for (int i = 0; i < 5; i++) {
        ck_assert_done(weft_hub_append(hub, "history", "room.a", format("%d", i), 1, &last));
        ck_assert_done(weft_hub_append(hub, "history", "room.b", "x", 1, NULL));
    }
    ck_assert_int_eq(weft_hub_append(hub, "history", "room.a", "y", 1, &stale), -ESTALE);
    weft_hub_msg *entry;
    for (int i = 2; i < 5; i++) { /* the last three */
        ck_assert_done(weft_hub_next(hub, "history", "room.a", after, &entry));
        ck_assert_str_eq(entry->data, format("%d", i));
        after = entry->number;
        weft_hub_free(entry);
    }
    ck_assert_uint_eq(after, last);
    ck_assert_int_eq(weft_hub_next(hub, "history", "room.a", after, &entry), -ENOENT);
    close_hub(hub);
}

#define GONE 1

/* The owner of a name goes, and another hub gets the name. */
static void play_names(void)
{
    weft_hub *a = open_host("a"), *b = open_host("b");
    weft_fiber owner = spin_sleeping();
    uint64_t first = 0, second = 0;
    ck_assert_int_eq(weft_hub_monitor(b, "ledger", GONE), -ESRCH);
    ck_assert_done(weft_hub_expose(a, "ledger", owner, &first));
    ck_assert_int_eq(weft_hub_expose(b, "ledger", weft_self(), &second), -EEXIST);
    ck_assert_done(weft_hub_monitor(b, "ledger", GONE));
    close_hub(a);
    ck_assert_int_eq(weft_receive(), GONE);
    ck_assert_done(weft_hub_expose(b, "ledger", weft_self(), &second));
    ck_assert_uint_gt(second, first);
    trace("name %.9f\n", weft_now());
    cancel_and_await(owner);
    close_hub(b);
}

TEST(the_next_owner_of_a_name_has_a_larger_token)
{
    play_names();
}

static weft_value run_report(weft_hub_msg *job, void *arg)
{
    ck_assert_str_eq(job->data, "job");
    ck_assert_uint_gt(job->number, *(uint64_t *)arg);
    *(uint64_t *)arg = job->number;
    return 42;
}

static weft_value offer_children(void *arg)
{
    uint64_t token = 0;
    ck_assert_int_eq(weft_hub_offer(arg, "report", run_report, &token, 4), -ECANCELED);
    return 0;
}

TEST(a_child_runs_in_a_hub_that_offers_its_kind)
{
    weft_hub *hub = open_host("parent"), *host = open_host("host");
    weft_hub_child child = {hub, "report", "job", 3};
    ck_assert_int_eq(weft_hub_run(&child), -EHOSTUNREACH);
    weft_fiber offering = weft_spin(offer_children, host);
    weft_value value;
    while ((value = weft_hub_run(&child)) == -EHOSTUNREACH) /* not offered yet */
        weft_sleep(0.001);
    ck_assert_int_eq(value, 42);
    ck_assert_int_eq(weft_hub_run(&child), 42);
    cancel_and_await(offering);
    close_hub(host);
    close_hub(hub);
}

/* A whole run as a program. Print its trace. */
static int print_trace(void)
{
    service s;
    play_work();
    play_keys();
    play_names();
    open_service(&s, "host", "greeter");
    for (int i = 0; i < 10; i++)
        ck_assert_done(weft_hub_call(s.hub, "greeter", format("%d", i), 1, NULL));
    close_service(&s);
    fprintf(stderr, "%016lx %u %u %.9f\n", (unsigned long)trace_hash, work.distinct,
            work.redelivered, weft_now());
    return 0;
}

/* Other backends depend on the clock. */
TEST_LOOP(on_the_simulator_a_seed_gives_the_same_trace, SEEDS)
{
    if (!runs_on("sim"))
        return;
    char first[64];
    ck_assert_int_eq(setenv("WEFT_SEED", format("%d", _i + 1), 1), 0);
    const outcome *o = run_apart(print_trace);
    ck_assert_msg(o->status == 0, "status %d: %s", o->status, o->text);
    snprintf(first, sizeof first, "%.63s", o->text);
    for (int i = 0; i < 2; i++)
        assert_exited(run_apart(print_trace), 0, first);
}
