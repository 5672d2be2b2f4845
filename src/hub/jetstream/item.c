/*
 * Items of a worker: run the handler, then acknowledge the item, give it back, or make it a dead
 * letter.
 *
 * An acknowledgement is a request that is repeated until the server confirms it. The server accepts
 * a repeated acknowledgement.
 */
#include "hub/jetstream/worker.h"
#include "hub/text/header.h"

#include <weft.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* The delay before a failed item is delivered again. It doubles with each delivery, up to ack_s. */
#define NAK_FIRST_S 0.1

/* A delivery is prolonged at this fraction of ack_s. */
#define PROLONG_PARTS 3

/* A cancelled worker waits so long for the confirmation of an acknowledgement. */
#define SETTLE_S 2.0

typedef struct weft__item {
    weft__list node; /* in weft__worker.held */
    weft__worker *worker;
    weft_hub_msg *msg;
    double prolong_s; /* the time of the next prolongation */
    size_t ack_bytes;
    char ack[]; /* the subject of acknowledgements */
} weft__item;

static weft__publication item_publication(const weft__item *item, const char *text)
{
    return (weft__publication){.subject = {item->ack, item->ack_bytes},
                               .payload = weft__slice_of(text)};
}

static void item_free(weft__item *item)
{
    weft__worker *w = item->worker;
    weft__list_remove(&item->node);
    weft_hub_free(item->msg);
    free(item);
    w->running--;
    weft_event_set(&w->wake);
}

/* Send an acknowledgement and wait for its confirmation. Returns 0, -EBADF, or a cancellation. */
static int item_confirm(const weft__item *item, const char *text)
{
    weft_hub *hub = item->worker->hub;
    weft__publication p = item_publication(item, text);
    weft__js_retry retry = {0};
    for (;;) {
        weft__reply reply;
        int rc = weft__hub_request(hub, &p, WEFT__JS_ATTEMPT_S, &reply);
        if (rc == 0) {
            weft__reply_free(&reply);
            return 0;
        }
        if (rc == -EBADF || weft_is_cancelled())
            return rc;
        item->worker->must_check = true; /* the queue may be deleted */
        weft_event_set(&item->worker->wake);
        rc = weft__js_retry_wait(&retry, hub);
        if (rc < 0)
            return rc;
    }
}

static double item_nak_delay_s(const weft__item *item)
{
    double delay_s = NAK_FIRST_S;
    double longest_s = item->worker->info.ack_s;
    for (unsigned i = 1; i < item->msg->deliveries && delay_s < longest_s; i++)
        delay_s *= 2;
    return delay_s < longest_s ? delay_s : longest_s;
}

/* Give an item back. No confirmation: after ack_s, the server delivers the item in any case. */
static int item_give_back(const weft__item *item)
{
    char text[64] = "-NAK";
    if (!item->worker->is_ending)
        snprintf(text, sizeof text, "-NAK {\"delay\": %" PRId64 "}",
                 (int64_t)(item_nak_delay_s(item) * 1e9));
    weft__publication p = item_publication(item, text);
    return weft__hub_publish_now(item->worker->hub, &p);
}

/* Put an item into the queue for dead letters, and remove it. A failure gives the item back. */
static int item_make_dead_letter(const weft__item *item)
{
    const weft__worker *w = item->worker;
    const weft_hub_msg *msg = item->msg;
    int rc = 0;
    if (w->info.dead_letters[0] != '\0') {
        char id[128];
        snprintf(id, sizeof id, "%s.%" PRIu64, w->queue, msg->number);
        rc =
            weft__queue_put(w->hub, w->info.dead_letters, id, (weft__slice){msg->data, msg->bytes});
    }
    if (rc == -ENOENT) /* the queue for dead letters is deleted */
        return item_give_back(item);
    if (rc >= 0)
        rc = item_confirm(item, "+TERM");
    if (rc == 0)
        weft__hub_counters(w->hub)->dead_letters++;
    return rc;
}

/* What happens to an item after its handler has returned. Returns 0 or an error. */
typedef int item_outcome(const weft__item *item);

static int item_acknowledge(const weft__item *item)
{
    return item_confirm(item, "+ACK");
}

static item_outcome *item_decide(const weft__item *item, weft_value value)
{
    unsigned deliveries_max = item->worker->info.deliveries_max;
    if (!weft_is_error(value))
        return item_acknowledge;
    bool is_last = deliveries_max != 0 && item->msg->deliveries >= deliveries_max;
    return is_last && !item->worker->is_ending ? item_make_dead_letter : item_give_back;
}

