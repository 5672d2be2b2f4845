/*
 * The peer of all contenders (hub.h): an echo service, a sender of many messages, and the durable
 * queue. Prints a line when it is ready, and serves until it is killed.
 */
#include "hub.h"

#include <weft.h>
#include <weft/hub.h>

static weft_hub *hub;

static weft_value serve_echo(void *arg)
{
    weft_value value;
    (void)arg;
    bench_require(weft_hub_expose(hub, ECHO_NAME, weft_self(), NULL) == 0);
    while (!weft_is_error(value = weft_receive())) {
        weft_hub_msg *msg = (weft_hub_msg *)value;
        bench_require(weft_hub_reply(msg, msg->data, msg->bytes) == 0);
        weft_hub_free(msg);
    }
    return value;
}

static void serve_flood(void)
{
    weft_value value;
    bench_require(weft_hub_expose(hub, FLOOD_START_NAME, weft_self(), NULL) == 0);
    puts("ready");
    fflush(stdout);
    while (!weft_is_error(value = weft_receive())) {
        weft_hub_msg *msg = (weft_hub_msg *)value;
        size_t n = strtoul(msg->data, NULL, 10);
        weft_hub_free(msg);
        for (size_t i = 0; i < n; i++)
            bench_require(weft_hub_tell(hub, FLOOD_NAME, payload, sizeof payload) == 0);
    }
}

int main(void)
{
    /* A short time to find duplicates: the server stores the ids of that time in memory. */
    const weft_hub_queue_options options = {.dedupe_s = 2};
    hub = weft_hub_open(hub_url(), NULL);
    bench_require(hub != NULL && weft_hub_queue(hub, QUEUE_NAME, &options) == 0);
    weft_go(serve_echo, NULL);
    serve_flood();
    return 1;
}
