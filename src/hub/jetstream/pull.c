/*
 * Pulls: requests of a worker for a number of items.
 *
 * Each pull has an inbox of its own. The server can forget a pull: at a change of the leader of the
 * consumer, or when the connection breaks. The server sends heartbeats to a pull that waits.
 * Without heartbeats, the worker ends the pull and requests the items again with a new inbox. The
 * server drops a pull without a subscriber, so that no item arrives for the old inbox.
 */
#include "hub/jetstream/worker.h"
#include "hub/text/header.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define PULL_EXPIRES_S 30
#define PULL_HEARTBEAT_S 2
#define PULL_SILENCE_S (2.5 * PULL_HEARTBEAT_S)

/* The waits after refused pulls double from the first to the longest. */
#define REFUSED_FIRST_S 0.05
#define REFUSED_LONGEST_S 2.0

typedef struct weft__pull {
    weft__list node; /* in weft__worker.pulls */
    weft__worker *worker;
    weft__subscription *subscription;
    unsigned remaining; /* items that have not arrived */
    double heard_s;     /* the time of the last message */
} weft__pull;

static void pull_end(weft__pull *p)
{
    weft__hub_unsubscribe(p->subscription);
    weft__list_remove(&p->node);
    p->worker->requested -= p->remaining;
    weft_event_set(&p->worker->wake);
    free(p);
}

/* The server has refused a pull. The queue may be deleted, or have no leader. */
static void pull_refused(weft__pull *p)
{
    weft__worker *w = p->worker;
    double longer_s = 2 * w->pull_delay_s;
    w->pull_delay_s = w->pull_delay_s == 0           ? REFUSED_FIRST_S
                      : longer_s > REFUSED_LONGEST_S ? REFUSED_LONGEST_S
                                                     : longer_s;
    w->pull_after_s = weft_now() + w->pull_delay_s;
    w->must_check = true;
    pull_end(p);
}

static void pull_on_status(weft__pull *p, int status)
{
    switch (status) {
    case 100: /* heartbeat */
        p->worker->pull_delay_s = 0;
        break;
    case 404: /* no messages */
    case 408: /* expired */
        p->worker->pull_delay_s = 0;
        pull_end(p);
        break;
    default: /* 409: deleted, another leader, too many pulls; 503: no leader */
        pull_refused(p);
    }
}

static void pull_on_delivery(void *ctx, const weft__delivery *d)
{
    weft__pull *p = ctx;
    weft__worker *w = p->worker;
    int status = weft__header_status(d->headers);
    p->heard_s = weft_now();
    if (status != 0 || d->reply.bytes == 0) {
        pull_on_status(p, status);
        return;
    }
    w->pull_delay_s = 0;
    w->requested--;
    weft__item_start(w, d);
    if (--p->remaining == 0)
        pull_end(p);
}

static int pull_publish(const weft__pull *p, const char *inbox)
{
    const int64_t second_ns = 1000000000;
    char subject[WEFT__JS_SUBJECT_BYTES], json[WEFT__JS_JSON_BYTES];
    snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.WEFT_Q_%s." WEFT__QUEUE_CONSUMER,
             p->worker->queue);
    snprintf(json, sizeof json,
             "{\"batch\":%u,\"expires\":%" PRId64 ",\"idle_heartbeat\":%" PRId64 "}", p->remaining,
             PULL_EXPIRES_S * second_ns, PULL_HEARTBEAT_S * second_ns);
    weft__publication publication = {.subject = weft__slice_of(subject),
                                     .reply = weft__slice_of(inbox),
                                     .payload = weft__slice_of(json)};
    return weft__hub_publish_now(p->worker->hub, &publication);
}

static int pull_new(weft__worker *w, unsigned batch)
{
    weft__pull *p = malloc(sizeof *p);
    if (p == NULL)
        return -ENOMEM;
    *p = (weft__pull){.worker = w, .remaining = batch, .heard_s = weft_now()};
    char inbox[WEFT__INBOX_BYTES];
    weft__hub_inbox(w->hub, inbox);
    p->subscription = weft__hub_subscribe(w->hub, inbox, NULL, pull_on_delivery, p);
    int rc = p->subscription == NULL ? weft_error()->code : pull_publish(p, inbox);
    if (rc < 0) {
        weft__hub_unsubscribe(p->subscription);
        free(p);
        return rc;
    }
    weft__list_insert(&w->pulls, &p->node);
    w->requested += batch;
    return 0;
}

/*
 * Small pulls are postponed while another pull waits. A worker then has at most three pulls, and
 * requests many items at a time if it handles many.
 */
int weft__pull_start(weft__worker *w)
{
    unsigned room = w->at_once - w->running - w->requested;
    bool is_waiting = !weft__list_is_empty(&w->pulls);
    if (room == 0 || (is_waiting && room < (w->at_once + 1) / 2))
        return 0;
    if (!weft__hub_is_connected(w->hub) || weft_now() < w->pull_after_s)
        return 0;
    return pull_new(w, room);
}

double weft__pulls_check(weft__worker *w, double now_s)
{
    double next_s = now_s + PULL_SILENCE_S;
    for (weft__list *node = w->pulls.next, *next; node != &w->pulls; node = next) {
        next = node->next;
        weft__pull *p = CONTAINER_OF(node, weft__pull, node);
        double end_s = p->heard_s + PULL_SILENCE_S;
        if (end_s <= now_s) {
            w->must_check = true;
            pull_end(p);
        } else if (end_s < next_s) {
            next_s = end_s;
        }
    }
    bool is_delayed = w->pull_after_s > now_s && w->pull_after_s < next_s;
    return is_delayed ? w->pull_after_s : next_s;
}

void weft__pulls_drain(weft__worker *w)
{
    WEFT__LIST_FOR(node, &w->pulls)
        weft__hub_drain(CONTAINER_OF(node, weft__pull, node)->subscription);
}

void weft__pulls_end(weft__worker *w)
{
    while (!weft__list_is_empty(&w->pulls))
        pull_end(CONTAINER_OF(w->pulls.next, weft__pull, node));
}
