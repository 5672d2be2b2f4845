/*
 * Workers: the state of a call of weft_hub_work.
 *
 * The caller requests items with pulls (pull.c) and waits. The reader of the hub receives the items
 * and spins a fiber for each one (item.c). A daemon prolongs the deliveries while the fibers run.
 * Requested, and running items together are at most at_once: this bounds the memory.
 */
#ifndef WEFT_HUB_JETSTREAM_WORKER_H
#define WEFT_HUB_JETSTREAM_WORKER_H

#include "hub/jetstream/queue.h"

#include <weft/group.h>

typedef struct weft__worker {
    weft_hub *hub;
    const char *queue;
    weft_hub_fn *fn;
    void *arg;
    unsigned at_once;
    weft__queue_info info;

    weft_group items; /* the fibers of the items */
    weft_event wake;  /* wakes the caller: a pull has ended, an item has ended, or failure is set */
    int failure;      /* the error that ends the call; 0: none */
    bool is_ending;   /* no more pulls; failed items are given back at once */

    weft__list pulls;    /* weft__pull */
    unsigned requested;  /* items that pulls still wait for */
    unsigned running;    /* items whose fiber has not ended */
    double pull_after_s; /* no pull before this time */
    double pull_delay_s; /* after the next refused pull; 0: none was refused */
    bool must_check;     /* a pull has failed: the queue may be deleted */

    weft__list held;       /* weft__item, in the order of prolong_s */
    weft_event held_event; /* wakes the daemon: held is not empty any more */
    weft__hub_watcher watcher;
} weft__worker;

/* Start a pull if there is room for items. Returns 0 or an error. */
int weft__pull_start(weft__worker *w);

/* End the pulls that the server has forgotten. Return the time of the next check. */
double weft__pulls_check(weft__worker *w, double now_s);

/* Request no more items. Items in transit still arrive. */
void weft__pulls_drain(weft__worker *w);

/* End all pulls. Items in transit are delivered again after ack_s. */
void weft__pulls_end(weft__worker *w);

/* Spin a fiber for a delivered item. If that fails, give the item back. */
void weft__item_start(weft__worker *w, const weft__delivery *d);

/* The function of the daemon: prolong the deliveries of all items. arg is the weft__worker. */
weft_value weft__items_prolong(void *arg);

#endif
