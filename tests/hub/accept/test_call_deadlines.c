/*
 * Acceptance test 7: calls obey the deadlines of scopes, leave nothing behind, and fail at once if
 * no fiber exposes the name.
 */
#include "hub/hub_support.h"

#define CALLS 64
#define DEADLINE_S 0.05

static weft_hub *hub;

static void open_caller_hub(void)
{
    hub = open_hub();
}

static void close_caller_hub(void)
{
    close_hub(hub);
}

FIXTURE(open_caller_hub, close_caller_hub)

/* Receive calls, and never reply. The hub frees the calls when it is closed. */
static weft_value stay_silent(void *arg)
{
    while (!weft_is_error(weft_receive()))
        continue;
    return 0;
}

static weft_value reply_once(void *arg)
{
    weft_hub_msg *call = (weft_hub_msg *)weft_receive();
    ck_assert_done(weft_hub_reply(call, "hello", 5));
    weft_hub_free(call);
    return 0;
}

static weft_fiber expose(const char *name, weft_fn *fn)
{
    weft_fiber f = weft_spin(fn, NULL);
    ck_assert_done(weft_hub_expose(hub, name, f, NULL));
    return f;
}

static weft_value call_in_vain(void *arg)
{
    int rc = 0, result = 0;
    WEFT_CANCEL_AFTER(DEADLINE_S, rc) {
        result = weft_hub_call(hub, arg, "hello", 5, NULL);
    }
    ck_assert_int_eq(result, -ECANCELED);
    ck_assert_int_eq(rc, -ETIMEDOUT);
    return 0;
}

TEST(calls_to_a_silent_service_end_at_their_deadline_and_leave_nothing_behind)
{
    weft_fiber silent = expose("silent", stay_silent), calls[CALLS];
    double begin = weft_now();
    for (int i = 0; i < CALLS; i++)
        calls[i] = weft_spin(call_in_vain, (void *)"silent");
    await_each_as(calls, CALLS, 0);
    if (is_sim()) /* on other backends, the duration depends on the machine */
        ck_assert_double_lt(weft_now() - begin, 2 * DEADLINE_S);
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
    cancel_and_await(silent);
}

TEST(a_call_after_a_call_that_timed_out_gets_its_own_reply)
{
    weft_fiber silent = expose("silent", stay_silent), prompt = expose("prompt", reply_once);
    weft_hub_msg *reply;
    call_in_vain((void *)"silent");
    ck_assert_done(weft_hub_call(hub, "prompt", "", 0, &reply));
    ck_assert_str_eq(reply->data, "hello");
    weft_hub_free(reply);
    ck_assert_int_eq(weft_await(prompt), 0);
    cancel_and_await(silent);
}

/* The error is a reply of the server, not the end of a wait: the call has no deadline. */
TEST(a_call_to_a_name_that_no_fiber_exposes_fails_at_once)
{
    double begin = weft_now();
    ck_assert_fails(weft_hub_call(hub, "nobody", "hello", 5, NULL), -EHOSTUNREACH);
    if (is_sim())
        ck_assert_double_lt(weft_now() - begin, DEADLINE_S);
    ck_assert_uint_eq(hub_stats(hub).in_flight, 0);
}
