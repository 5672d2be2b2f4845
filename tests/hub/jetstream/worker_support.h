/* Workers for tests: a fiber in weft_hub_work, which counts the items that it has handled. */
#ifndef TESTS_HUB_JETSTREAM_WORKER_SUPPORT_H
#define TESTS_HUB_JETSTREAM_WORKER_SUPPORT_H

#include "hub/hub_support.h"

/* The time in which a server without faults does what a test waits for. */
#define PATIENCE_S 15

#define ITEMS_MAX 1000

/* What all workers of a test have done. Items have the ids "0" to "999". */
static struct {
    int runs[ITEMS_MAX]; /* of the handler, by id */
    int handled;         /* items whose handler has returned a value */
    int running, running_max;
    weft_cond changed;
} done;

typedef struct worker {
    weft_hub *hub;
    const char *queue;
    weft_hub_fn *fn;
    unsigned at_once;
    weft_fiber fiber;
} worker;

static inline weft_value worker_run(void *arg)
{
    worker *w = arg;
    int rc = weft_hub_work(w->hub, w->queue, w->fn, w, w->at_once);
    return -rc; /* an error would be raised in the main fiber */
}

static inline void worker_start(worker *w)
{
    w->fiber = weft_spin(worker_run, w);
}

/* Cancel a worker, and assert that the cancellation has ended its call. */
static inline void worker_stop(const worker *w)
{
    weft_cancel(w->fiber);
    ck_assert_int_eq(weft_await(w->fiber), -ECANCELED); /* of the fiber: it was stopped */
}

static inline int item_index(const weft_hub_msg *item)
{
    int i = atoi(item->id);
    ck_assert(i >= 0 && i < ITEMS_MAX);
    return i;
}

static inline void note_run(const weft_hub_msg *item)
{
    done.runs[item_index(item)]++;
    weft_cond_broadcast(&done.changed);
}

static inline void note_handled(void)
{
    done.handled++;
    weft_cond_broadcast(&done.changed);
}

/* Handle an item at once. */
static inline weft_value handle_item(weft_hub_msg *item, void *arg)
{
    note_run(item);
    note_handled();
    return 0;
}

/* Wait until a condition of done holds. */
#define wait_until(condition)                                      \
    do {                                                           \
        int wait_rc = 0;                                           \
        WEFT_CANCEL_AFTER(PATIENCE_S, wait_rc) {                   \
            while (!(condition) && !weft_is_cancelled())           \
                weft_cond_wait(&done.changed, NULL);               \
        }                                                          \
        ck_assert_msg(condition, "%s is not reached", #condition); \
    } while (0)

/* Put items with the ids of a range. */
static inline void put_items(weft_hub *hub, const char *queue, int first, int count)
{
    for (int i = first; i < first + count; i++)
        ck_assert_int_eq(weft_hub_put(hub, queue, format("%d", i), format("item %d", i), 6), 0);
}

#endif
