/*
 * Durable work for the acceptance tests: fibers of the test put numbered items into a queue, and
 * worker processes count how often they handle each item.
 */
#ifndef TESTS_HUB_ACCEPT_DURABLE_SUPPORT_H
#define TESTS_HUB_ACCEPT_DURABLE_SUPPORT_H

#include "hub/accept/accept_support.h"
#include "hub/nats_server.h"

#define QUEUE "jobs"
#define QUEUE_STREAM "WEFT_Q_jobs"
#define ITEMS_MAX 100000
#define PUTTERS 256
#define HANDLERS_AT_ONCE 128

/*
 * The test waits this long for the last item. A consumer can be without a leader for far longer
 * than its stream.
 */
#define DRAIN_S_MAX 60
/* All puts together. A put waits up to 10 s for a new leader. */
#define PUT_S_MAX 120

/* Items whose worker was killed come again after 5 s. */
static const weft_hub_queue_options queue_options = {.ack_s = 5};

/* Shared by the test and its workers. */
typedef struct work_board {
    char where[256];
    _Atomic unsigned ready;                /* workers that have opened their hub */
    _Atomic unsigned distinct;             /* items that were handled at least once */
    _Atomic unsigned redelivered;          /* deliveries after the first one of an item */
    _Atomic unsigned char runs[ITEMS_MAX]; /* of the handler, for each item */
} work_board;

static inline work_board *new_work_board(const char *where)
{
    work_board *b = share_memory(sizeof *b);
    snprintf(b->where, sizeof b->where, "%s", where);
    return b;
}

static inline weft_value count_item(weft_hub_msg *item, void *arg)
{
    work_board *b = arg;
    unsigned number = (unsigned)atoi(item->data);
    MUST(number < ITEMS_MAX);
    if (atomic_fetch_add(&b->runs[number], 1) == 0)
        atomic_fetch_add(&b->distinct, 1);
    if (item->deliveries > 1)
        atomic_fetch_add(&b->redelivered, 1);
    return 0;
}

/* The main function of a worker process. */
static inline int work_on_items(void *arg)
{
    work_board *b = arg;
    weft_hub *hub = weft_hub_open(b->where, NULL);
    MUST(hub != NULL);
    MUST_EQ(weft_hub_queue(hub, QUEUE, &queue_options), 0);
    atomic_fetch_add(&b->ready, 1);
    MUST_EQ(weft_hub_work(hub, QUEUE, count_item, b, HANDLERS_AT_ONCE), 0); /* never returns */
    return 98;
}

#define WORKERS 2

/* Start the worker processes, and wait until they work. */
static inline void start_workers(work_board *b, pid_t workers[WORKERS])
{
    for (int i = 0; i < WORKERS; i++)
        workers[i] = start_process(work_on_items, b);
    ck_await(NATS_START_S_MAX, b->ready == WORKERS);
}

/* Fibers that put the items from begin to end - 1. */
typedef struct putting {
    weft_hub *hub;
    unsigned begin, next, end;
    unsigned acked, duplicates;
    double slowest_s;
    weft_fiber fibers[PUTTERS];
} putting;

static inline void put_item(putting *p, unsigned number)
{
    char id[32], data[16];
    double begin = weft_now();
    snprintf(id, sizeof id, "item-%u", number);
    int bytes = snprintf(data, sizeof data, "%u", number);
    int rc = weft_hub_put(p->hub, QUEUE, id, data, (size_t)bytes);
    ck_assert_done(rc);
    p->acked++;
    p->duplicates += rc == 1;
    p->slowest_s = fmax(p->slowest_s, weft_now() - begin);
}

static inline weft_value put_items(void *arg)
{
    putting *p = arg;
    while (p->next < p->end)
        put_item(p, p->next++);
    return 0;
}

/* Put items from now on in fibers of their own. */
static inline void start_putting(putting *p, weft_hub *hub, unsigned begin, unsigned end)
{
    *p = (putting){.hub = hub, .begin = begin, .next = begin, .end = end};
    for (int i = 0; i < PUTTERS; i++)
        p->fibers[i] = weft_spin(put_items, p);
}

static inline void finish_putting(putting *p)
{
    int rc = 0;
    WEFT_CANCEL_AFTER(PUT_S_MAX, rc) {
        ck_assert_int_eq(weft_await_all(p->fibers, PUTTERS, NULL), 0);
    }
    ck_assert_int_eq(rc, 0);
}

/* Wait until a share of the items is acknowledged. */
static inline void await_acked(const putting *p, double share)
{
    ck_await(PUT_S_MAX, p->acked >= share * (p->end - p->begin));
}

/* Open a hub, and create the queue. */
static inline weft_hub *open_queue(const char *where)
{
    weft_hub *hub = open_hub_at(where, NULL);
    ck_assert_done(weft_hub_queue(hub, QUEUE, &queue_options));
    return hub;
}

/* Count the items that were handled more than once. */
static inline unsigned count_handled_twice(const work_board *b, unsigned items)
{
    unsigned n = 0;
    for (unsigned i = 0; i < items; i++)
        n += b->runs[i] > 1;
    return n;
}

/* Wait until every item below items has been handled. */
static inline void await_all_handled(const work_board *b, unsigned items)
{
    ck_await(DRAIN_S_MAX, b->distinct >= items);
    ck_assert_uint_eq(b->distinct, items);
}

/* One row of the table of runs. */
static inline void print_run(const char *name, const putting *p, const work_board *b,
                             unsigned items)
{
    print_figures("| %s | %u | %u | %u | %u | %u | %.2f s |\n", name, p->acked, items - b->distinct,
                  count_handled_twice(b, items), b->redelivered, p->duplicates, p->slowest_s);
}

#endif
