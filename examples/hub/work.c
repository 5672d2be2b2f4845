/*
 * A durable work queue. Each item is handled at least once. An item whose handler fails is
 * delivered again, and becomes a dead letter after three deliveries.
 * usage: work [URL]
 */
#include <weft.h>
#include <weft/hub.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ITEMS 4

typedef struct shop {
    weft_hub *hub;
    weft_latch left; /* items that are neither handled nor dead */
} shop;

static weft_value ship(weft_hub_msg *order, void *arg)
{
    shop *s = arg;
    if (strcmp(order->data, "bad address") == 0)
        return weft_fail(-EINVAL, "cannot ship %s", order->id);
    printf("shipped %s: %s\n", order->id, (const char *)order->data);
    weft_latch_done(&s->left);
    return 0;
}

static weft_value report(weft_hub_msg *order, void *arg)
{
    shop *s = arg;
    printf("dead letter: %s\n", (const char *)order->data);
    weft_latch_done(&s->left);
    return 0;
}

static weft_value ship_orders(void *arg)
{
    shop *s = arg;
    return weft_hub_work(s->hub, "orders", ship, s, 1);
}

static weft_value report_dead_letters(void *arg)
{
    shop *s = arg;
    return weft_hub_work(s->hub, "orders-dead", report, s, 1);
}

/* Put an order. The id makes the put repeatable: the second put returns 1. */
static int put_orders(weft_hub *hub)
{
    static const char *const orders[ITEMS] = {"a lamp", "a chair", "bad address", "a table"};
    int rc = 0;
    for (int i = 0; i < ITEMS && rc >= 0; i++) {
        char id[16];
        snprintf(id, sizeof id, "order-%d", i + 1);
        rc = weft_hub_put(hub, "orders", id, orders[i], strlen(orders[i]));
    }
    if (rc >= 0)
        rc = weft_hub_put(hub, "orders", "order-1", "a lamp", 6);
    printf("order-1 was put before: %s\n", rc == 1 ? "yes" : "no");
    return rc < 0 ? rc : 0;
}

int main(int argc, char **argv)
{
    shop s = {.hub = weft_hub_open(argc > 1 ? argv[1] : "mem:", NULL)};
    if (s.hub == NULL) {
        fprintf(stderr, "%s\n", weft_error()->message);
        return 1;
    }
    weft_latch_add(&s.left, ITEMS);
    weft_hub_queue_options options = {.deliveries_max = 3, .dead_letters = "orders-dead"};
    int rc = weft_hub_queue(s.hub, "orders", &options);
    if (rc == 0)
        rc = put_orders(s.hub);
    if (rc == 0) {
        weft_fiber shipper = weft_spin(ship_orders, &s);
        weft_fiber reporter = weft_spin(report_dead_letters, &s);
        rc = weft_latch_wait(&s.left);
        weft_terminate(shipper, 1.0);
        weft_terminate(reporter, 1.0);
    }
    weft_hub_close(s.hub);
    return rc < 0;
}
