/* libweft-hub: all fibers of one thread use one hub. A contender of tools/bench-hub (hub.h). */
#include "hub.h"

#include <weft.h>
#include <weft/hub.h>

static weft_hub *hub;
static size_t left; /* messages that no fiber has begun */

static void call_echo(void)
{
    weft_hub_msg *reply;
    bench_require(weft_hub_call(hub, ECHO_NAME, payload, sizeof payload, &reply) == 0);
    weft_hub_free(reply);
}

static void put_item(void)
{
    bench_require(weft_hub_put(hub, QUEUE_NAME, NULL, payload, sizeof payload) == 0);
}

static weft_value repeat(void *arg)
{
    void (*run)(void) = *(void (**)(void))arg;
    while (left > 0) {
        left--;
        run();
    }
    return 0;
}

/* Run a function n times, in count fibers. */
static void run_at_once(void (*run)(void), size_t count, size_t n)
{
    int rc = 0;
    left = n;
    WEFT_GROUP(g, rc) {
        for (size_t i = 0; i < count; i++)
            weft_group_spin(&g, repeat, &run);
    }
    bench_require(rc == 0);
}

static void request_pass(size_t count, size_t n)
{
    run_at_once(call_echo, count, n);
}

static void put_pass(size_t count, size_t n)
{
    run_at_once(put_item, count, n);
}

static void publish_pass(size_t count, size_t n)
{
    (void)count;
    for (size_t i = 0; i < n; i++)
        bench_require(weft_hub_tell(hub, SINK_NAME, payload, sizeof payload) == 0);
    call_echo();
}

static void receive_pass(size_t count, size_t n)
{
    char text[24];
    (void)count;
    int bytes = snprintf(text, sizeof text, "%zu", n);
    bench_require(weft_hub_tell(hub, FLOOD_START_NAME, text, (size_t)bytes) == 0);
    for (size_t i = 0; i < n; i++)
        weft_hub_free((weft_hub_msg *)weft_receive());
}

static void request(size_t count, size_t n)
{
    hub_measure(request_pass, count, n);
}

static void publish(size_t count, size_t n)
{
    hub_measure(publish_pass, count, n);
}

static void receive(size_t count, size_t n)
{
    bench_require(weft_hub_expose(hub, FLOOD_NAME, weft_self(), NULL) == 0);
    hub_measure(receive_pass, count, n);
}

static void put(size_t count, size_t n)
{
    hub_measure(put_pass, count, n);
}

static const bench_work works[] = {
    {"request", request}, {"publish", publish}, {"receive", receive}, {"put", put}};

int main(int argc, char **argv)
{
    if (argc > 1) {
        hub = weft_hub_open(hub_url(), NULL);
        bench_require(hub != NULL);
    }
    int status = bench_main(works, sizeof works / sizeof works[0], argc, argv);
    weft_hub_close(hub);
    return status;
}
