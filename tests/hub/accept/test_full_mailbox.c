/*
 * Acceptance test 8: a slow receiver with a bounded mailbox loses no call, and its memory is
 * bounded. Tells that do not fit are dropped and counted.
 */
#include "hub/hub_support.h"

#include <malloc.h>

#define BOUND 16
#define CALLERS 256
#define MESSAGES 20000
#define NAME "slow"
/* Far less than the messages of a test, and more than 256 calls and the buffers of the hubs. */
#define MEMORY_BYTES_MAX (4 << 20)

static weft_hub *server, *client;
static int handled;

static void open_hubs(void)
{
    server = open_hub_at(hub_where(), &(weft_hub_options){.name = "server"});
    client = open_hub_at(hub_where(), &(weft_hub_options){.name = "client"});
}

static void close_hubs(void)
{
    close_hub(client);
    close_hub(server);
}

FIXTURE(open_hubs, close_hubs)

/* Expose the name with a small mailbox. Count the messages, and reply to calls. */
static weft_value handle_slowly(void *arg)
{
    ck_assert_int_eq(weft_mailbox_set_bound(BOUND), 0);
    ck_assert_done(weft_hub_expose(server, NAME, weft_self(), NULL));
    weft_event_set(arg);
    weft_value message;
    while (!weft_is_error(message = weft_receive())) {
        weft_hub_msg *m = (weft_hub_msg *)message;
        handled++;
        if (m->is_call)
            ck_assert_done(weft_hub_reply(m, m->data, m->bytes));
        weft_hub_free(m);
        weft_snooze(); /* other fibers run between two messages */
    }
    return 0;
}

static weft_fiber start_receiver(void)
{
    static weft_event is_exposed;
    weft_fiber f = weft_spin(handle_slowly, &is_exposed);
    ck_assert_int_eq(weft_event_wait(&is_exposed), 0);
    while (weft_hub_call(client, NAME, "", 0, NULL) == -EHOSTUNREACH)
        weft_snooze(); /* the subscription is on its way to the server */
    handled = 0;
    return f;
}

static weft_value call_often(void *arg)
{
    int *remaining = arg;
    while ((*remaining)-- > 0) {
        char number[16];
        weft_hub_msg *reply;
        snprintf(number, sizeof number, "%d", *remaining);
        ck_assert_done(weft_hub_call(client, NAME, number, strlen(number), &reply));
        ck_assert_str_eq(reply->data, number);
        weft_hub_free(reply);
    }
    return 0;
}

/* The sanitizers replace malloc, and have no such figure. */
static size_t allocated_bytes(void)
{
    return is_sanitized() ? 0 : mallinfo2().uordblks;
}

TEST(no_call_to_a_full_mailbox_is_lost_and_memory_is_bounded)
{
    weft_fiber receiver = start_receiver(), callers[CALLERS];
    int remaining = MESSAGES;
    size_t before = allocated_bytes();
    for (int i = 0; i < CALLERS; i++)
        callers[i] = weft_spin(call_often, &remaining);
    await_each_as(callers, CALLERS, 0);
    ck_assert_int_eq(handled, MESSAGES);
    ck_assert_uint_lt(allocated_bytes(), before + MEMORY_BYTES_MAX);
    ck_assert_uint_eq(hub_stats(server).dropped, 0);
    cancel_and_await(receiver);
}

TEST(each_tell_to_a_full_mailbox_is_handled_or_counted_as_dropped)
{
    weft_fiber receiver = start_receiver();
    for (int i = 0; i < MESSAGES; i++)
        ck_assert_done(weft_hub_tell(client, NAME, "hello", 5));
    while (hub_stats(server).dropped + (uint64_t)handled < MESSAGES)
        weft_sleep(0.001);
    weft_sleep(0); /* a message that is counted twice would arrive now */
    ck_assert_uint_eq(hub_stats(server).dropped + (uint64_t)handled, MESSAGES);
    ck_assert_int_ge(handled, BOUND);
    cancel_and_await(receiver);
}
