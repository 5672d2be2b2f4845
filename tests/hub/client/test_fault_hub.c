/*
 * A hub with faults: the n-th call fails. Hub and broker are in one process, so a fault happens at
 * one of them. Each operation succeeds or fails, and nothing is left after weft_hub_close.
 */
#include "hub/client/expose_support.h"
#include "support/fault.h"

/* A lost message or reply ends with the scope of its call. */
#define CALL_S 0.3

/* Wait until the broker has freed itself: its fibers end after the last hub. */
static void await_broker_end(void)
{
    weft_counters now;
    do {
        (void)weft_sleep(0.0005);
        REQUIRE(weft_stats(&now) == 0);
    } while (now.fibers > 0);
    weft_error_clear();
}

/* Whether a step of the scenario is done. Without a fault it must be. */
static bool step_is_done(int rc)
{
    REQUIRE_UNLESS_FAULT(rc == 0);
    weft_error_clear();
    return rc == 0;
}

/* End a fiber. Return whether its value is 0 or -ECANCELED. */
static bool cancel_and_take(weft_fiber f)
{
    (void)weft_cancel(f);
    weft_value value = weft_await(f);
    weft_error_clear();
    return value == 0 || value == -ECANCELED;
}

static bool call_with(weft_hub *hub, const char *to, size_t bytes)
{
    static char data[3000];
    weft_hub_msg *reply = NULL;
    int rc = 0;
    WEFT_MOVE_ON_AFTER(CALL_S) {
        rc = weft_hub_call(hub, to, data, bytes, &reply);
    }
    REQUIRE((rc == 0) == (reply != NULL));
    REQUIRE(rc != 0 || reply->bytes == bytes);
    weft_hub_free(reply);
    return step_is_done(rc);
}

static int expose_in_time(weft_hub *hub, const char *name, weft_fiber f)
{
    int rc = 0;
    WEFT_MOVE_ON_AFTER(CALL_S) {
        rc = weft_hub_expose(hub, name, f, NULL);
    }
    return rc;
}

static bool use_hub(weft_hub *hub, weft_fiber f)
{
    bool is_done = step_is_done(expose_in_time(hub, "echo", f));
    is_done &= step_is_done(weft_hub_tell(hub, "echo", "x", 1));
    is_done = call_with(hub, "echo", 10) && is_done;
    is_done = call_with(hub, "echo", 3000) && is_done;
    if (weft__expose_find(hub, "echo") != NULL)
        is_done &= step_is_done(weft_hub_withdraw(hub, "echo"));
    return is_done;
}

SCENARIO(talk_through_broker)
{
    weft_hub *hub = weft_hub_open("mem:", &(weft_hub_options){.name = "n", .credentials = "t"});
    REQUIRE_UNLESS_FAULT(hub != NULL);
    weft_fiber f = hub != NULL ? require_created(spin_daemon(echo_all, NULL)) : 0;
    bool is_done = f != 0 && use_hub(hub, f);
    if (f != 0)
        REQUIRE(cancel_and_take(f));
    is_done = weft_hub_close(hub) == 0 && is_done;
    await_broker_end();
    return is_done;
}

FAULT_TEST(a_hub_survives_failing_calls, talk_through_broker, 1)

/* A fiber with a full mailbox: calls wait, and the fiber ends with calls in its mailbox. */
static weft_value take_one(void *arg)
{
    (void)weft_mailbox_set_bound(1);
    weft_value msg = weft_receive();
    if (!weft_is_error(msg))
        weft_hub_free((weft_hub_msg *)msg);
    return 0;
}

static weft_value call_in_time(void *arg)
{
    WEFT_MOVE_ON_AFTER(CALL_S) {
        (void)weft_hub_call(arg, "a", "x", 1, NULL);
    }
    weft_error_clear();
    return 0;
}

static bool fill_mailbox(weft_hub *hub, weft_fiber f)
{
    weft_fiber callers[4];
    bool is_done = step_is_done(expose_in_time(hub, "a", f));
    for (size_t i = 0; i < COUNT_OF(callers); i++) {
        callers[i] = require_created(weft_spin(call_in_time, hub));
        is_done &= callers[i] != 0;
    }
    for (size_t i = 0; i < COUNT_OF(callers); i++)
        if (callers[i] != 0)
            (void)weft_await(callers[i]);
    weft_error_clear();
    return is_done;
}

SCENARIO(end_with_full_mailbox)
{
    weft_hub *hub = weft_hub_open("mem:", NULL);
    REQUIRE_UNLESS_FAULT(hub != NULL);
    weft_fiber f = hub != NULL ? require_created(weft_spin(take_one, NULL)) : 0;
    bool is_done = f != 0 && fill_mailbox(hub, f);
    if (f != 0)
        REQUIRE(cancel_and_take(f));
    is_done = weft_hub_close(hub) == 0 && is_done;
    await_broker_end();
    return is_done;
}

FAULT_TEST(full_mailboxes_survive_failing_calls, end_with_full_mailbox, 1)