/* The function of the fiber of an item. */
static weft_value item_run(void *arg)
{
    weft__item *item = arg;
    weft__worker *w = item->worker;
    unsigned deliveries_max = w->info.deliveries_max;
    bool is_dead = deliveries_max != 0 && item->msg->deliveries > deliveries_max;
    item_outcome *outcome =
        is_dead ? item_make_dead_letter : item_decide(item, w->fn(item->msg, w->arg));
    int rc = outcome(item);
    if (rc < 0 && rc != -EBADF) {
        WEFT_SHIELD(SETTLE_S) {
            outcome(item);
        }
    }
    weft_error_clear(); /* errors of handlers are not errors of the worker */
    item_free(item);
    return 0;
}

/* The item's fiber was cancelled before it ran. */
static void item_drop(void *arg)
{
    item_give_back(arg);
    item_free(arg);
}

/* Return the token with an index of a subject, counted from its end. */
static uint64_t ack_number(weft__slice ack, unsigned index_from_end)
{
    size_t end = ack.bytes;
    for (; index_from_end > 0 && end > 0; end--)
        index_from_end -= ack.data[end - 1] == '.';
    size_t begin = end;
    while (begin > 0 && ack.data[begin - 1] != '.')
        begin--;
    uint64_t number = 0;
    for (; begin < end && ack.data[begin] >= '0' && ack.data[begin] <= '9'; begin++)
        number = 10 * number + (uint64_t)(ack.data[begin] - '0');
    return number;
}

static unsigned ack_tokens(weft__slice ack)
{
    unsigned n = 1;
    for (size_t i = 0; i < ack.bytes; i++)
        n += ack.data[i] == '.';
    return n;
}

/*
 * Read the deliveries and the number of an item from its acknowledgement subject:
 * "$JS.ACK.<stream>.<consumer>.<deliveries>.<number>.<consumer sequence>.<time>.<pending>", since
 * nats-server 2.11 with a domain and an account before the stream, and a token at the end.
 */
static void item_read_ack(weft_hub_msg *msg, weft__slice ack)
{
    unsigned after = ack_tokens(ack) > 11 ? 4 : 3; /* tokens after the number */
    msg->number = ack_number(ack, after);
    msg->deliveries = (unsigned)ack_number(ack, after + 1);
}

static weft__item *item_new(weft__worker *w, const weft__delivery *d)
{
    weft__item *item = malloc(sizeof *item + d->reply.bytes);
    if (item == NULL)
        return NULL;
    *item = (weft__item){.worker = w, .ack_bytes = d->reply.bytes};
    memcpy(item->ack, d->reply.data, d->reply.bytes);
    item->msg = weft__hub_msg_new(w->hub, weft__slice_of(w->queue), (weft__slice){0},
                                  weft__header_find(d->headers, "Nats-Msg-Id"), d->payload);
    if (item->msg == NULL) {
        free(item);
        return NULL;
    }
    item_read_ack(item->msg, d->reply);
    item->prolong_s = weft_now() + w->info.ack_s / PROLONG_PARTS;
    weft__list_insert(&w->held, &item->node);
    weft_event_set(&w->held_event);
    w->running++;
    return item;
}

void weft__item_start(weft__worker *w, const weft__delivery *d)
{
    weft__item *item = item_new(w, d);
    if (item == NULL) { /* without memory: the item comes again after ack_s */
        weft_event_set(&w->wake);
        return;
    }
    if (item->msg->deliveries > 1)
        weft__hub_counters(w->hub)->redelivered++;
    const weft_spin_options options = {.name = "hub item", .drop = item_drop};
    if (weft_group_spin_with(&w->items, item_run, item, &options) == 0)
        item_drop(item);
}

weft_value weft__items_prolong(void *arg)
{
    weft__worker *w = arg;
    int rc = 0;
    while (rc == 0) {
        if (weft__list_is_empty(&w->held)) {
            rc = weft_event_wait(&w->held_event);
            continue;
        }
        weft__item *item = CONTAINER_OF(w->held.next, weft__item, node);
        if (item->prolong_s > weft_now()) {
            rc = weft_sleep_until(item->prolong_s);
            continue;
        }
        weft__publication p = item_publication(item, "+WPI");
        if (weft__hub_is_connected(w->hub))
            weft__hub_publish_now(w->hub, &p);
        item->prolong_s += w->info.ack_s / PROLONG_PARTS;
        weft__list_remove(&item->node);
        weft__list_insert(&w->held, &item->node);
    }
    return 0;
}
